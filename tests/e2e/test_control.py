"""Pause, Resume, Skip and Cancel."""
import pytest

from stubs import v1
from support import (HASTY, JOB, ONCE, PAIR, check_error, eventually, kind, now, only, refused,
                     result, state, token_state)

RESTING = """\
id: resting
nodes:
  ask: {start: true, manual: true, transitions: {ok: rest}}
  rest: {delay: 400ms, transitions: {ok: work}}
  work: {transitions: {ok: done}}
  done: {final: true}
"""


def stopped_as(space, id, outcome):
    instance = space.get(id)
    return (state(instance), result(instance)) == ("STOPPED", outcome)


# Pause and resume -----------------------------------------------------------------------------


def test_nothing_of_a_paused_instance_is_handed_out_until_it_is_resumed(space):
    space.define(JOB)
    id = space.start("job")
    assert state(space.pause(id)) == "PAUSED"
    assert space.ready("job", wait=0.2) == []
    assert state(space.resume(id)) == "RUNNING"
    assert only(space.ready("job")).instance == id


def test_pausing_and_resuming_are_in_the_history(space):
    space.define(JOB)
    id = space.start("job")
    space.pause(id)
    space.resume(id)
    assert space.story(id) == ["STARTED", "PAUSED", "RESUMED"]


def test_claimed_work_of_a_paused_instance_may_report_and_it_stays_paused(space):
    space.define(PAIR)
    id = space.start("pair")
    task = space.take("pair")
    space.pause(id)
    reply = space.report(task)
    assert reply.node == "second" and reply.state == v1.Instance.PAUSED
    assert space.ready("pair") == []
    space.resume(id)
    assert only(space.ready("pair")).node == "second"


def test_a_paused_instance_may_stop(space):
    space.define(JOB)
    id = space.start("job")
    task = space.take("job")
    space.pause(id)
    space.report(task)
    assert stopped_as(space, id, "SUCCESS")


def test_delays_of_a_paused_instance_run_on(space):
    space.define(RESTING)
    id = space.start("resting")
    space.transition(id, "ok")
    space.pause(id)
    eventually(lambda: space.token(id).node == "work")
    assert space.ready("resting") == [] and state(space.get(id)) == "PAUSED"
    space.resume(id)
    assert only(space.ready("resting")).node == "work"


def test_deadlines_of_a_paused_instance_pass_without_handing_out(space):
    space.define(HASTY)
    id = space.start("hasty")
    space.take("hasty")
    space.pause(id)
    space.await_change("TIMED_OUT", instance=id)
    assert space.ready("hasty", wait=0.2) == []
    space.resume(id)
    assert only(space.ready("hasty")).attempt == 2


def test_a_paused_instance_hears_events_from_outside(space):
    space.define(RESTING)
    id = space.start("resting")
    space.pause(id)
    assert space.transition(id, "ok").node == "rest"
    assert state(space.get(id)) == "PAUSED"


def test_pausing_the_paused_and_resuming_the_running_change_nothing(space):
    space.define(JOB)
    id = space.start("job")
    assert state(space.resume(id)) == "RUNNING"
    space.pause(id)
    assert state(space.pause(id)) == "PAUSED"
    assert space.story(id) == ["STARTED", "PAUSED"]


def test_a_resumed_instance_goes_to_a_poll_that_waits(space):
    space.define(JOB)
    id = space.start("job")
    space.pause(id)
    poll = space.later("Ready", space.ready_request("job", wait=30), timeout=40)
    space.resume(id)
    assert only(poll.result().tasks).instance == id


def test_resuming_by_force_runs_again_what_is_claimed_and_unreported(space):
    space.define(JOB)
    id = space.start("job")
    task = space.take("job")
    space.resume(id)
    assert space.ready("job") == []
    space.resume(id, force=True)
    again = only(space.ready("job"))
    assert (again.instance, again.visit, again.attempt) == (id, task.visit, 2)
    with refused("FAILED_PRECONDITION", "STALE_CLAIM", id):
        space.report(task)


# Held -----------------------------------------------------------------------------------------


