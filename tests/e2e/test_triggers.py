"""Triggers: what changes, polls and calls by hand make of a real server, also one that is killed."""
import json
import random
import threading

import grpc
import pytest

from stubs import schedule, v1
from support import CALL, eventually, fresh_name, only, refused, result

MACHINES = """\
id: build
nodes:
  work: {start: true, transitions: {ok: done, bad: broken}}
  done: {final: true}
  broken: {final: true, result: error}
---
id: deploy
nodes:
  work: {start: true, transitions: {ok: done, bad: broken}}
  done: {final: true}
  broken: {final: true, result: error}
---
"""
AFTER = """\
trigger: after
on: {change: {kind: finished, machine: build, result: success, labels: {branch: main}}}
if: {value: "${item.instance.params.env}", in: [test, prod]}
start: {machine: deploy, id: "d-${item.instance.id}", params: {commit: "${item.instance.params.commit}"}}
"""


class Triggers:
    """The trigger calls of a namespace."""

    def __init__(self, space):
        self.space = space

    def call(self, method, request):
        return getattr(self.space.server.schedules, method)(request, timeout=CALL)

    def get(self, name):
        return self.call("GetTrigger",
                         schedule.GetTriggerRequest(namespace=self.space.name, name=name))

    def list(self, **more):
        return self.call("ListTriggers",
                         schedule.ListTriggersRequest(namespace=self.space.name, **more))

    def fire(self, name, item, on=""):
        return self.call("FireTrigger", schedule.FireTriggerRequest(
            namespace=self.space.name, name=name, on=on, item=json.dumps(item)))

    def pause(self, name, paused=True, **more):
        return self.call("SetPaused", schedule.SetPausedRequest(
            namespace=self.space.name, trigger=name, paused=paused, **more)).trigger

    def history(self, name, **more):
        """Oldest first."""
        reply = self.call("ListOccurrences", schedule.ListOccurrencesRequest(
            namespace=self.space.name, trigger=name, page_size=1000, **more))
        return list(reversed(reply.occurrences))

    def retry(self, name, *ids, **more):
        return self.call("RetryOccurrences", schedule.RetryOccurrencesRequest(
            namespace=self.space.name, trigger=name, ids=ids, **more))

    def delete(self, name):
        return self.call("DeleteDefinition", schedule.DeleteDefinitionRequest(
            namespace=self.space.name, trigger=name))


@pytest.fixture
def triggers(space):
    space.define(MACHINES)
    return Triggers(space)


def outcome(occurrence):
    return schedule.Occurrence.Outcome.Name(occurrence.outcome)


def state(trigger):
    return schedule.Schedule.State.Name(trigger.state)


def run(space, id, params=None, transition="ok", **more):
    space.start("build", id, params, **more)
    space.transition(id, transition)


def deployed(triggers):
    return sorted(one.id for one in triggers.space.instances(machine="deploy").instances)


# Changes --------------------------------------------------------------------------------------


def test_a_change_starts_what_its_filters_and_its_condition_let_through(triggers):
    space = triggers.space
    run(space, "early", {"env": "prod", "commit": "0"}, labels={"branch": "main"})
    space.define(AFTER)
    main = {"branch": "main"}
    run(space, "a", {"env": "prod", "commit": "1"}, labels=main)
    run(space, "b", {"env": "prod", "commit": "2"}, labels={"branch": "dev"})
    run(space, "c", {"env": "prod", "commit": "3"}, "bad", labels=main)
    run(space, "d", {"env": "home", "commit": "4"}, labels=main)
    run(space, "e", {"env": "test", "commit": "5"}, labels=main)
    eventually(lambda: len(triggers.history("after")) == 2)
    assert deployed(triggers) == ["d-a", "d-e"]
    started = space.get("d-a")
    assert json.loads(started.params) == {"commit": "1"}
    assert (started.cause, started.depth) == ("trigger:after", 1)
    trigger = triggers.get("after")
    assert (trigger.filtered, trigger.lag, trigger.running) == (1, 0, 2)
    assert state(trigger) == "ACTIVE" and trigger.cursor and trigger.machine == "deploy"
    assert trigger.last.instance == "d-e"
    item = json.loads(triggers.history("after", with_items=True)[0].item)
    assert item["kind"] == "FINISHED" and item["instance"]["labels"] == main
    told = [one for one in space.changes()[0] if one.kind == v1.Change.OCCURRED]
    assert [(one.cause, one.outcome, one.occurrence, one.instance) for one in told] == [
        ("trigger:after", "STARTED", "1", "d-a"), ("trigger:after", "STARTED", "2", "d-e")]


