"""The server's clock: GetClock, AdvanceClock, --virtual-clock and dcli clock."""
import json
import subprocess
import time

import pytest

from stubs import schedule, v1
from support import (CALL, DSRV, JOB, SOON, Cli, eventually, fresh_name, kind, refused, seconds,
                     state, together)

BEGIN = "2026-01-31T08:00:00Z"
BEGAN = 1769846400.0
MINUTE, HOUR, DAY = 60, 3600, 86400

SLOW = """\
id: slow
nodes:
  work: {start: true, timeout_strategy: fixed, timeout: 600.0, transitions: {ok: rest, end: done}}
  rest: {delay: {initial: 1h}, transitions: {ok: check}}
  check: {timeout_strategy: fixed, timeout: 600.0, transitions: {ok: done, again: rest}}
  done: {final: true}
"""
TICKS = """\
id: ticks
nodes:
  work: {start: true, transitions: {ok: tick}}
  tick: {delay: {initial: 1d}, transitions: {ok: tock}}
  tock: {delay: {initial: 1d}, transitions: {ok: tick}}
"""


def space_changes(**more):
    return v1.ChangesRequest(**more)


@pytest.fixture
def standing(new_server):
    return new_server(virtual_clock=BEGIN).start()


@pytest.fixture
def space(standing, request):
    return standing.space(fresh_name(request.node.originalname or request.node.name))


def test_the_clock_of_the_machine_only_tells_the_time(server):
    clock = server.clock()
    assert not clock.is_virtual
    assert abs(seconds(clock.time) - time.time()) < SOON
    assert not clock.HasField("next_due")
    with refused("FAILED_PRECONDITION", "NOT_VIRTUAL", "--virtual-clock"):
        server.advance(by=1)
    dcli = Cli(server.address, "default")
    assert dcli.ok("clock").startswith(time.strftime("20%y-%m-", time.gmtime()))
    told = dcli("clock", "advance", "1h")
    assert told.returncode == 1 and "--virtual-clock" in told.stderr, told


def test_it_stands_until_it_is_told_to_advance(standing, space):
    assert standing.clock() == schedule.Clock(time=standing.clock().time, is_virtual=True)
    assert standing.time() == BEGAN
    space.define(SLOW)
    space.start("slow", "a")
    assert abs(seconds(space.get("a").start_time) - BEGAN) < 0.001
    assert standing.time() == BEGAN
    clock = standing.advance(by=90.5)
    assert clock.is_virtual and seconds(clock.time) == BEGAN + 90.5 and clock.timers == 0
    assert seconds(standing.advance(to=BEGAN + DAY).time) == BEGAN + DAY
    assert seconds(standing.advance(by=0).time) == BEGAN + DAY
    assert standing.advance().timers == 0  # nothing is due: it stays
    assert standing.time() == BEGAN + DAY


def test_delays_and_timeouts_end_to_the_moment(standing, space):
    space.define(SLOW)
    for number in range(300):
        space.start("slow", f"i{number}")
    tasks = space.ready("slow", max_tasks=300)
    assert len(tasks) == 300
    assert {seconds(task.deadline) for task in tasks} == {BEGAN + 10 * MINUTE}
    for task in tasks[:297]:
        space.report(task)
    assert seconds(standing.clock().next_due) == BEGAN + 10 * MINUTE
    assert standing.advance(by=10 * MINUTE - 0.001).timers == 0
    assert space.ready("slow") == []
    assert standing.advance(by=0.001).timers == 3
    again = space.ready("slow", max_tasks=300)
    assert len(again) == 3 and {task.attempt for task in again} == {2}
    for task in again:
        space.report(task, "end")
    assert standing.advance(by=50 * MINUTE).timers == 297
    assert len(space.ready("slow", "check", max_tasks=300)) == 297
    assert seconds(space.get("i0").tokens[0].claims[0].claim_time) == pytest.approx(
        BEGAN + HOUR, abs=0.01)


def test_what_is_due_on_the_way_happens_at_its_own_time_in_order(standing, space):
    space.define(SLOW)
    space.start("slow", "waits")
    space.report(space.take("slow"))  # until 1 h
    space.start("slow", "later", start_at=BEGAN + 2 * HOUR)
    space.start("slow", "sooner", start_at=BEGAN + 30 * MINUTE)
    clock = standing.advance(by=DAY)
    assert clock.timers == 3 and not clock.HasField("next_due")
    begun = {id: seconds(space.get(id).start_time) for id in ("later", "sooner")}
    assert begun["sooner"] == pytest.approx(BEGAN + 30 * MINUTE, abs=0.001)
    assert begun["later"] == pytest.approx(BEGAN + 2 * HOUR, abs=0.001)
    moved = [change for change in space.history("waits") if change.node == "check"]
    assert seconds(moved[0].time) == pytest.approx(BEGAN + HOUR, abs=0.001)
    order = [task.instance for task in space.ready("slow", max_tasks=10)]
    assert order.index("sooner") < order.index("later")


