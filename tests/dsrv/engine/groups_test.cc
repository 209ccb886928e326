// Groups: what their members add up to, whatever crashes; what they hold back; and orders to all
// members.
#include "dsrv/engine/groups.h"

#include <doctest/doctest.h>

#include <set>

#include "tests/dsrv/engine/world.h"

namespace dfsmr {
namespace {

using Action = rows::GroupOrder::Action;
using Kind = MemberShare::Kind;

constexpr std::string_view kJob = R"(
id: job
nodes:
  work: {start: true, transitions: {ok: done, warn: hm, bad: failed}}
  done: {final: true}
  hm: {final: true, result: warning}
  failed: {final: true, result: error}
)";
constexpr std::string_view kGroupPlan = R"(
plan: steps
flow: [{step: one, action: one}]
)";

StartArgs Member(const std::string& id, const std::string& group = "g",
                 const std::string& machine = "job") {
  StartArgs args;
  args.ns = "ns";
  args.machine = machine;
  args.id = id;
  args.provenance = Provenance{.group = group};
  return args;
}

void StartMembers(World& world, int from, int to, const std::string& group = "g") {
  world.Decide([&](Engine& e) {
    for (int i = from; i < to; ++i) REQUIRE(e.Start(Member("i" + std::to_string(i), group)));
  });
  world.Commit();
}

Result<GroupView> TryGet(World& world, const std::string& group = "g") {
  return world.Do([&](Engine& e) { return e.groups().Get("ns", group); });
}
GroupView Get(World& world, const std::string& group = "g") {
  auto view = TryGet(world, group);
  REQUIRE_MESSAGE(view, (view ? "" : view.error().message));
  return *view;
}
InstanceState StateOf(const GroupView& view) { return view.row.counts.State(view.to_come); }
InstanceResult ResultOf(const GroupView& view) { return view.row.counts.Result(view.to_come); }

void Control(World& world, Action action, bool members = false, const std::string& group = "g") {
  auto outcome = world.Do([&](Engine& e) {
    return e.groups().Control("ns", group, {.action = action, .members = members, .note = "why"});
  });
  REQUIRE_MESSAGE(outcome, (outcome ? "" : outcome.error().message));
}
void StopOnFail(World& world, uint32_t failures, const std::string& group = "g") {
  REQUIRE(
      world.Do([&](Engine& e) { return e.groups().Set("ns", group, {.stop_on_fail = failures}); }));
}

// What the members in the store add up to, found the slow way.
GroupCounts Naive(World& world, const std::string& group = "g") {
  REQUIRE(world.Do([](Engine& e) { return e.Settle("ns", ""); }));
  GroupCounts counts;
  for (bool stopped : {false, true}) {
    REQUIRE(rows::ScanInstances({world.store(), world.partition()}, stopped, {"ns", ""},
                                world.engine().reader().registry.resolve(), [&](Instance one) {
                                  const bool is = one.provenance && one.provenance->group == group;
                                  if (is) counts.Add(ShareOf(one));
                                  return true;
                                }));
  }
  return counts;
}

// The engine and the store agree, and so does an engine that starts on the same store.
void CheckCounts(World& world, const std::string& group = "g") {
  const GroupCounts naive = Naive(world, group);
  const GroupView before = Get(world, group);
  CHECK(before.row.counts == naive);
  world.Crash();
  const GroupView after = Get(world, group);
  CHECK(after.row.counts == naive);
  CHECK(after.row.paused == before.row.paused);
  CHECK(after.row.note == before.row.note);
  CHECK(after.row.failures == before.row.failures);
  CHECK(after.row.end_time == before.row.end_time);
  CHECK(after.row.create_time == before.row.create_time);
}

