"""Crashes, restarts and damaged stores: a reply means durable."""
import random
import resource
import shutil
import subprocess

import grpc
import pytest

from load import ROUTE, Load, audit, watch_from
from support import (CALL, DSRV, HASTY, JOB, LOOP, ONCE, PAIR, SOON, Refusal, Server,
                     accepts_connections, check_refusal, eventually, free_port, from_json, health,
                     kind, now, only, open_channel, refused, result, seconds, state, token_state)

@pytest.mark.parametrize("seed", [1, 2])
def test_everything_acknowledged_survives_kill_9_under_load(new_server, seed):
    server = new_server().start()
    space = server.space("")
    space.define(ROUTE)
    source = random.Random(seed)
    watched, seen = [], 0
    with Load(server, seed) as load:
        for _ in range(4):
            watch = watch_from(space, "0")
            watch.until_count(seen + source.randint(200, 800), within=20)
            server.kill()
            watch.await_end()
            watched.append(list(watch.changes))
            seen = len(watch.changes)
            server.start()
        with watch_from(space, "") as watch:
            watch.until_count(100, within=20)
    changes = audit(space, load, watched)
    assert not load.surprises, load.surprises[:3]
    assert len(load.started) > 50 and len(load.accepted) > 100 and len(changes) > 500
    for seen in watched:
        assert [c.seq for c in seen] == list(range(1, len(seen) + 1))


def test_what_a_start_takes_of_memory_goes_back(new_server):
    def allocated():
        for line in open(f"/proc/{server.process.pid}/status"):
            if line.startswith("RssAnon"):
                return int(line.split()[1]) >> 10

    server = new_server().start()
    space = server.space("")
    space.define(JOB)
    space.start_many("job", 10_000, params={"a": "x" * 3000})  # 30 MB of log
    server.restart()  # reads the log into memory, and makes tables of it
    with_log = allocated()
    server.restart()
    assert with_log < allocated() + 12


def test_a_watcher_that_reconnects_at_its_cursor_misses_nothing_across_crashes(new_server):
    server = new_server().start()
    space = server.space("")
    space.define(LOOP)
    seen, cursor = [], "0"
    for _ in range(4):
        watch = watch_from(space, cursor)
        for _ in range(5):
            id = space.start("loop")
            space.transition(id, "again")
        watch.until(lambda c: c.instance == id and kind(c) == "TRANSITIONED")
        server.kill()
        watch.await_end()
        seen += watch.changes
        cursor = watch.cursor
        server.start()
    rest, _ = space.changes(cursor)
    seen += rest
    assert [c.seq for c in seen] == list(range(1, len(seen) + 1))
    assert seen == space.changes("0")[0]


# What a restart finds -------------------------------------------------------------------------


def crash(server):
    server.kill()
    server.start()


def end_well(server):
    server.restart()


@pytest.fixture(params=[crash, end_well], ids=["kill -9", "SIGTERM"])
def again(request):
    return request.param


def test_what_was_acknowledged_is_there_after_a_restart(new_server, again):
    server = new_server().start()
    space = server.space("")
    space.define(PAIR + "---\n" + JOB)
    space.define(JOB + "description: new\n")
    done = space.start("pair", params='{"a":  1.0}', labels={"k": "v"}, priority=3)
    space.report(space.take("pair"), node_params='{"n":  1}', output={"o": 1})
    space.report(space.take("pair", "second"))
    standing = space.start("pair")
    space.report(space.take("pair"), node_params='{"n":  2}')
    paused = space.start("job")
    space.pause(paused)
    cancelled = space.start("job")
    space.cancel(cancelled)
    held = space.start("job", hold=True)
    before = {id: space.get(id) for id in (done, standing, paused, cancelled, held)}
    histories = {id: [c for c in space.history(id) if kind(c) != "CLAIMED"] for id in before}
    machines = {(m.id, m.version): m.source for m in space.machines(all_versions=True).machines}
    again(server)
    assert {id: space.get(id) for id in before} == before
    for id, history in histories.items():
        assert [c for c in space.history(id) if kind(c) != "CLAIMED"] == history
    assert machines == {(m.id, m.version): m.source
                        for m in space.machines(all_versions=True).machines}
    task = only(space.ready("pair"))
    assert (task.instance, task.node, task.node_params) == (standing, "second", '{"n":  2}')
    assert space.ready("job") == []
    assert not space.begin("pair", id=done, params={"a": 1.0}).created
    with refused("ALREADY_EXISTS", "INSTANCE_EXISTS", done):
        space.begin("pair", id=done, params={"a": 2})


