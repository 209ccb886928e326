"""Transition and Report: what moves, what is refused, what is answered again."""
import pytest

from stubs import v1
from support import (HASTY, JOB, LOOP, PAIR, Refusal, check_error, check_refusal, from_json, kind,
                     only, refused, result, state, together, token_state)

# With a claim ---------------------------------------------------------------------------------


def test_a_report_moves_the_instance_along_the_named_transition(space):
    space.define(PAIR)
    id = space.start("pair")
    reply = space.report(space.take("pair"), "ok")
    assert (reply.instance, reply.prev_node, reply.node, list(reply.nodes)) == (
        id, "first", "second", ["second"])
    assert reply.visit == 2
    assert not reply.repeated_report
    assert v1.Instance.State.Name(reply.state) == "RUNNING"
    token = space.token(id)
    assert (token.node, token.visit, token_state(token), token.attempt) == (
        "second", 2, "READY", 0)
    assert not token.claims


def test_a_visit_is_counted_for_each_entry_also_into_the_same_node(space):
    space.define(LOOP)
    id = space.start("loop")
    for visit in range(1, 6):
        task = space.take("loop")
        assert (task.visit, task.attempt) == (visit, 1)
        assert space.report(task, "again").visit == visit + 1
    assert space.token(id).visit == 6


def test_a_repeated_report_is_answered_as_before_whatever_else_it_holds(space):
    space.define(PAIR)
    id = space.start("pair")
    task = space.take("pair")
    with refused("INVALID_ARGUMENT", "BAD_PARAMS"):
        space.report(task, "ok", output="[1]")
    first = space.report(task, "ok")
    for more in ({"output": "[1]"}, {"node_params": "nonsense"}, {"node": "a b"},
                 {"error": "e" * 100_000}, {"client": "c" * 300}, {"wake_after": {"seconds": 1}},
                 {"children": [space.start_request("nowhere")]}):
        again = space.report(task, "ok", **more)
        assert again.repeated_report, more
        assert (again.node, again.visit) == (first.node, first.visit)
    assert len(space.walk(id)) == 1


def test_an_illegal_transition_is_refused_with_the_legal_ones_and_changes_nothing(space):
    space.define(PAIR)
    id = space.start("pair")
    task = space.take("pair")
    before = space.get(id)
    with refused("FAILED_PRECONDITION", "ILLEGAL_TRANSITION", "sideways", "first", "ok", "error"):
        space.report(task, "sideways")
    assert space.get(id) == before
    assert space.report(task, "ok").node == "second"


@pytest.mark.parametrize("transition", ["dfsmr.timeout", "dfsmr.exhausted", "dfsmr.upgraded"])
def test_nobody_may_report_a_system_transition(space, transition):
    space.define("""\
id: m
nodes:
  a: {start: true, max_visits: 3,
      transitions: {ok: a, dfsmr.timeout: b, dfsmr.exhausted: b}}
  b: {final: true}
""")
    id = space.start("m")
    task = space.take("m")
    for call in (lambda: space.report(task, transition), lambda: space.transition(id, transition)):
        with refused(("FAILED_PRECONDITION", "INVALID_ARGUMENT"),
                     ("ILLEGAL_TRANSITION", "BAD_REQUEST"), transition):
            call()
    assert space.token(id).visit == 1


def test_the_same_report_again_gets_the_same_answer(space):
    space.define(PAIR)
    space.start("pair")
    task = space.take("pair")
    first = space.report(task, "ok", node_params={"a": 1})
    again = space.report(task, "ok", node_params={"a": 2}, output={"b": 3}, error="other",
                         client="somebody else")
    assert again.repeated_report
    again.repeated_report = False
    assert again == first
    second = space.take("pair", "second")
    assert from_json(second.node_params) == {"a": 1}


