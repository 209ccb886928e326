"""SIGTERM, and how dsrv is started: flags, configuration, logs."""
import re
import socket
import subprocess

import grpc
import pytest

from load import ROUTE, Load, audit, watch_from
from stubs import v1
from support import (CALL, DSRV, JOB, LOOP, ONCE, SOON, eventually, free_port, health, now, only,
                     open_channel, refused, state, token_state)


# SIGTERM --------------------------------------------------------------------------------------


def test_an_idle_server_exits_0_at_once(new_server):
    server = new_server().start()
    began = now()
    server.terminate()
    assert server.exit_status() == 0
    assert now() - began < SOON


def test_a_server_under_load_exits_0_and_keeps_all_that_it_acknowledged(new_server):
    server = new_server().start()
    space = server.space("")
    space.define(ROUTE)
    seen = 0
    watched = []
    with Load(server, 5) as load:
        for _ in range(2):
            watch = watch_from(space, "0")
            watch.until_count(seen + 400, within=20)
            server.terminate()
            assert server.exit_status() == 0, server.log
            assert watch.await_end() == "UNAVAILABLE"
            watched.append(list(watch.changes))
            seen = len(watch.changes)
            server.hang_up()
            server.start()
    audit(space, load, watched)
    assert not load.surprises, load.surprises[:3]


def test_polls_are_answered_empty(new_server):
    server = new_server().start()
    space = server.space("")
    space.define(JOB)
    polls = [space.later("Ready", space.ready_request("job", wait=60), timeout=70)
             for _ in range(50)]
    report = space.later("Report", v1.ReportRequest(next=space.ready_request("job", wait=60)),
                         timeout=70)
    space.ready("job")  # answered after the polls have come in
    began = now()
    server.terminate()
    for poll in [*polls, report]:
        assert not poll.result().tasks
    assert server.exit_status() == 0
    assert now() - began < SOON


def test_changes_ends_with_unavailable(new_server):
    server = new_server().start()
    space = server.space("")
    space.define(JOB)
    watches = [space.watch().opened() for _ in range(5)]
    server.terminate()
    assert [watch.await_end() for watch in watches] == ["UNAVAILABLE"] * 5
    assert server.exit_status() == 0


def test_a_work_stream_is_drained_and_ended(new_server):
    server = new_server().start()
    space = server.space("")
    space.define(JOB)
    ids = space.start_many("job", 4)
    with space.work(machine="job", max_tasks=2) as work:
        tasks = work.await_tasks(2)
        server.terminate()
        assert not work.wait(lambda: work.ended, 0.3), "it still has tasks in hand"
        results = work.report(*tasks)
        assert [r.accepted.node for r in results] == ["done", "done"]
        assert work.await_end() == "OK"
        assert len(work.tasks) == 2
    assert server.exit_status() == 0
    server.hang_up()
    server.start()
    assert {state(space.get(id)) for id in ids[:2]} == {"STOPPED"}
    assert [t.instance for t in space.ready("job", max_tasks=5)] == ids[2:]


def test_an_idle_work_stream_is_ended(new_server):
    server = new_server().start()
    space = server.space("")
    space.define(JOB)
    with space.work(machine="job", max_tasks=2) as work:
        space.start("job")
        work.report(*work.await_tasks(1))
        server.terminate()
        assert work.await_end() == "OK"
    assert server.exit_status() == 0


def test_the_grace_bounds_the_wait_for_work_in_hand(new_server):
    server = new_server("--grace", "500ms").start()
    space = server.space("")
    space.define(JOB + "---\n" + ONCE)
    given_back, kept = space.start("job"), space.start("once")
    with space.work(max_tasks=2) as work:
        tasks = {task.instance: task for task in work.await_tasks(2)}
        began = now()
        server.terminate()
        assert server.exit_status() == 0
        assert 0.4 < now() - began < SOON
    server.hang_up()
    server.start()
    assert only(space.ready("job", wait=SOON)).instance == given_back
    assert token_state(space.token(kept)) == "CLAIMED"
    assert space.report(tasks[kept]).node == "done"


def test_nothing_is_handed_out_after_sigterm(new_server):
    server = new_server().start()
    space = server.space("")
    space.define(JOB)
    space.start_many("job", 3)
    with space.work(machine="job", max_tasks=1) as work:  # keeps the server from ending
        task = only(work.await_tasks(1))
        server.terminate()
        eventually(lambda: refuses_or_is_empty(space))
        assert only(work.report(task)).accepted.node == "done"
        assert work.await_end() == "OK" and len(work.tasks) == 1
    assert server.exit_status() == 0


