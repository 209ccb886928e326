// New versions: what becomes of instances of earlier ones, in bounded turns and over crashes.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "tests/dsrv/engine/world.h"

namespace dfsmr {
namespace {

std::string Version(std::string_view strategy, std::string_view start) {
  return "id: m\nupgrade_strategy: " + std::string(strategy) + "\nnodes:\n  " + std::string(start) +
         ": {start: true, transitions: {ok: end, back: " + std::string(start) +
         "}}\n  end: {final: true}\n";
}

void StartAll(World& world, int count) {
  world.Decide([&](Engine& e) {
    for (int i = 0; i < count; ++i) {
      REQUIRE(e.Start({.ns = "ns", .machine = "m", .id = "i" + std::to_string(i),
                       .spec = {.params = R"({"n":1})"}}));
    }
  });
  world.Commit();
}

std::map<ChangeKind, int> Tally(const std::vector<Event>& events) {
  std::map<ChangeKind, int> tally;
  for (const Event& event : events) ++tally[event.kind];
  return tally;
}

using Kinds = std::vector<ChangeKind>;

TEST_CASE("an upgrade moves a thousand instances in bounded turns, and goes on after a crash") {
  World world;
  world.Define(Version("continue", "a"));
  StartAll(world, 1'000);
  const uint64_t before = world.engine().last_seq();
  auto defined = world.Define(Version("upgrade", "b"));
  CHECK(defined.front().version == 2);
  CHECK(defined.front().affected == 1'000);
  size_t turns = 0;
  SUBCASE("without a crash") {}
  SUBCASE("with a crash half-way") {
    turns = world.Drain(3);
    world.Decide();  // not written
    world.Crash();
  }
  SUBCASE("with a crash before the first turn") { world.Crash(); }
  turns += world.Drain();
  CHECK(turns >= 1'000 / 200);  // no turn takes it all
  const auto tally = Tally(world.Feed(before + 1));
  CHECK(tally.at(ChangeKind::kUpgraded) == 1'000);  // each once
  CHECK(tally.at(ChangeKind::kTransitioned) == 1'000);
  CHECK(world.Machine("m", 1).stats.running == 0);
  CHECK(world.Machine("m", 2).stats.running == 1'000);
  CHECK(world.Node("m", "b").ready == 1'000);
  CHECK(world.Ready().size() == 1'000);
}

TEST_CASE("other calls are served while an upgrade is under way") {
  World world;
  world.Define(Version("continue", "a"));
  StartAll(world, 1'000);
  world.Define(Version("upgrade", "b"));
  CHECK(world.Start("m", "new").version == 2);
  const auto task = world.ReadyOne();
  CHECK(task.version == 2);
  CHECK(world.Report(task, "ok"));
  CHECK(world.Must("i999").version == 2);  // touched, so moved
}

TEST_CASE("from Define's answer on claims of the left version are stale, and none is handed out") {
  World world;
  world.Define(Version("continue", "a"));
  StartAll(world, 5);
  const Task task = world.ReadyOne();
  std::string strategy;
  SUBCASE("upgrade") { strategy = "upgrade"; }
  SUBCASE("abort") { strategy = "abort"; }
  std::vector<Task> tasks;
  std::string reason;
  world.Decide([&](Engine& e) {
    REQUIRE(TryDefine(e, ParseMachines(Version(strategy, "b"))));
    REQUIRE(e.Poll({.filter = {.ns = "ns"}, .worker = "w", .max_tasks = 10},
                   [&](std::vector<Task> given) { tasks = std::move(given); }));
    auto report = e.Report("ns", task.instance, {.transition = "ok", .claim = task.claim});
    reason = report ? "" : std::string(Name(report.error().reason));
  });
  world.Commit();
  CHECK(reason == "STALE_CLAIM");
  for (const Task& one : tasks) CHECK(one.version == 2);
  world.Drain();
  CHECK(world.Ready().size() + tasks.size() == (strategy == "upgrade" ? 5 : 0));
}

TEST_CASE("instances that are not durable yet when the new version comes are moved too") {
  World world;
  world.Define(Version("continue", "a"));
  world.Decide([&](Engine& e) { REQUIRE(e.Start({.ns = "ns", .machine = "m", .id = "flying"})); });
  world.Decide([&](Engine& e) {  // the start is not written yet
    REQUIRE(e.Start({.ns = "ns", .machine = "m", .id = "same turn"}));
    REQUIRE(TryDefine(e, ParseMachines(Version("upgrade", "b"))));
  });
  world.Commit();
  world.Drain();
  CHECK(world.Machine("m", 1).stats.running == 0);
  CHECK(world.Ready().size() == 2);
}

TEST_CASE("an upgraded instance tells the way it went") {
  World world;
  world.Define(Version("continue", "a"));
  world.Start("m");
  world.Define(Version("upgrade", "b"));
  world.Drain();
  const auto history = world.HistoryOf(world.Must("i"));
  REQUIRE(history.size() == 3);
  CHECK(history[1].kind == ChangeKind::kUpgraded);
  CHECK(history[1].prev_node == "a");
  CHECK(history[1].node == "dfsmr.upgraded");
  CHECK(history[2].kind == ChangeKind::kTransitioned);
  CHECK(history[2].prev_node == "dfsmr.upgraded");
  CHECK(history[2].node == "b");
  CHECK(history[2].visit == 2);
  CHECK(history[2].version == 2);
}

TEST_CASE("continue leaves instances where they are, with their claims") {
  World world;
  world.Define(Version("continue", "a"));
  StartAll(world, 2);
  const Task task = world.ReadyOne();
  CHECK(world.Define(Version("continue", "b")).front().affected == 0);
  world.Drain();
  CHECK(world.Report(task, "ok"));
  const Task old = world.ReadyOne();
  CHECK(old.version == 1);
  CHECK(world.Start("m", "new").version == 2);
  auto started = world.TryStart({.machine = "m", .version = 1, .id = "old"});
  REQUIRE(started);
  CHECK(started->view.instance.version == 1);
}

TEST_CASE("an abort stops what earlier versions started, once, over crashes too") {
  World world;
  world.Define(Version("continue", "a"));
  StartAll(world, 300);
  REQUIRE(world.Do([](Engine& e) { return e.Pause("ns", "i7"); }));
  REQUIRE(world.TryStart({.machine = "m", .id = "later", .hold = true}));
  world.Define(Version("abort", "b"));
  world.Drain(2);
  world.Crash();
  world.Drain();
  const auto tally = Tally(world.Feed());
  CHECK(tally.at(ChangeKind::kAborted) == 301);
  CHECK(tally.at(ChangeKind::kFinished) == 301);
  for (const char* id : {"i0", "i7", "later"}) {
    CAPTURE(id);
    CHECK(world.Must(id).result == InstanceResult::kAborted);
    CHECK(world.NodeOf(id) == "dfsmr.aborted");
  }
  CHECK(world.Machine("m", 1).stats.stopped == 301);
  CHECK(world.Ready().empty());
}

TEST_CASE("paused instances are moved and stay paused, scheduled ones start on the new version") {
  World world;
  world.Define(Version("continue", "a"));
  StartAll(world, 1);
  REQUIRE(world.Do([](Engine& e) { return e.Pause("ns", "i0"); }));
  REQUIRE(world.TryStart({.machine = "m", .id = "later", .start_at = world.now() + 1min}));
  world.Define(Version("upgrade", "b"));
  world.Drain();
  CHECK(world.Must("i0").state == InstanceState::kPaused);
  CHECK(world.NodeOf("i0") == "b");
  CHECK(world.Must("later").state == InstanceState::kScheduled);
  CHECK(world.Must("later").version == 2);
  CHECK(world.Ready().empty());
  world.Elapse(1min);
  CHECK(world.ReadyOne().instance == "later");
}

TEST_CASE("a version that was left behind cannot be started") {
  World world;
  world.Define(Version("continue", "a"));
  world.Define(Version("upgrade", "b"));
  SUBCASE("at once") {}
  SUBCASE("after a restart") { world.Crash(); }
  auto started = world.TryStart({.machine = "m", .version = 1, .id = "i"});
  REQUIRE_FALSE(started);
  CHECK(started.error().code == Code::kFailedPrecondition);
}

TEST_CASE("several versions at once lead to where the last of them says") {
  World world;
  world.Define(Version("continue", "a"));
  world.Start("m", "one");
  world.Define(Version("continue", "b"));
  world.Start("m", "two");
  SUBCASE("upgrade after upgrade") {
    world.Define(Version("upgrade", "c"));
    world.Define(Version("upgrade", "d"));
    world.Drain();
    CHECK(world.NodeOf("one") == "d");
    CHECK(world.NodeOf("two") == "d");
  }
  SUBCASE("continue after upgrade") {
    world.Define(Version("upgrade", "c"));
    world.Define(Version("continue", "d"));
    world.Drain();
    CHECK(world.NodeOf("one") == "c");
    CHECK(world.NodeOf("two") == "c");
    CHECK(world.Ready().size() == 2);
  }
  SUBCASE("abort after upgrade") {
    world.Define(Version("upgrade", "c"));
    world.Define(Version("abort", "d"));
    world.Crash();
    world.Drain();
    CHECK(world.NodeOf("one") == "dfsmr.aborted");
    CHECK(world.NodeOf("two") == "dfsmr.aborted");
  }
  SUBCASE("upgrade after abort") {
    world.Define(Version("abort", "c"));
    world.Define(Version("upgrade", "d"));
    world.Drain();
    CHECK(world.NodeOf("one") == "dfsmr.aborted");
  }
  SUBCASE("two machines at once") {
    std::string other = Version("upgrade", "c");
    world.Define("id: n\nnodes:\n  x: {start: true, transitions: {ok: end}}\n"
                 "  end: {final: true}\n");
    world.Start("n", "of n");
    other.replace(0, 5, "id: n");
    world.Define(Version("upgrade", "c") + "---\n" + other);
    world.Drain();
    CHECK(world.NodeOf("one") == "c");
    CHECK(world.NodeOf("of n") == "c");
  }
}

TEST_CASE("defining the same content again changes nothing, and an older one is a new version") {
  World world;
  world.Define(Version("continue", "a"));
  const uint64_t seq = world.engine().last_seq();
  auto same = world.Define("# a comment\n" + Version("continue", "a"));
  CHECK_FALSE(same.front().changed);
  CHECK(same.front().version == 1);
  CHECK(world.engine().last_seq() == seq);
  CHECK(world.Define(Version("continue", "b")).front().version == 2);
  CHECK(world.Define(Version("continue", "a")).front().version == 3);
}

TEST_CASE("validate_only answers what would happen and does none of it") {
  World world;
  world.Define(Version("continue", "a"));
  world.Start("m");
  const uint64_t seq = world.engine().last_seq();
  auto defined = world.Do([](Engine& e) {
    return TryDefine(e, ParseMachines(Version("abort", "b")), true);
  });
  REQUIRE(defined);
  CHECK(defined->front().version == 2);
  CHECK(defined->front().affected == 1);
  world.Drain();
  CHECK(world.engine().last_seq() == seq);
  CHECK(world.Machine("m").definition->version == 1);
}

TEST_CASE("an upgrade starts the count of visits anew") {
  World world;
  const std::string limited =
      "id: m\nnodes:\n"
      "  a: {start: true, max_visits: 2, transitions: {ok: a, dfsmr.exhausted: end}}\n"
      "  end: {final: true}\n";
  world.Define(limited);
  world.Start("m");
  REQUIRE(world.Move("i", "ok"));
  world.Define("upgrade_strategy: upgrade\n" + limited);
  world.Drain();
  CHECK(world.Must("i").version == 2);
  REQUIRE(world.Move("i", "ok"));
  CHECK(world.NodeOf("i") == "a");
  REQUIRE(world.Move("i", "ok"));
  CHECK(world.NodeOf("i") == "end");
}

TEST_CASE("what is claimed when it is upgraded says so to its stream") {
  World world;
  world.Define(Version("continue", "a"));
  std::vector<SessionUpdate> updates;
  auto session = world.Do([&](Engine& e) {
    return e.OpenSession({.ns = "ns"}, "w", 1,
                         [&](SessionUpdate update) { updates.push_back(std::move(update)); });
  });
  REQUIRE(session);
  world.Start("m");
  REQUIRE(updates.size() == 1);
  const std::string claim = updates.front().tasks.front().claim;
  world.Define(Version("upgrade", "b"));
  world.Drain();
  REQUIRE(updates.size() >= 2);
  CHECK(updates[1].cancelled == std::vector<std::string>{claim});
  CHECK(updates.back().tasks.size() == 1);
  CHECK(updates.back().tasks.front().version == 2);
}

}  // namespace
}  // namespace dfsmr
