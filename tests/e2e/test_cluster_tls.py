"""Several servers that trust each other by certificates: calls pass from one to another."""
import pytest

from certificates import Authority
from cluster_servers import owner_of, seen_by
from stubs import cluster_grpc, v1, v1_grpc
from support import CALL, JOB, Space, eventually, only
from test_security import ADMIN_SECRET, secure_channel, token_flags


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path / "authority")


@pytest.fixture
def secured(sharers):
    """Makes servers that share a store, with certificates; does not wait until they serve."""
    def make(files, *flags):
        cert, key = files
        server = sharers.add("--tls-cert", cert, "--tls-key", key, *flags)
        server.address = f"localhost:{server.port}"
        server.launch()
        eventually(lambda: "dsrv listens on" in server.log or server.process.poll() is not None)
        assert server.process.poll() is None, server.log
        return server

    return make


def connect(server, authority, identity=None, secret=""):
    channel = secure_channel(server, authority, identity, secret)
    server.channel = channel
    server.runner = v1_grpc.RunnerServiceStub(channel)
    server.clusters = cluster_grpc.ClusterServiceStub(channel)
    return server


def all_see_all(servers):
    for server in servers:
        eventually(lambda: sum(one.reachable for one in seen_by(server).servers) == len(servers), 15.0)


def work_passes(servers):
    """Through each server what was started through another is seen, taken and reported."""
    spaces = [Space(server, "default") for server in servers]
    spaces[0].define(JOB)
    for number, space in enumerate(spaces):
        space.start("job", f"job-{number}")
    for giver, taker in ((0, -1), (-1, 0)):
        task = spaces[giver].take("job")
        spaces[taker].report(task)
    assert len(spaces[-1].instances(machine="job").instances) == len(spaces)


def test_servers_with_certificates_pass_calls_on(secured, authority):
    files = authority.sign("server")
    servers = [secured(files, "--peer-ca", authority.cert) for _ in range(2)]
    for server in servers:
        connect(server, authority)
    all_see_all(servers)
    work_passes(servers)


def test_with_mutual_tls_a_servers_certificate_is_its_clients(secured, authority, tmp_path):
    files = authority.sign("server")
    tokens = token_flags(tmp_path)
    servers = [secured(files, "--tls-client-ca", authority.cert, *tokens) for _ in range(2)]
    for server in servers:
        connect(server, authority, authority.sign("operator"), ADMIN_SECRET)
    all_see_all(servers)
    work_passes(servers)


def test_who_signs_servers_need_not_sign_clients(secured, authority, tmp_path):
    clients = Authority(tmp_path / "clients", "clients")
    both = tmp_path / "both.pem"  # a server is a client of the others, too
    both.write_bytes(clients.cert.read_bytes() + authority.cert.read_bytes())
    files = authority.sign("server")
    servers = [secured(files, "--tls-client-ca", both, "--peer-ca", authority.cert)
               for _ in range(2)]
    for server in servers:
        connect(server, authority, clients.sign("operator"))
    all_see_all(servers)
    work_passes(servers)


def test_a_wrong_certificate_is_told_and_gets_no_partition(secured, authority, tmp_path):
    strangers = Authority(tmp_path / "strangers", "strangers")
    owner = connect(secured(authority.sign("server"), "--peer-ca", authority.cert), authority)
    space = Space(owner, "default")
    eventually(lambda: space.define(JOB), 15.0)
    stranger = secured(strangers.sign("server"), "--peer-ca", authority.cert)
    address = f"localhost:{stranger.port}"
    eventually(lambda: f"does not answer at {address}" in owner.log, 15.0)
    told = [line for line in owner.log.splitlines() if f"does not answer at {address}" in line]
    assert "certificate" in told[0].lower(), told
    seen = seen_by(owner)
    assert owner_of([owner], seen) is owner
    assert not only([one for one in seen.servers if one.address == address]).reachable
    space.start("job", "one")
    assert owner.runner.GetInstance(v1.GetInstanceRequest(namespace="default", id="one"),
                                    timeout=CALL).state == v1.Instance.RUNNING
