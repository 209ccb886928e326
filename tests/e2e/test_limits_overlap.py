"""Limits of what starts by itself: overlap of schedules and triggers, and limits that leave their
instances out."""
import json

import pytest

from stubs import schedule, v1
from support import CALL, Cli, eventually, fresh_name, only, refused, result, state

BEGIN = "2026-03-28T12:00:30Z"
MINUTE, HOUR = 60, 3600
Outcome = schedule.Occurrence.Outcome

JOB = """\
id: job
nodes:
  work:
    start: true
    timeout_strategy: fixed
    timeout: 86400.0
    transitions: {ok: done, bad: failed}
  done: {final: true}
  failed: {final: true, result: error}
"""


class Started:
    """What schedules and triggers start in a namespace, on a clock that stands."""

    def __init__(self, server, name):
        self.server = server
        self.space = server.space(name)
        self.dcli = Cli(server.address, name)

    def call(self, method, **fields):
        request = getattr(schedule, f"{method}Request")(namespace=self.space.name, **fields)
        return getattr(self.server.schedules, method)(request, timeout=CALL)

    def schedule(self, overlap="", machine=JOB, every="1h"):
        overlap = f"overlap: {overlap}\n" if overlap else ""
        self.space.define(f"{machine}---\nschedule: s\nevery: {every}\n{overlap}"
                          "start: {machine: job}\n")

    def trigger(self, overlap="", machine=JOB):
        overlap = f"overlap: {overlap}\n" if overlap else ""
        self.space.define(f"{machine}---\ntrigger: t\non: {{change: {{kind: finished, "
                          f"machine: nowhere}}}}\n{overlap}start: {{machine: job}}\n")

    def fire(self):
        return self.call("FireTrigger", name="t", item=json.dumps({"kind": "FINISHED"}))

    def hours(self, count=1):
        for _ in range(count):
            self.server.advance(by=HOUR)

    def outcomes(self, **source):
        """Oldest first."""
        found = self.call("ListOccurrences", **(source or {"schedule": "s"})).occurrences
        return [Outcome.Name(one.outcome) for one in reversed(found)]

    def states(self):
        """Of all instances, in order of their start."""
        return [f"{state(one)} {result(one)}".replace(" PENDING", "")
                for one in self.space.instances(machine="job").instances]

    def ids(self, wanted):
        return [one.id for one in self.space.instances(machine="job").instances
                if state(one) == wanted]

    def limit(self, key="schedule:s"):
        return self.call("GetLimit", key=key)


@pytest.fixture
def it(new_server, request):
    server = new_server(virtual_clock=BEGIN).start()
    return Started(server, fresh_name(request.node.originalname or request.node.name))


# Schedules ----------------------------------------------------------------------------------------


def test_without_a_word_a_time_is_left_out(it):
    it.schedule()
    it.hours(2)
    assert it.outcomes() == ["STARTED", "SKIPPED"] and it.states() == ["RUNNING"]
    skipped = it.call("ListOccurrences", schedule="s").occurrences[0]
    assert "schedule:s" in skipped.error and it.ids("RUNNING")[0] in skipped.error
    limit = it.limit()
    assert (limit.max, limit.held, limit.max_from) == (1, 1, schedule.Limit.ASKER)


def test_allow_lets_all_begin(it):
    it.schedule("allow")
    it.hours(3)
    assert it.states() == ["RUNNING"] * 3
    limit = it.limit()
    assert not limit.HasField("max") and limit.held == 3


def test_wait_lets_one_after_the_other_begin(it):
    it.schedule("wait")
    it.hours(3)
    assert it.outcomes() == ["STARTED"] * 3
    assert it.states() == ["RUNNING", "SCHEDULED", "SCHEDULED"]
    got = it.call("GetSchedule", name="s")
    assert (got.running, got.waiting) == (1, 2)
    waiting = it.ids("SCHEDULED")
    assert [one.instance for one in it.limit().waiters] == waiting
    assert only(it.space.get(waiting[0]).waits_for).key == "schedule:s"
    it.space.transition(it.ids("RUNNING")[0], "ok")
    assert it.states() == ["STOPPED SUCCESS", "RUNNING", "SCHEDULED"]


def test_at_most_100_wait(it):
    it.schedule("wait", every="1m")
    it.server.advance(by=110 * MINUTE)
    assert it.limit().waiting == 100 and it.limit().held == 1
    found = it.call("ListOccurrences", schedule="s", page_size=1000).occurrences
    assert [one.outcome for one in reversed(found)] == [Outcome.Value("STARTED")] * 101 + [
        Outcome.Value("SKIPPED")] * 9


def test_latest_keeps_the_newest_that_waits(it):
    it.schedule("latest")
    it.hours(4)
    assert it.states() == ["RUNNING", "STOPPED CANCELLED", "STOPPED CANCELLED", "SCHEDULED"]


def test_cancel_asks_the_one_that_goes_on_to_stop(it):
    it.schedule("cancel")
    it.hours()
    task = it.space.take("job")
    it.hours()
    assert it.states() == ["RUNNING", "SCHEDULED"]
    it.space.report(task)
    assert it.states() == ["STOPPED CANCELLED", "RUNNING"]


