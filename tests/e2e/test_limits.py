"""Limits: how many go on at once under a key, who waits, in which order, and who is left out."""
import time

import grpc
import pytest

from stubs import schedule, schedule_grpc, v1
from support import (CALL, SOON, check_error, eventually, kind, only, refused, result, seconds,
                     state, step_state, together, token_state)
from test_security import guarded, root  # noqa: F401, fixtures

NODES = """\
nodes:
  work: {start: true, transitions: {ok: done, error: failed, again: work}}
  done: {final: true}
  failed: {final: true, result: error}
"""
NONE, ASKER, DOCUMENT, OVERRIDE = (schedule.Limit.Origin.Value(name) for name in (
    "NONE", "ASKER", "DOCUMENT", "OVERRIDE"))
BEGIN = "2026-03-28T12:00:00Z"
BEGAN = 1774699200.0
MINUTE, HOUR = 60, 3600


def job(limit, id="job", nodes=NODES):
    """A machine of one node, of which `limit` is the text of its key."""
    return f"id: {id}\nlimit: {limit}\n{nodes}"


def step(limit, id="p", more="", action="x"):
    """A plan of one step."""
    return f"plan: {id}\nflow:\n  - {{step: a, action: {action}, limit: {limit}{more}}}\n"


class Limits:
    """The calls about limits, in a namespace."""

    def __init__(self, space):
        self.space = space

    def call(self, method, **fields):
        request = getattr(schedule, f"{method}Request")(namespace=self.space.name, **fields)
        return getattr(self.space.server.schedules, method)(request, timeout=CALL)

    def get(self, key="k", **more):
        return self.call("GetLimit", key=key, **more)

    def list(self, **more):
        return self.call("ListLimits", **more)

    def keys(self, **more):
        return [one.key for one in self.list(**more).limits]

    def set(self, key="k", **more):
        return self.call("SetLimit", key=key, **more)

    def holders(self, key="k"):
        return [one.instance for one in self.get(key).holders]

    def waiters(self, key="k"):
        return [one.instance for one in self.get(key).waiters]

    def lacks(self, instance, key="k"):
        return sorted(only([one for one in self.get(key).waiters
                            if one.instance == instance]).lacks)

    def counts(self, key="k"):
        limit = self.get(key)
        assert limit.held == len(limit.holders) and limit.waiting == len(limit.waiters)
        return limit.held, limit.waiting


@pytest.fixture
def limits(space):
    return Limits(space)


@pytest.fixture
def standing(new_server):
    return new_server(virtual_clock=BEGIN).start()


def states(space, *ids):
    return [state(space.get(id)) for id in ids]


def outcome(space, id):
    return f"{state(space.get(id))} {result(space.get(id))}"


def begun(space, *ids):
    """Which of them have begun and not stopped."""
    return [id for id in ids if state(space.get(id)) == "RUNNING"]


def told(space, id):
    """All that its history and its own error say."""
    return " | ".join([change.note for change in space.history(id)] + [space.get(id).error])


def start_all(space, *ids, machine="job", **more):
    for id in ids:
        space.start(machine, id, **more)


# What one that finds no room does -----------------------------------------------------------------


def test_by_default_one_at_a_time_begins_and_the_rest_wait_in_order(space, limits):
    space.define(job("k"))
    start_all(space, "a", "b", "c")
    assert states(space, "a", "b", "c") == ["RUNNING", "SCHEDULED", "SCHEDULED"]
    assert limits.counts() == (1, 2)
    assert limits.holders() == ["a"] and limits.waiters() == ["b", "c"]
    space.transition("a", "ok")
    assert states(space, "b", "c") == ["RUNNING", "SCHEDULED"]
    space.transition("b", "error")
    assert begun(space, "c") == ["c"]
    space.transition("c", "ok")
    assert limits.counts() == (0, 0)


def test_a_map_says_how_many(space, limits):
    space.define(job("{key: k, max: 3}"))
    ids = [f"i{n}" for n in range(5)]
    start_all(space, *ids)
    assert begun(space, *ids) == ids[:3]
    limit = limits.get()
    assert limit.max == 3 and limit.max_from == ASKER and limit.rate_from == NONE
    assert not limit.HasField("rate") and not limit.document


def test_reserved_keys_are_refused(space, limits):
    with refused("INVALID_ARGUMENT", "BAD_REQUEST", "dfsmr.k", "reserved"):
        limits.set("dfsmr.k", max=1)
    with refused("INVALID_ARGUMENT", "BAD_MACHINE", "dfsmr.k", "reserved"):
        space.define(job("dfsmr.k"))
    space.define(job("\"${params.k}\""))
    try:
        space.start("job", "a", params={"k": "dfsmr.k"})
    except grpc.RpcError as error:
        assert "reserved" in error.details()
    else:
        assert "reserved" in space.ends("a", "ERROR").error


def test_zero_lets_nobody_in(space, limits):
    space.define(job("{key: k, max: 0}"))
    start_all(space, "a")
    assert states(space, "a") == ["SCHEDULED"]
    assert limits.get().HasField("max") and limits.get().max == 0


def test_a_key_is_filled_in_for_each_instance(space, limits):
    space.define(job('"env/${params.env}"'))
    start_all(space, "a", "b", params={"env": "test"})
    start_all(space, "c", params={"env": "prod"})
    assert begun(space, "a", "b", "c") == ["a", "c"]
    assert limits.keys(prefix="env/") == ["env/prod", "env/test"]
    space.define(job('"of-${instance.id}"', "own"))
    start_all(space, "d", "e", machine="own")
    assert begun(space, "d", "e") == ["d", "e"]


def test_a_key_that_cannot_be_filled_in_is_told(space):
    """A missing reference stops the instance, or refuses its start, with the key's name."""
    space.define(job('"env/${params.env}"'))
    try:
        space.start("job", "a", params={})
    except grpc.RpcError as error:  # either is an answer; beginning is not
        assert "env" in error.details()
        return
    space.ends("a", "ERROR")
    assert "params.env" in told(space, "a")


def test_a_plan_waits_as_scheduled_too(space, limits):
    space.define("plan: p\nlimit: k\nflow: [{step: a, action: x}]\n")
    start_all(space, "a", "b", machine="p")
    eventually(lambda: begun(space, "a"))
    assert states(space, "b") == ["SCHEDULED"]
    assert [task.instance for task in space.ready(max_tasks=9)] == ["a"]
    space.transition("a", "ok", node="a")
    eventually(lambda: begun(space, "b"))


def test_when_as_many_wait_as_may_the_next_is_left_out(space, limits):
    space.define(job("{key: k, waiting: 2}"))
    start_all(space, "a", "b", "c")
    with refused("FAILED_PRECONDITION", "LIMIT_REACHED", "k"):
        space.start("job", "d")
    with refused("NOT_FOUND", "NO_SUCH_INSTANCE"):
        space.get("d")
    space.transition("a", "ok")
    start_all(space, "d")
    assert limits.waiters() == ["c", "d"]


def test_latest_cancels_the_oldest_that_waits(space, limits):
    space.define(job("{key: k, on_conflict: latest}"))
    start_all(space, "a", "b")
    assert states(space, "a", "b") == ["RUNNING", "SCHEDULED"]
    start_all(space, "c")
    assert outcome(space, "b") == "STOPPED CANCELLED"
    assert states(space, "a", "c") == ["RUNNING", "SCHEDULED"]
    assert limits.waiters() == ["c"]
    assert "'k'" in told(space, "b") and "'c'" in told(space, "b"), told(space, "b")
    space.transition("a", "ok")
    assert begun(space, "c") == ["c"]


def test_latest_keeps_as_many_as_may_wait(space, limits):
    space.define(job("{key: k, on_conflict: latest, waiting: 2}"))
    start_all(space, "a", "b", "c", "d", "e")
    assert limits.holders() == ["a"] and limits.waiters() == ["d", "e"]
    assert [outcome(space, id) for id in "bc"] == ["STOPPED CANCELLED"] * 2


def test_skip_refuses_the_start_and_names_key_number_holders_and_flags(space, limits):
    space.define(job("{key: env/prod, max: 2, on_conflict: skip}"))
    start_all(space, "first-one", "second-one")
    with refused("FAILED_PRECONDITION", "LIMIT_REACHED", "env/prod", "2", "first-one",
                 "second-one", "force", "on_conflict"):
        space.start("job", "third")
    with refused("NOT_FOUND", "NO_SUCH_INSTANCE"):
        space.get("third")
    batch = space.call("StartBatch", v1.StartBatchRequest(starts=[
        space.start_request("job", "third"), space.start_request("job", "first-one")]))
    check_error(batch.results[0].error, "FAILED_PRECONDITION", "LIMIT_REACHED", "env/prod")
    assert not batch.results[1].started.created
    assert not space.begin("job", "first-one").created, "the same id again is the instance"
    space.transition("first-one", "ok")
    start_all(space, "third")
    assert begun(space, "third") == ["third"]


def test_those_that_wait_take_up_room_for_all_but_wait(space, limits):
    space.define(job("{key: k, max: 1}") + "---\n" +
                 job("{key: k, max: 2, on_conflict: skip}", "skips") + "---\n" +
                 job("{key: k, max: 2, on_conflict: fail}", "fails"))
    start_all(space, "a", "b")
    with refused("FAILED_PRECONDITION", "LIMIT_REACHED", "k"):
        space.start("skips", "c")
    space.start("fails", "d")
    space.ends("d", "ERROR")
    assert limits.holders() == ["a"]


def test_paused_ones_take_up_no_room(space, limits):
    space.define(job("k") + "---\n" + job("{key: k, on_conflict: skip}", "skips"))
    start_all(space, "a", "b")
    space.pause("b")
    waiter = only(limits.get().waiters)
    assert waiter.instance == "b" and waiter.paused
    space.transition("a", "ok")
    assert states(space, "b") == ["PAUSED"]
    start_all(space, "c", machine="skips")
    assert begun(space, "c") == ["c"]


def test_fail_stops_with_an_error(space, limits):
    space.define(job("{key: k, on_conflict: fail}"))
    start_all(space, "holder", "other")
    assert states(space, "holder") == ["RUNNING"]
    error = space.ends("other", "ERROR").error
    assert "k" in error and "holder" in error
    space.transition("holder", "ok")
    start_all(space, "third")
    assert begun(space, "third") == ["third"]


def test_cancel_asks_those_that_hold_to_go_and_waits_for_them(space, limits):
    space.define(job("{key: k, on_conflict: cancel}"))
    start_all(space, "old")
    task = space.take("job")
    start_all(space, "new")
    assert states(space, "old", "new") == ["RUNNING", "SCHEDULED"]
    assert only(limits.get().holders).cancelling
    assert "new" in told(space, "old") and "k" in told(space, "old")
    space.report(task)
    assert outcome(space, "old") == "STOPPED CANCELLED"
    assert begun(space, "new") == ["new"]


