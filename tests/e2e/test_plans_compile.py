"""Define of plans and actions: what they are compiled to, and what is refused."""
import functools
import json
import re

import pytest

from stubs import v1
from support import SOON, now, only, refused, result, state

EXAMPLE = """\
action: vm.create                # a kind of work; workers ask for it by this name
phases: [run, finalize]          # default [run]
queue: slow
timeout_strategy: fixed
timeout: 60
retry: {limit: 3, delay: 1s, factor: 2, max: 1m}
rescue: pause
weight: {run: 4, finalize: 1}
input: {type: object, required: [name]}
output: {type: object, required: [ip]}
---
plan: machine
params: {type: object, required: [name]}
label: "machine ${params.name}"
flow:
  - {step: disk,  action: disk.prepare, input: {name: "${params.name}"}}
  - {step: vm,    action: vm.create,
     input: {disk: "${disk.output.path}", name: "${params.name}"}}
  - {step: hosts, action: hosts.add,    input: {ip: "${vm.output.ip}"}}
  - {step: cfg,   action: cfg.apply,    input: {ip: "${vm.output.ip}"}, after: [hosts]}
---
plan: infra
singleton: "infra-${params.site}"
hooks:
  - {on: [paused, failure], action: mail.send, input: {who: ops, instance: "${instance.id}"}}
flow:
  sequence:
    - concurrence:
        for_each: "${params.hosts}"
        as: host
        do: {step: node, plan: machine, input: {name: "${host}"}}
    - {step: web, plan: machine, input: {name: web}}
    - {step: fleet, spawn: {plan: machine, for_each: "${params.fleet}", as: h,
                            input: {name: "${h}"}, concurrency: 20}}
"""


# How a graph is read ---------------------------------------------------------------------------


def by_id(machine):
    return {node.id: node for node in machine.nodes}


def targets(node, transition="ok"):
    return [target for edge in node.transitions if edge.transition == transition
            for target in edge.targets]


def work_nodes(nodes):
    return {id for id, node in nodes.items() if node.kind == "work"}


def edges(machine):
    """Which work nodes follow which by `ok`, looking through gates and other nodes of the plan."""
    nodes = by_id(machine)
    work = work_nodes(nodes)

    @functools.cache
    def following(id):
        found = set()
        for target in targets(nodes[id]):
            found |= {target} if target in work else following(target)
        return frozenset(found)

    return {(id, target) for id in work for target in following(id)}


def order(machine):
    """Which work nodes come before which, however many lie between."""
    pairs = edges(machine)
    while True:
        more = {(a, d) for a, b in pairs for c, d in pairs if b == c} - pairs
        if not more:
            return pairs
        pairs |= more


def before(machine):
    """The order of the steps alone, without their finalize phases."""
    return {(a, b) for a, b in order(machine) if "/" not in a + b}


def words(text):
    """'a>b c>d' as pairs."""
    return {tuple(pair.split(">")) for pair in text.split()}


def first(machine):
    """The work nodes that nothing comes before."""
    return work_nodes(by_id(machine)) - {b for _, b in edges(machine)}


def plan(flow, top=""):
    return f"plan: p\n{top}flow:\n{flow}"


def compiled(space, source, id="p"):
    space.define(source)
    return space.machine(id)


# What a plan is compiled to --------------------------------------------------------------------


def test_the_example_of_the_contract_is_taken(space):
    reply = space.define(EXAMPLE)
    assert {"machine", "infra"} <= {one.id for one in reply.defined}
    assert all(one.version == 1 and one.changed for one in reply.defined)
    assert not [d for d in reply.diagnostics if d.severity == v1.Diagnostic.ERROR]


def test_the_example_compiles_to_its_least_order(space):
    machine = compiled(space, EXAMPLE, "machine")
    assert (machine.namespace, machine.id, machine.version, machine.kind) == (
        space.name, "machine", 1, "plan")
    assert machine.source.startswith("plan: machine")
    assert before(machine) == words(
        "disk>vm disk>hosts disk>cfg vm>hosts vm>cfg hosts>cfg")
    assert first(machine) == {"disk"}


def test_a_step_is_a_work_node_with_those_that_its_failing_and_waiting_need(space):
    nodes = by_id(compiled(space, EXAMPLE, "machine"))
    disk = nodes["disk"]
    assert (disk.kind, disk.action, disk.queue) == ("work", "disk.prepare", "default")
    assert not disk.final
    assert targets(disk, "error") == ["disk/error"]
    assert targets(disk, "suspend") == ["disk/suspended"]
    assert nodes["disk/error"].kind == "held"
    assert {"retry", "skip"} <= {edge.transition for edge in nodes["disk/error"].transitions}
    assert targets(nodes["disk/error"], "retry") == ["disk"]
    assert nodes["disk/suspended"].kind == "manual"


