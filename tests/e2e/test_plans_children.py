"""Sub-plans: spawn steps, children that a worker asks for, and what becomes of both."""
import json

import pytest

from stubs import v1
from support import (SOON, duration, eventually, from_json, input_of, kind, now, only, outputs,
                     refused, result, state, step_state, timestamp)

CHILD = """\
plan: child
params: {type: object, properties: {n: {type: integer}}}
flow: [{step: c, action: c, input: {n: "${params.n}"}}]
---
"""
SPAWN = CHILD + """\
plan: p
flow:
  sequence:
    - {step: s, spawn: {plan: child, for_each: "${params.l}", as: e, input: {n: "${e}"}MORE}}
    - {step: z, action: z, input: {all: "${s.output}"}}
"""
WORKER = CHILD + "plan: p\nflow:\n  sequence: [{step: a, action: a}, {step: z, action: z}]\n"


def spawning(concurrency=None):
    return SPAWN.replace("MORE", f", concurrency: {concurrency}" if concurrency else "")


@pytest.fixture
def spawn(space):
    """Starts p, whose step s spawns a child for each of `count`; the id of p."""
    def begin(count, concurrency=None):
        space.define(spawning(concurrency))
        return space.plan("p", params={"l": list(range(count))})
    return begin


def take_children(space, count):
    """Claims the steps of that many children, and there are no more: tasks by their n."""
    found = {}
    while len(found) < count:
        tasks = space.ready(action="c", wait=SOON, max_tasks=100)
        assert tasks, f"{len(found)} of {count} came"
        found.update((input_of(task)["n"], task) for task in tasks)
    assert len(found) == count and space.ready(action="c") == []
    return found


def numbers(space, parent, step="s"):
    """The N of its children's ids, which are PARENT/STEP/N."""
    children = space.children(parent)
    prefix = f"{parent}/{step}/"
    assert all(one.id.startswith(prefix) for one in children), [one.id for one in children]
    return sorted(int(one.id.removeprefix(prefix)) for one in children)


def child_of(space, parent, n):
    return only([one for one in space.children(parent) if from_json(one.params)["n"] == n])


def counts(space, id, path="s"):
    children = space.step(id, path).children
    return {name: getattr(children, name)
            for name in ("total", "started", "running", "success", "failed", "cancelled")}


def is_held(space, id, path="s"):
    return step_state(space.step(id, path)) == "HELD"


def live_at_most(space, parent):
    """The most children that lived at once, by the feed."""
    live, most = set(), 0
    for change in space.changes("0")[0]:
        if change.instance.startswith(parent + "/"):
            if kind(change) == "STARTED":
                live.add(change.instance)
            elif kind(change) == "FINISHED":
                live.discard(change.instance)
            most = max(most, len(live))
    return most


# Spawn -----------------------------------------------------------------------------------------


def test_a_step_spawns_an_instance_for_each_item_and_waits_for_them(space, spawn):
    id = spawn(3)
    tasks = take_children(space, 3)
    assert set(tasks) == {0, 1, 2}
    assert all((task.machine, task.node, task.phase) == ("child", "c", "run")
               for task in tasks.values())
    children = space.children(id)
    assert {one.parent for one in children} == {id}
    assert {from_json(one.params)["n"] for one in children} == {0, 1, 2}
    found = numbers(space, id)
    assert found in ([0, 1, 2], [1, 2, 3])
    for n, task in tasks.items():
        assert task.instance == f"{id}/s/{found[n]}", "in the order of the list"
    assert space.ready(max_tasks=10) == [], "no worker is held"
    assert counts(space, id) == {"total": 3, "started": 3, "running": 3, "success": 0,
                                 "failed": 0, "cancelled": 0}
    assert step_state(space.step(id, "s")) in ("SUSPENDED", "WAITING", "RUNNING")
    assert state(space.get(id)) == "RUNNING"


