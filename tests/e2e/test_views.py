"""What people look at: filters, orders, counts, steps, queues, the overview."""
import json
import time

import pytest

from stubs import v1, view
from support import (CALL, JOB, PAIR, SOON, eventually, fresh_name, kind, now, only, refused,
                     seconds, state, step_state)

HELD = """\
id: held
nodes:
  work: {start: true, retry: {limit: 1}, transitions: {ok: done, error: failed}}
  done: {final: true}
  failed: {final: true, result: error}
"""
PLAN = """\
plan: shop
flow:
  sequence:
    - {step: pack, action: pack}
    - concurrence: {for_each: "${params.boxes}", as: box, do: {step: each, action: wrap}}
    - {step: ship, action: ship}
"""
PLANNED = """\
action: draft
plan: worker
---
plan: planned
flow: [{step: draft, action: draft}]
"""


@pytest.fixture
def orders(space):
    """Three instances of pair in different places, and one of job."""
    space.define(PAIR)
    space.define(JOB)
    space.start("pair", "a-1", labels={"site": "eu-west", "tier": "1"}, priority=5)
    space.start("pair", "a-2", labels={"site": "eu-north"})
    space.start("pair", "b-1", labels={"site": "us"}, priority=-3)
    space.start("job", "c-1")
    space.transition("a-2", "ok")
    space.transition("b-1", "error")
    return space


# Filters --------------------------------------------------------------------------------------


@pytest.mark.parametrize("filter, ids", [
    ("", "a-1 a-2 b-1 c-1"), ("a", "a-1 a-2"), ("id:a-1", "a-1"), ("id:*-1", "a-1 b-1 c-1"),
    ("id:c-1,a-1,none", "a-1 c-1"), ("a id:*-2", "a-2"),
    ("machine:pair", "a-1 a-2 b-1"), ("machine:p*", "a-1 a-2 b-1"), ("-machine:pair", "c-1"),
    ("machine:pair,job state:running", "a-1 a-2 c-1"), ("state:STOPPED", "b-1"),
    ("-state:stopped", "a-1 a-2 c-1"), ("not:state:stopped machine:pair", "a-1 a-2"),
    ("result:error", "b-1"), ("result:pending machine:pair", "a-1 a-2"),
    ("node:first", "a-1"), ("node:first,second", "a-1 a-2"), ("node:failed", "b-1"),
    ("-node:first -node:work", "a-2 b-1"), ("node:*", "a-1 a-2 b-1 c-1"),
    ("is:ready", "a-1 a-2 c-1"), ("is:claimed", ""), ("is:root", "a-1 a-2 b-1 c-1"),
    ("-is:ready", "b-1"), ("label.site:eu*", "a-1 a-2"), ("label.site:us", "b-1"),
    ("label.site:us,eu-west", "a-1 b-1"), ("label.tier:*", "a-1"), ("-label.site:*", "c-1"),
    ("label.site:eu-west label.tier:1", "a-1"), ("label.site:eu-west label.tier:2", ""),
    ("started:-1h..", "a-1 a-2 b-1 c-1"), ("started:..-1h", ""), ("ended:-1h..", "b-1"),
    ("changed:-1h..", "a-1 a-2 b-1 c-1"), ("priority:1..", "a-1"), ("priority:-5..-1", "b-1"),
    ("version:1", "a-1 a-2 b-1 c-1"), ("version:2..", ""), ("progress:1", "b-1"),
    ("\"a-1\"", "a-1"), ("worker:*", ""), ("parent:*", ""), ("group:x", ""),
])
def test_a_filter_finds_what_it_says(orders, filter, ids):
    assert orders.found(filter) == ids.split()
    assert orders.found(filter, page_size=1) == ids.split()
    assert orders.count(filter).total == len(ids.split())
    assert sorted(orders.found(filter, order_by="-changed")) == ids.split()
    assert sorted(orders.found(filter, order_by="started")) == ids.split()


