"""Every reason with its code and a message that names the things; limits, clamps, bad input."""
import contextlib
import re

import grpc
import pytest

from stubs import PROTO, v1
from support import (CALL, JOB, LOOP, PAIR, SOON, check_error, health, now, only, refused,
                     state)

# Reasons --------------------------------------------------------------------------------------


def stale(space):
    task = space.take("job")
    space.relinquish(task.instance, task.claim)
    space.report(task)


def stopped(space):
    space.transition("mine", "ok")
    space.transition("mine", "ok")


def superseded(space):
    space.define(JOB + "upgrade_strategy: upgrade\n")
    space.start("job", version=1)


# reason: (code, a call that provokes it on a job "mine" that is ready, what the message names)
PROVOKED = {
    "BAD_MACHINE": ("INVALID_ARGUMENT", lambda s: s.define(JOB.replace("ok: done", "ok: nowhere")),
                    ["nowhere", "nodes.work.transitions.ok"]),
    "BAD_PARAMS": ("INVALID_ARGUMENT", lambda s: s.start("job", params="[1]"), ["object"]),
    "BAD_REQUEST": ("INVALID_ARGUMENT", lambda s: s.ready(max_tasks=-1), ["max_tasks"]),
    "TOO_LARGE": ("INVALID_ARGUMENT", lambda s: s.start("job", id="x" * 257), ["256"]),
    "NO_SUCH_MACHINE": ("NOT_FOUND", lambda s: s.start("nowhere"), ["nowhere"]),
    "NO_SUCH_INSTANCE": ("NOT_FOUND", lambda s: s.get("ghost"), ["ghost"]),
    "NO_SUCH_NODE": ("NOT_FOUND", lambda s: s.transition("mine", "ok", node="nowhere"),
                     ["nowhere"]),
    "INSTANCE_EXISTS": ("ALREADY_EXISTS", lambda s: s.start("job", id="mine", params={"a": 1}),
                        ["mine"]),
    "ILLEGAL_TRANSITION": ("FAILED_PRECONDITION", lambda s: s.transition("mine", "sideways"),
                           ["sideways", "work", "ok", "error"]),
    "STALE_CLAIM": ("FAILED_PRECONDITION", stale, ["mine"]),
    "NOT_HELD": ("FAILED_PRECONDITION", lambda s: s.skip("mine", "work"), ["work"]),
    "INSTANCE_STOPPED": ("FAILED_PRECONDITION", stopped, ["mine"]),
    "SUPERSEDED_VERSION": ("FAILED_PRECONDITION", superseded, ["job", "1"]),
}
# Provoked elsewhere, or out of reach of a client of plain machines.
ELSEWHERE = {
    "CURSOR_EXPIRED": "test_changes",
    "NO_SUCH_SCHEDULE": "test_schedules.py",
    "NO_SUCH_TRIGGER": "test_triggers.py",
    "NO_SUCH_OCCURRENCE": "test_schedules.py",
    "NO_SUCH_GROUP": "test_groups.py",
    "NO_SUCH_AGENT": "test_agents.py",
    "AGENT_EXISTS": "test_agents.py",
    "AGENT_EVICTED": "test_agents.py",
    "BAD_PACKAGE": "test_packages.py",
    "BAD_ARCHIVE": "test_packages.py",
    "DIGEST_MISMATCH": "test_packages.py",
    "BAD_SIGNATURE": "test_trust.py",
    "SIGNATURE_MISMATCH": "test_trust.py",
    "UNTRUSTED_KEY": "test_trust.py",
    "KEY_REVOKED": "test_trust.py",
    "NO_SUCH_KEY": "test_trust.py",
    "KEY_EXISTS": "test_trust.py",
    "NO_SUCH_PACKAGE": "test_packages.py",
    "NO_SUCH_FILE": "test_packages.py",
    "VERSION_EXISTS": "test_packages.py",
    "ID_TAKEN": "test_packages.py",
    "OWNED_BY_PACKAGE": "test_packages.py",
    "PACKAGE_IN_USE": "test_packages.py",
    "ACTIVE_CHANGED": "test_packages.py",
    "NO_PREVIOUS": "test_packages.py",
    "NO_SUCH_LIMIT": "documents of limits",
    "LIMIT_REACHED": "test_schedules.py",
    "NOT_VIRTUAL": "test_clock.py",
    "STORE_FAILED": "test_durability",
    "AMBIGUOUS_NODE": "only plans have several tokens",
    "OVERLOADED": "a full mailbox",
    "CURSOR_AHEAD": "test_changes.py",
    "DISK_FULL": "test_bad_disk.py",
    "NOT_READY": "a moment at the start and the end",
    "PEER_UNREACHABLE": "test_agents.py",
    "NO_OWNER": "test_cluster.py",
    "STORE_UNREACHABLE": "test_cluster.py",
    "OUTCOME_UNKNOWN": "test_cluster.py",
    "BAD_TOKEN": "test_security.py",
    "NOT_ALLOWED": "test_security.py",
    "AUDIT_FAILED": "test_security.py",
    "NO_SUCH_NAMESPACE": "test_namespaces.py",
    "NAMESPACE_EXISTS": "test_namespaces.py",
    "NAMESPACE_FROZEN": "test_namespaces.py",
    "NOT_FROZEN": "test_export.py",
    "NOT_EMBEDDED": "test_cluster.py",
    "NAMESPACE_DELETING": "test_namespaces.py",
    "QUOTA_EXCEEDED": "test_namespaces.py",
    "NO_SUCH_SECRET": "test_secrets.py",
    "SECRETS_LOCKED": "test_secrets.py",
    "INSECURE_CHANNEL": "test_secrets.py",
    "NO_SUCH_METHOD": "test_http.py",
    "NO_SUCH_TOKEN": "test_security.py",
    "BAD_FILTER": "test_views.py",
    "NO_SUCH_BULK": "test_bulk.py",
    "TOO_MANY": "bulks_test.cc",
}


