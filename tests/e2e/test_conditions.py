"""Conditions (limits.md): the `if` of steps, wait_after_fail, and transitions that choose."""
import pytest

from support import duration, eventually, input_of, only, refused, state, step_state

FAILS = "action: x\nrescue: fail\n---\n"


def flow(*lines, top=""):
    return f"{top}plan: p\nflow:\n" + "".join(f"  - {line}\n" for line in lines)


@pytest.fixture
def run(space):
    """Defines a source and starts its plan p; the instance's id, once it is planned."""
    def begin(source, params=None, **more):
        space.define(source)
        return space.plan("p", params=params, **more)
    return begin


# Steps ------------------------------------------------------------------------------------------


def test_an_if_skips_a_step_without_a_warning_and_says_why(space, run):
    id = run(flow("{step: a, action: x}",
                  '{step: big, action: x, if: {value: "${a.output.n}", greater: 10}}',
                  '{step: small, action: x, if: {value: "${a.output.n}", less: 11}}',
                  '{step: reads, action: x, input: {v: "${small.output.v}"}}',
                  "{step: last, action: x, after: [big, small]}"))
    assert space.step(id, "big").condition == '{value: "${a.output.n}", greater: 10}'
    space.do("a", output={"n": 11})
    assert space.step_states(id) == {"a": "DONE", "big": "READY", "small": "SKIPPED",
                                     "reads": "SKIPPED", "last": "PENDING"}
    assert space.step(id, "small").note == \
        'its \'if\' is false: {value: "${a.output.n}", less: 11}'
    space.do("big")
    space.do("last")
    space.ends(id, "SUCCESS")


def test_what_failed_is_null_in_a_step_with_an_if_and_its_state_and_error_tell(space, run):
    id = run(flow("{step: a, action: x, rescue: skip}",
                  "{step: b, action: y}",
                  '{step: c, action: z, after: [b], if: always, input: {v: "${a.output.v}", '
                  'all: "${a.output}", state: "${a.state}", error: "${a.error}", '
                  'b: "${b.output.v}", ok: "${b.state}", none: "${b.error}"}}'))
    a, b = space.claim("a", "b")
    space.report(a, "error", error="no room")
    space.report(b, output={"v": 1})
    task = only(space.claim("c"))
    assert input_of(task) == {"v": None, "all": None, "state": "failed", "error": "no room",
                              "b": 1, "ok": "succeeded", "none": None}
    space.report(task)
    space.ends(id, "WARNING")  # because of a


def test_a_plan_that_fails_runs_its_finally_and_stops(space, run):
    id = run(flow("{step: a, action: x}", "{step: b, action: x, after: [a]}",
                  "{step: tidy, action: x, after: [b], if: always}",
                  "{step: next, action: x, after: [tidy]}", top=FAILS))
    space.fail("a", error="boom")
    space.do("tidy")
    space.do("next")
    instance = space.ends(id, "ERROR")
    assert "boom" in instance.error
    assert space.step_states(id) == {"a": "HELD", "b": "NOT_RUN", "tidy": "DONE", "next": "DONE"}


def test_what_is_blocked_behind_a_held_step_is_not_decided(space, run):
    id = run(flow("{step: a, action: x}", "{step: b, action: x, after: [a]}",
                  "{step: tidy, action: x, after: [b], if: always}",
                  "{step: alert, action: x, if: {failed: a}}"))
    space.fail("a")
    space.do("alert")
    eventually(lambda: state(space.get(id)) == "PAUSED")
    assert space.step_states(id) == {"a": "HELD", "b": "PENDING", "tidy": "PENDING",
                                     "alert": "DONE"}
    space.resume(id)
    for step in ("a", "b", "tidy"):
        space.do(step)
    space.ends(id, "SUCCESS")


def test_conditions_survive_a_kill(new_server):
    server = new_server().start()
    space = server.space("default")
    space.define(flow("{step: a, action: x}", "{step: b, action: x}",
                      "{step: c, action: x, after: [b], if: {failed: a}}",
                      "{step: d, action: x, if: {succeeded: a}}"))
    id = space.plan("p")
    a, b = space.claim("a", "b")
    space.report(a, "error", error="broke")
    server.kill()
    server.start()
    assert space.step_states(id) == {"a": "HELD", "b": "RUNNING", "c": "PENDING", "d": "SKIPPED"}
    space.report(b)
    server.kill()
    server.start()
    space.do("c")
    eventually(lambda: state(space.get(id)) == "PAUSED")
    space.resume(id)
    space.do("a")
    space.ends(id, "SUCCESS")


def test_a_nested_plan_is_skipped_as_a_whole(space, run):
    id = run("plan: q\nflow: [{step: l, action: x}]\n---\n" +
             flow("{step: a, action: x}",
                  '{step: web, plan: q, if: {value: "${a.output.go}", equals: true}}',
                  "{step: z, action: x, if: {skipped: web}}"))
    space.do("a", output={"go": False})
    assert step_state(space.step(id, "web.l")) == "SKIPPED"
    space.do("z")
    space.ends(id, "SUCCESS")


