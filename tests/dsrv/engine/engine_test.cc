// The engine as its callers see it: starts, claims, reports, polls and timers, on a store in memory
// and a clock that is a number.
#include "dsrv/engine/engine.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "storage/rows/instance.h"
#include "tests/dsrv/engine/answers.h"
#include "tests/dsrv/engine/world.h"

namespace dfsmr {
namespace {

constexpr std::string_view kTwoSteps = R"(
id: m
defaults: {timeout_strategy: fixed, timeout: 10.0}
nodes:
  a: {start: true, transitions: {ok: b, again: a}}
  b: {transitions: {ok: done, back: a}}
  done: {final: true}
)";

constexpr std::string_view kOnce = R"(
id: once
nodes:
  a: {start: true, timeout: 0.0, transitions: {ok: done}}
  done: {final: true}
)";

constexpr std::string_view kDelayed = R"(
id: delayed
nodes:
  wait: {start: true, delay: 30s, transitions: {ok: done}}
  done: {final: true}
)";

using Kinds = std::vector<ChangeKind>;

TEST_CASE("starting the same instance again answers the one that exists") {
  World world;
  world.Define(kTwoSteps);
  StartArgs args{.machine = "m", .id = "i", .spec = {.params = R"({"a": 1, "b": 2})"}};
  auto first = world.TryStart(args);
  REQUIRE(first);
  CHECK(first->created);
  args.spec.params = R"({"b":2,"a":1})";
  args.spec.labels = {{"l", "other"}};
  args.priority = 7;
  SUBCASE("at once") {}
  SUBCASE("after a crash") { world.Crash(); }
  SUBCASE("after it has stopped") {
    REQUIRE(world.Move("i", "ok"));
    REQUIRE(world.Move("i", "ok"));
  }
  auto again = world.TryStart(args);
  REQUIRE(again);
  CHECK_FALSE(again->created);
  CHECK(again->view.spec->params == R"({"a": 1, "b": 2})");
  CHECK(again->view.instance.priority == 0);
  args.spec.params = R"({"a":1})";
  CHECK(ReasonOf(world.TryStart(args)) == "INSTANCE_EXISTS");
}

TEST_CASE("empty params and an empty object are the same") {
  World world;
  world.Define(kTwoSteps);
  REQUIRE(world.TryStart({.machine = "m", .id = "i"})->created);
  auto again = world.TryStart({.machine = "m", .id = "i", .spec = {.params = "{}"}});
  REQUIRE(again);
  CHECK_FALSE(again->created);
}

TEST_CASE("a start without id gets one that sorts by time and differs") {
  World world;
  world.Define(kTwoSteps);
  std::vector<std::string> ids;
  for (int i = 0; i < 50; ++i) {
    ids.push_back(world.TryStart({.machine = "m"})->view.instance.id);
    world.Advance(1ms);
  }
  CHECK(std::ranges::is_sorted(ids));
  CHECK(std::ranges::adjacent_find(ids) == ids.end());
}

TEST_CASE("a refused start leaves nothing behind") {
  World world;
  world.Define(kTwoSteps);
  const uint64_t seq = world.engine().last_seq();
  CHECK(ReasonOf(world.TryStart({.machine = "none", .id = "i"})) == "NO_SUCH_MACHINE");
  CHECK(ReasonOf(world.TryStart({.machine = "m", .version = 2, .id = "i"})) == "NO_SUCH_MACHINE");
  CHECK(ReasonOf(world.TryStart({.machine = "m", .id = "i", .start_before = world.now()})) ==
        "BAD_REQUEST");
  CHECK(ReasonOf(world.TryStart({.machine = "m", .id = "i", .start_at = world.now() + 2s,
                                 .start_before = world.now() + 1s})) == "BAD_REQUEST");
  CHECK(world.engine().last_seq() == seq);
  CHECK(ReasonOf(world.Get("i")) == "NO_SUCH_INSTANCE");
}

