"""Calls that reach all partitions of a store, through whichever of its servers."""
import itertools

import grpc
import pytest

from stubs import admin, admin_grpc, package, package_grpc, v1, view
from support import CALL, Refusal, eventually
from test_partitions import DOOR, PARTITIONS, move, parted  # noqa: F401: a fixture

SLOW_SEARCH = 20.0


def page_by_page(servers, **query):
    """All instances of a list, of which each page is asked of another server."""
    token = ""
    for pages in itertools.count():
        assert pages < 1000
        page = servers[pages % len(servers)].runner.ListInstances(
            v1.ListInstancesRequest(namespace="default", page_token=token, **query),
            timeout=CALL)
        assert len(page.instances) <= query["page_size"]
        yield from page.instances
        token = page.next_page_token
        if not token:
            return


def count(server, **query):
    """The reply to a count that has come to its end."""
    token = ""
    while True:
        reply = server.views.CountInstances(
            view.CountInstancesRequest(namespace="default", page_token=token, **query),
            timeout=SLOW_SEARCH)
        token = reply.next_page_token
        if not token:
            return reply


def test_a_list_by_id_is_one_list_at_any_server(parted):  # noqa: F811
    servers = parted(2)
    space = servers[0].space("default")
    space.define(DOOR)
    names = [f"door-{number}" for number in range(100)]
    for name in names:
        space.start("door", name)
    for size in (1, 7, 100):
        listed = list(page_by_page(servers, page_size=size))
        assert [one.id for one in listed] == sorted(names)
    assert {one.partition for one in listed} == set(range(PARTITIONS))
    # A token is what it is on one server: the last id, behind the hash of what is asked for.
    page = servers[0].runner.ListInstances(
        v1.ListInstancesRequest(namespace="default", page_size=7), timeout=CALL)
    assert bytes.fromhex(page.next_page_token[16:]).decode() == page.instances[-1].id
    # One list each for a search, a parent, and a mistake.
    found = list(page_by_page(servers, page_size=3, filter="id:door-1*"))
    assert [one.id for one in found] == sorted(one for one in names if one.startswith("door-1"))
    assert not list(page_by_page(servers, page_size=3, parent="door-7"))
    for mistake in ({"filter": "nonsense:x"}, {"page_size": -1}, {"page_token": "00"},
                    {"order_by": "colour"}):
        with pytest.raises(grpc.RpcError) as refused:
            servers[1].runner.ListInstances(
                v1.ListInstancesRequest(namespace="default", **mistake), timeout=CALL)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_a_list_in_order_of_time_is_one_list_at_any_server(parted):  # noqa: F811
    servers = parted(2)
    space = servers[0].space("default")
    space.define(DOOR)
    names = [f"door-{number}" for number in range(60)]
    for name in names:
        space.start("door", name)
    changed = [f"door-{number}" for number in range(0, 60, 7)]
    for name in changed:
        move(servers[1], name, "open")
    order = [one for one in names if one not in changed] + changed
    for size in (1, 7, 100):
        listed = [one.id for one in page_by_page(servers, page_size=size, order_by="changed")]
        assert listed == order
        listed = [one.id for one in page_by_page(servers, page_size=size, order_by="-changed")]
        assert listed == order[::-1]
        listed = [one.id for one in page_by_page(servers, page_size=size, order_by="started")]
        assert listed == names
    latest = servers[1].runner.ListInstances(
        v1.ListInstancesRequest(namespace="default", page_size=1, order_by="-changed"),
        timeout=CALL)
    assert latest.back_to == latest.instances[0].change_time


