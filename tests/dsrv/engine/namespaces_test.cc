// Namespaces: how they come to be, what their quotas refuse, what rests in a frozen one, and that a
// deletion leaves nothing, whenever the server crashes.
#include "dsrv/engine/namespaces.h"
#include "dsrv/engine/survey.h"
#include "dsrv/engine/workers.h"

#include <doctest/doctest.h>

#include "dsrv/engine/deletions.h"
#include "dsrv/engine/documents.h"
#include "dsrv/engine/groups.h"
#include "dsrv/engine/limits.h"
#include "dsrv/engine/schedules.h"
#include "storage/rows/space.h"
#include "tests/dsrv/engine/world.h"

namespace dfsmr {
namespace {

using rows::SpaceState;

constexpr std::string_view kJob = R"(
id: job
nodes:
  work: {start: true, transitions: {ok: done}}
  done: {final: true}
)";
constexpr std::string_view kParent = R"(
plan: parent
flow: [{step: kids, spawn: {machine: job, for_each: [1, 2, 3], as: n}}]
)";

EngineOptions With(rows::Quotas quotas, bool closed = false) {
  EngineOptions options;
  options.quotas = quotas;
  options.closed_namespaces = closed;
  return options;
}

Result<Started> TryStart(World& world, const std::string& id) {
  return world.TryStart({.machine = "job", .id = id});
}

SpaceView Get(World& world) {
  auto view = world.Do([](Engine& e) { return e.namespaces().Get("ns"); });
  REQUIRE(view);
  return *view;
}
SpaceState StateOf(World& world) {
  return world.Do([](Engine& e) -> Result<SpaceState> { return e.namespaces().StateOf("ns"); })
      .value();
}
void Update(World& world, const SpaceChange& change) {
  REQUIRE(world.Do([&](Engine& e) { return e.namespaces().Update("ns", change, "ann"); }));
}
void Freeze(World& world, bool frozen) {
  auto done = world.Do([&](Engine& e) { return e.Freeze("ns", frozen, "ann"); });
  REQUIRE_MESSAGE(done, (done ? "" : done.error().message));
}
void Delete(World& world, Duration drain = 30s) {
  auto done = world.Do([&](Engine& e) { return e.Delete("ns", drain, "ann"); });
  REQUIRE_MESSAGE(done, (done ? "" : done.error().message));
}
void DeleteWhole(World& world) {
  Delete(world, 0s);
  for (int looks = 0; looks < 200 && StateOf(world) != SpaceState::kNone; ++looks) {
    world.Elapse(100ms);
  }
  CHECK(StateOf(world) == SpaceState::kNone);
}
bool Empty(World& world) {
  world.Decide();
  world.Commit();
  return !*rows::HasNamespaceRows({world.store(), world.partition()}, "ns");
}
size_t StartMany(World& world, int from, int to) {
  size_t succeeded = 0;
  world.Decide([&](Engine& e) {
    for (int i = from; i < to; ++i) {
      StartArgs args{.ns = "ns", .machine = "job", .id = "i" + std::to_string(i)};
      if (e.Start(std::move(args))) ++succeeded;
    }
  });
  world.Commit();
  return succeeded;
}

TEST_CASE("a namespace is there from its first use on, also after a crash") {
  World world;
  CHECK(StateOf(world) == SpaceState::kNone);
  CHECK_FALSE(world.Do([](Engine& e) { return e.namespaces().Get("ns"); }));
  world.Define(kJob);
  CHECK(StateOf(world) == SpaceState::kActive);
  world.Crash();
  CHECK(StateOf(world) == SpaceState::kActive);
  CHECK(Get(world).usage.definitions == 1);
  CHECK(world.Do([](Engine& e) { return e.namespaces().Get("default"); }));
}

TEST_CASE("closed namespaces are made by name only") {
  World world(With({}, true));
  auto refused = TryStart(world, "i");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().reason == Reason::kNoSuchNamespace);
  auto defined = world.Do([](Engine& e) { return TryDefine(e, ParseMachines(kJob)); });
  REQUIRE_FALSE(defined);
  CHECK(defined.error().reason == Reason::kNoSuchNamespace);
  CHECK(world.Do([](Engine& e) { return e.namespaces().Create("ns", {}, "ann"); }));
  auto again = world.Do([](Engine& e) { return e.namespaces().Create("ns", {}, "ann"); });
  REQUIRE_FALSE(again);
  CHECK(again.error().reason == Reason::kNamespaceExists);
  world.Define(kJob);
  CHECK(TryStart(world, "i"));
}

