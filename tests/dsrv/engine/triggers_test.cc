// Triggers in an engine: what their sources bring, and what they make of it.
#include "dsrv/engine/triggers.h"

#include <doctest/doctest.h>

#include <set>

#include "dsrv/engine/documents.h"
#include "dsrv/engine/occurrences.h"
#include "fsm/base/json.h"
#include "storage/rows/occurrence.h"
#include "tests/dsrv/engine/world.h"

namespace dfsmr {
namespace {

constexpr const char* kBuild = R"(
id: build
nodes:
  work: {start: true, transitions: {ok: done, bad: broken}}
  done: {final: true, result: success}
  broken: {final: true, result: error}
---
id: deploy
nodes:
  work: {start: true, transitions: {ok: done, bad: broken}}
  done: {final: true, result: success}
  broken: {final: true, result: error}
)";

Result<std::vector<Defined>> TryDefineAll(Engine& engine, std::string_view yaml) {
  Parsed parsed = ParseDefinitions(yaml, "test");
  std::string problems;
  for (const Diagnostic& diagnostic : parsed.diagnostics) problems += Format(diagnostic) + "\n";
  REQUIRE_MESSAGE(parsed.ok(), problems);
  std::vector<DefineProblem> found;
  return DefineAtOnce(engine, "ns", {std::move(parsed.definitions), std::move(parsed.documents)},
                      false, &found);
}

void DefineAll(World& world, std::string_view yaml) {
  auto defined = world.Do([&](Engine& e) { return TryDefineAll(e, yaml); });
  REQUIRE_MESSAGE(defined, (defined ? "" : defined.error().message));
}

TriggerView ViewOf(World& world, const std::string& name) {
  auto view = world.Do([&](Engine& e) { return e.triggers().Get("ns", name, 0); });
  REQUIRE_MESSAGE(view, (view ? "" : view.error().message));
  return *view;
}

// Oldest first.
std::vector<Occurrence> OccurrencesOf(World& world, const std::string& name) {
  std::vector<Occurrence> all;
  REQUIRE(rows::ScanOccurrences({world.store(), world.partition()},
                                {"ns", DocumentKind::kTrigger, name}, UINT64_MAX,
                                [&](Occurrence one) {
                                  all.insert(all.begin(), std::move(one));
                                  return true;
                                }));
  return all;
}

std::vector<std::string> InstancesOf(World& world, const std::string& machine) {
  std::vector<std::string> ids;
  REQUIRE(rows::ScanMachine({world.store(), world.partition()}, {"ns", ""}, machine,
                            [&](std::string_view id) {
                              ids.emplace_back(id);
                              return true;
                            }));
  return ids;
}

std::string ParamsOf(World& world, const std::string& id) {
  auto spec = rows::GetSpec({world.store(), world.partition()}, {"ns", id});
  REQUIRE(spec);
  return spec->params;
}

Result<Occurrence> Fire(World& world, const std::string& name, const std::string& item,
                        const std::string& on = "") {
  auto fired = world.Do([&](Engine& e) { return e.triggers().Fire("ns", name, on, item); });
  world.Drain();
  return fired;
}
Occurrence MustFire(World& world, const std::string& name, const std::string& item,
                    const std::string& on = "") {
  auto fired = Fire(world, name, item, on);
  REQUIRE_MESSAGE(fired, (fired ? "" : fired.error().message));
  return *fired;
}

void Pause(World& world, const std::string& name) {
  REQUIRE(world.Do([&](Engine& e) { return e.triggers().Pause("ns", name, "note", "me"); }));
}
void Resume(World& world, const std::string& name, bool skip = false) {
  REQUIRE(world.Do([&](Engine& e) { return e.triggers().Resume("ns", name, skip); }));
  world.Drain();
}

void Run(World& world, const std::string& machine, const std::string& id,
         const std::string& params = "{}", const std::string& transition = "ok",
         std::map<std::string, std::string> labels = {}) {
  StartArgs args{.machine = machine, .id = id};
  args.spec.params = params;
  args.spec.labels = std::move(labels);
  REQUIRE(world.TryStart(std::move(args)));
  REQUIRE(world.Move(id, transition));
  world.Drain();
}

constexpr const char* kDeployAfter = R"(
trigger: after
on: {change: {kind: finished, machine: build, result: success, labels: {branch: main}}}
if: {value: "${item.instance.params.env}", in: [test, prod]}
start: {machine: deploy, params: {commit: "${item.instance.params.commit}", n: "${trigger.number}"}}
)";

