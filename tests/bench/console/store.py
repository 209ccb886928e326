#!/usr/bin/python3
"""What the console's figures look at: fills a store, and keeps it moving.

  tests/bench/console/store.py fill ADDRESS --instances N
  tests/bench/console/store.py load ADDRESS [--rate 100]

fill: machines of several nodes with N instances among them, of which some have stopped, are paused,
scheduled or held, and a few hundred plans; beside them a machine of 500 nodes and 650 edges, a plan of
100,000 steps and an instance with 100,000 records. load: RATE transitions a second, until it is ended."""
import argparse
import concurrent.futures
import itertools
import json
import pathlib
import random
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e"))
from google.protobuf.timestamp_pb2 import Timestamp  # noqa: E402
from stubs import v1, v1_grpc, view, view_grpc  # noqa: E402
from support import open_channel  # noqa: E402

BATCH = 1_000
MACHINES = 20
NODES = 10
BIG_NODES, BIG_EDGES = 500, 650
GROUPS, GROUP_STEPS = 100, 1_000  # of the plan of 100,000 steps
RECORDS = 100_000
IDLE = "timeout_strategy: fixed, timeout: 600"  # nothing is retried because the machine is slow
ERRORS = ["no space left on device", "connection refused", "the customer is not known here"]

# Machines -------------------------------------------------------------------------------------


def chain(name):
    """n0 to n9 one after the other; each may fail."""
    lines = [f"id: {name}", "nodes:"]
    for i in range(NODES):
        start = "start: true, " if i == 0 else ""
        to = f"n{i + 1}" if i + 1 < NODES else "done"
        lines.append(f"  n{i}: {{{start}{IDLE}, transitions: {{ok: {to}, error: failed}}}}")
    return "\n".join([*lines, "  done: {final: true}", "  failed: {final: true, result: error}", ""])


def big():
    """500 nodes and 650 edges: each node is reached from one a little before it, those that lead nowhere
    lead back, and what is left goes anywhere near."""
    chance = random.Random(500)
    edges = {i: [] for i in range(BIG_NODES)}

    def join(i, to):
        if to not in edges[i]:
            edges[i].append(to)

    for i in range(1, BIG_NODES):
        join(i - 1 if chance.random() < 0.75 else chance.randrange(max(0, i - 20), i), i)
    for i in range(BIG_NODES - 1):
        if not edges[i]:
            join(i, min(BIG_NODES - 1, i + chance.randrange(1, 30)))
    while sum(map(len, edges.values())) < BIG_EDGES:
        i = chance.randrange(BIG_NODES - 1)
        join(i, max(0, min(BIG_NODES - 1, i + chance.randrange(-25, 25))))
    lines = ["id: big", "nodes:"]
    for i in range(BIG_NODES - 1):
        ways = ", ".join(f"to{to}: n{to}" for to in edges[i])
        lines.append(f"  n{i}: {{{'start: true, ' if i == 0 else ''}{IDLE}, transitions: {{{ways}}}}}")
    lines.append(f"  n{BIG_NODES - 1}: {{final: true}}\n")
    return "\n".join(lines), edges


TURN = """\
id: NAME
nodes:
  one: {start: true, IDLE, transitions: {on: two}}
  two: {IDLE, transitions: {on: three, back: one}}
  three: {IDLE, transitions: {on: one, end: done}}
  done: {final: true}
""".replace("IDLE", IDLE)
PLANS = """\
action: step
timeout_strategy: fixed
timeout: 600
---
plan: build
label: "builds ${params.what}"
flow:
  sequence:
    - {step: fetch, action: step}
    - concurrence:
        - {step: compile, action: step}
        - {step: document, action: step}
    - {step: publish, action: step}
---
plan: fleet
flow:
  - concurrence:
      for_each: "${params.groups}"
      as: group
      do:
        concurrence:
          for_each: "${group.hosts}"
          as: host
          do: {step: update, action: step, input: {host: "${host}"}}
---
plan: flat
flow:
  - concurrence:
      for_each: "${params.hosts}"
      as: host
      do: {step: update, action: step, input: {host: "${host}"}}
"""

# Filling --------------------------------------------------------------------------------------


class Store:
    def __init__(self, address):
        channel = open_channel(address)
        self.runner = v1_grpc.RunnerServiceStub(channel)
        self.bulks = view_grpc.BulkServiceStub(channel)

    def define(self, source):
        self.runner.Define(v1.DefineRequest(source=source))

    def start(self, requests):
        """In batches, two on their way at a time."""
        chunks = iter(lambda: list(itertools.islice(requests, BATCH)), [])

        def send(chunk):
            reply = self.runner.StartBatch(v1.StartBatchRequest(starts=chunk))
            for one in reply.results:
                assert not one.HasField("error"), one.error

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            waiting = []
            for chunk in chunks:
                waiting.append(pool.submit(send, chunk))
                if len(waiting) > 4:
                    waiting.pop(0).result()
            for one in waiting:
                one.result()

    def move(self, moves):
        """(instance, transition, error): as from outside, many in a call."""
        moves = iter(moves)
        while chunk := list(itertools.islice(moves, BATCH)):
            reply = self.runner.Report(v1.ReportRequest(transitions=[
                v1.TransitionRequest(instance=instance, transition=transition, error=error)
                for instance, transition, error in chunk]))
            for one in reply.results:
                assert not one.HasField("error"), one.error

    def bulk(self, filter, action):
        bulk = self.bulks.StartBulk(view.StartBulkRequest(filter=filter, action=action, reason="figures"))
        while bulk.state == view.Bulk.RUNNING:
            time.sleep(0.1)
            bulk = self.bulks.GetBulk(view.GetBulkRequest(id=bulk.request.id))

    def work_on_plans(self, number):
        """So many steps of plans: most are done, some fail for good."""
        done = 0
        while done < number:
            tasks = self.runner.Ready(v1.ReadyRequest(machine="build", max_tasks=BATCH)).tasks
            if not tasks:
                return
            self.runner.Report(v1.ReportRequest(transitions=[
                v1.TransitionRequest(instance=task.instance, claim=task.claim,
                                     transition="ok" if (done + i) % 5 else "error", fatal=True,
                                     error="" if (done + i) % 5 else ERRORS[i % len(ERRORS)])
                for i, task in enumerate(tasks)]))
            done += len(tasks)


