"""What needs no server; the loop against a real one is tested by tests/clients of the repository."""
import asyncio
import contextlib
import datetime
import math
import queue
import re

import dfsmr
import grpc
import pytest
from dfsmr.v1 import runner_pb2 as v1
from dfsmr import _messages


def test_a_task_reads_its_message():
    task = dfsmr.testing.task({"url": "u"}, input={"n": 2**63}, event="go", event_data={"a": 1},
                              checkpoint={"offset": 1}, attempt=3, phase="run", dry_run=True,
                              deadline=datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone.utc))
    assert (task.params, task.input, task.event_data) == ({"url": "u"}, {"n": 2**63}, {"a": 1})
    assert (task.event, task.attempt, task.phase, task.dry_run) == ("go", 3, "run", True)
    assert task.checkpoint == {"offset": 1} and task.deadline.day == 2 and not task.at_most_once
    assert dfsmr.testing.task().checkpoint is None and dfsmr.testing.task().deadline is None


def test_a_task_tells_its_progress():
    task = dfsmr.testing.task()
    task.progress(0.5, checkpoint={"n": 1}, note="half")
    assert task.progressed == [(0.5, '{"n":1}', "half")]
    with pytest.raises(ValueError):
        task.progress(1.5)


def test_cancelled_is_true_once_it_is_set():
    task = dfsmr.testing.task()
    assert not task.cancelled
    task.cancelled.set()
    assert task.cancelled and task.cancelled.wait(0)


@pytest.mark.parametrize("value, transition, output", [
    (None, "ok", ""), ("no", "no", ""), (("ok", {"a": 1}), "ok", '{"a":1}'),
    ({"output": {"a": 1}}, "ok", '{"a":1}'), (dfsmr.Result("x"), "x", "")])
def test_what_a_handler_may_return(value, transition, output):
    report = dfsmr.Result.of(value).report()
    assert (report.transition, report.output) == (transition, output)


@pytest.mark.parametrize("value", [7, {"status": 200}, ("ok", [1]), ("ok", {"a": math.nan}),
                                   {"start": [{"machin": "job"}]}])
def test_what_is_no_result(value):
    with pytest.raises((TypeError, ValueError)):
        dfsmr.Result.of(value).report()


def test_starts_have_the_keys_of_a_start_request():
    report = dfsmr.Result(start=[{"machine": "job", "params": {"n": 1}, "labels": {"a": "b"},
                                  "start_at": "2026-01-02T03:04:05Z"}]).report()
    [start] = report.starts
    assert (start.machine, start.params, start.labels["a"]) == ("job", '{"n":1}', "b")
    assert start.start_at.ToJsonString() == "2026-01-02T03:04:05Z"


def test_messages_are_made_of_pythons_values():
    request = _messages.build(v1.ListInstancesRequest.DESCRIPTOR,
                              {"state": "paused", "labels": {"a": "b"}, "page_size": None})
    assert (request.state, request.labels["a"]) == (v1.Instance.PAUSED, "b")
    extend = _messages.build(v1.ExtendRequest.DESCRIPTOR,
                             {"items": [{"by": datetime.timedelta(seconds=2)}, {"by": 0.5}]})
    assert [item.by.ToMilliseconds() for item in extend.items] == [2000, 500]
    with pytest.raises(ValueError, match="PAUSED"):
        _messages.build(v1.ListInstancesRequest.DESCRIPTOR, {"state": "asleep"})


def test_errors_are_of_their_reason():
    error = dfsmr.errors.of_item(v1.Error(code=9, reason="STALE_CLAIM", message="too late"))
    assert isinstance(error, dfsmr.StaleClaim) and isinstance(error, dfsmr.Error)
    assert (error.reason, error.message) == ("STALE_CLAIM", "too late")
    assert error.code == grpc.StatusCode.FAILED_PRECONDITION
    other = dfsmr.errors.of_item(v1.Error(code=9, reason="OF_THE_FUTURE"))
    assert type(other) is dfsmr.Error and other.reason == "OF_THE_FUTURE"