def test_a_paused_trigger_stands_and_goes_on_or_skips(triggers):
    space = triggers.space
    space.define("trigger: t\non: {change: {kind: finished, machine: build}}\n"
                 'start: {machine: deploy, id: "d-${item.instance.id}"}\n')
    paused = triggers.pause("t", note="lunch")
    assert (state(paused), paused.note) == ("PAUSED", "lunch") and paused.paused_by
    run(space, "a")
    assert deployed(triggers) == [] and triggers.get("t").lag > 0
    triggers.pause("t", False)
    eventually(lambda: deployed(triggers) == ["d-a"])
    triggers.pause("t")
    run(space, "b")
    triggers.pause("t", False, skip_missed=True)
    run(space, "c")
    eventually(lambda: deployed(triggers) == ["d-a", "d-c"])


def test_dead_letters_are_tried_again_or_dropped(triggers):
    space = triggers.space
    space.define('trigger: t\non: {change: {kind: finished, machine: build}}\n'
                 'start: {machine: deploy, params: {c: "${item.instance.params.c}"}}\n')
    run(space, "a")
    run(space, "b")
    eventually(lambda: triggers.get("t").failed == 2)
    first = triggers.history("t")[0]
    assert outcome(first) == "FAILED" and "params.c" in first.error and first.tries == 1
    assert [one.name for one in triggers.list(failed=True).triggers] == ["t"]
    space.define('trigger: t\non: {change: {kind: finished, machine: build}}\n'
                 'start: {machine: deploy, params: {c: "${item.instance.id}"}}\n')
    reply = triggers.retry("t", "1", "7")
    assert outcome(reply.results[0].occurrence) == "STARTED"
    assert reply.results[0].occurrence.tries == 2
    assert reply.results[1].error.reason == "NO_SUCH_OCCURRENCE"
    assert triggers.retry("t", "1").results[0].error.reason == "NOT_HELD"
    dropped = triggers.retry("t", all=True, drop=True)
    assert [outcome(one.occurrence) for one in dropped.results] == ["DROPPED"]
    assert triggers.get("t").failed == 0


def test_what_is_not_there_is_refused(triggers):
    with refused("NOT_FOUND", "NO_SUCH_TRIGGER", "nowhere"):
        triggers.get("nowhere")
    with refused("NOT_FOUND", "NO_SUCH_TRIGGER"):
        triggers.fire("nowhere", {})
    triggers.space.define(AFTER)
    with refused("INVALID_ARGUMENT", "BAD_REQUEST", "other"):
        triggers.fire("after", {}, on="other")
    triggers.delete("after")
    with refused("NOT_FOUND", "NO_SUCH_TRIGGER"):
        triggers.pause("after")


@pytest.mark.parametrize("source, place, word", [
    ("trigger: t\non: {change: {knd: finished}}\nstart: {machine: build}\n", "2:15", "kind"),
    ("trigger: t\non: {poll: {action: a, every: 100ms}}\nstart: {machine: build}\n", "2:31", "1s"),
    ("trigger: t\non: {change: {}}\nstart: {machine: biuld}\n", "3:18", "build"),
    ("trigger: t\non: {webhook: {path: x}}\nstart: {machine: build}\n", "2:6", "proves"),
])
def test_what_is_wrong_is_told_with_its_place(triggers, source, place, word):
    with pytest.raises(grpc.RpcError) as error:
        triggers.space.define(source)
    assert f"source:{place}:" in error.value.details() and word in error.value.details()


def test_each_kind_of_change_can_be_listened_to(triggers):
    kinds = [name.lower() for name in v1.Change.Kind.keys()
             if name != "KIND_UNSPECIFIED"]
    triggers.space.define("trigger: t\non: {change: {kind: [" + ", ".join(kinds) + "]}}\n"
                          "start: {machine: deploy}\n")
    assert kinds[-1] in triggers.get("t").summary


def test_what_an_agent_does_is_an_item(triggers):
    space = triggers.space
    space.define('trigger: t\non: {change: {kind: refused, machine: build}}\n'
                 'start: {machine: deploy, id: "d-${item.instance.id}", '
                 'params: {why: "${item.note}"}}\n')
    space.start("build", "a")
    task = space.take("build")
    space.call("Relinquish", v1.RelinquishRequest(
        namespace=space.name, instance="a", claim=task.claim, refused=True, reason="no disk"))
    eventually(lambda: deployed(triggers) == ["d-a"])
    assert "no disk" in space.get("d-a").params


@pytest.mark.parametrize("more, source, place", [
    ("", "on: {change: {}}\nstart: {machine: build, version: 2}\n", "3:34"),
    ("action: a\ninput: {type: object, required: [n]}\n---\n",
     "on: {change: {}}\nstart: {machine: a, params: {m: 1}}\n", "6:21"),
    ("action: a\ninput: {type: object, required: [n]}\n---\n",
     "on: {poll: {action: a, every: 1s, input: {m: 1}}}\nstart: {machine: build}\n", "5:35"),
    ("action: a\ninput: {type: object, properties: {n: {}}, additionalProperties: false}\n---\n",
     "on: {poll: {action: a, every: 1s, input: {n: 1}}}\nstart: {machine: build}\n", "5:35"),
])
def test_what_would_never_start_is_refused(triggers, more, source, place):
    with pytest.raises(grpc.RpcError) as error:
        triggers.space.define(f"{more}trigger: t\n{source}")
    assert f"source:{place}:" in error.value.details(), error.value.details()