def test_the_same_report_is_answered_the_same_also_long_after(space):
    space.define(PAIR)
    id = space.start("pair")
    task = space.take("pair")
    first = space.report(task, "ok")
    space.report(space.take("pair", "second"), "back")
    space.transition(id, "error")
    assert state(space.get(id)) == "STOPPED"
    again = space.report(task, "ok")
    assert again.repeated_report
    assert (again.prev_node, again.node, again.visit) == (first.prev_node, first.node, first.visit)
    assert (again.state, again.result) == (first.state, first.result)
    assert len(space.walk(id)) == 3


def test_another_report_of_the_same_claim_is_stale(space):
    space.define(PAIR)
    id = space.start("pair")
    task = space.take("pair")
    space.report(task, "ok")
    with refused("FAILED_PRECONDITION", "STALE_CLAIM", id):
        space.report(task, "error")
    assert space.token(id).node == "second"


def test_a_claim_is_stale_when_the_visit_is_over_even_on_the_same_node(space):
    space.define(LOOP)
    id = space.start("loop")
    task = space.take("loop")
    space.transition(id, "again")
    assert space.token(id).node == "turn"
    with refused("FAILED_PRECONDITION", "STALE_CLAIM", id):
        space.report(task, "again")


def test_a_claim_is_stale_when_the_instance_has_stopped(space):
    space.define(JOB)
    id = space.start("job")
    task = space.take("job")
    space.transition(id, "error")
    with refused("FAILED_PRECONDITION", "STALE_CLAIM", id):
        space.report(task, "ok")
    assert result(space.get(id)) == "ERROR"


def test_a_claim_is_good_for_its_own_instance_only(space):
    space.define(JOB)
    one, two = space.start("job"), space.start("job")
    task = space.take("job")
    assert task.instance == one
    with refused(("FAILED_PRECONDITION", "INVALID_ARGUMENT"), ("STALE_CLAIM", "BAD_REQUEST")):
        space.call("Transition", space.transition_request(two, "ok", claim=task.claim))
    assert token_state(space.token(two)) == "READY"
    with refused(("FAILED_PRECONDITION", "INVALID_ARGUMENT"), ("STALE_CLAIM", "BAD_REQUEST")):
        space.call("Transition", space.transition_request(two, "ok", claim="no claim at all"))
    assert token_state(space.token(two)) == "READY"


@pytest.mark.parametrize("field", ["node_params", "output"])
@pytest.mark.parametrize("text", ["{", "[]", "1", '"x"'])
def test_params_and_outputs_must_be_json_objects(space, field, text):
    space.define(PAIR)
    id = space.start("pair")
    task = space.take("pair")
    with refused("INVALID_ARGUMENT", "BAD_PARAMS"):
        space.report(task, "ok", **{field: text})
    assert space.token(id).visit == 1


def test_the_reporting_client_is_in_the_history(space):
    space.define(JOB)
    id = space.start("job")
    space.report(space.take("job"), "ok", client="worker-9")
    moved = only([c for c in space.history(id) if kind(c) == "TRANSITIONED"])
    assert moved.client == "worker-9"


# Without a claim ------------------------------------------------------------------------------


def test_from_outside_a_ready_node_may_be_moved(space):
    space.define(PAIR)
    id = space.start("pair")
    reply = space.transition(id, "ok", node_params={"a": 1})
    assert (reply.prev_node, reply.node, reply.visit) == ("first", "second", 2)
    assert space.ready("pair", "first") == []
    assert from_json(space.take("pair", "second").node_params) == {"a": 1}


def test_from_outside_a_claimed_node_may_be_moved_and_its_claims_become_stale(space):
    space.define(PAIR)
    id = space.start("pair")
    task = space.take("pair")
    space.transition(id, "ok")
    with refused("FAILED_PRECONDITION", "STALE_CLAIM", id):
        space.report(task, "ok")
    assert space.walk(id) == [("first", "ok", "second")]


