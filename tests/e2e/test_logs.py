"""Logs: what workers append is kept within its bounds, and readers have it in order."""
import json
import queue
import threading
import time

import pytest

from stubs import agent, agent_grpc
from support import (CALL, HASTY, JOB, LOOP, SOON, Refusal, eventually, only, refused,
                     retention_flags, seconds, timestamp)

PLAN = """\
plan: site
flow:
  sequence:
    - {step: prepare, action: prepare}
    - {step: build, action: build}
---
action: prepare
---
action: build
"""
KEPT = (64 << 10) + (1 << 20)


class Appending:
    """An AppendLogs stream."""

    def __init__(self, space):
        self.stub = agent_grpc.AgentServiceStub(space.server.channel)
        self.space = space
        self.requests = queue.Queue()
        self.count = 0
        self.call = self.stub.AppendLogs(iter(self.requests.get, None))

    def put(self, *batches):
        request = agent.AppendLogsRequest(batches=batches)
        if self.count == 0:
            request.namespace = self.space.name
        self.count += 1
        self.requests.put(request)

    def send(self, *batches):
        """The answer to a request with these batches."""
        self.put(*batches)
        answer = next(self.call)
        assert answer.requests == self.count
        return list(answer.refused_claims)

    def lines(self, task, texts, first=1, **more):
        return self.send(batch(task, texts, first, **more))

    def close(self):
        self.requests.put(None)
        assert list(self.call) == []


def batch(task, texts, first=1, stream="OUT", claim=None):
    return agent.LogBatch(
        instance=task.instance, claim=task.claim if claim is None else claim, first=first,
        lines=[agent.LogLine(time=timestamp(1.5e9), text=text,
                             stream=agent.LogLine.Stream.Value(stream)) for text in texts])


def reading(space, instance, timeout=CALL, **more):
    stub = agent_grpc.AgentServiceStub(space.server.channel)
    return stub.ReadLogs(agent.ReadLogsRequest(namespace=space.name, instance=instance, **more),
                         timeout=timeout)


def read(space, instance, timeout=CALL, **more):
    return [entry for message in reading(space, instance, timeout, **more)
            for entry in message.entries]


def texts(entries):
    return [entry.text for entry in entries]


@pytest.fixture
def append(space):
    stream = Appending(space)
    yield stream
    stream.close()


# Taking and reading -----------------------------------------------------------------------------


def test_lines_are_read_as_they_were_written(space, append):
    space.define(JOB)
    space.start("job", "j")
    task = space.take(worker="h1")
    assert append.lines(task, ["compiling a.c", "äöü \x1b[31m red"]) == []
    assert append.lines(task, ["warning"], first=3, stream="ERR") == []
    one, two, three = read(space, "j")
    assert (one.node, one.visit, one.attempt, one.worker) == ("work", task.visit, 1, "h1")
    assert (one.line, one.claim, seconds(one.time)) == (1, task.claim, 1.5e9)
    assert (one.left_out, one.dry_run) == (0, False)
    assert texts([one, two, three]) == ["compiling a.c", "äöü \x1b[31m red", "warning"]
    assert (one.stream, three.stream) == (agent.LogLine.OUT, agent.LogLine.ERR)
    assert space.story("j") == ["STARTED"]  # logs are in no history


def test_a_line_that_is_sent_again_is_taken_once(space, append):
    space.define(JOB)
    space.start("job", "j")
    task = space.take()
    append.lines(task, ["1", "2", "3"])
    append.lines(task, ["1", "2", "3"])
    other = Appending(space)
    other.lines(task, ["2", "3", "4"], first=2)
    other.close()
    assert texts(read(space, "j")) == ["1", "2", "3", "4"]


def test_lines_that_were_not_sent_are_counted(space, append):
    space.define(JOB)
    space.start("job", "j")
    task = space.take()
    sent = batch(task, ["1", "5"])
    sent.lines[1].left_out = 3
    append.send(sent)
    append.lines(task, ["6"], first=6)
    entries = read(space, "j")
    assert [(entry.line, entry.left_out) for entry in entries] == [(1, 0), (5, 3), (6, 0)]


