// What is started with a report: all of it in the report's commit, or nothing, and never twice.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/dsrv/engine/answers.h"
#include "tests/dsrv/engine/world.h"

namespace dfsmr {
namespace {

constexpr std::string_view kPage = R"(
id: page
params: {type: object, properties: {url: {type: string}}}
nodes:
  a: {start: true, transitions: {ok: b, stop: done}}
  b: {transitions: {ok: done, back: a}}
  done: {final: true}
)";
constexpr std::string_view kPlan = R"(
plan: tree
flow:
  - {step: ask, action: ask}
)";

StartArgs Page(const std::string& id, const std::string& params = "") {
  StartArgs args{.ns = "ns", .machine = "page", .id = id};
  args.spec.params = params;
  return args;
}

Result<Answer> ReportWith(World& world, const Task& task, const std::string& transition,
                          const std::vector<StartArgs>& starts) {
  return world.Do([&](Engine& e) {
    return e.Report("ns", task.instance, {.transition = transition, .claim = task.claim}, {},
                    starts);
  });
}

std::vector<Begun> StartedBy(const Result<Answer>& answer) {
  REQUIRE_MESSAGE(answer, (answer ? "" : answer.error().message));
  REQUIRE(answer->started);
  return *answer->started;
}

size_t Instances(World& world) {
  std::set<std::string> known;
  for (const Event& event : world.Feed()) {
    if (event.kind == ChangeKind::kStarted || event.kind == ChangeKind::kScheduled) {
      known.insert(event.instance);
    }
  }
  return known.size();
}

// One instance "i" of "page" whose first task is in hand.
struct Crawl : World {
  Crawl() {
    Define(kPage);
    World::Start("page");
    task = ReadyOne();
  }
  Task task;
};

TEST_CASE("what a report starts is there when the report is answered") {
  Crawl world;
  StartArgs labelled = Page("p1", R"({"url":"x"})");
  labelled.spec.labels["kind"] = "leaf";
  labelled.priority = 7;
  StartArgs held = Page("p2");
  held.hold = true;
  const size_t before = world.Feed().size();
  const auto answer = ReportWith(world, world.task, "ok", {labelled, held, Page("")});
  const std::vector<Begun> begun = StartedBy(answer);
  REQUIRE(begun.size() == 3);
  CHECK(begun[0] == Begun{"p1", true});
  CHECK(begun[1] == Begun{"p2", true});
  CHECK(begun[2].id.size() == 20);
  CHECK(begun[2].created);
  CHECK(answer->nodes == std::vector<std::string>{"b"});
  CHECK(world.NodeOf("i") == "b");
  CHECK(world.Must("p1").priority == 7);
  CHECK(world.Must("p1").parent.empty());
  CHECK(world.Must("p2").state == InstanceState::kScheduled);
  CHECK(world.NodeOf(begun[2].id) == "a");
  std::vector<ChangeKind> kinds;
  const std::vector<Event> feed = world.Feed();
  for (size_t at = before; at < feed.size(); ++at) kinds.push_back(feed[at].kind);
  using enum ChangeKind;
  CHECK(std::ranges::count(kinds, kStarted) == 2);
  CHECK(std::ranges::find(kinds, kTransitioned) < std::ranges::find(kinds, kStarted));
  for (const Event& event : feed) {
    if (event.instance == "p1") CHECK(event.client == "w");
  }
}

