// The key `runs_on`.
#include <doctest/doctest.h>

#include "fsm/plan/source.h"
#include "fsm/yaml/definitions.h"

namespace dfsmr {
namespace {

Parsed Read(const std::string& text) { return ParseDefinitions(text, "f"); }
std::string ProblemsOf(const std::string& text) {
  std::string problems;
  for (const Diagnostic& one : Read(text).diagnostics) problems += Format(one) + "\n";
  return problems;
}
bool Says(const std::string& problems, const std::string& text) {
  CAPTURE(problems);
  return problems.find(text) != std::string::npos;
}
// A machine that goes a → b → c → z; b leads back to a, too.
std::string Machine(const std::string& of_b, const std::string& of_c = "") {
  const auto keys = [](const std::string& runs_on) {
    return runs_on.empty() ? "" : "runs_on: " + runs_on + ", ";
  };
  return "id: m\nnodes:\n  a: {start: true, transitions: {ok: b}}\n  b: {" + keys(of_b) +
         "transitions: {ok: c, again: a}}\n  c: {" + keys(of_c) +
         "transitions: {ok: d}}\n  d: {manual: true, transitions: {ok: z}}\n  z: {final: true}\n";
}

TEST_CASE("a node says what a worker has, or which one it is") {
  Parsed parsed = Read(
      Machine("{capability: [gpu, arm64, gpu], agent: \"${params.host}\"}", "{capability: gpu}"));
  REQUIRE(parsed.ok());
  const auto& nodes = parsed.definitions[0].nodes;
  CHECK(nodes[1].settings->runs_on == RunsOn{{"gpu", "arm64"}, "${params.host}"});
  CHECK(nodes[2].settings->runs_on == RunsOn{{"gpu"}, ""});
  CHECK(nodes[0].settings->runs_on.empty());
  parsed = Read(
      "id: m\ndefaults: {runs_on: {agent: h1}}\nnodes: {n: {start: true, transitions: "
      "{ok: o}}, o: {runs_on: {capability: x}, transitions: {ok: z}}, z: {final: true}}\n");
  REQUIRE(parsed.ok());
  CHECK(parsed.definitions[0].nodes[0].settings->runs_on == RunsOn{{}, "h1"});
  CHECK(parsed.definitions[0].nodes[1].settings->runs_on == RunsOn{{"x"}, ""});
}

TEST_CASE("actions and steps say so, too, and a step's own wins") {
  Parsed parsed = Read(
      "action: x\nruns_on: {capability: gpu}\n---\n"
      "plan: p\nflow: [{step: s, action: x, runs_on: {agent: h1}}]\n");
  REQUIRE(parsed.ok());
  CHECK(parsed.definitions[0].action()->runs_on == RunsOn{{"gpu"}, ""});
  CHECK(parsed.definitions[1].plan()->flow.children[0].own.runs_on == RunsOn{{}, "h1"});
}

TEST_CASE("the worker of a node before is kept if it is referred to") {
  Parsed parsed = Read(Machine("", "{agent: \"${b.worker}\"}"));
  REQUIRE(parsed.ok());
  CHECK_FALSE(parsed.definitions[0].nodes[0].tells_worker);
  CHECK(parsed.definitions[0].nodes[1].tells_worker);
  CHECK(ProblemsOf(Machine("", "{agent: \"${a.output.host}-${instance.id}\"}")) == "");
  CHECK(ProblemsOf(Machine("{agent: \"${b.worker}\"}")) == "");  // it comes round
}

TEST_CASE("what is wrong with a runs_on is said where it stands") {
  const auto of = [](const std::string& runs_on) { return ProblemsOf(Machine(runs_on)); };
  CHECK(Says(of("gpu"), "nodes.b.runs_on: expected {capability: [gpu, arm64], agent:"));
  CHECK(Says(of("{}"), "not an empty map"));
  CHECK(Says(of("{capability: \"a b\"}"), "nodes.b.runs_on.capability: "));
  CHECK(Says(of("{capability: {a: 1}}"), "the name of a capability, or a list of such names"));
  CHECK(Says(of("{capabilities: x}"), "did you mean 'capability'"));
  CHECK(Says(of("{agent: [a]}"), "expected text such as \"${params.host}\""));
  CHECK(Says(of("{agent: \"${params\"}"), "nodes.b.runs_on.agent"));
  CHECK(Says(of("{agent: \"${c.worker}\"}"), "f:4:"));
  CHECK(Says(of("{agent: \"${c.worker}\"}"), "node 'c' does not come before node 'b'"));
  CHECK(Says(of("{agent: \"${c.output.x}\"}"), "node 'c' does not come before node 'b'"));
  CHECK(Says(of("{agent: \"${aa.worker}\"}"), "there is no node 'aa'"));
  CHECK(Says(of("{agent: \"${given.x}\"}"), "${NODE.output…} and ${NODE.worker}"));
  CHECK(Says(of("{agent: \"${instance.ns}\"}"), "${NODE.output…} and ${NODE.worker}"));
  std::string many;
  for (int i = 0; i < 65; ++i) many += (i ? ",c" : "c") + std::to_string(i);
  CHECK(Says(of("{capability: [" + many + "]}"), "at most 64 capabilities, not 65"));
  CHECK(Says(ProblemsOf("id: m\nnodes: {a: {start: true, manual: true, runs_on: {agent: h}, "
                        "transitions: {ok: z}}, z: {final: true}}\n"),
             "is for work nodes"));
}

}  // namespace
}  // namespace dfsmr
