"""New versions: what becomes of the instances of earlier ones."""
import threading

import pytest

from support import (CALL, JOB, LOOP, SOON, eventually, from_json, kind, now, only,
                     refused, result, state, token_state)


def version(strategy, number, id="m", start="a", extra=""):
    return f"""\
id: {id}
description: number {number}
upgrade_strategy: {strategy}
nodes:
  {start}: {{start: true, {extra}transitions: {{ok: b}}}}
  b: {{transitions: {{ok: done}}}}
  done: {{final: true}}
"""


FIRST = version("continue", 1)


# continue -------------------------------------------------------------------------------------


def test_continue_lets_instances_finish_under_the_version_they_started_with(space):
    space.define(FIRST)
    old = space.start("m")
    task = space.take("m")
    defined = only(space.define(version("continue", 2)).defined)
    assert (defined.version, defined.upgrade_strategy, defined.affected_instances) == (
        2, "continue", 0)
    new = space.start("m")
    assert space.report(task).node == "b"
    tasks = {t.instance: t.version for t in space.ready("m", max_tasks=5)}
    assert tasks == {old: 1, new: 2}
    assert space.story(old) == ["STARTED", "TRANSITIONED"]


# upgrade --------------------------------------------------------------------------------------


def test_upgrade_moves_instances_to_the_new_start_node_with_their_original_params(space):
    space.define(FIRST)
    id = space.start("m", params='{"url":  "x"}')
    space.transition(id, "ok", node_params={"n": 1})
    defined = only(space.define(version("upgrade", 2, start="begin")).defined)
    assert (defined.version, defined.upgrade_strategy, defined.affected_instances) == (
        2, "upgrade", 1)
    task = only(space.ready("m", max_tasks=5))
    assert (task.instance, task.version, task.node, task.attempt) == (id, 2, "begin", 1)
    assert task.instance_params == '{"url":  "x"}'
    assert from_json(task.node_params) == {}
    assert task.visit == 3
    assert space.get(id).version == 2


def test_an_upgrade_is_in_the_history(space):
    space.define(FIRST)
    id = space.start("m")
    space.transition(id, "ok")
    space.define(version("upgrade", 2, start="begin"))
    space.get(id)
    eventually(lambda: space.story(id)
               == ["STARTED", "TRANSITIONED", "UPGRADED", "TRANSITIONED"])
    upgraded, moved = [c for c in space.history(id)][-2:]
    assert (upgraded.node, upgraded.prev_node) == ("dfsmr.upgraded", "b")
    assert (moved.prev_node, moved.node, moved.visit) == ("dfsmr.upgraded", "begin", 3)
    assert moved.version == 2


@pytest.mark.parametrize("strategy", ["upgrade", "abort"])
def test_claims_made_before_are_stale_at_once(space, strategy):
    space.define(FIRST)
    ids = space.start_many("m", 20)
    tasks = space.ready("m", max_tasks=20)
    space.define(version(strategy, 2))
    for task in tasks:
        with refused("FAILED_PRECONDITION", "STALE_CLAIM", task.instance):
            space.report(task)
    for id in ids:
        assert [step for step in space.walk(id) if step[0] == "a"] == []


def test_stopped_instances_are_left_alone(space):
    space.define(FIRST)
    id = space.start("m")
    space.transition(id, "ok")
    space.transition(id, "ok")
    defined = only(space.define(version("upgrade", 2)).defined)
    assert defined.affected_instances == 0
    assert (space.get(id).version, result(space.get(id))) == (1, "SUCCESS")
    assert only(space.define(version("abort", 3)).defined).affected_instances == 0
    assert result(space.get(id)) == "SUCCESS"


def test_paused_instances_are_moved_and_stay_paused(space):
    space.define(FIRST)
    id = space.start("m")
    space.transition(id, "ok")
    space.pause(id)
    assert only(space.define(version("upgrade", 2)).defined).affected_instances == 1
    instance = space.get(id)
    assert (state(instance), instance.version, only(instance.tokens).node) == ("PAUSED", 2, "a")
    assert space.ready("m") == []
    space.resume(id)
    assert only(space.ready("m")).version == 2


