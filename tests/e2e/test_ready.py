"""Ready: what is handed out, to whom, in which order, and what a poll that goes away leaves."""
import collections
import random
import threading

import grpc
import pytest

from stubs import v1_grpc
from support import (CALL, HASTY, JOB, LOOP, ONCE, PAIR, SOON, from_json, now, only, open_channel,
                     refused, seconds, together, token_state)

ROLES = """\
id: roles
nodes:
  plain: {start: true, transitions: {ok: special}}
  special: {queue: gpu, action: render, transitions: {ok: done}}
  done: {final: true}
"""
RANKS = """\
id: ranks
nodes:
  pick: {start: true, manual: true, transitions: {low: low, high: high}}
  low: {transitions: {ok: done}}
  high: {priority: 10, transitions: {ok: done}}
  done: {final: true}
"""


# What a task says -----------------------------------------------------------------------------


def test_a_task_says_all_that_a_worker_needs(space):
    space.define(PAIR)
    id = space.start("pair", params='{"url":  "x"}')
    began = now()
    task = space.take("pair")
    assert (task.namespace, task.instance, task.machine, task.version) == (
        space.name, id, "pair", 1)
    assert (task.node, task.visit, task.attempt) == ("first", 1, 1)
    assert task.claim
    assert (task.action, task.queue) == ("pair.first", "default")
    assert task.instance_params == '{"url":  "x"}'
    assert from_json(task.node_params) == {}
    assert (task.event, task.phase, list(task.middleware)) == ("", "", [])
    assert abs(seconds(task.deadline) - began - 60) < SOON  # timeout_initial


def test_the_next_node_gets_the_params_that_the_transition_gave(space):
    space.define(PAIR)
    space.start("pair", params={"a": 1})
    space.report(space.take("pair"), node_params='{"b":  2.50}')
    task = space.take("pair", "second")
    assert task.node_params == '{"b":  2.50}'
    assert from_json(task.instance_params) == {"a": 1}
    assert task.visit == 2


def test_a_claim_shows_on_the_token(space):
    space.define(JOB)
    id = space.start("job")
    task = space.take("job", worker="worker-7")
    token = space.token(id)
    assert (token_state(token), token.attempt) == ("CLAIMED", 1)
    claim = only(token.claims)
    assert (claim.worker, claim.attempt, claim.timed_out) == ("worker-7", 1, False)
    assert claim.deadline == task.deadline
    assert abs(seconds(claim.claim_time) - now()) < SOON


def test_a_worker_without_a_name_goes_by_its_address(space):
    space.define(JOB)
    id = space.start("job")
    space.take("job")
    assert "127.0.0.1" in only(space.token(id).claims).worker


# No work --------------------------------------------------------------------------------------


def test_no_work_is_an_empty_reply(space):
    assert space.ready() == []
    space.define(JOB)
    assert space.ready("job") == []
    assert space.ready("job", wait=0.2) == []


def test_what_does_not_exist_is_simply_not_ready(space):
    space.define(JOB)
    space.start("job")
    assert space.ready("nowhere") == []
    assert space.ready("job", "nowhere") == []
    assert space.ready(action="no.such") == []
    assert space.ready(queue="nowhere") == []


def test_only_work_is_handed_out(space):
    space.define("""\
id: m
nodes:
  ask: {start: true, manual: true, transitions: {ok: rest}}
  rest: {delay: 1h, transitions: {ok: done}}
  done: {final: true}
""")
    id = space.start("m")
    assert space.ready() == []
    space.transition(id, "ok")
    assert space.ready() == []
    space.transition(id, "ok")
    assert space.ready() == []


def test_a_claimed_node_is_not_handed_out_again(space):
    space.define(JOB)
    space.start("job")
    space.take("job")
    assert space.ready("job") == []


# Filters --------------------------------------------------------------------------------------


@pytest.mark.parametrize("filters, nodes", [
    ({}, {"plain", "special", "work"}),
    ({"machine": "roles"}, {"plain", "special"}),
    ({"machine": "roles", "node": "special"}, {"special"}),
    ({"node": "special"}, {"special"}),
    ({"action": "render"}, {"special"}),
    ({"action": "roles.plain"}, {"plain"}),
    ({"queue": "gpu"}, {"special"}),
    ({"queue": "default"}, {"plain", "work"}),
    ({"machine": "job", "queue": "gpu"}, set()),
    ({"machine": "roles", "queue": "default"}, {"plain"}),
    ({"machine": "roles", "node": "plain", "action": "render"}, set()),
    ({"machine": "roles", "node": "special", "action": "render", "queue": "gpu"}, {"special"}),
])
def test_all_filters_that_are_set_must_match(space, filters, nodes):
    space.define(ROLES + "---\n" + JOB)
    space.start("roles")
    space.transition(space.start("roles"), "ok")
    space.start("job")
    assert {task.node for task in space.ready(max_tasks=10, **filters)} == nodes


def test_a_namespace_sees_its_own_work_only(server, space):
    other = server.space(space.name + "-other")
    for where in (space, other):
        where.define(JOB)
    id = space.start("job")
    assert other.ready() == []
    assert space.take().instance == id


