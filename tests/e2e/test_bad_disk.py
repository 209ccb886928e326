"""Disks that fail, fill up or forbid: what was acknowledged is there, or dsrv says why not."""
import contextlib
import errno
import os
import shutil
import subprocess

import grpc
import pytest

from load import ROUTE, Load, audit, watch_from
from support import (BIN, CALL, DSRV, JOB, Refusal, Server, check_refusal, eventually, free_port,
                     health, only, refused)
from test_packages import Registry, archive

BIG = {"a": "x" * 20_000}
MEBIBYTE = 1 << 20


class BadDisk:
    """The folder of a server whose disk fails on order (see bad_disk.cc)."""

    def __init__(self, folder):
        self.data = folder / "data"
        self.orders = folder / "orders"
        self.count = folder / "orders.failed"
        library = BIN / "bad_disk.so"
        assert library.exists(), f"{library} is missing: build the target bad_disk"
        self.environment = {"LD_PRELOAD": str(library), "BAD_DISK_FOLDER": str(self.data),
                            "BAD_DISK_ORDERS": str(self.orders)}

    def fail(self, call, part, number=errno.EIO, skip=0):
        fresh = self.orders.with_suffix(".new")
        fresh.write_text(f"{call} {part} {number} {skip}\n")
        fresh.rename(self.orders)

    def hang(self, call, part):
        """Such calls do not return any more."""
        self.fail(call, part, number=0)

    def heal(self):
        """Says how many calls have failed."""
        self.orders.unlink()
        failed = self.count.stat().st_size if self.count.exists() else 0
        self.count.unlink(missing_ok=True)
        return failed


@pytest.fixture
def disk(tmp_path):
    return BadDisk(tmp_path)


def check_said(server, *words):
    """It has ended by itself, and has said in one line why and what to do."""
    assert server.exit_status() == 1
    lines = [line for line in server.log.splitlines()
             if all(word.lower() in line.lower() for word in words)]
    assert lines, f"no line has {words}:\n{server.log}"
    server.hang_up()


# A disk that fails ----------------------------------------------------------------------------


@pytest.mark.parametrize("part", [".log", "HIGH_WATER", ".sst", "MANIFEST"])
@pytest.mark.parametrize("call", ["write", "sync"])
def test_after_a_failed_write_or_sync_it_stops_and_nothing_acknowledged_is_lost(
        new_server, disk, call, part):
    server = new_server("--memtable-mb", "1", data=disk.data, environment=disk.environment).start()
    space = server.space("")
    space.define(ROUTE)
    with Load(server, part) as load:
        with watch_from(space, "0") as watch:
            watch.until_count(50, within=20)
            disk.fail(call, part, skip=2)
            while server.process.poll() is None:  # until a table is written, too
                with contextlib.suppress(grpc.RpcError):
                    load.started.update(space.start_many("route", 20, params=BIG))
            watch.await_end()
        check_said(server, "the store failed", "Input/output error", "restart it")
        assert disk.heal() > 0
        server.start()
        with watch_from(space, "") as after:
            after.until_count(20, within=20)
    audit(space, load, [list(watch.changes)])
    assert not load.surprises, load.surprises[:3]


