"""Schedules: their times, what they start, what was missed, failures, pauses, runs by hand and
backfills, on a server whose clock is virtual."""
import time

import grpc
import pytest

from stubs import schedule, v1
from support import CALL, Cli, eventually, fresh_name, from_json, refused, seconds

BEGIN = "2026-03-28T12:00:30Z"
BEGAN = 1774699200.0  # half a minute before
MINUTE, HOUR, DAY = 60, 3600, 86400

JOB = """\
id: job
nodes:
  work: {start: true, timeout_strategy: fixed, timeout: 86400.0, transitions: {ok: done, bad: failed}}
  done: {final: true}
  failed: {final: true, result: error}
"""


class Schedules:
    """The calls about schedules that a test makes in its namespace."""

    def __init__(self, server, name):
        self.server = server
        self.space = server.space(name)
        self.name = name

    def call(self, method, **fields):
        request = getattr(schedule, f"{method}Request")(namespace=self.name, **fields)
        return getattr(self.server.schedules, method)(request, timeout=CALL)

    def define(self, text):
        self.space.define(JOB + "---\n" + text)

    def get(self, name="s"):
        return self.call("GetSchedule", name=name)

    def occurrences(self, name="s", **more):
        return self.call("ListOccurrences", schedule=name, **more).occurrences

    def lines(self, name="s"):
        """Oldest first: its id and outcome."""
        return [f"{one.id} {schedule.Occurrence.Outcome.Name(one.outcome)}"
                for one in reversed(self.occurrences(name))]

    def end(self, transition="ok", **more):
        task = self.space.take("job")
        self.space.report(task, transition, **more)
        return task.instance


@pytest.fixture
def standing(new_server):
    return new_server(virtual_clock=BEGIN).start()


@pytest.fixture
def schedules(standing, request):
    return Schedules(standing, fresh_name(request.node.originalname or request.node.name))


def test_each_time_starts_one_instance_also_where_clocks_are_changed(schedules, standing):
    schedules.define("""\
schedule: nightly
cron: "30 2 * * *"
timezone: Europe/Berlin
overlap: allow
start:
  machine: job
  params: {day: "${schedule.date}", at: "${schedule.local}", before: "${schedule.previous}"}
  labels: {kind: "${schedule.kind}"}
""")
    got = schedules.get("nightly")
    assert got.state == schedule.Schedule.ACTIVE and got.machine == "job"
    assert got.summary and got.timezone == "Europe/Berlin" and got.overlap == "allow"
    # 02:30 does not exist on the 29th: it happens at 03:00, which is 01:00 UTC.
    assert seconds(got.next_time) == BEGAN + 13 * HOUR
    assert "02:30" in got.upcoming[0].note and len(got.upcoming) == 5
    standing.advance(by=2 * DAY)
    assert schedules.lines("nightly") == ["20260329T010000Z STARTED", "20260330T003000Z STARTED"]
    instance = schedules.space.get("nightly-20260329T010000Z")
    assert from_json(instance.params) == {"day": "2026-03-29", "at": "2026-03-29T03:00:00+02:00",
                                          "before": "2026-03-28T01:30:00Z"}
    assert instance.cause == "schedule:nightly" and dict(instance.labels) == {"kind": "REGULAR"}
    assert seconds(instance.start_time) == pytest.approx(BEGAN + 13 * HOUR, abs=0.01)
    told, _ = schedules.space.changes(kinds=["OCCURRED"])
    assert [change.occurrence for change in told] == ["20260329T010000Z", "20260330T003000Z"]
    assert {change.cause for change in told} == {"schedule:nightly"}
    assert schedules.get("nightly").running == 2


def test_kill_at_any_moment_leaves_one_of_each_time(schedules, standing):
    schedules.define("schedule: s\nevery: 1m\noverlap: allow\nstart: {machine: job}\n")
    for _ in range(6):
        standing.advance(by=5 * MINUTE)
        standing.kill()
        standing.start()
    standing.advance(by=MINUTE)
    times = sorted(seconds(one.time) for one in schedules.occurrences(page_size=1000))
    assert times == [BEGAN + MINUTE * n for n in range(1, 32)]
    ids = [instance.id for instance in schedules.space.instances(machine="job").instances]
    assert len(ids) == len(set(ids)) == 31


