// A clock that stands until it is told to advance.
#include <doctest/doctest.h>

#include "tests/dsrv/engine/world.h"

namespace dfsmr {
namespace {

constexpr const char* kTimed = R"(
id: m
retention: 3h
nodes:
  work: {start: true, timeout_strategy: fixed, timeout: 600.0, transitions: {ok: rest, end: done}}
  rest: {delay: {initial: 1h}, transitions: {ok: work}}
  done: {final: true}
)";

struct Standing : World {
  explicit Standing(EngineOptions options = {}) : World(With(std::move(options))) {
    Define(kTimed);
  }
  static EngineOptions With(EngineOptions options) {
    options.virtual_clock = true;
    return options;
  }
  // To exactly so much later, in one leap.
  void Leap(Duration by) {
    Advance(by);
    do {
      Decide();
      Commit();
    } while (engine().WorkLeft());
  }
};

}  // namespace

TEST_CASE("what lasts an hour ends an hour later, however much happened while the clock stood") {
  Standing world;
  const Timestamp begin = world.now();
  for (int i = 0; i < 50; ++i) world.Start("m", "i" + std::to_string(i));
  const auto tasks = world.Ready();
  REQUIRE(tasks.size() == 50);
  for (const Task& task : tasks) CHECK(task.deadline == begin + 10min);
  for (size_t i = 0; i < 47; ++i) REQUIRE(world.Report(tasks[i], "ok"));
  CHECK(world.engine().clock() == begin);
  CHECK(world.engine().NextEvent() == begin + 10min);

  world.Leap(10min - 1us);
  CHECK(world.engine().timers_fired() == 0);
  world.Leap(1us);
  CHECK(world.engine().timers_fired() == 3);
  const auto again = world.Ready();
  REQUIRE(again.size() == 3);
  for (const Task& task : again) {
    CHECK(task.attempt == 2);
    REQUIRE(world.Report(task, "end"));
  }
  world.Leap(50min - 1us);
  CHECK(world.engine().timers_fired() == 3);
  world.Leap(1us);
  CHECK(world.engine().timers_fired() == 50);
  CHECK(world.Ready().size() == 47);
}

TEST_CASE("no two changes have the same time, also while the clock stands, and over a restart") {
  Standing world;
  for (int i = 0; i < 5; ++i) world.Start("m", "a" + std::to_string(i));
  world.Crash();
  for (int i = 0; i < 5; ++i) world.Start("m", "b" + std::to_string(i));
  std::vector<Timestamp> times;
  for (const Event& event : world.published()) {
    if (event.kind == ChangeKind::kStarted) times.push_back(event.time);
  }
  REQUIRE(times.size() == 10);
  CHECK(std::ranges::is_sorted(times, std::less_equal<>()));
  CHECK(times.back() < world.now() + 1ms);
}

TEST_CASE("an alarm that nothing waits for any more is not the next event") {
  Standing world;
  world.Start("m");
  REQUIRE(world.Report(world.ReadyOne(), "ok"));
  CHECK(world.engine().NextEvent() == world.now() + 1h);
  REQUIRE(world.Move("i", "ok"));
  CHECK(world.engine().NextEvent() == kNever);
}

TEST_CASE("a stopped instance goes at the end of its retention, and not before") {
  Standing world;
  for (int i = 0; i < 20; ++i) world.Start("m", "other" + std::to_string(i));
  world.Start("m");
  const Timestamp begin = world.now();
  REQUIRE(world.Move("i", "end"));
  CHECK(world.engine().NextStep() == begin + 3h);
  CHECK(world.engine().NextEvent() == kNever);
  world.Leap(3h - 1s);
  CHECK(world.Get("i"));
  world.Leap(1s);
  CHECK(!world.Get("i"));
  CHECK(world.engine().NextStep() == kNever);
  CHECK(world.Get("other3"));
}

TEST_CASE("what goes by real time goes on while the clock stands") {
  Standing world;
  const Timestamp stands = world.now();
  world.Start("m");
  bool answered = false;
  auto turn = [&](Duration later, auto commands) {
    world.engine().BeginTurn(stands, 1, stands + later);
    commands();
    world.engine().Work();
    for (auto& tell : world.engine().TakeAnswers()) tell();
    Turn done = world.engine().EndTurn();
    REQUIRE(world.store().Write(world.partition(), world.engine().epoch(), *done.batch));
    world.engine().Committed(done.number);
    return done.records();
  };
  size_t handed_out = 0;
  turn(1s, [&] {
    auto one = world.engine().Poll({.filter = {.ns = "ns"}, .worker = "w", .max_tasks = 5},
                                   [&](std::vector<Task> tasks) { handed_out = tasks.size(); });
    REQUIRE(one);
    auto two = world.engine().Poll(
        {.filter = {.ns = "ns"}, .worker = "w", .max_tasks = 5, .until = stands + 3s},
        [&](const std::vector<Task>& tasks) { answered = tasks.empty(); });
    REQUIRE(two);
  });
  CHECK(handed_out == 1);
  CHECK(world.engine().NextChore() == stands + 1s + 300ms);  // the claim's row is to be written
  CHECK(turn(1s + 300ms, [] {}) == 1);
  CHECK(world.engine().NextChore() == stands + 3s);
  CHECK(!answered);
  turn(3s, [] {});
  CHECK(answered);
  CHECK(world.engine().clock() == stands);
}

TEST_CASE("the clock never goes back, also not when the server is started with an earlier time") {
  Standing world;
  const Timestamp begin = world.now();
  world.Leap(5h);
  CHECK(world.engine().clock() == begin + 5h);
  world.Advance(-2h);
  world.Crash();
  CHECK(world.engine().clock() == begin + 5h);
  world.Advance(10h);
  world.Crash();
  CHECK(world.engine().clock() == begin + 13h);
  world.Advance(-13h);
  world.Crash();  // nothing was decided meanwhile
  CHECK(world.engine().clock() == begin + 13h);
}

TEST_CASE("a store belongs to the kind of clock that it was begun under") {
  const auto open = [](Store& store, bool virtual_clock) {
    EngineOptions options;
    options.virtual_clock = virtual_clock;
    options.compile = CompileOne;
    auto opened = Engine::Open(store, std::move(options), Timestamp(1h));
    return opened ? Result<Ok>(Ok{}) : Result<Ok>(opened.error());
  };
  MemoryStore plain;
  CHECK(open(plain, false));
  const auto refused = open(plain, true);
  REQUIRE(!refused);
  CHECK(refused.error().code == Code::kFailedPrecondition);
  CHECK(refused.error().message.find("name a new directory") != std::string::npos);
  CHECK(open(plain, false));

  MemoryStore standing;
  CHECK(open(standing, true));
  const auto other = open(standing, false);
  REQUIRE(!other);
  CHECK(other.error().code == Code::kFailedPrecondition);
  CHECK(other.error().message.find("--virtual-clock TIME") != std::string::npos);
  CHECK(open(standing, true));
}

}  // namespace dfsmr
