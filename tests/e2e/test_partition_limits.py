"""Limits whose holders live in several partitions."""
import concurrent.futures
import time

import grpc
import pytest

from cluster_servers import persist
from stubs import schedule, v1
from support import CALL, Refusal, eventually, result, state
from test_metrics import scrape
from test_partitions import DOOR, parted, shares  # noqa: F401: a fixture
from web import Door

MESSAGE = 20.0  # seconds within which one has come, whoever has to be replaced meanwhile
LIMITED = """
id: limited
limit: {key: places, max: 3, on_conflict: %s}
nodes:
  work: {start: true, transitions: {ok: done}}
  done: {final: true}
"""


def running(space, names):
    return [name for name in names if state(space.get(name)) == "RUNNING"]


def test_only_so_many_run_over_all_partitions_and_each_has_its_turn(parted):  # noqa: F811
    servers = parted(2)
    spaces = [one.space("default") for one in servers]
    spaces[0].define(LIMITED % "wait")
    names = [f"one-{number}" for number in range(24)]
    for number, name in enumerate(names):
        spaces[number % 2].start("limited", name)
    eventually(lambda: len(running(spaces[0], names)) == 3)
    left = set(names)
    slowest = 0.0
    while left:
        begin = time.monotonic()
        now = eventually(lambda: (found := running(spaces[1], left)) and
                         len(found) == min(3, len(left)) and found)
        slowest = max(slowest, time.monotonic() - begin)
        assert len(now) <= 3
        spaces[0].transition(now[0], "ok")
        left.remove(now[0])
    print(f"the slowest next one came after {slowest:.3f} s")
    held = servers[1].schedules.GetLimit(
        schedule.GetLimitRequest(namespace="default", key="places"), timeout=CALL)
    assert not held.holders


def start_all(spaces, names):
    """Starts them all at once; returns those that were made, and how the others were refused."""
    def start(number):
        try:
            return spaces[number % len(spaces)].start("limited", names[number]), None
        except grpc.RpcError as error:
            return None, Refusal(error)
    with concurrent.futures.ThreadPoolExecutor(len(names)) as pool:
        all_of_them = list(pool.map(start, range(len(names))))
    return ([name for name, _ in all_of_them if name],
            [refusal for _, refusal in all_of_them if refusal])


def test_one_without_room_fails(parted):  # noqa: F811
    servers = parted(2)
    space = servers[0].space("default")
    space.define(LIMITED % "fail")
    names = [space.start("limited", f"one-{number}") for number in range(12)]
    eventually(lambda: all(state(space.get(name)) in ("RUNNING", "STOPPED") for name in names))
    assert len(running(space, names)) == 3
    for name in names:
        instance = space.get(name)
        if state(instance) == "STOPPED":
            assert result(instance) == "ERROR" and "places" in instance.error


@pytest.mark.parametrize("words, made", [("skip", 3), ("wait, waiting: 2", 5)])
def test_one_that_is_left_out_is_refused_and_leaves_no_trace(parted, words, made):  # noqa: F811
    servers = parted(2)
    spaces = [one.space("default") for one in servers]
    spaces[0].define(LIMITED % words)
    names = [f"one-{number}" for number in range(24)]
    created, refusals = start_all(spaces, names)
    assert len(created) == made and len(refusals) == 24 - made
    for refusal in refusals:
        assert refusal.code == "FAILED_PRECONDITION" and refusal.reason == "LIMIT_REACHED"
        assert "'places'" in refusal.message and "--force" in refusal.message
    assert len(spaces[1].instances(machine="limited").instances) == made
    eventually(lambda: len(running(spaces[0], created)) == 3)

    batch = spaces[1].call("StartBatch", v1.StartBatchRequest(
        starts=[spaces[1].start_request("limited") for _ in range(10)]), timeout=30)
    assert {item.error.reason for item in batch.results} == {"LIMIT_REACHED"}
    left = set(created)
    while left:  # and those that were made have their turn
        for name in eventually(lambda: running(spaces[0], left)):
            spaces[0].transition(name, "ok")
            left.remove(name)

    def several():
        found = spaces[1].call("StartBatch", v1.StartBatchRequest(
            starts=[spaces[1].start_request("limited") for _ in range(10)]), timeout=30)
        return [item.started.instance.id for item in found.results if item.HasField("started")]
    begun = []

    def all_places():  # home hears a moment later that they are free
        begun.extend(several())
        return len(begun) == made
    eventually(all_places)
    eventually(lambda: len(running(spaces[0], begun)) == 3)
    assert all(result(spaces[0].get(name)) == "PENDING" for name in begun)