TEST_CASE("an instance walks to its end, and its history says how") {
  World world;
  world.Define(kTwoSteps);
  world.Start("m");
  CHECK(world.Report(world.ReadyOne(), "ok")->nodes == std::vector<std::string>{"b"});
  auto last = world.Report(world.ReadyOne(), "ok");
  CHECK(last->state == InstanceState::kStopped);
  CHECK(last->result == InstanceResult::kSuccess);
  using enum ChangeKind;
  CHECK(world.KindsOf("i") ==
        Kinds{kStarted, kClaimed, kTransitioned, kClaimed, kTransitioned, kFinished});
  CHECK(world.Ready().empty());
}

// Lazily written claims ---------------------------------------------------------------------------

TEST_CASE("a claim is in the feed within options.lazy") {
  World world;
  world.Define(kTwoSteps);
  auto claims = [&] {
    return std::ranges::count(world.Feed(), ChangeKind::kClaimed, &Event::kind);
  };
  SUBCASE("of an instance that rested") {
    world.Start("m");
    world.ReadyOne();
    CHECK(claims() == 0);
    world.Elapse(300ms);
    CHECK(claims() == 1);
  }
  SUBCASE("of an instance that was started in the same turn") {
    std::vector<Task> tasks;
    world.Decide([&](Engine& e) {
      REQUIRE(e.Start({.ns = "ns", .machine = "m", .id = "i"}));
      REQUIRE(e.Poll({.filter = {.ns = "ns"}, .worker = "w"},
                     [&](std::vector<Task> given) { tasks = std::move(given); }));
    });
    CHECK(tasks.empty());  // nothing is told before it is durable
    world.Commit();
    CHECK(tasks.size() == 1);
    world.Elapse(300ms);
    CHECK(claims() == 1);
  }
  SUBCASE("also when something else wrote the instance meanwhile") {
    world.Start("m");
    world.ReadyOne();
    REQUIRE(world.Do([](Engine& e) { return e.Cancel("ns", "i", CancelMode::kCancel); }));
    world.Elapse(300ms);
    CHECK(claims() == 1);
  }
  SUBCASE("also when it was paused in the turn of the claim") {
    world.Start("m");
    world.Decide([&](Engine& e) {
      REQUIRE(e.Pause("ns", "i"));
      REQUIRE(e.Resume("ns", "i", "", false));
      REQUIRE(e.Poll({.filter = {.ns = "ns"}, .worker = "w"}, [](std::vector<Task>) {}));
    });
    world.Commit();
    world.Elapse(300ms);
    CHECK(claims() == 1);
  }
}

TEST_CASE("what the row of an instance says of claims, its history says too") {
  World world;
  world.Define(kTwoSteps);
  world.Start("m");
  world.Decide([](Engine& e) {
    REQUIRE(e.Poll({.filter = {.ns = "ns"}, .worker = "w"}, [](std::vector<Task>) {}));
  });
  world.Decide([](Engine& e) { REQUIRE(e.Cancel("ns", "i", CancelMode::kCancel)); });
  world.Commit();
  world.Crash();
  const auto row = rows::GetInstance({world.store(), 0}, {"ns", "i"},
                                     world.engine().reader().registry.resolve());
  REQUIRE(row);
  const auto told = std::ranges::count(world.HistoryOf(*row), ChangeKind::kClaimed, &Event::kind);
  CHECK(static_cast<size_t>(told) == row->tokens.front().claims.size());
}

TEST_CASE("a claim that a crash lost may still report, and the history has no gap in its path") {
  World world;
  world.Define(kTwoSteps);
  world.Start("m");
  const Task task = world.ReadyOne();
  world.Crash();
  auto answer = world.Report(task, "ok");
  REQUIRE(answer);
  CHECK_FALSE(answer->repeated);
  CHECK(world.Report(task, "ok")->repeated);
  CHECK(world.NodeOf("i") == "b");
}

TEST_CASE("a claim that a crash lost is void once an operator has given all back") {
  World world;
  world.Define(kTwoSteps);
  world.Start("m");
  const Task task = world.ReadyOne();
  world.Crash();
  REQUIRE(world.Do([](Engine& e) { return e.Relinquish("ns", "i", "", {.client = "operator"}); }));
  SUBCASE("") {}
  SUBCASE("over a crash") { world.Crash(); }
  CHECK(ReasonOf(world.Report(task, "ok")) == "STALE_CLAIM");
  CHECK(world.Report(world.ReadyOne(), "ok"));
}

