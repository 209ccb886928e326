"""Traces: to which a start belongs, what workers are told, and the spans that a collector gets."""
import contextlib
import hashlib
import http.server
import json
import re
import subprocess
import threading

import pytest

from stubs import v1
from support import CALL, DSRV, HASTY, JOB, PAIR, eventually, only
from web import Door

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = "00f067aa0ba902b7"
GIVEN = f"00-{TRACE}-{CALLER}-01"
FAMILY = """\
plan: family
hooks: [{on: [running], action: mail}]
flow:
  - {step: each, spawn: {machine: job, for_each: [1, 2]}}
"""


def span_id(space, instance, visit=0, attempt=0):
    whole = f"{space.name}\0{instance}\0{visit}/{attempt}"
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


def parts(traceparent):
    version, trace, parent, flags = traceparent.split("-")
    assert version == "00"
    return trace, parent, flags


WHEN = """\
schedule: s
every: 1h
overlap: allow
start: {machine: job}
---
trigger: t
on: {webhook: {path: t, open: true}}
start: {machine: job}
---
trigger: g
on: {webhook: {path: g, open: true}}
gather: {by: all, count: 2}
start: {machine: job}
"""


# What belongs to which trace ------------------------------------------------------------------


def test_a_start_belongs_to_the_trace_of_its_caller(space):
    space.define(JOB)
    metadata = [("traceparent", GIVEN)]
    space.start("job", "field", traceparent=GIVEN)
    space.runner.Start(space.start_request("job", "header"), metadata=metadata, timeout=CALL)
    other = GIVEN.replace("4bf9", "ffff")
    space.runner.StartBatch(v1.StartBatchRequest(starts=[
        space.start_request("job", "batch"), space.start_request("job", "own", traceparent=other),
    ]), metadata=metadata, timeout=CALL)
    traces = {id: space.get(id).trace for id in ("field", "header", "batch", "own")}
    assert traces == {"field": TRACE, "header": TRACE, "batch": TRACE, "own": other.split("-")[1]}


@pytest.mark.parametrize("malformed", [
    "", "x", GIVEN.upper(), GIVEN + "-x", GIVEN.replace("00-", "ff-", 1), f"00-{'0' * 32}-{CALLER}-01",
    f"00-{TRACE}-{'0' * 16}-01"])
def test_a_malformed_traceparent_is_ignored(space, malformed):
    space.define(JOB)
    id = space.start("job", traceparent=malformed)
    assert space.get(id).trace == "" == space.take().traceparent


def test_what_schedules_and_triggers_start_for_a_call_belongs_to_its_trace(new_server):
    server = new_server("--http", "localhost:0").start()
    door = Door(server)
    door.ok("Define", {"source": JOB})
    door.ok("Define", {"source": WHEN})
    sent = {"headers": {"traceparent": GIVEN}}

    def trace(id):
        return door.ok("GetInstance", {"id": id}).get("trace", "")

    for method, more in (("RunSchedule", {"name": "s"}), ("FireTrigger", {"name": "t"})):
        ran = door.ok(method, more, service="ScheduleService", **sent)
        assert trace(ran["instance"]) == TRACE, method
        ran = door.ok(method, more, service="ScheduleService")
        assert trace(ran["instance"]) == "", method
    # What is gathered belongs to the call that makes it complete.
    other = {"traceparent": GIVEN.replace("4bf9", "ffff")}
    for headers, started in (other, None), (sent["headers"], TRACE):
        reply = door.ask("POST", "/hooks/default/g", "{}",
                         {"content-type": "application/json", **headers})
        assert reply.status == 202, reply
        instance = reply.json.get("instance")
        assert (trace(instance) if instance else None) == started


def test_over_http_it_is_a_header(new_server):
    server = new_server("--http", "localhost:0").start()
    door = Door(server)
    door.ok("Define", {"source": JOB})
    started = door.ok("Start", {"machine": "job", "id": "a"}, headers={"traceparent": GIVEN})
    assert started["instance"]["trace"] == TRACE
    task = only(door.ok("Ready", {"machine": "job"})["tasks"])
    assert parts(task["traceparent"])[0] == TRACE


