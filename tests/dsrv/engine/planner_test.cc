// Plans that are too large for one turn: planned beside the engine, and entered in portions.
#include "dsrv/engine/planner.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "tests/dsrv/engine/world.h"
#include "tests/sim/plan_audit.h"

namespace dfsmr {
namespace {

constexpr std::string_view kPlans = R"(
plan: each
flow: {for_each: "${params.list}", as: n, do: {step: a, action: x, input: {n: "${n}"}}}
---
plan: same
flow:
  concurrence:
    - {step: a, action: x}
    - {step: b, action: x}
    - {step: c, action: x}
    - {step: d, action: x}
)";
constexpr std::string_view kFive = R"({"list":[1,2,3,4,5]})";
constexpr std::string_view kTwenty =
    R"({"list":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]})";

// With three steps at once, and jobs that wait.
struct Large : World {
  Large() : World({.steps_at_once = 3, .portion = 3}) {
    Define(kPlans);
    KeepJobs(true);
  }

  Instance StartEach(std::string_view params, const std::string& id = "i") {
    auto started = TryStart({.machine = "each", .id = id, .spec = {.params = std::string(params)}});
    REQUIRE(started);
    return started->view.instance;
  }
  Instance StartFive(const std::string& id = "i") { return StartEach(kFive, id); }
  void FinishNext() {
    REQUIRE(jobs() > 0);
    Decide([this](Engine&) { FinishJob(); });
    Commit();
  }
  std::string StateOf(const std::string& id = "i") {
    const Instance instance = Must(id);
    return std::string(Name(instance.state)) + " " + std::to_string(instance.tokens.size());
  }
  void Control(const std::function<Result<Ok>(Engine&)>& control) {
    auto done = Do(control);
    REQUIRE_MESSAGE(done, (done ? "" : done.error().message));
  }
  void Healthy() {
    Drain();
    PlanAudit audit(*this);
    audit.All();
    CHECK(audit.problem() == "");
  }
  // Works off all steps. Each is handed out once.
  void Finish(const std::string& id = "i") {
    std::set<std::string> nodes;
    while (!Must(id).Stopped()) {
      Drain();
      const std::vector<Task> tasks = Ready();
      REQUIRE_FALSE(tasks.empty());
      for (const Task& task : tasks) {
        CHECK(nodes.insert(task.instance + " " + task.node).second);
        REQUIRE(Report(task, "ok"));
      }
    }
  }
};

}  // namespace

TEST_CASE("a large plan is planned beside the turns, and others go on meanwhile") {
  Large world;
  CHECK(world.StartFive().state == InstanceState::kPlanning);
  CHECK(world.jobs() == 1);
  CHECK(world.Ready().empty());
  REQUIRE(world.TryStart(
      {.machine = "each", .id = "small", .spec = {.params = R"({"list":[1,2]})"}}));
  CHECK(world.StateOf("small") == "RUNNING 2");
  CHECK(world.StateOf() == "PLANNING 0");
  world.FinishNext();
  world.Healthy();
  CHECK(world.StateOf() == "RUNNING 5");
  world.Finish();
  CHECK(world.Must("i").result == InstanceResult::kSuccess);
}

TEST_CASE("the steps of a large plan become ready in portions, each once, whatever crashes") {
  Large world;
  world.StartEach(kTwenty);
  world.FinishNext();
  size_t ready = world.Must("i").tokens.size();
  while (ready < 20) {
    world.Crash();
    CHECK(world.engine().WorkLeft());
    const size_t before = std::exchange(ready, world.Must("i").tokens.size());  // which is a turn
    CHECK(ready <= before + 3);
  }
  world.Healthy();
  world.Finish();
  CHECK(world.Must("i").result == InstanceResult::kSuccess);
}

TEST_CASE("an instance whose planning a crash interrupted is planned after it") {
  Large world;
  world.StartFive();
  world.Crash();
  CHECK(world.engine().WorkLeft());
  world.Drain();
  world.FinishNext();
  world.Healthy();
  CHECK(world.StateOf() == "RUNNING 5");
}

TEST_CASE("one large plan is planned at a time, and those after it in their order") {
  Large world;
  for (const char* id : {"i", "j", "k"}) world.StartFive(id);
  for (const char* id : {"i", "j", "k"}) {
    CHECK(world.jobs() == 1);
    CHECK(world.StateOf(id) == "PLANNING 0");
    world.FinishNext();
    world.Drain();
    CHECK(world.StateOf(id) == "RUNNING 5");
  }
  CHECK(world.jobs() == 0);
}