// GROUP_FINISHED comes when nothing of the group is left to stop, and always then.
size_t CheckFinished(World& world, const std::string& group = "g") {
  std::set<std::string> live;
  size_t finished = 0;
  bool due = false;
  for (const Event& event : world.published()) {
    if (event.kind == ChangeKind::kGroupFinished && event.about->group == group) {
      CHECK(event.about->cause == "group:" + group);
      CHECK(live.empty());
      CHECK(due);
      due = false;
      ++finished;
    }
    if (event.instance.empty() || !event.about || event.about->group != group) continue;
    if (event.kind == ChangeKind::kScheduled || event.kind == ChangeKind::kStarted) {
      live.insert(event.instance);
    }
    if (event.kind == ChangeKind::kFinished) {
      live.erase(event.instance);
      due = true;
    }
  }
  CHECK((!due || !live.empty()));
  return finished;
}

void End(World& world, const std::string& id, const std::string& transition = "ok") {
  auto moved = world.Move(id, transition);
  REQUIRE_MESSAGE(moved, (moved ? "" : moved.error().message));
}

TEST_CASE("the first member makes the group, and its numbers are those of its members") {
  World world;
  world.Define(kJob);
  CHECK(TryGet(world).error().reason == Reason::kNoSuchGroup);
  StartMembers(world, 0, 5);
  StartArgs held = Member("held");
  held.hold = true;
  REQUIRE(world.TryStart(held));
  REQUIRE(world.TryStart({.machine = "job", .id = "stranger"}));
  REQUIRE(world.TryStart(Member("other", "h")));
  REQUIRE(world.Do([](Engine& e) { return e.Pause("ns", "i4"); }));
  End(world, "i0", "warn");
  End(world, "i1", "bad");

  const GroupView view = Get(world);
  CHECK(view.row.counts.Of(Kind::kScheduled) == 1);
  CHECK(view.row.counts.Of(Kind::kRunning) == 2);
  CHECK(view.row.counts.Of(Kind::kPaused) == 1);
  CHECK(view.row.counts.Of(Kind::kWarning) == 1);
  CHECK(view.row.counts.Of(Kind::kError) == 1);
  CHECK(view.row.counts.Total() == 6);
  CHECK(view.row.counts.Failed() == 1);
  CHECK(StateOf(view) == InstanceState::kRunning);
  CHECK(ResultOf(view) == InstanceResult::kPending);
  CHECK(view.row.counts.Progress(0) == doctest::Approx(2.0 / 6));
  CHECK(world.Must("i0").provenance->group == "g");
  CheckCounts(world);
  CheckCounts(world, "h");
}

TEST_CASE("a group counts the progress of its members as their workers tell it") {
  World world;
  world.Define(kJob);
  StartMembers(world, 0, 2);
  const Task task = world.ReadyOne();
  world.Decide([&](Engine& e) {
    e.Extend("ns", task.instance, task.claim, std::nullopt, {.progress = 0.5});
  });
  world.Commit();
  CHECK(Get(world).row.counts.Progress(0) == doctest::Approx(0.25));
  CheckCounts(world);
}

TEST_CASE("a group finishes with its last member, in the same commit, and again each time") {
  World world;
  world.Define(kJob);
  StartMembers(world, 0, 2);
  End(world, "i0");
  CHECK(CheckFinished(world) == 0);
  const uint64_t before = world.engine().last_seq();
  world.Decide([](Engine& e) { REQUIRE(e.Report("ns", "i1", {.transition = "ok"})); });
  world.Commit();
  const auto feed = world.Feed(before + 1);
  REQUIRE(feed.size() == 3);
  CHECK(feed[1].kind == ChangeKind::kFinished);
  CHECK(feed[2].kind == ChangeKind::kGroupFinished);
  CHECK(feed[2].note == "SUCCESS");
  CHECK(feed[2].instance.empty());
  CHECK(StateOf(Get(world)) == InstanceState::kStopped);
  CHECK(ResultOf(Get(world)) == InstanceResult::kSuccess);
  CHECK(Get(world).row.end_time == world.Must("i1").end_time);

  StartMembers(world, 2, 4);
  CHECK(StateOf(Get(world)) == InstanceState::kRunning);
  End(world, "i2", "warn");
  REQUIRE(world.Do([](Engine& e) { return e.Cancel("ns", "i3", CancelMode::kCancel); }));
  CHECK(CheckFinished(world) == 2);
  CHECK(ResultOf(Get(world)) == InstanceResult::kCancelled);
  CHECK(world.published().back().note == "CANCELLED");
  CheckCounts(world);
}

