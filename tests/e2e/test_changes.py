"""Changes: the feed, its cursors, and its readers."""
import itertools
import threading

import grpc
import pytest

from stubs import v1
from support import (HASTY, JOB, LOOP, PAIR, SOON, Refusal, check_refusal, eventually, from_json,
                     kind, now, refused, retention_flags, seconds, together)


def drive(space, machine="loop", turns=5, **more):
    """An instance that goes through `turns` transitions and stops."""
    id = space.start(machine, **more)
    for _ in range(turns - 1):
        space.transition(id, "again")
    space.transition(id, "ok")
    return id


def position(change):
    return change.partition, change.seq


# Cursors --------------------------------------------------------------------------------------


def test_from_0_a_reader_sees_everything_from_the_beginning(space):
    space.define(LOOP)
    drive(space, turns=2)
    changes, _ = space.changes("0")
    assert [kind(c) for c in changes if kind(c) != "CLAIMED"] == [
        "DEFINED", "STARTED", "TRANSITIONED", "TRANSITIONED", "FINISHED"]


def test_without_a_cursor_a_reader_sees_what_comes_from_now_on(space):
    space.define(JOB)
    space.start("job", id="before")
    with space.watch(after="") as watch:
        watch.opened()
        assert watch.cursor and not watch.changes
        space.start("job", id="after")
        assert watch.until(lambda c: True).instance == "after"


def test_a_reader_goes_on_at_its_cursor_without_a_gap_or_a_repetition(space):
    space.define(LOOP)
    ids = [drive(space) for _ in range(5)]
    whole, end = space.changes("0")
    assert len(whole) == 1 + 7 * len(ids)
    drive(space)
    rest, _ = space.changes(end)
    again, _ = space.changes("0")
    assert [position(c) for c in whole + rest] == [position(c) for c in again]


def test_every_message_carries_a_cursor_to_go_on_from(space):
    space.define(LOOP)
    for _ in range(30):
        drive(space)
    whole = [position(c) for c in space.changes("0")[0]]
    seen = 0
    for reply in space.runner.Changes(space.changes_request("0"), timeout=30):
        seen += len(reply.changes)
        assert [position(c) for c in space.changes(reply.cursor)[0]] == whole[seen:]
    assert seen == len(whole)


def test_a_cursor_read_after_a_reply_covers_what_the_reply_told(space):
    space.define(JOB)
    for _ in range(20):
        id = space.start("job")
        changes, cursor = space.changes("0", instance=id)
        assert [kind(c) for c in changes] == ["STARTED"]
        assert space.changes(cursor)[0] == []


def test_a_reader_that_does_not_follow_ends_at_the_present(space):
    space.define(JOB)
    assert [kind(c) for c in space.changes("0")[0]] == ["DEFINED"]
    changes, cursor = space.changes("")
    assert changes == [] and cursor


def test_a_cursor_of_the_future_is_out_of_range(space, new_server):
    longer = new_server().start().space("")
    longer.define(JOB)
    longer.start_many("job", 3000)
    _, ahead = longer.changes("0")
    fresh = new_server().start().space("")
    fresh.define(JOB)
    with refused("OUT_OF_RANGE"):
        fresh.changes(ahead)


@pytest.mark.parametrize("cursor", ["x", "-1", "0 ", "!!", "a" * 5000])
def test_a_malformed_cursor_is_refused(space, cursor):
    with refused("INVALID_ARGUMENT", ("BAD_REQUEST", "TOO_LARGE")):
        space.changes(cursor)


# Filters --------------------------------------------------------------------------------------


@pytest.mark.parametrize("filters, expected", [
    ({"machine": "job"}, {("DEFINED", "job", ""), ("STARTED", "job", "j")}),
    ({"instance": "p"}, {("STARTED", "pair", "p"), ("TRANSITIONED", "pair", "p")}),
    ({"kinds": ["STARTED"]}, {("STARTED", "job", "j"), ("STARTED", "pair", "p")}),
    ({"kinds": ["STARTED", "DEFINED"], "machine": "pair"},
     {("DEFINED", "pair", ""), ("STARTED", "pair", "p")}),
    ({"kinds": ["FINISHED"]}, set()),
    ({"machine": "job", "instance": "p"}, set()),
    ({"machine": "nowhere"}, set()),
])
def test_all_filters_that_are_set_must_match(space, filters, expected):
    space.define(JOB + "---\n" + PAIR)
    space.start("job", id="j")
    space.start("pair", id="p")
    space.transition("p", "ok")
    changes, _ = space.changes("0", **filters)
    assert {(kind(c), c.machine, c.instance) for c in changes} == expected


