"""GET /metrics: its names, its values against the feed, who sees what, its two text forms, its
price; and the rules of dsrv/ops by promtool."""
import collections
import gzip
import json
import os
import re
import shutil
import subprocess
import time

import grpc
import pytest

from cluster_families import CLUSTER
from stubs import v1
from support import JOB, REPOSITORY, eventually, fresh_name, kind, refused
from test_packages import archive
from test_trust import Trust
from web import Door

PROMTOOL = shutil.which("promtool")
OPS = REPOSITORY / "dsrv/ops"
OPEN = "application/openmetrics-text; version=1.0.0"
SECRET = "the-first-admin-of-this-test-server-0123456789"

# Its names, and the labels of their samples: as they were promised.
M, N = "namespace machine", "namespace machine node"
FAMILIES = {
    "starts_total": ("counter", M), "finishes_total": ("counter", f"{M} result"),
    "instances": ("gauge", f"{M} state"),
    "transitions_total": ("counter", f"{N} transition"),
    "claims_total": ("counter", f"{N} attempt"), "timeouts_total": ("counter", N),
    "errors_total": ("counter", N), "tokens": ("gauge", f"{N} state"),
    "task_seconds": ("histogram", N), "task_wait_seconds": ("histogram", N),
    "task_timeout_seconds": ("gauge", N),
    "ready_tasks": ("gauge", f"{M} queue"), "ready_oldest_seconds": ("gauge", f"{M} queue"),
    "asking": ("gauge", f"{M} queue"),
    "breaker_state": ("gauge", f"{M} state"), "breaker_opens_total": ("counter", M),
    "retry_ratio": ("gauge", M), "retries_held_back": ("gauge", M),
    "calls_total": ("counter", "door method code"), "call_seconds": ("histogram", ""),
    "calls_open": ("gauge", ""), "refusals_total": ("counter", "reason"),
    "turns_total": ("counter", ""), "turn_records": ("histogram", ""),
    "mailbox_depth": ("gauge", ""), "mailbox_wait_seconds": ("histogram", ""),
    "stage_cpu_seconds_total": ("counter", "stage"),
    "commits_total": ("counter", ""), "commit_seconds": ("histogram", ""),
    "fsync_seconds": ("histogram", ""), "commit_bytes_total": ("counter", ""),
    "commit_rows_total": ("counter", "op"),
    "store_bytes": ("gauge", "kind"), "store_stalled": ("gauge", ""),
    "disk_free_bytes": ("gauge", ""), "room": ("gauge", "state"),
    "feed_first_seq": ("gauge", ""), "feed_last_seq": ("gauge", ""),
    "feed_watchers": ("gauge", "class"), "feed_lag_records": ("gauge", "class"),
    "feed_lag_seconds": ("gauge", "class"),
    "bulk_instances_total": ("counter", "action outcome"), "http_connections": ("gauge", ""),
    "http_closed_total": ("counter", "why"), "otlp_spans_total": ("counter", "outcome"),
    "build_info": ("gauge", "version"), "tls_expiry_timestamp_seconds": ("gauge", ""),
    "audit_failed": ("gauge", ""), "metrics_folded": ("gauge", ""),
    # Of schedules and triggers, limits, agents, backups.
    "occurrences_total": ("counter", "namespace source outcome"),
    "occurrence_delay_seconds": ("histogram", ""),
    "trigger_lag_records": ("gauge", "namespace source"),
    "dead_letters": ("gauge", "namespace source"),
    "limit_held": ("gauge", "namespace limit"), "limit_waiting": ("gauge", "namespace limit"),
    "agents": ("gauge", "namespace state"), "agent_slots": ("gauge", "namespace"),
    "agent_operations": ("gauge", "namespace"), "claims_refused_total": ("counter", N),
    "claims_unbegun_total": ("counter", N), "attempts_abandoned_total": ("counter", N),
    "package_bytes": ("gauge", "namespace"), "packages_blocked": ("gauge", "namespace"),
    "package_activations_total": ("counter", "namespace package outcome"),
    "log_lines_total": ("counter", ""), "log_lines_left_out_total": ("counter", ""),
    "log_bytes": ("gauge", ""),
    "backup_timestamp_seconds": ("gauge", ""), "backup_bytes": ("gauge", ""),
    "backup_failures_total": ("counter", ""),
}
PROCESS = {"cpu_seconds_total", "start_time_seconds", "virtual_memory_bytes",
           "resident_memory_bytes", "open_fds", "max_fds"}


