"""Who may do what: TLS, tokens and their roles, what is refused, and what is noted of it."""
import contextlib
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import time

import grpc
import pytest

from certificates import Authority
from stubs import (admin, admin_grpc, agent, original, original_grpc, package, schedule, v1, view,
                   v1_grpc)
from support import (CALL, DSRV, JOB, SOON, Cli, Server, Space, WorkStream, duration, eventually,
                     free_port, health, only, open_channel, refused, timestamp)

ROLE = admin.AccessToken.Role
ADMIN_SECRET = "the-first-admin-of-this-test-server-0123456789"
QUEUES = """\
id: queues
nodes:
  here: {start: true, queue: here, transitions: {on: there}}
  there: {queue: there, transitions: {ok: done}}
  done: {final: true}
"""


class Bearer(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor,
             grpc.StreamUnaryClientInterceptor, grpc.StreamStreamClientInterceptor):
    """Sends a token with every call."""

    def __init__(self, secret):
        self.metadata = (("authorization", f"Bearer {secret}"),)

    def _call(self, proceed, details, request):
        details = details._replace(metadata=(*(details.metadata or ()), *self.metadata))
        return proceed(details, request)

    intercept_unary_unary = intercept_unary_stream = _call
    intercept_stream_unary = intercept_stream_stream = _call


def with_token(channel, secret):
    return grpc.intercept_channel(channel, Bearer(secret)) if secret else channel


class Holder:
    """One who has a token, or none, and what it can call."""

    def __init__(self, server, secret="", token=None):
        self.server = server
        self.secret = secret
        self.token = token
        self.channel = with_token(server.channel, secret)
        self.runner = v1_grpc.RunnerServiceStub(self.channel)
        self.original = original_grpc.DistributedFSMRunnerStub(self.channel)
        self.tokens = admin_grpc.TokenServiceStub(self.channel)

    def space(self, name="default"):
        return Space(self.server, name, self.runner)

    def create(self, role, namespace="default", expires=None, **more):
        """Somebody with a new token, which this one makes."""
        request = admin.CreateTokenRequest(namespace=namespace, role=ROLE.Value(role.upper()),
                                           **more)
        if expires is not None:
            request.expire_time.CopyFrom(timestamp(expires))
        reply = self.tokens.CreateToken(request, timeout=CALL)
        return Holder(self.server, reply.secret, reply.token)

    def revoke(self, holder):
        return self.tokens.RevokeToken(admin.RevokeTokenRequest(id=holder.token.id), timeout=CALL)

    def list(self, **more):
        return list(self.tokens.ListTokens(admin.ListTokensRequest(**more), timeout=CALL).tokens)


def token_flags(folder, *flags):
    file = folder / "admin.token"
    file.write_text(ADMIN_SECRET + "\n")
    file.chmod(0o600)
    return ("--auth", "tokens", "--admin-token-file", file, *flags)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server that asks for tokens, without TLS."""
    folder = tmp_path_factory.mktemp("guarded")
    server = Server(folder / "data",
                    *map(str, token_flags(folder, "--audit-log", folder / "audit.log"))).start()
    server.audit = folder / "audit.log"
    yield server
    assert server.stop() == 0, server.log
    server.dispose()


@pytest.fixture
def root(guarded):
    return Holder(guarded, ADMIN_SECRET)


def audited(server, **wanted):
    lines = [json.loads(line) for line in server.audit.read_text().splitlines()]
    return [line for line in lines if wanted.items() <= line.items()]


# Every method, every role ---------------------------------------------------------------------

LOOK = {"viewer", "operator", "admin"}
WORK = {"worker", "operator", "admin"}
CHANGE = {"operator", "admin"}
ANY = LOOK | WORK
# Written down a second time, so that nobody changes the table of dsrv/calls/methods.h by mistake.
ALLOWED = {
    "dfsmr.v1.RunnerService": {
        "Define": CHANGE, "ListMachines": LOOK, "GetMachine": LOOK, "Start": WORK,
        "StartBatch": WORK, "ListInstances": LOOK, "GetInstance": ANY, "GetHistory": LOOK,
        "Ready": WORK, "Transition": WORK, "Report": WORK, "Relinquish": WORK, "Extend": WORK,
        "Work": WORK, "Pause": CHANGE, "Resume": CHANGE, "Skip": CHANGE, "Cancel": CHANGE,
        "Changes": LOOK},
    "dfsmr.v1.TokenService": {
        "CreateToken": {"admin"}, "ListTokens": {"admin"}, "RevokeToken": {"admin"},
        "GetCaller": ANY, "CreateSession": ANY},
    "dfsmr.v1.BackupService": {"Backup": {"admin"}},
    "dfsmr.v1.ScheduleService": {
        "GetClock": LOOK, "AdvanceClock": {"admin"}, "ListGroups": LOOK, "GetGroup": LOOK,
        "SetGroup": CHANGE, "ControlGroup": CHANGE,
        "ListTriggers": LOOK, "GetTrigger": LOOK, "FireTrigger": CHANGE,
        "ListSchedules": LOOK, "GetSchedule": LOOK, "PreviewSchedule": LOOK,
        "RunSchedule": CHANGE, "BackfillSchedule": CHANGE, "SetPaused": CHANGE,
        "ListOccurrences": LOOK, "RetryOccurrences": CHANGE, "DeleteDefinition": CHANGE},
    "dfsmr.v1.AgentService": {
        "Attach": WORK, "AppendLogs": WORK, "ReadLogs": LOOK, "ListAgents": LOOK,
        "GetAgent": LOOK, "DrainAgent": CHANGE, "EvictAgent": CHANGE, "ListOperations": LOOK},
    "dfsmr.v1.PackageService": {
        "PutPackage": CHANGE, "FetchPackage": ANY, "ListPackages": LOOK, "GetPackage": ANY,
        "ActivatePackage": CHANGE, "DeactivatePackage": CHANGE, "RemovePackage": CHANGE,
        "SignPackage": CHANGE, "AddTrustedKey": {"admin"}, "ListTrustedKeys": LOOK,
        "RevokeTrustedKey": {"admin"}},
    "dfsmr.v1.NamespaceService": {
        "CreateNamespace": {"admin"}, "ListNamespaces": LOOK, "GetNamespace": LOOK,
        "UpdateNamespace": {"admin"}, "FreezeNamespace": CHANGE, "DeleteNamespace": {"admin"},
        "ExportNamespace": {"admin"}, "ImportNamespace": {"admin"}},
    "dfsmr.v1.ViewService": {
        "GetOverview": LOOK, "CountInstances": LOOK, "ListSteps": LOOK, "GetStep": LOOK,
        "GetDurations": LOOK, "ListQueues": LOOK, "ListWorkers": LOOK, "Watch": LOOK},
    "dfsmr.v1.BulkService": {
        "StartBulk": CHANGE, "GetBulk": LOOK, "ListBulks": LOOK, "StopBulk": CHANGE},
    "dfsmr.v1.ClusterService": {"GetCluster": LOOK},
    "dfsmr.v1.SecretService": {
        "PutSecret": CHANGE, "ListSecrets": CHANGE, "DeleteSecret": CHANGE,
        "ResolveSecrets": {"worker"}},
    "DistributedFSMRunner": {
        "Define": CHANGE, "Start": WORK, "Ready": WORK, "Changes": LOOK, "Machines": LOOK,
        "Instances": LOOK, "Transition": CHANGE, "Relinquish": CHANGE},
}
# Those of gRPC itself, which answer everybody.
OPEN = {"grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"}
FILES = [v1.DESCRIPTOR, admin.DESCRIPTOR, schedule.DESCRIPTOR, agent.DESCRIPTOR,
         package.DESCRIPTOR, view.DESCRIPTOR, original.DESCRIPTOR]


def registered_services(channel):
    """What the server's reflection lists, by hand: there are no stubs for it."""
    call = channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                                 request_serializer=bytes, response_deserializer=bytes)
    reply = next(call(iter([b"\x3a\x00"]), timeout=CALL))
    return set(re.findall(rb"\x0a.([A-Za-z0-9_.]+)", reply[reply.index(b"\x32"):])), reply


