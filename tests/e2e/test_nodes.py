"""Delay, manual and final nodes, and limits on visits."""
import pytest

from support import (SOON, eventually, from_json, kind, now, only, refused, result, seconds, state,
                     token_state)


def delayed(delay, more=""):
    return f"""\
id: delayed
nodes:
  work: {{start: true, transitions: {{again: rest, ok: done}}}}
  rest: {{delay: {delay}, {more}transitions: {{ok: work}}}}
  done: {{final: true}}
"""


def enter_delay(space, id):
    """Sends the instance to rest; returns how long it is to wait there."""
    began = now()
    space.transition(id, "again")
    token = space.token(id)
    assert (token.node, token_state(token)) == ("rest", "WAITING")
    return seconds(token.available_at) - began


# Delay ----------------------------------------------------------------------------------------


def test_a_delay_waits_and_then_takes_ok_by_itself(space):
    space.define(delayed("400ms"))
    id = space.start("delayed")
    began = now()
    space.report(space.take("delayed"), "again", node_params={"a": 1})
    assert abs(seconds(space.token(id).available_at) - began - 0.4) < 0.3
    assert space.ready("delayed") == []
    task = space.take("delayed")
    assert now() - began >= 0.39
    assert (task.node, task.visit, task.attempt) == ("work", 3, 1)
    assert space.walk(id) == [("work", "again", "rest"), ("rest", "ok", "work")]


def test_a_delay_may_be_the_start(space):
    space.define("id: m\nnodes: {a: {start: true, delay: 200ms, transitions: {ok: z}},"
                 " z: {final: true}}\n")
    id = space.start("m")
    assert token_state(space.token(id)) == "WAITING"
    space.await_change("FINISHED", instance=id)
    assert (state(space.get(id)), result(space.get(id))) == ("STOPPED", "SUCCESS")


def test_ok_from_outside_ends_the_wait_early(space):
    space.define(delayed("1h"))
    id = space.start("delayed")
    assert abs(enter_delay(space, id) - 3600) < 1
    reply = space.transition(id, "ok", node_params={"early": True})
    assert (reply.prev_node, reply.node) == ("rest", "work")
    assert from_json(space.take("delayed").node_params) == {"early": True}


def test_a_wait_that_was_ended_early_does_not_ring_later(space):
    space.define(delayed("400ms"))
    id = space.start("delayed")
    enter_delay(space, id)
    space.transition(id, "ok")
    space.take("delayed")
    assert space.ready("delayed", wait=0.6) == []
    assert len(space.walk(id)) == 2


def test_a_delay_knows_no_other_transition(space):
    space.define(delayed("1h"))
    id = space.start("delayed")
    enter_delay(space, id)
    with refused("FAILED_PRECONDITION", "ILLEGAL_TRANSITION", "error", "rest"):
        space.transition(id, "error")


def test_a_delay_grows_with_the_visits_to_its_node_up_to_its_maximum(space):
    space.define(delayed("{initial: 10s, factor: 3, max: 2m}"))
    id = space.start("delayed")
    for expected in (10, 30, 90, 120, 120):
        assert abs(enter_delay(space, id) - expected) < 1
        space.transition(id, "ok")


def test_each_instance_counts_its_own_visits(space):
    space.define(delayed("{initial: 10s, factor: 3, max: 2m}"))
    for _ in range(2):
        id = space.start("delayed")
        assert abs(enter_delay(space, id) - 10) < 1
        space.transition(id, "ok")
        assert abs(enter_delay(space, id) - 30) < 1


def test_a_delay_with_jitter_stays_within_its_share(space):
    space.define(delayed("{initial: 100s, jitter: 0.2}"))
    waits = []
    for _ in range(30):
        waits.append(enter_delay(space, space.start("delayed")))
    assert all(79 < wait < 121 for wait in waits), waits
    assert max(waits) - min(waits) > 4


@pytest.mark.parametrize("text, expected", [
    ("1500ms", 1.5), ("30s", 30), ("5m", 300), ("2h", 7200), ("7d", 604800), ("0.5h", 1800)])
def test_durations_are_numbers_with_a_unit(space, text, expected):
    space.define(delayed(text))
    assert abs(enter_delay(space, space.start("delayed")) - expected) < 1