def test_step_by_step_to_what_is_due_next(standing, space):
    space.define(SLOW)
    space.start("slow", "b", start_at=BEGAN + HOUR)
    space.start("slow", "a", start_at=BEGAN + MINUTE)
    times = []
    while standing.clock().HasField("next_due"):
        due = seconds(standing.clock().next_due)
        clock = standing.advance()
        assert seconds(clock.time) == due and clock.timers == 1
        times.append(due - BEGAN)
    assert times == [MINUTE, HOUR]
    assert [state(space.get(id)) for id in "ab"] == ["RUNNING", "RUNNING"]


def test_what_nothing_waits_for_any_more_is_not_due(standing, space):
    space.define(SLOW)
    space.start("slow", "a")
    space.report(space.take("slow"))
    assert standing.clock().HasField("next_due")
    space.transition("a", "ok")  # ends the delay early
    assert not standing.clock().HasField("next_due")
    assert standing.advance(by=DAY).timers == 0


def test_a_year_takes_moments(new_server):
    server = new_server("--retention", "7d", virtual_clock=BEGIN).start()
    space = server.space("")
    space.define(TICKS)
    space.define(JOB)
    for number in range(20):
        space.start("ticks", f"t{number}")
        space.transition(f"t{number}", "ok")
    space.start("job", "short")
    space.transition("short", "ok")
    cursor = next(iter(space.runner.Changes(space_changes(), timeout=CALL))).cursor
    began = time.monotonic()
    assert server.advance(by=7 * DAY - 1).timers == 6 * 20
    assert state(space.get("short")) == "STOPPED"
    server.advance(by=1)
    with refused("NOT_FOUND", "NO_SUCH_INSTANCE"):
        space.get("short")
    space.start("job", "short")  # the id is free
    clock = server.advance(to=BEGAN + 365 * DAY)
    assert clock.timers == (365 - 7) * 20
    assert time.monotonic() - began < 60
    assert seconds(clock.next_due) == BEGAN + 366 * DAY
    with refused("OUT_OF_RANGE", "CURSOR_EXPIRED"):
        list(space.runner.Changes(space_changes(after=cursor), timeout=CALL))




def test_how_far_it_may_go(standing):
    for request in (schedule.AdvanceClockRequest(),
                    schedule.AdvanceClockRequest(to_next=True, by={"seconds": 1}),
                    schedule.AdvanceClockRequest(to={"seconds": 1}, by={"seconds": 1}),
                    schedule.AdvanceClockRequest(by={"seconds": -1}),
                    schedule.AdvanceClockRequest(to={"seconds": int(BEGAN) - 1}),
                    schedule.AdvanceClockRequest(by={"seconds": 11 * 365 * DAY})):
        with refused("INVALID_ARGUMENT", "BAD_REQUEST"):
            standing.schedules.AdvanceClock(request, timeout=CALL)
    assert standing.time() == BEGAN
    assert seconds(standing.advance(by=3650 * DAY).time) == BEGAN + 3650 * DAY


def test_several_at_once_go_one_after_the_other(standing, space):
    space.define(TICKS)
    space.start("ticks", "a")
    space.transition("a", "ok")
    clocks = together(*[lambda: standing.advance(by=10 * DAY)] * 5)
    assert sorted(seconds(clock.time) for clock in clocks) == [
        BEGAN + (number + 1) * 10 * DAY for number in range(5)]
    assert [clock.timers for clock in clocks] == [10] * 5


def test_calls_wait_in_real_time(standing, space):
    space.define(SLOW)
    began = time.monotonic()
    poll = space.later("Ready", space.ready_request("slow", wait=1.0))
    standing.advance(by=DAY)
    assert not poll.done()
    assert list(poll.result(timeout=CALL).tasks) == []
    assert 0.9 < time.monotonic() - began < SOON
    poll = space.later("Ready", space.ready_request("slow", wait=20.0))
    space.start("slow", "a", start_at=standing.time() + HOUR)
    standing.advance(by=HOUR)
    assert len(poll.result(timeout=SOON).tasks) == 1


def test_a_claim_is_in_the_feed_soon_though_the_clock_stands(standing, space):
    space.define(SLOW)
    space.start("slow", "a")
    cursor = next(iter(space.runner.Changes(space_changes(namespace=space.name),
                                            timeout=CALL))).cursor

    def claimed():
        changes = [change for reply in space.runner.Changes(
            space_changes(namespace=space.name, after=cursor), timeout=CALL)
            for change in reply.changes]
        return [change for change in changes if kind(change) == "CLAIMED"]

    space.take("slow")
    eventually(claimed)
    assert standing.time() == BEGAN


def test_it_goes_on_from_where_it_stood(standing, new_server, space):
    space.define(SLOW)
    space.start("slow", "a")
    space.report(space.take("slow"))
    standing.advance(by=45 * MINUTE)
    standing.kill()
    for begin, stands in ((BEGIN, BEGAN + 45 * MINUTE),
                          ("2020-01-01T00:00:00Z", BEGAN + 45 * MINUTE),
                          ("2026-01-31T08:50:00Z", BEGAN + 50 * MINUTE),
                          (BEGIN, BEGAN + 50 * MINUTE)):
        server = new_server(data=standing.data, virtual_clock=begin).start()
        assert server.time() == stands, begin
        assert seconds(server.clock().next_due) == BEGAN + HOUR
        server.kill()
    server = new_server(data=standing.data, virtual_clock=BEGIN).start()
    assert server.advance(by=10 * MINUTE).timers == 1
    assert len(server.space(space.name).ready("slow", "check")) == 1