def test_the_parent_goes_on_in_the_commit_in_which_the_last_child_stops(space, spawn):
    id = spawn(3)
    tasks = list(take_children(space, 3).values())
    for task in tasks[:2]:
        space.report(task)
        assert step_state(space.step(id, "s")) != "DONE"
    reply = space.report(tasks[2])
    assert reply.state == v1.Instance.STOPPED
    assert step_state(space.step(id, "s")) == "DONE"
    wanted = {"total": 3, "success": 3, "failed": 0, "cancelled": 0}
    assert outputs(space.get(id))["s"] == wanted
    assert input_of(only(space.do("z"))) == {"all": wanted}
    space.ends(id, "SUCCESS")


def test_a_spawn_of_nothing_goes_on_at_once(space, spawn):
    id = spawn(0)
    assert input_of(only(space.do("z"))) == {
        "all": {"total": 0, "success": 0, "failed": 0, "cancelled": 0}}
    space.ends(id, "SUCCESS")
    assert space.children(id) == []


def test_a_spawn_waits_for_what_comes_before_it(space):
    space.define(CHILD + """\
plan: p
flow:
  sequence:
    - {step: a, action: a}
    - {step: s, spawn: {plan: child, for_each: "${params.l}", as: e, input: {n: "${e}"}}}
""")
    id = space.plan("p", params={"l": [1, 2]})
    assert space.children(id) == []
    assert [task.node for task in space.ready(max_tasks=10)] == ["a"]
    space.transition(id, "ok", node="a")
    for task in take_children(space, 2).values():
        space.report(task)
    space.ends(id, "SUCCESS")


def test_a_child_may_be_given_what_an_earlier_step_put_out(space):
    space.define(CHILD + """\
plan: p
flow:
  - {step: a, action: a}
  - {step: s, spawn: {plan: child, for_each: "${params.l}", as: e, input: {n: "${a.output.n}"}}}
""")
    id = space.plan("p", params={"l": [1]})
    space.do("a", output={"n": 77})
    space.report(take_children(space, 1)[77])
    space.ends(id, "SUCCESS")


def test_no_more_than_so_many_children_live_at_once_and_the_rest_do_not_exist(space, spawn):
    id = spawn(12, concurrency=3)
    open_ = take_children(space, 3)
    assert set(open_) == {0, 1, 2}
    done = 0
    while open_:
        assert len(space.children(id)) == done + len(open_)
        live = [one for one in space.children(id) if state(one) != "STOPPED"]
        assert len(live) == len(open_) <= 3
        assert counts(space, id) == {
            "total": 12, "started": done + len(open_), "running": len(open_), "success": done,
            "failed": 0, "cancelled": 0}
        n = max(open_)  # not in their order
        space.report(open_.pop(n))
        done += 1
        more = min(3, 12 - done) - len(open_)
        open_ |= {input_of(task)["n"]: task
                  for task in ([space.take(action="c")] if more else [])}
    assert live_at_most(space, id) == 3
    assert numbers(space, id) in (list(range(12)), list(range(1, 13)))
    space.do("z")
    space.ends(id, "SUCCESS")


def test_children_are_listed_by_their_parent_in_pages(space, spawn):
    id = spawn(5)
    other = space.plan("p", params={"l": [9]})
    seen, token = [], ""
    while True:
        page = space.instances(parent=id, page_size=2, page_token=token)
        assert len(page.instances) <= 2
        seen += [one.id for one in page.instances]
        token = page.next_page_token
        if not token:
            break
    assert len(seen) == len(set(seen)) == 5 and all(one.startswith(f"{id}/s/") for one in seen)
    assert only(space.instances(parent=other).instances).id.startswith(f"{other}/s/")
    assert list(space.instances(parent=seen[0]).instances) == []
    assert {one.id for one in space.instances(machine="p").instances} == {id, other}


