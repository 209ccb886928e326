"""The service of the original dfsmr, on the same port and the same state as the new one."""
import threading

import grpc
import pytest

from stubs import original
from support import (CALL, SOON, Refusal, check_refusal, eventually, from_json, kind, now, only,
                     refused, result, state, token_state)


def node(id, start=False, final=False, **transitions):
    return original.Node(id=id, start=start, final=final, transitions=[
        original.Transition(id=name, node=target) for name, target in transitions.items()])


def nodes():
    return [node("crawl", start=True, ok="parse", error="failed"), node("parse", ok="done"),
            node("done", final=True), node("failed", final=True)]


class Old:
    """A client of the original service, and the new one's view of the same state."""

    def __init__(self, server):
        self.stub = server.original
        self.space = server.space("default")

    def define(self, id, nodes):
        return self.stub.Define(original.DefineRequest(id=id, nodes=nodes), timeout=1)

    def start(self, machine, id="", **params):
        return self.stub.Start(original.TaskMessage(machine=machine, id=id, instanceParams=params),
                               timeout=1)

    def ready(self, machine="", node="", client="old"):
        return self.stub.Ready(original.ReadyRequest(client=client, machine=machine, node=node),
                               timeout=1)

    def transition(self, instance, transition, **params):
        return self.stub.Transition(original.TransitionRequest(
            instance=instance, transition=transition, nodeParams=params), timeout=1)

    def relinquish(self, instance):
        return self.stub.Relinquish(original.RelinquishRequest(instance=instance), timeout=1)

    def instance(self, id):
        listed = self.stub.Instances(original.InstancesRequest(), timeout=5).instances
        return only([instance for instance in listed if instance.id == id])


@pytest.fixture
def old(server):
    return Old(server)


@pytest.fixture
def machine(old, request):
    """A machine of the test's own: the original knows no namespaces."""
    id = request.node.originalname.replace("_", "-")[:100]
    assert old.define(id, nodes()).success
    return id


# Define and Machines --------------------------------------------------------------------------


def test_a_machine_is_defined_and_listed(old):
    reply = old.define("listed", nodes())
    assert (reply.success, reply.id, reply.errorMessage) == (True, "listed", "")
    listed = only([m for m in old.stub.Machines(original.MachinesRequest(), timeout=1).machines
                   if m.id == "listed"])
    found = {n.id: (n.start, n.final, {t.id: t.node for t in n.transitions})
             for n in listed.nodes if not n.id.startswith("dfsmr.")}
    assert found == {
        "crawl": (True, False, {"ok": "parse", "error": "failed"}),
        "parse": (False, False, {"ok": "done"}),
        "done": (False, True, {}), "failed": (False, True, {})}


def test_the_same_nodes_in_any_order_succeed_and_change_nothing(old, machine):
    shuffled = nodes()[::-1]
    shuffled[-1].transitions.reverse()
    assert old.define(machine, shuffled).success
    assert old.space.machine(machine).version == 1


def test_other_nodes_make_a_version(old, machine):
    other = nodes()
    other[1].transitions[0].node = "failed"
    other[1].transitions.add(id="fine", node="done")
    assert old.define(machine, other).success
    assert old.space.machine(machine).version == 2


def test_a_machine_that_is_unsound_is_not_defined(old):
    try:
        assert not old.define("unsound", [node("a", start=True, ok="nowhere")]).success
    except grpc.RpcError as error:
        check_refusal(Refusal(error), "INVALID_ARGUMENT", None, "nowhere")
    with refused("NOT_FOUND", "NO_SUCH_MACHINE"):
        old.space.machine("unsound")


def test_machines_of_the_new_service_are_listed_with_their_latest_version(old):
    old.space.define("id: newer\nnodes: {a: {start: true, transitions: {ok: z}},"
                     " z: {final: true}}\n")
    old.space.define("id: newer\nnodes: {b: {start: true, transitions: {ok: z}},"
                     " z: {final: true}}\n")
    listed = [m for m in old.stub.Machines(original.MachinesRequest(), timeout=1).machines
              if m.id == "newer"]
    assert "b" in {n.id for n in only(listed).nodes}


# Start and Instances --------------------------------------------------------------------------


def test_an_instance_starts_with_an_id_of_the_server_or_of_the_client(old, machine):
    task = old.start(machine, url="http://x")
    assert task.id and (task.machine, task.node, task.owner) == (machine, "crawl", "")
    assert dict(task.instanceParams) == {"url": "http://x"}
    assert old.start(machine, id="my-own").id == "my-own"
    assert old.space.get("my-own").machine == machine


