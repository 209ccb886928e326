// What is counted for those who scrape the server, against the feed.
#include <doctest/doctest.h>

#include <algorithm>

#include "dsrv/engine/measured.h"
#include "dsrv/engine/namespaces.h"
#include "dsrv/engine/survey.h"
#include "tests/dsrv/engine/world.h"

namespace dfsmr {
namespace {

constexpr std::string_view kMeasured = R"(
id: m
defaults: {timeout_strategy: fixed, timeout: 20.0}
nodes:
  a: {start: true, transitions: {ok: b, done: done}}
  b: {transitions: {ok: done}}
  done: {final: true}
)";

Measured Copy(World& world) {
  return world.Do([](Engine& engine) { return engine.Measure(); });
}

const Measured::Machine& MachineOf(const Measured& copy, std::string_view id) {
  const auto found = std::ranges::find(copy.machines, id, &Measured::Machine::id);
  REQUIRE(found != copy.machines.end());
  return *found;
}

const Measured::Node& NodeOf(const Measured& copy, std::string_view id, std::string_view name) {
  const auto& nodes = MachineOf(copy, id).nodes;
  const auto found = std::ranges::find(nodes, name, &Measured::Node::name);
  REQUIRE(found != nodes.end());
  return *found;
}

uint64_t Sum(const auto& spread) {
  uint64_t sum = 0;
  for (uint64_t count : spread.counts()) sum += count;
  return sum;
}

uint64_t Count(World& world, ChangeKind kind) {
  return static_cast<uint64_t>(std::ranges::count(world.Feed(), kind, &Event::kind));
}

}  // namespace

TEST_CASE("what lies ready in a paused instance is nobody's to take") {
  World world;
  world.Define(kMeasured);
  world.Start("m", "i");
  world.Start("m", "j");
  const auto ready = [&world] {
    const auto all = [](const std::string&) { return true; };
    const std::vector<MachineTally> machines = world.engine().survey().Machines(all, "m");
    REQUIRE(machines.size() == 1);
    return machines.front().now.ready;
  };
  CHECK(ready() == 2);
  REQUIRE(world.Do([](Engine& e) { return e.Pause("ns", "i"); }));
  CHECK(ready() == 1);
  world.Restart();
  CHECK(ready() == 1);
  REQUIRE(world.Do([](Engine& e) { return e.Resume("ns", "i", "", false); }));
  CHECK(ready() == 2);
}

TEST_CASE("what is counted is what the feed has") {
  World world;
  world.Define(kMeasured);
  for (int i = 0; i < 10; ++i) world.Start("m", "i" + std::to_string(i));
  CHECK(world.Ready().size() == 10);
  world.Elapse(20s);
  CHECK(world.Ready().size() == 10);
  for (int i = 0; i < 4; ++i) REQUIRE(world.Move("i" + std::to_string(i), "ok"));
  REQUIRE(world.Move("i0", "ok"));
  const Measured copy = Copy(world);
  const Measured::Machine& machine = MachineOf(copy, "m");
  CHECK(machine.counts.starts == Count(world, ChangeKind::kStarted));
  CHECK(machine.counts.finishes[0] == 1);
  CHECK(machine.instances == std::array<uint64_t, 4>{0, 9, 0, 1});
  const Measured::Node& a = NodeOf(copy, "m", "a");
  CHECK(a.counts.timeouts == Count(world, ChangeKind::kTimedOut));
  CHECK(a.counts.timeouts == 10);
  CHECK(a.counts.transitions == std::vector<std::pair<std::string, uint64_t>>{{"ok", 4}});
  CHECK(a.counts.tokens == std::array<uint64_t, 4>{0, 6, 0, 0});
  CHECK(a.timeout == std::optional<Duration>(20s));
  // One hand-out each time, which waited for no longer than the timeout that had made it ready.
  CHECK(Sum(a.counts.wait) == 20);
  CHECK(a.counts.wait.sum() < 1'000'000);
  CHECK(NodeOf(copy, "m", "b").counts.tokens == std::array<uint64_t, 4>{3, 0, 0, 0});
  CHECK(machine.queues.at("default").ready == 3);
}

TEST_CASE("of a plan its steps are counted, and nothing around them") {
  World world;
  world.Define("action: v\nplan: worker\n---\nplan: p\nflow: [{step: s, action: v}]\n");
  world.Start("p");
  const Task planner = world.ReadyOne();
  (void)Copy(world);
  REQUIRE(world.Do([&](Engine& e) {
    return e.Report("ns", "i", {.transition = "planned",
                                .claim = planner.claim,
                                .output = R"({"flow":"[{step: t, action: x}]"})"});
  }));
  for (const char* step : {"s.t", "s"}) {
    const Task task = world.ReadyOne();
    CHECK(task.node == step);
    REQUIRE(world.Report(task, "ok"));
  }
  const Measured copy = Copy(world);
  for (const Measured::Node& node : MachineOf(copy, "p").nodes) {
    CAPTURE(node.name);
    CHECK(!node.name.empty());
    CHECK(!node.name.starts_with('/'));
  }
}