def test_what_is_missed(new_server, request):
    server = new_server().start()
    schedules = Schedules(server, fresh_name("missed"))
    schedules.define("schedule: s\nevery: 1s\noverlap: allow\nmissed: {take: all, max: 2}\n"
                     "start: {machine: job}\n")
    eventually(lambda: schedules.occurrences())
    server.kill()
    begun = time.monotonic()
    eventually(lambda: time.monotonic() > begun + 6, within=10)
    server.start()
    eventually(lambda: [one for one in schedules.occurrences(page_size=1000)
                        if one.outcome == schedule.Occurrence.MISSED])
    all_of = list(reversed(schedules.occurrences(page_size=1000)))
    covered = []
    for one in all_of:
        until = seconds(one.until_time) if one.outcome == schedule.Occurrence.MISSED else seconds(
            one.time)
        covered += range(int(seconds(one.time)), int(until) + 1)
    assert covered == list(range(covered[0], covered[0] + len(covered)))


def test_overlap_skips_what_comes_while_one_goes_on(schedules, standing):
    schedules.define("schedule: s\nevery: 1h\nstart: {machine: job}\n")
    standing.advance(by=2 * HOUR)
    assert [line.split()[1] for line in schedules.lines()] == ["STARTED", "SKIPPED"]
    assert schedules.occurrences()[0].error
    schedules.end()
    standing.advance(by=HOUR)
    assert [line.split()[1] for line in schedules.lines()] == ["STARTED", "SKIPPED", "STARTED"]


def test_failures_in_a_row_pause_it_and_resuming_starts_anew(schedules, standing):
    schedules.define("schedule: s\nevery: 1h\nstop_on_fail: 2\nstart: {machine: job}\n")
    for _ in range(2):
        standing.advance(by=HOUR)
        last = schedules.end("bad")
    got = schedules.get()
    assert got.state == schedule.Schedule.PAUSED and got.paused_by == "stop_on_fail"
    assert last in got.note and not got.HasField("next_time") and len(got.upcoming) == 5
    standing.advance(by=5 * HOUR)
    assert len(schedules.lines()) == 2
    resumed = schedules.call("SetPaused", schedule="s", paused=False).schedule
    assert resumed.state == schedule.Schedule.ACTIVE and resumed.failures_in_a_row == 0
    standing.advance(by=HOUR)
    assert len(schedules.lines()) == 3


CATCHES_UP = """\
schedule: s
every: 1s
missed: {take: all}
overlap: allow
stop_on_fail: 2
start: {machine: strict}
"""
# Of several at once all but one stop with ERROR.
STRICT = JOB.replace("id: job", "id: strict\nlimit: {key: one, on_conflict: fail}")


def test_catching_up_ends_with_the_failure_that_pauses_it(new_server):
    server = new_server().start()
    schedules = Schedules(server, fresh_name("catch"))
    schedules.space.define(STRICT)
    schedules.space.start("strict", "in-the-way")
    schedules.space.define(CATCHES_UP)
    server.kill()
    begun = time.monotonic()
    eventually(lambda: time.monotonic() > begun + 6, within=10)
    server.start()
    eventually(lambda: schedules.get().state == schedule.Schedule.PAUSED)
    got = schedules.get()
    assert got.paused_by == "stop_on_fail" and got.failures_in_a_row == 2
    assert len(schedules.lines()) == 2
    assert got.last.instance in got.note


def test_pause_note_run_and_delete(schedules, standing):
    schedules.define("schedule: s\nevery: 1h\nstart: {machine: job, params: {a: 1}}\n")
    paused = schedules.call("SetPaused", schedule="s", paused=True, note="why").schedule
    assert paused.state == schedule.Schedule.PAUSED and paused.note == "why"
    standing.advance(by=3 * HOUR)
    assert schedules.lines() == []
    run = schedules.call("RunSchedule", name="s", params='{"a": 2}')
    assert run.kind == schedule.Occurrence.MANUAL and run.instance == "s-20260328T150030Z-run-1"
    assert from_json(schedules.space.get(run.instance).params) == {"a": 2}
    with refused("FAILED_PRECONDITION", "LIMIT_REACHED"):
        schedules.call("RunSchedule", name="s")
    with refused("INVALID_ARGUMENT", "BAD_REQUEST", "allow", "replace"):
        schedules.call("RunSchedule", name="s", overlap="fail")
    schedules.call("DeleteDefinition", schedule="s")
    with refused("NOT_FOUND", "NO_SUCH_SCHEDULE"):
        schedules.get()
    assert len(schedules.lines()) == 1  # occurrences stay readable
    with refused("NOT_FOUND", "NO_SUCH_SCHEDULE"):
        schedules.call("ListOccurrences", schedule="never")
    schedules.define("schedule: s\nevery: 1h\noverlap: allow\nstart: {machine: job}\n")
    assert schedules.get().version == 2
    standing.advance(by=HOUR)
    assert len(schedules.lines()) == 2