def test_killed_on_the_way_it_loses_nothing_and_does_nothing_twice(standing, space):
    space.define(TICKS)
    for number in range(50):
        space.start("ticks", f"t{number}")
        space.transition(f"t{number}", "ok")
    far = standing.schedules.AdvanceClock.future(
        schedule.AdvanceClockRequest(by={"seconds": 3650 * DAY}), timeout=60)
    eventually(lambda: standing.time() > BEGAN + 20 * DAY)
    standing.kill()
    far.exception()
    standing.start()
    days = (standing.time() - BEGAN) / DAY
    assert days == int(days) and days >= 20
    standing.advance(by=5 * DAY)
    for id in ("t0", "t49"):
        ticks = [seconds(change.time) for change in space.history(id)
                 if kind(change) == "TRANSITIONED"][1:]
        assert len(ticks) == len({round(at - BEGAN) for at in ticks})
        assert round((ticks[-1] - BEGAN) / DAY) == days + 5


def test_a_stop_on_the_way_leaves_it_where_it_has_come_to(standing, space):
    space.define(TICKS)
    for number in range(50):
        space.start("ticks", f"t{number}")
        space.transition(f"t{number}", "ok")
    far = standing.schedules.AdvanceClock.future(
        schedule.AdvanceClockRequest(by={"seconds": 3650 * DAY}), timeout=60)
    eventually(lambda: standing.time() > BEGAN + 20 * DAY)
    assert standing.stop() == 0
    assert far.exception() is not None
    standing.start()
    assert BEGAN + 20 * DAY < standing.time() < BEGAN + 3650 * DAY


def refused_to_open(data, *flags):
    done = subprocess.run([str(DSRV), "--addr", "localhost:0", "--data", str(data), *flags],
                          capture_output=True, text=True, timeout=CALL)
    assert done.returncode == 1, done
    assert str(data) in done.stderr
    return done.stderr


def test_a_directory_belongs_to_the_clock_that_it_was_begun_under(new_server):
    plain = new_server().start()
    assert plain.stop() == 0
    assert "new directory" in refused_to_open(plain.data, "--virtual-clock", BEGIN)
    plain.start()

    standing = new_server(virtual_clock=BEGIN).start()
    standing.kill()
    assert "--virtual-clock TIME" in refused_to_open(standing.data)
    standing.start()
    assert standing.time() == BEGAN


def test_a_time_that_is_none_is_refused():
    done = subprocess.run([str(DSRV), "--virtual-clock", "tomorrow"], capture_output=True,
                          text=True, timeout=CALL)
    assert done.returncode == 2
    assert "tomorrow" in done.stderr and "2026-01-31T08:00:00Z" in done.stderr


def test_dcli_clock(standing, space):
    dcli = Cli(standing.address, space.name)
    assert dcli.ok("clock") == BEGIN + "\n"
    space.define(SLOW)
    space.start("slow", "a", start_at=BEGAN + HOUR)
    assert dcli.json("clock") == {"time": BEGIN, "isVirtual": True,
                                  "nextDue": "2026-01-31T09:00:00Z"}
    assert dcli.ok("clock", "advance", "30m") == "2026-01-31T08:30:00Z\n"
    done = dcli("clock", "advance", "--next")
    assert done.stdout == "2026-01-31T09:00:00Z\n" and "1 timer was due" in done.stderr
    assert dcli.ok("clock", "--to", "2026-02-01T00:00:00Z") == "2026-02-01T00:00:00Z\n"
    assert dcli.ok("clock", "advance", "--to", "+1d") == "2026-02-02T00:00:00Z\n"
    assert json.loads(dcli.ok("-o", "json", "clock", "--next"))["time"] == "2026-02-02T00:00:00Z"
    dcli.ok("start", "slow", "--id", "b", "--at", "+1h")
    assert dcli.json("clock")["nextDue"] == "2026-02-02T01:00:00Z"
    back = dcli("clock", "--to", BEGIN)
    assert back.returncode == 1 and "2026-02-02T00:00:00Z" in back.stderr
    for words in (["advance"], ["advance", "soon"], ["back"], ["advance", "1h", "--next"],
                  ["advance", "--to", "later"]):
        assert dcli("clock", *words).returncode == 2, words


def test_dcli_tells_how_long_a_step_takes_by_the_servers_time(standing, space):
    dcli = Cli(standing.address, space.name)
    space.define("plan: p\nflow: [{step: s, action: x}]\n")
    space.start("p", "c")
    space.take("p")
    dcli.ok("clock", "advance", "30s")
    assert " 30.0s " in dcli.ok("show", "c")
