// Dry runs: what the server reports in them, and who does not see them.
#include "fsm/rules/dry_run.h"

#include "fsm/base/json.h"
#include "storage/rows/instance.h"
#include "tests/dsrv/engine/world.h"

namespace dfsmr {
namespace {

using Words = std::vector<std::string>;
using Answers = std::map<std::string, std::string>;

constexpr std::string_view kAsk = R"(id: ask
nodes:
  wait: {start: true, manual: true, transitions: {no: broken, yes: work}}
  work: {dry_run: worker, transitions: {ok: done}}
  broken: {final: true, result: error}
  done: {final: true}
)";

Result<Started> TryDry(World& world, const std::string& machine, const std::string& id = "i",
                       Answers answers = {}, const std::string& params = "") {
  StartArgs args{.machine = machine, .id = id, .dry_run = true};
  args.spec.dry_answers = std::move(answers);
  args.spec.params = params;
  return world.TryStart(std::move(args));
}
Instance Walk(World& world, const std::string& machine, const std::string& id = "i",
              Answers answers = {}, const std::string& params = "") {
  auto started = TryDry(world, machine, id, std::move(answers), params);
  REQUIRE_MESSAGE(started, (started ? "" : started.error().message));
  world.Drain();
  return world.Must(id);
}
InstanceResult ResultOf(World& world, const std::string& machine, Answers answers = {}) {
  static int number = 0;
  return Walk(world, machine, "d" + std::to_string(++number), std::move(answers)).result;
}

TEST_CASE("a dry run is walked by the server, and marked") {
  World world;
  world.Define(R"(id: ship
nodes:
  build: {start: true, transitions: {bad: broken, ok: rest}}
  rest: {delay: 2h, transitions: {ok: test}}
  test: {dry_run: {transition: fine, output: {n: 7}}, transitions: {bad: build, fine: done}}
  broken: {final: true, result: error}
  done: {final: true}
)");
  const Timestamp begun = world.now();
  const Instance instance = Walk(world, "ship");
  CHECK(instance.result == InstanceResult::kSuccess);
  CHECK(static_cast<bool>(instance.dry_run));
  CHECK(world.now() - begun < 1min);
  for (const Event& event : world.published()) {
    if (event.instance != "i") continue;
    REQUIRE(static_cast<bool>(event.about));
    CHECK(event.about->dry_run);
  }
  CHECK(world.Ready().empty());
}

TEST_CASE("answers come before what the definition says, for as many visits as they say") {
  World world;
  world.Define(R"(id: m
nodes:
  a: {start: true, transitions: {again: a, bad: broken, ok: done}}
  broken: {final: true, result: error}
  done: {final: true}
)");
  CHECK(ResultOf(world, "m") == InstanceResult::kSuccess);
  CHECK(ResultOf(world, "m", {{"a", "bad"}}) == InstanceResult::kError);
  const Instance three =
      Walk(world, "m", "three", {{"a", R"({"transition": "again", "times": 3})"}});
  CHECK(three.result == InstanceResult::kSuccess);
  CHECK(three.last_visit == 5);  // three that come again, the one that goes on, and the end
}

TEST_CASE("what answers there may not be is refused at the start") {
  World world;
  world.Define("id: m\nnodes:\n  a: {start: true, transitions: {ok: z}}\n  z: {final: true}\n");
  CHECK(TryDry(world, "m", "i", {{"b", "ok"}}).error().reason == Reason::kBadRequest);
  CHECK(TryDry(world, "m", "i", {{"z", "ok"}}).error().reason == Reason::kBadRequest);
  CHECK(TryDry(world, "m", "i", {{"a", "bad"}}).error().reason == Reason::kBadRequest);
  CHECK_FALSE(ReadDryAnswer(R"({"transition": 7})"));
  CHECK_FALSE(ReadDryAnswer(R"({"transitions": "ok"})"));
  CHECK_FALSE(ReadDryAnswer(R"({"transition": "ok", "times": 0})"));
  CHECK_FALSE(ReadDryAnswer(""));
  const auto answer =
      ReadDryAnswer(R"({"transition": "suspend", "wake_after": "5s", "output": {"a": 1}})");
  REQUIRE(answer);
  CHECK(answer->report.wake_after == 5s);
  CHECK(answer->report.output == R"({"a": 1})");
  CHECK(TryDry(world, "m", "i", {{"a", R"({"output": {"n": 1}})"}}));  // it is `ok`
}

TEST_CASE("the keys of an answer are those of a report, in either spelling") {
  auto answer = ReadDryAnswer(R"({"transition": "suspend", "wakeAfter": "1m", "checkpoint": null,
      "children": [{"machine": "m@2", "id": "c", "params": {"n": 1}}], "childrenConcurrency": 3,
      "start": [{"machine": "other"}], "times": 2})");
  REQUIRE_MESSAGE(answer, (answer ? "" : answer.error().message));
  CHECK(answer->report.wake_after == 1min);
  CHECK(answer->report.children == 1);
  CHECK(answer->report.concurrency == 3);
  CHECK(answer->report.checkpoint.empty());
  REQUIRE(answer->children.size() == 1);
  CHECK(answer->children[0].machine == "m");
  CHECK(answer->children[0].version == 2);
  CHECK(answer->children[0].id == "c");
  CHECK(answer->children[0].params == R"({"n": 1})");
  REQUIRE(answer->starts.size() == 1);
  CHECK(answer->starts[0].machine == "other");
  CHECK(answer->times == 2);
  CHECK(ReadDryAnswer(R"({"error": "full"})")->report.transition == "error");
  CHECK(ReadDryAnswer("{}")->report.transition.empty());
  for (const char* wrong :
       {R"({"wake_after": "1s"})", R"({"transition": "ok", "wake_after": "1s"})",
        R"({"transition": "ok", "children": [{"machine": "m"}]})",
        R"({"transition": "suspend", "children": [{"id": "m"}]})",
        R"({"transition": "suspend", "children": [{"machine": "m", "colour": 1}]})",
        R"({"start": [{"machine": "m@x"}]})", R"({"start": [{"machine": "m", "id": "a b"}]})",
        R"({"start": {"machine": "m"}})", R"({"output": 7})", R"({"children_concurrency": -1})",
        R"({"fatal": true})", R"({"transition": "ok", "error_kind": "x"})",
        R"({"transition": "error", "fatal": 1})", R"({"transition": "error", "retry_after": 1})"}) {
    CAPTURE(wrong);
    CHECK_FALSE(ReadDryAnswer(wrong));
  }
}