@pytest.mark.parametrize("filter, column, hint", [
    ("machin:x", 1, "machine"), ("state:runing", 7, "running"), ("a is:reddy", 6, "ready"),
    ("version:x", 9, "number"), ("error:\"open", 7, "end"), ("changed:yesterday", 9, "time"),
])
def test_a_bad_filter_is_told_where_and_what_would_be_right(space, filter, column, hint):
    for call in (lambda: space.instances(filter=filter), lambda: space.count(filter),
                 lambda: space.start_bulk("PAUSE", filter)):
        with refused("INVALID_ARGUMENT", "BAD_FILTER", f"column {column}:", hint):
            call()


def test_claims_children_and_followers_are_found(space):
    space.define(JOB)
    space.start("job", "first")
    task = only(space.ready("job", worker="w-1"))
    space.start("job", "second", after=[v1.After(instance="first")])
    assert space.found("worker:w-1") == ["first"] == space.found("is:claimed")
    assert space.found("after:first") == ["second"]
    assert space.found("state:scheduled") == ["second"]
    assert only(space.get("second").after).instance == "first"
    space.report(task)
    assert space.found("worker:w-1") == [] == space.found("after:first")
    assert only(space.get("second").after).instance == "first"


def test_a_brief_page_has_no_params(orders):
    for instance in orders.instances(filter="machine:pair", brief=True).instances:
        assert not instance.params and not instance.labels
        assert instance.token_count == 1 and instance.HasField("change_time")


def test_a_page_says_how_many_rows_it_has_searched(orders):
    page = orders.instances(filter="machine:job")
    assert page.looked_at >= 1 and not page.next_page_token


def test_a_page_token_holds_for_its_own_filter(orders):
    token = orders.instances(filter="machine:pair", page_size=1).next_page_token
    with refused("INVALID_ARGUMENT", "BAD_REQUEST"):
        orders.instances(filter="machine:job", page_token=token)


# Order ----------------------------------------------------------------------------------------


def test_lists_are_ordered_by_the_last_and_the_first_record(space):
    space.define(PAIR)
    for id in ("z", "y", "x"):
        space.start("pair", id)
    space.transition("y", "ok")
    assert space.found(order_by="started") == ["z", "y", "x"]
    assert space.found(order_by="-started") == ["x", "y", "z"]
    assert space.found(order_by="changed") == ["z", "x", "y"]
    assert space.found(order_by="-changed", page_size=1) == ["y", "x", "z"]
    space.transition("z", "error")
    assert space.found(order_by="-changed") == ["z", "y", "x"]
    assert space.found("-state:stopped", order_by="-changed") == ["y", "x"]
    page = space.instances(order_by="-changed", page_size=2)
    assert seconds(page.back_to) <= seconds(page.instances[0].change_time)
    assert seconds(page.back_to) > now() - 60


def test_an_unknown_order_is_refused(space):
    for order in ("-id", "name", "-", "changed "):
        with refused("INVALID_ARGUMENT", "BAD_REQUEST"):
            space.instances(order_by=order)


# History --------------------------------------------------------------------------------------


def history(space, id, **more):
    return [(change.seq, kind(change)) for change in space.call(
        "GetHistory", v1.GetHistoryRequest(namespace=space.name, id=id, **more)).changes]


def test_a_history_is_read_from_its_end_and_by_kind_and_node(space):
    space.define(PAIR)
    space.start("pair", "i")
    for transition in ("ok", "back", "ok", "ok"):
        space.transition("i", transition)
    whole = history(space, "i")
    assert history(space, "i", newest_first=True) == whole[::-1]
    moved = history(space, "i", kinds=[v1.Change.TRANSITIONED])
    assert moved == [one for one in whole if one[1] == "TRANSITIONED"] and len(moved) == 4
    assert [k for _, k in history(space, "i", node="done")] == ["TRANSITIONED", "FINISHED"]
    pages, token = [], ""
    while True:
        page = space.call("GetHistory", v1.GetHistoryRequest(
            namespace=space.name, id="i", newest_first=True, page_size=2, page_token=token))
        pages += [(change.seq, kind(change)) for change in page.changes]
        token = page.next_page_token
        if not token:
            break
    assert pages == whole[::-1]


# Counts ---------------------------------------------------------------------------------------