TEST_CASE("a member that is started as another one stops keeps its group from finishing") {
  World world;
  world.Define(kJob);
  StartMembers(world, 0, 1);
  world.Decide([](Engine& e) {
    REQUIRE(e.Report("ns", "i0", {.transition = "ok"}));
    REQUIRE(e.Start(Member("i1")));
  });
  world.Commit();
  End(world, "i1");
  std::vector<size_t> finished;
  for (const Event& event : world.published()) {
    if (event.kind == ChangeKind::kGroupFinished) finished.push_back(event.seq);
  }
  REQUIRE(finished.size() == 1);
  CHECK(finished.front() == world.engine().last_seq());
}

TEST_CASE("the state of a group is that of its members") {
  World world;
  world.Define(kJob);
  REQUIRE(world.Do([](Engine& e) { return e.groups().Set("ns", "g", {.stop_on_fail = 0}); }));
  CHECK(StateOf(Get(world)) == InstanceState::kNone);
  for (const char* id : {"a", "b"}) {
    StartArgs held = Member(id);
    held.hold = true;
    REQUIRE(world.TryStart(held));
  }
  CHECK(StateOf(Get(world)) == InstanceState::kScheduled);
  REQUIRE(world.Do([](Engine& e) { return e.Resume("ns", "a", "", false); }));
  CHECK(StateOf(Get(world)) == InstanceState::kRunning);
  REQUIRE(world.Do([](Engine& e) { return e.Pause("ns", "a"); }));
  CHECK(StateOf(Get(world)) == InstanceState::kRunning);  // b may begin
  REQUIRE(world.Do([](Engine& e) { return e.Cancel("ns", "b", CancelMode::kCancel); }));
  CHECK(StateOf(Get(world)) == InstanceState::kPaused);
  CheckCounts(world);
}

TEST_CASE("in a paused group none begins that waits, and those that run go on") {
  World world;
  world.Define(kJob);
  StartMembers(world, 0, 1);
  StartArgs later = Member("later");
  later.start_at = world.now() + 10s;
  REQUIRE(world.TryStart(later));
  StartArgs after = Member("after");
  after.after = {{.instance = "i0", .any_result = true}};
  REQUIRE(world.TryStart(after));
  StartArgs held = Member("held");
  held.hold = true;
  REQUIRE(world.TryStart(held));
  Control(world, Action::kPause);
  CHECK(Get(world).row.note == "why");
  StartMembers(world, 1, 2);
  CHECK(world.Must("i1").state == InstanceState::kScheduled);
  End(world, "i0");
  REQUIRE(world.Do([](Engine& e) { return e.Resume("ns", "held", "", false); }));
  SUBCASE("") { world.Crash(); }
  SUBCASE("without a crash") {}
  world.Elapse(20s);
  for (const char* id : {"i1", "later", "after", "held"}) {
    CAPTURE(id);
    CHECK(world.Must(id).state == InstanceState::kScheduled);
    CHECK(world.Must(id).waits.Has(Wait::kGroup));
  }
  CheckCounts(world);
  CHECK(world.Ready().empty());
  Control(world, Action::kResume);
  CHECK(world.Ready().size() == 4);  // in the same commit
  for (const char* id : {"i1", "later", "after", "held"}) End(world, id);
  CheckFinished(world);
}