def test_whoever_waits_says_for_whom_wherever_it_lives(parted):  # noqa: F811
    servers = parted(2)
    spaces = [one.space("default") for one in servers]
    spaces[0].define(LIMITED % "wait")
    names = [spaces[0].start("limited", f"one-{number}") for number in range(12)]
    eventually(lambda: len(running(spaces[0], names)) == 3)
    held = set(running(spaces[0], names))

    def waits(instances):
        return [wait for one in instances for wait in one.waits_for]
    for look in (lambda: [spaces[1].get(name) for name in names],
                 lambda: spaces[1].instances(machine="limited").instances):
        told = eventually(lambda: len(found := waits(look())) == 9 and found)
        assert all(wait.key == "places" and wait.max == 3 and wait.held == 3 for wait in told)
        assert all(set(wait.holders) == held for wait in told)
        assert sorted(wait.ahead for wait in told) == list(range(9))


def test_the_latest_replace_those_before_them(parted):  # noqa: F811
    servers = parted(2)
    space = servers[0].space("default")
    space.define(LIMITED % "replace")
    names = [space.start("limited", f"one-{number}") for number in range(12)]
    eventually(lambda: all(state(space.get(name)) in ("RUNNING", "STOPPED") for name in names))
    eventually(lambda: len(running(space, names)) == 3)


def test_an_operators_number_counts_everywhere_and_is_told_once(parted):  # noqa: F811
    servers = parted(2, "--http", "localhost:0")
    space = servers[0].space("default")
    space.define(LIMITED % "wait")
    names = [space.start("limited", f"one-{number}") for number in range(12)]
    eventually(lambda: len(running(space, names)) == 3)
    servers[1].schedules.SetLimit(
        schedule.SetLimitRequest(namespace="default", key="places", max=12), timeout=CALL)
    eventually(lambda: len(running(space, names)) == 12)

    servers[0].schedules.SetLimit(
        schedule.SetLimitRequest(namespace="default", key="machine:limited", max=20), timeout=CALL)

    def held(key):
        return sum(scrape(Door(one)).sum("dfsmr_limit_held", limit=key) for one in servers)
    for key in ("places", "machine:limited"):
        eventually(lambda: held(key) == 12, 10)


def test_places_are_neither_lost_nor_given_twice_when_servers_are_lost(parted, sharers):  # noqa: F811
    servers = parted(3)
    space = servers[0].space("default")
    space.define(LIMITED % "wait")
    names = [f"one-{number}" for number in range(30)]
    left = set(names)
    for name in names:
        persist(lambda: space.start("limited", name), MESSAGE)

    def some():
        found = []
        persist(lambda: found.append(running(space, left)), MESSAGE)
        assert len(found[-1]) <= 3
        return found[-1]

    ended = 0
    while left:
        for name in eventually(some, MESSAGE):
            try:
                persist(lambda: space.transition(name, "ok"), MESSAGE)
            except AssertionError as error:  # it was done, and its answer was lost
                assert "FAILED_PRECONDITION" in str(error), error
            left.remove(name)
            ended += 1
            if ended == 9:
                servers[2].kill()
            if ended == 18:
                servers.append(sharers())
                eventually(lambda: len(shares([servers[0], servers[1], servers[3]])) == 3, MESSAGE)
                servers[1].kill()
    for name in names:
        assert result(space.get(name)) == "SUCCESS"


