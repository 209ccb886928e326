"""Plans that run: steps, events, failing, finalize, cancel, planners, singletons, hooks."""
import json

import grpc
import pytest

from stubs import v1
from support import (SOON, Refusal, check_error, check_refusal, eventually, finalize_state,
                     from_json, input_of, kind, now, only, outputs, refused, result, seconds, state,
                     step_state, token_state)

FINAL = "action: f\nphases: [run, finalize]\n---\n"
TWO = "plan: p\nflow:\n  - {step: a, action: x}\n  - {step: b, action: y}\n"
LINE = "plan: p\nflow:\n  sequence: [{step: a, action: x}, {step: b, action: y}]\n"
ONE = "plan: p\nflow: [{step: a, action: x}]\n"


def action(text):
    return f"action: x\n{text}\n---\n"


def flow(*lines, top=""):
    return f"plan: p\n{top}flow:\n" + "".join(f"  - {line}\n" for line in lines)


@pytest.fixture
def run(space):
    """Defines a source and starts its plan p; the instance's id, once it is planned."""
    def begin(source, params=None, **more):
        space.define(source)
        return space.plan("p", params=params, **more)
    return begin


def standing(space, id):
    instance = space.get(id)
    return state(instance), result(instance)


def is_paused(space, id):
    return state(space.get(id)) == "PAUSED"


def await_held(space, id, path):
    """Asks for work until that step has failed for lack of something; its error."""
    def held():
        assert path not in {task.node for task in space.ready(max_tasks=100)}
        step = space.step(id, path)
        return step_state(step) == "HELD" and step.error
    return eventually(held)


def does_not_plan(space, start):
    """Start is refused or, if it isn't, the instance has stopped with ERROR and never was ready;
    the reason it gave."""
    try:
        id = start()
    except grpc.RpcError as error:
        refusal = Refusal(error)
        check_refusal(refusal, "INVALID_ARGUMENT", ("BAD_MACHINE", "BAD_REQUEST", "BAD_PARAMS"))
        return refusal.message
    eventually(lambda: state(space.get(id)) == "STOPPED")
    assert standing(space, id) == ("STOPPED", "ERROR")
    assert space.ready(max_tasks=10) == []
    return space.get(id).error


# Ok, and what comes next -----------------------------------------------------------------------


def test_a_plan_runs_from_step_to_step_to_its_end(space, run):
    id = run(LINE)
    assert standing(space, id) == ("RUNNING", "PENDING")
    space.do("a")
    assert space.step_states(id) == {"a": "DONE", "b": "READY"}
    reply = space.report(only(space.claim("b")))
    assert (reply.state, reply.result) == (v1.Instance.STOPPED, v1.Instance.SUCCESS)
    instance = space.ends(id, "SUCCESS")
    assert instance.HasField("end_time")
    token = only(instance.tokens)
    assert (token.node, token_state(token)) == ("/end", "DONE")
    assert space.story(id)[0] == "STARTED" and space.story(id)[-1] == "FINISHED"


def test_the_walk_of_a_plan_is_in_its_history(space, run):
    id = run(LINE)
    space.do("a")
    space.do("b")
    walk = space.walk(id)
    assert [(one[0], one[1]) for one in walk if one[0] in ("a", "b")] == [("a", "ok"), ("b", "ok")]
    visits = [change.visit for change in space.history(id) if kind(change) == "TRANSITIONED"]
    assert len(set(visits)) == len(visits)


def test_steps_that_nothing_orders_are_ready_together(space, run):
    id = run(TWO)
    tokens = {token.node: token_state(token) for token in space.get(id).tokens}
    assert tokens == {"a": "READY", "b": "READY"}
    a, b = space.claim("a", "b")
    space.report(b)
    assert standing(space, id) == ("RUNNING", "PENDING")
    space.report(a)
    space.ends(id, "SUCCESS")


def test_a_join_opens_when_the_last_has_come(space, run):
    id = run(flow(*(f"{{step: s{i}, action: x}}" for i in range(5)),
                  "{step: z, action: z, after: [s0, s1, s2, s3, s4]}"))
    tasks = space.claim("s0", "s1", "s2", "s3", "s4")
    for task in tasks[:4]:
        space.report(task)
        assert space.ready() == []
    space.report(tasks[4])
    space.do("z")
    space.ends(id, "SUCCESS")


def test_a_sequence_of_concurrences(space, run):
    id = run("""\
plan: p
flow:
  sequence:
    - [{step: a, action: x}, {step: b, action: x}]
    - [{step: c, action: x}, {step: d, action: x}]
    - {step: e, action: x}
""")
    a, b = space.claim("a", "b")
    space.report(a)
    assert space.idle(0)
    space.report(b)
    space.do("c", "d")
    space.do("e")
    space.ends(id, "SUCCESS")


def test_the_task_of_a_step_tells_what_it_is(space, run):
    id = run(action("queue: slow\ntimeout_strategy: fixed\ntimeout: 30") + flow(
        "{step: a, action: x, input: {n: 1, who: '${params.who}', me: '${instance.id}'}}"),
        params={"who": "ann"})
    began = now()
    task = space.take("p", "a", action="x", queue="slow", worker="w")
    assert (task.namespace, task.instance, task.machine, task.version, task.node) == (
        space.name, id, "p", 1, "a")
    assert (task.phase, task.action, task.queue) == ("run", "x", "slow")
    assert (task.event, from_json(task.event_data), list(task.middleware)) == ("", {}, [])
    assert input_of(task) == {"n": 1, "who": "ann", "me": id}
    assert from_json(task.instance_params) == {"who": "ann"}
    assert task.visit and task.attempt == 1 and task.claim
    assert abs(seconds(task.deadline) - began - 30) < SOON


def test_steps_are_asked_for_by_action_and_by_queue(space, run):
    run("action: y\nqueue: slow\n---\n" + TWO)
    assert space.ready(action="z") == [] and space.ready(queue="fast") == []
    assert only(space.ready(action="y", max_tasks=5)).node == "b"
    assert only(space.ready(queue="default", max_tasks=5)).node == "a"


def test_a_stream_hands_out_steps_and_takes_reports(space, run):
    id = run(LINE)
    with space.work(machine="p", max_tasks=5) as stream:
        task = only(stream.await_tasks(1))
        assert (task.node, task.phase) == ("a", "run")
        assert only(stream.report(task)).accepted.nodes == ["b"]
        stream.report(stream.await_tasks(2)[1])
    space.ends(id, "SUCCESS")


def test_the_reply_to_a_report_names_all_nodes_that_were_entered(space, run):
    run(flow("{step: a, action: x}", "{step: b, action: y, after: [a]}",
             "{step: c, action: y, after: [a]}"))
    reply = space.report(only(space.claim("a")))
    assert reply.prev_node == "a"
    assert {"b", "c"} <= set(reply.nodes) and reply.node == reply.nodes[0]


def test_the_same_report_again_is_answered_the_same(space, run):
    run(LINE)
    task = only(space.claim("a"))
    first, second = space.report(task), space.report(task)
    assert not first.repeated_report and second.repeated_report
    assert (first.node, first.visit) == (second.node, second.visit)
    with refused("FAILED_PRECONDITION", "STALE_CLAIM"):
        space.report(task, "error")


def test_a_step_whose_worker_died_is_handed_out_again_and_that_is_no_failure(space, run):
    id = run(action("timeout_strategy: fixed\ntimeout: 0.3") + ONE)
    task = only(space.claim("a"))
    again = space.take()
    assert (again.node, again.visit, again.attempt) == ("a", task.visit, 2)
    assert step_state(space.step(id, "a")) == "RUNNING"
    space.report(again)
    space.ends(id, "SUCCESS")


def test_a_step_that_is_relinquished_is_ready_again(space, run):
    id = run(TWO)
    a, b = space.claim("a", "b")
    space.relinquish(id, a.claim)
    space.report(only(space.claim("a")))
    space.report(b)
    space.ends(id, "SUCCESS")


def test_steps_tell_their_state_times_and_progress(space, run):
    id = run(LINE)
    assert space.step_states(id) == {"a": "READY", "b": "PENDING"}
    began = now()
    task = only(space.claim("a"))
    assert step_state(space.step(id, "a")) == "RUNNING"
    space.extend(task, by=60, progress=0.25)
    assert space.step(id, "a").progress == 0.25
    space.report(task)
    a, b = space.steps(id).values()
    assert (step_state(a), a.progress, step_state(b), b.progress) == ("DONE", 1, "READY", 0)
    assert abs(seconds(a.start_time) - began) < SOON and a.HasField("end_time")
    assert seconds(a.end_time) >= seconds(a.start_time)
    assert not b.HasField("end_time")


def test_instances_are_listed_by_the_step_where_they_stand(space, run):
    one, two = run(LINE), run(LINE)
    task = space.take()
    space.report(task)
    other = {one, two} - {task.instance}
    assert {i.id for i in space.instances(machine="p", node="b").instances} == {task.instance}
    assert {i.id for i in space.instances(machine="p", node="a").instances} == other


def test_a_step_without_anything_to_do_before_it_may_finish_the_plan_by_events_alone(space, run):
    id = run(LINE)
    space.transition(id, "ok", node="a")
    space.transition(id, "ok")  # only one token
    space.ends(id, "SUCCESS")


# References ------------------------------------------------------------------------------------


def test_a_reference_alone_keeps_the_type_and_in_a_text_it_is_text(space, run):
    run(flow("{step: a, action: x}", """{step: b, action: y, input: {
        int: "${a.output.int}", big: "${a.output.big}", text: "${a.output.text}",
        list: "${a.output.list}", object: "${a.output.object}", yes: "${a.output.yes}",
        nothing: "${a.output.nothing}", all: "${a.output}", second: "${a.output.list[1].name}",
        line: "${a.output.text}: ${a.output.int}, ${a.output.yes}, ${params.n}!",
        plain: "no reference", number: 7, nested: [{deep: "${a.output.int}"}]}}"""),
        params='{"n": 1.50}')
    put_out = ('{"int":3,"big":12345678901234567890.10,"text":"t","list":[0,{"name":"x"}],'
               '"object":{"k":[1]},"yes":true,"nothing":null}')
    space.do("a", output=put_out)
    text = only(space.claim("b")).node_params
    value = json.loads(text)
    assert value == {
        "int": 3, "big": json.loads("12345678901234567890.10"), "text": "t",
        "list": [0, {"name": "x"}], "object": {"k": [1]}, "yes": True, "nothing": None,
        "all": json.loads(put_out), "second": "x", "line": "t: 3, true, 1.50!",
        "plain": "no reference", "number": 7, "nested": [{"deep": 3}]}
    assert "12345678901234567890.10" in text, "numbers keep their text"


