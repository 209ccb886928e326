"""Work: tasks as capacity frees up, reports in batches, and how a stream ends."""
import collections
import concurrent.futures

import grpc
import pytest

from stubs import v1, v1_grpc
from support import (HASTY, JOB, LOOP, ONCE, PAIR, SOON, Refusal, check_error, check_refusal,
                     extend_item, now, only, open_channel, refused, seconds, state, token_state)


def test_tasks_come_up_to_the_capacity_and_again_as_it_frees_up(space):
    space.define(JOB)
    ids = space.start_many("job", 5)
    with space.work(machine="job", max_tasks=3) as work:
        tasks = work.await_tasks(3)
        assert [task.instance for task in tasks] == ids[:3]
        assert len(space.ready("job", max_tasks=10)) == 2  # the stream has not taken them
        space.start("job", id="later")
        only(work.report(tasks[0]))
        assert work.await_tasks(4)[3].instance == "later"
        assert not work.wait(lambda: len(work.tasks) > 4, 0.2)


def test_a_capacity_that_is_not_given_is_one(space):
    space.define(JOB)
    space.start_many("job", 3)
    with space.work(machine="job") as work:
        for count in (1, 2, 3):
            tasks = work.await_tasks(count)
            assert len(tasks) == count
            work.report(tasks[-1])


def test_a_task_comes_as_soon_as_there_is_one(space):
    space.define(JOB)
    with space.work(machine="job", max_tasks=10) as work:
        for count in range(1, 11):
            id = space.start("job")
            assert work.await_tasks(count)[-1].instance == id


def test_a_stream_takes_what_its_filters_let_through(space):
    space.define(PAIR + "---\n" + JOB)
    space.start("job")
    id = space.start("pair")
    with space.work(machine="pair", node="second", max_tasks=10) as work:
        assert not work.wait(lambda: work.tasks, 0.2)
        space.transition(id, "ok")
        assert only(work.await_tasks(1)).node == "second"


def test_results_come_in_the_order_of_the_requests(space):
    space.define(PAIR)
    space.start_many("pair", 6)
    with space.work(machine="pair", node="first", max_tasks=6) as work:
        a, b, c, d, e, f = work.await_tasks(6)
        space.transition(c.instance, "ok")
        work.send(transitions=[space.report_request(a, "ok"), space.report_request(b, "sideways")])
        work.send(transitions=[space.report_request(c, "ok")])
        work.send(transitions=[space.transition_request("ghost", "ok"),
                               space.report_request(d, "error"), space.report_request(a, "ok")])
        work.send(transitions=[space.report_request(e, "ok"), space.report_request(f, "ok")])
        results = work.await_results(8)
        assert results[0].accepted.instance == a.instance
        check_error(results[1].error, "FAILED_PRECONDITION", "ILLEGAL_TRANSITION", "sideways")
        check_error(results[2].error, "FAILED_PRECONDITION", "STALE_CLAIM", c.instance)
        check_error(results[3].error, "NOT_FOUND", "NO_SUCH_INSTANCE", "ghost")
        assert results[4].accepted.node == "failed"
        assert results[5].accepted.repeated_report
        assert [r.accepted.instance for r in results[6:]] == [e.instance, f.instance]


def test_a_refused_report_leaves_its_task_in_hand(space):
    space.define(JOB)
    space.start_many("job", 2)
    with space.work(machine="job", max_tasks=1) as work:
        task = only(work.await_tasks(1))
        check_error(only(work.report(task, transition="sideways")).error,
                    "FAILED_PRECONDITION", "ILLEGAL_TRANSITION")
        assert not work.wait(lambda: len(work.tasks) > 1, 0.2)
        assert only(work.report(task)).accepted.node == "done"
        work.await_tasks(2)


def test_items_take_the_namespace_of_open_unless_they_name_one(server, space):
    other = server.space(space.name + "-other")
    for where in (space, other):
        where.define(JOB)
        where.start("job", id="mine")
    foreign = other.take("job")
    with space.work(machine="job", max_tasks=5) as work:
        task = only(work.await_tasks(1))
        work.send(transitions=[
            v1.TransitionRequest(instance="mine", transition="ok", claim=task.claim),
            other.report_request(foreign, "error")])
        own, others = work.await_results(2)
        assert own.accepted.node == "done" and others.accepted.node == "failed"


def test_a_stream_relinquishes_and_goes_on(space):
    space.define(JOB)
    ids = space.start_many("job", 2)
    with space.work(machine="job", max_tasks=1) as work:
        task = only(work.await_tasks(1))
        work.send(relinquishes=[v1.RelinquishRequest(instance=task.instance, claim=task.claim)])
        again = work.await_tasks(2)[1]  # the oldest is the one given back
        assert (again.instance, again.visit, again.attempt) == (ids[0], 1, 2)
        check_error(only(work.report(task)).error, "FAILED_PRECONDITION", "STALE_CLAIM")
        assert only(work.report(again)).accepted.node == "done"
        assert len(work.results) == 2  # relinquishes are not answered
        assert work.await_tasks(3)[2].instance == ids[1]