# How many, and in which order -----------------------------------------------------------------


def test_one_task_is_given_unless_more_are_asked_for(space):
    space.define(JOB)
    space.start_many("job", 5)
    assert len(space.ready("job")) == 1
    assert len(space.ready("job", max_tasks=3)) == 3
    assert len(space.ready("job", max_tasks=3)) == 1


def test_ready_fills_up_to_max_tasks_at_once(space):
    space.define(JOB)
    space.start_many("job", 1500)
    tasks = space.ready("job", max_tasks=1000, wait=SOON)
    assert len({task.instance for task in tasks}) == 1000


def test_more_than_1000_tasks_are_not_given_at_once(space):
    space.define(JOB)
    space.start_many("job", 1100)
    assert len(space.ready("job", max_tasks=1_000_000)) == 1000


def test_within_a_priority_the_oldest_comes_first(space):
    space.define(JOB)
    ids = space.start_many("job", 30)
    assert [task.instance for task in space.ready("job", max_tasks=30)] == ids


def test_a_higher_priority_comes_first(space):
    space.define(JOB)
    ids = {priority: space.start("job", priority=priority) for priority in (0, -5, 3, 100, 1)}
    given = [task.instance for task in space.ready("job", max_tasks=10)]
    assert given == [ids[priority] for priority in (100, 3, 1, 0, -5)]


def test_the_priorities_of_node_and_instance_add_up(space):
    space.define(RANKS)
    expected = []
    for transition, priority, total in (("low", 0, 0), ("high", 0, 10), ("low", 15, 15),
                                        ("high", -8, 2), ("high", 6, 16), ("low", 4, 4)):
        id = space.start("ranks", priority=priority)
        space.transition(id, transition)
        expected.append((-total, id))
    given = [task.instance for task in space.ready("ranks", max_tasks=10)]
    assert given == [id for _, id in sorted(expected)]


def test_priority_holds_across_machines_and_nodes_for_a_worker_that_takes_all(space):
    space.define(JOB + "---\n" + PAIR)
    space.start("job", id="low", priority=1)
    space.start("pair", id="high", priority=2)
    assert [space.take().instance, space.take().instance] == ["high", "low"]


# Waiting --------------------------------------------------------------------------------------


def test_a_poll_is_answered_when_work_comes(space):
    space.define(JOB)
    began = now()
    poll = space.later("Ready", space.ready_request("job", wait=30), timeout=40)
    id = space.start("job")
    assert only(poll.result().tasks).instance == id
    assert now() - began < SOON


def test_a_poll_is_answered_when_a_transition_brings_work(space):
    space.define(PAIR)
    id = space.start("pair")
    poll = space.later("Ready", space.ready_request("pair", "second", wait=30), timeout=40)
    space.transition(id, "ok")
    assert only(poll.result().tasks).node == "second"


def test_a_poll_may_wait_for_a_machine_that_is_not_defined_yet(space):
    poll = space.later("Ready", space.ready_request("job", wait=30), timeout=40)
    space.ready("job")  # answered after the poll has come in
    space.define(JOB)
    id = space.start("job")
    assert only(poll.result().tasks).instance == id


def test_a_poll_ends_empty_when_its_wait_is_over(space):
    space.define(JOB)
    began = now()
    assert space.ready("job", wait=0.3) == []
    assert 0.25 < now() - began < SOON


def test_a_wait_that_is_too_long_is_clamped(space):
    space.define(JOB)
    id = space.start("job")
    assert only(space.ready("job", wait=7 * 24 * 3600.0)).instance == id


def test_one_task_goes_to_one_of_the_polls_that_wait(space):
    space.define(JOB)
    polls = [space.later("Ready", space.ready_request("job", wait=0.5)) for _ in range(20)]
    id = space.start("job")
    given = [task.instance for poll in polls for task in poll.result().tasks]
    assert given == [id]


def test_every_waiting_poll_gets_one_of_as_many_tasks(space):
    space.define(JOB)
    polls = [space.later("Ready", space.ready_request("job", wait=30), timeout=40)
             for _ in range(60)]
    ids = space.start_many("job", 60)
    given = [only(poll.result().tasks).instance for poll in polls]
    assert sorted(given) == sorted(ids)


def test_polls_with_different_filters_each_get_their_own(space):
    space.define(ROLES)
    by_queue = space.later("Ready", space.ready_request(queue="gpu", wait=30), timeout=40)
    by_action = space.later("Ready", space.ready_request(action="roles.plain", wait=30),
                            timeout=40)
    id = space.start("roles")
    plain = only(by_action.result().tasks)
    assert (plain.instance, plain.node) == (id, "plain")
    space.report(plain)
    assert only(by_queue.result().tasks).node == "special"


# Many workers ---------------------------------------------------------------------------------