def test_many_waits_end_in_the_order_of_their_times(space):
    space.define(delayed("300ms"))
    ids = [space.start("delayed") for _ in range(40)]
    for id in ids:
        space.transition(id, "again")
    order = []
    while len(order) < 40:
        tasks = space.ready("delayed", max_tasks=40, wait=SOON)
        assert tasks, f"{len(order)} of 40 came back"
        order += [task.instance for task in tasks]
    assert order == ids


# Manual ---------------------------------------------------------------------------------------

APPROVAL = """\
id: approval
nodes:
  ask: {start: true, manual: true, transitions: {approve: work, reject: rejected}}
  work: {transitions: {ok: done}}
  done: {final: true}
  rejected: {final: true, result: warning}
"""


def test_a_manual_node_waits_for_a_transition_from_outside(space):
    space.define(APPROVAL)
    id = space.start("approval")
    assert token_state(space.token(id)) == "WAITING"
    assert space.ready("approval", wait=0.2) == []
    reply = space.transition(id, "approve", node_params={"by": "me"}, client="boss")
    assert (reply.prev_node, reply.node) == ("ask", "work")
    assert from_json(space.take("approval").node_params) == {"by": "me"}
    moved = only([c for c in space.history(id) if kind(c) == "TRANSITIONED"])
    assert moved.client == "boss"


def test_a_manual_node_refuses_what_it_does_not_list(space):
    space.define(APPROVAL)
    id = space.start("approval")
    with refused("FAILED_PRECONDITION", "ILLEGAL_TRANSITION", "ok", "ask", "approve", "reject"):
        space.transition(id, "ok")
    space.transition(id, "reject")
    assert result(space.get(id)) == "WARNING"


def test_waiting_nodes_are_counted(space):
    space.define(APPROVAL)
    for _ in range(3):
        space.start("approval")
    assert eventually(lambda: space.node("approval", "ask").stats.waiting == 3)


# Limits on visits -----------------------------------------------------------------------------

RETRYING = """\
id: retrying
nodes:
  work: {start: true, transitions: {ok: done, error: rest}}
  rest:
    delay: {initial: 1ms, factor: 2, max: 5ms}
    max_visits: 2
    transitions: {ok: work, dfsmr.exhausted: failed}
  done: {final: true}
  failed: {final: true, result: error}
"""
CAPPED = """\
id: capped
nodes:
  work: {start: true, max_visits: 3, transitions: {again: work, ok: done, dfsmr.exhausted: rescue}}
  rescue: {transitions: {ok: done, back: work}}
  done: {final: true}
"""


def test_the_entry_after_max_visits_is_diverted_at_once(space):
    space.define(RETRYING)
    id = space.start("retrying")
    for _ in range(2):
        assert space.report(space.take("retrying"), "error").node == "rest"
    reply = space.report(space.take("retrying"), "error")
    assert reply.node == "failed"
    instance = space.get(id)
    assert (state(instance), result(instance)) == ("STOPPED", "ERROR")
    assert only(instance.tokens).node == "failed"
    assert [node for _, _, node in space.walk(id)].count("rest") <= 3


def test_max_visits_counts_the_entries_into_a_work_node(space):
    space.define(CAPPED)
    id = space.start("capped")
    for visit in (1, 2, 3):
        task = space.take("capped")
        assert (task.node, task.visit) == ("work", visit)
        reply = space.report(task, "again")
    assert reply.node == "rescue"
    task = space.take("capped")
    assert (task.node, task.visit) == ("rescue", 4)  # the diverted entry was none
    assert space.report(task, "back").node == "rescue"
    assert space.token(id).visit == 5


def test_a_retried_attempt_is_no_entry(space):
    space.define(CAPPED)
    space.start("capped")
    for _ in range(6):
        task = space.take("capped")
        assert task.node == "work"
        space.relinquish(task.instance, task.claim)
    assert space.take("capped").visit == 1


def test_each_instance_has_its_own_limit(space):
    space.define(CAPPED)
    for _ in range(2):
        id = space.start("capped")
        for _ in range(2):
            assert space.transition(id, "again").node == "work"
        assert space.transition(id, "again").node == "rescue"