# By hand, gatherings --------------------------------------------------------------------------


def test_items_by_hand_are_gathered_and_duplicates_dropped(triggers):
    triggers.space.define("""\
trigger: g
on: {webhook: {path: g, open: true}}
dedupe: "${item.id}"
gather: {count: 3}
start: {machine: deploy, params: {items: "${items}", key: "${trigger.key}"}}
""")
    outcomes = [outcome(triggers.fire("g", {"id": n})) for n in (1, 2, 2, 3)]
    assert outcomes == ["GATHERED", "GATHERED", "DUPLICATE", "STARTED"]
    [one] = triggers.history("g")
    assert one.count == 3 and one.kind == schedule.Occurrence.MANUAL
    assert json.loads(triggers.space.get("g-1").params)["items"] == [{"id": n} for n in (1, 2, 3)]
    trigger = triggers.get("g")
    assert (trigger.duplicates, trigger.gathered, trigger.open_gatherings) == (1, 3, 0)
    assert trigger.webhook_path == f"/hooks/{triggers.space.name}/g"


# Polls ----------------------------------------------------------------------------------------


def test_a_poll_is_an_instance_for_ordinary_workers(triggers):
    space = triggers.space
    space.define("""\
trigger: orders
on: {poll: {action: shop.new_orders, every: 1s, input: {shop: 7}}}
start: {machine: deploy, id: "order-${item.number}", params: "${item}"}
""")
    task = only(space.ready(action="shop.new_orders", wait=5))
    assert task.instance == "orders/poll/1"
    assert json.loads(task.node_params) == {"shop": 7, "cursor": None}
    space.report(task, output={"items": [{"number": 1}, {"number": 2}], "cursor": [2]})
    eventually(lambda: deployed(triggers) == ["order-1", "order-2"])
    task = only(space.ready(action="shop.new_orders", wait=5))
    assert task.instance == "orders/poll/2"
    assert json.loads(task.node_params) == {"shop": 7, "cursor": [2]}
    space.report(task)
    task = only(space.ready(action="shop.new_orders", wait=5))
    with refused("NOT_FOUND", "NO_SUCH_INSTANCE"):
        space.get("orders/poll/2")
    space.report(task, output={"items": "none"})
    eventually(lambda: triggers.get("orders").poll_failures == 1)
    trigger = triggers.get("orders")
    assert trigger.poll_cursor == "[2]" and "items" in trigger.poll_error
    assert result(space.get("orders/poll/3")) == "SUCCESS"


POLLS = """\
trigger: t
on: {poll: {action: ACTION, every: 1h}}
start: {machine: deploy, id: "d-${item.n}"}
"""


@pytest.mark.parametrize("how", ["skip", "delete", "action"])
def test_a_poll_that_is_not_wanted_any_more_is_cancelled(triggers, how):
    space = triggers.space
    first, then = fresh_name("look"), fresh_name("look")
    space.define(POLLS.replace("ACTION", first))
    task = only(space.ready(action=first, wait=5))
    assert task.instance == "t/poll/1"
    if how == "skip":
        triggers.pause("t")
        triggers.pause("t", False, skip_missed=True)
        then = first
    elif how == "delete":
        triggers.delete("t")
        assert result(space.get("t/poll/1")) == "CANCELLED"
        space.define(POLLS.replace("ACTION", first))
        then = first
    else:
        space.define(POLLS.replace("ACTION", then))
    assert result(space.get("t/poll/1")) == "CANCELLED"
    if how == "delete":
        task = only(space.ready(action=then, wait=5))
        assert task.instance == "t/poll/2"
    running = space.instances(cause="trigger:t", state=v1.Instance.RUNNING).instances
    assert not [one for one in running if one.id == "t/poll/1"]


def test_an_item_has_the_kind_of_a_failure(triggers):
    space = triggers.space
    space.define("""\
id: src
nodes:
  work: {start: true, transitions: {ok: done, error: failed}}
  done: {final: true}
  failed: {final: true, result: error}
---
trigger: t
on: {change: {kind: transitioned, machine: src}}
if: {value: "${item.errorKind}", equals: disk}
start: {machine: deploy, id: "d-${item.error_kind}"}
""")
    space.start("src", "a")
    space.report(space.take("src"), "error", error_kind="disk")
    eventually(lambda: deployed(triggers) == ["d-disk"])