def test_from_outside_the_node_may_be_named(space):
    space.define(PAIR)
    id = space.start("pair")
    assert space.transition(id, "ok", node="first").node == "second"
    with refused("FAILED_PRECONDITION", "ILLEGAL_TRANSITION", "first"):
        space.transition(id, "ok", node="first")
    with refused("NOT_FOUND", "NO_SUCH_NODE", "nowhere", "pair"):
        space.transition(id, "ok", node="nowhere")


def test_from_outside_what_leads_nowhere_is_refused(space):
    space.define(PAIR)
    id = space.start("pair")
    with refused("FAILED_PRECONDITION", "ILLEGAL_TRANSITION", "back", "first"):
        space.transition(id, "back")
    assert space.story(id) == ["STARTED"]


def test_from_outside_a_stopped_instance_is_left_alone(space):
    space.define(JOB)
    id = space.start("job")
    space.transition(id, "ok")
    with refused("FAILED_PRECONDITION", "INSTANCE_STOPPED", id):
        space.transition(id, "ok")
    assert space.story(id) == ["STARTED", "TRANSITIONED", "FINISHED"]


def test_an_instance_that_is_not_there_is_not_found(space):
    with refused("NOT_FOUND", "NO_SUCH_INSTANCE", "ghost"):
        space.transition("ghost", "ok")


# At the same time -----------------------------------------------------------------------------

FORK = """\
id: fork
nodes:
  work:
    start: true
    timeout_strategy: fixed
    timeout: 60.0
    transitions: {t0: e0, t1: e1, t2: e2, t3: e3, t4: e4, t5: e5, t6: e6, t7: e7}
""" + "".join(f"  e{i}: {{final: true}}\n" for i in range(8))


def accepted_and_refused(outcomes):
    fine = [o for o in outcomes if not isinstance(o, Exception)]
    return fine, [Refusal(o) for o in outcomes if isinstance(o, Exception)]


def test_of_different_reports_of_one_visit_exactly_one_is_accepted(space):
    space.define(FORK)
    for _ in range(10):
        id = space.start("fork")
        task = space.take("fork")
        outcomes = together(*[lambda t=f"t{i}": space.report(task, t) for i in range(8)])
        fine, refusals = accepted_and_refused(outcomes)
        accepted = only(fine)
        assert len(refusals) == 7
        for refusal in refusals:
            check_refusal(refusal, "FAILED_PRECONDITION", "STALE_CLAIM", id)
        assert [step[2] for step in space.walk(id)] == [accepted.node]


def test_of_different_moves_from_outside_exactly_one_is_accepted(space):
    space.define(FORK)
    for _ in range(10):
        id = space.start("fork")
        outcomes = together(*[lambda t=f"t{i}": space.transition(id, t) for i in range(8)])
        fine, refusals = accepted_and_refused(outcomes)
        for refusal in refusals:
            check_refusal(refusal, "FAILED_PRECONDITION", "INSTANCE_STOPPED", id)
        assert [step[2] for step in space.walk(id)] == [only(fine).node]


def test_of_the_same_report_at_once_all_get_the_same_answer_and_one_is_the_first(space):
    space.define(LOOP)
    for _ in range(10):
        id = space.start("loop")
        task = space.take("loop")
        outcomes = together(*[lambda: space.report(task, "again")] * 8)
        assert sorted(reply.repeated_report for reply in outcomes) == [False] + [True] * 7
        assert {reply.visit for reply in outcomes} == {2}
        assert len(space.walk(id)) == 1
        space.transition(id, "ok")


# Report ---------------------------------------------------------------------------------------


