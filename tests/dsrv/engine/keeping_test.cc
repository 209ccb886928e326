// What the engine keeps, and for how long: the feed, the counters and latencies over restarts, and
// retention.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "storage/rows/feed.h"
#include "storage/rows/instance.h"
#include "tests/dsrv/engine/world.h"

namespace dfsmr {
namespace {

constexpr std::string_view kKept = R"(
id: m
defaults: {timeout_strategy: fixed, timeout: 10.0}
nodes:
  a: {start: true, transitions: {ok: b, again: a}}
  b: {transitions: {ok: done}}
  done: {final: true}
)";

void CheckFeed(World& world) {
  const auto feed = world.Feed();
  const auto first = rows::FirstSeq({world.store(), 0});
  REQUIRE(first);
  for (size_t i = 0; i < feed.size(); ++i) CHECK(feed[i].seq == *first + i);
  CHECK(world.engine().last_seq() == *first + feed.size() - 1);
}

struct Stats {
  std::vector<uint64_t> numbers;
  std::vector<Duration> durations;
  friend bool operator==(const Stats&, const Stats&) = default;
};

Stats StatsOf(World& world) {
  Stats stats;
  const MachineView view = world.Machine("m");
  stats.numbers = {view.stats.scheduled, view.stats.running, view.stats.paused, view.stats.stopped};
  for (const NodeStats& node : view.nodes) {
    stats.numbers.insert(stats.numbers.end(), {node.ready, node.claimed, node.waiting, node.held,
                                               node.completed, node.timed_out});
    for (auto value : {node.p50, node.p95, node.timeout_now}) {
      stats.durations.push_back(value.value_or(Duration(-1)));
    }
  }
  return stats;
}

// 60 instances: some at a, some claimed, some at b, some timed out, some done.
void Populate(World& world) {
  world.Define(kKept);
  for (int i = 0; i < 60; ++i) world.Start("m", "i" + std::to_string(i));
  auto tasks = world.Ready({}, 50);
  for (size_t i = 0; i < tasks.size(); ++i) {
    world.Advance(Duration(7'000 * static_cast<int64_t>(i + 1)));
    if (i % 2 == 0) REQUIRE(world.Report(tasks[i], i % 3 == 0 ? "again" : "ok"));
  }
  world.Elapse(10s);
  for (int i = 0; i < 10; ++i) REQUIRE(world.Move("i" + std::to_string(4 * i), "ok"));
  REQUIRE(world.Do([](Engine& e) { return e.Pause("ns", "i1"); }));
  world.Ready({}, 7);
}

TEST_CASE("the feed has no gaps, over crashes that lose turns") {
  World world;
  world.Define(kKept);
  for (int i = 0; i < 30; ++i) {
    world.Start("m", "i" + std::to_string(i));
    world.Decide([&](Engine& e) {
      REQUIRE(e.Start({.ns = "ns", .machine = "m", .id = "j" + std::to_string(i)}));
    });
    if (i % 3 == 0) world.Crash();
    world.Ready();
  }
  world.Commit();
  CheckFeed(world);
}

TEST_CASE("counters and latencies are the same after a restart") {
  World world;
  Populate(world);
  SUBCASE("that wrote them") {
    const Stats before = StatsOf(world);
    world.Restart();
    CHECK(StatsOf(world) == before);
  }
  SUBCASE("that did not") {
    REQUIRE(world.Do([](Engine& e) { return e.Settle("ns", ""); }));
    const Stats before = StatsOf(world);
    world.Crash();
    CHECK(StatsOf(world) == before);
    world.Elapse(1s);
    world.Crash();
    CHECK(StatsOf(world) == before);
  }
  SUBCASE("half of them written") {
    world.Elapse(6s);
    REQUIRE(world.Move("i50", "ok"));
    REQUIRE(world.Do([](Engine& e) { return e.Settle("ns", ""); }));
    const Stats before = StatsOf(world);
    world.Crash();
    CHECK(StatsOf(world) == before);
  }
}

TEST_CASE("counters and latencies of what a crash lost are gone with it") {
  World world;
  Populate(world);
  REQUIRE(world.Do([](Engine& e) { return e.Settle("ns", ""); }));
  const Stats before = StatsOf(world);
  world.Decide([](Engine& e) { REQUIRE(e.Report("ns", "i50", {.transition = "ok"})); });
  world.Crash();
  CHECK(StatsOf(world) == before);
}

TEST_CASE("a stopped instance goes when its retention is over, and its id is free") {
  World world({.retention = 1h});
  world.Define(kKept);
  const std::vector<std::string> ids = {"i", "j"};
  for (const std::string& id : ids) {
    REQUIRE(world.TryStart({.machine = "m", .id = id, .spec = {.params = R"({"old":1})",
                                                               .labels = {{"l", "v"}}}}));
    REQUIRE(world.Move(id, "ok"));
    REQUIRE(world.Move(id, "ok"));
  }
  world.Start("m", "live");
  world.Elapse(59min);
  CHECK(world.Get("i"));
  world.Elapse(2min);
  CHECK(world.Get("i").error().reason == Reason::kNoSuchInstance);
  CHECK(world.Get("live"));
  CHECK(world.Machine("m").stats.stopped == 0);
  auto started = world.TryStart({.machine = "m", .id = "i", .spec = {.params = R"({"new":1})"}});
  REQUIRE(started);
  CHECK(started->created);
  std::vector<std::string> labelled;
  REQUIRE(rows::ScanLabel({world.store(), 0}, {"ns", ""}, "l", "v", [&](std::string_view id) {
    labelled.emplace_back(id);
    return true;
  }));
  CHECK(labelled.empty());
}

TEST_CASE("a machine's own retention comes before the server's") {
  World world({.retention = 10h});
  world.Define("retention: 1h\n" + std::string(kKept).substr(1));
  world.Start("m");
  REQUIRE(world.Do([](Engine& e) { return e.Cancel("ns", "i", CancelMode::kForce); }));
  world.Elapse(61min);
  CHECK_FALSE(world.Get("i"));
}

TEST_CASE("the feed is trimmed, and what lives keeps its history") {
  World world({.retention = 1h});
  world.Define(kKept);
  world.Start("m", "live");
  for (int i = 0; i < 100; ++i) REQUIRE(world.Move("live", "again"));
  world.Start("m", "i");
  REQUIRE(world.Do([](Engine& e) { return e.Cancel("ns", "i", CancelMode::kForce); }));
  world.Elapse(3h);
  const auto first = rows::FirstSeq({world.store(), 0});
  REQUIRE(first);
  CHECK(*first > 100);
  CheckFeed(world);
  CHECK(world.HistoryOf(world.Must("live")).size() == 101);
  world.Crash();
  CheckFeed(world);
  REQUIRE(world.Do([](Engine& e) { return e.Cancel("ns", "live", CancelMode::kForce); }));
  world.Elapse(3h);
  CHECK_FALSE(world.Get("live"));
  for (uint64_t seq = 1; seq < 100; ++seq) {
    CHECK(rows::FeedReader(world.store(), 0).Get(seq).error().code == Code::kNotFound);
  }
}

TEST_CASE("what expires sooner goes sooner, though later ones were seen first, and after a crash") {
  World world({.retention = 10h});
  world.Define("retention: 2h\n" + std::string(kKept).substr(1));
  world.Define("retention: 1h\nid: brief\n" + std::string(kKept).substr(7));
  const auto stop = [&](const std::string& id) {
    REQUIRE(world.Do([&](Engine& e) { return e.Cancel("ns", id, CancelMode::kForce); }));
  };
  for (const std::string id : {"late", "later"}) world.Start("m", id);
  for (const std::string id : {"soon", "sooner"}) world.Start("brief", id);
  stop("late");
  world.Elapse(10min);  // it is known to be the next one
  stop("soon");
  world.Elapse(61min);
  CHECK_FALSE(world.Get("soon"));
  CHECK(world.Get("late"));
  stop("later");
  stop("sooner");
  world.Elapse(1min);
  world.Crash();
  world.Elapse(50min);  // "late" was stopped 2 h and 2 min ago
  CHECK_FALSE(world.Get("late"));
  CHECK(world.Get("sooner"));
  world.Elapse(10min);
  CHECK_FALSE(world.Get("sooner"));
  CHECK(world.Get("later"));
}

TEST_CASE("an instance whose commit outlasts its retention goes, too") {
  World world;
  world.Define("retention: 10s\n" + std::string(kKept).substr(1));
  world.Define("retention: 1s\nid: brief\n" + std::string(kKept).substr(7));
  auto stop = [](std::string id) {
    return [id = std::move(id)](Engine& e) { REQUIRE(e.Cancel("ns", id, CancelMode::kForce)); };
  };
  world.Start("m", "i");
  world.Start("brief", "j");
  world.Decide(stop("i"));
  world.Commit();
  world.Advance(8'500ms);
  world.Decide(stop("j"));
  world.Advance(2'500ms);
  world.Decide();  // i has been due for 1 s, and j for 1.5 s, but is being written
  world.Commit();
  world.Elapse(3s);
  CHECK_FALSE(world.Get("i"));
  CHECK_FALSE(world.Get("j"));
}

TEST_CASE("an instance that may go at once is not overtaken within its turn") {
  World world;
  world.Define("retention: 10s\n" + std::string(kKept).substr(1));
  world.Define("retention: 1us\nid: brief\n" + std::string(kKept).substr(7));
  world.Start("m", "i");
  world.Start("brief", "j");
  world.Start("m", "k");
  REQUIRE(world.Do([](Engine& e) { return e.Cancel("ns", "i", CancelMode::kForce); }));
  world.Decide();
  world.Advance(10s - 50us);  // the drop of i is due between the end of j and that of this turn
  world.Decide([](Engine& e) {
    REQUIRE(e.Cancel("ns", "j", CancelMode::kForce));
    for (int i = 0; i < 500; ++i) REQUIRE(e.Report("ns", "k", {.transition = "again"}));
  });
  world.Commit();
  world.Elapse(3s);
  CHECK_FALSE(world.Get("i"));
  CHECK_FALSE(world.Get("j"));
}

TEST_CASE("what is known only by having been dropped can be listed after a restart") {
  World world({.retention = 10s, .stats_every = 1h});
  world.Define(kKept);
  REQUIRE(world.Do([](Engine& e) { return e.Start({.ns = "ns", .machine = "m", .id = "i"}); }));
  REQUIRE(world.Do([](Engine& e) { return e.Cancel("ns", "i", CancelMode::kForce); }));
  world.Elapse(0s);  // the counters are written, not again within the hour
  const std::string text = "[{step: a, action: x}]";
  auto flow = ToFlow(text);
  REQUIRE(flow);
  REQUIRE(world.Do([&](Engine& e) {
    return e.Start({.ns = "ns", .machine = "made up", .id = "j", .spec = {.flow = text},
                    .flow = *flow});
  }));
  REQUIRE(world.Do([](Engine& e) { return e.Cancel("ns", "j", CancelMode::kForce); }));
  world.Elapse(11s);
  REQUIRE_FALSE(world.Get("j"));
  world.Crash();
  const auto machines = world.engine().ListMachines("ns", false, {}, 10);
  REQUIRE(machines.size() == 1);
  CHECK(machines[0].definition->machine.id == "m");
}

TEST_CASE("an id that is used again does not keep the records of its first instance") {
  World world({.retention = 1h});
  world.Define(kKept);
  world.Start("m");
  REQUIRE(world.Do([](Engine& e) { return e.Cancel("ns", "i", CancelMode::kForce); }));
  const uint64_t last = world.engine().last_seq();
  world.Elapse(61min);
  world.Start("m");
  bool reread = false;
  SUBCASE("the second one in memory") {}
  SUBCASE("the second one in the store") { reread = true; }
  if (reread) world.Crash();
  world.Elapse(3h);
  CHECK(*rows::FirstSeq({world.store(), 0}) > last);
  for (uint64_t seq = 1; seq <= last; ++seq) {
    CHECK_FALSE(rows::FeedReader(world.store(), 0).Get(seq));
  }
  CHECK(world.HistoryOf(world.Must("i")).size() == 1);
}

TEST_CASE("the claim of an instance that is gone is none of the next one that has its id") {
  World world({.retention = 10s});
  world.Define(kKept);
  world.Start("m");
  const Task task = world.ReadyOne();
  REQUIRE(world.Move("i", "ok"));
  REQUIRE(world.Move("i", "ok"));
  world.Elapse(12s);
  REQUIRE(world.Get("i").error().reason == Reason::kNoSuchInstance);
  SUBCASE("") { world.Start("m"); }
  SUBCASE("started before a crash") {
    world.Start("m");
    world.Crash();
  }
  SUBCASE("started after a crash") {
    world.Crash();
    world.Start("m");
  }
  SUBCASE("started after a crash and before another") {
    world.Crash();
    world.Start("m");
    world.Crash();
  }
  auto extended = world.Do([&](Engine& e) {
    return Result<Extended>(e.Extend("ns", "i", task.claim, 1h, {.progress = 0}));
  });
  REQUIRE(extended->error);
  CHECK(extended->error->reason == Reason::kStaleClaim);
  CHECK(world.Relinquish(task).error().reason == Reason::kStaleClaim);
  CHECK(world.Report(task, "ok").error().reason == Reason::kStaleClaim);
  CHECK(world.NodeOf("i") == "a");
}

// What a store of a server that has been down for long looks like: everything is due at once.
TEST_CASE("all that became due while the server was down goes, once") {
  World world({.retention = 1h});
  world.Define(kKept);
  constexpr int kCount = 230;
  world.Decide([](Engine& e) {
    for (int i = 0; i < kCount; ++i) {
      const std::string id = "i" + std::to_string(i);
      REQUIRE(e.Start({.ns = "ns", .machine = "m", .id = id}));
      REQUIRE(e.Cancel("ns", id, CancelMode::kForce));
    }
  });
  world.Commit();
  CHECK(world.Machine("m").stats.stopped == kCount);
  world.Start("m", "live");
  world.Advance(10h);
  bool pipelined = false;
  SUBCASE("each turn written before the next is decided") {}
  SUBCASE("each turn decided before the last one is written") { pipelined = true; }
  CAPTURE(pipelined);
  world.Crash();
  for (int turn = 0; turn < 200; ++turn) {
    world.Decide();
    if (!pipelined) world.Commit();
    world.Advance(100ms);
  }
  world.Commit();
  CHECK(world.Machine("m").stats.stopped == 0);
  int kept = 0;
  for (uint64_t seq = 1; seq < 2 * kCount; ++seq) {
    if (rows::FeedReader(world.store(), 0).Get(seq)) ++kept;
  }
  CHECK(kept == 0);
  for (int i = 0; i < kCount; ++i) {
    const std::string id = "i" + std::to_string(i);
    CAPTURE(id);
    auto started = world.TryStart({.machine = "m", .id = id, .spec = {.params = R"({"new":1})"}});
    REQUIRE_MESSAGE(started, (started ? "" : started.error().message));
    CHECK(started->created);
  }
}

TEST_CASE("an id is free in the turn after its instance was dropped, written or not") {
  World world({.retention = 1h});
  world.Define(kKept);
  world.Start("m");
  REQUIRE(world.Do([](Engine& e) { return e.Cancel("ns", "i", CancelMode::kForce); }));
  world.Elapse(59min);
  world.Advance(2min);
  world.Decide();  // drops it
  std::optional<Result<Started>> started;
  world.Decide([&](Engine& e) {
    started = e.Start({.ns = "ns", .machine = "m", .id = "i", .spec = {.params = R"({"n":1})"}});
  });
  world.Commit();
  REQUIRE_MESSAGE(started->has_value(), (*started ? "" : started->error().message));
  CHECK((*started)->created);
  world.Elapse(2s);
  CHECK(world.Machine("m").stats.stopped == 0);
  CHECK(world.Machine("m").stats.running == 1);
  world.Crash();
  CHECK(world.Machine("m").stats.running == 1);
  CHECK(world.Ready().size() == 1);
}

TEST_CASE("counters do not suffer when the feed is trimmed faster than they are written") {
  World world({.retention = 1s});  // the least that a server accepts
  world.Define("retention: 1d\n" + std::string(kKept).substr(1));
  for (int i = 0; i < 40; ++i) {
    world.Start("m", "i" + std::to_string(i));
    REQUIRE(world.Move("i" + std::to_string(i), "ok"));
    REQUIRE(world.Move("i" + std::to_string(i), "ok"));
    world.Elapse(100ms);
  }
  const Stats before = StatsOf(world);
  world.Crash();
  CHECK(StatsOf(world) == before);
}

TEST_CASE("residents beyond the cache are read again, and nothing is lost") {
  World world({.cached_instances = 10});
  world.Define(kKept);
  for (int i = 0; i < 100; ++i) world.Start("m", "i" + std::to_string(i));
  auto tasks = world.Ready();
  CHECK(tasks.size() == 100);
  for (const Task& task : tasks) REQUIRE(world.Report(task, "ok"));
  tasks = world.Ready();
  CHECK(tasks.size() == 100);
  for (const Task& task : tasks) REQUIRE(world.Report(task, "ok"));
  CHECK(world.Machine("m").stats.stopped == 100);
  CHECK(world.Node("m", "b").completed == 100);
}

TEST_CASE("damaged params stop the server when somebody is to have them") {
  World world;
  world.Define(kKept);
  world.Start("m");
  world.Crash();  // what waits is in memory again, its params are not
  const auto specs = world.RowsOf('\x04');
  REQUIRE(specs.size() == 1);
  Batch batch;
  batch.Put(specs.front().first, "\xff");
  REQUIRE(world.store().Write(world.partition(), world.engine().epoch(), batch));
  bool told = false;
  world.Decide([&](Engine& engine) {
    (void)engine.Poll({.filter = {.ns = "ns"}, .worker = "w", .max_tasks = 1},
                      [&told](std::vector<Task>) { told = true; });
  });
  CHECK(world.failed().find("instance's params") != std::string::npos);
  CHECK(!told);
}

TEST_CASE("a second owner shuts the first one out") {
  MemoryStore store;
  World first({}, &store);
  first.Define(kKept);
  World second({}, &store);
  first.Decide([](Engine& e) { REQUIRE(e.Start({.ns = "ns", .machine = "m", .id = "i"})); });
  CHECK_FALSE(first.Write());
  CHECK(second.Get("i").error().reason == Reason::kNoSuchInstance);
}

}  // namespace
}  // namespace dfsmr
