"""Relinquish, Extend, stale and repeated claims, and nodes that run at most once."""
import pytest

from stubs import v1
from support import (HASTY, JOB, LOOP, ONCE, PAIR, SOON, check_error, extend_item, kind, now, only,
                     refused, result, seconds, state, together, token_state)


# Relinquish -----------------------------------------------------------------------------------


@pytest.mark.parametrize("machine, source", [("job", JOB), ("once", ONCE)],
                         ids=["at least once", "at most once"])
def test_a_relinquished_node_is_ready_for_others_at_once(space, machine, source):
    space.define(source)
    id = space.start(machine)
    task = space.take(machine, worker="first")
    reply = space.relinquish(id, task.claim)
    assert (reply.instance, reply.node) == (id, "work")
    token = space.token(id)
    assert token_state(token) == "READY" and not token.claims
    again = only(space.ready(machine, worker="second"))
    assert (again.instance, again.visit, again.attempt) == (id, 1, 2)
    assert again.claim != task.claim


def test_a_relinquished_claim_is_void(space):
    space.define(JOB)
    id = space.start("job")
    task = space.take("job")
    space.relinquish(id, task.claim)
    with refused("FAILED_PRECONDITION", "STALE_CLAIM", id):
        space.report(task)
    with refused("FAILED_PRECONDITION", "STALE_CLAIM", id):
        space.relinquish(id, task.claim)
    check_error(space.extend(task).error, "FAILED_PRECONDITION", "STALE_CLAIM")
    again = space.take("job")
    with refused("FAILED_PRECONDITION", "STALE_CLAIM", id):
        space.report(task)
    assert space.report(again).node == "done"


def test_relinquish_without_a_claim_gives_back_all_claims_of_the_instance(space):
    space.define(HASTY)
    id = space.start("hasty")
    first = space.take("hasty")
    space.await_change("TIMED_OUT", instance=id)
    second = space.take("hasty")
    space.relinquish(id)
    for task in (first, second):
        with refused("FAILED_PRECONDITION", "STALE_CLAIM", id):
            space.report(task)
    assert only(space.ready("hasty")).attempt == 3


def test_relinquishing_is_in_the_history(space):
    space.define(JOB)
    id = space.start("job")
    task = space.take("job")
    space.relinquish(id, task.claim)
    given_back = only([c for c in space.history(id) if kind(c) == "RELINQUISHED"])
    assert (given_back.visit, given_back.attempt) == (1, 1)
    assert "work" in (given_back.node, given_back.prev_node)


def test_relinquishing_a_claim_of_a_visit_that_is_over_is_stale(space):
    space.define(PAIR)
    id = space.start("pair")
    task = space.take("pair")
    space.report(task)
    with refused("FAILED_PRECONDITION", "STALE_CLAIM", id):
        space.relinquish(id, task.claim)
    assert space.token(id).node == "second"


def test_relinquishing_what_is_not_there_is_not_found(space):
    with refused("NOT_FOUND", "NO_SUCH_INSTANCE", "ghost"):
        space.relinquish("ghost")


def test_a_relinquished_node_goes_to_a_poll_that_waits(space):
    space.define(JOB)
    id = space.start("job")
    task = space.take("job")
    poll = space.later("Ready", space.ready_request("job", wait=30), timeout=40)
    space.relinquish(id, task.claim)
    assert only(poll.result().tasks).instance == id


# Text that is no claim ------------------------------------------------------------------------


