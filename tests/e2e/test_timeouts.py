"""Deadlines, what happens when they pass, the percentile, and the breaker."""
import pytest

from support import (HASTY, SOON, eventually, kind, now, only, refused, seconds, state, together,
                     token_state)

DIVERTED = """\
id: diverted
nodes:
  work: {start: true, timeout_strategy: fixed, timeout: 0.3,
         transitions: {ok: done, dfsmr.timeout: clean_up}}
  clean_up: {transitions: {ok: failed}}
  done: {final: true}
  failed: {final: true, result: error}
"""


def measured(extra="timeout_min: 2s"):
    return f"""\
id: measured
nodes:
  work: {{start: true, timeout_initial: 30s, {extra}, transitions: {{ok: done, error: done}}}}
  done: {{final: true}}
"""


def allowance(task, claimed_from):
    """Seconds between the claim and its deadline; the claim was made since `claimed_from`."""
    return seconds(task.deadline) - claimed_from


def next_allowance(space, machine="measured"):
    space.start(machine)
    began = now()
    return allowance(space.take(machine), began)


def complete(space, count, machine="measured", transition="ok"):
    space.start_many(machine, count)
    for task in space.ready(machine, max_tasks=count, wait=SOON):
        space.report(task, transition)


# Deadlines that pass --------------------------------------------------------------------------


def test_a_fixed_timeout_is_in_seconds(space):
    space.define(HASTY.replace("timeout: 0.3", "timeout: 12.5"))
    assert abs(next_allowance(space, "hasty") - 12.5) < 1


def test_a_node_is_ready_again_in_the_same_visit_when_its_deadline_passes(space):
    space.define(HASTY)
    id = space.start("hasty")
    first = space.take("hasty", worker="slow")
    assert space.ready("hasty") == []
    second = space.take("hasty", worker="quick")
    assert now() >= seconds(first.deadline) - 0.02
    assert (second.instance, second.visit, second.attempt) == (id, first.visit, 2)
    old, new = sorted(space.token(id).claims, key=lambda claim: claim.attempt)
    assert (old.worker, old.timed_out) == ("slow", True)
    assert (new.worker, new.timed_out) == ("quick", False)


def test_a_timeout_is_in_the_history(space):
    space.define(HASTY)
    id = space.start("hasty")
    space.take("hasty")
    space.await_change("TIMED_OUT", instance=id)
    timed_out = only([c for c in space.history(id) if kind(c) == "TIMED_OUT"])
    assert (timed_out.prev_node, timed_out.node) == ("work", "dfsmr.timeout")
    assert (timed_out.visit, timed_out.attempt) == (1, 1)
    assert space.token(id).node == "work" and space.token(id).visit == 1


@pytest.mark.parametrize("winner", [0, 1], ids=["the slow one", "the quick one"])
def test_the_first_worker_to_report_is_accepted_and_every_later_one_refused(space, winner):
    space.define(HASTY)
    id = space.start("hasty")
    tasks = [space.take("hasty"), space.take("hasty")]
    space.report(tasks[winner], "ok")
    with refused("FAILED_PRECONDITION", "STALE_CLAIM", id):
        space.report(tasks[1 - winner], "error")
    assert space.walk(id) == [("work", "ok", "done")]


def test_of_all_workers_of_a_visit_that_report_at_once_one_is_accepted(space):
    space.define(HASTY)
    id = space.start("hasty")
    tasks = [space.take("hasty") for _ in range(4)]
    assert [task.attempt for task in tasks] == [1, 2, 3, 4]
    outcomes = together(*[lambda t=task: space.report(t) for task in tasks])
    assert len([o for o in outcomes if not isinstance(o, Exception)]) == 1
    assert len(space.walk(id)) == 1


def test_a_node_may_name_where_a_timeout_leads(space):
    space.define(DIVERTED)
    id = space.start("diverted")
    late = space.take("diverted")
    task = space.take("diverted")
    assert (task.node, task.visit, task.attempt) == ("clean_up", 2, 1)
    with refused("FAILED_PRECONDITION", "STALE_CLAIM", id):
        space.report(late, "ok")
    eventually(lambda: [kind(c) for c in space.history(id)]
               == ["STARTED", "CLAIMED", "TIMED_OUT", "TRANSITIONED", "CLAIMED"])
    timed_out, moved = space.history(id)[2:4]
    assert (timed_out.prev_node, timed_out.node, timed_out.visit) == ("work", "dfsmr.timeout", 1)
    assert (moved.prev_node, moved.node, moved.visit) == ("dfsmr.timeout", "clean_up", 2)