def refuses_or_is_empty(space):
    try:
        return space.ready("job") == []
    except grpc.RpcError as error:
        return error.code() == grpc.StatusCode.UNAVAILABLE


def test_a_call_after_the_end_is_unavailable(new_server):
    server = new_server().start()
    space = server.space("")
    space.define(JOB)
    server.terminate()
    assert server.exit_status() == 0
    with refused("UNAVAILABLE"):
        space.start("job")


def test_a_stopped_server_starts_again_on_the_same_port_and_directory(new_server):
    server = new_server().start()
    space = server.space("")
    space.define(LOOP)
    id = space.start("loop")
    for visit in range(2, 5):
        space.transition(id, "again")
        server.restart()
        assert space.token(id).visit == visit


# How it is started ----------------------------------------------------------------------------


def dsrv(*arguments):
    return subprocess.run([str(DSRV), *map(str, arguments)], capture_output=True, text=True,
                          timeout=CALL, stdin=subprocess.DEVNULL)


def test_help_lists_the_flags():
    help = dsrv("--help")
    assert help.returncode == 0
    for flag in ("--addr", "--data", "--config", "--grace"):
        assert flag in help.stdout


@pytest.mark.parametrize("arguments", [
    ["--no-such-flag"], ["--addr"], ["--addr", "nowhere"], ["--grace", "soon"],
    ["--config", "/no/such/file.yaml"]])
def test_bad_usage_ends_at_once_with_a_message(arguments, tmp_path):
    ended = dsrv("--data", tmp_path / "data", *arguments)
    assert ended.returncode != 0 and ended.stderr.strip()


def test_every_flag_is_also_a_key_of_the_configuration(tmp_path):
    port = free_port()
    (tmp_path / "dsrv.yaml").write_text(
        f"addr: 127.0.0.1:{port}\ndata: {tmp_path / 'configured'}\ngrace: 1s\n")
    process = subprocess.Popen([str(DSRV), "--config", str(tmp_path / "dsrv.yaml")],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: serves(port))
        assert (tmp_path / "configured").is_dir()
        process.terminate()
        assert process.wait(CALL) == 0
    finally:
        process.kill()


@pytest.mark.parametrize("setting", ["config: other.yaml", "help: true", "version: true"])
def test_what_only_the_command_line_takes_is_refused_in_the_configuration(setting, tmp_path):
    config = tmp_path / "dsrv.yaml"
    config.write_text(f"grace: 1s\n{setting}\n")
    ended = dsrv("--data", tmp_path / "data", "--config", config)
    key = setting.split(":")[0]
    assert ended.returncode != 0 and ended.stdout == ""
    assert f"{config}:2:1: {key}: --{key} is said on the command line only" in ended.stderr


def test_it_logs_to_standard_error(tmp_path):
    port = free_port()
    process = subprocess.Popen(
        [str(DSRV), "--addr", f"127.0.0.1:{port}", "--data", str(tmp_path / "data")], text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        eventually(lambda: serves(port))
    finally:
        process.terminate()
    out, err = process.communicate(timeout=CALL)
    assert process.returncode == 0
    assert out == "" and re.search(rf"\b{port}\b", err)


def serves(port):
    if not reachable("127.0.0.1", port):
        return False
    with open_channel(f"127.0.0.1:{port}") as channel:
        return health(channel) == "SERVING"


def reachable(host, port):
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((host, port)) == 0


def own_address():
    """An address of this machine that is not loopback, or None."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
            return probe.getsockname()[0]
        except OSError:
            return None


@pytest.mark.parametrize("addr, everywhere", [("localhost:{}", False), (":{}", True)])
def test_an_address_without_a_host_is_every_interface(tmp_path, addr, everywhere):
    port = free_port()
    process = subprocess.Popen(
        [str(DSRV), "--addr", addr.format(port), "--data", str(tmp_path / "data"),
         *(["--insecure"] if everywhere else [])],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: serves(port))
        other = own_address()
        assert other is None or reachable(other, port) == everywhere
    finally:
        process.terminate()
        assert process.wait(CALL) == 0
