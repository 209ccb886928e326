// Failing and trying again, by the clock and over restarts.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/dsrv/engine/world.h"

namespace dfsmr {
namespace {

constexpr std::string_view kTwice = R"(
id: m
nodes:
  a:
    start: true
    ready_timeout: 10s
    retry: {limit: 2, delay: 5s}
    transitions: {ok: done, error: failed}
  done: {final: true}
  failed: {final: true, result: error}
)";

Result<Answer> Fail(World& world, const Task& task, std::string kind = "") {
  return world.Do([&](Engine& e) {
    return e.Report("ns", task.instance,
                    {.transition = "error", .claim = task.claim, .error_kind = std::move(kind)});
  });
}

TokenState StateOf(World& world, const std::string& id) {
  const Instance instance = world.Must(id);
  return instance.tokens.front().state;
}

TEST_CASE("a task says how often it has failed, and how often it may") {
  World world;
  world.Define(kTwice);
  world.Start("m");
  Task task = world.ReadyOne();
  CHECK(task.tries == 0);
  CHECK(task.tries_limit == 2);
  REQUIRE(Fail(world, task));
  CHECK(world.Ready().empty());
  world.Elapse(5s);
  task = world.ReadyOne();
  CHECK(task.tries == 1);
  CHECK(task.attempt == 1);  // of its visit
  REQUIRE(Fail(world, task));
  CHECK(world.Must("i").result == InstanceResult::kError);
}

TEST_CASE("tries, and the wait for the next one, survive a crash") {
  World world;
  world.Define(kTwice);
  world.Start("m");
  REQUIRE(Fail(world, world.ReadyOne()));
  world.Crash();
  world.Elapse(4s);
  CHECK(world.Ready().empty());
  world.Elapse(1s);
  const Task task = world.ReadyOne();
  CHECK(task.tries == 1);
  REQUIRE(Fail(world, task));
  CHECK(world.Must("i").result == InstanceResult::kError);
}

TEST_CASE("what no worker takes in time fails, and says what nobody asks for") {
  World world;
  world.Define(kTwice);
  world.Start("m");
  world.Elapse(9s);
  CHECK(StateOf(world, "i") == TokenState::kReady);
  world.Elapse(1s);
  CHECK(StateOf(world, "i") == TokenState::kWaiting);
  const auto feed = world.Feed();
  const auto failed = std::ranges::find(feed, std::string("unclaimed"), &Event::error_kind);
  REQUIRE(failed != feed.end());
  CHECK(failed->note ==
        "no worker has taken it for 10s: no agent takes action m.a in queue default");
  world.Elapse(15s);
  CHECK(world.Must("i").result == InstanceResult::kError);
}

TEST_CASE("the time begins anew with a hand-out, a pause and a restart") {
  World world;
  world.Define(kTwice);
  world.Start("m");
  world.Elapse(9s);
  SUBCASE("a hand-out") {
    const Task task = world.ReadyOne();
    world.Elapse(20s);
    REQUIRE(world.Relinquish(task));
  }
  SUBCASE("a pause") {
    REQUIRE(world.Do([](Engine& e) { return e.Pause("ns", "i"); }));
    world.Elapse(20s);
    REQUIRE(world.Do([](Engine& e) { return e.Resume("ns", "i", "", false); }));
  }
  SUBCASE("a crash") { world.Crash(); }
  SUBCASE("a restart") { world.Restart(); }
  world.Elapse(9s);
  CHECK(StateOf(world, "i") == TokenState::kReady);
  world.Elapse(1s);
  CHECK(StateOf(world, "i") == TokenState::kWaiting);
}

TEST_CASE("nothing is armed for what is claimed, moved or stopped") {
  World world;
  world.Define(kTwice);
  for (const char* id : {"claimed", "moved", "cancelled"}) world.Start("m", id);
  REQUIRE(world.Move("moved", "ok"));
  REQUIRE(world.Do([](Engine& e) { return e.Cancel("ns", "cancelled", CancelMode::kCancel); }));
  const Task task = world.ReadyOne();
  const uint64_t fired = world.engine().timers_fired();
  world.Elapse(30s);
  CHECK(world.engine().timers_fired() == fired);
}

TEST_CASE("what lacks room under a limit misses more than a worker") {
  World world;
  world.Define(R"(
id: m
nodes:
  a: {start: true, ready_timeout: 10s, limit: {key: k, max: 1}, transitions: {ok: z, error: z}}
  z: {final: true}
)");
  world.Start("m", "first");
  const Task task = world.ReadyOne();
  world.Start("m", "second");
  world.Elapse(60s);
  CHECK(world.Must("second").state == InstanceState::kRunning);
  REQUIRE(world.Report(task, "ok"));
  world.Elapse(10s);
  CHECK(world.Must("second").Stopped());
}

TEST_CASE("a step that nobody takes is tried again, as `on` says") {
  World world;
  world.Define(
      "action: x\nready_timeout: 2s\nretry: {limit: 3, delay: 1s, on: [transient]}\n---\n"
      "plan: p\nflow: [{step: a, action: x}]\n");
  world.Start("p");
  world.Elapse(3s);
  const Task task = world.ReadyOne();
  CHECK(task.tries == 1);
  REQUIRE(world.Report(task, "ok"));
  CHECK(world.Must("i").result == InstanceResult::kSuccess);
}

TEST_CASE("an instance paused by an error is so after a restart, and resumed by node") {
  World world;
  world.Define("id: m\nnodes:\n  a: {start: true, transitions: {ok: z}}\n  z: {final: true}\n");
  world.Start("m");
  REQUIRE(Fail(world, world.ReadyOne(), "exit"));
  world.Crash();
  CHECK(world.Must("i").state == InstanceState::kPaused);
  CHECK(StateOf(world, "i") == TokenState::kHeld);
  CHECK(world.Node("m", "a").held == 1);
  CHECK(world.Ready().empty());
  REQUIRE(world.Do([](Engine& e) { return e.Resume("ns", "i", "a", false); }));
  CHECK(world.Must("i").state == InstanceState::kRunning);
  REQUIRE(world.Report(world.ReadyOne(), "ok"));
}

TEST_CASE("a section that begins anew has no outputs of its last try") {
  World world;
  world.Define(R"(
plan: p
flow:
  - section: s
    do: [{step: a, action: x}, {step: b, action: x, after: [a]}]
    retry: 2
)");
  world.Start("p");
  world.Drain();
  REQUIRE(world.Do([&, task = world.ReadyOne()](Engine& e) {
    return e.Report("ns", "i", {.transition = "ok", .claim = task.claim, .output = R"({"v":1})"});
  }));
  const auto outputs = [&world] { return rows::GetOutputs({world.store(), 0}, {"ns", "i"}); };
  CHECK(outputs()->contains("s.a"));
  REQUIRE(world.Report(world.ReadyOne(), "error"));
  world.Drain();
  CHECK(world.ReadyOne().node == "s.a");
  CHECK(outputs()->empty());
}

}  // namespace
}  // namespace dfsmr
