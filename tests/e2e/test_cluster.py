"""Several servers over one database: any will do, one owns the partition, another takes over."""
import concurrent.futures as futures
import os
import signal
import subprocess
import time

import grpc
import pytest

from cluster_servers import TAKEN, owner_of, persist, seen_by, together
from stubs import cluster, v1, view
from support import CALL, CONSUMER, DCLI, DSRV, JOB, Stream, eventually, health, result


def test_any_server_will_do(sharers):
    servers = together(sharers, 3)
    spaces = [one.space("default") for one in servers]
    spaces[0].define(JOB)
    for number, space in enumerate(spaces):
        space.start("job", f"job-{number}")
    for space in spaces:
        assert len(space.instances(machine="job").instances) == 3
    task = spaces[1].take("job")
    spaces[2].report(task)
    assert result(spaces[0].get(task.instance)) == "SUCCESS"
    for server in servers:
        seen = seen_by(server)
        assert (seen.store, len(seen.servers), len(seen.partitions)) == ("postgresql", 3, 1)
        assert seen.partitions[0].live == 2
        assert {cluster.Server.State.Name(one.state) for one in seen.servers} == {"UP"}
        assert health(server.channel) == "SERVING"


def test_changes_and_work_pass_through_any_server(sharers):
    servers = together(sharers, 2)
    owner = owner_of(servers, seen_by(servers[0]))
    other = next(one for one in servers if one is not owner)
    space = other.space("default")
    space.define(JOB)
    changes = other.runner.Changes(v1.ChangesRequest(machine="job", follow=True), timeout=CALL)
    with space.work(machine="job") as worker:
        space.start("job", "one")
        task, = worker.await_tasks(1)
        assert task.instance == "one"
        worker.report(task)
        worker.await_results(1)
        kinds = []
        for message in changes:
            kinds += [v1.Change.Kind.Name(one.kind) for one in message.changes]
            if "FINISHED" in kinds:
                break
    changes.cancel()
    assert "STARTED" in kinds and "CLAIMED" in kinds


class Counts(Stream):
    """Watches how many instances of the machine run."""

    def __init__(self, server):
        self.running = -1
        topic = view.WatchRequest.Topic(key="job", machine=v1.GetMachineRequest(id="job"))
        super().__init__(server.views.Watch(view.WatchRequest(topics=[topic]), timeout=60))

    def take_in(self, reply):
        if reply.HasField("machine"):
            self.running = reply.machine.stats.running


def test_streams_and_polls_go_on_when_the_only_partition_changes_hands(sharers):
    """Those at a server that stands by, until it is the owner itself."""
    servers = together(sharers, 3)
    other = next(one for one in servers if one is not owner_of(servers, seen_by(servers[0])))
    space = other.space("default")
    space.define(JOB)
    space.define(JOB.replace("id: job", "id: rare"))
    begun = 0
    with (space.work(machine="job") as worker, space.watch(machine="job") as feed,
          Counts(other) as counts, futures.ThreadPoolExecutor() as waiting):
        while (owner := owner_of(servers, seen_by(other))) is not other:
            poll = waiting.submit(space.take, "rare")
            space.start("job", f"job-{begun}")
            held = worker.await_tasks(begun + 1)[begun]
            assert counts.wait(lambda: counts.running == 1)
            owner.terminate()
            eventually(lambda: owner_of(servers, seen_by(other)) not in (owner, None))
            result, = worker.report(held)
            assert result.HasField("accepted")
            space.start("rare")
            space.report(poll.result())
            begun += 1
            feed.until(lambda one: one.instance == held.instance
                       and one.kind == v1.Change.FINISHED)
            assert counts.wait(lambda: counts.running == 0), counts.error
        assert not (worker.ended or feed.ended or counts.ended)
        seqs = [one.seq for one in feed.changes]
        assert seqs == sorted(set(seqs))
    assert begun > 0