def methods():
    """All there are; of ScheduleService and AgentService those that are built."""
    for file in FILES:
        for service in file.services_by_name.values():
            for method in service.methods:
                growing = file in (schedule.DESCRIPTOR, agent.DESCRIPTOR, package.DESCRIPTOR,
                                   view.DESCRIPTOR)
                if not growing or method.name in ALLOWED[service.full_name]:
                    yield method


def request_of(method):
    """One that would be let in, and does nothing."""
    request = method.input_type._concrete_class()
    fields = method.input_type.fields_by_name
    if "claim" in fields:  # without one it comes from outside
        request.claim = "1-1-1-1"
    if method.name == "Work":
        request.open.worker = "w"
    if method.name == "Attach":
        request.register.name, request.register.session = "h", "s"
        request.work.open.max_tasks = 1
    if method.name == "ImportNamespace":
        request.header.name = "default"
    if method.name == "Watch":
        request.topics.add().overview.SetInParent()
    if method.name == "PutPackage":
        request.header.digest, request.header.size = "sha256:" + "0" * 64, 1
    return request


def outcome(channel, method, request):
    """DENIED, UNKNOWN, or what else: then it was let in."""
    service = method.containing_service.full_name
    many_in = method.name in ("Work", "Attach", "AppendLogs")
    many_out = many_in or method.name in ("Changes", "ReadLogs", "FetchPackage", "Backup",
                                          "ExportNamespace")
    many_in = many_in or method.name in ("PutPackage", "ImportNamespace")
    make = {(False, False): channel.unary_unary, (False, True): channel.unary_stream,
            (True, False): channel.stream_unary, (True, True): channel.stream_stream}[
                many_in, many_out]
    call = make(f"/{service}/{method.name}", request_serializer=lambda one: one.SerializeToString(),
                response_deserializer=method.output_type._concrete_class.FromString)
    # The feed of the original says nothing before something happens, and never ends.
    timeout = 0.3 if service == "DistributedFSMRunner" and many_out else CALL
    try:
        reply = call(iter([request]) if many_in else request, timeout=timeout)
        if many_out:
            list(reply)
    except grpc.RpcError as error:
        return {grpc.StatusCode.PERMISSION_DENIED: "denied",
                grpc.StatusCode.UNAUTHENTICATED: "unknown"}.get(error.code(), "in")
    return "in"