def test_a_warning_of_a_child_is_a_success(space):
    space.define("action: c\nrescue: skip\n---\n" + spawning())
    id = space.plan("p", params={"l": [0, 1]})
    tasks = take_children(space, 2)
    space.report(tasks[0], "error")
    assert result(child_of(space, id, 0)) == "WARNING"
    space.report(tasks[1])
    assert outputs(space.get(id))["s"] == {"total": 2, "success": 2, "failed": 0, "cancelled": 0}
    space.do("z")
    space.ends(id, "SUCCESS")


def test_many_children_cost_the_parent_no_more_each(space, spawn):
    id = spawn(2000, concurrency=200)
    done = 0
    while done < 2000:
        tasks = space.ready(action="c", wait=SOON, max_tasks=200)
        assert tasks, f"{done} are done"
        space.report_all([space.report_request(task) for task in tasks])
        done += len(tasks)
    assert outputs(space.get(id))["s"] == {
        "total": 2000, "success": 2000, "failed": 0, "cancelled": 0}
    assert live_at_most(space, id) <= 200
    space.do("z")
    space.ends(id, "SUCCESS")


# Failing ---------------------------------------------------------------------------------------

FAIL = "action: c\nrescue: fail\n---\n"


def test_a_failed_child_holds_the_step_once_no_child_runs(space):
    space.define(FAIL + spawning())
    id = space.plan("p", params={"l": [0, 1]})
    tasks = take_children(space, 2)
    space.report(tasks[0], "error", error="no good")
    assert result(child_of(space, id, 0)) == "ERROR"
    assert not is_held(space, id) and state(space.get(id)) == "RUNNING"
    space.report(tasks[1])
    assert is_held(space, id) and state(space.get(id)) == "PAUSED"
    assert counts(space, id) == {"total": 2, "started": 2, "running": 0, "success": 1,
                                 "failed": 1, "cancelled": 0}
    assert space.step(id, "s").error
    space.skip(id, "s")
    assert step_state(space.step(id, "z")) == "SKIPPED", "it needs the output"
    space.ends(id, "WARNING")


def test_a_failed_child_does_not_keep_the_others_from_starting(space):
    space.define(FAIL + spawning(concurrency=1))
    id = space.plan("p", params={"l": [0, 1, 2]})
    for n in range(3):
        task = take_children(space, 1)[n]
        space.report(task, "error" if n == 0 else "ok")
    assert is_held(space, id)
    assert counts(space, id)["success"] == 2


def test_a_child_that_is_paused_counts_as_failed_while_it_is(space, spawn):
    id = spawn(2)
    tasks = take_children(space, 2)
    space.report(tasks[0], "error")
    child = child_of(space, id, 0)
    assert state(child) == "PAUSED"
    assert counts(space, id)["failed"] == 1 and not is_held(space, id)
    space.resume(child.id)
    assert counts(space, id)["failed"] == 0
    space.report(take_children(space, 1)[0])
    space.report(tasks[1])
    assert step_state(space.step(id, "s")) == "DONE"
    space.do("z")
    space.ends(id, "SUCCESS")


def test_a_held_step_goes_on_when_the_child_was_resumed_and_then_the_step(space, spawn):
    id = spawn(2)
    tasks = take_children(space, 2)
    space.report(tasks[0], "error")
    space.report(tasks[1])
    assert is_held(space, id) and state(space.get(id)) == "PAUSED"
    space.resume(child_of(space, id, 0).id)
    space.resume(id)
    assert state(space.get(id)) == "RUNNING" and not is_held(space, id)
    space.report(take_children(space, 1)[0])
    assert outputs(space.get(id))["s"] == {"total": 2, "success": 2, "failed": 0, "cancelled": 0}
    space.do("z")
    space.ends(id, "SUCCESS")


def test_a_step_that_is_resumed_after_its_child_has_ended_well_is_done(space, spawn):
    id = spawn(1)
    space.report(take_children(space, 1)[0], "error")
    assert is_held(space, id)
    space.resume(child_of(space, id, 0).id)
    space.report(take_children(space, 1)[0])
    space.resume(id)
    eventually(lambda: step_state(space.step(id, "s")) == "DONE")
    space.do("z")
    space.ends(id, "SUCCESS")