def test_a_wrong_condition_is_refused_where_it_stands(space):
    with refused("INVALID_ARGUMENT", "BAD_MACHINE", "flow[1].if", "no step 'b'"):
        space.define(flow("{step: a, action: x}", "{step: c, action: x, if: {failed: b}}"))
    with refused("INVALID_ARGUMENT", "BAD_MACHINE", "did you mean 'equals'"):
        space.define(flow("{step: a, action: x, if: {value: 1, equal: 1}}"))
    with refused("INVALID_ARGUMENT", "BAD_MACHINE", "a cycle"):
        space.define(flow("{step: a, action: x, if: {failed: b}}",
                          "{step: b, action: x, after: [a]}"))


# wait_after_fail --------------------------------------------------------------------------------


def test_wait_after_fail_pauses_though_others_could_go_on(space, run):
    id = run(flow("{step: a, action: x}", "{step: b, action: y}",
                  "{step: c, action: y, after: [b]}"), wait_after_fail=duration(0))
    a, b = space.claim("a", "b")
    space.report(a, "error", error="broke")
    assert state(space.get(id)) == "PAUSED"
    assert "broke" in space.get(id).error
    space.report(b)
    assert state(space.get(id)) == "PAUSED" and space.idle()
    space.resume(id)
    space.do("a", "c")
    space.ends(id, "SUCCESS")


def test_wait_after_fail_stops_though_others_could_go_on(space, run):
    id = run(flow("{step: a, action: x}", "{step: b, action: y}",
                  "{step: c, action: y, after: [b]}",
                  top=FAILS).replace("plan: p\n", "plan: p\nwait_after_fail: 0.2s\n"))
    a, b = space.claim("a", "b")
    space.report(a, "error", error="broke")
    assert state(space.get(id)) == "RUNNING"
    instance = space.ends(id, "ERROR")
    assert "broke" in instance.error
    assert space.step_states(id) == {"a": "HELD", "b": "RUNNING", "c": "NOT_RUN"}
    with refused("FAILED_PRECONDITION", "STALE_CLAIM"):
        space.report(b)


# Machines ---------------------------------------------------------------------------------------

CHOOSER = """
id: order
nodes:
  check:
    start: true
    transitions:
      ok:
      - {if: {value: "${check.output.sum}", greater: 1000}, to: approve}
      - {if: {value: "${given.back}", equals: true}, to: check}
      - {to: route}
  approve: {manual: true, transitions: {ok: route}}
  route:
    delay: 0s
    transitions:
      ok: [{if: {value: "${params.fast}", exists: true}, to: air}, {to: sea}]
  air: {final: true}
  sea: {final: true, result: warning}
"""


def test_a_transition_chooses_and_says_what_it_chose(space):
    space.define(CHOOSER)
    edges = [(edge.condition, only(edge.targets)) for edge in space.node("order", "check").transitions]
    assert edges == [('{value: "${check.output.sum}", greater: 1000}', "approve"),
                     ('{value: "${given.back}", equals: true}', "check"), ("", "route")]

    id = space.start("order")
    assert list(space.transition(id, "ok", output={"sum": 1001}).nodes) == ["approve"]
    space.transition(id, "ok")
    space.ends(id, "WARNING")
    notes = [change.note for change in space.history(id) if change.note.startswith("chose")]
    assert notes == ['chose approve: {value: "${check.output.sum}", greater: 1000}', "chose sea"]

    id = space.start("order", params={"fast": 1})
    assert list(space.transition(id, "ok", node_params={"back": True}).nodes) == ["check"]
    space.transition(id, "ok", output={"sum": 1000})
    space.ends(id, "SUCCESS")


def test_the_last_choice_has_no_if(space):
    with refused("INVALID_ARGUMENT", "BAD_MACHINE", "nodes.check.transitions.ok[2].to",
                 "the last choice"):
        space.define(CHOOSER.replace("- {to: route}", "- {if: {value: 1, equals: 1}, to: route}"))
    with refused("INVALID_ARGUMENT", "BAD_MACHINE", "there is no node 'chek'"):
        space.define(CHOOSER.replace("${check.output.sum}", "${chek.output.sum}"))


# dcli -------------------------------------------------------------------------------------------


def test_dcli_draws_choices_and_takes_wait_after_fail(space, dcli, tmp_path):
    file = tmp_path / "order.yaml"
    file.write_text(CHOOSER)
    assert "ok if {value: " in dcli.ok("graph", str(file), "--format", "dot")
    plan = tmp_path / "p.yaml"
    plan.write_text(flow("{step: a, action: x}", "{step: b, action: x}"))
    dcli.ok("define", str(plan))
    dcli.ok("start", "p", "--id", "i", "--wait-after-fail", "0s")
    dcli.ok("transition", "i", "error", "--node", "a")
    assert "PAUSED" in dcli.ok("instances")