def test_every_method_with_every_role(guarded, root):
    found, reply = registered_services(guarded.channel)
    assert {name.encode() for name in ALLOWED} <= found, reply
    assert found == {name.encode() for name in set(ALLOWED) | OPEN}, reply

    expired = root.create("admin", expires=time.time() + 0.2)
    revoked = root.create("admin")
    root.revoke(revoked)
    strangers = {
        "nobody": Holder(guarded), "a made up token": Holder(guarded, "dfsmr_" + "0" * 70),
        "revoked": revoked, "expired": expired}
    roles = {role: root.create(role) for role in ("viewer", "worker", "operator", "admin")}
    others = {role: root.create(role, "other") for role in roles}
    everywhere = {role: root.create(role, "*") for role in roles}
    eventually(lambda: outcome(expired.channel, first_method("GetCaller"),
                               admin.GetCallerRequest()) == "unknown")

    wrong = []
    for method in methods():
        name = f"{method.containing_service.full_name}/{method.name}"
        # A method that is not in the table above fails here: say who may call it.
        allowed = ALLOWED[method.containing_service.full_name][method.name]
        anywhere = method.name in ("GetCaller", "CreateSession", "ListTokens", "RevokeToken", "GetClock",
                                    "ListNamespaces")
        # These take an admin of all namespaces.
        nowhere = method.name in ("AdvanceClock", "CreateNamespace", "DeleteNamespace", "Backup")
        expected = [(who, holder, "unknown") for who, holder in strangers.items()]
        expected += [(who, holder, "in" if who in allowed and not nowhere else "denied")
                     for who, holder in roles.items()]
        expected += [(f"{who} of all namespaces", holder, "in" if who in allowed else "denied")
                     for who, holder in everywhere.items()]
        expected += [(f"{who} of another namespace", holder,
                      "in" if who in allowed and anywhere else "denied")
                     for who, holder in others.items()]
        for who, holder, wanted in expected:
            got = outcome(holder.channel, method, request_of(method))
            if got != wanted:
                wrong.append(f"{name} by {who}: {got} instead of {wanted}")
    assert wrong == []


def first_method(name):
    return next(method for method in methods() if method.name == name)


@pytest.mark.parametrize("name", ["Transition", "Relinquish"])
def test_what_comes_without_a_claim_is_for_operators(root, name):
    for role in ("viewer", "worker", "operator", "admin"):
        request = first_method(name).input_type._concrete_class()
        got = outcome(root.create(role).channel, first_method(name), request)
        assert got == ("in" if role in CHANGE else "denied"), role


def test_health_and_reflection_answer_everybody(guarded):
    assert health(guarded.channel) == "SERVING"
    assert registered_services(guarded.channel)[0]


def test_a_refusal_says_what_is_needed_and_not_what_there_is(guarded, root):
    space = root.space("leak")
    space.define(JOB)
    space.start("job", "there")
    worker = root.create("worker", "leak", machines=["other"]).space("leak")
    texts = set()
    for holder in (root.create("viewer", "leak"), root.create("operator", "elsewhere")):
        for id in ("there", "not-there"):
            with refused("PERMISSION_DENIED", "NOT_ALLOWED", "operator or admin", "'leak'") as box:
                holder.space("leak").cancel(id)
            texts.add((holder.secret, box[0].message))
    assert len(texts) == 2
    task = only(space.ready())
    denied = set()
    for id, claim in (("there", task.claim), ("there", "1-1-1-1"), ("not-there", task.claim)):
        with refused("PERMISSION_DENIED", "NOT_ALLOWED", "machine 'other'") as box:
            worker.transition(id, "ok", claim=claim)
        denied.add(box[0].message)
    for id in ("there", "not-there"):
        with refused("PERMISSION_DENIED", "NOT_ALLOWED") as box:
            worker.get(id)
        denied.add(box[0].message)
    assert len(denied) == 1
    texts = set()
    for secret in ("", "wrong", root.create("viewer", expires=time.time() + 0.05).secret):
        def asked(secret=secret):
            with refused("UNAUTHENTICATED", "BAD_TOKEN") as box:
                Holder(guarded, secret).space("leak").get("there")
            return box[0].message
        texts.add(eventually(asked))
    assert len(texts) == 1


# Namespaces -----------------------------------------------------------------------------------


def test_a_token_of_a_namespace_sees_nothing_of_another(root):
    for name in ("mine", "yours"):
        root.space(name).define(JOB)
        root.space(name).start("job", f"in-{name}")
    mine = root.create("operator", "mine")
    assert [one.id for one in mine.space("mine").instances().instances] == ["in-mine"]
    changes, _ = mine.space("mine").changes()
    assert {change.namespace for change in changes} == {"mine"}
    for ask in (lambda space: space.instances(), lambda space: space.changes(),
                lambda space: space.get("in-yours"), lambda space: space.ready()):
        with refused("PERMISSION_DENIED", "NOT_ALLOWED"):
            ask(mine.space("yours"))
    # Not by the items of a batch either: nothing of it is done.
    with refused("PERMISSION_DENIED", "NOT_ALLOWED"):
        mine.runner.StartBatch(v1.StartBatchRequest(starts=[
            v1.StartRequest(namespace="mine", machine="job", id="first"),
            v1.StartRequest(namespace="yours", machine="job", id="second")]), timeout=CALL)
    with refused("NOT_FOUND"):
        root.space("mine").get("first")
    with refused("PERMISSION_DENIED", "NOT_ALLOWED"):
        mine.runner.Report(v1.ReportRequest(next=v1.ReadyRequest(namespace="yours")), timeout=CALL)
    with WorkStream(mine.space("yours"), v1.ReadyRequest(namespace="yours")) as stream:
        assert stream.await_end() == "PERMISSION_DENIED"
    with WorkStream(mine.space("mine"), v1.ReadyRequest(namespace="mine")) as stream:
        stream.send(transitions=[v1.TransitionRequest(namespace="yours", instance="in-yours",
                                                      transition="ok")])
        assert stream.await_end() == "PERMISSION_DENIED"


# Workers of a machine or queue ----------------------------------------------------------------