TEST_CASE("a change of the feed starts an instance in its own commit or the next") {
  World world;
  DefineAll(world, kBuild);
  Run(world, "build", "early", R"({"env":"prod","commit":"a"})", "ok", {{"branch", "main"}});
  DefineAll(world, kDeployAfter);
  Run(world, "build", "b1", R"({"env":"prod","commit":"b"})", "ok", {{"branch", "main"}});
  Run(world, "build", "b2", R"({"env":"prod","commit":"c"})", "ok", {{"branch", "dev"}});
  Run(world, "build", "b3", R"({"env":"prod","commit":"d"})", "bad", {{"branch", "main"}});
  Run(world, "build", "b4", R"({"env":"home","commit":"e"})", "ok", {{"branch", "main"}});
  Run(world, "build", "b5", R"({"commit":"f"})", "ok", {{"branch", "main"}});
  Run(world, "build", "b6", R"({"env":"test","commit":"g"})", "ok", {{"branch", "main"}});
  CHECK(InstancesOf(world, "deploy") == std::vector<std::string>{"after-1", "after-2"});
  CHECK(ParamsOf(world, "after-1") == R"({"commit":"b","n":1})");
  CHECK(ParamsOf(world, "after-2") == R"({"commit":"g","n":2})");
  const Instance started = world.Must("after-1");
  REQUIRE(started.provenance);
  CHECK(started.provenance->cause == "trigger:after");
  CHECK(started.provenance->depth == 1);
  const TriggerView view = ViewOf(world, "after");
  CHECK(view.row.filtered == 2);
  CHECK(view.lag == 0);
  CHECK(view.counts.running == 2);
  REQUIRE(view.last);
  CHECK(view.last->instance == "after-2");
  CHECK(json::Member(view.last->item, "kind") == "\"FINISHED\"");
}

TEST_CASE("from: oldest looks at what was there, everything else from its definition on") {
  World world;
  DefineAll(world, kBuild);
  for (int i = 0; i < 700; ++i) Run(world, "build", "b" + std::to_string(i));
  DefineAll(world, R"(
trigger: all
on: {change: {kind: finished, machine: build, from: oldest}}
start: {machine: deploy, id: "d-${item.instance.id}"}
---
trigger: new
on: {change: {kind: finished, machine: build}}
start: {machine: deploy, id: "n-${item.instance.id}"}
)");
  world.Drain();
  CHECK(ViewOf(world, "all").lag == 0);
  CHECK(ViewOf(world, "all").last->id == "700");
  CHECK_FALSE(ViewOf(world, "new").last);
  const auto all = OccurrencesOf(world, "all");
  REQUIRE(all.size() == 700);
  for (size_t i = 0; i < all.size(); ++i) CHECK(all[i].instance == "d-b" + std::to_string(i));
  Run(world, "build", "last");
  CHECK(ViewOf(world, "new").last->instance == "n-last");
}

// The feed says which builds have finished, in order; each has to be deployed once, in that order.
void CheckEachOnce(World& world, const std::string& trigger) {
  std::vector<std::string> finished;
  for (const Event& event : world.Feed()) {
    if (event.kind == ChangeKind::kFinished && event.machine == "build") {
      finished.push_back("d-" + event.instance);
    }
  }
  std::vector<std::string> deployed;
  for (const Occurrence& one : OccurrencesOf(world, trigger)) {
    CHECK(one.outcome == OccurrenceOutcome::kStarted);
    deployed.push_back(one.instance);
  }
  CHECK(deployed == finished);
}

TEST_CASE("each change is taken once and in order, whatever commit is the last before a crash") {
  for (int last = 0; last < 40; ++last) {
    CAPTURE(last);
    World world;
    DefineAll(world, kBuild);
    DefineAll(world, R"(
trigger: t
on: {change: {kind: finished, machine: build}}
start: {machine: deploy, id: "d-${item.instance.id}"}
)");
    int turn = 0;
    for (int i = 0; i < 12; ++i) {
      const std::string id = "b" + std::to_string(i);
      world.Decide([&](Engine& e) { (void)e.Start({.ns = "ns", .machine = "build", .id = id}); });
      if (++turn == last) world.Crash();
      world.Decide([&](Engine& e) { (void)e.Report("ns", id, {.transition = "ok"}); });
      if (++turn == last) world.Crash();
      if (i % 3 == 2) world.Decide();
      if (++turn == last) world.Crash();
    }
    world.Commit();
    world.Drain();
    CheckEachOnce(world, "t");
  }
}