def test_an_action_tells_the_nodes_of_its_steps_what_it_says(space):
    nodes = by_id(compiled(space, EXAMPLE, "machine"))
    vm = nodes["vm"]
    assert (vm.action, vm.queue, vm.timeout_strategy, vm.timeout) == (
        "vm.create", "slow", "fixed", 60)
    assert nodes["hosts"].timeout_strategy == "percentile" and nodes["hosts"].timeout == 95
    finalize = nodes["vm/finalize"]
    assert (finalize.kind, finalize.action) == ("work", "vm.create")
    assert nodes["vm/finalize/error"].kind == "held"
    assert "disk/finalize" not in nodes


def test_a_finalize_phase_comes_after_every_run_step(space):
    machine = compiled(space, EXAMPLE, "machine")
    assert {(step, "vm/finalize") for step in ("disk", "vm", "hosts", "cfg")} <= order(machine)
    assert not [a for a, _ in order(machine) if a == "vm/finalize"]


def test_finalize_phases_come_one_after_the_other_in_the_order_written(space):
    machine = compiled(space, "action: x\nphases: [run, finalize]\n---\n" + plan("""\
  - {step: c, action: x, after: [a]}
  - {step: a, action: x}
  - {step: b, action: x}
"""))
    assert {("c/finalize", "a/finalize"), ("a/finalize", "b/finalize")} <= edges(machine)
    assert ("b", "c/finalize") in order(machine)


def test_an_action_that_only_finalizes_has_no_run_node_that_a_worker_gets(space):
    machine = compiled(space, "action: x\nphases: [finalize]\n---\n" + plan("""\
  - {step: a, action: x}
  - {step: b, action: y}
"""))
    assert work_nodes(by_id(machine)) == {"a/finalize", "b"}
    assert ("b", "a/finalize") in order(machine)


def test_a_plan_has_its_own_start_and_end(space):
    nodes = by_id(compiled(space, EXAMPLE, "machine"))
    assert [id for id, node in nodes.items() if node.start] == ["/start"]
    assert nodes["/end"].final and nodes["/end"].kind == "final"


def test_nodes_that_are_made_have_a_slash_and_those_of_steps_have_none(space):
    nodes = by_id(compiled(space, EXAMPLE, "machine"))
    steps = {"disk", "vm", "hosts", "cfg"}
    own = {id for id, node in nodes.items() if node.kind != "system"}
    assert {id for id in own if "/" not in id} == steps
    assert {id.split("/")[0] for id in own} <= steps | {""}


FLOWS = {
    "one step": ("  - {step: a, action: x}\n", ""),
    "a list is concurrent": ("  - {step: a, action: x}\n  - {step: b, action: x}\n", ""),
    "a sequence": (
        "  sequence: [{step: a, action: x}, {step: b, action: x}, {step: c, action: x}]\n",
        "a>b b>c a>c"),
    "a concurrence in a sequence": ("""\
  sequence:
    - {step: a, action: x}
    - concurrence: [{step: b, action: x}, {step: c, action: x}]
    - {step: d, action: x}
""", "a>b a>c a>d b>d c>d"),
    "a list in a sequence is concurrent": ("""\
  sequence:
    - [{step: a, action: x}, {step: b, action: x}]
    - {step: c, action: x}
""", "a>c b>c"),
    "a sequence in a list": ("""\
  - sequence: [{step: a, action: x}, {step: b, action: x}]
  - {step: c, action: x}
""", "a>b"),
    "m and n": ("""\
  sequence:
    - concurrence: [{step: a, action: x}, {step: b, action: x}]
    - concurrence: [{step: c, action: x}, {step: d, action: x}]
""", "a>c a>d b>c b>d"),
    "after": ("  - {step: a, action: x, after: [b, c]}\n  - {step: b, action: x}\n"
              "  - {step: c, action: x}\n", "b>a c>a"),
    "a reference": ("  - {step: a, action: x}\n"
                    "  - {step: b, action: x, input: {v: '${a.output}'}}\n", "a>b"),
    "a reference forward": ("  - {step: b, action: x, input: {v: '${a.output.k}'}}\n"
                            "  - {step: a, action: x}\n", "a>b"),
    "a reference deep in the input": (
        "  - {step: a, action: x}\n"
        "  - {step: b, action: x, input: {v: [1, {w: 'at ${a.output.list[1].name}!'}]}}\n", "a>b"),
    "two references in one string": (
        "  - {step: a, action: x}\n  - {step: b, action: x}\n"
        "  - {step: c, action: x, input: {v: '${a.output.k}-${b.output.k}'}}\n", "a>c b>c"),
    "a reference out of a sequence pulls nothing else": ("""\
  - {step: a, action: x}
  - sequence: [{step: b, action: x}, {step: c, action: x, input: {v: "${a.output}"}}]
""", "b>c a>c"),
    # The ones that trees cannot express (research: O1, O2, O5, O6).
    "references that cross": ("""\
  - {step: a, action: x}
  - {step: b, action: x}
  - {step: c, action: x, input: {v: "${a.output}"}}
  - {step: d, action: x, input: {v: "${b.output}"}}
  - {step: e, action: x, input: {v: "${a.output}"}}
""", "a>c b>d a>e"),
    "one of two": ("""\
  - {step: a, action: x}
  - {step: b, action: x}
  - {step: c, action: x, input: {v: "${a.output}"}}
  - {step: d, action: x, input: {v: "${a.output}", w: "${b.output}"}}
  - {step: e, action: x, input: {v: "${b.output}"}}
""", "a>c a>d b>d b>e"),
    "the first of a sequence": ("""\
  - sequence: [{step: a, action: x}, {step: b, action: x}, {step: c, action: x}]
  - {step: z, action: x, input: {v: "${a.output}"}}
""", "a>b b>c a>c a>z"),
    "two sequences": ("""\
  - sequence: [{step: a1, action: x}, {step: a2, action: x}]
  - sequence:
      - {step: b1, action: x}
      - {step: b2, action: x, input: {v: "${a1.output}"}}
      - {step: b3, action: x}
""", "a1>a2 b1>b2 b2>b3 b1>b3 a1>b2 a1>b3"),
}