@pytest.mark.parametrize("reason", PROVOKED)
def test_a_refusal_carries_code_reason_and_a_message_that_names_the_things(space, reason):
    code, call, mentions = PROVOKED[reason]
    space.define(JOB)
    space.start("job", id="mine")
    with refused(code, reason, *mentions):
        call(space)


def test_every_reason_of_the_contract_is_covered():
    text = (PROTO / "dfsmr/v1/runner.proto").read_text()
    reasons = text[text.index("// Reasons ("):]
    listed = set(re.findall(r"\b[A-Z]+_[A-Z_]+\b|\bOVERLOADED\b", reasons))
    codes = {"INVALID_ARGUMENT", "NOT_FOUND", "ALREADY_EXISTS", "FAILED_PRECONDITION",
             "OUT_OF_RANGE", "RESOURCE_EXHAUSTED", "PERMISSION_DENIED"}
    assert listed - codes == set(PROVOKED) | set(ELSEWHERE)


def test_a_refusal_changes_nothing(space):
    space.define(JOB)
    space.start("job", id="mine")
    before, history = space.get("mine"), space.history("mine")
    for reason in ("BAD_PARAMS", "NO_SUCH_NODE", "INSTANCE_EXISTS", "ILLEGAL_TRANSITION",
                   "NOT_HELD"):
        with pytest.raises(grpc.RpcError):
            PROVOKED[reason][1](space)
    assert space.get("mine") == before and space.history("mine") == history


# Limits ---------------------------------------------------------------------------------------

MEBIBYTE = 1 << 20


def object_of(size):
    return '{"a":"' + "x" * (size - 8) + '"}'


OVER = {
    "an instance id": lambda s: s.start("job", id="x" * 257),
    "a worker's name": lambda s: s.ready("job", worker="w" * 257),
    "a client's name": lambda s: s.transition("mine", "ok", client="c" * 257),
    "labels": lambda s: s.start("job", labels={f"l{i}": "x" for i in range(65)}),
    "a label's value": lambda s: s.start("job", labels={"l": "x" * 257}),
    "a label's value that is not ASCII": lambda s: s.start("job", labels={"l": "é" * 257}),
    "params": lambda s: s.start("job", params=object_of(MEBIBYTE + 1)),
    "node params": lambda s: s.transition("mine", "ok", node_params=object_of(MEBIBYTE + 1)),
    "an output": lambda s: s.transition("mine", "ok", output=object_of(MEBIBYTE + 1)),
    "a batch of starts": lambda s: s.call("StartBatch", v1.StartBatchRequest(
        starts=[s.start_request("job")] * 1001)),
    "a batch of reports": lambda s: s.report_all([s.transition_request("mine", "ok")] * 1001),
    "a batch of extensions": lambda s: s.extend_all(
        *[v1.ExtendRequest.Item(instance="mine", claim="x")] * 1001),
}


