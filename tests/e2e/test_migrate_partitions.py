"""dsrv migrate from one partition to several: what was in one is in its parts, and goes on."""
import subprocess

import grpc

from stubs import agent as ag
from stubs import schedule, v1
from support import CALL, DSRV, JOB, eventually, kind, refused, retention_flags, state
from test_agents import SOURCE, Agent, Calls
from test_groups import Groups, Order
from test_migrate import migrate, postgres, run  # noqa: F401: a fixture
from test_namespaces import Spaces
from test_triggers import Triggers, outcome

MOST = 30.0  # seconds for all that follows from the move
PARTITIONS = 4
# Moves by what comes from outside.
DOOR = """
id: door
nodes:
  shut: {start: true, transitions: {open: ajar, break: broken}}
  ajar: {transitions: {shut: shut, away: gone}}
  gone: {final: true}
  broken: {final: true, result: error}
"""
LIMITED = """
id: limited
limit: {key: places, max: 3, on_conflict: wait}
nodes:
  work: {start: true, transitions: {ok: done}}
  done: {final: true}
"""
SLOW = """
id: slow
nodes:
  work: {start: true, queue: slow, transitions: {ok: done}}
  done: {final: true}
---
id: few
nodes:
  work: {start: true, transitions: {ok: done}}
  done: {final: true}
"""
HOLDING = """
plan: holding
flow: [{step: a, action: weigh, limit: {key: scales, max: 2}}]
"""
FAMILY = """
plan: child
params: {type: object, properties: {n: {type: integer}}}
flow: [{step: c, action: c, input: {n: "${params.n}"}}]
---
plan: family
flow:
  sequence:
    - {step: s, spawn: {plan: child, for_each: "${params.l}", as: e, input: {n: "${e}"}}}
    - {step: z, action: z, input: {all: "${s.output}"}}
"""
LIMITS = """
limit: doors
on: {machine: door}
max: 60
---
limit: few
on: {machine: few}
max: 5
---
limit: slow
on: {queue: slow}
max: 4
---
limit: weighing
on: {action: weigh}
max: 3
"""
TRIGGERS = """
trigger: after
on: {change: {kind: finished, machine: door}}
start: {machine: job, id: "j-${item.instance.id}"}
---
trigger: late
on: {change: {kind: finished, machine: door, labels: {even: "yes"}}}
start: {machine: job, id: "l-${item.instance.id}-${item.instance.params.n}"}
---
schedule: daily
cron: "0 0 * * *"
start: {machine: job}
---
schedule: alone
cron: "0 0 1 1 *"
overlap: skip
start: {machine: door}
"""


