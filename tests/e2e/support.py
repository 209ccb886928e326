"""What the tests share: a real dsrv process, a namespace to work in, and how to ask for errors."""
import atexit
import contextlib
import functools
import itertools
import json
import os
import pathlib
import queue
import random
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from stubs import (REPOSITORY, cluster_grpc, original_grpc, schedule, schedule_grpc, v1, v1_grpc, view,
                   view_grpc)

BIN = pathlib.Path(os.environ.get("DFSMR_BIN") or REPOSITORY / "build" / "bin").resolve()
DSRV = BIN / "dsrv"
DCLI = BIN / "dcli"

CALL = 10.0  # seconds a call may take before the test fails
MACHINES = REPOSITORY / "machines"
# Of a consumer: it finds dcli, and reaches this machine without a proxy.
CONSUMER = {"PATH": f"{BIN}:{os.environ['PATH']}", "no_proxy": "127.0.0.1"}
SOON = 5.0   # seconds within which what must happen has happened

# Machines that many tests use -----------------------------------------------------------------

JOB = """\
id: job
nodes:
  work: {start: true, transitions: {ok: done, error: failed}}
  done: {final: true}
  failed: {final: true, result: error}
"""
PAIR = """\
id: pair
nodes:
  first: {start: true, transitions: {ok: second, error: failed}}
  second: {transitions: {ok: done, back: first}}
  done: {final: true}
  failed: {final: true, result: error}
"""
ONCE = """\
id: once
nodes:
  work: {start: true, timeout: 0.0, transitions: {ok: done, error: failed}}
  done: {final: true}
  failed: {final: true, result: error}
"""
HASTY = """\
id: hasty
nodes:
  work: {start: true, timeout_strategy: fixed, timeout: 0.3, transitions: {ok: done, error: failed}}
  done: {final: true}
  failed: {final: true, result: error}
"""
LOOP = """\
id: loop
nodes:
  turn: {start: true, timeout_strategy: fixed, timeout: 60.0, transitions: {again: turn, ok: done}}
  done: {final: true}
"""

# Values ---------------------------------------------------------------------------------------


def as_json(value):
    """The text of a JSON object: of a dict, or as it stands."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def from_json(text):
    """The object in a field documented as a JSON object, where empty means {}."""
    return json.loads(text) if text else {}


def duration(seconds):
    result = Duration()
    result.FromNanoseconds(round(seconds * 1e9))
    return result


def timestamp(seconds):
    result = Timestamp()
    result.FromNanoseconds(round(seconds * 1e9))
    return result


def seconds(value):
    """A Timestamp or Duration as a float."""
    return value.seconds + value.nanos / 1e9


def now():
    return time.time()


def kind(change):
    return v1.Change.Kind.Name(change.kind)


def state(instance):
    return v1.Instance.State.Name(instance.state)


def result(instance):
    return v1.Instance.Result.Name(instance.result)


def token_state(token):
    return v1.Token.State.Name(token.state)


def step_state(step):
    return v1.Step.State.Name(step.state)


def finalize_state(step):
    return v1.Step.State.Name(step.finalize)


def outputs(instance):
    """What its nodes or steps have put out, parsed."""
    return {node: json.loads(text) for node, text in instance.outputs.items()}


def input_of(task):
    """The input of a plan's step, or the params of a node, parsed."""
    return from_json(task.node_params)


def only(items):
    assert len(items) == 1, f"one expected: {list(items)}"
    return items[0]


def eventually(check, within=SOON):
    """Asks until `check()` is true (or no longer fails an assertion), and returns what it gave."""
    deadline = time.monotonic() + within
    pause = threading.Event()
    while True:
        try:
            value, failure = check(), None
        except AssertionError as error:
            value, failure = None, error
        if value and failure is None:
            return value
        if time.monotonic() > deadline:
            if failure is not None:
                raise failure
            raise AssertionError(f"not within {within} s")
        pause.wait(0.02)