def test_a_task_names_the_span_of_its_attempt_also_after_a_crash(new_server):
    server = new_server().start()
    space = server.space("default")
    space.define(HASTY)
    space.start("hasty", "i", traceparent=GIVEN)
    first = space.take()
    assert parts(first.traceparent) == (TRACE, span_id(space, "i", 1, 1), "01")
    server.kill()
    server.start()
    assert space.get("i").trace == TRACE
    again = space.take()
    assert parts(again.traceparent)[1] == span_id(space, "i", 1, again.attempt)
    space.report(again)


def test_children_hooks_and_what_reports_start_inherit_it(space):
    space.define(JOB)
    space.define(FAMILY)
    space.start("family", "f", traceparent=GIVEN)
    eventually(lambda: len(space.children("f")) == 2)
    assert {child.trace for child in space.children("f")} == {TRACE}
    mail = space.take(action="mail")
    assert parts(mail.traceparent)[0] == TRACE
    job = space.take("job")
    space.report(job, starts=[v1.StartRequest(machine="job", id="next")])
    assert space.get("next").trace == TRACE
    plain = space.start("job", "plain")
    [task] = [task for task in space.ready("job", max_tasks=10) if task.instance == plain]
    space.report(task, starts=[v1.StartRequest(machine="job", id="after-plain")])
    assert space.get("after-plain").trace == ""


# dcli -----------------------------------------------------------------------------------------


def test_dcli_start_sends_its_own_and_show_prints_it(space, dcli):
    space.define(JOB)
    dcli.ok("start", "job", "--id", "a", environment={"TRACEPARENT": GIVEN})
    assert space.get("a").trace == TRACE
    assert re.search(rf"^Trace +{TRACE}$", dcli.ok("show", "a"), re.MULTILINE)


def test_dcli_work_tells_the_command(space, dcli, tmp_path):
    space.define(JOB)
    space.start("job", "a", traceparent=GIVEN)
    told = tmp_path / "told"
    dcli.ok("work", "job", "--once", "--", "sh", "-c",
            f"echo $TRACEPARENT > {told}; cat >> {told}")
    first, task = told.read_text().splitlines()
    assert parts(first) == (TRACE, span_id(space, "a", 1, 1), "01")
    assert json.loads(task)["traceparent"] == first


@pytest.mark.parametrize("mode", ["task", "serve"])
def test_agents_tell_the_command(space, dcli, tmp_path, mode):
    space.define("plan: p\nflow: [{step: s, action: look}]\n")
    space.plan("p", "a", traceparent=GIVEN)
    told = tmp_path / "told"
    script = tmp_path / "look.sh"
    if mode == "task":
        script.write_text(f"#!/bin/sh\necho $TRACEPARENT > {told}\n")
    else:
        script.write_text(f"""#!/usr/bin/python3
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "task":
        open({str(told)!r}, "w").write(message["task"]["traceparent"])
        print(json.dumps({{"type": "result", "id": message["id"], "transition": "ok"}}), flush=True)
""")
    script.chmod(0o755)
    workers = tmp_path / "workers.yaml"
    workers.write_text(f"workers:\n  look:\n    run: ./look.sh\n    mode: {mode}\n")
    dcli.ok("agent", "--workers", str(workers), "--name", "h1", "--once",
            "--cache", str(tmp_path / "cache"))
    space.ends("a", "SUCCESS")
    trace, parent, _ = parts(told.read_text().strip())
    claimed = only([change for change in space.history("a") if change.kind == v1.Change.CLAIMED])
    assert (trace, parent) == (TRACE, span_id(space, "a", claimed.visit, claimed.attempt))


# The collector --------------------------------------------------------------------------------


class Collector:
    """Takes spans over HTTP, as a collector does. `status` is what it answers."""

    def __init__(self, port=0):
        self.spans = []
        self.batches = []
        self.status = 200
        self.lock = threading.Lock()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                assert self.path == "/v1/traces"
                assert self.headers["content-type"] == "application/json"
                with outer.lock:
                    if outer.status == 200:
                        outer.take(body)
                self.send_response(outer.status)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def take(self, body):
        found = [span for resource in body["resourceSpans"] for scope in resource["scopeSpans"]
                 for span in scope["spans"]]
        self.batches.append(len(found))
        self.spans += found

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def of(self, trace):
        """By their ids, those that came last."""
        with self.lock:
            return {span["spanId"]: span for span in self.spans if span["traceId"] == trace}

    def tree(self, trace, spans, roots=("",)):
        """Waits until it has so many spans, and checks that they are one tree."""
        found = eventually(lambda: len(self.of(trace)) >= spans and self.of(trace), within=15)
        assert len(found) == spans, sorted(span["name"] for span in found.values())
        above = [span.get("parentSpanId", "") for span in found.values()]
        assert sorted(set(above) - set(found)) == sorted(roots)
        assert sum(parent in roots for parent in above) == 1
        return found