def test_many_deadlines_that_pass_together_are_all_noticed(space):
    space.define(HASTY)
    ids = space.start_many("hasty", 100)
    assert len(space.ready("hasty", max_tasks=100)) == 100
    space.await_changes("TIMED_OUT", 100)
    assert {token_state(space.token(id)) for id in ids[::10]} == {"READY"}


def test_an_unclaimed_node_does_not_time_out(space):
    space.define(HASTY)
    id = space.start("hasty")
    space.ready("nowhere", wait=0.5)
    assert space.story(id) == ["STARTED"]


# The percentile -------------------------------------------------------------------------------


def test_before_20_samples_the_timeout_is_the_initial_one(space):
    space.define(measured())
    assert abs(next_allowance(space) - 30) < 1
    complete(space, 15)
    assert abs(next_allowance(space) - 30) < 1


def test_the_initial_timeout_is_60_seconds_unless_set(space):
    space.define(measured().replace("timeout_initial: 30s, ", ""))
    assert abs(next_allowance(space) - 60) < 1


def test_with_20_samples_the_timeout_follows_them_down_to_timeout_min(space):
    space.define(measured("timeout_min: 2s"))
    complete(space, 20)
    assert abs(next_allowance(space) - 2) < 1


def test_timeout_min_is_100_ms_unless_set(space):
    space.define(measured("description: quick"))
    complete(space, 20)
    assert next_allowance(space) < 1
    assert seconds(space.node("measured", "work").stats.timeout_now) >= 0.1


def test_timeout_max_bounds_the_initial_timeout_too(space):
    space.define(measured("timeout_max: 5s").replace("timeout_initial: 30s, ", ""))
    assert abs(next_allowance(space) - 5) < 1


def test_the_percentile_follows_how_long_the_node_takes(space):
    space.define(measured("timeout: 50.0, timeout_min: 1ms"))
    space.start_many("measured", 30)
    tasks = space.ready("measured", max_tasks=30)
    began = now()
    space.ready("nowhere", wait=0.4)
    for task in tasks:
        space.report(task)
    took = now() - began
    measured_now = next_allowance(space)
    assert 0.35 < measured_now < took + 0.3

    def shown():
        stats = space.node("measured", "work").stats
        return 0.35 < seconds(stats.p50) <= seconds(stats.p95) < took + 0.3 \
            and abs(seconds(stats.timeout_now) - seconds(stats.p50)) < 0.3

    assert eventually(shown)


def test_every_transition_of_the_worker_is_a_sample(space):
    space.define(measured())
    complete(space, 20, transition="error")
    assert abs(next_allowance(space) - 2) < 1


def test_samples_go_on_to_the_next_version_of_the_node(space):
    space.define(measured())
    complete(space, 20)
    space.define(measured() + "description: another\n")
    assert abs(next_allowance(space) - 2) < 1


def test_attempts_that_timed_out_count_as_having_lasted_at_least_that_long(space):
    """Twenty workers that never report must not leave the node without samples, or at its
    minimum: the timeout that follows is no shorter than what they were given."""
    space.define(measured("timeout_min: 300ms, timeout_max: 10s")
                 .replace("timeout_initial: 30s", "timeout_initial: 300ms"))
    space.start_many("measured", 30)
    assert len(space.ready("measured", max_tasks=30)) == 30
    space.await_changes("TIMED_OUT", 30)
    assert next_allowance(space) >= 0.29


def test_the_durations_survive_a_restart(new_server):
    server = new_server().start()
    space = server.space("")
    space.define(measured())
    complete(space, 25)
    assert abs(next_allowance(space) - 2) < 1
    server.restart()
    assert abs(next_allowance(space) - 2) < 1


# The breaker ----------------------------------------------------------------------------------


