"""What tests of several servers over one database ask of them."""
from stubs import cluster
from support import CALL, eventually


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
