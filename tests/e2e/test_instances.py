"""Start, StartBatch, GetInstance, ListInstances, GetHistory; schedules and retention."""
import json

import pytest

from stubs import v1
from support import (JOB, PAIR, SOON, check_error, eventually, from_json, kind, now, only, refused,
                     result, seconds, state, together, token_state)

GRADES = """\
id: grades
nodes:
  work: {start: true, transitions: {ok: good, meh: so_so, error: bad}}
  good: {final: true}
  so_so: {final: true, result: warning}
  bad: {final: true, result: error}
"""


# Start ----------------------------------------------------------------------------------------


def test_a_started_instance_stands_ready_on_the_start_node(space):
    space.define(JOB)
    began = now()
    reply = space.begin("job", params={"url": "x"}, priority=7, labels={"team": "a"})
    instance = reply.instance
    assert reply.created
    assert (instance.namespace, instance.machine, instance.version) == (space.name, "job", 1)
    assert (state(instance), result(instance)) == ("RUNNING", "PENDING")
    token = only(instance.tokens)
    assert (token.node, token.visit, token_state(token), token.attempt) == ("work", 1, "READY", 0)
    assert (instance.priority, dict(instance.labels)) == (7, {"team": "a"})
    assert abs(seconds(instance.start_time) - began) < SOON
    assert not instance.HasField("end_time")
    assert space.get(instance.id) == instance


def test_the_server_makes_an_id_when_none_is_given(space):
    space.define(JOB)
    ids = {space.start("job") for _ in range(20)}
    assert len(ids) == 20
    assert all(0 < len(id) <= 256 and id.isascii() and " " not in id for id in ids)


def test_params_are_kept_byte_for_byte(space):
    space.define(JOB)
    text = '{"b":1,  "a": 1.10,"big":12345678901234567890.5e-3, "u":"\\u00e4ä", "b2":[ 1 ,2]}'
    id = space.start("job", params=text)
    assert space.get(id).params == text
    assert space.take("job").instance_params == text


def test_params_of_a_mebibyte_are_kept(space):
    space.define(JOB)
    text = '{"a":"' + "x" * ((1 << 20) - 8) + '"}'
    assert len(text) == 1 << 20
    id = space.start("job", params=text)
    assert space.get(id).params == text


def test_empty_params_are_an_empty_object(space):
    space.define(JOB)
    id = space.start("job")
    assert from_json(space.get(id).params) == {}
    assert from_json(space.take("job").instance_params) == {}


@pytest.mark.parametrize("params", ["{", "[1]", '"text"', "7", "null", "{} {}", "{'a': 1}",
                                    '{"a": NaN}', '{"a": 1,}'])
def test_params_that_are_no_json_object_are_refused(space, params):
    space.define(JOB)
    with refused("INVALID_ARGUMENT", "BAD_PARAMS"):
        space.start("job", params=params)
    assert not space.instances().instances


def test_numbers_of_any_size_are_taken_and_kept_as_they_are_written(space):
    space.define(JOB)
    params = '{"a": 1e400, "b": [-1E+999, ' + "7" * 400 + "]}"
    id = space.start("job", params=params)
    task = space.take("job")
    assert task.instance_params == params and space.get(id).params == params
    space.call("Transition", v1.TransitionRequest(
        namespace=space.name, instance=id, claim=task.claim, transition="ok",
        output='{"n": 1e400}'))
    assert space.get(id).outputs["work"] == '{"n": 1e400}'


SCHEMA = """\
id: strict
params:
  type: object
  required: [url]
  definitions: {link: {type: string, pattern: '^https?:'}}
  properties: {url: {$ref: '#/definitions/link'}, depth: {type: integer, default: 3}}
nodes:
  work: {start: true, transitions: {ok: done}}
  done: {final: true}
"""


@pytest.mark.parametrize("params, word", [
    ({}, "url"), ({"url": 5}, "url"), ({"url": "ftp:x"}, "url"),
    ({"url": "http:x", "depth": "deep"}, "depth")])
def test_params_that_break_the_schema_are_refused_by_name(space, params, word):
    space.define(SCHEMA)
    with refused("INVALID_ARGUMENT", "BAD_PARAMS", word):
        space.start("strict", params=params)


def test_params_that_keep_the_schema_are_taken_and_defaults_are_not_applied(space):
    space.define(SCHEMA)
    id = space.start("strict", params={"url": "http:x"})
    assert from_json(space.get(id).params) == {"url": "http:x"}


