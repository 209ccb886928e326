// Scenes of plans: steps that are tried again, wait, and have children.
#include "tests/sim/scenes.h"

#include <set>

namespace dfsmr {
namespace {

constexpr std::string_view kChild = "plan: c\nflow: [{step: l, action: y}]\n---\n";

std::string Flow(const std::string& flow, const std::string& before = "") {
  return before + "plan: p\nflow: " + flow + "\n";
}

Result<Answer> Outside(Stage& stage, const std::string& verb, const std::string& node,
                       const std::string& params = "") {
  return stage.Do([&](Engine& e) {
    return e.Report("ns", "i", {.transition = verb, .params = params, .node = node});
  });
}

// Children ---------------------------------------------------------------------------------------

// Those that a step asks for while its instance is being cancelled are started by the resume.
void ChildrenUnderCancel(uint64_t seed) {
  Stage stage(seed);
  stage.Define(Flow("[{step: s, action: x}, {step: t, action: x}]", std::string(kChild)));
  stage.Start("p");
  REQUIRE(stage.Say(stage.TaskOf("s"), {.transition = "suspend"}));
  const Task other = stage.TaskOf("t");
  stage.Cancel("i", CancelMode::kCancel);
  const Task woken = stage.ReadyOne();
  REQUIRE(woken.event == "cancel");
  const std::vector<rows::ChildStart> children(stage.Some(3), {.machine = "c"});
  REQUIRE(stage.Say(woken, {.transition = "suspend"}, children));
  REQUIRE(stage.Say(other, {.transition = "ok"}));
  REQUIRE(stage.Standing("i") == "STOPPED CANCELLED");
  stage.Perhaps();
  stage.Resume("i");
  REQUIRE(stage.Ready().size() == children.size());
  for (size_t i = 0; i < children.size(); ++i) {
    stage.Perhaps();
    stage.Drain();
    (void)stage.Do([&](Engine& e) {
      return e.Relinquish("ns", "i/s/" + std::to_string(i), ClaimRef(), {.client = "op"});
    });
    stage.End("l", "i/s/" + std::to_string(i));
  }
  stage.Drain();
  stage.RunAll();
  REQUIRE(stage.Standing("i") == "STOPPED SUCCESS");
}

// Children have numbers of their own, however often their step asks for some.
void NumberedChildren(uint64_t seed) {
  Stage stage(seed);
  stage.Define(Flow("[{step: w, action: x}]", std::string(kChild)));
  stage.Start("p");
  size_t number = 0;
  for (int round = 0; round < 4; ++round) {
    const std::vector<rows::ChildStart> children(stage.Some(3), {.machine = "c"});
    REQUIRE(stage.Say(stage.TaskOf("w"), {.transition = "suspend"}, children));
    stage.Drain();
    stage.Perhaps();
    for (size_t i = 0; i < children.size(); ++i) stage.End("l", "i/w/" + std::to_string(number++));
    stage.Drain();
  }
  stage.End("w");
  REQUIRE(stage.Standing("i") == "STOPPED SUCCESS");
}

// Also those of a plan that begins anew in another version.
void ChildrenAfterUpgrade(uint64_t seed) {
  Stage stage(seed);
  const std::string spawn = "{step: s, spawn: {plan: c, for_each: [1, 2], as: h, input: {}}}";
  stage.Define(Flow("[" + spawn + "]", std::string(kChild)));
  stage.Start("p");
  stage.Drain();
  REQUIRE(stage.Must("i/s/1").Begun());
  stage.Define("upgrade_strategy: upgrade\n" + Flow("[" + spawn + ", {step: t, action: x}]"));
  stage.Perhaps();
  stage.Drain();
  REQUIRE(stage.Standing("i/s/0") == "STOPPED CANCELLED");
  stage.RunAll();
  REQUIRE(stage.Standing("i") == "STOPPED SUCCESS");
  REQUIRE(stage.Standing("i/s/3") == "STOPPED SUCCESS");
}

// Children of what is ended by force are ended by force.
void ForcedFamily(uint64_t seed) {
  Stage stage(seed);
  stage.Define(
      Flow("[{step: s, spawn: {plan: c, for_each: [1, 2, 3], as: h, input: {}}}]",
           std::string(kChild)));
  stage.Start("p");
  stage.Drain();
  REQUIRE(stage.Ready().size() == 3);  // their workers have them in hand
  stage.Perhaps();
  stage.Cancel("i", CancelMode::kForce);
  stage.Drain();
  for (const char* child : {"i/s/0", "i/s/1", "i/s/2"}) {
    REQUIRE(stage.Standing(child) == "STOPPED CANCELLED");
  }
}

// Steps that are tried again ---------------------------------------------------------------------

// How often the step fails until it is held.
size_t FailsUntilHeld(Stage& stage, const std::string& node) {
  size_t times = 0;
  for (auto tasks = stage.Ready(); !tasks.empty(); tasks = stage.Ready()) {
    REQUIRE(tasks.size() == 1);
    REQUIRE(tasks[0].node == node);
    REQUIRE(stage.Say(tasks[0], {.transition = "error"}));
    ++times;
    stage.Drain();
  }
  return times;
}

// A held step that is retried by hand has all its tries again.
void TriesAgain(uint64_t seed) {
  Stage stage(seed);
  const size_t more = stage.Some(3);
  stage.Define("action: x\nretry: {limit: " + std::to_string(1 + more) + "}\n---\n" +
               Flow("[{step: a, action: x}]"));
  stage.Start("p");
  const size_t first = FailsUntilHeld(stage, "a");
  REQUIRE(first > 1);
  for (size_t n = stage.Some(2); n > 0; --n) {
    stage.Perhaps();
    REQUIRE(Outside(stage, "retry", "a"));
    REQUIRE(FailsUntilHeld(stage, "a") == first);
  }
}

// A patched input is that of the finalize phase, too.
void PatchedInput(uint64_t seed) {
  Stage stage(seed);
  stage.Define("action: x\nphases: [run, finalize]\n---\n" +
               Flow("[{step: a, action: x, input: {v: 1, w: 2}}]"));
  stage.Start("p");
  stage.Fail("a");
  REQUIRE(Outside(stage, "patch", "a", R"({"v":3})"));
  stage.Perhaps();
  REQUIRE(Outside(stage, "retry", "a"));
  stage.Perhaps();
  const Task run = stage.TaskOf("a");
  REQUIRE(run.node_params == R"({"v":3,"w":2})");
  REQUIRE(stage.Say(run, {.transition = "ok"}));
  REQUIRE(stage.TaskOf("a/finalize").node_params == R"({"v":3,"w":2})");
}

// Errors of polls fail a step when so many come in a row.
void PollErrors(uint64_t seed) {
  Stage stage(seed);
  const size_t most = 1 + stage.Some(2);
  stage.Define("action: x\npoll: {intervals: [1s], per_interval: 1, max_failures: " +
               std::to_string(most) + "}\n---\n" + Flow("[{step: a, action: x}]"));
  stage.Start("p");
  REQUIRE(stage.Say(stage.TaskOf("a"), {.transition = "suspend"}));
  const auto poll = [&stage] {
    stage.Perhaps();
    stage.Elapse(2s);
    const Task task = stage.TaskOf("a");
    REQUIRE(task.event == "poll");
    return task;
  };
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 1; i < most; ++i) {
      const Task task = poll();
      REQUIRE(stage.Say(task, {.transition = "error"}));
    }
    const Task task = poll();
    REQUIRE(stage.Say(task, {.transition = "suspend"}));
  }
  const Task task = poll();
  REQUIRE(stage.Say(task, {.transition = "ok"}));
  REQUIRE(stage.Standing("i") == "STOPPED SUCCESS");
}

