"""Namespaces over the wire: quotas, freeze, deletion, who may do what, and dcli namespace."""
import json
import subprocess
import threading

import grpc
import pytest

from stubs import package, package_grpc, schedule, v1, view
from support import DCLI, SOON, Server, check_refusal, eventually, fresh_name, only, refused

JOB = """
id: job
nodes:
  work: {start: true, transitions: {ok: done}}
  done: {final: true}
"""
CALL = 20.0


class Spaces:
    def __init__(self, server):
        self.server = server
        self.stub = package_grpc.NamespaceServiceStub(server.channel)

    def __getattr__(self, method):
        return lambda request: getattr(self.stub, method)(request, timeout=CALL)

    def get(self, name):
        return self.GetNamespace(package.GetNamespaceRequest(name=name))

    def set(self, name, **quotas):
        request = package.UpdateNamespaceRequest(name=name)
        for key, value in quotas.items():
            setattr(request.settings.quotas, key, value)
            request.fields.paths.append("quotas." + key)
        return self.UpdateNamespace(request)

    def delete(self, name, drain=0):
        request = package.DeleteNamespaceRequest(name=name)
        request.drain.seconds = drain
        return self.DeleteNamespace(request)

    def gone(self, name):
        try:
            self.get(name)
        except grpc.RpcError as error:
            return error.code() == grpc.StatusCode.NOT_FOUND
        return False


@pytest.fixture
def own(tmp_path):
    server = Server(tmp_path / "data").start()
    yield server
    server.dispose()


@pytest.fixture
def spaces(own):
    return Spaces(own)


def name_of(request):
    return fresh_name(request.node.name)


def filled(server, name, stopped=0, live=0):
    space = server.space(name)
    space.define(JOB)
    for i in range(0, stopped + live, 500):
        request = v1.StartBatchRequest()
        for j in range(i, min(i + 500, stopped + live)):
            request.starts.add(namespace=name, machine="job", id=f"i{j}")
        server.runner.StartBatch(request, timeout=CALL)
    for i in range(stopped):
        server.runner.Transition(
            v1.TransitionRequest(namespace=name, instance=f"i{i}", transition="ok"), timeout=CALL)
    return space