def test_scheduled_instances_start_on_the_new_version(space):
    space.define(FIRST)
    held = space.start("m", hold=True)
    timed = space.start("m", start_at=now() + 0.5)
    assert only(space.define(version("upgrade", 2)).defined).affected_instances == 2
    space.resume(held)
    tasks = [space.take("m"), space.take("m")]
    assert {task.instance for task in tasks} == {held, timed}
    assert {task.version for task in tasks} == {2}


def test_waiting_instances_are_moved_and_their_timers_are_void(space):
    source = FIRST.replace("  b: {transitions", "  b: {delay: 400ms, transitions")
    space.define(source)
    id = space.start("m")
    space.transition(id, "ok")
    assert token_state(space.token(id)) == "WAITING"
    space.define(version("upgrade", 2))
    assert space.take("m").node == "a"
    space.ready("m", wait=0.6)
    assert space.token(id).node == "a"


def test_an_upgrade_takes_all_earlier_versions_along(space):
    space.define(version("continue", 1))
    first = space.start("m")
    space.define(version("continue", 2))
    second = space.start("m")
    assert only(space.define(version("upgrade", 3)).defined).affected_instances == 2
    assert {space.get(id).version for id in (first, second)} == {3}


def test_instances_can_be_upgraded_again_and_again(space):
    space.define(version("upgrade", 1))
    id = space.start("m")
    for number in range(2, 6):
        space.define(version("upgrade", number))
        task = only(space.ready("m"))
        assert (task.instance, task.version) == (id, number)
    assert space.story(id).count("UPGRADED") == 4


def test_an_upgrade_starts_the_count_of_visits_anew(space):
    def capped(number):
        return (f"id: m\ndescription: number {number}\nupgrade_strategy: upgrade\nnodes:\n"
                "  a: {start: true, max_visits: 2,"
                " transitions: {again: a, ok: z, dfsmr.exhausted: z}}\n  z: {final: true}\n")

    space.define(capped(1))
    id = space.start("m")
    assert space.transition(id, "again").node == "a"
    space.define(capped(2))
    assert space.transition(id, "again").node == "a"
    assert space.transition(id, "again").node == "z"


def test_upgraded_instances_are_not_checked_against_the_new_schema(space):
    space.define(FIRST)
    id = space.start("m", params={"old": 1})
    space.define(version("upgrade", 2) + "params: {type: object, required: [url]}\n")
    assert only(space.ready("m")).instance == id
    with refused("INVALID_ARGUMENT", "BAD_PARAMS", "url"):
        space.start("m", params={"old": 1})


# abort ----------------------------------------------------------------------------------------


def test_abort_stops_instances(space):
    space.define(FIRST)
    id = space.start("m")
    space.transition(id, "ok")
    defined = only(space.define(version("abort", 2)).defined)
    assert (defined.version, defined.upgrade_strategy, defined.affected_instances) == (
        2, "abort", 1)
    assert space.ready("m") == []
    instance = space.get(id)
    assert (state(instance), result(instance)) == ("STOPPED", "ABORTED")
    assert token_state(only(instance.tokens)) == "DONE"
    eventually(lambda: space.story(id) == ["STARTED", "TRANSITIONED", "ABORTED", "FINISHED"])
    aborted = [c for c in space.history(id) if kind(c) == "ABORTED"]
    assert only(aborted).node == "dfsmr.aborted"
    with refused("FAILED_PRECONDITION", "INSTANCE_STOPPED", id):
        space.transition(id, "ok")


def test_instances_started_after_an_abort_run(space):
    space.define(FIRST)
    space.start("m")
    space.define(version("abort", 2))
    id = space.start("m")
    assert only(space.ready("m", max_tasks=5)).instance == id


# Versions that were left behind ---------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["upgrade", "abort"])
def test_a_version_that_was_left_behind_cannot_be_started(space, strategy):
    space.define(FIRST)
    space.define(version(strategy, 2))
    with refused("FAILED_PRECONDITION", "SUPERSEDED_VERSION", "m", "1", "2"):
        space.start("m", version=1)
    assert space.get(space.start("m", version=2)).version == 2
    assert space.machine("m", version=1).version == 1


def test_a_version_left_behind_stays_so_when_another_continues(space):
    space.define(FIRST)
    space.define(version("upgrade", 2))
    space.define(version("continue", 3))
    with refused("FAILED_PRECONDITION", "SUPERSEDED_VERSION"):
        space.start("m", version=1)
    assert space.get(space.start("m", version=2)).version == 2