def test_what_is_not_held_cannot_be_skipped_or_resumed_by_its_node(space):
    space.define(PAIR)
    id = space.start("pair")
    for call in (lambda: space.skip(id), lambda: space.skip(id, "first"),
                 lambda: space.resume(id, node="first")):
        with refused("FAILED_PRECONDITION", "NOT_HELD"):
            call()
    assert space.story(id) == ["STARTED"]


def test_a_node_that_is_not_there_cannot_be_skipped_or_resumed(space):
    space.define(PAIR)
    id = space.start("pair")
    for call in (lambda: space.skip(id, "nowhere"), lambda: space.resume(id, node="nowhere")):
        with refused("NOT_FOUND", "NO_SUCH_NODE", "nowhere"):
            call()


# Cancel ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["MODE_UNSPECIFIED", "CANCEL", "FORCE", "KILL"])
def test_an_instance_that_nobody_works_on_is_cancelled_at_once(space, mode):
    space.define(JOB)
    id = space.start("job")
    instance = space.cancel(id, mode)
    assert (state(instance), result(instance)) == ("STOPPED", "CANCELLED")
    assert space.ready("job") == []
    assert space.story(id) == ["STARTED", "CANCELLED", "FINISHED"]
    cancelled = only([c for c in space.history(id) if kind(c) == "CANCELLED"])
    assert cancelled.node == "dfsmr.cancelled"
    assert token_state(space.token(id)) == "DONE"


def test_cancel_waits_for_claimed_work_whatever_it_reports(space):
    space.define(PAIR)
    for transition in ("ok", "error"):
        id = space.start("pair")
        task = space.take("pair")
        space.cancel(id)
        assert state(space.get(id)) != "STOPPED"
        assert space.extend(task).cancel_requested
        reply = space.report(task, transition)
        assert (reply.state, reply.result) == (v1.Instance.STOPPED, v1.Instance.CANCELLED)
        assert stopped_as(space, id, "CANCELLED")
        assert space.ready("pair") == []


def test_cancel_is_done_when_the_work_is_given_back(space):
    space.define(JOB)
    id = space.start("job")
    task = space.take("job")
    space.cancel(id)
    space.relinquish(id, task.claim)
    assert eventually(lambda: stopped_as(space, id, "CANCELLED"))
    assert space.ready("job") == []


def test_cancel_is_done_when_the_deadline_of_the_work_has_passed(space):
    space.define(HASTY)
    id = space.start("hasty")
    space.take("hasty")
    space.cancel(id)
    assert eventually(lambda: stopped_as(space, id, "CANCELLED"))
    assert space.ready("hasty") == []


@pytest.mark.parametrize("mode", ["FORCE", "KILL"])
@pytest.mark.parametrize("machine, source", [("job", JOB), ("once", ONCE)])
def test_force_and_kill_stop_at_once(space, mode, machine, source):
    space.define(source)
    id = space.start(machine)
    task = space.take(machine)
    instance = space.cancel(id, mode)
    assert (state(instance), result(instance)) == ("STOPPED", "CANCELLED")
    with refused("FAILED_PRECONDITION", "STALE_CLAIM", id):
        space.report(task)


def test_cancel_may_be_followed_by_force(space):
    space.define(JOB)
    id = space.start("job")
    task = space.take("job")
    space.cancel(id)
    assert state(space.get(id)) != "STOPPED"
    assert state(space.cancel(id, "FORCE")) == "STOPPED"
    with refused("FAILED_PRECONDITION", "STALE_CLAIM", id):
        space.report(task)
    assert stopped_as(space, id, "CANCELLED")


def test_the_worker_of_a_killed_instance_is_told(space):
    space.define(JOB)
    id = space.start("job")
    task = space.take("job")
    space.cancel(id, "KILL")
    item = space.extend(task)
    if not item.kill_requested:
        check_error(item.error, "FAILED_PRECONDITION", "STALE_CLAIM", id)


def test_cancelling_the_cancelled_changes_nothing(space):
    space.define(JOB)
    id = space.start("job")
    space.cancel(id)
    before = space.history(id)
    for mode in ("CANCEL", "FORCE", "KILL"):
        assert result(space.cancel(id, mode)) == "CANCELLED"
    assert space.history(id) == before