TEST_CASE("those that a paused group held back begin by priority, then in the order of start") {
  World world;
  world.Define(kJob);
  REQUIRE(world.Do([](Engine& e) { return e.groups().Set("ns", "g", {}); }));
  Control(world, Action::kPause);
  for (const char* id : {"c", "b", "a"}) REQUIRE(world.TryStart(Member(id)));
  StartArgs urgent = Member("z");
  urgent.priority = 5;
  REQUIRE(world.TryStart(urgent));
  const uint64_t before = world.engine().last_seq();
  Control(world, Action::kResume);
  std::vector<std::string> begun;
  for (const Event& event : world.Feed(before + 1)) begun.push_back(event.instance);
  CHECK(begun == std::vector<std::string>{"z", "c", "b", "a"});
}

TEST_CASE("members of groups that open at once begin though the server crashes meanwhile") {
  World world;
  world.Define(kJob);
  for (const std::string group : {"g", "h"}) {
    REQUIRE(world.TryStart(Member(group + "1", group)));
    Control(world, Action::kPause, false, group);
    REQUIRE(world.TryStart(Member(group + "2", group)));
  }
  world.Decide([](Engine& e) {
    for (const char* group : {"g", "h"}) {
      REQUIRE(e.groups().Control("ns", group, {.action = Action::kResume}));
    }
  });
  world.Commit();
  world.Crash();
  world.Drain();
  for (const char* id : {"g2", "h2"}) CHECK(world.Must(id).state == InstanceState::kRunning);
}

TEST_CASE("the Nth failure pauses the group in the same commit, and resuming counts anew") {
  World world;
  world.Define(kJob);
  StopOnFail(world, 2);
  StartMembers(world, 0, 4);
  StartArgs next = Member("next");
  next.after = {{.instance = "i1", .any_result = true}};
  REQUIRE(world.TryStart(next));
  End(world, "i0", "bad");
  CHECK_FALSE(Get(world).row.paused);
  CheckCounts(world);
  End(world, "i1", "bad");
  CHECK(Get(world).row.paused);
  CHECK(Get(world).row.note.find("2 members failed, the last 'i1', which ended with ERROR") == 0);
  CHECK(world.Must("next").state == InstanceState::kScheduled);
  CHECK(world.Must("i2").state == InstanceState::kRunning);
  CheckCounts(world);
  Control(world, Action::kResume);
  CHECK(world.Must("next").state == InstanceState::kRunning);
  CHECK(Get(world).row.counts.Failed() == 2);
  End(world, "i2", "bad");
  CHECK_FALSE(Get(world).row.paused);
  End(world, "i3", "bad");
  CHECK(Get(world).row.paused);
  StopOnFail(world, 0);
  Control(world, Action::kResume);
  End(world, "next", "bad");
  CHECK_FALSE(Get(world).row.paused);
  CHECK(ResultOf(Get(world)) == InstanceResult::kError);
}

TEST_CASE("members that pause because steps failed have failed, until they go on") {
  World world;
  world.Define(kGroupPlan);
  StopOnFail(world, 1);
  REQUIRE(world.TryStart(Member("p", "g", "steps")));
  REQUIRE(world.Report(world.ReadyOne(), "error"));
  CHECK(world.Must("p").state == InstanceState::kPaused);
  CHECK(Get(world).row.counts.Failed() == 1);
  CHECK(Get(world).row.paused);
  CheckCounts(world);
  Control(world, Action::kResume, /*members=*/true);
  world.Drain();
  CHECK(world.Must("p").state == InstanceState::kRunning);
  CHECK(Get(world).row.counts.Failed() == 0);
  CheckCounts(world);
}

TEST_CASE("children of a member are no members") {
  World world;
  world.Define(kJob);
  world.Define("plan: tree\nflow: [{step: kids, spawn: {machine: job, for_each: [1, 2], as: n}}]");
  REQUIRE(world.TryStart(Member("t", "g", "tree")));
  CHECK(world.Ready().size() == 2);
  CHECK(Get(world).row.counts.Total() == 1);
  CheckCounts(world);
}