TEST_CASE("tries are real, and the time between them is over at once") {
  World world;
  world.Define(R"(id: m
nodes:
  a: {start: true, retry: {limit: 4, delay: 1h}, transitions: {ok: won, error: lost}}
  won: {final: true}
  lost: {final: true, result: error}
---
id: plain
nodes:
  a: {start: true, transitions: {ok: won}}
  won: {final: true}
)");
  const Timestamp begun = world.now();
  CHECK(ResultOf(world, "m", {{"a", R"({"error": "no", "times": 3})"}}) ==
        InstanceResult::kSuccess);
  CHECK(ResultOf(world, "m", {{"a", R"({"error": "no", "times": 4})"}}) == InstanceResult::kError);
  CHECK(ResultOf(world, "m", {{"a", R"({"error": "no", "fatal": true, "times": 1})"}}) ==
        InstanceResult::kError);
  CHECK(ResultOf(world, "m", {{"a", R"({"error": "no", "retryAfter": "5h", "times": 1})"}}) ==
        InstanceResult::kSuccess);
  CHECK(world.now() - begun < 1min);
  const Instance held = Walk(world, "plain", "h", {{"a", R"({"error": "no", "error_kind": "x"})"}});
  CHECK(held.state == InstanceState::kPaused);
}

TEST_CASE("without `ok`, the first transition is reported") {
  World world;
  world.Define(R"(id: m
nodes:
  a: {start: true, transitions: {zeta: won, alpha: lost}}
  won: {final: true}
  lost: {final: true, result: error}
)");
  CHECK(ResultOf(world, "m") == InstanceResult::kSuccess);
  CHECK(ResultOf(world, "m", {{"a", R"({"output": {"n": 1}})"}}) == InstanceResult::kSuccess);
  CHECK(ResultOf(world, "m", {{"a", "alpha"}}) == InstanceResult::kError);
}

