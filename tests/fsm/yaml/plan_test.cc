// Plans and actions as they are written.
#include <doctest/doctest.h>

#include <chrono>
#include <span>

#include "fsm/plan/source.h"
#include "fsm/yaml/definitions.h"

namespace dfsmr {
namespace {

using namespace std::chrono_literals;
using Names = std::vector<std::string>;

// The diagnostics of a text, a line each.
std::string Told(std::string_view text) {
  std::string lines;
  for (const Diagnostic& diagnostic : ParseDefinitions(text, "f").diagnostics) {
    lines += Format(diagnostic) + "\n";
  }
  return lines;
}

std::vector<Machine> ReadAll(std::string_view text) {
  Parsed parsed = ParseDefinitions(text, "f");
  REQUIRE_MESSAGE(parsed.diagnostics.empty(), Format(parsed.diagnostics.front()));
  std::vector<Machine> machines;
  for (Machine& definition : parsed.definitions) {
    machines.push_back(std::move(definition));
  }
  return machines;
}

PlanSource ReadPlan(std::string_view text) {
  std::vector<Machine> machines = ReadAll(text);
  REQUIRE(machines.size() == 1);
  REQUIRE(machines[0].plan());
  return *machines[0].plan();
}

ActionSource ReadAction(std::string_view text) {
  std::vector<Machine> machines = ReadAll(text);
  REQUIRE(machines.size() == 1);
  REQUIRE(machines[0].action());
  return *machines[0].action();
}

// The plan of a flow, and the one node that it has.
FlowNode ReadFlow(const std::string& flow) { return ReadPlan("plan: p\nflow: " + flow).flow; }
FlowNode ReadStep(const std::string& keys) {
  FlowNode flow = ReadFlow("[{step: s, " + keys + "}]");
  REQUIRE(flow.children.size() == 1);
  return flow.children[0];
}

std::string Where(const Written& written) {
  return std::to_string(written.at.line) + ":" + std::to_string(written.at.column) + " " +
         written.path;
}

constexpr std::string_view kManual = R"(action: vm.create                # a kind of work
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
  - {step: vm,    action: vm.create,    input: {disk: "${disk.output.path}", name: "${params.name}"}}
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
    - {step: fleet, spawn: {plan: machine, for_each: "${params.fleet}", as: h, input: {name: "${h}"}, concurrency: 20}}
)";

TEST_CASE("the action of the manual") {
  const Machine machine = ReadAll(kManual)[0];
  CHECK(machine.id == "vm.create");
  CHECK(KindName(machine.defined_as) == "action");
  CHECK(machine.source.starts_with("action: vm.create  "));
  CHECK(machine.source.ends_with("required: [ip]}\n"));
  REQUIRE(machine.action());
  const ActionSource& action = *machine.action();
  CHECK(action.id == "vm.create");
  CHECK(action.phases == Phases{.run = true, .finalize = true});
  CHECK(action.queue == "slow");
  CHECK(action.timeout ==
        TimeoutKeys{.timeout = 60, .strategy = TimeoutPolicy::Strategy::kFixed, .initial = {},
                    .min = {}, .max = {}});
  CHECK(action.retry ==
        RetryPolicy{.limit = 3, .delay = {.initial = 1s, .factor = 2, .max = 1min}, .on = {}});
  CHECK(action.rescue == Rescue::kPause);
  CHECK(action.weight == Weights{4, 1});
  REQUIRE(action.input);
  CHECK(action.input->text == R"({"type":"object","required":["name"]})");
  CHECK(action.input->check->Violation("{}") == "input: missing required 'name'");
  REQUIRE(action.output);
  CHECK(action.output->check->Violation("{}") == "output: missing required 'ip'");
  CHECK(Where(action.written) == "1:1 action");
  CHECK_FALSE(action.poll);
  CHECK_FALSE(action.planned_by_worker);
  CHECK_FALSE(action.limits);
  CHECK_FALSE(action.on_conflict);
  CHECK_FALSE(action.subscribes_to);
  CHECK_FALSE(action.priority);
  CHECK(action.middleware.empty());
}

TEST_CASE("a plan of the manual: steps beside each other") {
  const Machine machine = ReadAll(kManual)[1];
  CHECK(KindName(machine.defined_as) == "plan");
  REQUIRE(machine.params);
  CHECK(machine.params->Violation("{}") == "params: missing required 'name'");
  REQUIRE(machine.plan());
  const PlanSource& plan = *machine.plan();
  CHECK(plan.id == "machine");
  CHECK(plan.label == "machine ${params.name}");
  CHECK(plan.limits.empty());
  CHECK(plan.params.text == R"({"type":"object","required":["name"]})");
  CHECK(Where(plan.written) == "12:1 plan");
  CHECK(plan.flow.kind == FlowNode::Kind::kConcurrence);
  CHECK(Where(plan.flow.written) == "15:1 flow");
  REQUIRE(plan.flow.children.size() == 4);
  const FlowNode& vm = plan.flow.children[1];
  CHECK(vm.kind == FlowNode::Kind::kStep);
  CHECK(vm.name == "vm");
  CHECK(vm.action == "vm.create");
  CHECK(vm.input == R"({"disk":"${disk.output.path}","name":"${params.name}"})");
  CHECK(vm.after.empty());
  CHECK(vm.when.empty());
  CHECK(Where(vm.written) == "17:5 flow[1]");
  CHECK(Where(vm.own.written) == "17:5 flow[1]");
  CHECK(plan.flow.children[3].after == Names{"hosts"});
}

TEST_CASE("a plan of the manual: blocks, nested plans, children and hooks") {
  const Machine machine = ReadAll(kManual)[2];
  CHECK_FALSE(machine.params);
  REQUIRE(machine.plan());
  const PlanSource& plan = *machine.plan();
  REQUIRE(plan.limits.size() == 1);
  CHECK(plan.limits[0].key == "infra-${params.site}");
  CHECK(plan.limits[0].singleton);
  CHECK(plan.limits[0].on_conflict == OnConflict::kFail);
  REQUIRE(plan.hooks.size() == 1);
  CHECK(plan.hooks[0].on == Names{"paused", "failure"});
  CHECK(plan.hooks[0].action == "mail.send");
  CHECK(plan.hooks[0].input == R"({"who":"ops","instance":"${instance.id}"})");
  CHECK(Where(plan.hooks[0].written) == "24:5 hooks[0]");

  CHECK(plan.flow.kind == FlowNode::Kind::kSequence);
  REQUIRE(plan.flow.children.size() == 3);
  const FlowNode& each = plan.flow.children[0];
  CHECK(each.kind == FlowNode::Kind::kForEach);
  CHECK_FALSE(each.sequential);
  CHECK(each.items == "\"${params.hosts}\"");
  CHECK(each.as == "host");
  CHECK(Where(each.written) == "27:7 flow.sequence[0]");
  REQUIRE(each.children.size() == 1);
  CHECK(each.children[0].name == "node");
  CHECK(each.children[0].plan == "machine");
  CHECK(each.children[0].input == R"({"name":"${host}"})");
  CHECK(Where(each.children[0].written) == "30:9 flow.sequence[0].concurrence.do");

  const FlowNode& fleet = plan.flow.children[2];
  CHECK(fleet.name == "fleet");
  REQUIRE(fleet.spawn);
  CHECK(fleet.spawn->machine == "machine");
  CHECK(fleet.spawn->items == "\"${params.fleet}\"");
  CHECK(fleet.spawn->as == "h");
  CHECK(fleet.spawn->input == R"({"name":"${h}"})");
  CHECK(fleet.spawn->concurrency == 20);
}

TEST_CASE("every key of an action") {
  const ActionSource action = ReadAction(R"(action: a
description: 'does: it'
extends: base
phases: [finalize]
plan: worker
queue: 1e3
priority: -3
timeout: 120
timeout_initial: 90s
timeout_min: 250ms
timeout_max: 2h
retry: 5
rescue: skip
weight: 0.5
poll: {}
singleton: "${params.site}"
on_conflict: wait
subscribes_to: [vm.create, vm.start]
with: {ip: "${trigger.output.ip}", n: 1.50, text: "1"}
use: [audit, {name: trace, before: audit, after: [a, b]}]
replace: {log: other}
without: [x, y]
)");
  CHECK(action.description == "does: it");
  CHECK(action.extends == "base");
  CHECK(action.phases == Phases{.run = false, .finalize = true});
  CHECK(action.planned_by_worker == true);
  CHECK(action.queue == "1e3");
  CHECK(action.priority == -3);
  // Percent or seconds: the strategy may come from base.
  CHECK(action.timeout ==
        TimeoutKeys{.timeout = 120, .strategy = {}, .initial = 90s, .min = 250ms, .max = 2h});
  CHECK(action.retry == RetryPolicy{.limit = 5, .delay = {}, .on = {}});
  CHECK(action.rescue == Rescue::kSkip);
  CHECK(action.weight == Weights{0.5, 0.5});
  CHECK(action.poll == PollPolicy{{500ms, 1s, 2s, 4s, 8s, 16s}, 5, 3});
  REQUIRE(action.limits);
  CHECK(action.limits->front().key == "${params.site}");
  CHECK(action.on_conflict == OnConflict::kWait);
  CHECK(action.subscribes_to == Names{"vm.create", "vm.start"});
  CHECK(action.with == R"({"ip":"${trigger.output.ip}","n":1.50,"text":"1"})");
  const MiddlewareSource& middleware = action.middleware;
  CHECK(middleware.use == std::vector<Use>{{"audit", {}, {}}, {"trace", {"audit"}, {"a", "b"}}});
  CHECK(middleware.replace == std::vector<std::pair<std::string, std::string>>{{"log", "other"}});
  CHECK(middleware.without == Names{"x", "y"});
  CHECK(Where(middleware.written) == "20:1 use");
}

TEST_CASE("the short forms of an action's keys") {
  const ActionSource action = ReadAction(
      "action: a\nuse: audit\nwithout: x\nsubscribes_to: b\nwith: \"${trigger.output}\"\n"
      "weight: {finalize: 3}\nretry: {limit: 2}\n"
      "poll: {intervals: 3s, per_interval: 1, max_failures: 7}\n");
  CHECK(action.middleware.use == std::vector<Use>{{"audit", {}, {}}});
  CHECK(action.middleware.without == Names{"x"});
  CHECK(action.subscribes_to == Names{"b"});
  CHECK(action.with == "\"${trigger.output}\"");
  CHECK(action.weight == Weights{1, 3});
  CHECK(action.retry == RetryPolicy{.limit = 2, .delay = {}, .on = {}});
  CHECK(action.poll == PollPolicy{{3s}, 1, 7});
  CHECK(ReadAction("action: a\npoll: {intervals: [1s, 2m]}").poll ==
        PollPolicy{{1s, 2min}, 5, 3});
  CHECK_FALSE(ReadAction("action: a").phases);
}

TEST_CASE("every key of a plan") {
  std::vector<Machine> machines = ReadAll(
      "plan: p\ndescription: d\nupgrade_strategy: abort\nretention: 3d\nsingleton: key\n"
      "on_conflict: wait\nhooks: [{on: stopped, action: a}]\nuse: [audit]\nreplace: {a: b}\n"
      "without: c\nlabel: 5\nflow: []\n");
  const Machine& machine = machines[0];
  CHECK(machine.description == "d");
  CHECK(machine.upgrade_strategy == UpgradeStrategy::kAbort);
  CHECK(machine.retention == Duration(24h * 3));
  CHECK(machine.plan()->upgrade_strategy == UpgradeStrategy::kAbort);
  CHECK(machine.plan()->retention == Duration(24h * 3));
  CHECK(machine.plan()->limits.at(0).key == "key");
  CHECK(machine.plan()->limits.at(0).on_conflict == OnConflict::kWait);
  CHECK(machine.plan()->hooks[0].on == Names{"stopped"});
  CHECK(machine.plan()->hooks[0].input == "{}");
  CHECK(machine.plan()->middleware.without == Names{"c"});
  CHECK(machine.plan()->label == "5");
  CHECK(machine.plan()->flow.children.empty());
  CHECK(machine.nodes.empty());
}

TEST_CASE("every key of a step") {
  const FlowNode step = ReadStep(
      "action: a, input: {list: [\"${x.output[1].b}\", \"$${\"]}, after: x, when: '${params.flag}', "
      "queue: q, priority: 2, timeout: 30, retry: 2, poll: {}, rescue: fail, weight: 2, "
      "use: audit, replace: {a: b}, without: [c], singleton: k, on_conflict: wait");
  CHECK(step.input == R"({"list":["${x.output[1].b}","$${"]})");
  CHECK(step.after == Names{"x"});
  CHECK(step.when == "\"${params.flag}\"");
  CHECK(step.own.queue == "q");
  CHECK(step.own.priority == 2);
  CHECK(step.own.timeout.timeout == 30);
  CHECK(step.own.retry->limit == 2);
  CHECK(step.own.poll);
  CHECK(step.own.rescue == Rescue::kFail);
  CHECK(step.own.weight == Weights{2, 2});
  CHECK(step.own.middleware.without == Names{"c"});
  REQUIRE(step.own.limits);
  CHECK(step.own.limits->front().key == "k");
  CHECK(step.own.on_conflict == OnConflict::kWait);
  CHECK(ReadStep("action: a, on_conflict: wait").own.on_conflict == OnConflict::kWait);
}

TEST_CASE("what an input, a condition and a list of items may be") {
  CHECK(ReadStep("action: a").input == "{}");
  CHECK(ReadStep("action: a, input: ").input == "{}");
  CHECK(ReadStep("action: a, input: \"${params}\"").input == "\"${params}\"");
  CHECK(ReadStep("action: a, when: false").when == "false");
  CHECK(ReadStep("action: a, when: True").when == "true");
  CHECK(ReadFlow("{for_each: [1, two, \"${params.x}\"], do: []}").items ==
        R"([1,"two","${params.x}"])");
}

TEST_CASE("children: the short form, one child, machines") {
  const FlowNode plain = ReadStep("spawn: p, input: {a: 1}");
  REQUIRE(plain.spawn);
  CHECK(plain.spawn->machine == "p");
  CHECK(plain.spawn->input == R"({"a":1})");
  CHECK_FALSE(plain.spawn->items);
  CHECK(plain.spawn->concurrency == 0);
  CHECK(plain.input == "{}");
  CHECK(ReadStep("spawn: {machine: crawler, input: {a: 1}}").spawn->machine == "crawler");
}

TEST_CASE("blocks: lists, for_each in both, and their order") {
  const FlowNode flow = ReadFlow(R"(
  - [{step: a, action: x}]
  - {sequence: {for_each: "${params.l}", as: i, do: [{step: b, action: x}]}, after: a, when: true}
  - {for_each: [], do: {sequence: []}, when: "${params.f}"}
  - concurrence: []
    after: [a, b]
)");
  REQUIRE(flow.children.size() == 4);
  CHECK(flow.children[0].kind == FlowNode::Kind::kConcurrence);
  CHECK(Where(flow.children[0].children[0].written) == "3:6 flow[0][0]");
  const FlowNode& each = flow.children[1];
  CHECK(each.kind == FlowNode::Kind::kForEach);
  CHECK(each.sequential);
  CHECK(each.after == Names{"a"});
  CHECK(each.when == "true");
  CHECK(each.children[0].kind == FlowNode::Kind::kConcurrence);
  CHECK(Where(each.children[0].children[0].written) == "4:54 flow[1].sequence.do[0]");
  CHECK_FALSE(flow.children[2].sequential);
  CHECK(flow.children[2].as == "item");
  CHECK(flow.children[2].when == "\"${params.f}\"");
  CHECK(flow.children[2].children[0].kind == FlowNode::Kind::kSequence);
  CHECK(flow.children[3].after == Names{"a", "b"});
  CHECK(ReadFlow("{step: s, action: a}").kind == FlowNode::Kind::kStep);
}

TEST_CASE("a fingerprint knows content from layout") {
  auto print = [](std::string_view text) { return ReadAll(text)[0].fingerprint; };
  const std::string plan = print("plan: p\ndescription: d\nflow: [{step: a, action: x}]\n");
  CHECK(print("# c\nflow:\n- action: x  # y\n  step: 'a'\ndescription: d\nplan: p\n") == plan);
  CHECK(print("plan: p\ndescription: e\nflow: [{step: a, action: x}]\n") != plan);
  CHECK(print("plan: p\ndescription: d\nflow: [{step: a, action: y}]\n") != plan);
  CHECK(print("action: a\nqueue: q\n") == print("queue: \"q\"\naction: a # same\n"));
  CHECK(print("action: a\nqueue: q\n") != print("action: a\nqueue: q\ndescription: d\n"));
}

struct Row {
  std::string text;
  std::string told;
};

void CheckRefused(std::span<const Row> rows) {
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(Told(row.text) == row.told);
    CHECK(ParseDefinitions(row.text, "f").definitions.empty());
  }
}

TEST_CASE("actions that are refused") {
  const Row rows[] = {
      {"action: a\ncolour: 1\n",
       "f:2:1: colour: unknown key 'colour'; an action has action, description, extends, phases, "
       "plan, input, output, subscribes_to, with, queue, priority, the keys of a timeout, retry, "
       "run_timeout, ready_timeout, abandon_after, poll, rescue, weight, use, replace, without, "
       "limit, singleton, on_conflict, runs_on and dry_run\n"},
      {"acton: a\nphases: [run]\n", "f:1:1: acton: unknown key 'acton' (did you mean 'action'?)\n"},
      {"phases: [run]\nqueue: q\n",
       "f:1:1: action: the document has no 'action'; add 'action: NAME'\n"},
      {"action: [a]\n", "f:1:1: action: expected the name of an action, not a list\n"},
      {"action: dfsmr.a\n",
       "f:1:9: action: action name 'dfsmr.a' is reserved: names that start with 'dfsmr.' are the "
       "system's\n"},
      {"action: a\nextends: a\n", "f:2:10: extends: action 'a' extends itself\n"},
      {"action: a\nhooks: []\n",
       "f:2:1: hooks: unknown key 'hooks'; an action has action, description, extends, phases, "
       "plan, input, output, subscribes_to, with, queue, priority, the keys of a timeout, retry, "
       "run_timeout, ready_timeout, abandon_after, poll, rescue, weight, use, replace, without, "
       "limit, singleton, on_conflict, runs_on and dry_run\n"},
      {"action: a\nphases: run\n",
       "f:2:9: phases: expected a list such as [run, finalize], not 'run'\n"},
      {"action: a\nphases: []\n",
       "f:2:1: phases: expected a list such as [run, finalize], not an empty one\n"},
      {"action: a\nphases: [run, run]\n",
       "f:2:15: phases[1]: 'run' is there twice; keep one of them\n"},
      {"action: a\nphases: [run, finalise]\n",
       "f:2:15: phases[1]: expected run or finalize, not 'finalise' (did you mean 'finalize'?)\n"},
      {"action: a\nplan: machine\n",
       "f:2:7: plan: expected worker, when a worker does the action's planning, not 'machine'; a "
       "plan is a document of its own\n"},
      {"action: a\nqueue: [q]\n", "f:2:1: queue: expected the name of a queue, not a list\n"},
      {"action: a\ntimeout: 120\n",
       "f:2:10: timeout: a percentile lies between 0 and 100, both excluded (0.0: never timed "
       "out); for seconds add 'timeout_strategy: fixed'\n"},
      {"action: a\ntimeout_strategy: fixed\n",
       "f:2:19: timeout_strategy: 'timeout_strategy: fixed' needs a 'timeout' in seconds\n"},
      {"action: a\nextends: b\ntimeout: 120\ntimeout_strategy: percentile\n",
       "f:3:10: timeout: a percentile lies between 0 and 100, both excluded (0.0: never timed "
       "out); for seconds add 'timeout_strategy: fixed'\n"},
      {"action: a\nextends: b\ntimeout_min: 3m\ntimeout_max: 2m\n",
       "f:3:14: timeout_min: timeout_min 3m is more than timeout_max 2m\n"},
      {"action: a\nretry: often\n",
       "f:2:8: retry: expected how many tries there are in all, or {limit: 3, delay: 1s, factor: "
       "2, max: 1m}, not 'often'\n"},
      {"action: a\nretry: 0\n",
       "f:2:8: retry: expected a whole number from 1 to 1000000, not '0'\n"},
      {"action: a\nretry: 1.5\n",
       "f:2:8: retry: expected a whole number from 1 to 1000000, not '1.5'\n"},
      {"action: a\nretry: [3]\n",
       "f:2:1: retry: expected how many tries there are in all, or {limit: 3, delay: 1s, factor: "
       "2, max: 1m}, not a list\n"},
      {"action: a\nretry: {delay: 1s}\n",
       "f:2:1: retry: the retry has no 'limit'; add how many tries there are in all: 'limit: 3'\n"},
      {"action: a\nretry: {limt: 3, often: 1}\n",
       "f:2:9: retry.limt: unknown key 'limt' (did you mean 'limit'?)\n"
       "f:2:18: retry.often: unknown key 'often'; a retry has limit, delay, factor, max, jitter "
       "and on\n"},
      {"action: a\nretry: {limit: 3, delay: 5s, factor: 0.5, max: 1s}\n",
       "f:2:38: retry.factor: factor '0.5' is less than 1\n"
       "f:2:48: retry.max: max 1s is less than delay 5s\n"},
      {"action: a\nrescue: retry\n", "f:2:9: rescue: expected pause, skip or fail, not 'retry'\n"},
      {"action: a\nweight: -1\n", "f:2:9: weight: weight '-1' is negative\n"},
      {"action: a\nweight: heavy\n",
       "f:2:9: weight: expected a number, 0 or more, or {run: 4, finalize: 1}, not 'heavy'\n"},
      {"action: a\nweight: {run: x, plan: 1}\n",
       "f:2:15: weight.run: expected a number, 0 or more, not 'x'\n"
       "f:2:18: weight.plan: unknown key 'plan'; a weight has run and finalize\n"},
      {"action: a\npoll: true\n",
       "f:2:7: poll: expected a map such as {intervals: [500ms, 1s, 2s], per_interval: 5, "
       "max_failures: 3}, not 'true'\n"},
      {"action: a\npoll: {intervals: [], per_interval: 0, max_failure: 1}\n",
       "f:2:8: poll.intervals: expected durations such as [500ms, 1s, 2s], or one of them, not "
       "an empty list\n"
       "f:2:37: poll.per_interval: expected a whole number from 1 to 2147483647, not '0'\n"
       "f:2:40: poll.max_failure: unknown key 'max_failure' (did you mean 'max_failures'?)\n"},
      {"action: a\npoll: {intervals: [1s, 0s, 5]}\n",
       "f:2:24: poll.intervals[1]: expected a duration above zero, not '0s'\n"
       "f:2:28: poll.intervals[2]: '5' has no unit; write 5s for seconds, or another of us, ms, "
       "s, m, h, d\n"},
      {"action: a\ninput: {type: strin}\n",
       "f:2:15: input.type: 'strin' is no type: 'type' must be array, boolean, integer, null, "
       "number, object or "
       "string, or a list of those (did you mean 'string'?)\n"},
      {"action: a\noutput: 5\n",
       "f:2:9: output: expected a JSON Schema, such as {type: object, required: [url]}, not '5'\n"},
      {"action: a\nsingleton: \"${params.x\"\n",
       "f:2:12: singleton: '${params.x' is not closed; add '}', or write '$${' for a plain '${'\n"},
      {"action: a\nsingleton: ''\n",
       "f:2:12: singleton: expected text such as \"infra-${params.site}\", not ''\n"},
      {"action: a\non_conflict: wait\n",
       "f:2:1: on_conflict: 'on_conflict' stands beside 'singleton'; add one, such as singleton: "
       "\"infra-${params.site}\", or remove this\n"},
      {"action: a\nsingleton: x\non_conflict: queue\n",
       "f:3:14: on_conflict: expected fail or wait, not 'queue'\n"},
      {"action: a\nsubscribes_to: {b: c}\n",
       "f:2:1: subscribes_to: expected the name of an action, or a list of such names, not a "
       "map\n"},
      {"action: a\nsubscribes_to: [b, 'c d']\n",
       "f:2:20: subscribes_to[1]: action name 'c d' may only hold letters, digits, '.', '_' and "
       "'-'\n"},
      {"action: a\nwith: {x: {y: ['${a..b}', '${']}}\n",
       "f:2:16: with.x.y[0]: '${a..b}' is no reference; one looks like "
       "'${step.output.list[0].name}': keys of letters, digits, '_' and '-', and indexes\n"
       "f:2:27: with.x.y[1]: '${' is not closed; add '}', or write '$${' for a plain '${'\n"},
      {"action: a\nwith: text\n",
       "f:2:7: with: expected a map such as {name: \"${params.name}\"}, or a reference to one, "
       "not 'text'\n"},
      {"action: a\nuse:\n",
       "f:2:1: use: expected names of middleware, such as [audit, {name: trace, before: audit}], "
       "not nothing\n"},
      {"action: a\nuse: [{before: b, aftr: c}, [d]]\n",
       "f:2:7: use[0]: this use has no 'name'; add the name of a middleware\n"
       "f:2:19: use[0].aftr: unknown key 'aftr' (did you mean 'after'?)\n"
       "f:2:29: use[1]: expected a map such as {name: trace, before: audit}, not a list\n"},
      {"action: a\nreplace: [a, b]\n",
       "f:2:1: replace: expected a map such as {audit: other}, not a list\n"},
      {"action: a\nreplace: {'a b': c, d: [e]}\n",
       "f:2:11: replace.a b: middleware name 'a b' may only hold letters, digits, '.', '_' and "
       "'-'\n"
       "f:2:21: replace.d: expected the name of a middleware, not a list\n"},
      {"action: a\nwithout: {a: b}\n",
       "f:2:1: without: expected the name of a middleware, or a list of such names, not a map\n"},
  };
  CheckRefused(rows);
}

TEST_CASE("plans that are refused") {
  const Row rows[] = {
      {"plan: p\n",
       "f:1:1: flow: the plan has no 'flow'; add one, such as [{step: NAME, action: NAME}]\n"},
      {"plan: p\nflw: []\n", "f:2:1: flw: unknown key 'flw' (did you mean 'flow'?)\n"},
      {"flow: []\nlabel: x\n", "f:1:1: plan: the document has no 'plan'; add 'plan: NAME'\n"},
      {"id: q\nflow: []\n",
       "f:1:1: id: unknown key 'id'; a plan has plan, description, params, label, "
       "upgrade_strategy, retention, limit, singleton, on_conflict, wait_after_fail, hooks, use, "
       "replace, without and "
       "flow\n"
       "f:1:1: plan: the document has no 'plan'; add 'plan: NAME'\n"},
      {"plan: p\nid: q\nflow: []\n",
       "f:2:1: id: unknown key 'id'; a plan has plan, description, params, label, "
       "upgrade_strategy, retention, limit, singleton, on_conflict, wait_after_fail, hooks, use, "
       "replace, without and "
       "flow\n"},
      {"plan: dfsmr.p\nflow: []\n",
       "f:1:7: plan: plan name 'dfsmr.p' is reserved: names that start with 'dfsmr.' are the "
       "system's\n"},
      {"plan: p\nflow: []\nupgrade_strategy: restart\nretention: 7\n",
       "f:3:19: upgrade_strategy: expected continue, upgrade or abort, not 'restart'\n"
       "f:4:12: retention: '7' has no unit; write 7s for seconds, or another of us, ms, s, m, h, "
       "d\n"},
      {"plan: p\nflow: []\nparams: {type: strin}\n",
       "f:3:16: params.type: 'strin' is no type: 'type' must be array, boolean, integer, null, "
       "number, object or "
       "string, or a list of those (did you mean 'string'?)\n"},
      {"plan: p\nflow: []\nlabel: [x]\n",
       "f:3:1: label: expected text such as \"machine ${params.name}\", not a list\n"},
      {"plan: p\nflow: []\nlabel: 'x ${params.}'\n",
       "f:3:8: label: '${params.}' is no reference; one looks like "
       "'${step.output.list[0].name}': keys of letters, digits, '_' and '-', and indexes\n"},
      {"plan: p\nflow: []\non_conflict: wait\n",
       "f:3:1: on_conflict: 'on_conflict' stands beside 'singleton'; add one, such as singleton: "
       "\"infra-${params.site}\", or remove this\n"},
      {"plan: p\nflow: []\nqueue: q\n",
       "f:3:1: queue: unknown key 'queue'; a plan has plan, description, params, label, "
       "upgrade_strategy, retention, limit, singleton, on_conflict, wait_after_fail, hooks, use, "
       "replace, without and "
       "flow\n"},
      {"plan: p\nflow: []\nhooks: {on: paused, action: a}\n",
       "f:3:1: hooks: expected a list of hooks such as {on: [paused, failure], action: "
       "mail.send}, not a map\n"},
      {"plan: p\nflow: []\nhooks:\n- mail\n- {on: pause, action: a}\n- {on: []}\n"
       "- {action: a, input: [1]}\n- {on: [paused, paused], action: a, step: b}\n",
       "f:4:3: hooks[0]: expected a hook such as {on: [paused, failure], action: mail.send}, not "
       "'mail'\n"
       "f:5:8: hooks[1].on: expected scheduled, planning, running, paused, stopped, success, "
       "warning, failure or cancelled, not 'pause' (did you mean 'paused'?)\n"
       "f:6:3: hooks[2]: the hook has no 'action'; write it as {on: [paused, failure], action: "
       "mail.send}\n"
       "f:6:4: hooks[2].on: expected a list such as [paused, failure], not an empty one\n"
       "f:7:3: hooks[3]: the hook has no 'on'; write it as {on: [paused, failure], action: "
       "mail.send}\n"
       "f:7:15: hooks[3].input: expected a map such as {name: \"${params.name}\"}, or a "
       "reference to one, not a list\n"
       "f:8:17: hooks[4].on[1]: 'paused' is there twice; keep one of them\n"
       "f:8:37: hooks[4].step: unknown key 'step'; a hook has on, action and input\n"},
      {"plan: p\nflow:\n",
       "f:2:1: flow: expected a step such as {step: NAME, action: NAME}, a list of steps, or a "
       "block such as {sequence: [STEP, STEP]}, not nothing\n"},
      {"plan: p\nflow: disk\n",
       "f:2:7: flow: expected a step such as {step: NAME, action: NAME}, a list of steps, or a "
       "block such as {sequence: [STEP, STEP]}, not 'disk'\n"},
      {"plan: p\nflow: {}\n",
       "f:2:1: flow: this map is no part of a flow: it has none of 'step', 'sequence', "
       "'concurrence', 'for_each', 'section' and 'self'\n"},
  };
  CheckRefused(rows);
}

TEST_CASE("flows that are refused") {
  const Row rows[] = {
      {"plan: p\nflow: [disk]\n",
       "f:2:8: flow[0]: expected a step such as {step: NAME, action: NAME}, a list of steps, or "
       "a block such as {sequence: [STEP, STEP]}, not 'disk'\n"},
      {"plan: p\nflow: [{action: a}]\n",
       "f:2:8: flow[0]: the step has no name; add 'step: NAME'\n"},
      {"plan: p\nflow: [{stpe: s, action: a}]\n",
       "f:2:9: flow[0].stpe: unknown key 'stpe' (did you mean 'step'?)\n"},
      {"plan: p\nflow: [{run: s, this: a}]\n",
       "f:2:8: flow[0]: this map is no part of a flow: it has none of 'step', 'sequence', "
       "'concurrence', 'for_each', 'section' and 'self'\n"},
      {"plan: p\nflow: [{step: s}]\n",
       "f:2:8: flow[0]: step 's' does nothing; add 'action: NAME', 'plan: NAME' or 'spawn: "
       "NAME'\n"},
      {"plan: p\nflow: [{step: s, acton: a}]\n",
       "f:2:18: flow[0].acton: unknown key 'acton' (did you mean 'action'?)\n"},
      {"plan: p\nflow: [{step: s, action: a, plan: b}]\n",
       "f:2:8: flow[0]: step 's' has 'action' and 'plan'; keep one of them\n"},
      {"plan: p\nflow: [{step: 'a b', action: a/b}]\n",
       "f:2:15: flow[0].step: step name 'a b' may only hold letters, digits, '.', '_' and '-'\n"
       "f:2:30: flow[0].action: action name 'a/b' may only hold letters, digits, '.', '_' and "
       "'-'\n"},
      {"plan: p\nflow: [{step: s, action: a, colour: 1}]\n",
       "f:2:29: flow[0].colour: unknown key 'colour'; a step has step, one of action, plan and "
       "spawn, input, after, when and if, and with 'action' queue, priority, the keys of a "
       "timeout, retry, run_timeout, ready_timeout, abandon_after, poll, rescue, weight, use, "
       "replace, without, limit, singleton, on_conflict, runs_on and dry_run\n"},
      {"plan: p\nflow: [{step: s, plan: a, queue: q, retry: 3}]\n",
       "f:2:27: flow[0].queue: key 'queue' is for steps with 'action', and this is a step with "
       "'plan'\n"
       "f:2:37: flow[0].retry: key 'retry' is for steps with 'action', and this is a step with "
       "'plan'\n"},
      {"plan: p\nflow: [{step: s, action: a, phases: [run]}]\n",
       "f:2:29: flow[0].phases: unknown key 'phases'; a step has step, one of action, plan and "
       "spawn, input, after, when and if, and with 'action' queue, priority, the keys of a "
       "timeout, retry, run_timeout, ready_timeout, abandon_after, poll, rescue, weight, use, "
       "replace, without, limit, singleton, on_conflict, runs_on and dry_run\n"},
      {"plan: p\nflow: [{step: s, action: a, input: text}]\n",
       "f:2:36: flow[0].input: expected a map such as {name: \"${params.name}\"}, or a reference "
       "to one, not 'text'\n"},
      {"plan: p\nflow: [{step: s, action: a, input: [1]}]\n",
       "f:2:29: flow[0].input: expected a map such as {name: \"${params.name}\"}, or a reference "
       "to one, not a list\n"},
      {"plan: p\nflow:\n- step: s\n  action: a\n  input:\n    deep: [1, \"${x.output\"]\n",
       "f:6:15: flow[0].input.deep[1]: '${x.output' is not closed; add '}', or write '$${' for a "
       "plain '${'\n"},
      {"plan: p\nflow: [{step: s, action: a, input: \"${x.output\"}]\n",
       "f:2:36: flow[0].input: '${x.output' is not closed; add '}', or write '$${' for a plain "
       "'${'\n"},
      {"plan: p\nflow: [{step: s, action: a, input: {x: ${y}}}]\n",
       "f:2:41: flow[0].input: not YAML: quote text that holds '${'\n"},
      {"plan: p\nflow: [{step: s, action: a, after: {a: b}}]\n",
       "f:2:29: flow[0].after: expected the name of a step, or a list of such names, not a map\n"},
      {"plan: p\nflow: [{step: s, action: a, after: }]\n",
       "f:2:29: flow[0].after: expected the name of a step, or a list of such names, not "
       "nothing\n"},
      {"plan: p\nflow: [{step: s, action: a, when: maybe}]\n",
       "f:2:35: flow[0].when: expected true, false, or a reference such as \"${params.flag}\", "
       "not 'maybe'\n"},
      {"plan: p\nflow: [{step: s, action: a, when: 'not ${params.x}'}]\n",
       "f:2:35: flow[0].when: expected true, false, or a reference such as \"${params.flag}\", "
       "not 'not ${params.x}'\n"},
      {"plan: p\nflow: [{step: s, action: a, when: '${params.x'}]\n",
       "f:2:35: flow[0].when: '${params.x' is not closed; add '}', or write '$${' for a plain "
       "'${'\n"},
      {"plan: p\nflow: [{step: s, action: a, timeout: -1}]\n",
       "f:2:38: flow[0].timeout: timeout '-1' is negative\n"},
      {"plan: p\nflow: {step: s, action: a, for_each: [1]}\n",
       "f:2:1: flow: 'step' and 'for_each' cannot stand in one map; each is a part of the flow "
       "by itself, and one may hold the other\n"},
      {"plan: p\nflow: {sequence: [], concurrence: []}\n",
       "f:2:1: flow: 'sequence' and 'concurrence' cannot stand in one map; each is a part of the "
       "flow by itself, and one may hold the other\n"},
      {"plan: p\nflow: {sequnce: []}\n",
       "f:2:8: flow.sequnce: unknown key 'sequnce' (did you mean 'sequence'?)\n"},
      {"plan: p\nflow: {sequence: [], do: x, aftr: b}\n",
       "f:2:22: flow.do: unknown key 'do'; a sequence has sequence, when and after\n"
       "f:2:29: flow.aftr: unknown key 'aftr' (did you mean 'after'?)\n"},
      {"plan: p\nflow: {sequence: a}\n",
       "f:2:18: flow.sequence: expected a list of steps, or {for_each: \"${params.hosts}\", as: "
       "host, do: STEP}, not 'a'\n"},
      {"plan: p\nflow: {sequence: {step: s, action: a}}\n",
       "f:2:8: flow.sequence: expected a list of steps, or {for_each: \"${params.hosts}\", as: "
       "host, do: STEP}; put what is here into a list\n"},
      {"plan: p\nflow: {sequence: {for_each: [1], when: true, do: []}}\n",
       "f:2:34: flow.sequence.when: unknown key 'when'; in here a for_each has for_each, as and "
       "do; when and after stand beside the block\n"},
      {"plan: p\nflow: {for_each: x, as: 'a.b'}\n",
       "f:2:1: flow: the for_each has no 'do'; add the flow for each item: {for_each: "
       "\"${params.hosts}\", as: host, do: STEP}\n"
       "f:2:18: flow.for_each: expected a list, or a reference to one such as "
       "\"${params.hosts}\", not 'x'\n"
       "f:2:25: flow.as: item name 'a.b' holds a '.', which ends a name in references\n"},
      {"plan: p\nflow: {for_each: {a: b}, as: params, do: []}\n",
       "f:2:8: flow.for_each: expected a list, or a reference to one such as "
       "\"${params.hosts}\", not a map\n"
       "f:2:30: flow.as: item name 'params' has a meaning of its own in references; choose "
       "another\n"},
      {"plan: p\nflow: [{self: run}]\n",
       "f:2:9: flow[0].self: 'self' stands in what a planner reports; a plan has no run of its "
       "own\n"},
      {"plan: p\nflow: [{step: s, spawn: }]\n",
       "f:2:18: flow[0].spawn: expected the name of a plan or machine, or {plan: NAME, for_each: "
       "LIST, as: NAME, input: MAP}, not nothing\n"},
      {"plan: p\nflow: [{step: s, spawn: {}}]\n",
       "f:2:18: flow[0].spawn: the spawn starts nothing; add 'plan: NAME' or 'machine: NAME'\n"},
      {"plan: p\nflow: [{step: s, spawn: {plan: a, machine: b, as: c}}]\n",
       "f:2:18: flow[0].spawn: the spawn has 'plan' and 'machine'; keep one of them\n"
       "f:2:47: flow[0].spawn.as: 'as' names the items of a 'for_each', and there is none\n"},
      {"plan: p\nflow: [{step: s, spawn: {action: a, plan: b, concurrency: 0}}]\n",
       "f:2:26: flow[0].spawn.action: unknown key 'action'; a spawn has plan or machine, "
       "for_each, as, input and concurrency\n"
       "f:2:59: flow[0].spawn.concurrency: expected a whole number from 1 to 2147483647, not "
       "'0'\n"},
      {"plan: p\nflow: [{step: s, input: {}, spawn: {plan: a, input: {}}}]\n",
       "f:2:18: flow[0].input: the children's input is there twice, here and in 'spawn'; keep "
       "one of them\n"},
  };
  CheckRefused(rows);
}

TEST_CASE("machines, plans and actions have their ids in common") {
  CHECK(Told("action: a\n---\nplan: a\nflow: []\n---\naction: a\n---\n"
             "id: a\nnodes: {x: {start: true, final: true}}\n---\nplan: b\nflow: []\n") ==
        "f:3:7: plan: plan 'a' has the id of the action in line 1; keep one, or rename the other\n"
        "f:6:9: action: action 'a' is defined twice here, first in line 1; keep one, or rename the "
        "other\n"
        "f:8:5: id: machine 'a' has the id of the action in line 1; keep one, or rename the "
        "other\n");
}

// What ParseFlow makes of a text, and what it says.
struct Given {
  std::shared_ptr<const PlanSource> plan;
  std::string told;
};
Given Give(std::string_view text) {
  std::vector<Diagnostic> diagnostics;
  Given given{ParseFlow(text, "flow", &diagnostics), ""};
  for (const Diagnostic& diagnostic : diagnostics) given.told += Format(diagnostic) + "\n";
  return given;
}

TEST_CASE("flows from elsewhere: lists, blocks, steps and plans without a name") {
  Given list = Give(
      "[{\"step\":\"a\",\"action\":\"x\",\"input\":{\"n\":1.50}},{\"self\":\"run\"}]");
  CHECK(list.told == "");
  REQUIRE(list.plan);
  CHECK(list.plan->id.empty());
  REQUIRE(list.plan->flow.children.size() == 2);
  CHECK(list.plan->flow.children[0].input == R"({"n":1.50})");
  CHECK(Where(list.plan->flow.children[0].written) == "1:2 flow[0]");
  CHECK(list.plan->flow.children[1].self_run);

  Given block = Give("sequence:\n- {step: a, action: x}\n");
  REQUIRE(block.plan);
  CHECK(block.plan->flow.kind == FlowNode::Kind::kSequence);
  CHECK(Where(block.plan->flow.children[0].written) == "2:3 flow.sequence[0]");

  Given step = Give("{step: a, plan: x}");
  REQUIRE(step.plan);
  CHECK(step.plan->flow.plan == "x");
  CHECK(step.plan->id.empty());

  Given plan = Give("label: x\nretention: 1h\nflow: [{step: a, action: x}]\n");
  REQUIRE(plan.plan);
  CHECK(plan.plan->label == "x");
  CHECK(plan.plan->retention == Duration(1h));
  CHECK(Give("plan: p\nflow: []").plan->id == "p");
  CHECK(Give("[]").plan);
}

TEST_CASE("flows from elsewhere that are refused") {
  const Row rows[] = {
      {"",
       "flow:1:1: .: the flow is empty text; it needs a list of steps (perhaps []), or a map "
       "with 'flow'\n"},
      {"# nothing\n",
       "flow:1:1: .: the flow is empty text; it needs a list of steps (perhaps []), or a map "
       "with 'flow'\n"},
      {"text",
       "flow:1:1: flow: expected a step such as {step: NAME, action: NAME}, a list of steps, or "
       "a block such as {sequence: [STEP, STEP]}, not 'text'\n"},
      {"label: x\n",
       "flow:1:1: flow: the plan has no 'flow'; add one, such as [{step: NAME, action: NAME}]\n"},
      {"{a: b}",
       "flow:1:1: flow: this map is no part of a flow: it has none of 'step', 'sequence', "
       "'concurrence', 'for_each', 'section' and 'self'\n"},
      {"[\n",
       "flow:1:1: .: a key must be text, not a map or list; perhaps a '{' or '[' is not closed, "
       "or wants quotes\n"},
      {"[{step: a}]",
       "flow:1:2: flow[0]: step 'a' does nothing; add 'action: NAME', 'plan: NAME' or 'spawn: "
       "NAME'\n"},
      {"[]\n---\n[]\n", "flow:3:1: .: a flow is one document; remove this one\n"},
      {"flow: []\nqueue: q\n",
       "flow:2:1: queue: unknown key 'queue'; a plan has plan, description, params, label, "
       "upgrade_strategy, retention, limit, singleton, on_conflict, wait_after_fail, hooks, use, "
       "replace, without and "
       "flow\n"},
      {"{\"flow\": [{\"step\": \"a\", \"action\": \"dfsmr.x\"}]}",
       "flow:1:35: flow[0].action: action name 'dfsmr.x' is reserved: names that start with "
       "'dfsmr.' are the system's\n"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    Given given = Give(row.text);
    CHECK(given.told == row.told);
    CHECK_FALSE(given.plan);
  }
}

TEST_CASE("JSON as programs write it") {
  Given given = Give("[\n\t{\"step\":\"a\",\t\"action\":\"x\",\n\t\t\"input\":{\"t\":"
                     "\"\\ud83d\\ude00 \\/ \\u00e9 \\\"\\\\ud83d\",\"f\":-1e5,\"z\":null}}\n]\n");
  CHECK(given.told == "");
  REQUIRE(given.plan);
  CHECK(given.plan->flow.children[0].input ==
        "{\"t\":\"\xF0\x9F\x98\x80 / \xC3\xA9 \\\"\\\\ud83d\",\"f\":-1e5,\"z\":null}");
}

}  // namespace
}  // namespace dfsmr