TEST_CASE("a claim counts once it is in the feed") {
  World world;
  world.Define(kMeasured);
  world.Start("m", "i");
  CHECK(world.Ready().size() == 1);
  world.Elapse(20s);  // its record comes with the timeout's
  CHECK(world.Ready().size() == 1);
  world.Elapse(20s);
  const Measured copy = Copy(world);
  CHECK(NodeOf(copy, "m", "a").counts.first_claims == 1);
  CHECK(NodeOf(copy, "m", "a").counts.retries == 1);
  CHECK(Count(world, ChangeKind::kClaimed) == 2);
}

TEST_CASE("counters begin with the process, and gauges do not") {
  World world;
  world.Define(kMeasured);
  world.Start("m", "i");
  REQUIRE(world.Move("i", "ok"));
  world.Crash();
  const Measured copy = Copy(world);
  CHECK(MachineOf(copy, "m").counts.starts == 0);
  CHECK(NodeOf(copy, "m", "a").counts.transitions.empty());
  CHECK(NodeOf(copy, "m", "b").counts.tokens[0] == 1);
}

TEST_CASE("the nodes beyond the bound share one, and those within it keep theirs") {
  EngineOptions options;
  options.metrics_series = 3;
  World world(std::move(options));
  world.Define(kMeasured);
  std::string second(kMeasured);
  second.replace(second.find("id: m"), 5, "id: k");  // sorts before the first
  (void)Copy(world);
  world.Define(second);
  std::string third(kMeasured);
  third.replace(third.find("id: m"), 5, "id: a");
  (void)Copy(world);
  world.Define(third);
  for (const char* machine : {"m", "k", "a"}) {
    world.Start(machine, machine);
    REQUIRE(world.Move(machine, "ok"));
  }
  const Measured copy = Copy(world);
  CHECK(MachineOf(copy, "m").nodes.size() == 2);
  CHECK(MachineOf(copy, "k").nodes.size() == 1);
  CHECK(std::ranges::count(copy.machines, "a", &Measured::Machine::id) == 0);
  CHECK(MachineOf(copy, "k").counts.starts == 1);
  CHECK(MachineOf(copy, kOtherSeries).counts.starts == 1);
  const Measured::Node& other = NodeOf(copy, kOtherSeries, kOtherSeries);
  CHECK(other.counts.transitions == std::vector<std::pair<std::string, uint64_t>>{{"ok", 1}});
  CHECK(other.counts.tokens[0] == 2);  // b of k and of a
  CHECK(copy.folded == 3);             // b of k, a and b of a
}

TEST_CASE("what stands for many nodes names few transitions") {
  EngineOptions options;
  options.metrics_series = 0;
  World world(std::move(options));
  for (int i = 0; i < 70; ++i) {
    const std::string n = std::to_string(i);
    world.Define("id: m" + n + "\nnodes:\n  a: {start: true, transitions: {t" + n +
                 ": done}}\n  done: {final: true}\n");
    world.Start("m" + n, "i" + n);
    REQUIRE(world.Move("i" + n, "t" + n));
  }
  const auto transitions = NodeOf(Copy(world), kOtherSeries, kOtherSeries).counts.transitions;
  REQUIRE(transitions.size() == 65);
  CHECK(transitions.back() == std::pair<std::string, uint64_t>(kOtherSeries, 6));
}

TEST_CASE("nothing is left of a namespace that is deleted") {
  EngineOptions options;
  options.metrics_series = 1;
  World world(std::move(options));
  world.Define(kMeasured);
  CHECK(Copy(world).folded == 1);  // b
  REQUIRE(world.Do([](Engine& engine) { return engine.Delete("ns", 0s, "ann"); }));
  const auto state = [&world] {
    return world.Do(
        [](Engine& e) -> Result<rows::SpaceState> { return e.namespaces().StateOf("ns"); });
  };
  for (int looks = 0; looks < 200 && *state() != rows::SpaceState::kNone; ++looks)
    world.Elapse(100ms);
  REQUIRE(*state() == rows::SpaceState::kNone);
  CHECK(Copy(world).folded == 0);
  world.Define(kMeasured);  // it gets the place for series that its predecessor had
  const Measured copy = Copy(world);
  CHECK(NodeOf(copy, "m", "a").counts.transitions.empty());
  CHECK(copy.folded == 1);
}

}  // namespace dfsmr