def test_strings_given_become_json_strings(old, machine):
    task = old.start(machine, url='a "quoted" ü', number="5")
    assert from_json(old.space.get(task.id).params) == {"url": 'a "quoted" ü', "number": "5"}


def test_params_that_are_not_strings_appear_as_their_json_text(old, machine):
    id = old.space.start(machine, params='{"s":"text","n":1.50,"b":true,"l":[1,2],"o":{"x":null}}')
    params = dict(old.instance(id).instanceParams)
    assert params["s"] == "text"
    assert (params["n"], params["b"]) == ("1.50", "true")
    assert from_json(params["l"]) == [1, 2] and from_json(params["o"]) == {"x": None}


def test_an_instance_of_a_machine_that_is_not_there_is_refused(old):
    with refused("NOT_FOUND", None, "nowhere"):
        old.start("nowhere")


# Ready ----------------------------------------------------------------------------------------


def test_ready_claims_an_instance(old, machine):
    id = old.start(machine, url="x").id
    began = int(now())
    task = old.ready(machine, client="tcp://10.0.0.7:5003")
    assert (task.id, task.machine, task.node, task.owner) == (
        id, machine, "crawl", "tcp://10.0.0.7:5003")
    assert abs(task.startTime - began) <= 2
    assert task.starts == 1
    assert dict(task.instanceParams) == {"url": "x"}
    assert old.instance(id).owner == "tcp://10.0.0.7:5003"
    assert token_state(old.space.token(id)) == "CLAIMED"


def test_no_work_is_not_found_at_once(old, machine):
    began = now()
    with refused("NOT_FOUND", None, "no available work") as caught:
        old.ready(machine)
    assert caught[0].message == "no available work"
    assert now() - began < 0.9


def test_ready_may_ask_for_a_machine_and_a_node(old, machine):
    one, two = old.start(machine).id, old.start(machine).id
    old.transition(two, "ok")
    assert old.ready(machine, "parse").id == two
    with refused("NOT_FOUND", None, "no available work"):
        old.ready(machine, "parse")
    assert old.ready(machine, "crawl").id == one


def test_ready_without_a_machine_takes_any(old, machine):
    old.start(machine)
    seen = []
    with pytest.raises(grpc.RpcError):
        while True:
            seen.append(old.ready().machine)
    assert machine in seen


def test_a_final_node_is_never_ready(old, machine):
    id = old.start(machine).id
    old.ready(machine)
    old.transition(id, "error")
    with refused("NOT_FOUND", None, "no available work"):
        old.ready(machine)


# Transition and Relinquish --------------------------------------------------------------------


def test_a_transition_needs_no_claim_and_frees_the_instance(old, machine):
    id = old.start(machine).id
    old.ready(machine)
    reply = old.transition(id, "ok", found="3")
    assert (reply.instance, reply.prevNode, reply.node) == (id, "crawl", "parse")
    assert old.instance(id).owner == ""
    task = old.ready(machine, client="another")
    assert (task.id, task.node, task.owner, task.starts) == (id, "parse", "another", 1)
    assert dict(task.nodeParams) == {"found": "3"}


def test_an_unclaimed_instance_may_be_moved(old, machine):
    id = old.start(machine).id
    assert old.transition(id, "ok").node == "parse"


def test_an_illegal_transition_is_refused_and_changes_nothing(old, machine):
    id = old.start(machine).id
    with refused("FAILED_PRECONDITION", None, "sideways"):
        old.transition(id, "sideways")
    assert old.space.token(id).node == "crawl"


def test_an_instance_that_is_not_there_is_refused(old):
    with refused("NOT_FOUND", None, "ghost"):
        old.transition("ghost", "ok")
    with refused("NOT_FOUND", None, "ghost"):
        old.relinquish("ghost")


def test_an_instance_can_be_given_back(old, machine):
    id = old.start(machine).id
    old.ready(machine)
    reply = old.relinquish(id)
    assert (reply.istance, reply.node) == (id, "crawl")
    assert old.instance(id).owner == ""
    task = old.ready(machine)
    assert (task.id, task.starts) == (id, 2)


def test_giving_back_a_free_instance_succeeds(old, machine):
    id = old.start(machine).id
    reply = old.relinquish(id)
    assert (reply.istance, reply.node) == (id, "crawl")


# Old and new together -------------------------------------------------------------------------