// Finalize phases that run again count once for the progress.
void FinalizedTwice(uint64_t seed) {
  Stage stage(seed);
  stage.Define("action: x\nphases: [run, finalize]\n---\n" +
               Flow("[{step: a, action: x}, {step: b, action: x}, {step: c, action: x}]"));
  stage.Start("p");
  for (const char* step : {"a", "b", "c"}) stage.End(step);
  const auto finalize = [&stage](size_t fails) {  // the last of so many
    for (size_t i = 0; i < fails; ++i) {
      const auto tasks = stage.Ready({}, 1);
      REQUIRE(tasks.size() == 1);
      REQUIRE(tasks[0].phase == "finalize");
      const bool last = i + 1 == fails;
      REQUIRE(stage.Say(tasks[0], {.transition = last ? "error" : "ok"}));
      const Instance instance = stage.Must("i");
      REQUIRE(instance.plan->done_weight <= instance.plan->weight + 1e-9);
      if (last) return tasks[0].node;
    }
    return std::string();
  };
  for (size_t n = stage.Some(2); n > 0; --n) {
    const std::string node = finalize(stage.Some(3));
    stage.Perhaps();
    REQUIRE(Outside(stage, "retry", node.substr(0, node.find('/'))));
    stage.Drain();
  }
  stage.RunAll();
  REQUIRE(stage.Standing("i") == "STOPPED SUCCESS");
  const Instance instance = stage.Must("i");
  REQUIRE(instance.plan->done_weight == doctest::Approx(instance.plan->weight));
}