@pytest.mark.parametrize("name", FLOWS)
def test_a_flow_orders_what_is_written_and_nothing_else(space, name):
    flow, pairs = FLOWS[name]
    assert before(compiled(space, plan(flow))) == words(pairs)


def test_a_node_with_several_predecessors_is_joined_by_all(space):
    nodes = by_id(compiled(space, plan(FLOWS["after"][0])))
    into = [id for id, node in nodes.items() if "a" in targets(node)]
    joined = nodes["a"] if len(into) > 1 else nodes[only(into)]
    assert joined.join == "all"


def test_the_end_of_a_plan_waits_for_all_of_it(space):
    nodes = by_id(compiled(space, plan(FLOWS["a list is concurrent"][0])))
    into = [id for id, node in nodes.items() if "/end" in targets(node)]
    joined = nodes["/end"] if len(into) > 1 else nodes[only(into)]
    assert joined.join == "all"


def test_between_m_and_n_steps_stands_one_gate(space):
    flow = "  sequence:\n" + "".join(
        "    - concurrence:\n" + "".join(f"      - {{step: {side}{i}, action: x}}\n"
                                         for i in range(60)) for side in "ab")
    machine = compiled(space, plan(flow))
    nodes = by_id(machine)
    between = {target for i in range(60) for target in targets(nodes[f"a{i}"])}
    gate = nodes[only(list(between))]
    assert (gate.kind, gate.join) == ("gate", "all")
    assert set(targets(gate)) == {f"b{i}" for i in range(60)}
    count = sum(len(edge.targets) for node in machine.nodes for edge in node.transitions)
    assert count < 12 * 120, "edges grow with m + n"
    assert before(machine) == {(f"a{i}", f"b{j}") for i in range(60) for j in range(60)}


def test_a_nested_plan_is_its_steps_under_the_name_of_the_step(space):
    machine = compiled(space, EXAMPLE + "---\n" + plan(
        "  - {step: web, plan: machine, input: {name: web}}\n"))
    assert before(machine) == words("web.disk>web.vm web.disk>web.hosts web.disk>web.cfg "
                                    "web.vm>web.hosts web.vm>web.cfg web.hosts>web.cfg")
    assert "web.vm/error" in by_id(machine) and "web.vm/suspended" in by_id(machine)


def test_after_a_nested_plan_means_after_all_of_it(space):
    machine = compiled(space, """\
plan: inner
flow: [{step: a, action: x}, {step: b, action: x}]
---
""" + plan("  - {step: i, plan: inner}\n  - {step: z, action: x, after: [i]}\n"
           "  - {step: y, action: x, after: [z]}\n"))
    assert before(machine) == words("i.a>z i.b>z i.a>y i.b>y z>y")


def test_in_a_nested_plan_only_those_that_use_a_value_wait_for_it(space):
    machine = compiled(space, """\
plan: inner
flow:
  - {step: a, action: x}
  - {step: b, action: x, input: {v: "${params.v}"}}
---
""" + plan("  - {step: s, action: x}\n  - {step: i, plan: inner, input: {v: '${s.output.k}'}}\n"))
    assert before(machine) == words("s>i.b")


def test_plans_may_be_nested_in_plans_that_come_later_in_the_source(space):
    machine = compiled(space, plan("  - {step: i, plan: inner}\n") + """\
---
plan: inner
flow: [{step: j, plan: innermost}]
---
plan: innermost
flow: [{step: a, action: x}]
""")
    assert work_nodes(by_id(machine)) == {"i.j.a"}