def test_old_and_new_clients_share_one_state(old, machine):
    id = old.start(machine, url="x").id
    task = only(old.space.ready(machine))
    assert from_json(task.instance_params) == {"url": "x"}
    with refused("NOT_FOUND", None, "no available work"):
        old.ready(machine)
    old.space.report(task, node_params={"n": 5, "s": "t"})
    parse = old.ready(machine)
    assert dict(parse.nodeParams) == {"n": "5", "s": "t"}
    old.transition(id, "ok")
    assert (state(old.space.get(id)), result(old.space.get(id))) == ("STOPPED", "SUCCESS")
    assert old.space.walk(id) == [("crawl", "ok", "parse"), ("parse", "ok", "done")]


def test_a_new_claim_is_stale_once_an_old_client_has_moved_the_instance(old, machine):
    id = old.start(machine).id
    task = only(old.space.ready(machine))
    old.transition(id, "ok")
    with refused("FAILED_PRECONDITION", "STALE_CLAIM", id):
        old.space.report(task)


def test_other_namespaces_are_not_seen(old, machine, space):
    space.define("id: hidden\nnodes: {a: {start: true, transitions: {ok: z}},"
                 " z: {final: true}}\n")
    id = space.start("hidden")
    with refused("NOT_FOUND", None, "no available work"):
        old.ready("hidden")
    listed = old.stub.Instances(original.InstancesRequest(), timeout=5).instances
    assert id not in {instance.id for instance in listed}
    machines = old.stub.Machines(original.MachinesRequest(), timeout=1).machines
    assert "hidden" not in {m.id for m in machines}


def test_what_old_clients_do_is_in_the_feed(old, machine):
    id = old.start(machine).id
    old.ready(machine, client="old-worker")
    old.transition(id, "error")
    with old.space.watch(instance=id) as watch:
        claimed = watch.until(lambda c: kind(c) == "CLAIMED")
        watch.until(lambda c: kind(c) == "FINISHED")
    assert claimed.client == "old-worker"


# Changes --------------------------------------------------------------------------------------


class Lines:
    """Reads the text of the original's Changes."""

    def __init__(self, stub):
        self.call = stub.Changes(original.ChangesRequest(), timeout=60)
        self.commands = []
        self.code = None
        self.ended = threading.Event()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        try:
            for reply in self.call:
                self.commands.append(reply.command)
            self.code = "OK"
        except grpc.RpcError as error:
            self.code = error.code().name
        self.ended.set()


def test_changes_sends_a_line_of_text_for_each_change(old, machine):
    lines = Lines(old.stub)

    def started():
        id = old.start(machine).id
        return id if any(id in line for line in lines.commands) else None

    id = eventually(started)  # the stream has begun
    old.transition(id, "ok")
    old.transition(id, "ok")
    eventually(lambda: len([line for line in lines.commands if id in line]) >= 3)
    assert all(line.strip() and "\n" not in line.strip() for line in lines.commands)
    lines.call.cancel()


def test_changes_ends_with_unavailable_when_the_server_stops(new_server):
    server = new_server().start()
    lines = Lines(server.original)
    space = server.space("default")
    space.define("id: m\nnodes: {a: {start: true, final: true}}\n")
    eventually(lambda: space.start("m") and lines.commands)
    server.terminate()
    assert server.exit_status() == 0
    assert lines.ended.wait(SOON)
    assert lines.code == "UNAVAILABLE"


def test_the_wire_is_that_of_the_original(server):
    """Bytes as its client sends them: no package in the path, its field numbers."""
    def raw(method, request):
        call = server.channel.unary_unary(f"/DistributedFSMRunner/{method}",
                                          request_serializer=lambda message: message,
                                          response_deserializer=lambda message: message)
        return call(request, timeout=CALL)

    def text(number, value):
        value = value if isinstance(value, bytes) else value.encode()
        return bytes([number << 3 | 2, len(value)]) + value

    def edge(name, target):
        return text(2, text(1, name) + text(2, target))

    begin = text(2, text(1, "begin") + edge("go", "end") + b"\x18\x01")
    end = text(2, text(1, "end") + b"\x20\x01")
    defined = raw("Define", text(1, "golden") + begin + end)
    assert defined.startswith(b"\x08\x01" + text(2, "golden"))
    started = raw("Start", text(1, "golden-1") + text(2, "golden"))
    assert started.startswith(text(1, "golden-1") + text(2, "golden") + text(3, "begin"))
    claimed = raw("Ready", text(1, "me") + text(2, "golden"))
    assert text(4, "me") in claimed and b"\x30\x01" in claimed
    given_back = raw("Relinquish", text(1, "golden-1"))
    assert given_back == text(1, "golden-1") + text(2, "begin")
    moved = raw("Transition", text(1, "golden-1") + text(2, "go"))
    assert moved == text(1, "golden-1") + text(2, "end") + text(3, "begin")