@pytest.mark.parametrize("what", OVER)
def test_what_is_over_a_limit_is_refused_as_too_large(space, what):
    space.define(JOB)
    space.start("job", id="mine")
    with refused("INVALID_ARGUMENT", "TOO_LARGE"):
        OVER[what](space)
    assert only(space.instances().instances).id == "mine"
    assert space.story("mine") == ["STARTED"]


AT = {
    "an instance id": lambda s: s.start("job", id="x" * 256),
    "a worker's name": lambda s: s.ready("job", worker="w" * 256),
    "a worker's name that is not ASCII": lambda s: s.ready("job", worker="é" * 256),
    "a label's value that is not ASCII": lambda s: s.start("job", labels={"l": "é" * 256}),
    "a label's value of two lines": lambda s: s.start("job", labels={"l": "a\n\tb"}),
    "labels": lambda s: s.start("job", labels={f"l{i}": "x" * 256 for i in range(64)}),
    "a label's name": lambda s: s.start("job", labels={"l" * 128: "x"}),
    "params": lambda s: s.start("job", params=object_of(MEBIBYTE)),
    "node params": lambda s: s.transition("mine", "ok", node_params=object_of(MEBIBYTE)),
    "an output": lambda s: s.transition("mine", "ok", output=object_of(MEBIBYTE)),
    "a batch of starts": lambda s: s.call("StartBatch", v1.StartBatchRequest(
        starts=[s.start_request("job")] * 1000)),
    "a page": lambda s: s.instances(page_size=1000),
    "a page far over": lambda s: s.instances(page_size=2_000_000_000),
    "a history page far over": lambda s: s.call("GetHistory", v1.GetHistoryRequest(
        namespace=s.name, id="mine", page_size=2_000_000_000)),
    "a machine page far over": lambda s: s.machines(page_size=2_000_000_000),
    "tasks far over": lambda s: s.ready("nowhere", max_tasks=2_000_000_000),
}


@pytest.mark.parametrize("what", AT)
def test_what_is_at_a_limit_or_clamped_to_it_is_taken(space, what):
    space.define(JOB)
    space.start("job", id="mine")
    AT[what](space)


def test_a_message_over_4_mib_is_refused_by_grpc_without_a_reason(space):
    space.define(JOB)
    with refused("RESOURCE_EXHAUSTED", "") as caught:
        space.call("StartBatch", v1.StartBatchRequest(
            starts=[space.start_request("job", params=object_of(900_000))] * 5))
    assert caught[0].reason == ""
    assert not space.instances().instances


def test_lists_and_histories_of_large_things_come_in_pages_that_a_client_can_receive(space):
    space.define(LOOP)
    for i in range(8):
        space.start("loop", id=f"big{i}", params=object_of(900_000))
    seen, token = [], ""
    while True:
        page = space.instances(page_size=8, page_token=token)
        seen += [i.id for i in page.instances]
        token = page.next_page_token
        if not token:
            break
    assert sorted(seen) == [f"big{i}" for i in range(8)]
    for _ in range(7):
        space.transition("big0", "again", node_params=object_of(900_000))
    assert len(space.walk("big0")) == 7


def test_the_reply_to_a_batch_fits_a_message_when_the_batch_did(space):
    space.define(JOB)
    params = object_of(4_050)
    starts = [space.start_request("job", params=params) for _ in range(1000)]
    results = space.call("StartBatch", v1.StartBatchRequest(starts=starts), timeout=30).results
    assert all(result.started.created for result in results)
    assert results[0].started.instance.params == params
    assert space.get(results[-1].started.instance.id).params == params