def test_a_worker_of_a_machine_works_on_that_alone(root):
    space = root.space("machines")
    space.define(JOB)
    space.define(JOB.replace("id: job", "id: trade"))
    worker = root.create("worker", "machines", machines=["job"]).space("machines")
    stranger = root.create("worker", "machines", machines=["trade"]).space("machines")
    worker.start("job", "a")
    space.start("trade", "b")
    assert [task.instance for task in worker.ready(max_tasks=10)] == ["a"]  # asks for its own
    with refused("PERMISSION_DENIED", "NOT_ALLOWED", "'job'"):
        worker.ready(machine="trade")
    with refused("PERMISSION_DENIED", "NOT_ALLOWED"):
        worker.start("trade", "c")
    with refused("PERMISSION_DENIED", "NOT_ALLOWED"):
        worker.call("Start", v1.StartRequest(namespace="machines",
                                             flow="[{step: x, action: any}]"))
    space.relinquish("a")
    task = only(worker.ready())
    check_no_touching(stranger, task)
    assert worker.get("a").id == "a"
    assert worker.extend(task, 60).HasField("deadline")
    # A report starts what Start would.
    with refused("PERMISSION_DENIED", "NOT_ALLOWED", "starts[1]", "'job'"):
        worker.report(task, starts=[worker.start_request("job", "d"),
                                    worker.start_request("trade", "e")])
    with refused("PERMISSION_DENIED", "NOT_ALLOWED"):
        worker.report(task, starts=[v1.StartRequest(namespace="elsewhere", machine="job")])
    beside = worker.call("Report", v1.ReportRequest(
        starts=[worker.start_request("trade", "e"), worker.start_request("job", "a")])).started
    assert beside[0].error.reason == "NOT_ALLOWED" and not beside[1].started.created
    assert [one.id for one in worker.report(task, starts=[worker.start_request("job", "d")]).started] \
        == ["d"]
    with refused("NOT_FOUND", "NO_SUCH_INSTANCE"):
        space.get("e")
    space.cancel("d", "FORCE")
    # Too late is too late, as for everybody.
    with refused("FAILED_PRECONDITION", "STALE_CLAIM"):
        worker.report(task, "error")
    # One of several must say which.
    both = root.create("worker", "machines", machines=["job", "trade"]).space("machines")
    with refused("PERMISSION_DENIED", "NOT_ALLOWED", "by name"):
        both.ready()
    assert only(both.ready(machine="trade")).instance == "b"


def check_no_touching(space, task):
    """Refused is each way of doing something with a task that somebody holds."""
    report = v1.TransitionRequest(namespace=space.name, instance=task.instance, claim=task.claim,
                                  transition="ok")
    for act in (lambda: space.get(task.instance), lambda: space.call("Transition", report),
                lambda: space.relinquish(task.instance, task.claim)):
        with refused("PERMISSION_DENIED", "NOT_ALLOWED"):
            act()
    assert only(space.report_all([report]).results).error.reason == "NOT_ALLOWED"
    assert space.extend(task, 60).error.reason == "NOT_ALLOWED"
    with space.work(worker="w") as stream:
        stream.send(transitions=[report], extends=[v1.ExtendRequest.Item(
            instance=task.instance, claim=task.claim)], relinquishes=[v1.RelinquishRequest(
                instance=task.instance, claim=task.claim)])
        assert only(stream.await_results(1)).error.reason == "NOT_ALLOWED"
        assert stream.wait(lambda: stream.extended)
        assert only(stream.extended).error.reason == "NOT_ALLOWED"


def test_a_worker_of_a_queue_works_on_that_alone(root):
    space = root.space("queues")
    space.define(QUEUES)
    here = root.create("worker", "queues", queues=["here"]).space("queues")
    there = root.create("worker", "queues", queues=["there"]).space("queues")
    space.start("queues", "a")
    assert there.ready() == []
    task = only(here.ready())
    check_no_touching(there, task)
    here.report(task, "on")
    assert here.ready() == []
    with refused("PERMISSION_DENIED", "NOT_ALLOWED", "queue 'here'"):
        here.ready(queue="there")
    with refused("PERMISSION_DENIED", "NOT_ALLOWED"):
        here.get("a")  # it has gone on
    assert there.get("a").id == "a"
    with there.work(worker="w") as stream:
        task = only(stream.await_tasks(1))
        check_no_touching(here, task)
        assert stream.report(task)[0].HasField("accepted")


def test_a_worker_does_not_move_what_it_has_no_claim_for(root):
    space = root.space("claims")
    space.define(JOB)
    space.start("job", "a")
    worker = root.create("worker", "claims").space("claims")
    outside = v1.TransitionRequest(namespace="claims", instance="a", transition="ok")
    assert only(worker.report_all([outside]).results).error.reason == "NOT_ALLOWED"
    with worker.work(worker="w", machine="nothing") as stream:
        stream.send(transitions=[outside])
        assert only(stream.await_results(1)).error.reason == "NOT_ALLOWED"
    assert only(space.report_all([outside]).results).HasField("accepted")


# Tokens ---------------------------------------------------------------------------------------


def test_tokens_outlive_a_crash_and_their_secrets_are_nowhere(new_server, tmp_path):
    server = new_server(*map(str, token_flags(tmp_path))).start()
    root = Holder(server, ADMIN_SECRET)
    kept = root.create("operator", "shop", name="kept", expires=time.time() + 3600)
    gone = root.create("operator", "shop")
    root.revoke(gone)
    server.kill()
    server.start()
    found = only(Holder(server, ADMIN_SECRET).list())
    assert found == kept.token and found.name == "kept" and found.created_by == "admin-token-file"
    Holder(server, kept.secret).space("shop").instances()
    with refused("UNAUTHENTICATED"):
        Holder(server, gone.secret).space("shop").instances()
    assert server.stop() == 0
    for secret in (kept.secret, gone.secret, ADMIN_SECRET):
        for file in server.data.rglob("*"):
            assert not file.is_file() or secret.encode() not in file.read_bytes(), file
        assert secret not in server.log