def test_claims_that_were_never_handed_out_are_refused(space, append):
    space.define(JOB)
    space.start("job", "j")
    space.start("job", "k")
    task, other = space.ready(max_tasks=2)
    visit, epoch, serial, tag = task.claim.split("-")
    forged = [f"{visit}-{epoch}-{int(serial, 16) + 500:x}-{tag}", "nonsense",
              f"99-{epoch}-{serial}-{tag}", other.claim]
    for claim in forged:
        assert append.lines(task, ["x"], claim=claim) == [claim], claim
    missing = batch(task, ["x"])
    missing.instance = "no-such"
    assert append.send(missing) == [task.claim]
    assert append.send(batch(task, ["good"]), batch(task, ["x"], claim="bad")) == ["bad"]
    assert texts(read(space, task.instance)) == ["good"]
    assert read(space, other.instance) == []


@pytest.mark.parametrize("asked_before", [True, False])
def test_lines_come_for_a_minute_after_the_end(new_server, asked_before):
    server = new_server(virtual_clock="2026-01-31T08:00:00Z").start()
    space = server.space("default")
    space.define(JOB)
    space.start("job", "j")
    task = space.take(worker="h1")
    append = Appending(space)
    if asked_before:
        assert append.lines(task, ["first"]) == []
    space.report(task)
    server.advance(by=59)
    assert append.lines(task, ["in time"], first=2) == []
    server.advance(by=2)
    assert append.lines(task, ["too late"], first=3) == [task.claim]
    last = read(space, "j")[-1]
    assert (last.text, last.attempt, last.worker, last.node) == ("in time", 1, "h1", "work")
    append.close()


def test_lines_of_claims_that_ended_otherwise(space, append):
    space.define(JOB)
    space.define(HASTY)
    space.start("job", "j")
    first = space.take("job", worker="h1")
    space.relinquish("j", first.claim)
    second = space.take("job", worker="h2")
    assert append.lines(first, ["of the first"]) == []
    assert append.lines(second, ["of the second"]) == []
    space.cancel("j", "KILL")
    assert append.lines(second, ["killed"], first=2) == []
    assert [(e.attempt, e.worker) for e in read(space, "j")] == [(1, "h1"), (2, "h2"), (2, "h2")]

    space.start("hasty", "h")
    slow = space.take("hasty", worker="slow")
    again = space.take("hasty", worker="quick")  # the first one has timed out
    assert append.lines(slow, ["still here"]) == []
    space.report(again)
    assert append.lines(slow, ["lost to another"], first=2) == []
    assert append.lines(again, ["won"]) == []
    assert [(e.attempt, e.text) for e in read(space, "h")] == [
        (1, "still here"), (1, "lost to another"), (2, "won")]


def test_what_is_wrong_with_a_request_ends_the_stream(space):
    space.define(JOB)
    space.start("job", "j")
    task = space.take()
    long = batch(task, ["x" * (16 << 10)])
    good = Appending(space)
    assert good.send(long) == []
    good.close()
    unnumbered = batch(task, ["x"], first=0)
    unknown = batch(task, ["x"])
    unknown.lines[0].stream = 7
    for bad, reason, mention in [
            (batch(task, ["x" * (16 << 10) + "y"]), "TOO_LARGE", "16384"),
            (batch(task, ["x" * 1000] * 1100), "TOO_LARGE", "1048576"),
            (batch(task, ["two\nlines"]), "BAD_REQUEST", "line break"),
            (batch(task, ["x"], claim=""), "BAD_REQUEST", "claim"),
            (unnumbered, "BAD_REQUEST", "first"),
            (unknown, "BAD_REQUEST", "7"),
            (agent.LogBatch(claim=task.claim), "BAD_REQUEST", "instance")]:
        stream = Appending(space)
        with refused("INVALID_ARGUMENT", reason, mention):
            stream.send(bad)
    stream = Appending(space)
    stream.send()
    stream.requests.put(agent.AppendLogsRequest(namespace=space.name))
    with refused("INVALID_ARGUMENT", "BAD_REQUEST", "namespace"):
        next(stream.call)