def test_a_stream_extends_and_is_answered_in_order(space):
    space.define(JOB)
    space.start("job")
    with space.work(machine="job", max_tasks=1) as work:
        task = only(work.await_tasks(1))
        ghost = v1.ExtendRequest.Item(instance="ghost", claim="x")
        work.send(extends=[extend_item(task, by=300, progress=0.5), ghost])
        assert work.wait(lambda: len(work.extended) == 2), work
        fine, missing = work.extended
        assert abs(seconds(fine.deadline) - now() - 300) < SOON
        check_error(missing.error, ("NOT_FOUND", "FAILED_PRECONDITION", "INVALID_ARGUMENT"),
                    ("NO_SUCH_INSTANCE", "STALE_CLAIM", "BAD_REQUEST"))
        assert only(space.token(task.instance).claims).progress == 0.5


def test_streams_that_end_before_they_were_answered_do_no_harm(space):
    """The second `open` ends the stream while the first message may still wait for its turn."""
    opens = [v1.WorkRequest(open=v1.ReadyRequest(namespace=space.name, max_tasks=2))] * 2

    def spoil():
        for _ in range(100):
            with pytest.raises(grpc.RpcError) as caught:
                list(space.runner.Work(iter(opens)))
            check_refusal(Refusal(caught.value), "INVALID_ARGUMENT", "BAD_REQUEST", "open")

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        for spoiled in [pool.submit(spoil) for _ in range(6)]:
            spoiled.result()
    space.define(JOB)
    assert space.start("job")


# Claims that are not worth working on any more ------------------------------------------------


def test_a_stream_learns_of_cancellation(space):
    space.define(JOB)
    id = space.start("job")
    with space.work(machine="job") as work:
        task = only(work.await_tasks(1))
        space.cancel(id)
        assert work.wait(lambda: task.claim in work.cancelled_claims), work
        assert only(work.report(task)).accepted.result == v1.Instance.CANCELLED


def test_a_stream_learns_of_a_kill(space):
    space.define(JOB)
    id = space.start("job")
    with space.work(machine="job") as work:
        task = only(work.await_tasks(1))
        space.cancel(id, "KILL")
        assert work.wait(lambda: task.claim in work.killed_claims), work
        check_error(only(work.report(task)).error, "FAILED_PRECONDITION", "STALE_CLAIM")


def test_a_stream_learns_that_another_was_first(space):
    space.define(JOB)
    id = space.start("job")
    with space.work(machine="job") as work:
        task = only(work.await_tasks(1))
        space.transition(id, "ok")
        assert work.wait(lambda: task.claim in work.cancelled_claims), work


def test_a_stream_learns_of_an_upgrade(space):
    space.define(JOB)
    space.start("job")
    with space.work(machine="job") as work:
        task = only(work.await_tasks(1))
        space.define(JOB + "upgrade_strategy: upgrade\n")
        assert work.wait(lambda: task.claim in work.cancelled_claims), work
        renewed = work.await_tasks(2)[1]
        assert (renewed.instance, renewed.version) == (task.instance, 2)


def test_a_claim_that_timed_out_no_longer_counts_against_the_capacity(space):
    space.define(HASTY)
    first = space.start("hasty")
    with space.work(machine="hasty", max_tasks=1) as work:
        task = only(work.await_tasks(1))
        assert work.wait(lambda: task.claim in work.cancelled_claims), work
        again = work.await_tasks(2)[1]
        assert (again.instance, again.visit, again.attempt) == (first, 1, 2)
        assert only(work.report(task)).accepted.node == "done"  # it may still win


# How a stream ends ----------------------------------------------------------------------------


def test_a_drained_stream_is_given_nothing_more_and_ends_when_all_is_reported(space):
    space.define(JOB)
    space.start_many("job", 3)
    with space.work(machine="job", max_tasks=2) as work:
        tasks = work.await_tasks(2)
        work.send(drain=True)
        work.report(tasks[0])
        assert not work.ended
        work.report(tasks[1])
        assert work.await_end() == "OK"
        assert len(work.tasks) == 2
    assert len(space.ready("job", max_tasks=5)) == 1


def test_a_drained_stream_with_nothing_in_hand_ends_at_once(space):
    space.define(JOB)
    with space.work(machine="job", max_tasks=2) as work:
        work.send(drain=True)
        assert work.await_end() == "OK"


