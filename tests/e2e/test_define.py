"""Define, ListMachines, GetMachine: versions, what counts as the same, and what is refused."""
import re
import textwrap
import threading

import pytest
import yaml

from stubs import v1
from support import (CALL, HASTY, JOB, PAIR, SOON, eventually, now, only, refused, seconds,
                     together)

CRAWLER = """\
id: crawler
description: Fetches one page and follows its links.
upgrade_strategy: continue
retention: 7d
params:
  type: object
  required: [url]
  properties: {url: {type: string}}
defaults:
  timeout_strategy: percentile
  timeout: 95.0
nodes:
  crawl:
    start: true
    transitions: {ok: success, error: cool_down}
  cool_down:
    delay: {initial: 1s, factor: 2, max: 5m}
    max_visits: 5
    transitions: {ok: crawl, dfsmr.exhausted: failed}
  success:
    final: true
  failed:
    final: true
    result: error
"""


def one_line_nodes(start="{start: true, transitions: {ok: done}}", done="{final: true}", top="",
                   more=""):
    """A machine whose nodes stand on one line each: start on 4, done on 5, more from 6 on."""
    return f"id: m\n{top or 'upgrade_strategy: continue'}\nnodes:\n  begin: {start}\n" \
           f"  done: {done}\n{more}"


# Versions -------------------------------------------------------------------------------------


def test_the_first_definition_is_version_1(space):
    defined = only(space.define(JOB).defined)
    assert (defined.id, defined.version, defined.changed) == ("job", 1, True)
    assert defined.upgrade_strategy == "continue"
    assert defined.affected_instances == 0


def test_other_content_is_the_next_version_and_takes_over(space):
    space.define(JOB)
    defined = only(space.define(JOB.replace("ok: done", "good: done")).defined)
    assert (defined.version, defined.changed) == (2, True)
    assert space.machine("job").version == 2
    assert "good" in space.machine("job").source
    assert "good" not in space.machine("job", version=1).source


@pytest.mark.parametrize("change", [
    lambda text: text,
    lambda text: "# a comment\n" + text.replace("final: true}", "final: true}  # another", 1),
    lambda text: text.replace("start: true, transitions: {ok: done, error: failed}",
                              "transitions: {error: failed, ok: done}, start: true"),
    lambda text: yaml.safe_dump(yaml.safe_load(text), sort_keys=True),
    lambda text: yaml.safe_dump(yaml.safe_load(text), default_flow_style=True),
    lambda text: "---\n" + text + "...\n",
], ids=["same", "comments", "key order", "sorted block style", "flow style", "document marks"])
def test_identical_content_changes_nothing(space, change):
    space.define(JOB)
    defined = only(space.define(change(JOB)).defined)
    assert (defined.version, defined.changed) == (1, False)
    assert space.machine("job").source.strip() == JOB.strip()
    assert [change.version for change in space.changes(kinds=["DEFINED"])[0]] == [1]


def test_a_description_counts_as_content(space):
    space.define(JOB)
    assert only(space.define(JOB + "description: does a job\n").defined).version == 2


def test_an_older_content_defined_again_is_a_new_version(space):
    space.define(JOB)
    space.define(JOB + "description: does a job\n")
    defined = only(space.define(JOB).defined)
    assert (defined.version, defined.changed) == (3, True)


def test_defining_the_same_at_once_from_many_sides_makes_one_version(space):
    replies = together(*[lambda: space.define(JOB)] * 8)
    assert sorted(only(reply.defined).changed for reply in replies) == [False] * 7 + [True]
    assert {only(reply.defined).version for reply in replies} == {1}


def test_a_definition_is_in_the_feed(space):
    space.define(JOB)
    change = only(space.changes(kinds=["DEFINED"])[0])
    assert (change.namespace, change.machine, change.version) == (space.name, "job", 1)


def test_validate_only_tells_what_would_happen_and_changes_nothing(space):
    would = only(space.define(JOB, validate_only=True).defined)
    assert (would.id, would.version, would.changed) == ("job", 1, True)
    with refused("NOT_FOUND", "NO_SUCH_MACHINE", "job"):
        space.machine("job")
    space.define(JOB)
    assert not only(space.define(JOB, validate_only=True).defined).changed
    other = JOB.replace("ok: done", "good: done")
    assert only(space.define(other, validate_only=True).defined).version == 2
    assert space.machine("job").version == 1


