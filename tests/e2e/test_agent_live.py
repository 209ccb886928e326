"""dcli agent and dsrv together, with real processes."""
import json
import os
import signal
import subprocess

import pytest

from support import DCLI, JOB, ONCE, Cli, eventually, now, seconds, token_state
from test_agent_run import away, lives, those_away
from test_bad_disk import BadDisk

WORKERS = """\
workers:
  job.work: {{run: ./job.sh, kill_after: 1s}}
  once.work: {{run: ./job.sh, kill_after: 1s}}
  quick.work: {{run: [python3, quick.py], mode: serve}}
"""
QUICK = """\
import json, sys
for line in sys.stdin:
    word = json.loads(line)
    if word["type"] == "task":
        print(json.dumps({"type": "result", "id": word["id"]}), flush=True)
"""


class Live:
    """An agent of one namespace."""

    def __init__(self, space, folder, job, *flags):
        script = folder / "job.sh"
        script.write_text("#!/bin/sh\n" + job)
        script.chmod(0o755)
        (folder / "quick.py").write_text(QUICK)
        (folder / "workers.yaml").write_text(WORKERS.format())
        self.space, self.folder, self.flags = space, folder, flags
        self.cli = Cli(space.server.address, space.name)
        self.log = folder / "agent.log"
        self.start()

    def start(self):
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [str(DCLI), "agent", "--workers", str(self.folder / "workers.yaml"), "--name", "h1",
                 "--jobs", "4", *self.flags],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**self.cli.environment, "no_proxy": "127.0.0.1"})
        eventually(lambda: self.listed() == "ACTIVE")

    def listed(self):
        agents = self.cli.json("agents").get("agents", [])
        return agents[0].get("state") if agents else None

    def result(self, instance):
        return self.cli.json("show", instance).get("result")

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def live(space, tmp_path):
    agents = []

    def begin(job, *flags, of=None):
        space_of = of or space
        for source in (JOB, ONCE, JOB.replace("job", "quick")):
            space_of.define(source)
        agents.append(Live(space_of, tmp_path, job, *flags))
        return agents[-1]

    yield begin
    for one in agents:
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait()


def test_a_namespace_without_agents_says_so(space):
    cli = Cli(space.server.address, space.name)
    listed = cli("agents")
    assert listed.returncode == 0 and "there are no agents here" in listed.stderr
    assert "there is no such agent here" in cli("agents", "--state", "lost").stderr


def test_an_operation_from_start_to_report(live, space):
    one = live("echo '{\"output\": {\"n\": 1}}'")
    id = space.start("job")
    eventually(lambda: one.result(id) == "SUCCESS")
    assert json.loads(one.cli.json("show", id)["outputs"]["work"]) == {"n": 1}
    one.process.terminate()
    assert one.process.wait(10) == 0
    assert one.listed() == "OFFLINE"


def test_what_a_command_prints_stands_between_the_lines_of_its_begin_and_end(live, space):
    one = live("echo from $DFSMR_INSTANCE\n", "--print")
    ids = [space.start("job") for _ in range(30)]
    for id in ids:
        eventually(lambda: f"{id} at job/work: ok" in one.log.read_text())
    lines = one.log.read_text().splitlines()
    for id in ids:
        name = f"dcli: {id} at job/work: "
        begun, said, ended = (lines.index(line) for line in (
            name + "begun (attempt 1)", f"from {id}", name + "ok"))
        assert begun < said < ended


def retried(space, keys):
    space.define(JOB.replace("start: true", "start: true, " + keys))


def test_how_an_operation_fails_decides_on_its_next_try(live, space):
    one = live("if grep -q '\"tries\":0'; then exit 3; fi\n"
               "echo '{\"transition\": \"error\", \"error\": \"no use\", \"error_kind\": \"k\", "
               "\"fatal\": true}'\n")
    retried(space, "retry: {limit: 9, on: [exit, k]}")
    id = space.start("job")
    eventually(lambda: one.result(id) == "ERROR")
    told = [(change.error_kind, change.note) for change in space.history(id)
            if change.transition == "error"]
    assert [word for word, _ in told] == ["exit", "k"]
    assert "exit status 3" in told[0][1] and told[1][1] == "no use"