def test_cancel_keeps_the_newest_of_all_that_hold_or_wait(space, limits):
    space.define(job("{key: k, max: 2, on_conflict: cancel}"))
    start_all(space, "a", "b")
    tasks = {task.instance: task for task in space.ready("job", max_tasks=2)}
    start_all(space, "c", "d")
    assert states(space, "c", "d") == ["SCHEDULED", "SCHEDULED"]
    assert [one.cancelling for one in limits.get().holders] == [True, True]
    start_all(space, "e")  # c, which waits, is now the oldest
    assert outcome(space, "c") == "STOPPED CANCELLED"
    assert limits.waiters() == ["d", "e"]
    space.report(tasks["a"])
    assert states(space, "d", "e") == ["RUNNING", "SCHEDULED"]
    space.report(tasks["b"])
    assert states(space, "d", "e") == ["RUNNING", "RUNNING"]


def test_cancel_stops_at_once_who_has_nothing_begun(space, limits):
    space.define(job("{key: k, on_conflict: cancel}"))
    start_all(space, "old", "new")
    assert outcome(space, "old") == "STOPPED CANCELLED"
    assert states(space, "new") == ["RUNNING"] and limits.holders() == ["new"]


def test_replace_begins_at_once(space, limits):
    space.define(job("{key: k, on_conflict: replace}"))
    start_all(space, "old")
    task = space.take("job")
    start_all(space, "new")
    assert outcome(space, "old") == "STOPPED CANCELLED"
    assert states(space, "new") == ["RUNNING"]
    assert "new" in told(space, "old") and "k" in told(space, "old")
    with refused("FAILED_PRECONDITION", "STALE_CLAIM"):
        space.report(task)
    assert limits.holders() == ["new"]


def test_replace_keeps_the_newest_of_its_number(space, limits):
    space.define(job("{key: k, max: 2, on_conflict: replace}"))
    start_all(space, "a", "b", "c", "d")
    assert begun(space, "a", "b", "c", "d") == ["c", "d"]


def test_what_was_scheduled_before_is_cancelled_by_skip(space, limits):
    """A held or scheduled start asks when it begins: it is then CANCELLED, the key in its note."""
    space.define(job("{key: the-key, on_conflict: skip}"))
    start_all(space, "held", hold=True)
    start_all(space, "a")
    assert limits.waiters("the-key") == []
    space.resume("held")
    space.ends("held", "CANCELLED")
    assert "the-key" in " ".join(change.note for change in space.history("held"))
    start_all(space, "later", hold=True)
    space.transition("a", "ok")
    space.resume("later")
    assert begun(space, "later") == ["later"]


def test_what_was_scheduled_for_a_time_asks_then(standing):
    space = standing.space("s")
    limits = Limits(space)
    space.define(job("{key: the-key, on_conflict: skip}") + "---\n" + job("the-key", "waits"))
    space.start("job", "skips", start_at=BEGAN + MINUTE)
    space.start("waits", "waits", start_at=BEGAN + MINUTE)
    space.start("job", "a")
    assert limits.counts("the-key") == (1, 0)
    standing.advance(by=MINUTE)
    space.ends("skips", "CANCELLED")
    assert "the-key" in told(space, "skips")
    assert state(space.get("waits")) == "SCHEDULED" and limits.waiters("the-key") == ["waits"]
    space.transition("a", "ok")
    assert begun(space, "waits") == ["waits"]


def test_what_comes_after_another_asks_when_that_has_stopped(space, limits):
    space.define(job("k") + "---\n" + job("other", "other"))
    start_all(space, "a")
    start_all(space, "first", machine="other")
    start_all(space, "then", after=[v1.After(instance="first")])
    assert limits.waiters() == []
    space.transition("first", "ok")
    assert limits.waiters() == ["then"] and states(space, "then") == ["SCHEDULED"]


def test_one_that_waits_may_be_cancelled(space, limits):
    space.define(job("k"))
    start_all(space, "a", "b", "c")
    space.cancel("b")
    assert outcome(space, "b") == "STOPPED CANCELLED" and limits.waiters() == ["c"]
    space.transition("a", "ok")
    assert begun(space, "c") == ["c"]


def test_one_that_waits_too_long_stops_with_an_error(standing):
    space = standing.space("s")
    space.define(job("k"))
    space.start("job", "a")
    space.start("job", "b", start_before=BEGAN + MINUTE)
    standing.advance(by=2 * MINUTE)
    space.ends("b", "ERROR")
    assert Limits(space).counts() == (1, 0)


# Which number counts ------------------------------------------------------------------------------


def test_a_document_counts_more_than_the_asker_and_what_is_set_most(space, limits):
    space.define(job("{key: env, max: 1}"))
    start_all(space, "a", "b", "c", "d")
    assert limits.holders("env") == ["a"]
    reply = space.define("limit: env\nmax: 2\n")
    assert [(one.kind, one.id) for one in reply.defined] == [("limit", "env")]
    limit = limits.get("env")
    assert (limit.max, limit.max_from, limit.document) == (2, DOCUMENT, "env")
    assert [one.instance for one in limit.holders] == ["a", "b"]
    limit = limits.set("env", max=3, note="a busy day")
    assert (limit.max, limit.max_from, limit.note) == (3, OVERRIDE, "a busy day")
    assert limit.HasField("set_time") and limit.held == 3
    assert states(space, "c", "d") == ["RUNNING", "SCHEDULED"]
    limit = limits.set("env", reset=True)
    assert (limit.max, limit.max_from, limit.note) == (2, DOCUMENT, "")
    assert not limit.HasField("set_time") and not limit.set_by
    limits.call("DeleteDefinition", limit="env")
    limit = limits.get("env")
    assert (limit.max, limit.max_from, limit.document) == (1, ASKER, "")
    assert begun(space, "a", "b", "c", "d") == ["a", "b", "c"]


def test_a_document_governs_its_key_and_those_below(space, limits):
    space.define("limit: env\nmax: 2\nkeys: {env/prod: {max: 1}}\n")
    for key, most in {"env": 2, "env/test": 2, "env/a/b": 2, "env/prod": 1}.items():
        limit = limits.get(key)
        assert (limit.max, limit.max_from, limit.document) == (most, DOCUMENT, "env"), key
    for key in ("environment", "env2", "en", "other/env"):
        limit = limits.get(key)
        assert not limit.HasField("max") and limit.max_from == NONE and not limit.document, key
    space.define(job('"env/${params.e}"'))
    ids = [f"{e}{n}" for e in ("test", "prod") for n in range(3)]
    for id in ids:
        space.start("job", id, params={"e": id[:-1]})
    assert begun(space, *ids) == ["test0", "test1", "prod0"]


def test_raised_by_a_new_document_it_lets_in_who_waits(space, limits):
    space.define("limit: k\nmax: 1\n---\n" + job("k"))
    start_all(space, "a", "b", "c")
    space.define("limit: k\nmax: 2\n")
    assert begun(space, "a", "b", "c") == ["a", "b"]
    space.define("limit: k\nmax: 9\n")
    assert begun(space, "a", "b", "c") == ["a", "b", "c"]


def test_raised_it_lets_in_who_waits_in_the_same_commit_and_lowered_it_stops_nobody(space, limits):
    space.define(job("k"))
    ids = [f"i{n}" for n in range(6)]
    start_all(space, *ids)
    limits.set(max=4)
    assert begun(space, *ids) == ids[:4]
    limit = limits.set(max=1)
    assert limit.held == 4 and limit.waiting == 2 and begun(space, *ids) == ids[:4]
    for id in ids[:3]:
        space.transition(id, "ok")
    assert begun(space, *ids) == [ids[3]]
    space.transition(ids[3], "ok")
    assert begun(space, *ids) == [ids[4]]
    limits.set(max=0)
    space.transition(ids[4], "ok")
    assert begun(space, *ids) == [] and limits.counts() == (0, 1)
    limits.set(no_max=True)
    assert begun(space, *ids) == [ids[5]]


def test_no_max_is_as_if_it_stood_nowhere(space, limits):
    space.define("limit: k\nmax: 1\n---\n" + job("k"))
    start_all(space, "a", "b", "c")
    limit = limits.set(no_max=True)
    assert not limit.HasField("max") and limit.max_from == OVERRIDE
    assert begun(space, "a", "b", "c") == ["a", "b", "c"]
    assert limits.set(reset=True).max == 1


def test_a_limit_holds_over_the_whole_namespace_and_not_beyond(server, space, limits):
    space.define(job("k") + "---\n" + job("k", "other") + "---\n" + step("k"))
    start_all(space, "a")
    start_all(space, "b", machine="other")
    assert begun(space, "a", "b") == ["a"]
    space.plan("p", "c")
    assert space.ready("p") == []
    elsewhere = server.space(space.name + "-2")
    elsewhere.define(job("k"))
    elsewhere.start("job", "a")
    assert begun(elsewhere, "a") == ["a"]


def test_what_is_set_is_in_the_feed(space, limits):
    limits.set(max=3, note="why")
    limits.set(reset=True)
    changes, _ = space.changes(kinds=["LIMIT_SET"])
    assert [change.cause for change in changes] == ["limit:k"] * 2
    assert "why" in changes[0].note and not changes[0].instance


def test_a_note_stays_until_it_is_cleared(limits):
    limits.set(max=1, note="the relay is down")
    limits.set(max=2)
    assert limits.get().note == "the relay is down"
    limits.set(note="")
    assert (limits.get().note, limits.get().max) == ("", 2)


@pytest.mark.parametrize("fields, word", [
    (dict(key="", max=1), "key"), (dict(key="x" * 257, max=1), "256"),
    (dict(key="a\nb", max=1), "key"), (dict(max=1_000_001), "1,000,000"),
    (dict(max=1, no_max=True), "max"), (dict(reset=True, max=1), "reset"),
    (dict(reset=True, note="x"), "reset"),
    (dict(rate=schedule.Rate(count=5)), "rate")])
def test_what_cannot_be_set(limits, fields, word):
    with refused("INVALID_ARGUMENT", ("BAD_REQUEST", "TOO_LARGE")) as box:
        limits.set(**fields)
    assert word in box[0].message.replace("1000000", "1,000,000"), box[0]


# Turns --------------------------------------------------------------------------------------------