def test_validate_only_counts_the_instances_it_would_touch(space):
    space.define(JOB)
    space.start("job")
    upgrade = JOB + "upgrade_strategy: upgrade\n"
    assert only(space.define(upgrade, validate_only=True).defined).affected_instances == 1
    assert space.get(space.instances().instances[0].id).version == 1


# Sources of several documents -----------------------------------------------------------------


def test_a_source_may_hold_several_documents(space):
    reply = space.define(JOB + "---\n" + PAIR)
    assert [(d.id, d.version) for d in reply.defined] == [("job", 1), ("pair", 1)]
    assert space.machine("job").source.strip() == JOB.strip()
    assert space.machine("pair").source.strip() == PAIR.strip()


def test_several_documents_are_taken_all_or_none(space):
    with refused("INVALID_ARGUMENT", "BAD_MACHINE"):
        space.define(JOB + "---\n" + PAIR.replace("ok: second", "ok: nowhere"))
    assert not space.machines().machines


@pytest.mark.parametrize("source", ["", "\n", "# nothing\n", "---\n", "---\n---\n"])
def test_an_empty_source_is_refused(space, source):
    with refused("INVALID_ARGUMENT", ("BAD_MACHINE", "BAD_REQUEST")):
        space.define(source)


def test_the_same_id_twice_in_one_source_is_refused(space):
    with refused("INVALID_ARGUMENT", "BAD_MACHINE", "job"):
        space.define(JOB + "---\n" + JOB.replace("ok: done", "good: done"))


def test_a_machine_without_a_final_node_gets_a_warning(space):
    reply = space.define("id: forever\nnodes:\n  on: {start: true, transitions: {tick: on}}\n",
                         source_name="forever.yaml")
    warning = only(reply.diagnostics)
    assert warning.severity == v1.Diagnostic.WARNING
    assert warning.source_name == "forever.yaml"
    assert warning.line >= 1 and "final" in warning.message
    assert only(reply.defined).changed


def test_a_sound_machine_gets_no_warnings(space):
    assert not space.define(CRAWLER).diagnostics


# What is kept of a machine --------------------------------------------------------------------


def own_nodes(machine):
    return {node.id: node for node in machine.nodes if node.kind != "system"}


def test_a_machine_is_described_with_its_nodes(space):
    began = now()
    space.define(CRAWLER)
    machine = space.machine("crawler")
    assert (machine.namespace, machine.id, machine.version) == (space.name, "crawler", 1)
    assert (machine.kind, machine.upgrade_strategy) == ("machine", "continue")
    assert machine.source.strip() == CRAWLER.strip()
    assert abs(seconds(machine.define_time) - began) < SOON
    nodes = own_nodes(machine)
    assert {id: node.kind for id, node in nodes.items()} == {
        "crawl": "work", "cool_down": "delay", "success": "final", "failed": "final"}
    assert nodes["crawl"].start and not nodes["success"].start
    assert nodes["success"].final and not nodes["crawl"].final
    assert {edge.transition: list(edge.targets) for edge in nodes["cool_down"].transitions} == {
        "ok": ["crawl"], "dfsmr.exhausted": ["failed"]}


def test_a_work_node_has_the_defaults_of_the_contract(space):
    space.define(JOB)
    work = space.node("job", "work")
    assert (work.timeout_strategy, work.timeout) == ("percentile", 95.0)
    assert (work.action, work.queue) == ("job.work", "default")


def test_defaults_hold_for_every_work_node_that_does_not_say_otherwise(space):
    space.define("""\
id: m
defaults: {timeout_strategy: fixed, timeout: 30.0, queue: slow}
nodes:
  a: {start: true, transitions: {ok: b}}
  b: {timeout: 7.5, queue: quick, action: frob, transitions: {ok: done}}
  done: {final: true}
""")
    nodes = own_nodes(space.machine("m"))
    assert (nodes["a"].timeout_strategy, nodes["a"].timeout, nodes["a"].queue) == (
        "fixed", 30.0, "slow")
    assert (nodes["b"].timeout_strategy, nodes["b"].timeout, nodes["b"].queue) == (
        "fixed", 7.5, "quick")
    assert nodes["b"].action == "frob"