class Moving:
    """A store, and a space of it with something of all kinds."""

    def __init__(self, server):
        self.server = server
        self.space = space = server.space("moving")
        for source in (DOOR, LIMITED, SLOW, HOLDING, FAMILY, JOB, LIMITS):
            space.define(source)
        self.doors()
        self.limits()
        self.families()
        self.groups()
        space.define(TRIGGERS)  # what has finished before is none of their business
        Triggers(space).pause("late")
        for number in range(3, 12):
            space.transition(f"door-{number}", "away")
        eventually(lambda: {f"j-door-{n}" for n in range(3, 12)} <= names(space))
        assert run_now(space, "alone") == "STARTED"
        backfill = schedule.BackfillScheduleRequest(namespace="moving", name="daily", group="b",
                                                    max_running=3)
        backfill.from_time, backfill.to_time = "2026-03-01", "2026-03-12"
        server.schedules.BackfillSchedule(backfill, timeout=CALL)
        eventually(lambda: Groups(space).get("b").running == 3)

    def move(self, name, transition):
        """Once it has begun: limits may be asked in another partition."""
        eventually(lambda: state(self.space.get(name)) == "RUNNING")
        self.space.transition(name, transition)

    def take(self, count, **more):
        """So many tasks: a poll of several partitions may give fewer at first."""
        tasks = []
        while len(tasks) < count:
            tasks += self.space.ready(max_tasks=count - len(tasks), wait=MOST, **more)
        return tasks

    def doors(self):
        space = self.space
        for number in range(24):
            space.start("door", f"door-{number}", params={"n": number},
                        labels={"even": "yes" if number % 2 == 0 else "no"}, priority=number % 3)
            self.move(f"door-{number}", "open")
        for number in range(20, 24):
            space.transition(f"door-{number}", "away")
        for number in range(12):
            space.start("door", f"follower-{number}",
                        after=[v1.After(instance=f"door-{number % 3}")])

    def limits(self):
        space = self.space
        self.limited = [space.start("limited", f"limited-{number}") for number in range(12)]
        self.few = [space.start("few", f"few-{number}") for number in range(10)]
        self.slow = [space.start("slow", f"slow-{number}") for number in range(12)]
        self.in_queue = self.take(4, queue="slow")
        assert not space.ready(queue="slow", max_tasks=8)
        self.jobs = space.start_many("job", 30)
        self.claims = self.take(5, machine="job", node="work")
        for task in self.take(6, machine="job", node="work"):
            space.report(task, "ok")
        for number in range(6):
            space.plan("holding", f"holding-{number}")
        self.held = self.take(2, action="weigh")
        assert not space.ready(action="weigh", max_tasks=8)

    def families(self):
        space = self.space
        for number in range(4):
            space.plan("family", f"family-{number}", params={"l": [1, 2, 3]})
        tasks = self.take(12, action="c")
        self.children = tasks[6:]
        for task in tasks[:6]:
            space.report(task, output={"weight": 3})

    def groups(self):
        space = self.space
        groups = Groups(space)
        for number in range(16):
            space.start("door", f"member-{number}", group="g")
        for number in range(5):
            self.move(f"member-{number}", "break" if number == 0 else "open")
        space.transition("member-1", "away")
        groups.set(stop_on_fail=2)
        for number in range(8):
            space.start("door", f"held-{number}", group="closed")
        groups.order(Order.PAUSE, name="closed")
        space.start("door", "held-9", group="closed")


def run_now(space, name):
    """What becomes of a schedule's run by hand."""
    try:
        ran = space.server.schedules.RunSchedule(schedule.RunScheduleRequest(
            namespace=space.name, name=name), timeout=CALL)
    except grpc.RpcError as error:
        return error.details()
    return outcome(ran)


def names(space):
    return {one.id for one in space.instances(page_size=1000).instances}


def plain(message):
    """Without what is another one in a store of several partitions."""
    copy = type(message)()
    copy.CopyFrom(message)
    copy.ClearField("partition")
    if isinstance(copy, v1.Change):
        copy.ClearField("seq")
    if isinstance(copy, v1.Instance):  # home alone knows how many may hold a limit, and who does
        for waits in (copy.waits_for, *(token.waits_for for token in copy.tokens)):
            for wait in waits:
                for name in ("max", "held", "holders", "ahead"):
                    wait.ClearField(name)
        for token in copy.tokens:
            token.ClearField("why")
    return copy


def instances(space, **more):
    """All of a list in its order, page by page."""
    found, token = [], ""
    while True:
        page = space.instances(page_size=17, page_token=token, **more)
        found += [plain(one) for one in page.instances]
        token = page.next_page_token
        if not token:
            return found


def picture(space):
    """What a client sees of all that there is."""
    seen = {f"list {more}": instances(space, **more) for more in (
        {}, {"machine": "door"}, {"labels": {"even": "yes"}}, {"parent": "family-1"},
        {"group": "g"}, {"cause": "trigger:after"})}
    for one in seen["list {}"]:
        seen[f"get {one.id}"] = plain(space.get(one.id, with_nodes=True))
        seen[f"history {one.id}"] = [plain(change) for change in space.history(one.id)]
        told, _ = space.changes("0", instance=one.id)
        seen[f"changes of {one.id}"] = [plain(change) for change in told]
    seen["by started"] = space.found(order_by="started")
    # Claims are written late: over several partitions it is the times that count.
    seen["by changed"] = sorted(space.found(order_by="changed"))
    seen["stopped"] = space.found("state = stopped")
    changes, _ = space.changes("0")
    seen["changes"] = sorted((plain(one) for one in changes), key=lambda one: (
        one.time.seconds, one.time.nanos, one.kind, one.instance))
    for machine in space.machines().machines:
        seen[f"machine {machine.id}"] = space.machine(machine.id)
    for group in Groups(space).list().groups:
        seen[f"group {group.name}"] = group
    for key in ("places", "scales", "machine:door", "machine:few", "queue:slow", "action:weigh",
                "group:b", "schedule:alone"):
        limit = space.server.schedules.GetLimit(
            schedule.GetLimitRequest(namespace="moving", key=key), timeout=CALL)
        seen[f"limit {key}"] = (limit.held, limit.max)
    seen["occurrences"] = [(one.id, one.outcome, one.instance)
                           for one in Triggers(space).history("after")]
    return seen


