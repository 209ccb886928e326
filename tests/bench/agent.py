#!/usr/bin/python3
"""Measures one agent with a handler that does nothing (mode: serve), against plain Work streams.

  tests/bench/agent.py [--bin build/bin] [--tasks 40000] [--rounds 3]

In turns: `dcli agent --jobs 8` with one worker that serves, and the bench's case work16x10, which
reports as fast as it is handed out. Prints tasks per second of both and their ratio."""
import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
MACHINE = "id: job\nnodes: {work: {start: true, transitions: {ok: done}}, done: {final: true}}\n"
HANDLER = """\
import json, sys
out = sys.stdout
for line in sys.stdin:
    word = json.loads(line)
    if word["type"] == "task":
        out.write('{"type":"result","id":"%s"}\\n' % word["id"])
        out.flush()
"""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def serve(programs, tasks):
    from stubs import v1, v1_grpc
    import grpc
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        address = f"127.0.0.1:{free_port()}"
        environment = {**os.environ, "DFSMR_SERVER": address, "no_proxy": "127.0.0.1"}
        dsrv = subprocess.Popen([programs / "dsrv", "--addr", address, "--data", folder / "data"],
                                stderr=subprocess.DEVNULL)
        (folder / "machine.yaml").write_text(MACHINE)
        (folder / "serve.py").write_text(HANDLER)
        (folder / "workers.yaml").write_text(
            "workers:\n  job.work: {run: [python3, serve.py], mode: serve, concurrency: 8,"
            " tasks: 1000000}\n")
        channel = grpc.insecure_channel(address)
        grpc.channel_ready_future(channel).result(20)
        runner = v1_grpc.RunnerServiceStub(channel)
        subprocess.run([programs / "dcli", "define", folder / "machine.yaml"], env=environment,
                       check=True, stdout=subprocess.DEVNULL)
        for begin in range(0, tasks, 500):
            calls = [runner.Start.future(v1.StartRequest(machine="job", id=f"i{i}"))
                     for i in range(begin, min(begin + 500, tasks))]
            for call in calls:
                call.result()
        begun = time.monotonic()
        agent = subprocess.Popen([programs / "dcli", "agent", "--workers", folder / "workers.yaml",
                                  "--jobs", "8", "--name", "h1", "--no-logs"],
                                 env=environment, stderr=subprocess.DEVNULL)
        while True:
            view = runner.GetMachine(v1.GetMachineRequest(id="job"))
            if view.stats.stopped >= tasks:
                break
            time.sleep(0.05)
        took = time.monotonic() - begun
        agent.terminate()
        agent.wait()
        dsrv.terminate()
        dsrv.wait()
        return tasks / took


def streams(programs):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out.json"
        subprocess.run([programs / "bench", "--case", "work16x10", "--rounds", "1", "--json", out,
                        "--dsrv", programs / "dsrv", "--dir", folder], check=True,
                       stdout=subprocess.DEVNULL)
        [line] = [json.loads(text) for text in out.read_text().splitlines()
                  if '"work16x10"' in text]
        return line["dsrv"]["transitions_per_s"]


def main():
    options = argparse.ArgumentParser(description=__doc__,
                                      formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/bin"))
    options.add_argument("--tasks", type=int, default=40_000)
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    programs = given.bin.resolve()
    rounds = [(serve(programs, given.tasks), streams(programs)) for _ in range(given.rounds)]
    for agent, work in rounds:
        print(f"agent {agent:8.0f}/s   work16x10 {work:8.0f}/s   ratio {agent / work:.2f}")
    print(f"median ratio {statistics.median(agent / work for agent, work in rounds):.2f}")


if __name__ == "__main__":
    main()