TEST_CASE("of a thousand starts on a quota of a hundred live instances a hundred succeed") {
  World world(With({.live_instances = 100}));
  world.Define(kJob);
  CHECK(StartMany(world, 0, 1'000) == 100);
  auto refused = TryStart(world, "more");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::kResourceExhausted);
  CHECK(refused.error().reason == Reason::kQuotaExceeded);
  CHECK(refused.error().message.find("live-instances") != std::string::npos);
  CHECK(refused.error().message.find("100") != std::string::npos);
  CHECK(TryStart(world, "i5"));  // is there already
  world.Crash();
  CHECK(StartMany(world, 1'000, 1'100) == 0);
  REQUIRE(world.Move("i0", "ok"));
  CHECK(StartMany(world, 1'000, 1'100) == 1);
  CHECK(Get(world).usage.live == 100);
}

TEST_CASE("quotas can be set, lifted and lowered while instances run") {
  World world;
  world.Define(kJob);
  CHECK(StartMany(world, 0, 10) == 10);
  SpaceChange change;
  change.quotas.live_instances = 12;
  change.live_instances = true;
  Update(world, change);
  CHECK(StartMany(world, 10, 20) == 2);
  change.quotas.live_instances = 5;
  Update(world, change);
  CHECK(StartMany(world, 20, 30) == 0);
  change.quotas.live_instances = 0;
  Update(world, change);
  CHECK(StartMany(world, 20, 30) == 10);
}

TEST_CASE("ready tasks are counted as they are handed out") {
  World world(With({.ready_tasks = 3}));
  world.Define(kJob);
  CHECK(StartMany(world, 0, 10) == 3);
  world.ReadyOne();
  CHECK(StartMany(world, 10, 20) == 1);
}

TEST_CASE("ten seconds of starts are saved up, and the refusal says when to come back") {
  World world(With({.starts_per_second = 2}));
  world.Define(kJob);
  CHECK(StartMany(world, 0, 100) == 20);
  auto refused = TryStart(world, "more");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().reason == Reason::kQuotaExceeded);
  CHECK(refused.error().retry_ms > 0);
  CHECK(refused.error().retry_ms <= 500);
  world.Advance(5s);
  CHECK(StartMany(world, 100, 200) == 10);
  CHECK(Get(world).usage.starts_per_second == doctest::Approx(3.0));
}

TEST_CASE("what starts inside counts and is not refused") {
  World world(With({.live_instances = 2}));
  world.Define(std::string(kJob) + "---" + std::string(kParent));
  REQUIRE(world.TryStart({.machine = "parent", .id = "p"}));
  world.Drain();
  CHECK(Get(world).usage.live == 4);
  CHECK_FALSE(TryStart(world, "more"));
}

TEST_CASE("starts of a report are refused together, each counting those before") {
  World world(With({.live_instances = 3}));
  world.Define(kJob);
  CHECK(StartMany(world, 0, 1) == 1);
  const Task task = world.ReadyOne();
  const auto report = [&](int starts) {
    std::vector<StartArgs> more;
    for (int i = 0; i < starts; ++i) {
      more.push_back({.ns = "ns", .machine = "job", .id = "m" + std::to_string(i)});
    }
    return world.Do([&](Engine& e) {
      return e.Report("ns", task.instance, {.transition = "ok", .claim = task.claim}, {}, more);
    });
  };
  auto refused = report(3);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().reason == Reason::kQuotaExceeded);
  CHECK(report(2));
}

TEST_CASE("the quota of definitions counts ids, not versions") {
  World world(With({.definitions = 1}));
  world.Define(kJob);
  world.Define("id: job\nnodes: {a: {start: true, transitions: {ok: b}}, b: {final: true}}");
  auto refused = world.Do([](Engine& e) {
    return TryDefine(e, ParseMachines("id: other\nnodes: {a: {start: true, final: true}}"));
  });
  REQUIRE_FALSE(refused);
  CHECK(refused.error().reason == Reason::kQuotaExceeded);
}

TEST_CASE("a quota of retention holds for what stops while it is set") {
  World world(With({.retention = 10s}));
  world.Define(kJob);
  CHECK(StartMany(world, 0, 1) == 1);
  REQUIRE(world.Move("i0", "ok"));
  SpaceChange change;
  change.quotas.retention = 100s;
  change.retention = true;
  Update(world, change);
  CHECK(StartMany(world, 1, 2) == 1);
  REQUIRE(world.Move("i1", "ok"));
  world.Elapse(15s);
  CHECK_FALSE(world.Get("i0"));
  CHECK(world.Get("i1"));
  world.Elapse(100s);
  CHECK_FALSE(world.Get("i1"));
}

TEST_CASE("a frozen namespace hands nothing out, and goes on where it was") {
  World world;
  world.Define(kJob);
  CHECK(StartMany(world, 0, 3) == 3);
  const Task task = world.ReadyOne();
  Freeze(world, true);
  CHECK(world.Ready().empty());
  auto refused = TryStart(world, "more");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().reason == Reason::kNamespaceFrozen);
  CHECK(world.Report(task, "ok"));
  world.Crash();
  CHECK(world.Ready().empty());
  CHECK(StateOf(world) == SpaceState::kFrozen);
  Freeze(world, false);
  CHECK(world.Ready().size() == 2);
  CHECK(TryStart(world, "more"));
}

TEST_CASE("a poll that waits gets its task when its namespace is thawed") {
  World world;
  world.Define(kJob);
  CHECK(StartMany(world, 0, 1) == 1);
  Freeze(world, true);
  std::optional<size_t> got;
  world.Decide([&](Engine& e) {
    REQUIRE(e.Poll({.filter = {.ns = "ns"}, .worker = "w", .until = world.now() + 1h},
                   [&](std::vector<Task> tasks) { got = tasks.size(); }));
  });
  world.Commit();
  CHECK_FALSE(got);
  Freeze(world, false);
  world.Commit();
  CHECK(got == 1);
}

