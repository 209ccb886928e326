// The rows of plans: what was put is what is got, and what is dropped leaves nothing behind.
#include "storage/rows/plan.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "fsm/plan/assemble.h"
#include "fsm/plan/compile.h"
#include "fsm/plan/library.h"
#include "fsm/yaml/definitions.h"
#include "storage/memory_store.h"
#include "storage/rows/graph.h"
#include "storage/rows/instance.h"
#include "storage/rows/retention.h"

namespace dfsmr {
namespace {

using namespace std::chrono_literals;

constexpr PartitionId kPartition = 3;
constexpr Timestamp kNoon = FromMicros(1'700'000'000'000'000);

constexpr std::string_view kRich = R"(
action: a
phases: [run, finalize]
queue: slow
priority: 7
timeout_strategy: fixed
timeout: 60
retry: {limit: 4, delay: 1s, factor: 2, max: 1m, jitter: 0.25, on: [oom, transient]}
run_timeout: 5m
ready_timeout: 30s
abandon_after: 0
poll: {intervals: [1s, 5s], per_interval: 2, max_failures: 9}
rescue: skip
weight: {run: 4, finalize: 2}
input: {type: object}
output: {type: object, required: [v]}
use: [audit, {name: trace, before: audit}]
dry_run: {transition: error, output: {v: 1}}
singleton: "k-${params.n}"
on_conflict: wait
---
id: m
nodes: {a: {start: true, transitions: {ok: z}}, z: {final: true}}
---
plan: inner
flow: [{step: i, action: a, input: {v: 1}}]
---
plan: p
label: "p ${params.n}"
singleton: "all-${params.n}"
hooks: [{on: [paused], action: a, input: {who: ops}}]
flow:
  sequence:
    - concurrence:
        - {step: one, action: a, input: {v: "${params.n}"}, dry_run: worker}
        - for_each: [1, 2, 3]
          as: n
          do: {step: each, action: a, input: {n: "${n}"}}
        - {step: nested, plan: inner, input: {n: 2}}
    - concurrence:
        - {step: sum, action: a, input: {all: "${each.output}", of: "${nested.output}"}}
        - {step: left, action: a, when: false}
        - {step: s, spawn: {machine: m, for_each: "${one.output.list}", as: h,
                            input: {h: "${h}"}, concurrency: 5}}
        - {step: t, spawn: {machine: m}}
    - section: sec
      do: {step: in, action: a}
      retry: {limit: 3, delay: 1s, factor: 2, max: 1m, on: [oom]}
      compensate: {step: undo, action: a}
      rescue: compensate
)";

struct World {
  World() {
    epoch = *store.Acquire(kPartition);
    parsed = ParseDefinitions(kRich, "test");
    std::string problems;
    for (const Diagnostic& diagnostic : parsed.diagnostics) problems += Format(diagnostic) + "\n";
    REQUIRE_MESSAGE(parsed.ok(), problems);
    for (const Machine& one : parsed.definitions) library.Add(one);
    library.Index();
    std::vector<PlanProblem> wrong;
    graph = CompilePlan({library.FindPlan("p"), &library, R"({"n":1})", nullptr, "i"}, &wrong);
    REQUIRE_MESSAGE(graph, (wrong.empty() ? "" : wrong.front().message));
    Machine named;
    named.id = "p";
    machine = Assemble(graph, std::move(named));
  }

