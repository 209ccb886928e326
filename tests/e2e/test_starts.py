"""Starts with a report: what a worker finds is started in the commit of its report."""
import random
import threading

import grpc
import pytest

from stubs import v1
from support import JOB, PAIR, check_error, kind, only, refused, result, state

PAGE = """\
id: page
params: {type: object, properties: {url: {type: string}}}
nodes:
  fetch: {start: true, transitions: {ok: done, error: failed}}
  done: {final: true}
  failed: {final: true, result: error}
"""


@pytest.fixture
def pages(space):
    space.define(PAGE)
    space.define(PAIR)
    return space


def page(space, id="", params=None, **more):
    return space.start_request("page", id, params, **more)


def begun(response):
    return [(one.id, one.created) for one in response.started]


# One report -----------------------------------------------------------------------------------


def test_what_a_report_starts_is_there_when_it_is_answered(pages):
    pages.start("pair")
    task = pages.take("pair")
    reply = pages.report(task, starts=[
        page(pages, "a", {"url": "x"}, labels={"kind": "leaf"}, priority=3),
        page(pages, "b", hold=True), page(pages)])
    made = reply.started[2].id
    assert begun(reply) == [("a", True), ("b", True), (made, True)]
    assert reply.node == "second" and made
    a = pages.get("a")
    assert (a.params, dict(a.labels), a.priority, a.parent) == ('{"url": "x"}', {"kind": "leaf"}, 3, "")
    assert state(pages.get("b")) == "SCHEDULED"
    assert {one.instance for one in pages.ready("page", max_tasks=9)} == {"a", made}
    # One commit, the transition first.
    changes, _ = pages.changes()
    told = [(kind(one), one.instance) for one in changes if kind(one) != "CLAIMED"]
    at = told.index(("TRANSITIONED", task.instance))
    assert told[at + 1:at + 4] == [("STARTED", "a"), ("SCHEDULED", "b"), ("STARTED", made)]


def test_what_is_there_already_is_told_and_left_alone(pages):
    pages.start("page", "old", {"url": "x"})
    pages.start("pair", "i")
    reply = pages.report(pages.take("pair"), starts=[
        page(pages, "old", {"url": "x"}), page(pages, "new"), page(pages, "new", {}),
        pages.start_request("pair", "i")])
    assert begun(reply) == [("old", False), ("new", True), ("new", False), ("i", False)]
    assert len(pages.instances().instances) == 3


@pytest.mark.parametrize("bad, code, reason, word", [
    (dict(machine="nowhere"), "NOT_FOUND", "NO_SUCH_MACHINE", "nowhere"),
    (dict(version=7), "NOT_FOUND", "NO_SUCH_MACHINE", "7"),
    (dict(id="taken", params='{"url": "y"}'), "ALREADY_EXISTS", "INSTANCE_EXISTS", "taken"),
    (dict(params='{"url": 5}'), "INVALID_ARGUMENT", "BAD_PARAMS", "url"),
    (dict(params="[1]"), "INVALID_ARGUMENT", "BAD_PARAMS", "x"),
    (dict(id="a b"), "INVALID_ARGUMENT", "BAD_REQUEST", "a b"),
    (dict(after=[v1.After(instance="never")]), "NOT_FOUND", "NO_SUCH_INSTANCE", "never"),
    (dict(start_before=1), "INVALID_ARGUMENT", "BAD_REQUEST", "start_before"),
])
def test_one_that_cannot_be_started_refuses_the_report_and_nothing_changes(
        pages, bad, code, reason, word):
    pages.start("page", "taken")
    id = pages.start("pair")
    task = pages.take("pair")
    before = pages.get(id)
    head = len([c for c in pages.changes()[0] if kind(c) != "CLAIMED"])
    start = {"machine": "page", "id": "x", **bad}
    starts = [page(pages, "first"), pages.start_request(**start), page(pages, "last")]
    for refuse in (lambda: pages.report(task, starts=starts),
                   lambda: pages.transition(id, "ok", starts=starts)):
        with refused(code, reason, "starts[1]", word):
            refuse()
    item = only(pages.report_all([pages.report_request(task, starts=starts)]).results)
    check_error(item.error, code, reason, "starts[1]")
    assert pages.get(id) == before
    assert len([c for c in pages.changes()[0] if kind(c) != "CLAIMED"]) == head
    assert pages.report(task, starts=starts[:1]).node == "second"