def time_out_claims(space, machine, count, seen):
    """Claims `count` tasks and waits until all of them have timed out, as `seen` have before."""
    tasks = space.ready(machine, max_tasks=count, wait=SOON)
    assert len(tasks) == count
    space.await_changes("TIMED_OUT", seen + count, machine=machine)


def open_breaker(space, machine="hasty"):
    """20 first attempts that time out and 20 retries: half of 40 claims are retries."""
    space.define(HASTY)
    space.start_many(machine, 20)
    time_out_claims(space, machine, 20, 0)
    retries = space.ready(machine, max_tasks=20, wait=SOON)
    assert {task.attempt for task in retries} == {2}
    space.await_change("BREAKER_OPENED")
    return retries


def test_the_breaker_opens_when_half_of_the_claims_are_retries(space):
    open_breaker(space)
    change = space.await_change("BREAKER_OPENED")
    assert (change.machine, change.instance) == ("hasty", "")

    def shown():
        stats = space.machine("hasty").stats
        return stats.breaker == "open" and stats.retry_rate >= 0.5

    assert eventually(shown)


def test_the_breaker_stays_closed_below_20_claims(space):
    space.define(HASTY)
    space.start_many("hasty", 9)
    time_out_claims(space, "hasty", 9, 0)
    time_out_claims(space, "hasty", 9, 9)
    assert space.changes(kinds=["BREAKER_OPENED"])[0] == []


def test_claims_given_back_are_no_retries(space):
    space.define(HASTY.replace("timeout: 0.3", "timeout: 60.0"))
    space.start_many("hasty", 15)
    for _ in range(4):
        tasks = space.ready("hasty", max_tasks=15)
        assert len(tasks) == 15
        for task in tasks:
            space.relinquish(task.instance, task.claim)
    assert space.changes(kinds=["BREAKER_OPENED"])[0] == []


def test_an_open_breaker_hands_out_retries_at_most_once_a_second_and_first_attempts_as_ever(space):
    open_breaker(space)
    space.await_changes("TIMED_OUT", 40)
    fresh = space.start_many("hasty", 10)
    tasks = space.ready("hasty", max_tasks=40)
    firsts = [task for task in tasks if task.attempt == 1]
    assert sorted(task.instance for task in firsts) == sorted(fresh)
    assert len(tasks) - len(firsts) <= 1
    began = now()
    retries = [(task.attempt, now()) for task in tasks if task.attempt > 1]
    while len(retries) < 3 and now() - began < SOON:
        retries += [(task.attempt, now()) for task in space.ready("hasty", max_tasks=40, wait=1.2)]
    assert len(retries) >= 2, "an open breaker lets a retry through from time to time"
    gaps = [later[1] - earlier[1] for earlier, later in zip(retries, retries[1:])]
    assert all(gap > 0.8 for gap in gaps), gaps


def test_the_breaker_is_half_open_once_a_retry_has_succeeded(space):
    open_breaker(space)
    space.await_changes("TIMED_OUT", 40)
    assert eventually(lambda: space.machine("hasty").stats.breaker == "open")
    space.report(space.take("hasty"))
    assert eventually(lambda: space.machine("hasty").stats.breaker == "half-open")


def test_the_breaker_closes_when_retries_have_become_rare(space):
    for task in open_breaker(space):
        space.report(task)
    space.start_many("hasty", 400)
    tasks = space.ready("hasty", max_tasks=400)
    space.report_all([space.report_request(task) for task in tasks])
    space.start("hasty")
    space.report(space.take("hasty"))
    change = space.await_change("BREAKER_CLOSED")
    assert change.machine == "hasty"
    assert eventually(lambda: space.machine("hasty").stats.breaker == "closed")


def test_the_breaker_of_one_machine_leaves_the_others_alone(space):
    open_breaker(space)
    space.define(HASTY.replace("id: hasty", "id: other"))
    space.start_many("other", 5)
    time_out_claims(space, "other", 5, 0)
    assert len(space.ready("other", max_tasks=5, wait=SOON)) == 5


def test_an_open_breaker_is_not_kept_over_a_restart(new_server):
    server = new_server().start()
    space = server.space("")
    open_breaker(space)
    server.restart()
    assert space.machine("hasty").stats.breaker == "closed"
    assert state(space.instances(page_size=1).instances[0]) == "RUNNING"