TEST_CASE("after a crash a task whose claim was lost is handed out again, and the first wins") {
  World world;
  world.Define(kTwoSteps);
  world.Start("m");
  const Task lost = world.ReadyOne();
  world.Crash();
  const Task again = world.ReadyOne();
  CHECK(again.visit == lost.visit);
  CHECK(again.claim != lost.claim);
  REQUIRE(world.Report(lost, "ok"));
  CHECK(ReasonOf(world.Report(again, "ok")) == "STALE_CLAIM");
}

// At most once ------------------------------------------------------------------------------------

TEST_CASE("an at-most-once task is told only when its claim is durable") {
  World world;
  world.Define(kOnce);
  world.Start("once");
  std::vector<Task> tasks;
  auto poll = [&](Engine& e) {
    REQUIRE(e.Poll({.filter = {.ns = "ns"}, .worker = "w"},
                   [&](std::vector<Task> given) { tasks = std::move(given); }));
  };
  world.Decide(poll);
  CHECK(tasks.empty());
  SUBCASE("a crash before the write takes it back") {
    world.Crash();
    CHECK(world.Ready().size() == 1);
  }
  SUBCASE("a crash between the write and the answer leaves it claimed") {
    REQUIRE(world.Write());
    world.Crash();
    world.Elapse(24h);
    CHECK(world.Ready().empty());
    CHECK(world.Must("i").tokens.front().state == TokenState::kClaimed);
    REQUIRE(world.Do([](Engine& e) { return e.Resume("ns", "i", "a", true); }));
    CHECK(world.Ready().size() == 1);
  }
  SUBCASE("once written, its worker has it, and over a crash nobody else gets it") {
    world.Commit();
    REQUIRE(tasks.size() == 1);
    world.Crash();
    world.Elapse(24h);
    CHECK(world.Ready().empty());
    REQUIRE(world.Report(tasks.front(), "ok"));
  }
  SUBCASE("its worker may give it back") {
    world.Commit();
    REQUIRE(tasks.size() == 1);
    world.Crash();
    REQUIRE(world.Relinquish(tasks.front()));
    CHECK(world.Ready().size() == 1);
  }
}

// Repeated reports --------------------------------------------------------------------------------

TEST_CASE("a report repeated gets the answer that it got then") {
  World world;
  world.Define(kTwoSteps);
  world.Start("m");
  const Task task = world.ReadyOne();
  const auto first = world.Report(task, "ok");
  REQUIRE(first);
  int transitions = 1;
  SUBCASE("at once") {}
  SUBCASE("after a crash") { world.Crash(); }
  SUBCASE("after later transitions") {
    REQUIRE(world.Report(world.ReadyOne(), "back"));
    REQUIRE(world.Move("i", "ok"));
    transitions = 3;
  }
  SUBCASE("after later transitions and a crash") {
    REQUIRE(world.Report(world.ReadyOne(), "back"));
    world.Crash();
    transitions = 2;
  }
  SUBCASE("after a hundred of them, a stop and a restart") {
    for (int i = 0; i < 50; ++i) {
      REQUIRE(world.Move("i", "back"));
      REQUIRE(world.Move("i", "ok"));
    }
    REQUIRE(world.Move("i", "ok"));
    world.Restart();
    transitions = 102;
  }
  auto again = world.Report(task, "ok");
  REQUIRE_MESSAGE(again, (again ? "" : again.error().message));
  CHECK(again->repeated);
  CHECK(again->nodes == first->nodes);
  CHECK(again->visit == first->visit);
  CHECK(again->state == first->state);
  CHECK(again->result == first->result);
  CHECK(ReasonOf(world.Report(task, "again")) == "STALE_CLAIM");
  CHECK(std::ranges::count(world.KindsOf("i"), ChangeKind::kTransitioned) == transitions);
}

