"""GET /metrics of servers that share a store: of the owner, and of one that owns nothing."""
import grpc
import pytest

from cluster_families import ALONE, CLUSTER
from cluster_servers import owner_of, seen_by, together
from stubs import admin, admin_grpc, cluster, v1
from support import CALL, JOB, eventually
from test_metrics import FAMILIES, PROCESS, promtool, scrape, settled
from web import Door


@pytest.fixture
def sharers(sharers):
    sharers.flags = ("--http", "localhost:0")
    return sharers


@pytest.fixture
def pair(sharers):
    """The owner, and one that owns nothing."""
    servers = together(sharers, 2)
    owner = owner_of(servers, seen_by(servers[0]))
    return owner, next(one for one in servers if one is not owner)


def types_of(families):
    wanted = {f"dfsmr_{name}": family for name, (family, _) in families.items()}
    return wanted | {f"process_{name}": "counter" if name.endswith("_total") else "gauge"
                     for name in PROCESS}


def check_labels(shown):
    for name, (family, labels) in CLUSTER.items():
        sample = f"dfsmr_{name}" + ("_count" if family == "histogram" else "")
        assert shown.all(sample), name
        for pairs in shown.all(sample):
            assert {label for label, _ in pairs} == set(labels.split()), name


def test_every_name_of_the_cluster_has_its_type_and_its_labels(pair):
    owner, other = pair
    space = other.space("default")
    space.define(JOB)
    space.start("job", "one")
    shown = settled(Door(owner), lambda one: one.get("dfsmr_partitions", state="serving") == 1)
    assert shown.types == types_of({**FAMILIES, **CLUSTER})
    alone = scrape(Door(other))
    assert alone.types == types_of({**{name: FAMILIES[name] for name in ALONE}, **CLUSTER})
    check_labels(alone)
    for one in (shown, alone):
        promtool("check", "metrics", text=one.text)


def test_the_values_tell_who_owns_and_who_passes_on(pair):
    owner, other = pair
    space = other.space("default")
    space.define(JOB)
    for number in range(3):
        space.start("job", f"job-{number}")
    mine, its = (settled(Door(one), lambda shown: shown.get("dfsmr_cluster_servers", state="up") == 2)
                 for one in pair)
    assert mine.get("dfsmr_partitions", state="serving") == 1
    assert its.get("dfsmr_partitions", state="elsewhere") == 1
    assert its.get("dfsmr_partitions", state="no_owner") == 0
    assert mine.sum("dfsmr_takeovers_total") == 1
    assert mine.get("dfsmr_takeover_seconds_count") == 1
    assert its.sum("dfsmr_takeovers_total") == 0
    assert its.get("dfsmr_forwarded_calls_total", method="Start", outcome="answered") == 3
    assert its.get("dfsmr_forward_seconds_count") >= 4
    assert mine.sum("dfsmr_store_connections", state="idle") >= 1
    for one in (mine, its):
        assert 0 < one.get("dfsmr_lease_remaining_seconds") <= 8
        assert one.get("dfsmr_fenced_commits_total") == 0
        assert one.get("dfsmr_outbox_messages") == 0


def test_a_server_that_owns_nothing_shows_itself_to_whom_the_owner_knows(sharers, tmp_path):
    secret = "s" * 40
    file = tmp_path / "admin.token"
    file.write_text(secret)
    flags = ("--auth", "tokens", "--admin-token-file", str(file))
    servers = [sharers(*flags) for _ in range(2)]
    doors = [Door(one, secret) for one in servers]
    for door in doors:
        assert settled(door, lambda one: one.get("dfsmr_cluster_servers", state="up") == 2)
    stranger = [Door(one, "x" * 40).get("/metrics").status for one in servers]
    assert stranger == [401, 401]
    assert [Door(one).get("/metrics").status for one in servers] == [401, 401]


def test_whoever_may_look_sees_the_lease_and_the_servers_while_the_database_is_away(
        sharers, database, tmp_path):
    secret = "s" * 40
    file = tmp_path / "admin.token"
    file.write_text(secret)
    server = sharers("--auth", "tokens", "--admin-token-file", str(file))
    header = (("authorization", f"Bearer {secret}"),)
    viewer = admin_grpc.TokenServiceStub(server.channel).CreateToken(
        admin.CreateTokenRequest(namespace="*", role=admin.AccessToken.VIEWER), metadata=header,
        timeout=CALL).secret
    server.runner.Define(v1.DefineRequest(source=JOB), metadata=header, timeout=CALL)
    server.runner.Start(v1.StartRequest(machine="job"), metadata=header, timeout=CALL)
    assert scrape(Door(server, viewer)).all("dfsmr_tokens")
    database.kill()
    try:
        server.runner.Start.future(v1.StartRequest(machine="job"), metadata=header, timeout=60.0)
        eventually(lambda: silent(server, viewer), 20.0)
        shown = settled(Door(server, viewer),
                        lambda one: one.get("dfsmr_lease_remaining_seconds") == 0)
        assert not shown.all("dfsmr_tokens")
        assert Door(server, "x" * 40).get("/metrics").status == 401
        with pytest.raises(grpc.RpcError):
            silent(server, "x" * 40)
    finally:
        database.start()


def silent(server, token):
    seen = server.clusters.GetCluster(cluster.GetClusterRequest(), timeout=CALL,
                                      metadata=(("authorization", f"Bearer {token}"),))
    return seen.servers[0].state == cluster.Server.SILENT