def together(*functions):
    """Runs all of them at the same moment; returns what each returned or raised, in order."""
    barrier = threading.Barrier(len(functions))
    outcomes = [None] * len(functions)

    def run(index, function):
        barrier.wait()
        try:
            outcomes[index] = function()
        except Exception as error:  # handed to the test, which looks at it
            outcomes[index] = error

    threads = [threading.Thread(target=run, args=item, daemon=True)
               for item in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a call never returned"
    return outcomes


# Errors ---------------------------------------------------------------------------------------


class Refusal:
    """What a refused call was told."""

    def __init__(self, error):
        self.code = error.code().name
        self.message = error.details() or ""
        trailers = error.trailing_metadata() or ()
        self.trailers = {entry.key: entry.value for entry in trailers}
        self.reason = self.trailers.get("dfsmr-reason", "")
        diagnostics = self.trailers.get("dfsmr-diagnostics-bin")
        self.diagnostics = (v1.DefineResponse.FromString(diagnostics).diagnostics
                            if diagnostics is not None else None)

    def __str__(self):
        return f"{self.code} {self.reason}: {self.message}"


def _among(value, wanted):
    return value in ((wanted,) if isinstance(wanted, str) else wanted)


def check_refusal(refusal, code, reason=None, *mentions):
    assert _among(refusal.code, code), f"{code} expected, got {refusal}"
    if reason is not None:
        assert _among(refusal.reason, reason), f"{reason} expected, got {refusal}"
    for mention in mentions:
        assert mention in refusal.message, f"{mention!r} is not named: {refusal}"


@contextlib.contextmanager
def refused(code, reason=None, *mentions):
    """The call inside must be refused with that code and reason, in a message that names those."""
    box = []
    with pytest.raises(grpc.RpcError) as caught:
        yield box
    refusal = Refusal(caught.value)
    box.append(refusal)
    check_refusal(refusal, code, reason, *mentions)


def check_error(error, code, reason, *mentions):
    """The same for an Error inside a reply."""
    codes = (code,) if isinstance(code, str) else code
    assert error.code in [grpc.StatusCode[name].value[0] for name in codes], error
    assert _among(error.reason, reason), error
    for mention in mentions:
        assert mention in error.message, error


# A server -------------------------------------------------------------------------------------


def ports_of_this_process():
    """Below those that the kernel gives to clients; apart for each process that runs tests, since a
    server that starts again takes the port that it had."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = 10_000 + worker * 2_500
    return itertools.cycle(random.sample(range(first, first + 2_500), 2_500))


PORTS = ports_of_this_process()


def free_port():
    for port in PORTS:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def accepts_connections(port):
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def health(channel, service="", timeout=CALL, wait_for_ready=True):
    """grpc.health.v1.Health/Check by hand: SERVING is field 1 = 1 of the reply."""
    name = service.encode()
    request = bytes([0x0A, len(name)]) + name if name else b""
    check = channel.unary_unary("/grpc.health.v1.Health/Check",
                                request_serializer=lambda message: message,
                                response_deserializer=lambda message: message)
    reply = check(request, timeout=timeout, wait_for_ready=wait_for_ready)
    return {b"": "UNKNOWN", b"\x08\x01": "SERVING", b"\x08\x02": "NOT_SERVING"}[reply]


def open_channel(address):
    return grpc.insecure_channel(address, options=[
        ("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)])


# DFSMR_STORE=postgres: servers keep their stores in one PostgreSQL, each "data directory" in a
# schema of its own, but for those whose flags take a directory.
OF_A_DIRECTORY = ("--data", "--cache-mb", "--memtable-mb", "--verify", "--min-free-mb", "--backup",
                  "--restore", "--virtual-clock")
_schemas = {}


@functools.cache
def shared_postgres():
    import postgres  # needs the package

    server = postgres.Postgres("fsync = on")
    atexit.register(server.dispose)
    return server


def place_of(data, flags):
    """The flags that say where a store is."""
    if not data:
        return []
    in_postgres = os.environ.get("DFSMR_STORE") == "postgres"
    if not in_postgres or any(str(flag).startswith(OF_A_DIRECTORY) for flag in flags):
        return ["--data", str(data)]
    schema = _schemas.setdefault(str(data), f"e2e{len(_schemas) + 1}")
    return ["--store", shared_postgres().url(), "--store-schema", schema,
            "--partitions", os.environ.get("DFSMR_PARTITIONS", "1")]


class Server:
    """One dsrv process after the other on the same data directory and port."""
    all = []

    def __init__(self, data, *flags, port=None, environment=None, limits=None,
                 virtual_clock=None):
        """`data`: None for a server whose store is elsewhere. `virtual_clock`: the time at which the
        server's clock stands until `advance`."""
        self.data = pathlib.Path(data) if data else None
        self.flags = flags + (("--virtual-clock", virtual_clock) if virtual_clock else ())
        self.port = port or free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.environment = environment
        self.limits = limits
        self.log_path = pathlib.Path(tempfile.mkstemp(prefix="dsrv-", suffix=".log")[1])
        self.process = None
        self.channel = None
        Server.all.append(self)

    @property
    def log(self):
        return self.log_path.read_text(errors="replace")

    def launch(self):
        """Starts the process and does not wait for it."""
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [str(DSRV), "--addr", self.address, *place_of(self.data, self.flags),
                 *self.flags],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, **(self.environment or {})}, preexec_fn=self.limits,
                restore_signals=self.limits is None)
        return self

    def start(self, within=20.0):
        self.launch()

        def listening():
            if self.process.poll() is not None:
                pytest.fail(f"dsrv ended with {self.process.returncode} instead of serving:\n"
                            f"{self.log}")
            return accepts_connections(self.port)

        eventually(listening, within)
        self.channel = open_channel(self.address)
        self.runner = v1_grpc.RunnerServiceStub(self.channel)
        self.original = original_grpc.DistributedFSMRunnerStub(self.channel)
        self.schedules = schedule_grpc.ScheduleServiceStub(self.channel)
        self.views = view_grpc.ViewServiceStub(self.channel)
        self.bulks = view_grpc.BulkServiceStub(self.channel)
        self.clusters = cluster_grpc.ClusterServiceStub(self.channel)
        eventually(lambda: health(self.channel) == "SERVING", within)
        return self

    def clock(self):
        return self.schedules.GetClock(schedule.GetClockRequest(), timeout=CALL)

    def time(self):
        """Of the server, in seconds."""
        return seconds(self.clock().time)

    def advance(self, by=None, to=None, timeout=120.0):
        """Has a virtual clock advance by or to so many seconds; without either to what is due next.
        """
        request = schedule.AdvanceClockRequest(to_next=by is None and to is None)
        if by is not None:
            request.by.CopyFrom(duration(by))
        if to is not None:
            request.to.CopyFrom(timestamp(to))
        return self.schedules.AdvanceClock(request, timeout=timeout)

    def kill(self):
        """kill -9."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(SOON)
        self.hang_up()

    def terminate(self):
        """SIGTERM, without waiting."""
        self.process.send_signal(signal.SIGTERM)

    def exit_status(self, within=20.0):
        try:
            return self.process.wait(within)
        except subprocess.TimeoutExpired:
            pytest.fail(f"dsrv did not end within {within} s:\n{self.log}")

    def stop(self):
        self.terminate()
        status = self.exit_status()
        self.hang_up()
        return status

    def restart(self):
        """Ends it (by SIGTERM where it still runs) and starts it again on the same directory."""
        if self.process.poll() is None:
            assert self.stop() == 0
        return self.start()

    def hang_up(self):
        if self.channel is not None:
            self.channel.close()
            self.channel = None

    def dispose(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(SOON)
        self.hang_up()
        self.log_path.unlink(missing_ok=True)
        if self in Server.all:
            Server.all.remove(self)

    def space(self, name):
        return Space(self, name)


def retention_flags(period):
    """The flags of dsrv that say how long things are kept, all set to `period`."""
    help = subprocess.run([str(DSRV), "--help"], capture_output=True, text=True, timeout=CALL)
    names = sorted(set(re.findall(r"--[a-z-]*retention[a-z-]*", help.stdout + help.stderr)))
    assert names, "dsrv --help lists no flag for the retention"
    return [word for name in names for word in (name, period)]


# A namespace ----------------------------------------------------------------------------------

_numbers = itertools.count(1)


def fresh_name(words):
    return re.sub(r"[^A-Za-z0-9]+", "-", words).strip("-")[:90] + f"-{next(_numbers)}"


class Space:
    """A namespace of a server, and the calls that a test makes in it."""

    def __init__(self, server, name, runner=None):
        self.server = server
        self.name = name
        self.runner_of = runner

    @property
    def runner(self):
        return self.runner_of or self.server.runner

    def call(self, method, request, timeout=CALL):
        return getattr(self.runner, method)(request, timeout=timeout)

    def later(self, method, request, timeout=CALL):
        """The call as a future, to be cancelled or waited for."""
        return getattr(self.runner, method).future(request, timeout=timeout)

    # Machines

    def define(self, source, **more):
        return self.call("Define", v1.DefineRequest(namespace=self.name, source=source, **more))

    def machine(self, id, version=0):
        return self.call("GetMachine",
                         v1.GetMachineRequest(namespace=self.name, id=id, version=version))

    def node(self, machine, node, version=0):
        return only([n for n in self.machine(machine, version).nodes if n.id == node])

    def machines(self, **more):
        return self.call("ListMachines", v1.ListMachinesRequest(namespace=self.name, **more))

    # Instances

    def start_request(self, machine, id="", params=None, start_at=None, start_before=None, **more):
        request = v1.StartRequest(namespace=self.name, machine=machine, id=id,
                                  params=as_json(params), **more)
        if start_at is not None:
            request.start_at.CopyFrom(timestamp(start_at))
        if start_before is not None:
            request.start_before.CopyFrom(timestamp(start_before))
        return request

    def begin(self, machine, id="", params=None, **more):
        """Start's whole reply."""
        return self.call("Start", self.start_request(machine, id, params, **more))

    def start(self, machine, id="", params=None, **more):
        """Starts an instance and returns its id."""
        return self.begin(machine, id, params, **more).instance.id

    def start_many(self, machine, count, **more):
        """Starts them in batches and returns their ids, in order of start."""
        ids = []
        while len(ids) < count:
            size = min(1000, count - len(ids))
            reply = self.call("StartBatch", v1.StartBatchRequest(
                starts=[self.start_request(machine, **more) for _ in range(size)]), timeout=30)
            assert not any(item.HasField("error") for item in reply.results), reply.results[0]
            ids += [item.started.instance.id for item in reply.results]
        return ids

    def get(self, id, with_nodes=False):
        return self.call("GetInstance", v1.GetInstanceRequest(
            namespace=self.name, id=id, with_nodes=with_nodes))

    def token(self, id):
        return only(self.get(id).tokens)

    def instances(self, **more):
        return self.call("ListInstances", v1.ListInstancesRequest(namespace=self.name, **more))

    def history(self, id):
        """All of it, page by page."""
        changes, token = [], ""
        while True:
            page = self.call("GetHistory", v1.GetHistoryRequest(
                namespace=self.name, id=id, page_token=token))
            changes += page.changes
            token = page.next_page_token
            if not token:
                return changes

    def story(self, id):
        """The kinds of its changes, but claims, which may come a second late."""
        return [kind(change) for change in self.history(id) if kind(change) != "CLAIMED"]

    def walk(self, id):
        """The nodes that it went through, as (prev_node, transition, node)."""
        return [(change.prev_node, change.transition, change.node) for change in self.history(id)
                if kind(change) == "TRANSITIONED"]

    # Work

    def ready_request(self, machine="", node="", wait=0.0, **more):
        request = v1.ReadyRequest(namespace=self.name, machine=machine, node=node, **more)
        if wait:
            request.wait.CopyFrom(duration(wait))
        return request

    def ready(self, machine="", node="", wait=0.0, **more):
        request = self.ready_request(machine, node, wait, **more)
        return list(self.call("Ready", request, timeout=CALL + max(wait, 0)).tasks)

    def take(self, machine="", node="", **more):
        """The one task that is there, or is about to be."""
        return only(self.ready(machine, node, wait=SOON, **more))

    def transition_request(self, instance, transition, node_params=None, output=None, **more):
        return v1.TransitionRequest(namespace=self.name, instance=instance, transition=transition,
                                    node_params=as_json(node_params), output=as_json(output),
                                    **more)

    def transition(self, instance, transition, **more):
        """From outside: without a claim."""
        return self.call("Transition", self.transition_request(instance, transition, **more))

    def report_request(self, task, transition="ok", **more):
        return self.transition_request(task.instance, transition, claim=task.claim, **more)

    def report(self, task, transition="ok", **more):
        """A worker's report, by Transition."""
        return self.call("Transition", self.report_request(task, transition, **more))

    def report_all(self, reports, **next):
        """Report: a list of TransitionRequests, and the next tasks when `next` asks for them."""
        request = v1.ReportRequest(transitions=reports)
        if next:
            request.next.CopyFrom(self.ready_request(**next))
        return self.call("Report", request, timeout=CALL + next.get("wait", 0))

    def relinquish(self, instance, claim=""):
        return self.call("Relinquish", v1.RelinquishRequest(
            namespace=self.name, instance=instance, claim=claim))

    def extend_all(self, *items):
        return list(self.call("Extend", v1.ExtendRequest(namespace=self.name, items=items)).items)

    def extend(self, task, by=None, progress=0.0):
        return only(self.extend_all(extend_item(task, by, progress)))

    def work(self, **open):
        return WorkStream(self, self.ready_request(**open) if open else None)

    # Plans

    def plan(self, plan, id="", params=None, **more):
        """Starts an instance of a plan, waits until it is planned, and returns its id."""
        id = self.start(plan, id, params, **more)
        eventually(lambda: state(self.get(id)) != "PLANNING")
        return id

    def claim(self, *nodes, **filters):
        """Claims these, which are ready or about to be; nothing else is. The tasks, in order."""
        found = {}
        while len(found) < len(nodes):
            tasks = self.ready(wait=SOON, max_tasks=100, **filters)
            assert tasks, f"not ready: {sorted(set(nodes) - set(found))}; there were {list(found)}"
            found.update((task.node, task) for task in tasks)
        rest = self.ready(max_tasks=100, **filters)
        assert sorted([*found, *(task.node for task in rest)]) == sorted(nodes)
        return [found[node] for node in nodes]

    def do(self, *nodes, transition="ok", **more):
        """Claims these, and nothing else is ready; reports the same for all. The tasks."""
        tasks = self.claim(*nodes)
        for task in tasks:
            self.report(task, transition, **more)
        return tasks

    def fail(self, *nodes, error="it broke"):
        return self.do(*nodes, transition="error", error=error)

    def idle(self, wait=0.2):
        """Nothing is ready, and stays so for a while."""
        return self.ready(max_tasks=100, wait=wait) == []

    def steps(self, id):
        """Its steps by their paths, in the order written."""
        return {step.path: step for step in self.get(id, with_nodes=True).steps}

    def step(self, id, path):
        return self.steps(id)[path]

    def step_states(self, id):
        return {path: step_state(step) for path, step in self.steps(id).items()}

    def children(self, parent):
        """Those that exist, all pages, in order of their numbers."""
        found, token = [], ""
        while True:
            page = self.instances(parent=parent, page_size=1000, page_token=token)
            found += page.instances
            token = page.next_page_token
            if not token:
                return sorted(found, key=lambda one: (len(one.id), one.id))

    def event(self, id, event, node="", data=None):
        """Sends it to a step, from outside."""
        return self.transition(id, event, node=node, node_params=data)

    def suspend(self, task, wake_after=None, **more):
        """A worker's report that its step waits."""
        request = self.report_request(task, "suspend", **more)
        if wake_after is not None:
            request.wake_after.CopyFrom(duration(wake_after))
        return self.call("Transition", request)

    def ends(self, id, outcome, within=SOON):
        """Waits until it has stopped, and compares its result."""
        self.stopped(id, within)
        instance = self.get(id)
        assert result(instance) == outcome, f"{result(instance)}: {instance.error}"
        return instance

    def stopped(self, id, within=SOON):
        eventually(lambda: state(self.get(id)) == "STOPPED", within)

    # Views and bulks

    def view(self, method, request, timeout=CALL):
        return getattr(self.server.views, method)(request, timeout=timeout)

    def found(self, filter="", **more):
        """The ids that a filter finds, all pages, in the order of the list."""
        ids, token = [], ""
        while True:
            page = self.instances(filter=filter, page_token=token, **more)
            ids += [instance.id for instance in page.instances]
            token = page.next_page_token
            if not token:
                return ids

    def count(self, filter="", by="BY_UNSPECIFIED"):
        """The whole count, page by page."""
        token = ""
        while True:
            reply = self.view("CountInstances", view.CountInstancesRequest(
                namespace=self.name, filter=filter, page_token=token,
                by=view.CountInstancesRequest.By.Value(by)))
            token = reply.next_page_token
            if not token:
                return reply

    def overview(self, **more):
        return self.view("GetOverview", view.GetOverviewRequest(namespace=self.name, **more))

    def start_bulk(self, action, filter="", timeout=CALL, **more):
        return self.server.bulks.StartBulk(view.StartBulkRequest(
            namespace=self.name, filter=filter, action=view.StartBulkRequest.Action.Value(action),
            **more), timeout=timeout)

    def get_bulk(self, id):
        return self.server.bulks.GetBulk(view.GetBulkRequest(namespace=self.name, id=id),
                                         timeout=CALL)

    def bulk(self, action, filter="", within=30.0, **more):
        """Starts a bulk and returns it as it is at its end."""
        id = self.start_bulk(action, filter, **more).request.id
        eventually(lambda: self.get_bulk(id).state != view.Bulk.RUNNING, within)
        return self.get_bulk(id)

    # Control

    def pause(self, id):
        return self.call("Pause", v1.PauseRequest(namespace=self.name, instance=id))

    def resume(self, id, node="", force=False):
        return self.call("Resume", v1.ResumeRequest(
            namespace=self.name, instance=id, node=node, force=force))

    def skip(self, id, node=""):
        return self.call("Skip", v1.SkipRequest(namespace=self.name, instance=id, node=node))

    def cancel(self, id, mode="MODE_UNSPECIFIED", **more):
        return self.call("Cancel", v1.CancelRequest(
            namespace=self.name, instance=id, mode=v1.CancelRequest.Mode.Value(mode), **more))

    # Feed

    def changes_request(self, after="0", kinds=(), **more):
        return v1.ChangesRequest(namespace=self.name, after=after,
                                 kinds=[v1.Change.Kind.Value(name) for name in kinds], **more)

    def changes(self, after="0", kinds=(), **more):
        """Those up to the present, and where to go on."""
        found, cursor = [], after
        request = self.changes_request(after, kinds, **more)
        for reply in self.runner.Changes(request, timeout=30):
            found += reply.changes
            cursor = reply.cursor
        return found, cursor

    def cursor(self):
        return self.changes(after="")[1]

    def watch(self, after="0", kinds=(), **more):
        return Watch(self.runner.Changes(self.changes_request(after, kinds, follow=True, **more)))

    def await_change(self, wanted, **filters):
        """Waits until the feed tells of a change of that kind, from the beginning on."""
        with self.watch(kinds=[wanted], **filters) as watch:
            return watch.until(lambda change: True)

    def await_changes(self, wanted, count, within=SOON, **filters):
        with self.watch(kinds=[wanted], **filters) as watch:
            return watch.until_count(count, within)


