"""Failing and trying again (executions.md): tries, kinds, what the server finds; on machines' nodes
and on steps."""
import pytest

from support import (SOON, eventually, from_json, kind, now, only, refused, result, seconds, state,
                     step_state, token_state)

MACHINE = """\
id: m
nodes:
  a:
    start: true
    {keys}
    transitions: {{ok: done, error: failed}}
  done: {{final: true}}
  failed: {{final: true, result: error}}
"""
NO_ERROR = "id: m\nnodes:\n  a: {start: true, transitions: {ok: done}}\n  done: {final: true}\n"
PLAN = "action: x\n{keys}\n---\nplan: p\nflow: [{{step: a, action: x}}]\n"


def fail(space, task, **more):
    return space.report(task, "error", **more)


@pytest.fixture(params=["machine", "plan"])
def begin(space, request):
    """Starts an instance of a machine, or a plan, whose only work has these keys."""
    def start(keys):
        if request.param == "machine":
            space.define(MACHINE.format(keys=keys))
            return space.start("m")
        space.define(PLAN.format(keys=keys.replace("\n    ", "\n")))
        return space.plan("p")
    start.plan = request.param == "plan"
    return start


def for_good(space, id, plan):
    """The text of an instance whose work has failed for good."""
    eventually(lambda: state(space.get(id)) in ("PAUSED", "STOPPED"))
    instance = space.get(id)
    assert state(instance) == ("PAUSED" if plan else "STOPPED")
    assert plan or result(instance) == "ERROR"
    return instance.error


def failures(space, id):
    return [(change.error_kind, change.note) for change in space.history(id)
            if kind(change) == "TRANSITIONED" and change.transition == "error"]


# Tries ------------------------------------------------------------------------------------------


def test_limit_counts_all_tries(space, begin):
    id = begin("retry: {limit: 3, delay: 10ms}")
    for tries in range(3):
        task = space.take()
        assert (task.tries, task.tries_limit) == (tries, 3)
        fail(space, task, error=f"broke {tries}")
    assert "broke 2" in for_good(space, id, begin.plan)
    assert space.ready() == []


def test_a_number_is_a_limit_and_tries_follow_at_once(space, begin):
    id = begin("retry: 2")
    fail(space, space.take())
    fail(space, only(space.ready()))
    for_good(space, id, begin.plan)


def test_without_retry_there_is_one_try(space, begin):
    id = begin("queue: default")
    task = space.take()
    assert (task.tries, task.tries_limit) == (0, 1)
    fail(space, task)
    for_good(space, id, begin.plan)


def test_the_token_tells_its_tries_and_when_the_next_is(space, begin):
    id = begin("retry: {limit: 3, delay: 1h}")
    before = now()
    fail(space, space.take())
    token = space.token(id)
    assert token_state(token) == "WAITING"
    assert (token.tries, token.tries_limit) == (1, 3)
    assert 3590 < seconds(token.available_at) - before < 3620
    assert space.ready() == []


def test_delays_grow_by_factor_up_to_max(space, begin):
    id = begin("retry: {limit: 4, delay: 300ms, factor: 3, max: 1s}")
    for delay in (0.3, 0.9, 1.0):
        task = space.take()
        before = now()
        fail(space, task)
        assert delay - 0.01 < seconds(space.token(id).available_at) - before < delay + 2
        assert space.ready() == []


def test_jitter_is_a_share_of_the_delay(space):
    space.define(MACHINE.format(keys="retry: {limit: 2, delay: 100s, jitter: 0.25}"))
    space.start_many("m", 40)
    before = now()
    for task in space.ready(max_tasks=40, wait=SOON):
        fail(space, task)
    waits = [seconds(one.tokens[0].available_at) - before
             for one in space.instances(page_size=100).instances]
    assert len(waits) == 40 and all(74 < wait < 130 for wait in waits)
    assert max(waits) - min(waits) > 5


def test_only_errors_that_on_names_are_tried_again(space, begin):
    id = begin('retry: {limit: 9, on: [transient, "lock timeout", oom]}')
    for more in ({"error": "Connection refused"}, {"error_kind": "crashed"},
                 {"error": "a LOCK TIMEOUT here"}, {"error_kind": "oom"},
                 {"error": "host unavailable", "error_kind": "exit"}):
        fail(space, space.take(), **more)
    fail(space, space.take(), error="no such file", error_kind="exit")
    assert "no such file" in for_good(space, id, begin.plan)


def test_fatal_ends_the_tries(space, begin):
    id = begin("retry: {limit: 9}")
    fail(space, space.take(), fatal=True, error="no use")
    assert "no use" in for_good(space, id, begin.plan)


