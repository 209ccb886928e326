"""Servers of a store of several partitions that hang, or cannot reach each other."""
import contextlib
import signal
import time

import grpc

from cluster_crew import Proxy
from cluster_servers import persist, seen_by
from stubs import v1
from support import CALL, JOB, eventually, free_port
from test_partitions import fair, parted, shares  # noqa: F401: a fixture

# What others have is given at once though an owner hangs: on a busy machine, and in less than the
# 10 s after which a silent owner is buried.
AT_ONCE = 2.5
BUSY = 1.0  # what a busy machine adds
LATE = 7.0  # within which a watcher hears of it; a hand-over takes 10 s and more


@contextlib.contextmanager
def stopped(server):
    server.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.process.send_signal(signal.SIGCONT)


def start_jobs(space, count):
    """The names of jobs, by the address of the server that decides for them."""
    seen = seen_by(space.server)
    addresses = {one.id: one.address for one in seen.servers}
    owners = {one.id: addresses[one.server] for one in seen.partitions}
    names = {}
    for number in range(count):
        name = space.start("job", f"job-{number}")
        names.setdefault(owners[space.get(name).partition], []).append(name)
    return names


def test_an_owner_that_hangs_keeps_nobody_from_what_others_have(parted):  # noqa: F811
    servers = parted(2)
    space = servers[0].space("default")
    space.define(JOB)
    own = start_jobs(space, 40)[servers[0].address]
    done = []
    with stopped(servers[1]):
        for wait in (0.0, 30.0):
            begun = time.monotonic()
            done += space.ready("job", wait=wait, max_tasks=3)
            assert time.monotonic() - begun < AT_ONCE
        assert len(done) == 6
        begun = time.monotonic()
        reply = space.runner.Report(v1.ReportRequest(
            transitions=[space.transition_request(task.instance, "ok", claim=task.claim)
                         for task in done],
            next=space.ready_request("job", max_tasks=3)), timeout=CALL)
        assert time.monotonic() - begun < AT_ONCE
        assert all(result.HasField("accepted") for result in reply.results)
        assert len(reply.tasks) == 3
    assert {task.instance for task in [*done, *reply.tasks]} <= set(own)


def test_a_definition_waits_for_a_server_that_hangs_until_its_lease_is_over(parted):  # noqa: F811
    servers = parted(2)
    spaces = [one.space("default") for one in servers]
    spaces[0].define(JOB)
    with stopped(servers[1]):
        begun = time.monotonic()
        spaces[0].call("Define", v1.DefineRequest(source=JOB.replace("done", "over")), timeout=30.0)
        # It is buried 10 s after it renewed its lease for the last time.
        assert time.monotonic() - begun < 10.0 + BUSY
    persist(lambda: spaces[1].machine("job"))
    assert spaces[1].machine("job").version == 2


def test_a_poll_that_finds_nothing_waits_for_what_comes_though_an_owner_hangs(parted):  # noqa: F811
    servers = parted(2)
    space = servers[0].space("default")
    space.define(JOB)
    own = start_jobs(space, 40)[servers[0].address]
    for name in own[1:]:
        space.cancel(name)
    first = space.ready("job", max_tasks=40)
    with stopped(servers[1]):
        request = space.ready_request("job", wait=60.0)
        poll = space.runner.Ready.future(request, timeout=60.0)
        time.sleep(3)  # it has looked at all by then, and waits
        assert not poll.done()
        begun = time.monotonic()
        space.runner.Relinquish(v1.RelinquishRequest(
            namespace="default", instance=own[0],
            claim=next(one.claim for one in first if one.instance == own[0])), timeout=CALL)
        task, = poll.result(timeout=AT_ONCE).tasks
        assert time.monotonic() - begun < AT_ONCE
        assert task.instance == own[0]


def test_what_an_owner_does_that_cannot_be_reached_is_heard_of(sharers):
    sharers.flags = ("--partitions", "8")
    port = free_port()
    proxy = Proxy(port)
    try:
        first = sharers()
        second = sharers("--advertise", f"127.0.0.1:{proxy.port}", port=port)
        eventually(lambda: shares([first]) == fair(2), 20.0)
        space = first.space("default")
        space.define(JOB)
        theirs = start_jobs(space, 40)[f"127.0.0.1:{proxy.port}"]
        with space.watch(kinds=["FINISHED"]) as watch:
            watch.opened()
            proxy.cut()
            begun = time.monotonic()
            for name in theirs[:5]:
                second.space("default").cancel(name)
                watch.until(lambda change: change.instance == name, within=LATE)
            assert time.monotonic() - begun < 10.0, "what is tested here is over by then"
            seqs = [(change.partition, change.seq) for change in watch.changes]
            assert len(set(seqs)) == len(seqs)
            proxy.mend()
            for name in theirs[5:]:
                eventually(lambda: cancelled(second, name), 20.0)
            watch.until_count(len(theirs), within=20.0)
            assert sorted(change.instance for change in watch.changes) == sorted(theirs)
    finally:
        proxy.dispose()


def cancelled(server, name):
    try:
        server.space("default").cancel(name)
    except grpc.RpcError as error:
        return error.code() == grpc.StatusCode.FAILED_PRECONDITION
    return True