def test_params_are_referred_to_by_keys_and_indexes(space, run):
    run(flow("""{step: a, action: x, input: {
        one: "${params.deep.list[0]}", all: "${params}",
        in_text: "${params.deep.list[1].k}/x"}}"""),
        params={"deep": {"list": [True, {"k": "v"}]}})
    assert input_of(only(space.claim("a"))) == {
        "one": True, "all": {"deep": {"list": [True, {"k": "v"}]}}, "in_text": "v/x"}


@pytest.mark.parametrize("reference, output", [
    ("a.output.ip", {}), ("a.output.ip", {"pi": 1}), ("a.output.list[2]", {"list": [0, 1]}),
    ("a.output.ip.v4", {"ip": "text"}), ("a.output.list[0]", {"list": {"0": 1}})])
def test_a_reference_that_is_missing_fails_the_step_that_wants_it_by_name(
        space, run, reference, output):
    wants = "{step: b, action: y, input: {v: '${REFERENCE}'}}".replace("REFERENCE", reference)
    id = run(flow("{step: a, action: x}", wants,
                  "{step: c, action: z, after: [a]}"))
    space.do("a", output=output)
    space.report(space.take(action="z"))
    error = await_held(space, id, "b")
    assert reference in error, error
    eventually(lambda: is_paused(space, id))
    space.skip(id, "b")
    space.ends(id, "WARNING")


@pytest.mark.parametrize("names, told", [
    (["x", "y"], ["${s.output[2].ip}: the output of the steps of s has no [2].ip"]),
    ([], ["there is no [2].ip", "was empty"])])
def test_a_missing_reference_to_several_steps_is_told_by_name(space, run, names, told):
    id = run(flow("concurrence: {for_each: '${params.names}', as: n, do: {step: s, action: x}}",
                  "{step: b, action: y, input: {v: '${s.output[2].ip}'}}"),
             params={"names": names})
    for task in space.claim(*(f"s.{number}" for number in range(len(names)))):
        space.report(task, output={"ip": 1})
    error = await_held(space, id, "b")
    assert all(text in error for text in told), error


def test_params_that_are_missing_fail_the_step_by_name(space, run):
    id = run(flow("{step: a, action: x, input: {v: '${params.nowhere}'}}",
                  "{step: b, action: y}"))
    space.report(space.take(action="y"))
    assert "params.nowhere" in await_held(space, id, "a")


def test_references_are_resolved_when_the_step_is_handed_out(space, run):
    id = run(flow("{step: a, action: x}", "{step: b, action: y, input: {v: '${a.output.v}'}}"))
    space.do("a", output={"v": 1})
    space.fail("b")
    space.resume(id)
    assert input_of(only(space.claim("b"))) == {"v": 1}


def test_outputs_go_by_step(space, run):
    id = run(FINAL + flow("{step: a, action: f}", "{step: b, action: y, after: [a]}"))
    space.do("a", output={"n": 1})
    space.do("b", output={"n": 2})
    space.do("a/finalize", output={"n": 3})
    assert outputs(space.ends(id, "SUCCESS")) | {"a/finalize": None} == {
        "a": {"n": 1}, "b": {"n": 2}, "a/finalize": None}


def test_the_label_of_a_plan_is_filled_in(space, run):
    id = run(ONE.replace("flow", 'label: "job ${params.n} of ${params.who}"\nflow'),
             params={"n": 3, "who": "ann"})
    assert space.get(id).label == "job 3 of ann"


# Suspend, events -------------------------------------------------------------------------------


def test_a_suspended_step_waits_for_an_event_and_gets_it(space, run):
    id = run(TWO)
    a, b = space.claim("a", "b")
    space.suspend(a, output={"ticket": 7})
    assert step_state(space.step(id, "a")) == "SUSPENDED"
    token = only([t for t in space.get(id).tokens if t.node == "a/suspended"])
    assert token_state(token) == "WAITING"
    assert outputs(space.get(id))["a"] == {"ticket": 7}
    assert space.idle()
    space.event(id, "approve", "a", {"by": "ann", "n": 1})
    task = only(space.claim("a"))
    assert (task.event, from_json(task.event_data), task.phase) == (
        "approve", {"by": "ann", "n": 1}, "run")
    space.report(task)
    space.report(b)
    space.ends(id, "SUCCESS")


def test_suspending_and_waking_are_in_the_history(space, run):
    id = run(ONE)
    space.suspend(only(space.claim("a")))
    space.event(id, "go", "a")
    kinds = space.story(id)
    assert "SUSPENDED" in kinds and "WOKEN" in kinds
    assert kinds.index("SUSPENDED") < kinds.index("WOKEN")


def test_a_step_may_suspend_again_and_again(space, run):
    id = run(ONE)
    for number in range(5):
        task = only(space.claim("a"))
        assert task.event == (f"e{number}" if number else "")
        space.suspend(task)
        space.event(id, f"e{number + 1}", "a")
    space.do("a")
    space.ends(id, "SUCCESS")


def test_events_that_arrive_while_it_runs_wait_in_order_and_come_one_at_a_time(space, run):
    id = run(ONE)
    task = only(space.claim("a"))
    for number in range(4):
        space.event(id, f"e{number}", "a", {"n": number})
    assert space.idle(0), "a step that runs is not handed out a second time"
    for number in range(4):
        space.suspend(task)
        task = only(space.claim("a"))
        assert (task.event, from_json(task.event_data)) == (f"e{number}", {"n": number})
    space.suspend(task)
    assert step_state(space.step(id, "a")) == "SUSPENDED"


def test_an_event_goes_to_the_step_that_is_named(space, run):
    id = run(TWO)
    for task in space.claim("a", "b"):
        space.suspend(task)
    space.event(id, "go", "b/suspended")
    assert only(space.claim("b")).event == "go"
    with refused("FAILED_PRECONDITION", "AMBIGUOUS_NODE"):
        space.event(id, "go")
    with refused("NOT_FOUND", "NO_SUCH_NODE", "nowhere"):
        space.event(id, "go", "nowhere")


def test_an_event_to_the_only_step_needs_no_name(space, run):
    id = run(ONE)
    space.suspend(only(space.claim("a")))
    space.event(id, "go")
    assert only(space.claim("a")).event == "go"


def test_events_after_the_end_of_a_step_are_refused(space, run):
    id = run(LINE)
    space.do("a")
    with refused("FAILED_PRECONDITION", "ILLEGAL_TRANSITION", "a"):
        space.event(id, "go", "a")
    space.do("b")
    with refused("FAILED_PRECONDITION", "INSTANCE_STOPPED", id):
        space.event(id, "go", "a")


def test_events_before_the_step_is_reached_are_refused(space, run):
    id = run(LINE)
    with refused("FAILED_PRECONDITION", "ILLEGAL_TRANSITION", "b"):
        space.event(id, "go", "b")


def test_events_that_nobody_took_are_gone_with_the_step(space, run):
    id = run(LINE)
    task = only(space.claim("a"))
    space.event(id, "late", "a")
    space.report(task)
    assert only(space.claim("b")).event == ""


def test_events_are_durable(new_server):
    server = new_server().start()
    space = server.space("")
    space.define(ONE)
    id = space.plan("p")
    task = only(space.claim("a"))
    for number in range(3):
        space.event(id, f"e{number}", "a", {"n": number})
    server.kill()
    server.start()
    for number in range(3):
        space.suspend(task)
        server.kill()
        server.start()
        task = space.take()
        assert (task.event, from_json(task.event_data)) == (f"e{number}", {"n": number})
    space.report(task)
    space.ends(id, "SUCCESS")


def test_a_suspended_step_may_wake_by_itself(space, run):
    run(ONE)
    began = now()
    space.suspend(only(space.claim("a")), wake_after=0.3)
    assert space.ready() == []
    task = space.take()
    assert (task.node, task.event) == ("a", "wake")
    assert now() - began >= 0.28


def test_an_event_comes_before_the_waking_and_the_waking_is_gone(space, run):
    id = run(ONE)
    space.suspend(only(space.claim("a")), wake_after=0.3)
    space.event(id, "go", "a")
    task = only(space.claim("a"))
    assert task.event == "go"
    space.suspend(task)
    assert space.idle(0.6)


def test_a_waking_outlives_the_server(new_server):
    server = new_server().start()
    space = server.space("")
    space.define(ONE)
    space.plan("p")
    space.suspend(only(space.claim("a")), wake_after=0.5)
    server.kill()
    server.start()
    assert space.take().event == "wake"


def test_a_suspension_longer_than_a_fixed_timeout_wakes_with_timeout(space, run):
    id = run(action("timeout_strategy: fixed\ntimeout: 1.0") + ONE)
    task = only(space.claim("a"))
    began = now()
    space.suspend(task)
    task = space.take()
    assert (task.node, task.event) == ("a", "timeout")
    assert now() - began >= 0.95
    assert "error" not in {transition for _, transition, _ in space.walk(id)}
    space.report(task)
    space.ends(id, "SUCCESS")


def test_what_comes_too_late_for_a_suspended_claim_is_stale(space, run):
    run(ONE)
    task = only(space.claim("a"))
    space.suspend(task)
    with refused("FAILED_PRECONDITION", "STALE_CLAIM"):
        space.report(task)


# Polling ---------------------------------------------------------------------------------------

POLL = action("poll: {intervals: [100ms, 400ms], per_interval: 2, max_failures: 3}") + ONE


