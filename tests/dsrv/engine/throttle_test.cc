// The breaker at work: when half of what is handed out are retries, they are let out one by one.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/dsrv/engine/world.h"

namespace dfsmr {
namespace {

constexpr std::string_view kThrottled = R"(
id: m
defaults: {timeout_strategy: fixed, timeout: 20.0}
nodes:
  a: {start: true, transitions: {ok: b, done: done}}
  b: {transitions: {ok: done}}
  done: {final: true}
)";

// 20 instances at a and 20 at b, all timed out once and claimed again by workers that hang: the
// breaker is open.
void OpenBreaker(World& world) {
  world.Define(kThrottled);
  for (int i = 0; i < 40; ++i) {
    const std::string id = "i" + std::to_string(i);
    world.Start("m", id);
    if (i % 2 == 1) REQUIRE(world.Move(id, "ok"));
  }
  CHECK(world.Ready().size() == 40);
  world.Elapse(20s);
  CHECK(world.Ready().size() >= 20);
  REQUIRE(world.Machine("m").stats.breaker == "open");
  world.Elapse(20s);
}

int Count(World& world, ChangeKind kind) {
  return static_cast<int>(std::ranges::count(world.Feed(), kind, &Event::kind));
}

TEST_CASE("the breaker opens when half of the claims are retries, and the feed says so") {
  World world;
  OpenBreaker(world);
  CHECK(Count(world, ChangeKind::kBreakerOpened) == 1);
  CHECK(world.Machine("m").stats.retry_rate >= 0.5);
}

TEST_CASE("an open breaker lets out one retry a second, and first attempts as ever") {
  World world;
  OpenBreaker(world);
  int retries = 0;
  for (int tenth = 0; tenth < 50; ++tenth) {
    retries += static_cast<int>(world.Ready().size());
    world.Elapse(90ms);
  }
  CHECK(retries >= 4);
  CHECK(retries <= 6);
  for (int i = 0; i < 30; ++i) world.Start("m", "new" + std::to_string(i));
  CHECK(world.Ready().size() >= 30);
}

TEST_CASE("retries that succeed double the rate") {
  World world;
  OpenBreaker(world);
  int retries = 0;
  for (int tenth = 0; tenth < 50; ++tenth) {
    for (const Task& task : world.Ready()) {
      ++retries;
      REQUIRE(world.Report(task, task.node == "a" ? "done" : "ok"));
    }
    world.Elapse(90ms);
  }
  CHECK(retries > 20);
}

TEST_CASE("the breaker closes by itself when nothing is handed out, and all goes on") {
  World world;
  OpenBreaker(world);
  world.Ready();
  world.Elapse(65s);
  CHECK(world.Machine("m").stats.breaker == "closed");
  CHECK(Count(world, ChangeKind::kBreakerClosed) == 1);
  CHECK(world.Ready().size() >= 20);
}

TEST_CASE("the breaker closes in the turn in which its minute is over, whoever asks before") {
  World world;
  OpenBreaker(world);
  world.Define("id: other\nnodes: {a: {start: true, transitions: {ok: z}}, z: {final: true}}\n");
  for (const char* id : {"o1", "o2"}) world.Start("other", id);
  REQUIRE(world.Ready({.machine = "other"}, 1).size() == 1);  // so that the turn is the other's
  world.Advance(65s);
  CHECK(world.Ready({}, 1).front().machine == "other");  // retries were looked at, and put aside
  CHECK(Count(world, ChangeKind::kBreakerClosed) == 1);
}

TEST_CASE("a node without workers does not hold back the retries of another") {
  World world;
  OpenBreaker(world);
  world.Ready();  // asks for all of them: they are put aside
  std::string node;
  SUBCASE("") { node = "a"; }
  SUBCASE(" ") { node = "b"; }
  CAPTURE(node);
  int retries = 0;
  for (int tenth = 0; tenth < 100; ++tenth) {  // from now on nobody asks for the other's
    retries += static_cast<int>(world.Ready({.node = node}).size());
    world.Elapse(90ms);
  }
  CHECK(retries >= 6);
}

TEST_CASE("a retry that nobody needs any more does not hold back the others") {
  World world;
  OpenBreaker(world);
  world.Ready();
  world.Elapse(1s);  // the next one is let out, and waits in its queue
  int parity = 0;
  SUBCASE("") { parity = 0; }
  SUBCASE(" ") { parity = 1; }
  CAPTURE(parity);
  for (int i = parity; i < 40; i += 2) {
    REQUIRE(world.Do([&](Engine& e) {
      return e.Cancel("ns", "i" + std::to_string(i), CancelMode::kForce);
    }));
  }
  int retries = 0;
  for (int tenth = 0; tenth < 100; ++tenth) {
    retries += static_cast<int>(world.Ready().size());
    world.Elapse(90ms);
  }
  CHECK(retries >= 6);
}

TEST_CASE("a poll that waits is given retries as they are let out") {
  World world;
  OpenBreaker(world);
  int retries = 0;
  auto session = world.Do([&](Engine& e) {
    return e.OpenSession({.ns = "ns"}, "s", 100, [&](SessionUpdate update) {
      retries += static_cast<int>(update.tasks.size());
    });
  });
  REQUIRE(session);
  world.Elapse(5s);
  CHECK(retries >= 3);
  CHECK(retries <= 6);
}

TEST_CASE("an upgrade while the breaker is open loses no instance") {
  World world;
  OpenBreaker(world);
  world.Ready();
  world.Define("upgrade_strategy: upgrade\n" + std::string(kThrottled).substr(1));
  world.Drain();
  CHECK(world.Ready().size() == 40);  // new visits, so first attempts
}

}  // namespace
}  // namespace dfsmr