def test_each_request_is_answered_in_order(space, append):
    space.define(JOB)
    space.start("job", "j")
    task = space.take()
    for i in range(1, 101):  # more than may be unanswered
        append.put(batch(task, [str(i)], first=i))
    assert [next(append.call).requests for _ in range(100)] == list(range(1, 101))
    assert texts(read(space, "j")) == [str(i) for i in range(1, 101)]


# Filters ----------------------------------------------------------------------------------------


def test_filters(space, append):
    space.define(LOOP)
    space.start("loop", "l")
    for visit in (1, 2):
        for attempt in (1, 2):
            task = space.take(worker=f"w{attempt}")
            append.lines(task, [f"{task.visit}.{attempt}.{i}" for i in range(3)])
            if attempt == 1:
                space.relinquish("l", task.claim)
        space.report(task, "again")
    every = read(space, "l")
    assert len(every) == 12
    visits = sorted({entry.visit for entry in every})
    assert len(read(space, "l", node="turn")) == 12
    assert len(read(space, "l", visit=visits[0])) == 6
    assert texts(read(space, "l", visit=visits[1], attempt=2)) == texts(every)[9:]
    assert texts(read(space, "l", tail=4)) == texts(every)[8:]
    assert texts(read(space, "l", tail=1, attempt=1)) == texts(every)[8:9]
    assert read(space, "l", visit=77) == []
    with refused("NOT_FOUND", "NO_SUCH_NODE", "nowhere"):
        read(space, "l", node="nowhere")
    with refused("NOT_FOUND", "NO_SUCH_INSTANCE", "nobody"):
        read(space, "nobody")
    for bad in ({"after": "x"}, {"node": "a b"}):
        with refused("INVALID_ARGUMENT", "BAD_REQUEST"):
            read(space, "l", **bad)
    with refused("INVALID_ARGUMENT", "BAD_REQUEST"):
        read(space, "")


def test_steps_of_a_plan(space, append):
    space.define(PLAN)
    space.plan("site", "s")
    for step in ("prepare", "build"):
        [task] = space.claim(step)
        append.lines(task, [f"of {step}"])
        space.report(task)
    assert texts(read(space, "s")) == ["of prepare", "of build"]
    assert texts(read(space, "s", node="build")) == ["of build"]
    with refused("NOT_FOUND", "NO_SUCH_NODE", "deploy"):
        read(space, "s", node="deploy")
    space.ends("s", "SUCCESS")
    assert texts(read(space, "s", node="build")) == ["of build"]


def test_a_cursor_goes_on_behind_what_was_read(space, append):
    space.define(JOB)
    space.start("job", "j")
    assert [message.cursor for message in reading(space, "j")] == [""]  # never any
    task = space.take()
    append.lines(task, ["1", "2"])
    *_, last = reading(space, "j")
    append.lines(task, ["3"], first=3)
    assert texts(read(space, "j", after=last.cursor)) == ["3"]
    *_, last = reading(space, "j", after=last.cursor)
    [rest] = reading(space, "j", after=last.cursor)
    assert (rest.cursor, list(rest.entries)) == (last.cursor, [])


def test_of_a_visit_its_first_and_last_lines_are_kept(space, append):
    space.define(JOB)
    space.start("job", "j")
    task = space.take()
    append.lines(task, ["x" * 100] * 1000)
    cursor = [message.cursor for message in reading(space, "j")][-1]
    for first in range(1001, 30_001, 1000):
        append.lines(task, ["x" * 100] * 1000, first=first)
    entries = read(space, "j")
    size = sum(len(entry.text) for entry in entries)
    assert KEPT - 200 <= size <= KEPT
    assert (entries[0].line, entries[-1].line) == (1, 30_000)
    gap = only([entry for entry in entries if entry.left_out])
    assert len(entries) + gap.left_out == 30_000
    rest = read(space, "j", after=cursor)
    assert (rest[0].line, rest[0].left_out) == (gap.line, gap.line - 1001)


# Following --------------------------------------------------------------------------------------


