"""States and actions: each cell of the table, and how what has stopped goes on."""
import pytest

from stubs import v1
from support import (JOB, ONCE, PAIR, duration, eventually, kind, now, only, outputs, refused, result, state,
                     step_state, token_state)

LINE = "plan: p\nflow:\n  sequence: [{step: a, action: x}, {step: b, action: x}]\n"
FAILS = ("action: y\nrescue: fail\n---\nplan: p\nflow:\n"
         "  sequence: [{step: a, action: x}, {step: b, action: y}, {step: c, action: x}]\n")
FLEET = ("plan: leaf\nflow: [{step: l, action: x}]\n---\nplan: p\n"
         "flow: [{step: s, spawn: {plan: leaf, for_each: [1, 2, 3], as: n}}]\n")
PLANNER = ("action: w\nplan: worker\n---\nplan: p\nflow: [{step: b, action: w}]\n")
DELAYED = """\
id: delayed
nodes:
  wait: {start: true, delay: 1h, transitions: {ok: work}}
  work: {transitions: {ok: done}}
  done: {final: true}
"""
MODES = ("CANCEL", "FORCE", "KILL")


def test_steps_that_never_began_are_not_run(space):
    space.define("plan: p\nflow: [{step: never, action: x}, {step: unbegun, action: y},"
                 " {step: begun, action: z}]\n")
    id = space.plan("p")
    only(space.ready(actions=["y"], begin_within=duration(60)))
    only(space.ready(actions=["z"]))
    assert space.step_states(id) == {"never": "READY", "unbegun": "CLAIMED", "begun": "RUNNING"}
    assert space.cancel(id, "FORCE").leftovers == 0
    assert space.step_states(id) == {"never": "NOT_RUN", "unbegun": "NOT_RUN", "begun": "RUNNING"}


@pytest.mark.parametrize("strategy", ["continue", "upgrade", "abort"])
def test_what_a_new_version_has_left_behind_is_not_resumable(space, strategy):
    space.define(JOB)
    id = space.start("job")
    assert space.cancel(id).resumable
    space.define(JOB.replace("id: job", f"id: job\nupgrade_strategy: {strategy}"))
    space.define(JOB.replace("start: true", "start: true, queue: later"))
    views = [space.get(id), only(space.instances().instances), space.cancel(id),
             space.call("Start", space.start_request("job", id=id)).instance]
    assert {view.resumable for view in views} == {strategy == "continue"}
    if strategy == "continue":
        space.resume(id)
    else:
        with refused("FAILED_PRECONDITION", "SUPERSEDED_VERSION"):
            space.resume(id)


def test_a_child_that_was_resumed_alone_outlives_its_parents_end(space):
    space.define("plan: leaf\nflow: [{step: l, action: x}]\n---\nplan: p\nflow:\n"
                 "  sequence:\n    - {step: s, spawn: {plan: leaf, for_each: [1], as: n}}\n"
                 "    - {step: z, action: z}\n")
    id = space.plan("p")
    child = eventually(lambda: only(space.instances(parent=id).instances)).id
    space.cancel(child)
    eventually(lambda: step_state(space.steps(id)["s"]) == "HELD")
    space.skip(id)
    space.resume(child)
    space.report(only(space.ready(actions=["z"], wait=5)))
    assert standing(space, id) == ("STOPPED", "WARNING")
    space.report(only(space.ready(actions=["x"])))
    assert standing(space, child) == ("STOPPED", "SUCCESS")
    assert "CANCELLED" not in space.story(child)[space.story(child).index("RESUMED"):]


def standing(space, id):
    instance = space.get(id)
    return state(instance), result(instance)


def mode(instance):
    return v1.CancelRequest.Mode.Name(instance.cancel)


def begins_late(space):
    """An instance that is SCHEDULED."""
    space.define(JOB)
    return space.start("job", start_at=now() + 3600)


def plans(space):
    """An instance that is PLANNING, with its planner's task claimed."""
    space.define(PLANNER)
    id = space.start("p")
    task = space.take()
    assert task.phase == "plan"
    return id


def runs(space):
    """An instance whose work somebody has."""
    space.define(JOB)
    id = space.start("job")
    space.take("job")
    return id


def is_cancelled(space):
    """An instance that waits for a worker, to stop."""
    id = runs(space)
    assert state(space.cancel(id)) == "RUNNING"
    return id


def is_paused(space):
    id = runs(space)
    space.pause(id)
    return id


def is_stuck(space):
    """A plan of which all that is left is held."""
    space.define(LINE)
    id = space.plan("p")
    space.fail("a")
    assert state(space.get(id)) == "PAUSED"
    return id