TEST_CASE("a paused trigger stands still, and goes on from there or from now") {
  World world;
  DefineAll(world, kBuild);
  DefineAll(world, R"(
trigger: t
on: {change: {kind: finished, machine: build}}
start: {machine: deploy, id: "d-${item.instance.id}"}
)");
  Pause(world, "t");
  Run(world, "build", "a");
  Run(world, "build", "b");
  CHECK(InstancesOf(world, "deploy").empty());
  CHECK(ViewOf(world, "t").lag > 4);
  CHECK(ViewOf(world, "t").row.note == "note");
  world.Crash();
  CHECK(ViewOf(world, "t").row.paused);
  Resume(world, "t");
  CHECK(InstancesOf(world, "deploy") == std::vector<std::string>{"d-a", "d-b"});
  Pause(world, "t");
  Run(world, "build", "c");
  Resume(world, "t", /*skip=*/true);
  Run(world, "build", "e");
  CHECK(InstancesOf(world, "deploy") == std::vector<std::string>{"d-a", "d-b", "d-e"});
}

TEST_CASE("a new version goes on where the last one was, a new definition begins anew") {
  World world;
  DefineAll(world, kBuild);
  constexpr const char* kOne = R"(
trigger: t
on: {change: {kind: finished, machine: build}}
start: {machine: deploy, id: "d-${item.instance.id}"}
)";
  DefineAll(world, kOne);
  Run(world, "build", "a");
  Pause(world, "t");
  Run(world, "build", "b");
  DefineAll(world, R"(
trigger: t
on: {change: {kind: finished, machine: build}}
start: {machine: deploy, id: "e-${item.instance.id}"}
)");
  CHECK(ViewOf(world, "t").row.paused);
  Resume(world, "t");
  CHECK(InstancesOf(world, "deploy") == std::vector<std::string>{"d-a", "e-b"});
  REQUIRE(world.Do([](Engine& e) {
    return e.documents().Delete({"ns", DocumentKind::kTrigger, "t"}, "me");
  }));
  Run(world, "build", "c");
  CHECK_FALSE(world.Do([](Engine& e) { return e.triggers().Get("ns", "t", 0); }));
  world.Crash();
  DefineAll(world, kOne);
  Run(world, "build", "d");
  CHECK(InstancesOf(world, "deploy") == std::vector<std::string>{"d-a", "d-d", "e-b"});
  CHECK(OccurrencesOf(world, "t").back().id == "3");
}

TEST_CASE("what cannot be started is a dead letter, which can be tried again") {
  World world;
  DefineAll(world, kBuild);
  DefineAll(world, R"(
trigger: t
on: {change: {kind: finished, machine: build}}
start: {machine: deploy, params: {commit: "${item.instance.params.commit}"}}
)");
  Run(world, "build", "a");
  Run(world, "build", "b", R"({"commit":"x"})");
  auto all = OccurrencesOf(world, "t");
  REQUIRE(all.size() == 2);
  CHECK(all[0].outcome == OccurrenceOutcome::kFailed);
  CHECK(all[0].error.find("commit") != std::string::npos);
  CHECK(all[1].outcome == OccurrenceOutcome::kStarted);
  CHECK(ViewOf(world, "t").occurrences.failed == 1);
  DefineAll(world, R"(
trigger: t
on: {change: {kind: finished, machine: build}}
start: {machine: deploy, params: {commit: "${item.instance.params.commit}"}, priority: 1}
stop_on_fail: 2
)");
  auto failing = world.Do([](Engine& e) { return e.triggers().Retry("ns", "t", "1"); });
  REQUIRE(failing);
  CHECK(failing->outcome == OccurrenceOutcome::kFailed);
  CHECK(ViewOf(world, "t").row.failures == 1);  // the same as before
  CHECK_FALSE(ViewOf(world, "t").row.paused);
  DefineAll(world, R"(
trigger: t
on: {change: {kind: finished, machine: build}}
start: {machine: deploy, params: {id: "${item.instance.id}"}}
)");
  auto retried = world.Do([](Engine& e) { return e.triggers().Retry("ns", "t", "1"); });
  REQUIRE(retried);
  CHECK(retried->outcome == OccurrenceOutcome::kStarted);
  CHECK(retried->tries == 3);
  CHECK(ParamsOf(world, "t-1") == R"({"id":"a"})");
  CHECK_FALSE(world.Do([](Engine& e) { return e.triggers().Retry("ns", "t", "1"); }));
  CHECK(ViewOf(world, "t").occurrences.failed == 0);
}

