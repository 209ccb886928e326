"""Several servers over a store of several partitions: each owns its share, and any of them will do."""
import itertools
import threading
import time

import grpc
import pytest

from cluster_servers import persist, seen_by
from stubs import admin, admin_grpc, cluster, package, package_grpc, v1
from support import CALL, JOB, Refusal, eventually

PARTITIONS = 8
# Moves by what comes from outside.
DOOR = """
id: door
nodes:
  shut: {start: true, transitions: {open: ajar}}
  ajar: {transitions: {shut: shut, away: gone}}
  gone: {final: true}
"""


@pytest.fixture
def parted(sharers):
    """Makes so many servers of a store of several partitions, of which each has its share."""
    sharers.flags = ("--partitions", str(PARTITIONS))

    def make(count, *flags, metadata=()):
        servers = [sharers(*flags) for _ in range(count)]
        eventually(lambda: shares(servers, metadata) == fair(count), 20.0)
        return servers

    return make


def fair(count):
    return sorted(PARTITIONS // count + (1 if one < PARTITIONS % count else 0)
                  for one in range(count))


def shares(servers, metadata=()):
    """How many partitions each server serves, if all are served."""
    seen = servers[0].clusters.GetCluster(cluster.GetClusterRequest(), metadata=metadata,
                                          timeout=CALL)
    if any(one.state != cluster.Partition.SERVING for one in seen.partitions):
        return []
    return sorted(one.partitions for one in seen.servers if one.state == cluster.Server.UP)


def owners(server):
    return {one.id: one.server for one in seen_by(server).partitions}


def move(server, instance, transition):
    return server.runner.Transition(
        v1.TransitionRequest(namespace="default", instance=instance, transition=transition),
        timeout=CALL)


def test_instances_live_in_their_partitions_and_any_server_will_do(parted):
    servers = parted(2)
    spaces = [one.space("default") for one in servers]
    spaces[0].define(DOOR)
    seen = set()
    for number in range(40):
        spaces[number % 2].start("door", f"door-{number}")
        move(servers[(number + 1) % 2], f"door-{number}", "open")
        instance = spaces[0].get(f"door-{number}")
        assert [one.node for one in instance.tokens] == ["ajar"]
        seen.add(instance.partition)
    assert seen == set(range(PARTITIONS))
    # The table of the contract.
    spaces[0].start("door", "hello")
    assert spaces[1].get("hello").partition == 0x2a584165814304a9 % PARTITIONS


def test_a_definition_is_in_force_everywhere_from_its_answer_on(parted):
    servers = parted(3)
    spaces = [one.space("default") for one in servers]
    names = itertools.count()
    for version in range(1, 6):
        spaces[version % 3].define(DOOR + f"description: number {version}\n")
        for space in spaces * 4:
            name = f"door-{next(names)}"
            space.start("door", name)
            assert space.get(name).version == version


def test_a_namespace_that_is_frozen_takes_no_start_anywhere(parted):
    servers = parted(2)
    spaces = [one.space("frozen") for one in servers]
    spaces[0].define(DOOR)
    spaces[0].start("door", "one")
    package_grpc.NamespaceServiceStub(servers[1].channel).FreezeNamespace(
        package.FreezeNamespaceRequest(name="frozen"), timeout=CALL)
    for number in range(16):
        with pytest.raises(grpc.RpcError) as refused:
            spaces[number % 2].start("door", f"door-{number}")
        assert Refusal(refused.value).reason == "NAMESPACE_FROZEN"


def test_what_a_server_had_is_served_again_after_it_was_killed(parted):
    servers = parted(3)
    space = servers[0].space("default")
    space.define(DOOR)
    for number in range(30):
        space.start("door", f"door-{number}")
    begin = time.monotonic()
    servers[2].kill()
    for number in range(30):
        persist(lambda: move(servers[number % 2], f"door-{number}", "open"))
    print(f"all partitions serve again after {time.monotonic() - begin:.1f} s")
    eventually(lambda: shares(servers[:2]) == fair(2), 10.0)
    for number in range(30):
        assert [one.node for one in space.get(f"door-{number}").tokens] == ["ajar"]


