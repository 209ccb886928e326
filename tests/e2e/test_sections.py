"""Sections of plans (executions.md): tried again as a whole, and compensated."""
import pytest

from support import eventually, input_of, kind, only, outputs, refused, state, step_state

NODE = """\
plan: p
flow:
  sequence:
    - {step: before, action: x}
    - section: node1
      do: {sequence: [{step: create, action: vm.create}, {step: start, action: vm.start}]}
      retry: {limit: 3}
      compensate: {step: delete, action: vm.delete, input: {id: "${create.output.id}"}}
    - {step: behind, action: x}
"""
CREATE, START, DELETE = "node1.create", "node1.start", "node1/compensate.delete"


@pytest.fixture
def run(space):
    """Defines a source and starts its plan p; the instance's id, once it is planned."""
    def begin(source, params=None, **more):
        space.define(source)
        return space.plan("p", params=params, **more)
    return begin


def section(*lines, **keys):
    """A plan of one section with these steps, and these keys."""
    text = "plan: p\nflow:\n  - section: s\n    do:\n"
    text += "".join(f"      - {line}\n" for line in lines)
    return text + "".join(f"    {key}: {value}\n" for key, value in keys.items())


# Tries ------------------------------------------------------------------------------------------


def test_a_section_is_compensated_and_tried_again_with_new_visits_and_no_outputs(space, run):
    id = run(NODE)
    space.do("before")
    assert space.step(id, "node1").action == ""
    assert space.step(id, "node1").tries_limit == 3
    first = only(space.do(CREATE, output={"id": "vm-1"}))
    assert outputs(space.get(id))[CREATE] == {"id": "vm-1"}
    space.fail(START, error="no boot")
    assert outputs(space.get(id))[CREATE] == {"id": "vm-1"}
    task = only(space.claim(DELETE))
    assert input_of(task) == {"id": "vm-1"}
    assert step_state(space.step(id, "node1")) == "RUNNING"
    assert space.step(id, "node1").tries == 1
    space.report(task)
    again = only(space.claim(CREATE))
    assert again.visit > first.visit
    assert CREATE not in outputs(space.get(id))
    assert step_state(space.step(id, START)) == "PENDING"
    space.report(again, output={"id": "vm-2"})
    space.do(START)
    space.do("behind")
    space.ends(id, "SUCCESS")
    assert step_state(space.step(id, "node1")) == "DONE"
    assert step_state(space.step(id, DELETE)) == "NOT_RUN"


def test_the_last_failure_is_the_steps_and_nothing_is_compensated(space, run):
    id = run(NODE)
    space.do("before")
    for _ in range(2):
        space.do(CREATE, output={"id": 1})
        space.fail(START)
        space.do(DELETE)
    space.do(CREATE, output={"id": 1})
    space.fail(START, error="no boot")
    eventually(lambda: state(space.get(id)) == "PAUSED")
    assert space.idle()
    assert space.get(id).error == f"step {START}: no boot"
    assert space.step(id, "node1").tries == 3
    space.transition(id, "retry", node="node1")          # by hand: all of it, and all tries again
    space.do(DELETE)
    assert space.step(id, "node1").tries == 0
    space.do(CREATE)
    space.do(START)
    space.do("behind")
    space.ends(id, "SUCCESS")


def test_an_output_that_is_not_there_is_null_in_a_compensation(space, run):
    id = run(NODE)
    space.do("before")
    space.fail(CREATE)
    assert input_of(only(space.do(DELETE))) == {"id": None}
    space.do(CREATE, output={"other": 1})
    space.fail(START)
    assert input_of(only(space.claim(DELETE))) == {"id": None}
    space.cancel(id, "FORCE")


def test_a_section_waits_for_its_delay(new_server):
    server = new_server(virtual_clock="2026-01-01T00:00:00Z").start()
    space = server.space("")
    space.define(section("{step: a, action: x}",
                         retry="{limit: 3, delay: 10s, factor: 2}"))
    id = space.plan("p")
    for delay in (10, 20):
        space.fail("s.a")
        assert step_state(space.step(id, "s")) == "WAITING"
        server.advance(by=delay - 1)
        assert space.idle()
        server.advance(by=1)
        assert step_state(space.step(id, "s.a")) == "READY"
    space.fail("s.a")
    eventually(lambda: state(space.get(id)) == "PAUSED")


def test_a_section_is_tried_again_for_the_errors_that_it_names(space, run):
    id = run(section("{step: a, action: x}", retry="{limit: 5, on: [oom, transient]}"))
    for more in ({"error_kind": "oom"}, {"error": "Connection lost"}, {"error": "no network",
                                                                      "fatal": True}):
        space.report(only(space.claim("s.a")), "error", **more)
    assert space.step(id, "s").tries == 3
    space.fail("s.a", error="no such file")
    eventually(lambda: state(space.get(id)) == "PAUSED")
    assert step_state(space.step(id, "s.a")) == "HELD"


