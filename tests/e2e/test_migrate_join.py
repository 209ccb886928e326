"""dsrv migrate from several partitions to one, or to another number: what was in the parts is in one
again, or in others, and goes on."""
import subprocess

import pytest

from stubs import agent as ag
from stubs import v1
from support import CALL, DSRV, JOB, eventually, kind, refused, retention_flags
from test_agents import SOURCE, Agent, Calls
from test_groups import Groups
from test_migrate import migrate, postgres, run  # noqa: F401: a fixture
from test_migrate_partitions import (DOOR, MOST, Moving, check_same, goes_on, names, picture,
                                     served)


def in_parts(new_server, postgres, schema, partitions, *flags):  # noqa: F811
    server = new_server("--store", postgres.url(), "--store-schema", schema, "--partitions",
                        str(partitions), *flags, data=None)
    server.data = None
    return server.start()


def without_asked(instance):
    """Who starts elsewhere just after its group was paused may have asked home for a limit before it
    heard of that, and waits for both."""
    if any(wait.kind == v1.Wait.GROUP_PAUSED for wait in instance.waits_for):
        left = [wait for wait in instance.waits_for if wait.kind != v1.Wait.LIMIT]
        del instance.waits_for[:]
        instance.waits_for.extend(left)


def partitions_of(space):
    return {one.id: one.partition for one in space.instances(page_size=1000).instances}


def seen_of(space, lives):
    """As picture, without what is another thing over several partitions: how long nodes take is some
    seconds late, places for tasks are held by partitions, and what OCCURRED is home's change. Records
    of one partition keep their order, those of several are in that of time but where one reader has
    come further in one of them than in another."""
    seen = picture(space)
    seen["by started"] = {
        partition: [one for one in seen["by started"] if lives.get(one) == partition]
        for partition in set(lives.values())}
    for key in ("queue:slow", "action:weigh"):
        del seen[f"limit {key}"]
    for what, one in seen.items():
        for instance in one if what.startswith("list ") else [one]:
            if isinstance(instance, v1.Instance):
                without_asked(instance)
        if what.startswith("changes of "):
            one.sort(key=lambda change: (change.time.seconds, change.time.nanos, change.kind))
        for node in one.nodes if what.startswith("machine ") else ():
            for quantile in ("p50", "p95"):
                node.stats.ClearField(quantile)
    return seen


@pytest.mark.parametrize("partitions", ["1", "6"])
def test_a_store_of_several_partitions_becomes_one_of_another_number(new_server, tmp_path,
                                                                     postgres, partitions):  # noqa: F811
    schema = f"parts{partitions}"
    moving = Moving(in_parts(new_server, postgres, schema, 4))
    lives = partitions_of(moving.space)
    before = seen_of(moving.space, lives)
    cursor = moving.space.cursor()
    assert moving.server.stop() == 0

    into = tmp_path / "there" if partitions == "1" else postgres.url()
    there = migrate(postgres.url(), into, "--from-schema", schema, "--to-schema",
                    schema + "_there", "--partitions", partitions)
    assert there.returncode == 0, there.stderr
    assert "compared" in there.stdout and f"in {partitions} partition" in there.stdout
    refusal = run("--store", postgres.url(), "--store-schema", schema, "--addr", "127.0.0.1:0")
    assert refusal.returncode == 1 and "has moved to" in refusal.stderr, refusal.stderr

    def serve():
        if partitions == "1":
            return new_server(data=tmp_path / "there").start()
        return served(new_server, postgres, schema + "_there")

    moved = serve()
    space = moving.space = moved.space("moving")
    check_same(before, seen_of(space, lives))
    with refused("OUT_OF_RANGE", "CURSOR_EXPIRED"):
        space.changes(after=cursor)
    goes_on(moving)
    assert moved.stop() == 0
    after = seen_of(serve().space("moving"), lives)
    assert {one.id for one in before["list {}"]} <= {one.id for one in after["list {}"]}


