// Agents and sessions, in the engine: what a process that is gone leaves behind.
#include <doctest/doctest.h>

#include <algorithm>

#include "dsrv/engine/agents.h"
#include "tests/dsrv/engine/world.h"

namespace dfsmr {
namespace {

constexpr std::string_view kMachine = R"(
id: m
nodes:
  a: {start: true, timeout_strategy: fixed, timeout: 1000.0, transitions: {ok: b}}
  b: {timeout: 0.0, transitions: {ok: done}}
  done: {final: true}
)";

// One process of an agent, and what it is told.
struct Process {
  Process(World& of, const std::string& session, Duration keep_for = 10s) : world(of) {
    AttachArgs args{.ns = "ns", .name = "h", .row = {}, .filter = {.ns = "ns"}, .terms = {}};
    args.row.session = session;
    args.row.slots = 4;
    args.terms = {5s, session, keep_for, "h"};
    auto attached = world.Do([&](Engine& e) {
      return e.agents().Attach(args, [this](SessionUpdate update) {
        std::ranges::move(update.tasks, std::back_inserter(tasks));
        std::ranges::move(update.cancelled, std::back_inserter(cancelled));
      });
    });
    REQUIRE(attached);
    stream = attached->stream;
  }
  void Begin(const Task& task) {
    REQUIRE(!world
                 .Do([&](Engine& e) {
                   return e.Extend("ns", task.instance, task.claim, std::nullopt,
                                   {.begin = true, .session = stream});
                 })
                 .error);
  }
  void End(const Task& task) {
    world.Do([&](Engine& e) {
      return e.agents().Stopping(stream, task.instance, task.claim, /*ended=*/true), 0;
    });
  }
  void Break() {
    world.Do([&](Engine& e) { return e.CloseSession(stream), 0; });
  }