TEST_CASE("a start that is impossible refuses the report, is named, and nothing changes") {
  Crawl world;
  world.World::Start("page", "taken");
  std::vector<StartArgs> starts = {Page("new")};
  StartArgs bad = Page("bad");
  std::string reason, word;
  SUBCASE("an unknown machine") {
    bad.machine = "nowhere";
    reason = "NO_SUCH_MACHINE";
    word = "starts[1] (instance 'bad' of machine 'nowhere')";
  }
  SUBCASE("an unknown version") {
    bad.version = 9;
    reason = "NO_SUCH_MACHINE";
    word = "starts[1]";
  }
  SUBCASE("params that the machine refuses") {
    bad.spec.params = R"({"url":5})";
    reason = "BAD_PARAMS";
    word = "url";
  }
  SUBCASE("an id that is taken by another") {
    bad = Page("taken", R"({"url":"x"})");
    reason = "INSTANCE_EXISTS";
    word = "instance 'taken'";
  }
  SUBCASE("an id that is taken by another of the list") {
    bad = Page("new", R"({"url":"x"})");
    reason = "INSTANCE_EXISTS";
    word = "instance 'new'";
  }
  SUBCASE("a prerequisite that does not exist") {
    bad.after = {{"never", true}};
    reason = "NO_SUCH_INSTANCE";
    word = "never";
  }
  SUBCASE("a prerequisite that only comes later in the list") {
    bad.after = {{"later", true}};
    starts.push_back(bad);
    bad = Page("later");
    reason = "NO_SUCH_INSTANCE";
    word = "starts[1]";
  }
  SUBCASE("a time that has passed") {
    bad.start_before = world.now() - 1s;
    reason = "BAD_REQUEST";
    word = "start_before";
  }
  starts.push_back(bad);
  const size_t before = world.Feed().size();
  const auto refused = ReportWith(world, world.task, "ok", starts);
  REQUIRE(!refused);
  CHECK(ReasonOf(refused) == reason);
  CHECK(refused.error().message.find(word) != std::string::npos);
  CHECK(world.NodeOf("i") == "a");
  CHECK(!world.Get("new"));
  CHECK(world.Feed().size() <= before + 1);  // the claim, which may be told late
  // From outside it is the same.
  const auto outside =
      world.Do([&](Engine& e) { return e.Report("ns", "i", {.transition = "ok"}, {}, starts); });
  CHECK(ReasonOf(outside) == reason);
  // The claim is as good as before.
  REQUIRE(ReportWith(world, world.task, "ok", {Page("new")}));
  CHECK(world.NodeOf("new") == "a");
}

TEST_CASE("a report that is refused starts nothing") {
  Crawl world;
  CHECK(ReasonOf(ReportWith(world, world.task, "sideways", {Page("p")})) == "ILLEGAL_TRANSITION");
  CHECK(!world.Get("p"));
  REQUIRE(world.Move("i", "ok"));
  CHECK(ReasonOf(ReportWith(world, world.task, "ok", {Page("p")})) == "STALE_CLAIM");
  CHECK(!world.Get("p"));
}

TEST_CASE("what is there already is told, and what the list names twice is started once") {
  Crawl world;
  world.World::Start("page", "old");
  StartArgs later = Page("later");
  later.after = {{"p", true}};
  const auto answer = ReportWith(world, world.task, "ok",
                                 {Page("old"), Page("p"), Page("p", "{}"), later, Page("i")});
  const std::vector<Begun> begun = StartedBy(answer);
  CHECK(begun == std::vector<Begun>{
                     {"old", false}, {"p", true}, {"p", false}, {"later", true}, {"i", false}});
  CHECK(world.Must("later").state == InstanceState::kScheduled);
  CHECK(Instances(world) == 4);
}

TEST_CASE("an instance that waits for the reporting one begins when the report stops it") {
  Crawl world;
  StartArgs next = Page("next");
  next.after = {{"i", true}};
  REQUIRE(ReportWith(world, world.task, "stop", {next}));
  CHECK(world.Must("i").Stopped());
  CHECK(world.NodeOf("next") == "a");
}

TEST_CASE("a repeated report starts nothing, and is told what was started then") {
  Crawl world;
  const std::vector<StartArgs> starts = {Page("p"), Page(""), Page("i")};
  std::vector<StartArgs> again = starts;
  const auto first = ReportWith(world, world.task, "ok", starts);
  SUBCASE("at once") {}
  SUBCASE("with other starts") { again = {Page("other"), Page("")}; }
  SUBCASE("with impossible starts") { again = {Page("p", R"({"url":"x"})")}; }
  SUBCASE("with none") { again.clear(); }
  SUBCASE("after a crash") { world.Crash(); }
  SUBCASE("after later reports") {
    REQUIRE(world.Move("i", "back"));
    REQUIRE(world.Move("i", "ok"));
    REQUIRE(world.Move("i", "ok"));
    world.Restart();
  }
  SUBCASE("after a stop, and what was started is gone") {
    REQUIRE(world.Move("i", "ok"));
    REQUIRE(world.Do([](Engine& e) { return e.Cancel("ns", "p", CancelMode::kForce); }));
    world.Crash();
  }
  const size_t known = Instances(world);
  const auto second = ReportWith(world, world.task, "ok", again);
  CHECK(StartedBy(second) == StartedBy(first));
  CHECK(second->repeated);
  CHECK(second->visit == first->visit);
  CHECK(Instances(world) == known);
  CHECK(!world.Get("other"));
}