def test_retry_after_stands_in_place_of_the_delay_and_is_a_try(space, begin):
    id = begin("retry: {limit: 2, delay: 1h}")
    request = space.report_request(space.take(), "error")
    request.retry_after.FromMilliseconds(300)
    before = now()
    space.call("Transition", request)
    task = space.take()
    assert now() - before > 0.28
    assert task.tries == 1
    request = space.report_request(task, "error")
    request.retry_after.FromMilliseconds(300)
    space.call("Transition", request)
    for_good(space, id, begin.plan)


def test_what_goes_with_error_is_refused_with_anything_else(space, begin):
    begin("retry: 2")
    task = space.take()
    with refused("INVALID_ARGUMENT", "BAD_REQUEST", "fatal"):
        space.report(task, fatal=True)
    with refused("INVALID_ARGUMENT", "BAD_REQUEST", "error_kind"):
        space.report(task, error_kind="exit")
    request = space.report_request(task)
    request.retry_after.FromSeconds(3)
    with refused("INVALID_ARGUMENT", "BAD_REQUEST", "retry_after"):
        space.call("Transition", request)
    request = space.report_request(task, "error")
    request.retry_after.FromSeconds(-3)
    with refused("INVALID_ARGUMENT", "BAD_REQUEST", "retry_after"):
        space.call("Transition", request)
    with refused("INVALID_ARGUMENT", "BAD_REQUEST", "error_kind"):
        fail(space, task, error_kind="no name")
    space.report(task)


def test_a_repeated_report_is_no_second_try(space, begin):
    begin("retry: {limit: 2, delay: 10ms}")
    task = space.take()
    first = fail(space, task)
    again = fail(space, task)
    assert again.repeated_report and again.visit == first.visit
    assert space.take().tries == 1


def test_the_feed_tells_kinds(space, begin):
    id = begin("retry: 2")
    fail(space, space.take(), error="exit status 3", error_kind="exit")
    assert failures(space, id) == [("exit", "exit status 3")]


def test_reports_by_report_and_by_stream_carry_all_of_it(space):
    space.define(MACHINE.format(keys="retry: {limit: 9, on: [oom]}"))
    space.start_many("m", 2)
    first, second = space.ready(max_tasks=2, wait=SOON)
    space.report_all([space.report_request(first, "error", error_kind="oom")])
    assert space.token(first.instance).tries == 1
    space.relinquish(second.instance, second.claim)
    with space.work(max_tasks=2) as stream:
        stream.await_tasks(2)
        task = only([one for one in stream.tasks if one.instance == second.instance])
        stream.report(task, transition="error", error_kind="oom", fatal=True)
    space.ends(second.instance, "ERROR")


# Machines ---------------------------------------------------------------------------------------


def test_a_machine_stays_at_its_node_in_a_new_visit_that_max_visits_does_not_count(space):
    space.define("""\
id: m
nodes:
  a:
    start: true
    max_visits: 1
    retry: {limit: 3}
    transitions: {ok: done, error: failed, dfsmr.exhausted: failed}
  done: {final: true}
  failed: {final: true, result: error}
""")
    id = space.start("m")
    for visit in (1, 2):
        task = space.take()
        assert (task.visit, task.attempt) == (visit, 1)
        reply = fail(space, task)
        assert (reply.prev_node, reply.node, reply.visit) == ("a", "a", visit + 1)
    space.report(space.take())
    space.ends(id, "SUCCESS")


def test_the_next_try_has_the_params_of_the_first(space):
    space.define("id: m\nnodes:\n  s: {start: true, transitions: {ok: a}}\n"
                 "  a: {retry: 2, transitions: {ok: z, error: z}}\n  z: {final: true}\n")
    space.start("m")
    space.report(space.take(), node_params={"n": 1})
    fail(space, space.take(), node_params={"n": 2})
    assert from_json(space.take().node_params) == {"n": 1}


def test_an_error_with_a_kind_pauses_a_machine_whose_node_lists_none(space):
    space.define(NO_ERROR)
    id = space.start("m")
    task = space.take()
    with refused("FAILED_PRECONDITION", "ILLEGAL_TRANSITION"):
        fail(space, task, error="no kind")
    reply = fail(space, task, error="exit status 3", error_kind="exit")
    assert state(reply) == "PAUSED"
    instance = space.get(id)
    assert "exit status 3" in instance.error
    token = only(instance.tokens)
    assert (token_state(token), token.error) == ("HELD", "exit status 3")
    assert space.ready() == []
    assert "PAUSED" in space.story(id)
    space.resume(id)
    assert state(space.get(id)) == "RUNNING" and space.get(id).error == ""
    task = space.take()
    assert task.visit > token.visit and task.tries == 0
    space.report(task)
    space.ends(id, "SUCCESS")