# A disk that cannot be read -------------------------------------------------------------------


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A folder with a store that has tables and a log, and the ids of all its instances."""
    folder = tmp_path_factory.mktemp("filled")
    server = Server(folder / "data", "--memtable-mb", "1").start()
    try:
        space = server.space("")
        space.define(JOB)
        ids = space.start_many("job", 200, params=BIG)
        assert server.stop() == 0
        space = server.start().space("")
        ids += space.start_many("job", 20)
        server.kill()
    finally:
        server.dispose()
    assert list((folder / "data").glob("*.sst"))
    return folder / "data", ids


@pytest.mark.parametrize("part", [".log", ".sst", "MANIFEST", "CURRENT", "HIGH_WATER"])
def test_a_store_that_cannot_be_read_is_not_opened(new_server, disk, filled, part):
    pristine, ids = filled
    shutil.copytree(pristine, disk.data)
    server = new_server(data=disk.data, environment=disk.environment)
    disk.fail("read", part)
    server.launch()
    check_said(server, str(disk.data))
    assert disk.heal() > 0
    space = server.start().space("")
    assert {i.id for i in list_all(space)} == set(ids)


def list_all(space):
    instances, token = [], ""
    while True:
        page = space.instances(page_token=token, page_size=50)
        instances += page.instances
        token = page.next_page_token
        if not token:
            return instances


def test_while_reads_fail_answers_are_errors_or_true_and_never_fewer(new_server, disk, filled):
    pristine, ids = filled
    shutil.copytree(pristine, disk.data)
    server = new_server("--cache-mb", "8", data=disk.data, environment=disk.environment).start()
    space = server.space("")
    disk.fail("read", ".sst")
    refusals = 0
    for ask in (lambda: {i.id for i in list_all(space)} == set(ids),
                lambda: all(space.get(id).id == id for id in ids)):
        try:
            assert ask()
        except grpc.RpcError as error:
            refusals += 1
            assert error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DATA_LOSS), error
    assert refusals and disk.heal()
    # Where it was the engine that could not read, the server ends by itself, maybe only now.
    if server.stop() != 0:
        check_said(server, "the store failed", "Input/output error")
    space = server.start().space("")
    assert {i.id for i in list_all(space)} == set(ids)


# A disk that is full --------------------------------------------------------------------------


@contextlib.contextmanager
def mounted(folder, *arguments):
    """A mount of its own; skips the test where that is not allowed."""
    folder.mkdir(exist_ok=True)
    mount = subprocess.run(["mount", *map(str, arguments), str(folder)], capture_output=True,
                           text=True)
    if mount.returncode != 0:
        pytest.skip(f"cannot mount: {mount.stderr.strip() or mount.returncode}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 48 MiB."""
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=48m", "none") as folder:
        yield folder


def fill_up(folder, leave):
    """Leaves so many bytes free; returns the file that takes up the rest."""
    ballast = folder / "ballast"
    disk = os.statvfs(folder)
    taken = ballast.stat().st_size if ballast.exists() else 0
    size = taken + disk.f_bavail * disk.f_frsize - leave
    with ballast.open("ab") as file:
        os.posix_fallocate(file.fileno(), 0, size)
    return ballast


def is_refused(call):
    """Whether it is, for want of room."""
    try:
        call()
    except grpc.RpcError as error:
        check_refusal(Refusal(error), "RESOURCE_EXHAUSTED", "DISK_FULL", "room")
        return True
    return False


def start_until_refused(space, ids):
    with pytest.raises(grpc.RpcError) as caught:
        while True:  # with what cannot be compressed
            ids.append(space.start("job", params={"a": os.urandom(100_000).hex()}))
    return Refusal(caught.value)


def test_a_disk_that_is_really_full_ends_it_with_a_message_and_loses_nothing(
        new_server, small_disk):
    server = new_server("--min-free-mb", "0", "--memtable-mb", "1",
                        data=small_disk / "data").start()
    space = server.space("")
    space.define(JOB)
    ballast = fill_up(small_disk, 4 * MEBIBYTE)
    ids = []
    check_refusal(start_until_refused(space, ids), "UNAVAILABLE", ("STORE_FAILED", ""))
    assert ids
    check_said(server, "No space left on device", "needs room", "restart it")

    fill_up(small_disk, 0)
    server.launch()
    check_said(server, str(small_disk / "data"), "the disk", "is full", "make room")
    ballast.unlink()
    space = server.start().space("")
    assert set(ids) <= {i.id for i in list_all(space)}
    changes, _ = space.changes("0", kinds=["STARTED"])
    assert len(changes) in (len(ids), len(ids) + 1)
    assert space.start("job")


