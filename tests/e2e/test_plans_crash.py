"""Plans under kill -9: nothing acknowledged is lost, and everything happened once."""
import collections
import itertools
import random
import threading

import grpc
import pytest

from load import watch_from
from stubs import v1
from support import (Refusal, eventually, from_json, input_of, kind, outputs, result, state,
                     step_state)

# Claims that a crash left behind time out after a second, and so do suspensions.
HASTY = "timeout_strategy: fixed\ntimeout: 1.0\n"
SOURCE = f"""\
action: plain
retry: {{limit: 20, delay: 10ms}}
{HASTY}---
action: both
phases: [run, finalize]
{HASTY}---
action: ask
{HASTY}---
action: kids
{HASTY}---
action: mail
{HASTY}---
plan: leaf
flow: [{{step: l, action: plain, input: {{n: "${{params.n}}"}}}}]
---
plan: main
hooks:
  - {{on: [running], action: mail, input: {{of: "${{instance.id}}", on: running}}}}
  - {{on: [stopped], action: mail, input: {{of: "${{instance.id}}", on: stopped}}}}
  - {{on: [success], action: mail, input: {{of: "${{instance.id}}", on: success}}}}
flow:
  sequence:
    - {{step: first, action: plain}}
    - concurrence:
        - {{step: ask, action: ask}}
        - {{step: kids, action: kids}}
        - {{step: spawned, spawn: {{plan: leaf, for_each: "${{params.l}}", as: e,
                                   input: {{n: "${{e}}"}}, concurrency: 2}}}}
        - sequence:
            - {{step: s1, action: both}}
            - {{step: s2, action: both, input: {{by: "${{s1.output.by}}"}}}}
    - {{step: last, action: plain,
       input: {{spawned: "${{spawned.output}}", by: "${{ask.output.by}}"}}}}
"""
STEPS = {"first", "ask", "kids", "s1", "s2", "last", "s1/finalize", "s2/finalize"}
SPAWNED, KIDS, EVENTS = 5, 3, 4
HOOKS = ("running", "stopped", "success")