def test_each_item_of_a_report_succeeds_or_fails_alone_and_in_order(space):
    space.define(PAIR)
    space.start_many("pair", 4)
    a, b, c, d = space.ready("pair", max_tasks=4)
    space.transition(c.instance, "ok")
    reply = space.report_all([
        space.report_request(a, "ok"),
        space.report_request(b, "sideways"),
        space.report_request(c, "ok"),
        space.transition_request("ghost", "ok"),
        space.report_request(d, "error"),
        space.report_request(a, "ok"),
        space.report_request(a, "error"),
    ])
    assert not reply.tasks
    first, illegal, stale, ghost, failed, again, other = reply.results
    assert first.accepted.node == "second" and not first.accepted.repeated_report
    check_error(illegal.error, "FAILED_PRECONDITION", "ILLEGAL_TRANSITION", "sideways")
    check_error(stale.error, "FAILED_PRECONDITION", "STALE_CLAIM", c.instance)
    check_error(ghost.error, "NOT_FOUND", "NO_SUCH_INSTANCE", "ghost")
    assert failed.accepted.node == "failed"
    assert v1.Instance.Result.Name(failed.accepted.result) == "ERROR"
    assert again.accepted.node == "second" and again.accepted.repeated_report
    check_error(other.error, "FAILED_PRECONDITION", "STALE_CLAIM", a.instance)


def test_the_next_tasks_are_answered_after_the_reports(space):
    space.define(PAIR)
    id = space.start("pair")
    task = space.take("pair")
    reply = space.report_all([space.report_request(task, "ok")], machine="pair")
    following = only(reply.tasks)
    assert (following.instance, following.node) == (id, "second")
    assert only(reply.results).accepted.node == "second"


def test_a_whole_instance_is_driven_by_reports(space):
    space.define(LOOP)
    id = space.start("loop")
    task = only(space.report_all([], machine="loop").tasks)
    for _ in range(20):
        task = only(space.report_all([space.report_request(task, "again")], machine="loop").tasks)
    space.report_all([space.report_request(task, "ok")])
    assert state(space.get(id)) == "STOPPED" and len(space.walk(id)) == 21


def test_a_report_waits_for_its_next_tasks_only_while_there_are_none(space):
    space.define(PAIR)
    space.start("pair")
    task = space.take("pair")
    poll = space.later("Report", v1.ReportRequest(
        transitions=[space.report_request(task, "ok")],
        next=space.ready_request("pair", "first", wait=30)), timeout=40)
    space.await_change("TRANSITIONED", instance=task.instance)  # done though the reply waits
    other = space.start("pair")
    reply = poll.result()
    assert only(reply.results).accepted.node == "second"
    assert only(reply.tasks).instance == other


def test_a_report_whose_wait_ends_without_work_has_its_results(space):
    space.define(JOB)
    space.start("job")
    task = space.take("job")
    reply = space.report_all([space.report_request(task)], machine="job", wait=0.2)
    assert only(reply.results).accepted.node == "done" and not reply.tasks


def test_a_report_of_nothing_that_asks_for_nothing_is_empty(space):
    reply = space.report_all([])
    assert not reply.results and not reply.tasks


def test_a_report_may_have_a_thousand_items(space):
    space.define(JOB)
    ids = space.start_many("job", 1000)
    tasks = space.ready("job", max_tasks=1000)
    reply = space.report_all([space.report_request(task) for task in tasks])
    assert [r.accepted.instance for r in reply.results] == ids
    assert {r.accepted.node for r in reply.results} == {"done"}


def test_the_items_of_a_report_may_lie_in_different_namespaces(server, space):
    other = server.space(space.name + "-other")
    reports = []
    for where in (space, other):
        where.define(JOB)
        where.start("job", id="mine")
        reports.append(where.report_request(where.take("job")))
    reply = space.report_all(reports)
    assert [r.accepted.node for r in reply.results] == ["done", "done"]
    assert {state(where.get("mine")) for where in (space, other)} == {"STOPPED"}


def test_a_late_report_may_still_win(space):
    space.define(HASTY)
    id = space.start("hasty")
    task = space.take("hasty")
    space.await_change("TIMED_OUT", instance=id)
    assert space.report(task, "ok").node == "done"
    assert state(space.get(id)) == "STOPPED"