def test_a_for_each_is_shown_as_one_template_step(space):
    machine = compiled(space, EXAMPLE, "infra")
    made = [node for node in machine.nodes if node.kind == "work"]
    assert len([node for node in made if node.action == "disk.prepare"]) == 2  # node's and web's
    template = only([node.id for node in made
                     if node.action == "disk.prepare" and node.id != "web.disk"])
    assert template.startswith("node.") and template.endswith(".disk")
    assert (template, "web.disk") in order(machine)
    assert "fleet" in by_id(machine)


def test_what_depends_on_a_for_each_comes_after_its_template(space):
    machine = compiled(space, plan("""\
  - concurrence:
      for_each: "${params.list}"
      as: one
      do: {step: each, action: x, input: {v: "${one}"}}
  - {step: sum, action: y, input: {all: "${each.output}"}}
"""))
    template = only([n.id for n in machine.nodes if n.kind == "work" and n.action == "x"])
    assert before(machine) == {(template, "sum")}


def test_a_step_that_when_decides_about_is_in_the_compiled_plan(space):
    machine = compiled(space, plan("""\
  sequence:
    - {step: a, action: x}
    - {step: b, action: x, when: "${params.flag}"}
    - {step: c, action: x}
"""))
    assert before(machine) == words("a>b b>c a>c")


def test_a_plan_may_have_names_that_yaml_takes_for_something_else(space):
    machine = compiled(space, plan(
        "  - {step: yes, action: on}\n  - {step: 1e3, action: null, after: [yes]}\n"))
    assert before(machine) == words("yes>1e3")


def test_identical_plans_and_actions_change_nothing_and_others_are_versions(space):
    space.define(EXAMPLE)
    again = space.define("# a comment\n" + EXAMPLE)
    assert not any(one.changed for one in again.defined)
    changed = space.define(EXAMPLE.replace("after: [hosts]", "after: [disk]"))
    assert {one.id: (one.version, one.changed) for one in changed.defined if one.changed} == {
        "machine": (2, True)}
    assert before(space.machine("machine", version=1)) != before(space.machine("machine"))


def test_machines_and_plans_share_one_source_and_one_list(space):
    space.define("id: job\nnodes: {a: {start: true, transitions: {ok: z}}, z: {final: true}}\n"
                 "---\n" + plan("  - {step: a, action: x}\n"))
    kinds = {machine.id: machine.kind for machine in space.machines().machines}
    assert (kinds["job"], kinds["p"]) == ("machine", "plan")


def test_validate_only_compiles_and_changes_nothing(space):
    assert {"machine", "infra"} <= {
        one.id for one in space.define(EXAMPLE, validate_only=True).defined}
    with refused("NOT_FOUND", "NO_SUCH_MACHINE", "machine"):
        space.machine("machine")


def test_a_plan_of_ten_thousand_steps_is_taken_soon(space):
    flow = "".join(f"  - {{step: s{i}, action: x}}\n" for i in range(10_000))
    began = now()
    space.call("Define", v1.DefineRequest(namespace=space.name, source=plan(flow)), timeout=30)
    assert now() - began < 2 * SOON


def test_the_graph_of_an_instance_is_its_own(space):
    space.define(EXAMPLE)
    id = space.plan("infra", params={"hosts": ["x", "y"], "site": "s", "fleet": []})
    instance = space.get(id, with_nodes=True)
    steps = {f"{part}.{step}" for part in ("node.0", "node.1", "web")
             for step in ("disk", "vm", "hosts", "cfg")}
    assert {node.id for node in instance.nodes if node.kind == "work" and "/" not in node.id} \
        == steps
    assert ("node.0.cfg", "web.disk") in order(instance)
    assert ("node.1.disk", "web.disk") in order(instance)
    assert ("node.0.disk", "node.1.disk") not in order(instance)
    assert not space.get(id).nodes and not space.get(id).steps
    space.cancel(id)


def test_the_steps_of_an_instance_are_told_in_the_order_written(space):
    space.define(EXAMPLE)
    id = space.plan("machine", params={"name": "n"})
    steps = list(space.get(id, with_nodes=True).steps)
    assert [step.path for step in steps] == ["disk", "vm", "hosts", "cfg"]
    assert [step.action for step in steps] == [
        "disk.prepare", "vm.create", "hosts.add", "cfg.apply"]
    waits = {step.path: set(step.after) for step in steps}
    assert waits["disk"] == set() and waits["vm"] == {"disk"} and waits["hosts"] == {"vm"}
    assert "hosts" in waits["cfg"]


# Refused ---------------------------------------------------------------------------------------


