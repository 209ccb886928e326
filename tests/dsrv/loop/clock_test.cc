// A loop whose clock is virtual, on an engine that waits for many things.
#include <doctest/doctest.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "dsrv/engine/compile.h"
#include "dsrv/loop/loop.h"
#include "fsm/yaml/definitions.h"
#include "storage/memory_store.h"
#include "tests/dsrv/loop/outside.h"

namespace dfsmr {
namespace {

using namespace std::chrono_literals;

constexpr const char* kMachine = R"(
id: clockwork
nodes:
  work: {start: true, transitions: {ok: tick}}
  tick: {delay: {initial: 1h}, transitions: {ok: tock}}
  tock: {delay: {initial: 1h}, transitions: {ok: tick}}
---
id: job
nodes:
  work: {start: true, transitions: {ok: done}}
  done: {final: true}
)";

std::vector<Machine> Machines(std::string_view text) {
  Parsed parsed = ParseDefinitions(text, "test");
  REQUIRE_MESSAGE(parsed.ok(), (parsed.ok() ? "" : Format(parsed.diagnostics.front())));
  std::vector<Machine> machines;
  for (Machine& one : parsed.definitions) machines.push_back(std::move(one));
  return machines;
}

struct Rig {
  // In the loop; returns when what it did is durable.
  template <typename Command>
  auto Do(Command command) {
    auto told = std::make_shared<std::promise<decltype(command(*engine))>>();
    auto outcome = told->get_future();
    REQUIRE(loop->Post({.run =
                            [&command, told](Engine& in) {
                              in.AfterCommit(
                                  [told, outcome = command(in)] { told->set_value(outcome); });
                            },
                        .drop = [] {}}));
    return outcome.get();
  }

  Rig() {
    EngineOptions options;
    options.virtual_clock = true;
    options.retention = 1h;
    options.compile = [](std::string_view source) -> Result<Machine> {
      return Machines(source).front();
    };
    auto opened = Engine::Open(store, std::move(options), begin);
    REQUIRE(opened);
    engine = *std::move(opened);
    Loop::Outside outside = QuietOutside();
    outside.virtual_clock = true;
    loop = std::make_unique<Loop>(*engine, store, mailbox, std::move(outside));
    Do([](Engine& in) {
      std::vector<DefineProblem> problems;
      REQUIRE(DefineAtOnce(in, "ns", {Machines(kMachine), {}}, false, &problems));
      return 0;
    });
  }
  ~Rig() { loop->Stop(); }

  void Start(const std::string& id, Timestamp at = {}, const char* machine = "clockwork") {
    Do([&](Engine& in) {
      auto started = in.Start({.ns = "ns", .machine = machine, .id = id, .start_at = at});
      REQUIRE(started);
      return 0;
    });
  }
  void Move(const std::string& id, const std::string& transition) {
    Do([&](Engine& in) {
      REQUIRE(in.Report("ns", id, {.transition = transition}));
      return 0;
    });
  }
  using Arrives = std::future<Result<Loop::Arrival>>;
  Arrives Go(std::function<Result<Timestamp>(Engine&)> target) {
    auto arrival = std::make_shared<std::promise<Result<Loop::Arrival>>>();
    auto arrives = arrival->get_future();
    REQUIRE(loop->Post({.run =
                            [this, target, arrival](Engine&) {
                              loop->AdvanceClock({target, [arrival](const auto& one) {
                                                    arrival->set_value(one);
                                                  }});
                            },
                        .drop = [] {}}));
    return arrives;
  }
  Arrives GoBy(Duration by) {
    return Go([by](Engine& in) -> Result<Timestamp> { return in.clock() + by; });
  }

  const Timestamp begin{std::chrono::sys_days{std::chrono::year{2026} / 1 / 31}};
  MemoryStore store;
  std::unique_ptr<Engine> engine;
  Mailbox mailbox;
  std::unique_ptr<Loop> loop;
};

}  // namespace

