"""Streams of work through servers that share a store of several partitions."""
import threading
import time

import grpc
import pytest

from cluster_servers import persist, seen_by
from stubs import v1
from test_security import ADMIN_SECRET, Holder, token_flags
from support import Refusal, WorkStream, duration, eventually, extend_item, only, refused
from test_partitions import fair, parted, shares  # noqa: F401: a fixture

AWAY = 20.0  # seconds within which work goes on when a server is killed
# Its time out is not learnt: on a busy machine a task that is reported at once may last.
JOB = """
id: job
defaults: {timeout_strategy: fixed, timeout: 60.0}
nodes:
  work: {start: true, transitions: {ok: done, error: failed}}
  done: {final: true}
  failed: {final: true, result: error}
"""
ONCE = """
id: once
nodes:
  work: {start: true, timeout: 0.0, transitions: {ok: done}}
  done: {final: true}
"""


def test_a_stream_of_work_has_the_tasks_of_all_partitions_within_its_capacity(parted):
    servers = parted(2)
    spaces = [one.space("default") for one in servers]
    spaces[0].define(JOB)
    names = [f"job-{number}" for number in range(60)]
    for number, name in enumerate(names):
        spaces[number % 2].start("job", name)
    done = []
    with spaces[1].work(machine="job", max_tasks=5) as worker:
        while len(done) < len(names):
            tasks = worker.await_tasks(len(done) + 1)[len(done):]
            assert len(tasks) <= 5
            assert all(result.HasField("accepted") for result in worker.report(*tasks))
            done += [task.instance for task in tasks]
        late = spaces[0].start("job", "late")
        task = worker.await_tasks(len(names) + 1)[-1]
        assert task.instance == late
        worker.report(task)
    assert sorted(done) == sorted(names)


def test_a_stream_of_work_goes_on_when_partitions_change_hands(parted, sharers):
    servers = parted(2)
    space = servers[0].space("default")
    space.define(JOB)
    names = [f"job-{number}" for number in range(40)]
    done = set()
    with space.work(machine="job", max_tasks=3) as worker:
        for number, name in enumerate(names):
            if number == 10:
                servers.append(sharers())
            if number == 25:
                servers[1].kill()
            persist(lambda: space.start("job", name))
            task = worker.await_tasks(number + 1, 20.0)[number]
            assert task.instance not in done
            done.add(task.instance)
            result, = worker.report(task)
            if not result.HasField("accepted"):  # its owner was lost: it may be done
                persist(lambda: space.report(task))
    assert done == set(names)


def test_the_most_urgent_comes_first_on_a_stream_whatever_its_partition(parted):  # noqa: F811
    servers = parted(3)
    spaces = [one.space("default") for one in servers]
    spaces[0].define(JOB)
    for number in range(48):
        spaces[number % 3].start("job", f"job-{number}", priority=number % 6)
    order = []
    with spaces[2].work(machine="job", max_tasks=1) as worker:
        for number in range(48):
            task = worker.await_tasks(number + 1)[number]
            order.append(int(task.instance[4:]) % 6)
            worker.report(task)
    assert order == sorted(order, reverse=True)


def test_many_streams_share_the_work_of_all_partitions(parted):  # noqa: F811
    servers = parted(3)
    spaces = [one.space("default") for one in servers]
    spaces[0].define(JOB)
    workers = [space.work(machine="job", max_tasks=3) for space in spaces * 2]
    begin = time.monotonic()
    names = {f"job-{number}" for number in range(120)}
    for number, name in enumerate(sorted(names)):
        spaces[number % 3].start("job", name)
    done = []
    taken = [0] * len(workers)
    while len(done) < len(names):
        assert time.monotonic() < begin + 30.0, (len(done), workers)
        for which, worker in enumerate(workers):
            fresh = list(worker.tasks)[taken[which]:]
            taken[which] += len(fresh)
            assert len(fresh) <= 3
            if fresh:
                assert all(one.HasField("accepted") for one in worker.report(*fresh))
                done += [task.instance for task in fresh]
        time.sleep(0.001)  # it looks at all streams in turn; the deadline is above
    assert sorted(done) == sorted(names)
    print(f"{len(names)} tasks after {time.monotonic() - begin:.2f} s")
    for worker in workers:
        worker.__exit__()


