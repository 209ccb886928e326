#!/usr/bin/python3
"""Measures whether a thing costs the same when there are very many of it.

  tests/bench/scale.py [schedules|due|waiting|group|triggers|push|backup]... [--bin build/bin] [--many N]

  schedules  what N (100,000) schedules cost in memory and CPU time until one of them is due
  due        how late the last of N (10,000) schedules begins that are due in the same second
  waiting    what it costs to free a place of a limit, with ten and with N (1,000,000) waiting
  group      what it costs to finish a member of a group of ten, and of one of N (1,000,000)
  triggers   what a transition costs with N (100) change triggers, and with none
  push       how long others' starts take while packages of N (250) MiB are pushed, and before
  backup     how many starts there are, and how long they take, while a store of N (1,024) MiB is backed
             up, and before

CPU times are those of dsrv, from /proc, per instance; both of a pair are taken from one run. `push` and
`backup` need dcli there, too."""
import argparse
import base64
import datetime
import json
import os
import pathlib
import queue
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve()
sys.path[:0] = [str(HERE.parents[1] / "e2e"), str(HERE.parent)]
import usage  # noqa: E402
from agent import free_port  # noqa: E402
import grpc  # noqa: E402
from google.protobuf import duration_pb2  # noqa: E402
from stubs import schedule, schedule_grpc, v1, v1_grpc  # noqa: E402

JOB = """\
id: {name}
nodes: {{work: {{start: true, transitions: {{ok: done}}{more}}}, done: {{final: true}}}}
"""


class Server:
    def __init__(self, programs):
        self.folder = tempfile.TemporaryDirectory()
        self.programs = programs
        self.run()

    def run(self):
        self.address = f"127.0.0.1:{free_port()}"
        self.process = subprocess.Popen(
            [self.programs / "dsrv", "--addr", self.address, "--data",
             pathlib.Path(self.folder.name) / "data"], stderr=subprocess.DEVNULL)
        self.channel = grpc.insecure_channel(
            self.address, options=[("grpc.enable_http_proxy", 0),
                              ("grpc.max_receive_message_length", -1)])
        grpc.channel_ready_future(self.channel).result(20)
        self.runner = v1_grpc.RunnerServiceStub(self.channel)
        self.schedules = schedule_grpc.ScheduleServiceStub(self.channel)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()

    def restart(self):
        """What only the writing of definitions took is free then."""
        self.channel.close()
        self.process.terminate()
        self.process.wait()
        self.run()

    def resident(self):
        return usage.resident(self.process.pid)

    def cpu(self):
        """Seconds."""
        return usage.cpu(self.process.pid)

    def define(self, documents):
        for first in range(0, len(documents), 1000):
            self.runner.Define(v1.DefineRequest(source="---\n".join(documents[first:first + 1000])))

    def start(self, machine, number, begin=0, **more):
        for first in range(begin, begin + number, 1000):
            last = min(first + 1000, begin + number)
            self.runner.StartBatch(v1.StartBatchRequest(starts=[
                v1.StartRequest(machine=machine, id=f"{machine}-{i}", **more)
                for i in range(first, last)]))

    def dcli(self, *words, cwd=None):
        """As from another machine: with what the others leave of the processors."""
        subprocess.run(["nice", "-n", "19", self.programs / "dcli", *words], cwd=cwd, check=True,
                       env={**os.environ, "DFSMR_SERVER": self.address},
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def work(self, machine, number):
        """Claims and reports so many tasks; the CPU seconds of the server for each."""
        asks = queue.SimpleQueue()
        asks.put(v1.WorkRequest(open=v1.ReadyRequest(machine=machine, max_tasks=100)))
        answers = self.runner.Work(iter(asks.get, None))
        done, marks = 0, {}
        for answer in answers:
            if answer.tasks:
                asks.put(v1.WorkRequest(transitions=[
                    v1.TransitionRequest(instance=task.instance, claim=task.claim, transition="ok")
                    for task in answer.tasks]))
            done += len(answer.results)
            for mark in (number, 2 * number):  # until the first one caches are filled
                if done >= mark:
                    marks.setdefault(mark, (done, self.cpu()))
            if done >= 2 * number:
                break
        answers.cancel()
        asks.put(None)
        (early, before), (late, after) = marks[number], marks[2 * number]
        return (after - before) / (late - early)


def schedules(programs, many):
    with Server(programs) as server:
        server.define([JOB.format(name="job", more="")])
        server.restart()
        time.sleep(2)
        before = server.resident()
        server.define([f"schedule: s{i}\nevery: 365d offset {i}m\nstart: {{machine: job}}\n"
                       for i in range(many)])
        server.restart()
        time.sleep(2)
        after, cpu = server.resident(), server.cpu()
        time.sleep(10)
        print(f"{many} schedules: {(after - before) / many:.0f} bytes each;"
              f" {(server.cpu() - cpu) * 1000:.0f} ms of CPU in 10 s", flush=True)


def due(programs, many):
    with Server(programs) as server:
        server.define([JOB.format(name="job", more="")])
        when = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=30)
        when = when.replace(microsecond=0)
        server.define([f"schedule: s{i}\nat: {when:%Y-%m-%dT%H:%M:%SZ}\nstart: {{machine: job}}\n"
                       for i in range(many)])
        early = (when - datetime.datetime.now(datetime.timezone.utc)).total_seconds()
        if early < 1:
            sys.exit("defining took too long: they are due already")
        while server.runner.GetMachine(v1.GetMachineRequest(id="job")).stats.running < many:
            time.sleep(0.2)
        latest, token = 0, ""
        while True:
            page = server.runner.ListInstances(
                v1.ListInstancesRequest(machine="job", page_size=1000, page_token=token))
            latest = max([latest] + [one.start_time.ToNanoseconds() for one in page.instances])
            token = page.next_page_token
            if not token:
                break
        print(f"{many} schedules due at once: the last began"
              f" {latest / 1e9 - when.timestamp():.2f} s later", flush=True)