TEST_CASE("triggers that start one another end at a depth of 16") {
  World world;
  DefineAll(world, R"(
id: loop
nodes:
  only: {start: true, final: true}
)");
  DefineAll(world, R"(
trigger: t
on: {change: {kind: finished, machine: loop}}
start: {machine: loop}
---
trigger: echo
on: {change: {kind: occurred, cause: trigger:echo}}
start: {machine: loop}
)");
  REQUIRE(world.TryStart({.machine = "loop", .id = "first"}));
  CHECK(world.Drain() < 500);
  auto all = OccurrencesOf(world, "t");
  REQUIRE(all.size() == 17);
  for (size_t i = 0; i < 16; ++i) {
    CHECK(all[i].outcome == OccurrenceOutcome::kStarted);
    CHECK(world.Must(all[i].instance).provenance->depth == i + 1);
  }
  CHECK(all.back().outcome == OccurrenceOutcome::kFailed);
  MustFire(world, "echo", "{}");
  CHECK(world.Drain() < 500);
  all = OccurrencesOf(world, "echo");
  REQUIRE(all.size() == 18);
  CHECK(all.back().outcome == OccurrenceOutcome::kFailed);
}

TEST_CASE("a transition can be sent") {
  World world;
  DefineAll(world, kBuild);
  DefineAll(world, R"(
trigger: t
on: {change: {kind: finished, machine: build}}
send: {instance: "${item.instance.params.tell}", transition: ok}
)");
  world.Start("deploy", "d");
  Run(world, "build", "a", R"({"tell":"d"})");
  Run(world, "build", "b", R"({"tell":"d"})");
  CHECK(world.Must("d").Stopped());
  const auto all = OccurrencesOf(world, "t");
  REQUIRE(all.size() == 2);
  CHECK(all[0].outcome == OccurrenceOutcome::kSent);
  CHECK(all[0].instance == "d");
  CHECK(all[1].outcome == OccurrenceOutcome::kFailed);
}

TEST_CASE("an item whose text came within the time is dropped") {
  World world;
  DefineAll(world, kBuild);
  DefineAll(world, R"(
trigger: hook
on: {webhook: {path: a/b, open: true}}
dedupe: {key: "${item.id}", for: 1h}
start: {machine: deploy, params: "${item}"}
)");
  CHECK(MustFire(world, "hook", R"({"id":1})").outcome == OccurrenceOutcome::kStarted);
  world.Elapse(59min);
  CHECK(MustFire(world, "hook", R"({"id":1})").outcome == OccurrenceOutcome::kDuplicate);
  CHECK(MustFire(world, "hook", R"({"id":2})").outcome == OccurrenceOutcome::kStarted);
  world.Crash();
  world.Elapse(2min);
  // A duplicate does not renew it.
  CHECK(MustFire(world, "hook", R"({"id":1})").outcome == OccurrenceOutcome::kStarted);
  CHECK(MustFire(world, "hook", R"({"id":2})").outcome == OccurrenceOutcome::kDuplicate);
  CHECK(ViewOf(world, "hook").row.duplicates == 2);
  CHECK(MustFire(world, "hook", R"({})").outcome == OccurrenceOutcome::kFailed);
  world.Elapse(3h);
  for (int i = 10; i < 14; ++i) MustFire(world, "hook", "{\"id\":" + std::to_string(i) + "}");
  CHECK(world.RowsOf('\x20').size() == 8);  // two for each that counts; the rest is gone
}

constexpr const char* kMonth = R"(
trigger: month
on:
  orders: {change: {kind: finished, machine: build, result: success}}
  stock: {change: {kind: finished, machine: deploy, result: success}}
gather: {all: true, by: "${item.instance.params.month}", within: 2d}
start:
  machine: close
  id: "close-${trigger.key}"
  params: {orders: "${last.orders.instance.id}", stock: "${last.stock.instance.id}", on: "${trigger.on}"}
---
id: close
nodes:
  work: {start: true, transitions: {ok: done}}
  done: {final: true}
)";

TEST_CASE("a gathering waits for each of its sources, for each text alone") {
  World world;
  DefineAll(world, kBuild);
  DefineAll(world, kMonth);
  Run(world, "build", "o1", R"({"month":"jan"})");
  Run(world, "build", "o2", R"({"month":"feb"})");
  Run(world, "build", "o3", R"({"month":"jan"})");
  CHECK(ViewOf(world, "month").open_gatherings == 2);
  CHECK(ViewOf(world, "month").row.gathered == 3);
  world.Crash();
  CHECK(ViewOf(world, "month").open_gatherings == 2);
  Run(world, "deploy", "s1", R"({"month":"jan"})");
  CHECK(InstancesOf(world, "close") == std::vector<std::string>{"close-jan"});
  CHECK(ParamsOf(world, "close-jan") == R"({"orders":"o3","stock":"s1","on":"stock"})");
  CHECK(OccurrencesOf(world, "month")[0].count == 3);
  world.Elapse(48h);
  CHECK(ViewOf(world, "month").open_gatherings == 0);
  const auto all = OccurrencesOf(world, "month");
  REQUIRE(all.size() == 2);
  CHECK(all[1].outcome == OccurrenceOutcome::kExpired);
  CHECK(all[1].error.find("stock") != std::string::npos);
  CHECK(world.RowsOf('\x1e').empty());
  CHECK(world.RowsOf('\x1f').empty());
}

