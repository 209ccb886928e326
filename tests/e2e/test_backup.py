"""Backups while the server serves, and what is made of them."""
import hashlib
import io
import json
import os
import pathlib
import re
import signal
import subprocess
import tarfile
import time

import pytest

from load import ROUTE, Load, watch_from
from stubs import admin, admin_grpc
from support import DCLI, DSRV, JOB, LOOP, Cli, eventually, free_port, only, refused, state

NAME = re.compile(r"dfsmr-\d{8}T\d{6}Z\.tar\.zst")


def files_of(server, folder, **more):
    """What `dcli backup` leaves in a folder."""
    done = Cli(server.address, "default")("backup", folder, within=60, **more)
    assert done.returncode == 0, done.stderr
    [file] = pathlib.Path(folder).iterdir()
    assert done.stdout == f"{file}\n" and NAME.fullmatch(file.name)
    return file


def run(*arguments, within=60):
    return subprocess.run([str(DSRV), *map(str, arguments)], capture_output=True, text=True,
                          timeout=within)


def restore(backup, data):
    done = run("--restore", backup, "--data", data)
    assert done.returncode == 0, done.stderr
    return done.stdout


def unpacked(file):
    """Its files, by name."""
    plain = subprocess.run(["zstd", "-dcq", str(file)], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
        return {one.name: tar.extractfile(one).read() for one in tar}


def backup_bytes(server):
    stub = admin_grpc.BackupServiceStub(server.channel)
    return list(stub.Backup(admin.BackupRequest(), timeout=60))


# dcli backup and --restore --------------------------------------------------------------------


def test_a_backup_is_restored_as_it_was(new_server, tmp_path):
    server = new_server().start()
    space = server.space("")
    space.define(JOB)
    done = space.start("job", params={"a": 1}, labels={"k": "v"})
    space.report(space.take("job"), output={"o": 1})
    waiting = space.start("job")
    before = {id: space.get(id) for id in (done, waiting)}
    changes, cursor = space.changes("0")
    file = files_of(server, tmp_path / "to")
    later = space.start("job")
    _, future = space.changes("0")
    server.stop()

    assert "restored" in restore(file, tmp_path / "restored")
    again = new_server(data=tmp_path / "restored").start()
    space = again.space("")
    assert {id: space.get(id) for id in before} == before
    assert space.changes("0")[0] == changes
    with refused("NOT_FOUND", "NO_SUCH_INSTANCE"):
        space.get(later)
    for old in (cursor, future):
        with refused("OUT_OF_RANGE", ("CURSOR_EXPIRED", "CURSOR_AHEAD")):
            space.changes(old)
    assert only(space.ready("job")).instance == waiting


def test_the_manifest_says_what_is_in_it(new_server, tmp_path):
    server = new_server().start()
    space = server.space("")
    space.define(JOB)
    space.start("job")
    _, cursor = space.changes("0")
    begin = time.time()
    file = files_of(server, tmp_path / "to")
    files = unpacked(file)
    manifest = json.loads(files.pop("manifest.json"))
    assert set(manifest) == {"time", "cursor", "incarnation", "version", "level", "files"}
    assert manifest["cursor"] == cursor
    assert cursor.split(".")[2] == manifest["incarnation"]
    assert manifest["version"] == run("--version").stdout.split()[-1]
    taken = time.mktime(time.strptime(manifest["time"][:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone
    assert begin - 1 <= taken <= time.time()
    assert {one["name"]: (one["bytes"], one["sha256"]) for one in manifest["files"]} == {
        name: (len(text), hashlib.sha256(text).hexdigest()) for name, text in files.items()}


def test_all_that_was_acknowledged_before_is_in_a_backup_under_load(new_server, tmp_path):
    server = new_server().start()
    space = server.space("")
    space.define(ROUTE)
    with Load(server, 1) as load:
        watch = watch_from(space, "0")
        watch.until_count(300, within=20)
        before = {c.seq: c for c in list(watch.changes)}
        file = files_of(server, tmp_path / "to")
        watch.until_count(len(watch.changes) + 200, within=20)
    assert not load.surprises, load.surprises[:3]
    seen = {c.seq: c for c in list(watch.changes)}
    server.stop()
    restore(file, tmp_path / "restored")
    again = new_server(data=tmp_path / "restored").start()
    restored, _ = again.space("").changes("0")
    assert [c.seq for c in restored] == list(range(1, len(restored) + 1))
    last = int(json.loads(unpacked(file)["manifest.json"])["cursor"].split(".")[1])
    assert max(before) <= last <= len(restored)  # the restored server goes on by itself
    assert restored[:last] == [seen[seq] for seq in range(1, last + 1)]


def test_claims_before_the_backup_are_good_and_those_after_it_are_stale(new_server, tmp_path):
    server = new_server().start()
    space = server.space("")
    space.define(JOB)
    space.start("job", "early")
    space.start("job", "late")
    early = space.take("job")
    file = files_of(server, tmp_path / "to")
    late = space.take("job")
    assert (early.instance, late.instance) == ("early", "late")
    for _ in range(3):  # so that epochs of the two would meet
        server.restart()
    server.stop()
    restore(file, tmp_path / "restored")
    again = new_server(data=tmp_path / "restored").start()
    space = again.space("")
    with refused("FAILED_PRECONDITION", "STALE_CLAIM"):
        space.report(late)
    task = space.take("job")
    assert task.instance == "late" and task.claim != late.claim
    space.report(task)
    space.report(early)
    assert {state(space.get(id)) for id in ("early", "late")} == {"STOPPED"}


def test_logs_are_in_it_too(new_server, tmp_path):
    server = new_server().start()
    cli = Cli(server.address, "default")
    cli.ok("define", "-", input=JOB)
    cli.ok("start", "job", "--id", "one")
    worker = cli.background("work", "job", "--logs", "--", "sh", "-c", "echo said; exit 0")
    found = eventually(lambda: state(server.space("").get("one")) == "STOPPED", 20)
    worker.send_signal(signal.SIGINT)
    worker.communicate(timeout=20)
    assert found
    assert "said" in cli.ok("logs", "one")
    file = files_of(server, tmp_path / "to")
    server.stop()
    restore(file, tmp_path / "restored")
    again = new_server(data=tmp_path / "restored").start()
    assert "said" in Cli(again.address, "default").ok("logs", "one")


def test_verify_finds_nothing_wrong_with_logs_that_are_in_no_table_yet(new_server):
    server = new_server().start()
    cli = Cli(server.address, "default")
    cli.ok("define", "-", input=JOB)
    cli.ok("start", "job", "--id", "one")
    worker = cli.background("work", "job", "--logs", "--", "sh", "-c", "echo said; exit 0")
    eventually(lambda: "said" in cli("logs", "one").stdout, 20)
    server.kill()
    worker.kill()
    worker.communicate(timeout=20)
    verified = run("verify", server.data)
    assert verified.returncode == 0, verified.stdout


def test_a_backup_goes_to_standard_output(new_server, tmp_path):
    server = new_server().start()
    server.space("").define(JOB)
    done = subprocess.run([str(DCLI), "backup", "-"], capture_output=True, timeout=60,
                          env={**os.environ, "DFSMR_SERVER": server.address})
    assert done.returncode == 0, done.stderr
    (tmp_path / "b").write_bytes(done.stdout)
    restore(tmp_path / "b", tmp_path / "restored")
    again = new_server(data=tmp_path / "restored").start()
    assert [m.id for m in again.space("").machines().machines] == ["job"]


def test_the_stream_is_in_pieces_with_a_size_first(new_server):
    server = new_server().start()
    server.space("").define(JOB)
    messages = backup_bytes(server)
    assert messages[0].size > 0 and all(m.size == 0 for m in messages[1:])
    assert all(len(m.data) <= 1 << 20 for m in messages)
    assert b"".join(m.data for m in messages)[:4] == b"\x28\xb5\x2f\xfd"
    assert list((server.data / "copies").iterdir()) == []


# What is cut in the middle ----------------------------------------------------------------------


def fill(server, megabytes):
    """So much data that a backup of it takes a while."""
    space = server.space("")
    space.define(JOB)
    for _ in range(megabytes):
        space.start("job", params={"noise": os.urandom(500_000).hex()})


def test_a_server_or_client_that_is_killed_leaves_no_backup(new_server, tmp_path):
    server = new_server().start()
    fill(server, 40)  # of 64 MiB in a second
    cli = Cli(server.address, "default")
    for ends in ("client", "interrupt", "server"):
        to = tmp_path / ends
        taking = cli.background("backup", to)
        eventually(lambda: [one.stat().st_size for one in to.glob("*.part")
                            if one.stat().st_size > 0], 20)
        if ends == "server":
            server.kill()
        else:
            taking.send_signal(signal.SIGKILL if ends == "client" else signal.SIGINT)
        _, err = taking.communicate(timeout=20)
        assert taking.returncode == {"client": -9, "interrupt": 130, "server": 3}[ends], err
        assert [one.name for one in to.iterdir() if NAME.fullmatch(one.name)] == []
        if ends != "client":
            assert list(to.iterdir()) == []
        if ends != "server":
            eventually(lambda: list((server.data / "copies").iterdir()) == [])
    server.start()
    assert not (server.data / "copies").exists()
    files_of(server, tmp_path / "again")


def test_a_stop_ends_a_backup(new_server, tmp_path):
    server = new_server("--grace", "5s").start()
    fill(server, 40)
    taking = Cli(server.address, "default").background("backup", tmp_path / "to")
    eventually(lambda: [one for one in (tmp_path / "to").glob("*.part") if one.stat().st_size], 20)
    assert server.stop() == 0
    taking.communicate(timeout=20)
    assert taking.returncode != 0
    assert list((tmp_path / "to").iterdir()) == []


def test_others_are_served_while_a_backup_is_taken(new_server, tmp_path):
    server = new_server().start()
    fill(server, 30)
    space = server.space("")
    space.define(LOOP)
    id = space.start("loop")
    taking = Cli(server.address, "default").background("backup", tmp_path / "to")
    eventually(lambda: list((tmp_path / "to").glob("*.part")))
    done = 0
    while taking.poll() is None:
        space.transition(id, "again")
        done += 1
    assert taking.returncode == 0 and done > 20


# --restore ---------------------------------------------------------------------------------------


@pytest.fixture
def backup(new_server, tmp_path):
    server = new_server().start()
    server.space("").define(JOB)
    server.space("").start("job", "it", params={"noise": os.urandom(20_000).hex()})
    file = files_of(server, tmp_path / "backup")
    server.stop()
    return file


def test_a_folder_with_data_is_not_restored_to(backup, tmp_path):
    data = tmp_path / "full"
    data.mkdir()
    (data / "mine").write_text("keep")
    done = run("--restore", backup, "--data", data)
    assert done.returncode == 1 and "holds data (mine)" in done.stderr
    assert [one.name for one in data.iterdir()] == ["mine"]
    restore(backup, tmp_path / "r")
    done = run("--restore", backup, "--data", tmp_path / "r")
    assert done.returncode == 1 and "holds data" in done.stderr


@pytest.mark.parametrize("damage", ["cut", "half", "flipped", "empty", "text"])
def test_a_damaged_file_is_not_restored(backup, tmp_path, damage):
    whole = backup.read_bytes()
    middle = len(whole) // 2
    broken = {"cut": whole[:-1], "half": whole[:middle], "empty": b"", "text": b"no backup\n",
              "flipped": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1:]}
    (tmp_path / "b").write_bytes(broken[damage])
    for data in (tmp_path / "new", tmp_path / "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        done = run("--restore", tmp_path / "b", "--data", data)
        assert done.returncode == 1 and "is not whole" in done.stderr
        assert list(data.iterdir()) == []


def test_a_folder_whose_files_changed_is_not_restored(backup, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, text in unpacked(backup).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(text)
    restore(folder, tmp_path / "good")
    table = next(iter(folder.glob("*.sst")))
    good = table.read_bytes()
    table.write_bytes(good[:100] + b"\x00\x01" + good[102:])
    done = run("--restore", folder, "--data", tmp_path / "bad")
    assert done.returncode == 1 and f"{table.name} is damaged" in done.stderr
    table.unlink()
    done = run("--restore", folder, "--data", tmp_path / "bad")
    assert done.returncode == 1 and f"{table.name} is missing" in done.stderr


def test_a_restore_that_was_killed_can_be_done_again(backup, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "RESTORING").touch()  # as one that was killed leaves it
    (data / "000012.sst").write_bytes(b"half")
    served = run("--addr", f"127.0.0.1:{free_port()}", "--data", data)
    assert served.returncode == 1
    assert "RESTORING" in served.stderr and "dsrv --restore" in served.stderr
    restore(backup, data)
    assert not (data / "RESTORING").exists()


def test_there_must_be_a_backup_to_restore(tmp_path):
    done = run("--restore", tmp_path / "none", "--data", tmp_path / "data")
    assert done.returncode == 1 and "there is no backup" in done.stderr
    assert not (tmp_path / "data").exists()


# --backup-every ----------------------------------------------------------------------------------


def folders(to):
    return sorted(one for one in to.iterdir()) if to.exists() else []


def age(folder, stamp):
    """Has a backup be of another time: its name and manifest say so."""
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["time"] = f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:8]}T08:00:00.000000Z"
    (folder / "manifest.json").write_text(json.dumps(manifest))
    folder.rename(folder.parent / f"dfsmr-{stamp}")


def test_the_server_backs_itself_up_and_drops_the_oldest(new_server, tmp_path):
    to = tmp_path / "to"
    server = new_server("--backup-every", "1m", "--backup-to", to, "--backup-keep", "2").start()
    fill(server, 5)
    server.stop()
    for number in range(3):
        server.start()
        eventually(lambda: server.log.count("bytes are in") > number, 20)
        [newest] = [one for one in folders(to) if "dfsmr-20200" not in one.name]
        assert re.fullmatch(r"dfsmr-\d{8}T\d{6}Z", newest.name)
        server.space("").start("job", f"n{number}")
        server.stop()
        if number < 2:
            age(newest, f"2020010{number + 1}T080000Z")
    left = eventually(lambda: len(folders(to)) == 2 and folders(to))
    assert left[0].name == "dfsmr-20200102T080000Z"
    # What is not merged meanwhile is shared with the store, or with the backup before.
    assert [one for folder in left for one in folder.glob("*.sst") if one.stat().st_nlink > 1]
    restore(left[1], tmp_path / "restored")
    again = new_server(data=tmp_path / "restored").start()
    assert again.space("").get("n1")
    with refused("NOT_FOUND"):
        again.space("").get("n2")


def test_a_backup_that_fails_is_told_and_the_server_goes_on(new_server, tmp_path):
    (tmp_path / "file").write_text("no folder")
    server = new_server("--backup-every", "1h", "--backup-to", tmp_path / "file" / "to").start()
    eventually(lambda: re.search(r"error.*backup: cannot make", server.log))
    server.space("").define(JOB)


@pytest.mark.parametrize("flags, told", [
    (["--backup-every", "1h"], "go together"), (["--backup-to", "x"], "go together"),
    (["--backup-every", "59s", "--backup-to", "x"], "at least 1m"),
    (["--backup-every", "1h", "--backup-to", "x", "--backup-keep", "0"], "--backup-keep"),
])
def test_flags_that_make_no_sense_are_refused(flags, told):
    done = run(*flags)
    assert done.returncode == 2 and told in done.stderr


# dsrv verify -------------------------------------------------------------------------------------


def verify(path):
    done = run("verify", path)
    assert (done.returncode == 0) == ("all is well" in done.stdout), done
    return done


def test_verify_finds_nothing_wrong_with_what_was_worked_on(new_server, tmp_path):
    server = new_server().start()
    space = server.space("")
    space.define(ROUTE)
    with Load(server, 3) as load:
        watch = watch_from(space, "0")
        watch.until_count(500, within=20)
        server.kill()
        server.start()
        with watch_from(space, "") as watch:
            watch.until_count(100, within=20)
    assert not load.surprises
    file = files_of(server, tmp_path / "to")
    server.kill()
    for path in (server.data, file):
        done = verify(path)
        assert done.returncode == 0, done.stdout
        rows, instances = map(int, re.search(r"(\d+) rows, (\d+) instances", done.stdout).groups())
        assert rows > instances > 10


TRIED = """
id: tried
upgrade_strategy: upgrade
nodes:
  work: {start: true, retry: {limit: 3, delay: 1ms}, transitions: {ok: slow, error: bad}}
  slow: {timeout_strategy: fixed, timeout: 0.2, transitions: {ok: end, dfsmr.timeout: late}}
  late: {transitions: {ok: end}}
  bad: {final: true, result: error}
  end: {final: true}
"""


def test_verify_finds_nothing_wrong_with_tries_timeouts_upgrades_and_imports(new_server, tmp_path):
    server = new_server(virtual_clock="2026-01-31T08:00:00Z").start()
    space = server.space("")
    space.define(TRIED)
    space.start("tried", "a")
    space.start("tried", "standing")
    for transition in ("error", "ok"):
        task = only([t for t in space.ready("tried", max_tasks=2) if t.instance == "a"])
        space.report(task, transition, error="no" if transition == "error" else "")
        server.advance(by=1)  # to its next try
    space.ready("tried", "slow")
    server.advance(by=1)
    assert "late" in {change.node for change in space.history("a")}
    space.define("description: another\n" + TRIED)
    space.define(TRIED.replace("work", "begin"))
    nodes = [change.node for change in space.history("standing")]
    assert nodes.count("dfsmr.upgraded") == 2 and nodes[-1] == "begin"
    file = files_of(server, tmp_path / "to")
    server.stop()
    for path in (server.data, file):
        done = verify(path)
        assert done.returncode == 0, done.stdout


def test_verify_wants_a_store_that_is_not_served(new_server, tmp_path):
    server = new_server().start()
    done = run("verify", server.data)
    assert done.returncode == 1 and "another dsrv holds" in done.stderr
    done = run("verify", tmp_path / "none")
    assert done.returncode == 1 and "there is no" in done.stderr
    (tmp_path / "empty").mkdir()
    done = run("verify", tmp_path / "empty")
    assert done.returncode == 1 and "there is no store" in done.stderr
    assert run("verify").returncode == 2
    assert "Usage: dsrv verify" in run("verify", "--help").stdout
    for command in ("verify", "migrate", "store"):
        assert f"\n  dsrv {command}" in run("--help").stdout


@pytest.fixture
def folder(backup, tmp_path):
    """A backup, unpacked."""
    to = tmp_path / "unpacked"
    for name, text in unpacked(backup).items():
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        (to / name).write_bytes(text)
    assert verify(to).returncode == 0
    return to


def test_verify_finds_a_byte_that_is_another_one(folder):
    table = next(iter(folder.glob("*.sst")))
    good = table.read_bytes()
    table.write_bytes(good[:30] + bytes([good[30] ^ 1]) + good[31:])
    done = verify(folder)
    assert done.returncode == 1
    assert f"{table.name} is damaged" in done.stdout and "a table is damaged" in done.stdout


def test_verify_finds_a_file_that_is_missing_or_cut(folder, backup, tmp_path):
    (tmp_path / "cut").write_bytes(backup.read_bytes()[:-200])
    done = verify(tmp_path / "cut")
    assert done.returncode == 1 and "it is cut" in done.stdout
    table = next(iter(folder.glob("*.sst")))
    table.unlink()
    done = verify(folder)
    assert done.returncode == 1 and f"{table.name} is missing" in done.stdout


def test_verify_finds_writes_that_are_lost(new_server):
    server = new_server().start()
    server.space("").define(JOB)
    server.space("").start("job")
    server.kill()
    assert verify(server.data).returncode == 0
    log = max(server.data.glob("*.log"))
    log.write_bytes(b"")
    done = verify(server.data)
    assert done.returncode == 1 and "writes are lost" in done.stdout
