"""dcli doctor: each thing that it finds is made so, found, and told with what mends it; and dcli
console."""
import json
import re
import resource

import pytest

from certificates import Authority
from support import JOB, Cli, accepts_connections, eventually, free_port, only
from test_backup import age, folders
from test_security import ADMIN_SECRET, Holder, token_flags
from test_timeouts import open_breaker
from web import JSON, Door

LEARNED = """\
id: learned
nodes:
  work:
    start: true
    timeout_initial: 200ms
    timeout_max: 200ms
    transitions: {ok: done}
  done: {final: true}
"""
FAILS = """\
schedule: nightly
every: 1h
start: {machine: job}
"""


def doctor(dcli, *flags, **more):
    """What it found, by kind."""
    done = dcli("-o", "json", "doctor", *flags, **more)
    found = {}
    for line in done.stdout.splitlines():
        finding = json.loads(line)
        assert finding["what"] and finding["mend"]
        found.setdefault(finding["finding"], []).append(finding["what"])
    assert done.returncode == (1 if found else 0), done
    return found


@pytest.fixture
def alone(new_server):
    """A server with these flags, and a dcli without a namespace for it."""
    def make(*flags, **more):
        server = new_server(*flags, **more).start()
        dcli = Cli(server.address, "")
        del dcli.environment["DFSMR_NAMESPACE"]
        return server, dcli
    return make


def test_nothing_is_wrong_with_a_server_that_does_its_work(alone):
    server, dcli = alone()
    server.space("default").define(JOB)
    server.space("other").define(JOB)
    server.space("other").start("job")
    assert doctor(dcli) == {}
    assert dcli.ok("doctor") == f"Nothing is wrong at {server.address}\n"


def test_without_a_server_it_says_so(dcli):
    done = dcli("--timeout", "1s", "doctor", environment={
        "DFSMR_SERVER": f"127.0.0.1:{free_port()}"})
    assert done.returncode == 3 and "Connection refused" in done.stderr
    assert done.stdout == ""


def test_it_finds_a_clock_that_is_apart(alone):
    _, dcli = alone(virtual_clock="2026-03-28T12:00:30Z")
    assert "virtual" in only(doctor(dcli)["clock"])


def test_it_finds_a_certificate_that_ends_soon(new_server, tmp_path):
    authority = Authority(tmp_path / "authority")
    cert, key = authority.sign("server")
    server = new_server("--tls-cert", cert, "--tls-key", key).launch()
    eventually(lambda: accepts_connections(server.port), 20)
    dcli = Cli(server.address, "default")
    assert re.match(r"the server's certificate ends in (1d|2d)",
                    only(doctor(dcli, "--tls-ca", authority.cert)["certificate"]))


def test_a_certificate_that_was_renewed_is_told_without_a_restart(new_server, tmp_path):
    authority = Authority(tmp_path / "authority")
    cert, key = authority.sign("server")
    server = new_server("--tls-cert", cert, "--tls-key", key).launch()
    eventually(lambda: accepts_connections(server.port), 20)
    dcli = Cli(server.address, "default")
    assert "certificate" in doctor(dcli, "--tls-ca", authority.cert)
    for fresh, old in zip(authority.sign("renewed", days=90), (cert, key)):
        fresh.replace(old)
    eventually(lambda: "certificate" not in doctor(dcli, "--tls-ca", authority.cert), 10)


def test_it_finds_a_token_without_rights(new_server, tmp_path):
    server = new_server(*map(str, token_flags(tmp_path))).start()
    theirs = Holder(server, ADMIN_SECRET).create("viewer", "theirs")
    dcli = Cli(server.address, "mine")
    dcli.environment["DFSMR_TOKEN"] = theirs.secret
    assert "it is of namespace \"theirs\"" in only(doctor(dcli)["token"])
    assert doctor(dcli, "--namespace", "theirs") == {}
    dcli.environment["DFSMR_TOKEN"] = "none-that-there-is"
    assert "does not take your token" in only(doctor(dcli)["token"])
    dcli.environment["DFSMR_TOKEN"] = ADMIN_SECRET
    del dcli.environment["DFSMR_NAMESPACE"]
    assert doctor(dcli) == {}


def test_it_finds_a_low_limit_of_files(alone):
    _, dcli = alone(limits=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024)))
    assert "may have 1024 files" in only(doctor(dcli)["files"])


def test_it_finds_that_room_is_scarce(alone):
    _, dcli = alone("--min-free-mb", str(1 << 30))
    assert "too little room" in eventually(lambda: only(doctor(dcli)["room"]))


def test_it_finds_work_that_nobody_asks_for(alone):
    server, dcli = alone(virtual_clock="+1s")
    space = server.space("default")
    space.define(JOB)
    space.start("job", "i")
    assert "worker" not in doctor(dcli)
    server.advance(by=200)
    assert re.match(r"1 ready at job/work.*no worker asks for it", only(doctor(dcli)["worker"]))
    space.pause("i")  # what is paused waits for nobody
    assert "worker" not in doctor(dcli)


