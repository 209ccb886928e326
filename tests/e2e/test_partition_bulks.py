"""Bulks and the deletion of namespaces, which reach all partitions."""
import grpc
import pytest

from stubs import package, package_grpc, v1, view
from support import CALL, Refusal, eventually, state
from test_partitions import DOOR, PARTITIONS, parted  # noqa: F401: a fixture


def test_a_bulk_changes_what_matches_in_all_partitions(parted):  # noqa: F811
    servers = parted(2)
    spaces = [one.space("default") for one in servers]
    spaces[0].define(DOOR)
    names = [spaces[number % 2].start("door", f"door-{number}") for number in range(60)]
    assert {spaces[0].get(name).partition for name in names} == set(range(PARTITIONS))
    preview = spaces[1].start_bulk("PAUSE", "machine:door", validate_only=True)
    assert (preview.state, preview.changed) == (view.Bulk.PREVIEW, 60)
    assert list(preview.sample) == sorted(names)[:20]
    done = spaces[1].bulk("PAUSE", "machine:door", reason="a test")
    assert (done.state, done.changed, done.refused) == (view.Bulk.DONE, 60, 0)
    assert all(state(spaces[0].get(name)) == "PAUSED" for name in names)
    # Some by name, and no more than so many.
    some = spaces[0].bulk("RESUME", instances=names[:10])
    assert (some.changed, sorted(some.request.instances)) == (10, sorted(names[:10]))
    limited = spaces[0].bulk("RESUME", "machine:door", at_most=20)
    assert limited.changed == 20
    assert sum(state(spaces[0].get(name)) == "RUNNING" for name in names) == 30
    # Each is listed once, the newest first, at any server.
    listed = servers[1].bulks.ListBulks(view.ListBulksRequest(namespace="default"), timeout=CALL)
    assert [one.request.id for one in listed.bulks] == [
        one.request.id for one in (limited, some, done)]


def test_a_bulk_without_an_id_is_refused_once_and_one_that_is_unknown_is_not_found(parted):  # noqa: F811
    servers = parted(2)
    with pytest.raises(grpc.RpcError) as refused:
        servers[0].space("default").start_bulk("PAUSE")
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    with pytest.raises(grpc.RpcError) as refused:
        servers[0].space("default").get_bulk("nowhere")
    assert Refusal(refused.value).reason == "NO_SUCH_BULK"


def test_a_namespace_is_deleted_in_all_partitions(parted):  # noqa: F811
    servers = parted(2)
    spaces = [one.space("short") for one in servers]
    spaces[0].define(DOOR)
    for number in range(40):
        spaces[number % 2].start("door", f"door-{number}")
    namespaces = [package_grpc.NamespaceServiceStub(one.channel) for one in servers]
    namespaces[1].DeleteNamespace(package.DeleteNamespaceRequest(name="short"), timeout=CALL)
    for number in range(16):
        with pytest.raises(grpc.RpcError) as refused:
            spaces[number % 2].start("door", f"late-{number}")
        assert Refusal(refused.value).reason in ("NAMESPACE_DELETING", "NO_SUCH_MACHINE")

    def gone():
        listed = namespaces[0].ListNamespaces(package.ListNamespacesRequest(), timeout=CALL)
        return "short" not in [one.name for one in listed.namespaces]

    eventually(gone, 20.0)
    spaces[1].define(DOOR)
    for number in range(40):
        assert spaces[number % 2].begin("door", f"door-{number}").created
    listed = servers[0].runner.ListInstances(
        v1.ListInstancesRequest(namespace="short", page_size=100), timeout=CALL)
    assert len(listed.instances) == 40