def test_the_reply_to_a_repeated_batch_fits_a_message_whatever_has_come_since(space):
    space.define(LOOP)
    starts = [space.start_request("loop", id=f"i{i}") for i in range(6)]
    space.call("StartBatch", v1.StartBatchRequest(starts=starts))
    for i in range(6):
        space.transition(f"i{i}", "again", node_params=object_of(1_000_000))
    again = space.call("StartBatch", v1.StartBatchRequest(starts=starts)).results
    assert [(one.started.instance.id, one.started.created) for one in again] == [
        (f"i{i}", False) for i in range(6)]


def test_a_list_of_machines_passes_one_whose_nodes_do_not_fit_a_message(space):
    steps = "".join(f"\n- {{step: {'s' * 100}{i}, action: x}}" for i in range(7_000))
    space.define("plan: large\nflow:" + steps)
    space.define(JOB)
    large, small = space.machines().machines[::-1]
    assert (small.id, large.id) == ("job", "large")
    assert small.nodes and not large.nodes and large.source


# Bad requests ---------------------------------------------------------------------------------

BAD = {
    "a negative page of instances": lambda s: s.instances(page_size=-1),
    "a negative page of machines": lambda s: s.machines(page_size=-1),
    "a negative page of history": lambda s: s.call("GetHistory", v1.GetHistoryRequest(
        namespace=s.name, id="mine", page_size=-1)),
    "a malformed page token": lambda s: s.instances(page_token="!!"),
    "a malformed token of machines": lambda s: s.machines(page_token="!!"),
    "a malformed token of history": lambda s: s.call("GetHistory", v1.GetHistoryRequest(
        namespace=s.name, id="mine", page_token="!!")),
    "an unknown state": lambda s: s.instances(state=99),
    "an unknown result": lambda s: s.instances(result=99),
    "an unknown cancel mode": lambda s: s.call("Cancel", v1.CancelRequest(
        namespace=s.name, instance="mine", mode=99)),
    "an unknown kind": lambda s: list(s.runner.Changes(v1.ChangesRequest(
        namespace=s.name, kinds=[99], after="0"), timeout=SOON)),
    "a negative wait": lambda s: s.ready("job", wait=-1.0),
    "negative max_tasks": lambda s: s.ready("job", max_tasks=-1),
    "negative max_tasks in a report": lambda s: s.report_all([], machine="job", max_tasks=-1),
    "an id with a space": lambda s: s.start("job", id="a b"),
    "an id with a line break": lambda s: s.start("job", id="a\nb"),
    "an id that is not ASCII": lambda s: s.start("job", id="zähler"),
    "a label with a malformed name": lambda s: s.start("job", labels={"a b": "x"}),
    "a label without a name": lambda s: s.start("job", labels={"": "x"}),
    "a reserved label": lambda s: s.start("job", labels={"dfsmr.x": "x"}),
    "a start without a machine": lambda s: s.start(""),
    "a machine with a malformed name": lambda s: s.start("a b"),
    "a transition without a name": lambda s: s.transition("mine", ""),
    "a transition without an instance": lambda s: s.transition("", "ok"),
    "a malformed namespace": lambda s: s.server.space("a b").ready("job"),
    "a client with a line break": lambda s: s.transition("mine", "ok", client="a\nb"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_request_that_makes_no_sense_is_refused(space, what):
    space.define(JOB)
    space.start("job", id="mine")
    with refused("INVALID_ARGUMENT", "BAD_REQUEST"):
        BAD[what](space)
    assert space.story("mine") == ["STARTED"]


@pytest.mark.parametrize("id", ["a", "A-b_c.d/e:f@g", "~!#$%&'()*+,;<=>?[]^`{|}", "x" * 256])
def test_instance_ids_are_printable_ascii_without_space(space, id):
    space.define(JOB)
    space.start("job", id=id)
    assert space.get(id).id == id
    assert space.take("job").instance == id


def test_a_timestamp_that_is_none_is_refused(space):
    space.define(JOB)
    request = space.start_request("job")
    request.start_at.nanos = -5
    with refused("INVALID_ARGUMENT", "BAD_REQUEST", "start_at"):
        space.call("Start", request)


def test_errors_inside_replies_have_code_reason_and_message(space):
    space.define(PAIR)
    id = space.start("pair")
    error = only(space.report_all([space.transition_request(id, "sideways")]).results).error
    check_error(error, "FAILED_PRECONDITION", "ILLEGAL_TRANSITION", "sideways", "first", "ok")


def test_a_call_whose_deadline_has_passed_harms_nobody(space):
    space.define(JOB)
    for _ in range(20):
        with contextlib.suppress(grpc.RpcError):
            space.call("Start", space.start_request("job"), timeout=0.0001)
    began = now()
    id = space.start("job")
    assert state(space.get(id)) == "RUNNING" and now() - began < SOON


def test_bytes_that_are_no_message_are_refused(server, space):
    call = server.channel.unary_unary("/dfsmr.v1.RunnerService/Start",
                                      request_serializer=lambda message: message,
                                      response_deserializer=lambda message: message)
    with pytest.raises(grpc.RpcError):
        call(b"\xff\xff\xff\xff", timeout=CALL)
    space.define(JOB)
    assert space.start("job")


# Health and reflection ------------------------------------------------------------------------


@pytest.mark.parametrize("service", ["", "dfsmr.v1.RunnerService"])
def test_health_is_serving(server, service):
    assert health(server.channel, service) == "SERVING"


def test_health_of_an_unknown_service_is_not_found(server):
    with refused("NOT_FOUND"):
        health(server.channel, "no.such.Service")


def services_of(server):
    """ServerReflectionRequest.list_services is field 7."""
    call = server.channel.stream_stream(
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        request_serializer=lambda message: message, response_deserializer=lambda message: message)
    return next(call(iter([b"\x3a\x00"]), timeout=CALL))


def test_reflection_lists_both_services(server):
    reply = services_of(server)
    assert b"dfsmr.v1.RunnerService" in reply and b"DistributedFSMRunner" in reply


def test_reflection_may_be_left_out(new_server):
    server = new_server("--no-reflection").start()
    with refused("UNIMPLEMENTED"):
        services_of(server)


# Texts that are cut ---------------------------------------------------------------------------

NUMBERS = """\
id: numbers
params: {type: object, additionalProperties: {type: number}}
nodes: {a: {start: true, transitions: {ok: z}}, z: {final: true}}
---
action: count
input: {type: object, additionalProperties: {type: number}}
---
plan: counted
flow: [{step: a, action: count, input: "${params.m}"}]
"""


@pytest.mark.parametrize("before", ["", "x", "xx"])
def test_a_message_is_cut_between_two_characters(space, before):
    key = before + "日" * 60
    bad = f'{{"{key}": "no"}}'
    space.define(NUMBERS)
    good, refused_one = space.call("StartBatch", v1.StartBatchRequest(starts=[
        space.start_request("numbers", id="good"),
        space.start_request("numbers", params=bad)])).results
    assert good.started.created and refused_one.error.reason == "BAD_PARAMS"
    assert before + "日" in refused_one.error.message
    # What is stored is readable, too.
    space.start("counted", "i", params=f'{{"m": {bad}}}')
    assert not space.ready(action="count", wait=0.5)
    assert "日" in only(space.get("i").tokens).error
    assert space.instances().instances and space.history("i") and space.changes("0")[0]


def test_an_item_that_is_no_json_is_refused_alone(space):
    space.define(JOB)
    ids = space.start_many("job", 2)
    tasks = space.ready("job", max_tasks=2)
    bad, good = space.report_all([space.report_request(tasks[0], output='{"a": é}'),
                                  space.report_request(tasks[1])]).results
    check_error(bad.error, "INVALID_ARGUMENT", "BAD_PARAMS", "is not JSON")
    assert not good.HasField("error") and state(space.get(ids[1])) == "STOPPED"
    stale_one = only(space.report_all([space.transition_request(ids[0], "ok", claim="é" * 41)]).results)
    check_error(stale_one.error, "FAILED_PRECONDITION", "STALE_CLAIM", "é")