class Scrape:
    """One answer, taken apart: {name: type} and {(name, labels): value}."""

    def __init__(self, reply):
        assert reply.status == 200, reply
        self.reply = reply
        body = reply.body
        if reply.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        self.text = body.decode()
        self.types = dict(re.findall(r"(?m)^# TYPE (\S+) (\S+)$", self.text))
        self.values = {}
        for line in self.text.splitlines():
            if line.startswith("#"):
                continue
            name, labels, value = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line).groups()
            pairs = tuple(sorted(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or "")))
            assert (name, pairs) not in self.values, line
            self.values[name, pairs] = float(value)

    def get(self, name, **labels):
        return self.values.get((name, tuple(sorted(labels.items()))))

    def all(self, name, **labels):
        """The samples of a name that have these labels, and maybe more."""
        return {pairs: value for (one, pairs), value in self.values.items()
                if one == name and labels.items() <= dict(pairs).items()}

    def sum(self, name, **labels):
        return sum(self.all(name, **labels).values())


def scrape(door, **headers):
    return Scrape(door.get("/metrics", **headers))


def settled(door, holds):
    """The first scrape for which `holds`: one shows what was there up to a second before."""
    return eventually(lambda: (lambda one: one if holds(one) else None)(scrape(door)), 10)


def promtool(*arguments, text=None):
    if not PROMTOOL:
        lacking = "promtool of the package prometheus is missing"
        assert os.environ.get("DFSMR_PROMTOOL") != "1", lacking
        pytest.skip(f"metrics are not checked by promtool: {lacking}")
    run = subprocess.run([PROMTOOL, *map(str, arguments)], input=text, capture_output=True,
                         text=True, timeout=60)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout + run.stderr


@pytest.fixture
def door(web_server):
    return Door(web_server)


@pytest.fixture
def there(web_server):
    return web_server.space(fresh_name("metrics"))


# Names ----------------------------------------------------------------------------------------


def test_every_name_has_its_type_and_its_labels(door, there):
    there.define(JOB)
    there.start("job")
    there.report(there.take())
    shown = settled(door, lambda one: one.sum("dfsmr_starts_total", namespace=there.name) == 1)
    wanted = {f"dfsmr_{name}": family for name, (family, _) in FAMILIES.items()}
    wanted |= {f"process_{name}": "counter" if name.endswith("_total") else "gauge"
               for name in PROCESS}
    assert shown.types == wanted
    for name, (family, labels) in FAMILIES.items():
        sample = f"dfsmr_{name}" + ("_count" if family == "histogram" else "")
        for pairs in shown.all(sample):
            assert {label for label, _ in pairs} == set(labels.split()), name
    for name in PROCESS:
        assert shown.get(f"process_{name}") > 0, name


def test_the_text_is_what_promtool_takes(door, there):
    there.define(JOB)
    there.start("job")
    there.report(there.take())
    promtool("check", "metrics", text=scrape(door).text)


def test_gzip_and_openmetrics_are_for_those_who_accept_them(door):
    plain = scrape(door)
    assert plain.reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "content-encoding" not in plain.reply.headers
    packed = scrape(door, accept_encoding="gzip")
    assert packed.reply.headers["content-encoding"] == "gzip"
    assert packed.types == plain.types
    both = scrape(door, accept=OPEN, accept_encoding="gzip")
    assert both.reply.headers["content-type"] == f"{OPEN}; charset=utf-8"
    assert both.text.endswith("\n# EOF\n")
    assert both.types["dfsmr_starts"] == "counter"
    assert "dfsmr_starts_total" not in both.types
    assert {name for name, _ in both.values} == {name for name, _ in plain.values}
    assert door.ask("HEAD", "/metrics").status == 200
    assert door.ask("POST", "/metrics").status == 405


# Values ---------------------------------------------------------------------------------------