def test_an_admin_of_a_namespace_manages_its_tokens_alone(root):
    ann = root.create("admin", "ann-s")
    bob = root.create("viewer", "bob-s")
    mine = ann.create("operator", "ann-s")
    assert {token.id for token in ann.list()} == {ann.token.id, mine.token.id}
    assert {bob.token.id, mine.token.id} <= {token.id for token in root.list()}
    assert [token.id for token in root.list(namespace="bob-s")] == [bob.token.id]
    for namespace in ("bob-s", "*", "default"):
        with refused("PERMISSION_DENIED", "NOT_ALLOWED"):
            ann.create("viewer", namespace)
    for id in (bob.token.id, "nonsense", "admin-token-file"):
        with refused("NOT_FOUND", "NO_SUCH_TOKEN", id):
            ann.tokens.RevokeToken(admin.RevokeTokenRequest(id=id), timeout=CALL)
    bob.space("bob-s").instances()
    assert ann.tokens.GetCaller(admin.GetCallerRequest(), timeout=CALL) == ann.token


@pytest.mark.parametrize("wrong, mention", [
    (dict(role=0), "roles"), (dict(role=99), "roles"), (dict(role=1, machines=["m"]), "worker"),
    (dict(role=2, machines=["a b"]), "a b"), (dict(role=1, namespace="a b"), "a b"),
    (dict(role=1, name="a\nb"), "name"), (dict(role=2, queues=["q"] * 101), "100"),
    (dict(role=1, expire_time=timestamp(1)), "passed")])
def test_what_a_token_cannot_be(root, wrong, mention):
    namespace = wrong.pop("namespace", "default")
    with refused(("INVALID_ARGUMENT", "PERMISSION_DENIED"), None, mention):
        root.tokens.CreateToken(admin.CreateTokenRequest(namespace=namespace, **wrong),
                                timeout=CALL)


@pytest.mark.timed
@pytest.mark.parametrize("kept", [{}, {"session": "s", "keep_for": duration(60)}],
                         ids=["alone", "session"])
@pytest.mark.parametrize("end", ["revoked", "expired"])
def test_what_a_token_has_open_ends_with_it(root, end, kept):
    space = root.space(f"open-{end}-{len(kept)}")
    space.define(JOB)
    space.start("job", "a")
    holder = root.create("operator", space.name,
                         expires=time.time() + 2 if end == "expired" else None)
    theirs = holder.space(space.name)
    poll = theirs.later("Ready", theirs.ready_request(machine="nothing", wait=60), timeout=60)
    with theirs.watch() as watch, theirs.work(worker="w", **kept) as work:
        watch.opened()
        task = only(work.await_tasks(1))
        began = time.monotonic()
        if end == "revoked":
            root.revoke(holder)
            with refused("UNAUTHENTICATED"):
                theirs.instances()
        assert watch.await_end() == "UNAUTHENTICATED"
        assert work.await_end() == "UNAUTHENTICATED"
        with refused("UNAUTHENTICATED", "BAD_TOKEN"):
            poll.result()
        assert time.monotonic() - began < (1.5 if end == "revoked" else 3.5)
    # What was in its hand is for others.
    assert only(space.ready(wait=SOON)).instance == task.instance


def test_the_admin_token_file_may_be_replaced(new_server, tmp_path):
    server = new_server(*map(str, token_flags(tmp_path))).start()
    old = Holder(server, ADMIN_SECRET)
    old.list()
    (tmp_path / "admin.token").write_text("another-one-" * 4)
    new = Holder(server, "another-one-" * 4)

    def serves_the_new_one():
        with contextlib.suppress(grpc.RpcError):
            return new.list() == []

    eventually(serves_the_new_one)
    with refused("UNAUTHENTICATED"):
        old.list()


def dsrv(*arguments):
    return subprocess.run([str(DSRV), *map(str, arguments)], capture_output=True, text=True,
                          timeout=CALL, stdin=subprocess.DEVNULL)


def test_without_any_admin_it_says_how_to_make_one(tmp_path):
    ended = dsrv("--data", tmp_path / "data", "--addr", "localhost:0", "--auth", "tokens")
    assert ended.returncode == 2 and "--admin-token-file" in ended.stderr
    for content in ("short", "two words of " + "x" * 40, ""):
        (tmp_path / "bad").write_text(content)
        ended = dsrv("--data", tmp_path / "data", "--addr", "localhost:0", "--auth", "tokens",
                     "--admin-token-file", tmp_path / "bad")
        assert ended.returncode == 2 and "openssl rand" in ended.stderr


def test_tokens_can_be_made_before_they_are_asked_for(new_server, tmp_path):
    flags = [str(flag) for flag in token_flags(tmp_path)][2:]  # without --auth tokens
    server = new_server(*flags).start()
    with refused("UNAUTHENTICATED"):
        Holder(server).list()  # but not by everybody
    later = Holder(server, ADMIN_SECRET).create("admin", "*")
    Holder(server).space().instances()
    Holder(server, "nonsense").space().instances()
    assert server.stop() == 0
    server.flags = ("--auth", "tokens")
    server.start()
    with refused("UNAUTHENTICATED"):
        Holder(server).space().instances()
    Holder(server, later.secret).space().instances()