def test_what_a_schedule_skips_begins_in_no_partition(parted):  # noqa: F811
    servers = parted(2)
    space = servers[0].space("default")
    space.define(DOOR)
    space.define("schedule: open\nevery: 24h\noverlap: skip\nstart: {machine: door}\n")

    def run(server):
        return server.schedules.RunSchedule(
            schedule.RunScheduleRequest(namespace="default", name="open"), timeout=CALL)

    first = run(servers[0]).instance
    eventually(lambda: [one.id for one in space.instances(machine="door").instances] == [first])
    eventually(lambda: state(space.get(first)) == "RUNNING")
    for number in range(16):  # whose ids are of all partitions
        with pytest.raises(grpc.RpcError) as refused:
            run(servers[number % 2])
        assert Refusal(refused.value).reason == "LIMIT_REACHED"
        assert first in refused.value.details()
    assert [one.id for one in space.instances(machine="door").instances] == [first]
    space.transition(first, "open")
    space.transition(first, "away")
    eventually(lambda: goes(run, servers[1]))


def goes(run, server):
    """Whether it is let in: home hears a moment later that a place is free."""
    try:
        return run(server).instance
    except grpc.RpcError as error:
        assert Refusal(error).reason == "LIMIT_REACHED", error
        return False


def test_who_holds_a_built_in_key_is_told_of_all_partitions(parted):  # noqa: F811
    servers = parted(2)
    space = servers[0].space("default")
    space.define(DOOR)
    names = [space.start("door", f"one-{number}") for number in range(12)]

    def limit(key):
        return servers[1].schedules.GetLimit(
            schedule.GetLimitRequest(namespace="default", key=key), timeout=CALL)
    servers[0].schedules.SetLimit(
        schedule.SetLimitRequest(namespace="default", key="machine:door", max=12), timeout=CALL)
    eventually(lambda: limit("machine:door").held == 12)
    eventually(lambda: sorted(one.instance for one in limit("machine:door").holders)
               == sorted(names))
    space.start("door", "late")
    eventually(lambda: [one.instance for one in limit("machine:door").waiters] == ["late"])


def test_a_number_that_is_set_later_holds_for_those_that_wait(parted):  # noqa: F811
    servers = parted(2)
    space = servers[0].space("default")
    space.define(LIMITED % "wait")
    names = [space.start("limited", f"one-{number}") for number in range(12)]
    eventually(lambda: len(running(space, names)) == 3)
    for key, most in (("machine:limited", 4), ("places", 12)):
        servers[1].schedules.SetLimit(
            schedule.SetLimitRequest(namespace="default", key=key, max=most), timeout=CALL)
    eventually(lambda: len(running(space, names)) == 4)
    for _ in range(8):
        one = eventually(lambda: (now := running(space, names)) and len(now) <= 4 and now)[0]
        space.transition(one, "ok")
        names.remove(one)
        assert len(running(space, names)) <= 4


def test_a_schedule_that_replaces_ends_also_what_might_overlap(parted):  # noqa: F811
    servers = parted(2)
    space = servers[0].space("default")
    space.define(DOOR)
    text = "schedule: open\nevery: 24h\noverlap: %s\nstart: {machine: door}\n"
    space.define(text % "allow")

    def run():
        return servers[1].schedules.RunSchedule(
            schedule.RunScheduleRequest(namespace="default", name="open"), timeout=CALL).instance
    before = [run() for _ in range(8)]
    eventually(lambda: len(running(space, before)) == 8)
    space.define(text % "replace")
    last = run()
    eventually(lambda: all(state(space.get(name)) == "STOPPED" for name in before))
    eventually(lambda: state(space.get(last)) == "RUNNING")