def test_an_idle_stream_has_work_of_any_partition_at_once(parted):  # noqa: F811
    servers = parted(2)
    spaces = [one.space("default") for one in servers]
    spaces[0].define(JOB)
    took = []
    with spaces[1].work(machine="job", max_tasks=1) as worker:
        for number in range(40):
            begin = time.monotonic()
            spaces[0].start("job", f"job-{number}")
            task = worker.await_tasks(number + 1)[number]
            took.append(time.monotonic() - begin)
            worker.report(task)
    print(f"start to task: median {sorted(took)[20] * 1000:.1f} ms, "
          f"slowest {max(took) * 1000:.0f} ms")
    assert max(took) < 1.0


def test_extends_and_relinquishes_reach_the_partition_of_their_instance(parted):  # noqa: F811
    servers = parted(2)
    space = servers[0].space("default")
    space.define(JOB)
    for number in range(16):
        space.start("job", f"job-{number}")
    with space.work(machine="job", max_tasks=16) as worker:
        tasks = worker.await_tasks(16)
        worker.send(extends=[extend_item(task, 60.0) for task in tasks])
        assert worker.wait(lambda: len(worker.extended) == 16)
        assert not any(one.HasField("error") for one in worker.extended)
        worker.send(relinquishes=[v1.RelinquishRequest(instance=task.instance, claim=task.claim)
                                  for task in tasks])
        again = worker.await_tasks(32)[16:]
        assert sorted(task.instance for task in again) == sorted(task.instance for task in tasks)
        assert all(task.attempt == 2 for task in again)
        # What another call has reported makes room, too.
        for task in again:
            space.report(task)
        late = space.start("job", "late")
        assert worker.await_tasks(33)[32].instance == late


def test_a_cancel_is_told_to_the_stream_that_has_the_task(parted):  # noqa: F811
    servers = parted(2)
    spaces = [one.space("default") for one in servers]
    spaces[0].define(JOB)
    for number in range(8):
        spaces[0].start("job", f"job-{number}")
    with spaces[1].work(machine="job", max_tasks=8) as worker:
        tasks = worker.await_tasks(8)
        for task in tasks:
            spaces[0].cancel(task.instance)
        assert worker.wait(lambda: len(worker.cancelled_claims) >= 8)
        assert set(worker.cancelled_claims) == {task.claim for task in tasks}


def test_a_stream_that_drains_ends_when_nothing_is_in_hand(parted):  # noqa: F811
    servers = parted(2)
    space = servers[1].space("default")
    space.define(JOB)
    for number in range(12):
        space.start("job", f"job-{number}")
    with space.work(machine="job", max_tasks=6) as worker:
        tasks = worker.await_tasks(6)
        worker.send(drain=True)
        assert all(one.HasField("accepted") for one in worker.report(*tasks))
        assert worker.await_end() == "OK"
        assert len(worker.tasks) == 6
    assert len(space.ready("job", max_tasks=100)) == 6


def test_a_stream_that_is_half_closed_or_cancelled_gives_its_tasks_back(parted):  # noqa: F811
    servers = parted(2)
    space = servers[0].space("default")
    space.define(JOB)
    for number in range(12):
        space.start("job", f"job-{number}")
    worker = space.work(machine="job", max_tasks=12)
    worker.await_tasks(12)
    worker.half_close()
    assert worker.await_end() == "OK"
    worker = servers[1].space("default").work(machine="job", max_tasks=12)
    tasks = worker.await_tasks(12)
    assert all(task.attempt == 2 for task in tasks)
    worker.cancel()
    back = []
    eventually(lambda: back.extend(space.ready("job", max_tasks=12)) or len(back) == 12)
    assert {task.instance for task in back} == {f"job-{number}" for number in range(12)}


def test_a_bad_first_message_is_refused_as_by_one_server(parted):  # noqa: F811
    space = parted(1)[0].space("default")
    worker = WorkStream(space)
    worker.send(drain=True)
    assert worker.await_end() == "INVALID_ARGUMENT"
    assert Refusal(worker.error).reason == "BAD_REQUEST"
    worker = space.work(machine="no name!", max_tasks=1)
    assert worker.await_end() == "INVALID_ARGUMENT"