def test_a_reader_of_a_namespace_sees_its_own_changes_in_order_and_none_missing(server, space):
    others = [server.space(f"{space.name}-{i}") for i in range(3)]
    everyone = [space, *others]
    for where in everyone:
        where.define(LOOP)
    watches = [where.watch() for where in everyone]
    outcomes = together(*[lambda w=where: [drive(w) for _ in range(20)] for where in everyone])
    for where, watch, ids in zip(everyone, watches, outcomes):
        with watch:
            watch.until_count(1 + 20 * 7)
            assert {c.namespace for c in watch.changes} == {where.name}
            assert [c.instance for c in watch.changes if kind(c) == "STARTED"] == ids
            seqs = [c.seq for c in watch.changes]
            assert seqs == sorted(set(seqs))


def test_an_unknown_kind_is_refused(space):
    request = v1.ChangesRequest(namespace=space.name, after="0", kinds=[99])
    with refused("INVALID_ARGUMENT", "BAD_REQUEST"):
        list(space.runner.Changes(request, timeout=SOON))


# What a change says ---------------------------------------------------------------------------


def test_a_change_says_what_happened_when_to_whom_and_by_whom(space):
    space.define(PAIR)
    began = now()
    id = space.start("pair", params={"a": 1})
    space.report(space.take("pair", worker="w"), node_params='{"b":  2}', client="w")
    with space.watch(instance=id) as watch:
        claimed = watch.until(lambda c: kind(c) == "CLAIMED")
        moved = watch.until(lambda c: kind(c) == "TRANSITIONED")
        started = watch.until(lambda c: kind(c) == "STARTED")
    for change in (started, claimed, moved):
        assert (change.namespace, change.machine, change.version, change.instance) == (
            space.name, "pair", 1, id)
        assert abs(seconds(change.time) - began) < SOON
    assert from_json(started.params) == {"a": 1}
    assert (claimed.node, claimed.visit, claimed.attempt, claimed.client) == ("first", 1, 1, "w")
    assert (moved.prev_node, moved.transition, moved.node, moved.visit) == (
        "first", "ok", "second", 2)
    assert (moved.params, moved.client) == ('{"b":  2}', "w")


def test_the_feed_and_the_history_of_an_instance_are_the_same(space):
    space.define(HASTY)
    id = space.start("hasty")
    space.take("hasty")
    again = space.take("hasty")
    space.relinquish(id, again.claim)
    space.pause(id)
    space.resume(id)
    space.report(space.take("hasty"))
    eventually(lambda: [kind(c) for c in space.history(id)].count("CLAIMED") == 3)
    history = space.history(id)
    assert history == space.changes("0", instance=id)[0]
    kinds = [kind(c) for c in history]
    assert [k for k in kinds if k != "CLAIMED"] == [
        "STARTED", "TIMED_OUT", "RELINQUISHED", "PAUSED", "RESUMED", "TRANSITIONED", "FINISHED"]


def test_a_claim_is_in_the_feed_within_a_second(space):
    space.define(JOB)
    space.start("job")
    with space.watch(kinds=["CLAIMED"]) as watch:
        watch.opened()
        space.take("job")
        watch.until(lambda c: True, within=1.5)


def test_refused_calls_are_not_in_the_feed(space):
    space.define(JOB)
    id = space.start("job")
    before = space.changes("0")[0]
    with refused("FAILED_PRECONDITION", "ILLEGAL_TRANSITION"):
        space.transition(id, "sideways")
    with refused("ALREADY_EXISTS", "INSTANCE_EXISTS"):
        space.start("job", id=id, params={"other": 1})
    assert space.changes("0")[0] == before


# Readers --------------------------------------------------------------------------------------


def test_the_first_message_comes_at_once_with_a_cursor(space):
    for after in ("", "0"):
        began = now()
        with space.watch(after=after, machine="nowhere") as watch:
            watch.opened()
            assert watch.cursor and now() - began < 2


def test_a_message_comes_every_5_seconds_even_when_nothing_matches(space):
    space.define(JOB)
    with space.watch(after="", machine="nowhere") as watch:
        watch.opened()
        first = watch.replies
        assert watch.wait(lambda: watch.replies > first, 6), "no sign of life"
        assert watch.cursor and not watch.changes