def test_starting_a_machine_that_is_not_there_is_refused(space):
    with refused("NOT_FOUND", "NO_SUCH_MACHINE", "nowhere"):
        space.start("nowhere")
    space.define(JOB)
    with refused("NOT_FOUND", "NO_SUCH_MACHINE", "job", "9"):
        space.start("job", version=9)


def test_a_flow_has_no_version(space):
    space.define(JOB)
    flow = "[{step: a, action: x}]"
    with refused("INVALID_ARGUMENT", "BAD_REQUEST", "version", "flow"):
        space.start("job", version=1, flow=flow)
    with refused("INVALID_ARGUMENT", "BAD_REQUEST", "version", "flow"):
        space.start("", version=7, flow=flow)
    assert space.get(space.start("job", flow=flow)).version == 0


def test_an_older_version_may_be_started_under_continue(space):
    space.define(JOB)
    space.define(JOB + "description: new\n")
    assert space.get(space.start("job", version=1)).version == 1
    assert space.get(space.start("job")).version == 2


def test_the_same_start_again_is_answered_with_the_instance_that_exists(space):
    space.define(JOB)
    first = space.begin("job", id="mine", params='{"a": 1, "b": [2]}', labels={"x": "1"})
    again = space.begin("job", id="mine", params='{"b":[2],"a":1}', priority=9,
                        labels={"y": "2"})
    assert first.created and not again.created
    assert again.instance == first.instance
    assert space.story("mine") == ["STARTED"]


def test_empty_params_equal_an_empty_object_in_a_repeated_start(space):
    space.define(JOB)
    assert space.begin("job", id="mine").created
    assert not space.begin("job", id="mine", params="{ }").created


def test_the_same_start_again_is_answered_also_when_the_instance_has_stopped(space):
    space.define(JOB)
    space.start("job", id="mine")
    space.report(space.take("job"))
    again = space.begin("job", id="mine")
    assert not again.created and state(again.instance) == "STOPPED"


@pytest.mark.parametrize("machine, params", [("job", {"a": 2}), ("job", None), ("pair", {"a": 1})])
def test_the_same_id_with_another_machine_or_params_exists_already(space, machine, params):
    space.define(JOB + "---\n" + PAIR)
    space.start("job", id="mine", params={"a": 1})
    with refused("ALREADY_EXISTS", "INSTANCE_EXISTS", "mine"):
        space.start(machine, id="mine", params=params)


def test_params_of_the_same_start_are_compared_to_the_last_digit(space):
    space.define(JOB)
    space.start("job", id="mine", params='{"a":100000000000000000001,"b":0.1}')
    same = space.begin("job", id="mine", params='{"b":1e-1,"a":1.00000000000000000001E20}')
    assert not same.created
    for params in ('{"a":100000000000000000002,"b":0.1}',
                   '{"a":100000000000000000001,"b":0.10000000000000000001}'):
        with refused("ALREADY_EXISTS", "INSTANCE_EXISTS"):
            space.start("job", id="mine", params=params)


def test_ids_are_apart_in_different_namespaces(server, space):
    other = server.space(space.name + "-other")
    for where in (space, other):
        where.define(JOB)
        assert where.begin("job", id="mine").created


def test_of_the_same_start_from_many_sides_one_creates(space):
    space.define(JOB)
    replies = together(*[lambda: space.begin("job", id="mine", params={"a": 1})] * 12)
    assert sorted(reply.created for reply in replies) == [False] * 11 + [True]
    assert len(space.ready("job", max_tasks=20)) == 1


def test_a_machine_whose_start_is_final_stops_at_once(space):
    space.define("id: nothing\nnodes: {only: {start: true, final: true}}\n")
    instance = space.begin("nothing").instance
    assert (state(instance), result(instance)) == ("STOPPED", "SUCCESS")
    assert space.story(instance.id) == ["STARTED", "FINISHED"]


def test_what_a_reply_told_is_seen_at_once_everywhere(space):
    space.define(JOB)
    for number in range(20):
        id = space.start("job", labels={"n": str(number)})
        assert state(space.get(id)) == "RUNNING"
        assert only(space.instances(labels={"n": str(number)}).instances).id == id
        assert space.story(id) == ["STARTED"]
        assert kind(only(space.changes("0", instance=id)[0])) == "STARTED"
        space.report(only(space.ready("job")))
        assert only(space.instances(labels={"n": str(number)},
                                    state=v1.Instance.STOPPED).instances).id == id
        assert space.story(id) == ["STARTED", "TRANSITIONED", "FINISHED"]


# StartBatch -----------------------------------------------------------------------------------