def test_counts_are_of_all_partitions(parted):  # noqa: F811
    servers = parted(2)
    space = servers[0].space("default")
    space.define(DOOR)
    for number in range(50):
        space.start("door", f"door-{number}", labels={"half": str(number % 2)})
    for number in range(10):
        move(servers[1], f"door-{number}", "open")
    move(servers[1], "door-0", "away")
    for server in servers:
        counted = count(server, by=view.CountInstancesRequest.STATE)
        assert counted.total == 50
        assert dict(counted.groups) == {"RUNNING": 49, "STOPPED": 1}
        assert counted.looked_at == 0
        searched = count(server, filter="label.half:1")
        assert searched.total == 25
        assert searched.looked_at >= 25
        machine = server.runner.GetMachine(
            v1.GetMachineRequest(namespace="default", id="door"), timeout=CALL)
        assert machine.stats.running == 49
        assert machine.stats.stopped == 1
        assert not machine.stats.loading
        ready = {node.id: node.stats.ready for node in machine.nodes}
        assert ready["shut"] == 40
        assert ready["ajar"] == 9
        machines = server.runner.ListMachines(
            v1.ListMachinesRequest(namespace="default"), timeout=CALL).machines
        assert [(one.id, one.stats.running) for one in machines] == [("door", 49)]
        overview = server.views.GetOverview(
            view.GetOverviewRequest(namespace="default"), timeout=CALL)
        assert overview.now.running == 49
        assert overview.now.ready == 49
        assert sum(minute.started for minute in overview.minutes) == 50
        assert [one.started_hour for one in overview.machines] == [50]
        assert not overview.missing
        queues = server.views.ListQueues(
            view.ListQueuesRequest(namespace="default", page_size=1), timeout=CALL)
        assert [(one.node, one.ready) for one in queues.queues] == [("ajar", 9)]
        queues = server.views.ListQueues(
            view.ListQueuesRequest(namespace="default", page_size=1,
                                   page_token=queues.next_page_token), timeout=CALL)
        assert [(one.node, one.ready) for one in queues.queues] == [("shut", 40)]
        assert not queues.next_page_token
        usage = package_grpc.NamespaceServiceStub(server.channel).GetNamespace(
            package.GetNamespaceRequest(name="default"), timeout=CALL).usage
        assert usage.live_instances == 49
        assert usage.definitions == 1


def test_a_list_is_whole_or_fails_when_a_server_is_killed(parted):  # noqa: F811
    servers = parted(2)
    space = servers[0].space("default")
    space.define(DOOR)
    names = [f"door-{number}" for number in range(40)]
    for name in names:
        space.start("door", name)
    servers[1].kill()
    refused = set()

    def listed():
        try:
            page = servers[0].runner.ListInstances(
                v1.ListInstancesRequest(namespace="default", page_size=100), timeout=CALL)
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNAVAILABLE
            refused.add(Refusal(error).reason)
            return False
        assert [one.id for one in page.instances] == sorted(names)
        return True

    eventually(listed, 20.0)
    assert refused and refused <= {"PEER_UNREACHABLE", "NO_OWNER"}


def test_an_overview_names_who_does_not_answer(parted):  # noqa: F811
    servers = parted(2)
    space = servers[0].space("default")
    space.define(DOOR)
    for number in range(40):
        space.start("door", f"door-{number}")
    servers[1].kill()
    overview = servers[0].views.GetOverview(
        view.GetOverviewRequest(namespace="default"), timeout=CALL)
    assert 0 < overview.now.running < 40
    assert overview.missing
    assert len(set(overview.missing)) == len(overview.missing)


def test_a_batch_enters_all_its_namespaces_or_starts_nothing(parted, tmp_path):  # noqa: F811
    secret = tmp_path / "admin.token"
    secret.write_text("a" * 64)
    secret.chmod(0o600)
    header = (("authorization", "Bearer " + "a" * 64),)
    servers = parted(2, "--auth", "tokens", "--admin-token-file", str(secret), metadata=header)
    for name in ("mine", "other"):
        servers[0].runner.Define(v1.DefineRequest(namespace=name, source=DOOR), metadata=header,
                                 timeout=CALL)
    made = admin_grpc.TokenServiceStub(servers[0].channel).CreateToken(
        admin.CreateTokenRequest(namespace="mine", role=admin.AccessToken.OPERATOR),
        metadata=header, timeout=CALL)
    mine = (("authorization", "Bearer " + made.secret),)

    def batch(stranger):
        starts = [v1.StartRequest(namespace="mine", machine="door", id=f"door-{number}")
                  for number in range(30)]
        if stranger:
            starts.append(v1.StartRequest(namespace="other", machine="door", id="stranger"))
        return servers[0].runner.StartBatch(v1.StartBatchRequest(starts=starts), metadata=mine,
                                            timeout=CALL)

    def running():
        page = servers[1].runner.ListInstances(
            v1.ListInstancesRequest(namespace="mine"), metadata=header, timeout=CALL)
        return len(page.instances)

    with pytest.raises(grpc.RpcError) as refused:
        batch(stranger=True)
    assert refused.value.code() == grpc.StatusCode.PERMISSION_DENIED
    assert running() == 0
    assert all(one.started.created for one in batch(stranger=False).results)
    assert running() == 30