def test_another_server_takes_over_from_one_that_was_killed(sharers):
    servers = together(sharers, 3)
    owner = owner_of(servers, seen_by(servers[0]))
    others = [one for one in servers if one is not owner]
    space = others[0].space("default")
    space.define(JOB)
    space.start("job", "before")
    task = space.take("job")
    epoch = seen_by(others[0]).partitions[0].epoch
    owner.kill()
    begin = time.monotonic()
    reasons = persist(lambda: space.start("job", "after"))
    print(f"serves again after {time.monotonic() - begin:.1f} s, meanwhile {reasons}")
    assert reasons <= {"NO_OWNER", "PEER_UNREACHABLE", "OUTCOME_UNKNOWN"}
    # Each server looks anew every two seconds.
    seen = eventually(lambda: (now := seen_by(others[1])) and owner_of(others, now) and now)
    assert seen.partitions[0].epoch > epoch
    space.report(task)  # its claim is as good as ever
    assert {one.id for one in others[1].space("default").instances(machine="job").instances} == {
        "before", "after"}


@pytest.mark.timed
def test_a_server_that_restarts_at_its_address_goes_on_at_once(sharers):
    server, = together(sharers, 1)
    server.space("default").define(JOB)
    server.kill()
    begin = time.monotonic()
    server.start()
    persist(lambda: server.space("default").start("job", "one"), within=5.0)
    assert time.monotonic() - begin < 5.0


def test_a_stop_hands_the_partition_over_and_fails_no_call(sharers):
    servers = together(sharers, 2)
    owner = owner_of(servers, seen_by(servers[0]))
    other = next(one for one in servers if one is not owner)
    space = other.space("default")
    space.define(JOB)
    owner.terminate()
    slowest = 0.0
    for number in range(10_000):
        begin = time.monotonic()
        space.start("job", f"job-{number}")
        slowest = max(slowest, time.monotonic() - begin)
        if owner.process.poll() is not None:
            break
    assert owner.exit_status() == 0
    print(f"the slowest call took {slowest:.2f} s")
    assert slowest < 2.0
    assert owner_of([other], seen_by(other)) is other
    assert len(space.instances(machine="job", page_size=1000).instances) == min(number + 1, 1000)


def test_a_server_that_wakes_up_late_writes_nothing_and_joins_anew(sharers):
    servers = together(sharers, 2)
    owner = owner_of(servers, seen_by(servers[0]))
    other = next(one for one in servers if one is not owner)
    other.space("default").define(JOB)
    owner.process.send_signal(signal.SIGSTOP)
    persist(lambda: other.space("default").start("job", "one"), within=TAKEN)
    owner.process.send_signal(signal.SIGCONT)
    owner.hang_up()
    eventually(lambda: "starts anew" in owner.log, 10.0)
    owner.channel = grpc.insecure_channel(owner.address)
    eventually(lambda: sum(one.reachable for one in seen_by(other).servers) == 2, 15.0)
    assert owner_of(servers, seen_by(other)) is other


def test_an_outage_of_the_database_moves_nothing(sharers, database):
    servers = together(sharers, 2)
    owner = owner_of(servers, seen_by(servers[0]))
    space = servers[1].space("default")
    space.define(JOB)
    epoch = seen_by(servers[0]).partitions[0].epoch
    database.kill()
    time.sleep(12)  # longer than a lease: the time itself is what is tested
    with pytest.raises(grpc.RpcError) as refused:
        space.start("job", "one")
    assert refused.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
    database.start()
    persist(lambda: space.start("job", "one"))
    seen = seen_by(servers[0])
    assert owner_of(servers, seen) is owner
    assert seen.partitions[0].epoch == epoch


