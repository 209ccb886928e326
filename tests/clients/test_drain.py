"""1,000 instances of machines/, drained while workers and server are killed (kill -9) on the way.

At the end no instance is lost, each visit was accepted once, what runs at most once ran at most
once, and every history is a path through its machine.
"""
import collections
import os
import random
import signal
import time

import pytest
from machines import theirs
from support import eventually, kind, state, v1
from workers import Worker

SIZES = {"crawler": 400, "order": 300, "notification": 200, "checksum": 100}
PARAMS = {"crawler": {"url": "http://127.0.0.1/"},
          "order": {"item": "apple", "quantity": 3, "price": 1.5},
          "notification": {"to": "a@example.org", "subject": "s", "text": "t"},
          "checksum": {"folder": "/", "file": "f", "parts": "/"}}


class Drain:
    def __init__(self, language, server, folder, rounds):
        self.server, self.source = server, random.Random(rounds)
        self.sizes = {machine: size * max(1, rounds // 10) for machine, size in SIZES.items()}
        self.space = server.space("drain")
        for source in theirs():
            self.space.define(source)
        for machine, size in self.sizes.items():
            self.space.start_many(machine, size, params=PARAMS[machine])
        folders = [folder / str(number) for number in range(2)]
        for one in folders:
            one.mkdir()
        self.workers = [Worker(language, server.address, "drain", one).start() for one in folders]

    def kill_some(self, rounds):
        for number in range(rounds):
            time.sleep(self.source.uniform(0.4, 1.2))
            if number % 3 == 2:
                self.server.kill()
                time.sleep(self.source.uniform(0, 0.3))
                self.server.start()
            else:
                worker = self.source.choice(self.workers)
                worker.kill()
                worker.start()

    def all(self):
        found, token = [], ""
        while True:
            page = self.space.instances(page_size=1000, page_token=token)
            found += page.instances
            token = page.next_page_token
            if not token:
                return found

    def undone(self):
        return [instance for instance in self.all() if state(instance) != "STOPPED"]

    def in_doubt(self, instance):
        """Begun by a worker that was killed, at most once: an operator has to look at it."""
        return instance.machine == "notification" and [t.state for t in instance.tokens] == [
            v1.Token.CLAIMED] and instance.tokens[0].attempt == 1

    def notes(self):
        return [note for worker in self.workers for note in worker.notes if note[0] == "begin"]


def audit_history(drain, instance, edges):
    changes = [c for c in drain.space.history(instance.id)
               if kind(c) in ("TRANSITIONED", "STARTED", "TIMED_OUT", "SKIPPED")]
    moves = [c for c in changes if kind(c) == "TRANSITIONED"]
    # Of an entry that is diverted, both records have the visit.
    visits = [c.visit for c in moves if "dfsmr." not in c.transition + c.prev_node]
    assert len(set(visits)) == len(visits), \
        "\n".join(f"{c.seq} visit {c.visit} {c.prev_node} {c.transition} {c.node}" for c in moves)
    if instance.machine == "checksum":  # a plan: its steps are not a path
        return
    at = changes[0].node
    for change in moves:
        assert change.prev_node in (at, "dfsmr.timeout"), f"{instance.id}: {change}"
        leads = edges.get(change.prev_node, {}).get(change.transition, ())
        assert change.node in leads or "dfsmr." in change.prev_node + change.node, \
            f"{instance.id}: {change}"
        at = change.node


@pytest.mark.parametrize("rounds", [
    pytest.param(6, id="short"),
    pytest.param(int(os.environ.get("ROUNDS", 60)), id="long", marks=pytest.mark.slow)])
def test_nothing_is_lost_and_nothing_done_twice(language, new_server, tmp_path, rounds):
    drain = Drain(language, new_server(), tmp_path, rounds)
    drain.kill_some(rounds)
    assert eventually(lambda: all(map(drain.in_doubt, drain.undone())), 90), \
        [str(instance) for instance in drain.undone()[:3]] + [w.said[-2000:] for w in drain.workers]
    everything = drain.all()
    assert collections.Counter(i.machine for i in everything) == drain.sizes
    for worker in drain.workers:
        # One that has just been started may not listen for signals yet.
        ended = (0,) if worker.age > 5 else (0, -signal.SIGTERM)
        assert worker.process.poll() is None and worker.stop() in ended, worker.said
        assert "Traceback" not in worker.said and "panic" not in worker.said

    runs = collections.Counter((instance, visit) for _, instance, visit, _ in drain.notes())
    mails = {i.id for i in everything if i.machine == "notification"}
    assert all(runs[key] == 1 for key in runs if key[0] in mails), "at most once ran twice"
    edges = {}
    for machine in ("crawler", "order", "notification"):
        nodes = drain.space.machine(machine).nodes
        edges[machine] = {n.id: {e.transition: list(e.targets) for e in n.transitions}
                          for n in nodes}
    for instance in random.Random(1).sample(everything, 400):
        audit_history(drain, instance, edges.get(instance.machine))
    doubtful = len(drain.undone())
    print(f"{len(runs)} visits run, {sum(runs.values())} attempts, {doubtful} in doubt")
    assert doubtful <= 32 * rounds
