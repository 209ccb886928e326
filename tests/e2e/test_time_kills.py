"""kill -9 while times come due, items are taken and backfills run: each once, whatever it cuts."""
import json
import random
import threading

import grpc
import pytest

from stubs import schedule
from support import eventually, fresh_name
from test_backfills import COUNTER, DAILY, finished
from test_schedules import BEGIN, DAY, JOB, Schedules, state_of
from test_triggers import MACHINES, Triggers

KILLS = 6


@pytest.fixture
def standing(new_server):
    return new_server(virtual_clock=BEGIN).start()


def killed(server, act, times=KILLS, longest=0.4):
    """Does `act` again and again until it returns True, and kills the server meanwhile."""
    done = threading.Event()
    failed = []

    def work():
        while not done.is_set():
            try:
                if act():
                    return
            except (grpc.RpcError, ValueError):
                pass  # it was killed, or its channel is closed
            except Exception as error:  # pylint: disable=broad-except
                failed.append(error)
                return

    for _ in range(times):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join(random.uniform(0, longest))
        server.kill()
        done.set()
        thread.join()
        done.clear()
        assert not failed, failed[0]
        server.start()
    eventually(act, 60)


@pytest.mark.parametrize("max_running", [1, 7, 1000])
def test_a_backfill_runs_each_time_once_over_kills(standing, request, max_running):
    schedules = Schedules(standing, fresh_name(request.node.originalname))
    schedules.space.define(JOB + "---\nschedule: s\n" + DAILY + "start: {machine: job}\n")
    reply = schedules.call("BackfillSchedule", name="s", from_time="2026-01-01",
                           to_time="2026-03-27", max_running=max_running)
    assert reply.total == 86
    group = reply.group.name

    def end_some():
        for task in schedules.space.ready("job", max_tasks=5):
            schedules.space.report(task, "ok")
        got = schedules.call("GetGroup", name=group)
        assert got.running <= max_running and got.total == 86
        return state_of(got) == "STOPPED"

    killed(standing, end_some)
    got = schedules.call("GetGroup", name=group)
    assert (got.success, got.to_come) == (86, 0)
    assert finished(schedules, group) == ["SUCCESS"]
    times = [one.id for one in schedules.occurrences(page_size=1000)]
    assert len(times) == len(set(times)) == 86


def test_what_a_schedule_sends_is_sent_once_over_kills(standing, request):
    schedules = Schedules(standing, fresh_name(request.node.originalname))
    schedules.space.define(COUNTER)
    schedules.space.start("counter", "c")
    schedules.space.define('schedule: s\nevery: 10m\nsend: {instance: c, transition: tick, '
                           'params: {at: "${schedule.time}"}}\n')

    def go_on():
        standing.advance(by=7200)
        return len(schedules.occurrences(page_size=1000)) >= 100

    killed(standing, go_on)
    sent = [one.params for one in schedules.space.history("c") if one.transition == "tick"]
    occurrences = schedules.occurrences(page_size=1000)
    assert {one.outcome for one in occurrences} == {schedule.Occurrence.SENT}
    assert len(sent) == len(set(sent)) == len(occurrences)


def test_items_are_gathered_once_over_kills(standing, request):
    triggers = Triggers(standing.space(fresh_name(request.node.originalname)))
    space = triggers.space
    space.define(MACHINES)
    space.define("trigger: g\non: {change: {kind: started, machine: build}}\n"
                 "gather: {count: 3}\nstart: {machine: deploy, params: {items: \"${items}\"}}\n")
    number = iter(range(10_000))

    def go_on():
        id = f"b{next(number):05}"
        space.start("build", id)
        return sum(len(ids) for ids in gathered(triggers)) > 60

    killed(standing, go_on)
    eventually(lambda: triggers.get("g").lag == 0)
    all_ids = [id for ids in gathered(triggers) for id in ids]
    assert len(all_ids) == len(set(all_ids)) and all_ids == sorted(all_ids)
    assert all(len(ids) == 3 for ids in gathered(triggers))
    started = sorted(one.id for one in all_instances(space, "build"))
    assert started[:len(all_ids)] == all_ids and len(started) - len(all_ids) < 3
    assert triggers.get("g").open_gatherings == (1 if len(started) > len(all_ids) else 0)


def all_instances(space, machine):
    found, token = [], ""
    while True:
        page = space.instances(machine=machine, page_size=1000, page_token=token)
        found += page.instances
        token = page.next_page_token
        if not token:
            return found


def gathered(triggers):
    """The instances in each gathering that is complete, oldest first."""
    return [[item["instance"]["id"] for item in json.loads(one.item)]
            for one in triggers.history("g", with_items=True)]


def test_a_poll_brings_each_item_once_over_kills(new_server, request):
    server = new_server().start()
    triggers = Triggers(server.space(fresh_name(request.node.originalname)))
    space = triggers.space
    space.define(MACHINES)
    space.define("trigger: p\non: {poll: {action: look, every: 1s}}\n"
                 'start: {machine: deploy, id: "i-${item}"}\n')

    def poll():
        for task in space.ready(action="look", wait=1):
            at = json.loads(task.node_params)["cursor"] or 0
            space.report(task, output={"items": list(range(at, at + 40)), "cursor": at + 40,
                                       "more": at < 400})
        return len(triggers.history("p")) >= 400

    killed(server, poll, longest=1.0)
    items = [one.instance for one in triggers.history("p")]
    assert items == [f"i-{n}" for n in range(len(items))]


def test_an_item_is_not_taken_twice_over_kills(standing, request):
    triggers = Triggers(standing.space(fresh_name(request.node.originalname)))
    triggers.space.define(MACHINES)
    triggers.space.define("trigger: d\non: {webhook: {path: d, open: true}}\n"
                          'dedupe: "${item.n}"\nstart: {machine: deploy}\n')
    fired = []

    def fire():
        at = len(fired)
        for n in (at, at, at // 2):
            triggers.fire("d", {"n": n})
        fired.append(at)
        return at > 60

    killed(standing, fire)
    items = [json.loads(one.item)["n"] for one in triggers.history("d", with_items=True)]
    assert sorted(items) == list(range(len(items))) and len(items) > 60
    standing.advance(by=DAY + 1)
    assert triggers.fire("d", {"n": items[0]}).outcome == schedule.Occurrence.STARTED
