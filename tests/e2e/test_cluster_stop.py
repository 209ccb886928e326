"""Servers that share a store, and are told to stop."""
import itertools

import grpc
import pytest

import postgres
from cluster_servers import owner_of, seen_by, together
from stubs import v1
from support import CALL, JOB, Refusal, Server, eventually

SCHEMAS = itertools.count(1)


@pytest.fixture(scope="module")
def database():
    made = postgres.Postgres()
    yield made
    made.dispose()


@pytest.fixture
def sharers(database):
    schema = f"stop{next(SCHEMAS)}"
    servers = []

    def make(*flags, **more):
        servers.append(Server(None, "--store", database.url(), "--store-schema", schema, *flags,
                              **more))
        return servers[-1].start()

    make.schema = schema
    yield make
    for made in servers:
        made.dispose()


def test_a_standby_that_stops_waits_for_what_it_has_passed_on(sharers, database):
    servers = together(sharers, 2)
    owner = owner_of(servers, seen_by(servers[0]))
    other = next(one for one in servers if one is not owner)
    space = other.space("default")
    space.define(JOB)
    with database.holding(f"update {sharers.schema}.part set feed = feed"):
        start = space.later("Start", space.start_request("job", "one"))
        # Its commit waits for the row of the partition.
        eventually(lambda: database.sql("select count(*) from pg_stat_activity where "
                                        "wait_event_type = 'Lock'") != "0", CALL)
        other.terminate()
        eventually(lambda: "dsrv stops" in other.log, CALL)
        eventually(lambda: "the server stops" in refusal_of(space), CALL)
    assert start.result(CALL).instance.id == "one"
    assert other.exit_status() == 0


def refusal_of(space):
    try:
        space.call("GetMachine", v1.GetMachineRequest(namespace=space.name, id="job"), timeout=0.5)
    except grpc.RpcError as error:
        return str(Refusal(error))
    return ""
