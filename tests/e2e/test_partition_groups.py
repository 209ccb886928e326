"""Groups, quotas and built-in keys of limits, of what lives in several partitions."""
import threading
import time

import grpc
import pytest

from cluster_servers import persist
from stubs import schedule, v1
from support import CALL, JOB, Refusal, eventually, kind, result, state
from test_groups import Groups, Order
from test_namespaces import Spaces
from test_partition_limits import running
from test_partitions import PARTITIONS, parted  # noqa: F401: a fixture

LOST = 20.0  # seconds within which one that is killed has been replaced
DAILY = """\
schedule: daily
cron: "0 0 * * *"
start: {machine: job}
"""


def finished(space, name="g"):
    """The notes of a group's GROUP_FINISHED."""
    changes, _ = space.changes("0")
    return [c.note for c in changes if kind(c) == "GROUP_FINISHED" and c.cause == f"group:{name}"]


def began(servers, count, group="g", **more):
    names = [f"one-{number}" for number in range(count)]
    for number, name in enumerate(names):
        servers[number % len(servers)].space("default").start("job", name, group=group, **more)
    return names


def test_a_group_counts_its_members_in_all_partitions(parted):  # noqa: F811
    servers = parted(2)
    space = servers[0].space("default")
    space.define(JOB)
    names = began(servers, 32)
    assert {space.get(name).partition for name in names} == set(range(PARTITIONS))
    groups = [Groups(one.space("default")) for one in servers]
    eventually(lambda: groups[0].get().running == 32)
    assert [one.name for one in groups[1].list().groups] == ["g"]
    for number, name in enumerate(names):
        space.transition(name, "error" if number == 7 else "ok")
    eventually(lambda: groups[1].get().success == 31)
    group = groups[0].get()
    assert (group.total, group.error, state(group), result(group)) == (32, 1, "STOPPED", "ERROR")
    assert group.progress == 1
    assert finished(space) == ["ERROR"]


def test_a_paused_group_holds_back_members_of_all_partitions(parted):  # noqa: F811
    servers = parted(2)
    space = servers[0].space("default")
    space.define(JOB)
    groups = Groups(servers[1].space("default"))
    groups.set(stop_on_fail=3)
    names = began(servers, 8)
    for name in names[:3]:
        space.transition(name, "error")
    eventually(lambda: groups.get().paused)
    assert "3 members failed" in groups.get().note
    late = [f"late-{number}" for number in range(16)]
    for name in late:
        space.start("job", name, group="g")
    eventually(lambda: groups.get().total == 24)
    eventually(lambda: groups.get().scheduled == 16)
    assert not running(space, late)
    groups.order(Order.RESUME)
    eventually(lambda: len(running(space, late)) == 16)
    groups.order(Order.PAUSE, members=True)
    eventually(lambda: groups.get().paused_members == 21)
    groups.order(Order.CANCEL)
    eventually(lambda: groups.get().cancelled == 21)
    assert state(groups.get()) == "STOPPED"
    eventually(lambda: finished(space) == ["ERROR"])


def test_a_backfill_runs_so_many_at_once_over_all_partitions(parted):  # noqa: F811
    servers = parted(2)
    space = servers[0].space("default")
    space.define(JOB)
    space.define(DAILY)
    request = schedule.BackfillScheduleRequest(namespace="default", name="daily", group="g",
                                               max_running=3)
    request.from_time, request.to_time = "2026-03-01", "2026-03-20"
    servers[1].schedules.BackfillSchedule(request, timeout=CALL)
    groups = Groups(servers[1].space("default"))
    done = 0
    while done < 20:
        eventually(lambda: groups.get().running == min(3, 20 - done))
        group = groups.get()
        assert group.total == 20 and group.scheduled + group.running <= 3, group
        one = next(one.id for one in space.instances(page_size=1_000).instances
                   if state(one) == "RUNNING")
        space.transition(one, "ok")
        done += 1
        eventually(lambda: groups.get().success == done)
    eventually(lambda: finished(space) == ["SUCCESS"])
    assert len({space.get(one.id).partition
                for one in space.instances(page_size=1_000).instances}) > 3
    request.group, request.dry_run = "", True
    again = servers[0].schedules.BackfillSchedule(request, timeout=CALL)
    assert (again.total, again.existing) == (0, 20)


def test_members_are_counted_right_when_servers_are_lost(parted, sharers):  # noqa: F811
    servers = parted(3)
    space = servers[0].space("default")
    space.define(JOB)
    groups = Groups(space)
    names = [f"one-{number}" for number in range(40)]
    for number, name in enumerate(names):
        persist(lambda: space.start("job", name, group="g"), LOST)
        if number == 20:
            servers[2].kill()
    for number, name in enumerate(names):
        try:
            persist(lambda: space.transition(name, "ok"), LOST)
        except AssertionError as error:  # it was done, and its answer was lost
            assert "FAILED_PRECONDITION" in str(error), error
        if number == 10:
            servers.append(sharers())
        if number == 20:
            servers[1].kill()

    def over():
        try:
            return groups.get().success == 40
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNAVAILABLE, error
            return False

    eventually(over, LOST)
    assert groups.get().total == 40
    eventually(lambda: finished(space)[-1:] == ["SUCCESS"])