TEST_CASE("manual nodes take their answer, or wait; workers are asked where it says so") {
  World world;
  world.Define(kAsk);
  CHECK(Walk(world, "ask", "waits").state == InstanceState::kRunning);
  CHECK(world.NodeOf("waits") == "wait");
  CHECK(Walk(world, "ask", "no", {{"wait", "no"}}).result == InstanceResult::kError);
  CHECK(Walk(world, "ask", "yes", {{"wait", "yes"}}).state == InstanceState::kRunning);
  SUBCASE("") {}
  SUBCASE("crash") { world.Crash(); }
  CHECK(world.NodeOf("yes") == "work");
  CHECK(world.Ready().empty());
  const auto tasks = world.Ready({.dry_run = true});
  REQUIRE(tasks.size() == 1);
  CHECK(tasks[0].dry_run);
  CHECK(tasks[0].instance == "yes");
  CHECK(world.Report(tasks[0], "ok"));
  CHECK(world.Must("yes").result == InstanceResult::kSuccess);
}

TEST_CASE("a dry run goes on where it stood when the server comes back") {
  World world;
  world.Define(R"(id: m
nodes:
  a: {start: true, transitions: {again: a, ok: done}}
  done: {final: true}
)");
  REQUIRE(TryDry(world, "m", "i", {{"a", R"({"transition": "again", "times": 900})"}}));
  const uint64_t before = world.Must("i").last_visit;
  CHECK(before < 900);  // so many in one pass would hold up the others
  world.Crash();
  world.Drain();
  const Instance instance = world.Must("i");
  CHECK(instance.result == InstanceResult::kSuccess);
  CHECK(instance.last_visit == 902);
}

TEST_CASE("a loop without an end is stopped with WARNING") {
  World world;
  world.Define(R"(id: m
nodes:
  a: {start: true, transitions: {ok: b, out: z}}
  b: {delay: 1h, transitions: {ok: a}}
  z: {final: true}
)");
  const Instance instance = Walk(world, "m");
  CHECK(instance.result == InstanceResult::kWarning);
  CHECK(instance.last_visit >= kDryRunVisits);
  CHECK(instance.last_visit <= kDryRunVisits + 2);
  CHECK(instance.error.find("10000 visits") != std::string::npos);
}

TEST_CASE("no limit and no statistic sees a dry run") {
  World world;
  world.Define(R"(id: m
limit: {key: one, max: 1, on_conflict: fail}
nodes:
  a: {start: true, manual: true, transitions: {ok: b}}
  b: {dry_run: worker, limit: {key: two, max: 1}, transitions: {ok: z}}
  z: {final: true}
)");
  world.Start("m", "real");
  CHECK(Walk(world, "m", "dry").state == InstanceState::kRunning);
  CHECK(Walk(world, "m", "too", {{"a", "ok"}}).state == InstanceState::kRunning);
  SUBCASE("") {}
  SUBCASE("crash") { world.Crash(); }
  MachineView view = world.Machine("m");
  CHECK(view.stats.running == 1);
  CHECK(world.Node("m", "b").ready == 0);
  REQUIRE(world.Move("real", "ok"));
  REQUIRE(world.Ready().size() == 1);                 // it holds `two`
  CHECK(world.Ready({.dry_run = true}).size() == 1);  // nothing of that
  CHECK(world.Node("m", "b").claimed == 1);
  CHECK(world.Node("m", "a").completed == 1);
  world.Start("m", "other");
  CHECK(world.Must("other").result == InstanceResult::kError);
}

constexpr std::string_view kDryPlan = R"(
action: make
output: {type: object, required: [ip], properties: {ip: {type: string}}}
---
action: use
input: {type: object, properties: {ip: {type: string}}}
retry: {limit: 3, delay: 1h}
---
plan: p
hooks: [{on: [success], action: tell}]
flow:
  - {step: a, action: make}
  - {step: b, action: use, input: {ip: "${a.output.ip}"}}
  - {step: c, action: use, input: {ip: "${params.ip}"}}
)";

TEST_CASE("a plan is walked: outputs that nobody gave are null, retries are real") {
  World world;
  world.Define(kDryPlan);
  const std::string params = R"({"ip":"x"})";
  CHECK(Walk(world, "p", "i", {}, params).result == InstanceResult::kSuccess);
  const Instance again =
      Walk(world, "p", "j", {{"b", R"({"transition": "error", "times": 2})"}}, params);
  CHECK(again.result == InstanceResult::kSuccess);
  const Instance held = Walk(world, "p", "k", {{"b", "error"}}, params);
  CHECK(held.state == InstanceState::kPaused);
  CHECK(world.Ready().empty());  // no hook either
  // What is given is checked, and params are real.
  CHECK(Walk(world, "p", "l", {{"a", R"({"output": {"ip": 1}})"}}, params).result ==
        InstanceResult::kError);
  CHECK(Walk(world, "p", "m", {}, "{}").state == InstanceState::kPaused);
}