def test_counters_tell_at_once_how_many_there_are(orders):
    reply = orders.count("machine:pair state:running")
    assert (reply.total, reply.looked_at) == (2, 0)
    assert dict(orders.count("machine:pair", by="STATE").groups) == {"RUNNING": 2, "STOPPED": 1}
    assert dict(orders.count("", by="MACHINE").groups) == {"pair": 3, "job": 1}
    reply = orders.count("machine:pair node:first is:ready")
    assert (reply.total, reply.looked_at) == (1, 0)


def test_plans_that_run_or_are_planned_are_counted_at_once_too(space):
    space.define(PLAN)
    space.define(PLANNED)
    space.plan("shop", params={"boxes": [1]})
    space.start("planned")
    reply = space.view("CountInstances", view.CountInstancesRequest(
        namespace=space.name, by=view.CountInstancesRequest.STATE))
    assert dict(reply.groups) == {"RUNNING": 1, "PLANNING": 1} and reply.looked_at == 0


def test_states_are_counted_also_where_a_node_is_asked_for(orders):
    orders.pause("a-1")
    assert dict(orders.count("node:first,second", by="STATE").groups) == {"PAUSED": 1, "RUNNING": 1}
    # What a paused instance has ready is not ready, and stands there all the same.
    assert orders.count("is:ready").total == len(orders.found("is:ready")) == 2
    assert orders.count("machine:pair node:first").total == 1
    assert orders.count("machine:pair node:first is:ready").total == 0
    assert orders.count("machine:pair node:first -is:ready").total == 1


def test_the_machine_that_fails_is_among_the_first(space):
    space.define("---\n".join(JOB.replace("id: job", f"id: m{n:03}") for n in range(210)))
    for number in range(210):
        space.start(f"m{number:03}")
    id = space.start("m205")
    space.transition(id, "error")
    eventually(lambda: space.overview().machines[0].id == "m205")


def test_other_counts_search(orders):
    reply = orders.count("label.site:*", by="RESULT")
    assert reply.total == 3 and reply.looked_at >= 3
    assert dict(reply.groups) == {"PENDING": 2, "ERROR": 1}
    assert dict(orders.count("a", by="NODE").groups) == {"first": 1, "second": 1}


# Steps ----------------------------------------------------------------------------------------


def steps(space, id, **more):
    return space.view("ListSteps", view.ListStepsRequest(
        namespace=space.name, instance=id, **more)).rows


def test_steps_are_listed_by_level(space):
    space.define(PLAN)
    id = space.plan("shop", params={"boxes": [1, 2, 3]})
    top = {row.path: row for row in steps(space, id)}
    assert list(top) == ["pack", "each", "ship"]
    assert top["pack"].HasField("step") and top["pack"].states["READY"] == 1
    assert not top["each"].HasField("step") and top["each"].steps >= 3
    assert list(top["each"].after) == ["pack"] and list(top["ship"].after) == ["each"]
    space.fail("pack", error="no box")
    [first, *_] = steps(space, id, state=v1.Step.HELD)
    assert (first.path, first.error) == ("pack", "no box")
    below = steps(space, id, under="each")
    assert len(below) == 3 and all(row.path.startswith("each.") for row in below)
    request = view.ListStepsRequest(namespace=space.name, instance=id, under="each", page_size=2)
    first = space.view("ListSteps", request)
    request.page_token = first.next_page_token
    last = space.view("ListSteps", request)
    assert [*first.rows, *last.rows] == list(below) and len(first.rows) == 2
    assert not last.next_page_token


def test_all_there_is_of_a_step_is_shown(space):
    space.define(PLAN)
    id = space.plan("shop", params={"boxes": [1, 2, 3]})
    request = view.GetStepRequest(namespace=space.name, instance=id, path="pack")
    before = space.view("GetStep", request)
    assert before.step.path == "pack" and not before.resolved
    assert only(before.tokens).node == "pack"
    space.report(only(space.claim("pack")), output={"boxes": 2})
    after = space.view("GetStep", request)
    assert (after.resolved, after.output) == (True, '{"boxes": 2}')
    assert after.step.state == v1.Step.DONE
    with refused("NOT_FOUND", "NO_SUCH_NODE"):
        space.view("GetStep", view.GetStepRequest(
        namespace=space.name, instance=id, path="none"))