  Instance Make(const std::string& id, const std::string& ns = "ns") {
    Instance instance;
    instance.ns = ns;
    instance.id = id;
    instance.machine = "p";
    instance.version = 1;
    instance.state = InstanceState::kRunning;
    instance.last_visit = 9;
    PlanState plan;
    plan.open = {
        {.from = 5, .owner = 4, .edge = 1, .next = 70'000, .transition = "skip", .client = "w"},
        {.from = 1, .owner = 1, .edge = 0, .next = 0, .transition = "ok", .client = ""}};
    plan.graph = "own";
    instance.plan = std::move(plan);
    return instance;
  }
  void Write(const Batch& batch) { REQUIRE(store.Write(kPartition, epoch, batch)); }
  void Put(Instance* instance, const rows::Changed& changed = {}) {
    Batch batch;
    rows::Note(rows::PutInstance({batch, kPartition}, *instance, machine, changed), instance);
    Write(batch);
  }
  Instance Get(const std::string& id, const std::string& ns = "ns") {
    auto instance = rows::GetInstance({store, kPartition}, {ns, id},
                                      [](auto, auto, auto) -> const Machine* { return nullptr; });
    REQUIRE_MESSAGE(instance, (instance ? "" : instance.error().message));
    return *instance;
  }
  std::vector<rows::StepRow> Steps(const std::string& id) {
    std::vector<rows::StepRow> found;
    REQUIRE(rows::ScanSteps({store, kPartition}, {"ns", id}, [&](rows::StepRow row) {
      found.push_back(std::move(row));
      return true;
    }));
    return found;
  }
  NodeIndex Home(const std::string& node) { return machine.nodes[machine.Find(node)].home; }
  // On a node of a step, with everything that a token may have.
  Token Full(const std::string& node, uint64_t visit) {
    Token token;
    token.node = machine.Find(node);
    REQUIRE(token.node != kNoNode);
    token.home = machine.nodes[token.node].home;
    token.visit = visit;
    token.state = TokenState::kClaimed;
    token.attempt = 3;
    token.available_at = kNoon;
    token.error = "why";
    Claim claim;
    claim.id = {epoch, visit};
    claim.worker = "w";
    claim.attempt = 3;
    claim.claim_time = kNoon;
    claim.deadline = kNoon + 5s;
    claim.progress = 0.25;
    token.claims.push_back(claim);
    StepState step;
    step.start_time = kNoon - 1s;
    step.event = "go";
    step.event_data = R"({"d":1})";
    step.inbox = {{"one", ""}, {"two", R"({"k":2})"}};
    step.tries = 2;
    step.tries_limit = 4;
    step.polls = 4;
    step.poll_failures = 1;
    step.wake = "wake";
    step.progress = 0.25;
    token.limits = TokenLimits{.state = TokenLimits::State::kWaits,
                               .keys = {{"k-1", {.max = 2, .rate = Rate{5, 10s, 3}}}},
                               .order = 12,
                               .since = FromMicros(76),
                               .ready_since = FromMicros(77)};
    step.next_child = 12;
    ChildCounts children{.generation = visit,
                         .total = 10,
                         .started = 9,
                         .running = 2,
                         .paused = 1,
                         .success = 3,
                         .failed = 3,
                         .cancelled = 1,
                         .unplanned = 2,
                         .first = 2,
                         .concurrency = 5,
                         .counted = true,
                         .restart = true,
                         .error = "no"};
    step.children = std::move(children);
    token.step = std::move(step);
    return token;
  }
  // All that the store holds of an instance: keys that have its id in them.
  size_t KeysOf(const std::string& id) {
    size_t count = 0;
    REQUIRE(store.Scan("", "", [&](std::string_view key, std::string_view) {
      count += key.find(std::string(1, '\0') + id + '\0') != std::string_view::npos;
      return true;
    }));
    return count;
  }

  MemoryStore store;
  uint64_t epoch = 0;
  Parsed parsed;
  Definitions library;
  std::shared_ptr<const PlanGraph> graph;
  Machine machine;
};

void Same(const StepAction& a, const StepAction& b) {
  CHECK(a.name == b.name);
  CHECK(a.queue == b.queue);
  CHECK(a.priority == b.priority);
  CHECK(a.timeout == b.timeout);
  CHECK(a.retry == b.retry);
  CHECK(a.bounds == b.bounds);
  CHECK(a.poll == b.poll);
  CHECK(a.rescue == b.rescue);
  CHECK(a.weight == b.weight);
  CHECK(a.middleware == b.middleware);
  CHECK(a.input.text == b.input.text);
  CHECK(a.output.text == b.output.text);
  CHECK(a.dry_run == b.dry_run);
}

void Same(const Step& a, const Step& b) {
  CAPTURE(a.path);
  CHECK(a.path == b.path);
  CHECK(a.of == b.of);
  CHECK(a.kind == b.kind);
  CHECK(a.finalize == b.finalize);
  CHECK(a.left_out == b.left_out);
  CHECK(a.planner == b.planner);
  CHECK(a.action == b.action);
  CHECK(a.input == b.input);
  CHECK(a.readers == b.readers);
  CHECK(a.groups == b.groups);
}

void Same(const PlanGraph& a, const PlanGraph& b) {
  CHECK(a.planning == b.planning);
  REQUIRE(a.actions.size() == b.actions.size());
  for (size_t i = 0; i < a.actions.size(); ++i) Same(a.actions[i], b.actions[i]);
  REQUIRE(a.steps.size() == b.steps.size());
  for (size_t i = 0; i < a.steps.size(); ++i) Same(a.steps[i], b.steps[i]);
  REQUIRE(a.groups.size() == b.groups.size());
  for (size_t i = 0; i < a.groups.size(); ++i) {
    CHECK(a.groups[i].list == b.groups[i].list);
    CHECK(a.groups[i].readers == b.groups[i].readers);
    CHECK(a.groups[i].groups == b.groups[i].groups);
    REQUIRE(a.groups[i].members.size() == b.groups[i].members.size());
    for (size_t j = 0; j < a.groups[i].members.size(); ++j) {
      CHECK(a.groups[i].members[j].name == b.groups[i].members[j].name);
      CHECK(a.groups[i].members[j].group == b.groups[i].members[j].group);
      CHECK(a.groups[i].members[j].index == b.groups[i].members[j].index);
    }
  }
  REQUIRE(a.places.size() == b.places.size());
  for (size_t i = 0; i < a.places.size(); ++i) {
    CHECK(a.places[i].step == b.places[i].step);
    CHECK(a.places[i].gate == b.places[i].gate);
    CHECK(a.places[i].next == b.places[i].next);
  }
  REQUIRE(a.spawns.size() == b.spawns.size());
  for (const auto& [step, spawn] : a.spawns) {
    const Spawn& other = b.spawns.at(step);
    CHECK(spawn.machine == other.machine);
    CHECK(spawn.items == other.items);
    CHECK(spawn.as == other.as);
    CHECK(spawn.input == other.input);
    CHECK(spawn.concurrency == other.concurrency);
  }
  CHECK(a.limits == b.limits);
  REQUIRE(a.sections.size() == b.sections.size());
  for (size_t i = 0; i < a.sections.size(); ++i) {
    CHECK(a.sections[i].entry == b.sections[i].entry);
    CHECK(a.sections[i].end == b.sections[i].end);
    CHECK(a.sections[i].outer == b.sections[i].outer);
    CHECK(a.sections[i].compensation == b.sections[i].compensation);
    CHECK(a.sections[i].compensates == b.sections[i].compensates);
    CHECK(a.sections[i].rescue == b.sections[i].rescue);
    CHECK(a.sections[i].retry == b.sections[i].retry);
  }
}

TEST_CASE("a graph is read as it was written") {
  World world;
  CHECK(world.graph->spawns.size() == 2);
  CHECK(world.graph->groups.size() >= 2);
  CHECK_FALSE(world.graph->limits.empty());
  CHECK(world.graph->sections.size() == 2);
  Instance instance = world.Make("i");
  SUBCASE("its own") {}
  SUBCASE("shared") { instance.plan->graph = "p@1.4"; }
  CHECK(rows::GetGraph({world.store, kPartition}, instance).error().code == Code::kDataLoss);
  Batch batch;
  rows::PutGraph({batch, kPartition}, instance, rows::GraphRow(*world.graph));
  world.Write(batch);
  auto read = rows::GetGraph({world.store, kPartition}, instance);
  REQUIRE(read);
  Same(*world.graph, *read);
  Machine named;
  named.id = "p";
  const Machine again =
      Assemble(std::make_shared<const PlanGraph>(*std::move(read)), std::move(named));
  REQUIRE(again.nodes.size() == world.machine.nodes.size());
  for (size_t i = 0; i < again.nodes.size(); ++i) {
    CHECK(again.nodes[i].id == world.machine.nodes[i].id);
  }
}

TEST_CASE("a graph that refers to what is not there is damaged") {
  World world;
  PlanGraph graph = *world.graph;
  constexpr uint32_t kNowhere = 1'000;
  SUBCASE("the action of a step") { graph.steps.front().action = kNowhere; }
  SUBCASE("a reader of a step") { graph.steps.front().readers.push_back(kNowhere); }
  SUBCASE("a group of a step") { graph.steps.front().groups.push_back(kNowhere); }
  SUBCASE("a member of a group") { graph.groups.front().members.front().index = kNowhere; }
  SUBCASE("a reader of a group") { graph.groups.front().readers.push_back(kNowhere); }
  SUBCASE("a group of a group") { graph.groups.front().groups.push_back(kNowhere); }
  SUBCASE("the step of a place") { graph.places.front().step = kNowhere; }
  SUBCASE("what follows a place") { graph.places.front().next.push_back(kNowhere); }
  SUBCASE("what a step spawns") { graph.spawns.erase(graph.spawns.begin()); }
  SUBCASE("the step that spawns") { graph.spawns[kNowhere] = {}; }
  SUBCASE("a kind of step") { graph.steps.front().kind = static_cast<Step::Kind>(9); }
  SUBCASE("the end of a section") { graph.sections.front().end = kNowhere; }
  SUBCASE("a section beyond the one around it") { --graph.sections.front().end; }
  SUBCASE("what a section compensates") { graph.sections.back().outer = kNoSection; }
  SUBCASE("the compensation of a section") { graph.sections.front().compensation = 0; }
  SUBCASE("intervals of a poll") { graph.actions.front().poll.emplace(); }
  Instance instance = world.Make("i");
  Batch batch;
  rows::PutGraph({batch, kPartition}, instance, rows::GraphRow(graph));
  world.Write(batch);
  const auto read = rows::GetGraph({world.store, kPartition}, instance);
  REQUIRE_FALSE(read);
  CHECK(read.error().code == Code::kDataLoss);
}

TEST_CASE("tokens of a plan are rows of their own, read with their instance") {
  World world;
  Instance instance = world.Make("i");
  instance.tokens.Add(world.Full("one", 3));
  instance.tokens.Add(world.Full("nested.i/suspended", 4));
  Token bare;
  bare.node = world.machine.Find("each.1/error");
  bare.home = world.Home("each.1");
  bare.visit = 5;
  bare.state = TokenState::kHeld;
  bare.available_at = kNever;
  bare.step = StepState();
  instance.tokens.Add(bare);
  const NodeIndex sum = world.Home("sum");
  CHECK(instance.tokens.Arrive(sum) == 1);
  CHECK(instance.tokens.Arrive(sum) == 2);
  instance.tokens.Doom(world.Home("t"));
  instance.plan->label = "l";
  instance.limits = InstanceLimits{
      .asks = {{.key = "schedule:s", .on_conflict = OnConflict::kLatest, .waiting = 2}},
      .on_conflict = OnConflict::kFail,
      .force = true,
      .state = InstanceLimits::State::kWaits,
      .keys = {{"k", {}}, {"l", {.max = 0, .rate = {}}}},
      .order = 5,
      .since = FromMicros(9)};
  instance.state = InstanceState::kPaused;
  instance.waits = {Wait::kLimit, Wait::kPause};
  instance.plan->skipped = true;
  instance.plan->done_weight = 4;
  instance.plan->done_finalize = 1;
  instance.plan->partial = 0.5;
  instance.plan->weight = 9;
  instance.parent = "parent";
  instance.parent_step = ParentStep{7, 8};
  world.Put(&instance);
  CHECK(instance.tokens.dirty().empty());
  const Instance read = world.Get("i");
  CHECK(read.plan == instance.plan);
  CHECK(read.waits == instance.waits);
  CHECK(read.limits == instance.limits);
  CHECK(read.parent_step == instance.parent_step);
  CHECK(read.tokens.touched().empty());
  for (const Token& token : std::as_const(instance.tokens)) {
    const Token* same = read.tokens.Find(token.visit);
    REQUIRE(same);
    CHECK(*same == token);
  }
  CHECK(read.tokens.size() == 3);
  CHECK(read.tokens.arrived() == instance.tokens.arrived());
  CHECK(read.tokens.Doomed(world.Home("t")));
  CHECK_FALSE(read.tokens.Doomed(world.Home("s")));
  CHECK(read.tokens.Count(TokenState::kClaimed) == 2);
  CHECK(read.tokens.Count(TokenState::kHeld) == 1);
}

TEST_CASE("only the steps that changed are written, and how they ended is kept") {
  World world;
  Instance instance = world.Make("i");
  instance.tokens.Add(world.Full("one", 3));
  instance.tokens.Add(world.Full("each.0", 4));
  world.Put(&instance);
  CHECK(world.Steps("i").size() == 2);
  instance.tokens.Remove(*instance.tokens.SlotOf(3));
  instance.tokens.End(world.Home("one"), {true, 3, kNoon, kNoon + 1s});
  Batch batch;
  rows::Note(rows::PutInstance({batch, kPartition}, instance, world.machine, {}), &instance);
  CHECK(batch.operations().size() == 2);  // the instance and that step
  world.Write(batch);
  for (const rows::StepRow& row : world.Steps("i")) {
    if (row.home != world.Home("one")) {
      CHECK(row.token);
      CHECK(row.node == "each.0");
      continue;
    }
    CHECK_FALSE(row.token);
    REQUIRE(row.ended);
    CHECK(*row.ended == Ended{true, 3, kNoon, kNoon + 1s});
  }
  CHECK(world.Get("i").tokens.size() == 1);

  // Stopped, it stands on one node, and its steps are what they were.
  instance.tokens.Clear();
  instance.state = InstanceState::kStopped;
  instance.result = InstanceResult::kError;
  instance.plan->ended_at = "each.0/error";
  Token done;
  done.node = kElsewhere;
  done.visit = 9;
  done.state = TokenState::kDone;
  instance.tokens.Add(done);
  world.Put(&instance, {.expiry = kNoon});
  const Instance read = world.Get("i");
  CHECK(read.tokens.size() == 1);
  CHECK(read.tokens.front().node == kElsewhere);
  CHECK(read.plan->ended_at == "each.0/error");
  const auto steps = world.Steps("i");
  CHECK(std::ranges::count_if(steps, [](const auto& row) { return row.token.has_value(); }) == 1);
}

TEST_CASE("rows of steps that are kept as stored are decoded as others are") {
  World world;
  Instance instance = world.Make("i");
  instance.tokens.Add(world.Full("one", 3));
  instance.tokens.Add(world.Full("each.0", 4));
  instance.tokens.End(world.Home("each.1"), {true, 3, kNoon, kNoon + 1s});
  world.Put(&instance);
  const rows::Reader reader{world.store, kPartition};
  auto all = rows::StepRows::Read(reader, instance);
  REQUIRE(all);
  const auto steps = world.Steps("i");
  REQUIRE(steps.size() == 3);
  for (const rows::StepRow& step : steps) {
    auto row = all->At(step.home);
    REQUIRE(row);
    REQUIRE(*row);
    CHECK((*row)->home == step.home);
    CHECK((*row)->token == step.token);
    CHECK((*row)->ended == step.ended);
    CHECK((*row)->node == step.node);
  }
  CHECK_FALSE(*all->At(world.Home("each.2")));
  CHECK_FALSE(*all->At(kNoNode));

  const NodeIndex one = world.Home("one");
  auto wanted = rows::StepRows::Read(reader, instance, [one](NodeIndex at) { return at == one; });
  REQUIRE(wanted);
  CHECK(*wanted->At(one));
  CHECK_FALSE(*wanted->At(world.Home("each.0")));

  // A damaged row is told by its own key, and spoils no other.
  std::string key;
  REQUIRE(world.store.Scan("", "", [&](std::string_view at, std::string_view value) {
    if (value.find("each.0") != std::string_view::npos) key = at;
    return true;
  }));
  Batch batch;
  batch.Put(key, "damaged");
  world.Write(batch);
  auto damaged = rows::StepRows::Read(reader, instance);
  REQUIRE(damaged);
  CHECK(*damaged->At(one));
  const auto row = damaged->At(world.Home("each.0"));
  REQUIRE_FALSE(row);
  CHECK(row.error() == rows::GetStep(reader, instance, world.Home("each.0")).error());
}

TEST_CASE("joins and dooms that are over are written, too") {
  World world;
  Instance instance = world.Make("i");
  const NodeIndex sum = world.Home("sum");
  instance.tokens.Arrive(sum);
  world.Put(&instance);
  instance.tokens.Open(sum);
  instance.tokens.Add(world.Full("sum", 3));
  world.Put(&instance);
  const Instance read = world.Get("i");
  CHECK(read.tokens.arrived().empty());
  CHECK(read.tokens.size() == 1);
}

TEST_CASE("how a section stands is read as it was written, and what is reset leaves no row") {
  World world;
  Instance instance = world.Make("i");
  const NodeIndex in = world.Home("sec.in");
  const NodeIndex exit = world.machine.sections.front().exit;
  Keepsake& kept = instance.tokens.Keep(exit);
  kept.led = {{kNoSection, 2}, {0, 1}};
  kept.led_from = {1, 2};
  kept.doomed_in = 0;
  kept.next_child = 7;
  kept.section = SectionState{.phase = SectionState::Phase::kCompensates,
                              .then = SectionState::Then::kHeld,
                              .tries = 2,
                              .swept = true,
                              .error = "step sec.in: no room",
                              .done = 1.5,
                              .warned = true,
                              .skipped = {3, 4}};
  instance.tokens.Keep(in).next_child = 1;
  instance.tokens.End(in, {});
  instance.tokens.Settle(in).outcome = StepOutcome::kSucceeded;
  world.Put(&instance);
  CHECK(world.Get("i").tokens == instance.tokens);
  instance.tokens.Reset(in);
  world.Put(&instance);
  CHECK(world.Get("i").tokens == instance.tokens);
  CHECK_FALSE(world.Get("i").tokens.SettlingOf(in));
}

TEST_CASE("what a worker asked to be started is read as it was written") {
  World world;
  const Instance instance = world.Make("i");
  rows::ChildStart full{
      .machine = "m",
      .version = 2,
      .id = "c",
      .priority = -3,
      .spec = {.params = R"({"a":1})", .labels = {{"l", "v"}}, .client = "", .flow = "[]"},
      .start_at = kNoon,
      .start_before = kNoon + 1s,
      .hold = true,
      .after = {{"x", true}, {"y", false}}};
  Batch batch;
  rows::PutStarts({batch, kPartition}, instance, 5, {full, {.machine = "n"}});
  rows::PutStarts({batch, kPartition}, instance, 6, {});
  world.Write(batch);
  auto read = rows::GetStarts({world.store, kPartition}, {"ns", "i"}, 5);
  REQUIRE(read);
  REQUIRE(read->size() == 2);
  const rows::ChildStart& one = read->front();
  CHECK(one.machine == "m");
  CHECK(one.version == 2);
  CHECK(one.id == "c");
  CHECK(one.priority == -3);
  CHECK(one.spec == full.spec);
  CHECK(one.start_at == full.start_at);
  CHECK(one.start_before == full.start_before);
  CHECK(one.hold);
  CHECK(one.after == full.after);
  CHECK(read->back().start_before == kNever);
  CHECK(read->back().start_at == Timestamp());
  CHECK(rows::GetStarts({world.store, kPartition}, {"ns", "i"}, 6)->empty());
  CHECK(rows::GetStarts({world.store, kPartition}, {"ns", "i"}, 7).error().code == Code::kDataLoss);
}

TEST_CASE("starts that wait for a resume come back as they were kept") {
  rows::KeptStart full;
  full.machine = "p.m";
  full.id = "c";
  full.spec = {.params = R"({"a":1})", .labels = {{"l", "v"}}, .client = "", .flow = "[]"};
  full.spec.dry_answers = {{"a", "ok"}};
  full.start_before = kNoon + 1s;
  full.after = {{"x", true}};
  full.ns = "other";
  full.package_version = "1.2.0";
  full.group = "g";
  full.wait_after_fail = Duration(0);
  full.on_conflict = OnConflict::kReplace;
  full.force = full.dry_run = true;
  auto read = rows::DecodeStarts(rows::EncodeStarts({full, {}}));
  REQUIRE(read);
  REQUIRE(read->size() == 2);
  const rows::KeptStart& one = read->front();
  CHECK(one.machine == "p.m");
  CHECK(one.id == "c");
  CHECK(one.spec == full.spec);
  CHECK(one.start_before == full.start_before);
  CHECK(one.after == full.after);
  CHECK(one.ns == "other");
  CHECK(one.package_version == "1.2.0");
  CHECK(one.group == "g");
  CHECK(one.wait_after_fail == Duration(0));
  CHECK(one.on_conflict == OnConflict::kReplace);
  CHECK(one.force);
  CHECK(one.dry_run);
  CHECK(!read->back().wait_after_fail);
  CHECK(!read->back().on_conflict);
  CHECK(read->back().start_before == kNever);
  CHECK(rows::EncodeStarts({}).empty());
  CHECK(rows::DecodeStarts("")->empty());
  CHECK(rows::DecodeStarts("\xff").error().code == Code::kDataLoss);
}

TEST_CASE("what planners said is read by step") {
  World world;
  const Instance instance = world.Make("i");
  Batch batch;
  rows::PutPlanned({batch, kPartition}, instance, "b", "[]");
  rows::PutPlanned({batch, kPartition}, instance, "b.x", "[{step: a, action: y}]");
  rows::PutPlanned({batch, kPartition}, world.Make("ii"), "other", "[]");
  world.Write(batch);
  auto read = rows::GetPlanned({world.store, kPartition}, {"ns", "i"});
  REQUIRE(read);
  CHECK(*read ==
        std::map<std::string, std::string>{{"b", "[]"}, {"b.x", "[{step: a, action: y}]"}});
  CHECK(rows::GetPlanned({world.store, kPartition}, {"ns", "none"})->empty());
}

// Two instances with all that a plan may have, whose ids are alike.
void PutAll(World& world, Instance* instance) {
  instance->tokens.Add(world.Full("one", 3));
  instance->tokens.Arrive(world.Home("sum"));
  instance->tokens.End(world.Home("left"), {});
  Batch batch;
  Spec spec;
  spec.labels = {{"l", "v"}};
  rows::Note(rows::PutInstance({batch, kPartition}, *instance, world.machine,
                               {.spec = &spec, .has_outputs = true}),
             instance);
  rows::PutOutput({batch, kPartition}, *instance, "one", "{}");
  rows::PutGraph({batch, kPartition}, *instance, rows::GraphRow(*world.graph));
  rows::PutStarts({batch, kPartition}, *instance, 5, {});
  rows::PutPlanned({batch, kPartition}, *instance, "b", "[]");
  world.Write(batch);
  world.Put(instance);
}

TEST_CASE("a plan that is dropped leaves only its instance behind") {
  World world;
  Instance instance = world.Make("i");
  Instance other = world.Make("ii");
  Instance child = world.Make("i/s/0");
  PutAll(world, &other);
  PutAll(world, &child);
  const size_t others = world.KeysOf("ii") + world.KeysOf("i/s/0");
  Instance plain = world.Make("i");
  plain.plan.reset();
  Batch bare;
  Spec spec;
  spec.labels = {{"l", "v"}};
  rows::PutInstance({bare, kPartition}, plain, world.machine, {.spec = &spec});
  world.Write(bare);
  const size_t least = world.KeysOf("i");
  PutAll(world, &instance);
  CHECK(world.KeysOf("i") > least);
  Batch batch;
  rows::DropPlan({batch, kPartition}, instance);
  world.Write(batch);
  CHECK(world.KeysOf("i") == least);
  CHECK(world.Steps("i").empty());
  CHECK(rows::GetOutputs({world.store, kPartition}, {"ns", "i"})->empty());
  CHECK(world.KeysOf("ii") + world.KeysOf("i/s/0") == others);
  REQUIRE(rows::GetGraph({world.store, kPartition}, other));
}

TEST_CASE("an instance that is dropped leaves nothing behind") {
  World world;
  Instance instance = world.Make("i");
  instance.parent = "parent";
  Instance other = world.Make("ii");
  Instance child = world.Make("i/s/0");
  PutAll(world, &other);
  PutAll(world, &child);
  const size_t others = world.KeysOf("ii") + world.KeysOf("i/s/0");
  PutAll(world, &instance);
  instance.state = InstanceState::kStopped;
  world.Put(&instance, {.expiry = kNoon});
  Batch batch;
  REQUIRE(rows::DropInstance({world.store, kPartition}, {batch, kPartition}, instance, 1, kNoon));
  world.Write(batch);
  CHECK(world.KeysOf("i") == 0);
  CHECK(world.KeysOf("ii") + world.KeysOf("i/s/0") == others);
}

TEST_CASE("an instance that is revived has no row among the stopped, and does not expire") {
  World world;
  Instance instance = world.Make("i");
  instance.state = InstanceState::kStopped;
  world.Put(&instance, {.expiry = kNoon});
  Batch batch;
  rows::Revive({batch, kPartition}, instance, kNoon);
  instance.state = InstanceState::kPlanning;
  rows::Note(rows::PutInstance({batch, kPartition}, instance, world.machine, {}), &instance);
  world.Write(batch);
  CHECK(world.Get("i").state == InstanceState::kPlanning);
  CHECK(rows::ScanExpired({world.store, kPartition}, {}, kNoon + 1h, 10)->empty());
  CHECK(world.KeysOf("i") == 1);
}

}  // namespace
}  // namespace dfsmr