def test_each_start_of_a_batch_succeeds_or_fails_alone_and_in_order(space):
    space.define(JOB)
    space.start("job", id="there", params={"a": 1})
    reply = space.call("StartBatch", v1.StartBatchRequest(starts=[
        space.start_request("job", id="one"),
        space.start_request("nowhere", id="two"),
        space.start_request("job", id="there", params={"a": 2}),
        space.start_request("job", id="one"),
        space.start_request("job", id="three", params="["),
        space.start_request("job", id="four"),
    ]))
    one, two, there, again, three, four = reply.results
    assert one.started.created and one.started.instance.id == "one"
    check_error(two.error, "NOT_FOUND", "NO_SUCH_MACHINE", "nowhere")
    check_error(there.error, "ALREADY_EXISTS", "INSTANCE_EXISTS", "there")
    assert not again.started.created and again.started.instance.id == "one"
    check_error(three.error, "INVALID_ARGUMENT", "BAD_PARAMS")
    assert four.started.instance.id == "four"
    assert {i.id for i in space.instances().instances} == {"there", "one", "four"}


def test_a_batch_may_have_a_thousand_items(space):
    space.define(JOB)
    assert len(set(space.start_many("job", 1000))) == 1000


# What becomes of an instance ------------------------------------------------------------------


@pytest.mark.parametrize("transition, outcome", [("ok", "SUCCESS"), ("meh", "WARNING"),
                                                 ("error", "ERROR")])
def test_an_instance_stops_with_the_result_of_its_final_node(space, transition, outcome):
    space.define(GRADES)
    id = space.start("grades")
    reply = space.report(space.take("grades"), transition)
    assert v1.Instance.State.Name(reply.state) == "STOPPED"
    assert v1.Instance.Result.Name(reply.result) == outcome
    instance = space.get(id)
    assert (state(instance), result(instance)) == ("STOPPED", outcome)
    assert seconds(instance.end_time) >= seconds(instance.start_time)


def test_a_stopped_instance_keeps_one_done_token_where_it_ended(space):
    space.define(GRADES)
    id = space.start("grades")
    space.report(space.take("grades"), "meh")
    token = space.token(id)
    assert (token.node, token_state(token)) == ("so_so", "DONE")


def test_outputs_hold_the_last_value_of_each_node(space):
    space.define(PAIR)
    id = space.start("pair")
    space.report(space.take("pair", "first"), "ok", output='{"n":  1}')
    space.report(space.take("pair", "second"), "back", output={"from": "second"})
    space.report(space.take("pair", "first"), "ok", output='{"n":  2}')
    outputs = space.get(id).outputs
    assert outputs["first"] == '{"n":  2}'
    assert json.loads(outputs["second"]) == {"from": "second"}


def test_what_went_wrong_is_kept_and_shown(space):
    space.define(GRADES)
    id = space.start("grades")
    space.report(space.take("grades"), "error", error="the disk is full")
    assert "the disk is full" in space.get(id).error


def test_an_instance_with_nodes_shows_its_own_graph(space):
    space.define(JOB)
    id = space.start("job")
    space.define(JOB.replace("done", "finished"))
    assert not space.get(id).nodes
    nodes = {n.id for n in space.get(id, with_nodes=True).nodes if n.kind != "system"}
    assert nodes == {"work", "done", "failed"}


def test_an_instance_that_is_not_there_is_not_found(space):
    for call in (lambda: space.get("ghost"), lambda: space.history("ghost")):
        with refused("NOT_FOUND", "NO_SUCH_INSTANCE", "ghost"):
            call()


# History --------------------------------------------------------------------------------------


def test_a_history_tells_all_that_happened_in_order(space):
    space.define(PAIR)
    id = space.start("pair", params={"a": 1})
    space.report(space.take("pair", worker="w1"), "ok", node_params={"n": 2}, client="w1")
    space.report(space.take("pair", worker="w2"), "ok")

    def complete():
        return [kind(c) for c in space.history(id)] == [
            "STARTED", "CLAIMED", "TRANSITIONED", "CLAIMED", "TRANSITIONED", "FINISHED"]

    eventually(complete)
    started, claimed, moved, _, left, finished = space.history(id)
    for change in (started, claimed, moved, left, finished):
        assert (change.namespace, change.machine, change.version, change.instance) == (
            space.name, "pair", 1, id)
    assert (started.node, started.visit) == ("first", 1)
    assert (claimed.node, claimed.visit, claimed.attempt) == ("first", 1, 1)
    assert claimed.client == "w1"
    assert (moved.prev_node, moved.transition, moved.node, moved.visit) == (
        "first", "ok", "second", 2)
    assert json.loads(moved.params) == {"n": 2}
    assert moved.client == "w1"
    assert (left.prev_node, left.transition, left.node) == ("second", "ok", "done")
    assert finished.node == "done"
    seqs = [change.seq for change in space.history(id)]
    assert seqs == sorted(set(seqs)) and seqs[0] >= 1