def served(new_server, postgres, schema, *flags):  # noqa: F811
    server = new_server("--store", postgres.url(), "--store-schema", schema, *flags, data=None)
    server.data = None
    server.start()
    eventually(lambda: server.space("moving").instances(page_size=1) is not None, MOST)
    return server


def check_same(before, after):
    for what, was in before.items():
        now = after[what]
        if isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
            pairs = [pair for pair in zip(was, now) if pair[0] != pair[1]]
            was, now = pairs[0] if pairs else ([], [])
        assert now == was, f"{what}: {was}\nhas become {now}"
    assert after.keys() == before.keys()


def at_most(space, ids, most):
    running = [one for one in ids if state(space.get(one)) == "RUNNING"]
    assert len(running) <= most, running
    return running


def test_a_store_becomes_one_of_several_partitions_and_all_goes_on(new_server, tmp_path, postgres):  # noqa: F811
    server = new_server(data=tmp_path / "source").start()
    moving = Moving(server)
    before = picture(moving.space)
    cursor = moving.space.cursor()
    assert server.stop() == 0

    there = migrate(server.data, postgres.url(), "--to-schema", "parts", "--partitions",
                    str(PARTITIONS))
    assert there.returncode == 0, there.stderr
    assert f"in {PARTITIONS} partitions" in there.stdout and "compared" in there.stdout
    refusal = run("--data", server.data, "--addr", "127.0.0.1:0")
    assert refusal.returncode == 1 and "has moved to" in refusal.stderr, refusal.stderr

    moved = served(new_server, postgres, "parts")
    space = moving.space = moved.space("moving")
    lives = {one.partition for one in space.instances(page_size=1000).instances}
    assert lives == set(range(PARTITIONS))
    check_same(before, picture(space))
    with refused("OUT_OF_RANGE", "CURSOR_EXPIRED"):
        space.changes(after=cursor)

    goes_on(moving)
    # Nothing of it was for the process that took the store over alone.
    assert moved.stop() == 0
    after = picture(served(new_server, postgres, "parts").space("moving"))
    assert after["list {}"] and {one.id for one in before["list {}"]} <= {
        one.id for one in after["list {}"]}


