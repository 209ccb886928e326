// The key `dry_run`.
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
std::string Machine(const std::string& dry_run) {
  return "id: m\nnodes:\n  a: {start: true, dry_run: " + dry_run +
         ", transitions: {fine: z, bad: z}}\n  z: {final: true}\n";
}

TEST_CASE("a node says who does its work in a dry run, or what is reported") {
  Parsed parsed = Read(Machine("worker"));
  REQUIRE(parsed.ok());
  CHECK(parsed.definitions[0].nodes[0].settings->dry_run.worker);
  parsed = Read(Machine("{transition: bad, output: {n: 1, list: [a]}}"));
  REQUIRE(parsed.ok());
  CHECK(parsed.definitions[0].nodes[0].settings->dry_run ==
        DryRunRule{false, "bad", R"({"n":1,"list":["a"]})"});
  CHECK(Read("id: m\ndefaults: {dry_run: worker}\nnodes:\n  a: {start: true, transitions: "
             "{ok: z}}\n  z: {final: true}\n")
            .definitions[0]
            .nodes[0]
            .settings->dry_run.worker);
}

TEST_CASE("a transition that the node does not have is refused") {
  CHECK(Says(ProblemsOf(Machine("{transition: ok}")), "no transition 'ok'"));
  CHECK(Says(ProblemsOf(Machine("{transition: ok}")), "fine, bad"));
  CHECK(ProblemsOf(Machine("{output: {}}")).empty());  // with `ok`, or the first there is
  CHECK(Says(ProblemsOf(Machine("{}")), "expected worker"));
  CHECK(Says(ProblemsOf(Machine("true")), "expected worker"));
  CHECK(Says(ProblemsOf(Machine("{transition: fine, output: 7}")), "output as a map"));
  CHECK(Says(ProblemsOf(Machine("{transition: fine, outputs: {}}")), "outputs"));
  CHECK(Says(ProblemsOf("action: x\ndry_run: {transition: fine}\n"), "no transition 'fine'"));
}

TEST_CASE("actions and steps say so, too, and a step's own wins") {
  Parsed parsed = Read(
      "action: x\ndry_run: worker\n---\n"
      "plan: p\nflow: [{step: s, action: x, dry_run: {transition: error}}]\n");
  REQUIRE(parsed.ok());
  CHECK(parsed.definitions[0].action()->dry_run->worker);
  CHECK(parsed.definitions[1].plan()->flow.children[0].own.dry_run->transition == "error");
}

}  // namespace
}  // namespace dfsmr