# The port -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.mark.parametrize("addr", [":{}", "0.0.0.0:{}", "[::]:{}"])
def test_beyond_this_machine_it_wants_tls_and_tokens(tmp_path, authority, addr):
    cert, key = authority.sign("beyond")
    addr = addr.format(free_port())
    tls, tokens = ["--tls-cert", cert, "--tls-key", key], ["--auth", "tokens"]
    for flags, missing in (([], "--tls-cert FILE --tls-key FILE --auth tokens;"),
                           (tls, "add --auth tokens;"), (tokens, "add --tls-cert")):
        ended = dsrv("--data", tmp_path / "data", "--addr", addr, *flags)
        assert ended.returncode == 2
        assert missing in ended.stderr and "--insecure" in ended.stderr
    assert not (tmp_path / "data").exists()


def listens(server):
    """Whether it serves on every interface with these flags."""
    server.launch()
    try:
        eventually(lambda: "dsrv listens on" in server.log or server.process.poll() is not None)
        return server.process.poll() is None
    finally:
        server.dispose()


def test_beyond_this_machine_it_serves_with_tls_and_tokens_or_when_told_to(tmp_path, authority):
    cert, key = map(str, authority.sign("served"))
    tokens = [str(flag) for flag in token_flags(tmp_path)]
    for flags in (["--insecure"], ["--tls-cert", cert, "--tls-key", key, *tokens]):
        server = Server(tmp_path / "data", *flags)
        server.address = f":{server.port}"
        assert listens(server), flags


@pytest.mark.parametrize("files, mention", [
    (["--tls-cert", "CERT"], "--tls-key"), (["--tls-key", "KEY"], "--tls-cert"),
    (["--tls-cert", "CERT", "--tls-key", "OTHER"], "is not the key"),
    (["--tls-cert", "KEY", "--tls-key", "KEY"], "no certificate"),
    (["--tls-cert", "CERT", "--tls-key", "/no/such"], "cannot be read"),
    (["--tls-cert", "CERT", "--tls-key", "KEY", "--tls-client-ca", "KEY"], "no certificate"),
    (["--tls-client-ca", "CERT"], "--tls-cert")])
def test_bad_tls_files_are_told_at_once(tmp_path, authority, files, mention):
    cert, key = authority.sign("one")
    _, other = authority.sign("two")
    names = {"CERT": cert, "KEY": key, "OTHER": other}
    ended = dsrv("--data", tmp_path / "data", "--addr", "localhost:0",
                 *[names.get(word, word) for word in files])
    assert ended.returncode == 2 and mention in ended.stderr


def serial(port, authority, identity=None):
    """Of the certificate that a new connection is served; None when it is refused."""
    context = ssl.create_default_context(cafile=authority.cert)
    if identity:
        context.load_cert_chain(*identity)
    context.set_alpn_protocols(["h2"])
    try:
        with socket.create_connection(("127.0.0.1", port), CALL) as plain, \
                context.wrap_socket(plain, server_hostname="localhost") as secure:
            found = secure.getpeercert()["serialNumber"]
            secure.settimeout(CALL)
            return found if secure.recv(1) else None  # TLS 1.3 refuses after the handshake
    except (ssl.SSLError, ConnectionError):
        return None