def test_a_stop_gives_partitions_away_and_fails_no_call(parted):
    servers = parted(2)
    space = servers[0].space("default")
    space.define(DOOR)
    servers[1].terminate()
    slowest = 0.0
    number = 0
    while servers[1].process.poll() is None:
        begin = time.monotonic()
        space.start("door", f"door-{number}")
        slowest = max(slowest, time.monotonic() - begin)
        number += 1
    assert servers[1].exit_status() == 0
    print(f"{number} starts; the slowest took {slowest:.2f} s")
    assert slowest < 2.0
    assert set(owners(servers[0]).values()) == {seen_by(servers[0]).answered_by}
    for one in range(number):
        space.get(f"door-{one}")


def test_a_server_that_stops_while_it_opens_partitions_gives_these_back_too(parted, sharers):
    servers = parted(1)
    servers[0].space("default").define(DOOR)
    for _ in range(2):
        one = sharers()
        eventually(lambda: "this server takes partition" in one.log, 20.0)
        one.terminate()
        assert one.exit_status() == 0
        assert "was refused" not in one.log  # a write that came after the next owner
    eventually(lambda: shares(servers) == fair(1), 5.0)


def test_a_server_that_comes_gets_its_share_while_calls_go_on(parted, sharers):
    first, = parted(1)
    space = first.space("default")
    space.define(DOOR)
    failed = []
    ended = threading.Event()

    def load():
        for number in itertools.count():
            if ended.is_set():
                return
            try:
                space.start("door", f"door-{number}")
                move(first, f"door-{number}", "open")
            except grpc.RpcError as error:
                failed.append(error)

    loader = threading.Thread(target=load)
    loader.start()
    second = sharers()
    eventually(lambda: shares([first, second]) == fair(2), 20.0)
    ended.set()
    loader.join()
    assert not failed, failed[0]
    assert "starts anew" not in first.log


def test_a_token_counts_everywhere_until_it_is_revoked(parted, tmp_path):
    secret = tmp_path / "admin.token"
    secret.write_text("a" * 64)
    secret.chmod(0o600)
    header = (("authorization", "Bearer " + "a" * 64),)
    servers = parted(2, "--auth", "tokens", "--admin-token-file", str(secret), metadata=header)
    tokens = [admin_grpc.TokenServiceStub(one.channel) for one in servers]
    made = tokens[0].CreateToken(
        admin.CreateTokenRequest(role=admin.AccessToken.VIEWER), metadata=header, timeout=CALL)
    mine = (("authorization", "Bearer " + made.secret),)

    def look(server, number):
        return server.runner.GetInstance(
            v1.GetInstanceRequest(id=f"door-{number}"), metadata=mine, timeout=CALL)

    for number in range(16):
        with pytest.raises(grpc.RpcError) as refused:
            look(servers[number % 2], number)
        assert Refusal(refused.value).reason == "NO_SUCH_INSTANCE"
    tokens[1].RevokeToken(admin.RevokeTokenRequest(id=made.token.id), metadata=header, timeout=CALL)
    for number in range(16):
        with pytest.raises(grpc.RpcError) as refused:
            look(servers[number % 2], number)
        assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED


class Reader:
    """Reads the feed through one server after another, and holds each partition's against gaps."""

    def __init__(self):
        self.cursor = "0"
        self.seqs = {}
        self.started = set()

    def read(self, server, until, within=20.0, **more):
        """Until it has seen so many instances start, and no more than once each."""
        end = time.monotonic() + within
        stream = server.runner.Changes(
            v1.ChangesRequest(after=self.cursor, **more), timeout=within)
        try:
            for message in stream:
                for change in message.changes:
                    assert change.seq == self.seqs.get(change.partition, 0) + 1, change
                    self.seqs[change.partition] = change.seq
                    if change.kind == v1.Change.STARTED:
                        assert change.instance not in self.started
                        self.started.add(change.instance)
                self.cursor = message.cursor
                assert len(message.cursor) <= 160
                if len(self.started) >= until and more.get("follow"):
                    return
                assert time.monotonic() < end
        finally:
            stream.cancel()