def test_a_step_that_is_resumed_while_its_child_is_still_failed_is_held_again(space, spawn):
    id = spawn(1)
    space.report(take_children(space, 1)[0], "error")
    space.resume(id)
    eventually(lambda: is_held(space, id))
    assert state(space.get(id)) == "PAUSED"
    assert len(space.children(id)) == 1, "it was planned: it is not started again"


def test_children_that_never_got_planned_are_started_again(space, spawn):
    space.define(spawning())
    id = space.plan("p", params={"l": [1, "two"]})  # n must be an integer
    space.report(take_children(space, 1)[1])
    eventually(lambda: is_held(space, id))
    assert counts(space, id)["failed"] == 1
    space.define(CHILD.removesuffix("---\n").replace("{n: {type: integer}}", "{}"))
    space.resume(id)
    space.report(take_children(space, 1)["two"])
    assert outputs(space.get(id))["s"] == {"total": 2, "success": 2, "failed": 0, "cancelled": 0}
    space.do("z")
    space.ends(id, "SUCCESS")


def test_skipping_the_step_cancels_the_children_that_have_not_stopped(space, spawn):
    id = spawn(3)
    tasks = take_children(space, 3)
    space.report(tasks[0], "error")
    space.report(tasks[1], "error")
    space.report(tasks[2])
    assert is_held(space, id)
    space.skip(id, "s")
    eventually(lambda: [result(child_of(space, id, n)) for n in range(3)]
               == ["CANCELLED", "CANCELLED", "SUCCESS"])
    space.ends(id, "WARNING")


def test_a_cancelled_child_is_counted_and_holds_the_step(space, spawn):
    id = spawn(2)
    tasks = take_children(space, 2)
    space.cancel(child_of(space, id, 0).id, "FORCE")
    space.report(tasks[1])
    assert is_held(space, id)
    assert counts(space, id) == {"total": 2, "started": 2, "running": 0, "success": 1,
                                 "failed": 1, "cancelled": 1}


# Cancel ----------------------------------------------------------------------------------------

DEEP = CHILD + """\
plan: middle
flow: [{step: s, spawn: {plan: child, for_each: "${params.l}", as: e, input: {n: "${e}"}}}]
---
plan: top
flow: [{step: t, spawn: {plan: middle, for_each: "${params.l}", as: e, input: {l: "${e}"}}}]
"""


def test_cancel_reaches_children_two_levels_down(space):
    space.define(DEEP)
    id = space.plan("top", params={"l": [[1, 2], [3]]})
    tasks = take_children(space, 3)
    middle = space.children(id)
    deep = [one.id for parent in middle for one in space.children(parent.id)]
    assert len(middle) == 2 and len(deep) == 3
    assert all(one.count("/") == id.count("/") + 4 for one in deep)
    space.cancel(id)
    assert state(space.get(id)) != "STOPPED"
    eventually(lambda: all(space.extend(task, by=60).cancel_requested
                           for task in tasks.values()))
    for task in tasks.values():
        space.report(task)
    for one in [*deep, *(parent.id for parent in middle), id]:
        space.ends(one, "CANCELLED")


@pytest.mark.parametrize("mode", ["FORCE", "KILL"])
def test_cancel_by_force_reaches_children_two_levels_down(space, mode):
    space.define(DEEP)
    id = space.plan("top", params={"l": [[1, 2], [3]]})
    task = take_children(space, 3)[1]
    every = [one.id for parent in space.children(id) for one in space.children(parent.id)]
    every += [parent.id for parent in space.children(id)] + [id]
    assert state(space.cancel(id, mode)) == "STOPPED"
    for one in every:
        space.ends(one, "CANCELLED")
    with refused("FAILED_PRECONDITION", "STALE_CLAIM"):
        space.report(task)