def test_claims_go_with_a_partition_that_moves(parted, sharers):  # noqa: F811
    servers = parted(1)
    space = servers[0].space("default")
    space.define(JOB)
    for number in range(32):
        space.start("job", f"job-{number}")
    with space.work(machine="job", max_tasks=40) as worker:
        tasks = worker.await_tasks(32)
        servers.append(sharers())
        eventually(lambda: shares(servers) == fair(2), 20.0)
        assert len(worker.tasks) == 32, "a task was told twice"
        # The new owner knows whose the claims are.
        for task in tasks[:16]:
            servers[1].space("default").cancel(task.instance)
        assert worker.wait(lambda: len(worker.cancelled_claims) >= 16)
        assert {task.claim for task in tasks[:16]} <= set(worker.cancelled_claims)
        assert all(one.HasField("accepted") for one in worker.report(*tasks[16:]))
        for number in range(32, 40):
            servers[1].space("default").start("job", f"job-{number}")
        worker.await_tasks(40)
    assert "starts anew" not in servers[0].log


def test_no_report_fails_while_partitions_move(parted, sharers):  # noqa: F811
    servers = parted(1)
    space = servers[0].space("default")
    space.define(JOB)
    count = 0
    with space.work(machine="job", max_tasks=4) as worker:
        joined = None
        while joined is None or not joined.done:
            for _ in range(8):
                space.start("job", f"job-{count}")
                count += 1
            for number in range(count - 8, count):
                task = worker.await_tasks(number + 1)[number]
                result = only(worker.report(task))
                assert result.HasField("accepted"), (number, result)
            if joined is None:
                joined = Joined(servers, sharers)
    assert len({task.instance for task in worker.tasks}) == count
    print(f"{count} reports")


class Joined:
    """Another server joins in the background, until all have their share."""

    def __init__(self, servers, sharers):
        self.done = False
        self.thread = threading.Thread(target=self.run, args=(servers, sharers))
        self.thread.start()

    def run(self, servers, sharers):
        servers.append(sharers())
        eventually(lambda: shares(servers) == fair(len(servers)), 20.0)
        self.done = True


def partitions_of(server):
    seen = seen_by(server)
    addresses = {one.id: one.address for one in seen.servers}
    return {one.id for one in seen.partitions if addresses.get(one.server) == server.address}


def was_claimed(space, name, theirs, killed):
    """Whether its owner claimed it and was killed before it could tell the worker. It runs at most
    once, so it stays claimed until an operator lets it run."""
    try:
        seen = space.get(name)
    except grpc.RpcError as error:  # nobody owns its partition yet
        assert error.code() == grpc.StatusCode.UNAVAILABLE, error
        return False
    claims = [claim for token in seen.tokens for claim in token.claims]
    return (seen.partition in theirs and bool(claims)
            and all(claim.claim_time.ToNanoseconds() < 1e9 * killed for claim in claims))


def test_what_a_killed_owner_had_is_worked_on_by_the_same_streams(parted):  # noqa: F811
    servers = parted(3)
    spaces = [one.space("default") for one in servers]
    spaces[0].define(JOB)
    spaces[0].define(ONCE)
    names = {f"job-{number}" for number in range(60)} | {f"once-{number}" for number in range(60)}
    for number in range(60):
        spaces[number % 3].start("job", f"job-{number}")
        spaces[number % 3].start("once", f"once-{number}")
    told = []
    done = set()
    with spaces[0].work(max_tasks=4) as one, spaces[1].work(max_tasks=4) as two:
        streams = (one, two)
        taken = [0, 0]
        until = time.monotonic() + 40.0
        killed = None  # when
        untold = set()
        while len(done) < len(names):
            assert time.monotonic() < until, sorted(names - done)
            for which, worker in enumerate(streams):
                fresh = list(worker.tasks)[taken[which]:]
                taken[which] += len(fresh)
                told += [task.instance for task in fresh]
                for task in fresh:
                    result = only(worker.report(task, within=AWAY))
                    if result.HasField("accepted"):
                        done.add(task.instance)
                    elif result.error.reason in ("NO_OWNER", "OUTCOME_UNKNOWN",
                                                 "PEER_UNREACHABLE"):
                        persist(lambda: spaces[which].report(task))
                        done.add(task.instance)
                    else:
                        assert result.error.reason == "STALE_CLAIM", result
                if len(done) > 30 and not killed:
                    theirs = partitions_of(servers[2])
                    servers[2].kill()
                    killed = time.time()
            for name in names - done - untold - set(told) if killed and not fresh else ():
                if name.startswith("once") and was_claimed(spaces[0], name, theirs, killed):
                    persist(lambda: spaces[0].resume(name, force=True))
                    untold.add(name)
            time.sleep(0.001)  # it looks at both streams in turn; the deadline is above
    once = [name for name in told if name.startswith("once")]
    assert len(once) == len(set(once)), "a task that runs at most once was told twice"
    assert len(untold) <= 2 * 4