def test_asking_twice_to_cancel_what_is_worked_on_changes_nothing_more(space):
    space.define(JOB)
    id = space.start("job")
    space.take("job")
    space.cancel(id)
    before = space.story(id)
    space.cancel(id)
    assert space.story(id) == before


def test_waiting_and_paused_instances_are_cancelled_at_once(space):
    space.define(RESTING + "---\n" + JOB)
    manual, delay, paused = space.start("resting"), space.start("resting"), space.start("job")
    space.transition(delay, "ok")
    space.pause(paused)
    for id in (manual, delay, paused):
        assert state(space.cancel(id)) == "STOPPED"
        assert stopped_as(space, id, "CANCELLED")
    space.ready("nowhere", wait=0.5)
    assert space.token(delay).node != "work"


def test_a_cancelled_instance_hears_nothing_more_from_outside(space):
    space.define(JOB)
    id = space.start("job")
    space.cancel(id)
    with refused("FAILED_PRECONDITION", "INSTANCE_STOPPED", id):
        space.transition(id, "ok")


# Stopped, unknown -----------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["pause", "resume", "cancel"])
def test_a_finished_instance_cannot_be_controlled(space, call):
    space.define(JOB)
    id = space.start("job")
    space.transition(id, "ok")
    with refused("FAILED_PRECONDITION", "INSTANCE_STOPPED", id):
        getattr(space, call)(id)
    assert stopped_as(space, id, "SUCCESS")


@pytest.mark.parametrize("call", ["pause", "resume", "skip", "cancel"])
def test_an_instance_that_is_not_there_is_not_found(space, call):
    with refused("NOT_FOUND", "NO_SUCH_INSTANCE", "ghost"):
        getattr(space, call)("ghost")


def test_an_unknown_mode_is_refused(space):
    space.define(JOB)
    id = space.start("job")
    with refused("INVALID_ARGUMENT", "BAD_REQUEST"):
        space.call("Cancel", v1.CancelRequest(namespace=space.name, instance=id, mode=77))
    assert state(space.get(id)) == "RUNNING"


def test_a_scheduled_instance_may_be_resumed_before_its_time(space):
    space.define(JOB)
    id = space.start("job", start_at=now() + 3600, hold=True)
    assert state(space.get(id)) == "SCHEDULED"
    assert state(space.cancel(id)) == "STOPPED"


def test_what_was_held_and_paused_is_held_again(space):
    space.define(JOB)
    id = space.start("job", hold=True)
    assert state(space.pause(id)) == "PAUSED"
    resumed = space.resume(id)
    assert state(resumed) == "SCHEDULED"
    assert [v1.Wait.Kind.Name(wait.kind) for wait in resumed.waits_for] == ["HOLD"]
    assert state(space.resume(id)) == "RUNNING"


def test_wait_after_fail_is_for_plans(space):
    space.define(JOB)
    request = space.start_request("job")
    request.wait_after_fail.seconds = 1
    with refused("INVALID_ARGUMENT", "BAD_REQUEST", "wait_after_fail", "job"):
        space.call("Start", request)


def note_of(space, id, wanted):
    return only([one.note for one in space.history(id) if kind(one) == wanted])


def test_the_reason_of_a_cancel_is_in_the_record_of_its_end_however_long_that_takes(space):
    space.define(JOB)
    space.start("job")
    task = space.take("job")
    space.cancel(task.instance, reason="the customer has left")
    space.cancel(task.instance, reason="and the order is void")
    space.report(task)
    eventually(lambda: stopped_as(space, task.instance, "CANCELLED"))
    assert note_of(space, task.instance, "CANCELLED") == (
        "the customer has left; and the order is void")


def test_an_error_of_before_does_not_hide_the_reason_of_a_cancel(space):
    space.define(PAIR)
    id = space.start("pair")
    space.report(space.take("pair"), error="the disk is slow")
    space.cancel(id, reason="not wanted any more")
    assert note_of(space, id, "CANCELLED") == "not wanted any more"
    assert note_of(space, id, "FINISHED") == "CANCELLED: not wanted any more"
    assert space.get(id).error == "not wanted any more"