class Crew:
    """Threads that start plans, send events, and work; each call is made until it is answered."""

    def __init__(self, server, seed, count):
        self.server = server
        self.seed = seed
        self.ids = [f"main-{seed}-{number}" for number in range(count)]
        self.serial = itertools.count(1)
        self.lock = threading.Lock()
        self.stop = threading.Event()
        self.accepted = {}        # (instance, node, visit) -> (transition, event, data, by, input)
        self.sent = collections.Counter()          # (instance, number) -> times
        self.acknowledged = set()                  # (instance, number)
        self.surprises = []
        self.threads = []

    def space(self):
        return self.server.space("")

    def until_answered(self, call):
        """What it returned, or its refusal; None when the crew is to stop."""
        while not self.stop.is_set():
            try:
                return call(self.space())
            except grpc.RpcError as error:
                refusal = Refusal(error)
                if refusal.code not in ("UNAVAILABLE", "CANCELLED"):
                    return refusal
            except (ValueError, AttributeError):
                pass  # the channel was closed under the call
            self.stop.wait(0.02)
        return None

    def start_plans(self, source):
        for id in self.ids:
            answer = self.until_answered(lambda space: space.start(
                "main", id, params={"l": list(range(SPAWNED))}))
            if isinstance(answer, Refusal):
                self.surprise(answer)
            self.stop.wait(source.uniform(0, 0.2))

    def send_events(self, source):
        """To each step `ask`, each event until it is acknowledged, in order."""
        for id in self.ids:
            for number in range(1, EVENTS + 1):
                while not self.stop.is_set() and not self.send_event(id, number):
                    self.stop.wait(source.uniform(0.01, 0.05))

    def send_event(self, id, number):
        answer = None

        def send(space):
            self.sent[id, number] += 1
            return space.event(id, "tell", "ask", {"n": number})

        answer = self.until_answered(send)
        if not isinstance(answer, Refusal):
            if answer is not None:
                self.acknowledged.add((id, number))
            return True
        if answer.reason in ("NO_SUCH_INSTANCE", "NO_SUCH_NODE"):  # not started yet, or planned
            self.sent[id, number] -= 1
            return False
        if answer.reason not in ("ILLEGAL_TRANSITION", "INSTANCE_STOPPED"):
            self.surprise(answer)
        self.sent[id, number] -= 1
        # Too early; or the step has ended, because an event that was not acknowledged had come.
        steps = self.until_answered(lambda space: space.steps(id))
        return isinstance(steps, dict) and bool(steps) and step_state(steps["ask"]) == "DONE"

    def work(self, source):
        while not self.stop.is_set():
            tasks = self.until_answered(lambda space: space.ready(
                max_tasks=source.randint(1, 4), wait=0.2))
            if isinstance(tasks, Refusal):
                self.surprise(tasks)
                continue
            for task in tasks or ():
                if source.random() > 0.02:  # else this worker dies, and never reports
                    self.report(task, source)

    def report(self, task, source):
        by = next(self.serial)
        data = from_json(task.event_data)
        transition, children = "ok", 0
        if task.action == "plain" and source.random() < 0.1:
            transition = "error"
        elif task.action == "ask" and (task.event, data.get("n")) != ("tell", EVENTS):
            transition = "suspend"
        elif task.action == "kids" and task.event != "children":
            transition, children = "suspend", KIDS if task.event == "" else 0

        def call(space):
            request = space.report_request(task, transition, output={"by": by})
            request.children.extend(space.start_request("leaf", params={"n": n})
                                    for n in range(children))
            request.children_concurrency = 2 if children else 0
            return space.call("Transition", request)

        answer = self.until_answered(call)
        if isinstance(answer, Refusal):
            if answer.reason != "STALE_CLAIM":
                self.surprise(answer)
        elif answer is not None:
            key = (task.instance, task.node, task.visit)
            with self.lock:
                if key in self.accepted:
                    self.surprise(f"{key} was accepted twice")
                self.accepted[key] = (transition, task.event, data, by, input_of(task))

    def surprise(self, what):
        self.surprises.append(str(what))

    def __enter__(self):
        works = [self.start_plans, self.send_events, *[self.work] * 4]
        for number, work in enumerate(works):
            source = random.Random(f"{self.seed} {number}")
            thread = threading.Thread(target=self.guard, args=(work, source), daemon=True)
            self.threads.append(thread)
            thread.start()
        return self

    def guard(self, work, source):
        try:
            work(source)
        except Exception as error:  # a thread that ends quietly would look like a lost step
            self.surprise(f"{work.__name__}: {error!r}")

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join(30)
            assert not thread.is_alive()


def all_instances(space, **more):
    found, token = [], ""
    while True:
        page = space.instances(page_size=1000, page_token=token, **more)
        found += page.instances
        token = page.next_page_token
        if not token:
            return found


def ran_once(crew, id, steps):
    """Each of these steps has had one report that was ok; what each put out."""
    done = collections.defaultdict(list)
    for (instance, node, visit), (transition, _, _, by, _) in crew.accepted.items():
        if instance == id and transition == "ok":
            done[node].append((visit, by))
    assert {node: len(reports) for node, reports in done.items()} == dict.fromkeys(steps, 1), id
    return {node: by for node, [(_, by)] in done.items()}


def audit(space, crew, watched):
    changes, _ = space.changes("0")
    assert [change.seq for change in changes] == list(range(1, len(changes) + 1)), "gaps"
    for change in watched:
        assert changes[change.seq - 1] == change, "a change that was seen has changed"
    assert not crew.surprises, crew.surprises[:3]

    begun, ended = collections.Counter(), {}
    for change in changes:
        if kind(change) == "STARTED":
            begun[change.instance] += 1
        elif kind(change) == "FINISHED":
            assert change.instance not in ended, "finished twice"
            ended[change.instance] = change.seq
    assert set(begun.values()) == {1}

    for id in crew.ids:
        instance = space.get(id)
        assert (state(instance), result(instance)) == ("STOPPED", "SUCCESS"), instance.error
        assert instance.progress == 1
        put_out = ran_once(crew, id, STEPS)
        kept = outputs(instance)
        for node in STEPS:
            if "/" not in node:
                assert kept[node] == {"by": put_out[node]}, f"{id}: the output of {node}"
        wanted = {"total": SPAWNED, "success": SPAWNED, "failed": 0, "cancelled": 0}
        assert kept["spawned"] == wanted
        check_children(space, crew, id, begun, ended)
        check_events(crew, id)
        order = [change.prev_node for change in changes if change.instance == id
                 and kind(change) == "TRANSITIONED" and change.transition == "ok"]
        assert order.index("last") < order.index("s1/finalize") < order.index("s2/finalize")
        given = {node: value for (one, node, _), (how, _, _, _, value) in crew.accepted.items()
                 if one == id and how == "ok"}
        assert given["last"] == {"spawned": wanted, "by": put_out["ask"]}
        assert given["s2"] == {"by": put_out["s1"]}
    check_hooks(space, crew, ended)