def test_claims_stay_when_the_server_of_their_stream_is_killed(parted):  # noqa: F811
    servers = parted(3)
    spaces = [one.space("default") for one in servers]
    spaces[0].define(JOB)
    for number in range(24):
        spaces[0].start("job", f"job-{number}")
    worker = spaces[2].work(machine="job", max_tasks=24)
    tasks = worker.await_tasks(24)
    servers[2].kill()
    assert worker.await_end() != "OK"
    for task in tasks:
        persist(lambda: spaces[0].report(task))


def test_a_stream_ends_with_its_server_and_loses_nothing(parted):  # noqa: F811
    servers = parted(2)
    spaces = [one.space("default") for one in servers]
    spaces[0].define(JOB)
    for number in range(8):
        spaces[0].start("job", f"job-{number}")
    worker = spaces[1].work(machine="job", max_tasks=8)
    tasks = worker.await_tasks(8)
    servers[1].terminate()
    assert worker.await_end(20.0) == "UNAVAILABLE"
    assert servers[1].exit_status() == 0
    for task in tasks:
        persist(lambda: spaces[0].report(task))


def test_a_report_asks_for_the_next_tasks_of_all_partitions(parted):  # noqa: F811
    servers = parted(2)
    space = servers[0].space("default")
    space.define(JOB)
    for number in range(40):
        space.start("job", f"job-{number}", priority=number % 3)
    tasks = space.ready("job", max_tasks=4)
    order = [int(task.instance[4:]) % 3 for task in tasks]
    done = []
    while tasks:
        reply = servers[len(done) % 2].space("default").report_all(
            [space.report_request(task) for task in tasks], machine="job", max_tasks=4)
        assert all(one.HasField("accepted") for one in reply.results)
        done += [task.instance for task in tasks]
        tasks = list(reply.tasks)
        order += [int(task.instance[4:]) % 3 for task in tasks]
    assert sorted(done) == sorted(f"job-{number}" for number in range(40))
    assert order == sorted(order, reverse=True)


def test_a_stream_whose_tasks_others_have_taken_has_the_next_ones_of_all_partitions(parted):  # noqa: F811
    space = parted(1)[0].space("default")
    space.define(JOB)
    with space.work(machine="job", max_tasks=1) as worker:
        space.start("job", "first")
        [task] = worker.await_tasks(1)
        for number in range(8):
            space.start("job", f"taken-{number}")
        taken = []
        eventually(lambda: taken.extend(space.ready("job", max_tasks=8)) or len(taken) == 8)
        for number in range(12):
            worker.report(task)
            space.start("job", f"next-{number}")
            task = worker.await_tasks(number + 2)[-1]


def test_a_wait_that_is_none_is_refused(parted):  # noqa: F811
    space = parted(2)[1].space("default")
    space.define(JOB)
    with refused("INVALID_ARGUMENT", "BAD_REQUEST", "wait"):
        space.ready("job", wait=-1)
    space.start("job", "one")
    task = only(space.ready("job"))
    with refused("INVALID_ARGUMENT", "BAD_REQUEST", "wait"):
        space.runner.Report(v1.ReportRequest(transitions=[space.report_request(task)],
                                             next=space.ready_request("job", wait=-1)))
    assert space.get("one").state == v1.Instance.RUNNING  # nothing of it was done