class Following(threading.Thread):
    def __init__(self, space, instance, **more):
        super().__init__(daemon=True)
        self.call = reading(space, instance, timeout=60, follow=True, **more)
        self.entries, self.ended, self.refusal = [], None, None
        self.start()

    def run(self):
        try:
            for message in self.call:
                now = time.monotonic()
                self.entries += [(now, entry.text) for entry in message.entries]
        except Exception as error:  # looked at by the test
            self.refusal = Refusal(error)
        self.ended = time.monotonic()

    def texts(self):
        return [text for _, text in self.entries]


@pytest.mark.timed
def test_a_reader_follows_until_the_end(space, append):
    space.define(JOB)
    space.start("job", "j")
    follower = Following(space, "j")
    task = space.take()
    for i in range(1, 21):
        sent = time.monotonic()
        append.lines(task, [str(i)], first=i)
        eventually(lambda: len(follower.entries) == i)
        assert follower.entries[-1][0] - sent < 1
    space.report(task)
    ended = time.monotonic()
    append.lines(task, ["exit status 0"], first=21)
    follower.join(10)
    assert follower.ended - ended < 5.5
    assert follower.refusal is None
    assert follower.texts() == [*map(str, range(1, 21)), "exit status 0"]
    eventually(lambda: time.monotonic() - ended > 5.1, within=10)
    began = time.monotonic()
    assert len(read(space, "j", follow=True)) == 21  # long over: ends at once
    assert time.monotonic() - began < 1


def test_a_reader_follows_a_step_or_a_visit(space, append):
    space.define(PLAN)
    space.plan("site", "s")
    whole = Following(space, "s")
    later = Following(space, "s", node="build")
    step = Following(space, "s", node="prepare")
    [task] = space.claim("prepare")
    visit = Following(space, "s", visit=task.visit)
    append.lines(task, ["of prepare"])
    space.report(task)
    for follower in (step, visit):
        follower.join(6)
        assert follower.ended and follower.texts() == ["of prepare"]
    [task] = space.claim("build")
    append.lines(task, ["of build"])
    eventually(lambda: later.texts() == ["of build"])
    assert whole.ended is None and later.ended is None
    space.report(task)
    for follower in (whole, later):
        follower.join(6)
        assert follower.ended and follower.refusal is None
    assert whole.texts() == ["of prepare", "of build"]


def test_a_tail_is_followed(space, append):
    space.define(JOB)
    space.start("job", "j")
    task = space.take()
    append.lines(task, list("abcde"))
    follower = Following(space, "j", tail=2)
    eventually(lambda: follower.texts() == ["d", "e"])
    append.lines(task, ["f"], first=6)
    eventually(lambda: follower.texts() == ["d", "e", "f"])
    follower.call.cancel()
    follower.join(SOON)


# Bounds, ends and crashes -----------------------------------------------------------------------


def overfill(space):
    """Over 2 MiB of logs: of c, which runs, and of b and a, which have stopped in this order."""
    append = Appending(space)
    tasks = {}
    for id in "abc":
        space.start("job", id)
        tasks[id] = space.take()
    for id in "ba":
        space.report(tasks[id])
    for id in "abc":
        for first in range(1, 800, 100):
            append.lines(tasks[id], ["x" * 1000] * 100, first=first)
    return append


def test_of_the_server_the_logs_that_stopped_first_go_first(new_server):
    server = new_server("--logs-mb", "2").start()
    space = server.space("default")
    space.define(JOB)
    append = overfill(space)
    eventually(lambda: read(space, "b") == [] or sum(
        len(e.text) for id in "abc" for e in read(space, id)) < 2 << 20)
    size = {id: len(read(space, id)) for id in "abc"}
    assert size["b"] < 800 and size["a"] == 800 and size["c"] == 800
    eventually(lambda: sum(file.stat().st_size for file in (server.data / "logs").rglob("*")
                           if file.is_file()) < 16 << 20)
    append.close()


def test_a_server_that_keeps_none(new_server):
    server = new_server("--logs-mb", "0").start()
    space = server.space("default")
    space.define(JOB)
    space.start("job", "j")
    task = space.take()
    append = Appending(space)
    assert append.lines(task, ["x"]) == []
    assert read(space, "j") == []
    space.report(task)
    assert read(space, "j", follow=True) == []
    append.close()