TEST_CASE("where work would run has to be known, unless nobody gave it") {
  World world;
  world.Define(R"(id: m
nodes:
  w: {start: true, runs_on: {agent: "${params.h}"}, transitions: {ok: d}}
  d: {final: true}
---
plan: p
flow: [{step: b, action: x, runs_on: {agent: "${params.h}"}}]
---
plan: q
flow:
  sequence:
    - {step: a, action: x}
    - {step: b, action: x, runs_on: {agent: "${a.output.host}"}}
    - {step: c, action: x, runs_on: {agent: "${a.worker}"}}
)");
  for (const char* machine : {"m", "p"}) {
    CAPTURE(machine);
    const std::string id = machine;
    const Instance fails = Walk(world, machine, id);
    CHECK(fails.result != InstanceResult::kSuccess);
    CHECK(fails.error.find("runs_on: ") != fails.error.npos);
    const Instance ends = Walk(world, machine, id + "2", {}, R"({"h": "h1"})");
    CHECK(ends.result == InstanceResult::kSuccess);
  }
  CHECK(Walk(world, "q", "q").result == InstanceResult::kSuccess);
}

TEST_CASE("a step takes the event that is its answer, and children are dry, too") {
  World world;
  world.Define(R"(
action: approve
---
plan: sub
flow: [{step: x, action: approve}]
---
plan: p
flow:
  sequence:
    - {step: a, action: approve}
    - {step: kids, spawn: sub}
)");
  CHECK(Walk(world, "p", "i", {{"a", "granted"}}).result == InstanceResult::kSuccess);
  CHECK(static_cast<bool>(world.Must("i/kids/0").dry_run));
  CHECK(world.Must("i/kids/0").result == InstanceResult::kSuccess);
  const Instance waits = Walk(world, "p", "j", {{"a", "suspend"}});
  CHECK(waits.state == InstanceState::kRunning);
  const Instance wakes =
      Walk(world, "p", "k", {{"a", R"({"transition": "suspend", "wake_after": "9h"})"}});
  CHECK(wakes.result == InstanceResult::kWarning);  // it suspends again and again
}

TEST_CASE("answers for steps that are not there are refused, if the steps are known") {
  World world;
  world.Define(R"(
action: work
---
action: find
plan: worker
---
plan: sub
flow: [{step: x, action: work}]
---
plan: p
flow:
  - {step: a, action: work}
  - {step: s, plan: sub}
  - {for_each: "${params.list}", as: one, do: {step: each, action: work}}
---
plan: q
flow: [{step: a, action: find}]
)");
  const std::string params = R"({"list": [1, 2]})";
  const auto reason = [&](const std::string& plan, const std::string& name) {
    static int number = 0;
    auto started = TryDry(world, plan, "r" + std::to_string(++number), {{name, "ok"}}, params);
    return started ? Reason::kNone : started.error().reason;
  };
  CHECK(reason("p", "a") == Reason::kNone);
  CHECK(reason("p", "s.x") == Reason::kNone);
  CHECK(reason("p", "b") == Reason::kBadRequest);
  CHECK(reason("p", "s") == Reason::kBadRequest);
  CHECK(reason("q", "a.b") == Reason::kNone);  // what a planner plans is not known yet
}

TEST_CASE("rescues and conditions of a dry run are real") {
  World world;
  world.Define(R"(
action: work
---
plan: skips
flow:
  sequence:
    - {step: a, action: work, rescue: skip}
    - {step: b, action: work, if: {failed: a}}
---
plan: fails
flow: [{step: a, action: work, rescue: fail}]
---
plan: chooses
flow:
  sequence:
    - {step: a, action: work, dry_run: {output: {n: 7}}}
    - {step: more, action: work, if: {value: "${a.output.n}", greater: 5}, dry_run: worker}
)");
  CHECK(Walk(world, "skips", "i").result == InstanceResult::kSuccess);
  CHECK(Walk(world, "skips", "j", {{"a", "error"}}).result == InstanceResult::kWarning);
  CHECK(Walk(world, "fails", "k", {{"a", "error"}}).result == InstanceResult::kError);
  CHECK(Walk(world, "chooses", "m").state == InstanceState::kRunning);
  CHECK(Walk(world, "chooses", "n", {{"a", R"({"output": {"n": 1}})"}}).result ==
        InstanceResult::kSuccess);
  const auto tasks = world.Ready({.dry_run = true});
  REQUIRE(tasks.size() == 1);
  CHECK(tasks[0].instance == "m");
}

