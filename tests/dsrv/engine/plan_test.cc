// The engine on plans: planning, graphs, children, singletons, hooks, and a crash anywhere.
#include "storage/rows/plan.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "storage/rows/instance.h"
#include "tests/dsrv/engine/answers.h"
#include "tests/dsrv/engine/world.h"
#include "tests/sim/plan_audit.h"

namespace dfsmr {
namespace {

constexpr std::string_view kOutput = R"({"v":1,"list":[1,2,3]})";

void Healthy(World& world) {
  world.Drain();
  (void)world.Do([](Engine& e) { return e.Settle("ns", ""); });
  PlanAudit audit(world);
  audit.All();
  CHECK(audit.problem() == "");
}

size_t KeysOf(World& world, const std::string& id) {
  size_t count = 0;
  REQUIRE(world.store().Scan("", "", [&](std::string_view key, std::string_view) {
    count += key.find(std::string(1, '\0') + id + '\0') != std::string_view::npos;
    return true;
  }));
  return count;
}

Result<Answer> ReportStep(World& world, const Task& task, ReportArgs args,
                          const std::vector<rows::ChildStart>& children = {}) {
  args.claim = task.claim;
  args.children = children.size();
  return world.Do([&](Engine& e) { return e.Report("ns", task.instance, args, children); });
}
Task TaskOf(World& world, const std::string& node, const std::string& instance = "") {
  std::vector<Task> wrong;
  std::optional<Task> found;
  for (Task& task : world.Ready()) {
    if (!found && task.node == node && (instance.empty() || task.instance == instance)) {
      found = std::move(task);
    } else {
      wrong.push_back(std::move(task));
    }
  }
  world.Decide([&](Engine& e) { e.Undelivered(wrong, /*perhaps=*/false); });
  world.Commit();
  REQUIRE_MESSAGE(found, node);
  return *found;
}
void Ok(World& world, const std::string& node, const std::string& instance = "") {
  REQUIRE(ReportStep(world, TaskOf(world, node, instance),
                     {.transition = "ok", .output = std::string(kOutput)}));
}
void Fail(World& world, const std::string& node, const std::string& instance = "") {
  REQUIRE(ReportStep(world, TaskOf(world, node, instance), {.transition = "error"}));
}
Result<dfsmr::Ok> ResumePlan(World& world, const std::string& id) {
  return world.Do([&](Engine& e) { return e.Resume("ns", id, "", false); });
}
Result<dfsmr::Ok> CancelPlan(World& world, const std::string& id) {
  return world.Do([&](Engine& e) { return e.Cancel("ns", id, CancelMode::kCancel); });
}
std::string Ended(World& world, const std::string& id) {
  const Instance instance = world.Must(id);
  return std::string(Name(instance.state)) + " " + std::string(Name(instance.result));
}
std::string GraphOf(World& world, const std::string& id) { return world.Must(id).plan->graph; }

// Planning ---------------------------------------------------------------------------------------

TEST_CASE("instances share a graph until their params, or what is defined, make a difference") {
  World world;
  world.Define(R"(
plan: same
flow: [{step: a, action: x, input: {n: "${instance.id}"}}]
---
plan: each
flow: {for_each: "${params.list}", as: n, do: {step: a, action: x, input: {n: "${n}"}}}
)");
  world.Start("same", "i");
  world.Start("same", "j");
  CHECK(GraphOf(world, "i") == GraphOf(world, "j"));
  CHECK_FALSE(world.Must("i").plan->OwnsGraph());
  REQUIRE(world.TryStart({.machine = "each", .id = "k", .spec = {.params = R"({"list":[1,2]})"}}));
  CHECK(world.Must("k").plan->OwnsGraph());
  world.Crash();
  world.Start("same", "l");
  CHECK(GraphOf(world, "l") == GraphOf(world, "i"));
  world.Define("action: x\nphases: [run, finalize]\n");
  world.Start("same", "m");
  CHECK(GraphOf(world, "m") != GraphOf(world, "i"));
  Ok(world, "a", "i");
  CHECK(Ended(world, "i") == "STOPPED SUCCESS");  // as it was when it was planned
  Ok(world, "a", "m");
  CHECK(Ended(world, "m") == "RUNNING PENDING");
  Ok(world, "a/finalize", "m");
  CHECK(Ended(world, "m") == "STOPPED SUCCESS");
  Healthy(world);
}

TEST_CASE("a plan that cannot be planned stops with the reason, and had no step ready") {
  World world;
  world.Define(R"(
plan: p
flow: {for_each: "${params.list}", as: n, do: {step: a, action: x}}
)");
  const Instance instance = world.Start("p");
  CHECK(instance.state == InstanceState::kStopped);
  CHECK(instance.result == InstanceResult::kError);
  CHECK(instance.error.find("list") != std::string::npos);
  CHECK(world.Ready().empty());
  Healthy(world);
}

TEST_CASE("what a planner's worker says becomes part of the plan, over a crash") {
  World world;
  world.Define("action: b\nplan: worker\n---\nplan: p\nflow: [{step: b, action: b}]\n");
  world.Start("p");
  CHECK(Ended(world, "i") == "PLANNING PENDING");
  world.Crash();
  const Task task = TaskOf(world, "b");
  CHECK(task.phase == "plan");
  REQUIRE(ReportStep(world, task,
                     {.transition = "planned",
                      .output = R"({"flow":"[{step: x, action: y}, {step: z, action: y}]"})"}));
  world.Crash();
  CHECK(Ended(world, "i") == "RUNNING PENDING");
  for (const char* step : {"b.x", "b.z", "b"}) Ok(world, step);
  CHECK(Ended(world, "i") == "STOPPED SUCCESS");
  Healthy(world);
}

// Counters ---------------------------------------------------------------------------------------

TEST_CASE("GetMachine's numbers go over all steps of a for_each, and over crashes") {
  World world;
  world.Define(R"(
plan: p
flow: {for_each: [1, 2, 3], as: n, do: {step: a, action: x}}
)");
  world.Start("p");
  CHECK(world.Machine("p").nodes.size() > 0);
  Ok(world, "a.0");
  Fail(world, "a.1");
  for (int i = 0; i < 2; ++i) {
    const MachineView view = world.Machine("p");
    const NodeIndex at = view.machine->Find("a");
    REQUIRE(at != kNoNode);
    CHECK(view.nodes[at].ready == 1);
    CHECK(view.nodes[at].completed == 2);
    CHECK(view.nodes[view.machine->Find("a/error")].held == 1);
    world.Crash();
  }
  Healthy(world);
}

TEST_CASE("GetMachine shows what a plan was compiled to when it was defined, over a restart") {
  World world;
  world.Define(R"(
plan: q
flow: [{step: old, action: x}]
---
plan: p
flow: [{step: n, plan: q}]
)");
  world.Start("p");
  world.Define("plan: q\nflow: [{step: new, action: x}]\n");
  SUBCASE("where it would be compiled to something else now") {}
  SUBCASE("where it would not compile any more") {
    world.Define("id: q\nnodes: {a: {start: true, final: true}}\n");
  }
  for (int i = 0; i < 3; ++i) {
    const MachineView view = world.Machine("p");
    const NodeIndex at = view.machine->Find("n.old");
    REQUIRE(at != kNoNode);
    CHECK(view.machine->Find("n.new") == kNoNode);
    CHECK(view.nodes[at].ready == 1);
    world.Restart();
  }
  Ok(world, "n.old");
  CHECK(Ended(world, "i") == "STOPPED SUCCESS");
  Healthy(world);
}

// Children ---------------------------------------------------------------------------------------

constexpr std::string_view kSpawns = R"(
id: m
params: {type: object, properties: {h: {type: integer, maximum: 2}}}
nodes: {a: {start: true, transitions: {ok: z, bad: e}}, z: {final: true},
        e: {final: true, result: error}}
---
plan: p
flow:
  - {step: s, spawn: {machine: m, for_each: "${params.list}", as: h, input: {h: "${h}"},
                      concurrency: 2}}
  - {step: after, action: x, input: {all: "${s.output}"}}
)";

Instance StartList(World& world, const std::string& list, const std::string& id = "i") {
  auto started = world.TryStart(
      {.machine = "p", .id = id, .spec = {.params = R"({"list":)" + list + "}"}});
  REQUIRE_MESSAGE(started, (started ? "" : started.error().message));
  return started->view.instance;
}

TEST_CASE("at most so many children run, and the parent goes on with the last") {
  World world;
  world.Define(kSpawns);
  StartList(world, "[0,1,2,0,1]");
  for (int i = 0; i < 5; ++i) {
    Healthy(world);
    auto tasks = world.Ready();
    CHECK(tasks.size() == (i < 4 ? 2u : 1u));
    world.Decide([&](Engine& e) { e.Undelivered(tasks, /*perhaps=*/false); });
    Ok(world, "a");
  }
  const Task task = TaskOf(world, "after");
  CHECK(task.node_params ==
        R"({"all":{"total":5,"success":5,"failed":0,"cancelled":0}})");
  Healthy(world);
}

TEST_CASE("a worker's children have the names of their numbers, however often it asks for some") {
  World world;
  world.Define(
      "plan: c\nflow: [{step: a, action: x}]\n---\nplan: p\nflow: [{step: w, action: x}]\n");
  world.Start("p");
  int number = 0;
  for (const size_t children : {2u, 3u, 1u, 2u}) {
    REQUIRE(ReportStep(world, TaskOf(world, "w"), {.transition = "suspend"},
                       std::vector<rows::ChildStart>(children, {.machine = "c"})));
    world.Drain();
    for (size_t i = 0; i < children; ++i) Ok(world, "a", "i/w/" + std::to_string(number++));
    world.Drain();
  }
  const Task task = TaskOf(world, "w");
  CHECK(task.event_data == R"({"total":2,"success":2,"failed":0,"cancelled":0})");
  Healthy(world);
}

TEST_CASE("children that could not be started are started again, no more at once than may run") {
  World world;
  world.Define(R"(
plan: c
flow: [{step: b, plan: inner, input: {h: "${params.h}"}}]
---
plan: inner
flow: {for_each: "${params.h}", as: n, do: {step: a, action: x}}
---
plan: p
flow: [{step: s, spawn: {plan: c, for_each: [1, 2, 3, 4], as: h, input: {h: "${h}"},
                         concurrency: 1}}]
)");
  world.Start("p");
  world.Drain();
  CHECK(Ended(world, "i") == "PAUSED PENDING");  // 1 is no list: none was ever planned
  Healthy(world);
  SUBCASE("at once") {}
  SUBCASE("after a crash") { world.Crash(); }
  REQUIRE(ResumePlan(world, "i"));
  world.Drain();
  CHECK(Ended(world, "i") == "PAUSED PENDING");  // in vain
  Healthy(world);
  world.Crash();
  Healthy(world);
  world.Define("plan: inner\nflow: [{step: a, action: x}]\n");
  REQUIRE(ResumePlan(world, "i"));
  for (int child = 0; child < 4; ++child) {
    Healthy(world);
    world.Crash();
    Healthy(world);
    Ok(world, "b.a", "i/s/" + std::to_string(child));
  }
  CHECK(Ended(world, "i") == "STOPPED SUCCESS");
}

TEST_CASE("a child whose id is taken fails again while it is, also by what it would be itself") {
  World world;
  world.Define(
      "plan: c\nflow: [{step: a, action: x}]\n---\nplan: p\nflow: [{step: w, action: y}]\n");
  world.Start("c", "taken");
  world.Start("p");
  REQUIRE(ReportStep(world, TaskOf(world, "w"), {.transition = "suspend"},
                     {{.machine = "c", .id = "taken"}}));
  world.Drain();
  CHECK(Ended(world, "i") == "PAUSED PENDING");
  REQUIRE(ResumePlan(world, "i"));
  world.Drain();
  CHECK(Ended(world, "i") == "PAUSED PENDING");
  Healthy(world);
}

TEST_CASE("a child that waited in vain for another fails again when it is begun again") {
  World world;
  world.Define(R"(
id: m
nodes: {a: {start: true, transitions: {ok: z, bad: e}}, z: {final: true},
        e: {final: true, result: error}}
---
plan: c
flow: [{step: a, action: x}]
---
plan: p
flow: [{step: w, action: x}]
)");
  world.Start("m", "first");
  world.Start("p");
  REQUIRE(ReportStep(world, TaskOf(world, "w"), {.transition = "suspend"},
                     {{.machine = "c", .after = {{"first", false}}}}));
  CHECK(Ended(world, "i/w/0") == "SCHEDULED PENDING");
  REQUIRE(world.Move("first", "bad"));
  CHECK(Ended(world, "i/w/0") == "STOPPED ERROR");
  CHECK(Ended(world, "i") == "PAUSED PENDING");
  REQUIRE(ResumePlan(world, "i"));
  world.Drain();
  CHECK(Ended(world, "i/w/0") == "STOPPED ERROR");
  CHECK(Ended(world, "i") == "PAUSED PENDING");
  Healthy(world);
}

TEST_CASE("a cancel reaches grandchildren, also when the server crashes on the way") {
  World world;
  world.Define(R"(
plan: leaf
flow: [{step: l, action: x}]
---
plan: mid
flow: [{step: s, spawn: {plan: leaf, for_each: [1, 2]}}]
---
plan: p
flow: [{step: s, spawn: {plan: mid, for_each: [1, 2]}}]
)");
  world.Start("p");
  world.Drain();
  const Task task = TaskOf(world, "l", "i/s/0/s/0");
  REQUIRE(CancelPlan(world, "i"));
  SUBCASE("") {}
  SUBCASE("crash") { world.Crash(); }
  world.Drain();
  CHECK(Ended(world, "i/s/1") == "STOPPED CANCELLED");
  CHECK(Ended(world, "i/s/0/s/1") == "STOPPED CANCELLED");
  CHECK(Ended(world, "i") == "RUNNING PENDING");
  REQUIRE(ReportStep(world, task, {.transition = "ok"}));
  world.Drain();
  CHECK(Ended(world, "i/s/0/s/0") == "STOPPED CANCELLED");
  CHECK(Ended(world, "i") == "STOPPED CANCELLED");
  Healthy(world);
}

// What a step is given ---------------------------------------------------------------------------

TEST_CASE("the outputs of a list's items come in the order of the list, more than ten, too") {
  World world;
  world.Define(R"(
plan: p
flow:
  - for_each: "${params.list}"
    as: n
    do: {step: each, action: x}
  - {step: last, action: x, input: {all: "${each.output}"}}
)");
  std::string list, outputs;
  for (int i = 0; i < 12; ++i) {
    list += (i > 0 ? "," : "") + std::to_string(i);
    outputs += (i > 0 ? "," : "") + ("{\"n\":" + std::to_string(i)) + "}";
  }
  StartList(world, "[" + list + "]");
  world.Drain();
  auto tasks = world.Ready();
  REQUIRE(tasks.size() == 12);
  std::ranges::reverse(tasks);  // not in the order in which they end
  SUBCASE("") {}
  SUBCASE("over a restart") { world.Restart(); }
  for (const Task& task : tasks) {
    const std::string number = task.node.substr(task.node.find('.') + 1);
    REQUIRE(ReportStep(world, task,
                       {.transition = "ok", .output = "{\"n\":" + std::string(number) + "}"}));
  }
  CHECK(TaskOf(world, "last").node_params == "{\"all\":[" + outputs + "]}");
}

TEST_CASE("a patch of a held run phase changes what its finalize phase is given, over a restart") {
  World world;
  world.Define(R"(
action: x
phases: [run, finalize]
---
plan: p
flow: [{step: a, action: x, input: {v: 1, w: 2}}]
)");
  world.Start("p");
  Fail(world, "a");
  auto outside = [&](const std::string& verb, const std::string& params = "") {
    REQUIRE(world.Do([&](Engine& e) {
      return e.Report("ns", "i", {.transition = verb, .params = params, .node = "a"});
    }));
  };
  outside("patch", R"({"v":3})");
  SUBCASE("") {}
  SUBCASE("crash") { world.Crash(); }
  outside("retry");
  const Task run = TaskOf(world, "a");
  CHECK(run.node_params == R"({"v":3,"w":2})");
  REQUIRE(ReportStep(world, run, {.transition = "ok"}));
  CHECK(TaskOf(world, "a/finalize").node_params == R"({"v":3,"w":2})");
}

// Singletons and hooks ---------------------------------------------------------------------------

TEST_CASE("who waits for a singleton has it in the order of the starts, over a restart") {
  World world;
  world.Define("plan: p\nsingleton: k\non_conflict: wait\nflow: [{step: a, action: x}]\n");
  for (const char* id : {"z", "c", "a", "b"}) world.Start("p", id);
  SUBCASE("") {}
  SUBCASE("crash") { world.Crash(); }
  for (const char* id : {"z", "c", "a", "b"}) {
    CAPTURE(id);
    CHECK(Ended(world, id) == "RUNNING PENDING");
    Ok(world, "a", id);
    world.Drain();
    Healthy(world);
  }
}

TEST_CASE("a singleton that is free goes past those in line that have stopped") {
  World world;
  world.Define(R"(
plan: p
singleton: k
on_conflict: wait
flow: [{step: a, action: x}]
---
plan: left
upgrade_strategy: abort
singleton: k
on_conflict: wait
flow: [{step: a, action: x}]
)");
  world.Start("p", "a");
  SUBCASE("cancelled") {
    for (const char* id : {"b", "c"}) world.Start("p", id);
    for (const char* id : {"b", "c"}) REQUIRE(CancelPlan(world, id));
  }
  SUBCASE("cancelled, and a crash later") {
    for (const char* id : {"b", "c"}) world.Start("p", id);
    for (const char* id : {"b", "c"}) REQUIRE(CancelPlan(world, id));
    world.Crash();
  }
  SUBCASE("aborted") {
    for (const char* id : {"b", "c"}) world.Start("left", id);
    world.Define("plan: left\nupgrade_strategy: abort\nflow: [{step: b, action: x}]\n");
    world.Drain();
    for (const char* id : {"b", "c"}) CHECK(Ended(world, id) == "STOPPED ABORTED");
  }
  SUBCASE("too late to begin") {
    for (const char* id : {"b", "c"}) {
      REQUIRE(world.TryStart({.machine = "p", .id = id, .start_before = world.now() + 10s}));
    }
    world.Elapse(10s);
    for (const char* id : {"b", "c"}) CHECK(Ended(world, id) == "STOPPED ERROR");
  }
  world.Start("p", "d");
  CHECK(Ended(world, "d") == "SCHEDULED PENDING");
  Ok(world, "a", "a");
  world.Drain();
  CHECK(Ended(world, "d") == "RUNNING PENDING");
  Healthy(world);
}

TEST_CASE("a step's singleton that is free goes past the steps in line that are gone") {
  World world;
  world.Define(R"(
action: x
singleton: k
on_conflict: wait
---
plan: p
flow: [{step: a, action: x}]
)");
  for (const char* id : {"a", "b", "c", "d"}) world.Start("p", id);
  const Task task = TaskOf(world, "a", "a");
  for (const char* id : {"b", "c"}) REQUIRE(CancelPlan(world, id));
  CHECK(world.Ready().empty());
  REQUIRE(ReportStep(world, task, {.transition = "ok"}));
  world.Drain();
  CHECK(TaskOf(world, "a").instance == "d");
  Healthy(world);
}

TEST_CASE("who is paused while it waits for a singleton does not lose its turn for good") {
  World world;
  world.Define("plan: p\nsingleton: k\non_conflict: wait\nflow: [{step: a, action: x}]\n");
  for (const char* id : {"a", "b", "c"}) world.Start("p", id);
  REQUIRE(world.Do([](Engine& e) { return e.Pause("ns", "b"); }));
  Ok(world, "a", "a");
  CHECK(Ended(world, "c") == "RUNNING PENDING");
  SUBCASE("it waits on when it is resumed") {
    REQUIRE(ResumePlan(world, "b"));
    CHECK(Ended(world, "b") == "SCHEDULED PENDING");
    Ok(world, "a", "c");
    CHECK(Ended(world, "b") == "RUNNING PENDING");
  }
  SUBCASE("it is resumed when it is free") {
    Ok(world, "a", "c");
    REQUIRE(ResumePlan(world, "b"));
    CHECK(Ended(world, "b") == "RUNNING PENDING");
  }
  Healthy(world);
}

TEST_CASE("a plan that becomes a machine holds no singleton, and no children") {
  World world;
  world.Define(R"(
plan: p
singleton: k
on_conflict: wait
flow: [{step: s, spawn: {plan: c}}]
---
plan: c
flow: [{step: a, action: x}]
---
plan: q
singleton: k
on_conflict: wait
flow: [{step: a, action: x}]
)");
  world.Start("p", "i");
  world.Start("q", "j");
  world.Drain();
  CHECK(Ended(world, "j") == "SCHEDULED PENDING");
  world.Define("id: p\nupgrade_strategy: upgrade\nnodes: {n: {start: true, transitions: "
               "{ok: z}}, z: {final: true}}\n");
  world.Drain();
  CHECK(world.NodeOf("i") == "n");
  CHECK(Ended(world, "i/s/0") == "STOPPED CANCELLED");
  CHECK(Ended(world, "j") == "RUNNING PENDING");
  Healthy(world);
}

TEST_CASE("what was sent with Start goes on when its name is defined, and upgraded, later") {
  World world;
  const std::string flow = "[{step: a, action: x}]";
  auto parsed = ToFlow(flow);
  REQUIRE(parsed);
  REQUIRE(world.TryStart({.machine = "p", .id = "i", .spec = {.flow = flow}, .flow = *parsed}));
  world.Define("plan: p\nflow: [{step: b, action: x}]\n");
  world.Define("plan: p\nupgrade_strategy: upgrade\nflow: [{step: c, action: x}]\n");
  world.Drain();
  Ok(world, "a", "i");
  CHECK(Ended(world, "i") == "STOPPED SUCCESS");
}

TEST_CASE("an end has one hook, whenever the server crashes") {
  World world;
  world.Define(R"(
plan: p
hooks: [{on: [stopped, failure, paused], action: mail, input: {who: "${instance.id}"}}]
flow: [{step: a, action: x}]
)");
  world.Start("p");
  Fail(world, "a");
  world.Crash();
  Ok(world, "mail");
  REQUIRE(CancelPlan(world, "i"));
  world.Crash();
  const Task task = TaskOf(world, "mail");
  CHECK(task.node_params == R"({"who":"i"})");
  REQUIRE(ReportStep(world, task, {.transition = "ok"}));
  CHECK(world.Ready().empty());
  Healthy(world);
}

// Upgrades and retention -------------------------------------------------------------------------

TEST_CASE("a plan that is upgraded half-way begins anew, its children are cancelled") {
  World world;
  world.Define(kSpawns);
  StartList(world, "[0,1,2]");
  world.Drain();
  world.Define(R"(
plan: p
upgrade_strategy: upgrade
flow: [{step: n, action: x}, {step: m, action: x, after: [n]}]
)");
  SUBCASE("") {}
  SUBCASE("crash") { world.Crash(); }
  world.Drain();
  CHECK(Ended(world, "i/s/0") == "STOPPED CANCELLED");
  CHECK(rows::GetOutputs({world.store(), 0}, {"ns", "i"})->empty());
  Ok(world, "n");
  Ok(world, "m");
  CHECK(Ended(world, "i") == "STOPPED SUCCESS");
  Healthy(world);
}

TEST_CASE("a plan that is upgraded while it is paused goes on when it is resumed") {
  for (int ways = 0; ways < 8; ++ways) {
    const bool failed = ways & 1, twice = ways & 2, crash = ways & 4;
    CAPTURE(ways);
    World world;
    world.Define("plan: p\nflow: [{step: a, action: x}]\n");
    const auto start_before = world.now() + 1s;
    REQUIRE(world.TryStart({.machine = "p", .id = "i", .start_before = start_before}));
    const Timestamp began = world.Must("i").start_time;
    if (failed) Fail(world, "a");
    if (!failed) REQUIRE(world.Do([](Engine& e) { return e.Pause("ns", "i"); }));
    world.Elapse(2s);
    world.Define("plan: p\nupgrade_strategy: upgrade\nflow: [{step: b, action: x}]\n");
    world.Drain();
    if (twice) {
      world.Define("plan: p\nupgrade_strategy: upgrade\nflow: [{step: b, action: y}]\n");
      world.Drain();
    }
    if (crash) world.Crash();
    CHECK(Ended(world, "i") == "PAUSED PENDING");
    REQUIRE(ResumePlan(world, "i"));
    CHECK(Ended(world, "i") == "RUNNING PENDING");
    CHECK(world.Must("i").start_time == began);
    CHECK(std::ranges::count(world.KindsOf("i"), ChangeKind::kStarted) == 1);
    Ok(world, "b");
    CHECK(Ended(world, "i") == "STOPPED SUCCESS");
    Healthy(world);
  }
}

// Instance i of plan p, begun; q holds the singleton k that p's second version waits for.
void StartAndUpgradeToWait(World& world) {
  world.Define("plan: p\nflow: [{step: a, action: x}]\n---\n"
               "plan: q\nsingleton: k\nflow: [{step: c, action: y}]\n");
  world.Start("p");
  world.Start("q", "holder");
  world.Define("plan: p\nupgrade_strategy: upgrade\nsingleton: k\non_conflict: wait\n"
               "flow: [{step: b, action: x}]\n");
  world.Drain();
  CHECK(Ended(world, "i") == "SCHEDULED PENDING");
}

TEST_CASE("a plan whose new version waits for a singleton goes on from there, whatever comes") {
  World world;
  StartAndUpgradeToWait(world);
  const Timestamp began = world.Must("i").start_time;
  CHECK(began != Timestamp());
  std::string step = "b";
  SUBCASE("its turn") { Ok(world, "c", "holder"); }
  SUBCASE("its turn after a crash") {
    world.Crash();
    Ok(world, "c", "holder");
  }
  SUBCASE("its turn while it is paused") {
    REQUIRE(world.Do([](Engine& e) { return e.Pause("ns", "i"); }));
    Ok(world, "c", "holder");
    REQUIRE(ResumePlan(world, "i"));
  }
  SUBCASE("its turn after it was paused") {
    REQUIRE(world.Do([](Engine& e) { return e.Pause("ns", "i"); }));
    REQUIRE(ResumePlan(world, "i"));
    CHECK(Ended(world, "i") == "SCHEDULED PENDING");
    Ok(world, "c", "holder");
  }
  SUBCASE("a version without") {
    world.Define("plan: p\nupgrade_strategy: upgrade\nflow: [{step: b, action: z}]\n");
    world.Drain();
  }
  SUBCASE("a machine") {
    world.Define("id: p\nupgrade_strategy: upgrade\n"
                 "nodes: {s: {start: true, transitions: {ok: e}}, e: {final: true}}\n");
    world.Drain();
    step = "s";
  }
  CHECK(Ended(world, "i") == "RUNNING PENDING");
  CHECK(world.Must("i").start_time == began);
  Ok(world, step, "i");
  CHECK(Ended(world, "i") == "STOPPED SUCCESS");
  if (Ended(world, "holder") == "RUNNING PENDING") Ok(world, "c", "holder");
  world.Start("q", "next");  // the singleton is free
  CHECK(Ended(world, "next") == "RUNNING PENDING");
  Healthy(world);
}

TEST_CASE("who waits for a singleton, and becomes a machine, is not asked when it is free") {
  World world;
  world.Define("plan: q\nsingleton: k\nflow: [{step: c, action: y}]\n---\n"
               "plan: w\nsingleton: k\non_conflict: wait\nflow: [{step: a, action: x}]\n");
  world.Start("q", "holder");
  world.Start("w");
  world.Define("id: w\nupgrade_strategy: upgrade\n"
               "nodes: {s: {start: true, transitions: {ok: e}}, e: {final: true}}\n");
  world.Drain();
  Ok(world, "c", "holder");
  CHECK(Ended(world, "holder") == "STOPPED SUCCESS");
  Ok(world, "s", "i");
  CHECK(Ended(world, "i") == "STOPPED SUCCESS");
}

TEST_CASE("events that a step was sent wait until it suspends, also when it fails before that") {
  World world;
  world.Define("plan: p\nflow: [{step: a, action: x}]\n");
  world.Start("p");
  const Task task = TaskOf(world, "a");
  REQUIRE(world.Do([](Engine& e) {
    return e.Report("ns", "i", {.transition = "go", .params = R"({"n":1})", .node = "a"});
  }));
  REQUIRE(ReportStep(world, task, {.transition = "error"}));
  CHECK(Ended(world, "i") == "PAUSED PENDING");
  world.Crash();
  REQUIRE(ResumePlan(world, "i"));
  REQUIRE(ReportStep(world, TaskOf(world, "a"), {.transition = "suspend"}));
  const Task woken = TaskOf(world, "a");
  CHECK(woken.event == "go");
  CHECK(woken.event_data == R"({"n":1})");
  Healthy(world);
}

TEST_CASE("steps that are called by numbers are counted apart") {
  World world;
  world.Define(R"(
plan: inner
flow: [{step: 1, action: x}, {step: 2, action: x}]
---
plan: p
flow: [{step: web, plan: inner}]
)");
  world.Start("p");
  CHECK(world.Ready({.node = "web.1"}).size() == 1);
  const MachineView view = world.Machine("p");
  for (const char* step : {"web.1", "web.2"}) {
    const NodeStats& stats = view.nodes[view.machine->Find(step)];
    CHECK(stats.ready + stats.claimed == 1);
  }
}

TEST_CASE("retention drops all of a plan, and of its children") {
  World world({.retention = 1h});
  world.Define(kSpawns);
  StartList(world, "[0,1,2]");
  world.Drain();
  for (int i = 0; i < 3; ++i) Ok(world, "a");
  Ok(world, "after");
  CHECK(KeysOf(world, "i") > 5);
  world.Elapse(2h);
  world.Drain();
  for (const char* id : {"i", "i/s/0", "i/s/1", "i/s/2"}) CHECK(KeysOf(world, id) == 0);
}

// A crash anywhere -------------------------------------------------------------------------------

constexpr std::string_view kWhole = R"(
action: x
phases: [run, finalize]
---
action: locked
singleton: lock
on_conflict: wait
---
plan: child
hooks: [{on: [success], action: mail}]
flow: [{step: c, action: locked}]
---
plan: p
singleton: "one"
on_conflict: wait
hooks: [{on: [stopped], action: mail}]
flow:
  - {step: a, action: x}
  - {step: s, spawn: {plan: child, for_each: "${a.output.list}", as: h, concurrency: 2}}
  - {step: e, action: x, after: [a]}
  - {step: z, action: x, input: {all: "${s.output}", v: "${e.output.v}"}}
)";