def secure_channel(server, authority, identity=None, secret=""):
    cert, key = (file.read_bytes() for file in identity) if identity else (None, None)
    credentials = grpc.ssl_channel_credentials(authority.cert.read_bytes(), key, cert)
    channel = grpc.secure_channel(f"localhost:{server.port}", credentials, options=[
        ("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)])
    return with_token(channel, secret)


def start_secure(server):
    server.launch()
    eventually(lambda: "dsrv listens on" in server.log or server.process.poll() is not None)
    assert server.process.poll() is None, server.log
    return server


def test_a_new_certificate_is_served_without_a_restart(new_server, tmp_path, authority):
    files = tmp_path / "cert.pem", tmp_path / "key.pem"

    def install(name):
        for source, file in zip(authority.sign(name), files):
            fresh = file.with_suffix(".new")
            fresh.write_bytes(source.read_bytes())
            os.replace(fresh, file)

    install("first")
    server = start_secure(new_server("--tls-cert", str(files[0]), "--tls-key", str(files[1])))
    first = eventually(lambda: serial(server.port, authority))
    with secure_channel(server, authority) as channel:
        runner = v1_grpc.RunnerServiceStub(channel)
        runner.ListInstances(v1.ListInstancesRequest(), timeout=CALL)
        process = server.process.pid
        install("second")
        eventually(lambda: serial(server.port, authority) not in (None, first))
        runner.ListInstances(v1.ListInstancesRequest(), timeout=CALL)  # connections go on
        assert server.process.pid == process
        eventually(lambda: "changed files are served" in server.log)
        # A key of another certificate is told, loudly.
        files[1].write_bytes(authority.sign("third")[1].read_bytes())
        eventually(lambda: "is not the key" in server.log)
    # Nobody gets in without TLS.
    with open_channel(server.address) as plain, pytest.raises(grpc.RpcError):
        v1_grpc.RunnerServiceStub(plain).ListInstances(v1.ListInstancesRequest(), timeout=2)


def test_mutual_tls_wants_a_certificate_of_the_right_authority(new_server, tmp_path, authority):
    clients = Authority(tmp_path / "clients", "clients")
    cert, key = authority.sign("mutual")
    ann, mallory = clients.sign("ann"), authority.sign("mallory")
    audit = tmp_path / "audit.log"
    server = start_secure(new_server(
        "--tls-cert", str(cert), "--tls-key", str(key), "--tls-client-ca", str(clients.cert),
        *map(str, token_flags(tmp_path, "--audit-log", audit))))
    server.audit = audit
    eventually(lambda: serial(server.port, authority, ann))
    for identity in (None, mallory):
        with secure_channel(server, authority, identity, ADMIN_SECRET) as channel:
            with refused("UNAVAILABLE"):
                v1_grpc.RunnerServiceStub(channel).ListInstances(v1.ListInstancesRequest(),
                                                                 timeout=CALL)
    with secure_channel(server, authority, ann, ADMIN_SECRET) as channel:
        v1_grpc.RunnerServiceStub(channel).Define(v1.DefineRequest(source=JOB), timeout=CALL)
    assert only(audited(server, event="changed"))["certificate"] == "ann"
    # And a token, too: a certificate says who may connect, a token who may do what.
    with secure_channel(server, authority, ann) as channel, refused("UNAUTHENTICATED"):
        v1_grpc.RunnerServiceStub(channel).ListInstances(v1.ListInstancesRequest(), timeout=CALL)

    dcli = Cli(f"localhost:{server.port}", "default")
    tls = ["--tls-ca", authority.cert, "--tls-cert", ann[0], "--tls-key", ann[1]]
    assert "job" in dcli.ok("--token-file", tmp_path / "admin.token", *tls, "machines")
    assert "job" in dcli.ok("machines", environment={
        "DFSMR_TOKEN": ADMIN_SECRET, "DFSMR_TLS_CA": str(authority.cert),
        "DFSMR_TLS_CERT": str(ann[0]), "DFSMR_TLS_KEY": str(ann[1])})
    assert dcli("--tls-ca", clients.cert, "--token-file", tmp_path / "admin.token",
                "machines").returncode == 3


# The audit trail ------------------------------------------------------------------------------


def test_every_change_by_hand_is_in_the_audit_trail(guarded, root):
    ann = root.create("operator", "audit", name="ann")
    worker = root.create("worker", "audit").space("audit")
    space = ann.space("audit")
    space.define(JOB)
    for id in ("a", "b"):
        space.start("job", id)
    space.pause("a")
    space.resume("a")
    with refused("FAILED_PRECONDITION"):
        space.skip("a")
    space.cancel("a", "FORCE")
    space.transition("b", "ok")
    worker.start("job", "c")
    worker.report(only(worker.ready()), starts=[worker.start_request("job", "d")])
    task = only(space.ready())
    space.report(task, starts=[space.start_request("job", "e")])
    space.call("Report", v1.ReportRequest(starts=[space.start_request("job", "f"),
                                                  space.start_request("nowhere")]))
    root.revoke(ann)

    lines = audited(guarded, token=ann.token.id)
    what = [(line["method"].split("/")[1], line.get("on"), line["result"]) for line in lines]
    assert what == [
        ("Define", "job", "OK"), ("Start", "a", "OK"), ("Start", "b", "OK"), ("Pause", "a", "OK"),
        ("Resume", "a", "OK"), ("Skip", "a", lines[5]["result"]), ("Cancel", "a", "OK"),
        ("Transition without a claim", "b", "OK"), ("Transition", "d", "OK"),
        ("Report", "f", "OK"), ("Report", "nowhere", "NO_SUCH_MACHINE")]
    assert lines[5]["result"] in ("NOT_HELD", "INSTANCE_STOPPED", "ILLEGAL_TRANSITION")
    assert lines[6]["detail"] == "FORCE" and lines[7]["detail"] == "ok"
    assert lines[8]["detail"] == "ok start:e" and lines[9]["detail"] == "job"
    for line in lines:
        assert line["event"] == "changed" and line["namespace"] == "audit"
        assert line["name"] == "ann" and line["role"] == "operator"
        assert line["peer"].startswith("ipv4:127.0.0.1:")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])
    tokens = audited(guarded, token="admin-token-file", on=ann.token.id)
    assert [line["method"].split("/")[1] for line in tokens] == ["CreateToken", "RevokeToken"]
    assert tokens[0]["detail"] == "operator in audit for ann"
    assert "secret" not in guarded.audit.read_text()
    worked = audited(guarded, role="worker", event="changed")  # what workers do is in the feed
    assert {line["method"].split("/")[1] for line in worked} <= {"CreateSession"}


def test_every_refusal_is_in_the_audit_trail_but_a_flood_is_a_number(new_server, tmp_path):
    server = new_server(*map(str, token_flags(tmp_path, "--audit-log",
                                              tmp_path / "audit.log"))).start()
    server.audit = tmp_path / "audit.log"
    viewer = Holder(server, ADMIN_SECRET).create("viewer")
    with refused("PERMISSION_DENIED"):
        viewer.space().cancel("a")
    with refused("UNAUTHENTICATED"):
        Holder(server).space("x" * 100).cancel("a")
    denied, unknown = audited(server, event="refused")
    assert (denied["method"], denied["token"], denied["result"]) == (
        "dfsmr.v1.RunnerService/Cancel", viewer.token.id, "NOT_ALLOWED")
    assert unknown["result"] == "BAD_TOKEN" and "token" not in unknown
    for _ in range(300):
        with contextlib.suppress(grpc.RpcError):
            viewer.space().pause("a")
    assert len(audited(server, event="refused")) < 120

    def told():
        with contextlib.suppress(grpc.RpcError):
            viewer.space().pause("a")
        return [line for line in audited(server, event="refused") if "refusals_left_out" in line]

    assert eventually(told)


def test_the_log_takes_the_audit_trail_where_there_is_no_file_for_it(new_server, tmp_path):
    server = new_server(*map(str, token_flags(tmp_path)), "--log-format", "json").start()
    Holder(server, ADMIN_SECRET).space().define(JOB)
    with refused("UNAUTHENTICATED"):
        Holder(server).space().instances()
    messages = [json.loads(line)["message"] for line in server.log.splitlines()]
    assert only([m for m in messages if m.startswith("audit: changed")]).startswith(
        "audit: changed method=dfsmr.v1.RunnerService/Define namespace=default on=job "
        "token=admin-token-file")
    assert only([m for m in messages if m.startswith("audit: refused")])


def test_nothing_is_changed_by_hand_while_the_audit_trail_cannot_be_written(new_server, tmp_path):
    audit = tmp_path / "audit.log"
    audit.symlink_to("/dev/full")
    server = new_server(*map(str, token_flags(tmp_path, "--audit-log", audit))).start()
    root = Holder(server, ADMIN_SECRET)
    root.space().define(JOB)  # it is found out by this one, whose line is in the log
    assert "audit: changed" in server.log and "cannot be written" in server.log
    with refused("UNAVAILABLE", "AUDIT_FAILED"):
        root.space().start("job", "a")
    with refused("UNAVAILABLE", "AUDIT_FAILED"):
        root.create("viewer")
    assert len(root.space().instances().instances) == 0  # looking is allowed, and so is work
    assert root.space().ready() == []
    audit.unlink()

    def starts():
        with contextlib.suppress(grpc.RpcError):
            return root.space().start("job", "a") == "a"

    eventually(starts)
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    assert [line["event"] for line in lines] == ["resumed", "changed"]


def test_changes_are_audited_without_tokens_too(new_server, tmp_path):
    audit = tmp_path / "audit.log"
    server = new_server("--audit-log", str(audit)).start()
    server.audit = audit
    server.space("default").define(JOB)
    line = only(audited(server))
    assert (line["on"], line["result"]) == ("job", "OK") and "token" not in line


# dcli -----------------------------------------------------------------------------------------


def test_dcli_makes_lists_and_revokes_tokens(guarded, tmp_path):
    dcli = Cli(guarded.address, "cli")
    first = tmp_path / "first.token"
    first.write_text(ADMIN_SECRET)
    made = dcli("token", "create", "--role", "worker", "--machine", "job", "--expires", "+1h",
                "--name", "crawlers", "--token-file", first)
    assert made.returncode == 0
    secret = made.stdout.strip()
    assert re.fullmatch(r"dfsmr_[0-9a-f]{12}_[0-9a-f]{64}", secret)
    id = secret.split("_")[1]
    assert id in made.stderr and secret not in made.stderr
    (tmp_path / "worker.token").write_text(made.stdout)

    header, line = dcli.ok("token", "list", "--token-file", first).splitlines()
    assert re.match(rf"{id}  worker  cli +job +- .* admin-token-file .* crawlers", line), line
    assert header.split()[:3] == ["ID", "ROLE", "NAMESPACE"]
    whoami = dcli.json("token", "whoami", environment={"DFSMR_TOKEN": secret})
    assert whoami["role"] == "WORKER" and whoami["machines"] == ["job"]
    denied = dcli("machines", "--token-file", tmp_path / "worker.token")
    assert denied.returncode == 1
    assert "NOT_ALLOWED" in denied.stderr and "dcli token whoami" in denied.stderr
    unknown = dcli("machines")
    assert unknown.returncode == 1 and "BAD_TOKEN" in unknown.stderr

    assert id in dcli.ok("token", "revoke", id, "--token-file", first)
    assert "BAD_TOKEN" in dcli("ready", environment={"DFSMR_TOKEN": secret}).stderr
    assert dcli("token", "revoke", id, "--token-file", first).returncode == 1
    assert dcli.ok("token", "list", "--token-file", first, "-o", "name") == ""


def test_dcli_work_goes_on_with_a_token_that_is_replaced(guarded, root, tmp_path):
    space = root.space("replaced")
    space.define(JOB)
    file = tmp_path / "token"
    old = root.create("worker", "replaced")
    file.write_text(old.secret)
    worker = Cli(guarded.address, "replaced").background(
        "work", "job", "--token-file", file, "--", "true",
        environment={"no_proxy": "127.0.0.1"})
    try:
        space.start("job", "a")
        space.ends("a", "SUCCESS")
        file.write_text(root.create("worker", "replaced").secret)
        root.revoke(old)
        space.start("job", "b")
        space.ends("b", "SUCCESS")
    finally:
        worker.send_signal(signal.SIGINT)
        out, err = worker.communicate(timeout=CALL)
        assert worker.returncode == 0, err


@pytest.mark.parametrize("arguments", [
    ["token", "create"], ["token", "create", "--role", "boss"], ["token", "revoke"],
    ["token", "destroy"], ["token", "list", "x"], ["--token-file", "/no/such", "machines"],
    ["--tls-ca", "/no/such", "machines"], ["--tls-cert", "/etc/hostname", "machines"]])
def test_dcli_says_what_is_wrong_with_the_command_line(guarded, arguments):
    assert Cli(guarded.address, "cli")(*arguments).returncode == 2


def test_dcli_does_not_send_a_token_in_the_clear(guarded):
    dcli = Cli("192.0.2.1:3004", "cli")
    ended = dcli("machines", environment={"DFSMR_TOKEN": "x" * 40})
    assert ended.returncode == 2 and "--tls-ca" in ended.stderr and "--insecure" in ended.stderr
    assert dcli("--timeout", "200ms", "--insecure", "machines",
                environment={"DFSMR_TOKEN": "x" * 40}).returncode == 3