def test_dead_letters_are_tried_again_or_dropped(schedules, standing):
    schedules.define("schedule: s\nevery: 1h\noverlap: allow\n"
                     "start: {machine: job, id: fixed, params: {n: \"${schedule.unix}\"}}\n")
    standing.advance(by=3 * HOUR)
    assert [line.split()[1] for line in schedules.lines()] == ["STARTED", "FAILED", "FAILED"]
    failed = [one.id for one in reversed(schedules.occurrences())][1:]
    schedules.define("schedule: s\nevery: 1h\noverlap: allow\nstart: {machine: job}\n")
    reply = schedules.call("RetryOccurrences", schedule="s", ids=[failed[0], "nope"])
    assert reply.results[0].occurrence.outcome == schedule.Occurrence.STARTED
    assert reply.results[0].occurrence.tries == 2
    assert reply.results[1].error.reason == "NO_SUCH_OCCURRENCE"
    reply = schedules.call("RetryOccurrences", schedule="s", all=True, drop=True)
    assert [result.occurrence.id for result in reply.results] == [failed[1]] and not reply.more
    reply = schedules.call("RetryOccurrences", schedule="s", ids=[failed[1]])
    assert reply.results[0].error.reason == "NOT_HELD"
    only_dropped = schedules.occurrences(outcomes=[schedule.Occurrence.DROPPED])
    assert [one.id for one in only_dropped] == [failed[1]]


def test_an_occurrence_that_is_tried_again_tells_of_its_instance(schedules, standing):
    schedules.define("schedule: s\nevery: 1h\noverlap: allow\n"
                     "start: {machine: job, id: fixed, params: {n: \"${schedule.unix}\"}}\n")
    standing.advance(by=2 * HOUR)
    standing.advance(by=60)
    failed = schedules.occurrences()[0]
    assert failed.outcome == schedule.Occurrence.FAILED and not failed.state
    schedules.define("schedule: s\nevery: 1h\noverlap: allow\nstart: {machine: job}\n")
    [tried] = schedules.call("RetryOccurrences", schedule="s", ids=[failed.id]).results
    [listed] = [one for one in schedules.occurrences() if one.id == failed.id]
    assert tried.occurrence.decide_time == listed.decide_time
    for one in (tried.occurrence, listed):
        assert one.instance and one.state == v1.Instance.RUNNING, one
        assert one.result == v1.Instance.PENDING and not one.error


def test_one_occurrence_is_one_failure_however_often_it_is_tried(schedules, standing):
    schedules.define("schedule: s\nevery: 1h\noverlap: allow\nstop_on_fail: 3\n"
                     "start: {machine: job, id: fixed, params: {n: \"${schedule.unix}\"}}\n")
    standing.advance(by=2 * HOUR)
    failed = schedules.occurrences()[0].id
    for tries in range(2, 5):
        [tried] = schedules.call("RetryOccurrences", schedule="s", ids=[failed]).results
        assert tried.occurrence.outcome == schedule.Occurrence.FAILED
        assert tried.occurrence.tries == tries
    got = schedules.get()
    assert (got.failures_in_a_row, got.state) == (1, schedule.Schedule.ACTIVE)