def test_a_polled_step_is_handed_out_again_at_its_intervals_until_it_is_ok(space, run):
    id = run(POLL)
    task = only(space.claim("a"))
    assert task.event == ""
    waits = []
    for _ in range(5):
        began = now()
        space.suspend(task)
        task = space.take()
        assert (task.node, task.event, task.phase) == ("a", "poll", "run")
        waits.append(now() - began)
    assert all(wait >= least - 0.02 for wait, least in zip(waits, [0.1, 0.1, 0.4, 0.4, 0.4])), waits
    assert sum(waits[:2]) < 0.8, waits
    space.report(task, output={"done": True})
    assert outputs(space.ends(id, "SUCCESS"))["a"] == {"done": True}


def test_errors_of_polls_in_a_row_fail_the_step_and_a_good_one_forgives_them(space, run):
    id = run(POLL)
    task = only(space.claim("a"))
    space.suspend(task)
    for verdict in ("error", "error", "suspend", "error", "error", "error"):
        task = space.take()
        assert task.event == "poll"
        space.report(task, verdict, **({"error": "no answer"} if verdict == "error" else {}))
    step = space.step(id, "a")
    assert (step_state(step), is_paused(space, id)) == ("HELD", True)
    assert "no answer" in step.error
    assert space.idle(0.6)


def test_an_error_of_the_first_run_is_none_of_a_poll(space, run):
    id = run(POLL)
    space.fail("a")
    assert step_state(space.step(id, "a")) == "HELD"


def test_wake_after_goes_before_the_interval(space, run):
    run(action("poll: {intervals: [1h]}") + ONE)
    space.suspend(only(space.claim("a")), wake_after=0.2)
    assert space.take().event in ("poll", "wake")


# Errors, retries -------------------------------------------------------------------------------


def test_a_failed_step_blocks_what_comes_after_it_and_nothing_else(space, run):
    id = run(flow("{step: a, action: x}", "{step: b, action: y}",
                  "{step: c, action: z, after: [a]}", "{step: d, action: w, after: [b]}"))
    a, b = space.claim("a", "b")
    space.report(a, "error", error="disk full")
    assert standing(space, id)[0] == "RUNNING"
    step = space.step(id, "a")
    assert (step_state(step), step.error) == ("HELD", "disk full")
    token = only([t for t in space.get(id).tokens if t.node == "a/error"])
    assert (token_state(token), token.error) == ("HELD", "disk full")
    space.report(b)
    space.do("d")
    assert space.step_states(id) == {"a": "HELD", "b": "DONE", "c": "PENDING", "d": "DONE"}
    assert is_paused(space, id) and space.idle(0)
    assert "disk full" in space.get(id).error


def test_resume_retries_every_held_step(space, run):
    id = run(TWO)
    space.fail("a", "b")
    assert is_paused(space, id)
    assert state(space.resume(id)) == "RUNNING"
    space.do("a", "b")
    space.ends(id, "SUCCESS")
    kinds = space.story(id)
    assert "PAUSED" in kinds and "RESUMED" in kinds


def test_retries_are_made_after_delays_that_grow(space, run):
    id = run(action("retry: {limit: 3, delay: 700ms, factor: 2}") + ONE)
    for delay in (0.7, 1.4):
        began = now()
        space.report(space.take(), "error", error="not yet")
        assert standing(space, id) == ("RUNNING", "PENDING")
        assert step_state(space.step(id, "a")) == "WAITING"
        assert space.ready() == []
        eventually(lambda: step_state(space.step(id, "a")) == "READY")
        assert delay - 0.02 <= now() - began < delay + 1
    space.report(space.take(), "error", error="never")
    step = space.step(id, "a")
    assert (step_state(step), step.error) == ("HELD", "never")
    assert is_paused(space, id)


def test_a_delay_between_tries_is_at_most_max(space, run):
    run(action("retry: {limit: 4, delay: 50ms, factor: 100, max: 100ms}") + ONE)
    began = now()
    for _ in range(3):
        space.report(space.take(), "error")
    space.take()
    assert now() - began < SOON


def test_a_retry_that_succeeds_forgets_the_failures(space, run):
    id = run(action("retry: {limit: 2, delay: 10ms}") + LINE)
    space.report(space.take(), "error")
    space.report(space.take())
    space.do("b")
    space.ends(id, "SUCCESS")


def test_resuming_grants_a_new_set_of_tries(space, run):
    id = run(action("retry: {limit: 2, delay: 10ms}") + ONE)
    for _ in range(2):
        for _ in range(2):
            space.report(space.take(), "error")
        assert is_paused(space, id)
        space.resume(id)
    space.report(space.take())
    space.ends(id, "SUCCESS")


def test_timeouts_are_no_tries(space, run):
    id = run(action("retry: {limit: 2, delay: 10ms}\ntimeout_strategy: fixed\ntimeout: 0.2") + ONE)
    for attempt in range(1, 5):
        assert space.take().attempt == attempt
    eventually(lambda: step_state(space.step(id, "a")) == "READY")
    space.report(space.take(), "error")
    space.report(space.take())  # the second try
    space.ends(id, "SUCCESS")


def test_a_step_is_retried_at_once_while_others_run(space, run):
    id = run(TWO)
    a, b = space.claim("a", "b")
    space.report(a, "error")
    space.resume(id, node="a")
    space.do("a")
    assert standing(space, id)[0] == "RUNNING"
    space.report(b)
    space.ends(id, "SUCCESS")


def test_a_step_is_skipped_at_once_while_others_run(space, run):
    id = run(flow("{step: a, action: x}", "{step: b, action: y}",
                  "{step: c, action: z, after: [a]}"))
    a, b = space.claim("a", "b")
    space.report(a, "error")
    space.skip(id, "a")
    space.do("c")
    space.report(b)
    space.ends(id, "WARNING")


def test_resume_with_a_node_touches_that_one_only(space, run):
    id = run(TWO)
    space.fail("a", "b")
    for name in ("a", "b/error"):
        space.resume(id, node=name)
        assert standing(space, id)[0] == "RUNNING"
        space.do(name[0])
    space.ends(id, "SUCCESS")


def test_retrying_or_skipping_the_last_held_step_sets_a_paused_instance_going(space, run):
    id = run(TWO)
    space.fail("a", "b")
    space.event(id, "skip", "a")
    assert space.step_states(id)["a"] == "SKIPPED"
    space.event(id, "retry", "b")
    assert standing(space, id)[0] == "RUNNING"
    space.fail("b")
    assert is_paused(space, id)
    space.skip(id, "b")
    space.ends(id, "WARNING")


def test_what_is_not_held_is_neither_retried_nor_skipped(space, run):
    id = run(TWO)
    for call in (lambda: space.skip(id, "a"), lambda: space.resume(id, node="a"),
                 lambda: space.event(id, "retry", "a"), lambda: space.event(id, "skip", "a")):
        with refused("FAILED_PRECONDITION", ("NOT_HELD", "ILLEGAL_TRANSITION")):
            call()
    with refused("NOT_FOUND", "NO_SUCH_NODE", "nowhere"):
        space.skip(id, "nowhere")
    assert space.step_states(id) == {"a": "READY", "b": "READY"}


def test_a_suspended_step_keeps_an_instance_running_beside_a_held_one(space, run):
    id = run(TWO)
    a, b = space.claim("a", "b")
    space.suspend(a)
    space.report(b, "error")
    assert standing(space, id)[0] == "RUNNING"
    space.event(id, "go", "a")
    space.do("a")
    assert is_paused(space, id)


def test_an_operator_pauses_a_plan_and_its_claimed_work_may_report(space, run):
    id = run(flow("{step: a, action: x}", "{step: b, action: y, after: [a]}"))
    task = only(space.claim("a"))
    assert state(space.pause(id)) == "PAUSED"
    space.report(task)
    assert is_paused(space, id) and space.idle(0)
    space.resume(id)
    space.do("b")
    space.ends(id, "SUCCESS")


# Skip ------------------------------------------------------------------------------------------

CASCADE = flow(
    "{step: a, action: x}",
    "{step: uses, action: y, input: {v: '${a.output.v}'}}",
    "{step: text, action: y, input: {v: 'in a ${a.output.v} text'}}",
    "{step: transitive, action: y, input: {v: '${uses.output.v}'}}",
    "{step: after, action: y, after: [a]}",
    "{step: after_skipped, action: y, after: [uses]}",
    "{step: both, action: y, input: {v: '${after.output.v}'}, after: [transitive]}")


def test_outputs_that_have_no_room_in_a_message_are_counted(space, run):
    names = "abcdef"
    id = run(flow(*(f"{{step: {name}, action: x}}" for name in names)))
    for task in space.claim(*names):
        space.report(task, output={"v": "x" * 900_000})
    seen = space.get(id)
    assert sorted(outputs(seen)) == list("abc") and seen.outputs_left_out == 3


def test_skipping_takes_along_what_needs_the_output_and_nothing_else(space, run):
    id = run(CASCADE)
    space.fail("a")
    space.skip(id, "a")
    assert space.step_states(id) == {
        "a": "SKIPPED", "uses": "SKIPPED", "text": "SKIPPED", "transitive": "SKIPPED",
        "after": "READY", "after_skipped": "READY", "both": "PENDING"}
    space.do("after", "after_skipped", output={"v": 1})
    assert input_of(only(space.do("both"))) == {"v": 1}
    space.ends(id, "WARNING")
    assert space.story(id).count("SKIPPED") >= 1


def test_what_is_skipped_waits_no_longer_for_its_other_needs(space, run):
    id = run(flow("{step: a, action: x}", "{step: b, action: y}",
                  "{step: c, action: z, input: {a: '${a.output}', b: '${b.output}'}}",
                  "{step: d, action: z, after: [c]}"))
    a, b = space.claim("a", "b")
    space.report(a, "error")
    space.skip(id, "a")
    assert space.step_states(id)["c"] == "SKIPPED"
    space.report(b)
    space.do("d")
    space.ends(id, "WARNING")


