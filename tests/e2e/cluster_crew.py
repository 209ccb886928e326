"""Clients of several servers over one database, and an audit of what these had acknowledged.

Starters, workers and a watcher ask any server, repeat what was not answered, and note what was. A
proxy stands where connections are to be cut. The audit asks each server for the feed, and compares."""
import collections
import contextlib
import random
import socket
import subprocess
import threading
import time

import grpc

import postgres
from stubs import cluster, v1
from support import CALL, Refusal, Server, duration, eventually

STEPS = """\
id: steps
nodes:
  first: {start: true, timeout_strategy: fixed, timeout: 5.0, transitions: {ok: second}}
  second: {timeout_strategy: fixed, timeout: 5.0, transitions: {ok: done}}
  done: {final: true}
---
id: mail
nodes:
  send: {start: true, timeout: 0.0, transitions: {ok: done}}
  done: {final: true}
"""
RETRIED = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED")


class Proxy:
    """Passes connections to `to` (a port of this machine, or the path of a socket) while it stands.
    """

    def __init__(self, to):
        self.to = to
        self.delay = 0.0
        self.open = True
        self.pairs = set()
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        """Ends all connections, and takes none."""
        with self.lock:
            self.open = False
            pairs, self.pairs = self.pairs, set()
        for pair in pairs:
            for one in pair:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def mend(self, to=None):
        self.to = to or self.to
        self.open = True

    def dispose(self):
        self.cut()
        self.listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                if not self.open:
                    raise OSError("cut")
                if isinstance(self.to, int):
                    server = socket.create_connection(("127.0.0.1", self.to), 1)
                    server.settimeout(None)
                else:
                    server = socket.socket(socket.AF_UNIX)
                    server.connect(str(self.to))
            except OSError:
                client.close()
                continue
            with self.lock:
                self.pairs.add((client, server))
            for pair in ((client, server), (server, client)):
                threading.Thread(target=self._pass, args=pair, daemon=True).start()

    def _pass(self, source, to):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if self.delay:
                    time.sleep(self.delay)
                to.sendall(data)
        for one in (source, to):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


class Pair:
    """A primary, and a standby without which it acknowledges nothing."""

    def __init__(self):
        self.primary = postgres.Postgres("wal_level = replica\nmax_wal_senders = 4\n"
                                         "wal_keep_size = 256MB\n")
        self.standby = postgres.Postgres.__new__(postgres.Postgres)
        standby = self.standby
        standby.folder = postgres.folder()
        standby.data = standby.folder / "data"
        postgres.run("pg_basebackup", "-h", str(self.primary.folder), "-U", "tester", "-D",
                     str(standby.data), "-R", "-X", "stream", "-c", "fast")
        with (standby.data / "postgresql.auto.conf").open("a") as file:
            file.write(f"unix_socket_directories = '{standby.folder}'\n"
                       f"primary_conninfo = 'host={self.primary.folder} user=tester "
                       f"application_name=other'\n")
        standby.process = None
        standby.start()
        self.sql(self.primary, "alter system set synchronous_standby_names = 'other'")
        self.sql(self.primary, "select pg_reload_conf()")
        eventually(lambda: "sync" in self.sql(
            self.primary, "select sync_state from pg_stat_replication"), 20)

    @staticmethod
    def sql(server, text):
        ran = subprocess.run(["psql", "-h", str(server.folder), "-U", "tester", "-d", "postgres",
                              "-Atc", text], capture_output=True, text=True, timeout=30)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def promote(self):
        self.sql(self.standby, "select pg_promote(true, 60)")

    def dispose(self):
        for one in (self.primary, self.standby):
            one.dispose()


def seen_by(server):
    return server.clusters.GetCluster(cluster.GetClusterRequest(), timeout=CALL)


def owner_among(servers):
    """Whoever serves the partition, as one that answers says; None: nobody does."""
    for server in servers:
        with contextlib.suppress(grpc.RpcError):
            seen = server.clusters.GetCluster(cluster.GetClusterRequest(), timeout=2)
            part = seen.partitions[0]
            addresses = {one.id: one.address for one in seen.servers}
            for one in servers:
                if addresses.get(part.server) == getattr(one, "advertised", one.address):
                    return one
    return None