def steps(*lines):
    """A plan whose steps stand on a line each, from 3 on."""
    return plan("".join(f"  - {line}\n" for line in lines))


A = "{step: a, action: x}"
INNER = """\
plan: inner
params: {type: object, required: [name]}
flow: [{step: a, action: x, input: {name: "${params.name}"}}]
---
"""

# what: (source, line or None, start of the path, words of the message)
REFUSED = {
    # The shape
    "no flow": ("plan: p\n", None, "", ["flow"]),
    "a flow that is a word": ("plan: p\nflow: all\n", 2, "flow", []),
    "an unknown key of a plan": ("plan: p\nflows: []\nflow:\n  - " + A + "\n", 2, "flows",
                                 ["flows", "flow"]),
    "an unknown key of a step": (steps(A, "{step: b, action: x, afte: [a]}"), 4, "flow",
                                 ["afte", "after"]),
    "an unknown key of an action": ("action: x\nretries: {limit: 3}\n", 2, "retries",
                                    ["retries", "retry"]),
    "a document that is two things": ("plan: p\nid: p\nflow:\n  - " + A + "\n", None, "", []),
    "a step without a name": (steps("{action: x}"), 3, "flow", ["step"]),
    "a step that does nothing": (steps("{step: a}"), 3, "flow", ["action"]),
    "a step that does two things": (INNER + steps("{step: a, action: x, plan: inner}"), 7,
                                    "flow", ["action", "plan"]),
    "a step twice": (steps(A, "{step: a, action: y}"), 4, "flow", ["a"]),
    "a step twice in different blocks": (
        plan("  sequence:\n    - {step: a, action: x}\n    - concurrence:\n"
             "        - {step: a, action: x}\n"), 6, "flow", ["a"]),
    "a malformed step": (steps("{step: a/b, action: x}"), 3, "flow", ["a/b"]),
    "a reserved step": (steps("{step: dfsmr.a, action: x}"), 3, "flow", ["dfsmr."]),
    "a malformed action": (steps("{step: a, action: 'x y'}"), 3, "flow", ["x y"]),
    "a malformed plan": ("plan: my plan\nflow:\n  - " + A + "\n", 1, "plan", ["my plan"]),
    "a reserved plan": ("plan: dfsmr.p\nflow:\n  - " + A + "\n", 1, "plan", ["dfsmr."]),
    "a reserved action": ("action: dfsmr.x\n", 1, "action", ["dfsmr."]),
    "params that are no schema": (plan("  - " + A + "\n", "params: {type: objekt}\n"), 2,
                                  "params", ["objekt"]),
    "an input that is no schema": ("action: x\ninput: {type: objekt}\n", 2, "input", ["objekt"]),
    "an output that is no schema": ("action: x\noutput: {required: ip}\n", 2, "output",
                                    ["required"]),
    "an input of a step that is no object": (steps("{step: a, action: x, input: 5}"), 3, "flow",
                                             ["input"]),
    # The graph
    "a step after one that isn't there": (steps(A, "{step: b, action: x, after: [aa]}"), 4,
                                          "flow", ["aa", "a"]),
    "a reference to a step that isn't there": (
        steps(A, "{step: b, action: x, input: {v: '${aa.output.k}'}}"), 4, "flow", ["aa"]),
    "a step after itself": (steps("{step: a, action: x, after: [a]}"), 3, "flow", ["a"]),
    "a reference to itself": (steps("{step: a, action: x, input: {v: '${a.output}'}}"), 3,
                              "flow", ["a"]),
    "a cycle by after": (steps("{step: a, action: x, after: [c]}",
                               "{step: b, action: x, after: [a]}",
                               "{step: c, action: x, after: [b]}"), None, "flow",
                         ["cycle", "a", "b", "c"]),
    "a cycle by references": (steps("{step: first, action: x, input: {v: '${second.output}'}}",
                                    "{step: second, action: x, input: {v: '${first.output}'}}"),
                              None, "flow", ["cycle", "first", "second"]),
    "a cycle through a sequence": (
        plan("  sequence:\n    - {step: first, action: x, after: [second]}\n"
             "    - {step: second, action: x}\n"), None, "flow", ["cycle", "first", "second"]),
    "a cycle through a nested plan": (
        INNER + steps("{step: i, plan: inner, input: {name: '${z.output}'}}",
                      "{step: z, action: x, after: [i]}"), None, "flow", ["cycle", "i.a", "z"]),
    # Nested plans
    "a plan that isn't there": (steps("{step: a, plan: nowhere}"), 3, "flow", ["nowhere"]),
    "a plan to spawn that isn't there": (
        steps("{step: a, spawn: {plan: nowhere, for_each: '${params.l}', as: e}}"), 3, "flow",
        ["nowhere"]),
    "a plan within itself": (steps("{step: a, plan: p}"), 3, "flow", ["p"]),
    "plans within each other": ("plan: q\nflow: [{step: b, plan: p}]\n---\n"
                                + steps("{step: a, plan: q}"), None, "flow", ["p", "q"]),
    "a nested plan without what it needs": (INNER + steps("{step: i, plan: inner}"), 7, "flow",
                                            ["name"]),
    "a nested plan with a wrong name": (
        INNER + steps("{step: i, plan: inner, input: {nam: x}}"), 7, "flow", ["name"]),
    # References
    "a reference of an unknown kind": (steps("{step: a, action: x, input: {v: '${bogus}'}}"), 3,
                                       "flow", ["bogus"]),
    "a reference to neither output nor step": (
        steps(A, "{step: b, action: x, input: {v: '${a.outptu.k}'}}"), 4, "flow", ["outptu"]),
    "a reference that does not end": (steps("{step: a, action: x, input: {v: '${params.v'}}"), 3,
                                      "flow", []),
    "a reference that is empty": (steps("{step: a, action: x, input: {v: '${}'}}"), 3, "flow",
                                  []),
    "a reference with a bad index": (
        steps("{step: a, action: x, input: {v: '${params.l[one]}'}}"), 3, "flow", []),
    "an as name outside its for_each": (
        plan("  - concurrence: {for_each: '${params.l}', as: e, do: {step: a, action: x}}\n"
             "  - {step: b, action: x, input: {v: '${e}'}}\n"), 4, "flow", ["e"]),
    "a trigger outside a subscriber": (
        steps("{step: a, action: x, input: {v: '${trigger.output}'}}"), 3, "flow", ["trigger"]),
    # for_each, when
    "a when that waits for a step": (
        steps(A, "{step: b, action: x, when: '${a.output.flag}'}"), 4, "flow", ["when"]),
    "a when that is text": (steps("{step: a, action: x, when: perhaps}"), 3, "flow", ["when"]),
    "a for_each that waits for a step": (
        steps(A, "concurrence: {for_each: '${a.output}', as: e, do: {step: b, action: x}}"), 4,
        "flow", ["for_each"]),
    "a for_each over a word": (
        steps("concurrence: {for_each: word, as: e, do: {step: b, action: x}}"), 3, "flow",
        ["for_each"]),
    "a for_each that does nothing": (steps("concurrence: {for_each: '${params.l}', as: e}"), 3,
                                     "flow", ["do"]),
    "a negative concurrency": (
        INNER + steps("{step: a, spawn: {plan: inner, for_each: '${params.l}', as: e,"
                      " input: {name: '${e}'}, concurrency: -1}}"), 7, "flow", ["concurrency"]),
    # Actions
    "an unknown phase": ("action: x\nphases: [run, finalise]\n", 2, "phases", ["finalise"]),
    "an unknown rescue": ("action: x\nrescue: ignore\n", 2, "rescue", ["ignore", "skip"]),
    "a retry limit of 0": ("action: x\nretry: {limit: 0}\n", 2, "retry", ["limit"]),
    "a retry without a unit": ("action: x\nretry: {limit: 2, delay: 1}\n", 2, "retry", ["delay"]),
    "a factor under 1": ("action: x\nretry: {limit: 2, delay: 1s, factor: 0.5}\n", 2, "retry",
                         ["factor"]),
    "an unknown key of retry": ("action: x\nretry: {limits: 2}\n", 2, "retry",
                                ["limits", "limit"]),
    "a negative weight": ("action: x\nweight: {run: -1}\n", 2, "weight", []),
    "a poll without a unit": ("action: x\npoll: {intervals: [1]}\n", 2, "poll", []),
    "a poll without intervals": ("action: x\npoll: {intervals: []}\n", 2, "poll", ["intervals"]),
    "an unknown conflict": ("action: x\nsingleton: k\non_conflict: replace\n", 3, "on_conflict",
                            ["replace", "wait"]),
    "an unknown planner": ("action: x\nplan: server\n", None, "", []),
    "an action that extends itself": ("action: x\nextends: x\n", 2, "extends", ["x"]),
    "actions that extend each other": ("action: x\nextends: y\n---\naction: y\nextends: x\n",
                                       None, "extends", ["x", "y"]),
    "an action that extends what isn't there": ("action: x\nextends: y\n", 2, "extends", ["y"]),
    "the same action twice": ("action: x\n---\naction: x\nqueue: slow\n", None, "", ["x"]),
    # Hooks
    "a hook on an unknown state": (
        plan("  - " + A + "\n", "hooks: [{on: [pauzed], action: y}]\n"), 2, "hooks", ["pauzed"]),
    "a hook without an action": (plan("  - " + A + "\n", "hooks: [{on: [paused]}]\n"), 2,
                                 "hooks", ["action"]),
    # Middleware
    "a middleware before itself": ("action: x\nuse: [{name: audit, before: audit}]\n", 2, "use",
                                   ["audit"]),
    "middlewares before each other": (
        "action: x\nuse: [{name: audit, before: trace}, {name: trace, before: audit}]\n", 2,
        "use", ["cycle", "audit", "trace"]),
    "middlewares in a ring by inheritance": (
        "action: x\nuse: [{name: audit, before: trace}, trace]\n---\n"
        "action: y\nextends: x\nuse: [{name: trace, before: audit}]\n", None, "use",
        ["audit", "trace"]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_with_a_plan_is_told_with_its_place(space, name):
    source, line, path, mentions = REFUSED[name]
    with refused("INVALID_ARGUMENT", "BAD_MACHINE") as caught:
        space.define(source, source_name="p.yaml")
    diagnostics = caught[0].diagnostics
    assert diagnostics, "no dfsmr-diagnostics-bin trailer"
    errors = [d for d in diagnostics if d.severity == v1.Diagnostic.ERROR]
    texts = [f"{d.source_name}:{d.line}:{d.column}: {d.path}: {d.message}" for d in errors]
    assert errors and all(d.line >= 1 and d.column >= 1 for d in errors), texts
    assert sorted(texts) == sorted(
        text for text in caught[0].message.splitlines() if re.match(r"p\.yaml:\d+:\d+: ", text))
    fitting = [d for d in errors if (line is None or d.line == line) and d.path.startswith(path)]
    assert fitting, f"none at line {line}, {path}: {texts}"
    assert any(all(word in f"{d.path} {d.message}" for word in mentions) for d in fitting), \
        f"{mentions} not named: {texts}"
    assert not space.machines().machines


MISPLACED = """\
action: x
singleton: "k-${a.output}"
---
label: "l ${nope.output.z}"
plan: p
singleton: "${nowhere.output}"
hooks:
  - on: paused
    action: x
    input:
      who: "${b.output}"
flow:
  - step: a
    action: x
    input:
      first: 1
      deep:
        - fine
        - "because of ${ghost.output.list[1]}"
  - step: b
    action: x
    after:
      - phantom
  - for_each: "${params.list}"
    as: item
    do:
      step: c
      plan: missing
"""


def test_what_is_wrong_in_a_key_of_a_step_is_told_where_it_stands(space):
    with refused("INVALID_ARGUMENT", "BAD_MACHINE") as caught:
        space.define(MISPLACED, source_name="p.yaml")
    places = [(d.line, d.column, d.path, d.message) for d in caught[0].diagnostics]
    for line, column, path, word in (
            (2, 12, "singleton", "a.output"),
            (4, 8, "label", "nope"),
            (6, 12, "singleton", "nowhere"),
            (11, 12, "hooks[0].input.who", "b.output"),
            (19, 11, "flow[0].input.deep[1]", "ghost"),
            (22, 5, "flow[1].after", "phantom"),
            (28, 13, "flow[2].do.plan", "missing")):
        assert any(place[:3] == (line, column, path) and word in place[3] for place in places), \
            (line, path, places)


MISSPELT = """\
action: vm.create
---
plan: p
hooks: [{on: paused, action: vm.create}]
flow:
  - {step: a, action: vm.craete}
  - step: b
    action: vm.create
  - for_each: "${params.list}"
    as: item
    do:
      sequence:
        - {step: c, action: elsewhere.defined}
        - {step: d, action: nowhere.to.be.found}
        - {step: e, plan: q}
---
plan: q
flow: [{step: a, action: q}]
"""


@pytest.mark.parametrize("validate_only", [True, False])
def test_a_step_whose_action_has_no_document_gets_a_warning(space, validate_only):
    space.define("action: elsewhere.defined\n")
    reply = space.call("Define", v1.DefineRequest(namespace=space.name, source=MISSPELT,
                                                  source_name="p.yaml",
                                                  validate_only=validate_only))
    assert [one.id for one in reply.defined] == ["vm.create", "p", "q"]
    assert {d.severity for d in reply.diagnostics} == {v1.Diagnostic.WARNING}
    assert {d.source_name for d in reply.diagnostics} == {"p.yaml"}
    assert [(d.line, d.column, d.path) for d in reply.diagnostics] == [
        (6, 5, "flow[0]"), (14, 11, "flow[2].do.sequence[1]"), (18, 8, "flow[0]")]
    misspelt, unknown, a_plan = [d.message for d in reply.diagnostics]
    assert "'vm.craete'" in misspelt and "did you mean 'vm.create'?" in misspelt
    assert "'nowhere.to.be.found'" in unknown and "did you mean" not in unknown
    assert "'q'" in a_plan and "write 'plan:'" in a_plan


def test_a_warning_of_an_action_comes_again_until_it_is_defined(space):
    source = steps("{step: a, action: late}")
    for changed in (True, False):
        reply = space.define(source)
        assert only(reply.defined).changed == changed
        assert "'late'" in only(reply.diagnostics).message
    space.define("action: late\n")
    assert not space.define(source).diagnostics
    space.start("p")


def test_errors_come_without_warnings_of_actions(space):
    with refused("INVALID_ARGUMENT", "BAD_MACHINE") as caught:
        space.define(steps("{step: a, action: unknown, after: [ghost]}"))
    assert "ghost" in only(caught[0].diagnostics).message


def test_a_cycle_is_refused_with_its_path_and_nothing_that_is_not_on_it(space):
    with refused("INVALID_ARGUMENT", "BAD_MACHINE") as caught:
        space.define(steps("{step: outsider, action: x}",
                           "{step: first, action: x, after: [outsider, third]}",
                           "{step: second, action: x, input: {v: '${first.output}'}}",
                           "{step: third, action: x, after: [second]}",
                           "{step: bystander, action: x, after: [third]}"))
    message = only([d.message for d in caught[0].diagnostics])
    ring = re.findall(r"first|second|third", message)
    assert set(ring) == {"first", "second", "third"}
    assert "outsider" not in message and "bystander" not in message
    forward = ["first", "second", "third"]
    at = forward.index(ring[0])
    ways = [forward[at:] + forward[:at], (forward[::-1] * 2)[2 - at:5 - at]]
    assert ring[:3] in ways, f"not in the order of the ring: {message}"


def test_errors_of_a_plan_come_all_at_once_with_those_of_machines(space):
    with refused("INVALID_ARGUMENT", "BAD_MACHINE", "elsewhere", "nowhere", "bogus") as caught:
        space.define("id: m\nnodes: {a: {start: true, transitions: {ok: elsewhere}}}\n---\n"
                     + steps("{step: a, action: x, after: [nowhere]}",
                             "{step: b, action: x, input: {v: '${bogus}'}}"),
                     source_name="all.yaml")
    lines = {d.line for d in caught[0].diagnostics}
    assert {2, 6, 7} <= lines


def test_plans_actions_and_machines_are_taken_all_or_none(space):
    with refused("INVALID_ARGUMENT", "BAD_MACHINE"):
        space.define("action: x\nqueue: slow\n---\n" + steps("{step: a, action: x, after: [b]}"))
    assert not space.machines().machines


def test_more_than_a_hundred_thousand_steps_are_refused_at_define(space):
    inner = "plan: inner\nflow:\n" + "".join(f"  - {{step: s{i}, action: x}}\n" for i in range(400))
    outer = plan("".join(f"  - {{step: i{i}, plan: inner}}\n" for i in range(300)))
    began = now()
    with refused("INVALID_ARGUMENT", ("BAD_MACHINE", "TOO_LARGE"), "100"):
        space.call("Define", v1.DefineRequest(
            namespace=space.name, source=inner + "---\n" + outer), timeout=30)
    assert now() - began < 2 * SOON


def test_a_nest_of_plans_that_would_explode_is_refused_soon(space):
    text = "plan: n0\nflow: [{step: a, action: x}]\n"
    for depth in range(1, 30):
        uses = ", ".join(f"{{step: s{i}, plan: n{depth - 1}}}" for i in range(10))
        text += f"---\nplan: n{depth}\nflow: [{uses}]\n"
    began = now()
    with refused("INVALID_ARGUMENT", ("BAD_MACHINE", "TOO_LARGE")):
        space.define(text)
    assert now() - began < SOON


def test_what_only_planning_can_know_is_taken_at_define_and_stops_the_instance(space):
    each = "concurrence: {for_each: '${params.l}', as: e, do: {step: a, action: x}}"
    space.define(steps(each, "{step: b, action: x, when: '${params.flag}'}"))
    for params, word in [
            ({"l": 5, "flag": True}, "for_each"), ({"l": {}, "flag": True}, "for_each"),
            ({"l": [], "flag": "yes"}, "when"), ({"flag": True}, "params.l"),
            ({"l": []}, "params.flag")]:
        id = space.plan("p", params=params)
        instance = space.get(id)
        assert (state(instance), result(instance)) == ("STOPPED", "ERROR"), json.dumps(params)
        assert word in instance.error, instance.error
        assert space.ready() == []


def test_a_mistake_in_a_plan_is_told_once_in_a_source_that_holds_it_twice(space):
    source = """\
plan: p
flow: [{step: n, plan: q}, {step: m, plan: q}]
---
plan: q
flow: [{step: a, action: x, input: {v: "${nope.output}"}}]
"""
    with refused("INVALID_ARGUMENT", "BAD_MACHINE", "nope") as caught:
        space.define(source)
    assert only(caught[0].diagnostics).line == 5
