"""Limits over kill -9: which of several askers' numbers counts, and who holds and waits."""
import pytest

from stubs import schedule
from support import eventually, fresh_name, refused
from test_limits import ASKER, Limits, begun, job, start_all, states, step


@pytest.fixture
def alone(new_server, request):
    """A namespace of a server that the test may kill."""
    server = new_server().start()
    space = server.space(fresh_name(request.node.originalname or request.node.name))
    space.limits = Limits(space)
    return space


def again(space):
    space.server.kill()
    space.server.start()


def askers(space, *numbers):
    """A machine m1, m2, … for each number, all of one key."""
    space.define("---\n".join(job(f"{{key: k, max: {number}}}", id=f"m{number}")
                              for number in numbers))


def claim(space, machine):
    """A task whose claim a crash does not lose."""
    task = space.take(machine)
    eventually(lambda: [one for one in space.changes(kinds=["CLAIMED"])[0]
                        if one.instance == task.instance])
    return task


def number(space):
    limit = space.limits.get()
    assert limit.max_from == ASKER
    return limit.max


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2), (2, 3, 1)])
def test_the_last_that_asked_tells_the_number_also_after_a_restart(alone, order):
    askers(alone, 1, 2, 3)
    ids = ["z", "m", "a"]  # the last is not the last by name
    for id, most in zip(ids, order):
        start_all(alone, id, machine=f"m{most}")
    assert number(alone) == order[-1]
    before = states(alone, *ids)
    for _ in range(2):
        again(alone)
        assert number(alone) == order[-1]
        assert states(alone, *ids) == before
    start_all(alone, "later", machine=f"m{order[0]}")
    assert number(alone) == order[0]
    again(alone)
    assert number(alone) == order[0]


def test_one_that_comes_in_does_not_ask_again(alone):
    askers(alone, 1, 2)
    start_all(alone, "a", machine="m1")
    start_all(alone, "b", machine="m1")
    start_all(alone, "c", "d", machine="m2")
    assert begun(alone, "a", "b", "c", "d") == ["a", "b"] and number(alone) == 2
    alone.transition("a", "ok")
    assert begun(alone, "c", "d") == ["c"] and number(alone) == 2
    alone.transition("b", "ok")
    assert begun(alone, "d") == ["d"] and number(alone) == 2


@pytest.mark.parametrize("word", ["skip", "fail"])
def test_one_that_is_left_out_does_not_tell_the_number(alone, word):
    alone.define(job("k") + "---\n" + job(f"{{key: k, max: 2, on_conflict: {word}}}", "other"))
    start_all(alone, "a", "b")
    if word == "skip":
        with refused("FAILED_PRECONDITION", "LIMIT_REACHED"):
            alone.start("other", "c")
    else:
        alone.start("other", "c")
        alone.ends("c", "ERROR")
    for _ in range(2):
        assert number(alone) == 1 and states(alone, "a", "b") == ["RUNNING", "SCHEDULED"]
        again(alone)


def test_the_number_stays_as_long_as_the_key_is_held(alone):
    askers(alone, 3, 1)
    start_all(alone, "a", "b", machine="m3")
    start_all(alone, "c", machine="m1")
    alone.cancel("c")
    assert states(alone, "a", "b", "c") == ["RUNNING", "RUNNING", "STOPPED"]
    assert number(alone) == 1
    again(alone)
    assert number(alone) == 1
    for id in ("a", "b"):
        alone.transition(id, "ok")
    again(alone)
    assert not alone.limits.get().HasField("max")
    start_all(alone, "d", machine="m3")
    assert number(alone) == 3
    again(alone)
    assert number(alone) == 3


def test_steps_that_are_ready_do_not_ask_again_at_a_restart(alone):
    alone.define(step("{key: k, max: 5}", id="p5", action="x") + "---\n" +
                 step("{key: k, max: 7}", id="p7", action="y"))
    alone.plan("p5", "a")
    alone.plan("p7", "z")
    claim(alone, "p7")
    assert number(alone) == 7
    again(alone)
    assert number(alone) == 7


WAITING = {
    "instances": (job("k"), "k", "job"),
    "two keys": (job("[k, l]"), "k", "job"),
}


@pytest.mark.parametrize("source, key, machine", WAITING.values(), ids=WAITING)
def test_who_waits_is_counted_right_after_a_restart(alone, source, key, machine):
    alone.define(source)
    start_all(alone, "a", "b", "c", machine=machine)
    assert begun(alone, "a", "b", "c") == ["a"]
    for _ in range(2):
        limit = alone.limits.get(key)
        assert (limit.held, limit.waiting) == (1, 2)
        assert [one.instance for one in limit.waiters] == ["b", "c"]
        [listed] = [one for one in alone.limits.call("ListLimits", waited_for=True).limits
                    if one.key == key]
        assert listed.waiting == 2
        again(alone)


@pytest.mark.parametrize("key", ["machine:job", "namespace", "group:g", "queue:default"])
def test_who_waits_for_a_built_in_key_is_counted_right_after_a_restart(alone, key):
    key = key if ":" in key else f"namespace:{alone.name}"
    alone.define(job("other-${instance.id}"))
    alone.limits.set(key, max=1)
    start_all(alone, "a", "b", "c", group="g")
    if key.startswith("queue"):
        claim(alone, "job")
    before = alone.limits.get(key)
    assert before.waiting == 2 and before.held == 1
    again(alone)
    after = alone.limits.get(key)
    assert (after.held, after.waiting) == (before.held, before.waiting)
    assert [one.instance for one in after.waiters] == [one.instance for one in before.waiters]


def test_steps_that_wait_are_counted_right_after_a_restart(alone):
    alone.define(step("k"))
    for id in ("a", "b", "c"):
        alone.plan("p", id)
    assert claim(alone, "p").instance == "a"
    before = alone.limits.get()
    assert (before.held, before.waiting) == (1, 2)
    again(alone)
    after = alone.limits.get()
    assert (after.held, after.waiting) == (1, 2)


def test_who_waits_for_none_is_counted_right_after_a_restart(alone):
    alone.define(job("{key: k, max: 0}"))
    start_all(alone, "a", "b")
    for _ in range(2):
        assert alone.limits.get().waiting == 2
        again(alone)
    alone.limits.set(max=1)
    assert begun(alone, "a", "b") == ["a"]
    assert schedule.Limit.Origin.Name(alone.limits.get().max_from) == "OVERRIDE"