TEST_CASE("a year of delays takes moments, and each ends at its own time") {
  Rig rig;
  rig.Start("a");
  rig.Move("a", "ok");
  const auto arrival = rig.GoBy(24h * 365).get();
  REQUIRE(arrival);
  CHECK(arrival->timers == 365 * 24);
  CHECK(arrival->time == rig.begin + 24h * 365);
  CHECK(arrival->next_due == arrival->time + 1h);
  CHECK(rig.loop->Now() == arrival->time);
}

TEST_CASE("the clock stands where it is until it is told to go, and where it has gone to") {
  Rig rig;
  rig.Start("a", rig.begin + 30min);
  CHECK(rig.loop->Now() == rig.begin);
  CHECK(rig.Do([](Engine& in) { return in.clock(); }) == rig.begin);
  auto nothing = rig.GoBy(30min - 1us).get();
  REQUIRE(nothing);
  CHECK(nothing->timers == 0);
  CHECK(nothing->next_due == rig.begin + 30min);
  auto next = rig.Go([](Engine& in) -> Result<Timestamp> { return in.NextEvent(); }).get();
  REQUIRE(next);
  CHECK(next->time == rig.begin + 30min);
  CHECK(next->timers == 1);
  CHECK(next->next_due == kNever);
  CHECK(rig.Do([](Engine& in) { return in.clock(); }) == rig.begin + 30min);
}

TEST_CASE("advances go one after the other, and one that is refused holds up none") {
  Rig rig;
  rig.Start("a");
  rig.Move("a", "ok");
  auto first = rig.GoBy(100h);
  auto refused = rig.Go([](Engine&) -> Result<Timestamp> {
    return Error{Code::kInvalidArgument, Reason::kBadRequest, "no"};
  });
  auto second = rig.GoBy(50h);
  const auto one = first.get();
  const auto other = second.get();
  REQUIRE(one);
  REQUIRE(other);
  CHECK(!refused.get());
  CHECK(one->time == rig.begin + 100h);
  CHECK(one->timers == 100);
  CHECK(other->time == rig.begin + 150h);
  CHECK(other->timers == 50);
}

TEST_CASE("an id is free again at the end of the retention, in the middle of a long way") {
  Rig rig;
  rig.Start("a", {}, "job");
  rig.Move("a", "ok");
  rig.Start("b");
  rig.Move("b", "ok");
  REQUIRE(rig.GoBy(59min).get());
  CHECK(rig.Do([](Engine& in) { return in.Settle("ns", "a").has_value(); }));
  REQUIRE(rig.GoBy(1min).get());
  CHECK(!rig.Do([](Engine& in) { return in.Settle("ns", "a").has_value(); }));
  CHECK(rig.Do([](Engine& in) { return in.Settle("ns", "b").has_value(); }));
}

TEST_CASE("a poll waits in real time, whether the clock stands or goes") {
  Rig rig;
  rig.Start("a");
  rig.Move("a", "ok");
  std::promise<size_t> answered;
  auto answer = answered.get_future();
  const auto real = std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
  rig.Do([&](Engine& in) {
    auto poll =
        in.Poll({.filter = {.ns = "ns"}, .worker = "w", .max_tasks = 1, .until = real + 200ms},
                [&](const std::vector<Task>& tasks) { answered.set_value(tasks.size()); });
    REQUIRE(poll);
    return 0;
  });
  REQUIRE(rig.GoBy(24h).get());
  CHECK(answer.get() == 0);
  CHECK(std::chrono::system_clock::now() >= real + 200ms);
}

TEST_CASE("a clock that is halted stands where it has come to") {
  Rig rig;
  for (int i = 0; i < 20; ++i) {
    rig.Start("a" + std::to_string(i));
    rig.Move("a" + std::to_string(i), "ok");
  }
  auto far = rig.GoBy(24h * 3'650);
  auto further = rig.GoBy(1h);
  rig.Do([&](Engine&) {
    rig.loop->HaltClock({Code::kUnavailable, Reason::kNotReady, "enough"});
    return 0;
  });
  CHECK(!far.get());
  CHECK(!further.get());
  const Timestamp stands = rig.loop->Now();
  CHECK(stands < rig.begin + 24h * 3'650);
  CHECK(!rig.GoBy(1h).get());
  CHECK(rig.loop->Now() == stands);
}

}  // namespace dfsmr