def test_the_same_report_is_answered_the_same_after_a_restart(new_server, again):
    server = new_server().start()
    space = server.space("")
    space.define(PAIR)
    space.start("pair")
    task = space.take("pair")
    first = space.report(task, "ok")
    again(server)
    second = space.report(task, "ok")
    assert second.repeated_report
    second.repeated_report = False
    assert second == first
    with refused("FAILED_PRECONDITION", "STALE_CLAIM", task.instance):
        space.report(task, "error")
    assert len(space.walk(task.instance)) == 1


def test_an_at_most_once_claim_is_kept_across_a_restart_and_may_still_report(new_server, again):
    server = new_server().start()
    space = server.space("")
    space.define(ONCE)
    ids = space.start_many("once", 20)
    tasks = space.ready("once", max_tasks=20)
    again(server)
    assert space.ready("once", wait=0.3) == []
    assert {token_state(space.token(id)) for id in ids} == {"CLAIMED"}
    for task in tasks[:10]:
        assert space.report(task).node == "done"
    space.relinquish(tasks[10].instance, tasks[10].claim)
    again_given = only(space.ready("once", max_tasks=20))
    assert (again_given.instance, again_given.attempt) == (tasks[10].instance, 2)


def test_claimed_work_is_not_lost_by_a_crash(new_server):
    server = new_server().start()
    space = server.space("")
    space.define(HASTY)
    ids = space.start_many("hasty", 20)
    assert len(space.ready("hasty", max_tasks=20)) == 20
    crash(server)
    left = set(ids)
    while left:
        tasks = space.ready("hasty", max_tasks=20, wait=SOON)
        assert tasks, f"{len(left)} never came back"
        for task in tasks:
            space.report(task)
            left.discard(task.instance)


def test_visits_go_on_counting_after_a_crash(new_server):
    server = new_server().start()
    space = server.space("")
    space.define(LOOP)
    id = space.start("loop")
    for visit in range(2, 6):
        assert space.transition(id, "again").visit == visit
        crash(server)
    assert [c.visit for c in space.history(id)] == [1, 2, 3, 4, 5]


def test_timers_go_on_after_a_crash(new_server):
    server = new_server().start()
    space = server.space("")
    space.define("""\
id: m
nodes:
  a: {start: true, transitions: {ok: rest}}
  rest: {delay: 1s, transitions: {ok: b}}
  b: {transitions: {ok: done}}
  done: {final: true}
""")
    resting, scheduled = space.start("m"), space.start("m", start_at=now() + 1)
    space.transition(resting, "ok")
    due = seconds(space.token(resting).available_at)
    crash(server)
    tasks = [space.take("m"), space.take("m")]
    assert now() >= due - 0.02
    assert {(task.instance, task.node) for task in tasks} == {(resting, "b"), (scheduled, "a")}


def test_timers_that_rang_while_the_server_was_down_are_made_up_for(new_server):
    server = new_server().start()
    space = server.space("")
    space.define("id: m\nnodes: {rest: {start: true, delay: 100ms, transitions: {ok: z}},"
                 " z: {final: true}}\n")
    ids = space.start_many("m", 50)
    server.kill()
    server.start()
    for id in ids:
        space.await_change("FINISHED", instance=id)
        assert result(space.get(id)) == "SUCCESS"


def test_a_watcher_sees_the_same_prefix_after_a_crash(new_server):
    server = new_server().start()
    space = server.space("")
    space.define(LOOP)
    seen = []
    for _ in range(3):
        for _ in range(20):
            space.start("loop")
            space.report(space.take("loop"), "ok")
        before, _ = space.changes("0")
        assert before[:len(seen)] == seen
        seen = before
        crash(server)
        after, _ = space.changes("0")
        assert after[:len(seen)] == seen
    assert [c.seq for c in seen] == list(range(1, len(seen) + 1))


def test_a_server_that_is_killed_before_it_serves_starts_again(new_server):
    server = new_server().start()
    space = server.space("")
    space.define(JOB)
    ids = space.start_many("job", 500)
    for _ in range(5):
        server.kill()
        server.launch()
    server.kill()
    server.start()
    assert len(space.ready("job", max_tasks=1000)) == len(ids)


# Two on one ------------------------------------------------------------------------------------