def test_replace_begins_at_once(it):
    it.schedule("replace")
    it.hours()
    it.space.take("job")
    it.hours()
    assert it.states() == ["STOPPED CANCELLED", "RUNNING"]


def test_one_that_is_paused_does_not_count(it):
    it.schedule()
    it.hours()
    it.space.pause(it.ids("RUNNING")[0])
    it.hours()
    assert it.outcomes() == ["STARTED", "STARTED"] and it.states() == ["PAUSED", "RUNNING"]


def test_what_others_start_does_not_count(it):
    it.schedule()
    it.space.start("job", "zz-by-hand")
    it.hours()
    assert it.outcomes() == ["STARTED"] and len(it.ids("RUNNING")) == 2


def test_backfills_do_not_count(it):
    it.schedule()
    it.hours()
    it.call("BackfillSchedule", name="s", from_time="2026-03-27T01:00:00Z",
            to_time="2026-03-27T03:00:00Z", max_running=2)
    eventually(lambda: len(it.ids("RUNNING")) == 3)
    assert it.limit().held == 1
    group = only(it.call("ListGroups").groups)
    assert group.max_running == 2
    assert it.limit(f"group:{group.name}").held == 2


def test_a_schedule_has_a_limit_also_when_all_may_begin(it):
    it.schedule("allow")
    it.call("SetLimit", key="schedule:s", max=1)
    it.hours(2)
    assert it.states() == ["RUNNING", "SCHEDULED"]
    it.call("SetLimit", key="schedule:s", max=2)
    assert it.states() == ["RUNNING", "RUNNING"]


def test_a_run_by_hand_is_left_out_or_says_what_it_does(it):
    it.schedule()
    it.hours()
    with refused("FAILED_PRECONDITION", "LIMIT_REACHED", "schedule:s", it.ids("RUNNING")[0],
                 "--overlap wait"):
        it.call("RunSchedule", name="s")
    assert it.states() == ["RUNNING"]
    first = it.call("RunSchedule", name="s", overlap="allow")
    assert first.outcome == schedule.Occurrence.STARTED
    assert state(it.space.get(first.instance)) == "RUNNING"
    then = it.call("RunSchedule", name="s", overlap="wait")
    assert state(it.space.get(then.instance)) == "SCHEDULED"
    for word in ("fail", "sometimes"):
        with refused("INVALID_ARGUMENT", "BAD_REQUEST", word, "allow", "wait", "latest", "skip",
                     "cancel", "replace"):
            it.call("RunSchedule", name="s", overlap=word)
    it.call("RunSchedule", name="s", overlap="replace")
    assert len(it.ids("RUNNING")) == 1


def test_the_reply_of_a_run_or_an_item_tells_what_its_instance_does(it):
    it.schedule("wait")
    it.trigger("wait")
    for make in (lambda: it.call("RunSchedule", name="s"), it.fire):
        assert make().state == v1.Instance.RUNNING
        assert make().state == v1.Instance.SCHEDULED


def test_dcli_runs_a_schedule_whatever_goes_on(it):
    it.schedule()
    it.dcli.ok("schedules", "run", "s")
    left_out = it.dcli("schedules", "run", "s")
    assert left_out.returncode == 1 and "schedule:s" in left_out.stderr
    it.dcli.ok("schedules", "run", "s", "--overlap", "wait")
    assert sorted(it.states()) == ["RUNNING", "SCHEDULED"]


@pytest.mark.parametrize("word", ["fail", "never"])
def test_a_word_that_is_none_of_overlap(it, word):
    for define in (it.schedule, it.trigger):
        with refused("INVALID_ARGUMENT", "BAD_MACHINE", "overlap", word, "allow", "wait", "latest",
                     "skip", "cancel", "replace"):
            define(word)


def test_overlap_is_the_same_after_kill_9(it):
    it.schedule("wait")
    it.hours(3)
    before = it.states()
    it.server.kill()
    it.server.start()
    assert it.states() == before and it.limit().waiting == 2
    it.hours()
    it.space.transition(it.ids("RUNNING")[0], "ok")
    assert it.states() == ["STOPPED SUCCESS", "RUNNING", "SCHEDULED", "SCHEDULED"]


# Limits of what is started ------------------------------------------------------------------------


def test_a_limit_of_the_machine_leaves_an_occurrence_out(it):
    it.schedule("allow", JOB.replace("nodes:", "limit: {key: env/prod, on_conflict: skip}\nnodes:"))
    it.space.start("job", "by-hand")
    it.hours()
    assert it.outcomes() == ["SKIPPED"] and it.ids("RUNNING") == ["by-hand"]
    error = it.call("ListOccurrences", schedule="s").occurrences[0].error
    assert "env/prod" in error and "by-hand" in error
    it.space.transition("by-hand", "ok")
    it.hours()
    assert it.outcomes() == ["SKIPPED", "STARTED"]


def test_a_limit_of_the_machine_makes_an_occurrence_wait(it):
    it.schedule("allow", JOB.replace("nodes:", "limit: k\nnodes:"))
    it.hours(2)
    assert it.outcomes() == ["STARTED"] * 2 and it.states() == ["RUNNING", "SCHEDULED"]


