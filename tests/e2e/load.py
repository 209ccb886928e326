"""Load that keeps every reply it got, and the audit of what must hold afterwards."""
import collections
import random
import threading

import grpc

from support import Watch, kind, state

ROUTE = """\
id: route
nodes:
  a: {start: true, timeout_strategy: fixed, timeout: 0.5, transitions: {ok: b, again: a}}
  b: {timeout: 0.0, transitions: {ok: c, back: a}}
  c: {timeout_strategy: fixed, timeout: 30.0, transitions: {ok: done, back: a, error: failed}}
  done: {final: true}
  failed: {final: true, result: error}
"""
EDGES = {"a": {"ok": "b", "again": "a"}, "b": {"ok": "c", "back": "a"},
         "c": {"ok": "done", "back": "a", "error": "failed"}, "done": {}, "failed": {}}


class Load:
    """Threads that start, claim and report, and keep every reply that they got."""

    def __init__(self, server, seed):
        self.server = server
        self.seed = seed
        self.lock = threading.Lock()
        self.stop = threading.Event()
        self.started = set()      # ids
        self.accepted = []        # (instance, visit reported, prev_node, transition, node, visit)
        self.tasks = []           # (instance, node, visit, attempt)
        self.surprises = []       # replies that no crash explains
        self.threads = []

    def run(self, work, number):
        source = random.Random(f"{self.seed} {number}")
        space = self.server.space("")
        while not self.stop.is_set():
            try:
                work(space, source)
            except grpc.RpcError as error:
                if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
                    if not self.may_be(error):
                        with self.lock:
                            self.surprises.append(error)
                self.stop.wait(0.01)
            except ValueError:  # the channel was closed under the call
                self.stop.wait(0.01)
            except AssertionError as error:
                with self.lock:
                    self.surprises.append(error)
                return

    @staticmethod
    def may_be(error):
        """A late report of a visit that timed out and was won by another."""
        trailers = dict((entry.key, entry.value) for entry in error.trailing_metadata() or ())
        return trailers.get("dfsmr-reason") == "STALE_CLAIM"

    def start_some(self, space, source):
        if source.random() < 0.3:
            ids = space.start_many("route", source.randint(1, 20))
        else:
            ids = [space.start("route")]
        with self.lock:
            self.started.update(ids)
        self.stop.wait(0.005)

    def work_unary(self, space, source):
        for task in space.ready("route", max_tasks=source.randint(1, 5), wait=0.2):
            self.note_task(task)
            if task.node == "a" and source.random() < 0.02:
                continue  # a worker that never reports
            transition = source.choice(list(EDGES[task.node]))
            self.note_accepted(task, transition, space.report(task, transition))

    def work_batched(self, space, source):
        reports, told = [], []
        while not self.stop.is_set():
            reply = space.report_all(reports, machine="route", max_tasks=8, wait=0.2)
            for (task, transition), item in zip(told, reply.results):
                if item.HasField("accepted"):
                    self.note_accepted(task, transition, item.accepted)
                elif item.error.reason != "STALE_CLAIM":
                    with self.lock:
                        self.surprises.append(item.error)
            told = [(task, source.choice(list(EDGES[task.node]))) for task in reply.tasks]
            for task in reply.tasks:
                self.note_task(task)
            reports = [space.report_request(task, transition) for task, transition in told]

    def note_task(self, task):
        with self.lock:
            self.tasks.append((task.instance, task.node, task.visit, task.attempt))

    def note_accepted(self, task, transition, reply):
        with self.lock:
            self.accepted.append((task.instance, task.visit, reply.prev_node, transition,
                                  reply.node, reply.visit))

    def __enter__(self):
        works = [self.start_some, self.work_unary, self.work_unary, self.work_batched]
        self.threads = [threading.Thread(target=self.run, args=(work, number), daemon=True)
                        for number, work in enumerate(works)]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join(30)
            assert not thread.is_alive()


def audit(space, load, watched):
    """What must hold after any number of crashes."""
    changes, _ = space.changes("0")
    assert [c.seq for c in changes] == list(range(1, len(changes) + 1)), "gaps in the feed"
    for seen in watched:
        for change in seen:
            assert changes[change.seq - 1] == change, "a change that was seen has changed"

    steps = collections.defaultdict(list)
    given = collections.Counter()
    started, finished = set(), {}
    for change in changes:
        if kind(change) == "STARTED":
            assert change.instance not in started
            started.add(change.instance)
        elif kind(change) == "TRANSITIONED":
            steps[change.instance].append(change)
        elif kind(change) == "CLAIMED":
            given[change.instance, change.visit, change.attempt] += 1
        elif kind(change) == "FINISHED":
            assert change.instance not in finished
            finished[change.instance] = change.node
    assert load.started <= started, "an acknowledged start is gone"
    assert set(given.values()) <= {1}, "the same attempt twice"

    for id in started:
        node, visit = "a", 1
        for step in steps[id]:
            assert step.prev_node == node and EDGES[node][step.transition] == step.node, \
                f"{id}: {node} -[{step.transition}]-> {step.node} is no path of its machine"
            assert step.visit > visit, "a visit number used twice"
            node, visit = step.node, step.visit
        assert (id in finished) == (not EDGES[node])
        if id in finished:
            assert finished[id] == node

    kept = collections.Counter(
        (id, step.prev_node, step.transition, step.node, step.visit)
        for id in steps for step in steps[id])
    for id, reported, prev_node, transition, node, visit in load.accepted:
        assert kept[id, prev_node, transition, node, visit] == 1, \
            f"an acknowledged transition is not in the history once: {id} {visit}"
        assert visit > reported
    won = collections.Counter((id, reported) for id, reported, *_ in load.accepted)
    assert set(won.values()) <= {1}, "a visit accepted twice"
    order = collections.defaultdict(list)
    for id, _, _, _, _, visit in load.accepted:
        order[id].append(visit)
    for id, visits in order.items():
        assert sorted(visits) == sorted(set(visits))

    handed = collections.Counter(
        (instance, visit) for instance, node, visit, _ in load.tasks if node == "b")
    assert set(handed.values()) <= {1}, "an at-most-once visit was handed out twice"
    for id in list(started)[::17]:
        own = [c for c in space.history(id)]
        assert [c for c in own if kind(c) == "TRANSITIONED"] == steps[id]
        token = space.token(id)
        assert token.node == (steps[id][-1].node if steps[id] else "a")
        assert (state(space.get(id)) == "STOPPED") == (id in finished)
    return changes


def watch_from(space, after):
    return Watch(space.runner.Changes(space.changes_request(after, follow=True)))