def test_an_operation_says_when_to_try_again(live, space):
    one = live("echo '{\"transition\": \"error\", \"retry_after\": \"1h\"}'")
    retried(space, "retry: 2")
    id = space.start("job")
    eventually(lambda: space.token(id).tries == 1)
    assert seconds(space.token(id).available_at) - now() > 3000
    one.process.terminate()


def test_an_operation_that_takes_too_long_is_tried_again(live, space):
    one = live("if grep -q '\"tries\":0'; then exec sleep 1000; fi")
    retried(space, "run_timeout: 2s, retry: {limit: 3, on: [transient]}")
    id = space.start("job")
    eventually(lambda: one.result(id) == "SUCCESS", 30)
    assert [change.error_kind for change in space.history(id)
            if change.transition == "error"] == ["timeout"]


def test_what_a_report_starts_waits_until_its_namespace_is_thawed(live, space, tmp_path):
    go = tmp_path / "go"
    one = live(f"until test -e {go}; do sleep 0.05; done; "
               "echo '{\"start\": [{\"machine\": \"quick\", \"id\": \"next\"}]}'")
    id = space.start("job")
    eventually(lambda: token_state(space.token(id)) == "CLAIMED")
    one.cli.ok("namespace", "freeze", space.name)
    go.touch()
    eventually(lambda: "exit status 0" in one.cli("logs", id).stdout)
    with pytest.raises(AssertionError, match="not within"):
        eventually(lambda: token_state(space.token(id)) != "CLAIMED", 1)
    one.cli.ok("namespace", "thaw", space.name)
    eventually(lambda: one.result(id) == "SUCCESS", 30)
    assert space.get("next").id == "next"


def test_a_command_that_fails_where_the_node_lists_no_error_pauses(live, space, tmp_path):
    one = live(f"test -e {tmp_path}/good && exit 0; echo broke >&2; exit 3")
    space.define("id: job\nnodes:\n  work: {start: true, transitions: {ok: done}}\n"
                 "  done: {final: true}\n")
    id = space.start("job")
    eventually(lambda: one.cli.json("show", id).get("state") == "PAUSED")
    assert "exit status 3: broke" in space.get(id).error
    (tmp_path / "good").touch()
    one.cli.ok("resume", id)
    eventually(lambda: one.result(id) == "SUCCESS")


def test_cancel_kill_leaves_no_process(live, space, tmp_path):
    one = live(away(tmp_path) + "trap '' TERM; while :; do sleep 0.01; done")
    id = space.start("job")
    [pid] = those_away(tmp_path)
    row = one.cli.ok("ps", id).splitlines()[1].split()
    assert row[:4] == [id, "work", "1", "h1"]
    done = one.cli("cancel", id, "--kill")
    assert done.returncode == 0 and "no process of it is left" in done.stderr
    assert not lives(pid)
    assert one.result(id) == "CANCELLED"


def test_cancel_kill_of_a_parent_waits_for_the_processes_of_its_children(live, space, tmp_path):
    one = live(away(tmp_path) + "trap '' TERM; while :; do sleep 0.01; done")
    space.define("plan: leaf\nflow: [{step: l, action: job.work}]\n---\n"
                 "plan: top\nflow: [{step: t, spawn: {plan: leaf, for_each: [1], as: n}}]\n")
    id = space.plan("top")
    [pid] = those_away(tmp_path)
    done = one.cli("cancel", id, "--kill")
    assert done.returncode == 0, done.stderr
    assert "l on h1 (attempt 1): no process of it is left" in done.stderr
    assert not lives(pid)


def test_a_plain_cancel_waits_for_the_end(live, space, tmp_path):
    one = live(away(tmp_path) + "exec sleep 1000")
    id = space.start("job")
    [pid] = those_away(tmp_path)
    one.cli.ok("cancel", id)
    eventually(lambda: one.result(id) == "CANCELLED")
    assert not lives(pid)