def test_a_step_that_nobody_takes_fails_its_section(space, run):
    id = run("action: x\nready_timeout: 500ms\n---\n" +
             section("{step: a, action: x}", "{step: b, action: y}",
                     retry="{limit: 9, on: [unclaimed]}"))
    space.report(only(space.ready(actions=["y"], wait=5.0)))
    eventually(lambda: space.step(id, "s").tries >= 1)
    tasks = space.ready(max_tasks=2, wait=5.0)
    assert {task.node for task in tasks} <= {"s.a", "s.b"}
    space.cancel(id, "FORCE")


def test_checkpoints_are_dropped_with_the_try(space, run):
    id = run(section("{step: a, action: x}", retry="2"))
    task = only(space.claim("s.a"))
    space.report(task, "error", checkpoint='{"n": 1}')
    assert only(space.claim("s.a")).checkpoint == ""
    space.cancel(id, "FORCE")


def test_what_has_begun_ends_first_and_what_has_not_is_dropped(space, run):
    id = run(section("{step: a, action: x}", "{step: b, action: y}", "{step: c, action: z}",
                     "{step: d, action: z}",
                     retry="2", compensate="{step: undo, action: x}"))
    a, b = only(space.ready(actions=["x"])), only(space.ready(actions=["y"]))
    space.suspend(b)
    c, d = space.ready(max_tasks=2, actions=["z"])
    space.relinquish(d.instance, d.claim)
    space.report(a, "error", error="no")
    woken = only(space.claim("s.b"))                      # d is not offered any more
    assert woken.event == "cancel"
    space.report(woken, "error", error="cancelled")
    assert space.idle()
    space.report(c)
    space.do("s/compensate.undo")
    assert sorted(task.node for task in space.ready(max_tasks=10)) == \
        ["s.a", "s.b", "s.c", "s.d"]
    with refused("FAILED_PRECONDITION", "STALE_CLAIM"):
        space.report(a)
    space.cancel(id, "FORCE")


def test_children_are_cancelled_and_the_numbers_of_others_go_on(space, run):
    space.define("plan: kid\nflow: [{step: k, action: k}]\n")
    id = run(section('{step: kids, spawn: {plan: kid, for_each: [1, 2]}}', "{step: a, action: x}",
                     retry="2"))
    eventually(lambda: len(space.children(id)) == 2)
    space.report(only(space.ready(actions=["x"], wait=5.0)), "error")
    for child in (f"{id}/s.kids/0", f"{id}/s.kids/1"):
        space.ends(child, "CANCELLED")
    eventually(lambda: len(space.children(id)) == 4)
    assert [child.id for child in space.children(id)] == [f"{id}/s.kids/{n}" for n in range(4)]
    space.cancel(id, "FORCE")


# The end ----------------------------------------------------------------------------------------


RESCUED = section("{step: a, action: x}", "{step: b, action: x, after: [a]}",
                  retry="2", compensate="{step: undo, action: x}", rescue="compensate")


def test_with_rescue_compensate_it_is_compensated_and_stops_with_error(space, run):
    id = run(RESCUED)
    for _ in range(2):
        space.do("s.a")
        space.fail("s.b", error="no room")
        eventually(lambda: step_state(space.step(id, "s.b")) == "PENDING")
        assert space.step(id, "s.b").error == "no room"
        space.do("s/compensate.undo")
    instance = space.ends(id, "ERROR")
    assert "s.b: no room" in instance.error
    assert step_state(space.step(id, "s")) == "HELD"


def test_what_a_section_has_stopped_is_resumed_with_all_of_its_tries(space, run):
    id = run(RESCUED.replace("flow:\n", "flow:\n  - {step: early, action: x}\n") +
             "    after: [early]\n")
    space.do("early", output={"n": 1})
    for _ in range(2):
        space.do("s.a")
        space.fail("s.b")
        space.do("s/compensate.undo")
    space.ends(id, "ERROR")
    space.resume(id)
    assert outputs(space.get(id)) == {"early": {"n": 1}}
    space.do("s.a")
    space.fail("s.b")
    space.do("s/compensate.undo")
    space.do("s.a")
    space.do("s.b")
    space.ends(id, "SUCCESS")


def test_a_resumed_section_has_a_new_set_of_tries(space, run):
    id = run(section("{step: a, action: x}", retry="{limit: 2}"))
    space.report(only(space.ready(actions=["x"])), "error")
    eventually(lambda: space.steps(id)["s"].tries == 1)
    space.cancel(id)
    space.resume(id)
    assert space.steps(id)["s"].tries == 0
    for _ in range(2):
        space.report(only(space.ready(actions=["x"], wait=5)), "error")
    eventually(lambda: step_state(space.steps(id)["s.a"]) == "HELD")
    assert space.steps(id)["s"].tries == 2


