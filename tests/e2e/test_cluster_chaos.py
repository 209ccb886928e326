"""Servers over one database, broken in real ways under an audited load. ROUNDS=n: so often, and of
many partitions until there were ten times as many take-overs."""
import contextlib
import itertools
import os
import random
import signal
import time

import grpc
import pytest

from cluster_crew import Crew, Proxy, new_servers, owner_among, seen_by
from cluster_demo import Story
from stubs import cluster
from support import Server, eventually

ROUNDS = int(os.environ.get("ROUNDS", "3"))
SCHEMAS = itertools.count(1)
TAKEN = 20.0  # 15 s of the contract, and what a busy machine adds


@pytest.fixture
def cluster_of(database):
    servers = []

    def make(count, url=None, **more):
        servers.extend(new_servers(url or database.url(), f"chaos{next(SCHEMAS)}", count, **more))
        return servers

    yield make
    for made in list(Server.all):
        made.dispose()


def await_owner(servers, but=None):
    return eventually(lambda: (lambda one: one if one and one is not but else None)(
        owner_among([s for s in servers if s is not but])), TAKEN)


def test_kills_pauses_and_hand_overs_under_load(cluster_of):
    servers = cluster_of(3)
    crew = Crew(servers).begin()
    waits = []
    for round in range(ROUNDS):
        owner = await_owner(servers)
        served = len(crew.reported)
        how = ("kill", "pause", "end", "standby")[round % 4]
        begin = time.monotonic()
        if how == "standby":
            standby = random.choice([one for one in servers if one is not owner])
            standby.kill()
            standby.start()
        elif how == "kill":
            owner.kill()
            await_owner(servers, but=owner)
            owner.start()
        elif how == "end":
            owner.terminate()
            await_owner(servers, but=owner)
            assert owner.exit_status(30) == 0
            owner.start()
        else:
            owner.process.send_signal(signal.SIGSTOP)
            await_owner(servers, but=owner)
            owner.process.send_signal(signal.SIGCONT)
        waits.append(f"{how} {time.monotonic() - begin:.1f} s")
        eventually(lambda: len(crew.reported) > served + 20, TAKEN)
    crew.finish()
    print("\n" + crew.audit(servers))
    print("until somebody else owns it: " + ", ".join(waits))


def take_overs(servers):
    """How many there were, by crashes and by hand-overs, as the servers' logs have them."""
    return sum(server.log.count("this server takes partition") for server in servers)


def all_serve(servers):
    """Whether every partition is served, and by those that are there."""
    with contextlib.suppress(grpc.RpcError):
        seen = seen_by(random.choice(servers))
        up = {one.id for one in seen.servers if one.state == cluster.Server.UP}
        return len(up) == len(servers) and all(
            one.state == cluster.Partition.SERVING and one.server in up for one in seen.partitions)
    return False


def test_kills_pauses_and_hand_overs_of_many_partitions_under_load(cluster_of):
    servers = cluster_of(3, partitions=16)
    eventually(lambda: all_serve(servers), TAKEN)
    crew = Crew(servers).begin()
    longest = 0.0
    for round in itertools.count():
        if take_overs(servers) >= 16 + 10 * ROUNDS:
            break
        begin = time.monotonic()
        served = len(crew.reported)
        one = servers[round % 3]
        how = ("kill", "pause", "end")[round // 3 % 3]
        if how == "pause":
            one.process.send_signal(signal.SIGSTOP)
            eventually(lambda: all_serve([other for other in servers if other is not one]), TAKEN)
            one.process.send_signal(signal.SIGCONT)
        else:
            one.kill() if how == "kill" else one.terminate()
            assert how == "kill" or one.exit_status(30) == 0
            one.start()
        eventually(lambda: all_serve(servers), 2 * TAKEN)
        longest = max(longest, time.monotonic() - begin)
        eventually(lambda: len(crew.reported) > served + 20, TAKEN)
    crew.finish()
    print(f"\n{take_overs(servers)} take-overs in {round} rounds, of {longest:.1f} s at most")
    print(crew.audit(servers))


def test_the_database_restarts_under_load(cluster_of, database):
    servers = cluster_of(2)
    crew = Crew(servers).begin()
    eventually(lambda: len(crew.reported) > 50, TAKEN)
    owner = await_owner(servers)
    database.kill()
    database.start()
    served = len(crew.reported)
    eventually(lambda: len(crew.reported) > served + 50, TAKEN)
    assert await_owner(servers) is owner
    crew.finish()
    print("\n" + crew.audit(servers))


def test_an_owner_is_cut_from_the_database_under_load(database):
    schema = f"chaos{next(SCHEMAS)}"
    proxies = [Proxy(database.folder / ".s.PGSQL.5432") for _ in range(2)]
    servers = []
    try:
        for proxy in proxies:
            url = f"postgresql://tester@127.0.0.1:{proxy.port}/postgres"
            servers += new_servers(url, schema, 1) if not servers else [
                Server(None, "--store", url, "--store-schema", schema).start()]
        crew = Crew(servers).begin()
        eventually(lambda: len(crew.reported) > 50, TAKEN)
        owner = await_owner(servers)
        which = proxies[servers.index(owner)]
        which.cut()
        await_owner(servers, but=owner)
        which.mend()
        served = len(crew.reported)
        eventually(lambda: len(crew.reported) > served + 50, TAKEN)
        crew.finish()
        print("\n" + crew.audit([one for one in servers if one is not owner]))
    finally:
        for server in servers:
            server.dispose()
        for proxy in proxies:
            proxy.dispose()


def test_the_demo_in_small():
    """A kill, and a synchronous standby that is promoted."""
    story = Story()
    try:
        story.run(brief=True)
    finally:
        story.dispose()