TEST_CASE("a gathering ends by its number, by rest, by time, and by its size") {
  World world;
  DefineAll(world, kBuild);
  DefineAll(world, R"(
trigger: g
on: {webhook: {path: g, open: true}}
gather: {count: 3, quiet: 1m, within: 5m}
start: {machine: deploy, params: {items: "${items}", first: "${items[0]}", last: "${item.n}"}}
)");
  auto put = [&](int n) { return MustFire(world, "g", "{\"n\":" + std::to_string(n) + "}"); };
  CHECK(put(1).outcome == OccurrenceOutcome::kGathered);
  CHECK(put(2).outcome == OccurrenceOutcome::kGathered);
  const Occurrence full = put(3);
  CHECK(full.outcome == OccurrenceOutcome::kStarted);
  CHECK(full.count == 3);
  CHECK(ParamsOf(world, "g-1") ==
        R"({"items":[{"n":1},{"n":2},{"n":3}],"first":{"n":1},"last":3})");
  put(4);
  world.Elapse(50s);
  CHECK(OccurrencesOf(world, "g").size() == 1);
  world.Elapse(10s);
  CHECK(OccurrencesOf(world, "g").size() == 2);  // quiet
  DefineAll(world, R"(
trigger: g
on: {webhook: {path: g, open: true}}
gather: {quiet: 1m, within: 5m}
start: {machine: deploy, params: {items: "${items}"}}
)");
  for (int i = 0; i < 8; ++i) {
    put(i);
    world.Elapse(40s);
  }
  const auto all = OccurrencesOf(world, "g");
  REQUIRE(all.size() == 3);  // within
  CHECK(all[2].count == 8);
  for (int i = 0; i < 999; ++i) {
    CHECK(put(i).outcome == OccurrenceOutcome::kGathered);
    if (i == 500) Pause(world, "g");
    if (i == 600) Resume(world, "g");
  }
  CHECK(put(999).count == 1'000);
}

TEST_CASE("a gathering ends before its items are more than params may be") {
  World world;
  DefineAll(world, kBuild);
  DefineAll(world, R"(
trigger: g
on: {webhook: {path: g, open: true}}
gather: {within: 5m}
start: {machine: deploy, params: {items: "${items}"}}
)");
  const std::string large = "{\"x\":\"" + std::string(400'000, 'x') + "\"}";
  for (int i = 0; i < 3; ++i) {
    CHECK(MustFire(world, "g", large).outcome == OccurrenceOutcome::kGathered);
  }
  auto all = OccurrencesOf(world, "g");
  REQUIRE(all.size() == 1);  // the third is the first of the next
  CHECK(all[0].outcome == OccurrenceOutcome::kStarted);
  CHECK(all[0].count == 2);
  world.Elapse(5min);
  all = OccurrencesOf(world, "g");
  REQUIRE(all.size() == 2);
  CHECK(all[1].count == 1);
}

constexpr const char* kPairs = R"(
trigger: g
on: {webhook: {path: g, open: true}}
dedupe: "${item.DEDUPE}"
gather: {count: 2, by: "${item.BY}"}
start: {machine: deploy, params: {items: "${items}"}}
)";

void DefinePairs(World& world, const std::string& dedupe, const std::string& by) {
  std::string yaml = kPairs;
  yaml.replace(yaml.find("DEDUPE"), 6, dedupe);
  yaml.replace(yaml.find("BY"), 2, by);
  DefineAll(world, yaml);
}

Occurrence MustRetry(World& world, const std::string& name, const std::string& id) {
  auto retried = world.Do([&](Engine& e) { return e.triggers().Retry("ns", name, id); });
  REQUIRE_MESSAGE(retried, (retried ? "" : retried.error().message));
  return *retried;
}

TEST_CASE("a dead letter that failed before the launch goes through dedupe and gather") {
  World world;
  DefineAll(world, kBuild);
  DefinePairs(world, "x", "x");
  const std::string first = R"({"i":1,"k":"a"})";
  CHECK(MustFire(world, "g", first).error.starts_with("dedupe: "));
  CHECK(MustFire(world, "g", R"({"i":2,"k":"a"})").outcome == OccurrenceOutcome::kFailed);
  CHECK(MustRetry(world, "g", "1").error.starts_with("dedupe: "));
  DefinePairs(world, "i", "x");
  CHECK(MustRetry(world, "g", "1").error.starts_with("gather.by: "));
  CHECK(MustFire(world, "g", first).outcome == OccurrenceOutcome::kDuplicate);  // of the letter
  SUBCASE("as it is") {}
  SUBCASE("after a crash") { world.Crash(); }
  DefinePairs(world, "i", "k");
  CHECK(MustRetry(world, "g", "1").outcome == OccurrenceOutcome::kGathered);  // it is no duplicate
  CHECK(ViewOf(world, "g").open_gatherings == 1);
  CHECK(MustRetry(world, "g", "2").outcome == OccurrenceOutcome::kGathered);
  CHECK(ViewOf(world, "g").open_gatherings == 0);
  CHECK(ViewOf(world, "g").occurrences.failed == 0);
  const auto all = OccurrencesOf(world, "g");
  REQUIRE(all.size() == 3);
  CHECK(all[0].outcome == OccurrenceOutcome::kGathered);
  CHECK(all[2].outcome == OccurrenceOutcome::kStarted);
  CHECK(all[2].count == 2);
  CHECK(ParamsOf(world, "g-3") == R"({"items":[{"i":1,"k":"a"},{"i":2,"k":"a"}]})");
  CHECK_FALSE(world.Do([](Engine& e) { return e.triggers().Retry("ns", "g", "1"); }));
}

TEST_CASE("a dead letter whose text has come since is a duplicate") {
  World world;
  DefineAll(world, kBuild);
  DefinePairs(world, "x", "k");
  CHECK(MustFire(world, "g", R"({"i":1,"k":"a"})").outcome == OccurrenceOutcome::kFailed);
  DefinePairs(world, "i", "k");
  CHECK(MustFire(world, "g", R"({"i":1,"k":"a"})").outcome == OccurrenceOutcome::kGathered);
  CHECK(MustRetry(world, "g", "1").outcome == OccurrenceOutcome::kDuplicate);
  CHECK(ViewOf(world, "g").occurrences.failed == 0);
  CHECK(ViewOf(world, "g").open_gatherings == 1);
}

TEST_CASE("while it is paused a gathering does not end") {
  World world;
  DefineAll(world, kBuild);
  DefineAll(world, R"(
trigger: g
on: {webhook: {path: g, open: true}}
gather: {quiet: 1m}
start: {machine: deploy}
)");
  MustFire(world, "g", "{}");
  Pause(world, "g");
  world.Elapse(10min);
  world.Crash();
  world.Elapse(10min);
  CHECK(OccurrencesOf(world, "g").empty());
  Resume(world, "g");
  CHECK(OccurrencesOf(world, "g").size() == 1);
}

constexpr const char* kPoll = R"(
trigger: orders
on: {poll: {action: shop.new_orders, every: 30s, input: {shop: 7}}}
start: {machine: deploy, id: "order-${item.number}", params: "${item}"}
)";