def test_text_that_is_no_claim_is_refused_alike_by_every_method(space):
    space.define(JOB)
    id = space.start("job")
    task = space.take("job")
    for text in ("no claim at all", task.claim + "-", task.claim.rpartition("-")[0]):
        said = f"the claim of instance '{id}' is stale: '{text}' is no claim that Ready gave"
        request = space.transition_request(id, "ok", claim=text)
        item = v1.ExtendRequest.Item(instance=id, claim=text)
        with refused("FAILED_PRECONDITION", "STALE_CLAIM", said):
            space.call("Transition", request)
        with refused("FAILED_PRECONDITION", "STALE_CLAIM", said):
            space.relinquish(id, text)
        reported = only(space.report_all([request]).results)
        check_error(reported.error, "FAILED_PRECONDITION", "STALE_CLAIM", said)
        extended = only(space.extend_all(item))
        check_error(extended.error, "FAILED_PRECONDITION", "STALE_CLAIM", said)
        with space.work(machine="none") as work:
            work.send(transitions=[request], extends=[item], relinquishes=[
                v1.RelinquishRequest(instance=id, claim=text)])
            for answer in (only(work.await_results(1)), only(work.extended)):
                check_error(answer.error, "FAILED_PRECONDITION", "STALE_CLAIM", said)
        with refused("NOT_FOUND", "NO_SUCH_INSTANCE"):
            space.relinquish("ghost", text)
    with refused("FAILED_PRECONDITION", "STALE_CLAIM", "it belongs to another instance"):
        space.relinquish(space.start("job"), task.claim)
    empty = only(space.extend_all(v1.ExtendRequest.Item(instance=id)))
    check_error(empty.error, "FAILED_PRECONDITION", "STALE_CLAIM", "'' is no claim that Ready gave")
    assert space.report(task).node == "done"


# Extend ---------------------------------------------------------------------------------------


def test_extend_moves_the_deadline_out_counted_from_now(space):
    space.define(JOB)
    space.start("job")
    task = space.take("job")
    began = now()
    item = space.extend(task, by=600)
    assert abs(seconds(item.deadline) - began - 600) < SOON
    assert only(space.token(task.instance).claims).deadline == item.deadline
    assert not item.cancel_requested and not item.kill_requested
    assert not item.HasField("error")


def test_extend_without_a_duration_takes_the_timeout_of_the_node(space):
    space.define(HASTY.replace("timeout: 0.3", "timeout: 40.0"))
    space.start("hasty")
    task = space.take("hasty")
    began = now()
    assert abs(seconds(space.extend(task).deadline) - began - 40) < SOON


def test_extend_never_shortens(space):
    space.define(JOB)
    space.start("job")
    task = space.take("job")
    assert space.extend(task, by=0.1).deadline == task.deadline
    assert space.extend(task).deadline.ToNanoseconds() >= task.deadline.ToNanoseconds()


def test_a_worker_that_extends_is_not_timed_out(space):
    space.define(HASTY.replace("timeout: 0.3", "timeout: 0.5"))
    id = space.start("hasty")
    task = space.take("hasty")
    for _ in range(10):
        assert not space.extend(task, by=0.5).HasField("error")
        assert space.ready("hasty", wait=0.1) == []
    assert "TIMED_OUT" not in space.story(id)
    assert space.report(task).node == "done"


def test_progress_is_kept_and_shown(space):
    space.define(JOB)
    id = space.start("job")
    task = space.take("job")
    for progress in (0.25, 1.0):
        space.extend(task, progress=progress)
        assert only(space.token(id).claims).progress == progress


@pytest.mark.parametrize("progress", [-0.1, 1.1, float("nan")])
def test_progress_outside_0_to_1_is_refused(space, progress):
    space.define(JOB)
    id = space.start("job")
    item = space.extend(space.take("job"), by=5, progress=progress)
    check_error(item.error, "INVALID_ARGUMENT", "BAD_REQUEST")
    assert only(space.token(id).claims).progress == 0


def test_extend_brings_a_timed_out_claim_back_to_life(space):
    space.define(HASTY)
    id = space.start("hasty")
    task = space.take("hasty")
    space.await_change("TIMED_OUT", instance=id)
    assert only(space.token(id).claims).timed_out
    item = space.extend(task, by=60)
    assert not item.HasField("error") and abs(seconds(item.deadline) - now() - 60) < SOON
    token = space.token(id)
    assert not only(token.claims).timed_out
    assert token_state(token) == "CLAIMED" and space.ready("hasty") == []
    assert space.report(task).node == "done"