def test_higher_priority_first_then_order_of_start(space, limits):
    space.define(job("k"))
    start_all(space, "holder")
    for id, priority in [("l1", -5), ("n1", 0), ("h1", 7), ("n2", 0), ("h2", 7), ("l2", -5)]:
        space.start("job", id, priority=priority)
    order = ["h1", "h2", "n1", "n2", "l1", "l2"]
    limit = limits.get()
    assert [one.instance for one in limit.waiters] == order
    assert [one.priority for one in limit.waiters] == [7, 7, 0, 0, -5, -5]
    assert all(one.lacks == ["k"] and not one.paused and one.HasField("since")
               for one in limit.waiters)
    for before, id in zip(["holder", *order], order):
        assert begun(space, *order) == [before] * (before in order)
        space.transition(before, "ok")
        assert begun(space, *order) == [id]
        assert limits.waiters() == order[order.index(id) + 1:]


def test_all_keys_at_once_or_none(space, limits):
    space.define(job("[k, l]", "both") + "---\n" + job("l", "l") + "---\n" + job("k", "k"))
    start_all(space, "l1", machine="l")
    start_all(space, "b1", machine="both")
    assert limits.counts("k") == (0, 0), "it lacks only the other, and holds nothing"
    assert limits.lacks("b1", "l") == ["l"]
    start_all(space, "k1", machine="k")
    assert begun(space, "k1") == ["k1"], "k is free"
    assert limits.lacks("b1") == limits.lacks("b1", "l") == ["k", "l"]
    space.transition("l1", "ok")
    assert begun(space, "b1") == [] and limits.holders("l") == []
    space.transition("k1", "ok")
    assert begun(space, "b1") == ["b1"]
    assert limits.holders("k") == limits.holders("l") == ["b1"]


def test_one_that_lacks_another_key_too_is_passed_and_keeps_its_place(space, limits):
    space.define(job("[k, l]", "both") + "---\n" + job("l", "l") + "---\n" + job("k", "k"))
    start_all(space, "l1", machine="l")
    start_all(space, "k1", machine="k")
    start_all(space, "b1", machine="both")
    start_all(space, "k2", "k3", "k4", machine="k")
    assert limits.waiters() == ["b1", "k2", "k3", "k4"] and limits.lacks("b1") == ["k", "l"]
    space.transition("k1", "ok")
    assert begun(space, "b1", "k2") == ["k2"]
    assert limits.waiters() == ["b1", "k3", "k4"]
    space.transition("l1", "ok")
    assert limits.lacks("b1") == ["k"]
    space.transition("k2", "ok")
    assert begun(space, "b1", "k3", "k4") == ["b1"], "nobody passes one that lacks only this key"
    start_all(space, "l2", machine="l")
    space.transition("b1", "ok")
    assert begun(space, "l2", "k3", "k4") == ["l2", "k3"]


def test_who_waits_says_for_whom(space, limits):
    space.define(job("{key: k, max: 2}"))
    start_all(space, "a", "b", "c", "d")
    reply = space.begin("job", "e")
    for instance in (reply.instance, space.get("e")):
        wait = only(instance.waits_for)
        assert (wait.kind, wait.key, wait.max, wait.held, wait.ahead) == (
            v1.Wait.LIMIT, "k", 2, 2, 2)
        assert list(wait.holders) == ["a", "b"] and not wait.HasField("until")
    assert only(space.instances().instances[-1].waits_for) == wait, "lists say the same"
    assert only(space.get("c").waits_for).ahead == 0
    assert not space.get("a").waits_for
    space.transition("a", "ok")
    assert not space.get("c").waits_for
    wait = only(space.get("e").waits_for)
    assert wait.ahead == 1 and list(wait.holders) == ["b", "c"]


def test_lists_and_orders_say_for_whom_an_instance_waits(space, limits):
    space.define(job("{key: k, max: 1}"))
    start_all(space, "a")
    space.pause("a")
    start_all(space, "b", *(f"c{n:03}" for n in range(120)))
    wait = only(space.resume("a").waits_for)
    assert (wait.kind, wait.key, wait.held, list(wait.holders)) == (v1.Wait.LIMIT, "k", 1, ["b"])
    listed = {one.id: one for one in space.instances(page_size=200).instances}
    assert not listed["b"].waits_for
    for id in ("a", "c000", "c119"):
        assert only(listed[id].waits_for) == only(space.get(id).waits_for)
    assert only(listed["c119"].waits_for).ahead == 120
    limits.set("queue:default", max=0)
    token = only(only([one for one in space.instances().instances if one.id == "b"]).tokens)
    assert [w.key for w in token.waits_for] == ["queue:default"]


def test_at_most_ten_holders_are_named_oldest_first(space, limits):
    space.define(job("{key: k, max: 12}"))
    ids = [f"i{n:02}" for n in range(13)]
    start_all(space, *ids)
    wait = only(space.get("i12").waits_for)
    assert wait.held == 12 and list(wait.holders) == ids[:10]
    assert limits.holders() == ids[:12]


def test_what_else_one_waits_for_is_told(standing):
    space = standing.space("s")
    space.define(job("k"))
    space.start("job", "first", start_at=BEGAN + HOUR)
    wait = only(space.get("first").waits_for)
    assert wait.kind == v1.Wait.START_AT and seconds(wait.until) == BEGAN + HOUR
    space.start("job", "then", after=[v1.After(instance="first")])
    wait = only(space.get("then").waits_for)
    assert (wait.kind, wait.key) == (v1.Wait.AFTER, "first")
    space.start("job", "held", hold=True)
    assert v1.Wait.HOLD in [wait.kind for wait in space.get("held").waits_for]


# Steps and nodes ----------------------------------------------------------------------------------


def node(limit):
    return f"""\
id: m
nodes:
  rest: {{start: true, manual: true, transitions: {{go: work}}}}
  work: {{limit: {limit}, transitions: {{ok: done, again: work, back: rest}}}}
  done: {{final: true}}
"""


def working(limit):
    return node(limit).replace("start: true, ", "").replace("limit:", "start: true, limit:")


def tasks_of(space, machine="p"):
    return [task.instance for task in space.ready(machine, max_tasks=100)]


def ids_of(space, count, machine="p", **more):
    return [space.plan(machine, f"i{n}", **more) for n in range(count)]


def test_steps_ask_at_the_hand_out_and_wait_as_waiting(space, limits):
    space.define(step("k"))
    ids = ids_of(space, 3)
    assert [space.step_states(id)["a"] for id in ids] == ["READY"] * 3
    task = space.take("p")
    assert task.instance == "i0"
    assert [space.step_states(id)["a"] for id in ids][1:] == ["WAITING"] * 2
    assert space.ready("p", max_tasks=9) == []
    assert states(space, *ids) == ["RUNNING"] * 3
    limit = limits.get()
    assert [(one.instance, one.node) for one in limit.holders] == [("i0", "a")]
    assert [(one.instance, one.node) for one in limit.waiters] == [("i1", "a"), ("i2", "a")]
    for n, id in enumerate(ids[1:]):
        token = space.token(id)
        assert token_state(token) == "WAITING"
        wait = only(token.waits_for)
        assert (wait.kind, wait.key, wait.max, wait.held, wait.ahead) == (
            v1.Wait.LIMIT, "k", 1, 1, n)
        assert list(wait.holders) == ["i0"]
    for id in ids[1:]:
        space.report(task)
        task = space.take("p")
        assert task.instance == id and not space.token(id).waits_for
    space.report(task)
    for id in ids:
        space.ends(id, "SUCCESS")


def test_waiting_steps_come_by_priority_then_in_order_of_start(space, limits):
    space.define(step("k"))
    for id, priority in [("a", 0), ("low", -1), ("n1", 0), ("high", 9), ("n2", 0)]:
        space.plan("p", id, priority=priority)
    task = space.take("p")  # the highest
    assert task.instance == "high"
    for id in ("a", "n1", "n2", "low"):
        assert limits.waiters()[0] == id
        space.report(task)
        task = space.take("p")
        assert task.instance == id


def test_a_step_is_skipped_when_another_takes_the_last_place(space, limits):
    space.define(step("{key: the-key, on_conflict: skip}"))
    ids_of(space, 2)
    task = space.take("p")
    assert task.instance == "i0"
    space.ends("i1", "WARNING")
    skipped = space.step("i1", "a")
    assert step_state(skipped) == "SKIPPED"
    assert "the-key" in told(space, "i1") and "i0" in told(space, "i1")
    assert "the-key" in skipped.note
    space.plan("p", "i2")
    space.ends("i2", "WARNING")
    space.report(task)
    space.ends("i0", "SUCCESS")


def test_a_step_fails_when_another_takes_the_last_place(space, limits):
    space.define(step("{key: the-key, on_conflict: fail}"))
    ids_of(space, 2)
    task = space.take("p")
    eventually(lambda: state(space.get("i1")) == "PAUSED")
    failed = space.step("i1", "a")
    assert step_state(failed) == "HELD" and "the-key" in failed.error and "i0" in failed.error
    space.report(task)
    space.resume("i1")
    assert space.take("p").instance == "i1"


def test_a_step_that_may_wait_only_behind_so_many_is_skipped_else(space, limits):
    space.define(step("{key: k, waiting: 1}"))
    ids_of(space, 3)
    space.take("p")
    assert [space.step_states(id)["a"] for id in ("i1", "i2")] == ["WAITING", "SKIPPED"]


@pytest.mark.parametrize("end", ["held", "suspended", "done", "timed out"])
def test_a_step_holds_from_its_hand_out_until_it_is_done_or_held(space, limits, end):
    timeout = 0.2 if end == "timed out" else 600
    space.define(f"action: x\ntimeout_strategy: fixed\ntimeout: {timeout}\n---\n" + step("k"))
    ids_of(space, 2)
    task = space.take("p")
    if end == "done":
        space.report(task)
        assert space.take("p").instance == "i1"
    elif end == "held":
        space.report(task, "error", error="broke")
        assert step_state(space.step("i0", "a")) == "HELD"
        assert space.take("p").instance == "i1"
    elif end == "suspended":
        space.suspend(task)
        assert space.ready("p") == [] and limits.holders() == ["i0"]
    else:
        again = space.take("p")
        assert (again.instance, again.attempt) == ("i0", 2) and limits.holders() == ["i0"]


def test_a_step_frees_its_key_when_its_instance_stops(space, limits):
    space.define(step("k"))
    ids_of(space, 2)
    space.take("p")
    space.cancel("i0", "FORCE")
    assert space.take("p").instance == "i1"


def test_an_action_has_a_limit_for_all_its_steps(space, limits):
    space.define("action: x\nlimit: {key: 'host/${params.host}', max: 1}\n---\n"
                 "plan: p\nflow: [{step: a, action: x}]\n---\n"
                 "plan: q\nflow: [{step: b, action: x}]\n")
    space.plan("p", "one", {"host": 1})
    space.plan("q", "two", {"host": 1})
    space.plan("q", "three", {"host": 2})
    assert sorted(task.instance for task in space.ready(action="x", max_tasks=9)) == [
        "one", "three"]
    assert limits.waiters("host/1") == ["two"]


