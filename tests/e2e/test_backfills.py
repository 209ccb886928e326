"""Backfills: the times of a range in the past, each once, as a group."""
import pytest

from stubs import schedule, v1
from support import Cli, eventually, fresh_name, kind, refused
from test_schedules import BEGIN, JOB, Schedules, state_of

MARCH = {"from_time": "2026-03-01", "to_time": "2026-03-03"}
COUNTER = """\
id: counter
nodes:
  count: {start: true, transitions: {tick: count, ok: done}}
  done: {final: true}
"""
DAILY = 'cron: "0 3 * * *"\nfrom: 2026-01-01\n'


@pytest.fixture
def standing(new_server):
    return new_server(virtual_clock=BEGIN).start()


@pytest.fixture
def schedules(standing, request):
    made = Schedules(standing, fresh_name(request.node.originalname or request.node.name))
    made.space.define(JOB)
    return made


def finished(schedules, group):
    """How the group has ended, as often as it has."""
    return [one.note for one in schedules.space.changes("0")[0]
            if kind(one) == "GROUP_FINISHED" and one.group == group]


def outcomes(schedules, name="s"):
    return [line.split()[1] for line in schedules.lines(name)]


def sends(schedules):
    schedules.space.define(COUNTER)
    schedules.space.start("counter", "c")
    schedules.space.define("schedule: s\n" + DAILY +
                           "send: {instance: c, transition: tick, params: {day: \"${schedule.date}\"}}\n")


def ticks(schedules):
    return [one.params for one in schedules.space.changes("0")[0]
            if kind(one) == "TRANSITIONED" and one.transition == "tick"]


def test_what_was_sent_is_not_sent_again(schedules, standing):
    sends(schedules)
    standing.advance(by=86400)
    assert len(ticks(schedules)) == 1
    first = schedules.call("BackfillSchedule", name="s", **MARCH)
    assert (first.total, first.existing) == (3, 0)
    assert len(ticks(schedules)) == 4
    standing.kill()
    standing.start()
    again = schedules.call("BackfillSchedule", name="s", from_time="2026-03-01",
                           to_time="2026-03-29")
    assert (again.total, again.existing) == (25, 4)
    assert len(ticks(schedules)) == 29 == len(set(ticks(schedules)))
    none = schedules.call("BackfillSchedule", name="s", again="failed", **MARCH)
    assert (none.total, none.existing) == (0, 3)
    every = schedules.call("BackfillSchedule", name="s", again="all", **MARCH)
    assert (every.total, every.existing) == (3, 0)
    assert len(ticks(schedules)) == 32


def test_what_could_not_be_sent_is_sent_later(schedules):
    schedules.space.define("schedule: s\n" + DAILY + "send: {instance: c, transition: tick}\n")
    schedules.call("BackfillSchedule", name="s", **MARCH)
    assert outcomes(schedules) == ["FAILED"] * 3
    sends(schedules)
    again = schedules.call("BackfillSchedule", name="s", **MARCH)
    assert (again.total, again.existing) == (3, 0)
    assert outcomes(schedules) == ["FAILED"] * 3 + ["SENT"] * 3
    assert len(ticks(schedules)) == 3


def test_times_of_the_past_are_never_too_late(schedules):
    schedules.space.define("schedule: s\n" + DAILY + "start: {machine: job, before: 4h}\n")
    reply = schedules.call("BackfillSchedule", name="s", **MARCH)
    ran = [schedules.end() for _ in range(3)]
    assert ran == [f"s-2026030{day}T030000Z" for day in (1, 2, 3)]
    group = schedules.call("GetGroup", name=reply.group.name)
    assert (state_of(group), group.success) == ("STOPPED", 3)
    assert outcomes(schedules) == ["STARTED"] * 3


def test_a_backfill_without_times_has_ended(schedules, standing):
    schedules.space.define("schedule: s\n" + DAILY + "start: {machine: job}\n")
    reply = schedules.call("BackfillSchedule", name="s", from_time="2026-03-01T04:00:00Z",
                           to_time="2026-03-01T05:00:00Z")
    assert (reply.total, reply.existing) == (0, 0)
    name = reply.group.name
    assert name and reply.group.HasField("end_time")
    assert finished(schedules, name) == ["SUCCESS"]
    standing.kill()
    standing.start()
    group = schedules.call("GetGroup", name=name)
    assert (group.total, group.to_come, state_of(group)) == (0, 0, "STATE_UNSPECIFIED")
    assert group.HasField("end_time") and group.schedule == "s"
    dcli = Cli(standing.address, schedules.name)
    assert dcli("groups", "wait", name).returncode == 0
    standing.advance(by=8 * 86400)
    assert dcli("groups", name).returncode == 1  # its time is up
    assert finished(schedules, name) == []


def test_a_backfill_of_which_nothing_becomes_an_instance_ends(schedules, standing):
    schedules.space.define("schedule: s\n" + DAILY +
                           'start: {machine: job, id: "a ${schedule.date}"}\n')
    reply = schedules.call("BackfillSchedule", name="s", **MARCH)
    assert reply.total == 3
    assert outcomes(schedules) == ["FAILED"] * 3
    assert finished(schedules, reply.group.name) == ["SUCCESS"]
    group = schedules.call("GetGroup", name=reply.group.name)
    assert (group.total, group.to_come) == (0, 0) and group.HasField("end_time")
    dcli = Cli(standing.address, schedules.name)
    assert dcli("groups", "wait", reply.group.name).returncode == 0


def test_times_whose_id_the_backfill_itself_has_taken_are_told(schedules):
    schedules.define("schedule: s\n" + DAILY.replace("0 3", "0 3,9,15") +
                     'start: {machine: job, id: "day-${schedule.date}", '
                     'params: {at: "${schedule.time}"}}\n')
    reply = schedules.call("BackfillSchedule", name="s", from_time="2026-03-01",
                           to_time="2026-03-01", max_running=5)
    assert reply.total == 3
    assert sorted(outcomes(schedules)) == ["FAILED", "FAILED", "STARTED"]


def test_a_schedule_that_is_deleted_takes_what_is_to_come_of_its_backfills_along(
        schedules, standing):
    source = "schedule: s\n" + DAILY + "start: {machine: job}\n"
    schedules.define(source)
    group = schedules.call("BackfillSchedule", name="s", max_running=0, **MARCH).group.name
    schedules.call("DeleteDefinition", schedule="s")
    eventually(lambda: finished(schedules, group) == ["SUCCESS"])
    schedules.define(source + "# anew\n")
    standing.kill()
    standing.start()
    schedules.call("SetGroup", name=group, max_running=5)
    assert schedules.call("GetGroup", name=group).to_come == 0
    assert not schedules.space.ready("job")


def test_a_group_that_exists_is_no_group_of_a_backfill(schedules):
    schedules.define("schedule: s\n" + DAILY + "start: {machine: job}\n")
    schedules.call("BackfillSchedule", name="s", group="mine", **MARCH)
    with refused("INVALID_ARGUMENT", "BAD_REQUEST", "mine"):
        schedules.call("BackfillSchedule", name="s", group="mine", **MARCH)