// The task of a poll that is under way; its worker reports.
void Answer(World& world, const std::string& output, const std::string& transition = "ok") {
  const Task task = world.ReadyOne();
  REQUIRE(world.Do([&](Engine& e) {
    return e.Report("ns", task.instance,
                    {.transition = transition, .claim = task.claim, .output = output});
  }));
  world.Drain();
}

TEST_CASE("a poll brings items and a cursor, at once, then after a while") {
  World world;
  DefineAll(world, kBuild);
  DefineAll(world, kPoll);
  world.Drain();
  Task task = world.ReadyOne();
  CHECK(task.instance == "orders/poll/1");
  CHECK(task.action == "shop.new_orders");
  CHECK(json::Same(task.node_params, R"({"shop":7,"cursor":null})"));
  REQUIRE(world.Do([&](Engine& e) {
    return e.Report("ns", task.instance,
                    {.transition = "ok",
                     .claim = task.claim,
                     .output = R"({"items":[{"number":1},{"number":2}],"cursor":{"at":2}})"});
  }));
  world.Drain();
  CHECK(InstancesOf(world, "deploy") == std::vector<std::string>{"order-1", "order-2"});
  REQUIRE(world.Move("order-1", "ok"));
  REQUIRE(world.Move("order-2", "ok"));
  CHECK(ViewOf(world, "orders").row.poll.front().cursor == R"({"at":2})");
  CHECK(world.Ready().empty());
  world.Elapse(29s);
  CHECK(world.Ready().empty());
  world.Elapse(1s);
  task = world.ReadyOne();
  CHECK(task.instance == "orders/poll/2");
  CHECK(json::Same(task.node_params, R"({"shop":7,"cursor":{"at":2}})"));
  world.Elapse(10min);
  // Never two: what is ready is the same poll, whose worker has taken too long.
  for (const Task& late : world.Ready()) CHECK(late.instance == "orders/poll/2");
}