def test_the_key_of_a_step_may_refer_to_what_its_input_may(space, limits):
    space.define('plan: p\nflow:\n  - {step: a, action: x}\n'
                 '  - {step: b, action: y, after: [a], limit: "on/${a.output.host}"}\n'
                 '  - for_each: "${params.list}"\n    as: one\n'
                 '    do: {step: c, action: z, limit: "each/${one}"}\n')
    space.plan("p", "i", {"list": ["u", "v", "u"]})
    space.report(space.take(action="x"), output={"host": "h1"})
    space.take(action="y")
    assert limits.holders("on/h1") == ["i"]
    assert len(space.ready(action="z", max_tasks=9)) == 3, "within one instance a key counts once"
    assert limits.get("each/u").held == 1 and limits.get("each/v").held == 1


def test_the_keys_of_nodes_are_shown_as_written(space):
    space.define(working('["n-${params.x}", {key: l, max: 3}]'))
    assert list(space.node("m", "work").limits) == ["n-${params.x}", "l"]
    space.define(step("k"))
    assert list(space.node("p", "a").limits) == ["k"]


def test_nodes_wait_and_hold_for_a_visit(space, limits):
    space.define(node("k"))
    for id in ("i0", "i1"):
        space.start("m", id)
    assert limits.keys() == [], "nobody has come to the node"
    for id in ("i0", "i1"):
        space.transition(id, "go")
    task = space.take("m")
    assert task.instance == "i0" and token_state(space.token("i1")) == "WAITING"
    assert [(one.instance, one.node) for one in limits.get().holders] == [("i0", "work")]
    space.report(task, "back")
    task = space.take("m")
    assert task.instance == "i1"
    space.transition("i0", "go")
    assert space.ready("m") == []
    space.report(task)
    assert space.take("m").instance == "i0"


def test_a_node_takes_all_its_keys_or_none(space, limits):
    space.define(working("[k, l]") + "---\n" + working("k").replace("id: m", "id: k")
                 + "---\n" + working("l").replace("id: m", "id: l"))
    space.start("l", "l1")
    space.start("m", "both")
    space.start("k", "k1")
    held = space.take("l")
    assert space.ready("m") == []
    assert [task.instance for task in space.ready("k")] == ["k1"]
    space.report(held)
    assert space.ready("m") == [] and limits.lacks("both") == ["k"]


def test_a_key_counts_once_within_an_instance(space, limits):
    space.define("plan: p\nlimit: k\nflow:\n  - {step: a, action: x, limit: k}\n"
                 "  - {step: b, action: x, limit: k}\n")
    space.plan("p", "one")
    assert len(space.ready("p", max_tasks=9)) == 2
    assert limits.get().held == 1
    space.start("p", "two")
    assert states(space, "two") == ["SCHEDULED"]


def test_steps_of_one_instance_share_its_place_until_the_last_is_done(space, limits):
    space.define("plan: p\nflow:\n  - {step: a, action: x, limit: k}\n"
                 "  - {step: b, action: x, limit: k}\n")
    space.plan("p", "one")
    a, b = space.claim("a", "b")
    space.plan("p", "two")
    assert limits.get().held == 1 and space.ready("p") == []
    space.report(a)
    assert space.ready("p") == []
    space.report(b)
    assert space.take("p").instance == "two"


def test_raised_it_lets_waiting_steps_in(space, limits):
    space.define(step("k"))
    ids_of(space, 4)
    space.take("p")
    limits.set(max=3)
    assert tasks_of(space) == ["i1", "i2"]
    limits.set(max=0)
    space.cancel("i0", "FORCE")
    assert tasks_of(space) == []


def test_a_poll_that_waits_is_answered_when_a_key_is_free(space, limits):
    space.define(step("k"))
    ids_of(space, 2)
    task = space.take("p")
    poll = space.later("Ready", space.ready_request("p", wait=SOON), timeout=CALL)
    space.report(task)
    assert [one.instance for one in poll.result().tasks] == ["i1"]


# Rates --------------------------------------------------------------------------------------------


@pytest.fixture
def ticking(standing):
    space = standing.space("s")
    space.limits = Limits(space)
    return space


def test_a_rate_spaces_evenly(ticking, standing):
    ticking.define(job("{key: k, rate: 2/1m}"))
    ids = [f"i{n}" for n in range(4)]
    start_all(ticking, *ids)
    assert begun(ticking, *ids) == ["i0"]
    wait = only(ticking.get("i1").waits_for)
    assert (wait.kind, wait.key) == (v1.Wait.RATE, "k")
    assert seconds(wait.until) == pytest.approx(BEGAN + 30, abs=0.01)
    limit = ticking.limits.get()
    assert not limit.HasField("max") and limit.max_from == NONE, "with rate none"
    assert (limit.rate.count, limit.rate.per.seconds, limit.rate.burst) == (2, 60, 1)
    assert limit.rate_from == ASKER and limit.tokens < 1 and limit.waiting == 3
    assert seconds(limit.next_token) == pytest.approx(BEGAN + 30, abs=0.01)
    assert seconds(standing.clock().next_due) == pytest.approx(BEGAN + 30, abs=0.01)
    ticking.transition("i0", "ok")
    assert begun(ticking, *ids) == [], "its end gives nothing back"
    standing.advance(by=29.9)
    assert begun(ticking, *ids) == []
    standing.advance(by=0.2)
    assert begun(ticking, *ids) == ["i1"]
    standing.advance(by=MINUTE)
    assert begun(ticking, *ids) == ["i1", "i2", "i3"]
    started = [seconds(only([c for c in ticking.history(id) if kind(c) == "STARTED"]).time) - BEGAN
               for id in ids]
    assert started == pytest.approx([0, 30, 60, 90], abs=0.05)


def test_a_burst_lets_so_many_begin_at_once_after_a_rest(ticking, standing):
    """At most N + burst - 1 begin in any such time."""
    ticking.define(job("{key: k, rate: 6/1m, burst: 3}"))
    ids = [f"i{n:02}" for n in range(14)]
    start_all(ticking, *ids)
    assert begun(ticking, *ids) == ids[:3]
    standing.advance(by=MINUTE - 1)
    assert begun(ticking, *ids) == ids[:8]
    standing.advance(by=MINUTE)
    assert begun(ticking, *ids) == ids[:14]
    standing.advance(by=10 * MINUTE)
    assert ticking.limits.get().tokens == pytest.approx(3), "and no more than the burst"
    assert not ticking.limits.get().HasField("next_token")
    more = [f"j{n}" for n in range(5)]
    start_all(ticking, *more)
    assert begun(ticking, *more) == more[:3]


def test_max_and_rate_both_hold(ticking, standing):
    ticking.define("limit: k\nrate: 1/1m\n---\n" + job("{key: k, max: 1}"))
    start_all(ticking, "a", "b", "c")
    limit = ticking.limits.get()
    assert (limit.max_from, limit.rate_from, limit.max) == (ASKER, DOCUMENT, 1)
    ticking.transition("a", "ok")
    assert begun(ticking, "b") == [], "there is room, but it is too early"
    standing.advance(by=MINUTE)
    assert begun(ticking, "b", "c") == ["b"]
    standing.advance(by=MINUTE)
    assert begun(ticking, "b", "c") == ["b"], "it is time, but there is no room"
    ticking.transition("b", "ok")
    assert begun(ticking, "c") == ["c"]


def test_a_rate_is_set_and_taken_away(ticking, standing):
    ticking.define(job("{key: k, max: 9}"))
    limit = ticking.limits.set(rate=schedule.Rate(count=1, per={"seconds": 60}))
    assert (limit.rate_from, limit.rate.count, limit.rate.burst) == (OVERRIDE, 1, 1)
    assert limit.max_from != OVERRIDE, "what is absent stays unchanged"
    start_all(ticking, "a", "b", "c")
    assert begun(ticking, "a", "b", "c") == ["a"]
    limit = ticking.limits.set(rate=schedule.Rate(count=0))
    assert not limit.HasField("rate") or not limit.rate.count
    assert begun(ticking, "a", "b", "c") == ["a", "b", "c"]


@pytest.mark.parametrize("word, outcome", [("skip", "refused"), ("fail", "ERROR")])
def test_without_time_there_is_no_room(ticking, word, outcome):
    ticking.define(job(f"{{key: k, rate: 1/1m, on_conflict: {word}}}"))
    start_all(ticking, "a")
    if outcome == "refused":
        with refused("FAILED_PRECONDITION", "LIMIT_REACHED", "k"):
            ticking.start("job", "b")
    else:
        ticking.start("job", "b")
        ticking.ends("b", "ERROR")


@pytest.mark.parametrize("word", ["latest", "cancel", "replace"])
def test_for_a_rate_nobody_is_cancelled(ticking, standing, word):
    ticking.define(job(f"{{key: k, max: 5, rate: 1/1m, on_conflict: {word}}}"))
    start_all(ticking, "a", "b")
    assert begun(ticking, "a", "b") == ["a"] and states(ticking, "b") == ["SCHEDULED"]
    standing.advance(by=MINUTE)
    assert begun(ticking, "a", "b") == ["a", "b"]


def test_a_rate_for_the_steps_of_a_queue(ticking, standing):
    ticking.define("limit: mail\non: {queue: mail}\nrate: 2/1m\nburst: 2\n---\n"
                   "action: x\nqueue: mail\n---\nplan: p\nflow: [{step: a, action: x}]\n")
    for n in range(6):
        ticking.plan("p", f"i{n}")
    assert len(ticking.ready("p", max_tasks=9)) == 2
    standing.advance(by=30)
    assert len(ticking.ready("p", max_tasks=9)) == 1
    standing.advance(by=60)
    assert len(ticking.ready("p", max_tasks=9)) == 2
    assert ticking.limits.get("queue:mail").document == "mail"


@pytest.mark.parametrize("end", ["kill", "kill later", "stop"])
def test_a_rate_survives_a_restart(ticking, standing, end):
    """Up to the last second before a crash."""
    ticking.define(job("{key: k, rate: 1/1m}"))
    ticking.start("job", "a")
    if end == "kill":
        standing.advance(by=2)
    elif end == "kill later":
        begun = time.monotonic()
        eventually(lambda: time.monotonic() > begun + 1.2)
    standing.stop() if end == "stop" else standing.kill()
    standing.start()
    ticking.start("job", "b")
    assert state(ticking.get("b")) == "SCHEDULED"
    assert seconds(only(ticking.get("b").waits_for).until) == pytest.approx(BEGAN + 60, abs=0.1)
    standing.advance(to=BEGAN + 61)
    assert state(ticking.get("b")) == "RUNNING"


