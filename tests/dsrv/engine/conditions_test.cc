// The engine on conditions: what they ask of params and outputs, what a crash leaves of them, and
// the time of wait_after_fail.
#include <doctest/doctest.h>

#include "tests/dsrv/engine/world.h"
#include "tests/sim/plan_audit.h"

namespace dfsmr {
namespace {

using namespace std::chrono_literals;

// After each step the store must be sound, and an engine that starts on it must go on as this one.
void Healthy(World& world, bool crash) {
  world.Drain();
  (void)world.Do([](Engine& e) { return e.Settle("ns", ""); });
  PlanAudit audit(world);
  audit.All();
  CHECK(audit.problem() == "");
  if (crash) world.Crash();
}

// What is ready, in order of names.
std::string Ready(World& world) {
  std::vector<Task> tasks = world.Ready();
  world.Decide([&](Engine& e) { e.Undelivered(tasks, /*perhaps=*/false); });
  world.Commit();
  std::vector<std::string> names;
  for (const Task& task : tasks) names.push_back(task.node);
  std::ranges::sort(names);
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : " ") + name;
  return all;
}

// Claims the step and reports; gives the others back. Answers what it was given.
std::string Run(World& world, const std::string& node, ReportArgs args) {
  std::vector<Task> rest;
  std::optional<Task> task;
  for (Task& one : world.Ready()) {
    if (one.node == node) {
      task = std::move(one);
    } else {
      rest.push_back(std::move(one));
    }
  }
  world.Decide([&](Engine& e) { e.Undelivered(rest, /*perhaps=*/false); });
  world.Commit();
  REQUIRE_MESSAGE(task, node);
  args.claim = task->claim;
  auto answer = world.Do([&](Engine& e) { return e.Report("ns", task->instance, args); });
  REQUIRE_MESSAGE(answer, (answer ? "" : answer.error().message));
  return task->node_params;
}
std::string Ok(World& world, const std::string& node, std::string output = "") {
  return Run(world, node, {.transition = "ok", .output = std::move(output)});
}
void Fail(World& world, const std::string& node) {
  Run(world, node, {.transition = "error", .error = "broke"});
}
std::string Ended(World& world, const std::string& id = "i") {
  const Instance instance = world.Must(id);
  return std::string(Name(instance.state)) + " " + std::string(Name(instance.result));
}

TEST_CASE("conditions see params and outputs, those of the report that decides them, too") {
  World world;
  world.Define(R"(
plan: p
flow:
  - {step: a, action: x}
  - {step: b, action: x, if: [{value: "${params.v}", equals: 1}, {value: "${a.output.v}", less: 3}]}
  - {for_each: [1, 2], as: n, do: {step: e, action: x, after: [a], if: {value: "${n}", equals: 2}}}
  - {step: all, action: x, if: always, input: {e: "${e.output}", b: "${b.output.w}"}}
)");
  REQUIRE(world.TryStart({.machine = "p", .id = "i", .spec = {.params = R"({"v":1.0})"}}));
  Ok(world, "a", R"({"v":2})");
  CHECK(Ready(world) == "b e.1");
  Healthy(world, true);
  Ok(world, "b", R"({"w":5})");
  Ok(world, "e.1", R"({"n":2})");
  Healthy(world, true);
  CHECK(Ok(world, "all") == R"({"e":[null,{"n":2}],"b":5})");
  CHECK(Ended(world) == "STOPPED SUCCESS");
}

TEST_CASE("conditions go on after a crash where they were") {
  for (const bool crash : {false, true}) {
    CAPTURE(crash);
    World world;
    world.Define(R"(
action: x
rescue: fail
---
action: y
---
plan: q
flow: [{step: l, action: y}, {step: r, action: y, after: [l]}]
---
plan: p
flow:
  - sequence:
    - {concurrence: [{step: a, action: y}, {step: b, action: y}, {step: c, action: y}]}
    - {concurrence: [{step: d, action: y, if: {failed: b}}, {step: e, action: y}]}
  - {step: web, plan: q, after: [c], if: {succeeded: [a, b]}}
  - {step: z, action: y, if: {skipped: web}}
)");
    world.Start("p");
    Healthy(world, crash);
    Fail(world, "b");
    Healthy(world, crash);
    Ok(world, "a");
    Healthy(world, crash);
    CHECK(Ready(world) == "c");
    Ok(world, "c");
    CHECK(Ready(world) == "d z");
    Healthy(world, crash);
    Ok(world, "d");
    Healthy(world, crash);
    Ok(world, "z");
    Healthy(world, crash);
    CHECK(Ended(world) == "PAUSED PENDING");
    REQUIRE(world.Do([](Engine& e) { return e.Resume("ns", "i", "", false); }));
    Healthy(world, crash);
    Ok(world, "b");
    Healthy(world, crash);
    CHECK(Ready(world) == "e");
    Ok(world, "e");
    Healthy(world, crash);
    CHECK(Ended(world) == "STOPPED SUCCESS");
  }
}

TEST_CASE("a finally runs though the server crashes on the way") {
  World world;
  world.Define(R"(
action: x
rescue: fail
---
plan: p
flow:
  - {step: a, action: x}
  - {step: b, action: x, after: [a]}
  - {step: tidy, action: x, after: [b], if: always,
     input: {a: "${a.state}", b: "${b.state}", why: "${a.error}", out: "${b.output.v}"}}
)");
  world.Start("p");
  Fail(world, "a");
  Healthy(world, true);
  CHECK(Ok(world, "tidy") == R"({"a":"failed","b":"skipped","why":"broke","out":null})");
  Healthy(world, true);
  CHECK(Ended(world) == "STOPPED ERROR");
}

TEST_CASE("wait_after_fail ends on time, also after a crash") {
  constexpr std::string_view kPlan = R"(
action: stop
rescue: fail
---
plan: p
wait_after_fail: 10s
flow:
  - {step: a, action: pause}
  - {step: b, action: stop}
  - {step: long, action: pause}
  - {step: next, action: pause, after: [long]}
)";
  for (const bool crash : {false, true}) {
    CAPTURE(crash);
    World world;
    world.Define(kPlan);
    world.Start("p");
    SUBCASE("it pauses") {
      Fail(world, "a");
      Healthy(world, crash);
      world.Elapse(9s);
      CHECK(Ended(world) == "RUNNING PENDING");
      world.Elapse(1s);
      CHECK(Ended(world) == "PAUSED PENDING");
      Healthy(world, crash);
      CHECK(Ready(world).empty());
      REQUIRE(world.Do([](Engine& e) { return e.Resume("ns", "i", "", false); }));
      CHECK(Ready(world) == "a b long");
      Healthy(world, crash);
    }
    SUBCASE("it stops") {
      Fail(world, "b");
      Healthy(world, crash);
      world.Elapse(10s);
      CHECK(Ended(world) == "STOPPED ERROR");
      CHECK(world.Must("i").error == "step b: broke");
      Healthy(world, crash);
    }
    SUBCASE("what Start says counts") {
      REQUIRE(world.TryStart({.machine = "p", .id = "j", .wait_after_fail = 2s}));
      auto moved = world.Do([](Engine& e) {
        return e.Report("ns", "j", {.transition = "error", .node = "a", .error = "broke"});
      });
      REQUIRE(moved);
      Healthy(world, crash);
      world.Elapse(3s);
      CHECK(Ended(world, "j") == "PAUSED PENDING");
      CHECK(Ended(world, "i") == "RUNNING PENDING");
    }
  }
}

TEST_CASE("a machine chooses by what was put out before, too") {
  World world;
  world.Define(R"(
id: m
nodes:
  one: {start: true, transitions: {ok: two}}
  two:
    transitions:
      ok:
      - {if: {value: "${one.output.v}", equals: "${two.output.v}"}, to: same}
      - {if: {value: "${params.v}", equals: "${given.v}"}, to: given}
      - {to: other}
  same: {final: true}
  given: {final: true}
  other: {final: true}
)");
  const auto play = [&](const std::string& id, std::string params, std::string output) {
    REQUIRE(world.TryStart({.machine = "m", .id = id, .spec = {.params = R"({"v":7})"}}));
    Run(world, "one", {.transition = "ok", .output = R"({"v":1})"});
    world.Crash();
    Run(world, "two", {.transition = "ok", .params = std::move(params), .output = std::move(output)});
    return world.NodeOf(id);
  };
  CHECK(play("i", "", R"({"v":1})") == "same");
  CHECK(play("j", R"({"v":7})", R"({"v":2})") == "given");
  CHECK(play("k", R"({"v":8})", "") == "other");
}

}  // namespace
}  // namespace dfsmr