def test_what_fails_in_a_compensation_is_held(space, run):
    id = run(RESCUED)
    space.do("s.a")
    space.fail("s.b")
    space.fail("s/compensate.undo", error="stuck")
    eventually(lambda: state(space.get(id)) == "PAUSED")
    assert step_state(space.step(id, "s/compensate.undo")) == "HELD"
    with refused("FAILED_PRECONDITION", "ILLEGAL_TRANSITION"):
        space.transition(id, "retry", node="s")
    space.resume(id)
    space.do("s/compensate.undo")
    space.do("s.a")
    space.do("s.b")
    space.ends(id, "SUCCESS")


def test_by_hand_a_section_is_retried_only_while_a_step_in_it_is_held(space, run):
    id = run(NODE)
    for node in ("node1", "node1/compensate"):
        with refused("FAILED_PRECONDITION", "ILLEGAL_TRANSITION"):
            space.transition(id, "retry", node=node)
    space.cancel(id, "FORCE")


def test_sections_nest_and_the_innermost_with_a_try_left_is_tried(space, run):
    id = run("""\
plan: p
flow:
  section: o
  do:
    sequence:
      - {step: first, action: x}
      - {section: i, do: {step: a, action: x}, retry: 2}
  retry: 2
""")
    for outer in range(2):
        space.do("o.first")
        space.fail("o.i.a")
        assert space.step(id, "o.i").tries == 1
        space.fail("o.i.a")
        assert space.step(id, "o").tries == outer + 1
    eventually(lambda: state(space.get(id)) == "PAUSED")
    assert step_state(space.step(id, "o.i.a")) == "HELD"


def test_names_are_looked_up_inside_first_and_outside_waits_for_all(space, run):
    id = run("""\
plan: p
flow:
  - {step: a, action: x}
  - section: s
    do:
      - {step: a, action: x}
      - {step: r, action: x, input: {v: "${a.output.v}"}}
    retry: 2
  - {step: z, action: x, input: {mine: "${a.output.v}", its: "${s.a.output.v}"}}
""")
    outer, inner = space.claim("a", "s.a")
    space.report(outer, output={"v": "outer"})
    space.report(inner, output={"v": "inner"})
    assert input_of(only(space.do("s.r"))) == {"v": "inner"}
    assert input_of(only(space.do("z"))) == {"mine": "outer", "its": "inner"}
    space.ends(id, "SUCCESS")
    assert list(space.step(id, "z").after) == ["a", "s"]


@pytest.mark.parametrize("keys, mentions", [
    ({}, "retry"),
    ({"retry": "1"}, "twice"),
    ({"retry": "2", "rescue": "compensate"}, "compensate"),
    ({"retry": "2", "rescue": "skip", "compensate": "[]"}, "rescue"),
    ({"retry": "2", "colour": "red"}, "colour"),
])
def test_what_is_no_section_is_refused_with_its_place(space, keys, mentions):
    with refused("INVALID_ARGUMENT", None, mentions, "flow[0]"):
        space.define(section("{step: a, action: x}", **keys))


def test_a_worker_cannot_plan_in_a_section(space):
    with refused("INVALID_ARGUMENT", None, "worker"):
        space.define("action: w\nplan: worker\n---\n" + section("{step: a, action: w}", retry="2"))


def test_dcli_shows_a_section_with_its_tries(space, run, dcli):
    id = run(NODE)
    space.do("before")
    space.fail(CREATE)
    text = dcli.ok("show", id)
    assert "node1" in text and "try 2 of 3" in text
    assert "compensate" in text
    dcli.ok("graph", id)
    dcli.ok("graph", "p")
    space.cancel(id, "FORCE")


# Crashes ----------------------------------------------------------------------------------------


def test_a_kill_at_any_moment_loses_no_try_and_runs_nothing_twice(new_server):
    server = new_server().start()
    space = server.space("")
    space.define("action: x\ntimeout_strategy: fixed\ntimeout: 1.0\n---\n" + section(
        "{step: a, action: x}", "{step: b, action: x, after: [a]}",
        retry="{limit: 4, delay: 10ms}", compensate="{step: undo, action: x}",
        rescue="compensate"))
    id = space.plan("p")
    wanted = ["s.a", "s.b", "s/compensate.undo"] * 4
    done = []
    for number, node in enumerate(wanted):
        if number % 2:
            server.kill()
            server.start()
            space = server.space("")
        task = only(space.ready(max_tasks=10, wait=5.0))
        assert task.node == node, done
        if number % 3 == 1:
            assert space.step(id, "s").tries == number // 3
        space.report(task, "error" if node == "s.b" else "ok", error="no" if node == "s.b" else "")
        done.append((node, task.visit))
    space.ends(id, "ERROR")
    ended = [(change.prev_node, change.visit) for change in space.history(id)
             if kind(change) == "TRANSITIONED" and change.prev_node in wanted]
    assert [node for node, _ in ended] == wanted


def test_a_second_section_of_a_name_is_told_where_it_stands(space):
    with refused("INVALID_ARGUMENT", "BAD_MACHINE", "flow[1].section", "'s'"):
        space.define("plan: p\nflow:\n  - {section: s, do: {step: a, action: x}, retry: 2}\n"
                     "  - {section: s, do: {step: b, action: x}, retry: 2}\n")