// Two instances of p from their start to their end, by workers that take one turn for each report;
// the server crashes after the `at`-th commit. Answers how many commits there were.
size_t Play(size_t at, bool written) {
  World world;
  size_t commits = 0;
  world.Define(kWhole);
  auto turn = [&](auto commands) {
    world.Decide(commands);
    const bool crash = ++commits == at;
    if (!crash) return world.Commit();
    if (written && world.InFlight()) REQUIRE(world.Write());
    world.Crash();
  };
  std::set<std::string> events;
  for (int round = 0; round < 60; ++round) {
    std::vector<Task> tasks;
    turn([&](Engine& e) {
      for (const char* id : {"i", "j"}) (void)e.Start({.ns = "ns", .machine = "p", .id = id});
      (void)e.Poll({.filter = {.ns = "ns"}, .worker = "w", .max_tasks = 10},
                   [&](std::vector<Task> given) { tasks = std::move(given); });
    });
    for (const Task& task : tasks) {
      const bool suspends = task.node == "e" && task.event.empty();
      turn([&](Engine& e) {
        (void)e.Report("ns", task.instance,
                       {.transition = suspends ? "suspend" : "ok", .claim = task.claim,
                        .output = suspends ? "" : std::string(kOutput)});
      });
    }
    turn([](Engine& e) {
      for (const char* id : {"i", "j"}) {
        (void)e.Report("ns", id, {.transition = "go", .node = "e", .client = "op"});
      }
    });
    world.Elapse(61s);  // what a crash has lost times out
  }
  CAPTURE(at);
  CAPTURE(written);
  for (const char* id : {"i", "j"}) {
    CHECK(Ended(world, id) == "STOPPED SUCCESS");
    const auto outputs = rows::GetOutputs({world.store(), 0}, {"ns", id});
    CHECK(outputs->at("s") == R"({"total":3,"success":3,"failed":0,"cancelled":0})");
    for (int child = 0; child < 3; ++child) {
      CHECK(Ended(world, std::string(id) + "/s/" + std::to_string(child)) == "STOPPED SUCCESS");
    }
  }
  size_t hooks = 0;
  for (const Event& event : world.Feed()) {
    hooks += event.kind == ChangeKind::kStarted && event.machine == "mail";
  }
  CHECK(hooks == 8);
  Healthy(world);
  return commits;
}

TEST_CASE("a crash after any commit, or before it, changes nothing of how a plan ends") {
  const size_t commits = Play(0, false);
  CHECK(commits > 60);
  for (size_t at = 1; at <= std::min<size_t>(commits, 110); ++at) {
    Play(at, false);
    Play(at, true);
  }
}

TEST_CASE("a step that its plan does not have stops the server at its start") {
  World world;
  world.Define("action: a\n---\nplan: x\nflow: {sequence: [{step: s, action: a}]}\n");
  world.Start("x", "i");
  Healthy(world);
  auto steps = world.RowsOf('\x10');
  REQUIRE_FALSE(steps.empty());
  Batch batch;
  for (auto& [key, value] : steps) {
    batch.Delete(key);
    key.end()[-2] = '\x7f';  // its home is a number of four bytes
    batch.Put(key, value);
  }
  REQUIRE(world.store().Write(world.partition(), world.engine().epoch(), batch));
  CHECK_FALSE(world.TryCrash());
  CHECK(world.failed().find("damaged step of instance 'i'") != std::string::npos);
}

}  // namespace
}  // namespace dfsmr
