"""The HTTP doors of servers that share a store: what is home's comes through any of them."""
import json
import threading

from cluster_servers import persist, seen_by
from support import eventually, state
from test_http import SECRET, own, session
from test_partitions import parted, shares  # noqa: F401: a fixture
from test_triggers import MACHINES
from web import JSON, Door

HOOK = """\
trigger: push
on: {webhook: {path: git/push, open: true}}
dedupe: "${item.headers.x-delivery}"
start: {machine: deploy, id: "d-${item.body.id}"}
"""
LOST = 20.0  # seconds within which one that is killed has been replaced


def push(door, number):
    return door.ask("POST", "/hooks/default/git/push?from=test", json.dumps({"id": number}),
                    {**JSON, "x-delivery": str(number)})


def test_webhooks_are_received_through_any_server(parted, sharers):  # noqa: F811
    servers = parted(3, "--http", "localhost:0")
    space = servers[0].space("default")
    space.define(MACHINES + "---\n" + HOOK)
    doors = [Door(server) for server in servers]
    for number in range(30):
        reply = push(doors[number % 3], number)
        assert reply.status == 202, reply
        assert reply.json["outcome"] == "STARTED" and reply.json["instance"] == f"d-{number}"
        again = push(doors[(number + 1) % 3], number)
        assert again.status == 202 and again.json["outcome"] == "DUPLICATE", again
    eventually(lambda: len(space.instances(machine="deploy").instances) == 30)
    for door in doors:
        none = door.ask("POST", "/hooks/default/none", "{}", JSON)
        assert none.status == 404 and none.headers["trailer-dfsmr-reason"] == "NO_SUCH_TRIGGER"
    # It is no method for callers.
    assert doors[0].ask("POST", "/dfsmr.door.DoorService/ReceiveWebhook", "{}", JSON).status == 404


def test_a_webhook_is_taken_once_while_home_changes_hands(parted):  # noqa: F811
    servers = parted(2, "--http", "localhost:0")
    space = servers[0].space("default")
    space.define(MACHINES + "---\n" + HOOK)
    addresses = {one.id: one.address for one in seen_by(servers[0]).servers}
    home = addresses[seen_by(servers[0]).partitions[0].server]
    killed = next(server for server in servers if server.address == home)
    other = next(server for server in servers if server is not killed)
    door, stays = Door(other), other.space("default")
    answered = set()

    def deliver():
        for number in range(60):
            def once():
                reply = push(door, number)
                if reply.status == 503:
                    assert reply.headers["trailer-dfsmr-reason"] in (
                        "NO_OWNER", "PEER_UNREACHABLE", "OUTCOME_UNKNOWN"), reply
                    return False
                assert reply.status == 202, reply
                answered.add(number)
                return True
            eventually(once, LOST)
            if number == 10:
                begun.set()

    begun = threading.Event()
    thread = threading.Thread(target=deliver)
    thread.start()
    begun.wait()
    killed.kill()
    thread.join()
    assert len(answered) == 60
    eventually(lambda: len(stays.instances(machine="deploy").instances) == 60)


def test_a_session_that_ends_at_one_server_has_ended_at_all(sharers, tmp_path):
    (tmp_path / "admin.token").write_text(SECRET + "\n")
    sharers.flags = ("--partitions", "4", "--http", "localhost:0", "--auth", "tokens",
                     "--admin-token-file", str(tmp_path / "admin.token"))
    servers = [sharers() for _ in range(3)]
    metadata = (("authorization", f"Bearer {SECRET}"),)
    eventually(lambda: shares(servers, metadata) == [1, 1, 2], 20.0)
    doors = [Door(server) for server in servers]
    for place in range(3):
        _, cookie = session(doors[(place + 1) % 3], {"token": SECRET})
        for door in doors:
            assert door.get("/v1/session", **own(door.port, cookie)).json["role"] == "ADMIN"
        out = doors[place].ask("DELETE", "/v1/session", None, own(doors[place].port, cookie))
        assert out.status == 200 and out.json == {"auth": "tokens"}, out
        for door in doors:
            headers = own(door.port, cookie)
            assert door.get("/v1/session", **headers).json == {"auth": "tokens"}
            assert door.call("ListInstances", {}, headers).status == 401