def test_each_item_of_an_extend_succeeds_or_fails_alone_and_in_order(space):
    space.define(JOB)
    space.start_many("job", 3)
    a, b, c = space.ready("job", max_tasks=3)
    space.report(b)
    ghost = v1.ExtendRequest.Item(instance="ghost", claim=a.claim)
    items = space.extend_all(extend_item(a, by=100), extend_item(b, by=100), ghost,
                             extend_item(c, by=200))
    assert abs(seconds(items[0].deadline) - now() - 100) < SOON
    check_error(items[1].error, "FAILED_PRECONDITION", "STALE_CLAIM", b.instance)
    check_error(items[2].error, ("NOT_FOUND", "FAILED_PRECONDITION"),
                ("NO_SUCH_INSTANCE", "STALE_CLAIM"), "ghost")
    assert abs(seconds(items[3].deadline) - now() - 200) < SOON


def test_a_worker_learns_of_cancellation_by_its_heartbeat(space):
    space.define(JOB)
    id = space.start("job")
    task = space.take("job")
    space.cancel(id)
    item = space.extend(task)
    assert item.cancel_requested and not item.HasField("error")


# At most once ---------------------------------------------------------------------------------


def test_an_at_most_once_claim_has_no_deadline(space):
    space.define(ONCE)
    id = space.start("once")
    task = space.take("once")
    assert not task.HasField("deadline")
    assert not only(space.token(id).claims).HasField("deadline")


def test_timeout_0_is_at_most_once_under_the_fixed_strategy_too(space):
    space.define(ONCE.replace("timeout: 0.0", "timeout_strategy: fixed, timeout: 0.0"))
    space.start("once")
    assert not space.take("once").HasField("deadline")
    assert space.ready("once", wait=0.2) == []


def test_an_at_most_once_node_is_given_once_to_many_who_ask(space):
    space.define(ONCE)
    ids = space.start_many("once", 40)
    outcomes = together(*[lambda: space.ready("once", max_tasks=10)] * 10)
    given = [task.instance for tasks in outcomes for task in tasks]
    assert sorted(given) == sorted(ids)


def test_an_at_most_once_claim_is_in_the_feed_when_it_is_handed_out(space):
    space.define(ONCE)
    id = space.start("once")
    space.take("once")
    assert [kind(c) for c in space.history(id)] == ["STARTED", "CLAIMED"]


def test_an_operator_may_force_an_at_most_once_node_to_run_again(space):
    space.define(ONCE)
    id = space.start("once")
    task = space.take("once")
    space.resume(id)
    assert space.ready("once") == []
    space.resume(id, force=True)
    again = only(space.ready("once"))
    assert (again.instance, again.attempt) == (id, 2)
    with refused("FAILED_PRECONDITION", "STALE_CLAIM", id):
        space.report(task)
    assert space.report(again).node == "done"


def test_cancel_waits_for_an_at_most_once_claim_and_force_does_not(space):
    space.define(ONCE)
    waits, forced = space.start("once"), space.start("once")
    tasks = {task.instance: task for task in space.ready("once", max_tasks=2)}
    space.cancel(waits)
    assert state(space.get(waits)) != "STOPPED"
    space.report(tasks[waits], "ok")
    space.cancel(forced, "FORCE")
    for id in (waits, forced):
        assert (state(space.get(id)), result(space.get(id))) == ("STOPPED", "CANCELLED")
    with refused("FAILED_PRECONDITION", "STALE_CLAIM", forced):
        space.report(tasks[forced])


# Names ----------------------------------------------------------------------------------------


def test_every_claim_has_a_name_of_its_own(space):
    space.define(LOOP)
    id = space.start("loop")
    claims = set()
    for _ in range(10):
        task = space.take("loop")
        claims.add(task.claim)
        space.relinquish(id, task.claim)
        task = space.take("loop")
        claims.add(task.claim)
        space.report(task, "again")
    assert len(claims) == 20


def test_what_ends_an_attempt_tells_when_it_began(space):
    space.define(JOB)
    space.start("job")
    task = space.take("job", worker="ann")
    space.relinquish(task.instance, task.claim)
    space.report(space.take("job", worker="bob"))
    ends = [one for one in space.history(task.instance)
            if kind(one) in ("RELINQUISHED", "TRANSITIONED")]
    assert len(ends) == 2 and all(one.HasField("begin_time") for one in ends)
    assert all(seconds(one.begin_time) <= seconds(one.time) for one in ends)
