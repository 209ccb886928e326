// Limits with many that hold, wait or are to give way: what is done in portions, over crashes.
#include "dsrv/engine/groups.h"
#include "tests/dsrv/engine/limits_play.h"

namespace dfsmr {
namespace {

// Plan p, whose step s starts another p when params.deep is set, once its step a is done.
constexpr std::string_view kDeep =
    "flow: [{step: a, action: x}, {step: s, after: [a], if: {value: \"${params.deep}\", equals: "
    "true}, spawn: {plan: p}}]\n";

void StartDeep(World& world) {
  StartArgs deep{.machine = "p", .id = "i"};
  deep.spec.params = R"({"deep":true})";
  REQUIRE(world.TryStart(deep));
}
void Spawn(World& world) {
  for (const Task& task : world.Ready()) {
    if (task.instance == "i") REQUIRE(world.Report(task, "ok"));
  }
  world.Drain();
}
void StartMany(World& world, int count, const std::string& machine = "m") {
  world.Decide([&](Engine& e) {
    for (int i = 0; i < count; ++i) {
      StartArgs args{.ns = "ns", .machine = machine, .id = "w" + std::to_string(i)};
      REQUIRE(e.Start(args));
    }
  });
  world.Commit();
}

TEST_CASE("a child stops once its ancestors alone hold a key that is counted") {
  World world;
  world.Define("plan: p\n" + std::string(kDeep));
  StartDeep(world);
  world.Start("p", "other");
  Set(world, "machine:p", {.max = 1});
  Spawn(world);
  CHECK(StateOf(world, "i/s/0") == "SCHEDULED");
  SUBCASE("") {}
  SUBCASE("over a crash") { world.Crash(); }
  REQUIRE(Cancel(world, "other"));
  world.Drain();
  CHECK(StateOf(world, "i/s/0") == "STOPPED ERROR");
}

TEST_CASE("a child stops once its ancestors alone hold a key under another number") {
  World world;
  world.Define("plan: p\nlimit: {key: k, max: 2}\n" + std::string(kDeep) + "---\n" +
               Limited("{key: k, max: 2}"));
  StartDeep(world);
  Set(world, "k", {.max = 0});
  Spawn(world);
  CHECK(StateOf(world, "i/s/0") == "SCHEDULED");
  Set(world, "k", {.max = 1});
  world.Drain();
  CHECK(StateOf(world, "i/s/0") == "STOPPED ERROR");
}

TEST_CASE("a child stops behind a thousand others that wait") {
  World world;
  world.Define("plan: p\nlimit: k\n" + std::string(kDeep) + "---\n" + Limited("k"));
  Set(world, "k", {.max = 2});
  StartDeep(world);
  world.Start("m", "other");
  StartMany(world, 1'001);
  Set(world, "k", {.max = 1});
  Spawn(world);
  CHECK(StateOf(world, "i/s/0") == "SCHEDULED");
  REQUIRE(Cancel(world, "other"));
  world.Drain();
  CHECK(StateOf(world, "i/s/0") == "STOPPED ERROR");
  CHECK(StateOf(world, "w1000") == "SCHEDULED");
}

TEST_CASE("a hundred steps of one instance share its key once it has it") {
  World world;
  std::string items = "1";
  for (int i = 2; i <= 100; ++i) items += ", " + std::to_string(i);
  world.Define("plan: p\nflow: [{for_each: [" + items +
               "], as: i, do: {step: s, action: x, limit: [k, \"own/${instance.id}\"]}}]\n---\n" +
               Limited("k"));
  world.Start("m", "first");
  world.Start("p", "a");
  CHECK(world.Ready().size() == 1);  // the task of the first
  CHECK(LimitOf(world, "k").waiting == 100);
  SUBCASE("") {}
  SUBCASE("over a crash") { world.Crash(); }
  REQUIRE(Cancel(world, "first"));
  world.Drain();
  CHECK(world.Ready().size() == 100);
  CHECK(LimitOf(world, "k").waiting == 0);
}

TEST_CASE("members of a paused group are not called when there is room") {
  World world;
  world.Define(Limited("k"));
  const auto member = [](const std::string& id) {
    StartArgs args{.machine = "m", .id = id};
    args.provenance = Provenance{.group = "g"};
    return args;
  };
  const auto control = [&](rows::GroupOrder::Action action) {
    REQUIRE(world.Do([&](Engine& e) { return e.groups().Control("ns", "g", {.action = action}); }));
  };
  REQUIRE(world.TryStart(member("a")));
  for (const char* id : {"b", "c"}) REQUIRE(world.TryStart(member(id)));
  world.Start("m", "outside");
  control(rows::GroupOrder::Action::kPause);
  SUBCASE("") {}
  SUBCASE("over a crash") { world.Crash(); }
  REQUIRE(Cancel(world, "a"));
  CHECK(StateOf(world, "outside") == "RUNNING");
  REQUIRE(Cancel(world, "outside"));
  CHECK_FALSE(world.Must("b").waits.Has(Wait::kGroup));  // its row is as it was
  CHECK(StateOf(world, "b") == "SCHEDULED");
  control(rows::GroupOrder::Action::kResume);
  world.Drain();
  CHECK(StateOf(world, "b") == "RUNNING");
  CHECK(StateOf(world, "c") == "SCHEDULED");
}

TEST_CASE("of a closed queue those are counted that are ready") {
  World world;
  world.Define("id: m\n" + std::string(kNodes));
  for (const char* id : {"a", "b"}) world.Start("m", id);
  Set(world, "queue:default", {.max = 0});
  CHECK(LimitOf(world, "queue:default").waiting == 2);
  REQUIRE(Cancel(world, "a"));
  CHECK(LimitOf(world, "queue:default").waiting == 1);
}

TEST_CASE("starts of one report take the places of each other") {
  World world;
  world.Define(Limited("{key: k, on_conflict: skip}") + "---\nid: r\n" + std::string(kNodes));
  world.Start("r", "reporter");
  const Task task = world.ReadyOne();
  const auto report = [&](const std::vector<std::string>& ids) {
    std::vector<StartArgs> starts;
    for (const std::string& id : ids) starts.push_back({.ns = "ns", .machine = "m", .id = id});
    return world.Do([&](Engine& e) {
      return e.Report("ns", "reporter", {.transition = "ok", .claim = task.claim}, {}, starts);
    });
  };
  const auto refused = report({"a", "b"});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().reason == Reason::kLimitReached);
  CHECK(refused.error().message.find("starts[1]") != std::string::npos);
  CHECK_FALSE(world.Get("a"));
  REQUIRE(report({"a"}));
  CHECK(StateOf(world, "a") == "RUNNING");
}

TEST_CASE("a poll turns away some, and the next passes the others") {
  World world;
  world.Define(
      "id: m\nnodes: {n: {start: true, limit: db, timeout: 0.0, transitions: {ok: z}}, "
      "z: {final: true}}\n");
  StartMany(world, 5'000);
  world.Drain();
  CHECK(world.Ready().size() == 1);
  const uint64_t waiting = LimitOf(world, "db").waiting;
  CHECK(waiting > 0);
  CHECK(waiting < 4'999);
  world.Drain();
  CHECK(LimitOf(world, "db").waiting == 4'999);
}

TEST_CASE("thousands give way in portions, over a crash") {
  World world;
  world.Define(Limited("k"));
  StartMany(world, 4'000);
  REQUIRE(world.TryStart({.machine = "m", .id = "newest", .on_conflict = OnConflict::kCancel}));
  CHECK(StateOf(world, "w3999") == "SCHEDULED");
  world.Crash();
  world.Drain();
  for (int i = 0; i < 4'000; i += 3) {
    REQUIRE(StateOf(world, "w" + std::to_string(i)) == "STOPPED CANCELLED");
  }
  CHECK(StateOf(world, "newest") == "RUNNING");
}

TEST_CASE("of thousands that hold a key or wait for it the newest stay") {
  World world;
  world.Define(Limited("{key: k, max: 1500}"));
  StartMany(world, 3'000);
  REQUIRE(world.TryStart({.machine = "m", .id = "newest", .on_conflict = OnConflict::kReplace}));
  world.Start("m", "later");  // it is none of the concern of the one before
  SUBCASE("") {}
  SUBCASE("crash") { world.Crash(); }
  world.Drain();
  size_t cancelled = 0;
  for (int i = 0; i < 3'000; ++i) {
    const bool gone = StateOf(world, "w" + std::to_string(i)) == "STOPPED CANCELLED";
    cancelled += gone ? 1 : 0;
    REQUIRE(gone == (i < 1'501));
  }
  CHECK(cancelled == 1'501);
  CHECK(StateOf(world, "newest") == "RUNNING");
  CHECK(StateOf(world, "later") == "SCHEDULED");
  CHECK(LimitOf(world, "k").held == 1'500);
}

TEST_CASE("a document gives its numbers to thousands of keys in portions") {
  World world;
  world.Define(Limited("\"env/${instance.id}\"") + "---\n" + Limited("\"env/${params.of}\"", "n"));
  StartMany(world, 1'500);
  world.Decide([&](Engine& e) {
    for (int i = 0; i < 1'500; ++i) {
      StartArgs args{.ns = "ns", .machine = "n", .id = "x" + std::to_string(i)};
      args.spec.params = R"({"of":"w)" + std::to_string(i) + "\"}";
      REQUIRE(e.Start(args));
    }
  });
  world.Commit();
  CHECK(StateOf(world, "x1499") == "SCHEDULED");
  DefineLimit(world, "limit: env\nmax: 2\n");
  world.Drain();
  for (int i = 0; i < 1'500; ++i) REQUIRE(StateOf(world, "x" + std::to_string(i)) == "RUNNING");
}

TEST_CASE("lists have keys of documents and of holders in one order") {
  World world;
  world.Define(Limited("\"env/${instance.id}\""));
  for (const char* id : {"b", "d"}) world.Start("m", id);
  DefineLimit(world, "limit: env\nmax: 2\nkeys: {env/a: {max: 1}, env/c: {max: 1}}\n");
  DefineLimit(world, "limit: env-2\nmax: 2\n");
  Ids keys;
  LimitQuery query{.ns = "ns", .limit = 2};
  while (true) {
    const auto page = world.Do([&](Engine& e) { return e.limits().Look().List(query); });
    for (const LimitView& view : page) keys.push_back(view.key);
    if (page.size() < 2) break;
    query.after = keys.back();
  }
  CHECK(keys == Ids{"env", "env-2", "env/a", "env/b", "env/c", "env/d"});
}

}  // namespace
}  // namespace dfsmr
