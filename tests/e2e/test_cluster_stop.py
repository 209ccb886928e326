"""How servers that share a store start and stop, also while the database is away."""
import pathlib
import signal
import socket
import subprocess
import time

import grpc
import pytest

from cluster_servers import owner_of, seen_by, together
from stubs import v1
from support import CALL, CONSUMER, DCLI, DSRV, JOB, Refusal, eventually


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


def test_a_stop_ends_in_time_while_the_database_is_away(sharers, database):
    server = sharers("--grace", "2s")
    space = server.space("default")
    space.define(JOB)
    database.kill()
    try:
        start = space.later("Start", space.start_request("job", "one"))
        server.terminate()
        assert server.exit_status(within=8.0) == 0
        with pytest.raises(grpc.RpcError) as refused:
            start.result(CALL)
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
    finally:
        database.start()


def test_a_server_that_starts_anew_waits_for_the_database(sharers, database):
    database.kill()
    servers = [sharers.add(environment={"DSRV_STARTS_ANEW": "1"}).launch() for _ in range(2)]
    try:
        for server in servers:
            eventually(lambda: "does not start yet" in server.log, CALL)
        servers[0].terminate()
        assert servers[0].exit_status() == 0
    finally:
        database.start()
    eventually(lambda: "serves partition" in servers[1].log, CALL)
    servers[1].terminate()
    assert servers[1].exit_status() == 0


def test_a_first_start_without_a_database_is_refused(sharers, database):
    database.kill()
    try:
        assert sharers.add().launch().exit_status() == 1
    finally:
        database.start()


def test_what_the_database_refuses_is_not_tried_at_full_speed(sharers, database):
    server = sharers()
    space = server.space("default")
    space.define(JOB)
    database.sql(f"alter table {sharers.schema}.p0000 rename to gone")
    begin = time.monotonic()
    with pytest.raises(grpc.RpcError):
        space.start("job", "one")
    eventually(lambda: server.log.count("starts anew") >= 3, 20.0)
    assert time.monotonic() - begin > 2.0
    database.sql(f"alter table {sharers.schema}.gone rename to p0000")
    eventually(lambda: server.log.rstrip().endswith("from change 0")
               or server.log.count("serves partition") > 1, CALL)


def test_doctor_names_a_server_that_others_do_not_reach(sharers):
    server = sharers()
    sharers("--advertise", "localhost:1")

    def doctor():
        return subprocess.run([str(DCLI), "--server", server.address, "doctor"],
                              capture_output=True, text=True, env=CONSUMER, timeout=60)
    found = eventually(lambda: (ran := doctor()).returncode == 1 and "localhost:1" in ran.stdout and ran)
    assert "Cluster: server " in found.stdout and "cannot be reached" in found.stdout
    assert "no standby" in server.log


def test_a_server_on_every_interface_advertises_the_name_of_its_host(sharers):
    server = sharers.add("--insecure")
    server.address = f"0.0.0.0:{server.port}"
    server.launch()
    eventually(lambda: f"advertise={socket.gethostname()}:{server.port}" in server.log, CALL)
    server.terminate()
    assert server.exit_status() == 0


def test_a_server_that_was_killed_does_not_say_for_ever_where_all_others_are(sharers, database):
    server = sharers()
    server.kill()
    elsewhere = ("--insecure", "--advertise", "somewhere.example.org:3004")
    refused = sharers.add(*elsewhere).launch()
    assert refused.exit_status() == 1
    assert "advertises" in refused.log
    database.sql(f"update {sharers.schema}.server set seen = seen - interval '1 minute'")
    other = sharers.add(*elsewhere).launch()
    eventually(lambda: "dsrv listens" in other.log, CALL)
    other.terminate()
    assert other.exit_status() == 0


def test_a_password_is_not_shown(sharers, database, tmp_path):
    secret = "hunter2"

    def run(*words):
        done = subprocess.run([str(DSRV), *map(str, words)], capture_output=True, text=True,
                              timeout=30, cwd=tmp_path)
        assert secret not in done.stdout + done.stderr, words
        return done.returncode

    url = f"postgresql://dfsmr:{secret}@localhost:1/dfsmr"
    assert run("--sotre", url) == 2
    assert run(f"--sotre={url}") == 2
    assert run("--store", "x" + url) == 2
    assert run("--store", url) == 1
    assert run("store", "renew", url, url) == 2
    assert run("store", "renew", "x" + url) == 2
    assert run("migrate", "--from", "x" + url, "--to", tmp_path / "to") == 2
    assert run("migrate", "--from", tmp_path, "--to", url, url) == 2
    assert list(tmp_path.iterdir()) == []

    sharers.url = database.url().replace("tester@", f"tester:{secret}@") + "&password=" + secret
    server = sharers()
    shown = pathlib.Path(f"/proc/{server.process.pid}/cmdline").read_text()
    assert "--store" in shown and "tester" in shown
    assert secret not in shown + server.log
    server.process.send_signal(signal.SIGHUP)  # which reads the flags again
    eventually(lambda: "the log level is" in server.log, CALL)