# Limits that need no document ---------------------------------------------------------------------


def test_built_in_keys_are_unlimited_until_set(space, limits):
    space.define(JOBS)
    start_all(space, *(f"i{n}" for n in range(5)))
    for key in (f"namespace:{space.name}", "machine:job", "group:g", "schedule:s", "trigger:t",
                "queue:default", "action:job.work"):
        limit = limits.get(key)
        assert not limit.HasField("max") and limit.max_from == NONE, key
    assert limits.get("machine:job").held == 5
    assert limits.get(f"namespace:{space.name}").held == 5


JOBS = """\
id: job
nodes:
  work: {start: true, transitions: {ok: done, error: failed}}
  done: {final: true}
  failed: {final: true, result: error}
---
plan: child
flow: [{step: c, action: y}]
---
plan: parent
flow:
  - {step: kids, spawn: {plan: child, for_each: [1, 2, 3], as: n}}
"""


def test_the_limit_of_a_namespace_is_of_what_no_step_started(space, limits):
    space.define(JOBS)
    key = f"namespace:{space.name}"
    start_all(space, "early1", "early2")
    limit = limits.set(key, max=1)
    assert limit.held == 2, "who began before counts"
    start_all(space, "p", machine="parent")
    assert states(space, "p") == ["SCHEDULED"]
    for id in ("early1", "early2"):
        space.transition(id, "ok")
    eventually(lambda: begun(space, "p") and len(space.children("p")) == 3)
    eventually(lambda: all(state(one) == "RUNNING" for one in space.children("p")))
    assert limits.holders(key) == ["p"]
    start_all(space, "late")
    assert states(space, "late") == ["SCHEDULED"]
    space.start("job", "forced", force=True)
    assert states(space, "forced") == ["RUNNING"]


def test_the_limit_of_a_machine_is_of_all_its_instances(space, limits):
    space.define(JOBS)
    limits.set("machine:child", max=1)
    space.start("child", "own")
    space.plan("parent", "p")
    eventually(lambda: len(space.children("p")) == 3)
    eventually(lambda: begun(space, "own"))
    kids = [one.id for one in space.children("p")]
    assert states(space, *kids) == ["SCHEDULED"] * 3
    assert limits.holders("machine:child") == ["own"]
    for id in ["own", *kids]:
        eventually(lambda: begun(space, "own", *kids) == [id])
        space.report(space.take("child"))
    space.ends("p", "SUCCESS")


def test_the_limit_of_a_group_is_its_max_running(space, limits):
    space.define(JOBS)
    call = lambda **more: limits.call("SetGroup", name="g", **more)
    assert call(max_running=2).max_running == 2
    assert limits.get("group:g").max == 2
    ids = [space.start("job", f"i{n}", group="g") for n in range(6)]
    space.start("job", "stranger")
    assert begun(space, *ids, "stranger") == ["i0", "i1", "stranger"]
    assert only(space.get("i2").waits_for).key == "group:g"
    call(max_running=3)
    assert begun(space, *ids) == ids[:3]
    call(max_running=0)
    space.transition("i0", "ok")
    assert begun(space, *ids) == ids[1:3] and states(space, "i3") == ["SCHEDULED"]
    limits.set("group:g", max=3)
    assert limits.call("GetGroup", name="g").max_running == 3
    assert begun(space, *ids) == ids[1:4]
    group = call(no_max_running=True)
    assert not group.HasField("max_running") and begun(space, *ids) == ids[1:]


@pytest.mark.parametrize("key", ["queue:mail", "action:send"])
def test_tasks_of_a_queue_or_action_stay_ready(space, limits, key):
    space.define("action: send\nqueue: mail\n---\nplan: p\nflow: [{step: a, action: send}]\n")
    limits.set(key, max=0)
    ids = ids_of(space, 3)
    assert tasks_of(space) == []
    assert [space.step_states(id)["a"] for id in ids] == ["READY"] * 3
    assert [wait.key for wait in space.token("i0").waits_for] == [key]
    eventually(lambda: space.node("p", "a").stats.limited == 3)
    assert limits.counts(key) == (0, 3) and limits.waiters(key) == ids
    assert [(one.node, list(one.lacks)) for one in limits.get(key).waiters] == [("a", [key])] * 3
    page = limits.get(key, page_size=2)
    rest = limits.get(key, page_size=2, page_token=page.next_page_token)
    assert [one.instance for one in [*page.waiters, *rest.waiters]] == ids
    assert page.next_page_token and not rest.next_page_token
    limits.set(key, max=2)
    assert limits.waiters(key) == []
    first, second = space.ready("p", max_tasks=9)
    assert tasks_of(space) == [] and limits.get(key).held == 2
    space.report(first)
    third = space.take("p")
    eventually(lambda: space.node("p", "a").stats.limited == 0)
    space.relinquish(second.instance, second.claim)
    assert limits.get(key).held == 1
    assert space.take("p").instance == second.instance
    space.suspend(third)
    assert limits.get(key).held == 1, "a suspended task is not claimed"


def test_a_task_that_has_timed_out_does_not_count(ticking, standing):
    ticking.define("action: send\ntimeout_strategy: fixed\ntimeout: 60\n---\n"
                   "plan: p\nflow: [{step: a, action: send}]\n")
    ticking.limits.set("action:send", max=1)
    ticking.plan("p", "i0")
    ticking.plan("p", "i1")
    assert len(ticking.ready("p", max_tasks=9)) == 1
    assert ticking.ready("p") == []
    standing.advance(by=61)
    assert len(ticking.ready("p", max_tasks=9)) == 1
    assert ticking.limits.get("action:send").held == 1


def test_other_queues_go_on_beside_a_queue_that_is_full(space, limits):
    space.define("action: x\nqueue: one\n---\naction: y\nqueue: two\n---\n"
                 "plan: p\nflow:\n  - {step: a, action: x}\n  - {step: b, action: y}\n")
    limits.set("queue:one", max=1)
    ids_of(space, 3)
    tasks = space.ready("p", max_tasks=9)
    assert sorted(task.node for task in tasks) == ["a", "b", "b", "b"]


@pytest.mark.parametrize("on, key", [("queue: mail", "queue:mail"), ("action: x", "action:x"),
                                     ("machine: p", "machine:p")])
def test_documents_for_built_in_keys(space, limits, on, key):
    space.define(f"limit: doc\non: {{{on}}}\nmax: 1\n---\naction: x\nqueue: mail\n---\n"
                 "plan: p\nflow: [{step: a, action: x}]\n")
    limit = limits.get(key)
    assert (limit.document, limit.max, limit.max_from) == ("doc", 1, DOCUMENT)
    assert limits.keys() == [key]
    start_all(space, "i0", "i1", machine="p")
    eventually(lambda: begun(space, "i0"))
    assert len(space.ready("p", max_tasks=9, wait=0)) == 1
    assert space.ready("p") == []
    limits.set(key, max=2)
    assert len(space.ready("p", max_tasks=9, wait=SOON)) == 1


# Singletons, force, on_conflict -------------------------------------------------------------------


def test_a_singleton_is_a_limit_of_one_that_fails(space, limits):
    space.define("plan: p\nsingleton: k\nflow: [{step: a, action: x}]\n---\n" + job("k"))
    space.plan("p", "one")
    limit = limits.get()
    assert (limit.max, limit.max_from, limit.held) == (1, ASKER, 1)
    space.start("p", "two")
    assert "k" in space.ends("two", "ERROR").error
    start_all(space, "three")
    assert states(space, "three") == ["SCHEDULED"], "it is the same key"
    limits.set(max=2)
    assert begun(space, "three") == ["three"]


def test_a_singleton_may_wait(space, limits):
    space.define("plan: p\nsingleton: k\non_conflict: wait\nflow: [{step: a, action: x}]\n")
    space.plan("p", "one")
    space.start("p", "two")
    assert states(space, "two") == ["SCHEDULED"] and limits.waiters() == ["two"]


def test_force_begins_past_all_limits_and_counts(space, limits):
    space.define(job("[k, {key: l, max: 2}]"))
    start_all(space, "a", "b")
    limits.set(f"namespace:{space.name}", max=1)
    space.start("job", "f", force=True)
    assert begun(space, "f") == ["f"]
    limit = limits.get()
    assert limit.held == 2 and [(one.instance, one.forced) for one in limit.holders] == [
        ("a", False), ("f", True)]
    assert limits.holders("l") == ["a", "f"]
    space.transition("a", "ok")
    assert begun(space, "b") == [], "it counts"
    space.transition("f", "ok")
    assert begun(space, "b") == ["b"]


def test_force_wins_over_a_zero_and_over_skip(space, limits):
    space.define(job("{key: k, max: 0, on_conflict: skip}"))
    with refused("FAILED_PRECONDITION", "LIMIT_REACHED"):
        space.start("job", "a")
    space.start("job", "a", force=True)
    assert begun(space, "a") == ["a"]


def test_force_takes_an_operator(guarded, root):  # noqa: F811
    root.space().define(job("k", "forced"))
    worker, operator = root.create("worker"), root.create("operator")
    with refused("PERMISSION_DENIED", "NOT_ALLOWED"):
        worker.space().start("forced", "f1", force=True)
    root.space().start("forced", "f0")
    operator.space().start("forced", "f1", force=True)
    assert state(root.space().get("f1")) == "RUNNING"
    task = worker.space().take("forced")
    forced = root.space().start_request("forced", "f2", force=True)
    with refused("PERMISSION_DENIED", "NOT_ALLOWED"):
        worker.space().report(task, starts=[forced])


@pytest.mark.parametrize("written", ["wait", "latest", "skip", "fail", "cancel", "replace"])
def test_the_on_conflict_of_a_start_wins(space, limits, written):
    space.define(job(f"{{key: k, on_conflict: {written}}}"))
    start_all(space, "a")
    with refused("FAILED_PRECONDITION", "LIMIT_REACHED"):
        space.start("job", "skips", on_conflict="skip")
    space.start("job", "fails", on_conflict="fail")
    assert outcome(space, "fails") == "STOPPED ERROR"
    space.start("job", "w1", on_conflict="wait")
    space.start("job", "w2", on_conflict="wait")
    assert limits.waiters() == ["w1", "w2"] and begun(space, "a") == ["a"]
    space.start("job", "l", on_conflict="latest")
    assert outcome(space, "w1") == "STOPPED CANCELLED" and begun(space, "a") == ["a"]
    space.take("job")
    space.start("job", "c", on_conflict="cancel")
    assert only(limits.get().holders).cancelling and limits.waiters() == ["c"]
    space.start("job", "r", on_conflict="replace")
    assert limits.holders() == ["r"] and limits.counts() == (1, 0)