def test_a_thousand_starts_at_once_on_a_quota_of_a_hundred(own, spaces):
    own.space("acme").define(JOB)
    spaces.set("acme", live_instances=100)
    results = []

    def start(first):
        for i in range(first, first + 50):
            try:
                own.runner.Start(v1.StartRequest(namespace="acme", machine="job", id=f"i{i}"),
                                 timeout=CALL)
                results.append(None)
            except grpc.RpcError as error:
                results.append(error)

    threads = [threading.Thread(target=start, args=(50 * n,)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 1000
    assert results.count(None) == 100
    for error in results:
        if error is not None:
            assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
            assert dict(error.trailing_metadata())["dfsmr-reason"] == "QUOTA_EXCEEDED"
    assert spaces.get("acme").usage.live_instances == 100
    request = v1.StartBatchRequest()
    own.runner.Transition(
        v1.TransitionRequest(
            namespace="acme", transition="ok",
            instance=own.runner.ListInstances(v1.ListInstancesRequest(namespace="acme"),
                                              timeout=CALL).instances[0].id), timeout=CALL)
    for i in range(5):
        request.starts.add(namespace="acme", machine="job", id=f"b{i}")
    batch = own.runner.StartBatch(request, timeout=CALL)
    errors = [one.error.reason for one in batch.results if one.HasField("error")]
    assert errors == ["QUOTA_EXCEEDED"] * 4


def test_starts_per_second_say_when_to_come_back(own, spaces):
    own.space("acme").define(JOB)
    spaces.set("acme", starts_per_second=0.5)
    for i in range(5):
        own.space("acme").start("job")
    with pytest.raises(grpc.RpcError) as error:
        own.space("acme").runner.Start(v1.StartRequest(namespace="acme", machine="job"),
                                       timeout=CALL)
    trailer = dict(error.value.trailing_metadata())
    assert trailer["dfsmr-reason"] == "QUOTA_EXCEEDED"
    assert 0 < int(trailer["grpc-retry-pushback-ms"]) <= 2000
    assert "starts-per-second" in error.value.details() and "0.5" in error.value.details()


def test_closed_namespaces_and_default_quotas(tmp_path):
    server = Server(tmp_path / "data", "--namespaces", "closed", "--quota", "live-instances=2",
                    "--quota", "retention=1d").start()
    spaces = Spaces(server)
    with refused("NOT_FOUND", "NO_SUCH_NAMESPACE", "acme"):
        server.runner.Define(v1.DefineRequest(namespace="acme", source=JOB), timeout=CALL)
    with refused("NOT_FOUND", "NO_SUCH_NAMESPACE", "acme"):
        server.schedules.SetLimit(schedule.SetLimitRequest(
            namespace="acme", key="machine:job", max=0), timeout=CALL)
    with refused("NOT_FOUND", "NO_SUCH_NAMESPACE", "acme"):
        server.schedules.SetGroup(schedule.SetGroupRequest(
            namespace="acme", name="g", max_running=0), timeout=CALL)
    made = spaces.CreateNamespace(package.CreateNamespaceRequest(name="acme"))
    assert made.state == package.Namespace.ACTIVE
    assert made.effective.live_instances == 2
    assert made.effective.retention.seconds == 86400
    with refused("ALREADY_EXISTS", "NAMESPACE_EXISTS", "acme"):
        spaces.CreateNamespace(package.CreateNamespaceRequest(name="acme"))
    space = server.space("acme")
    space.define(JOB)
    space.start("job")
    space.start("job")
    with refused("RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED", "live-instances", "2"):
        server.runner.Start(v1.StartRequest(namespace="acme", machine="job"), timeout=CALL)
    spaces.set("acme", live_instances=0)
    space.start("job")
    names = [one.name for one in spaces.ListNamespaces(package.ListNamespacesRequest()).namespaces]
    assert names == ["acme", "default"]
    server.dispose()


def test_frozen_work_reports_and_nothing_is_handed_out(own, spaces):
    space = filled(own, "acme", live=3)
    task = own.runner.Ready(v1.ReadyRequest(namespace="acme", max_tasks=1), timeout=CALL).tasks[0]
    frozen = spaces.FreezeNamespace(package.FreezeNamespaceRequest(name="acme"))
    assert frozen.state == package.Namespace.FROZEN
    assert frozen.usage.claimed_tasks == 1
    assert not own.runner.Ready(v1.ReadyRequest(namespace="acme", max_tasks=5),
                                timeout=CALL).tasks
    with refused("FAILED_PRECONDITION", "NAMESPACE_FROZEN", "acme"):
        own.runner.Start(v1.StartRequest(namespace="acme", machine="job"), timeout=CALL)
    own.runner.Transition(v1.TransitionRequest(namespace="acme", instance=task.instance,
                                               claim=task.claim, transition="ok"), timeout=CALL)
    waiting = space.get("i2")
    assert "frozen" in waiting.tokens[0].why
    own.kill()
    own.start()
    spaces = Spaces(own)
    assert spaces.get("acme").state == package.Namespace.FROZEN
    thawed = spaces.FreezeNamespace(package.FreezeNamespaceRequest(name="acme", thaw=True))
    assert thawed.state == package.Namespace.ACTIVE
    assert len(own.runner.Ready(v1.ReadyRequest(namespace="acme", max_tasks=5),
                                timeout=CALL).tasks) == 2


def feed(server, name):
    changes = []
    for response in server.runner.Changes(v1.ChangesRequest(namespace=name, after="0"),
                                          timeout=CALL):
        changes.extend(response.changes)
    return changes


def test_kill_in_the_middle_of_a_delete(own, spaces):
    filled(own, "acme", stopped=1200, live=300)
    filled(own, "other", live=2)
    going = spaces.delete("acme")
    assert going.state in (package.Namespace.DRAINING, package.Namespace.DROPPING)
    with refused("FAILED_PRECONDITION", "NAMESPACE_DELETING", "acme"):
        own.runner.Start(v1.StartRequest(namespace="acme", machine="job"), timeout=CALL)
    for _ in range(3):
        own.kill()
        own.start()
    spaces = Spaces(own)
    eventually(lambda: spaces.gone("acme"), 60)
    assert spaces.delete("acme").state == package.Namespace.DELETED
    assert not feed(own, "acme")
    space = own.space("acme")
    defined = own.runner.Define(v1.DefineRequest(namespace="acme", source=JOB), timeout=CALL)
    assert defined.defined[0].version == 1
    assert not own.runner.ListInstances(v1.ListInstancesRequest(namespace="acme"),
                                        timeout=CALL).instances
    space.start("job", "i0")
    own.kill()
    own.start()
    spaces = Spaces(own)
    usage = spaces.get("acme").usage
    assert (usage.live_instances, usage.stopped_instances, usage.definitions) == (1, 0, 1)
    kinds = {change.kind for change in feed(own, "acme")}
    assert v1.Change.FINISHED not in kinds and v1.Change.STARTED in kinds
    assert spaces.get("other").usage.live_instances == 2
    with refused("INVALID_ARGUMENT", "BAD_REQUEST", "default"):
        spaces.delete("default")


def test_claimed_work_is_drained_before_a_delete(own, spaces):
    filled(own, "acme", live=1)
    task = own.runner.Ready(v1.ReadyRequest(namespace="acme", max_tasks=1), timeout=CALL).tasks[0]
    assert spaces.delete("acme", drain=30).HasField("drain_until")
    own.runner.Transition(v1.TransitionRequest(namespace="acme", instance=task.instance,
                                               claim=task.claim, transition="ok"), timeout=CALL)
    eventually(lambda: spaces.gone("acme"), SOON)


def test_a_new_namespace_knows_no_workers_of_the_old(own, spaces):
    space = filled(own, "acme", live=1)
    space.report(only(space.ready("job", worker="w1")))
    assert space.view("ListWorkers", view.ListWorkersRequest(namespace="acme")).workers
    spaces.delete("acme")
    eventually(lambda: spaces.gone("acme"), 10)
    filled(own, "acme", live=1)
    assert not space.view("ListWorkers", view.ListWorkersRequest(namespace="acme")).workers
    queue = only(space.view("ListQueues", view.ListQueuesRequest(namespace="acme")).queues)
    assert queue.ready == 1 and not queue.HasField("asked_time")
    assert space.overview().workers == 0
    assert [task.instance for task in space.ready("job", worker="w2")] == ["i0"]
    listed = space.view("ListWorkers", view.ListWorkersRequest(namespace="acme")).workers
    assert [(one.worker, one.done_hour) for one in listed] == [("w2", 0)]


def test_limits_and_groups_make_their_namespace(own, spaces):
    own.schedules.SetLimit(schedule.SetLimitRequest(
        namespace="acme", key="machine:job", max=0), timeout=CALL)
    own.schedules.SetGroup(schedule.SetGroupRequest(
        namespace="zeta", name="g", max_running=0), timeout=CALL)
    names = [one.name for one in spaces.ListNamespaces(package.ListNamespacesRequest()).namespaces]
    assert {"acme", "zeta"} <= set(names)
    spaces.delete("acme")
    eventually(lambda: spaces.gone("acme"), SOON)
    space = own.space("acme")
    space.define(JOB)
    id = space.start("job")
    assert space.get(id).state == v1.Instance.RUNNING


def test_schedules_of_a_namespace_that_goes_are_left_alone(own, spaces):
    filled(own, "acme", live=1)
    own.runner.Define(v1.DefineRequest(namespace="acme", source="""
schedule: s
cron: "0 3 * * *"
from: 2025-01-01
start: {machine: job}
"""), timeout=CALL)
    own.runner.Ready(v1.ReadyRequest(namespace="acme", max_tasks=1), timeout=CALL)
    spaces.delete("acme", drain=30)
    with refused("FAILED_PRECONDITION", "NAMESPACE_DELETING"):
        own.schedules.BackfillSchedule(schedule.BackfillScheduleRequest(
            namespace="acme", name="s", from_time="2025-01-01", to_time="2025-01-03"),
            timeout=CALL)
    with refused("FAILED_PRECONDITION", "NAMESPACE_DELETING"):
        own.schedules.SetPaused(schedule.SetPausedRequest(
            namespace="acme", schedule="s", paused=True), timeout=CALL)


def dcli(server, *words, **more):
    return subprocess.run([str(DCLI), "--server", server.address, *words], capture_output=True,
                          text=True, timeout=60, stdin=subprocess.DEVNULL, **more)


def test_dcli_namespace(own):
    made = dcli(own, "namespace", "create", "acme", "live-instances=10", "description=A tenant")
    assert made.returncode == 0, made.stderr
    filled(own, "acme", live=8)
    shown = dcli(own, "namespace", "show", "acme")
    line = next(l for l in shown.stdout.splitlines() if l.startswith("live-instances"))
    assert line.split() == ["live-instances", "8", "10", "!"]
    assert "A tenant" in shown.stdout
    assert "created " in shown.stdout and "first use" not in made.stdout + shown.stdout
    set_ = dcli(own, "namespace", "set", "acme", "live-instances=", "retention=2d", "-o", "json")
    assert json.loads(set_.stdout)["settings"]["quotas"] == {"retention": "172800s"}
    assert dcli(own, "namespace", "list", "-o", "name").stdout.split() == ["acme", "default"]
    frozen = dcli(own, "namespace", "freeze", "acme", "--wait")
    assert frozen.returncode == 0 and "FROZEN" in frozen.stdout
    assert "ACTIVE" in dcli(own, "namespace", "thaw", "acme").stdout
    assert dcli(own, "namespace", "delete", "acme").returncode == 2
    assert dcli(own, "namespace", "show", "acme").returncode == 0
    gone = dcli(own, "namespace", "delete", "acme", "--drain", "0s", "--yes", "--wait")
    assert gone.returncode == 0 and "DELETED" in gone.stdout, gone.stderr
    missing = dcli(own, "namespace", "show", "acme")
    assert missing.returncode == 1 and "acme" in missing.stderr


SCHEDULED = JOB + """
---
schedule: often
every: 1s
overlap: allow
start: {machine: job}
---
trigger: follow
on: {change: {kind: finished, machine: other}}
start: {machine: job}
---
id: other
nodes:
  work: {start: true, transitions: {ok: done}}
  done: {final: true}
"""


def test_schedules_and_triggers_rest_with_a_frozen_namespace(tmp_path):
    server = Server(tmp_path / "data", virtual_clock="2026-01-31T08:00:00Z").start()
    spaces = Spaces(server)
    space = server.space("acme")
    space.define(SCHEDULED)

    def count():
        return spaces.get("acme").usage.live_instances

    server.advance(by=3)
    first = count()
    assert first >= 3
    space.start("other", "o")
    request = v1.ReadyRequest(namespace="acme", machine="other", max_tasks=1)
    task = server.runner.Ready(request, timeout=CALL).tasks[0]
    spaces.FreezeNamespace(package.FreezeNamespaceRequest(name="acme"))
    server.advance(by=5)
    server.runner.Transition(v1.TransitionRequest(namespace="acme", instance="o",
                                                  claim=task.claim, transition="ok"), timeout=CALL)
    server.advance(by=1)
    assert count() == first
    spaces.FreezeNamespace(package.FreezeNamespaceRequest(name="acme", thaw=True))
    eventually(lambda: count() == first + 1, SOON)  # of the trigger, which hears of it now
    server.advance(by=2)
    assert count() == first + 3  # of the schedule nothing is made up for
    server.dispose()


def test_tokens_go_with_their_namespace(tmp_path):
    secret = tmp_path / "admin.token"
    secret.write_text("the-first-admin-of-this-test-server-0123456789")
    secret.chmod(0o600)
    server = Server(tmp_path / "data", "--auth", "tokens", "--admin-token-file",
                    str(secret)).start()

    def run(*words, token=secret):
        return dcli(server, *words, "--token-file", str(token))

    made = run("token", "create", "--role", "admin", "--namespace", "acme")
    assert made.returncode == 0, made.stderr
    own_token = tmp_path / "acme.token"
    own_token.write_text(made.stdout)
    assert run("namespace", "list", "-o", "name", token=own_token).stdout.split() == ["acme"]
    assert run("namespace", "set", "acme", "description=ours", token=own_token).returncode == 0
    for words in (["set", "acme", "live-instances=1"], ["create", "more"],
                  ["delete", "acme", "--yes"], ["show", "default"]):
        denied = run("namespace", *words, token=own_token)
        assert denied.returncode == 1 and "admin" in denied.stderr, denied.stderr
    gone = run("namespace", "delete", "acme", "--drain", "0s", "--yes", "--wait")
    assert gone.returncode == 0, gone.stderr
    refused_ = run("machines", "--namespace", "acme", token=own_token)
    assert refused_.returncode == 1 and "token" in refused_.stderr
    assert run("token", "list", "-o", "name").stdout.split() == []
    server.dispose()