def test_a_refused_report_starts_nothing(pages):
    pages.start("pair")
    task = pages.take("pair")
    with refused("FAILED_PRECONDITION", "ILLEGAL_TRANSITION"):
        pages.report(task, "sideways", starts=[page(pages, "a")])
    pages.report(task)
    with refused("FAILED_PRECONDITION", "STALE_CLAIM"):
        pages.report(task, "error", starts=[page(pages, "a")])
    with refused("NOT_FOUND", "NO_SUCH_INSTANCE"):
        pages.get("a")


def test_a_repeated_report_starts_nothing_again(pages):
    id = pages.start("pair")
    task = pages.take("pair")
    starts = [page(pages, "a"), page(pages), page(pages, "a")]
    first = pages.report(task, starts=starts)
    pages.report(pages.take("pair"))
    for again in (starts, [], [page(pages, "other"), page(pages)],
                  [page(pages, "a", {"url": "y"})], [pages.start_request("nowhere")],
                  [page(pages, params="nonsense")], [page(pages)] * 1001):
        reply = pages.report(task, starts=again)
        assert reply.repeated_report
        assert begun(reply) == begun(first)
    assert len(pages.instances().instances) == 3
    assert len(pages.walk(id)) == 2


def test_a_start_is_in_the_namespace_of_its_report_unless_it_names_another(server, pages):
    other = server.space(pages.name + "-other")
    other.define(PAGE)
    pages.start("pair")
    pages.report(pages.take("pair"), starts=[
        v1.StartRequest(machine="page", id="here"), page(other, "there")])
    assert pages.get("here").namespace == pages.name
    assert other.get("there").namespace == other.name


def test_a_step_of_a_plan_starts_instances_that_nothing_waits_for(pages):
    pages.define("plan: p\nflow: [{step: s, action: x}]\n")
    id = pages.plan("p")
    pages.report(pages.take("p"), starts=[page(pages, "a")])
    pages.ends(id, "SUCCESS")
    assert pages.children(id) == [] and state(pages.get("a")) == "RUNNING"


def test_at_most_a_thousand_are_started(pages):
    pages.start("pair")
    task = pages.take("pair")
    many = [page(pages, f"p{n}") for n in range(1001)]
    with refused("INVALID_ARGUMENT", "TOO_LARGE", "1001"):
        pages.report(task, starts=many)
    item = only(pages.report_all([pages.report_request(task, starts=many)]).results)
    check_error(item.error, "INVALID_ARGUMENT", "TOO_LARGE")
    with refused("INVALID_ARGUMENT", "TOO_LARGE", "1001"):
        pages.call("Report", v1.ReportRequest(
            transitions=[pages.report_request(task, starts=many[:600])], starts=many[600:]))
    reply = pages.report(task, starts=many[:1000])
    assert len(reply.started) == 1000 and all(one.created for one in reply.started)
    assert begun(pages.report(task)) == begun(reply)


# Report and Work ------------------------------------------------------------------------------