HASTY = """\
id: hasty
nodes:
  quick: {start: true, timeout_strategy: fixed, timeout: 3.0, transitions: {ok: slow, error: failed}}
  slow: {transitions: {ok: done, error: failed}}
  done: {final: true}
  failed: {final: true, result: error}
"""


def test_the_values_are_those_of_the_feed(door, there):
    there.define(HASTY)
    for i in range(40):
        there.start("hasty", id=f"i{i}")
    tasks = [there.take(node="quick") for _ in range(40)]
    for i, task in enumerate(tasks[:35]):
        there.report(task, "error" if i % 5 == 0 else "ok")
    # Five time out and are taken again.
    again = [there.take(node="quick") for _ in range(5)]
    for task in again:
        there.report(task)
    for i in range(31):
        there.report(there.take(node="slow"), "error" if i < 3 else "ok")
    with pytest.raises(Exception):
        there.start("nothing")
    told, _ = there.changes()
    counts = collections.Counter()
    for change in told:
        if kind(change) == "STARTED":
            counts["starts"] += 1
        elif kind(change) == "FINISHED":
            counts["finish", change.note.split(":")[0].lower()] += 1
        elif kind(change) == "TRANSITIONED":
            counts["transition", change.prev_node, change.transition] += 1
            counts["errors", change.prev_node] += change.transition == "error"
        elif kind(change) == "CLAIMED":
            counts["claim", change.node, "retry" if change.attempt > 1 else "first"] += 1
        elif kind(change) == "TIMED_OUT":
            counts["timeout", change.prev_node] += 1
    assert counts["timeout", "quick"] == 5
    own = {"namespace": there.name, "machine": "hasty"}
    one = settled(door, lambda one: one.sum("dfsmr_finishes_total", **own) == 38)
    assert one.get("dfsmr_starts_total", **own) == counts["starts"] == 40
    for result in ("success", "warning", "error", "cancelled", "aborted"):
        assert one.get("dfsmr_finishes_total", **own, result=result) == counts["finish", result]
    for node in ("quick", "slow"):
        for name in ("ok", "error"):
            shown = one.get("dfsmr_transitions_total", **own, node=node, transition=name)
            assert shown == counts["transition", node, name], (node, name)
        for attempt in ("first", "retry"):
            shown = one.get("dfsmr_claims_total", **own, node=node, attempt=attempt)
            assert shown == counts["claim", node, attempt], (node, attempt)
        assert one.get("dfsmr_timeouts_total", **own, node=node) == counts["timeout", node]
        assert one.get("dfsmr_errors_total", **own, node=node) == counts["errors", node]
        reports = sum(value for key, value in counts.items() if key[:2] == ("transition", node))
        assert one.get("dfsmr_task_seconds_count", **own, node=node) == reports
        claims = sum(value for key, value in counts.items() if key[:2] == ("claim", node))
        assert one.get("dfsmr_task_wait_seconds_count", **own, node=node) == claims
    assert one.get("dfsmr_instances", **own, state="running") == 2
    assert one.get("dfsmr_instances", **own, state="stopped") == 38
    assert one.get("dfsmr_tokens", **own, node="slow", state="ready") == 2
    assert one.get("dfsmr_ready_tasks", **own, queue="default") == 2
    assert one.get("dfsmr_ready_oldest_seconds", **own, queue="default") > 0
    assert one.get("dfsmr_task_timeout_seconds", **own, node="quick") == 3
    assert one.get("dfsmr_breaker_state", **own, state="closed") == 1
    assert one.get("dfsmr_refusals_total", reason="no_such_machine") >= 1
    start = {"method": "dfsmr.v1.RunnerService/Start", "door": "grpc"}
    assert one.get("dfsmr_calls_total", **start, code="ok") >= 40
    assert one.get("dfsmr_calls_total", **start, code="not_found") >= 1
    assert one.get("dfsmr_commits_total") == one.get("dfsmr_commit_seconds_count") > 0
    assert 0 < one.get("dfsmr_fsync_seconds_count") <= one.get("dfsmr_commits_total") + 2
    assert one.get("dfsmr_turn_records_sum") >= len(told)
    assert one.get("dfsmr_feed_last_seq") >= len(told)
    assert one.get("dfsmr_room", state="ample") == 1
    assert one.get("dfsmr_mailbox_wait_seconds_count") > 80
    assert one.sum("dfsmr_store_bytes") > 0