def test_the_feed_of_all_partitions_has_no_gaps_at_any_server(parted):
    servers = parted(2)
    space = servers[0].space("default")
    space.define(DOOR)
    reader = Reader()
    for number in range(20):
        space.start("door", f"door-{number}")
    reader.read(servers[1], 20)
    assert len(reader.started) == 20
    for number in range(20, 40):
        space.start("door", f"door-{number}")
    reader.read(servers[0], 40, follow=True)
    assert reader.started == {f"door-{number}" for number in range(40)}
    # From now on, and of one instance.
    now = servers[0].runner.Changes(v1.ChangesRequest(follow=True), timeout=CALL)
    cursor = next(now).cursor
    one = servers[1].runner.Changes(v1.ChangesRequest(instance="door-7", after="0"), timeout=CALL)
    assert [change.instance for message in one for change in message.changes] == ["door-7"]
    move(servers[1], "door-7", "open")
    message = next(message for message in now if message.changes)
    assert [change.instance for change in message.changes] == ["door-7"]
    now.cancel()
    reader.cursor = cursor
    reader.read(servers[1], 40)


def test_a_reader_of_the_feed_goes_on_when_an_owner_is_killed(parted):
    servers = parted(3)
    space = servers[0].space("default")
    space.define(DOOR)
    reader = Reader()
    reading = threading.Thread(target=lambda: reader.read(servers[0], 60, within=40.0, follow=True))
    reading.start()
    for number in range(60):
        if number == 20:
            servers[2].kill()
        if number == 40:
            servers[1].terminate()
        persist(lambda: space.start("door", f"door-{number}"))
    reading.join()
    assert reader.started == {f"door-{number}" for number in range(60)}


def test_workers_at_any_server_get_the_work_of_all_partitions(parted):
    servers = parted(3)
    spaces = [one.space("default") for one in servers]
    spaces[0].define(JOB)
    names = [f"job-{number}" for number in range(90)]
    for number, name in enumerate(names):
        spaces[number % 3].start("job", name)
    done = []
    problems = []

    def work(space):
        try:
            while True:
                tasks = space.ready(machine="job", max_tasks=7, wait=1.0)
                if not tasks:
                    return
                for task in tasks:
                    space.report(task)
                    done.append(task.instance)
        except Exception as problem:  # pylint: disable=broad-except
            problems.append(problem)

    workers = [threading.Thread(target=work, args=(space,)) for space in spaces * 2]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not problems, problems[0]
    assert sorted(done) == sorted(names)


def ready_later(space):
    """A Ready that waits, as a future."""
    return space.later("Ready", space.ready_request("job", wait=10.0), timeout=15.0)


def test_a_worker_that_waits_has_work_of_any_partition_at_once(parted):
    servers = parted(2)
    spaces = [one.space("default") for one in servers]
    spaces[0].define(JOB)
    slowest = 0.0
    for number in range(20):
        waiting = ready_later(spaces[number % 2])
        time.sleep(0.05)  # so that it waits; the time until it is woken is what is tested
        begin = time.monotonic()
        spaces[0].start("job", f"job-{number}")
        task, = waiting.result().tasks
        slowest = max(slowest, time.monotonic() - begin)
        assert task.instance == f"job-{number}"
        spaces[0].report(task)
    print(f"the slowest hand-out took {slowest:.3f} s")


def test_the_most_urgent_is_first_whatever_its_partition(parted):
    servers = parted(2)
    spaces = [one.space("default") for one in servers]
    spaces[0].define(JOB)
    for number in range(30):
        spaces[number % 2].start("job", f"job-{number}", priority=number % 5)
    order = []
    while len(order) < 30:
        tasks = spaces[len(order) % 2].ready(machine="job", max_tasks=4)
        order += [int(task.instance[4:]) % 5 for task in tasks]
    assert order == sorted(order, reverse=True)


def test_a_worker_that_is_gone_is_given_nothing(parted):
    servers = parted(2)
    space = servers[0].space("default")
    space.define(JOB)
    for number in range(20):
        waiting = ready_later(space)
        time.sleep(0.02)  # so that it waits at most times
        waiting.cancel()
        eventually(waiting.done)
        space.ready("job")  # by then the server knows
        space.start("job", f"job-{number}")
        task, = space.ready("job")
        assert (task.instance, task.attempt) == (f"job-{number}", 1)
        space.report(task)