def test_a_history_comes_in_pages(space):
    space.define(PAIR)
    id = space.start("pair")
    for _ in range(5):
        space.report(space.take("pair", "first"))
        space.report(space.take("pair", "second"), "back")
    whole = [c.seq for c in space.history(id) if kind(c) != "CLAIMED"]
    seen, token = [], ""
    while True:
        page = space.call("GetHistory", v1.GetHistoryRequest(
            namespace=space.name, id=id, page_size=3, page_token=token))
        assert len(page.changes) <= 3
        seen += [c.seq for c in page.changes if kind(c) != "CLAIMED"]
        token = page.next_page_token
        if not token:
            break
    assert seen == whole and len(whole) == 11


# Lists ----------------------------------------------------------------------------------------


@pytest.fixture
def population(space):
    """a: done, b: failed, c: on second, d: on first, e: paused, f: held back, g: of another."""
    space.define(PAIR + "---\n" + JOB)
    for id in "abcde":
        space.start("pair", id=id, labels={"id": id, "vowel": str(id in "ae")})
    space.start("pair", id="f", hold=True)
    space.start("job", id="g")
    for id in "abc":
        space.transition(id, "ok" if id != "b" else "error")
    space.transition("a", "ok")
    space.pause("e")
    return space


@pytest.mark.parametrize("filters, expected", [
    ({}, "abcdefg"),
    ({"machine": "pair"}, "abcdef"),
    ({"machine": "nowhere"}, ""),
    ({"node": "first"}, "de"),
    ({"node": "second"}, "c"),
    ({"machine": "pair", "node": "done"}, "a"),
    ({"state": "RUNNING"}, "cdg"),
    ({"state": "PAUSED"}, "e"),
    ({"state": "SCHEDULED"}, "f"),
    ({"state": "STOPPED"}, "ab"),
    ({"result": "SUCCESS"}, "a"),
    ({"result": "ERROR"}, "b"),
    ({"result": "PENDING"}, "cdefg"),
    ({"labels": {"vowel": "True"}}, "ae"),
    ({"labels": {"vowel": "True", "id": "e"}}, "e"),
    ({"labels": {"vowel": "True"}, "state": "STOPPED"}, "a"),
    ({"parent": "a"}, ""),
])
def test_a_list_holds_what_all_filters_let_through(population, filters, expected):
    for name, enum in (("state", v1.Instance.State), ("result", v1.Instance.Result)):
        if name in filters:
            filters = {**filters, name: enum.Value(filters[name])}
    found = {i.id for i in population.instances(**filters).instances}
    if filters.get("node") == "first":
        found -= {"f"}  # where a scheduled instance stands is nobody's business
    assert found == set(expected)


def test_a_list_comes_in_pages_with_all_of_it_once(space):
    space.define(JOB)
    ids = space.start_many("job", 25)
    seen, token = [], ""
    while True:
        page = space.instances(page_size=10, page_token=token)
        assert len(page.instances) <= 10
        seen += [i.id for i in page.instances]
        token = page.next_page_token
        if not token:
            break
    assert sorted(seen) == sorted(ids)


def test_a_page_has_100_instances_unless_asked_and_1000_at_most(space):
    space.define(JOB)
    space.start_many("job", 1010)
    assert len(space.instances().instances) == 100
    page = space.instances(page_size=50_000)
    assert len(page.instances) == 1000 and page.next_page_token


def test_a_page_token_holds_for_the_same_filters_only(space):
    space.define(JOB + "---\n" + PAIR)
    for _ in range(3):
        space.start("job")
        space.start("pair")
    token = space.instances(machine="job", page_size=1).next_page_token
    assert len(space.instances(machine="job", page_size=5, page_token=token).instances) == 2
    with refused("INVALID_ARGUMENT", "BAD_REQUEST"):
        space.instances(machine="pair", page_size=1, page_token=token)


def test_a_page_token_holds_however_the_default_namespace_is_called(server):
    space = server.space("default")
    space.define("id: paged\nnodes: {a: {start: true, transitions: {ok: b}}, b: {final: true}}")
    for i in range(3):
        space.start("paged", id=f"paged{i}")
    seen, token = [], ""
    for namespace in ("", "default", ""):
        page = server.runner.ListInstances(v1.ListInstancesRequest(
            namespace=namespace, machine="paged", page_size=1, page_token=token))
        seen.append(only(page.instances).id)
        token = page.next_page_token
    assert sorted(seen) == ["paged0", "paged1", "paged2"]