def goes_on(moving):
    """What was open when the store moved is done."""
    space = moving.space
    for task in moving.claims + moving.children + moving.held:  # claims of before
        space.report(task, **({"output": {"weight": 4}} if task in moving.children else {}))
    # Limits hold, and everybody has its turn.
    for ids, most in ((moving.limited, 3), (moving.few, 5)):
        left = set(ids)
        while left:
            now = eventually(lambda: at_most(space, left, most), MOST)
            space.transition(now[0], "ok")
            left.remove(now[0])
    assert not space.ready(queue="slow", max_tasks=12)
    for done in range(12):
        space.report(moving.in_queue.pop())
        new = space.ready(queue="slow", wait=MOST, max_tasks=12) if done < 8 else []
        moving.in_queue += new
        assert len(moving.in_queue) <= 4, moving.in_queue
    assert all(state(space.get(one)) == "STOPPED" for one in moving.slow)
    for _ in range(4):
        tasks = eventually(lambda: space.ready(action="weigh", wait=1.0, max_tasks=10), MOST)
        for task in tasks:
            space.report(task)
        if all(state(space.get(f"holding-{n}")) == "STOPPED" for n in range(6)):
            break
    # Plans go on when their children have ended.
    for number in range(4):
        only_task = space.ready(action="z", wait=MOST)
        space.report(only_task[0])
    eventually(lambda: all(state(space.get(f"family-{n}")) == "STOPPED" for n in range(4)), MOST)
    # Followers begin, once.
    for number in range(3):
        space.transition(f"door-{number}", "away")
    for number in range(12):
        name = f"follower-{number}"
        eventually(lambda: state(space.get(name)) == "RUNNING", MOST)
        assert sum(kind(change) == "STARTED" for change in space.history(name)) == 1
    # Triggers hear of changes of any partition, once.
    eventually(lambda: {f"j-door-{n}" for n in range(12)} <= names(space), MOST)
    Triggers(space).pause("late", False)
    late = {f"l-door-{n}-{n}" for n in range(0, 12, 2)}
    eventually(lambda: {one for one in names(space) if one.startswith("l-")} == late, MOST)
    # One that goes on elsewhere keeps its schedule from starting another one.
    ran = run_now(space, "alone")
    assert ran == "STARTED" or "has no room: max is 1" in ran, ran
    alone = [one.id for one in space.instances(cause="schedule:alone").instances]
    eventually(lambda: sorted(state(space.get(one)) for one in alone) in (
        ["RUNNING"], ["RUNNING", "STOPPED"]), MOST)
    # A backfill goes on, so many at once.
    groups = Groups(space)
    for done in range(1, 13):
        eventually(lambda: groups.get("b").running == min(3, 13 - done), MOST)
        one = at_most(space, [one.id for one in space.instances(group="b").instances], 3)[0]
        space.transition(one, "ok")
        eventually(lambda: groups.get("b").success == done, MOST)
    # Groups count, and hold back.
    assert state(space.get("held-9")) == "SCHEDULED"
    groups.order(Order.RESUME, name="closed")
    eventually(lambda: state(space.get("held-9")) == "RUNNING", MOST)
    space.transition("member-2", "away")
    space.transition("member-6", "break")
    eventually(lambda: groups.get().paused and groups.get().error == 2, MOST)
    eventually(lambda: groups.get().success == 2, MOST)