TEST_CASE("a planner plans nothing in a dry run, unless it is told what") {
  World world;
  world.Define(R"(
action: work
---
action: find
plan: worker
---
plan: p
flow: [{step: a, action: find}]
)");
  CHECK(Walk(world, "p", "i").result == InstanceResult::kSuccess);
  CHECK(Walk(world, "p", "j", {{"a", "ok"}}).result == InstanceResult::kSuccess);
  const std::string planned =
      R"({"transition": "planned", "output": {"flow": [{"step": "b", "action": "work"}]}})";
  CHECK(Walk(world, "p", "k", {{"a", planned}, {"a.b", "error"}}).state == InstanceState::kPaused);
}

TEST_CASE("a worker of a dry run is given null for what nobody gave") {
  World world;
  world.Define(R"(
action: make
output: {type: object, required: [ip], properties: {ip: {type: string}}}
---
action: use
dry_run: worker
input: {type: object, properties: {ip: {type: string}}}
---
plan: p
flow: [{step: a, action: make}, {step: b, action: use, input: {ip: "${a.output.ip}", n: 1}}]
)");
  CHECK(Walk(world, "p").state == InstanceState::kRunning);
  SUBCASE("") {}
  SUBCASE("crash") { world.Crash(); }
  const auto tasks = world.Ready({.dry_run = true});
  REQUIRE(tasks.size() == 1);
  CHECK(json::Same(tasks[0].node_params, R"({"ip": null, "n": 1})"));
  CHECK(tasks[0].dry_run);
  CHECK(world.Report(tasks[0], "ok"));
  world.Drain();
  CHECK(world.Must("i").result == InstanceResult::kSuccess);
}

TEST_CASE("no singleton holds a dry run, and none holds another") {
  World world;
  world.Define(R"(
action: work
dry_run: worker
---
plan: p
singleton: only
on_conflict: fail
flow: [{step: a, action: work}]
)");
  world.Start("p", "real");
  CHECK(Walk(world, "p", "one").state == InstanceState::kRunning);
  CHECK(Walk(world, "p", "two").state == InstanceState::kRunning);
  SUBCASE("") {}
  SUBCASE("crash") { world.Crash(); }
  REQUIRE(world.Do([](Engine& e) { return e.Cancel("ns", "real", CancelMode::kCancel); }));
  world.Start("p", "next");
  CHECK(world.Must("next").state == InstanceState::kRunning);
  world.Start("p", "other");
  CHECK(world.Must("other").result == InstanceResult::kError);
}

TEST_CASE("what an answer starts is dry, too") {
  World world;
  world.Define(R"(id: m
nodes:
  a: {start: true, transitions: {ok: z}}
  z: {final: true}
---
action: work
---
plan: p
flow: [{step: a, action: work}]
)");
  const std::string waits =
      R"({"transition": "suspend", "children": [{"machine": "m", "id": "c"}], "times": 1})";
  CHECK(Walk(world, "p", "i", {{"a", waits}}).result == InstanceResult::kSuccess);
  CHECK(static_cast<bool>(world.Must("c").dry_run));
  CHECK(Walk(world, "m", "j", {{"a", R"({"start": [{"machine": "m", "id": "d"}]})"}}).result ==
        InstanceResult::kSuccess);
  CHECK(static_cast<bool>(world.Must("d").dry_run));
}

TEST_CASE("the id of a dry run is not that of another instance") {
  World world;
  world.Define("id: m\nnodes:\n  a: {start: true, transitions: {ok: z}}\n  z: {final: true}\n");
  Walk(world, "m");
  CHECK(world.TryStart({.machine = "m", .id = "i"}).error().reason == Reason::kInstanceExists);
  auto again = TryDry(world, "m");
  REQUIRE(again);
  CHECK_FALSE(again->created);
}

TEST_CASE("a paused dry run stands until it is resumed") {
  World world;
  world.Define(kAsk);
  REQUIRE(TryDry(world, "ask", "i", {{"work", "ok"}}));
  REQUIRE(world.Do([](Engine& e) { return e.Pause("ns", "i"); }));
  CHECK(world.Must("i").state == InstanceState::kPaused);
  REQUIRE(world.Do([](Engine& e) { return e.Resume("ns", "i", "", false); }));
  REQUIRE(world.Move("i", "yes"));
  world.Drain();
  CHECK(world.NodeOf("i") == "work");
}

}  // namespace
}  // namespace dfsmr