def extend_item(task, by=None, progress=0.0):
    item = v1.ExtendRequest.Item(instance=task.instance, claim=task.claim, progress=progress)
    if by is not None:
        item.by.CopyFrom(duration(by))
    return item


class Stream:
    """Reads a server's stream in the background; a test waits for what it wants to see."""

    def __init__(self, call):
        self.call = call
        self.condition = threading.Condition()
        self.ended = False
        self.error = None
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        try:
            for reply in self.call:
                with self.condition:
                    self.take_in(reply)
                    self.condition.notify_all()
        except grpc.RpcError as error:
            self.error = error
        finally:
            with self.condition:
                self.ended = True
                self.condition.notify_all()

    def wait(self, check, within=SOON):
        """Until check() is true; false when it was not in time."""
        with self.condition:
            return self.condition.wait_for(check, within)

    def await_end(self, within=SOON):
        """How the stream ended: OK, or its code."""
        assert self.wait(lambda: self.ended, within), f"the stream did not end: {self!r}"
        return "OK" if self.error is None else self.error.code().name

    def cancel(self):
        self.call.cancel()
        self.wait(lambda: self.ended)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.cancel()


class Watch(Stream):
    """A reader of Changes."""

    def __init__(self, call):
        self.changes = []
        self.replies = 0
        self.cursor = None
        super().__init__(call)

    def take_in(self, reply):
        self.changes += reply.changes
        self.cursor = reply.cursor
        self.replies += 1

    def __repr__(self):
        return f"{self.replies} replies with {[kind(c) for c in self.changes][-20:]}, {self.error}"

    def opened(self):
        """Waits for the first message, which comes at once."""
        assert self.wait(lambda: self.replies or self.ended), repr(self)
        assert self.replies, repr(self)
        return self

    def until(self, predicate, within=SOON):
        found = []

        def look():
            found[:] = [change for change in self.changes if predicate(change)]
            return found or self.ended

        self.wait(look, within)
        assert found, f"no such change within {within} s: {self!r}"
        return found[0]

    def until_count(self, count, within=SOON):
        self.wait(lambda: len(self.changes) >= count or self.ended, within)
        assert len(self.changes) >= count, f"{count} changes expected: {self!r}"
        return list(self.changes)