def was_cancelled(space):
    space.define(JOB)
    id = space.start("job")
    space.cancel(id)
    return id


def has_ended(space):
    space.define(JOB)
    id = space.start("job")
    space.transition(id, "ok")
    return id


# The table --------------------------------------------------------------------------------------

# For each state what each call answers: the state after it, or the reason of FAILED_PRECONDITION.
TABLE = [
    (begins_late, {"pause": "PAUSED", "resume": "SCHEDULED", "resume --force": "SCHEDULED",
                   "CANCEL": "STOPPED", "FORCE": "STOPPED", "KILL": "STOPPED",
                   "skip": "NOT_HELD"}),
    (plans, {"pause": "PAUSED", "resume": "PLANNING", "resume --force": "PLANNING",
             "CANCEL": "PLANNING", "FORCE": "STOPPED", "KILL": "STOPPED", "skip": "NOT_HELD"}),
    (runs, {"pause": "PAUSED", "resume": "RUNNING", "resume --force": "RUNNING",
            "CANCEL": "RUNNING", "FORCE": "STOPPED", "KILL": "STOPPED", "skip": "NOT_HELD"}),
    (is_cancelled, {"pause": "RUNNING", "resume": "CANCELLING", "resume --force": "CANCELLING",
                    "CANCEL": "RUNNING", "FORCE": "STOPPED", "KILL": "STOPPED",
                    "skip": "NOT_HELD"}),
    (is_paused, {"pause": "PAUSED", "resume": "RUNNING", "resume --force": "RUNNING",
                 "CANCEL": "RUNNING", "FORCE": "STOPPED", "KILL": "STOPPED", "skip": "NOT_HELD"}),
    (is_stuck, {"pause": "PAUSED", "resume": "RUNNING", "resume --force": "RUNNING",
                "CANCEL": "STOPPED", "FORCE": "STOPPED", "KILL": "STOPPED", "skip": "RUNNING"}),
    (was_cancelled, {"pause": "INSTANCE_STOPPED", "resume": "RUNNING",
                     "resume --force": "RUNNING", "CANCEL": "STOPPED", "FORCE": "STOPPED",
                     "KILL": "STOPPED", "skip": "INSTANCE_STOPPED"}),
    (has_ended, {call: "INSTANCE_STOPPED" for call in
                 ("pause", "resume", "resume --force", "CANCEL", "FORCE", "KILL", "skip")}),
]


def act(space, id, call):
    if call in MODES:
        return space.cancel(id, call)
    if call == "resume --force":
        return space.resume(id, force=True)
    return getattr(space, call)(id)


@pytest.mark.parametrize("begin, call, outcome", [
    pytest.param(begin, call, outcome, id=f"{begin.__name__}-{call}")
    for begin, row in TABLE for call, outcome in row.items()])
def test_what_a_call_does_in_a_state(space, begin, call, outcome):
    id = begin(space)
    before = space.story(id)
    instance = space.get(id)
    if outcome == outcome.upper() and outcome in v1.Instance.State.keys():
        assert state(act(space, id, call)) == outcome
    else:
        with refused("FAILED_PRECONDITION", outcome, id):
            act(space, id, call)
        assert space.story(id) == before
    if outcome == state(instance) and call not in ("resume --force", *MODES):
        assert space.story(id) == before


def test_a_cancel_is_told_with_its_mode_and_time(space):
    id = is_cancelled(space)
    instance = space.get(id)
    assert mode(instance) == "CANCEL"
    since = instance.cancel_time
    assert since.seconds > 0 and not instance.resumable
    space.cancel(id, "FORCE")
    instance = space.get(id)
    assert instance.cancel_time == since and instance.resumable
    space.resume(id)
    instance = space.get(id)
    assert mode(instance) == "MODE_UNSPECIFIED" and not instance.HasField("cancel_time")
    assert not instance.resumable and not instance.HasField("end_time")


def test_skip_of_a_plan_that_was_paused_by_hand_leaves_it_paused(space):
    space.define("plan: p\nflow: [{step: a, action: x}, {step: b, action: x}]\n")
    id = space.plan("p")
    a, b = space.claim("a", "b")
    space.report(a, "error")
    space.pause(id)
    assert state(space.skip(id, "a")) == "PAUSED"
    assert state(space.resume(id)) == "RUNNING"
    space.report(b)
    space.ends(id, "WARNING")


def test_a_planners_task_is_handed_out_anew_by_force(space):
    id = plans(space)
    assert space.ready() == []
    space.resume(id, force=True)
    assert only(space.ready()).phase == "plan"


# Machines ---------------------------------------------------------------------------------------