def check_children(space, crew, id, begun, ended):
    children = {one.id: one for one in space.children(id)}
    for step, count in (("spawned", SPAWNED), ("kids", KIDS)):
        own = {one: from_json(child.params)["n"] for one, child in children.items()
               if one.startswith(f"{id}/{step}/")}
        assert sorted(own.values()) == list(range(count)), f"{id}/{step}"
        counters = space.step(id, step).children
        assert (counters.total, counters.started, counters.running, counters.success,
                counters.failed, counters.cancelled) == (count, count, 0, count, 0, 0)
    assert len(children) == SPAWNED + KIDS
    for one, child in children.items():
        assert (result(child), begun[one]) == ("SUCCESS", 1) and ended[one] < ended[id]
        ran_once(crew, one, {"l"})
    woken = [visit for (instance, node, visit), (_, event, *_) in crew.accepted.items()
             if (instance, node, event) == (id, "kids", "children")]
    assert len(woken) == 1, f"{id}: the parent went on {len(woken)} times"
    assert_concurrency(space, id)


def assert_concurrency(space, id):
    live = {"spawned": set(), "kids": set()}
    for change in space.changes("0")[0]:
        if change.instance.startswith(id + "/"):
            step = change.instance.removeprefix(id + "/").split("/")[0]
            if kind(change) == "STARTED":
                live[step].add(change.instance)
            elif kind(change) == "FINISHED":
                live[step].discard(change.instance)
            assert len(live[step]) <= 2


def check_events(crew, id):
    """All events that were acknowledged were handed over, in order, and none that nobody sent."""
    given = [data["n"] for (instance, node, visit), (_, event, data, *_)
             in sorted(crew.accepted.items(), key=lambda item: item[0][2])
             if (instance, node, event) == (id, "ask", "tell")]
    assert given == sorted(given), f"{id}: out of order: {given}"
    assert set(given) == set(range(1, EVENTS + 1)), f"{id}: {given}"
    for number, times in collections.Counter(given).items():
        assert times <= crew.sent[id, number], f"{id}: event {number} came {times} times"


def check_hooks(space, crew, ended):
    mails = all_instances(space, machine="mail")
    rang = collections.Counter()
    for (instance, _, _), (transition, _, _, _, given) in crew.accepted.items():
        if transition == "ok" and "of" in given:
            rang[given["of"], given["on"]] += 1
            assert instance in ended
    assert rang == {(id, on): 1 for id in crew.ids for on in HOOKS}
    assert len(mails) == len(rang)
    assert {result(mail) for mail in mails} == {"SUCCESS"}


def crash_again_and_again(new_server, seed, plans, crashes, changes):
    server = new_server().start()
    space = server.space("")
    space.define(SOURCE)
    source = random.Random(seed)
    watched = []
    with Crew(server, seed, plans) as crew:
        for _ in range(crashes):
            watch = watch_from(space, "")
            goal = source.randint(*changes)
            watch.wait(lambda: len(watch.changes) >= goal, 5)
            server.kill()
            watch.await_end()
            watched += watch.changes
            server.start()

        def over():
            open_ = [i for i in all_instances(space) if state(i) != "STOPPED"]
            assert not crew.surprises, crew.surprises[:3]
            started = {one.id for one in space.instances(machine="main", page_size=1000).instances}
            assert not open_ and set(crew.ids) <= started, \
                [(i.id, state(i), i.error, [t.node for t in i.tokens]) for i in open_][:5]
            return True

        eventually(over, within=60)
    audit(space, crew, watched)
    server.restart()
    audit(space, crew, watched)