class WorkStream(Stream):
    """A consumer's side of Work."""

    def __init__(self, space, open_request=None):
        self.space = space
        self.requests = queue.Queue()
        self.tasks = []
        self.results = []
        self.extended = []
        self.cancelled_claims = []
        self.killed_claims = []
        if open_request is not None:
            self.send(open=open_request)
        super().__init__(space.runner.Work(iter(self.requests.get, None)))

    def take_in(self, reply):
        for name in ("tasks", "results", "extended", "cancelled_claims", "killed_claims"):
            getattr(self, name).extend(getattr(reply, name))

    def __repr__(self):
        return (f"{len(self.tasks)} tasks, {len(self.results)} results, {self.error}")

    def send(self, **fields):
        self.requests.put(v1.WorkRequest(**fields))

    def report(self, *tasks, transition="ok", within=SOON, **more):
        """Reports tasks, and waits for the answers to these."""
        before = len(self.results)
        self.send(transitions=[self.space.report_request(task, transition, **more)
                               for task in tasks])
        return self.await_results(before + len(tasks), within)[before:]

    def await_tasks(self, count, within=SOON):
        self.wait(lambda: len(self.tasks) >= count or self.ended, within)
        assert len(self.tasks) >= count, f"{count} tasks expected: {self!r}"
        return list(self.tasks)

    def await_results(self, count, within=SOON):
        self.wait(lambda: len(self.results) >= count or self.ended, within)
        assert len(self.results) >= count, f"{count} results expected: {self!r}"
        return list(self.results)

    def half_close(self):
        self.requests.put(None)

    def __exit__(self, *_):
        self.half_close()
        self.cancel()


# dcli -----------------------------------------------------------------------------------------


class Cli:
    """dcli against a server, in a namespace."""

    def __init__(self, address, namespace):
        self.environment = {**os.environ, "DFSMR_SERVER": address, "DFSMR_NAMESPACE": namespace}
        self.environment.pop("NO_COLOR", None)

    def __call__(self, *arguments, input=None, environment=None, cwd=None, within=20.0):
        return subprocess.run([str(DCLI), *map(str, arguments)], input=input, text=True, cwd=cwd,
                              capture_output=True, timeout=within,
                              env={**self.environment, **(environment or {})})

    def ok(self, *arguments, **more):
        """What it printed, having ended with 0."""
        done = self(*arguments, **more)
        assert done.returncode == 0, f"exit status {done.returncode}: {done.stderr}{done.stdout}"
        return done.stdout

    def json(self, *arguments, **more):
        """The one JSON document that it printed with -o json."""
        return json.loads(self.ok("-o", "json", *arguments, **more))

    def background(self, *arguments, environment=None, cwd=None):
        return subprocess.Popen([str(DCLI), *map(str, arguments)], text=True, cwd=cwd,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, start_new_session=True,
                                env={**self.environment, **(environment or {})})