# Many -----------------------------------------------------------------------------------------


def all_instances(space, **filters):
    found, token = [], ""
    while True:
        page = space.instances(page_size=1000, page_token=token, **filters)
        found += page.instances
        token = page.next_page_token
        if not token:
            return found


def test_no_claim_is_handed_out_on_the_old_version_once_define_has_answered(space):
    space.define(version("continue", 1))
    space.start_many("m", 5000)
    answered = threading.Event()
    stop = threading.Event()
    wrong, given = [], []

    def consume():
        while not stop.is_set():
            after = answered.is_set()
            tasks = space.ready("m", max_tasks=7)
            given.extend(tasks)
            if after:
                wrong.extend(task for task in tasks if task.version != 2)

    threads = [threading.Thread(target=consume) for _ in range(3)]
    for thread in threads:
        thread.start()
    eventually(lambda: len(given) > 50)
    began = now()
    defined = only(space.define(version("upgrade", 2)).defined)
    answered.set()
    assert now() - began < SOON
    assert defined.affected_instances == 5000
    slowest = 0.0
    for _ in range(50):
        began = now()
        space.start("m")
        slowest = max(slowest, now() - began)
    stop.set()
    for thread in threads:
        thread.join(CALL)
    assert not wrong
    assert slowest < 2, "other calls are not held up"
    eventually(lambda: {i.version for i in all_instances(space)} == {2}, within=20)


def test_every_call_that_touches_an_instance_finds_it_moved(space):
    space.define(version("continue", 1))
    ids = space.start_many("m", 3000)
    space.define(version("upgrade", 2))
    assert {space.get(id).version for id in ids[::-150]} == {2}
    space.define(version("abort", 3))
    assert {result(space.get(id)) for id in ids[::-150]} == {"ABORTED"}
    with refused("FAILED_PRECONDITION", "INSTANCE_STOPPED"):
        space.transition(ids[-2], "ok")
    assert space.ready("m", max_tasks=10) == []


def test_an_upgrade_cut_short_by_a_crash_is_carried_on(new_server):
    server = new_server().start()
    space = server.space("")
    space.define(version("continue", 1))
    ids = space.start_many("m", 8000)
    stale = space.take("m")
    space.define(version("upgrade", 2))
    server.kill()
    server.start()
    with refused("FAILED_PRECONDITION", "STALE_CLAIM"):
        space.report(stale)
    tasks = space.ready("m", max_tasks=1000)
    assert len(tasks) == 1000 and {task.version for task in tasks} == {2}
    eventually(lambda: {i.version for i in all_instances(space)} == {2}, within=20)
    upgraded = [c.instance for c in space.changes(kinds=["UPGRADED"])[0]]
    assert sorted(upgraded) == sorted(ids)
    assert len(all_instances(space)) == 8000


def test_an_abort_cut_short_by_a_crash_is_carried_on(new_server):
    server = new_server().start()
    space = server.space("")
    space.define(version("continue", 1))
    ids = space.start_many("m", 5000)
    space.define(version("abort", 2))
    server.kill()
    server.start()
    assert space.ready("m", max_tasks=10) == []
    eventually(lambda: {result(i) for i in all_instances(space)} == {"ABORTED"}, within=20)
    for wanted in ("ABORTED", "FINISHED"):
        assert sorted(c.instance for c in space.changes(kinds=[wanted])[0]) == sorted(ids)


def test_the_stats_of_a_machine_are_those_of_the_version(space):
    space.define(JOB)
    space.start_many("job", 3)
    space.define(JOB + "description: new\n")
    space.start_many("job", 2)
    assert eventually(lambda: (space.machine("job", 1).stats.running,
                               space.machine("job", 2).stats.running) == (3, 2))


def test_defining_another_machine_touches_nothing(space):
    space.define(LOOP + "---\n" + FIRST)
    space.start("loop")
    task = space.take("loop")
    space.start("m")
    space.define(version("abort", 2))
    assert space.report(task, "again").node == "turn"


def test_an_upgrade_stays_in_its_namespace(server, space):
    other = server.space(space.name + "-other")
    for where in (space, other):
        where.define(FIRST)
        where.start("m", id="mine")
    space.define(version("abort", 2))
    assert result(space.get("mine")) == "ABORTED"
    assert result(other.get("mine")) == "PENDING"