  World& world;
  SessionId stream = 0;
  std::vector<Task> tasks;
  std::vector<std::string> cancelled;
};

std::vector<OperationView> InHand(World& world) {
  return world.engine().agents().ListOperations(
      {.ns = "ns", .agent = "h", .instance = "", .after = "", .limit = 100});
}

TEST_CASE("what a process had that is gone is not in its successor's hands") {
  World world;
  world.Define(kMachine);
  world.Start("m");
  Process first(world, "s1");
  REQUIRE(first.tasks.size() == 1);
  first.Begin(first.tasks.front());
  CHECK(InHand(world).size() == 1);
  first.Break();
  Process second(world, "s2");
  CHECK(second.tasks.size() == 1);  // abandoned, and ready at once
  CHECK(InHand(world).size() == 1);  // handed out to the second, and nothing of the first
  world.Restart();
  CHECK(InHand(world).empty());
}

TEST_CASE("what a former process was handed is ready at once, also after a restart") {
  World world;
  world.Define(kMachine);
  world.Start("m");
  Process first(world, "s1");
  REQUIRE(first.tasks.size() == 1);
  world.Restart();
  Process second(world, "s2");
  CHECK(second.tasks.size() == 1);
}

TEST_CASE("what a session has lost while its instance was cancelled is to be stopped") {
  World world;
  world.Define(kMachine);
  world.Start("m");
  Process first(world, "s1", 2s);
  first.Begin(first.tasks.front());
  first.Break();
  world.Do([](Engine& e) { return e.Cancel("ns", "i", CancelMode::kCancel).has_value(); });
  world.Elapse(3s);
  CHECK(world.Must("i").Stopped());
  const auto left = InHand(world);
  REQUIRE(left.size() == 1);
  CHECK(left.front().leftover);
  Process again(world, "s1");
  CHECK(again.cancelled == std::vector{first.tasks.front().claim});
}

TEST_CASE("what has ended is in nobody's hands after its instance is resumed") {
  World world;
  world.Define(kMachine);
  world.Start("m");
  Process agent(world, "s1");
  const Task task = agent.tasks.front();
  agent.Begin(task);
  world.Do([](Engine& e) { return e.Cancel("ns", "i", CancelMode::kForce).has_value(); });
  SUBCASE("before the resume") {
    agent.End(task);
    world.Do([](Engine& e) { return e.Resume("ns", "i", "", false).has_value(); });
  }
  SUBCASE("after it") {
    world.Do([](Engine& e) { return e.Resume("ns", "i", "", false).has_value(); });
    CHECK(InHand(world).size() == 1);
    agent.End(task);
  }
  world.Restart();
  CHECK(InHand(world).empty());
}

TEST_CASE("only reports that were accepted are an agent's done work") {
  World world;
  world.Define(kMachine);
  world.Start("m");
  Process agent(world, "s1");
  const Task task = agent.tasks.front();
  agent.Begin(task);
  const auto done = [&] { return world.engine().agents().Get("ns", "h")->row.done; };
  SUBCASE("a report") {
    REQUIRE(world.Report(task, "ok"));
    CHECK(done() == 1);
  }
  SUBCASE("a claim that ends with a cancel") {
    world.Do([](Engine& e) { return e.Cancel("ns", "i", CancelMode::kCancel).has_value(); });
    REQUIRE(world.Relinquish(task));
    CHECK(world.Must("i").Stopped());
    CHECK(done() == 0);
  }
}

TEST_CASE("who reports second of a visit that has stopped has nothing in hand after its resume") {
  World world;
  world.Define(
      "id: m\nnodes:\n  a: {start: true, timeout_strategy: fixed, timeout: 2.0, transitions: {ok: "
      "b}}\n  b: {transitions: {ok: done}}\n  done: {final: true}\n");
  world.Start("m");
  Process agent(world, "s1");
  const Task first = agent.tasks.front();
  agent.Begin(first);
  world.Elapse(3s);
  REQUIRE(agent.tasks.size() == 2);
  const Task second = agent.tasks.back();
  agent.Begin(second);
  world.Do([](Engine& e) { return e.Cancel("ns", "i", CancelMode::kForce).has_value(); });
  for (const Task& task : {first, second}) {
    CHECK(!world.Do([&](Engine& e) {
      return e.Report("ns", "i", {.transition = "ok", .claim = task.claim}).has_value();
    }));
  }
  const auto listed = [&world] {
    return std::ranges::count(InHand(world), 1u, [](const auto& one) { return one.row.visit; });
  };
  CHECK(listed() == 0);
  world.Do([](Engine& e) { return e.Resume("ns", "i", "", false).has_value(); });
  CHECK(world.Must("i").tokens.front().visit == 2);
  CHECK(listed() == 0);
  world.Restart();
  CHECK(listed() == 0);
}

TEST_CASE("a drained agent that is away for long comes back drained") {
  EngineOptions options;
  options.retention = 1h;
  World world(options);
  world.Define(kMachine);
  const auto drain = [&](bool undo) {
    REQUIRE(world.Do([&](Engine& e) { return e.agents().Drain("ns", "h", undo, "broken"); }));
  };
  const auto away = [&] {
    world.Advance(2h);
    world.Do([](Engine&) { return 0; });
    return world.engine().agents().Get("ns", "h");
  };
  {
    Process process(world, "a");
    drain(false);
    process.Break();
  }
  SUBCASE("as all goes on") {}
  SUBCASE("over a restart") { world.Restart(); }
  auto found = away();
  REQUIRE(found);
  CHECK(found->row.drained);
  drain(true);
  CHECK_FALSE(away());
}

TEST_CASE("work at most once that ended without saying how is held, over restarts") {
  World world;
  world.Define(
      "id: m\nnodes:\n  a: {start: true, timeout: 0.0, transitions: {ok: z}}\n"
      "  z: {final: true}\n");
  world.Start("m");
  const auto call = [&](auto does) { return world.Do(does).has_value(); };
  const auto state = [&] { return Name(world.Must("i").state); };
  Process agent(world, "s1");
  agent.Begin(agent.tasks.front());
  REQUIRE(call([](Engine& e) { return e.Cancel("ns", "i", CancelMode::kCancel); }));
  CHECK(state() == "RUNNING");
  agent.End(agent.tasks.front());
  CHECK(state() == "STOPPED");
  world.Restart();
  REQUIRE(call([](Engine& e) { return e.Resume("ns", "i", "", false); }));
  world.Restart();
  CHECK(state() == "PAUSED");
  CHECK(world.Ready().empty());
  REQUIRE(call([](Engine& e) { return e.Resume("ns", "i", "", false); }));
  CHECK(state() == "PAUSED");
  REQUIRE(call([](Engine& e) { return e.Resume("ns", "i", "a", false); }));
  CHECK(world.ReadyOne().attempt == 2);
}

TEST_CASE("a poll has no stream that its session could lose") {
  World world;
  world.Define(kMachine);
  world.Start("m");
  std::vector<Task> tasks;
  PollArgs args{.filter = {.ns = "ns"}, .worker = "w", .terms = {5s, "s1", 10s, ""}};
  REQUIRE(world.Do([&](Engine& e) {
    return e.Poll(args, [&tasks](std::vector<Task> given) { tasks = std::move(given); });
  }));
  REQUIRE(tasks.size() == 1);
  world.Do([&](Engine& e) {
    return e.Extend("ns", "i", tasks.front().claim, std::nullopt, {.begin = true});
  });
  world.Elapse(2min);
  CHECK(world.Ready().empty());
  CHECK(world.Report(tasks.front(), "ok"));
}

TEST_CASE("another partition than home takes whom home has let in, and tells of nobody") {
  EngineOptions options;
  options.partition = 1;
  options.partitions = 2;
  options.home = 0;
  World world(options);
  Process first(world, "s1");
  Process second(world, "s2");  // home has seen the end of the first
  CHECK(world.engine().agents().Get("ns", "h")->row.session == "s2");
  CHECK(world.engine().last_seq() == 0);
}

// The first turn of a begin, which is not written yet.
Extended BeginIn(World& world, const Process& process, const Task& task,
                 const std::string& checkpoint = "") {
  Extended answer;
  world.Decide([&](Engine& e) {
    answer =
        e.Extend("ns", task.instance, task.claim, std::nullopt,
                 {.begin = true, .checkpoint = checkpoint, .session = process.stream});
  });
  REQUIRE(!answer.error);
  return answer;
}

const Claim* ClaimIn(const Instance& instance, const Task& task) {
  const Token* token = instance.tokens.Find(task.visit);
  return token ? token->FindClaim(task.claim_id) : nullptr;
}

TEST_CASE("a begin is answered early where a crash takes it together with its claim") {
  World world;
  world.Define(kMachine);
  world.Start("m", "i");
  Process one(world, "s1");
  const Task task = one.tasks.at(0);
  CHECK(BeginIn(world, one, task).early);
  REQUIRE(world.InFlight());
  SUBCASE("written") {
    world.Commit();
    world.Crash();
    const auto instance = world.Get("i");
    const Claim* claim = ClaimIn(*instance, task);
    REQUIRE(claim);
    CHECK(claim->Begun());
    Process again(world, "s1");
    CHECK(again.tasks.empty());
  }
  SUBCASE("lost") {
    world.Crash();
    CHECK(!ClaimIn(*world.Get("i"), task));
    // The agent that comes back is given the visit, unless it says at once that it has it.
    AttachArgs args{.ns = "ns", .name = "h", .row = {}, .filter = {.ns = "ns"}, .terms = {}};
    args.row.session = "s1";
    args.row.slots = 4;
    args.terms = {5s, "s1", 10s, "h"};
    std::vector<Task> tasks;
    const Extended extended = world.Do([&](Engine& e) {
      auto attached = e.agents().Attach(args, [&tasks](SessionUpdate update) {
        std::ranges::move(update.tasks, std::back_inserter(tasks));
      });
      REQUIRE(attached);
      return e.Extend("ns", "i", task.claim, std::nullopt, {.session = attached->stream});
    });
    CHECK(!extended.error);
    CHECK(tasks.empty());
    const auto instance = world.Get("i");
    const Claim* claim = ClaimIn(*instance, task);
    REQUIRE(claim);
    CHECK(claim->Begun());
    CHECK(claim->worker == "h");
  }
  CHECK(world.Report(task, "ok"));
}

TEST_CASE("a begin that promises more than its claim waits for the commit") {
  World world;
  world.Define(kMachine);
  const auto begins_early = [&world](const std::string& machine) {
    world.Start(machine, "i");
    Process one(world, "s1");
    return BeginIn(world, one, one.tasks.at(0)).early;
  };
  SUBCASE("its checkpoint is to be kept") {
    world.Start("m", "i");
    Process one(world, "s1");
    CHECK(!BeginIn(world, one, one.tasks.at(0), R"({"n":1})").early);
  }
  SUBCASE("its claim is written: a crash would leave it without its begin") {
    world.Start("m", "i");
    Process one(world, "s1");
    REQUIRE(world.Do([](Engine& e) { return e.Settle("ns", "i"); }));
    CHECK(!BeginIn(world, one, one.tasks.at(0)).early);
  }
  SUBCASE("its claim is written with what made it ready") {
    Process one(world, "s1");
    world.Start("m", "i");
    CHECK(!BeginIn(world, one, one.tasks.at(0)).early);
  }
  SUBCASE("it is repeated, and the first may not be written yet") {
    world.Start("m", "i");
    Process one(world, "s1");
    CHECK(BeginIn(world, one, one.tasks.at(0)).early);
    CHECK(!BeginIn(world, one, one.tasks.at(0)).early);
  }
  SUBCASE("it holds a place of a limit") {
    world.Define("id: held\nnodes: {a: {start: true, limit: k, transitions: {ok: done}}, "
                 "done: {final: true}}\n");
    CHECK(!begins_early("held"));
  }
  SUBCASE("another step is to run at the same agent") {
    world.Define("plan: p\nflow: [{step: a, action: x}, "
                 "{step: b, action: x, runs_on: {agent: \"${a.worker}\"}}]\n");
    CHECK(!begins_early("p"));
  }
  SUBCASE("it runs at most once") {
    world.Define("id: once\nnodes: {a: {start: true, timeout: 0.0, transitions: {ok: done}}, "
                 "done: {final: true}}\n");
    CHECK(!begins_early("once"));
  }
}

TEST_CASE("no begin is answered early where another server may take over meanwhile") {
  World world({.early_begins = false});
  world.Define(kMachine);
  world.Start("m", "i");
  Process one(world, "s1");
  CHECK(!BeginIn(world, one, one.tasks.at(0)).early);
}

}  // namespace
}  // namespace dfsmr
