// Limits in the engine: instances, nodes and steps, numbers and rates, turns, and crashes.
#include "tests/dsrv/engine/limits_play.h"

namespace dfsmr {
namespace {

TEST_CASE("instances wait for room in the order of priority and starts, over a crash") {
  World world;
  world.Define(Limited("{key: \"env/${params.env}\", max: 1}"));
  const auto start = [&](const std::string& id, int priority, const std::string& env = "a") {
    StartArgs args{.machine = "m", .id = id};
    args.priority = priority;
    args.spec.params = R"({"env":")" + env + R"("})";
    auto started = world.TryStart(std::move(args));
    REQUIRE(started);
    CHECK(started->WaitsForLimits() == (started->view.instance.state != InstanceState::kRunning));
  };
  start("first", 0);
  start("z", 0);
  start("y", 0);
  start("high", 1);
  start("other", 0, "b");
  SUBCASE("") {}
  SUBCASE("crash") { world.Crash(); }
  CHECK(StateOf(world, "other") == "RUNNING");
  CHECK(WaitersOf(world, "env/a") == Ids{"high", "z", "y"});
  CHECK(HoldersOf(world, "env/a") == Ids{"first"});
  Ids order;
  for (std::string last = "first"; !last.empty();) {
    REQUIRE(Cancel(world, last));
    const Ids now = [&] {
      auto view = world.Do([](Engine& e) { return e.limits().Look().Get("ns", "env/a", "", 10); });
      Ids ids;
      for (const LimitHolderView& holder : view.holders) ids.push_back(holder.instance);
      return ids;
    }();
    last = now.empty() ? "" : now.front();
    if (!last.empty()) order.push_back(last);
  }
  CHECK(order == Ids{"high", "z", "y"});
}

TEST_CASE("each word of on_conflict does what it says to an instance without room") {
  World world;
  const auto define = [&](const std::string& word) {
    world.Define(Limited("{key: k, max: 1, on_conflict: " + word + "}"));
    world.Start("m", "a");
  };
  SUBCASE("wait") {
    define("wait");
    world.Start("m", "b");
    CHECK(StateOf(world, "b") == "SCHEDULED");
    CHECK(world.KindsOf("b") == std::vector{ChangeKind::kScheduled});
  }
  SUBCASE("skip") {
    define("skip");
    CHECK(RefusalOf(world, {.machine = "m", .id = "b"}) == "LIMIT_REACHED");
    CHECK_FALSE(world.Get("b"));
    CHECK(StateOf(world, "a") == "RUNNING");
  }
  SUBCASE("skip, of one that was scheduled before") {
    define("skip");
    StartArgs args{.machine = "m", .id = "b"};
    args.hold = true;
    REQUIRE(world.TryStart(args));
    REQUIRE(Resume(world, "b"));
    CHECK(StateOf(world, "b") == "STOPPED CANCELLED");
    CHECK(world.Must("b").error.find("'k'") != std::string::npos);
  }
  SUBCASE("fail") {
    define("fail");
    world.Start("m", "b");
    CHECK(StateOf(world, "b") == "STOPPED ERROR");
  }
  SUBCASE("latest") {
    define("latest");
    world.Start("m", "b");
    CHECK(StateOf(world, "b") == "SCHEDULED");
    world.Start("m", "c");
    CHECK(StateOf(world, "a") == "RUNNING");
    CHECK(StateOf(world, "b") == "STOPPED CANCELLED");
    CHECK(world.Must("b").error == "limit 'k': cancelled in favour of instance 'c'");
    CHECK(StateOf(world, "c") == "SCHEDULED");
    Finish(world, "a");
    CHECK(StateOf(world, "c") == "RUNNING");
  }
  SUBCASE("cancel") {
    define("cancel");
    const Task task = world.ReadyOne();
    world.Start("m", "b");
    CHECK(StateOf(world, "a") == "RUNNING");  // its worker is waited for
    CHECK(StateOf(world, "b") == "SCHEDULED");
    REQUIRE(world.Report(task, "ok"));
    CHECK(StateOf(world, "a") == "STOPPED CANCELLED");
    CHECK(StateOf(world, "b") == "RUNNING");
  }
  SUBCASE("replace") {
    define("replace");
    world.ReadyOne();
    auto started = world.TryStart({.machine = "m", .id = "b"});
    REQUIRE(started);
    CHECK(started->view.instance.state == InstanceState::kRunning);
    CHECK(StateOf(world, "a") == "STOPPED CANCELLED");
  }
  SUBCASE("what the start says wins") {
    define("wait");
    CHECK(RefusalOf(world, {.machine = "m", .id = "b", .on_conflict = OnConflict::kSkip}) ==
          "LIMIT_REACHED");
    REQUIRE(world.TryStart({.machine = "m", .id = "c", .on_conflict = OnConflict::kReplace}));
    CHECK(StateOf(world, "c") == "RUNNING");
    CHECK(StateOf(world, "a") == "STOPPED CANCELLED");
  }
  SUBCASE("force begins past the limit, and counts") {
    define("wait");
    REQUIRE(world.TryStart({.machine = "m", .id = "b", .force = true}));
    CHECK(StateOf(world, "b") == "RUNNING");
    world.Start("m", "c");
    Finish(world, "a");
    CHECK(StateOf(world, "c") == "SCHEDULED");
    CHECK(LimitOf(world, "k").holders.at(0).forced);
    Finish(world, "b");
    CHECK(StateOf(world, "c") == "RUNNING");
  }
}

TEST_CASE("of cancel and replace the newest stay, as many as there is room for") {
  World world;
  world.Define(Limited("{key: k, max: 2, on_conflict: replace}"));
  for (const char* id : {"a", "b", "c", "d"}) world.Start("m", id);
  CHECK(StateOf(world, "a") == "STOPPED CANCELLED");
  CHECK(StateOf(world, "b") == "STOPPED CANCELLED");
  CHECK(HoldersOf(world, "k") == Ids{"c", "d"});
}

TEST_CASE("as many wait as may") {
  World world;
  world.Define(Limited("{key: k, waiting: 1}"));
  world.Start("m", "a");
  world.Start("m", "b");
  const auto refused = world.TryStart({.machine = "m", .id = "c"});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().reason == Reason::kLimitReached);
  // To wait would be refused again.
  CHECK(refused.error().message.find("when there are fewer") != std::string::npos);
  CHECK(refused.error().message.find("on_conflict wait") == std::string::npos);
  Finish(world, "a");
  world.Start("m", "c");
  CHECK(StateOf(world, "c") == "SCHEDULED");
}

TEST_CASE("several keys are taken all or none, and who lacks another one is passed") {
  World world;
  world.Define(Limited("[{key: a, max: 1}, {key: b, max: 1}]", "both") + "---\n" +
               Limited("{key: a, max: 1}", "one") + "---\n" + Limited("{key: b, max: 1}", "two"));
  world.Start("one", "x");
  world.Start("two", "y");
  world.Start("both", "w");
  world.Start("one", "v");
  Finish(world, "x");
  CHECK(StateOf(world, "v") == "RUNNING");
  CHECK(LimitOf(world, "a").waiters.at(0).lacks == Ids{"a", "b"});
  Finish(world, "y");
  CHECK(StateOf(world, "w") == "SCHEDULED");
  Finish(world, "v");
  CHECK(StateOf(world, "w") == "RUNNING");
}

TEST_CASE("the number that counts is the operator's, then the document's, then the asker's") {
  World world;
  world.Define(Limited("{key: env/prod, max: 1}"));
  for (const char* id : {"a", "b", "c", "d", "e"}) world.Start("m", id);
  CHECK(LimitOf(world, "env/prod").standing.max_from == LimitOrigin::kAsker);
  CHECK(HoldersOf(world, "env/prod") == Ids{"a"});
  DefineLimit(world, "limit: env\nmax: 2\nkeys: {env/prod: {max: 3}}\n");
  CHECK(HoldersOf(world, "env/prod") == Ids{"a", "b", "c"});
  Set(world, "env/prod", {.max = 4, .note = "busy", .client = "ann"});
  CHECK(HoldersOf(world, "env/prod").size() == 4);
  Set(world, "env/prod", {.max = 0});
  CHECK(HoldersOf(world, "env/prod").size() == 4);
  world.Crash();
  LimitView view = LimitOf(world, "env/prod");
  CHECK(view.standing.numbers.max == 0);
  CHECK(view.standing.max_from == LimitOrigin::kOverride);
  CHECK(view.standing.document == "env");
  CHECK(view.override.note == "busy");
  Finish(world, "a");
  CHECK(StateOf(world, "e") == "SCHEDULED");
  Set(world, "env/prod", {.reset = true});
  CHECK(LimitOf(world, "env/prod").standing.numbers.max == 3);
  CHECK(StateOf(world, "e") == "SCHEDULED");
  Set(world, "env/prod", {.no_max = true});
  CHECK(StateOf(world, "e") == "RUNNING");
  const Event told = world.Feed().back();
  CHECK(told.kind != ChangeKind::kNone);
  size_t set = 0;
  for (const Event& event : world.Feed()) {
    if (event.kind != ChangeKind::kLimitSet) continue;
    CHECK(event.about->cause == "limit:env/prod");
    ++set;
  }
  CHECK(set == 4);
}

TEST_CASE("nodes hold from the hand-out until they are left, and the others wait") {
  World world;
  world.Define(
      "id: m\nnodes: {n: {start: true, limit: db, timeout: 0.0, transitions: {ok: z}}, "
      "z: {final: true}}\n");
  for (const char* id : {"a", "b", "c"}) world.Start("m", id);
  CHECK(TokenOf(world, "b") == "ready");
  const Task task = world.ReadyOne();
  CHECK(task.instance == "a");
  CHECK(TokenOf(world, "b") == "waiting");
  CHECK(TokenOf(world, "c") == "waiting");
  CHECK(world.Ready().empty());
  CHECK(LimitOf(world, "db").holders.at(0).node == "n");
  CHECK(WaitersOf(world, "db") == Ids{"b", "c"});
  SUBCASE("the next is ready when it is left") {
    REQUIRE(world.Report(task, "ok"));
    CHECK(TokenOf(world, "b") == "ready");
    CHECK(TokenOf(world, "c") == "waiting");
    world.Start("m", "d");  // its place is kept for b
    CHECK(TokenOf(world, "d") == "waiting");
    const auto tasks = world.Ready();
    REQUIRE(tasks.size() == 1);
    CHECK(tasks[0].instance == "b");
  }
  SUBCASE("or after a crash") {
    world.Crash();
    CHECK(WaitersOf(world, "db") == Ids{"b", "c"});
    REQUIRE(world.Report(task, "ok"));
    CHECK(world.ReadyOne().instance == "b");
  }
  SUBCASE("or when it is paused, and then it asks again") {
    REQUIRE(Pause(world, "a"));
    CHECK(world.ReadyOne().instance == "b");
    REQUIRE(Resume(world, "a"));
    CHECK(StateOf(world, "a") == "PAUSED");  // until its turn
    REQUIRE(Cancel(world, "b"));
    CHECK(StateOf(world, "a") == "RUNNING");
    CHECK(HoldersOf(world, "db") == Ids{"a"});
  }
  SUBCASE("or when it is cancelled") {
    REQUIRE(Cancel(world, "b"));
    REQUIRE(Cancel(world, "a"));
    CHECK(world.ReadyOne().instance == "c");
  }
}

TEST_CASE("steps that find no room wait, are skipped, or fail") {
  World world;
  const auto define = [&](const std::string& word) {
    world.Define("action: x\nrescue: fail\nlimit: {key: k, on_conflict: " + word +
                 "}\n---\nplan: p\nflow: [{step: a, action: x}]\n");
    world.Start("p", "a");
    world.Start("p", "b");
    CHECK(world.Ready().size() == 1);
  };
  SUBCASE("wait") {
    define("wait");
    CHECK(TokenOf(world, "b") == "waiting");
    REQUIRE(Cancel(world, "a"));
    CHECK(TokenOf(world, "b") == "ready");
  }
  SUBCASE("skip") {
    define("skip");
    CHECK(StateOf(world, "b") == "STOPPED WARNING");
  }
  SUBCASE("fail") {
    define("fail");
    CHECK(StateOf(world, "b") == "STOPPED ERROR");
  }
}

TEST_CASE("steps of one instance share its keys") {
  World world;
  world.Define(
      "plan: p\nflow: [{for_each: [1, 2, 3], as: i, do: {step: s, action: x, limit: k}}]\n");
  world.Start("p", "a");
  world.Start("p", "b");
  auto tasks = world.Ready();
  CHECK(tasks.size() == 3);
  for (const Task& task : tasks) {
    CHECK(task.instance == tasks[0].instance);
    REQUIRE(world.Report(task, "ok"));
  }
  CHECK(world.Ready().size() == 3);
}

TEST_CASE("a rate lets begin as many as it says, over a restart") {
  World world;
  world.Define(Limited("{key: k, rate: 6/1m, burst: 2}"));
  for (const char* id : {"a", "b", "c", "d"}) world.Start("m", id);
  CHECK(StateOf(world, "b") == "RUNNING");
  CHECK(StateOf(world, "c") == "SCHEDULED");
  world.Elapse(2s);
  world.Crash();
  CHECK(StateOf(world, "c") == "SCHEDULED");
  world.Elapse(7s);
  CHECK(StateOf(world, "c") == "SCHEDULED");
  world.Elapse(2s);
  CHECK(StateOf(world, "c") == "RUNNING");
  CHECK(StateOf(world, "d") == "SCHEDULED");
  world.Elapse(10s);
  CHECK(StateOf(world, "d") == "RUNNING");
}

TEST_CASE("what begins in the turn in which the server stops counts for a rate") {
  World world;
  world.Define(Limited("{key: k, rate: 6/1m, burst: 1}"));
  for (const char* id : {"a", "b", "c"}) world.Start("m", id);
  CHECK(StateOf(world, "b") == "SCHEDULED");
  world.Advance(11s);
  world.Restart();
  CHECK(StateOf(world, "b") == "RUNNING");
  world.Elapse(2s);
  CHECK(StateOf(world, "c") == "SCHEDULED");
}

TEST_CASE("built-in keys limit what has no limit of its own, once they have a number") {
  World world;
  world.Define("id: m\n" + std::string(kNodes));
  std::string key;
  SUBCASE("a machine") { key = "machine:m"; }
  SUBCASE("a namespace") { key = "namespace:ns"; }
  if (!key.empty()) {
    world.Start("m", "a");
    Set(world, key, {.max = 2});
    world.Start("m", "b");
    world.Start("m", "c");
    CHECK(StateOf(world, "b") == "RUNNING");
    CHECK(StateOf(world, "c") == "SCHEDULED");
    CHECK(LimitOf(world, key).held == 2);
    CHECK(WaitersOf(world, key) == Ids{"c"});
    world.Crash();
    CHECK(LimitOf(world, key).held == 2);
    Finish(world, "a");
    CHECK(StateOf(world, "c") == "RUNNING");
  }
  SUBCASE("a queue is stopped, and what is ready there stays so") {
    world.Start("m", "a");
    world.Start("m", "b");
    Set(world, "queue:default", {.max = 1});
    CHECK(world.Ready().size() == 1);
    CHECK(world.Node("m", "n").limited == 1);
    CHECK(TokenOf(world, "b") == "ready");
    Set(world, "queue:default", {.max = 0});
    REQUIRE(Cancel(world, "a"));
    CHECK(world.Ready().empty());
    world.Crash();
    CHECK(world.Ready().empty());
    Set(world, "queue:default", {.reset = true});
    CHECK(world.Ready().size() == 1);
    CHECK(world.Node("m", "n").limited == 0);
  }
  SUBCASE("an action has a rate") {
    for (const char* id : {"a", "b", "c"}) world.Start("m", id);
    DefineLimit(world, "limit: slow\non: {action: m.n}\nrate: 1/10s\n");
    CHECK(world.Ready().size() == 1);
    CHECK(world.Ready().empty());
    world.Elapse(10s);
    CHECK(world.Ready().size() == 1);
  }
  SUBCASE("a group, of its members only") {
    Set(world, "group:g", {.max = 1});
    world.Start("m", "other");
    for (const char* id : {"a", "b"}) {
      StartArgs args{.machine = "m", .id = id};
      args.provenance = Provenance{.group = "g"};
      REQUIRE(world.TryStart(args));
    }
    CHECK(StateOf(world, "a") == "RUNNING");
    CHECK(StateOf(world, "b") == "SCHEDULED");
    Finish(world, "a");
    CHECK(StateOf(world, "b") == "RUNNING");
  }
}

TEST_CASE("who starts may add limits, such as a schedule's overlap") {
  World world;
  world.Define("id: m\n" + std::string(kNodes));
  const auto args = [](const std::string& id, OnConflict word) {
    StartArgs start{.machine = "m", .id = id};
    start.provenance = Provenance{.cause = "schedule:s"};
    start.asks = {{.key = "schedule:s", .on_conflict = word, .waiting = {}}};
    return start;
  };
  REQUIRE(world.TryStart(args("a", OnConflict::kSkip)));
  CHECK(RefusalOf(world, args("b", OnConflict::kSkip)) == "LIMIT_REACHED");
  REQUIRE(world.TryStart(args("c", OnConflict::kLatest)));
  REQUIRE(world.TryStart(args("d", OnConflict::kLatest)));
  CHECK(StateOf(world, "c") == "STOPPED CANCELLED");
  world.Crash();
  Finish(world, "a");
  CHECK(StateOf(world, "d") == "RUNNING");
}

TEST_CASE("resuming asks again for what pausing gave up") {
  World world;
  world.Define(Limited("{key: k, max: 1, on_conflict: wait}") + "---\n" +
               Limited("{key: l, max: 1, on_conflict: skip}", "s"));
  world.Start("m", "a");
  REQUIRE(Pause(world, "a"));
  world.Start("m", "b");
  CHECK(StateOf(world, "b") == "RUNNING");
  REQUIRE(Resume(world, "a"));
  CHECK(StateOf(world, "a") == "PAUSED");
  CHECK(WaitersOf(world, "k") == Ids{"a"});
  SUBCASE("") {}
  SUBCASE("over a crash") { world.Crash(); }
  Finish(world, "b");
  CHECK(StateOf(world, "a") == "RUNNING");
  world.Start("s", "x");
  REQUIRE(Pause(world, "x"));
  world.Start("s", "y");
  auto resumed = Resume(world, "x");
  REQUIRE_FALSE(resumed);
  CHECK(resumed.error().reason == Reason::kLimitReached);
  CHECK(StateOf(world, "x") == "PAUSED");
}

TEST_CASE("a child that waits for its ancestors' places stops with ERROR") {
  World world;
  world.Define(
      "plan: p\nlimit: k\nflow: [{step: s, spawn: {plan: c}}]\n---\n"
      "plan: c\nlimit: k\nflow: [{step: a, action: x}]\n");
  world.Start("p", "i");
  world.Drain();
  CHECK(StateOf(world, "i/s/0") == "STOPPED ERROR");
  CHECK(world.Must("i/s/0").error.find("for ever") != std::string::npos);
}

TEST_CASE("whoever waits says for what and behind whom") {
  World world;
  world.Define(Limited("{key: k, max: 1}"));
  for (const char* id : {"a", "b", "c"}) world.Start("m", id);
  const auto waits = world.Do([](Engine& e) { return e.WaitsOf("ns", "c"); });
  REQUIRE(waits);
  REQUIRE(waits->instance.size() == 1);
  const WaitView& wait = waits->instance[0];
  CHECK(wait.kind == WaitView::Kind::kLimit);
  CHECK(wait.key == "k");
  CHECK(wait.max == 1);
  CHECK(wait.held == 1);
  CHECK(wait.ahead == 1);
  CHECK(wait.holders == Ids{"a"});
}

TEST_CASE("lists of limits begin after a key, and show those that somebody waits for") {
  World world;
  world.Define(Limited("{key: \"env/${params.e}\", max: 1}"));
  const auto start = [&](const std::string& id, const std::string& env) {
    StartArgs args{.machine = "m", .id = id};
    args.spec.params = R"({"e":")" + env + R"("})";
    REQUIRE(world.TryStart(args));
  };
  start("a", "x");
  start("b", "y");
  start("c", "y");
  Set(world, "queue:q", {.max = 3});
  const auto list = [&](LimitQuery query) {
    query.ns = "ns";
    Ids keys;
    for (const LimitView& view : world.Do([&](Engine& e) { return e.limits().Look().List(query); })) {
      keys.push_back(view.key);
    }
    return keys;
  };
  CHECK(list({.limit = 10}) == Ids{"env/x", "env/y", "queue:q"});
  CHECK(list({.after = "env/x", .limit = 1}) == Ids{"env/y"});
  CHECK(list({.prefix = "env/", .limit = 10}) == Ids{"env/x", "env/y"});
  CHECK(list({.waited_for = true, .limit = 10}) == Ids{"env/y"});
  const LimitView none = LimitOf(world, "nowhere");
  CHECK(none.held == 0);
  CHECK(none.standing.max_from == LimitOrigin::kNone);
}

TEST_CASE("holders of built-in keys that rest on disk are named") {
  World world;
  world.Define("id: m\n" + std::string(kNodes));
  const auto start = [&](const std::string& id) {
    StartArgs args{.machine = "m", .id = id};
    args.provenance = Provenance{.group = "g", .cause = "schedule:s"};
    REQUIRE(world.TryStart(args));
  };
  start("a");
  start("b");
  std::string key;
  SUBCASE("a machine's") { key = "machine:m"; }
  SUBCASE("a namespace's") { key = "namespace:ns"; }
  SUBCASE("a group's") { key = "group:g"; }
  SUBCASE("a schedule's") { key = "schedule:s"; }
  world.Crash();
  CHECK(HoldersOf(world, key) == Ids{"a", "b"});
  Set(world, key, {.max = 2});
  CHECK(HoldersOf(world, key) == Ids{"a", "b"});
  world.Crash();
  CHECK(HoldersOf(world, key) == Ids{"a", "b"});
  start("c");
  CHECK(LimitOf(world, key).waiters.size() == 1);
  Finish(world, "a");
  CHECK(HoldersOf(world, key) == Ids{"b", "c"});
}

TEST_CASE("a task that holds a queue is named") {
  World world;
  world.Define("id: m\n" + std::string(kNodes));
  world.Start("m", "a");
  Set(world, "queue:default", {.max = 1});
  const Task task = world.ReadyOne();
  CHECK(HoldersOf(world, "queue:default") == Ids{"a"});
  CHECK(HoldersOf(world, "action:m.n") == Ids{"a"});
  REQUIRE(world.Report(task, "ok"));
  CHECK(HoldersOf(world, "queue:default").empty());
}

TEST_CASE("replace cancels holders that rest on disk and have not asked") {
  World world;
  world.Define("id: m\n" + std::string(kNodes));
  world.Start("m", "a");
  world.Start("m", "b");
  world.Crash();
  Set(world, "machine:m", {.max = 1});
  REQUIRE(world.TryStart({.machine = "m", .id = "c", .on_conflict = OnConflict::kReplace}));
  CHECK(StateOf(world, "a") == "STOPPED CANCELLED");
  CHECK(StateOf(world, "b") == "STOPPED CANCELLED");
  CHECK(StateOf(world, "c") == "RUNNING");
}

TEST_CASE("a child waits for another holder than its ancestors, though that rests on disk") {
  World world;
  world.Define(
      "plan: p\nflow: [{step: a, action: x}, {step: s, after: [a], if: {value: \"${params.deep}\", "
      "equals: true}, spawn: {plan: p}}]\n");
  StartArgs deep{.machine = "p", .id = "i"};
  deep.spec.params = R"({"deep":true})";
  REQUIRE(world.TryStart(deep));
  world.Start("p", "other");
  world.Crash();
  Set(world, "machine:p", {.max = 2});
  for (const Task& task : world.Ready()) {
    if (task.instance == "i") REQUIRE(world.Report(task, "ok"));
  }
  world.Drain();
  CHECK(StateOf(world, "i/s/0") == "SCHEDULED");
  REQUIRE(Cancel(world, "other"));
  CHECK(StateOf(world, "i/s/0") == "RUNNING");
}

TEST_CASE("a rate that is defined again counts what began under the former one") {
  World world;
  world.Define(Limited("{key: mail, max: 100}"));
  DefineLimit(world, "limit: mail\nrate: 1/1h\nburst: 3\n");
  for (const char* id : {"a", "b", "c"}) world.Start("m", id);
  bool soon = true;
  SUBCASE("defined again") { DefineLimit(world, "limit: mail\nrate: 1/10s\nburst: 3\n"); }
  SUBCASE("defined again, and a crash") {
    DefineLimit(world, "limit: mail\nrate: 1/10s\nburst: 3\n");
    world.Elapse(1s);
    world.Crash();
  }
  SUBCASE("none, then another") {
    Set(world, "mail", {.no_rate = true});
    Set(world, "mail", {.rate = Rate{1, 10s, 3}});
  }
  SUBCASE("the same again") {
    DefineLimit(world, "limit: mail\ndescription: x\nrate: 1/1h\nburst: 3\n");
    soon = false;
  }
  world.Start("m", "d");
  CHECK(StateOf(world, "d") == "SCHEDULED");
  world.Elapse(10s);
  CHECK(StateOf(world, "d") == (soon ? "RUNNING" : "SCHEDULED"));
}

TEST_CASE("a key that is filled in does not become a built-in one") {
  World world;
  world.Define(Limited("\"${params.k}\""));
  StartArgs args{.machine = "m", .id = "a"};
  args.spec.params = R"({"k":"queue:default"})";
  (void)world.TryStart(args);
  CHECK(StateOf(world, "a") == "STOPPED ERROR");
  CHECK(world.Must("a").error.find("built-in") != std::string::npos);
}

TEST_CASE("documents that were stored with built-in keys go on after a restart") {
  World world;
  const std::string text =
      "id: m\nlimit: {key: 'machine:m', max: 1}\nnodes: {n: {start: true, timeout: 0.0, limit: "
      "'queue:default', transitions: {ok: z}}, z: {final: true}}\n---\naction: x\nlimit: "
      "'action:x'\n---\nplan: p\nsingleton: 'namespace:ns'\nflow: [{step: s, action: x, limit: "
      "'queue:${params.q}'}]\n";
  REQUIRE(world.Do([&](Engine& e) { return TryDefine(e, ParseStored(text).definitions); }));
  bool numbers = false;
  const auto play = [&] {
    StartArgs args{.machine = "p", .id = "i"};
    args.spec.params = R"({"q":"default"})";
    REQUIRE(world.TryStart(args));
    world.Start("m", "a");
    world.Start("m", "b");
    CHECK(StateOf(world, "b") == "SCHEDULED");
    // With a number for the namespace the plan has its only place.
    CHECK(HoldersOf(world, "machine:m") == (numbers ? Ids{} : Ids{"a"}));
  };
  SUBCASE("before it") { play(); }
  SUBCASE("after it") {}
  SUBCASE("with numbers") {
    numbers = true;
    for (const char* key : {"machine:m", "queue:default", "action:x", "namespace:ns"}) {
      Set(world, key, {.max = 1});
    }
  }
  REQUIRE(world.TryCrash());
  if (!world.Get("i")) play();
  if (numbers) CHECK(world.Ready().size() == 1);
  for (const char* key : {"machine:m", "queue:default", "action:x", "namespace:ns"}) {
    if (numbers) Set(world, key, {.reset = true});
  }
  world.Crash();
  for (int i = 0; i < 10; ++i) {
    for (const Task& task : world.Ready()) REQUIRE(world.Report(task, "ok"));
  }
  for (const char* id : {"a", "b", "i"}) CHECK(StateOf(world, id) == "STOPPED SUCCESS");
}

TEST_CASE("what waits for a place waits on when a claim that a crash lost is given back") {
  World world;
  world.Define(
      "id: m\nnodes: {n: {start: true, limit: {key: k, max: 1}, transitions: {ok: z}}, z: {final: "
      "true}}\n");
  world.Start("m", "a");
  const std::vector<Task> lost = world.Ready();
  REQUIRE(lost.size() == 1);
  world.Crash();  // before the claim was written
  REQUIRE(world.TryStart({.machine = "m", .id = "b", .priority = 1}));
  const std::vector<Task> other = world.Ready();
  REQUIRE(other.size() == 1);
  REQUIRE(other[0].instance == "b");
  REQUIRE(world.Must("a").tokens.front().WaitsForLimits());
  GiveBackArgs args;
  SUBCASE("") {}
  SUBCASE("refused") { args.refused = true; }
  REQUIRE(world.Do([&](Engine& e) { return e.Relinquish("ns", "a", lost[0].claim, args); }));
  CHECK(world.Must("a").tokens.front().WaitsForLimits());
  REQUIRE(world.Report(other[0], "ok"));
  const std::vector<Task> next = world.Ready();
  REQUIRE(next.size() == 1);
  CHECK(next[0].instance == "a");
}

TEST_CASE("nobody gives way to one whose work is done already when it is resumed") {
  World world;
  world.Define(Limited("{key: k, max: 1, on_conflict: cancel}"));
  world.Start("m", "a");
  const Task task = world.ReadyOne();
  world.Start("m", "b");  // so that `a` is to be cancelled, whose worker reports all the same
  REQUIRE(world.Report(task, "ok"));
  world.Drain();
  CHECK(StateOf(world, "a") == "STOPPED CANCELLED");
  CHECK(StateOf(world, "b") == "RUNNING");
  SUBCASE("") {}
  SUBCASE("over a crash") { world.Crash(); }
  REQUIRE(Resume(world, "a"));
  world.Drain();
  CHECK(StateOf(world, "a") == "STOPPED SUCCESS");
  CHECK(StateOf(world, "b") == "RUNNING");
  CHECK(HoldersOf(world, "k") == Ids{"b"});
}

TEST_CASE("resuming asks for what a step held by the step's word") {
  World world;
  std::string word;
  SUBCASE("wait") { word = "wait"; }
  SUBCASE("skip") { word = "skip"; }
  SUBCASE("fail") { word = "fail"; }
  CAPTURE(word);
  world.Define("plan: p\nflow: [{step: a, action: x, limit: {key: k, on_conflict: " + word +
               "}}]\n---\n" + Limited("k"));
  world.Start("p", "i");
  REQUIRE(world.ReadyOne().instance == "i");
  REQUIRE(Pause(world, "i"));
  world.Start("m", "other");
  REQUIRE(StateOf(world, "other") == "RUNNING");
  const auto resumed = Resume(world, "i");
  CHECK(resumed.has_value() == (word == "wait"));
  if (!resumed) CHECK(resumed.error().reason == Reason::kLimitReached);
  CHECK(StateOf(world, "i") == "PAUSED");
}

TEST_CASE("a singleton stays one whatever its start says") {
  World world;
  world.Define("plan: m\nsingleton: k\nflow: [{step: a, action: x}]\n");
  world.Start("m", "a");
  CHECK(RefusalOf(world, {.machine = "m", .id = "b", .on_conflict = OnConflict::kSkip}) ==
        "LIMIT_REACHED");
  auto refused = world.TryStart({.machine = "m", .id = "b", .on_conflict = OnConflict::kSkip});
  CHECK(refused.error().message.find("singleton 'k' is held by instance 'a'") != std::string::npos);
  REQUIRE(world.TryStart({.machine = "m", .id = "c", .on_conflict = OnConflict::kWait}));
  Finish(world, "a");
  REQUIRE(Pause(world, "c"));
  world.Start("m", "d");
  const auto resumed = Resume(world, "c");
  REQUIRE_FALSE(resumed);
  CHECK(resumed.error().reason == Reason::kIllegalTransition);
}

}  // namespace
}  // namespace dfsmr