def test_a_file_of_the_original_is_a_valid_machine(space):
    space.define("""\
id: crawler
nodes:
  start:
    start: true
    transitions:
      ok: success
      error: failure
  success:
    final: true
  failure:
    final: true
""")
    id = space.start("crawler")
    space.report(space.take("crawler"), "ok")
    assert space.token(id).node == "success"


def test_names_are_read_as_text(space):
    space.define("""\
id: 1e3
nodes:
  yes: {start: true, transitions: {no: 0x10, on: null, 1.0: 007}}
  0x10: {final: true}
  null: {final: true}
  007: {final: true}
""")
    id = space.start("1e3")
    assert space.token(id).node == "yes"
    space.report(space.take("1e3", "yes"), "1.0")
    assert space.token(id).node == "007"


def test_a_name_may_have_128_characters(space):
    name = "n" * 128
    space.define(f"id: {name}\nnodes: {{{name}: {{start: true, final: true}}}}\n")
    assert space.machine(name).id == name


def test_a_start_node_may_be_final(space):
    space.define("id: nothing\nnodes: {only: {start: true, final: true}}\n")
    assert own_nodes(space.machine("nothing"))["only"].start


def test_an_alias_of_modest_size_is_fine(space):
    space.define("""\
id: m
nodes:
  a: {start: true, transitions: &edges {ok: done, error: b}}
  b: {transitions: *edges}
  done: {final: true}
""")
    assert {e.transition for e in space.node("m", "b").transitions} == {"ok", "error"}


def test_an_empty_namespace_means_default(server, space):
    unnamed, default = server.space(""), server.space("default")
    unnamed.define(JOB)
    assert default.machine("job").namespace == "default"
    with refused("NOT_FOUND", "NO_SUCH_MACHINE", "job"):
        space.machine("job")


@pytest.mark.parametrize("namespace", ["-x", "a b", "a/b", "dfsmr.own"])
def test_a_malformed_or_reserved_namespace_is_refused(server, namespace):
    with refused("INVALID_ARGUMENT", "BAD_REQUEST"):
        server.space(namespace).define(JOB)


def test_a_version_that_is_not_there_is_not_found(space):
    space.define(JOB)
    with refused("NOT_FOUND", "NO_SUCH_MACHINE", "job", "7"):
        space.machine("job", version=7)


# ListMachines ---------------------------------------------------------------------------------


def test_machines_are_listed_by_their_latest_version(space):
    space.define(JOB + "---\n" + PAIR)
    space.define(JOB + "description: new\n")
    listed = {m.id: m.version for m in space.machines().machines}
    assert listed == {"job": 2, "pair": 1}
    every = sorted((m.id, m.version) for m in space.machines(all_versions=True).machines)
    assert every == [("job", 1), ("job", 2), ("pair", 1)]


def test_machines_are_listed_in_pages(space):
    space.define("---\n".join(JOB.replace("id: job", f"id: job{i}") for i in range(7)))
    seen, token = [], ""
    while True:
        page = space.machines(page_size=3, page_token=token)
        assert len(page.machines) <= 3
        seen += [m.id for m in page.machines]
        token = page.next_page_token
        if not token:
            break
    assert sorted(seen) == [f"job{i}" for i in range(7)]


# Stats ----------------------------------------------------------------------------------------


def test_stats_count_what_stands_where(space):
    space.define(JOB)
    ids = [space.start("job") for _ in range(4)]
    space.start("job", hold=True)
    space.pause(ids[3])
    done = space.take("job")
    space.report(done)
    space.take("job")

    def stats():
        machine = space.machine("job").stats
        work = space.node("job", "work").stats
        return ((machine.scheduled, machine.running, machine.paused, machine.stopped)
                == (1, 2, 1, 1) and (work.ready >= 1, work.claimed, work.completed)
                == (True, 1, 1))

    assert eventually(stats)
    assert space.machine("job").stats.breaker == "closed"