def test_the_on_conflict_of_a_start_wins_over_that_of_a_singleton(space, limits):
    space.define("plan: p\nsingleton: k\nflow: [{step: a, action: x}]\n")
    space.plan("p", "one")
    space.start("p", "two", on_conflict="wait")
    assert states(space, "two") == ["SCHEDULED"]


def test_an_unknown_word_is_told_with_all_there_are(space):
    space.define(job("k"))
    with refused("INVALID_ARGUMENT", "BAD_REQUEST", "queue", "wait", "latest", "skip", "fail",
                 "cancel", "replace"):
        space.start("job", on_conflict="queue")


def test_what_starts_with_a_report_is_refused_with_it(space, limits):
    space.define(job("{key: k, on_conflict: skip}") + "---\n" + JOBS.replace("id: job", "id: free"))
    start_all(space, "a")
    space.start("free", "f")
    task = space.take("free")
    with refused("FAILED_PRECONDITION", "LIMIT_REACHED", "starts[0]"):
        space.report(task, starts=[space.start_request("job", "b")])
    reply = space.report(task, starts=[space.start_request("job", "b", on_conflict="wait")])
    assert only(reply.started).id == "b" and limits.waiters() == ["b"]


# Children -----------------------------------------------------------------------------------------


def family(parent, child, more=""):
    return (f"plan: child\nlimit: {child}\nflow: [{{step: c, action: y}}]\n---\n"
            f"plan: parent\nlimit: {parent}\nflow: [{{step: kid, spawn: {{plan: child}}}}]\n---\n"
            + job("{key: k, max: 2}") + more)


def test_a_child_that_waits_for_its_ancestors_alone_stops_with_an_error(space, limits):
    space.define(family("k", "k"))
    space.start("parent", "p")
    child = only(eventually(lambda: space.children("p")))
    error = space.ends(child.id, "ERROR").error
    assert "k" in error and "p" in error
    eventually(lambda: state(space.get("p")) == "PAUSED")


def test_a_grandchild_does_too(space, limits):
    space.define(family("l", "l").replace("plan: child\n", "plan: grandchild\n", 1)
                 .replace("plan: parent\nlimit: l", "plan: child")
                 .replace("spawn: {plan: child}", "spawn: {plan: grandchild}")
                 + "---\nplan: parent\nlimit: l\nflow: [{step: kid, spawn: {plan: child}}]\n")
    space.start("parent", "p")
    child = only(eventually(lambda: space.children("p")))
    grandchild = only(eventually(lambda: space.children(child.id)))
    space.ends(grandchild.id, "ERROR")


def test_a_child_that_waits_for_a_stranger_too_waits(space, limits):
    space.define(family("{key: k, max: 2}", "{key: k, max: 2}"))
    start_all(space, "stranger")
    space.start("parent", "p")
    child = only(eventually(lambda: space.children("p"))).id
    assert states(space, child) == ["SCHEDULED"]
    space.transition("stranger", "ok")
    eventually(lambda: begun(space, child))


def test_a_child_that_comes_to_wait_for_its_ancestors_alone_stops_then(space, limits):
    space.define(family("{key: k, max: 2}", "{key: k, max: 2}"))
    start_all(space, "stranger")
    space.start("parent", "p")
    child = only(eventually(lambda: space.children("p"))).id
    limits.set(max=1)
    assert states(space, child) == ["SCHEDULED"]
    space.transition("stranger", "ok")
    space.ends(child, "ERROR")


def test_a_step_of_a_child_does_not_wait_for_its_ancestors_for_ever(space, limits):
    space.define("plan: child\nflow: [{step: c, action: y, limit: k}]\n---\n"
                 "plan: parent\nlimit: k\nflow: [{step: kid, spawn: {plan: child}}]\n")
    space.start("parent", "p")
    child = only(eventually(lambda: space.children("p"))).id
    space.ready("child", wait=0.2)
    space.ends(child, "ERROR")


# Pausing and resuming -----------------------------------------------------------------------------


def test_pausing_gives_up_and_resuming_asks_again(space, limits):
    space.define(job("k"))
    start_all(space, "a", "b", "c")
    space.pause("a")
    assert states(space, "a", "b", "c") == ["PAUSED", "RUNNING", "SCHEDULED"]
    space.resume("a")
    assert states(space, "a", "b", "c") == ["PAUSED", "RUNNING", "SCHEDULED"]
    wait = only(space.get("a").waits_for)
    assert (wait.kind, wait.key) == (v1.Wait.LIMIT, "k") and list(wait.holders) == ["b"]
    assert limits.waiters() == ["a", "c"], "in order of start"
    space.transition("b", "ok")
    assert states(space, "a", "c") == ["RUNNING", "SCHEDULED"], "it goes on by itself"
    assert not space.get("a").waits_for
    space.transition("a", "ok")
    assert begun(space, "c") == ["c"]


def test_resuming_goes_on_at_once_when_there_is_room(space, limits):
    space.define(job("k"))
    start_all(space, "a")
    space.pause("a")
    assert limits.keys() == []
    space.resume("a")
    assert states(space, "a") == ["RUNNING"] and limits.holders() == ["a"]


@pytest.mark.parametrize("word", ["skip", "fail"])
def test_who_would_fail_or_be_left_out_is_not_resumed(space, limits, word):
    space.define(job(f"{{key: k, on_conflict: {word}}}"))
    start_all(space, "a")
    space.pause("a")
    start_all(space, "b")
    with refused("FAILED_PRECONDITION", "LIMIT_REACHED", "k", "b"):
        space.resume("a")
    assert states(space, "a", "b") == ["PAUSED", "RUNNING"]
    space.transition("b", "ok")
    space.resume("a")
    assert states(space, "a") == ["RUNNING"]


@pytest.mark.parametrize("word", ["fail", "wait"])
def test_a_singleton_is_not_resumed_while_another_has_its_key(space, limits, word):
    space.define(f"plan: p\nsingleton: k\non_conflict: {word}\nflow: [{{step: a, action: x}}]\n")
    space.plan("p", "one")
    space.pause("one")
    space.plan("p", "two")
    with refused("FAILED_PRECONDITION", "ILLEGAL_TRANSITION", "k"):
        space.resume("one")
    space.cancel("two", "FORCE")
    space.resume("one")
    assert states(space, "one") == ["RUNNING"]


def test_a_plan_that_pauses_because_a_step_failed_gives_up_too(space, limits):
    space.define("plan: p\nlimit: k\nflow: [{step: a, action: x}]\n")
    start_all(space, "one", "two", machine="p")
    space.fail("a")
    eventually(lambda: states(space, "one", "two") == ["PAUSED", "RUNNING"])
    space.resume("one")
    assert states(space, "one") == ["PAUSED"]
    space.do("a")
    eventually(lambda: states(space, "one") == ["RUNNING"])
    assert space.take("p").instance == "one"


def test_one_that_waits_and_is_paused_is_passed_and_keeps_its_place(space, limits):
    space.define(job("k"))
    start_all(space, "a", "b", "c", "d")
    space.pause("b")
    assert [(one.instance, one.paused) for one in limits.get().waiters] == [
        ("b", True), ("c", False), ("d", False)]
    space.transition("a", "ok")
    assert begun(space, "b", "c", "d") == ["c"]
    space.resume("b")
    assert limits.waiters() == ["b", "d"]
    space.transition("c", "ok")
    assert begun(space, "b", "d") == ["b"]


def test_what_a_paused_instance_held_for_its_steps_is_given_up_too(space, limits):
    space.define(step("k"))
    ids_of(space, 2)
    first = space.take("p")
    space.pause("i0")
    second = space.take("p")
    assert second.instance == "i1"
    space.resume("i0")
    assert states(space, "i0") == ["PAUSED"], "its step was handed out: it has to wait"
    space.report(second)
    eventually(lambda: states(space, "i0") == ["RUNNING"])
    assert limits.holders() == ["i0"]
    space.report(first)
    space.ends("i0", "SUCCESS")


# After a crash ------------------------------------------------------------------------------------


def test_all_of_it_is_there_after_kill_9(new_server):
    server = new_server().start()
    space = server.space("s")
    limits = Limits(space)
    space.define("limit: k\nmax: 2\n---\n" + job("k") + "---\n" + step("of-steps") + "---\n"
                 + job("[k, l]", "both") + "---\n" + job("l", "l"))
    start_all(space, "l1", machine="l")
    start_all(space, "a", "b")
    space.start("job", "f", force=True)
    for id, priority in [("w1", 0), ("w2", 5), ("w3", 0), ("w4", 5)]:
        space.start("job", id, priority=priority)
    space.start("both", "both")
    space.pause("w3")
    limits.set("other", max=7, note="by hand")
    limits.set("queue:mail", rate=schedule.Rate(count=3, per={"seconds": 60}, burst=2))
    ids_of(space, 3)
    task = space.take("p")
    space.await_change("CLAIMED", machine="p")  # so that it is durable
    keys = ("k", "l", "of-steps", "other", "queue:mail")

    def all_of():
        found = [limits.get(key) for key in keys]
        for limit in found:
            limit.ClearField("tokens")
            for one in [*limit.holders, *limit.waiters]:
                one.ClearField("since")
        return found

    before = all_of()
    assert [len(limit.holders) for limit in before] == [3, 1, 1, 0, 0]
    assert [one.instance for one in before[0].waiters] == ["w2", "w4", "w1", "w3", "both"]
    for _ in range(2):
        server.kill()
        server.start()
        assert all_of() == before
        assert space.ready("p") == []
    for id in ("f", "a", "b"):
        space.transition(id, "ok")
    assert begun(space, "w1", "w2", "w4") == ["w2", "w4"]
    for id in ("w2", "w4"):
        space.transition(id, "ok")
    assert begun(space, "w1", "w3", "both") == ["w1"]
    space.transition("l1", "ok")
    assert begun(space, "both") == ["both"]
    space.report(task)
    assert space.take("p").instance == "i1"
    assert limits.get("other").note == "by hand"