def test_a_held_node_may_be_resumed_by_name_or_moved(space):
    space.define(NO_ERROR)
    named, moved = space.start("m"), space.start("m")
    for task in space.ready(max_tasks=2, wait=SOON):
        fail(space, task, error_kind="exit")
    space.resume(named, node="a")
    assert state(space.get(named)) == "RUNNING"
    space.transition(moved, "ok")
    space.ends(moved, "SUCCESS")


def test_what_is_cancelled_is_not_tried_again(space, begin):
    id = begin("retry: {limit: 9}")
    task = space.take()
    space.cancel(id)
    fail(space, task)
    space.ends(id, "CANCELLED")


# What the server finds --------------------------------------------------------------------------


def test_what_nobody_takes_fails_as_unclaimed(space, begin):
    id = begin("ready_timeout: 500ms")
    error = for_good(space, id, begin.plan)
    assert "500ms" in error and "default" in error
    assert [one[0] for one in failures(space, id)] == ["unclaimed"]


def test_what_lies_unclaimed_says_what_nobody_has(space, begin):
    id = begin("ready_timeout: 500ms\n    runs_on: {capability: [gpu, linux]}")
    assert space.ready(capabilities=["linux"], wait=0.2) == []
    assert "no agent has gpu, linux" in for_good(space, id, begin.plan)


def test_unclaimed_by_the_one_worker_it_wants(space, begin):
    id = begin("ready_timeout: 500ms\n    runs_on: {agent: h7}")
    assert "h7 is not connected" in for_good(space, id, begin.plan)


def test_workers_that_are_busy_do_not_count(space, begin):
    space.define("id: other\nnodes:\n  a: {start: true, transitions: {ok: z}}\n"
                 "  z: {final: true}\n")
    space.start("other")
    with space.work(max_tasks=1) as stream:
        stream.await_tasks(1)
        id = begin("ready_timeout: 500ms")
        assert "are busy" in for_good(space, id, begin.plan)


def test_unclaimed_is_transient(space, begin):
    id = begin("ready_timeout: 300ms\n    retry: {limit: 99, delay: 10ms, on: [transient]}")
    eventually(lambda: [one[0] for one in failures(space, id)][:1] == ["unclaimed"])
    task = space.take()
    assert task.tries >= 1
    space.report(task)


def test_ready_timeout_counts_anew_after_a_pause_and_a_hand_out(space, begin):
    id = begin("ready_timeout: 1s")
    space.pause(id)
    assert space.idle(wait=1.3)
    space.resume(id)
    task = space.take()
    assert space.idle(wait=1.3)
    space.relinquish(id, task.claim)
    space.report(space.take())
    space.ends(id, "SUCCESS")


def test_a_machine_without_error_pauses_when_nobody_takes_it(space):
    space.define(NO_ERROR.replace("start: true", "start: true, ready_timeout: 300ms"))
    id = space.start("m")
    eventually(lambda: state(space.get(id)) == "PAUSED")
    assert "no worker" in space.get(id).error
    space.resume(id)
    space.report(space.take())
    space.ends(id, "SUCCESS")


def test_run_timeout_comes_with_the_task_and_bounds_what_extend_gives(space, begin):
    begin("run_timeout: 2s")
    task = space.take()
    assert seconds(task.run_timeout) == 2
    before = now()
    item = space.extend(task, by=3600)
    assert seconds(item.deadline) - before < 65  # of before, or 32 s
    again = space.extend(task, by=7200)
    assert seconds(again.deadline) == seconds(item.deadline)
    space.report(task)


# Late reports -----------------------------------------------------------------------------------


def late(space, id, **more):
    """Stops the instance while somebody has its work, who then reports an error."""
    request = space.report_request(space.take(), "error", error="broke", error_kind="oom", **more)
    if not more:
        request.retry_after.FromSeconds(3600)
    space.cancel(id, "FORCE")
    with refused("FAILED_PRECONDITION", "STALE_CLAIM"):
        space.call("Transition", request)
    [told] = [change for change in space.history(id) if kind(change) == "LATE"]
    assert (told.transition, told.error_kind) == ("error", "oom")
    space.resume(id)