def test_cancel_starts_no_more_children(space, spawn):
    id = spawn(10, concurrency=2)
    tasks = take_children(space, 2)
    space.cancel(id)
    for task in tasks.values():
        eventually(lambda: space.extend(task, by=60).cancel_requested)
        space.report(task)
    space.ends(id, "CANCELLED")
    assert len(space.children(id)) == 2 and space.idle()


def test_children_of_a_paused_parent_go_on_and_it_goes_on_when_it_is_resumed(space, spawn):
    id = spawn(2)
    tasks = take_children(space, 2)
    space.pause(id)
    space.report(tasks[0])
    space.report(tasks[1])
    assert state(space.get(id)) == "PAUSED"
    assert space.idle(0)
    space.resume(id)
    space.do("z")
    space.ends(id, "SUCCESS")


# Children that a worker asks for ---------------------------------------------------------------


def with_children(space, task, starts, concurrency=0):
    request = space.report_request(task, "suspend", children_concurrency=concurrency)
    request.children.extend(starts)
    return space.call("Transition", request)


def wanted(space, count, **more):
    return [space.start_request("child", params={"n": n}, **more) for n in range(count)]


def test_a_worker_suspends_with_children_and_is_woken_when_all_have_ended(space):
    space.define(WORKER)
    id = space.plan("p")
    with_children(space, only(space.claim("a")), wanted(space, 3))
    assert step_state(space.step(id, "a")) == "SUSPENDED"
    tasks = take_children(space, 3)
    assert numbers(space, id, "a") in ([0, 1, 2], [1, 2, 3])
    assert {one.parent for one in space.children(id)} == {id}
    for n in (2, 0):
        space.report(tasks[n])
    assert space.idle(0)
    space.report(tasks[1])
    task = only(space.claim("a"))
    assert (task.event, task.phase) == ("children", "run")
    space.report(task, output={"mine": 1})
    space.do("z")
    space.ends(id, "SUCCESS")


def test_children_of_a_worker_are_kept_to_their_concurrency(space):
    space.define(WORKER)
    id = space.plan("p")
    with_children(space, only(space.claim("a")), wanted(space, 7), concurrency=2)
    for done in range(7):
        eventually(lambda: len(space.children(id)) == min(done + 2, 7))
        space.report(space.take(action="c"))
    assert live_at_most(space, id) == 2
    assert only(space.claim("a")).event == "children"


def test_children_of_a_worker_may_be_flows_and_machines(space):
    space.define(WORKER + "---\nid: job\nnodes: {w: {start: true, transitions: {ok: done}},"
                 " done: {final: true}}\n")
    id = space.plan("p")
    with_children(space, only(space.claim("a")), [
        space.start_request("job"), space.start_request("", flow="[{step: f, action: f}]")])
    for machine in ("job", "adhoc"):
        task = space.take(machine=machine)
        assert task.instance.startswith(f"{id}/a/")
        space.report(task)
    assert only(space.claim("a")).event == "children"


def test_children_with_bad_starts_are_refused_and_nothing_has_changed(space):
    space.define(WORKER)
    id = space.plan("p")
    task = only(space.claim("a"))
    with refused(("NOT_FOUND", "INVALID_ARGUMENT"), ("NO_SUCH_MACHINE", "BAD_REQUEST"), "nowhere"):
        with_children(space, task, [*wanted(space, 2), space.start_request("nowhere")])
    assert space.children(id) == [] and step_state(space.step(id, "a")) == "RUNNING"
    space.report(task)


def test_a_worker_may_ask_for_children_again(space):
    space.define(WORKER)
    id = space.plan("p")
    task = only(space.claim("a"))
    for _ in range(3):
        with_children(space, task, wanted(space, 2))
        for child in take_children(space, 2).values():
            space.report(child)
        task = only(space.claim("a"))
        assert task.event == "children"
    assert len(numbers(space, id, "a")) == len(set(numbers(space, id, "a"))) == 6
    space.report(task)
    space.do("z")
    space.ends(id, "SUCCESS")