@pytest.mark.parametrize("word", ["wait", "latest", "cancel"])
def test_kill_9_in_the_middle_lets_never_too_many_in(new_server, word):
    server = new_server().start()
    space = server.space("s")
    space.define(job(f"{{key: k, max: 3, waiting: 40, on_conflict: {word}}}" if word != "cancel"
                     else "{key: k, max: 3, on_conflict: cancel}"))
    going = lambda: [one.id for one in space.instances(state=v1.Instance.RUNNING).instances]
    ids = []
    for _ in range(2):
        ids += space.start_many("job", 10)
        server.kill()
        server.start()
        assert len(going()) == 3
        space.transition(going()[0], "ok")
        server.kill()
        server.start()
        assert len(going()) == (3 if word != "cancel" else 2)
    if word == "wait":
        order = [seconds(only([c for c in space.history(id) if kind(c) == "STARTED"]).time)
                 for id in ids if state(space.get(id)) != "SCHEDULED"]
        assert order == sorted(order)


# Reading ------------------------------------------------------------------------------------------


def test_waiters_come_in_pages_in_the_order_of_their_turns(space, limits):
    space.define(job("k"))
    ids = space.start_many("job", 251)
    page = limits.get()
    assert len(page.waiters) == 100 and page.waiting == 250
    seen = [one.instance for one in page.waiters]
    while page.next_page_token:
        page = limits.get(page_size=70, page_token=page.next_page_token)
        seen += [one.instance for one in page.waiters]
    assert seen == ids[1:]
    page = limits.get(page_size=7)
    assert len(page.waiters) == 7 and len(page.holders) == 1
    for bad in (dict(page_size=-1), dict(page_token="nonsense")):
        with refused("INVALID_ARGUMENT", "BAD_REQUEST"):
            limits.get(**bad)


def test_at_most_1000_holders_are_told(space, limits):
    space.define(job("{key: k, max: 5000}"))
    ids = space.start_many("job", 1_010)
    limit = limits.get()
    assert limit.held == 1_010 and [one.instance for one in limit.holders] == ids[:1000]


def test_lists_of_limits(space, limits):
    space.define("limit: doc\nmax: 4\n---\nlimit: mail\non: {queue: mail}\nmax: 1\n---\n"
                 + job('"env/${params.e}"'))
    start_all(space, "a", "b", params={"e": "x"})
    start_all(space, "c", params={"e": "y"})
    limits.set("by-hand", max=1)
    every = ["by-hand", "doc", "env/x", "env/y", "queue:mail"]
    assert limits.keys() == every
    assert limits.keys(prefix="env/") == ["env/x", "env/y"] and limits.keys(prefix="zz") == []
    assert limits.keys(waited_for=True) == ["env/x"]
    listed = only(limits.list(prefix="env/x").limits)
    assert (listed.held, listed.waiting, listed.max) == (1, 1, 1)
    assert not listed.holders and not listed.waiters
    page = limits.list(page_size=2)
    seen = [one.key for one in page.limits]
    while page.next_page_token:
        page = limits.list(page_size=2, page_token=page.next_page_token)
        seen += [one.key for one in page.limits]
    assert seen == every
    for bad in (dict(page_size=-1), dict(page_token="nonsense")):
        with refused("INVALID_ARGUMENT", "BAD_REQUEST"):
            limits.list(**bad)
    space.transition("c", "ok")
    limits.set("by-hand", reset=True)
    assert limits.keys() == ["doc", "env/x", "queue:mail"]


def test_a_document_is_deleted_and_defined_again(space, limits):
    space.define("limit: doc\nmax: 4\n")
    assert not only(space.define("limit: doc   # the same\nmax: 4\n").defined).changed
    limits.call("DeleteDefinition", limit="doc")
    assert limits.keys() == []
    with refused("NOT_FOUND", "NO_SUCH_LIMIT", "doc"):
        limits.call("DeleteDefinition", limit="doc")
    assert only(space.define("limit: doc\nmax: 5\n").defined).version == 2
    changes, _ = space.changes(kinds=["DELETED"])
    assert [change.cause for change in changes] == ["limit:doc"]


# What is refused ----------------------------------------------------------------------------------