TEST_CASE("a report is repeated by its claim and transition, whatever else it holds now") {
  World world;
  world.Define(kTwoSteps);
  world.Start("m");
  const Task task = world.ReadyOne();
  const Error fault{Code::kInvalidArgument, Reason::kBadParams, "output is not JSON"};
  const auto report = [&] {
    return world.Do([&](Engine& e) {
      return e.Report("ns", "i", {.transition = "ok", .claim = task.claim, .fault = fault});
    });
  };
  CHECK(ReasonOf(report()) == "BAD_PARAMS");
  CHECK(world.NodeOf("i") == "a");
  const auto first = world.Report(task, "ok");
  REQUIRE(first);
  SUBCASE("") {}
  SUBCASE("after another") { REQUIRE(world.Move("i", "back")); }
  const auto again = report();
  REQUIRE(again);
  CHECK(again->repeated);
  CHECK(again->visit == first->visit);
}

TEST_CASE("a report repeated while a full page of the history is being written gets its answer") {
  World world;
  world.Define(kTwoSteps);
  // So that the page fills at any of the next few records.
  for (int before = 0; before < 34; ++before) {
    CAPTURE(before);
    const std::string id = "i" + std::to_string(before);
    world.Start("m", id);
    for (int i = 0; i < before; ++i) REQUIRE(world.Move(id, "again"));
    const Task task = world.ReadyOne();
    REQUIRE(world.Report(task, "again"));
    const Task next = world.ReadyOne();
    world.Decide([&](Engine& e) {
      REQUIRE(e.Report("ns", id, {.transition = "again", .claim = next.claim}));
    });
    std::optional<Result<Answer>> again;
    world.Decide([&](Engine& e) {  // the turn before is not written yet
      again = e.Report("ns", id, {.transition = "again", .claim = task.claim});
    });
    world.Commit();
    CHECK(again->has_value());
    REQUIRE(world.Do([&](Engine& e) { return e.Cancel("ns", id, CancelMode::kForce); }));
  }
}

// Timers ------------------------------------------------------------------------------------------

TEST_CASE("a deadline frees the node, and the first report wins") {
  World world;
  world.Define(kTwoSteps);
  world.Start("m");
  const Task slow = world.ReadyOne();
  world.Elapse(10s);
  const Task retry = world.ReadyOne();
  CHECK(retry.visit == slow.visit);
  CHECK(retry.attempt == 2);
  SUBCASE("the late one") {
    REQUIRE(world.Report(slow, "ok"));
    CHECK(ReasonOf(world.Report(retry, "ok")) == "STALE_CLAIM");
  }
  SUBCASE("the retry") {
    REQUIRE(world.Report(retry, "ok"));
    CHECK(ReasonOf(world.Report(slow, "ok")) == "STALE_CLAIM");
  }
  CHECK(world.Node("m", "a").timed_out == 1);
  CHECK(world.Node("m", "a").completed == 1);
}

TEST_CASE("timers run on after a restart") {
  World world;
  world.Define(kTwoSteps);
  world.Define(kDelayed);
  SUBCASE("the deadline of a claim that was written") {
    world.Start("m");
    world.ReadyOne();
    world.Elapse(1s);
    world.Crash();
    world.Elapse(8s);
    CHECK(world.Ready().empty());
    world.Elapse(1s);
    CHECK(world.ReadyOne().attempt == 2);
  }
  SUBCASE("a delay") {
    world.Start("delayed");
    world.Crash();
    world.Elapse(29s);
    CHECK(world.NodeOf("i") == "wait");
    world.Elapse(1s);
    CHECK(world.NodeOf("i") == "done");
  }
  SUBCASE("a delay that ended while the server was down") {
    world.Start("delayed");
    world.Advance(1h);
    world.Crash();
    world.Drain();
    CHECK(world.NodeOf("i") == "done");
  }
  SUBCASE("a start to come") {
    REQUIRE(world.TryStart({.machine = "m", .id = "i", .start_at = world.now() + 1min}));
    world.Crash();
    world.Elapse(59s);
    CHECK(world.Must("i").state == InstanceState::kScheduled);
    CHECK(world.Ready().empty());
    world.Elapse(1s);
    CHECK(world.Ready().size() == 1);
  }
  SUBCASE("a start that comes too late") {
    REQUIRE(world.TryStart({.machine = "m", .id = "i", .start_at = world.now() + 1min,
                            .start_before = world.now() + 2min}));
    world.Advance(3min);
    world.Crash();
    world.Drain();
    CHECK(world.Must("i").result == InstanceResult::kError);
  }
}