def test_report_takes_starts_beside_its_reports_each_alone(pages):
    pages.start("pair")
    task = pages.take("pair")
    reply = pages.call("Report", v1.ReportRequest(
        transitions=[pages.report_request(task, starts=[page(pages, "a")]),
                     pages.report_request(task, "error", starts=[page(pages, "b")])],
        starts=[page(pages, "c"), pages.start_request("nowhere"), page(pages, "a"),
                page(pages, "d", params="[]")],
        next=pages.ready_request("page", max_tasks=10)))
    accepted, stale = reply.results
    assert begun(accepted.accepted) == [("a", True)]
    check_error(stale.error, "FAILED_PRECONDITION", "STALE_CLAIM")
    c, nowhere, a, d = reply.started
    assert (c.started.instance.id, c.started.created) == ("c", True)
    assert (a.started.instance.id, a.started.created) == ("a", False)
    check_error(nowhere.error, "NOT_FOUND", "NO_SUCH_MACHINE")
    check_error(d.error, "INVALID_ARGUMENT", "BAD_PARAMS")
    assert {one.instance for one in reply.tasks} == {"a", "c"}


def test_report_may_hold_nothing_but_starts(pages):
    reply = pages.call("Report", v1.ReportRequest(starts=[page(pages, "a"), page(pages, "a")]))
    assert [(one.started.instance.id, one.started.created) for one in reply.started] == [
        ("a", True), ("a", False)]
    assert not reply.results and not reply.tasks


def test_a_report_on_a_stream_starts_instances(pages):
    pages.start("pair")
    with pages.work(machine="pair", max_tasks=1, worker="w") as stream:
        task = stream.await_tasks(1)[0]
        reply = only(stream.report(task, starts=[page(pages, "a"),
                                                 v1.StartRequest(machine="page", id="b")]))
        assert begun(reply.accepted) == [("a", True), ("b", True)]
        task = stream.await_tasks(2)[1]
        reply = only(stream.report(task, starts=[pages.start_request("nowhere")]))
        check_error(reply.error, "NOT_FOUND", "NO_SUCH_MACHINE", "starts[0]")
    assert pages.get("b").namespace == pages.name


# Crashes --------------------------------------------------------------------------------------


def test_a_repeated_report_is_told_after_a_crash_what_it_has_started(new_server):
    server = new_server().start()
    space = server.space("")
    space.define(PAGE)
    space.define(PAIR)
    space.start("pair")
    task = space.take("pair")
    first = space.report(task, starts=[page(space, "a"), page(space)])
    server.kill()
    server.start()
    again = space.report(task, starts=[page(space, "a"), page(space)])
    assert again.repeated_report and begun(again) == begun(first)
    assert len(space.instances().instances) == 3


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_kill_9_leaves_a_report_and_all_its_starts_or_neither(new_server, seed):
    server = new_server().start()
    space = server.space("")
    space.define(PAGE)
    source = random.Random(seed)
    acknowledged = {}

    def crawl(lane):
        """Each page leads to three others, until the server is gone."""
        channel = space.server.space("")
        try:
            while True:
                for task in channel.ready("page", wait=1, max_tasks=3):
                    starts = [page(channel, f"{task.instance}.{n}") for n in range(3)]
                    reply = channel.report(task, starts=starts)
                    acknowledged[task.instance] = [one.id for one in reply.started]
        except grpc.RpcError:
            pass

    for lane in range(4):
        space.start("page", f"root{lane}")
    for _ in range(3):
        lanes = [threading.Thread(target=crawl, args=(lane,)) for lane in range(4)]
        for lane in lanes:
            lane.start()
        lanes[0].join(source.uniform(0.2, 0.6))
        server.kill()
        for lane in lanes:
            lane.join()
        server.start()
        ids, token = {}, ""
        while True:
            listed = space.instances(page_size=1000, page_token=token)
            ids.update((one.id, one) for one in listed.instances)
            token = listed.next_page_token
            if not token:
                break
        for id, one in ids.items():
            there = [f"{id}.{n}" in ids for n in range(3)]
            ended = state(one) == "STOPPED"
            assert there == [ended] * 3, (id, there, ended)
            assert not ended or result(one) == "SUCCESS"
        for id, started in acknowledged.items():
            assert state(ids[id]) == "STOPPED" and all(one in ids for one in started)
    assert len(acknowledged) > 20