TEST_CASE("a group lasts as long as a member can be read") {
  World world({.retention = 1h});
  world.Define(kJob);
  StopOnFail(world, 3);
  StartMembers(world, 0, 2);
  End(world, "i0", "bad");
  world.Elapse(30min);
  End(world, "i1");
  world.Elapse(40min);
  CHECK(Get(world).row.counts.Total() == 1);
  CHECK(ResultOf(Get(world)) == InstanceResult::kSuccess);
  CheckCounts(world);
  world.Elapse(40min);
  CHECK(TryGet(world).error().reason == Reason::kNoSuchGroup);
  for (const char kind : {'\x24', '\x25', '\x26'}) CHECK(world.RowsOf(kind).empty());
  StartMembers(world, 5, 6);
  CHECK(Get(world).row.stop_on_fail == 0);  // another group of that name
  CheckCounts(world);
}

TEST_CASE("an order to cancel reaches all members, and those that come meanwhile") {
  World world;
  world.Define(kJob);
  StartMembers(world, 0, 600);
  End(world, "i7");
  StartArgs held = Member("x-held");
  held.hold = true;
  held.priority = -3;
  REQUIRE(world.TryStart(held));
  Control(world, Action::kCancel);
  world.Decide([](Engine& e) { REQUIRE(e.Start(Member("a-late"))); });
  world.Commit();
  CHECK(world.Must("a-late").waits.Has(Wait::kGroup));
  world.Drain();
  const GroupView view = Get(world);
  CHECK(StateOf(view) == InstanceState::kStopped);
  CHECK(view.row.counts.Of(Kind::kCancelled) == 601);
  CHECK(view.row.counts.Of(Kind::kSuccess) == 1);
  CHECK(view.row.order == rows::GroupOrder());
  CHECK(CheckFinished(world) == 1);
  CheckCounts(world);
  StartMembers(world, 700, 701);
  CHECK(world.Must("i700").state == InstanceState::kRunning);
}

TEST_CASE("members follow an order some at a time, and no order twice over a crash") {
  World world;
  world.Define(kJob);
  StartMembers(world, 0, 600);
  Control(world, Action::kPause, /*members=*/true);
  size_t turns = 0;
  for (uint64_t paused = 0; paused < 600; ++turns) {
    world.Decide();
    world.Commit();
    const uint64_t now = Get(world).row.counts.Of(Kind::kPaused);
    CHECK(now - paused <= 500);
    if (paused == 0 && now > 0) {  // an operator has one go on, and a crash changes nothing of it
      REQUIRE(world.Do([](Engine& e) { return e.Resume("ns", "i0", "", false); }));
      world.Crash();
    }
    paused = now + (now > 0 ? 1 : 0);
    REQUIRE(turns < 100);
  }
  CHECK(turns >= 2);
  world.Drain();
  CHECK(world.Must("i0").state == InstanceState::kRunning);
  CHECK(Get(world).row.counts.Of(Kind::kPaused) == 599);
  CheckCounts(world);
  Control(world, Action::kResume, /*members=*/true);
  world.Drain();
  CHECK(Get(world).row.counts.Of(Kind::kRunning) == 600);
  CheckCounts(world);
}

TEST_CASE("an order to cancel outweighs an earlier pause, and a later one") {
  World world;
  world.Define(kJob);
  StartMembers(world, 0, 300);
  Control(world, Action::kPause, true);
  world.Decide();
  world.Commit();
  Control(world, Action::kCancel);
  CHECK_FALSE(Get(world).row.paused);
  Control(world, Action::kPause, true);
  world.Drain();
  CHECK(Get(world).row.counts.Of(Kind::kCancelled) == 300);
  CHECK(Get(world).row.paused);
}