TEST_CASE("a poll without items leaves no instance, and more polls again at once") {
  World world;
  DefineAll(world, kBuild);
  DefineAll(world, kPoll);
  world.Drain();
  Answer(world, R"({"cursor":5,"more":true})");
  CHECK_FALSE(world.Get("orders/poll/1"));
  CHECK(world.Get("orders/poll/2"));
  Answer(world, "");
  CHECK_FALSE(world.Get("orders/poll/2"));
  CHECK(ViewOf(world, "orders").row.poll.front().cursor == "5");
  CHECK(ViewOf(world, "orders").row.poll.front().failures == 0);
}

TEST_CASE("a failed poll keeps the cursor and its instance") {
  World world;
  DefineAll(world, kBuild);
  DefineAll(world, kPoll);
  world.Drain();
  Answer(world, R"({"cursor":5})");
  world.Elapse(30s);
  Answer(world, R"({"cursor":6,"items":7})");
  CHECK(world.Get("orders/poll/2"));
  rows::PollRow row = ViewOf(world, "orders").row.poll.front();
  CHECK(row.cursor == "5");
  CHECK(row.failures == 1);
  CHECK(row.error.find("items") != std::string::npos);
  world.Elapse(30s);
  Answer(world, "", "error");
  CHECK(world.Must("orders/poll/3").result == InstanceResult::kError);
  row = ViewOf(world, "orders").row.poll.front();
  CHECK(row.failures == 2);
  world.Elapse(30s);
  Answer(world, R"({"items":[{"number":9}]})");
  row = ViewOf(world, "orders").row.poll.front();
  CHECK(row.failures == 0);
  CHECK(row.cursor == "5");
  CHECK(row.error.empty());
}

TEST_CASE("what a poll brings is taken once, whatever commit is the last before a crash") {
  for (int last = 0; last < 30; ++last) {
    CAPTURE(last);
    World world;
    DefineAll(world, kBuild);
    DefineAll(world, R"(
trigger: p
on: {poll: {action: look, every: 5s}}
start: {machine: deploy, params: "${item}"}
)");
    int turn = 0;
    auto step = [&] {
      world.Decide();
      if (++turn == last) world.Crash();
    };
    int given = 0;
    int answered = 0;
    while (answered < 4) {
      step();
      world.Advance(2s);
      for (const Task& task : world.Ready({}, 10)) {
        if (task.machine != "look") continue;
        const auto cursor = json::Member(task.node_params, "cursor");
        const int from = *cursor == "null" ? 0 : std::stoi(std::string(*cursor));
        std::string items;
        for (int i = from; i < from + 3; ++i) {
          items += (items.empty() ? "" : ",") + ("{\"n\":" + std::to_string(i) + "}");
        }
        given = from + 3;
        world.Decide([&](Engine& e) {
          (void)e.Report("ns", task.instance,
                         {.transition = "ok",
                          .claim = task.claim,
                          .output = "{\"items\":[" + items +
                                    "],\"cursor\":" + std::to_string(from + 3) + "}"});
        });
        ++answered;
      }
      step();
    }
    world.Commit();
    world.Drain();
    std::set<std::string> numbers;
    for (const Occurrence& one : OccurrencesOf(world, "p")) {
      CHECK(numbers.insert(one.item).second);
      CHECK(one.outcome == OccurrenceOutcome::kStarted);
    }
    const auto cursor = ViewOf(world, "p").row.poll.front().cursor;
    CHECK(std::to_string(numbers.size()) == (cursor.empty() ? "0" : cursor));
    CHECK(static_cast<int>(numbers.size()) <= given);
  }
}

TEST_CASE("what a poll brings while the trigger is paused waits") {
  World world;
  DefineAll(world, kBuild);
  DefineAll(world, kPoll);
  world.Drain();
  Pause(world, "orders");
  Answer(world, R"({"items":[{"number":1}],"cursor":1})");
  world.Elapse(1min);
  CHECK(InstancesOf(world, "deploy").empty());
  world.Crash();
  CHECK(InstancesOf(world, "deploy").empty());
  Resume(world, "orders");
  CHECK(InstancesOf(world, "deploy") == std::vector<std::string>{"order-1"});
}