def test_it_finds_what_more_troubles_than_an_overview_shows_leave_out(alone):
    server, dcli = alone(virtual_clock="+1s")
    space = server.space("team")
    space.define("---\n".join(JOB.replace("id: job", f"id: fails{i}") for i in range(60)))
    space.define(JOB)
    for i in range(60):
        space.start(f"fails{i}")
        space.report(space.take(f"fails{i}"), "error")
    space.start("job")
    server.advance(by=200)
    assert re.match(r"1 ready at job/work.*no worker asks for it", only(doctor(dcli)["worker"]))
    assert "worker" in doctor(dcli, "--namespace", "team")


def test_it_finds_timeouts_at_their_maximum(alone):
    server, dcli = alone()
    space = server.space("default")
    space.define(LEARNED)
    space.start_many("learned", 30)
    assert len(space.ready("learned", max_tasks=30)) == 30
    space.await_changes("TIMED_OUT", 30)
    assert "at learned/work" in eventually(lambda: only(doctor(dcli)["timeout"]))


def test_it_finds_breakers_that_are_open(alone):
    server, dcli = alone()
    open_breaker(server.space("default"))
    assert 'machine "hasty"' in only(doctor(dcli)["breaker"])


def test_it_finds_schedules_that_failed(alone):
    server, dcli = alone(virtual_clock="2026-03-28T12:00:30Z")
    space = server.space("team")
    space.define(JOB + "---\n" + FAILS)
    server.advance(by=3600)
    assert "schedule" not in doctor(dcli)
    space.report(space.take(), "error")
    told = only(eventually(lambda: doctor(dcli).get("schedule")))
    assert told == 'schedule "nightly" of namespace "team" has failed 1 times in a row'


def test_it_finds_a_backup_that_is_old(alone, tmp_path):
    to = tmp_path / "to"
    flags = ("--backup-every", "87600h", "--backup-to", to)
    server, dcli = alone(*flags)
    eventually(lambda: "bytes are in" in server.log, 20)
    assert doctor(dcli) == {}
    backup = re.search(r"^Backup +(.*)$", dcli.ok("status"), re.MULTILINE)[1]
    assert re.search(r", [\d.]+ [KM]iB$", backup)
    server.stop()
    age(only(folders(to)), "20260101T080000Z")
    server.start()
    assert re.match("the last backup is .* old", only(doctor(dcli)["backup"]))


def test_it_finds_a_backup_that_failed(alone, tmp_path):
    (tmp_path / "file").write_text("no folder")
    _, dcli = alone("--backup-every", "1h", "--backup-to", tmp_path / "file" / "to")
    assert "the last backup failed" in only(eventually(lambda: doctor(dcli).get("backup")))


def test_people_read_what_to_do(alone):
    _, dcli = alone(limits=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024)))
    done = dcli("doctor")
    assert done.returncode == 1
    assert re.match(r"Files: the server may have 1024 .*\n  mend it: .*65536", done.stdout)
    assert dcli("-o", "name", "doctor").stdout == "files\n"


# dcli console ---------------------------------------------------------------------------------


def test_console_prints_the_address(alone):
    _, dcli = alone()
    at = ("--http", "http://ops.example.org/dfsmr/")
    assert dcli.ok("console", *at) == "http://ops.example.org/dfsmr/\n"
    assert dcli.ok("console", "a/b c", *at) == (
        "http://ops.example.org/dfsmr/n/default/instances/a%2Fb%20c\n")
    assert dcli.ok("console", "machine/job", "--namespace", "team", environment={
        "DFSMR_HTTP": "http://localhost:1"}) == "http://localhost:1/n/team/machines/job\n"
    done = dcli("console")
    assert done.returncode == 2 and "--http" in done.stderr  # the port tells nothing
    assert dcli("console", "--http", "ops").returncode == 2


def test_console_gives_a_code_that_is_good_for_one_sign_in(new_server, tmp_path):
    server = new_server("--http", "localhost:0", *map(str, token_flags(tmp_path))).start()
    door = Door(server)
    dcli = Cli(server.address, "default")
    http = f"http://localhost:{door.port}"
    done = dcli("console", "--http", http)
    assert done.returncode == 1 and "token" in done.stderr
    dcli.environment["DFSMR_TOKEN"] = Holder(server, ADMIN_SECRET).create("viewer").secret
    address, code = dcli.ok("console", "page-9", "--http", http).strip().split("#code=")
    assert address == f"{http}/signin?next=%2Fn%2Fdefault%2Finstances%2Fpage-9"
    body = json.dumps({"token": code})
    first = door.ask("POST", "/v1/session", body, JSON)
    assert first.status == 200 and first.json["role"] == "VIEWER"
    assert door.ask("POST", "/v1/session", body, JSON).status == 401