def test_dcli_goes_to_the_next_server_and_checks_the_cluster(sharers):
    servers = together(sharers, 2)
    dead = "127.0.0.1:1"
    everybody = ",".join([dead, *(one.address for one in servers)])

    def dcli(*words, **more):
        return subprocess.run([str(DCLI), "--server", everybody, *words], capture_output=True,
                              text=True, env=CONSUMER, timeout=60, **more)

    shown = dcli("cluster", "--partitions", "--check")
    assert shown.returncode == 0, shown.stderr
    for word in ("postgresql", "SERVER", "PARTITION", "SERVING", servers[0].address):
        assert word in shown.stdout
    for words in ("define -", "start job --id j", "changes --no-follow", "logs j",
                  "export --out /dev/null"):
        run = dcli(*words.split(), input=JOB)
        assert run.returncode == 0, run.stderr
    assert "in a database, room ample" in dcli("status").stdout
    servers[1].process.send_signal(signal.SIGSTOP)
    try:
        bad = eventually(lambda: (lambda run: run if run.returncode == 1 else None)(
            dcli("cluster", "--check")), 10.0)
        assert "silent" in bad.stderr or "cannot be reached" in bad.stderr
    finally:
        servers[1].process.send_signal(signal.SIGCONT)


def test_dcli_goes_on_with_another_server_when_one_hangs(sharers):
    servers = together(sharers, 2)
    owner = owner_of(servers, seen_by(servers[0]))
    other = next(one for one in servers if one is not owner)
    owner.space("default").define(JOB)
    other.process.send_signal(signal.SIGSTOP)
    try:
        shown = subprocess.run(
            [str(DCLI), "--server", f"{other.address},{owner.address}", "--timeout", "1s", "machines"],
            capture_output=True, text=True, env=CONSUMER, timeout=60)
        assert shown.returncode == 0, shown.stderr
        assert "job" in shown.stdout
    finally:
        other.process.send_signal(signal.SIGCONT)


def test_flags_that_do_not_fit(database):
    def dsrv(*words):
        return subprocess.run([str(DSRV), "--addr", "127.0.0.1:0", *words], capture_output=True,
                              text=True, timeout=30)

    for words, word in [
            (("--store", database.url(), "--data", "x"), "--data"),
            (("--store", database.url(), "--partitions", "1025"), "--partitions"),
            (("--advertise", "a:1"), "--store"),
            (("--store", ""), "--store is empty"),
            (("--store", database.url(), "--advertise", "0.0.0.0:3004"), "every interface"),
            (("--store", database.url(), "--advertise", "somewhere:3004"), "--insecure")]:
        ended = dsrv(*words)
        assert ended.returncode == 2, (words, ended)
        assert word in ended.stderr


def test_a_store_has_sixteen_partitions_if_nothing_else_is_said(database, new_server):
    flags = ("--store", database.url(), "--store-schema", "sixteen")
    servers = [new_server(*flags, data=None) for _ in range(2)]
    for server in servers:
        server.data = None
        server.start()
    space = servers[1].space("default")
    space.define(JOB)
    eventually(lambda: [one.partitions for one in seen_by(servers[0]).servers] == [8, 8], 20.0)
    for number in range(40):
        space.start("job", f"job-{number}")
    lives = {one.partition for one in space.instances(page_size=100).instances}
    assert len(lives) > 8 and max(lives) < 16


def test_feeds_that_begin_while_the_database_hangs_hold_up_nobody(sharers, database):
    server = sharers("--partitions", "2")
    space = server.space("default")
    space.define(JOB)
    space.start("job")
    server_of_it = database.process.pid
    listed = subprocess.run(["pgrep", "-P", str(server_of_it)], capture_output=True, text=True)
    hanging = [server_of_it, *map(int, listed.stdout.split())]
    for one in hanging:
        os.kill(one, signal.SIGSTOP)
    try:
        streams = [server.runner.Changes(v1.ChangesRequest(namespace="default", after="0"),
                                         timeout=CALL) for _ in range(8)]
        for _ in range(5):
            seen = server.clusters.GetCluster(cluster.GetClusterRequest(), timeout=2)
            assert seen.answered_by
    finally:
        for one in hanging:
            os.kill(one, signal.SIGCONT)
    for stream in streams:
        stream.cancel()
