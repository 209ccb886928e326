"""What tests of several servers over one database ask of them."""
import itertools
import time

import grpc

from stubs import cluster
from support import CALL, Refusal, Server, eventually

TAKEN = 15.0  # seconds within which another server serves what one had that is gone


class Sharers:
    """Makes servers that share a store, which is in a schema of its own."""
    numbers = itertools.count(1)

    def __init__(self, url):
        self.url = url
        self.flags = ()
        self.schema = f"test{next(self.numbers)}"
        self.servers = []

    def add(self, *flags, **more):
        """One that is not started yet. The store has one partition, if nothing else is said."""
        flags = (*self.flags, *flags)
        if "--partitions" not in flags:
            flags = ("--partitions", "1", *flags)
        self.servers.append(Server(None, "--store", self.url, "--store-schema", self.schema,
                                   *flags, **more))
        return self.servers[-1]

    def __call__(self, *flags, **more):
        return self.add(*flags, **more).start()

    def dispose(self):
        for server in self.servers:
            server.dispose()


def seen_by(server):
    return server.clusters.GetCluster(cluster.GetClusterRequest(with_counts=True), timeout=CALL)


def owner_of(servers, seen):
    """The server that owns the partition, as one of them says; None: none does."""
    addresses = {one.id: one.address for one in seen.servers}
    owner = addresses.get(seen.partitions[0].server)
    return next((one for one in servers if one.address == owner), None)


def together(sharers, count):
    """So many servers, of which each knows and reaches all others."""
    servers = [sharers() for _ in range(count)]
    for server in servers:
        eventually(lambda: sum(one.reachable for one in seen_by(server).servers) == count, 10.0)
    return servers


def persist(call, within=TAKEN):
    """Repeats a call that may be repeated until it succeeds; returns the reasons for which it did not."""
    until = time.monotonic() + within
    reasons = set()
    while True:
        try:
            call()
            return reasons
        except grpc.RpcError as error:
            # A call to an owner that hangs waits as long as its caller does.
            assert error.code() in (grpc.StatusCode.UNAVAILABLE,
                                    grpc.StatusCode.DEADLINE_EXCEEDED), error
            assert time.monotonic() < until, f"not within {within} s: {error}"
            reasons.add(Refusal(error).reason)
            time.sleep(0.1)
