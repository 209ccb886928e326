// retry, run_timeout, ready_timeout, abandon_after and rescue, as they are written.
#include <doctest/doctest.h>

#include "fsm/plan/source.h"
#include "fsm/yaml/definitions.h"

namespace dfsmr {
namespace {

using namespace std::chrono_literals;

std::string Told(std::string_view text) {
  std::string lines;
  for (const Diagnostic& diagnostic : ParseDefinitions(text, "f").diagnostics) {
    lines += Format(diagnostic) + "\n";
  }
  return lines;
}

Machine Read(std::string_view text) {
  Parsed parsed = ParseDefinitions(text, "f");
  REQUIRE_MESSAGE(parsed.diagnostics.empty(), Format(parsed.diagnostics.front()));
  return std::move(parsed.definitions.front());
}

// A machine around the keys of its node `a`, which begin in line 3.
std::string WithNode(const std::string& keys, const std::string& transitions = "ok: z, error: z") {
  return "id: m\nnodes:\n  a: {" + keys + ", start: true, transitions: {" + transitions +
         "}}\n  z: {final: true}\n";
}

const NodeSettings& SettingsOf(const Machine& machine, std::string_view node) {
  return *machine.nodes[machine.Find(node)].settings;
}

constexpr std::string_view kWhole =
    "retry: {limit: 5, delay: 1s, factor: 2, max: 1m, jitter: 0.25, on: [transient, \"lock "
    "timeout\"]}, run_timeout: 10m, ready_timeout: 30s, abandon_after: 0";
const RetryPolicy kRead{.limit = 5,
                        .delay = {.initial = 1s, .factor = 2, .max = 1min, .jitter = 0.25},
                        .on = {"transient", "lock timeout"}};

TEST_CASE("the keys mean the same on actions, steps and nodes") {
  const AttemptBounds bounds{.run_timeout = 10min, .ready_timeout = 30s, .abandon_after = 0};
  SUBCASE("a node") {
    const Machine machine = Read(WithNode(std::string(kWhole)));
    CHECK(SettingsOf(machine, "a").retry == kRead);
    CHECK(SettingsOf(machine, "a").bounds == bounds);
    CHECK(machine.ready_ends);
  }
  SUBCASE("an action") {
    const Machine machine = Read("{action: a, " + std::string(kWhole) + "}");
    const ActionSource& action = *machine.action();
    CHECK(action.retry == kRead);
    CHECK(action.run_timeout == 10min);
    CHECK(action.ready_timeout == 30s);
    CHECK(action.abandon_after == 0);
  }
  SUBCASE("a step") {
    const Parsed parsed =
        ParseDefinitions("plan: p\nflow: [{step: s, action: a, " + std::string(kWhole) + "}]", "f");
    REQUIRE(parsed.ok());
    const ActionSource& own = parsed.definitions.front().plan()->flow.children.front().own;
    CHECK(own.retry == kRead);
    CHECK(own.run_timeout == 10min);
  }
}

TEST_CASE("a node without the keys tries once, and is abandoned after three attempts") {
  const Machine machine = Read(WithNode("queue: q"));
  CHECK(SettingsOf(machine, "a").retry == RetryPolicy());
  CHECK(SettingsOf(machine, "a").bounds.abandon_after == 3);
  CHECK(SettingsOf(machine, "a").bounds.run_timeout == Duration::zero());
  CHECK_FALSE(machine.ready_ends);
}

TEST_CASE("defaults hold them for all work nodes, which may say otherwise") {
  const Machine machine = Read(
      "id: m\ndefaults: {retry: 4, run_timeout: 1h, ready_timeout: 5s, abandon_after: 1}\nnodes:\n"
      "  a: {start: true, transitions: {ok: b, error: z}}\n"
      "  b: {retry: 1, run_timeout: 1m, transitions: {ok: z}}\n  z: {final: true}\n");
  CHECK(SettingsOf(machine, "a").retry.limit == 4);
  CHECK(SettingsOf(machine, "a").bounds.run_timeout == 1h);
  CHECK(SettingsOf(machine, "b").retry.limit == 1);
  CHECK(SettingsOf(machine, "b").bounds.run_timeout == 1min);
  CHECK(SettingsOf(machine, "b").bounds.ready_timeout == 5s);
}

TEST_CASE("one entry of `on` needs no list") {
  CHECK(SettingsOf(Read(WithNode("retry: {limit: 2, on: oom}")), "a").retry.on ==
        std::vector<std::string>{"oom"});
}

TEST_CASE("what is refused") {
  struct Row {
    std::string text;
    std::string told;
  };
  const Row rows[] = {
      {WithNode("retry: 3", "ok: z"),
       "f:3:14: nodes.a.retry: node 'a' has retry but no transition 'error', which it takes when "
       "no "
       "try is left; add 'error: NODE', or 'retry: 1', which tries once\n"},
      {WithNode("run_timeout: 0s"),
       "f:3:20: nodes.a.run_timeout: expected a duration above zero, not '0s'\n"},
      {WithNode("ready_timeout: 0ms"),
       "f:3:22: nodes.a.ready_timeout: expected a duration above zero, not '0ms'\n"},
      {WithNode("abandon_after: -1"),
       "f:3:22: nodes.a.abandon_after: expected a whole number from 0 to 1000000, not '-1'\n"},
      {WithNode("retry: {limit: 2, on: []}"),
       "f:3:25: nodes.a.retry.on: 'on' is empty, so that no error would be tried again; write "
       "which "
       "are, [transient, \"lock timeout\"], or leave it out for all of them\n"},
      {WithNode("retry: {limit: 2, on: [\"\"]}"),
       "f:3:30: nodes.a.retry.on[0]: expected a kind of errors, or a part of their text, such as "
       "transient or \"lock timeout\"; not ''\n"},
      {WithNode("retry: {limit: 2, delay: 0s}"),
       "f:3:32: nodes.a.retry.delay: expected a duration above zero, not '0s'\n"},
      {WithNode("retry: {limit: 2, jitter: 2}"),
       "f:3:33: nodes.a.retry.jitter: jitter '2' is not a share from 0 to 1\n"},
      {WithNode("retry: {limit: 1000001}"),
       "f:3:22: nodes.a.retry.limit: expected a whole number from 1 to 1000000, not '1000001'\n"},
      {"id: m\nnodes:\n  a: {delay: 1s, retry: 2, start: true, transitions: {ok: z}}\n"
       "  z: {final: true}\n",
       "f:3:18: nodes.a.retry: key 'retry' is for work nodes, and this is a delay node\n"},
      {"action: a\nready_timeout: 0s\n",
       "f:2:16: ready_timeout: expected a duration above zero, not '0s'\n"},
      {"action: a\nrescue: \"${step.output.x}\"\n",
       "f:2:9: rescue: expected pause, skip or fail, or one of the plan's params, such as "
       "\"${params.rescue}\"; not '${step.output.x}'\n"},
      {"action: a\nrescue: \"${params.x} or not\"\n",
       "f:2:9: rescue: expected pause, skip or fail, or one of the plan's params, such as "
       "\"${params.rescue}\"; not '${params.x} or not'\n"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(Told(row.text) == row.told);
  }
}

TEST_CASE("a rescue may be one of the plan's params") {
  const Machine machine = Read("action: a\nrescue: \"${params.rescue}\"\n");
  CHECK(machine.action()->rescue_from == "\"${params.rescue}\"");
  CHECK_FALSE(machine.action()->rescue.has_value());
}

}  // namespace
}  // namespace dfsmr