def test_a_late_error_counts_as_it_was_reported(space, begin):
    id = begin("retry: {limit: 3, on: [oom]}")
    before = now()
    late(space, id)
    token = space.token(id)
    assert (token_state(token), token.tries) == ("WAITING", 1)
    assert 3590 < seconds(token.available_at) - before < 3630
    assert failures(space, id) == [("oom", "broke")]


def test_a_late_error_may_be_fatal(space, begin):
    id = begin("retry: 9")
    late(space, id, fatal=True)
    assert "broke" in for_good(space, id, begin.plan)


def test_a_late_error_with_a_kind_holds_a_node_that_lists_none(space):
    space.define(NO_ERROR)
    id = space.start("m")
    late(space, id)
    assert (state(space.get(id)), token_state(space.token(id))) == ("PAUSED", "HELD")


# Plans ------------------------------------------------------------------------------------------


def test_a_step_tells_its_tries_also_when_it_is_held_or_done(space):
    space.define(PLAN.format(keys="retry: {limit: 2}"))
    id = space.plan("p")
    step = space.step(id, "a")
    assert (step.tries, step.tries_limit) == (0, 2)
    fail(space, space.take())
    fail(space, space.take())
    step = space.step(id, "a")
    assert (step_state(step), step.tries, step.tries_limit) == ("HELD", 2, 2)
    space.resume(id)
    fail(space, space.take())
    space.report(space.take())
    step = space.step(id, "a")
    assert (step_state(step), step.tries) == ("DONE", 1)


@pytest.mark.parametrize("word, outcome", [("skip", "WARNING"), ("fail", "ERROR")])
def test_a_rescue_may_come_from_the_params(space, word, outcome):
    space.define(PLAN.format(keys='rescue: "${params.rescue}"'))
    id = space.plan("p", params={"rescue": word})
    fail(space, space.take())
    space.ends(id, outcome)


@pytest.mark.parametrize("params", [{}, {"rescue": "retry"}, {"rescue": 3}])
def test_a_rescue_that_is_no_word_fails_the_planning(space, params):
    space.define(PLAN.format(keys='rescue: "${params.rescue}"'))
    id = space.start("p", params=params)
    instance = space.ends(id, "ERROR")
    assert "rescue" in instance.error
    assert "'\"" not in instance.error  # quoted once


# Definitions ------------------------------------------------------------------------------------


def test_get_machine_shows_the_keys(space):
    space.define("id: m\ndefaults: {run_timeout: 10m}\nnodes:\n  a:\n    start: true\n"
                 "    retry: {limit: 5, delay: 1s, factor: 2, max: 1m, jitter: 0.25, "
                 'on: [transient, "lock timeout"]}\n'
                 "    ready_timeout: 30s\n    abandon_after: 0\n"
                 "    transitions: {ok: b, error: z}\n"
                 "  b: {transitions: {ok: z}}\n  z: {final: true}\n")
    a, b = space.node("m", "a"), space.node("m", "b")
    assert (a.retry.limit, seconds(a.retry.delay), a.retry.factor) == (5, 1, 2)
    assert (seconds(a.retry.max), a.retry.jitter) == (60, 0.25)
    assert list(a.retry.on) == ["transient", "lock timeout"]
    assert (seconds(a.run_timeout), seconds(a.ready_timeout), a.abandon_after) == (600, 30, 0)
    assert seconds(b.run_timeout) == 600 and not b.HasField("ready_timeout")
    assert b.abandon_after == 3


@pytest.mark.parametrize("keys, mention", [
    ("retry: {limit: 0}", "limit"),
    ("retry: {limit: 1000001}", "1000000"),
    ("retry: {limit: 2, on: []}", "on"),
    ("retry: {limit: 2, delay: 0s}", "delay"),
    ("retry: {limit: 2, jitter: 1.5}", "jitter"),
    ("run_timeout: 0s", "run_timeout"),
    ("ready_timeout: 0s", "ready_timeout"),
    ("abandon_after: -1", "abandon_after"),
])
def test_refused_at_define_time(space, keys, mention):
    for source, line in ((MACHINE.format(keys=keys), 5), (PLAN.format(keys=keys), 2)):
        with refused("INVALID_ARGUMENT", "BAD_MACHINE", f":{line}:", mention):
            space.define(source)


def test_a_retry_wants_a_transition_error(space):
    with refused("INVALID_ARGUMENT", "BAD_MACHINE", ":3:", "nodes.a.retry", "error"):
        space.define("id: m\nnodes:\n  a: {start: true, retry: 3, transitions: {ok: z}}\n"
                     "  z: {final: true}\n")


# dcli -------------------------------------------------------------------------------------------