# Schedules ------------------------------------------------------------------------------------


def test_a_start_at_in_the_past_means_now(space):
    space.define(JOB)
    for when in (now() - 3600, 0.0, -1.0, -62_000_000_000.0):
        assert state(space.begin("job", start_at=when).instance) == "RUNNING"
        assert len(space.ready("job")) == 1


def test_an_instance_waits_for_its_time(space):
    space.define(JOB)
    at = now() + 0.5
    instance = space.begin("job", start_at=at).instance
    assert state(instance) == "SCHEDULED"
    assert abs(seconds(instance.start_at) - at) < 0.001
    assert not space.ready("job")
    task = space.take("job")
    assert now() >= at - 0.01
    assert task.instance == instance.id and state(space.get(instance.id)) == "RUNNING"
    assert space.story(instance.id) == ["SCHEDULED", "STARTED"]


@pytest.mark.parametrize("times", [
    {"start_before": -10}, {"start_at": 100, "start_before": 50}])
def test_a_start_before_that_cannot_be_kept_is_refused(space, times):
    space.define(JOB)
    with refused("INVALID_ARGUMENT", "BAD_REQUEST", "start_before"):
        space.start("job", **{name: now() + ahead for name, ahead in times.items()})


def test_an_instance_that_could_not_start_in_time_stops_with_an_error(space):
    space.define(JOB)
    id = space.start("job", hold=True, start_before=now() + 0.4)
    space.await_change("FINISHED", instance=id)
    instance = space.get(id)
    assert (state(instance), result(instance)) == ("STOPPED", "ERROR")
    assert instance.error
    assert "STARTED" not in space.story(id)


def test_start_before_does_not_touch_what_has_started(space):
    space.define(JOB)
    at = now() + 0.3
    id = space.start("job", start_before=at)
    assert state(space.get(id)) == "RUNNING"
    space.ready("nowhere", wait=at + 0.2 - now())
    assert state(space.get(id)) == "RUNNING"


def test_a_held_instance_is_due_once_it_is_resumed(space):
    space.define(JOB)
    id = space.start("job", hold=True)
    assert state(space.get(id)) == "SCHEDULED"
    assert not space.ready("job")
    space.resume(id)
    assert space.take("job").instance == id


def test_a_scheduled_instance_can_be_cancelled(space):
    space.define(JOB)
    id = space.start("job", start_at=now() + 3600)
    space.cancel(id)
    instance = space.get(id)
    assert (state(instance), result(instance)) == ("STOPPED", "CANCELLED")


def test_an_instance_waits_for_the_success_of_those_it_comes_after(space):
    space.define(JOB)
    space.start("job", id="one")
    space.start("job", id="two")
    space.start("job", id="last", after=[v1.After(instance="one"), v1.After(instance="two")])
    assert state(space.get("last")) == "SCHEDULED"
    one, two = space.ready("job", max_tasks=10)
    space.report(one)
    assert not space.ready("job")
    space.report(two)
    assert space.take("job").instance == "last"


def test_an_instance_may_wait_for_any_result(space):
    space.define(JOB)
    space.start("job", id="one")
    space.start("job", id="last", after=[v1.After(instance="one", any_result=True)])
    space.report(space.take("job"), "error")
    assert space.take("job").instance == "last"


def test_an_instance_does_not_start_after_a_failure(space):
    space.define(JOB)
    space.start("job", id="one")
    space.start("job", id="last", after=[v1.After(instance="one")])
    space.report(space.take("job"), "error")
    assert not space.ready("job", wait=0.3)
    assert "STARTED" not in space.story("last")


# Retention ------------------------------------------------------------------------------------


def test_a_stopped_instance_is_forgotten_after_its_retention_and_its_id_is_free(space):
    space.define(JOB + "retention: 250ms\n")
    space.start("job", id="mine", params={"a": 1})
    space.start("job", id="stays")
    first = space.take("job")
    space.report(first)

    def gone():
        return not [i for i in space.instances().instances if i.id == first.instance]

    eventually(gone, within=20)
    with refused("NOT_FOUND", "NO_SUCH_INSTANCE", first.instance):
        space.get(first.instance)
    with refused("NOT_FOUND", "NO_SUCH_INSTANCE", first.instance):
        space.history(first.instance)
    assert space.begin("job", id=first.instance, params={"b": 2}).created
    assert state(space.get("stays")) == "RUNNING"