def waiting(programs, many):
    with Server(programs) as server:
        for name in ("few", "many"):
            server.define([JOB.format(name=name, more="") + f"limit: {{key: {name}, max: 100}}\n"])
        tasks = 4_000
        server.start("few", 100 + 2 * tasks + 10)
        server.start("many", many)
        # Of few so many wait as are worked on, at most 8,010; those of many hardly get fewer.
        few, lots = server.work("few", tasks), server.work("many", tasks)
        print(f"{tasks} places freed: {few * 1e6:.1f} us each with at most {2 * tasks + 10} waiting,"
              f" {lots * 1e6:.1f} us with {many}: ratio {lots / few:.2f}", flush=True)


def group(programs, many):
    with Server(programs) as server:
        server.define([JOB.format(name=name, more="") for name in ("alone", "few", "many")])
        tasks = 4_000
        for i in range(2 * tasks // 10):
            server.start("few", 10, begin=10 * i, group=f"few{i}")
        server.start("alone", 2 * tasks)
        server.start("many", many, group="many")
        alone, few = server.work("alone", tasks), server.work("few", tasks)
        lots = server.work("many", tasks)
        began = time.monotonic()
        view = server.schedules.GetGroup(schedule.GetGroupRequest(name="many"))
        took = time.monotonic() - began
        print(f"a member finished: {few * 1e6:.1f} us in groups of 10, {lots * 1e6:.1f} us in one of"
              f" {view.total}: ratio {lots / few:.2f} (without a group {alone * 1e6:.1f});"
              f" its view took {took * 1000:.1f} ms", flush=True)


def triggers(programs, many):
    texts = [f"trigger: t{i}\non: {{change: {{kind: finished, machine: job, result: error}}}}\n"
             "start: {machine: job}\n" for i in range(many)]
    with Server(programs) as server:
        server.define([JOB.format(name="job", more="")])
        tasks = 10_000
        none = []
        lots = []
        for turn in range(3):
            server.start("job", 5 * tasks, begin=5 * tasks * turn)
            none.append(server.work("job", tasks))
            server.define(texts)
            lots.append(server.work("job", tasks))
            for i in range(many):
                server.schedules.DeleteDefinition(
                    schedule.DeleteDefinitionRequest(trigger=f"t{i}"))
        best, worst = min(none), min(lots)
        print(f"a start's way to its end: {best * 1e6:.1f} us without triggers, {worst * 1e6:.1f} us"
              f" with {many}: rate {best / worst:.2f}", flush=True)


def starts_beside(server, action):
    """Of starts by four callers while `action` runs: milliseconds, the median and p99; rate."""
    over, took = threading.Event(), []

    def call():
        while not over.is_set():
            began = time.monotonic()
            server.runner.Start(v1.StartRequest(machine="job"))
            took.append((time.monotonic() - began) * 1000)

    callers = [threading.Thread(target=call) for _ in range(4)]
    for caller in callers:
        caller.start()
    begun = time.monotonic()
    action()
    seconds = time.monotonic() - begun
    over.set()
    for caller in callers:
        caller.join()
    rate = len(took) / seconds
    took.sort()
    return took[len(took) // 2], took[len(took) * 99 // 100], rate


def push(programs, many):
    with Server(programs) as server, tempfile.TemporaryDirectory() as folder:
        server.define([JOB.format(name="job", more="")])
        package = pathlib.Path(folder) / "big"
        package.mkdir()
        program = package / "run"
        program.write_bytes(os.urandom(many << 20))
        program.chmod(0o755)
        (package / "package.yaml").write_text(
            "package: big\nversion: 1.0.0\nworkers: {one: {serves: [go], run: ./run}}\n")

        for turn in range(3):
            version = f"1.0.{turn}"
            server.dcli("package", "build", "big", "--version", version, cwd=folder)
            middle, late, _ = starts_beside(server, lambda: time.sleep(8))
            beside, later, _ = starts_beside(
                server,
                lambda: server.dcli("package", "push", f"big-{version}.dfsmr", cwd=folder))
            print(f"a start beside the push of {many} MiB: median {beside:.1f} ms, p99 {later:.1f};"
                  f" before it {middle:.1f} and {late:.1f}: ratio of the p99 {later / late:.2f}",
                  flush=True)
            (package.parent / f"big-{version}.dfsmr").unlink()


def backup(programs, many):
    with Server(programs) as server:
        server.define([JOB.format(name="job", more=""), JOB.format(name="large", more="")])
        for number in range(many * 16):  # 64 KiB each, of which nothing can be compressed
            text = base64.b64encode(os.urandom(48 << 10)).decode()
            server.start("large", 1, begin=number, params=json.dumps({"text": text}))
        for _ in range(3):
            middle, late, rate = starts_beside(server, lambda: time.sleep(8))
            begun = time.monotonic()
            beside, later, slower = starts_beside(server, lambda: server.dcli("backup", "-"))
            print(f"a start beside a backup of {many} MiB ({time.monotonic() - begun:.0f} s): median"
                  f" {beside:.1f} ms, p99 {later:.1f}, {slower:.0f}/s; before it {middle:.1f},"
                  f" {late:.1f}, {rate:.0f}/s: ratio of the p99 {later / late:.2f}, of the rate"
                  f" {slower / rate:.2f}", flush=True)


CASES = {"schedules": (schedules, 100_000), "due": (due, 10_000), "waiting": (waiting, 1_000_000),
         "group": (group, 1_000_000), "triggers": (triggers, 100),
         "push": (push, 250), "backup": (backup, 1024)}


def main():
    options = argparse.ArgumentParser(description=__doc__,
                                      formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("cases", nargs="*", choices=[*CASES, []], default=list(CASES))
    options.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/bin"))
    options.add_argument("--many", type=int, default=0)
    given = options.parse_args()
    for name in given.cases or CASES:
        measure, usual = CASES[name]
        measure(given.bin.resolve(), given.many or usual)


if __name__ == "__main__":
    main()