def test_before_the_disk_is_full_it_refuses_what_is_new_and_comes_back_by_itself(
        new_server, small_disk):
    server = new_server("--min-free-mb", "16", "--memtable-mb", "1",
                        data=small_disk / "data").start()
    space = server.space("")
    space.define(JOB)
    ids = space.start_many("job", 3)
    task = only(space.ready("job"))

    ballast = fill_up(small_disk, 15 * MEBIBYTE)
    eventually(lambda: is_refused(lambda: space.start("job")))
    assert health(server.channel) == "SERVING"
    assert space.get(ids[0]).id == ids[0]
    assert space.report(task, "ok")
    task = only(space.ready("job"))
    with refused("RESOURCE_EXHAUSTED", "DISK_FULL"):
        space.define(JOB.replace("ok", "fine"))

    fill_up(small_disk, 7 * MEBIBYTE)
    eventually(lambda: is_refused(lambda: space.ready("job")))
    with refused("RESOURCE_EXHAUSTED", "DISK_FULL", "room"):
        space.report(task, "ok")
    assert len(list_all(space)) == len(space.changes("0", kinds=["STARTED"])[0])

    process = server.process
    ballast.unlink()
    eventually(lambda: not is_refused(lambda: space.report(task, "ok")))
    assert space.start("job")
    assert server.process is process and process.poll() is None
    for words in ("the disk is nearly full", "the disk is as good as full", "room again"):
        assert server.log.count(words) == 1, server.log
    assert server.stop() == 0


def test_without_a_flag_a_twentieth_of_the_disk_stays_free(new_server, small_disk):
    server = new_server("--memtable-mb", "1", data=small_disk / "data").start()
    space = server.space("")
    space.define(JOB)
    ballast = fill_up(small_disk, 3 * MEBIBYTE)  # 2.4 are a twentieth
    ids = [space.start("job")]
    fill_up(small_disk, 2 * MEBIBYTE)
    check_refusal(start_until_refused(space, ids), "RESOURCE_EXHAUSTED", "DISK_FULL")
    ballast.unlink()
    eventually(lambda: not is_refused(lambda: ids.append(space.start("job"))))
    assert {i.id for i in list_all(space)} == set(ids)


def test_an_archive_without_room_is_refused_before_it_fills_the_disk(new_server, small_disk):
    server = new_server("--memtable-mb", "1", data=small_disk / "data").start()
    space = server.space("")
    space.define(JOB)
    registry = Registry(space)
    put = []

    def put_one():
        version = f"1.0.{len(put)}"
        put.append(registry.put(archive(version, files={"big": os.urandom(8 * MEBIBYTE)})))

    while not is_refused(put_one):
        assert len(put) < 6
    assert len(put) > 1
    assert space.start("job")
    server.kill()
    space = server.start().space("")
    assert len(Registry(space).list("p").packages) == len(put)
    assert space.start("job")


def test_an_archive_on_its_way_ends_when_something_else_fills_the_disk(new_server, small_disk):
    server = new_server("--min-free-mb", "8", "--memtable-mb", "1",
                        data=small_disk / "data").start()
    space = server.space("")
    space.define(JOB)
    registry = Registry(space)
    parts = registry.parts(archive(files={"big": os.urandom(12 * MEBIBYTE)}))

    def while_it_fills_up():
        for number, part in enumerate(parts):
            if number == 8:
                fill_up(small_disk, 7 * MEBIBYTE)
                eventually(lambda: is_refused(lambda: space.start("job")))
            yield part

    with refused("RESOURCE_EXHAUSTED", "DISK_FULL", "room"):
        registry.stub.PutPackage(while_it_fills_up(), timeout=60)
    (small_disk / "ballast").unlink()
    eventually(lambda: not is_refused(lambda: space.start("job")))
    assert not registry.list().packages
    assert registry.push("1.0.1")


# What may not be used -------------------------------------------------------------------------


def run_dsrv(data):
    return subprocess.run([str(DSRV), "--addr", f"127.0.0.1:{free_port()}", "--data", str(data)],
                          capture_output=True, text=True, timeout=CALL, stdin=subprocess.DEVNULL)


def test_a_directory_that_is_read_only_is_named(filled, tmp_path):
    pristine, _ = filled
    with mounted(tmp_path / "mounted", "-o", "bind,ro", pristine) as data:
        ended = run_dsrv(data)
    assert ended.returncode == 1
    assert str(data) in ended.stderr and "Read-only file system" in ended.stderr


def test_a_store_of_a_newer_version_is_left_alone(filled, tmp_path):
    pristine, _ = filled
    data = tmp_path / "data"
    shutil.copytree(pristine, data)
    (data / "FORMAT").write_text("dfsmr store format 2\n")
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    ended = run_dsrv(data)
    assert ended.returncode == 1
    assert all(word in ended.stderr for word in (str(data), "newer dsrv", "backup")), ended.stderr
    assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == before