ACTION = "action: x\nlimit: {}\n"
REFUSED = {
    "no key": (job("{max: 2}"), 2, "limit", ["key"]),
    "an empty key": (job('""'), 2, "limit", []),
    "an empty key in a map": (job('{key: ""}'), 2, "limit", ["key"]),
    "a key that is too long": (job("x" * 257), 2, "limit", ["256"]),
    "a key with a control character": (job(r'"a\tb"'), 2, "limit", ["printable"]),
    "a reference that leads nowhere": (job('"${nowhere.x}"'), 2, "limit", ["nowhere"]),
    "an unknown key": (job("{key: k, maximum: 2}"), 2, "limit", ["maximum", "max"]),
    "a max that is too big": (job("{key: k, max: 1000001}"), 2, "limit", ["1"]),
    "a negative max": (job("{key: k, max: -1}"), 2, "limit", ["max"]),
    "a max that is no number": (job("{key: k, max: many}"), 2, "limit", ["many"]),
    "a rate without a time": (job("{key: k, rate: 100}"), 2, "limit", ["rate"]),
    "a rate without a unit": (job("{key: k, rate: 100/1}"), 2, "limit", ["rate"]),
    "a rate of none": (job("{key: k, rate: 0/1m}"), 2, "limit", ["rate"]),
    "a rate in no time": (job("{key: k, rate: 1/0s}"), 2, "limit", ["rate"]),
    "a burst without a rate": (job("{key: k, burst: 2}"), 2, "limit", ["burst", "rate"]),
    "a burst of none": (job("{key: k, rate: 1/1m, burst: 0}"), 2, "limit", ["burst"]),
    "an unknown word": (job("{key: k, on_conflict: queue}"), 2, "limit",
                        ["queue", "wait", "latest", "skip", "fail", "cancel", "replace"]),
    "waiting with skip": (job("{key: k, on_conflict: skip, waiting: 2}"), 2, "limit",
                          ["waiting", "wait", "latest"]),
    "waiting with fail": (job("{key: k, on_conflict: fail, waiting: 2}"), 2, "limit",
                          ["waiting", "wait", "latest"]),
    "nine limits": (job("[a, b, c, d, e, f, g, h, i]"), 2, "limit", ["8"]),
    "a key twice": (job("[a, b, a]"), 2, "limit", ["a"]),
    "a number instead": (job("{key: {a: b}}"), 2, "limit", ["key"]),
    "a limit and a singleton": ("plan: p\nlimit: k\nsingleton: k\nflow: [{step: a, action: x}]\n",
                                None, "", ["limit", "singleton"]),
    "both on an action": ("action: x\nlimit: k\nsingleton: k\n", None, "",
                          ["limit", "singleton"]),
    **{f"{word} of a step": (step(f"{{key: k, on_conflict: {word}}}"), 3, "flow[0].limit",
                             [word, "wait", "skip", "fail"])
       for word in ("latest", "cancel", "replace")},
    **{f"{word} of an action": (ACTION.format(f"{{key: k, on_conflict: {word}}}"), 2, "limit",
                                [word, "wait", "skip", "fail"])
       for word in ("latest", "cancel", "replace")},
    **{f"{word} of a node": (working(f"{{key: k, on_conflict: {word}}}"), 4, "nodes.work.limit",
                             [word, "wait"])
       for word in ("latest", "skip", "fail", "cancel", "replace")},
    "a limit of a final node": ("id: m\nnodes:\n  a: {start: true, final: true, limit: k}\n", 3,
                                "nodes.a", ["limit"]),
    "a document without a number": ("limit: k\n", None, "", ["max", "rate"]),
    "a document on nothing": ("limit: k\non: {}\nmax: 1\n", 2, "on", ["queue"]),
    "a document on two": ("limit: k\non: {queue: a, action: b}\nmax: 1\n", 2, "on", []),
    "a document on what is unknown": ("limit: k\non: {host: a}\nmax: 1\n", 2, "on",
                                      ["host", "queue", "action", "machine"]),
    "a document with on_conflict": ("limit: k\nmax: 1\non_conflict: skip\n", 3, "on_conflict", []),
    "a document with a big max": ("limit: k\nmax: 1000001\n", 2, "max", []),
    "a key that it does not govern": ("limit: env\nmax: 1\nkeys: {other/prod: {max: 1}}\n", 3,
                                      "keys", ["other/prod", "env/"]),
    "a document with a bad rate": ("limit: k\nrate: 5\n", 2, "rate", []),
    "a document with a burst alone": ("limit: k\nmax: 1\nburst: 5\n", 3, "burst", ["rate"]),
    "the same document twice": ("limit: k\nmax: 1\n---\nlimit: k\nmax: 2\n", None, "", ["k"]),
    "a bad name": ("limit: 'a b'\nmax: 1\n", 1, "limit", ["a b"]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_with_a_limit_is_told_with_its_place(space, name):
    source, line, path, mentions = REFUSED[name]
    with refused("INVALID_ARGUMENT", "BAD_MACHINE") as caught:
        space.define(source, source_name="l.yaml")
    errors = [d for d in caught[0].diagnostics if d.severity == v1.Diagnostic.ERROR]
    texts = [f"{d.source_name}:{d.line}:{d.column}: {d.path}: {d.message}" for d in errors]
    fitting = [d for d in errors if (line is None or d.line == line) and d.path.startswith(path)]
    assert fitting, f"none at line {line}, {path}: {texts}"
    assert any(all(word in f"{d.path} {d.message}" for word in mentions) for d in fitting), \
        f"{mentions} not named: {texts}"


@pytest.mark.parametrize("limit", [
    "k", '"env/${params.e}-${instance.id}"', "{key: k}", "[a, {key: b, max: 3}]",
    "[a, b, c, d, e, f, g, h]", "{key: k, max: 0}", "{key: k, max: 1000000}",
    "{key: k, rate: 100/1m}", "{key: k, rate: 1/500ms, burst: 1000}",
    "{key: k, max: 3, rate: 2/1h}", "{key: k, on_conflict: latest, waiting: 3}",
    "{key: k, on_conflict: wait, waiting: 100}"])
def test_what_may_be_written(space, limit):
    space.define(job(limit))
    space.define("plan: p\nlimit: " + limit + "\nflow: [{step: a, action: x}]\n")


# dcli ---------------------------------------------------------------------------------------------


def test_dcli_lists_limits(space, limits, dcli):
    assert "no limit" in dcli("limits").stderr
    space.define("limit: doc\nmax: 4\n---\n" + job("{key: k, max: 2}"))
    start_all(space, "a", "b", "c")
    limits.set("mail", rate=schedule.Rate(count=100, per={"seconds": 60}), note="slow today")
    header, *lines = dcli.ok("limits").splitlines()
    assert header.split() == ["KEY", "MAX", "HELD", "WAITING", "RATE", "FROM", "NOTE"]
    table = {line.split()[0]: line.split()[1:] for line in lines}
    assert table["k"][:3] == ["2", "2", "1"] and "asker" in table["k"][4].lower()
    assert table["doc"][:3] == ["4", "0", "0"]
    assert table["mail"][3] == "100/1m" and lines[-1].endswith("slow today")
    assert list(table) == ["doc", "k", "mail"]
    assert dcli.ok("-o", "name", "limits").split() == ["doc", "k", "mail"]


def test_dcli_shows_who_holds_and_who_waits_with_what_each_lacks(space, limits, dcli):
    space.define(job("[k, l]") + "---\n" + job("l", "l"))
    start_all(space, "other", machine="l")
    start_all(space, "waits")
    text = dcli.ok("limits", "l")
    assert "other" in text and "waits" in text
    line = only([line for line in text.splitlines() if "waits" in line.split()])
    assert "l" in line.split(), "what it lacks"
    shown = dcli.json("limits", "l")
    assert shown["key"] == "l" and [one["instance"] for one in shown["waiters"]] == ["waits"]


def test_dcli_sets_resets_and_deletes(space, limits, dcli):
    space.define(job("k"))
    start_all(space, "a", "b", "c")
    line = dcli.ok("limits", "set", "k", "--max", "2", "--note", "a busy day")
    assert [line.split()[0] for line in line.splitlines()][-1] == "k" and "a busy day" in line
    assert begun(space, "a", "b", "c") == ["a", "b"]
    dcli.ok("limits", "set", "k", "--max", "none")
    assert begun(space, "a", "b", "c") == ["a", "b", "c"]
    dcli.ok("limits", "set", "k", "--rate", "5/2m", "--burst", "3")
    limit = limits.get()
    assert (limit.rate.count, limit.rate.per.seconds, limit.rate.burst) == (5, 120, 3)
    assert not limit.HasField("max")
    dcli.ok("limits", "set", "k", "--rate", "none")
    limit = limits.get()
    assert not limit.HasField("rate") or not limit.rate.count
    dcli.ok("limits", "reset", "k")
    assert limits.get().max_from == ASKER
    space.define("limit: doc\nmax: 4\n")
    dcli.ok("limits", "delete", "doc")
    assert "doc" not in limits.keys()
    gone = dcli("limits", "delete", "doc")
    assert gone.returncode == 1 and "doc" in gone.stderr


def test_dcli_stops_a_queue(space, limits, dcli):
    space.define(step("k"))
    ids_of(space, 2)
    dcli.ok("limits", "set", "queue:default", "--max", "0")
    assert space.ready("p") == []
    dcli.ok("limits", "reset", "queue:default")
    assert tasks_of(space) == ["i0"]


def test_dcli_starts_past_limits(space, limits, dcli):
    space.define(job("{key: k, on_conflict: skip}"))
    dcli.ok("start", "job", "--id", "a")
    left_out = dcli("start", "job", "--id", "b")
    assert left_out.returncode == 1 and "force" in left_out.stderr and "'k'" in left_out.stderr
    dcli.ok("start", "job", "--id", "b", "--on-conflict", "wait")
    dcli.ok("start", "job", "--id", "c", "--force")
    assert begun(space, "a", "b", "c") == ["a", "c"] and limits.waiters() == ["b"]
    dcli.ok("start", "job", "--id", "d", "--on-conflict", "replace")
    assert begun(space, "a", "b", "c", "d") == ["d"]
    bad = dcli("start", "job", "--on-conflict", "queue")
    assert bad.returncode != 0 and "replace" in bad.stderr


def test_dcli_shows_what_an_instance_waits_for(space, limits, dcli):
    space.define(job("the-key"))
    start_all(space, "holder", "waiter")
    text = dcli.ok("show", "waiter")
    assert "the-key" in text and "holder" in text
    assert dcli.json("show", "waiter")["waitsFor"][0]["key"] == "the-key"


@pytest.mark.parametrize("words", [
    ["set"], ["set", "k", "--max", "x"], ["set", "k", "--max", "-1"],
    ["set", "k", "--rate", "5"], ["set", "k", "--burst", "2x"], ["reset"], ["delete"],
    ["reset", "k", "--max", "2"], ["k", "--max", "1"]])
def test_what_dcli_refuses(dcli, words):
    done = dcli("limits", *words)
    assert done.returncode == 2, done.stderr + done.stdout


# More of the fine print ---------------------------------------------------------------------------


def test_who_is_to_go_on_in_its_turn_does_so_after_kill_9(new_server):
    server = new_server().start()
    space = server.space("s")
    space.define(job("k"))
    start_all(space, "a", "b", "c")
    space.pause("a")
    space.resume("a")
    assert states(space, "a", "b", "c") == ["PAUSED", "RUNNING", "SCHEDULED"]
    server.kill()
    server.start()
    assert states(space, "a", "b", "c") == ["PAUSED", "RUNNING", "SCHEDULED"]
    assert Limits(space).waiters() == ["a", "c"]
    space.transition("b", "ok")
    assert states(space, "a", "c") == ["RUNNING", "SCHEDULED"]


def test_one_that_waits_to_go_on_may_be_cancelled(space, limits):
    space.define(job("k"))
    start_all(space, "a", "b", "c")
    space.pause("a")
    space.resume("a")
    space.cancel("a")
    assert outcome(space, "a") == "STOPPED CANCELLED" and limits.waiters() == ["c"]
    space.transition("b", "ok")
    assert begun(space, "c") == ["c"]


def test_a_waiting_step_of_a_paused_instance_is_passed_and_keeps_its_place(space, limits):
    space.define(step("k"))
    ids_of(space, 4)
    task = space.take("p")
    space.pause("i1")
    assert [(one.instance, one.paused) for one in limits.get().waiters] == [
        ("i1", True), ("i2", False), ("i3", False)]
    space.report(task)
    task = space.take("p")
    assert task.instance == "i2"
    space.resume("i1")
    space.report(task)
    assert space.take("p").instance == "i1"


def test_a_step_that_waits_is_gone_with_its_instance(space, limits):
    space.define(step("k"))
    ids_of(space, 3)
    task = space.take("p")
    space.cancel("i1")
    space.ends("i1", "CANCELLED")
    assert limits.waiters() == ["i2"]
    space.report(task)
    assert space.take("p").instance == "i2"


def test_a_waiting_step_is_not_held(space, limits):
    space.define(step("k"))
    ids_of(space, 2)
    space.take("p")
    with refused("FAILED_PRECONDITION", "NOT_HELD"):
        space.skip("i1", "a")


def test_a_plan_that_comes_with_its_start_has_limits_too(space, limits):
    flow = "limit: k\nflow: [{step: a, action: x}]\n"
    for id in ("one", "two"):
        space.call("Start", v1.StartRequest(namespace=space.name, id=id, flow=flow))
    eventually(lambda: begun(space, "one"))
    assert states(space, "two") == ["SCHEDULED"]
    space.do("a")
    eventually(lambda: begun(space, "two"))


def test_starts_of_a_producer_are_refused_each_alone(space, limits):
    space.define(job("{key: k, on_conflict: skip}"))
    reply = space.call("Report", v1.ReportRequest(starts=[
        space.start_request("job", id) for id in ("a", "b", "c")]))
    kinds = [one.WhichOneof("result") if one.DESCRIPTOR.oneofs else one.HasField("error")
             for one in reply.started]
    assert kinds == [False, True, True]
    check_error(reply.started[1].error, "FAILED_PRECONDITION", "LIMIT_REACHED", "k", "a")


def test_keys_of_a_document_have_rates_of_their_own(ticking, standing):
    ticking.define("limit: mail\nrate: 60/1m\nkeys: {mail/slow: {rate: 1/1m, burst: 2}}\n---\n"
                   + job('{key: "mail/${params.to}", max: 100}'))
    for n in range(4):
        ticking.start("job", f"s{n}", params={"to": "slow"})
        ticking.start("job", f"f{n}", params={"to": "fast"})
    slow, fast = ([f"{c}{n}" for n in range(4)] for c in "sf")
    assert begun(ticking, *slow) == slow[:2] and begun(ticking, *fast) == fast[:1]
    standing.advance(by=3)
    assert begun(ticking, *slow) == slow[:2] and begun(ticking, *fast) == fast
    limit = ticking.limits.get("mail/slow")
    assert (limit.rate.count, limit.rate.burst, limit.rate_from) == (1, 2, DOCUMENT)
    assert limit.max == 100 and limit.max_from == ASKER, "both hold"


def test_latest_and_cancel_leave_alone_who_has_another_key(space, limits):
    space.define(job('{key: "env/${params.e}", on_conflict: replace}'))
    space.start("job", "a", {"e": 1})
    space.start("job", "b", {"e": 2})
    assert begun(space, "a", "b") == ["a", "b"]


def test_who_sets_a_limit_is_noted_and_may(guarded, root):  # noqa: F811
    def stub(holder):
        return schedule_grpc.ScheduleServiceStub(holder.channel)

    request = schedule.SetLimitRequest(namespace="default", key="k", max=3)
    for role in ("viewer", "worker"):
        holder = root.create(role)
        with refused("PERMISSION_DENIED", "NOT_ALLOWED"):
            stub(holder).SetLimit(request, timeout=CALL)
    operator = root.create("operator", name="ann")
    stub(operator).SetLimit(request, timeout=CALL)
    seen = stub(root.create("viewer")).GetLimit(
        schedule.GetLimitRequest(namespace="default", key="k"), timeout=CALL)
    told = root.space().changes(kinds=["LIMIT_SET"])[0][-1]
    assert seen.max == 3 and seen.set_by == told.client != ""


def test_the_same_id_again_is_the_one_that_waits(space, limits):
    space.define(job("k"))
    start_all(space, "a", "b")
    reply = space.begin("job", "b")
    assert not reply.created and state(reply.instance) == "SCHEDULED"
    assert limits.waiters() == ["b"]


def test_starts_at_the_same_moment_let_in_no_more_than_there_is_room_for(space, limits):
    space.define(job("{key: k, max: 3}"))
    together(*(lambda n=n: space.start("job", f"i{n}") for n in range(16)))
    assert limits.counts() == (3, 13)
    first = limits.holders()
    together(*(lambda id=id: space.transition(id, "ok") for id in first))
    assert limits.counts() == (3, 10)


def test_freeing_a_place_costs_no_more_for_many_that_wait(space, limits):
    space.define(job("k") + "---\n" + job("few", "few"))
    ids = space.start_many("few", 400)
    many = space.start_many("job", 10_000)

    def took(those):
        begin = time.monotonic()
        for id in those:
            space.transition(id, "ok")
        return time.monotonic() - begin

    few, lots = took(ids[:300]), took(many[:300])
    assert begun(space, many[300]) and limits.get().waiting == 10_000 - 301
    assert lots < 5 * few + 2