def test_the_timeout_that_the_next_claim_would_be_given_is_told(space):
    space.define(JOB + "---\n" + HASTY)
    assert seconds(space.node("job", "work").stats.timeout_now) == 60
    assert abs(seconds(space.node("hasty", "work").stats.timeout_now) - 0.3) < 0.001
    space.define("id: once\nnodes: {a: {start: true, timeout: 0.0, transitions: {ok: z}},"
                 " z: {final: true}}\n")
    assert not space.node("once", "a").stats.HasField("timeout_now")


# Refused --------------------------------------------------------------------------------------

LONG = "n" * 129

# what: (source, line or None, start of the path, words of the message)
REFUSED = {
    "not YAML": ("id: [\n", None, "", []),
    "not a mapping": ("- id\n- nodes\n", 1, "", []),
    "no id": ("nodes: {a: {start: true, final: true}}\n", None, "", ["id"]),
    "no nodes": ("id: m\n", None, "", ["nodes"]),
    "empty nodes": ("id: m\nnodes: {}\n", None, "", []),
    "an unknown key": (one_line_nodes(top="upgrade_stratgy: abort"), 2, "upgrade_stratgy",
                       ["upgrade_stratgy", "upgrade_strategy"]),
    "an unknown key of a node": (
        one_line_nodes("{start: true, transitons: {ok: done}}"), 4, "nodes.begin",
        ["transitons", "transitions"]),
    "an unknown key of a delay": (
        one_line_nodes(more="  d: {delay: {inital: 1s}, transitions: {ok: done}}\n"), 6,
        "nodes.d.delay", ["inital", "initial"]),
    "an unknown key in defaults": (
        one_line_nodes(top="defaults: {timeoutt: 5.0}"), 2, "defaults", ["timeoutt", "timeout"]),
    "start in defaults": (one_line_nodes(top="defaults: {start: true}"), 2, "defaults", ["start"]),
    "transitions in defaults": (
        one_line_nodes(top="defaults: {transitions: {ok: done}}"), 2, "defaults",
        ["transitions"]),
    "action in defaults": (one_line_nodes(top="defaults: {action: x}"), 2, "defaults", ["action"]),
    "a key twice": (one_line_nodes(top="id: m"), 2, "", ["id"]),
    "a node twice": (one_line_nodes(more="  done: {final: true}\n"), 6, "nodes", ["done"]),
    "a transition twice": (
        one_line_nodes("{start: true, transitions: {ok: done, ok: begin}}"), 4,
        "nodes.begin.transitions", ["ok"]),
    "no start node": (one_line_nodes("{transitions: {ok: done}}"), None, "", ["start"]),
    "two start nodes": (one_line_nodes(done="{start: true, final: true}"), None, "",
                        ["start", "begin", "done"]),
    "start that is no boolean": (
        one_line_nodes("{start: perhaps, transitions: {ok: done}}"), 4, "nodes.begin.start", []),
    "a transition to a node that isn't there": (
        one_line_nodes("{start: true, transitions: {ok: don}}"), 4,
        "nodes.begin.transitions.ok", ["don", "done"]),
    "a node that leads nowhere": (
        one_line_nodes("{start: true, transitions: {ok: done, error: stuck}}",
                       more="  stuck: {}\n"), 6, "nodes.stuck", ["final"]),
    "a node without content": (
        one_line_nodes("{start: true, transitions: {ok: done, error: stuck}}",
                       more="  stuck:\n"), 6, "nodes.stuck", []),
    "a node that no path reaches": (
        one_line_nodes(more="  island: {transitions: {ok: done}}\n"), 6, "nodes.island", []),
    "a node from which no final node can be reached": (
        one_line_nodes("{start: true, transitions: {ok: done, error: trap}}",
                       more="  trap: {transitions: {again: trap}}\n"), 6, "nodes.trap", ["final"]),
    "a reserved id": ("id: dfsmr.machine\nnodes: {a: {start: true, final: true}}\n", 1, "id",
                      ["dfsmr."]),
    "a reserved node": (
        one_line_nodes("{start: true, transitions: {ok: done, error: dfsmr.own}}",
                       more="  dfsmr.own: {final: true}\n"), 6, "nodes.dfsmr.own", ["dfsmr."]),
    "a system node": (
        one_line_nodes("{start: true, transitions: {ok: done, error: dfsmr.timeout}}",
                       more="  dfsmr.timeout: {final: true}\n"), None, "nodes", ["dfsmr."]),
    "a transition to a system node": (
        one_line_nodes("{start: true, transitions: {ok: done, error: dfsmr.aborted}}"), 4,
        "nodes.begin.transitions.error", ["dfsmr.aborted"]),
    "a reserved transition": (
        one_line_nodes("{start: true, transitions: {ok: done, dfsmr.upgraded: done}}"), 4,
        "nodes.begin.transitions", ["dfsmr.upgraded"]),
    "an id with a space": ("id: my machine\nnodes: {a: {start: true, final: true}}\n", 1, "id",
                           ["my machine"]),
    "an id with a slash": ("id: my/machine\nnodes: {a: {start: true, final: true}}\n", 1, "id",
                           ["my/machine"]),
    "an id that starts with a dash": ("id: -m\nnodes: {a: {start: true, final: true}}\n", 1,
                                      "id", ["-m"]),
    "an id that is too long": (f"id: {LONG}\nnodes: {{a: {{start: true, final: true}}}}\n", 1,
                               "id", ["128"]),
    "an id that is not ASCII": ("id: maschinchen-ü\nnodes: {a: {start: true, final: true}}\n", 1,
                                "id", []),
    "a node with a malformed name": (
        one_line_nodes("{start: true, transitions: {ok: done, error: _x}}",
                       more="  _x: {final: true}\n"), 6, "nodes._x", ["_x"]),
    "a queue with a malformed name": (
        one_line_nodes("{start: true, queue: 'a b', transitions: {ok: done}}"), 4,
        "nodes.begin.queue", ["a b"]),
    "an action with a malformed name": (
        one_line_nodes("{start: true, action: 'a b', transitions: {ok: done}}"), 4,
        "nodes.begin.action", ["a b"]),
    "a priority that is no number": (
        one_line_nodes("{start: true, priority: high, transitions: {ok: done}}"), 4,
        "nodes.begin.priority", []),
    "a duration without a unit": (
        one_line_nodes(more="  d: {delay: 30, transitions: {ok: done}}\n"), 6, "nodes.d.delay",
        ["30"]),
    "a duration in words": (
        one_line_nodes(more="  d: {delay: soon, transitions: {ok: done}}\n"), 6, "nodes.d.delay",
        ["soon"]),
    "a duration of an unknown unit": (
        one_line_nodes("{start: true, timeout_initial: 3w, transitions: {ok: done}}"), 4,
        "nodes.begin.timeout_initial", ["3w"]),
    "a negative duration": (
        one_line_nodes("{start: true, timeout_max: -3s, transitions: {ok: done}}"), 4,
        "nodes.begin.timeout_max", ["-3s"]),
    "a bad retention": (one_line_nodes(top="retention: forever"), 2, "retention", ["forever"]),
    "a percentile of 100": (
        one_line_nodes("{start: true, timeout: 100.0, transitions: {ok: done}}"), 4,
        "nodes.begin.timeout", ["100"]),
    "a percentile under 0": (
        one_line_nodes("{start: true, timeout: -1.0, transitions: {ok: done}}"), 4,
        "nodes.begin.timeout", []),
    "a timeout with a unit": (
        one_line_nodes("{start: true, timeout_strategy: fixed, timeout: 30s,"
                       " transitions: {ok: done}}"), 4, "nodes.begin.timeout", ["30s"]),
    "negative seconds": (
        one_line_nodes("{start: true, timeout_strategy: fixed, timeout: -30.0,"
                       " transitions: {ok: done}}"), 4, "nodes.begin.timeout", []),
    "an unknown timeout strategy": (
        one_line_nodes("{start: true, timeout_strategy: average, transitions: {ok: done}}"), 4,
        "nodes.begin.timeout_strategy", ["average", "percentile", "fixed"]),
    "an unknown upgrade strategy": (
        one_line_nodes(top="upgrade_strategy: restart"), 2, "upgrade_strategy",
        ["restart", "continue", "upgrade", "abort"]),
    "timeout_min above timeout_max": (
        one_line_nodes("{start: true, timeout_min: 10s, timeout_max: 5s,"
                       " transitions: {ok: done}}"), 4, "nodes.begin", ["timeout_m"]),
    "a factor under 1": (
        one_line_nodes(more="  d: {delay: {initial: 1s, factor: 0.5, max: 5s},"
                            " transitions: {ok: done}}\n"), 6, "nodes.d.delay", ["factor"]),
    "a jitter over 1": (
        one_line_nodes(more="  d: {delay: {initial: 1s, jitter: 1.5},"
                            " transitions: {ok: done}}\n"), 6, "nodes.d.delay", ["jitter"]),
    "a schema that is none": (one_line_nodes(top="params: {type: banana}"), 2, "params", []),
    "a schema that refers elsewhere": (
        one_line_nodes(top="params: {$ref: 'http://example.com/schema.json'}"), 2, "params", []),
    "a node both delay and manual": (
        one_line_nodes("{start: true, delay: 1s, manual: true, transitions: {ok: done}}"), 4,
        "nodes.begin", ["delay", "manual"]),
    "a node both manual and final": (
        one_line_nodes(done="{manual: true, final: true}"), 5, "nodes.done",
        ["manual", "final"]),
    "a final node with transitions": (
        one_line_nodes(done="{final: true, transitions: {again: begin}}"), 5, "nodes.done",
        ["final"]),
    "a result on a work node": (
        one_line_nodes("{start: true, result: error, transitions: {ok: done}}"), 4, "nodes.begin",
        ["result"]),
    "an unknown result": (one_line_nodes(done="{final: true, result: great}"), 5,
                          "nodes.done.result", ["great", "success", "warning", "error"]),
    "max_visits without dfsmr.exhausted": (
        one_line_nodes("{start: true, max_visits: 3, transitions: {ok: done}}"), 4, "nodes.begin",
        ["max_visits", "dfsmr.exhausted"]),
    "dfsmr.exhausted without max_visits": (
        one_line_nodes("{start: true, transitions: {ok: done, dfsmr.exhausted: done}}"), 4,
        "nodes.begin", ["max_visits", "dfsmr.exhausted"]),
    "dfsmr.timeout on a node that never times out": (
        one_line_nodes("{start: true, timeout: 0.0,"
                       " transitions: {ok: done, dfsmr.timeout: done}}"), 4, "nodes.begin",
        ["dfsmr.timeout"]),
    "dfsmr.timeout on a manual node": (
        one_line_nodes("{start: true, manual: true,"
                       " transitions: {ok: done, dfsmr.timeout: done}}"), 4, "nodes.begin",
        ["dfsmr.timeout"]),
    "a delay with another transition": (
        one_line_nodes(more="  d: {delay: 1s, transitions: {ok: done, error: done}}\n"), 6,
        "nodes.d", ["error"]),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused_at_define_time(space, what):
    source, line, path, words = REFUSED[what]
    # Nodes that only stand there to be refused must be reachable, or two things are wrong.
    if "  d: {" in source:
        source = source.replace("begin: {start: true, transitions: {ok: done}}",
                                "begin: {start: true, transitions: {ok: done, wait: d}}")
    with refused("INVALID_ARGUMENT", "BAD_MACHINE") as caught:
        space.define(source, source_name="m.yaml")
    diagnostics = caught[0].diagnostics
    assert diagnostics, "no dfsmr-diagnostics-bin trailer"
    errors = [d for d in diagnostics if d.severity == v1.Diagnostic.ERROR]
    texts = [f"{d.source_name}:{d.line}:{d.column}: {d.path}: {d.message}" for d in errors]
    assert errors and all(d.source_name == "m.yaml" and d.line >= 1 and d.column >= 1
                          for d in errors), texts
    fitting = [d for d in errors if (line is None or d.line == line) and d.path.startswith(path)]
    assert fitting, f"none at line {line}, {path}: {texts}"
    assert any(all(word in f"{d.path} {d.message}" for word in words) for d in fitting), \
        f"{words} not named: {texts}"
    assert not space.machines().machines


HOOK = "trigger: NAME\non: {webhook: {path: p, open: true}}\nstart: {machine: m}\n"
KEY = "limit: NAME\non: {queue: mail}\nmax: 1\n"


def test_what_another_document_has_is_told_with_its_places(space, dcli, tmp_path):
    """The path of a webhook and the key of a limit: within a source by check, too."""
    def named(*names):
        return "---\n".join(text.replace("NAME", name) for name in names for text in (HOOK, KEY))

    wrong = [(2, "on.webhook.path", "'p' is that of trigger 'a' already"),
             (6, "on", "'queue:mail' is governed by limit 'a' already")]
    space.define("id: m\nnodes: {a: {start: true, transitions: {ok: b}}, b: {final: true}}\n---\n"
                 + named("a"))
    for more in {}, {"validate_only": True}:
        with refused("INVALID_ARGUMENT", "BAD_MACHINE") as caught:
            space.define(named("b"), **more)
        assert [(one.line, one.path) for one in caught[0].diagnostics] == [
            (line, path) for line, path, message in wrong]
        for one, (line, path, message) in zip(caught[0].diagnostics, wrong):
            assert message in one.message
    file = tmp_path / "two.yaml"
    file.write_text(named("a", "b"))
    checked = dcli("check", file)
    assert checked.returncode == 1, checked.stdout
    for line, path, message in wrong:
        assert f"two.yaml:{line + 8}:" in checked.stdout + checked.stderr
        assert message in checked.stdout + checked.stderr


def test_errors_come_one_a_line_and_as_a_trailer_with_the_same_texts(space):
    source = textwrap.dedent("""\
        id: m
        upgrade_strategy: restart
        nodes:
          begin: {start: true, transitions: {ok: nowhere}}
          done: {final: true, result: great}
        """)
    with refused("INVALID_ARGUMENT", "BAD_MACHINE") as caught:
        space.define(source, source_name="folder/m.yaml")
    lines = [line for line in caught[0].message.splitlines() if line.startswith("folder/m.yaml:")]
    assert [int(re.match(r"folder/m.yaml:(\d+):\d+: ", line).group(1)) for line in lines][:1] == [2]
    texts = [f"{d.source_name}:{d.line}:{d.column}: {d.path}: {d.message}"
             for d in caught[0].diagnostics if d.severity == v1.Diagnostic.ERROR]
    assert sorted(lines) == sorted(texts)
    assert {2, 4, 5} <= {d.line for d in caught[0].diagnostics}


def test_errors_that_are_more_than_a_status_holds_are_counted(space):
    nodes = "".join(f"  n{i}: {{transitions: {{ok: nowhere{i}}}}}\n" for i in range(60))
    with refused("INVALID_ARGUMENT", "BAD_MACHINE") as caught:
        space.define("id: m\nnodes:\n  a: {start: true, final: true}\n" + nodes)
    lines = caught[0].message.splitlines()
    untold = int(re.match(r"… and (\d+) more", lines[-1]).group(1))
    assert len(lines) - 1 + untold >= 60
    last = caught[0].diagnostics[-1]
    untold = int(re.match(r"… and (\d+) more", last.message).group(1))
    assert len(caught[0].diagnostics) - 1 + untold >= 60
    assert last.severity == v1.Diagnostic.ERROR


def test_errors_of_all_documents_are_told_at_once(space):
    with refused("INVALID_ARGUMENT", "BAD_MACHINE") as caught:
        space.define(JOB.replace("ok: done", "ok: nowhere") + "---\n"
                     + PAIR.replace("ok: second", "ok: elsewhere"), source_name="two.yaml")
    assert "nowhere" in caught[0].message and "elsewhere" in caught[0].message
    second = only([d for d in caught[0].diagnostics
                   if "elsewhere" in d.message and d.path.endswith("first.transitions.ok")])
    assert second.line == JOB.count("\n") + 1 + 3


def test_validate_only_answers_errors_the_same_way(space):
    bad = JOB.replace("ok: done", "ok: nowhere")
    with refused("INVALID_ARGUMENT", "BAD_MACHINE") as real:
        space.define(bad, source_name="m.yaml")
    with refused("INVALID_ARGUMENT", "BAD_MACHINE") as dry:
        space.define(bad, source_name="m.yaml", validate_only=True)
    assert dry[0].message == real[0].message
    assert dry[0].diagnostics == real[0].diagnostics


def nested(depth):
    return "[" * depth + "]" * depth


def chain(count):
    lines = [f"  n{i}: {{transitions: {{ok: n{i + 1}}}}}" for i in range(1, count - 1)]
    return "\n".join(["id: m", "nodes:", "  n0: {start: true, transitions: {ok: n1}}", *lines,
                      f"  n{count - 1}: {{final: true}}", ""])


BOMB = "id: m\nparams:\n  definitions:\n    a0: &a0 {type: string}\n" + "".join(
    f"    a{i}: &a{i} {{properties: {{{', '.join(f'p{j}: *a{i - 1}' for j in range(10))}}}}}\n"
    for i in range(1, 10)) + "nodes: {a: {start: true, final: true}}\n"


@pytest.mark.parametrize("source", [
    JOB + "#" + "x" * (1 << 20) + "\n",
    chain(10_001),
    one_line_nodes(top=f"params: {{enum: {nested(70)}}}"),
    BOMB,
], ids=["more than 1 MiB", "more than 10,000 nodes", "more than 64 levels", "an alias bomb"])
def test_sources_over_the_limits_are_refused_soon(space, source):
    began = now()
    with refused("INVALID_ARGUMENT", ("BAD_MACHINE", "TOO_LARGE")):
        space.define(source)
    assert now() - began < SOON


@pytest.mark.parametrize("source", [
    JOB + "#" + "x" * ((1 << 20) - len(JOB) - 2) + "\n",
    chain(10_000),
    one_line_nodes(top=f"params: {{enum: {nested(50)}}}"),
], ids=["1 MiB", "10,000 nodes", "50 levels"])
def test_sources_at_the_limits_are_taken(space, source):
    assert only(space.define(source).defined).changed


def test_calls_go_on_while_a_large_machine_is_defined(space):
    space.define(JOB)
    large = chain(10_000)
    finished = threading.Event()

    def define():
        space.call("Define", v1.DefineRequest(namespace=space.name, source=large), timeout=30)
        finished.set()

    thread = threading.Thread(target=define)
    thread.start()
    slowest = 0.0
    while not finished.is_set() and thread.is_alive():
        began = now()
        space.start("job")
        slowest = max(slowest, now() - began)
    thread.join(CALL)
    assert finished.is_set() and slowest < 2


def test_a_preview_tells_each_problem_once_and_with_its_place(space):
    source = "plan: p\nflow: [{step: a, action: x, after: [nope]}]\n"
    reply = space.define(source, validate_only=True, preview=True)
    errors = [one for one in reply.diagnostics if one.severity == v1.Diagnostic.ERROR]
    assert len(errors) == 1 and errors[0].line == 2


@pytest.mark.parametrize("source, name", [
    ("id: m\nnodes: {a: {start: true, transitions: {ok: nowhere}}}\n", "f" * 3000),
    ("action: x\n---\nplan: p\nflow: [{step: a, action: x, input: '${" + "z" * 6000 + ".output}'}]\n", "p")])
def test_a_refusal_of_long_names_still_has_its_reason(space, source, name):
    with refused("INVALID_ARGUMENT"):
        space.define(source, source_name=name)


def test_a_refusal_names_some_transitions_of_very_many(space):
    ways = ", ".join(f"transition-{i:013d}: done" for i in range(400))
    space.define(f"id: m\nnodes: {{a: {{start: true, transitions: {{{ways}}}}}, done: {{final: true}}}}\n")
    space.start("m")
    with refused("FAILED_PRECONDITION", "ILLEGAL_TRANSITION"):
        space.report(space.take("m"), "nope")


@pytest.mark.parametrize("key", ["size", "размер", "größe", "大きさ", "100%"])
def test_many_errors_in_any_script_fit_a_reply(space, key):
    source = "id: x\nnodes:\n  a: {start: true, final: true}\n" + "".join(
        f"  n{n}: {{final: true, '{key}{n}': 1}}\n" for n in range(60))
    with refused("INVALID_ARGUMENT", "BAD_MACHINE", f"{key}0", "more, told once"):
        space.define(source)