# Quotas ------------------------------------------------------------------------------------------


def test_a_quota_counts_live_instances_of_all_partitions(parted):  # noqa: F811
    servers = parted(2)
    spaces = Spaces(servers[0])
    acme = servers[0].space("acme")
    acme.define(JOB)
    spaces.set("acme", live_instances=30)
    started = []
    refused = 0
    for number in range(120):
        try:
            started.append(servers[number % 2].space("acme").start("job", f"one-{number}"))
        except grpc.RpcError as error:
            assert Refusal(error).reason == "QUOTA_EXCEEDED"
            refused += 1
    # And as many more as come while messages are on their way.
    print(f"{len(started)} were started on a quota of 30, one after another")
    assert 30 <= len(started) <= 60 and refused >= 60
    eventually(lambda: refuses(servers[1].space("acme")))
    for name in started:
        acme.transition(name, "ok")
    eventually(lambda: not refuses(servers[1].space("acme"), "last"))


def refuses(space, name=""):
    try:
        space.start("job", name)
    except grpc.RpcError as error:
        assert Refusal(error).reason == "QUOTA_EXCEEDED"
        return True
    return False


def test_what_is_started_at_once_may_be_more_than_a_quota_and_no_more_than_was_left(
        parted):  # noqa: F811
    servers = parted(2)
    servers[0].space("acme").define(JOB)
    Spaces(servers[0]).set("acme", live_instances=40)
    results = []

    def start(first):
        space = servers[first % 2].space("acme")
        for number in range(50):
            try:
                space.start("job", f"one-{first}-{number}")
                results.append(True)
            except grpc.RpcError as error:
                assert Refusal(error).reason == "QUOTA_EXCEEDED"
                results.append(False)

    threads = [threading.Thread(target=start, args=(first,)) for first in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"{sum(results)} of 500 at once were started on a quota of 40")
    assert len(results) == 500
    assert 40 <= sum(results) <= 40 * PARTITIONS


# Built-in keys of limits -------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["namespace:default", "machine:job"])
def test_so_many_run_at_once_over_all_partitions(parted, key):  # noqa: F811
    servers = parted(2)
    space = servers[0].space("default")
    space.define(JOB)
    before = began(servers, 10)
    limit = lambda **more: servers[1].schedules.SetLimit(  # noqa: E731
        schedule.SetLimitRequest(namespace="default", key=key, **more), timeout=CALL)
    limit(max=4)

    def held():
        return servers[0].schedules.GetLimit(
            schedule.GetLimitRequest(namespace="default", key=key), timeout=CALL).held

    eventually(lambda: held() == 10)
    late = [space.start("job", f"late-{number}") for number in range(8)]
    for name in before[:6]:
        space.transition(name, "ok")
    eventually(lambda: held() == 4)
    assert not running(space, late)
    for name in before[6:]:
        space.transition(name, "ok")
    left = set(late)
    while left:
        now = eventually(lambda: (found := running(space, left)) and
                         len(found) == min(4, len(left)) and found)
        space.transition(now[0], "ok")
        left.remove(now[0])
    limit(no_max=True)


def test_so_many_tasks_of_a_queue_are_in_hand_over_all_partitions(parted):  # noqa: F811
    servers = parted(2)
    space = servers[0].space("default")
    space.define(JOB)

    def limit(most):
        servers[1].schedules.SetLimit(schedule.SetLimitRequest(
            namespace="default", key="queue:default", max=most), timeout=CALL)

    limit(0)
    began(servers, 40)
    assert not space.ready(max_tasks=100)
    lock = threading.Lock()
    in_hand, most, done = [0], [0], [0]
    problems = []

    def work(own):
        while done[0] < 40 and not problems:
            try:
                tasks = own.ready(wait=1.0, max_tasks=2)
                with lock:
                    in_hand[0] += len(tasks)
                    most[0] = max(most[0], in_hand[0])
                for task in tasks:
                    with lock:
                        in_hand[0] -= 1
                    own.report(task)
                    with lock:
                        done[0] += 1
            except Exception as problem:  # pylint: disable=broad-except
                problems.append(problem)

    limit(3)
    threads = [threading.Thread(target=work, args=(servers[number % 2].space("default"),))
               for number in range(4)]
    begin = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not problems and done[0] == 40
    print(f"40 tasks, {most[0]} at once at most, in {time.monotonic() - begin:.1f} s")
    assert most[0] <= 3