def test_a_step_tells_how_long_workers_had_it_and_who_was_the_last(new_server):
    server = new_server(virtual_clock="2026-03-01T00:00:00Z").start()
    space = server.space("default")
    space.define("plan: waits\nflow: [{step: a, action: n.a}]\n")
    id = space.plan("waits")

    def active():
        return round(seconds(space.view("GetStep", view.GetStepRequest(
            namespace=space.name, instance=id, path="a")).active), 3)

    first = only(space.ready("waits", worker="one"))
    server.advance(by=2)
    assert active() == 2
    space.suspend(first)
    server.advance(by=4)
    assert active() == 2 and space.step(id, "a").worker == "one"
    space.event(id, "go", node="a")
    assert active() == 2 and space.step(id, "a").worker == "one"
    second = only(space.ready("waits", worker="two"))
    server.advance(by=1)
    assert active() == 3 and space.step(id, "a").worker == "two"
    space.report(second, "error", error="no")
    assert step_state(space.step(id, "a")) == "HELD" and space.step(id, "a").worker == "two"
    assert active() == 3
    server.kill()
    server.start()
    assert space.step(id, "a").worker == "two"


def test_before_it_is_handed_out_an_input_is_shown_as_written(space):
    space.define("""\
plan: written
flow:
  sequence:
    - {step: pack, action: pack}
    - concurrence: {for_each: [1, 2], as: box, do: {step: each, action: wrap}}
    - {step: ship, action: ship, input: {n: "${pack.output.n}", all: "${each.output}"}}
""")
    id = space.plan("written")
    ship = space.view("GetStep", view.GetStepRequest(namespace=space.name, instance=id, path="ship"))
    assert not ship.resolved
    assert json.loads(ship.input) == {"n": "${pack.output.n}", "all": "${each.output}"}


# Queues and the overview ----------------------------------------------------------------------


def queues(space, **more):
    return space.view("ListQueues", view.ListQueuesRequest(namespace=space.name, **more)).queues


def test_queues_say_what_waits_and_who_asks(space):
    space.define(JOB)
    space.start_many("job", 3)
    row = only([row for row in queues(space) if row.machine == "job"])
    assert (row.node, row.ready, row.claimed, row.asking) == ("work", 3, 0, 0)
    assert row.HasField("oldest_ready") and not row.HasField("asked_time")
    space.ready("job", max_tasks=2)
    row = only(queues(space, machine="job"))
    assert (row.ready, row.claimed) == (1, 2) and row.HasField("asked_time")
    assert row.claims_per_second > 0
    space.ready("job", max_tasks=2)
    waiting = space.later("Ready", space.ready_request("job", wait=SOON))
    eventually(lambda: only(queues(space, machine="job")).asking == 1)
    waiting.cancel()


def test_queues_say_who_asks_where_nothing_was_ever_ready(space):
    space.define(JOB)
    space.define(PAIR)
    waiting = space.later("Ready", space.ready_request("job", wait=SOON))
    row = eventually(lambda: (one := only(queues(space, machine="job"))).asking == 1 and one)
    assert (row.node, row.ready) == ("work", 0) and row.HasField("asked_time")
    assert [one.asking for one in queues(space, machine="pair")] == [0, 0]
    waiting.cancel()
    row = eventually(lambda: (one := only(queues(space, machine="job"))).asking == 0 and one)
    assert row.HasField("asked_time")


def test_work_of_a_flow_that_nobody_has_defined_waits_in_its_queue(new_server):
    server = new_server(virtual_clock="2026-03-01T00:00:00Z").start()
    space = server.space("default")
    id = space.call("Start", v1.StartRequest(
        namespace="default", flow='[{"step": "solo", "action": "nobody.asks"}]')).instance.id
    row = only(queues(space))
    assert (row.machine, row.node, row.ready) == ("adhoc", "solo", 1)
    assert [(one.id, one.kind) for one in space.overview().machines] == [("adhoc", "plan")]
    server.advance(by=120)
    unserved = only(troubles(space, view.Trouble.UNSERVED))
    assert (unserved.machine, unserved.node, unserved.count) == ("adhoc", "solo", 1)
    assert space.found(unserved.filter) == [id]
    space.ready("adhoc")
    row = only(queues(space))
    assert (row.ready, row.claimed) == (0, 1)