TEST_CASE("extending a claim moves its deadline, never to an earlier time") {
  World world;
  world.Define(kTwoSteps);
  world.Start("m");
  const Task task = world.ReadyOne();
  auto extend = [&](std::optional<Duration> by) {
    return world.Do(
        [&](Engine& e) { return e.Extend("ns", "i", task.claim, by, {.progress = 0.5}); });
  };
  CHECK(extend(1s).deadline == task.deadline);
  CHECK(extend(60s).deadline - world.now() - 60s < World::kSlack);
  world.Elapse(59s);
  CHECK(world.Ready().empty());
  SUBCASE("it times out then") {
    world.Elapse(1s);
    CHECK(world.Ready().size() == 1);
  }
  SUBCASE("the extension survives a restart") {
    world.Crash();
    CHECK(world.Ready().empty());
    world.Elapse(1s);
    CHECK(world.Ready().size() == 1);
  }
  SUBCASE("once timed out it comes back to life") {
    world.Elapse(1s);
    CHECK(extend(10s).error == std::nullopt);
    CHECK(world.Ready().empty());
    world.Elapse(10s);
    CHECK(world.Ready().size() == 1);
  }
}

TEST_CASE("a clock that is set back delays what is due, and loses nothing") {
  World world;
  world.Define(kDelayed);
  world.Start("delayed");
  world.Advance(-1h);
  world.Decide();
  world.Elapse(30s);
  CHECK(world.NodeOf("i") == "wait");
  world.Elapse(1h);
  CHECK(world.NodeOf("i") == "done");
}

// Polls -------------------------------------------------------------------------------------------

struct Polled {
  WaiterId id = 0;
  int answers = 0;
  std::vector<Task> tasks;
};

void Park(World& world, Polled* polled, Duration wait, int32_t max = 1) {
  auto id = world.Do([&](Engine& e) {
    return e.Poll({.filter = {.ns = "ns"}, .worker = "w", .max_tasks = max,
                   .until = world.now() + wait},
                  [polled](std::vector<Task> tasks) {
                    ++polled->answers;
                    polled->tasks = std::move(tasks);
                  });
  });
  REQUIRE(id);
  polled->id = *id;
}

TEST_CASE("a poll waits for work, or is answered empty when its wait is over") {
  World world;
  world.Define(kTwoSteps);
  Polled first, second;
  Park(world, &first, 10s);
  Park(world, &second, 10s);
  world.Start("m");
  CHECK(first.tasks.size() == 1);
  CHECK(second.answers == 0);
  world.Elapse(10s);  // the claim of the first times out in the same turn
  CHECK(second.answers == 1);
  CHECK(first.answers == 1);
}

TEST_CASE("a poll that is cancelled swallows nothing") {
  World world;
  world.Define(kTwoSteps);
  Polled polled;
  Park(world, &polled, 10s);
  CHECK(world.Do([&](Engine& e) { return e.CancelPoll(polled.id); }));
  CHECK_FALSE(world.Do([&](Engine& e) { return e.CancelPoll(polled.id); }));
  world.Start("m");
  CHECK(polled.answers == 0);
  CHECK(world.Ready().size() == 1);
}

TEST_CASE("a task that did not reach its worker goes back as if it had never been claimed") {
  World world;
  world.Define(kTwoSteps);
  world.Define(kOnce);
  std::string machine;
  SUBCASE("at least once") { machine = "m"; }
  SUBCASE("at most once") { machine = "once"; }
  CAPTURE(machine);
  world.Start(machine, "first");
  world.Advance(1ms);
  world.Start(machine, "second");
  const Task task = world.ReadyOne();
  CHECK(task.instance == "first");
  world.Decide([&](Engine& e) { e.Undelivered({task}, /*perhaps=*/false); });
  world.Commit();
  const Task again = world.ReadyOne();
  CHECK(again.instance == "first");  // in its old place
  CHECK(again.visit == task.visit);
  if (machine == "m") {
    CHECK(again.attempt == 1);
    CHECK(std::ranges::count(world.KindsOf("first"), ChangeKind::kRelinquished) == 0);
  }
  CHECK(ReasonOf(world.Report(task, "ok")) == "STALE_CLAIM");
  CHECK(world.Report(again, "ok"));
}

