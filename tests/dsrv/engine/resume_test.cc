// The engine resumes what has stopped: rows, counters, children and crashes on the way.
#include <doctest/doctest.h>

#include <algorithm>

#include "dsrv/engine/limits.h"
#include "storage/rows/instance.h"
#include "tests/dsrv/engine/answers.h"
#include "tests/dsrv/engine/world.h"
#include "tests/sim/plan_audit.h"

namespace dfsmr {
namespace {

constexpr std::string_view kPair = R"(
id: m
nodes:
  a: {start: true, transitions: {ok: b}}
  b: {transitions: {ok: z}}
  z: {final: true}
)";

void Healthy(World& world) {
  world.Drain();
  (void)world.Do([](Engine& e) { return e.Settle("ns", ""); });
  PlanAudit audit(world);
  audit.All();
  CHECK(audit.problem() == "");
}
Result<Ok> Resume(World& world, const std::string& id, bool force = false) {
  return world.Do([&](Engine& e) { return e.Resume("ns", id, "", force); });
}
void Cancel(World& world, const std::string& id, CancelMode mode = CancelMode::kForce) {
  REQUIRE(world.Do([&](Engine& e) { return e.Cancel("ns", id, mode); }));
}
std::string Standing(World& world, const std::string& id) {
  const Instance instance = world.Must(id);
  return std::string(Name(instance.state)) + " " + std::string(Name(instance.result));
}
void CrashSometimes(World& world, bool crash) {
  world.Drain();
  if (crash) world.Restart();
}

TEST_CASE("what is resumed stands in line as if it had just come, over a restart, too") {
  for (bool crash : {false, true}) {
    CAPTURE(crash);
    World world;
    world.Define(kPair);
    world.Start("m", "a");
    world.Advance(1s);
    world.Start("m", "b");
    Cancel(world, "a");
    world.Advance(1s);
    REQUIRE(Resume(world, "a"));
    CrashSometimes(world, crash);
    CHECK(world.ReadyOne().instance == "b");
    CHECK(world.ReadyOne().instance == "a");
  }
}

TEST_CASE("what is cancelled while it is ready takes its machine no turn") {
  World world;
  world.Define(kPair);
  world.Define("id: other\nnodes: {a: {start: true, transitions: {ok: z}}, z: {final: true}}\n");
  for (const char* id : {"gone", "gone2", "a", "b"}) world.Start("m", id);
  for (const char* id : {"c", "d"}) world.Start("other", id);
  for (const char* id : {"gone", "gone2"}) Cancel(world, id);
  std::vector<std::string> machines;
  for (const Task& task : world.Ready()) machines.push_back(task.machine);
  CHECK(machines == std::vector<std::string>{"m", "other", "m", "other"});
}

TEST_CASE("a resumed machine is among the living again, in rows and counters") {
  for (bool crash : {false, true}) {
    CAPTURE(crash);
    World world({.retention = 1min});
    world.Define(kPair);
    world.Start("m");
    const Task task = world.ReadyOne();
    Cancel(world, "i");
    CHECK(world.Machine("m").stats.stopped == 1);
    CrashSometimes(world, crash);
    CHECK(ReasonOf(world.Report(task, "ok")) == "STALE_CLAIM");  // kept
    CrashSometimes(world, crash);
    REQUIRE(Resume(world, "i"));
    CrashSometimes(world, crash);
    CHECK(Standing(world, "i") == "RUNNING PENDING");
    CHECK(world.NodeOf("i") == "b");
    CHECK(world.Machine("m").stats.stopped == 0);
    CHECK(world.Machine("m").stats.running == 1);
    auto again = world.Report(task, "ok");  // it has counted once
    REQUIRE(again);
    CHECK(again->repeated);
    Healthy(world);
    world.Elapse(5min);  // its retention counts from its end; the feed's beginning goes
    CHECK(Standing(world, "i") == "RUNNING PENDING");
    REQUIRE(world.Report(world.ReadyOne(), "ok"));
    CHECK(Standing(world, "i") == "STOPPED SUCCESS");
    CHECK(ReasonOf(Resume(world, "i")) == "INSTANCE_STOPPED");
  }
}

TEST_CASE("a stopped plan goes on after a restart, with what its worker has in hand") {
  World world;
  world.Define("plan: p\nflow: {sequence: [{step: a, action: x}, {step: b, action: x}]}\n");
  world.Start("p");
  REQUIRE(world.Report(world.ReadyOne(), "ok"));
  const Task task = world.ReadyOne();
  Cancel(world, "i");
  world.Restart();
  REQUIRE(Resume(world, "i"));
  world.Restart();
  CHECK(world.Ready().empty());
  REQUIRE(world.Report(task, "ok"));
  CHECK(Standing(world, "i") == "STOPPED SUCCESS");
  Healthy(world);
}

TEST_CASE("children that were cancelled are resumed, whatever crash comes between") {
  for (int crash = 0; crash < 4; ++crash) {
    CAPTURE(crash);
    World world;
    world.Define(R"(
plan: leaf
flow: [{step: l, action: x}]
---
plan: p
flow: [{step: s, spawn: {plan: leaf, for_each: [1, 2, 3], as: n, concurrency: 2}}]
)");
    world.Start("p");
    world.Drain();
    const auto tasks = world.Ready();
    REQUIRE(tasks.size() == 2);
    REQUIRE(world.Report(tasks[0], "ok"));
    world.Drain();
    Cancel(world, "i", crash % 2 == 0 ? CancelMode::kForce : CancelMode::kCancel);
    CrashSometimes(world, crash == 1);
    if (crash % 2 == 1) {  // the workers end what they have
      for (const Task& task : {tasks[1]}) (void)world.Report(task, "error");
      for (const Task& task : world.Ready()) (void)world.Report(task, "error");
      world.Drain();
    }
    CHECK(Standing(world, "i") == "STOPPED CANCELLED");
    CrashSometimes(world, crash == 2);
    REQUIRE(Resume(world, "i"));
    if (crash == 3) world.Crash();
    world.Drain();
    for (int round = 0; round < 5; ++round) {
      (void)world.Report(tasks[1], "ok");
      for (const Task& task : world.Ready()) REQUIRE(world.Report(task, "ok"));
      world.Drain();
    }
    CHECK(Standing(world, "i") == "STOPPED SUCCESS");
    Healthy(world);
  }
}

TEST_CASE("children that are asked for under a cancel are started by the resume") {
  for (bool crash : {false, true}) {
    CAPTURE(crash);
    World world;
    world.Define("plan: c\nflow: [{step: l, action: y}]\n---\n"
                 "plan: p\nflow: [{step: s, action: x}, {step: t, action: x}]\n");
    world.Start("p");
    const auto tasks = world.Ready();
    REQUIRE(tasks.size() == 2);
    REQUIRE(world.Report(tasks[0], "suspend"));
    Cancel(world, "i", CancelMode::kCancel);
    const Task woken = world.ReadyOne();
    CHECK(woken.event == "cancel");
    REQUIRE(world.Do([&](Engine& e) {
      return e.Report("ns", "i", {.transition = "suspend", .claim = woken.claim, .children = 1},
                      {{.machine = "c"}});
    }));
    REQUIRE(world.Report(tasks[1], "ok"));
    CHECK(Standing(world, "i") == "STOPPED CANCELLED");
    CrashSometimes(world, crash);
    REQUIRE(Resume(world, "i"));
    world.Drain();
    REQUIRE(world.Report(world.ReadyOne(), "ok"));  // the child's
    world.Drain();
    REQUIRE(world.Report(world.ReadyOne(), "ok"));
    CHECK(Standing(world, "i") == "STOPPED SUCCESS");
    Healthy(world);
  }
}

TEST_CASE("what a child that is being cancelled was told late counts when its parent goes on") {
  World world;
  world.Define(R"(
action: slow
timeout: 5.0
timeout_strategy: fixed
---
plan: leaf
flow: [{step: a, action: quick}, {step: b, action: slow}]
---
plan: p
flow: [{step: s, spawn: {plan: leaf}}]
)");
  world.Start("p");
  world.Drain();
  const auto tasks = world.Ready();
  REQUIRE(tasks.size() == 2);
  const bool first = tasks[0].node == "a";
  const Task& a = tasks[first ? 0 : 1];
  const Task& b = tasks[first ? 1 : 0];
  world.Elapse(6s);  // b has timed out, and may still be reported
  Cancel(world, "i", CancelMode::kCancel);
  world.Drain();
  CHECK(ReasonOf(world.Report(b, "ok")) == "STALE_CLAIM");
  // Before the cancel by force reaches the child.
  REQUIRE(world.Do([](Engine& e) {
    auto cancelled = e.Cancel("ns", "i", CancelMode::kForce);
    return cancelled ? e.Resume("ns", "i", "", false) : cancelled;
  }));
  world.Drain();
  REQUIRE(world.Report(a, "ok"));
  world.Drain();
  CHECK(world.Ready().empty());
  CHECK(Standing(world, "i") == "STOPPED SUCCESS");
  Healthy(world);
}

TEST_CASE("of a visit that a report has ended nothing more counts at the resume") {
  for (int way = 0; way < 4; ++way) {
    CAPTURE(way);
    const bool crash = way % 2 == 1;
    const bool force = way / 2 == 1;
    World world;
    world.Define("action: b\nplan: worker\ntimeout_strategy: fixed\ntimeout: 5.0\n---\n"
                 "plan: p\nflow: [{step: b, action: b}]\n");
    world.Start("p");
    const Task first = world.ReadyOne();
    world.Elapse(6s);
    const Task second = world.ReadyOne();
    Cancel(world, "i", CancelMode::kCancel);
    REQUIRE(world.Report(second, "error"));
    CHECK(Standing(world, "i") == "STOPPED CANCELLED");
    CrashSometimes(world, crash);
    CHECK(ReasonOf(world.Report(first, "planned")) == "STALE_CLAIM");
    CHECK(ReasonOf(world.Report(second, "planned")) == "STALE_CLAIM");
    REQUIRE(Resume(world, "i", force));
    CHECK(world.ReadyOne().visit > second.visit);
    for (ChangeKind kind : world.KindsOf("i")) {
      CHECK(kind != ChangeKind::kLate);
      CHECK(kind != ChangeKind::kRelinquished);  // nobody has had it in hand since
    }
  }
}

TEST_CASE("a singleton that is taken refuses the resume, and nothing changes") {
  World world;
  world.Define("plan: p\nsingleton: k\nflow: [{step: a, action: x}]\n");
  world.Start("p", "i");
  Cancel(world, "i");
  world.Start("p", "j");
  CHECK(ReasonOf(Resume(world, "i")) == "ILLEGAL_TRANSITION");
  CHECK(Standing(world, "i") == "STOPPED CANCELLED");
  Cancel(world, "j");
  REQUIRE(Resume(world, "i"));
  CHECK(Standing(world, "i") == "RUNNING PENDING");
  Healthy(world);
}

TEST_CASE("a version that was left behind is not resumed") {
  World world;
  world.Define(kPair);
  world.Start("m");
  Cancel(world, "i");
  world.Define(std::string(kPair) + "upgrade_strategy: abort\n");
  CHECK(ReasonOf(Resume(world, "i")) == "SUPERSEDED_VERSION");
}

}  // namespace
}  // namespace dfsmr