def run_dsrv(*flags):
    return subprocess.run([str(DSRV), *map(str, flags)], capture_output=True, text=True,
                          timeout=CALL, stdin=subprocess.DEVNULL)


def test_a_second_server_on_the_same_directory_ends_at_once_with_a_message(server, space):
    ended = run_dsrv("--addr", f"127.0.0.1:{free_port()}", "--data", server.data)
    assert ended.returncode != 0 and ended.stderr.strip()
    assert str(server.data) in ended.stderr
    space.define(JOB)
    assert space.start("job")


def test_a_second_server_on_the_same_port_ends_at_once_with_a_message(server, space, tmp_path):
    ended = run_dsrv("--addr", server.address, "--data", tmp_path / "other")
    assert ended.returncode != 0 and ended.stderr.strip()
    assert str(server.port) in ended.stderr
    space.define(JOB)
    assert space.start("job")


def test_a_directory_that_cannot_be_used_is_named(tmp_path):
    (tmp_path / "file").write_text("no directory")
    ended = run_dsrv("--addr", f"127.0.0.1:{free_port()}", "--data", tmp_path / "file")
    assert ended.returncode != 0 and str(tmp_path / "file") in ended.stderr


def test_a_directory_that_is_not_there_is_made(new_server, tmp_path):
    server = new_server(data=tmp_path / "a" / "b").start()
    assert (tmp_path / "a" / "b").is_dir()
    assert server.stop() == 0


# Damage ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def killed_store(tmp_path_factory):
    """The directory of a server that was killed, and the ids that it had acknowledged."""
    folder = tmp_path_factory.mktemp("killed") / "data"
    server = Server(folder).start()
    try:
        space = server.space("")
        space.define(JOB)
        ids = []
        for _ in range(4):
            ids += space.start_many("job", 500, params='{"a":"' + "x" * 200 + '"}')
        server.kill()
    finally:
        server.dispose()
    return folder, ids


def flip_a_byte_in_the_middle(path):
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 0xFF]))


def cut_in_half(path):
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def remove(path):
    path.unlink()


@pytest.mark.parametrize("damage", [flip_a_byte_in_the_middle, cut_in_half, remove])
@pytest.mark.parametrize("files", ["*.log", "MANIFEST-*", "CURRENT"])
def test_a_damaged_store_is_refused_or_whole_but_never_served_with_holes(
        new_server, tmp_path, killed_store, files, damage):
    pristine, ids = killed_store
    folder = tmp_path / "damaged"
    shutil.copytree(pristine, folder)
    targets = [path for path in folder.rglob(files) if path.is_file() and path.stat().st_size]
    assert targets, f"the store has no {files}"
    damage(max(targets, key=lambda path: path.stat().st_size))
    server = new_server(data=folder)
    server.launch()
    eventually(lambda: server.process.poll() is not None or serves(server), within=15)
    if server.process.poll() is not None:
        assert server.process.returncode != 0
        assert server.log.strip(), "it must say why"
        return
    server.hang_up()
    server.process.kill()
    server.process.wait(SOON)
    space = server.start().space("")
    for id in ids[::-97] + ids[-3:]:
        assert state(space.get(id)) == "RUNNING"
    assert len([c for c in space.changes("0")[0] if kind(c) == "STARTED"]) == len(ids)


def serves(server):
    if not accepts_connections(server.port):
        return False
    channel = open_channel(server.address)
    try:
        return health(channel, timeout=2) == "SERVING"
    except grpc.RpcError:
        return False
    finally:
        channel.close()


def test_a_disk_that_refuses_writes_loses_nothing_that_was_acknowledged(new_server, tmp_path):
    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20, 4 << 20))

    server = new_server(data=tmp_path / "data", limits=small_files).start()
    space = server.space("")
    space.define(JOB)
    ids = []
    params = '{"a":"' + "x" * 50_000 + '"}'
    with pytest.raises(grpc.RpcError) as caught:
        for _ in range(2000):
            ids.append(space.start("job", params=params))
    check_refusal(Refusal(caught.value), "UNAVAILABLE", ("STORE_FAILED", ""))
    assert ids
    assert server.exit_status() != 0
    assert server.log.strip()
    server.hang_up()
    whole = Server(tmp_path / "data").start()
    try:
        space = whole.space("")
        assert all(from_json(space.get(id).params) == from_json(params) for id in ids)
        assert len(space.changes("0", kinds=["STARTED"])[0]) in (len(ids), len(ids) + 1)
    finally:
        whole.dispose()