TEST_CASE("claimed work of a member is waited for by cancel, and not by force") {
  World world;
  world.Define(kJob);
  StartMembers(world, 0, 1);
  const Task task = world.ReadyOne();
  Control(world, Action::kCancel);
  world.Drain();
  CHECK(world.Must("i0").state == InstanceState::kRunning);
  CHECK(world.Must("i0").cancel == CancelMode::kCancel);
  Control(world, Action::kKill);
  world.Drain();
  CHECK(world.Must("i0").result == InstanceResult::kCancelled);
  CHECK(world.Must("i0").cancel == CancelMode::kKill);
}

// The times of a backfill: it makes what is left of its list, and keeps nothing durable, so that a
// test says after a crash what is to come.
class Times : public MemberSource {
 public:
  Times(World& world, uint64_t count) : world_(world), left(count) {}

  uint64_t MakeNext(const std::string& ns, const std::string& group) override {
    StartArgs args = Member("t" + std::to_string(left), group);
    args.ns = ns;
    if (left % 10 != 9) REQUIRE(world_.engine().Start(std::move(args)));  // it was there already
    return --left;
  }
  void DropRest(const std::string&, const std::string&) override { left = 0; }

 private:
  World& world_;

 public:
  uint64_t left;
};

TEST_CASE("members to come are made as there is room, and the group ends with the last of them") {
  World world;
  world.Define(kJob);
  Times times(world, 29);
  world.Decide([&](Engine& e) {
    e.groups().SetSource(&times);
    REQUIRE(e.groups().Set("ns", "g", {.schedule = "nightly"}));
    e.groups().SetToCome("ns", "g", times.left);
    const auto view = e.groups().Get("ns", "g");
    CHECK(view->row.counts.Total() + view->to_come == 29);
    CHECK(StateOf(*view) == InstanceState::kRunning);
  });
  world.Commit();
  CHECK(times.left == 0);  // no limit: all of them at once
  CHECK(Get(world).row.counts.Of(Kind::kRunning) == 26);
  CheckCounts(world);
  for (const Task& task : world.Ready()) REQUIRE(world.Report(task, "ok"));
  CHECK(CheckFinished(world) == 1);
}

TEST_CASE("of members to come no more are made than may run, each in the commit of a free place") {
  World world;
  world.Define(kJob);
  Times times(world, 8);
  world.Decide([&](Engine& e) {
    e.groups().SetSource(&times);
    REQUIRE(e.groups().Set("ns", "g", {.max_running = 2, .schedule = "nightly"}));
    e.groups().SetToCome("ns", "g", times.left);
  });
  world.Commit();
  CHECK(times.left == 6);
  const Task task = world.ReadyOne();
  const uint64_t before = world.engine().last_seq();
  world.Decide([&](Engine& e) {
    REQUIRE(e.Report("ns", task.instance, {.transition = "bad", .claim = task.claim}));
    CHECK(times.left == 6);
  });
  CHECK(times.left == 5);
  world.Commit();
  CHECK(world.Feed(before + 1).back().kind == ChangeKind::kStarted);
  REQUIRE(world.Do([](Engine& e) { return e.Pause("ns", "t7"); }));  // a paused one holds no place
  CHECK(times.left == 4);
  REQUIRE(world.Do([](Engine& e) { return e.groups().Set("ns", "g", {.max_running = 3}); }));
  CHECK(times.left == 3);
  StopOnFail(world, 1);  // one has failed already
  CHECK(Get(world).row.paused);
  for (const Task& one : world.Ready()) REQUIRE(world.Report(one, "ok"));
  CHECK(times.left == 3);
  Control(world, Action::kResume);
  CHECK(times.left == 0);
  CheckCounts(world);
}