def test_a_report_waits_for_the_next_task(parted):  # noqa: F811
    servers = parted(2)
    space = servers[1].space("default")
    space.define(JOB)
    space.start("job", "first")
    first = only(space.ready("job"))
    request = v1.ReportRequest(transitions=[space.report_request(first)],
                               next=space.ready_request("job", wait=10.0))
    waiting = space.later("Report", request, timeout=15.0)
    eventually(lambda: space.get("first").state == v1.Instance.STOPPED)
    servers[0].space("default").start("job", "second")
    reply = waiting.result()
    assert only(reply.results).HasField("accepted")
    assert only(reply.tasks).instance == "second"


def test_what_reports_take_beside_goes_back_when_their_callers_are_gone(parted):  # noqa: F811
    """Workers report and ask for more; some give up their calls at any moment. What was taken for
    those is had by others, long before its time is out; but not what had been sent by then, so that
    it may have been seen."""
    servers = parted(3)
    spaces = [one.space("default") for one in servers]
    spaces[0].define(JOB)
    names = {f"job-{number}" for number in range(600)}
    for name in names:
        spaces[0].start("job", name)
    done, given_up, enough = set(), [], 100
    many, over = threading.Event(), threading.Event()

    def work(number):
        space, reports, turn = spaces[number % 3], [], 0
        gives_up = number < 3
        if not gives_up:
            many.wait(20)  # else they would have done everything before much was given up
        while not over.is_set():
            turn += 1
            call = space.runner.Report.future(v1.ReportRequest(
                transitions=reports, next=space.ready_request("job", wait=1, max_tasks=4)),
                timeout=20)
            if gives_up and (turn % 2 == 0 or not many.is_set()):
                time.sleep(0.0003 * (turn % 6))
                if call.cancel():
                    given_up.append(turn)
                    if len(given_up) == enough:
                        many.set()
                    continue  # what it reported it reports again, which is harmless
            reply = call.result()
            done.update(one.accepted.instance for one in reply.results)
            assert all(one.HasField("accepted") for one in reply.results), reply
            reports = [space.report_request(task) for task in reply.tasks]
            if not gives_up and not reports:
                over.set()  # nothing came back within its wait
        if reports:
            done.update(one.accepted.instance for one in space.runner.Report(
                v1.ReportRequest(transitions=reports)).results)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(given_up) >= enough
    # Measured: 0.1 to 0.5 a call, 0.8 on a crowded machine; 0.9 to 1.2 where nothing is given back.
    lost = len(names - done)
    assert lost < 0.87 * len(given_up), f"{lost} lost by {len(given_up)} calls"


def test_polls_are_answered_empty_by_a_server_that_stops(parted):  # noqa: F811
    servers = parted(2)
    spaces = [one.space("default") for one in servers]
    spaces[0].define(JOB)
    polls = [spaces[1].later("Ready", spaces[1].ready_request("job", wait=60), timeout=70)
             for _ in range(8)]
    idle = spaces[1].work(machine="job", max_tasks=2)
    spaces[0].start("job", "one")
    spaces[0].start("job", "two")
    eventually(lambda: sum(poll.done() for poll in polls) + len(idle.tasks) >= 2)
    for task in idle.tasks:
        assert only(idle.report(task)).accepted.node == "done"
    servers[1].terminate()
    answered = [poll.result(20.0).tasks for poll in polls]
    assert sum(len(tasks) for tasks in answered) + len(idle.tasks) == 2
    assert idle.await_end(20.0) == "OK"
    assert servers[1].exit_status() == 0


@pytest.mark.parametrize("kept", [{}, {"session": "s", "keep_for": duration(60)}],
                         ids=["alone", "session"])
def test_what_a_stream_has_in_hand_is_for_others_when_its_token_ends(sharers, tmp_path, kept):
    sharers.flags = ("--partitions", "8")
    server = sharers(*map(str, token_flags(tmp_path)))
    root = Holder(server, ADMIN_SECRET)
    space = root.space()
    space.define(JOB)
    for number in range(16):
        space.start("job", f"job-{number}")
    holder = root.create("worker", "default")
    with holder.space("default").work(max_tasks=16, **kept) as worker:
        worker.await_tasks(16)
        root.revoke(holder)
        assert worker.await_end() == "UNAUTHENTICATED"
    again = []

    def taken():
        again.extend(space.ready(max_tasks=16, wait=1.0))
        return len(again) == 16
    eventually(taken)