def test_a_machine_goes_on_at_the_node_where_it_stood(space):
    space.define(PAIR)
    id = space.start("pair", params={"v": 1}, labels={"k": "v"})
    space.report(space.take("pair"), output={"n": 1})
    space.cancel(id)
    assert standing(space, id) == ("STOPPED", "CANCELLED")
    instance = space.resume(id)
    assert (state(instance), result(instance), instance.version) == ("RUNNING", "PENDING", 1)
    assert outputs(space.get(id)) == {"first": {"n": 1}} and instance.labels["k"] == "v"
    assert space.token(id).node == "second"
    assert [i.id for i in space.instances(state=v1.Instance.STOPPED).instances] == []
    assert [i.id for i in space.instances(state=v1.Instance.RUNNING).instances] == [id]
    space.report(space.take("pair"))
    space.ends(id, "SUCCESS")
    assert space.story(id) == ["STARTED", "TRANSITIONED", "CANCELLED", "FINISHED", "RESUMED",
                               "TRANSITIONED", "FINISHED"]
    resumed = only([c for c in space.history(id) if kind(c) == "RESUMED"])
    assert resumed.node == "second" and "CANCELLED" in resumed.note


def test_what_never_began_begins(space):
    space.define(JOB)
    for more in ({"hold": True}, {"start_at": now() + 3600}):
        id = space.start("job", **more)
        space.cancel(id)
        assert space.get(id).resumable
        assert state(space.resume(id)) == "RUNNING"
        space.report(space.take("job"))
        space.ends(id, "SUCCESS")


def test_work_in_hand_when_force_came_stays_with_its_worker(space):
    space.define(JOB)
    id = space.start("job")
    task = space.take("job")
    space.cancel(id, "FORCE")
    space.resume(id)
    assert space.idle() and token_state(space.token(id)) == "CLAIMED"
    space.report(task)
    space.ends(id, "SUCCESS")


def test_its_deadline_runs_on(space):
    space.define(JOB.replace("start: true", "start: true, timeout_strategy: fixed, timeout: 0.5"))
    id = space.start("job")
    task = space.take("job")
    space.cancel(id, "FORCE")
    space.ready("nowhere", wait=0.7)
    space.resume(id)
    again = space.take("job")
    assert (again.visit, again.attempt) == (task.visit, 2)


def test_a_late_report_is_refused_and_counts_at_the_resume(space):
    space.define(PAIR)
    id = space.start("pair")
    task = space.take("pair")
    space.cancel(id, "FORCE")
    with refused("FAILED_PRECONDITION", "STALE_CLAIM", id):
        space.report(task, output={"n": 1})
    with refused("FAILED_PRECONDITION", "STALE_CLAIM", id):
        space.report(task, "error")  # the first of a visit is kept
    late = only([c for c in space.history(id) if kind(c) == "LATE"])
    assert (late.node, late.transition, late.visit, late.attempt) == ("first", "ok", 1, 1)
    assert standing(space, id) == ("STOPPED", "CANCELLED")
    space.resume(id)
    assert space.token(id).node == "second"
    assert outputs(space.get(id)) == {"first": {"n": 1}}
    assert space.report(task, output={"n": 1}).node == "second"  # answered as it was then


def test_a_claim_given_back_meanwhile_is_free_at_the_resume(space):
    space.define(ONCE)
    id = space.start("once")
    task = space.take("once")
    space.cancel(id, "FORCE")
    with refused("FAILED_PRECONDITION", "STALE_CLAIM", id):
        space.relinquish(id, task.claim)
    space.resume(id)
    assert only(space.ready("once")).attempt == 2


def test_force_voids_claims_and_late_reports(space):
    space.define(PAIR)
    id = space.start("pair")
    task = space.take("pair")
    space.cancel(id, "KILL")
    with refused("FAILED_PRECONDITION", "STALE_CLAIM", id):
        space.report(task)
    space.resume(id, force=True)
    again = space.take("pair")
    assert (again.node, again.attempt) == ("first", 2)
    with refused("FAILED_PRECONDITION", "STALE_CLAIM", id):
        space.report(task)
    assert space.report(again).node == "second"


def test_the_node_of_a_resume_must_be_one_where_it_stood(space):
    space.define(PAIR)
    id = space.start("pair")
    space.cancel(id)
    with refused("NOT_FOUND", "NO_SUCH_NODE", "nowhere"):
        space.resume(id, "nowhere")
    with refused("FAILED_PRECONDITION", "NOT_HELD", "second"):
        space.resume(id, "second")
    assert standing(space, id) == ("STOPPED", "CANCELLED")
    assert state(space.resume(id, "first")) == "RUNNING"