TEST_CASE("a paused group makes no members, and a cancelled one never") {
  World world;
  world.Define(kJob);
  Times times(world, 5);
  REQUIRE(world.Do([&](Engine& e) {
    e.groups().SetSource(&times);
    return e.groups().Set("ns", "g", {.schedule = "nightly"});
  }));
  REQUIRE(world.TryStart(Member("first")));
  Control(world, Action::kPause);
  world.Decide([&](Engine& e) { e.groups().SetToCome("ns", "g", times.left); });
  world.Commit();
  world.Drain();
  CHECK(times.left == 5);
  End(world, "first");
  CHECK(CheckFinished(world, "none") == 0);
  CHECK(StateOf(Get(world)) == InstanceState::kRunning);
  CHECK(world.published().back().kind == ChangeKind::kFinished);
  Control(world, Action::kCancel);
  CHECK(times.left == 0);
  CHECK(StateOf(Get(world)) == InstanceState::kStopped);
  CHECK(world.published().back().kind == ChangeKind::kGroupFinished);
}

TEST_CASE("a list of groups is in the order of their names, in pages, by state and schedule") {
  World world;
  world.Define(kJob);
  for (const char* group : {"c", "a", "b"}) {
    REQUIRE(world.TryStart(Member(std::string("of-") + group, group)));
  }
  REQUIRE(world.Do([](Engine& e) { return e.groups().Set("ns", "d", {.schedule = "s"}); }));
  End(world, "of-b");
  const auto names = [&](InstanceState state, const std::string& schedule, const std::string& after,
                         size_t limit) {
    std::string all;
    for (const GroupView& view :
         world.engine().groups().List("ns", state, schedule, after, limit)) {
      all += view.name;
    }
    return all;
  };
  CHECK(names(InstanceState::kNone, "", "", 10) == "abcd");
  CHECK(names(InstanceState::kNone, "", "a", 2) == "bc");
  CHECK(names(InstanceState::kRunning, "", "", 10) == "ac");
  CHECK(names(InstanceState::kStopped, "", "", 10) == "b");
  CHECK(names(InstanceState::kNone, "s", "", 10) == "d");
}

// A run of a group's life, in turns that are numbered; a crash loses the turn of its number, which
// is asked again.
TEST_CASE("a crash at every commit changes nothing of what a group counts and does") {
  for (int crash = 0; crash < 24; ++crash) {
    CAPTURE(crash);
    World world;
    world.Define(kJob);
    int turn = 0;
    const auto ask = [&](const std::function<void(Engine&)>& commands) {
      world.Decide(commands);
      if (turn++ == crash) {
        world.Crash();
        world.Decide(commands);
      }
      world.Commit();
      CheckCounts(world);
    };
    ask([](Engine& e) { REQUIRE(e.groups().Set("ns", "g", {.stop_on_fail = 2})); });
    for (int i = 0; i < 4; ++i) {
      ask([&](Engine& e) { REQUIRE(e.Start(Member("i" + std::to_string(i)))); });
    }
    for (int i = 0; i < 2; ++i) {
      ask([&](Engine& e) {
        REQUIRE(e.Report("ns", "i" + std::to_string(i), {.transition = "bad"}));
      });
    }
    CHECK(Get(world).row.paused);
    ask([](Engine& e) { REQUIRE(e.Start(Member("waits"))); });
    ask([](Engine& e) {
      REQUIRE(e.groups().Control("ns", "g", {.action = Action::kPause, .members = true}));
    });
    for (int i = 0; i < 3; ++i) ask([](Engine&) {});
    CHECK(Get(world).row.counts.Of(Kind::kPaused) == 2);
    ask([](Engine& e) {
      REQUIRE(e.groups().Control("ns", "g", {.action = Action::kResume, .members = true}));
    });
    for (int i = 0; i < 3; ++i) ask([](Engine&) {});
    CHECK(Get(world).row.counts.Of(Kind::kRunning) == 3);
    ask([](Engine& e) { REQUIRE(e.groups().Control("ns", "g", {.action = Action::kCancel})); });
    for (int i = 0; i < 3; ++i) ask([](Engine&) {});
    CHECK(StateOf(Get(world)) == InstanceState::kStopped);
    CHECK(CheckFinished(world) == 1);
  }
}

}  // namespace
}  // namespace dfsmr