// What steps see of one another ------------------------------------------------------------------

// An `if` sees nothing of what a step gave out before it failed.
void FailedOutput(uint64_t seed) {
  Stage stage(seed);
  stage.Define("action: x\nrescue: skip\n---\n" +
               Flow("[{step: s, action: x}, {step: t, action: y, after: [s], if: {value: "
                    "\"${s.output.v}\", equals: 1}}, {step: u, action: y, after: [s], if: "
                    "{failed: s}}, {step: v, action: y, after: [s], if: {value: "
                    "\"${s.output.v}\", exists: true}}]"));
  stage.Start("p");
  REQUIRE(stage.Say(stage.TaskOf("s"),
                    {.transition = "suspend", .output = R"({"v":1})", .wake_after = 1s}));
  stage.Perhaps();
  stage.Elapse(2s);
  const bool fails = stage.random.Chance(70);
  if (fails) {
    stage.Fail("s");
  } else {
    REQUIRE(stage.Say(stage.TaskOf("s"), {.transition = "ok", .output = R"({"v":1})"}));
  }
  std::set<std::string> nodes;
  for (const Task& task : stage.Ready()) nodes.insert(task.node);
  REQUIRE(nodes == (fails ? std::set<std::string>{"u"} : std::set<std::string>{"t", "v"}));
}

// Nor of what it gave out when its section ran before.
void OutputOfAnEarlierPass(uint64_t seed) {
  Stage stage(seed);
  stage.Define("action: x\nrescue: skip\n---\n" +
               Flow("[{section: n, do: [{step: a, action: x}, {step: b, action: y, after: [a]}], "
                    "retry: {limit: 3}}, {step: t, action: y, after: [n], if: {value: "
                    "\"${n.a.output.v}\", equals: 1}}]"));
  stage.Start("p");
  const auto pass = [&stage](bool first, bool second) {
    const ReportArgs ok{.transition = "ok", .output = R"({"v":1})"};
    const ReportArgs error{.transition = "error"};
    REQUIRE(stage.Say(stage.TaskOf("n.a"), first ? ok : error));
    stage.Perhaps();
    REQUIRE(stage.Say(stage.TaskOf("n.b"), second ? ok : error));
    stage.Drain();
    stage.Perhaps();
  };
  pass(true, false);
  const bool fails = stage.random.Chance(70);
  pass(!fails, true);
  REQUIRE(stage.Ready().size() == (fails ? 0 : 1));
}

// What comes after an empty list waits for what the list waits for.
void EmptyList(uint64_t seed) {
  Stage stage(seed);
  stage.Define(Flow(
      "[{sequence: [{step: a, action: x}, {for_each: \"${params.list}\", as: h, do: {step: e, "
      "action: x}}]}, {step: b, action: x, after: [e]}]"));
  const bool empty = stage.random.Chance(70);
  const std::string params = empty ? R"({"list":[]})" : R"({"list":[1]})";
  REQUIRE(stage.TryStart({.machine = "p", .id = "i", .spec = {.params = params}}));
  stage.Perhaps();
  const auto first = stage.Ready();
  REQUIRE(first.size() == 1);
  REQUIRE(first[0].node == "a");
  REQUIRE(stage.Say(first[0], {.transition = "ok"}));
  stage.RunAll();
  REQUIRE(stage.Standing("i") == "STOPPED SUCCESS");
}

}  // namespace

std::vector<NamedScene> PlanScenes() {
  return {{"children under a cancel", ChildrenUnderCancel},
          {"numbered children", NumberedChildren},
          {"children after an upgrade", ChildrenAfterUpgrade},
          {"a forced family", ForcedFamily},
          {"tries again", TriesAgain},
          {"a patched input", PatchedInput},
          {"errors of polls", PollErrors},
          {"finalized twice", FinalizedTwice},
          {"the output of a failed step", FailedOutput},
          {"the output of an earlier pass", OutputOfAnEarlierPass},
          {"an empty list", EmptyList}};
}

}  // namespace dfsmr