def test_an_event_reaches_a_step_that_waits_for_children(space):
    space.define(WORKER)
    id = space.plan("p")
    with_children(space, only(space.claim("a")), wanted(space, 1))
    space.event(id, "hurry", "a")
    task = space.take(action="a")
    assert task.event == "hurry"
    space.suspend(task)
    space.report(take_children(space, 1)[0])
    assert only(space.claim("a")).event == "children"


def test_a_failed_child_of_a_worker_holds_its_step(space):
    space.define(FAIL + WORKER)
    id = space.plan("p")
    with_children(space, only(space.claim("a")), wanted(space, 2))
    tasks = take_children(space, 2)
    space.report(tasks[0], "error")
    space.report(tasks[1])
    assert is_held(space, id, "a") and state(space.get(id)) == "PAUSED"
    assert counts(space, id, "a")["failed"] == 1


def test_children_of_a_worker_may_be_told_apart_by_their_labels_and_start_later(space):
    space.define(WORKER)
    id = space.plan("p")
    later = space.start_request("child", params={"n": 1}, labels={"k": "late"})
    later.start_at.CopyFrom(timestamp(now() + 0.3))
    with_children(space, only(space.claim("a")), [*wanted(space, 1, labels={"k": "soon"}), later])
    eventually(lambda: len(space.children(id)) == 2)
    soon = only(space.instances(parent=id, labels={"k": "soon"}).instances)
    late = only(space.instances(parent=id, labels={"k": "late"}).instances)
    assert (state(soon), state(late)) == ("RUNNING", "SCHEDULED")
    space.report(space.take(action="c"))
    space.report(space.take(action="c"))
    assert only(space.claim("a")).event == "children"


def test_children_are_started_once_when_the_report_is_repeated(space):
    space.define(WORKER)
    id = space.plan("p")
    task = only(space.claim("a"))
    with_children(space, task, wanted(space, 2))
    assert with_children(space, task, wanted(space, 2)).repeated_report
    take_children(space, 2)
    assert len(space.children(id)) == 2


def test_children_come_in_a_report_of_many_too(space):
    space.define(WORKER)
    id = space.plan("p")
    request = space.report_request(only(space.claim("a")), "suspend")
    request.children.extend(wanted(space, 2))
    request.wake_after.CopyFrom(duration(3600))
    assert only(space.report_all([request]).results).HasField("accepted")
    take_children(space, 2)
    assert {one.parent for one in space.children(id)} == {id}


# Around them -----------------------------------------------------------------------------------


def test_children_of_an_upgraded_parent_are_cancelled(space, spawn):
    id = spawn(3)
    claimed = space.take(action="c")
    children = [one.id for one in space.children(id)]
    space.define("plan: p\nupgrade_strategy: upgrade\nflow: [{step: n, action: n}]\n")
    space.report(space.take(action="n"))
    space.ends(id, "SUCCESS")
    for one in children:
        if one != claimed.instance:
            space.ends(one, "CANCELLED")
    eventually(lambda: space.extend(claimed, by=60).cancel_requested)
    space.report(claimed)
    space.ends(claimed.instance, "CANCELLED")


def test_children_are_started_and_finished_in_the_feed(space, spawn):
    id = spawn(2)
    for task in take_children(space, 2).values():
        space.report(task)
    space.do("z")
    space.ends(id, "SUCCESS")
    changes = space.changes("0")[0]
    for one in space.children(id):
        own = [kind(change) for change in changes if change.instance == one.id]
        assert (own[0], own[-1]) == ("STARTED", "FINISHED")
    ended = {change.instance: change.seq for change in changes if kind(change) == "FINISHED"}
    assert ended[id] == max(ended.values())


def test_the_numbers_of_children_are_in_what_dcli_shows(space, spawn, dcli):
    id = spawn(2)
    space.report(take_children(space, 2)[0])
    assert "s" in dcli.ok("show", id)
    shown = json.loads(dcli.ok("-o", "json", "show", id))
    assert shown["id"] == id