TEST_CASE("failures in a row pause it in the commit of the last one") {
  World world;
  DefineAll(world, kBuild);
  DefineAll(world, R"(
trigger: t
on: {change: {kind: finished, machine: build}}
start: {machine: deploy, id: "d-${item.instance.id}"}
stop_on_fail: 2
)");
  for (const char* id : {"a", "b", "c", "e"}) Run(world, "build", id);
  REQUIRE(world.Move("d-a", "bad"));
  REQUIRE(world.Move("d-b", "ok"));
  REQUIRE(world.Move("d-c", "bad"));
  CHECK_FALSE(ViewOf(world, "t").row.paused);
  REQUIRE(world.Move("d-e", "bad"));
  TriggerView view = ViewOf(world, "t");
  CHECK(view.row.paused);
  CHECK(view.row.paused_by == "stop_on_fail");
  CHECK(view.row.note.find("d-e") != std::string::npos);
  Run(world, "build", "f");
  CHECK(InstancesOf(world, "deploy").size() == 4);
  Resume(world, "t");
  CHECK(InstancesOf(world, "deploy").size() == 5);
  CHECK(ViewOf(world, "t").row.failures == 0);
}

TEST_CASE("what retention has overtaken is one occurrence") {
  EngineOptions options;
  options.retention = 1h;
  World world(options);
  DefineAll(world, kBuild);
  DefineAll(world, R"(
trigger: t
on: {change: {kind: finished, machine: build}}
start: {machine: deploy, id: "d-${item.instance.id}"}
)");
  Pause(world, "t");
  for (int i = 0; i < 20; ++i) Run(world, "build", "b" + std::to_string(i));
  world.Elapse(3h);
  Run(world, "build", "z");
  Resume(world, "t");
  const auto all = OccurrencesOf(world, "t");
  REQUIRE(all.size() == 2);
  CHECK(all[0].outcome == OccurrenceOutcome::kMissed);
  CHECK(all[0].count >= 60);
  CHECK(all[1].instance == "d-z");
}

TEST_CASE("a full disk makes no dead letter: the trigger waits") {
  World world;
  DefineAll(world, kBuild);
  DefineAll(world, R"(
trigger: t
on: {change: {kind: finished, machine: build}}
start: {machine: deploy, id: "d-${item.instance.id}"}
)");
  world.Start("build", "a");
  world.engine().SetRoom(Room::kScarce);
  REQUIRE(world.Move("a", "ok"));
  world.Elapse(5s);
  CHECK(OccurrencesOf(world, "t").empty());
  auto fired = Fire(world, "t", "{}");
  REQUIRE_FALSE(fired);
  CHECK(fired.error().reason == Reason::kDiskFull);
  world.engine().SetRoom(Room::kAmple);
  world.Elapse(2s);
  CHECK(InstancesOf(world, "deploy") == std::vector<std::string>{"d-a"});
}

TEST_CASE("a trigger with more to do than a pass allows falls behind and catches up") {
  World world;
  DefineAll(world, kBuild);
  DefineAll(world, R"(
trigger: t
on: {change: {kind: finished, machine: build}}
start: {machine: deploy, id: "d-${item.instance.id}"}
)");
  world.Do([](Engine& e) {
    for (int i = 0; i < 1'500; ++i) {
      const std::string id = "b" + std::to_string(i);
      (void)e.Start({.ns = "ns", .machine = "build", .id = id});
      (void)e.Report("ns", id, {.transition = "ok"});
    }
    return 0;
  });
  CHECK(ViewOf(world, "t").lag > 0);
  world.Drain();
  CHECK(ViewOf(world, "t").lag == 0);
  CheckEachOnce(world, "t");
}

TEST_CASE("a webhook belongs to one trigger") {
  World world;
  DefineAll(world, kBuild);
  DefineAll(world, R"(
trigger: a
on: {webhook: {path: x/y, open: true}}
start: {machine: deploy}
)");
  auto taken = world.Do([](Engine& e) {
    return TryDefineAll(e,
                        "trigger: b\non: {webhook: {path: x/y, open: true}}\n"
                        "start: {machine: deploy}\n");
  });
  REQUIRE_FALSE(taken);
  CHECK(taken.error().message.find("'a'") != std::string::npos);
  CHECK(taken.error().reason == Reason::kBadMachine);
  auto receive = [&](const std::string& path) {
    return world.Do([&](Engine& e) { return e.triggers().Receive("ns", path, "{}"); });
  };
  CHECK(receive("x/y").has_value());
  CHECK(receive("x").error().code == Code::kNotFound);
  Pause(world, "a");
  CHECK(receive("x/y").error().code == Code::kUnavailable);
  world.Crash();
  CHECK(world.Do([](Engine& e) { return e.triggers().HookOf("ns", "x/y").value().paused; }));
}

}  // namespace
}  // namespace dfsmr