def named(spans, name):
    return [span for span in spans.values() if span["name"] == name]


def attributes(span):
    return {one["key"]: next(iter(one["value"].values())) for one in span["attributes"]}


@pytest.fixture
def collector():
    with contextlib.closing(Collector()) as one:
        yield one


def test_an_instance_is_one_tree_of_visits_and_attempts(new_server, collector):
    server = new_server("--otlp", collector.url).start()
    space = server.space("default")
    space.define(PAIR)
    space.start("pair", "i", traceparent=GIVEN)
    told = []
    for _ in range(2):
        task = space.take(worker="w-1")
        told.append(parts(task.traceparent)[1])
        space.report(task)
    spans = collector.tree(TRACE, 6, roots=[CALLER])
    root = only(named(spans, "pair"))
    assert root["spanId"] == span_id(space, "i")
    assert attributes(root) | {"result": "SUCCESS", "machine": "pair", "version": "1"} == attributes(
        root)
    first = only(named(spans, "first"))
    assert attributes(first) | {"node": "first", "transition": "ok"} == attributes(first)
    attempt = only(named(spans, "first attempt"))
    assert attempt["parentSpanId"] == first["spanId"] and attributes(attempt)["worker"] == "w-1"
    assert set(told) == {only(named(spans, name))["spanId"]
                         for name in ("first attempt", "second attempt")}
    for span in spans.values():
        assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
    assert server.stop() == 0


def test_timeouts_and_errors_are_told(new_server, collector):
    server = new_server("--otlp", collector.url).start()
    space = server.space("default")
    space.define(HASTY)
    space.start("hasty", "i", traceparent=GIVEN)
    space.take()
    again = space.take()
    space.report(again, "error", error="no space left")
    spans = collector.tree(TRACE, 5, roots=[CALLER])
    late, failed = sorted(named(spans, "work attempt"), key=lambda one: attributes(one)["attempt"])
    assert attributes(late)["timed_out"] is True and late["status"]["code"] == 2
    assert attributes(failed)["error"] == "no space left"
    assert only(named(spans, "hasty"))["status"]["code"] == 2


def test_a_family_is_one_tree(new_server, collector):
    server = new_server("--otlp", collector.url).start()
    space = server.space("default")
    space.define(JOB)
    space.define(FAMILY)
    space.start("family", "f", traceparent=GIVEN)
    for _ in range(3):
        space.report(space.take())
    space.ends("f", "SUCCESS")
    # The family with its step; each job with its attempt, visit and end; the mail likewise.
    found = eventually(lambda: len(named(collector.of(TRACE), "job")) == 2
                       and named(collector.of(TRACE), "mail") and collector.of(TRACE), within=15)
    spans = eventually(lambda: named(collector.of(TRACE), "family") and collector.of(TRACE))
    above = {span.get("parentSpanId") for span in spans.values()} - set(spans)
    assert above == {CALLER}, found
    step = only(named(spans, "each"))
    assert {job["parentSpanId"] for job in named(spans, "job")} == {step["spanId"]}
    whole = [span for span in named(spans, "mail") if "result" in attributes(span)]
    assert only(whole)["parentSpanId"] == span_id(space, "f")


def test_it_is_one_tree_over_a_kill(new_server, collector):
    server = new_server("--otlp", collector.url).start()
    space = server.space("default")
    space.define(PAIR)
    space.start("pair", "i", traceparent=GIVEN)
    first = space.take()
    space.report(first)
    second = space.take()
    server.kill()  # at once: what has ended was hardly sent
    server.start()
    third = space.take()
    space.report(third)
    found = eventually(lambda: named(collector.of(TRACE), "pair") and collector.of(TRACE), within=15)
    above = {span.get("parentSpanId") for span in found.values()} - set(found)
    assert above == {CALLER}
    assert len(named(found, "first")) == len(named(found, "second")) == 1
    ids = {parts(task.traceparent)[1] for task in (first, third)}
    assert ids <= set(found)
    assert span_id(space, "i", 2, second.attempt) == parts(second.traceparent)[1]