def test_two_failed_steps_with_a_common_dependent_may_both_be_skipped(space, run):
    id = run(flow("{step: a, action: x}", "{step: b, action: y}",
                  "{step: c, action: z, input: {a: '${a.output}', b: '${b.output}'}}"))
    space.fail("a", "b")
    space.skip(id, "a")
    space.skip(id, "b")
    space.ends(id, "WARNING")


def test_the_finalize_of_a_skipped_step_is_skipped(space, run):
    id = run(FINAL + flow("{step: a, action: f}", "{step: b, action: f}"))
    a, b = space.claim("a", "b")
    space.report(a, "error")
    space.report(b)
    space.skip(id, "a")
    assert finalize_state(space.step(id, "a")) == "SKIPPED"
    space.do("b/finalize")
    space.ends(id, "WARNING")


# Patch -----------------------------------------------------------------------------------------


def test_a_held_step_may_be_given_another_input_and_that_is_in_the_history(space, run):
    id = run(flow("{step: a, action: x, input: {url: '${params.url}', n: 1}}",
                  "{step: b, action: y, input: {url: '${params.url}'}, after: [a]}"),
             params={"url": "htp://x"})
    space.fail("a")
    space.event(id, "patch", "a", {"url": "http://x", "n": 1})
    assert step_state(space.step(id, "a")) == "HELD" and is_paused(space, id)
    patch = only([c for c in space.history(id) if c.transition == "patch"])
    assert from_json(patch.params) == {"url": "http://x", "n": 1}
    space.resume(id)
    assert input_of(only(space.do("a"))) == {"url": "http://x", "n": 1}
    assert input_of(only(space.do("b"))) == {"url": "htp://x"}
    assert from_json(space.get(id).params) == {"url": "htp://x"}


def test_a_patch_of_a_run_phase_holds_for_its_finalize_phase_too(space, run):
    id = run("action: x\nphases: [run, finalize]\n---\n"
             "plan: p\nflow: [{step: a, action: x, input: {v: 1, w: 2}}]\n")
    space.fail("a")
    space.event(id, "patch", "a", {"v": 3})
    space.event(id, "retry", "a")
    assert input_of(only(space.do("a"))) == {"v": 3, "w": 2}
    assert input_of(only(space.do("a/finalize"))) == {"v": 3, "w": 2}
    space.ends(id, "SUCCESS")


def test_a_patch_gives_what_a_reference_did_not_find(space, run):
    id = run(flow("{step: a, action: x}", "{step: b, action: y, input: {v: '${a.output.v}'}}"))
    space.do("a", output={})
    await_held(space, id, "b")
    space.event(id, "patch", "b", {"v": 5})
    space.resume(id)
    assert input_of(only(space.do("b"))) == {"v": 5}
    space.ends(id, "SUCCESS")


def test_what_is_not_held_is_not_patched(space, run):
    id = run(ONE)
    with refused("FAILED_PRECONDITION", ("NOT_HELD", "ILLEGAL_TRANSITION")):
        space.event(id, "patch", "a", {"v": 1})


# Rescue ----------------------------------------------------------------------------------------


def rescued(**strategies):
    return "".join(f"action: {name}\nrescue: {how}\n---\n" for name, how in strategies.items())


def test_rescue_by_skipping_acts_at_once_and_ends_with_a_warning(space, run):
    id = run(rescued(x="skip") + flow("{step: a, action: x}", "{step: b, action: y}",
                                      "{step: c, action: y, input: {v: '${a.output}'}}",
                                      "{step: d, action: z, after: [a]}"))
    a, b = space.claim("a", "b")
    space.report(a, "error", error="no matter")
    assert space.step_states(id) == {"a": "SKIPPED", "b": "RUNNING", "c": "SKIPPED", "d": "READY"}
    space.do("d")
    space.report(b)
    space.ends(id, "WARNING")
    assert "PAUSED" not in space.story(id)


def test_rescue_by_skipping_comes_after_the_tries(space, run):
    id = run(action("rescue: skip\nretry: {limit: 2, delay: 10ms}") + ONE)
    space.report(space.take(), "error")
    assert standing(space, id)[0] == "RUNNING"
    space.report(space.take(), "error")
    space.ends(id, "WARNING")


def test_rescue_by_failing_stops_when_nothing_more_can_move(space, run):
    id = run(rescued(x="fail") + FINAL + flow(
        "{step: a, action: x}", "{step: b, action: f}", "{step: c, action: y, after: [b]}",
        "{step: d, action: y, after: [a]}"))
    a, b = space.claim("a", "b")
    space.report(a, "error", error="hopeless")
    assert standing(space, id) == ("RUNNING", "PENDING")
    space.report(b)
    space.do("c")
    instance = space.ends(id, "ERROR")
    assert "hopeless" in instance.error
    assert space.idle(0), "no finalize, and nothing after what failed"


def test_rescue_by_pausing_is_the_default_and_pauses(space, run):
    id = run(rescued(x="pause") + TWO)
    space.fail("a", "b")
    assert is_paused(space, id)


def test_failed_steps_that_disagree_pause(space, run):
    id = run(rescued(x="fail", y="pause") + TWO)
    space.fail("a", "b")
    assert is_paused(space, id)
    assert space.step_states(id) == {"a": "HELD", "b": "HELD"}


def test_failed_steps_that_agree_on_failing_stop(space, run):
    id = run(rescued(x="fail", y="fail") + TWO)
    space.fail("a", "b")
    space.ends(id, "ERROR")


def test_a_skipped_step_has_no_say_in_whether_to_fail(space, run):
    id = run(rescued(x="skip", y="fail") + TWO)
    space.fail("a", "b")
    space.ends(id, "ERROR")


def test_a_step_that_is_rescued_by_failing_may_be_retried_while_others_run(space, run):
    id = run(rescued(x="fail") + TWO)
    a, b = space.claim("a", "b")
    space.report(a, "error")
    space.resume(id, node="a")
    space.do("a")
    space.report(b)
    space.ends(id, "SUCCESS")


# Finalize --------------------------------------------------------------------------------------

THREE = FINAL + flow("{step: c, action: f, after: [a]}", "{step: a, action: f, input: {n: 1}}",
                     "{step: b, action: f}")


def test_finalize_phases_run_after_every_run_step_in_the_order_written(space, run):
    id = run(THREE)
    a, b = space.claim("a", "b")
    space.report(a)
    space.do("c")
    assert space.idle(0)
    assert finalize_state(space.step(id, "a")) == "PENDING"
    space.report(b)
    for name in ("c", "a", "b"):
        task = only(space.do(f"{name}/finalize"))
        assert (task.phase, task.action, task.event) == ("finalize", "f", "")
        assert input_of(task) == ({"n": 1} if name == "a" else {})
        assert finalize_state(space.step(id, name)) == "DONE"
    space.ends(id, "SUCCESS")


def test_a_finalize_that_fails_pauses_and_resuming_runs_all_again(space, run):
    id = run(THREE)
    space.do("a", "b")
    space.do("c")
    space.do("c/finalize")
    space.fail("a/finalize")
    assert is_paused(space, id)
    assert finalize_state(space.step(id, "a")) == "HELD"
    assert step_state(space.step(id, "a")) == "DONE"
    space.resume(id)
    for name in ("c", "a", "b"):
        space.do(f"{name}/finalize")
    space.ends(id, "SUCCESS")


@pytest.mark.parametrize("node", ["a", "a/finalize", "a/finalize/error"])
def test_a_skipped_finalize_stays_skipped_when_the_others_run_again(space, run, node):
    id = run(THREE)
    space.do("a", "b")
    space.do("c")
    space.do("c/finalize")
    space.fail("a/finalize")
    space.skip(id, node)
    space.fail("b/finalize")
    assert finalize_state(space.step(id, "a")) == "SKIPPED"
    space.resume(id)
    space.do("c/finalize")
    space.do("b/finalize")
    space.ends(id, "WARNING")


@pytest.mark.parametrize("rescue, outcome", [("skip", "WARNING"), ("fail", "ERROR")])
def test_a_finalize_is_rescued_like_a_run(space, run, rescue, outcome):
    id = run(f"action: g\nphases: [finalize]\nrescue: {rescue}\n---\n"
             + flow("{step: a, action: g}", "{step: b, action: y}"))
    space.do("b")
    space.fail("a/finalize")
    space.ends(id, outcome)


def test_nothing_is_finalized_before_what_failed_is_mended(space, run):
    id = run(FINAL + flow("{step: a, action: f}", "{step: b, action: f}"))
    a, b = space.claim("a", "b")
    space.report(a)
    space.report(b, "error")
    assert is_paused(space, id) and space.idle(0)
    space.resume(id)
    space.do("b")
    space.do("a/finalize")
    space.do("b/finalize")
    space.ends(id, "SUCCESS")


def test_a_finalize_may_refer_to_outputs(space, run):
    id = run("action: g\nphases: [finalize]\n---\n" + flow(
        "{step: g, action: g, input: {v: '${a.output.v}'}}", "{step: a, action: x}"))
    space.do("a", output={"v": [1]})
    assert input_of(only(space.do("g/finalize"))) == {"v": [1]}
    space.ends(id, "SUCCESS")


# Progress --------------------------------------------------------------------------------------


def test_progress_is_the_weighted_mean_over_run_and_finalize(space, run):
    id = run(action("phases: [run, finalize]\nweight: {run: 6, finalize: 1}") + TWO)

    def progress():
        return round(space.get(id).progress * 8, 6)  # of 6 + 1 + 1

    assert progress() == 0
    a, b = space.claim("a", "b")
    space.extend(b, by=60, progress=0.5)
    assert progress() == 0.5
    space.extend(a, by=60, progress=0.25)
    assert progress() == 2
    space.report(a)
    assert progress() == 6.5
    space.report(b)
    assert progress() == 7
    space.do("a/finalize")
    assert space.ends(id, "SUCCESS").progress == 1


def test_a_skipped_step_is_progress(space, run):
    id = run(TWO)
    a, b = space.claim("a", "b")
    space.report(a, "error")
    assert space.get(id).progress == 0
    space.skip(id, "a")
    assert space.get(id).progress == 0.5
    space.report(b)
    assert space.get(id).progress == 1