TEST_CASE("a deletion cancels, drains, and leaves nothing") {
  World world;
  world.Define(std::string(kJob) + "---" + std::string(kParent));
  CHECK(StartMany(world, 0, 5) == 5);
  REQUIRE(world.TryStart({.machine = "parent", .id = "p"}));
  world.Drain();
  const Task task = world.ReadyOne();
  Delete(world);
  auto refused = TryStart(world, "more");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().reason == Reason::kNamespaceDeleting);
  CHECK(world.Ready().empty());
  world.Elapse(5s);
  CHECK(StateOf(world) == SpaceState::kDraining);  // for the task
  CHECK(Get(world).usage.live == 1);
  CHECK(world.Report(task, "ok"));
  world.Elapse(5s);
  CHECK(StateOf(world) == SpaceState::kNone);
  CHECK(Empty(world));
  Delete(world);  // of what is not there
}

TEST_CASE("what is claimed is cancelled by force when the drain is over") {
  World world;
  world.Define(kJob);
  CHECK(StartMany(world, 0, 2) == 2);
  world.ReadyOne();
  Delete(world, 3s);
  world.Elapse(2s);
  CHECK(StateOf(world) == SpaceState::kDraining);
  world.Elapse(3s);
  CHECK(StateOf(world) == SpaceState::kNone);
  CHECK(Empty(world));
}

TEST_CASE("a deletion is carried on after a crash at any point") {
  for (int turns = 0; turns < 30; ++turns) {
    CAPTURE(turns);
    World world;
    world.Define(kJob);
    CHECK(StartMany(world, 0, 350) == 350);
    for (int i = 0; i < 200; ++i) REQUIRE(world.Move("i" + std::to_string(i), "ok"));
    Delete(world, 0s);
    world.Commit();
    for (int i = 0; i < turns; ++i) {
      world.Decide();
      world.Advance(10ms);
    }
    world.Crash();
    for (int looks = 0; looks < 100 && StateOf(world) != SpaceState::kNone; ++looks) {
      world.Elapse(100ms);
    }
    CHECK(StateOf(world) == SpaceState::kNone);
    CHECK(Empty(world));
  }
}

TEST_CASE("a new namespace of a deleted one's name sees nothing of it") {
  World world;
  world.Define(kJob);
  CHECK(StartMany(world, 0, 4) == 4);
  REQUIRE(world.Move("i0", "ok"));
  REQUIRE(world.Do([](Engine& e) { return e.groups().Set("ns", "g", {.max_running = 1}); }));
  REQUIRE(world.Do([](Engine& e) { return e.limits().Override("ns", "k", {.max = 1}); }));
  DeleteWhole(world);
  const uint64_t floor = world.engine().reader().registry.FeedFloor("ns");
  CHECK(floor > 0);
  CHECK_FALSE(TryStart(world, "i0"));  // no machine of it
  const auto defined = world.Define(kJob);
  CHECK(defined.front().version == 1);
  CHECK(Get(world).usage.stopped == 0);
  CHECK(Get(world).usage.live == 0);
  CHECK_FALSE(world.Get("i1"));
  CHECK_FALSE(world.Do([](Engine& e) { return e.groups().Get("ns", "g"); }));
  CHECK_FALSE(
      world.Do([](Engine& e) -> Result<LimitNumbers> { return e.limits().NumbersOf("ns", "k"); })
          ->max);
  CHECK(StartMany(world, 0, 2) == 2);
  for (int i = 0; i < 2; ++i) {
    CAPTURE(i);
    CHECK(world.engine().reader().registry.FeedFloor("ns") == floor);
    CHECK(Get(world).usage.live == 2);
    CHECK(Get(world).usage.stopped == 0);
    world.Crash();
  }
  CHECK(world.Ready().size() == 2);
}

TEST_CASE("default cannot be deleted") {
  World world;
  auto refused = world.Do([](Engine& e) { return e.Delete("default", 0s, ""); });
  REQUIRE_FALSE(refused);
  CHECK(refused.error().reason == Reason::kBadRequest);
}

TEST_CASE("a worker whose stream outlives its namespace is no worker of the next one") {
  World world;
  world.Define(kJob);
  const auto open = [&] {
    return world.Do([](Engine& e) {
      return e.OpenSession({.ns = "ns"}, "w", 1, [](SessionUpdate) {}, {});
    });
  };
  const auto workers = [&] {
    return world.Do([](Engine& e) { return e.survey().workers().List("ns", "", "").size(); });
  };
  const auto session = open();
  REQUIRE(session);
  CHECK(workers() == 1);
  DeleteWhole(world);
  CHECK(workers() == 0);
  world.Do([&](Engine& e) { return e.CloseSession(*session), 0; });
  world.Define(kJob);
  CHECK(workers() == 0);
  REQUIRE(open());
  CHECK(workers() == 1);
}

}  // namespace
}  // namespace dfsmr