class Crew:
    """`servers` may change while it works: it asks those that are in the list."""

    def __init__(self, servers, starters=2, workers=3):
        self.servers = servers
        self.ended = threading.Event()
        self.draining = threading.Event()
        self.lock = threading.Lock()
        self.started = set()
        self.reported = {}   # (instance, visit) → when it was acknowledged
        self.mails = collections.Counter()
        self.problems = []
        self.reasons = collections.Counter()
        self.worst = 0.0     # seconds without any answer to a start or report
        self.last = time.monotonic()
        self.seen = collections.defaultdict(list)  # by partition: what the watcher was told
        self.threads = [threading.Thread(target=self._guard, args=(target, number), daemon=True)
                        for target, count in ((self._start, starters), (self._work, workers),
                                              (self._watch, 1)) for number in range(count)]

    def begin(self):
        self.call(lambda server: server.space("default").define(STEPS))
        for thread in self.threads:
            thread.start()
        return self

    def _guard(self, target, number):
        try:
            target(number)
        except Exception as error:  # handed to the audit
            self.problems.append(f"{target.__name__}: {error!r}")

    def call(self, ask, until=60.0):
        """Asks one server after the other until one answers."""
        end = time.monotonic() + until
        while True:
            try:
                answer = ask(random.choice(list(self.servers)))
                with self.lock:
                    self.worst = max(self.worst, time.monotonic() - self.last)
                    self.last = time.monotonic()
                return answer
            except (grpc.RpcError, AttributeError, ValueError) as error:
                # The channel of a server that is being restarted is closed, or none.
                if isinstance(error, grpc.RpcError):
                    refusal = Refusal(error)
                    if refusal.code not in RETRIED:
                        raise
                    self.reasons[refusal.reason or refusal.code] += 1
                if time.monotonic() > end:
                    raise
                self.ended.wait(0.02)

    def _start(self, number):
        count = 0
        while not self.draining.is_set():
            count += 1
            id = f"{'mail' if count % 10 == 0 else 'i'}-{number}-{count}"
            machine = "mail" if count % 10 == 0 else "steps"
            self.call(lambda server: server.runner.Start(
                v1.StartRequest(namespace="default", machine=machine, id=id), timeout=3))
            with self.lock:
                self.started.add(id)
            self.ended.wait(0.002)

    def _work(self, number):
        request = v1.ReadyRequest(namespace="default", worker=f"w{number}", max_tasks=8)
        request.wait.CopyFrom(duration(0.5))
        while not self.ended.is_set():
            tasks = self.call(lambda server: server.runner.Ready(request, timeout=5)).tasks
            for task in tasks:
                if task.machine == "mail":
                    with self.lock:
                        self.mails[(task.instance, task.visit)] += 1
                report = v1.TransitionRequest(namespace="default", instance=task.instance,
                                              transition="ok", claim=task.claim)
                try:
                    self.call(lambda server: server.runner.Transition(report, timeout=3))
                except grpc.RpcError as error:
                    # Its time was over, and somebody else has reported it.
                    if Refusal(error).code in RETRIED:
                        raise
                    continue
                with self.lock:
                    self.reported[(task.instance, task.visit)] = time.monotonic()

    def _watch(self, _):
        cursor = "0"
        while not self.ended.is_set():
            request = v1.ChangesRequest(namespace="default", after=cursor, follow=True)
            try:
                stream = random.choice(list(self.servers)).runner.Changes(request, timeout=4)
                for reply in stream:
                    for one in reply.changes:
                        self.seen[one.partition].append((one.seq, one.kind, one.instance))
                    cursor = reply.cursor
            except (grpc.RpcError, AttributeError, ValueError) as error:
                if isinstance(error, grpc.RpcError) and Refusal(error).code not in RETRIED:
                    raise
                self.ended.wait(0.02)

    def finish(self, within=60.0):
        """No more is started; what was is done."""
        self.draining.set()

        def all_done():
            left = self.call(lambda server: server.runner.ListInstances(v1.ListInstancesRequest(
                namespace="default", machine="steps", state=v1.Instance.State.RUNNING,
                page_size=10), timeout=5))
            return not left.instances

        eventually(all_done, within)
        self.ended.set()
        for thread in self.threads:
            thread.join(30)
            assert not thread.is_alive(), "a client never returned"

    def audit(self, servers):
        """Raises with what is not as it was acknowledged."""
        assert not self.problems, self.problems
        feeds = []
        for server in servers:
            feed = []
            request = v1.ChangesRequest(namespace="default", after="0")
            for reply in server.runner.Changes(request, timeout=60):
                feed += reply.changes
            feeds.append(feed)
        feed = feeds[0]
        short = by_partition(feed)
        for other in feeds[1:]:
            assert by_partition(other) == short, "two servers tell different feeds"
        for partition, records in short.items():
            numbers = [seq for seq, _, _ in records]
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), \
                f"the feed of partition {partition} has a gap"
        for partition, seen in self.seen.items():
            assert seen == short[partition][:len(seen)], \
                f"the watcher was told something else of partition {partition}"
        began = {one.instance for one in feed if one.kind == v1.Change.Kind.STARTED}
        assert self.started <= began, f"lost: {sorted(self.started - began)[:10]}"
        ended = collections.Counter((one.instance, one.prev_node) for one in feed
                                    if one.kind == v1.Change.Kind.TRANSITIONED)
        twice = [which for which, times in ended.items() if times > 1]
        assert not twice, f"accepted twice: {twice[:10]}"
        nodes = {1: ("first", "send"), 2: ("second",)}
        for instance, visit in self.reported:
            assert any((instance, node) in ended for node in nodes[visit]), \
                f"an acknowledged report is gone: visit {visit} of {instance}"
        again = [which for which, times in self.mails.items() if times > 1]
        assert not again, f"work that runs at most once was handed out twice: {again[:10]}"
        return (f"{len(self.started)} instances, {len(self.reported)} acknowledged reports, "
                f"{len(feed)} records; the longest silence {self.worst:.1f} s; "
                f"refusals {dict(self.reasons)}")


def by_partition(feed):
    records = collections.defaultdict(list)
    for one in feed:
        records[one.partition].append((one.seq, one.kind, one.instance))
    return records


def new_servers(url, schema, count, *flags, partitions=1):
    made = [Server(None, "--store", url, "--store-schema", schema, "--partitions", str(partitions),
                   *flags) for _ in range(count)]
    for server in made:
        server.start()
    eventually(lambda: owner_among(made) and all(
        sum(one.reachable for one in seen_by(server).servers) == count for server in made), 20)
    return made