def test_starts_without_a_trace_get_one(new_server, collector):
    server = new_server("--otlp", collector.url).start()
    space = server.space("default")
    space.define(JOB)
    space.start("job", "i")
    trace = space.get("i").trace
    assert re.fullmatch("[0-9a-f]{32}", trace)
    space.report(space.take())
    collector.tree(trace, 4)


def test_none_gets_one_that_is_not_to(new_server, collector):
    server = new_server("--otlp", collector.url, "--trace-sample", "0").start()
    space = server.space("default")
    space.define(JOB)
    space.start("job", "plain")
    space.start("job", "unsampled", traceparent=GIVEN[:-1] + "0")
    space.start("job", "traced", traceparent=GIVEN.replace("4bf9", "ffff"))
    for _ in range(3):
        space.report(space.take())
    assert space.get("plain").trace == "" and space.get("unsampled").trace == TRACE
    collector.tree(TRACE.replace("4bf9", "ffff"), 4, roots=[CALLER])
    assert not collector.of(TRACE) and len(collector.spans) == 4


def test_a_collector_that_was_away_gets_them_later(new_server, collector):
    url, port = collector.url, collector.server.server_address[1]
    collector.close()
    server = new_server("--otlp", url).start()
    space = server.space("default")
    space.define(JOB)
    ids = space.start_many("job", 300)
    done = 0
    while done < len(ids):
        tasks = space.ready("job", max_tasks=100)
        space.report_all([space.report_request(task) for task in tasks])
        done += len(tasks)
    eventually(lambda: "the collector does not take spans" in server.log, within=15)
    with contextlib.closing(Collector(port)) as back:
        back.status = 503  # there, and not ready
        eventually(lambda: "Connection refused" in server.log)
        back.status = 200
        eventually(lambda: len(back.spans) == 1200, within=30)
        assert max(back.batches) <= 512 + 8
        assert len({span["traceId"] for span in back.spans}) == 300
    assert server.stop() == 0
    assert "spans sent 1200 dropped 0" in server.log


def test_what_it_does_not_take_is_dropped_and_counted(new_server, collector):
    collector.status = 400
    server = new_server("--otlp", collector.url).start()
    space = server.space("default")
    space.define(JOB)
    space.start("job", "i")
    space.report(space.take())
    eventually(lambda: "4 spans are dropped in all: it answers HTTP/1.0 400" in server.log, within=15)
    assert server.stop() == 0
    assert "spans sent 0 dropped 4" in server.log


def test_a_stop_sends_what_is_there(new_server, collector):
    server = new_server("--otlp", collector.url).start()
    space = server.space("default")
    space.define(JOB)
    space.start("job", "i", traceparent=GIVEN)
    space.report(space.take())
    assert server.stop() == 0
    collector.tree(TRACE, 4, roots=[CALLER])


@pytest.mark.parametrize("flags, message", [
    (("--otlp", "https://localhost:4318"), "is not an address such as http://localhost:4318"),
    (("--trace-sample", "1.5"), "is not a number from 0 to 1"),
    (("--trace-sample", "nan"), "is not a number from 0 to 1"),
    (("--trace-url", "https://x.example/"), "{trace_id}"),
    (("--trace-url", "javascript:{trace_id}"), "{trace_id}"),
])
def test_bad_flags_are_told(tmp_path, flags, message):
    ended = subprocess.run([DSRV, "--addr", "localhost:0", "--data", tmp_path / "d", *flags],
                           capture_output=True, text=True, timeout=CALL)
    assert ended.returncode == 1 or ended.returncode == 2
    assert message in ended.stderr


def test_the_console_is_told_where_people_see_traces(new_server):
    server = new_server("--http", "localhost:0", "--trace-url",
                        "https://t.example/\"><b>?a=1&id={trace_id}").start()
    page = Door(server).get("/").body.decode()
    wanted = 'name="dfsmr-trace" content="https://t.example/&quot;>&lt;b>?a=1&amp;id={trace_id}"'
    assert wanted in page
