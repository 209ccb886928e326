"""Logs of operations of servers that share a store: they are in the database, and any server will do."""
import json
import subprocess
import threading
import time

import pytest

from cluster_servers import owner_of, persist, seen_by, together
from support import CONSUMER, DCLI, JOB, SOON, eventually
from test_logs import Appending, batch, overfill, read, texts

# Writes a line each 50 ms, numbered and with the time, until the file is gone.
WRITES = """\
#!/bin/sh
number=0
while [ -e "$1" ]; do
  number=$((number + 1))
  echo "line $number $(date +%s.%N)"
  sleep 0.05
done
"""


class Follower:
    """dcli logs --follow, with the time at which each line came."""

    def __init__(self, servers, instance):
        self.process = subprocess.Popen(
            [str(DCLI), "--server", ",".join(one.address for one in servers), "-o", "json", "logs",
             instance, "--follow"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, env=CONSUMER)
        self.lines = []  # (when it came, number, when it was written)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            entry = json.loads(line)
            came = time.time()
            words = entry.get("text", "").split()
            if words[:1] == ["line"]:
                self.lines.append((came, int(words[1]), float(words[2]), entry.get("leftOut", 0)))

    def numbers(self):
        return [number for _, number, _, _ in list(self.lines)]

    def dispose(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def follow():
    made = []

    def begin(servers, instance):
        made.append(Follower(servers, instance))
        return made[-1]

    yield begin
    for one in made:
        one.dispose()


@pytest.fixture
def agent(tmp_path):
    """Runs an agent whose command writes until the file is gone."""
    script = tmp_path / "write"
    script.write_text(WRITES)
    script.chmod(0o755)
    going = tmp_path / "going"
    going.touch()
    (tmp_path / "workers.yaml").write_text(f"workers:\n  job.work: {{run: [./write, '{going}']}}\n")
    processes = []

    def begin(servers):
        processes.append(subprocess.Popen(
            [str(DCLI), "--server", ",".join(one.address for one in servers), "agent", "--workers",
             str(tmp_path / "workers.yaml"), "--name", "h1"], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=CONSUMER))
        return going

    yield begin
    going.unlink(missing_ok=True)
    for process in processes:
        process.kill()
        process.wait()


def answered(append, requests):
    """So many requests of the stream have been taken."""
    while next(append.call).requests < requests:
        pass


def parted(servers):
    owner = owner_of(servers, seen_by(servers[0]))
    return owner, [one for one in servers if one is not owner]


def test_lines_follow_on_when_their_owner_is_killed(sharers, agent, follow):
    owner, others = parted(together(sharers, 3))
    space = others[0].space("default")
    space.define(JOB)
    space.start("job", "j")
    going = agent([others[1], others[0]])
    follower = follow(others, "j")
    eventually(lambda: len(follower.lines) >= 40, 15.0)
    late = max(came - written for came, _, written, _ in follower.lines[10:])
    print(f"lines came at most {late * 1000:.0f} ms after they were written")
    assert late < 1.0
    owner.kill()
    before = follower.numbers()
    persist(lambda: space.get("j"))
    new_owner, _ = parted(others)
    assert texts(read(space, "j"))  # through whichever server
    eventually(lambda: len(follower.lines) >= len(before) + 40, 30.0)
    going.unlink()
    space.ends("j", "SUCCESS", 20.0)
    follower.process.wait(20.0)
    kept = [text for text in texts(read(new_owner.space("default"), "j"))
            if text.startswith("line ")]
    numbers = [int(text.split()[1]) for text in kept]
    assert numbers == list(range(1, len(numbers) + 1))  # all, once, in order
    assert follower.numbers() == numbers
    assert all(left_out in (0, "0") for *_, left_out in follower.lines)


def test_what_was_answered_survives_the_owner(sharers):
    owner, others = parted(together(sharers, 2))
    space = owner.space("default")
    space.define(JOB)
    space.start("job", "j")
    task = space.take()
    append = Appending(others[0].space("default"))
    for first in range(1, 301):
        append.put(batch(task, [str(first)], first))
        if first % 10 == 0:
            answered(append, first)
    owner.kill()
    space = others[0].space("default")
    persist(lambda: space.get("j"))
    assert texts(read(space, "j")) == [str(number) for number in range(1, 301)]
    again = Appending(space)
    persist(lambda: again.lines(task, [str(number) for number in range(290, 311)], first=290))
    assert texts(read(space, "j")) == [str(number) for number in range(1, 311)]


def test_an_outage_of_the_database_loses_no_line(sharers, database):
    owner, others = parted(together(sharers, 2))
    space = others[0].space("default")
    space.define(JOB)
    space.start("job", "j")
    task = space.take()
    append = Appending(space)
    append.lines(task, ["1", "2"])
    database.kill()
    append.put(batch(task, ["3"], 3))
    append.put(batch(task, ["4"], 4))
    database.start()
    answered(append, 3)
    assert owner.process.poll() is None
    persist(lambda: space.get("j"))
    written = texts(read(space, "j"))
    # What was answered just before a crash of the database itself may be lost.
    assert written[-2:] == ["3", "4"]
    assert len(written) == len(set(written))


def test_of_the_store_so_much_is_kept(sharers):
    server = sharers("--logs-mb", "2")
    space = server.space("default")
    persist(lambda: space.define(JOB))
    append = overfill(space)
    eventually(lambda: len(read(space, "b")) < 800, SOON)
    assert len(read(space, "a")) == 800 and len(read(space, "c")) == 800
    append.close()


def test_a_store_that_keeps_none_drops_those_of_before(sharers, database):
    server = sharers()
    space = server.space("default")
    persist(lambda: space.define(JOB))
    space.start("job", "j")
    append = Appending(space)
    task = space.take()
    append.lines(task, ["kept"])
    append.close()
    rows = f"select count(*) from {sharers.schema}.logs"
    assert int(database.sql(rows)) > 1
    server.stop()
    server = sharers("--logs-mb", "0")
    space = server.space("default")
    persist(lambda: space.get("j"))
    eventually(lambda: int(database.sql(rows)) <= 1)
    append = Appending(space)
    append.lines(task, ["not kept"], first=2)
    assert read(space, "j") == []
