"""What is counted, watched and scraped of a store of several partitions is of all of them."""
import threading

import grpc
import pytest

from stubs import cluster, schedule, v1, view
from support import CALL, eventually
from test_compat import Lines
from test_metrics import settled
from test_partitions import DOOR, PARTITIONS, parted  # noqa: F401: a fixture
from web import Door


def test_define_says_how_many_instances_of_all_partitions_it_affects(parted):  # noqa: F811
    servers = parted(2)
    spaces = [one.space("default") for one in servers]
    spaces[0].define(DOOR)
    for number in range(30):
        spaces[number % 2].start("door", f"door-{number}")
    newer = DOOR.replace("gone: {final: true}", "gone: {final: true}\n  lost: {final: true}")
    newer = newer.replace("shut: shut, ", "shut: shut, lose: lost, ")
    newer += "upgrade_strategy: upgrade\n"
    for validate_only in (True, False):
        reply = servers[1].runner.Define(
            v1.DefineRequest(source=newer, validate_only=validate_only), timeout=CALL)
        assert [one.affected_instances for one in reply.defined] == [30], reply


def test_a_schedule_says_how_many_of_its_instances_go_on_in_all_partitions(parted):  # noqa: F811
    servers = parted(2)
    space = servers[1].space("default")
    space.define(DOOR)
    space.define("schedule: open\nevery: 24h\noverlap: allow\nstart: {machine: door}\n")
    for number in range(20):
        servers[number % 2].schedules.RunSchedule(
            schedule.RunScheduleRequest(namespace="default", name="open"), timeout=CALL)
    begun = eventually(lambda: (lambda page: page if len(page) == 20 else None)(
        space.instances(machine="door", page_size=100).instances))
    assert len({one.partition for one in begun}) > 1
    for server in servers:
        shown = server.schedules.GetSchedule(
            schedule.GetScheduleRequest(namespace="default", name="open"), timeout=CALL)
        assert shown.running == 20
        listed, = server.schedules.ListSchedules(
            schedule.ListSchedulesRequest(namespace="default"), timeout=CALL).schedules
        assert listed.running == 20


def test_instances_of_all_partitions_are_found_by_what_they_follow(parted):  # noqa: F811
    servers = parted(2)
    spaces = [one.space("default") for one in servers]
    spaces[0].define(DOOR)
    spaces[0].start("door", "first")
    names = [spaces[number % 2].start("door", f"then-{number}",
                                      after=[v1.After(instance="first")])
             for number in range(20)]
    found = servers[1].runner.ListInstances(
        v1.ListInstancesRequest(filter="after:first", page_size=100), timeout=CALL)
    assert sorted(one.id for one in found.instances) == sorted(names)


def test_what_is_of_all_partitions_is_watched(parted):  # noqa: F811
    servers = parted(2)
    spaces = [one.space("default") for one in servers]
    spaces[0].define(DOOR)
    topics = [view.WatchRequest.Topic(key="all", overview=view.GetOverviewRequest()),
              view.WatchRequest.Topic(key="door", machine=v1.GetMachineRequest(id="door")),
              view.WatchRequest.Topic(key="one", instance=v1.GetInstanceRequest(id="door-3")),
              view.WatchRequest.Topic(key="feed", changes=v1.ChangesRequest())]
    spaces[0].start("door", "door-3")
    call = servers[1].views.Watch(view.WatchRequest(topics=topics), timeout=30)
    seen = {}
    started = set()

    def read():
        for message in call:
            if message.key:
                seen[message.key] = message
            if message.key == "feed":
                started.update(one.instance for one in message.news.changes)

    reader = threading.Thread(target=lambda: pytest.raises(grpc.RpcError, read))
    reader.start()
    eventually(lambda: set(seen) == {"all", "door", "one", "feed"})
    names = {spaces[number % 2].start("door", f"new-{number}") for number in range(20)}
    spaces[0].transition("door-3", "open")
    eventually(lambda: names <= started)
    eventually(lambda: seen["door"].machine.stats.running == 21)
    eventually(lambda: seen["one"].instance.nodes[0] == "ajar"
               if seen["one"].instance.nodes else seen["one"].changes)
    call.cancel()
    reader.join()


def test_the_original_service_tells_of_all_partitions(parted):  # noqa: F811
    servers = parted(2)
    space = servers[0].space("default")
    space.define(DOOR)
    lines = Lines(servers[1].original)
    probe = iter(range(1_000))
    eventually(lambda: space.start("door", f"probe-{next(probe)}") and lines.commands, 10.0)
    names = [space.start("door", f"door-{number}") for number in range(30)]
    assert {space.get(name).partition for name in names} == set(range(PARTITIONS))
    told = [f'id:"{name}"' for name in names]
    eventually(lambda: all(any(one in line for line in lines.commands) for one in told))
    lines.call.cancel()


def test_a_scrape_of_a_server_is_of_all_that_it_serves(parted):  # noqa: F811
    servers = parted(2, "--http", "localhost:0")
    space = servers[0].space("default")
    space.define(DOOR)
    for number in range(40):
        space.start("door", f"door-{number}")
    doors = [Door(one) for one in servers]

    def running():
        return sum(settled(door, lambda _: True).sum("dfsmr_instances", state="running",
                                                     machine="door") for door in doors)

    eventually(lambda: running() == 40, 10.0)
    for door in doors:
        shown = settled(door, lambda _: True)
        assert shown.sum("dfsmr_instances", machine="door", state="running") > 0
        assert shown.get("dfsmr_partitions", state="serving") == PARTITIONS / 2
        assert len(shown.all("dfsmr_build_info")) == 1
        assert shown.sum("dfsmr_build_info") == 1


def test_the_cluster_tells_what_waits_for_other_partitions(parted):  # noqa: F811
    servers = parted(1)
    reply = servers[0].clusters.GetCluster(cluster.GetClusterRequest(with_counts=True),
                                           timeout=CALL)
    assert [one.outbox for one in reply.partitions] == [0] * PARTITIONS