@pytest.mark.parametrize("start, machine", [
    ("{machine: one, params: {n: x}}", JOB.replace("id: job", "id: one\nparams: {type: object, "
     "properties: {n: {type: integer}}}")),
    ("{machine: one, params: {n: x}}", "action: one\ninput: {type: object, properties: "
     "{n: {type: integer}}}\n"),
    ("{machine: one, params: {n: x}}", "action: base\ninput: {type: object, properties: "
     "{n: {type: integer}}}\n---\naction: one\nextends: base\n"),
    ("{machine: one}", "action: one\ninput: {type: object, required: [n]}\n"),
    ("{machine: one, params: {n: x}, version: 1}", "action: one\ninput: {type: object, "
     "properties: {n: {type: integer}}}\n"),
])
def test_params_that_break_the_schema_are_refused(schedules, start, machine):
    schedules.space.define(machine)
    source = f"schedule: s\nevery: 1h\nstart: {start}\n"
    with pytest.raises(grpc.RpcError) as error:
        schedules.space.define(source)
    assert "source:3:" in error.value.details() and "n" in error.value.details()
    with refused("NOT_FOUND", "NO_SUCH_SCHEDULE"):
        schedules.get()


def test_what_a_worker_plans_may_take_any_input(schedules):
    schedules.space.define("action: one\nplan: worker\ninput: {type: object, required: [n]}\n")
    schedules.space.define("schedule: s\nevery: 1h\nstart: {machine: one}\n")


def test_a_version_that_is_not_defined_is_refused(schedules, standing):
    schedules.space.define(JOB)
    for version, source in ((2, ""), (3, JOB.replace("86400.0", "4000.0") + "---\n")):
        with pytest.raises(grpc.RpcError) as error:
            schedules.space.define(f"{source}schedule: s\nevery: 1h\n"
                                   f"start: {{machine: job, version: {version}}}\n")
        assert f"no version {version}" in error.value.details()
    with refused("INVALID_ARGUMENT", "BAD_MACHINE", "3:32", "no version 2"):
        schedules.call("PreviewSchedule", source="schedule: x\nevery: 1h\n"
                                                 "start: {machine: job, version: 2}\n")
    schedules.space.define(JOB.replace("86400.0", "4000.0") + "---\n"
                           "schedule: s\nevery: 1h\noverlap: allow\n"
                           "start: {machine: job, version: 2}\n")
    schedules.space.define(JOB.replace("86400.0", "5000.0"))
    schedules.space.define("schedule: t\nevery: 1h\nstart: {machine: job, version: 1}\n")
    standing.advance(by=HOUR)
    assert schedules.space.get(schedules.occurrences()[0].instance).version == 2
    assert schedules.space.get(schedules.occurrences("t")[0].instance).version == 1


def test_preview_of_what_is_only_written(schedules, standing):
    schedules.space.define(JOB)
    text = ('schedule: x\ncron: "*/30 2 * * *"\ntimezone: Europe/Berlin\n'
            'start: {machine: job, params: {day: "${schedule.date}"}}\n')
    preview = schedules.call("PreviewSchedule", source=text, count=3)
    assert [seconds(one.time) for one in preview.times] == [
        BEGAN + 13 * HOUR, BEGAN + 36 * HOUR, BEGAN + 36.5 * HOUR]
    assert preview.times[0].local == "2026-03-29T03:00:00+02:00"
    assert preview.start.id == "x-20260329T010000Z"
    assert from_json(preview.start.params) == {"day": "2026-03-29"}
    with refused("INVALID_ARGUMENT", "BAD_MACHINE", "2:7", "cron"):
        schedules.call("PreviewSchedule", source='schedule: x\ncron: "61 * * * *"\n'
                                                 'start: {machine: job}\n')
    with refused("INVALID_ARGUMENT", "BAD_MACHINE", "start.machine"):
        schedules.call("PreviewSchedule", source="schedule: x\nevery: 1h\nstart: {machine: jbo}\n")
    with refused("INVALID_ARGUMENT", "BAD_REQUEST"):
        schedules.call("PreviewSchedule")