def test_a_limit_of_the_machine_that_fails_stops_what_is_started(it):
    it.schedule("allow", JOB.replace("nodes:", "limit: {key: k, on_conflict: fail}\nnodes:"))
    it.hours(2)
    assert it.outcomes() == ["STARTED"] * 2 and it.states() == ["RUNNING", "STOPPED ERROR"]


def test_one_needs_room_under_its_overlap_and_its_limit(it):
    it.schedule("wait", JOB.replace("nodes:", "limit: k\nnodes:"))
    it.space.start("job", "by-hand")
    it.hours(2)
    waiting = it.ids("SCHEDULED")
    assert len(waiting) == 2
    it.space.transition("by-hand", "ok")
    assert it.ids("RUNNING") == waiting[:1] and it.ids("SCHEDULED") == waiting[1:]
    waits = it.space.get(waiting[1]).waits_for
    assert sorted(wait.key for wait in waits) == ["k", "schedule:s"]


# Triggers -----------------------------------------------------------------------------------------


def test_triggers_allow_all_unless_told_otherwise(it):
    it.trigger()
    assert [it.fire().outcome for _ in range(3)] == [schedule.Occurrence.STARTED] * 3
    assert it.states() == ["RUNNING"] * 3 and it.limit("trigger:t").held == 3


def test_a_trigger_skips_what_comes_while_one_goes_on(it):
    it.trigger("skip")
    first = it.fire()
    skipped = it.fire()
    assert skipped.outcome == schedule.Occurrence.SKIPPED
    assert "trigger:t" in skipped.error and first.instance in skipped.error
    it.space.transition(first.instance, "ok")
    assert it.fire().outcome == schedule.Occurrence.STARTED
    assert it.outcomes(trigger="t") == ["STARTED", "SKIPPED", "STARTED"]


def test_what_a_trigger_starts_waits_its_turn(it):
    it.trigger("wait")
    ids = [it.fire().instance for _ in range(3)]
    assert it.states() == ["RUNNING", "SCHEDULED", "SCHEDULED"]
    assert [one.instance for one in it.limit("trigger:t").waiters] == ids[1:]
    got = it.call("GetTrigger", name="t")
    assert (got.running, got.waiting, got.overlap) == (1, 2, "wait")
    it.space.transition(ids[0], "ok")
    assert it.ids("RUNNING") == ids[1:2]


@pytest.mark.parametrize("word, wanted", [
    ("latest", ["RUNNING", "STOPPED CANCELLED", "SCHEDULED"]),
    ("cancel", ["STOPPED CANCELLED", "STOPPED CANCELLED", "RUNNING"]),
    ("replace", ["STOPPED CANCELLED", "STOPPED CANCELLED", "RUNNING"])])
def test_other_words_of_a_trigger(it, word, wanted):
    it.trigger(word)
    for _ in range(3):
        it.fire()
    assert it.states() == wanted


# Groups -------------------------------------------------------------------------------------------


def test_members_wait_for_their_group_in_turn_and_over_kill_9(it):
    it.space.define(JOB)
    it.call("SetGroup", name="g", max_running=2)
    for n, priority in enumerate([0, 0, 0, 9, 0, 9]):
        it.space.start("job", f"i{n}", group="g", priority=priority)
    it.server.kill()
    it.server.start()
    assert it.call("GetGroup", name="g").max_running == 2
    limit = it.limit("group:g")
    assert [one.instance for one in limit.holders] == ["i0", "i1"]
    assert [one.instance for one in limit.waiters] == ["i3", "i5", "i2", "i4"]
    for before, then in zip(["i0", "i1", "i3", "i5"], ["i3", "i5", "i2", "i4"]):
        assert state(it.space.get(then)) == "SCHEDULED"
        it.space.transition(before, "ok")
        assert state(it.space.get(then)) == "RUNNING"


def test_the_failure_that_pauses_a_group_gives_its_place_to_nobody(it):
    it.space.define(JOB)
    it.call("SetGroup", name="g", max_running=1, stop_on_fail=1)
    it.space.start("job", "a", group="g")
    it.space.start("job", "b", group="g")
    it.space.transition("a", "bad")
    assert it.call("GetGroup", name="g").paused
    assert state(it.space.get("b")) == "SCHEDULED"
    it.call("ControlGroup", name="g", action=schedule.ControlGroupRequest.RESUME)
    assert state(it.space.get("b")) == "RUNNING"


def test_dcli_sets_the_limit_of_a_group(it):
    it.space.define(JOB)
    it.dcli.ok("groups", "set", "g", "--max-running", "1")
    it.space.start("job", "a", group="g")
    it.space.start("job", "b", group="g")
    line = it.dcli.ok("groups", "g").splitlines()[1].split()
    assert line[4:6] == ["1", "1"] and line[8] == "1"
    it.dcli.ok("groups", "set", "g", "--max-running", "none")
    assert it.states() == ["RUNNING"] * 2
    with refused("INVALID_ARGUMENT", "BAD_REQUEST"):
        it.call("SetGroup", name="g", max_running=1_000_001)