def test_a_handler_is_found_by_node_then_action_then_machine():
    worker = dfsmr.Worker("localhost:1")
    for number, key in enumerate([("m", "n"), ("m",)]):
        worker.handles(*key)(lambda task, n=number: n)
    worker.handles(action="a.b")(lambda task: "exact")
    worker.handles(action="a.*")(lambda task: "prefix")

    def found(machine, node, action):
        return worker._find((machine, node, action))

    assert found("m", "n", "a.b")(None) == 0 and found("m", "o", "a.b")(None) == "exact"
    assert found("x", "o", "a.c.d")(None) == "prefix" and found("m", "o", "z")(None) == 1
    assert found("x", "o", "z") is None
    with pytest.raises(ValueError):
        worker.handles("m", "n")(lambda task: None)
    with pytest.raises(ValueError):
        worker.handles("m", action="a")


def test_with_several_handlers_their_actions_are_asked_for():
    worker = dfsmr.Worker("localhost:1", jobs=3, queues=["q"])
    worker.handles("m", "n")(lambda task: None)
    assert worker.filter(None).node == "n"
    worker.handles("gone", "n")(lambda task: None)
    worker.handles(action="a.*")(lambda task: None)

    def machine(name):
        if name == "gone":
            raise dfsmr.NoSuchMachine("no")
        return v1.Machine(nodes=[v1.Node(id="n", kind="work", action="other")])

    request = worker.filter(machine)
    assert list(request.actions) == ["a.*", "gone.n", "other"]
    assert (request.max_tasks, list(request.queues), request.machine) == (3, ["q"], "")


def test_a_server_for_tests_and_all_kinds_of_calls():
    with dfsmr.testing.server() as server, dfsmr.Client(server.address, namespace="x") as client:
        client.define("{id: m, nodes: {a: {manual: true, start: true, transitions: {ok: b}}, "
                      "b: {final: true}}}")
        with pytest.raises(dfsmr.BadMachine) as bad:
            client.check("{id: m, nodes: {}}")
        assert bad.value.diagnostics[0].line == 1
        assert client.start("m", id="i", params={"a": 1}).created
        assert [r.started.created for r in client.start_batch(
            [{"machine": "m", "id": f"i{n}", "params": {"n": n}} for n in range(3)])] == [True] * 3
        assert [i.id for i in client.list(machine="m", page_size=2)] == ["i", "i0", "i1", "i2"]
        assert client.pause("i").state == v1.Instance.PAUSED
        assert client.resume("i").id == "i"
        client.transition("i", "ok")
        assert client.wait("i", timeout=5).result == v1.Instance.SUCCESS
        assert client.cancel("i0", mode="force").result == v1.Instance.CANCELLED
        with pytest.raises(TimeoutError):
            client.wait("i1", timeout=0.1)
        with pytest.raises(dfsmr.NoSuchInstance):
            client.get("none")
        assert client.set_limit("db", max=3).max == 3 and client.get_limit("db").held == 0
        assert list(client.schedules()) == [] and client.get_clock().time.seconds > 0
        assert [c.visit for c in client.history("i")][-1] == 2


def test_methods_that_send_a_stream():
    with dfsmr.testing.server() as server, dfsmr.Client(server.address, namespace="x") as client:
        client.define("{id: m, nodes: {a: {start: true, transitions: {ok: b}}, b: {final: true}}}")
        client.start("m", id="i")
        requests = queue.SimpleQueue()
        requests.put({"open": {"machine": "m", "max_tasks": 1, "worker": "w"}})
        with contextlib.closing(client.work(iter(requests.get, None))) as responses:
            [task] = next(responses).tasks
            requests.put(None)
        assert (task.namespace, task.instance) == ("x", "i")
        with pytest.raises(dfsmr.Error) as refused:
            client.put_package([{"header": {"size": 3, "digest": "sha256:" + "0" * 64}},
                                {"data": b"abc"}])
        assert refused.value.reason == "DIGEST_MISMATCH"
        items = [{"item": item} for item in client.export_namespace("x")]
        done = client.import_namespace([{"header": {"name": "y"}}, *items])
        assert done.definitions == 1 and client.get_machine("m", namespace="y").id == "m"