# Cancel ----------------------------------------------------------------------------------------


def test_cancel_wakes_suspended_steps_and_stops_when_they_have_reported(space, run):
    id = run(LINE)
    space.suspend(only(space.claim("a")))
    space.cancel(id)
    assert state(space.get(id)) != "STOPPED"
    task = only(space.claim("a"))
    assert task.event == "cancel"
    space.report(task)
    space.ends(id, "CANCELLED")
    assert space.idle(0), "no other step starts"


@pytest.mark.parametrize("verdict", ["ok", "error"])
def test_cancel_tells_claimed_steps_and_waits_for_them_whatever_they_report(space, run, verdict):
    id = run(flow("{step: a, action: x}", "{step: b, action: y}",
                  "{step: c, action: z, after: [a]}", "{step: d, action: z}"))
    a, b, d = space.claim("a", "b", "d")
    space.relinquish(id, d.claim)
    space.cancel(id)
    assert space.extend(a, by=60).cancel_requested
    assert space.ready(max_tasks=10) == [], "what is ready does not start any more"
    space.report(a, verdict)
    assert state(space.get(id)) != "STOPPED"
    space.report(b, verdict)
    space.ends(id, "CANCELLED")
    assert space.idle(0)


def test_a_stream_is_told_of_the_claims_that_are_cancelled(space, run):
    id = run(ONE)
    with space.work(machine="p", max_tasks=5) as stream:
        task = only(stream.await_tasks(1))
        space.cancel(id)
        assert stream.wait(lambda: task.claim in stream.cancelled_claims), repr(stream)
        stream.report(task)
    space.ends(id, "CANCELLED")


@pytest.mark.parametrize("mode", ["FORCE", "KILL"])
def test_cancel_by_force_does_not_wait(space, run, mode):
    id = run(TWO)
    a, b = space.claim("a", "b")
    space.suspend(b)
    instance = space.cancel(id, mode)
    assert (state(instance), result(instance)) == ("STOPPED", "CANCELLED")
    with refused("FAILED_PRECONDITION", "STALE_CLAIM", id):
        space.report(a)
    assert space.idle(0)
    assert only(space.get(id).tokens).node == "dfsmr.cancelled"


def test_cancel_may_be_followed_by_force(space, run):
    id = run(ONE)
    only(space.claim("a"))
    space.cancel(id)
    assert state(space.cancel(id, "FORCE")) == "STOPPED"
    assert standing(space, id) == ("STOPPED", "CANCELLED")


def test_a_plan_in_which_nobody_works_is_cancelled_at_once(space, run):
    id = run(action("retry: {limit: 2, delay: 1h}") + TWO)
    assert state(space.cancel(run(TWO))) == "STOPPED"
    a, b = space.claim("a", "b")
    space.report(a, "error")  # waits for its next try
    space.report(b, "error")  # held
    assert state(space.cancel(id)) == "STOPPED"
    assert standing(space, id) == ("STOPPED", "CANCELLED")


def test_a_paused_plan_is_cancelled_at_once_and_nothing_is_finalized(space, run):
    id = run(FINAL + flow("{step: a, action: f}"))
    space.fail("a")
    assert is_paused(space, id)
    assert state(space.cancel(id)) == "STOPPED"
    space.ends(id, "CANCELLED")
    assert space.idle(0)


def test_cancel_in_the_finalize_phase_starts_no_other_finalize(space, run):
    id = run(FINAL + flow("{step: a, action: f}", "{step: b, action: f}"))
    space.do("a", "b")
    task = only(space.claim("a/finalize"))
    space.cancel(id)
    space.report(task)
    space.ends(id, "CANCELLED")
    assert space.idle(0)


# From outside ----------------------------------------------------------------------------------


def test_ok_and_error_from_outside_are_what_they_are_from_a_worker(space, run):
    id = run(LINE)
    task = only(space.claim("a"))
    space.transition(id, "ok", node="a", output={"by": "hand"})
    with refused("FAILED_PRECONDITION", "STALE_CLAIM"):
        space.report(task)
    assert outputs(space.get(id))["a"] == {"by": "hand"}
    space.transition(id, "error", node="b", error="by hand")
    assert space.step(id, "b").error == "by hand" and is_paused(space, id)


def test_suspend_from_outside_suspends_and_ok_ends_a_suspended_step(space, run):
    id = run(ONE)
    space.transition(id, "suspend", node="a")
    assert step_state(space.step(id, "a")) == "SUSPENDED"
    assert space.idle(0)
    space.transition(id, "ok", node="a")
    space.ends(id, "SUCCESS")


def test_a_verb_from_outside_names_its_step_when_there_are_several(space, run):
    id = run(TWO)
    with refused("FAILED_PRECONDITION", "AMBIGUOUS_NODE"):
        space.transition(id, "ok")
    space.transition(id, "ok", node="b")
    space.transition(id, "ok", node="a")
    space.ends(id, "SUCCESS")


def test_a_worker_may_not_report_what_is_for_others(space, run):
    run(ONE)
    task = only(space.claim("a"))
    for transition in ("dfsmr.timeout", "planned", "retry", "sideways"):
        with refused(("FAILED_PRECONDITION", "INVALID_ARGUMENT"),
                     ("ILLEGAL_TRANSITION", "BAD_REQUEST"), transition):
            space.report(task, transition)
    space.report(task)


# Schemas ---------------------------------------------------------------------------------------

STRICT = action("input: {type: object, required: [n], properties: {n: {type: integer}}}\n"
                "output: {type: object, required: [ip], properties: {ip: {type: string}}}")


def test_an_input_that_breaks_the_schema_fails_the_step_by_name(space, run):
    id = run(STRICT + flow("{step: a, action: w}",
                           "{step: b, action: x, input: {n: '${a.output.n}'}}"))
    space.do("a", output={"n": "seven"})
    error = await_held(space, id, "b")
    assert "n" in error and "integer" in error, error
    space.event(id, "patch", "b", {"n": 7})
    space.resume(id)
    space.do("b", output={"ip": "::1"})
    space.ends(id, "SUCCESS")


@pytest.mark.parametrize("output", [None, {}, {"ip": 5}])
def test_an_output_that_breaks_the_schema_is_not_taken(space, run, output):
    id = run(STRICT + flow("{step: a, action: x, input: {n: 1}}",
                           "{step: b, action: y, after: [a]}"))
    task = only(space.claim("a"))
    try:
        space.report(task, output=output)
    except grpc.RpcError as error:
        check_refusal(Refusal(error), "INVALID_ARGUMENT", "BAD_PARAMS", "ip")
        assert step_state(space.step(id, "a")) == "RUNNING"
    else:
        step = space.step(id, "a")
        assert step_state(step) == "HELD" and "ip" in step.error
    assert space.idle(0) and "a" not in outputs(space.get(id))


def test_an_output_that_keeps_the_schema_is_taken_and_of_an_error_nothing_is_asked(space, run):
    id = run(STRICT + flow("{step: a, action: x, input: {n: 1}}"))
    space.fail("a")
    space.resume(id)
    space.do("a", output={"ip": "::1", "more": 1})
    space.ends(id, "SUCCESS")


def test_params_of_a_plan_that_break_its_schema_are_refused_at_start(space):
    space.define(ONE.replace("flow", "params: {type: object, required: [n]}\nflow"))
    with refused("INVALID_ARGUMENT", "BAD_PARAMS", "n"):
        space.start("p")


@pytest.mark.parametrize("source", [
    "action: x\ninput: {type: object, required: [n]}\n",
    "action: base\ninput: {type: object, required: [n]}\n---\naction: x\nextends: base\n",
])
def test_params_of_an_action_that_break_its_input_are_refused_at_start(space, source):
    space.define(source)
    with refused("INVALID_ARGUMENT", "BAD_PARAMS", "n"):
        space.start("x", params={"m": 1})
    space.start("x", params={"n": 1})
    space.define("action: planned\nplan: worker\ninput: {type: object, required: [n]}\n")
    space.start("planned")


# for_each, when, nesting -----------------------------------------------------------------------

EACH = flow("concurrence: {for_each: '${params.l}', as: e, do: {step: s, action: x,"
            " input: {v: '${e}', k: 'is ${e.k}', all: '${params.l}'}}}",
            "{step: z, action: z, input: {all: '${s.output}', second: '${s.output[1].v}'}}")


def test_a_for_each_makes_a_step_of_each_item_and_its_output_is_the_list_in_order(space, run):
    items = [{"k": 1}, {"k": "two"}, {"k": [3]}]
    id = run(EACH, params={"l": items})
    tasks = space.claim("s.0", "s.1", "s.2")
    for task, item in zip(tasks, items):
        assert input_of(task)["v"] == item and input_of(task)["all"] == items
    assert [input_of(task)["k"] for task in tasks[:2]] == ["is 1", "is two"]
    for number in (2, 0, 1):
        space.report(tasks[number], output={"v": number})
    assert input_of(only(space.do("z"))) == {"all": [{"v": 0}, {"v": 1}, {"v": 2}], "second": 1}
    assert set(outputs(space.ends(id, "SUCCESS"))) == {"s.0", "s.1", "s.2"}


def test_a_for_each_over_nothing_is_passed(space, run):
    id = run("""\
plan: p
flow:
  sequence:
    - {step: a, action: x}
    - concurrence: {for_each: "${params.l}", as: e, do: {step: s, action: x}}
    - {step: z, action: z, input: {all: "${s.output}"}}
""", params={"l": []})
    space.do("a")
    assert input_of(only(space.do("z"))) == {"all": []}
    space.ends(id, "SUCCESS")


def test_items_of_a_for_each_come_one_after_the_other_when_it_is_a_sequence(space, run):
    id = run(flow("sequence: {for_each: '${params.l}', as: e, do: {step: s, action: x,"
                  " input: {v: '${e}'}}}"), params={"l": [7, 8, 9]})
    for number, value in enumerate([7, 8, 9]):
        assert input_of(only(space.do(f"s.{number}"))) == {"v": value}
    space.ends(id, "SUCCESS")


