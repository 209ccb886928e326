"""dsrv migrate and dsrv store: stores between directories and PostgreSQL, with all that is in them."""
import contextlib
import signal
import subprocess

import pytest

from postgres import Postgres
from support import CALL, DSRV, JOB, eventually, refused, state


@pytest.fixture(scope="module")
def postgres():
    server = Postgres()
    yield server
    server.dispose()


def run(*words):
    return subprocess.run([str(DSRV), *map(str, words)], capture_output=True, text=True,
                          timeout=120)


def migrate(source, target, *flags):
    return run("migrate", "--from", source, "--to", target, *flags)


def states(space):
    return {one.id: (state(one), [token.node for token in one.tokens])
            for one in space.instances(page_size=1000).instances}


@pytest.fixture
def filled(new_server, tmp_path):
    """A store in a directory, with instances that wait, one in hand and one that has stopped."""
    server = new_server(data=tmp_path / "source").start()
    space = server.space("moving")
    space.define(JOB)
    space.start_many("job", 300)
    first, second = space.ready("job", "work", max_tasks=2)
    space.report(first, "ok")
    return server, space, second


def test_a_store_moves_into_postgresql_and_back_with_all_that_is_in_it(filled, new_server, tmp_path,
                                                                       postgres):
    server, space, claimed = filled
    before = states(space)
    cursor = space.cursor()
    assert server.stop() == 0

    there = migrate(server.data, postgres.url(), "--to-schema", "moved")
    assert there.returncode == 0, there.stderr
    assert "299 live and 1 stopped instances, compared" in there.stdout

    refusal = run("--data", server.data, "--addr", "127.0.0.1:0")
    assert refusal.returncode == 1
    assert "has moved to postgresql://tester@" in refusal.stderr, refusal.stderr

    moved = new_server("--store", postgres.url(), "--store-schema", "moved", data=None)
    moved.data = None
    moved.start()
    space = moved.space("moving")
    assert states(space) == before
    space.report(claimed, "ok")  # a claim of before
    with refused("OUT_OF_RANGE", "CURSOR_EXPIRED"):
        space.changes(after=cursor)
    after = states(space)
    served = migrate(postgres.url(), tmp_path / "back", "--from-schema", "moved")
    assert served.returncode == 1 and "is served by the server at" in served.stderr
    assert moved.stop() == 0

    back = migrate(postgres.url(), tmp_path / "back", "--from-schema", "moved")
    assert back.returncode == 0, back.stderr
    home = new_server(data=tmp_path / "back").start()
    assert states(home.space("moving")) == after
    again = run("--store", postgres.url(), "--store-schema", "moved", "--addr", "127.0.0.1:0")
    assert again.returncode == 1 and "has moved to" in again.stderr, again.stderr


def test_a_copy_that_was_killed_goes_on_and_nobody_serves_it_before(filled, new_server, postgres):
    server, _, _ = filled
    assert server.stop() == 0
    words = [str(DSRV), "migrate", "--from", str(server.data), "--to", postgres.url(),
             "--to-schema", "killed"]
    for wait in (0.05, 0.1, 0.2):
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(wait)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait(CALL)
        if process.returncode == 0:
            break
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 or "has moved to" in done.stderr, done.stderr
    server = new_server("--store", postgres.url(), "--store-schema", "killed", data=None)
    server.data = None
    assert len(states(server.start().space("moving"))) == 300