@pytest.mark.parametrize("seed", [1])
def test_plans_survive_kill_9(new_server, seed):
    crash_again_and_again(new_server, seed, plans=6, crashes=4, changes=(20, 120))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_a_cancel_that_was_acknowledged_survives_kill_9_and_reaches_every_child(new_server, seed):
    server = new_server().start()
    space = server.space("")
    space.define(f"""\
action: plain
{HASTY}---
plan: leaf
flow: [{{step: l, action: plain}}]
---
plan: main
flow: [{{step: s, spawn: {{plan: leaf, for_each: "${{params.l}}", as: e, input: {{n: "${{e}}"}}}}}}]
""")
    source = random.Random(seed)
    for round in range(8):
        id = space.plan("main", params={"l": list(range(300))})
        tasks = space.ready(max_tasks=source.randint(0, 20) + 1)
        space.cancel(id)
        server.kill()
        server.start()
        for task in tasks:
            try:
                space.report(task)
            except grpc.RpcError as error:
                assert Refusal(error).reason == "STALE_CLAIM"
        space.ends(id, "CANCELLED", within=20)
        eventually(lambda: {result(one) for one in space.children(id)}
                   <= {"CANCELLED"}, within=20)
        assert not space.instances(machine="leaf", state=v1.Instance.RUNNING).instances
        assert space.ready(max_tasks=10) == []


def test_start_of_a_plan_that_was_acknowledged_is_planned_after_a_crash(new_server):
    server = new_server().start()
    space = server.space("")
    space.define("plan: p\nflow:\n"
                 "  - concurrence: {for_each: '${params.l}', as: e, do: {step: s, action: x}}\n"
                 "  - {step: z, action: z, after: [s]}\n")
    ids = [space.start("p", params={"l": list(range(200))}) for _ in range(5)]
    server.kill()
    server.start()
    for id in ids:
        eventually(lambda: state(space.get(id)) == "RUNNING")
    tasks = [task for _ in range(5) for task in space.ready(max_tasks=200)]
    assert len(tasks) == 1000 and len({(task.instance, task.node) for task in tasks}) == 1000
    space.report_all([space.report_request(task) for task in tasks])
    assert {task.node for task in space.ready(max_tasks=10)} == {"z"}


def test_a_join_counts_right_across_crashes(new_server):
    server = new_server().start()
    space = server.space("")
    space.define("plan: p\nflow:\n  sequence:\n"
                 "    - concurrence: {for_each: '${params.l}', as: e, do: {step: s, action: x}}\n"
                 "    - {step: z, action: z}\n")
    id = space.plan("p", params={"l": list(range(12))})
    tasks = space.ready(max_tasks=20)
    for number, task in enumerate(tasks):
        assert space.ready(action="z") == []
        space.report(task)
        if number % 3 == 2:
            server.kill()
            server.start()
            assert space.report(task).repeated_report
    space.do("z")
    space.ends(id, "SUCCESS")


def test_a_large_plan_is_planned_and_entered_whatever_kills_the_server(new_server):
    """Killed while it is planned, and then while its steps become ready, a portion at a time."""
    steps = 30_000
    server = new_server().start()
    space = server.space("")
    space.define("plan: big\nflow: {for_each: '${params.n}', as: n, do: {step: s, action: a}}\n")
    begun = space.begin("big", "i", {"n": list(range(steps))}).instance
    assert state(begun) == "PLANNING"

    def ready():
        return sum(node.stats.ready for node in space.machine("big").nodes)

    seen = []
    for goal in (0, 1, steps // 4, steps // 2, steps):
        eventually(lambda: ready() >= goal, within=30)
        seen.append(ready())
        if goal == steps:
            break
        server.kill()
        server.start()
    assert seen == sorted(seen) and seen[-1] == steps
    assert state(space.get("i")) == "RUNNING"
    entered = [change.node for change in space.changes("0")[0]
               if kind(change) == "TRANSITIONED" and change.visit and change.node.startswith("s.")]
    assert len(entered) == len(set(entered)) == steps