def test_dcli_reports_and_tells_tries_and_kinds(space, dcli):
    space.define(MACHINE.format(keys="retry: {limit: 3, delay: 1h}"))
    id = space.start("m")
    task = space.take()
    dcli.ok("transition", id, "error", "--claim", task.claim, "--error", "exit status 3",
            "--error-kind", "exit", "--retry-after", "0s")
    assert "1 of 3 failed" in dcli.ok("show", id)
    assert "exit: exit status 3" in dcli.ok("history", id)
    task = space.take()
    dcli.ok("transition", id, "error", "--claim", task.claim, "--fatal")
    space.ends(id, "ERROR")


def test_dcli_work_passes_on_what_the_command_says(space, dcli):
    space.define(MACHINE.format(keys="retry: {limit: 3, delay: 1h}"))
    id = space.start("m")
    say = '{"transition": "error", "error": "no", "error_kind": "oom", "retry_after": "0s"}'
    dcli.ok("work", "--once", "--", "sh", "-c", f"cat >&2; echo '{say}'")
    assert failures(space, id) == [("oom", "no")]
    task = space.take()
    assert task.tries == 1
    space.relinquish(id, task.claim)
    say = '{"transition": "error", "fatal": true}'
    dcli.ok("work", "--once", "--", "sh", "-c", f"echo '{say}'")
    space.ends(id, "ERROR")


def test_dcli_work_makes_an_error_of_a_report_that_is_refused(space, dcli):
    space.define(MACHINE.format(keys="retry: {limit: 3, delay: 1h}"))
    id = space.start("m")
    say = '{"transition": "error", "error": "no", "error_kind": "no name"}'
    dcli.ok("work", "--once", "--", "sh", "-c", f"cat >&2; echo '{say}'")
    [(word, text)] = failures(space, id)
    assert word == "output" and "its report was refused: " in text and "error_kind" in text


def test_dcli_work_keeps_run_timeout(space, dcli):
    space.define(MACHINE.format(keys="run_timeout: 300ms\n    retry: {limit: 2, on: [timeout]}"))
    id = space.start("m")
    dcli.ok("work", "--once", "--", "sleep", "60")
    [(word, text)] = failures(space, id)
    assert word == "timeout" and "longer than 300ms" in text
    assert space.take().tries == 1


# kill -9 ----------------------------------------------------------------------------------------


def test_tries_and_timers_survive_kill_9(new_server):
    server = new_server().start()
    space = server.space("crash")
    space.define(MACHINE.format(keys="retry: {limit: 3, delay: 2s}\n    ready_timeout: 20s"))
    space.define(PLAN.format(keys="retry: {limit: 3, delay: 2s}"))
    space.define(NO_ERROR.replace("id: m", "id: holds"))
    space.define(NO_ERROR.replace("id: m", "id: lies").replace(
        "start: true", "start: true, ready_timeout: 1s"))
    machine, plan = space.start("m"), space.plan("p")
    held = space.start("holds")
    for task in space.ready(max_tasks=3, wait=SOON):
        fail(space, task, error="broke", error_kind="exit")
    lies = space.start("lies")
    before = now()
    server.kill()
    server.start()
    space = server.space("crash")
    assert state(space.get(held)) == "PAUSED" and "broke" in space.get(held).error
    assert [space.token(id).tries for id in (machine, plan, held)] == [1, 1, 1]
    tasks = []
    eventually(lambda: tasks.extend(space.ready(machine="m", max_tasks=9) +
                                    space.ready(machine="p", max_tasks=9)) or len(tasks) == 2,
               within=20.0)
    assert now() - before > 1.8
    assert [task.tries for task in tasks] == [1, 1]
    eventually(lambda: state(space.get(lies)) == "PAUSED", within=20.0)
    for task in tasks:
        fail(space, task, fatal=True)
    space.ends(machine, "ERROR")
    eventually(lambda: state(space.get(plan)) == "PAUSED")
    for id in (held, lies):
        space.resume(id)
    for task in space.ready(max_tasks=9, wait=SOON):
        space.report(task)
    eventually(lambda: all(result(space.get(id)) == "SUCCESS" for id in (held, lies)))
    assert server.stop() == 0


def test_a_duration_with_too_many_nanos_is_told_so(space):
    space.define(PLAN.format(keys="queue: q"))
    space.plan("p", params={})
    request = space.report_request(only(space.ready()), "error")
    request.retry_after.nanos = 10 ** 9
    with refused("INVALID_ARGUMENT", "BAD_REQUEST", "retry_after", "nanos"):
        space.call("Transition", request)
