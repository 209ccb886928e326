"""Namespaces that are exported from, and imported into, a store of several partitions."""
import threading

import grpc

from stubs import package, v1
from support import CALL, eventually, state
from test_export import Ports
from test_partitions import DOOR, PARTITIONS, parted  # noqa: F401: a fixture

PLAN = """
plan: chain
flow:
  - {step: one, action: look}
  - {step: two, action: look}
"""


def fill(ports, count):
    """Doors and plans in all partitions; the last ones begin after the first ones."""
    space = ports.space
    space.define(DOOR)
    space.define(PLAN)
    names = []
    for number in range(count):
        names.append(space.start("door", f"door-{number}"))
        names.append(space.start("chain", f"chain-{number}"))
    for number in range(count):
        names.append(space.start("door", f"then-{number}",
                                 after=[v1.After(instance=f"door-{(number + 1) % count}")]))
    return names


def freeze(ports):
    ports.stub.FreezeNamespace(package.FreezeNamespaceRequest(name=ports.name), timeout=CALL)


def listed(ports):
    reply = ports.space.server.runner.ListInstances(
        v1.ListInstancesRequest(namespace=ports.name, page_size=1_000), timeout=CALL)
    return {one.id: one for one in reply.instances}


def test_all_partitions_are_exported_and_each_takes_what_lives_there(parted):  # noqa: F811
    servers = parted(2)
    there = Ports(servers[0], "acme")
    names = fill(there, 40)
    places = {name: there.space.get(name).partition for name in names}
    assert set(places.values()) == set(range(PARTITIONS))
    freeze(there)
    files = there.export(instances=True)
    # In order of ids, whatever partition they are in.
    rows = b"".join(data for path, data in files.items() if path.startswith("instances/"))
    assert all(name.encode() in rows for name in names)
    here = Ports(servers[1], "other")
    done = here.bring(files)
    assert (done.instances, done.already_there) == (len(names), 0)
    # The same again brings nothing.
    again = here.bring(files)
    assert (again.instances, again.already_there) == (0, len(names) + 2)
    copies = listed(here)
    assert sorted(copies) == sorted(names)
    assert {one.partition for one in copies.values()} == set(range(PARTITIONS))
    for name in names:
        assert state(copies[name]) == ("SCHEDULED" if name.startswith("then-") else "RUNNING")
    # They go on: a plan by its graph, and one that begins after another of any partition.
    for number in range(40):
        task = eventually(lambda: here.space.take("chain"))
        here.space.report(task, "ok")
    for number in range(40):
        here.space.transition(f"door-{number}", "open")
        here.space.transition(f"door-{number}", "away")
    for number in range(40):
        eventually(lambda: state(here.space.get(f"then-{number}")) == "RUNNING", 10.0)


def test_an_import_is_repeated_when_a_server_is_lost(parted):  # noqa: F811
    servers = parted(3)
    there = Ports(servers[0], "acme")
    names = fill(there, 60)
    freeze(there)
    files = there.export(instances=True)
    ports = [Ports(one, "copy") for one in servers]
    victim = servers[2]
    killer = threading.Timer(0.05, victim.kill)
    killer.start()
    brought = 0

    def bring():
        nonlocal brought
        try:
            done = ports[0].bring(files)
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNAVAILABLE, error
            return False
        brought = done.instances + done.already_there
        return True

    eventually(bring, 60.0)
    killer.join()
    assert brought >= len(names)
    eventually(lambda: sorted(listed(ports[0])) == sorted(names), 30.0)
    for name in names:
        kinds = [one.kind for one in ports[0].space.history(name)]
        assert kinds.count(v1.Change.IMPORTED) == 1, name