def test_what_is_paused_does_not_count_as_ready(space):
    space.define(JOB)
    ids = space.start_many("job", 3)
    space.pause(ids[0])
    assert only(queues(space, machine="job")).ready == 2
    assert space.overview().now.ready == 2
    assert sorted(space.found("is:ready")) == sorted(ids[1:])
    space.resume(ids[0])
    assert only(queues(space, machine="job")).ready == 3
    space.pause(ids[1])
    space.call("Cancel", v1.CancelRequest(namespace=space.name, instance=ids[1],
                                          mode=v1.CancelRequest.FORCE))
    assert space.overview().now.ready == 2


def test_the_overview_shows_how_it_goes(space):
    space.define(JOB)
    space.start_many("job", 4)
    for task, transition in zip(space.ready("job", max_tasks=3), ("ok", "error", "ok")):
        space.report(task, transition, **({"error": "disk 7 is full"} if transition == "error"
                                          else {}))
    overview = space.overview()
    assert (overview.now.running, overview.now.stopped, overview.now.ready) == (1, 3, 1)
    assert len(overview.minutes) == 60
    assert sum(minute.started for minute in overview.minutes) == 4
    assert sum(minute.succeeded for minute in overview.minutes) == 2
    assert sum(minute.failed for minute in overview.minutes) == 1
    machine = only(overview.machines)
    assert (machine.id, machine.version, machine.now.stopped) == ("job", 1, 3)
    assert (machine.started_hour, machine.failed_hour) == (4, 1)
    assert only(overview.slow).node == "work" and only(overview.slow).completed_hour == 3
    assert overview.server.version == "1.0.0" and overview.server.state == "serving"
    assert overview.server.room == "ample" and overview.server.store_bytes > 0
    assert overview.server.open_files > 0 and overview.server.last_seq > 0
    failing = only([t for t in overview.troubles if t.kind == view.Trouble.FAILING])
    assert failing.machine == "job" and failing.count == 1
    assert len(space.found(failing.filter)) == 1


def test_what_is_held_is_a_trouble_with_its_texts(space):
    space.define(PLAN)
    for name in ("one", "two"):
        id = space.plan("shop", params={"boxes": [1, 2, 3]})
        space.fail("pack", error=f"box {len(name)} of {name}")
    held = only([t for t in space.overview().troubles if t.kind == view.Trouble.HELD])
    assert (held.machine, held.node, held.count) == ("shop", "pack", 2)
    assert {error.text for error in held.errors} == {"box # of one", "box # of two"}
    assert len(space.found(held.filter)) == 2


ONCE = """\
id: once
nodes:
  work: {start: true, timeout: 0.0, transitions: {ok: done}}
  done: {final: true}
---
id: sign
nodes:
  desk: {start: true, manual: true, transitions: {signed: done}}
  done: {final: true}
"""


def troubles(space, *kinds):
    return [t for t in space.overview().troubles if t.kind in kinds]


def test_what_nobody_reports_or_decides_is_a_trouble_after_an_hour(new_server):
    server = new_server(virtual_clock="2026-03-01T00:00:00Z").start()
    space = server.space("default")
    space.define(ONCE)
    once, signed = space.start("once"), space.start("sign")
    space.ready("once", worker="silent")
    both = (view.Trouble.UNREPORTED, view.Trouble.PERSON)
    server.advance(by=3_500)
    assert not troubles(space, *both)
    server.advance(by=3_600)
    silent = only(troubles(space, view.Trouble.UNREPORTED))
    assert (silent.machine, silent.node, silent.count) == ("once", "work", 1)
    assert space.found(silent.filter) == [once]
    person = only(troubles(space, view.Trouble.PERSON))
    assert (person.machine, person.node, person.count) == ("sign", "desk", 1)
    assert space.found(person.filter) == [signed]
    # Whoever asks for work again is not silent.
    space.start("once")
    space.ready("once", worker="silent")
    assert not troubles(space, view.Trouble.UNREPORTED)