def test_items_of_a_for_each_inside_a_sequence_are_concurrent(space, run):
    id = run("""\
plan: p
flow:
  sequence:
    - {step: a, action: x}
    - {for_each: "${params.l}", as: e, do: {step: s, action: x}}
    - {step: z, action: z}
""", params={"l": [1, 2]})
    space.do("a")
    space.do("s.0", "s.1")
    space.do("z")
    space.ends(id, "SUCCESS")


def test_a_for_each_may_make_whole_plans_and_sequences(space, run):
    id = run("plan: inner\nflow:\n  sequence: [{step: a, action: x, input: {v: '${params.v}'}},"
             " {step: b, action: y}]\n---\n"
             + flow("concurrence: {for_each: '${params.l}', as: e, do: {step: i, plan: inner,"
                    " input: {v: '${e}'}}}", "{step: z, action: z, after: [i]}"),
             params={"l": ["p", "q"]})
    one, two = space.claim("i.0.a", "i.1.a")
    assert [input_of(one), input_of(two)] == [{"v": "p"}, {"v": "q"}]
    space.report(two)
    space.do("i.1.b")
    space.report(one)
    space.do("i.0.b")
    space.do("z")
    space.ends(id, "SUCCESS")


def test_when_decides_at_planning_whether_a_step_is_there(space, run):
    source = """\
plan: p
flow:
  sequence:
    - {step: a, action: x}
    - {step: b, action: y, when: "${params.flag}"}
    - {step: c, action: z, input: {b: "${b.output}"}}
"""
    id = run(source, params={"flag": True})
    space.do("a")
    space.do("b", output={"v": 1})
    assert input_of(only(space.do("c"))) == {"b": {"v": 1}}
    space.ends(id, "SUCCESS")
    id = run(source, params={"flag": False})
    assert space.step_states(id)["b"] == "LEFT_OUT"
    space.do("a")
    assert input_of(only(space.do("c"))) == {"b": None}
    assert space.ends(id, "SUCCESS").progress == 1


def test_in_a_nested_plan_params_are_what_the_step_gives(space, run):
    id = run("plan: inner\nparams: {type: object, required: [v]}\nlabel: no\nsingleton: k\nflow:\n"
             "  - {step: a, action: x, input: {v: '${params.v}', me: '${instance.id}'}}\n"
             "  - {step: b, action: y}\n---\n"
             + flow("{step: s, action: w}", "{step: i, plan: inner, input: {v: '${s.output.v}'}}",
                    top="label: outer\n"), params={"v": "not this one"})
    space.do("s", "i.b", output={"v": 5})
    assert input_of(only(space.do("i.a"))) == {"v": 5, "me": id}
    assert space.ends(id, "SUCCESS").label == "outer"


def test_params_of_a_nested_plan_are_checked(space, run):
    id = run("plan: inner\nparams: {type: object, properties: {n: {type: integer}}}\nflow:\n"
             "  - {step: a, action: x, input: {n: '${params.n}'}}\n---\n"
             + flow("{step: i, plan: inner, input: {n: '${params.n}'}}", "{step: b, action: y}"),
             params={"n": "text"})
    instance = space.get(id)
    assert (state(instance), result(instance)) == ("STOPPED", "ERROR")
    assert "n" in instance.error and "i" in instance.error
    assert space.idle(0)


def test_a_hundred_thousand_and_one_steps_stop_with_an_error_at_planning(space, run):
    id = run(EACH, params={"l": [0] * 100_001})
    space.ends(id, "ERROR", within=30)
    assert "100" in space.get(id).error
    assert space.idle(0)


# Flows that come with Start --------------------------------------------------------------------


def test_a_flow_may_come_with_start(space):
    id = space.plan("", flow="- {step: a, action: x, input: {v: '${params.v}'}}\n"
                             "- {step: b, action: y, after: [a]}\n", params={"v": 1})
    assert space.get(id).machine == "adhoc"
    assert input_of(only(space.do("a"))) == {"v": 1}
    space.do("b")
    space.ends(id, "SUCCESS")
    with refused("NOT_FOUND", "NO_SUCH_MACHINE", "adhoc"):
        space.machine("adhoc")


def test_a_flow_that_comes_with_start_may_be_json_and_have_a_name(space):
    id = space.plan("mine", flow=json.dumps([{"step": "a", "action": "x"}]))
    assert space.get(id).machine == "mine"
    assert only(space.do("a")).machine == "mine"
    space.ends(id, "SUCCESS")
    with refused("NOT_FOUND", "NO_SUCH_MACHINE", "mine"):
        space.machine("mine")


def test_a_flow_that_comes_with_start_may_be_a_document(space):
    source = """\
label: "by ${params.who}"
params: {type: object, required: [who]}
use: [audit]
flow:
  sequence: [{step: a, action: x}, {step: b, action: y}]
"""
    id = space.plan("", flow=source, params={"who": "ann"})
    assert space.get(id).label == "by ann"
    assert list(only(space.do("a")).middleware) == ["audit"]
    space.do("b")
    space.ends(id, "SUCCESS")
    assert "who" in does_not_plan(space, lambda: space.start("", flow=source))


def test_a_flow_that_comes_with_start_may_use_what_is_defined(space):
    space.define("action: x\nqueue: slow\n---\n" + ONE)
    id = space.plan("", flow="[{step: i, plan: p}]")
    assert only(space.do("i.a")).queue == "slow"
    space.ends(id, "SUCCESS")


@pytest.mark.parametrize("text, word", [
    ("[{step: a, action: x, after: [nowhere]}]", "nowhere"),
    ("[{step: a, plan: nowhere}]", "nowhere"),
    ("[{step: a, action: x, after: [b]}, {step: b, action: x, after: [a]}]", "cycle"),
    ("flow: [", ""), ("{", ""), ("7", ""), ("label: x", "flow")])
def test_a_flow_that_cannot_be_planned_tells_why(space, text, word):
    assert word in does_not_plan(space, lambda: space.start("", id="bad", flow=text))


def test_starting_a_flow_again_is_harmless(space):
    first = space.begin("", id="mine", flow="[{step: a, action: x}]")
    again = space.begin("", id="mine", flow="[{step: a, action: x}]")
    assert first.created and not again.created
    space.do("a")


def test_a_flow_outlives_the_server(new_server):
    server = new_server().start()
    space = server.space("")
    id = space.plan("", flow="[{step: a, action: x}, {step: b, action: y, after: [a]}]")
    space.do("a", output={"v": 1})
    server.kill()
    server.start()
    space.do("b")
    space.ends(id, "SUCCESS")


# Planners --------------------------------------------------------------------------------------

PLANNER = "action: b\nplan: worker\n---\n"


def planned(space, task, text):
    return space.report(task, "planned", output={"flow": text})


def test_a_worker_plans_and_nothing_runs_before_it_has(space):
    space.define(PLANNER + flow("{step: b, action: b, input: {n: '${params.n}'}}",
                                "{step: a, action: x}", "{step: z, action: z, after: [b]}"))
    id = space.start("p", params={"n": 2})
    eventually(lambda: state(space.get(id)) == "PLANNING")
    task = space.take()
    assert (task.instance, task.phase, task.action, input_of(task)) == (id, "plan", "b", {"n": 2})
    assert space.idle(0)
    planned(space, task, [{"step": f"s{i}", "action": "x", "input": {"i": i}} for i in range(2)])
    eventually(lambda: state(space.get(id)) == "RUNNING")
    one, two, _, _ = tasks = space.claim("b.s0", "b.s1", "b", "a")
    assert [input_of(one), input_of(two)] == [{"i": 0}, {"i": 1}]
    assert [t.phase for t in tasks] == ["run"] * 4
    for task in tasks:
        space.report(task)
    space.do("z")
    space.ends(id, "SUCCESS")


def test_what_comes_after_a_planner_comes_after_what_it_planned(space):
    space.define(PLANNER + flow("{step: b, action: b}", "{step: z, action: z, after: [b]}"))
    id = space.start("p")
    planned(space, space.take(), "[{step: s, action: x}]")
    own, s = space.claim("b", "b.s")
    space.report(own)
    assert space.idle(0)
    space.report(s)
    space.do("z")
    space.ends(id, "SUCCESS")


def test_a_planner_may_say_where_its_own_run_stands(space):
    space.define(PLANNER + flow("{step: b, action: b}"))
    id = space.start("p")
    planned(space, space.take(), """\
flow:
  sequence:
    - {step: one, action: x}
    - {self: run}
    - {step: two, action: y}
""")
    space.do("b.one")
    assert only(space.do("b")).phase == "run"
    space.do("b.two")
    space.ends(id, "SUCCESS")


def test_planners_may_plan_planners(space):
    space.define(PLANNER + flow("{step: b, action: b}"))
    id = space.start("p")
    planned(space, space.take(), "[{step: c, action: b}, {step: s, action: x}]")
    task = space.take()
    assert (task.phase, state(space.get(id))) == ("plan", "PLANNING")
    assert space.idle(0)
    planned(space, task, "[{step: t, action: x}]")
    eventually(lambda: state(space.get(id)) == "RUNNING")
    space.do("b", "b.c", "b.s", "b.c.t")
    space.ends(id, "SUCCESS")


def test_a_planner_may_plan_nothing(space):
    space.define(PLANNER + flow("{step: b, action: b}"))
    id = space.start("p")
    planned(space, space.take(), [])
    space.do("b")
    space.ends(id, "SUCCESS")


def test_a_planner_that_only_finalizes_runs_then(space):
    space.define("action: b\nplan: worker\nphases: [finalize]\n---\n"
                 + flow("{step: b, action: b}"))
    id = space.start("p")
    planned(space, space.take(), "[{step: s, action: x}]")
    space.do("b.s")
    assert only(space.do("b/finalize")).phase == "finalize"
    space.ends(id, "SUCCESS")


def test_a_planner_that_fails_stops_the_instance_and_nothing_was_ever_ready(space):
    space.define(PLANNER + flow("{step: b, action: b}", "{step: a, action: x}"))
    id = space.start("p")
    space.report(space.take(), "error", error="no such site")
    instance = space.ends(id, "ERROR")
    assert "no such site" in instance.error
    assert space.idle(0)