def test_requests_in_requests_are_of_the_clients_namespace():
    with dfsmr.testing.server() as server, dfsmr.Client(server.address, namespace="x") as client:
        client.define("{id: m, nodes: {a: {start: true, transitions: {ok: b}}, b: {final: true}}}")
        client.start("m", id="i")
        reply = client.report([], next={"machine": "m", "max_tasks": 1})
        assert [task.namespace for task in reply.tasks] == ["x"]
        topics = [{"key": "i", "instance": {"id": "i"}}]
        with contextlib.closing(client.watch(topics)) as told:
            assert next(told).instance.namespace == "x"
        client.define("{id: m, nodes: {a: {start: true, final: true}}}", namespace="y")
        [result] = client.start_batch([{"machine": "m", "namespace": "y"}])
        assert result.started.instance.namespace == "y"


def test_a_poll_may_wait_for_longer_than_a_call_may_take():
    with dfsmr.testing.server() as server, dfsmr.Client(server.address, timeout=0.3) as client:
        client.define("{id: m, nodes: {a: {final: true, start: true}}}", timeout=5)
        assert list(client.ready(machine="m", wait=0.6)) == []
        assert list(client.report([], next={"machine": "m", "wait": 0.6}).tasks) == []


def test_what_is_no_list_goes_on_by_its_token():
    with dfsmr.testing.server() as server, dfsmr.Client(server.address) as client:
        assert client.count_instances(page_token="").total == 0
        with pytest.raises(dfsmr.BadRequest):
            client.count_instances(page_token="none")
        assert client.get_limit("db", page_token="").held == 0


def test_each_method_of_the_services_is_there():
    for service in dfsmr.client._SERVICES.values():
        for method in service.methods:
            name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", method.name).lower()
            assert callable(getattr(dfsmr.Client, name, None)), method.full_name


def test_changes_go_on_after_the_server_was_away():
    with dfsmr.testing.server() as server, dfsmr.Client(server.address) as client:
        client.define("{id: m, nodes: {a: {final: true, start: true}}}")
        client.start("m", id="one")
        with client.changes(after="0", kinds=["started"]) as changes:
            assert next(changes).instance == "one"
            assert changes.cursor not in ("", "0")
            server.kill()
            server.start()
            client.start("m", id="two")
            assert next(changes).instance == "two"
        assert list(changes) == []


def test_a_worker_in_a_loop_of_ones_own():
    async def main(address):
        worker = dfsmr.Worker(address)

        @worker.handles("m", "a")
        async def handle(task):
            await task.progress(0.5, checkpoint={"n": 1})
            worker.stop()
            return "ok", {"loop": asyncio.get_running_loop() is loop}

        loop = asyncio.get_running_loop()
        await asyncio.wait_for(worker.run_async(), 20)

    with dfsmr.testing.server() as server, dfsmr.Client(server.address) as client:
        client.define("{id: m, nodes: {a: {start: true, transitions: {ok: b}}, b: {final: true}}}")
        client.start("m", id="i")
        asyncio.run(main(server.address))
        assert client.get("i").outputs["a"] == '{"loop":true}'


def test_a_list_is_told_from_one_value_by_any_protobuf():
    class Old:
        LABEL_REPEATED = 3
        label = 3

    class New:  # has no label
        is_repeated = True

    assert _messages.is_repeated(Old()) and _messages.is_repeated(New())
    Old.label, New.is_repeated = 1, False
    assert not _messages.is_repeated(Old()) and not _messages.is_repeated(New())


def test_secrets_and_keys_take_what_they_need_in_order():
    given = {}

    class Calls(dfsmr.Client):
        def _unary(self, service, method, fields, timeout):
            given[method] = {name: value for name, value in fields.items() if value is not None}

    client = Calls("127.0.0.1:1")
    client.put_secret("db", b"value")
    client.delete_secret("db")
    client.resolve_secrets("i", "c", [{"name": "db"}])
    client.add_trusted_key("ann", "ssh-ed25519 AAAA")
    client.revoke_trusted_key("ann")
    client.sign_package("etl", "1.4.0", "signature")
    assert given == {
        "PutSecret": {"name": "db", "value": b"value"},
        "DeleteSecret": {"name": "db"},
        "ResolveSecrets": {"instance": "i", "claim": "c", "secrets": [{"name": "db"}]},
        "AddTrustedKey": {"name": "ann", "public_key": "ssh-ed25519 AAAA"},
        "RevokeTrustedKey": {"key": "ann"},
        "SignPackage": {"package": "etl", "version": "1.4.0", "signature": "signature"}}