def test_a_version_that_was_left_behind_is_not_resumed(space):
    space.define(JOB)
    id = space.start("job")
    space.cancel(id)
    space.define(JOB + "upgrade_strategy: upgrade\n")
    with refused("FAILED_PRECONDITION", "SUPERSEDED_VERSION", id):
        space.resume(id)
    kept = space.start("job")
    space.cancel(kept)
    space.define(JOB + "upgrade_strategy: continue\ndescription: other\n")
    assert space.resume(kept).version == 2


def test_a_delay_that_was_over_meanwhile_is_over(space):
    space.define(DELAYED.replace("1h", "300ms"))
    id = space.start("delayed")
    space.cancel(id)
    space.ready("nowhere", wait=0.5)
    space.resume(id)
    assert space.take("delayed").node == "work"


# Plans ------------------------------------------------------------------------------------------


def test_done_steps_stay_done_and_the_rest_begins_anew(space):
    space.define(LINE)
    id = space.plan("p")
    space.do("a", output={"v": 1})
    task = only(space.claim("b"))
    space.cancel(id)
    assert space.step_states(id)["a"] == "DONE"
    space.report(task, "error")
    space.ends(id, "CANCELLED")
    assert space.step_states(id)["a"] == "DONE"
    assert state(space.resume(id)) == "RUNNING"
    space.do("b", output={"v": 2})
    instance = space.ends(id, "SUCCESS")
    assert outputs(instance) == {"a": {"v": 1}, "b": {"v": 2}}


def test_a_step_done_under_the_cancel_leads_on_at_the_resume(space):
    space.define(LINE)
    id = space.plan("p")
    task = only(space.claim("a"))
    space.cancel(id)
    space.report(task)
    space.ends(id, "CANCELLED")
    assert space.step_states(id) == {"a": "DONE", "b": "NOT_RUN"}
    space.resume(id)
    space.do("b")
    space.ends(id, "SUCCESS")


def test_suspended_steps_begin_anew(space):
    space.define(LINE)
    id = space.plan("p")
    space.suspend(only(space.claim("a")))
    space.cancel(id, "FORCE")
    space.resume(id)
    task = only(space.claim("a"))
    assert task.event == ""
    space.report(task)
    space.do("b")
    space.ends(id, "SUCCESS")


def test_a_plan_that_failed_is_tried_again(space):
    space.define(FAILS)
    id = space.plan("p")
    space.do("a")
    space.fail("b")
    instance = space.ends(id, "ERROR")
    assert instance.resumable
    assert space.step_states(id) == {"a": "DONE", "b": "HELD", "c": "NOT_RUN"}
    with refused("FAILED_PRECONDITION", "INSTANCE_STOPPED", id):
        space.cancel(id)
    assert state(space.resume(id)) == "RUNNING"
    assert space.get(id).error == ""
    space.do("b")
    space.do("c")
    space.ends(id, "SUCCESS")


def test_what_wait_after_fail_cut_short_goes_on(space):
    space.define("action: y\nrescue: fail\n---\nplan: p\nwait_after_fail: 0s\nflow:\n"
                 "  - {step: a, action: y}\n  - {step: b, action: x}\n"
                 "  - {step: c, action: x, after: [b]}\n")
    id = space.plan("p")
    a, b = space.claim("a", "b")
    space.report(a, "error", error="no")
    space.ends(id, "ERROR")
    with refused("FAILED_PRECONDITION", "STALE_CLAIM", id):
        space.report(b)
    assert "LATE" in space.story(id)
    space.resume(id)
    space.do("a", "c")  # b was done when it was resumed
    space.ends(id, "SUCCESS")


def test_children_that_were_cancelled_are_resumed_with_their_parent(space):
    space.define(FLEET)
    id = space.plan("p")
    eventually(lambda: len(space.children(id)) == 3)
    tasks = space.ready(max_tasks=10, wait=1)
    space.report(tasks[0])
    done = tasks[0].instance
    space.cancel(id, "FORCE")
    eventually(lambda: all(state(c) == "STOPPED" for c in space.children(id)))
    space.resume(id)
    eventually(lambda: all(state(c) == "RUNNING" for c in space.children(id) if c.id != done))
    assert result([c for c in space.children(id) if c.id == done][0]) == "SUCCESS"
    for task in tasks[1:]:
        space.report(task)
    instance = space.ends(id, "SUCCESS")
    assert outputs(instance)["s"] == {"total": 3, "success": 3, "failed": 0, "cancelled": 0}