def test_what_was_in_parts_and_in_one_before_has_all_of_its_history(new_server, tmp_path, postgres):  # noqa: F811
    """From one to several and back: records of before are shown once, and go when their time is up."""
    kept = retention_flags("20s")
    server = new_server(*kept, data=tmp_path / "source").start()
    space = server.space("moving")
    space.define(DOOR)
    for number in range(40):
        space.start("door", f"door-{number}", group="g")
        space.transition(f"door-{number}", "open")
    assert server.stop() == 0
    there = migrate(server.data, postgres.url(), "--to-schema", "between", "--partitions", "5")
    assert there.returncode == 0, there.stderr
    parts = served(new_server, postgres, "between", *kept)
    space = parts.space("moving")
    for number in range(20):
        space.transition(f"door-{number}", "away")
    walks = {f"door-{number}": space.walk(f"door-{number}") for number in range(40)}
    told = {name: [kind(one) for one in space.changes("0", instance=name)[0]] for name in walks}
    stats = space.machine("door").stats
    assert stats.stopped == 20
    assert parts.stop() == 0
    back = migrate(postgres.url(), tmp_path / "back", "--from-schema", "between")
    assert back.returncode == 0, back.stderr
    assert "in 1 partition: " in back.stdout

    space = new_server(*kept, data=tmp_path / "back").start().space("moving")
    assert {name: space.walk(name) for name in walks} == walks
    assert {name: [kind(one) for one in space.changes("0", instance=name)[0]]
            for name in walks} == told
    assert space.machine("door").stats == stats
    seqs = [change.seq for change in space.changes("0")[0]]
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))
    eventually(lambda: names(space) == {f"door-{number}" for number in range(20, 40)}, MOST)
    assert {name: space.walk(name) for name in names(space)} == {
        name: walks[name] for name in names(space)}
    eventually(lambda: space.machine("door").stats.stopped == 0, MOST)
    eventually(lambda: Groups(space).get().total == 20, MOST)


def test_an_agent_goes_on_with_what_it_has_of_several_partitions(new_server, tmp_path, postgres):  # noqa: F811
    server = in_parts(new_server, postgres, "of_agents", 4)
    space = server.space("moving")
    space.define(SOURCE)
    agent = Agent(space, "h1", slots=12)
    for number in range(12):
        space.start("job", f"i-{number}")
    tasks = [agent.task() for _ in range(12)]
    for task in tasks:
        agent.begin(task)
    for task in tasks[:2]:
        agent.report(task)
    for task in tasks[2:6]:
        space.cancel(task.instance, mode="KILL")
        agent.await_order("killed_claims", task)
    assert server.stop() == 0
    there = migrate(postgres.url(), tmp_path / "there", "--from-schema", "of_agents")
    assert there.returncode == 0, there.stderr

    space = new_server(data=tmp_path / "there").start().space("moving")
    calls = Calls(space)
    eventually(lambda: len(calls.operations()) == 10, MOST)
    assert calls.get("h1").done == 2
    agent = Agent(space, "h1", slots=12)
    agent.welcome()
    for task in tasks[2:6]:
        assert space.get(task.instance).leftovers == 1
        agent.stopped(task, ag.StopReport.ENDED)
    for task in tasks[6:]:
        assert agent.report(task).HasField("accepted")
    eventually(lambda: not calls.operations(), MOST)
    eventually(lambda: calls.get("h1").done == 8, MOST)
    agent.cancel()


def test_a_store_whose_servers_were_killed_says_what_to_do(new_server, tmp_path, postgres):  # noqa: F811
    """What partitions have told each other and not applied yet is not lost: it is refused first."""
    server = in_parts(new_server, postgres, "killed", 3)
    space = server.space("moving")
    space.define(DOOR)
    space.start("door", "first")
    assert server.stop() == 0
    # A message that was not delivered, as of a server that was killed right behind the commit.
    postgres.sql("insert into killed.p0001 values ('\\x7000000000000000000fff', '\\x00')")
    there = migrate(postgres.url(), tmp_path / "there", "--from-schema", "killed")
    assert there.returncode == 1, there.stdout
    assert "1 messages between partitions have not arrived yet: serve the store once more" in (
        there.stderr), there.stderr
    postgres.sql("delete from killed.p0001 where substr(k, 1, 1) = '\\x70'")
    there = migrate(postgres.url(), tmp_path / "there", "--from-schema", "killed")
    assert there.returncode == 0, there.stderr


def test_a_copy_of_several_partitions_that_was_killed_goes_on(new_server, tmp_path, postgres):  # noqa: F811
    server = in_parts(new_server, postgres, "many", 4)
    space = server.space("many")
    space.define(JOB)
    ids = space.start_many("job", 30_000)
    walk = space.walk(ids[7])
    assert server.stop() == 0
    target = tmp_path / "target"
    words = [str(DSRV), "migrate", "--from", postgres.url(), "--from-schema", "many", "--to",
             str(target)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    written = lambda: sum(one.stat().st_size for one in target.glob("*.log")) > 1 << 20  # noqa: E731
    eventually(lambda: process.poll() is not None or written(), MOST)
    process.kill()
    process.wait(CALL)
    assert process.returncode != 0, "it was done before it could be killed"
    halfway = run("--data", target, "--addr", "127.0.0.1:0")
    assert halfway.returncode == 1 and "copy" in halfway.stderr, halfway.stderr
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "going on where it was interrupted" in done.stderr
    assert "30000 live and 0 stopped instances, compared" in done.stdout
    space = new_server(data=target).start().space("many")
    eventually(lambda: space.machine("job").stats.running == 30_000, MOST)
    assert space.walk(ids[7]) == walk
    for one in (ids[0], ids[7_777], ids[-1]):
        space.transition(one, "ok")
