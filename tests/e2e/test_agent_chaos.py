"""Agents with real processes, and a server, that are killed with -9 again and again. Nothing that was
acknowledged is lost, what runs at most once never runs twice, and no process outlives its agent.
ROUNDS=n kills more often (make crash)."""
import os
import pathlib
import random
import signal
import subprocess
import time

import pytest

from support import DCLI, Cli, Server, eventually, result, state

ROUNDS = int(os.environ.get("ROUNDS", "8"))
SEED = int(os.environ.get("SEED", "0")) or random.randrange(1 << 30)
MACHINE = """\
id: job
nodes:
  work: {start: true, timeout_strategy: fixed, timeout: 300.0, transitions: {ok: once}}
  once: {timeout: 0.0, transitions: {ok: done}}
  done: {final: true}
"""
# Each leaves a process behind that has forked twice and is in a session of its own.
WORKERS = """\
workers:
  job.work: {run: ./work.sh, kill_after: 1s}
  job.once: {run: ./once.sh, kill_after: 1s}
"""
SCRIPT = """\
#!/bin/sh
echo "$DFSMR_INSTANCE" >> %s
(setsid sh -c 'sleep 600 & sleep 600' &)
sleep 0.%s
"""


def processes_of(folder, agent):
    """What runs for the agent, by the marks in its environment."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "environ").read_bytes().split(b"\0")
            status = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        mine = f"DFSMR_AGENT={agent}".encode() in words and f"CHAOS={folder}".encode() in words
        if mine and status not in "ZX":
            found.append(int(entry.name))
    return found


class Crew:
    def __init__(self, server, folder):
        self.server, self.folder = server, folder
        self.cli = Cli(server.address, "chaos")
        self.agents = {}
        (folder / "workers.yaml").write_text(WORKERS)
        for name, pause in (("work", 1), ("once", 2)):
            script = folder / f"{name}.sh"
            script.write_text(SCRIPT % (folder / f"{name}.log", pause))
            script.chmod(0o755)

    def start(self, name):
        with (self.folder / f"{name}.log").open("ab") as log:
            self.agents[name] = subprocess.Popen(
                [str(DCLI), "agent", "--workers", str(self.folder / "workers.yaml"), "--name", name,
                 "--jobs", "4", "--pass-env", "CHAOS"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**self.cli.environment, "no_proxy": "127.0.0.1", "CHAOS": str(self.folder)})

    def kill(self, name):
        process = self.agents.pop(name)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        eventually(lambda: not processes_of(self.folder, name), 1.0)

    def begun(self, node):
        log = self.folder / f"{node}.log"
        return log.read_text().split() if log.exists() else []


@pytest.fixture
def crew(tmp_path):
    server = Server(tmp_path / "data").start()
    one = Crew(server, tmp_path)
    yield one
    for process in one.agents.values():
        process.kill()
        process.wait()
    server.stop()


def test_agents_and_the_server_are_killed_again_and_again(crew):
    print(f"SEED={SEED} ROUNDS={ROUNDS}")
    dice = random.Random(SEED)
    space = crew.server.space("chaos")
    space.define(MACHINE)
    names = ["h0", "h1", "h2"]
    for name in names:
        crew.start(name)
    started = []
    for round in range(ROUNDS):
        before = len(crew.begun("work"))
        for _ in range(12):
            started.append(space.start("job", id=f"r{round}-{len(started)}"))
        eventually(lambda: len(crew.begun("work")) > before, 60)
        time.sleep(dice.random() / 2)  # at any moment of an operation
        if dice.random() < 0.35:
            crew.server.kill()
            crew.server.start()
            space = crew.server.space("chaos")
        else:
            name = dice.choice(names)
            crew.kill(name)
            crew.start(name)

    def settled():
        """Those that have not succeeded are lost in the midst of what runs at most once."""
        left = []
        for id in started:
            instance = space.get(id)
            if state(instance) == "STOPPED":
                assert result(instance) == "SUCCESS", id
                continue
            token = instance.tokens[0]
            if state(instance) == "PAUSED":  # three agents died with it: somebody looks after it
                assert "attempts were lost with the agent" in instance.error, instance
                space.resume(id)
            lost = token.node == "once" and any(claim.lost for claim in token.claims)
            assert lost, instance
            left.append(id)
        return [left]

    left = eventually(settled, 90)[0]
    once = crew.begun("once")
    assert len(once) == len(set(once))
    assert set(started) - set(once) <= set(left)
    assert set(crew.begun("work")) == set(started)
    for name in names:
        crew.kill(name)