TEST_CASE("a crash leaves a report and all of its starts, or neither") {
  Crawl world;
  std::vector<StartArgs> starts;
  for (int i = 0; i < 100; ++i) starts.push_back(Page("p" + std::to_string(i)));
  world.Decide([&](Engine& e) {
    REQUIRE(e.Report("ns", "i", {.transition = "ok", .claim = world.task.claim}, {}, starts));
  });
  const bool written = world.Write();
  SUBCASE("written") {
    REQUIRE(written);
    world.Crash();
    CHECK(world.NodeOf("i") == "b");
    for (const StartArgs& start : starts) CHECK(world.NodeOf(start.id) == "a");
  }
}

TEST_CASE("a report that a crash loses has started nothing") {
  Crawl world;
  world.Decide([&](Engine& e) {
    REQUIRE(e.Report("ns", "i", {.transition = "ok", .claim = world.task.claim}, {}, {Page("p")}));
  });
  world.Crash();
  CHECK(world.NodeOf("i") == "a");
  CHECK(!world.Get("p"));
  CHECK(StartedBy(ReportWith(world, world.task, "ok", {Page("p")})) ==
        std::vector<Begun>{{"p", true}});
}

TEST_CASE("the row of an instance does not carry what it has started") {
  Crawl world;
  std::vector<StartArgs> starts;
  for (int i = 0; i < 1'000; ++i) starts.push_back(Page("p" + std::to_string(i)));
  REQUIRE(ReportWith(world, world.task, "ok", starts));
  CHECK(!world.Must("i").last_answer);
  const Task next = world.ReadyOne();
  REQUIRE(world.Report(next, next.instance == "i" ? "back" : "ok"));
}

TEST_CASE("a step of a plan starts instances with any of its reports") {
  World world;
  world.Define(kPage);
  world.Define(kPlan);
  world.Start("tree", "t");
  const Task task = world.ReadyOne();
  CHECK(ReasonOf(ReportWith(world, task, "suspend", {Page("p"), Page("q", R"({"url":5})")})) != "");
  CHECK(!world.Get("p"));
  const auto suspended = ReportWith(world, task, "suspend", {Page("p")});
  CHECK(StartedBy(suspended) == std::vector<Begun>{{"p", true}});
  const auto again = ReportWith(world, task, "suspend", {Page("p")});
  CHECK(StartedBy(again) == std::vector<Begun>{{"p", true}});
  CHECK(again->repeated);
  REQUIRE(
      world.Do([](Engine& e) { return e.Report("ns", "t", {.transition = "go", .node = "ask"}); }));
  auto tasks = world.Ready({.machine = "tree"});
  REQUIRE(tasks.size() == 1);
  CHECK(StartedBy(ReportWith(world, tasks.front(), "ok", {Page("p"), Page("q")})) ==
        std::vector<Begun>{{"p", false}, {"q", true}});
  CHECK(world.Must("t").Stopped());
}

TEST_CASE("an operator's transition starts instances, too") {
  Crawl world;
  const auto moved = world.Do([&](Engine& e) {
    return e.Report("ns", "i", {.transition = "ok", .client = "ann"}, {}, {Page("p")});
  });
  CHECK(StartedBy(moved) == std::vector<Begun>{{"p", true}});
  CHECK(world.HistoryOf(world.Must("p")).front().client == "ann");
}

TEST_CASE("where room is scarce a report that would start something is refused") {
  Crawl world;
  world.engine().SetRoom(Room::kScarce);
  CHECK(ReasonOf(ReportWith(world, world.task, "ok", {Page("p")})) == "DISK_FULL");
  CHECK(ReportWith(world, world.task, "ok", {Page("i")}));  // it is there
}

TEST_CASE("an instance that an upgrade has left behind is found by a start as it is now") {
  Crawl world;
  world.World::Start("page", "old");
  std::string next(kPage);
  next.replace(next.find("back: a"), 7, "again: a");
  next += "upgrade_strategy: upgrade\n";
  world.Define(next);
  const auto answer = world.Do([&](Engine& e) {
    return e.Report("ns", "i", {.transition = "ok"}, {}, {Page("old"), Page("p")});
  });
  CHECK(StartedBy(answer) == std::vector<Begun>{{"old", false}, {"p", true}});
  CHECK(world.Must("p").version == 2);
}

// Of reports that come when their instance has stopped ---------------------------------------------

void CancelParent(World& world) {
  REQUIRE(world.Do([](Engine& e) { return e.Cancel("ns", "i", CancelMode::kForce); }));
}
Result<Ok> ResumeParent(World& world, bool force = false) {
  return world.Do([&](Engine& e) { return e.Resume("ns", "i", "", force); });
}

TEST_CASE("what a late report starts is started by the resume, in the same commit") {
  for (int crash = 0; crash < 3; ++crash) {
    CAPTURE(crash);
    Crawl world;
    StartArgs full = Page("p1", R"({"url":"x"})");
    full.spec.labels["kind"] = "leaf";
    full.priority = 7;
    full.hold = true;
    StartArgs then = Page("p2");
    then.after = {{"p1", true}};
    const std::vector<StartArgs> starts = {full, then, Page("")};
    CancelParent(world);
    if (crash == 1) world.Restart();
    CHECK(ReasonOf(ReportWith(world, world.task, "ok", starts)) == "STALE_CLAIM");
    CHECK(Instances(world) == 1);
    if (crash == 2) world.Restart();
    REQUIRE(ResumeParent(world));
    CHECK(world.NodeOf("i") == "b");
    CHECK(Instances(world) == 4);
    const Instance first = world.Must("p1");
    CHECK(first.priority == 7);
    CHECK(first.state == InstanceState::kScheduled);
    CHECK(world.HistoryOf(first).front().params == R"({"url":"x"})");
    CHECK(world.HistoryOf(first).front().client == "w");
    CHECK(world.Must("p2").after.size() == 1);
    const auto again = ReportWith(world, world.task, "ok", starts);
    CHECK(StartedBy(again).size() == 3);
    CHECK(again->repeated);
    CHECK(Instances(world) == 4);
  }
}

TEST_CASE("a resume by force starts nothing of what was reported late") {
  Crawl world;
  CancelParent(world);
  CHECK(ReasonOf(ReportWith(world, world.task, "ok", {Page("p")})) == "STALE_CLAIM");
  REQUIRE(ResumeParent(world, true));
  CHECK(!world.Get("p"));
  CHECK(world.ReadyOne().node == "a");
}

TEST_CASE("a late report of a step starts instances at the resume") {
  World world;
  world.Define(kPage);
  world.Define(kPlan);
  world.Start("tree");
  const Task task = world.ReadyOne();
  CancelParent(world);
  world.Restart();
  CHECK(ReasonOf(ReportWith(world, task, "ok", {Page("p")})) == "STALE_CLAIM");
  world.Restart();
  REQUIRE(ResumeParent(world));
  CHECK(world.NodeOf("p") == "a");
  CHECK(world.Must("i").result == InstanceResult::kSuccess);
}

TEST_CASE("a late report whose starts are impossible by then does not count") {
  bool once = false;
  SUBCASE("at least once") {}
  SUBCASE("at most once") { once = true; }
  World world;
  world.Define(once ? "id: m\nnodes: {a: {start: true, timeout: 0.0, transitions: {ok: z}}, "
                      "z: {final: true}}\n"
                    : "id: m\nnodes: {a: {start: true, transitions: {ok: z}}, z: {final: true}}\n");
  world.Start("m");
  const Task task = world.ReadyOne();
  CancelParent(world);
  CHECK(ReasonOf(ReportWith(world, task, "ok", {Page("p")})) == "STALE_CLAIM");
  REQUIRE(ResumeParent(world));
  CHECK(world.Must("i").state == (once ? InstanceState::kPaused : InstanceState::kRunning));
  CHECK(world.Ready().size() == (once ? 0 : 1));  // at most once it is not done again unasked
}

}  // namespace
}  // namespace dfsmr