@pytest.fixture
def copying(new_server, postgres, tmp_path):
    """Begins to copy a store in a schema of that name, and stops where it reads it, meanwhile."""
    @contextlib.contextmanager
    def begin(schema):
        server = new_server("--store", postgres.url(), "--store-schema", schema, "--partitions",
                            "1", data=None)
        server.data = None
        server.start().space("moving").define(JOB)
        assert server.stop() == 0
        with postgres.holding(f"lock table {schema}.p0000 in access exclusive mode"):
            process = subprocess.Popen(
                [str(DSRV), "migrate", "--from", postgres.url(), "--from-schema", schema, "--to",
                 str(tmp_path / schema)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            eventually(lambda: int(postgres.sql("select count(*) from pg_stat_activity where "
                                                "wait_event_type = 'Lock'")) > 0, CALL)
            yield process
    return begin


def test_nobody_serves_the_source_while_it_is_copied(copying, postgres):
    with copying("copied") as process:
        served = run("--store", postgres.url(), "--store-schema", "copied", "--addr", "127.0.0.1:0")
        assert served.returncode == 1 and "has moved to" in served.stderr, served.stderr
    _, log = process.communicate(timeout=60)
    assert process.returncode == 0, log


def test_a_copy_of_what_was_served_meanwhile_is_refused(copying, postgres):
    with copying("taken") as process:
        # As by a server that had looked at the store just before it was marked.
        postgres.sql("update taken.part set epoch = epoch + 1")
    _, log = process.communicate(timeout=60)
    assert process.returncode == 1 and "was served while it was copied" in log, log


def test_a_copy_that_waits_for_the_database_can_be_interrupted(copying, postgres):
    try:
        with copying("away") as process:
            postgres.kill()
        process.send_signal(signal.SIGINT)
        _, log = process.communicate(timeout=15)
        assert process.returncode == 130 and "interrupted" in log, log
    finally:
        postgres.start()


def test_what_is_only_a_part_of_a_store_is_not_served(copying, postgres, tmp_path):
    with copying("part") as process:
        process.kill()
        process.wait(CALL)
    unmarked = run("store", "unmark", tmp_path / "part")
    assert unmarked.returncode == 1 and "is only a part of" in unmarked.stderr


def test_what_is_not_empty_or_not_there_is_refused(filled, tmp_path, postgres):
    server, _, _ = filled
    assert "another dsrv holds" in migrate(server.data, postgres.url()).stderr
    assert server.stop() == 0
    assert migrate(tmp_path / "none", postgres.url()).returncode == 1
    first = migrate(server.data, tmp_path / "first")
    assert first.returncode == 0, first.stderr
    assert "has moved to" in migrate(server.data, tmp_path / "second").stderr
    unmarked = run("store", "unmark", server.data)
    assert unmarked.returncode == 0 and "may be served again" in unmarked.stdout
    full = migrate(server.data, tmp_path / "first")
    assert full.returncode == 1 and "is not empty" in full.stderr
    assert migrate(server.data, tmp_path / "second").returncode == 0
    assert run("migrate", "--from", "x").returncode == 2
    assert run("store", "renew", server.data).returncode == 2


def test_a_restored_database_begins_another_life(new_server, postgres):
    flags = ("--store", postgres.url(), "--store-schema", "renewed", "--partitions", "1")
    server = new_server(*flags, data=None)
    server.data = None
    space = server.start().space("life")
    space.define(JOB)
    space.start("job")
    cursor = space.cursor()
    store = flags[1:4]
    assert "is served by" in run("store", "renew", *store).stderr
    assert server.stop() == 0
    renewed = run("store", "renew", *store)
    assert renewed.returncode == 0, renewed.stderr
    space = server.start().space("life")
    with refused("OUT_OF_RANGE", "CURSOR_EXPIRED"):
        space.changes(after=cursor)
    assert len(states(space)) == 1


def test_a_store_of_several_partitions_moves_as_it_is_and_begins_another_life(new_server, postgres):
    def served(schema, *flags):
        server = new_server("--store", postgres.url(), "--store-schema", schema, *flags, data=None)
        server.data = None
        server.start()
        # It has all partitions.
        eventually(lambda: server.space("many").instances(page_size=1) is not None)
        return server

    server = served("four", "--partitions", "4")
    space = server.space("many")
    space.define(JOB)
    for number in range(60):
        space.start("job", f"job-{number}")
    first, second = space.ready("job", "work", max_tasks=2)
    space.report(first, "ok")
    before = states(space)
    lives = {one.partition for one in space.instances(page_size=1000).instances}
    assert lives == {0, 1, 2, 3}
    assert server.stop() == 0

    url = postgres.url()
    there = migrate(url, url, "--from-schema", "four", "--to-schema", "copy")
    assert there.returncode == 0, there.stderr
    assert "59 live and 1 stopped instances, compared" in there.stdout
    server = served("copy")  # as many partitions as it was made of
    space = server.space("many")
    assert states(space) == before
    space.report(second, "ok")
    cursor = space.cursor()
    assert server.stop() == 0
    other = run("--store", url, "--store-schema", "copy", "--partitions", "3", "--addr",
                "127.0.0.1:0")
    assert other.returncode == 1 and "4 partitions, and 3" in other.stderr, other.stderr

    renewed = run("store", "renew", url, "--store-schema", "copy")
    assert renewed.returncode == 0, renewed.stderr
    space = served("copy").space("many")
    with refused("OUT_OF_RANGE", "CURSOR_EXPIRED"):
        space.changes(after=cursor)
    assert len(states(space)) == 60