def test_the_cursor_of_a_reader_that_matches_nothing_moves_on(space):
    space.define(LOOP)
    with space.watch(after="", machine="nowhere") as watch:
        watch.opened()
        for _ in range(50):
            drive(space)
        _, end = space.changes("")
        first = watch.replies
        assert watch.wait(lambda: watch.replies > first, 6)
        assert space.changes(watch.cursor)[0] == [] or watch.cursor == end


def test_a_change_reaches_a_reader_at_once(space):
    space.define(JOB)
    with space.watch(after="") as watch:
        watch.opened()
        for _ in range(10):
            began = now()
            id = space.start("job")
            watch.until(lambda c: c.instance == id)
            assert now() - began < 1


def test_all_readers_see_the_same_in_the_same_order(space):
    space.define(LOOP)
    watches = [space.watch() for _ in range(6)]
    together(*[lambda: [drive(space) for _ in range(10)]] * 4)
    late = space.watch()
    expected = 1 + 40 * 7
    for watch in [*watches, late]:
        watch.until_count(expected)
    first = [position(c) for c in watches[0].changes]
    for watch in [*watches, late]:
        assert [position(c) for c in watch.changes] == first
        watch.cancel()


def test_what_concerns_one_instance_comes_in_order(space):
    space.define(LOOP)
    with space.watch() as watch:
        outcomes = together(*[lambda: [drive(space, turns=8) for _ in range(5)]] * 4)
        watch.until_count(1 + 20 * 10)
        changes = list(watch.changes)
    for id in itertools.chain(*outcomes):
        own = [c for c in changes if c.instance == id]
        assert [kind(c) for c in own] == ["STARTED"] + ["TRANSITIONED"] * 8 + ["FINISHED"]
        assert [c.visit for c in own if kind(c) == "TRANSITIONED"][:7] == list(range(2, 9))


def test_a_reader_that_does_not_read_slows_nobody_and_misses_nothing(space):
    space.define(JOB)
    call = space.runner.Changes(space.changes_request("0", follow=True), timeout=60)
    params = '{"a":"' + "x" * 4000 + '"}'
    began = now()
    ids = []
    for _ in range(5):
        ids += space.start_many("job", 1000, params=params)
    assert now() - began < 20
    with space.watch(after="") as watch:
        watch.opened()
        id = space.start("job")
        watch.until(lambda c: c.instance == id)
    seen = []
    for reply in call:
        seen += [c.instance for c in reply.changes if kind(c) == "STARTED"]
        if seen and seen[-1] == id:
            break
    call.cancel()
    assert seen == [*ids, id]


def test_a_reader_that_went_away_does_no_harm(space):
    space.define(LOOP)
    for _ in range(30):
        space.watch().cancel()
    stop = threading.Event()
    thread = threading.Thread(target=lambda: [drive(space) for _ in iter(stop.is_set, True)])
    thread.start()
    for _ in range(30):
        space.watch().opened().cancel()
    stop.set()
    thread.join(SOON)
    id = drive(space)
    assert space.await_change("FINISHED", instance=id)


def test_large_changes_come_in_messages_that_a_client_can_receive(space):
    space.define(JOB)
    params = '{"a":"' + "x" * 900_000 + '"}'
    ids = [space.start("job", params=params) for _ in range(8)]
    changes, _ = space.changes("0", kinds=["STARTED"])
    assert [c.instance for c in changes] == ids


def test_sequence_numbers_run_from_1_without_gaps(new_server):
    space = new_server().start().space("")
    space.define(LOOP)
    together(*[lambda: [drive(space) for _ in range(10)]] * 3)
    changes, _ = space.changes("0")
    assert [c.seq for c in changes] == list(range(1, len(changes) + 1))
    assert len({c.partition for c in changes}) == 1


def test_a_cursor_older_than_the_feed_has_expired(new_server):
    space = new_server(*retention_flags("1s")).start().space("")
    space.define(JOB)
    old = space.cursor()
    for _ in range(10):
        space.transition(space.start("job"), "ok")

    def refusal():
        try:
            space.changes(old)
        except grpc.RpcError as error:
            return Refusal(error)
        space.transition(space.start("job"), "ok")
        return None

    check_refusal(eventually(refusal, within=30), "OUT_OF_RANGE", "CURSOR_EXPIRED")
    changes, _ = space.changes("0")
    assert changes and changes[0].seq > 1
