"""A database that fails over to its standby, and the former primary, which comes back."""
import pytest

from cluster_crew import Pair
from cluster_servers import Sharers, persist, seen_by
from support import JOB, eventually

FAILS_OVER = 30.0  # seconds within which calls are answered again


@pytest.fixture
def pair():
    made = Pair()
    yield made
    made.dispose()


@pytest.mark.parametrize("synchronous", [True, False])
def test_a_former_primary_that_is_back_is_left_alone(pair, synchronous):
    hosts = f"{pair.primary.folder},{pair.standby.folder}"
    sharers = Sharers(f"postgresql://tester@/postgres?host={hosts}")
    sharers.flags = ("--partitions", "4")
    try:
        servers = [sharers() for _ in range(2)]
        space = servers[0].space("default")
        space.define(JOB)
        for number in range(20):
            space.start("job", f"before-{number}")
        if not synchronous:
            pair.sql(pair.primary, "alter system reset synchronous_standby_names")
        pair.primary.kill()
        pair.promote()
        persist(lambda: space.start("job", "after"), FAILS_OVER)
        pair.primary.start()  # it takes writes, and knows nothing of its successor
        assert pair.sql(pair.primary, "select pg_is_in_recovery()").strip() == "f"
        # One that comes, one that is killed, and one that has lost its connections.
        servers.append(sharers())
        servers[0].kill()
        servers[0].start()
        pair.sql(pair.standby, "select pg_terminate_backend(pid) from pg_stat_activity "
                               "where usename = 'tester' and pid <> pg_backend_pid()")
        for server in servers:
            persist(lambda: server.space("default").get("after"), FAILS_OVER)
            eventually(lambda: "it is a former primary" in server.log, FAILS_OVER)
        for number in range(20):
            persist(lambda: servers[number % 3].space("default").start("job", f"now-{number}"),
                    FAILS_OVER)
        seen = {one.id for one in space.instances(page_size=100).instances}
        assert len(seen) == 41
        old = pair.sql(pair.primary, f"select count(*) from {sharers.schema}.server")
        new = pair.sql(pair.standby, f"select count(*) from {sharers.schema}.server")
        assert int(old) < int(new), "nothing was written to the former primary"
        assert all(one.state for one in seen_by(servers[0]).partitions)
    finally:
        sharers.dispose()
