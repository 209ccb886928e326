// Streams of work: credit, drain, and what becomes of the claims when they end.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/dsrv/engine/world.h"

namespace dfsmr {
namespace {

constexpr std::string_view kMachine = R"(
id: m
defaults: {timeout_strategy: fixed, timeout: 10.0}
nodes:
  a: {start: true, transitions: {ok: done, again: a}}
  done: {final: true}
)";
constexpr std::string_view kOnce = R"(
id: once
nodes:
  a: {start: true, timeout: 0.0, transitions: {ok: done}}
  done: {final: true}
)";

struct Stream {
  Stream(World& world, int32_t capacity, const WorkerTerms& terms = {}) {
    auto opened = world.Do([&](Engine& e) {
      return e.OpenSession({.ns = "ns"}, "s", capacity, [this](SessionUpdate update) {
        for (Task& task : update.tasks) tasks.push_back(std::move(task));
        for (std::string& claim : update.cancelled) cancelled.push_back(std::move(claim));
        for (std::string& claim : update.killed) killed.push_back(std::move(claim));
        drained += update.drained;
        spare += update.spare;
        if (update.levels) looks.push_back(*std::move(update.levels));
        for (std::string& claim : update.over) over.push_back(std::move(claim));
        for (HeldClaim& one : update.again) again.push_back(std::move(one.claim));
        if (update.end) end = std::move(update.end);
      }, terms);
    });
    REQUIRE(opened);
    id = *opened;
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  SessionId id = 0;
  std::vector<Task> tasks;
  std::vector<std::string> cancelled;
  std::vector<std::string> killed;
  int drained = 0;
  // On credit.
  std::vector<std::vector<Agenda::Level>> looks;
  size_t spare = 0;
  std::vector<std::string> over;
  std::vector<std::string> again;
  std::optional<Error> end;
};

void StartEach(World& world, int count, const std::string& machine = "m") {
  for (int i = 0; i < count; ++i) world.Start(machine, "i" + std::to_string(i));
}

TEST_CASE("what a stream was given is told though it ends before the turn does") {
  World world;
  world.Define(kOnce);
  Stream stream(world, 1);
  world.Decide([](Engine& engine) {  // is being written
    REQUIRE(engine.Start({.ns = "ns", .machine = "once", .id = "i", .hold = true}));
  });
  world.Decide([&](Engine& engine) {
    REQUIRE(engine.Start({.ns = "ns", .machine = "once", .id = "j"}));
    REQUIRE(world.NextPass());  // j is handed out, at most once
    engine.CloseSession(stream.id);
  });
  world.Commit();
  REQUIRE(stream.tasks.size() == 1);
  CHECK(stream.tasks[0].instance == "j");
}

TEST_CASE("an answer to a stream says whether an update follows") {
  World world;
  world.Define(kMachine);
  Stream stream(world, 2);
  std::vector<std::string> told;
  const auto answer = [&](Engine& engine, const std::string& name) {
    engine.AfterCommit(stream.id, [&told, &stream, name](bool more) {
      told.push_back(name + (more ? " and more" : ""));
      CHECK(stream.tasks.empty());
    });
  };
  world.Decide([&](Engine& engine) {
    answer(engine, "one");
    answer(engine, "two");
  });
  world.Commit();
  world.Decide([&](Engine& engine) {
    answer(engine, "three");
    REQUIRE(engine.Start({.ns = "ns", .machine = "m", .id = "i"}));
  });
  world.Commit();
  CHECK(told == std::vector<std::string>{"one and more", "two", "three and more"});
  CHECK(stream.tasks.size() == 1);
  world.Decide([&](Engine& engine) {
    engine.CloseSession(stream.id);
    engine.AfterCommit(stream.id, [&](bool more) { told.push_back(more ? "more" : "closed"); });
  });
  world.Commit();
  CHECK(told.back() == "closed");
  told.clear();
  world.Decide([&](Engine& engine) {  // of two streams that were refused
    for (int i = 0; i < 2; ++i) {
      engine.AfterCommit(SessionId{}, [&](bool more) { told.push_back(more ? "more" : "alone"); });
    }
  });
  world.Commit();
  CHECK(told == std::vector<std::string>{"alone", "alone"});
  Stream narrow(world, 1);
  world.Start("m", "ready");
  REQUIRE(narrow.tasks.size() == 1);
  world.Decide([&](Engine& engine) {
    const Task& task = narrow.tasks[0];
    REQUIRE(engine.Report("ns", task.instance, {.transition = "ok", .claim = task.claim}));
    engine.AfterCommit(narrow.id, [&](bool more) { told.push_back(more ? "more" : "alone"); });
  });
  CHECK(narrow.tasks.size() == 2);  // what was ready already is told at once
  world.Commit();
  CHECK(told.back() == "alone");
}

TEST_CASE("an early answer to a stream is told after its pass, and says whether tasks follow") {
  World world;
  world.Define(kMachine);
  StartEach(world, 2);
  Stream stream(world, 1);
  std::vector<std::string> told;
  const auto answers = [&](Engine& engine) {
    engine.AfterCommit(stream.id, [&](bool more) { told.push_back(more ? "late, more" : "late"); });
    engine.AfterPass(stream.id, [&](bool more) { told.push_back(more ? "early, more" : "early"); });
  };
  world.Decide(answers);
  CHECK(told == std::vector<std::string>{"early"});
  world.Commit();
  CHECK(told.back() == "late");
  told.clear();
  world.Decide([&](Engine& engine) {
    const Task& task = stream.tasks.at(0);
    REQUIRE(engine.Report("ns", task.instance, {.transition = "ok", .claim = task.claim}));
    answers(engine);
  });
  CHECK(told == std::vector<std::string>{"early, more"});
  CHECK(stream.tasks.size() == 2);
  world.Commit();
  CHECK(told.back() == "late");
}

TEST_CASE("a stream is given work up to its capacity, and more as it reports") {
  World world;
  world.Define(kMachine);
  Stream stream(world, 2);
  StartEach(world, 5);
  CHECK(stream.tasks.size() == 2);
  REQUIRE(world.Report(stream.tasks[0], "ok"));
  CHECK(stream.tasks.size() == 3);
  REQUIRE(world.Relinquish(stream.tasks[1]));
  CHECK(stream.tasks.size() == 4);
  CHECK(stream.cancelled.empty());  // it gave them up itself
}

TEST_CASE("a claim that timed out no longer counts against the capacity") {
  World world;
  world.Define(kMachine);
  Stream stream(world, 1);
  StartEach(world, 2);
  REQUIRE(stream.tasks.size() == 1);
  world.Elapse(10s);
  CHECK(stream.cancelled == std::vector<std::string>{stream.tasks[0].claim});
  CHECK(stream.tasks.size() == 2);
}

TEST_CASE("a timed-out claim that is extended counts again, and is given back with its stream") {
  World world;
  world.Define(kMachine);
  Stream stream(world, 1);
  world.Start("m");
  REQUIRE(stream.tasks.size() == 1);
  REQUIRE(world.Do([](Engine& e) { return e.Pause("ns", "i"); }));  // so that nobody else gets it
  world.Elapse(10s);
  const auto extended = world.Do([&](Engine& e) {
    return e.Extend("ns", "i", stream.tasks[0].claim, Duration(1h), {.progress = 0});
  });
  CHECK_FALSE(extended.error);
  REQUIRE(world.Do([](Engine& e) { return e.Resume("ns", "i", "", false); }));
  world.Start("m", "other");
  CHECK(stream.tasks.size() == 1);
  world.Decide([&](Engine& e) { e.CloseSession(stream.id); });
  world.Commit();
  CHECK(world.Ready().size() == 2);
}

TEST_CASE("a stream hears of claims that are not worth working on any more") {
  World world;
  world.Define(kMachine);
  Stream stream(world, 1);
  world.Start("m");
  REQUIRE(stream.tasks.size() == 1);
  const std::vector<std::string> claim = {stream.tasks[0].claim};
  SUBCASE("moved from outside") {
    REQUIRE(world.Move("i", "ok"));
    CHECK(stream.cancelled == claim);
  }
  SUBCASE("cancelled") {
    REQUIRE(world.Do([](Engine& e) { return e.Cancel("ns", "i", CancelMode::kCancel); }));
    CHECK(stream.cancelled == claim);
    CHECK(world.Must("i").state == InstanceState::kRunning);
  }
  SUBCASE("cancelled with force") {
    REQUIRE(world.Do([](Engine& e) { return e.Cancel("ns", "i", CancelMode::kForce); }));
    CHECK(stream.cancelled == claim);
  }
  SUBCASE("killed") {
    REQUIRE(world.Do([](Engine& e) { return e.Cancel("ns", "i", CancelMode::kKill); }));
    CHECK(stream.killed == claim);
    CHECK(stream.cancelled == claim);  // for those that look only there
  }
  SUBCASE("relinquished by an operator") {
    REQUIRE(
        world.Do([](Engine& e) { return e.Relinquish("ns", "i", "", {.client = "operator"}); }));
    CHECK(stream.cancelled == claim);
    CHECK(stream.tasks.size() == 2);
  }
}

TEST_CASE("a stream that drains gets nothing more, and is told when nothing is in hand") {
  World world;
  world.Define(kMachine);
  Stream stream(world, 2);
  StartEach(world, 3);
  REQUIRE(stream.tasks.size() == 2);
  world.Decide([&](Engine& e) { e.DrainSession(stream.id); });
  world.Commit();
  REQUIRE(world.Report(stream.tasks[0], "ok"));
  CHECK(stream.drained == 0);
  REQUIRE(world.Report(stream.tasks[1], "again"));
  CHECK(stream.drained == 1);
  CHECK(stream.tasks.size() == 2);
}

TEST_CASE("an empty stream drains at once") {
  World world;
  Stream stream(world, 2);
  world.Decide([&](Engine& e) { e.DrainSession(stream.id); });
  world.Commit();
  CHECK(stream.drained == 1);
}

TEST_CASE("a stream that ends gives back what it had, and its claims are void") {
  World world;
  world.Define(kMachine);
  Stream stream(world, 3);
  StartEach(world, 2);
  world.Decide([&](Engine& e) { e.CloseSession(stream.id); });
  world.Commit();
  auto report = world.Report(stream.tasks[0], "ok");
  REQUIRE_FALSE(report);
  CHECK(report.error().reason == Reason::kStaleClaim);
  CHECK(world.Ready().size() == 2);
  world.Start("m", "new");
  CHECK(stream.tasks.size() == 2);
}

TEST_CASE("at-most-once work stays claimed when its stream ends, and may still report") {
  World world;
  world.Define(kOnce);
  Stream stream(world, 1);
  world.Start("once");
  REQUIRE(stream.tasks.size() == 1);
  world.Decide([&](Engine& e) { e.CloseSession(stream.id); });
  world.Commit();
  CHECK(world.Ready().empty());
  CHECK(world.Report(stream.tasks[0], "ok"));
}

TEST_CASE("at-most-once work is told to a stream when its claim is durable") {
  World world;
  world.Define(kOnce);
  Stream stream(world, 1);
  world.Decide([&](Engine& e) { REQUIRE(e.Start({.ns = "ns", .machine = "once", .id = "i"})); });
  CHECK(stream.tasks.empty());
  world.Commit();
  CHECK(stream.tasks.size() == 1);
}

TEST_CASE("streams and polls share what there is, longest waiting first") {
  World world;
  world.Define(kMachine);
  Stream one(world, 100), two(world, 100);
  StartEach(world, 10);
  CHECK(one.tasks.size() + two.tasks.size() == 10);
  CHECK(one.tasks.size() == 5);
}

TEST_CASE("a server that stops answers polls empty and drains streams") {
  World world;
  world.Define(kMachine);
  Stream busy(world, 1);
  world.Start("m");
  Stream idle(world, 1);
  int answers = 0;
  auto parked = world.Do([&](Engine& e) {
    return e.Poll({.filter = {.ns = "ns"}, .worker = "w", .until = world.now() + 1min},
                  [&](std::vector<Task> tasks) { answers += tasks.empty(); });
  });
  REQUIRE(parked);
  world.Decide([](Engine& e) { e.StopHandingOut(); });
  world.Commit();
  CHECK(answers == 1);
  CHECK(idle.drained == 1);
  CHECK(busy.drained == 0);
  REQUIRE(world.Report(busy.tasks[0], "again"));
  CHECK(busy.drained == 1);
  CHECK(world.Ready().empty());
}

void Allow(World& world, const Stream& stream, size_t tasks) {
  world.Do([&](Engine& e) {
    e.Allow(stream.id, tasks);
    return 0;
  });
  world.Drain();
}

TEST_CASE("a stream on credit is told what there is once, and is handed what it is allowed") {
  World world;
  world.Define(kMachine);
  Stream stream(world, 5, {.on_credit = true});
  CHECK(stream.looks.empty());
  StartEach(world, 3);
  world.Drain();
  CHECK(stream.tasks.empty());
  REQUIRE(stream.looks.size() == 1);
  CHECK(stream.looks[0].size() == 1);
  Allow(world, stream, 2);
  CHECK(stream.tasks.size() == 2);
  CHECK(stream.spare == 0);
  REQUIRE(stream.looks.size() == 2);
  CHECK(stream.looks[1][0].entries == 1);
  Allow(world, stream, 4);
  CHECK(stream.tasks.size() == 3);
  CHECK(stream.spare == 3);
  CHECK(stream.looks.size() == 2);
  // What was not used counts no more.
  world.Start("m", "late");
  world.Drain();
  CHECK(stream.tasks.size() == 3);
  CHECK(stream.looks.size() == 3);
}

TEST_CASE("a stream on credit that asks what there is is told, also of nothing") {
  World world;
  world.Define(kMachine);
  Stream stream(world, 1, {.on_credit = true});
  Allow(world, stream, 0);
  REQUIRE(stream.looks.size() == 1);
  CHECK(stream.looks[0].empty());
  StartEach(world, 1);
  world.Drain();
  CHECK(stream.looks.size() == 2);
  // Another worker takes it: what was allowed for it is spare, and the next is told of anew.
  const Task taken = world.ReadyOne();
  Allow(world, stream, 1);
  CHECK(stream.tasks.empty());
  CHECK(stream.spare == 1);
  REQUIRE(world.Report(taken, "again"));
  world.Drain();
  CHECK(stream.looks.size() == 3);
  Allow(world, stream, 1);
  REQUIRE(stream.tasks.size() == 1);
  // A full one is told of nothing until it has room.
  world.Start("m", "more");
  world.Drain();
  CHECK(stream.looks.size() == 3);
  REQUIRE(world.Report(stream.tasks[0], "ok"));
  world.Drain();
  CHECK(stream.looks.size() == 4);
}

TEST_CASE("a stream on credit whose tasks others have taken is told of the next ones") {
  World world;
  world.Define(kMachine);
  Stream stream(world, 1, {.on_credit = true});
  StartEach(world, 1);
  world.Drain();
  REQUIRE(stream.looks.size() == 1);
  world.ReadyOne();
  Allow(world, stream, 0);  // it looks again, in vain
  REQUIRE(stream.looks.size() == 2);
  CHECK(stream.looks[1].empty());
  world.Start("m", "next");
  world.Drain();
  REQUIRE(stream.looks.size() == 3);
  CHECK(stream.looks[2].size() == 1);
}

TEST_CASE("a stream on credit that drains is told of nothing more") {
  World world;
  world.Define(kMachine);
  Stream stream(world, 2, {.on_credit = true});
  world.Do([&](Engine& e) {
    e.DrainSession(stream.id);
    return 0;
  });
  CHECK(stream.drained == 1);
  StartEach(world, 1);
  world.Drain();
  CHECK(stream.looks.empty());
  Allow(world, stream, 1);
  CHECK(stream.tasks.empty());
  CHECK(stream.spare == 1);
}

void TakeUp(World& world, const Stream& stream, const std::vector<Task>& tasks) {
  std::vector<HeldClaim> held;
  for (const Task& task : tasks) held.push_back({task.instance, task.claim});
  world.Do([&](Engine& e) { return e.TakeUp(stream.id, held), 0; });
}

TEST_CASE("a stream on credit is told of every claim that is over, whoever ended it") {
  World world;
  world.Define(kMachine);
  Stream stream(world, 2, {.on_credit = true});
  StartEach(world, 2);
  Allow(world, stream, 2);
  REQUIRE(stream.tasks.size() == 2);
  REQUIRE(world.Report(stream.tasks[0], "ok"));
  CHECK(stream.over == std::vector<std::string>{stream.tasks[0].claim});
  CHECK(stream.cancelled.empty());
  world.Elapse(std::chrono::seconds(11));  // the other one times out
  CHECK(stream.over.back() == stream.tasks[1].claim);
  CHECK(stream.cancelled.back() == stream.tasks[1].claim);
  const auto late = ClaimRef::Read(stream.tasks[1].claim);
  world.Do([&](Engine& e) { return e.Extend("ns", stream.tasks[1].instance, late, {}, {}), 0; });
  CHECK(stream.again == std::vector<std::string>{stream.tasks[1].claim});
}

TEST_CASE("what a worker holds stays its when its front is gone, and its next stream takes it up") {
  World world;
  world.Define(kMachine);
  Stream former(world, 2, {.on_credit = true});
  StartEach(world, 2);
  Allow(world, former, 2);
  REQUIRE(former.tasks.size() == 2);
  world.Do([&](Engine& e) { return e.CloseSession(former.id, StreamEnd::kUnknown), 0; });
  Stream other(world, 2);
  CHECK(other.tasks.empty());
  REQUIRE(world.Report(former.tasks[0], "ok"));
  Stream next(world, 2, {.on_credit = true});
  TakeUp(world, next, former.tasks);
  CHECK(next.again == std::vector<std::string>{former.tasks[1].claim});
  CHECK(next.over == std::vector<std::string>{former.tasks[0].claim});
  CHECK(next.cancelled == next.over);
  world.Do([&](Engine& e) {
    return e.Cancel("ns", former.tasks[1].instance, CancelMode::kCancel).has_value();
  });
  CHECK(next.cancelled.back() == former.tasks[1].claim);
  // Its worker is gone for certain.
  world.Do([&](Engine& e) { return e.CloseSession(next.id, StreamEnd::kBroken), 0; });
}

TEST_CASE("a claim that another stream has taken up does not end with the former one") {
  World world;
  world.Define(kMachine);
  Stream former(world, 1, {.on_credit = true});
  StartEach(world, 1);
  Allow(world, former, 1);
  REQUIRE(former.tasks.size() == 1);
  Stream next(world, 1, {.on_credit = true});
  TakeUp(world, next, former.tasks);
  CHECK(former.over == std::vector<std::string>{former.tasks[0].claim});
  world.Do([&](Engine& e) { return e.CloseSession(former.id, StreamEnd::kBroken), 0; });
  CHECK(next.over.empty());
  REQUIRE(world.Report(former.tasks[0], "ok"));
  CHECK(next.over.size() == 1);
}

TEST_CASE("a partition that moves ends its streams on credit, and their claims go with it") {
  World world;
  world.Define(kMachine);
  Stream stream(world, 2, {.on_credit = true});
  Stream plain(world, 1);
  StartEach(world, 2);
  Allow(world, stream, 1);
  REQUIRE(stream.tasks.size() == 1);
  world.Do([](Engine& e) { return e.StopHandingOut(/*moves=*/true), 0; });
  REQUIRE(stream.end);
  CHECK(stream.end->code == Code::kUnavailable);
  CHECK_FALSE(plain.end);
  world.Do([&](Engine& e) { return e.CloseSession(stream.id, StreamEnd::kUnknown), 0; });
  CHECK(world.Report(stream.tasks[0], "ok"));
}

}  // namespace
}  // namespace dfsmr