def test_many_workers_on_one_queue_are_given_each_visit_once(space):
    space.define(LOOP)
    space.start_many("loop", 60)
    given, lock = [], threading.Lock()

    def work():
        while True:
            tasks = space.ready("loop", max_tasks=3, wait=0.4)
            if not tasks:
                return
            with lock:
                given.extend((task.instance, task.visit, task.attempt) for task in tasks)
            for task in tasks:
                space.report(task, "again" if task.visit < 5 else "ok")

    outcomes = together(*[work] * 8)
    assert outcomes == [None] * 8
    counts = collections.Counter((instance, visit) for instance, visit, _ in given)
    assert set(counts.values()) == {1} and len(counts) == 60 * 5
    assert {attempt for _, _, attempt in given} == {1}


# Polls that go away ---------------------------------------------------------------------------


@pytest.mark.parametrize("machine, source", [("job", JOB), ("once", ONCE)],
                         ids=["at least once", "at most once"])
def test_a_cancelled_poll_takes_nothing_with_it(space, machine, source):
    space.define(source)
    for _ in range(60):
        poll = space.later("Ready", space.ready_request(machine, wait=30), timeout=40)
        space.ready(machine)  # answered after the poll has come in
        poll.cancel()
        space.ready(machine)  # answered after the server has heard of it
        id = space.start(machine)
        task = space.take(machine)
        assert (task.instance, task.attempt) == (id, 1)
        space.report(task)


def test_a_poll_whose_deadline_passed_takes_nothing_with_it(space):
    space.define(ONCE)
    polls = [space.later("Ready", space.ready_request("once", wait=30), timeout=0.2)
             for _ in range(20)]
    for poll in polls:
        assert poll.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    space.ready("once")  # answered after the server has heard of it
    ids = space.start_many("once", 20)
    tasks = space.ready("once", max_tasks=20)
    assert sorted(task.instance for task in tasks) == sorted(ids)
    assert {task.attempt for task in tasks} == {1}


def test_a_poll_whose_connection_is_gone_takes_nothing_with_it(server, space):
    """At once where the server has noticed, by the timeout where it was just about to."""
    space.define(HASTY)
    channel = open_channel(server.address)
    runner = v1_grpc.RunnerServiceStub(channel)
    for _ in range(20):
        runner.Ready.future(space.ready_request("hasty", wait=30), timeout=40)
    runner.Ready(space.ready_request("hasty"), timeout=CALL)  # answered after the polls came in
    channel.close()
    ids = set(space.start_many("hasty", 20))
    while ids:
        tasks = space.ready("hasty", max_tasks=20, wait=SOON)
        assert tasks, f"{len(ids)} of 20 are lost"
        for task in tasks:
            space.report(task)
            ids.remove(task.instance)


def test_a_poll_cancelled_just_as_its_task_comes_loses_nothing(space):
    """Either the poll was answered, or the task goes to the next who asks: at once, as if never
    claimed, where the server could notice; by its timeout where the reply was on its way."""
    space.define(HASTY)
    source = random.Random(7)
    came_back = collections.Counter()
    for _ in range(80):
        poll = space.later("Ready", space.ready_request("hasty", wait=30), timeout=40)
        space.ready("hasty")  # answered after the poll has come in
        start = space.later("Start", space.start_request("hasty"))
        threading.Event().wait(source.uniform(0, 0.003))
        poll.cancel()
        id = start.result().instance.id
        try:
            tasks = list(poll.result().tasks)
        except (grpc.FutureCancelledError, grpc.RpcError):
            tasks = [space.take("hasty")]
        task = only(tasks)
        assert task.instance == id and task.attempt in (1, 2)
        came_back[task.attempt] += 1
        space.report(task)
        assert space.ready("hasty") == []
    assert came_back[1] > 0


def test_a_flood_of_cancelled_polls_leaves_the_server_in_order(space):
    space.define(JOB)
    for _ in range(5):
        polls = [space.later("Ready", space.ready_request("job", wait=30), timeout=40)
                 for _ in range(100)]
        for poll in polls:
            poll.cancel()
    id = space.start("job")
    assert space.take("job").instance == id


# Replies that fit -----------------------------------------------------------------------------


def test_tasks_with_large_params_come_in_replies_that_a_client_can_receive(space):
    space.define(JOB)
    params = '{"a":"' + "x" * 900_000 + '"}'
    ids = [space.start("job", params=params) for _ in range(9)]
    seen = []
    while len(seen) < len(ids):
        tasks = space.ready("job", max_tasks=9, wait=1)
        assert tasks, f"{len(seen)} of {len(ids)} were given"
        seen += [task.instance for task in tasks]
    assert sorted(seen) == sorted(ids)


# Bad requests ---------------------------------------------------------------------------------


@pytest.mark.parametrize("fields", [
    {"max_tasks": -1}, {"wait": -1.0}, {"machine": "a b"}, {"node": "-x"}, {"queue": "a/b"},
    {"worker": "w" * 257}, {"worker": "a\nb"}])
def test_a_request_that_makes_no_sense_is_refused(space, fields):
    with refused("INVALID_ARGUMENT", ("BAD_REQUEST", "TOO_LARGE")):
        space.ready(**fields)