def test_what_handles_the_cancel_is_not_stopped_by_it(live, space, tmp_path):
    one = live('if [ "$DFSMR_EVENT" = cancel ]; then\n'
               f"  echo begin >> {tmp_path}/told; read x < {tmp_path}/fifo; "
               f"echo end >> {tmp_path}/told; exit 0\nfi\n"
               "echo '{\"transition\": \"suspend\"}'\n")
    os.mkfifo(tmp_path / "fifo")
    space.define("plan: p\nflow: [{step: a, action: job.work}]\n")
    id = space.plan("p")
    eventually(lambda: space.step_states(id)["a"] == "SUSPENDED")
    one.cli.ok("cancel", id)
    eventually((tmp_path / "told").exists)
    eventually(lambda: space.step_states(id)["a"] == "RUNNING")
    (tmp_path / "fifo").write_text("x\n")
    eventually(lambda: one.result(id) == "CANCELLED")
    assert (tmp_path / "told").read_text().split() == ["begin", "end"]


def test_another_agent_takes_what_a_killed_one_had(live, space, tmp_path):
    one = live(away(tmp_path) + f"[ -e {tmp_path}/again ] || exec sleep 1000", "--keep-for", "1s")
    id = space.start("job")
    [pid] = those_away(tmp_path)
    (tmp_path / "again").touch()
    one.kill()
    eventually(lambda: not lives(pid), within=1)
    one.start()
    eventually(lambda: one.result(id) == "SUCCESS")


def test_at_most_once_is_not_run_again(live, space, tmp_path):
    one = live(away(tmp_path) + "exec sleep 1000", "--keep-for", "1s")
    id = space.start("once")
    those_away(tmp_path)
    one.kill()
    one.start()
    other = space.start("job")
    those_away(tmp_path, 2)
    assert len(those_away(tmp_path)) == 2, "at most once was run twice"
    assert one.cli.json("show", id)["state"] == "RUNNING" and other


def test_an_operation_outlives_the_server(live, new_server, tmp_path):
    server = new_server().start()
    os.mkfifo(tmp_path / "fifo")
    one = live(away(tmp_path) + f"read x < {tmp_path}/fifo", of=server.space("default"))
    id = server.space("default").start("job")
    [pid] = those_away(tmp_path)
    server.kill()
    server.start()
    assert lives(pid)
    (tmp_path / "fifo").write_text("x\n")
    eventually(lambda: one.result(id) == "SUCCESS", within=20)
    assert len(those_away(tmp_path)) == 1


def test_a_begin_that_a_crash_lost_goes_on_and_runs_once(live, new_server, tmp_path):
    disk = BadDisk(tmp_path)
    server = new_server(data=disk.data, environment=disk.environment).start()
    space = server.space("default")
    begun = tmp_path / "begun"
    one = live(f"echo $DFSMR_INSTANCE >> {begun}\n"
               f"while [ ! -e {tmp_path}/go-$DFSMR_INSTANCE ]; do sleep 0.05; done", of=space)
    ids = [space.start("job", id=f"i{n}") for n in range(4)]  # as many as it has slots
    eventually(lambda: begun.exists() and sorted(begun.read_text().split()) == ids)
    ids.append(space.start("job", id="i4"))
    disk.hang("write", ".log")
    (tmp_path / "go-i0").touch()
    eventually(lambda: "i4" in begun.read_text().split())  # its begin is answered, and on no disk
    server.kill()
    assert disk.heal() > 0
    server.start()
    for id in ids:
        (tmp_path / f"go-{id}").touch()
    for id in ids:
        eventually(lambda: one.result(id) == "SUCCESS", within=20)
    assert sorted(begun.read_text().split()) == ids
    assert [change.attempt for change in space.history("i4") if change.transition] == [1]


def test_many_short_tasks(live, space):
    one = live("true")
    ids = space.start_many("quick", 300)
    eventually(lambda: len(one.cli.ok("instances", "--machine", "quick", "--result", "success",
                                      "--limit", "0", "-o", "name").split()) == len(ids), 30)