def test_schedules_limits_and_bulks_are_counted(door, there):
    door.ok("Define", {"namespace": there.name, "source": JOB.replace(
        "id: job", "id: job\nlimit: 'host/${params.h}'")})
    door.ok("Define", {"namespace": there.name, "source":
                       "schedule: s\nevery: 1h\noverlap: allow\n"
                       "start: {machine: job, params: {h: a}}\n"})
    for _ in range(2):
        door.ok("RunSchedule", {"namespace": there.name, "name": "s"}, service="ScheduleService")
    there.start("job", params={"h": "a"})
    there.start("job", params={"h": "b"})
    own = {"namespace": there.name}
    one = settled(door, lambda one: one.sum("dfsmr_starts_total", **own) == 2)
    source = {**own, "source": "schedule:s"}
    assert one.get("dfsmr_occurrences_total", **source, outcome="started") == 2
    assert one.get("dfsmr_dead_letters", **source) == 0
    # One of a, where the default is that one may run, and one of b.
    assert one.get("dfsmr_limit_held", **own, limit="host") == 2
    assert one.get("dfsmr_limit_waiting", **own, limit="host") == 2
    assert not one.all("dfsmr_limit_held", **own, limit="host/a")
    done = there.bulk("PAUSE", "machine:job")
    assert done.changed > 0
    one = settled(door, lambda one: one.sum("dfsmr_bulk_instances_total", action="pause") > 0)
    changed = one.get("dfsmr_bulk_instances_total", action="pause", outcome="changed")
    assert changed == done.changed


def test_packages_are_counted(door, there):
    trust = Trust(there)
    first, second = archive("1.0.0"), archive("2.0.0")
    trust.put(first)
    trust.put(second)
    trust.activate("1.0.0")
    trust.activate("1.0.0")
    trust.activate("2.0.0", validate_only=True)
    trust.activate("2.0.0", percent=10)
    trust.activate("2.0.0")
    trust.activate(rollback=True)
    with refused("NOT_FOUND", "NO_SUCH_PACKAGE"):
        trust.activate("3.0.0")
    with refused("NOT_FOUND", "NO_SUCH_PACKAGE"):
        trust.activate("1.0.0", name="made-up")
    own = {"namespace": there.name}
    asked = {"activated": 2, "unchanged": 1, "candidate": 1, "rolled_back": 1, "refused": 1}
    one = settled(door, lambda one: one.sum("dfsmr_package_activations_total", **own) == 6)
    for outcome, count in asked.items():
        assert one.get("dfsmr_package_activations_total", **own, package="p",
                       outcome=outcome) == count, outcome
    assert one.get("dfsmr_package_bytes", **own) == len(first) + len(second)
    assert one.get("dfsmr_packages_blocked", **own) == 0
    trust.require(force=True)
    settled(door, lambda one: one.get("dfsmr_packages_blocked", **own) == 1)
    trust.require(False)
    trust.deactivate()
    trust.remove("2.0.0")
    one = settled(door, lambda one: one.get("dfsmr_package_bytes", **own) == len(first))
    assert one.get("dfsmr_packages_blocked", **own) == 0
    assert one.get("dfsmr_package_activations_total", **own, package="p",
                   outcome="deactivated") == 1


def test_a_call_over_http_counts_as_such(door, there):
    there.define(JOB)
    door.ok("GetMachine", {"namespace": there.name, "id": "job"})
    method = "dfsmr.v1.RunnerService/GetMachine"
    settled(door, lambda one: one.get("dfsmr_calls_total", door="http", method=method, code="ok"))
    assert not scrape(door).all("dfsmr_calls_total", door="grpc", method=method)