TEST_CASE("instances that share a large graph have it compiled once") {
  Large world;
  world.Start("same", "i");
  world.Start("same", "j");
  CHECK(world.jobs() == 1);
  world.FinishNext();
  world.Drain();
  CHECK(world.jobs() == 0);
  CHECK(world.StateOf("j") == "RUNNING 4");
  CHECK(world.Must("i").plan->graph == world.Must("j").plan->graph);
  world.Healthy();
}

TEST_CASE("what was planned for an instance that has changed meanwhile is dropped") {
  Large world;
  world.StartFive();
  SUBCASE("a pause: it is planned anew when it goes on") {
    world.Control([](Engine& e) { return e.Pause("ns", "i"); });
    world.FinishNext();
    CHECK(world.StateOf() == "PAUSED 0");
    world.Control([](Engine& e) { return e.Resume("ns", "i", "", false); });
    CHECK(world.StateOf() == "PLANNING 0");
    world.FinishNext();
    world.Healthy();
    CHECK(world.StateOf() == "RUNNING 5");
    const auto kinds = world.KindsOf("i");
    CHECK(std::ranges::count(kinds, ChangeKind::kStarted) == 1);
  }
  SUBCASE("a pause that ends while it is planned") {
    world.Control([](Engine& e) { return e.Pause("ns", "i"); });
    world.Control([](Engine& e) { return e.Resume("ns", "i", "", false); });
    CHECK(world.StateOf() == "PLANNING 0");
    world.FinishNext();
    world.FinishNext();
    world.Healthy();
    CHECK(world.StateOf() == "RUNNING 5");
  }
  SUBCASE("a cancel") {
    world.Control([](Engine& e) { return e.Cancel("ns", "i", CancelMode::kCancel); });
    world.FinishNext();
    world.Drain();
    CHECK(world.Must("i").result == InstanceResult::kCancelled);
  }
  SUBCASE("an upgrade: it is planned under the new version") {
    world.Define(R"(
plan: each
upgrade_strategy: upgrade
flow: {for_each: "${params.list}", as: n, do: {step: b, action: x, input: {n: "${n}"}}}
)");
    world.Drain();
    world.FinishNext();
    world.Drain();
    CHECK(world.StateOf() == "PLANNING 0");
    world.FinishNext();
    world.Healthy();
    CHECK(world.Must("i").version == 2);
    CHECK(world.StateOf() == "RUNNING 5");
    for (const Task& task : world.Ready()) CHECK(task.node.starts_with("b."));
  }
}

TEST_CASE("a large graph is freed beside the turns") {
  Large world;
  world.StartEach(kTwenty);
  world.FinishNext();
  world.Drain();
  REQUIRE(world.jobs() == 0);
  world.Define("plan: each\nupgrade_strategy: upgrade\nflow: [{step: z, action: x}]\n");
  world.Drain();
  CHECK(world.StateOf() == "RUNNING 1");
  CHECK(world.jobs() == 1);
  world.FinishNext();
  CHECK(world.jobs() == 0);
  world.Finish();
}

TEST_CASE("a large plan that cannot be planned stops with its problem") {
  Large world;
  world.Define(R"(
plan: bad
flow: {for_each: "${params.list}", as: n, do: {step: a, action: x, when: "${n}"}}
)");
  REQUIRE(world.TryStart({.machine = "bad", .id = "i", .spec = {.params = std::string(kFive)}}));
  world.FinishNext();
  const Instance instance = world.Must("i");
  CHECK(instance.result == InstanceResult::kError);
  CHECK(instance.error.find("'when' wants true or false") != std::string::npos);
}

TEST_CASE("a cancel and a pause in the middle of a large plan") {
  Large world;
  world.StartEach(kTwenty);
  world.FinishNext();
  REQUIRE(world.Must("i").tokens.size() < 10);
  SUBCASE("cancelled: no further step becomes ready") {
    world.Control([](Engine& e) { return e.Cancel("ns", "i", CancelMode::kCancel); });
    world.Drain();
    CHECK(world.Must("i").result == InstanceResult::kCancelled);
  }
  SUBCASE("cancelled with a step in hand") {
    const Task task = world.ReadyOne();
    world.Decide([](Engine& e) { REQUIRE(e.Cancel("ns", "i", CancelMode::kCancel)); });
    world.Commit();
    world.Drain();
    CHECK(world.StateOf() == "RUNNING 1");
    REQUIRE(world.Report(task, "ok"));
    CHECK(world.Must("i").result == InstanceResult::kCancelled);
  }
  SUBCASE("paused") {
    world.Control([](Engine& e) { return e.Pause("ns", "i"); });
    world.Drain();
    CHECK(world.StateOf() == "PAUSED 20");
    CHECK(world.Ready().empty());
    world.Control([](Engine& e) { return e.Resume("ns", "i", "", false); });
    world.Finish();
  }
}

}  // namespace dfsmr
