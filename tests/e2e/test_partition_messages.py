"""What follows in another partition from what happens in one: once, whoever is lost meanwhile."""
import collections
import threading
import time

import grpc

from cluster_servers import persist
from stubs import schedule, v1
from support import CALL, JOB, SOON, eventually, kind, result, state
from test_partitions import DOOR, PARTITIONS, fair, parted, shares  # noqa: F401: a fixture

MESSAGE = 20.0  # seconds within which one has come, whoever has to be replaced meanwhile


def name_in(space, prefix, partition):
    """The id of a door that is started in a partition, and there is one."""
    for number in range(1000):
        name = f"{prefix}-{number}"
        space.start("door", name)
        if space.get(name).partition == partition:
            return name
    raise AssertionError(f"no id lives in partition {partition}")


def after(*names, **more):
    return [v1.After(instance=name, **more) for name in names]


def begun(space, name):
    """How often it has begun: not yet where the message that starts it is still on its way."""
    try:
        return sum(kind(change) == "STARTED" for change in space.history(name))
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.NOT_FOUND, error
        return 0


def open_and_leave(space, name):
    """A door goes to its end."""
    for transition in ("open", "away"):
        persist(lambda: space.transition(name, transition), MESSAGE)


def test_one_begins_after_another_of_any_partition_has_stopped(parted):  # noqa: F811
    servers = parted(2)
    spaces = [one.space("default") for one in servers]
    spaces[0].define(DOOR)
    spaces[0].start("door", "first")
    for number in range(30):
        spaces[number % 2].start("door", f"door-{number}", after=after("first"))
        assert state(spaces[0].get(f"door-{number}")) == "SCHEDULED"
    assert {spaces[0].get(f"door-{n}").partition for n in range(30)} == set(range(PARTITIONS))
    open_and_leave(spaces[1], "first")
    stopped = time.monotonic()
    for number in range(30):
        eventually(lambda: state(spaces[0].get(f"door-{number}")) == "RUNNING")
        assert begun(spaces[1], f"door-{number}") == 1
    print(f"30 followers have begun after {time.monotonic() - stopped:.3f} s")
    # One that stopped before, and one that does not stop as wanted.
    spaces[0].start("door", "late", after=after("first", "door-0"))
    spaces[1].cancel("door-0", "FORCE")
    eventually(lambda: state(spaces[1].get("late")) == "STOPPED")
    assert result(spaces[0].get("late")) == "ERROR"


def elsewhere_than(space, other, params):
    """A door that lives in another partition than this instance."""
    here = space.get(other).partition
    for number in range(100):
        door = f"taken-{number}"
        space.start("door", door, params)
        if space.get(door).partition != here:
            return door
    raise AssertionError("all doors live beside it")


def test_what_is_started_with_a_report_begins_once_wherever_it_lives(parted):  # noqa: F811
    servers = parted(2)
    space = servers[0].space("default")
    space.define(JOB)
    space.define(DOOR)
    space.start("job", "job")
    task = space.take("job")
    taken = elsewhere_than(space, "job", {"other": True})
    starts = [space.start_request("door", f"new-{number}") for number in range(20)]
    starts.append(space.start_request("door", taken))
    again = space.report_request(task, starts=starts)
    for one in servers[0], servers[1]:
        reply = one.runner.Transition(again, timeout=CALL)
        assert [one.id for one in reply.started][:20] == [
            f"new-{number}" for number in range(20)]
    for number in range(20):
        eventually(lambda: begun(space, f"new-{number}") == 1)
    refusal = eventually(lambda: [change for change in space.history("job")
                                  if kind(change) == "START_REFUSED"])
    assert len(refusal) == 1 and taken in refusal[0].note


class Followers:
    """Starts instances that begin after others, in all partitions, and ends those before them."""

    def __init__(self, servers, count):
        self.servers = servers
        self.space = servers[0].space("default")
        self.count = count

    def start(self):
        for number in range(self.count):
            persist(lambda: self.space.start("door", f"first-{number}"), MESSAGE)
            for follower in range(3):
                persist(lambda: self.space.start("door", f"then-{number}-{follower}",
                                                 after=after(f"first-{number}")), MESSAGE)

    def end(self, number):
        for transition in ("open", "away"):
            try:
                persist(lambda: self.space.transition(f"first-{number}", transition), MESSAGE)
            except AssertionError as error:  # it was done, and its answer was lost
                assert "FAILED_PRECONDITION" in str(error), error

    def check(self):
        """Each has begun, and no more than once."""
        kinds = collections.Counter()
        for number in range(self.count):
            for follower in range(3):
                name = f"then-{number}-{follower}"
                eventually(lambda: state(self.space.get(name)) == "RUNNING", MESSAGE)
                kinds[begun(self.space, name)] += 1
        assert kinds == {1: 3 * self.count}


def test_followers_begin_once_when_servers_are_killed(parted, sharers):  # noqa: F811
    servers = parted(3)
    servers[0].space("default").define(DOOR)
    followers = Followers(servers, 30)
    followers.start()
    for number in range(30):
        if number == 10:
            servers[2].kill()
        if number == 20:
            servers.append(sharers())
            servers[1].kill()
        followers.end(number)
    followers.check()


def test_followers_begin_once_while_partitions_change_hands(parted, sharers):  # noqa: F811
    servers = parted(1)
    servers[0].space("default").define(DOOR)
    followers = Followers(servers, 60)
    followers.start()
    ending = threading.Thread(target=lambda: [followers.end(number) for number in range(60)])
    ending.start()
    servers.append(sharers())
    eventually(lambda: shares(servers) == fair(2), MESSAGE)
    servers[1].terminate()
    ending.join()
    assert servers[1].exit_status() == 0
    followers.check()


def test_a_schedule_starts_in_all_partitions_and_hears_how_it_ended(parted):  # noqa: F811
    servers = parted(2)
    space = servers[0].space("default")
    space.define(JOB + """\
---
schedule: often
every: 1h
overlap: allow
stop_on_fail: 2
start: {machine: job}
""")

    def run(count):
        for _ in range(count):
            servers[1].schedules.RunSchedule(
                schedule.RunScheduleRequest(namespace="default", name="often"), timeout=CALL)

    run(12)
    tasks = []
    end = time.monotonic() + SOON
    while len(tasks) < 12 and time.monotonic() < end:
        tasks += space.ready("job", max_tasks=12, wait=1.0)
    assert len({task.instance for task in tasks}) == 12
    assert len({space.get(task.instance).partition for task in tasks}) > 1
    for task in tasks[:3]:
        space.report(task, "error")

    def paused():
        return servers[0].schedules.GetSchedule(
            schedule.GetScheduleRequest(namespace="default", name="often"), timeout=CALL).paused_by

    eventually(paused)


def test_children_live_with_their_parent_and_wake_it(parted):  # noqa: F811
    servers = parted(2)
    space = servers[1].space("default")
    space.define(JOB)
    space.define("""\
plan: parent
flow:
  - step: spread
    action: spread
    queue: spreads
""")
    space.define("action: spread\nqueue: spreads\n")
    for number in range(8):
        name = space.plan("parent", f"parent-{number}")
        task, = space.ready(queues=["spreads"], wait=SOON)
        space.suspend(task, children=[space.start_request("job") for _ in range(2)])
        children = eventually(lambda: len(found := space.children(name)) == 2 and found)
        assert {child.partition for child in children} == {space.get(name).partition}
        for _ in children:
            space.report(space.take("job"))
        resumed, = space.ready(queues=["spreads"], wait=SOON)
        space.report(resumed)
        space.ends(name, "SUCCESS")