def test_lines_survive_kill_9(new_server):
    server = new_server().start()
    space = server.space("default")
    space.define(JOB)
    space.start("job", "j")
    task = space.take(worker="h1")
    append = Appending(space)
    for first in range(1, 1001, 100):
        append.lines(task, [str(first + i) for i in range(100)], first=first)
    *_, last = reading(space, "j")
    server.kill()
    server.start()
    assert texts(read(space, "j")) == [str(i) for i in range(1, 1001)]
    append = Appending(space)
    assert append.lines(task, [str(i) for i in range(950, 1101)], first=950) == []
    assert texts(read(space, "j", after=last.cursor)) == [str(i) for i in range(1001, 1101)]
    assert {(entry.attempt, entry.node) for entry in read(space, "j")} == {(1, "work")}
    append.close()


def test_followers_are_told_that_the_server_stops(new_server):
    server = new_server().start()
    space = server.space("default")
    space.define(JOB)
    space.start("job", "j")
    append = Appending(space)
    append.lines(space.take(), ["x"])
    follower = Following(space, "j")
    eventually(lambda: follower.texts() == ["x"])
    server.terminate()
    follower.join(SOON)
    assert follower.refusal.code == "UNAVAILABLE"
    assert server.exit_status() == 0


def test_logs_go_with_their_instance(new_server):
    server = new_server(*retention_flags("1s")).start()
    space = server.space("default")
    space.define(JOB)
    space.start("job", "j")
    task = space.take()
    append = Appending(space)
    append.lines(task, ["old"])
    space.report(task)

    def gone():
        try:
            read(space, "j")
        except Exception as error:
            return Refusal(error).reason == "NO_SUCH_INSTANCE"
        return False

    eventually(gone, within=15)
    eventually(lambda: append.lines(task, ["late"], first=2) == [task.claim])
    space.start("job", "j")  # the id is free again, and has no lines
    assert read(space, "j") == []
    append.lines(space.take(), ["new"])
    assert texts(read(space, "j")) == ["new"]
    append.close()


# dcli -------------------------------------------------------------------------------------------


def test_dcli_logs(space, dcli, append):
    space.define(LOOP)
    space.start("loop", "l")
    none = dcli("logs", "l")
    assert (none.returncode, none.stdout) == (0, "")
    assert "never had any" in none.stderr
    task = space.take(worker="h1")
    append.lines(task, ["compiling a.c", "\x1b[31mred\x1b[0m \x07 bell"])
    append.lines(task, ["late"], first=1207, stream="ERR")
    lines = dcli.ok("logs", "l").splitlines()
    assert [line.split("  ", 3)[1:] for line in lines if not line.startswith("…")] == [
        ["turn", "h1", "compiling a.c"], ["turn", "h1", r"red \x07 bell"], ["turn", "h1", "late"]]
    assert lines[0].startswith("02:40:00.000  ")
    assert lines[2] == "… 1,204 lines left out"
    entries = [json.loads(line) for line in dcli.ok("logs", "l", "-o", "json").splitlines()]
    assert [entry["text"] for entry in entries][::2] == ["compiling a.c", "late"]
    assert (entries[2]["line"], entries[2]["leftOut"]) == ("1207", "1204")
    assert len(dcli.ok("logs", "l", "--tail", "1").splitlines()) == 2
    first = dcli("logs", "l", "--step", "turn", "--visit", str(task.visit), "--attempt", "1")
    assert len(first.stdout.splitlines()) == 4
    cursor = first.stderr.split("--after ")[1].strip()
    assert dcli("logs", "l", "--after", cursor).stdout == ""
    assert dcli("logs", "l", "--step", "nowhere").returncode == 1
    assert dcli("logs", "nobody").returncode == 1
    assert dcli("logs", "l", "--visit", "x").returncode == 2
    follower = dcli.background("logs", "l", "--follow", "--tail", "1", "-o", "json")
    assert json.loads(follower.stdout.readline())["text"] == "late"
    append.lines(task, ["then"], first=1208)
    assert json.loads(follower.stdout.readline())["text"] == "then"
    space.report(task, "ok")
    out, err = follower.communicate(timeout=15)
    assert (follower.returncode, out) == (0, ""), err