def test_a_call_counts_as_its_caller_saw_it_end(door, there):
    there.define(JOB)
    method = "dfsmr.v1.RunnerService/Ready"

    def counts(code):
        return settled(door, lambda one: one.get("dfsmr_calls_total", door="grpc", method=method,
                                                 code=code))
    with pytest.raises(grpc.RpcError):
        there.runner.Ready(there.ready_request("job", wait=60), timeout=0.2)
    counts("deadline_exceeded")
    call = there.runner.Ready.future(there.ready_request("job", wait=60))
    eventually(lambda: scrape(door).get("dfsmr_calls_open") > 0)
    call.cancel()
    counts("cancelled")


def test_who_follows_the_feed_is_counted_by_class(door, there):
    there.define(JOB)
    with door.stream("GET", f"/v1/changes?namespace={there.name}") as stream:
        assert stream.status == 200
        settled(door, lambda one: one.get("dfsmr_feed_watchers", **{"class": "http"}) == 1)
    settled(door, lambda one: one.get("dfsmr_feed_watchers", **{"class": "http"}) == 0)


def test_who_asks_for_work_is_counted(door, there):
    there.define(JOB)
    there.start("job")
    there.report(there.take())
    waits = there.later("Ready", there.ready_request(wait=5))
    own = {"namespace": there.name, "machine": "job", "queue": "default"}
    settled(door, lambda one: one.get("dfsmr_asking", **own) == 1)
    waits.cancel()
    settled(door, lambda one: one.get("dfsmr_asking", **own) == 0)


def test_who_asks_where_there_was_no_work_yet_is_counted_too(door, there):
    there.define(JOB)
    own = {"namespace": there.name, "machine": "job", "queue": "default"}
    waits = there.later("Ready", there.ready_request("job", wait=20))
    other = there.later("Ready", there.ready_request("other", wait=20))
    settled(door, lambda one: one.get("dfsmr_asking", **own) == 1)
    waits.cancel()
    settled(door, lambda one: one.get("dfsmr_asking", **own) == 0)
    other.cancel()


def test_a_step_of_a_plan_is_named_as_written_with_a_star_for_what_repeats_it(door, there):
    there.define("""\
action: check
---
plan: vm
flow:
  - {step: boot, action: check}
---
plan: fleet
flow:
  - {step: first, action: check}
  - concurrence:
      for_each: "${params.hosts}"
      as: host
      do:
        - {step: host, action: check}
        - {step: vm, plan: vm}
""")
    there.start("fleet", "one", params={"hosts": ["a", "b"]})
    own = {"namespace": there.name, "machine": "fleet"}
    shown = settled(door, lambda one: one.sum("dfsmr_tokens", **own, state="ready") == 5)
    assert shown.get("dfsmr_tokens", **own, node="first", state="ready") == 1
    assert shown.get("dfsmr_tokens", **own, node="host.*", state="ready") == 2
    assert shown.get("dfsmr_tokens", **own, node="vm.*.boot", state="ready") == 2


# Who sees what --------------------------------------------------------------------------------


def test_a_token_of_a_namespace_sees_its_series_alone(new_server, tmp_path):
    file = tmp_path / "admin.token"
    file.write_text(SECRET + "\n")
    file.chmod(0o600)
    server = new_server("--http", "localhost:0", "--auth", "tokens", "--admin-token-file",
                        str(file)).start()
    root = Door(server, SECRET)
    for name in ("mine", "theirs"):
        root.ok("Define", {"namespace": name, "source": JOB})
        root.ok("Start", {"namespace": name, "machine": "job"})

    def token(role, namespace):
        made = root.ok("CreateToken", {"role": role, "namespace": namespace},
                       service="TokenService")
        return Door(server, made["secret"])

    all_of_it = settled(root, lambda one: one.sum("dfsmr_starts_total") == 2)
    assert scrape(token("VIEWER", "*")).get("dfsmr_turns_total") > 0
    own = scrape(token("VIEWER", "mine"))
    assert own.get("dfsmr_starts_total", namespace="mine", machine="job") == 1
    assert own.types == all_of_it.types
    for name, labels in own.values:
        assert dict(labels).get("namespace") == "mine", (name, labels)
    assert token("WORKER", "mine").get("/metrics").status == 403
    assert Door(server).get("/metrics").status == 401
    assert Door(server, "nobody-has-this-one-0123456789abcdef").get("/metrics").status == 401


# Price ----------------------------------------------------------------------------------------