def test_a_child_that_was_cancelled_by_hand_stays_so(space):
    space.define(FLEET)
    id = space.plan("p")
    eventually(lambda: len(space.children(id)) == 3)
    mine = space.children(id)[0].id
    space.cancel(mine)
    space.cancel(id)
    space.ends(id, "CANCELLED")
    space.resume(id)
    eventually(lambda: [state(c) for c in space.children(id)].count("RUNNING") == 2)
    assert standing(space, mine) == ("STOPPED", "CANCELLED")


def test_a_parent_that_went_on_is_not_touched(space):
    space.define(FLEET)
    id = space.plan("p")
    eventually(lambda: len(space.children(id)) == 3)
    for child in space.children(id):
        space.cancel(child.id)
    eventually(lambda: step_state(space.step(id, "s")) == "HELD")
    space.skip(id, "s")
    space.ends(id, "WARNING")
    child = space.children(id)[0].id
    assert state(space.resume(child)) == "RUNNING"
    assert standing(space, id) == ("STOPPED", "WARNING")


def test_a_singleton_that_is_taken_refuses_the_resume(space):
    space.define("plan: p\nsingleton: only\nflow: [{step: a, action: x}]\n")
    first = space.plan("p")
    space.cancel(first)
    second = space.plan("p")
    with refused("FAILED_PRECONDITION", "ILLEGAL_TRANSITION", "only"):
        space.resume(first)
    assert standing(space, first) == ("STOPPED", "CANCELLED")
    space.cancel(second)
    assert state(space.resume(first)) == "RUNNING"


def test_a_limit_without_room_has_the_resumed_wait_its_turn(space):
    space.define("id: job\nlimit: {key: few, max: 1, on_conflict: wait}\nnodes:\n"
                 "  work: {start: true, transitions: {ok: done}}\n  done: {final: true}\n")
    first = space.start("job")
    space.cancel(first)
    second = space.start("job")
    assert state(space.resume(first)) == "PAUSED"
    space.report(only([t for t in space.ready("job", max_tasks=9) if t.instance == second]))
    eventually(lambda: state(space.get(first)) == "RUNNING")
    space.report(space.take("job"))
    space.ends(first, "SUCCESS")


def test_a_group_is_finished_again_with_a_member_that_was_resumed(space):
    space.define(JOB)
    id = space.start("job", group="g")
    space.cancel(id)
    def finished():
        return space.changes(kinds=["GROUP_FINISHED"])[0]

    eventually(lambda: len(finished()) == 1)
    space.resume(id)
    space.report(space.take("job"))
    space.ends(id, "SUCCESS")
    eventually(lambda: len(finished()) == 2)


# Crashes, and dcli ------------------------------------------------------------------------------


def test_all_of_it_survives_kill_9(new_server):
    server = new_server().start()
    space = server.space("s")
    space.define(PAIR + "---\n" + FLEET + "---\nplan: q\nflow:\n"
                 "  sequence: [{step: a, action: z}, {step: b, action: z}]\n")
    pair = space.start("pair")
    late = space.take("pair")
    plan = space.plan("q")
    space.report(space.take(action="z"))
    in_hand = space.take(action="z")
    fleet = space.plan("p")
    eventually(lambda: len(space.children(fleet)) == 3)
    for id in (pair, plan, fleet):
        space.cancel(id, "FORCE")
    with refused("FAILED_PRECONDITION", "STALE_CLAIM", pair):
        space.report(late)
    server.kill()
    server.start()
    eventually(lambda: all(state(c) == "STOPPED" for c in space.children(fleet)))
    assert all(space.get(id).resumable for id in (pair, plan, fleet))
    for id in (pair, plan, fleet):
        space.resume(id)
    server.kill()
    server.start()
    assert space.token(pair).node == "second"
    assert space.step_states(plan) == {"a": "DONE", "b": "RUNNING"}
    space.report(in_hand)
    space.ends(plan, "SUCCESS")
    space.report(space.take("pair"))
    space.ends(pair, "SUCCESS")
    eventually(lambda: all(state(c) == "RUNNING" for c in space.children(fleet)))
    for task in space.ready(max_tasks=10, wait=1):
        space.report(task)
    space.ends(fleet, "SUCCESS")


def test_dcli_shows_that_it_can_be_resumed_and_resumes_it(space, dcli):
    id = is_cancelled(space)
    assert "cancel " + id + " --force" in dcli.ok("show", id)
    dcli.ok("cancel", id, "--force")
    shown = dcli.ok("show", id)
    assert "Resumable" in shown and "dcli resume " + id in shown
    assert "RUNNING" in dcli.ok("resume", id).upper()
    assert state(space.get(id)) == "RUNNING"