@pytest.mark.parametrize("end", ["half_close", "cancel"])
def test_a_stream_that_ends_gives_back_what_it_had(space, end):
    space.define(JOB)
    ids = space.start_many("job", 3)
    with space.work(machine="job", max_tasks=3) as work:
        tasks = work.await_tasks(3)
        work.report(tasks[0])
        getattr(work, end)()
        work.await_end()
    seen = []
    while len(seen) < 2:
        seen += space.ready("job", max_tasks=3, wait=SOON) or pytest.fail("not given back")
    assert sorted(task.instance for task in seen) == sorted(ids[1:])
    assert {task.visit for task in seen} == {1}
    for task in tasks[1:]:
        with refused("FAILED_PRECONDITION", "STALE_CLAIM", task.instance):
            space.report(task)
    assert "RELINQUISHED" in space.story(ids[1])


@pytest.mark.parametrize("end", ["half_close", "cancel"])
def test_a_stream_that_ends_keeps_what_runs_at_most_once(space, end):
    space.define(ONCE)
    id = space.start("once")
    with space.work(machine="once", max_tasks=3) as work:
        task = only(work.await_tasks(1))
        getattr(work, end)()
        work.await_end()
    assert space.ready("once", wait=0.3) == []
    assert token_state(space.token(id)) == "CLAIMED"
    assert space.report(task).node == "done"


def test_a_stream_whose_connection_is_gone_gives_back_what_it_had(server, space):
    space.define(JOB)
    ids = space.start_many("job", 5)
    channel = open_channel(server.address)
    away = server.space(space.name)
    away.runner_of = v1_grpc.RunnerServiceStub(channel)
    work = away.work(machine="job", max_tasks=5)
    work.await_tasks(5)
    channel.close()
    seen = []
    while len(seen) < 5:
        seen += space.ready("job", max_tasks=5, wait=SOON) or pytest.fail("not given back")
    assert sorted(task.instance for task in seen) == sorted(ids)
    work.half_close()


# Misuse ---------------------------------------------------------------------------------------


def test_a_stream_must_begin_with_open(space):
    with space.work() as work:
        work.send(drain=True)
        assert work.await_end() == "INVALID_ARGUMENT"


def test_a_stream_is_opened_once(space):
    space.define(JOB)
    with space.work(machine="job") as work:
        work.send(open=space.ready_request("job"))
        assert work.await_end() == "INVALID_ARGUMENT"


def test_a_negative_capacity_is_refused(space):
    with space.work(machine="job", max_tasks=-1) as work:
        assert work.await_end() == "INVALID_ARGUMENT"


def test_a_capacity_over_the_limit_is_clamped(space):
    space.define(JOB)
    id = space.start("job")
    with space.work(machine="job", max_tasks=2_000_000) as work:
        assert only(work.await_tasks(1)).instance == id


# Many -----------------------------------------------------------------------------------------


def test_streams_and_polls_share_a_queue_and_each_visit_is_given_once(space):
    space.define(LOOP)
    ids = space.start_many("loop", 300)
    given = collections.Counter()
    with space.work(machine="loop", max_tasks=40) as one, \
            space.work(machine="loop", max_tasks=40) as two:
        done = {one: 0, two: 0}
        finished = 0
        deadline = now() + 30
        while finished < len(ids):
            assert now() < deadline, f"{finished} of {len(ids)}: {one} {two}"
            polled = space.ready("loop", max_tasks=10)
            for task in polled:
                given[task.instance, task.visit] += 1
                finished += task.visit >= 3
            space.report_all([space.report_request(t, "again" if t.visit < 3 else "ok")
                              for t in polled])
            for work in (one, two):
                work.wait(lambda: len(work.tasks) > done[work], 0.05)
                with work.condition:
                    fresh = work.tasks[done[work]:]
                done[work] += len(fresh)
                for task in fresh:
                    given[task.instance, task.visit] += 1
                    finished += task.visit >= 3
                if fresh:
                    work.send(transitions=[
                        space.report_request(t, "again" if t.visit < 3 else "ok")
                        for t in fresh])
        for work in (one, two):
            results = work.await_results(done[work])
            assert all(r.HasField("accepted") for r in results)
    assert set(given.values()) == {1} and len(given) == 900
    assert {state(space.get(id)) for id in ids[::29]} == {"STOPPED"}


def test_tasks_that_no_message_has_room_for_come_in_several(space):
    space.define(JOB)
    for number in range(6):
        space.start("job", f"large-{number}", params={"a": "x" * 1_000_000})
    with space.work(machine="job", max_tasks=100) as work:
        tasks = work.await_tasks(6)
        assert sorted(task.instance for task in tasks) == [f"large-{n}" for n in range(6)]
        assert all(not result.HasField("error") for task in tasks for result in work.report(task))