def test_a_backfill_runs_the_past_one_at_a_time(schedules, standing):
    schedules.define('schedule: s\ncron: "0 3 * * *"\nfrom: 2026-01-01\nstart: {machine: job}\n')
    dry = schedules.call("BackfillSchedule", name="s", from_time="2026-03-01",
                         to_time="2026-03-05", dry_run=True)
    assert dry.total == 5 and len(dry.times) == 5 and not dry.HasField("group")
    with refused("INVALID_ARGUMENT", "BAD_REQUEST"):
        schedules.call("BackfillSchedule", name="s", from_time="2026-03-05", to_time="2026-03-01")
    with refused("INVALID_ARGUMENT", "BAD_REQUEST"):
        schedules.call("BackfillSchedule", name="s", from_time="2026-03-05", to_time="2026-04-01")
    reply = schedules.call("BackfillSchedule", name="s", from_time="2026-03-01",
                           to_time="2026-03-05")
    assert reply.total == 5 and reply.existing == 0
    group = reply.group.name
    assert group.startswith("backfill-s-") and reply.group.schedule == "s"
    ran = []
    for _ in range(5):
        ran.append(schedules.end("ok" if len(ran) != 2 else "bad"))
        if len(ran) == 3:
            standing.kill()
            standing.start()
    assert ran == [f"s-2026030{day}T030000Z" for day in range(1, 6)]
    got = schedules.call("GetGroup", name=group)
    assert state_of(got) == "STOPPED" and got.to_come == 0 and got.total == 5
    assert schedules.get().failures_in_a_row == 0
    again = schedules.call("BackfillSchedule", name="s", from_time="2026-03-01",
                           to_time="2026-03-05")
    assert again.total == 0 and again.existing == 5
    failed = schedules.call("BackfillSchedule", name="s", from_time="2026-03-01",
                            to_time="2026-03-05", again="failed", group="mend")
    assert failed.total == 1 and failed.group.name == "mend"
    assert schedules.end() == "s-20260303T030000Z-again-1"
    backwards = schedules.call("BackfillSchedule", name="s", from_time="2026-02-01",
                               to_time="2026-02-02", reverse=True)
    assert [schedules.end(), schedules.end()] == ["s-20260202T030000Z", "s-20260201T030000Z"]
    assert backwards.total == 2


def state_of(group):
    return v1.Instance.State.Name(group.state)


def test_dcli(schedules, standing, tmp_path):
    dcli = Cli(standing.address, schedules.name)
    file = tmp_path / "s.yaml"
    file.write_text(JOB + "---\nschedule: s\nevery: 1h\nstart: {machine: job}\n")
    checked = dcli.ok("check", file).splitlines()
    assert checked[1].startswith("schedule s  ok") and len(checked) == 5
    assert len(dcli.ok("define", file).splitlines()) == 5
    table = dcli.ok("schedules").splitlines()
    assert table[0].split() == ["SCHEDULE", "VERSION", "STATE", "NEXT", "LAST", "OUTCOME",
                                "RUNNING", "TIMES"]
    assert table[1].split()[:3] == ["s", "1", "ACTIVE"]
    times = dcli.ok("schedules", "next", "s", "-n", "3").splitlines()
    assert times[0].split() == ["TIME", "LOCAL", "BEGINS", "NOTE"] and len(times) == 4
    alone = tmp_path / "x.yaml"
    alone.write_text("schedule: x\nat: 2027-01-01\nstart: {machine: job}\n")
    assert len(dcli.ok("schedules", "next", alone).splitlines()) == 2
    standing.advance(by=HOUR)
    assert "STARTED" in dcli.ok("schedules", "history", "s")
    assert "s-20260328T130000Z" in dcli.ok("schedules", "show", "s")
    assert dcli("schedules", "run", "s").returncode == 1
    assert "RUNNING" in dcli.ok("schedules", "run", "s", "a=1", "--overlap", "allow")
    assert dcli.ok("schedules", "pause", "s", "--note", "why").splitlines()[1].split()[2] == "PAUSED"
    assert dcli.ok("schedules", "resume", "s").splitlines()[1].split()[2] == "ACTIVE"
    dry = dcli.ok("schedules", "backfill", "s", "--from", "2026-03-27", "--to", "2026-03-27",
                  "--dry-run").splitlines()
    assert len(dry) == 25
    assert "to_come" in str(dcli.json("schedules", "backfill", "s", "--from", "2026-03-27", "--to",
                                      "2026-03-27")).replace("toCome", "to_come")
    assert dcli.ok("schedules", "delete", "s")
    assert dcli("schedules", "show", "s").returncode == 1
    assert dcli("schedules", "frobnicate", "s").returncode == 2