def labels(i):
    return {"site": ("eu", "us", "asia")[i % 3], "customer": f"c{i % 1000}"}


def chained(i):
    """The i-th instance of the chains; one in twenty is not due for long, one in twenty to be paused."""
    request = v1.StartRequest(machine=f"work-{i % MACHINES:02d}", id=f"order-{i:07d}", labels=labels(i),
                              params=json.dumps({"item": i}))
    if i % 20 == 7:
        request.start_at.CopyFrom(Timestamp(seconds=int(time.time()) + 5 * 365 * 86_400))
    if i % 20 == 11:
        request.labels["state"] = "paused"
    return request


def moves_of(number):
    """A fifth ends, each fourth of these badly; a fifth stands further on."""
    for i in range(number):
        name = f"order-{i:07d}"
        if i % 5 == 0:
            yield name, "ok", ""
            if i % 20 == 0:
                yield name, "error", ERRORS[i // 20 % len(ERRORS)]
        elif i % 20 == 14:
            yield name, "error", "out of stock"
        elif i % 20 in (4, 9, 19):
            yield name, "ok", ""


def spread(store, number, edges):
    """Instances of the big machine, all over its nodes."""
    store.start(v1.StartRequest(machine="big", id=f"big-{i}") for i in range(number))
    chance = random.Random(1)
    at = [0] * number
    for _ in range(40):
        moves = []
        for i in range(number):
            to = chance.choice(edges[at[i]])
            if to == BIG_NODES - 1:
                continue
            at[i] = to
            moves.append((f"big-{i}", f"to{to}", ""))
        store.move(moves)


def fill(store, instances):
    began = time.monotonic()

    def tell(what):
        print(f"  {time.monotonic() - began:4.0f} s: {what}", flush=True)

    source, edges = big()
    store.define("---\n".join([*(chain(f"work-{i:02d}") for i in range(MACHINES)), TURN.replace("NAME", "turn"),
                               TURN.replace("NAME", "long"), source, PLANS]))
    groups = [{"hosts": [g * GROUP_STEPS + i for i in range(GROUP_STEPS)]} for g in range(GROUPS)]
    store.start(iter([v1.StartRequest(machine="fleet", id="fleet", params=json.dumps({"groups": groups})),
                      v1.StartRequest(machine="flat", id="flat", params=json.dumps(
                          {"hosts": list(range(GROUPS * GROUP_STEPS))})),
                      v1.StartRequest(machine="long", id="long")]))
    store.move(itertools.islice(itertools.cycle([("long", "on", "")]), RECORDS))
    tell("plans of 100,000 steps, and a history of 100,000 records")
    plans = max(20, instances // 2_000)
    store.start(chained(i) for i in range(instances))
    tell(f"{instances} instances are started")
    store.move(moves_of(instances))
    tell("some of them have moved on, some have stopped")
    store.bulk("label.state:paused", view.StartBulkRequest.PAUSE)
    tell("some of them are paused")
    store.start(v1.StartRequest(machine="build", id=f"build-{i}", params=json.dumps({"what": f"p{i}"}))
                for i in range(plans))
    store.work_on_plans(2 * plans)
    spread(store, 1_000, edges)
    store.start(v1.StartRequest(machine="turn", id=f"turn-{i}") for i in range(1_000))
    tell("plans, and what the load moves")


# Load -----------------------------------------------------------------------------------------


def load(store, rate):
    """Ten times a second, what was claimed the last time is reported; it goes round and round."""
    ends = {f"to{BIG_NODES - 1}", "end"}
    _, edges = big()
    hands = {"turn": [], "big": []}
    batch = rate // 10 // len(hands)
    due = time.monotonic()
    while True:
        for machine, tasks in hands.items():
            reports = []
            for task in tasks:
                ways = ([f"to{to}" for to in edges[int(task.node[1:])]] if machine == "big" else ["on"])
                ways = [way for way in ways if way not in ends] or ways
                reports.append(v1.TransitionRequest(instance=task.instance, claim=task.claim,
                                                    transition=random.choice(ways)))
            reply = store.runner.Report(v1.ReportRequest(
                transitions=reports,
                next=v1.ReadyRequest(machine=machine, max_tasks=batch, worker=f"load-{machine}")))
            hands[machine] = reply.tasks
        due += 0.1
        time.sleep(max(0, due - time.monotonic()))


def main():
    options = argparse.ArgumentParser(description=__doc__,
                                      formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("what", choices=["fill", "load"])
    options.add_argument("address")
    options.add_argument("--instances", type=int, default=1_000_000)
    options.add_argument("--rate", type=int, default=100)
    given = options.parse_args()
    store = Store(given.address)
    if given.what == "fill":
        fill(store, given.instances)
    else:
        load(store, given.rate)


if __name__ == "__main__":
    main()