def many_nodes(machines, nodes):
    for machine in range(machines):
        lines = [f"id: m{machine}", "nodes:"]
        for node in range(nodes):
            start = "start: true, " if node == 0 else ""
            to = f"n{node + 1}" if node + 1 < nodes else "done"
            lines.append(f"  n{node}: {{{start}transitions: {{ok: {to}}}}}")
        lines.append("  done: {final: true}")
        yield "\n".join(lines) + "\n"


@pytest.mark.timed
def test_2000_nodes_are_scraped_in_200_ms(new_server):
    server = new_server("--http", "localhost:0").start()
    space, door = server.space("many"), Door(server)
    for source in many_nodes(20, 100):
        space.define(source)
    for machine in range(20):
        space.start(f"m{machine}")
    for _ in range(100):
        tasks = [space.take(machine=f"m{machine}") for machine in range(20)]
        space.report_all([space.report_request(task) for task in tasks])
    settled(door, lambda one: one.sum("dfsmr_finishes_total") == 20)
    took, turns, decided = [], set(), []

    def fresh():  # the server asks itself at most once a second, and tells that for so long
        begin = time.perf_counter()
        reply = door.get("/metrics", accept_encoding="gzip")
        spent = time.perf_counter() - begin
        one = Scrape(reply)
        if one.get("dfsmr_turns_total") in turns:
            return False
        turns.add(one.get("dfsmr_turns_total"))
        took.append(spent)
        decided.append(one.get("dfsmr_stage_cpu_seconds_total", stage="decide"))
        assert len(one.all("dfsmr_timeouts_total")) == 2000
        assert one.get("dfsmr_metrics_folded") == 0
        return len(took) == 10

    eventually(fresh, 40)
    assert min(took) < 0.2, took
    # Nothing else happens, so from one to the next it is what adding up has cost.
    held = [later - before for before, later in zip(decided, decided[1:])]
    assert min(held) < 0.005, held


def test_what_is_beyond_the_bound_counts_as_other(new_server):
    server = new_server("--http", "localhost:0", "--metrics-series", "3").start()
    space, door = server.space("few"), Door(server)
    for source in many_nodes(2, 2):
        space.define(source)
    for machine in ("m0", "m1"):
        space.start(machine)
        for _ in range(2):
            space.report(space.take(machine=machine))
    one = settled(door, lambda one: one.sum("dfsmr_finishes_total") == 2)
    nodes = {(dict(pairs)["machine"], dict(pairs)["node"])
             for pairs in one.all("dfsmr_timeouts_total")}
    assert len(nodes) == 4 and ("_other", "_other") in nodes
    assert one.sum("dfsmr_transitions_total") == 4
    assert one.sum("dfsmr_transitions_total", node="_other") == 1
    assert one.get("dfsmr_metrics_folded") == 1


# dsrv/ops -------------------------------------------------------------------------------------


def test_the_alerts_are_sound_and_ring_when_they_should():
    assert "15 rules found" in promtool("check", "rules", OPS / "alerts.yaml")
    promtool("test", "rules", REPOSITORY / "tests/e2e/alerts_test.yaml")


@pytest.mark.parametrize("file", ["alerts.yaml", "grafana.json"])
def test_alerts_and_dashboard_name_what_there_is(file):
    samples = set()
    shown = {**FAMILIES, **CLUSTER}
    for name, (family, _) in shown.items():
        ends = ("_bucket", "_sum", "_count") if family == "histogram" else ("",)
        samples |= {f"dfsmr_{name}{end}" for end in ends}
    named = set(re.findall(r"\bdfsmr_[a-z_]+", (OPS / file).read_text()))
    # Texts name histograms by their families.
    families = {f"dfsmr_{name}" for name, (family, _) in shown.items() if family == "histogram"}
    assert named and named <= samples | families, named - samples - families


def test_the_dashboard_has_its_rows_and_panels_do_not_overlap():
    panels = json.loads((OPS / "grafana.json").read_text())["panels"]
    rows = [panel["title"] for panel in panels if panel["type"] == "row"]
    assert rows == ["Overview", "Machine", "Store and commit", "Feed", "Cluster"]
    taken = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in panels}) == len(panels)