def test_a_copy_into_partitions_that_was_killed_goes_on(new_server, tmp_path, postgres):  # noqa: F811
    server = new_server(data=tmp_path / "source").start()
    space = server.space("many")
    space.define(JOB)
    ids = space.start_many("job", 15_000)
    assert server.stop() == 0
    words = [str(DSRV), "migrate", "--from", str(server.data), "--to", postgres.url(),
             "--to-schema", "killed_parts", "--partitions", "8"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    begun = ("select count(*) from pg_tables where schemaname = 'killed_parts' and "
             "tablename = 'p0007'")
    eventually(lambda: postgres.sql(begun) == "1", CALL)
    progress = "select count(*) from killed_parts.p0000 where substr(k, 1, 1) = '\\x77'"
    eventually(lambda: process.poll() is not None or postgres.sql(progress) == "1", MOST)
    process.kill()
    process.wait(CALL)
    assert process.returncode != 0, "it was done before it could be killed"
    halfway = run("--store", postgres.url(), "--store-schema", "killed_parts", "--addr",
                  "127.0.0.1:0")
    assert halfway.returncode == 1, halfway.stderr
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "going on where it was interrupted" in done.stderr
    assert "15000 live and 0 stopped instances, compared" in done.stdout
    assert postgres.sql(progress) == "0"
    moved = new_server("--store", postgres.url(), "--store-schema", "killed_parts", data=None)
    moved.data = None
    space = moved.start().space("many")
    eventually(lambda: space.machine("job").stats.running == 15_000, MOST)
    for one in (ids[0], ids[7_777], ids[-1]):
        assert state(space.get(one)) == "RUNNING"
        space.transition(one, "ok")


def test_a_store_that_was_killed_moves_with_what_it_has_counted(new_server, tmp_path, postgres):  # noqa: F811
    server = new_server(data=tmp_path / "source").start()
    space = server.space("moving")
    space.define(DOOR)
    for number in range(30):
        space.start("door", f"door-{number}")
        space.transition(f"door-{number}", "open")
    for number in range(10):
        space.transition(f"door-{number}", "away")
    before = space.machine("door")
    assert before.stats.stopped == 10
    server.kill()  # its counters were not written yet
    there = migrate(server.data, postgres.url(), "--to-schema", "lost", "--partitions", "16")
    assert there.returncode == 0, there.stderr
    space = served(new_server, postgres, "lost").space("moving")
    eventually(lambda: space.machine("door") == before, MOST)
    # What is counted at home may have been removed elsewhere.
    for number in range(10, 30):
        space.transition(f"door-{number}", "away")
    assert space.machine("door").stats.stopped == 30


def test_what_has_moved_is_removed_when_its_time_is_up(new_server, tmp_path, postgres):  # noqa: F811
    kept = retention_flags("10s")
    server = new_server(*kept, data=tmp_path / "source").start()
    space = server.space("moving")
    space.define(DOOR)
    for number in range(40):
        space.start("door", f"door-{number}", group="g")
        space.transition(f"door-{number}", "open")
    for number in range(20):
        space.transition(f"door-{number}", "away")
    walks = {f"door-{number}": space.walk(f"door-{number}") for number in range(20, 40)}
    assert server.stop() == 0
    there = migrate(server.data, postgres.url(), "--to-schema", "short", "--partitions", "4")
    assert there.returncode == 0, there.stderr
    past = " + ".join(f"(select count(*) from short.p000{id} where substr(k, 1, 1) = '\\x78')"
                      for id in range(4))
    assert postgres.sql(f"select {past}") == "3"
    space = served(new_server, postgres, "short", *kept).space("moving")
    eventually(lambda: names(space) == walks.keys(), MOST)
    eventually(lambda: postgres.sql(f"select {past}") == "0", MOST)
    assert {name: space.walk(name) for name in walks} == walks
    eventually(lambda: space.machine("door").stats.stopped == 0, MOST)
    eventually(lambda: Groups(space).get().total == 20, MOST)


def test_an_agent_goes_on_with_what_it_has_in_hand(new_server, tmp_path, postgres):  # noqa: F811
    server = new_server(data=tmp_path / "source").start()
    space = server.space("moving")
    space.define(SOURCE)
    agent = Agent(space, "h1", slots=12)
    for number in range(12):
        space.start("job", f"i-{number}")
    tasks = [agent.task() for _ in range(12)]
    for task in tasks:
        agent.begin(task)
    for task in tasks[:2]:
        agent.report(task)
    for task in tasks[2:6]:
        space.cancel(task.instance, mode="KILL")
        agent.await_order("killed_claims", task)
    assert server.stop() == 0
    there = migrate(server.data, postgres.url(), "--to-schema", "agents", "--partitions", "4")
    assert there.returncode == 0, there.stderr

    space = served(new_server, postgres, "agents").space("moving")
    calls = Calls(space)
    eventually(lambda: len(calls.operations()) == 10, MOST)
    assert calls.get("h1").done == 2
    for task in tasks[2:6]:
        assert space.get(task.instance).leftovers == 1
    agent = Agent(space, "h1", slots=12)
    agent.welcome()
    for task in tasks[2:6]:
        agent.stopped(task, ag.StopReport.ENDED)
    for task in tasks[6:]:
        assert agent.report(task).HasField("accepted")
    eventually(lambda: not calls.operations(), MOST)
    eventually(lambda: calls.get("h1").done == 8, MOST)
    assert not any(one.leftovers for one in space.instances().instances)
    agent.cancel()


def test_what_cannot_be_spread_is_refused_before_anything_is_marked(new_server, tmp_path, postgres):  # noqa: F811
    server = new_server(data=tmp_path / "source").start()
    space = server.space("leaving")
    space.define(JOB)
    space.start("job", "one")
    space.take("job", "work")  # the deletion waits for what is in hand
    Spaces(server).delete("leaving", drain=3600)
    assert server.stop() == 0
    parts = ("--partitions", "4")
    leaving = migrate(server.data, postgres.url(), "--to-schema", "leaving", *parts)
    assert leaving.returncode == 1, leaving.stdout
    assert "namespace 'leaving' is being deleted" in leaving.stderr, leaving.stderr
    assert "wait until it is gone" in leaving.stderr
    folder = migrate(server.data, tmp_path / "there", *parts)
    assert folder.returncode == 2 and "has one partition" in folder.stderr, folder.stderr
    server.start()  # it has no mark
