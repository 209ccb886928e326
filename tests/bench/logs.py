#!/usr/bin/python3
"""Measures what a command that writes much costs the transitions of others.

  tests/bench/logs.py [--bin build/bin] [--megabytes 20] [--rounds 6] [--seconds 5]

On one processor dsrv, and an agent whose handler does nothing; on another one an agent whose command
writes so many MB/s of lines. The command is stopped and goes on in turns: prints the tasks per
second of the first agent in both, and their ratio."""
import argparse
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve()
sys.path[:0] = [str(HERE.parents[1] / "e2e"), str(HERE.parent)]
from agent import HANDLER, MACHINE, free_port  # noqa: E402

NOISE = "id: noise\nnodes: {write: {start: true, transitions: {ok: done}}, done: {final: true}}\n"
WRITER = """\
import os, sys, time
open(sys.argv[2], "w").write(str(os.getpid()))
counts = open(sys.argv[3], "a", buffering=1)
piece = (b"a line of a hundred bytes, as a build says it about one of the many files that it is made"
         b" of now\\n") * 1000
pause = len(piece) / float(sys.argv[1]) / 1e6
due = time.monotonic()
while True:
    os.write(1, piece)
    counts.write(f"{len(piece)}\\n")
    due = max(due + pause, time.monotonic() - 1)  # what was not written while stopped is not made up for
    time.sleep(max(0, due - time.monotonic()))
"""


def main():
    options = argparse.ArgumentParser(description=__doc__,
                                      formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/bin"))
    options.add_argument("--megabytes", type=float, default=20)
    options.add_argument("--rounds", type=int, default=6)
    options.add_argument("--seconds", type=float, default=5)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(given, pathlib.Path(folder))


class Stock:
    """Starts instances, so that the first agent always has some to do."""

    def __init__(self, runner, start):
        self.runner, self.start, self.ended = runner, start, threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.fill(0, 20_000)
        self.thread.start()

    def fill(self, begin, end):
        for first in range(begin, end, 1000):
            self.runner.StartBatch(self.start(range(first, first + 1000)))
        self.made = end

    def run(self):
        from stubs import v1
        while not self.ended.wait(0.2):
            done = self.runner.GetMachine(v1.GetMachineRequest(id="job")).stats.stopped
            if self.made - done < 15_000:
                self.fill(self.made, self.made + 5_000)

    def end(self):
        self.ended.set()
        self.thread.join()


def measure(given, folder):
    from stubs import v1, v1_grpc
    import grpc
    programs = given.bin.resolve()
    address = f"127.0.0.1:{free_port()}"
    environment = {**os.environ, "DFSMR_SERVER": address, "no_proxy": "127.0.0.1"}
    running = []

    def run(core, *command):
        running.append(subprocess.Popen(["taskset", "-c", str(core), *command], env=environment,
                                        stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL))

    def write(name, text):
        (folder / name).write_text(text)
        return folder / name

    run(0, programs / "dsrv", "--addr", address, "--data", folder / "data")
    channel = grpc.insecure_channel(address)
    grpc.channel_ready_future(channel).result(20)
    runner = v1_grpc.RunnerServiceStub(channel)
    write("serve.py", HANDLER)
    write("writer.py", WRITER)
    for name, text in (("job.yaml", MACHINE), ("noise.yaml", NOISE)):
        subprocess.run([programs / "dcli", "define", write(name, text)], env=environment, check=True,
                       stdout=subprocess.DEVNULL)
    quick = write("quick.yaml", "workers:\n  job.work: {run: [python3, serve.py], mode: serve,"
                                " concurrency: 64, tasks: 10000000}\n")
    loud = write("loud.yaml", f"workers:\n  noise.write: {{run: [python3, writer.py,"
                              f" '{given.megabytes}', {folder}/pid, {folder}/written]}}\n")
    stock = Stock(runner, lambda numbers: v1.StartBatchRequest(starts=[
        v1.StartRequest(machine="job", id=f"i{number}") for number in numbers]))
    run(0, programs / "dcli", "agent", "--workers", quick, "--jobs", "64", "--name", "quick",
        "--no-logs")
    run(1, programs / "dcli", "agent", "--workers", loud, "--jobs", "1", "--name", "loud")
    runner.Start(v1.StartRequest(machine="noise", id="noise"))
    pid = folder / "pid"
    while not pid.exists() or not pid.read_text():
        time.sleep(0.05)
    writer = int(pid.read_text())

    def written():
        return sum(map(int, (folder / "written").read_text().split()))

    def turn(order):
        os.kill(writer, order)
        time.sleep(1)
        before, came, began = tasks(), written(), time.monotonic()
        time.sleep(given.seconds)
        took = time.monotonic() - began
        return (tasks() - before) / took, (written() - came) / took / 1e6

    def tasks():
        return runner.GetMachine(v1.GetMachineRequest(id="job")).stats.stopped

    ratios = []
    for number in range(given.rounds):
        turns = [signal.SIGSTOP, signal.SIGCONT]
        by_order = {order: turn(order) for order in (turns if number % 2 == 0 else turns[::-1])}
        quiet, beside = by_order[signal.SIGSTOP][0], by_order[signal.SIGCONT][0]
        ratios.append(beside / quiet)
        print(f"quiet {quiet:7.0f} tasks/s   beside {by_order[signal.SIGCONT][1]:5.1f} MB/s"
              f" {beside:7.0f} tasks/s   ratio {beside / quiet:.3f}", flush=True)
    print(f"median ratio {statistics.median(ratios):.3f}")
    os.kill(writer, signal.SIGCONT)
    stock.end()
    for process in reversed(running):
        process.kill()
        process.wait()


main()