def test_failures_of_a_trigger_that_sends_are_counted_in_a_row(triggers):
    space = triggers.space
    space.define("""\
id: counter
nodes:
  count: {start: true, transitions: {tick: count, ok: done}}
  done: {final: true}
---
trigger: t
on: {webhook: {path: p, open: true}}
send: {instance: "${item.to}", transition: tick}
stop_on_fail: 2
""")
    space.start("counter", "c")
    for to, outcome_of in (("none", "FAILED"), ("c", "SENT"), ("none", "FAILED")):
        assert outcome(triggers.fire("t", {"to": to})) == outcome_of
    assert state(triggers.get("t")) == "ACTIVE"
    triggers.fire("t", {"to": "none"})
    assert state(triggers.get("t")) == "PAUSED"


def test_dead_letters_that_fail_again_come_behind_the_others(triggers):
    space = triggers.space
    look = fresh_name("look")
    space.define(f"trigger: t\non: {{poll: {{action: {look}, every: 1s}}}}\n"
                 'start: {machine: deploy, id: "${item.none}"}\n')
    for first, count in ((0, 1_000), (1_000, 5)):
        task = only(space.ready(action=look, wait=5))
        space.report(task, output={"items": [{"n": first + n} for n in range(count)]})
        eventually(lambda: triggers.get("t").failed == first + count, 30)
    tried = set()
    for _ in range(2):
        reply = triggers.retry("t", all=True)
        assert reply.more and len(reply.results) == 1_000
        tried |= {one.occurrence.id for one in reply.results}
    assert len(tried) == 1_005


# kill -9 --------------------------------------------------------------------------------------


def test_each_change_is_taken_once_and_in_order_over_kills(new_server):
    server = new_server().start()
    space = server.space(fresh_name("kills"))
    triggers = Triggers(space)
    space.define(MACHINES)
    space.define("trigger: t\non: {change: {kind: finished, machine: build}}\n"
                 'start: {machine: deploy, id: "d-${item.instance.id}"}\n')
    stop = threading.Event()

    def load():
        number = 0
        while not stop.is_set():
            number += 1
            try:
                space.start("build", f"b{number}")
                space.transition(f"b{number}", "ok")
            except (grpc.RpcError, ValueError):
                pass

    for _ in range(5):
        stop.clear()
        thread = threading.Thread(target=load)
        thread.start()
        stop.wait(random.uniform(0.2, 1.0))
        server.kill()
        stop.set()
        thread.join()
        server.start()
    eventually(lambda: triggers.get("t").lag == 0, 20)
    finished = [one.instance for one in space.changes()[0]
                if one.kind == v1.Change.FINISHED and one.machine == "build"]
    taken, token = [], ""
    while True:
        page = triggers.call("ListOccurrences", schedule.ListOccurrencesRequest(
            namespace=space.name, trigger="t", page_size=1000, page_token=token))
        taken += page.occurrences
        token = page.next_page_token
        if not token:
            break
    taken.reverse()
    assert len(finished) > 10
    assert [one.instance for one in taken] == [f"d-{one}" for one in finished]
    assert {outcome(one) for one in taken} == {"STARTED"}


# dcli -----------------------------------------------------------------------------------------


def test_dcli_lists_fires_pauses_and_deletes(triggers, dcli):
    triggers.space.define("trigger: push\non: {webhook: {path: p, open: true}}\n"
                          'start: {machine: deploy, params: {a: "${item.a}"}}\n')
    head = dcli.ok("triggers").splitlines()
    assert head[0].split() == ["TRIGGER", "VERSION", "STATE", "ON", "LAST", "OUTCOME", "FAILED",
                               "LAG"]
    assert "webhook p" in head[1]
    assert "STARTED" in dcli.ok("triggers", "fire", "push", "--item", '{"a": 1}')
    failed = dcli("triggers", "fire", "push", "--item", "{}")
    assert failed.returncode == 1 and "FAILED" in failed.stdout
    assert "push-1" in dcli.ok("triggers", "history", "push", "--outcome", "started")
    for action in "retry", "drop":
        not_failed = dcli("triggers", action, "push", "1")
        assert not_failed.returncode == 1
        assert "dcli triggers history push --outcome failed" in not_failed.stderr
        assert "dcli show" not in not_failed.stderr
    assert "PAUSED" in dcli.ok("triggers", "pause", "push", "--note", "why")
    assert "why" in dcli.ok("triggers", "push")
    assert "ACTIVE" in dcli.ok("triggers", "resume", "push", "--skip")
    assert "DROPPED" in dcli.ok("triggers", "drop", "push", "--all")
    assert dcli("triggers", "fire").returncode == 2
    dcli.ok("triggers", "delete", "push")
    assert dcli("triggers", "push").returncode == 1