def test_failing_counts_all_failures_since_the_first(new_server):
    server = new_server(virtual_clock="2026-03-01T00:30:00Z").start()
    space = server.space("default")
    space.define(JOB)
    space.start_many("job", 130)
    for i, task in enumerate(space.ready("job", max_tasks=130)):
        name = chr(ord("a") + i % 26) * (1 + i // 26)  # texts that differ by more than digits
        space.report(task, "error", error=f"the disk {name} is full")
    server.advance(by=600)
    failing = only(troubles(space, view.Trouble.FAILING))
    assert failing.count == 130 and len(failing.errors) == 5
    assert failing.since.ToSeconds() == 1_772_325_000  # 00:30


@pytest.mark.timed
def test_who_watches_after_another_sees_at_once_how_it_is(space):
    space.define(JOB)
    topics = [view.WatchRequest.Topic(key="all",
                                      overview=view.GetOverviewRequest(namespace=space.name))]
    took = []
    for _ in range(7):
        began = time.monotonic()
        call = space.server.views.Watch(view.WatchRequest(topics=topics), timeout=CALL)
        assert next(call).key == "all"
        took.append(time.monotonic() - began)
        call.cancel()
    assert sorted(took)[len(took) // 2] < 0.5, took


def test_an_overview_of_all_namespaces_adds_them_up(new_server):
    server = new_server().start()
    for name in ("one", "two"):
        space = server.space(name)
        space.define(JOB)
        space.start("job")
    everything = server.views.GetOverview(view.GetOverviewRequest(namespace="*"), timeout=SOON)
    assert everything.now.running == 2
    assert len(everything.machines) == 2


def test_durations_show_what_a_timeout_was_learned_from(space):
    space.define(JOB)
    space.start_many("job", 5)
    for task in space.ready("job", max_tasks=5):
        space.report(task)
    request = view.GetDurationsRequest(namespace=space.name, machine="job", node="work")
    reply = space.view("GetDurations", request)
    assert reply.samples == 5 == sum(bucket.count for bucket in reply.first)
    assert reply.rule == "initial 60s: 5 of 20 samples" or reply.rule.startswith("initial 1m")
    assert seconds(reply.timeout_now) == 60 and reply.HasField("p50")
    assert len(reply.first) <= 64 and reply.meant == 0.05
    with refused("NOT_FOUND", "NO_SUCH_NODE"):
        space.view("GetDurations", view.GetDurationsRequest(
        namespace=space.name, machine="job", node="none"))


def test_who_has_no_worker_has_no_timeout(space):
    space.define("id: manual\nnodes:\n  a: {start: true, manual: true, transitions: {ok: b}}\n"
                 "  b: {final: true}\n")
    reply = space.view("GetDurations", view.GetDurationsRequest(
        namespace=space.name, machine="manual", node="a"))
    assert not reply.HasField("timeout_now") and not reply.HasField("retry_timeout_now")
    assert reply.rule == ""


def test_reasons_are_noted_with_what_operators_do(space):
    space.define(JOB)
    id = space.start("job")
    space.call("Pause", v1.PauseRequest(namespace=space.name, instance=id, reason="the disk"))
    space.call("Resume", v1.ResumeRequest(namespace=space.name, instance=id, reason="mended"))
    notes = {kind(change): change.note for change in space.history(id)}
    assert (notes["PAUSED"], notes["RESUMED"]) == ("the disk", "mended")
    with refused("INVALID_ARGUMENT", "TOO_LARGE"):
        space.call("Pause", v1.PauseRequest(
        namespace=space.name, instance=id, reason="x" * 1001))


# Workers --------------------------------------------------------------------------------------


def workers(space, **more):
    return space.view("ListWorkers", view.ListWorkersRequest(namespace=space.name, **more)).workers


def test_workers_are_known_by_what_they_ask_for_and_did(space):
    space.define(JOB)
    space.start_many("job", 3)
    first, second = space.ready("job", worker="w-1", max_tasks=2)
    row = only(workers(space))
    assert (row.worker, row.how, row.in_hand, row.asks_for) == ("w-1", "poll", 2, "machine:job")
    assert row.address and abs(seconds(row.seen_time) - now()) < SOON
    space.report(first)
    space.report(second, "error", error="it broke")
    row = only(workers(space, machine="job"))
    assert (row.in_hand, row.done_hour, row.failed_hour) == (0, 2, 1)
    stream = space.work(machine="job", worker="w-2", max_tasks=4)
    streaming = eventually(lambda: [row for row in workers(space) if row.worker == "w-2"])
    assert (only(streaming).how, only(streaming).capacity) == ("stream", 4)
    assert space.overview().workers == 2
    stream.cancel()
    assert not workers(space, machine="other")


# Watch ----------------------------------------------------------------------------------------


def watch(space, every=0.5, **topics):
    """A stream of messages; its topics by their keys."""
    request = view.WatchRequest()
    request.every.FromMilliseconds(int(every * 1000))
    for key, (what, asked) in topics.items():
        topic = request.topics.add(key=key)
        getattr(topic, what).CopyFrom(asked)
    return space.server.views.Watch(request, timeout=30)


def until(stream, holds):
    for message in stream:
        if message.key and holds(message):
            return message
    raise AssertionError("the stream has ended")


def test_what_is_watched_comes_at_once_and_when_it_changes(space):
    space.define(PAIR)
    space.start("pair", "i")
    stream = watch(space,
                   one=("instance", v1.GetInstanceRequest(namespace=space.name, id="i")),
                   all=("overview", view.GetOverviewRequest(namespace=space.name)),
                   feed=("changes", v1.ChangesRequest(namespace=space.name)))
    first = {}
    while len(first) < 3:
        message = until(stream, lambda message: True)
        first.setdefault(message.key, message)
    assert only(first["one"].instance.tokens).node == "first" and not first["one"].changes
    assert first["all"].overview.now.running == 1
    space.transition("i", "ok")
    moved = until(stream, lambda m: m.key == "one")
    assert only(moved.instance.tokens).node == "second"
    assert [kind(change) for change in moved.changes] == ["TRANSITIONED"]
    space.transition("i", "ok")
    news = until(stream, lambda m: m.key == "feed" and m.news.changes)
    assert all(change.instance == "i" for change in news.news.changes)
    until(stream, lambda m: m.key == "all" and m.overview.now.running == 0)
    stream.cancel()


def test_a_topic_without_its_subject_is_gone(space):
    stream = watch(space, none=("instance", v1.GetInstanceRequest(namespace=space.name, id="x")))
    gone = until(stream, lambda message: True)
    assert (gone.key, gone.gone.reason) == ("none", "NO_SUCH_INSTANCE")
    # The stream lives, and says so.
    assert next(stream).key == ""
    stream.cancel()


def test_a_watch_is_checked(space):
    topic = view.WatchRequest.Topic(key="k" * 65)
    topic.queues.namespace = space.name
    for request in (view.WatchRequest(), view.WatchRequest(topics=[topic]),
                    view.WatchRequest(topics=[view.WatchRequest.Topic(key="k")])):
        with refused("INVALID_ARGUMENT"):
            list(space.server.views.Watch(request, timeout=5))


# Previews -------------------------------------------------------------------------------------


def test_a_preview_shows_what_is_sound_and_lists_what_is_wrong(space):
    reply = space.define(JOB + "---\nid: broken\nnodes: {}\n", validate_only=True, preview=True)
    assert [machine.id for machine in reply.machines] == ["job"]
    assert {node.id for node in reply.machines[0].nodes} >= {"work", "done", "failed"}
    assert not reply.machines[0].source and reply.diagnostics
    reply = space.define(PLAN, validate_only=True, preview=True)
    assert [step.path for step in only(reply.machines).steps][0] == "pack"
    assert only(reply.defined).id == "shop"
    assert not space.machines().machines