@pytest.mark.parametrize("text, word", [
    ("[{step: s, action: x, after: [nowhere]}]", "nowhere"), ("{", ""),
    ([{"step": "s", "plan": "nowhere"}], "nowhere")])
def test_a_planner_whose_flow_is_bad_is_told_or_stops_the_instance(space, text, word):
    space.define(PLANNER + flow("{step: b, action: b}"))
    id = space.start("p")
    task = space.take()

    def report():
        planned(space, task, text)
        return id

    assert word in does_not_plan(space, report)


def test_a_planner_whose_worker_died_is_handed_out_again(space):
    space.define("action: b\nplan: worker\ntimeout_strategy: fixed\ntimeout: 0.3\n---\n"
                 + flow("{step: b, action: b}"))
    id = space.start("p")
    space.take()
    task = space.take()
    assert (task.instance, task.phase, task.attempt) == (id, "plan", 2)
    planned(space, task, "[{step: s, action: x}]")
    space.do("b", "b.s")
    space.ends(id, "SUCCESS")


# Subscriptions ---------------------------------------------------------------------------------


def test_a_subscriber_stands_beside_its_trigger(space, run):
    id = run("action: audit\nsubscribes_to: [x]\nwith: {who: '${params.who}'}\n---\n" + LINE,
             params={"who": "ann"})
    a, audit = space.claim("a", "a.audit")
    assert (audit.action, input_of(audit)) == ("audit", {"who": "ann"})
    space.report(a)
    space.do("b")
    assert state(space.get(id)) == "RUNNING"
    space.report(audit)
    space.ends(id, "SUCCESS")


def test_a_subscriber_that_uses_the_output_comes_after_and_moves_nobody(space, run):
    id = run("action: audit\nsubscribes_to: [x]\nwith: {ip: '${trigger.output.ip}'}\n---\n" + LINE)
    space.do("a", output={"ip": "::1"})
    b, audit = space.claim("b", "a.audit")
    assert input_of(audit) == {"ip": "::1"}
    space.report(b)
    space.report(audit)
    space.ends(id, "SUCCESS")


def test_every_step_of_the_action_has_its_subscriber(space, run):
    id = run("action: audit\nsubscribes_to: [x, y]\n---\n" + EACH,
             params={"l": [{"k": 1}, {"k": 2}]})
    space.do("s.0", "s.1", "s.0.audit", "s.1.audit", output={"v": 1})
    space.do("z")
    space.ends(id, "SUCCESS")


def test_definitions_that_arrive_later_do_not_touch_what_is_planned(space, run):
    id = run(LINE)
    space.define("action: audit\nsubscribes_to: [x, y]\n---\naction: y\nqueue: slow\n")
    assert set(space.steps(id)) == {"a", "b"}
    other = space.plan("p")
    assert set(space.steps(other)) == {"a", "b", "a.audit", "b.audit"}
    space.cancel(other)
    space.do("a")
    assert only(space.do("b")).queue == "default"
    space.ends(id, "SUCCESS")


# Middleware ------------------------------------------------------------------------------------


def test_the_middleware_comes_with_each_task_outermost_first(space, run):
    id = run("""\
action: x
use: [audit, {name: trace, before: audit}]
---
action: y
extends: x
use: [retry]
---
action: z
extends: x
without: [audit]
---
action: w
extends: x
replace: {audit: ledger}
---
plan: p
use: [auth, trace]
flow: [{step: x, action: x}, {step: y, action: y}, {step: z, action: z}, {step: w, action: w}]
""")
    chains = [list(task.middleware) for task in space.do("x", "y", "z", "w")]
    assert chains == [["auth", "trace", "audit"], ["auth", "trace", "audit", "retry"],
                      ["auth", "trace"], ["auth", "trace", "ledger"]]
    space.ends(id, "SUCCESS")


def test_an_action_takes_over_the_keys_of_another_but_those_given(space, run):
    run("action: base\nqueue: slow\ntimeout_strategy: fixed\ntimeout: 30\nphases: [run, finalize]\n"
        "---\naction: x\nextends: base\nqueue: fast\n---\n" + ONE)
    task = only(space.do("a"))
    assert task.queue == "fast" and abs(seconds(task.deadline) - now() - 30) < SOON
    assert only(space.do("a/finalize")).queue == "fast"


# Upgrades --------------------------------------------------------------------------------------


def test_an_upgraded_plan_is_planned_anew_and_its_outputs_are_dropped(space, run):
    id = run(LINE, params={"v": 1})
    space.do("a", output={"v": 1})
    task = only(space.claim("b"))
    new = "plan: p\nupgrade_strategy: upgrade\nflow:\n" \
          "  sequence: [{step: c, action: x, input: {v: '${params.v}'}}, {step: a, action: y}]\n"
    assert only(space.define(new).defined).affected_instances == 1
    with refused("FAILED_PRECONDITION", "STALE_CLAIM"):
        space.report(task)
    assert input_of(only(space.do("c"))) == {"v": 1}
    instance = space.get(id)
    assert (instance.version, outputs(instance).get("a")) == (2, None)
    assert "UPGRADED" in space.story(id)
    space.do("a")
    space.ends(id, "SUCCESS")


def test_a_plan_of_an_aborted_version_stops(space, run):
    id = run(TWO)
    a, _ = space.claim("a", "b")
    space.define(ONE.replace("flow", "upgrade_strategy: abort\nflow"))
    space.ends(id, "ABORTED")
    with refused("FAILED_PRECONDITION", "STALE_CLAIM"):
        space.report(a)


def test_a_plan_goes_on_as_it_was_planned_when_it_continues(space, run):
    id = run(LINE)
    space.define(ONE)
    space.do("a")
    assert only(space.do("b")).version == 1
    space.ends(id, "SUCCESS")


# Singletons ------------------------------------------------------------------------------------

KEYED = ONE.replace("flow", 'singleton: "site-${params.site}"\nflow')


def test_of_two_plans_with_the_same_key_the_second_fails(space, run):
    first = run(KEYED, params={"site": 1})
    second = space.plan("p", params={"site": 1})
    assert "site-1" in space.ends(second, "ERROR").error
    other = space.plan("p", params={"site": 2})
    assert {task.instance for task in space.ready(max_tasks=10)} == {first, other}


def test_a_key_is_free_when_its_holder_has_stopped_and_kept_while_it_is_suspended(space, run):
    first = run(KEYED, params={"site": 1})
    space.suspend(only(space.claim("a")))
    space.ends(space.plan("p", params={"site": 1}), "ERROR")
    space.event(first, "go")
    space.do("a")
    space.ends(first, "SUCCESS")
    third = space.plan("p", params={"site": 1})
    space.do("a")
    space.ends(third, "SUCCESS")


def test_a_key_is_free_when_its_holder_is_paused(space, run):
    first = run(KEYED, params={"site": 1})
    space.fail("a")
    assert is_paused(space, first)
    second = space.plan("p", params={"site": 1})
    assert only(space.do("a")).instance == second
    space.ends(second, "SUCCESS")
    space.resume(first)
    space.do("a")
    space.ends(first, "SUCCESS")


def test_plans_that_wait_for_a_key_come_in_order_of_start(space, run):
    source = KEYED.replace("flow", "on_conflict: wait\nflow")
    ids = [run(source, params={"site": 1}) for _ in range(4)]
    for number, id in enumerate(ids):
        for later in ids[number + 1:]:
            assert standing(space, later) == ("SCHEDULED", "PENDING")
        eventually(lambda: state(space.get(id)) == "RUNNING")
        assert only(space.do("a")).instance == id
        space.ends(id, "SUCCESS")


def test_one_that_waits_for_a_key_may_be_cancelled_and_is_passed_over(space, run):
    source = KEYED.replace("flow", "on_conflict: wait\nflow")
    first, second, third = (run(source, params={"site": 1}) for _ in range(3))
    space.cancel(second)
    space.ends(second, "CANCELLED")
    space.do("a")
    assert space.take().instance == third
    space.ends(first, "SUCCESS")


def test_of_many_at_once_one_holds_the_key(space, run):
    space.define(KEYED)
    reply = space.call("StartBatch", v1.StartBatchRequest(starts=[
        space.start_request("p", params={"site": 1}) for _ in range(20)]))
    ids = [item.started.instance.id for item in reply.results]
    eventually(lambda: sum(state(space.get(id)) == "STOPPED" for id in ids) == 19)
    holder = only([id for id in ids if state(space.get(id)) == "RUNNING"])
    assert holder == ids[0]
    assert only(space.ready(max_tasks=50)).instance == holder


def test_a_step_that_waits_for_the_key_of_its_action_comes_when_it_is_free(space, run):
    source = action('singleton: "tape"\non_conflict: wait') + TWO
    first, second = run(source), run(source)
    held = space.take(action="x")
    assert held.instance == first
    assert space.ready(action="x") == []
    eventually(lambda: step_state(space.step(second, "a")) == "WAITING")
    assert {task.instance for task in space.ready(action="y", max_tasks=5)} == {first, second}
    space.suspend(held)
    assert space.ready(action="x", wait=0.2) == [], "it is kept while suspended"
    space.event(first, "go", "a")
    space.report(space.take(action="x"))
    assert space.take(action="x").instance == second


def test_a_key_is_reentrant_within_an_instance(space, run):
    id = run(action("singleton: tape") + flow("{step: a, action: x}", "{step: b, action: x}"))
    space.do("a", "b")
    space.ends(id, "SUCCESS")


def test_an_action_whose_key_is_held_by_another_instance_fails(space, run):
    source = action("singleton: tape") + ONE
    first = run(source)
    task = only(space.claim("a"))
    second = run(source)

    def failed():
        assert second not in {one.instance for one in space.ready(max_tasks=10)}
        return result(space.get(second)) == "ERROR" or step_state(space.step(second, "a")) == "HELD"

    eventually(failed)
    instance = space.get(second)
    assert "tape" in instance.error + "".join(step.error for step in space.steps(second).values())
    space.report(task)
    space.ends(first, "SUCCESS")