TEST_CASE("a task that may have reached its worker stays claimed where it runs at most once") {
  World world;
  world.Define(kTwoSteps);
  world.Define(kOnce);
  world.Start("m", "again");
  world.Start("once", "once");
  const auto tasks = world.Ready();
  REQUIRE(tasks.size() == 2);
  world.Decide([&](Engine& e) { e.Undelivered(tasks, /*perhaps=*/true); });
  world.Commit();
  CHECK(world.ReadyOne().instance == "again");
  CHECK(world.Ready().empty());
  for (const Task& task : tasks) {
    if (task.instance == "once") CHECK(world.Report(task, "ok"));
  }
}

TEST_CASE("a task that did not reach its worker is not written down as claimed") {
  World world;
  world.Define(kTwoSteps);
  std::vector<Task> tasks;
  world.Decide([&](Engine& e) {
    REQUIRE(e.Start({.ns = "ns", .machine = "m", .id = "i"}));
    REQUIRE(e.Poll({.filter = {.ns = "ns"}, .worker = "w"},
                   [&](std::vector<Task> given) { tasks = std::move(given); }));
  });
  world.Commit();
  REQUIRE(tasks.size() == 1);
  world.Decide([&](Engine& e) { e.Undelivered(tasks, /*perhaps=*/false); });
  world.Commit();
  world.Elapse(1s);
  world.Crash();
  CHECK(world.Ready().size() == 1);  // not only after a timeout that nobody waits for
}

TEST_CASE("a retry that waits in line twice is handed out once") {
  World world;
  world.Define(kTwoSteps);
  world.Start("m");
  for (int i = 0; i < 3; ++i) {
    REQUIRE(world.Do([](Engine& e) { return e.Pause("ns", "i"); }));
    REQUIRE(world.Do([](Engine& e) { return e.Resume("ns", "i", "", false); }));
  }
  CHECK(world.Ready().size() == 1);
}

// Control -----------------------------------------------------------------------------------------

TEST_CASE("a paused instance is not handed out until it is resumed, over a crash too") {
  World world;
  world.Define(kTwoSteps);
  world.Start("m");
  REQUIRE(world.Do([](Engine& e) { return e.Pause("ns", "i"); }));
  CHECK(world.Ready().empty());
  world.Crash();
  CHECK(world.Ready().empty());
  CHECK(world.Machine("m").stats.paused == 1);
  REQUIRE(world.Do([](Engine& e) { return e.Resume("ns", "i", "", false); }));
  CHECK(world.Ready().size() == 1);
}

TEST_CASE("a cancel waits for claimed work and outlives a crash") {
  World world;
  world.Define(kTwoSteps);
  world.Start("m");
  const Task task = world.ReadyOne();
  REQUIRE(world.Do([](Engine& e) { return e.Cancel("ns", "i", CancelMode::kCancel); }));
  CHECK(world.Must("i").state == InstanceState::kRunning);
  world.Crash();
  REQUIRE(world.Report(task, "ok"));
  CHECK(world.Must("i").result == InstanceResult::kCancelled);
}

TEST_CASE("a cancel that was acknowledged holds over pause, resume and restarts") {
  World world;
  world.Define(kTwoSteps);
  world.Define("plan: p\nflow: [{step: a, action: x}, {step: b, action: x, after: [a]}]\n");
  std::string machine;
  SUBCASE("of a machine") { machine = "m"; }
  SUBCASE("of a plan") { machine = "p"; }
  const std::vector<std::function<void()>> between = {
      [&] { REQUIRE(world.Do([](Engine& e) { return e.Pause("ns", "i"); })); },
      [&] { (void)world.Do([](Engine& e) { return e.Resume("ns", "i", "", false); }); }};
  world.Start(machine);
  const Task task = world.ReadyOne();
  REQUIRE(world.Do([](Engine& e) { return e.Cancel("ns", "i", CancelMode::kCancel); }));
  for (const auto& call : between) {
    call();
    world.Crash();
    CHECK(world.Ready().empty());
  }
  REQUIRE(world.Report(task, "ok"));
  CHECK(world.Ready().empty());
  CHECK(world.Must("i").result == InstanceResult::kCancelled);
}