# Hooks -----------------------------------------------------------------------------------------

ALL = ["scheduled", "planning", "running", "paused", "stopped", "success", "warning", "failure",
       "cancelled"]


def hooked(source, *states):
    hooks = "".join(f"  - {{on: [{name}], action: mail.{name},"
                    f" input: {{who: '${{params.who}}', instance: '${{instance.id}}'}}}}\n"
                    for name in states or ALL)
    return source.replace("flow:", f"hooks:\n{hooks}flow:")


def rang(space):
    """How often each hook has been started."""
    counts = {}
    for instance in space.instances(page_size=1000).instances:
        if instance.machine.startswith("mail."):
            name = instance.machine.removeprefix("mail.")
            counts[name] = counts.get(name, 0) + 1
    return counts


def test_a_hook_is_an_instance_of_its_action(space):
    space.define(hooked(ONE, "running"))
    id = space.plan("p", params={"who": "ops"})
    task = space.take(action="mail.running")
    assert input_of(task) == {"who": "ops", "instance": id}
    assert (task.phase, task.machine) == ("run", "mail.running")
    assert task.instance != id
    space.report(task)
    space.ends(task.instance, "SUCCESS")
    assert state(space.get(id)) == "RUNNING"


def test_each_state_that_is_entered_has_its_hook_once(space):
    space.define(hooked(ONE))
    id = space.plan("p", params={"who": "ops"})
    space.report(space.take(action="x"))
    space.ends(id, "SUCCESS")
    assert rang(space) == {"planning": 1, "running": 1, "stopped": 1, "success": 1}


def test_pausing_and_running_again_have_their_hooks_each_time(space):
    space.define(hooked(ONE))
    id = space.plan("p", params={"who": "ops"})
    for _ in range(3):
        space.report(space.take(action="x"), "error")
        assert is_paused(space, id)
        space.resume(id)
    space.cancel(id)
    space.ends(id, "CANCELLED")
    assert rang(space) == {"planning": 1, "running": 4, "paused": 3, "stopped": 1, "cancelled": 1}


@pytest.mark.parametrize("rescue, outcome", [("skip", "warning"), ("fail", "failure")])
def test_a_warning_and_a_failure_have_their_hooks(space, rescue, outcome):
    space.define(rescued(x=rescue) + hooked(ONE))
    space.plan("p", params={"who": "ops"})
    space.report(space.take(action="x"), "error")
    assert rang(space) == {"planning": 1, "running": 1, "stopped": 1, outcome: 1}


def test_an_abort_is_a_failure_to_hooks(space):
    space.define(hooked(ONE))
    id = space.plan("p", params={"who": "ops"})
    space.define(ONE.replace("flow", "upgrade_strategy: abort\nflow"))
    space.ends(id, "ABORTED")
    eventually(lambda: rang(space) == {"planning": 1, "running": 1, "stopped": 1, "failure": 1})


def test_a_scheduled_plan_has_its_hook_and_one_that_is_not_planned_fails(space):
    space.define(hooked(EACH))
    id = space.plan("p", params={"who": "ops", "l": 5}, start_at=now() + 0.3)
    assert rang(space) == {"scheduled": 1}
    space.ends(id, "ERROR")
    assert rang(space) == {"scheduled": 1, "planning": 1, "stopped": 1, "failure": 1}


def test_a_hook_on_several_states_is_started_for_each_and_hooks_have_no_hooks(space):
    space.define("action: mail.on\n---\n" + ONE.replace(
        "flow", "hooks: [{on: [running, stopped], action: mail.on}]\nflow"))
    space.plan("p")
    space.report(space.take(action="x"))
    assert rang(space) == {"on": 2}
    for _ in range(2):
        space.report(space.take(action="mail.on"))
    assert rang(space) == {"on": 2} and space.idle(0)


# Later, after ----------------------------------------------------------------------------------


def test_a_plan_that_starts_later_is_planned_when_it_is_due(space):
    space.define(LINE)
    due = now() + 0.5
    id = space.start("p", start_at=due)
    assert standing(space, id) == ("SCHEDULED", "PENDING")
    space.define(ONE)  # of the version that stood at its start
    task = space.take()
    assert now() >= due - 0.02
    space.report(task)
    space.do("b")
    space.ends(id, "SUCCESS")


def test_a_plan_that_is_held_waits_to_be_resumed(space):
    space.define(ONE)
    id = space.start("p", hold=True)
    assert standing(space, id) == ("SCHEDULED", "PENDING") and space.idle()
    space.resume(id)
    space.do("a")
    space.ends(id, "SUCCESS")


def test_a_plan_that_comes_too_late_stops_with_an_error(space):
    space.define(ONE)
    id = space.start("p", hold=True, start_before=now() + 0.4)
    space.ends(id, "ERROR")
    assert space.idle(0)


def test_a_plan_waits_for_those_that_it_comes_after(space):
    space.define(ONE)
    first, second = space.plan("p"), space.plan("p")
    last = space.start("p", after=[v1.After(instance=first), v1.After(instance=second)])
    assert standing(space, last) == ("SCHEDULED", "PENDING")
    for task in space.ready(max_tasks=10):
        assert task.instance != last
        space.report(task)
    assert only(space.do("a")).instance == last
    space.ends(last, "SUCCESS")


@pytest.mark.parametrize("any_result", [False, True])
@pytest.mark.parametrize("rescue", ["fail", "skip"])
def test_one_that_did_not_end_well_stops_what_comes_after_it_unless_any_result_will_do(
        space, rescue, any_result):
    space.define(rescued(x=rescue) + ONE)
    first = space.plan("p", id="the-first")
    last = space.start("p", after=[v1.After(instance=first, any_result=any_result)])
    space.report(space.take(), "error")
    if any_result:
        assert only(space.do("a")).instance == last
        space.ends(last, "SUCCESS")
    else:
        assert "the-first" in space.ends(last, "ERROR").error
        assert space.idle(0)


def test_a_paused_plan_keeps_what_comes_after_it_waiting(space):
    space.define(ONE)
    first = space.plan("p")
    last = space.start("p", after=[v1.After(instance=first)])
    space.fail("a")
    assert is_paused(space, first) and state(space.get(last)) == "SCHEDULED"
    space.resume(first)
    assert only(space.do("a")).instance == first
    assert only(space.do("a")).instance == last


def test_a_batch_may_start_plans_and_flows_of_which_some_are_bad(space):
    space.define(ONE)
    reply = space.call("StartBatch", v1.StartBatchRequest(starts=[
        space.start_request("p"), space.start_request("nowhere"),
        space.start_request("", flow="[{step: a, action: x}]")]))
    check_error(reply.results[1].error, "NOT_FOUND", "NO_SUCH_MACHINE", "nowhere")
    ids = {reply.results[number].started.instance.id for number in (0, 2)}
    eventually(lambda: all(state(space.get(id)) == "RUNNING" for id in ids))
    assert {task.instance for task in space.ready(max_tasks=10)} == ids


# dcli ------------------------------------------------------------------------------------------


def test_dcli_sends_events_retries_skips_and_patches(space, dcli):
    space.define(TWO)
    id = space.plan("p")
    a, b = space.claim("a", "b")
    space.suspend(a)
    dcli.ok("transition", id, "approve", "--node", "a", "by=ann", "n:=3")
    task = only(space.claim("a"))
    assert (task.event, from_json(task.event_data)) == ("approve", {"by": "ann", "n": 3})
    space.report(task, "error")
    space.report(b)
    dcli.ok("transition", id, "patch", "--node", "a", "--params", '{"v": 1}')
    dcli.ok("resume", id)
    assert input_of(only(space.claim("a"))) == {"v": 1}
    assert "a" in dcli.ok("graph", id) and "a/error" in dcli.ok("graph", "p")


@pytest.mark.parametrize("passes", [True, False])
def test_dcli_wraps_the_command_in_the_middleware_of_the_task(space, dcli, tmp_path, passes):
    space.define("action: x\nuse: [outer, inner]\n---\n" + ONE)
    id = space.plan("p")
    for name in ("outer", "inner"):
        script = tmp_path / f"{name}.sh"
        on = 'exec "$@"' if passes or name == "outer" else "exit 3"
        script.write_text(f"#!/bin/sh\necho {name} >> {tmp_path}/log\n{on}\n")
        script.chmod(0o755)
    dcli.ok("work", "p", "--once", "--middleware", f"outer={tmp_path}/outer.sh",
            "--middleware", f"inner={tmp_path}/inner.sh", "--", "sh", "-c",
            f"echo command >> {tmp_path}/log")
    log = (tmp_path / "log").read_text().split()
    assert log == ["outer", "inner", "command"][:3 if passes else 2]
    assert step_state(space.step(id, "a")) == ("DONE" if passes else "HELD")


def test_dcli_fails_a_task_whose_middleware_it_does_not_have_by_name(space, dcli):
    space.define("action: x\nuse: [audit]\n---\n" + ONE)
    id = space.plan("p")
    dcli("work", "p", "--once", "--", "true")
    step = space.step(id, "a")
    assert step_state(step) == "HELD" and "audit" in step.error


def test_a_plan_that_ends_with_a_skip_has_no_error(space):
    space.define("plan: p\nflow: [{step: a, action: x}]\n")
    id = space.plan("p")
    space.fail("a", error="boom")
    eventually(lambda: "boom" in space.get(id).error)
    space.skip(id)
    instance = space.get(id)
    assert (state(instance), result(instance), instance.error) == ("STOPPED", "WARNING", "")


def test_a_step_tells_who_has_it_and_who_had_it_last(space):
    space.define("action: a\n---\nplan: two\nflow: [{step: s, action: a}, {step: t, action: a}]\n")
    id = space.plan("two")
    task = space.take("two", worker="ann")
    step = space.step(id, "s")
    assert (step.worker, step.visit) == ("ann", task.visit)
    space.report(task)
    step = space.step(id, "s")
    assert (step.worker, step.visit) == ("ann", task.visit)
    assert space.step(id, "t").worker == ""