// Priorities --------------------------------------------------------------------------------------

constexpr std::string_view kExtremes = R"(
id: low
nodes: {a: {start: true, priority: -2147483648, transitions: {ok: z}}, z: {final: true}}
---
id: mid
nodes: {a: {start: true, transitions: {ok: z}}, z: {final: true}}
---
id: high
nodes: {a: {start: true, priority: 2147483647, transitions: {ok: z}}, z: {final: true}}
)";

TEST_CASE("the priorities of node and instance add up, whatever their sum, over a restart") {
  World world;
  world.Define(kExtremes);
  struct Row {
    const char* id;
    const char* machine;
    int32_t priority;
  };
  // The lowest sum is the oldest.
  const std::vector<Row> rows = {{"1", "low", INT32_MIN}, {"2", "low", -1},
                                 {"3", "low", 0},         {"4", "mid", INT32_MIN + 1},
                                 {"5", "mid", -1},        {"6", "mid", 0},
                                 {"7", "mid", 1},         {"8", "high", -1},
                                 {"9", "high", 0},        {"a", "high", 1},
                                 {"b", "high", INT32_MAX}};
  std::string order;
  for (const Row& row : rows) {
    auto started = world.TryStart({.machine = row.machine, .id = row.id, .priority = row.priority});
    REQUIRE(started);
    order.insert(0, row.id);
    world.Elapse(1ms);
  }
  SUBCASE("") {}
  SUBCASE("of what rests in the store") { world.Restart(); }
  SUBCASE("after a crash") { world.Crash(); }
  std::string handed_out;
  for (const Task& task : world.Ready()) handed_out += task.instance;
  CHECK(handed_out == order);
}

// Followers ---------------------------------------------------------------------------------------

TEST_CASE("an instance starts after others, in the commit that ends the last of them") {
  World world;
  world.Define(kTwoSteps);
  world.Start("m", "one");
  world.Start("m", "two");
  REQUIRE(world.TryStart({.machine = "m", .id = "i", .after = {{"one"}, {"two", true}}}));
  CHECK(world.Must("i").state == InstanceState::kScheduled);
  REQUIRE(world.Do([](Engine& e) { return e.Cancel("ns", "two", CancelMode::kForce); }));
  world.Crash();
  REQUIRE(world.Move("one", "ok"));
  CHECK(world.Must("i").state == InstanceState::kScheduled);
  REQUIRE(world.Move("one", "ok"));
  CHECK(world.Must("i").state == InstanceState::kRunning);
}

TEST_CASE("a prerequisite named twice is waited for once") {
  World world;
  world.Define(kTwoSteps);
  world.Start("m", "one");
  REQUIRE(world.TryStart({.machine = "m", .id = "i", .after = {{"one", true}, {"one", true}}}));
  REQUIRE(world.Do([](Engine& e) { return e.Cancel("ns", "one", CancelMode::kForce); }));
  CHECK(world.Must("i").state == InstanceState::kRunning);
}

TEST_CASE("a long chain of instances that start after one another ends in bounded steps") {
  World world;
  world.Define(kTwoSteps);
  constexpr int kLength = 50'000;
  world.Start("m", "0");
  for (int i = 1; i < kLength;) {
    world.Decide([&](Engine& e) {
      for (int n = 0; n < 1'000 && i < kLength; ++n, ++i) {
        REQUIRE(e.Start({.ns = "ns", .machine = "m", .id = std::to_string(i),
                         .after = {{std::to_string(i - 1)}}}));
      }
    });
    world.Commit();
  }
  REQUIRE(world.Do([](Engine& e) { return e.Cancel("ns", "0", CancelMode::kForce); }));
  world.Drain(100'000);
  CHECK(world.Must(std::to_string(kLength - 1)).result == InstanceResult::kError);
}

}  // namespace
}  // namespace dfsmr
