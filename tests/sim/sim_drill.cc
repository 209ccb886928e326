// Drills: plans of few shapes, whose steps fail often and are tried again, so that what is rare in
// other runs is common.
#include "tests/sim/drills.h"
#include "tests/sim/sim.h"

namespace dfsmr {
namespace {

std::string Section(Random& random) {
  std::string text = "{section: s1, do: [{step: a, action: w}, ";
  if (random.Chance(70)) text += "{step: b, action: w, input: {v: \"${a.output.v}\"}}, ";
  text += "{step: c, action: w, input: {v: \"${s0.output.v}\"}}";
  if (random.Chance(60)) text += ", {step: d, action: w, after: [s3]}";
  text += "], retry: {limit: " + std::to_string(2 + random.Below(3));
  if (random.Chance(30)) text += ", delay: 1s";
  text += "}";
  if (random.Chance(60)) {
    text += ", compensate: [{step: u0, action: w, input: {v: \"${a.output}\"}}]";
  }
  return text + "}";
}

std::string AnyIf(Random& random, const std::string& one, const std::string& other) {
  return random.Of<std::string>({"always", "{failed: " + one + "}", "{succeeded: " + other + "}",
                                 "{any: [{skipped: " + one + "}, {failed: " + other + "}]}",
                                 "{value: \"${" + other + ".state}\", not: failed}"});
}

std::string Flow(Random& random, DrillKind kind) {
  if (kind >= DrillKind::kConditions) return MoreFlow(random, kind);
  if (kind == DrillKind::kSections) {
    return "[{step: s0, action: w}, {step: s3, action: w}, " + Section(random) +
           ", {step: s2, action: w, input: {v: \"${s1.a.output.v}\"}}]";
  }
  if (kind == DrillKind::kPlanners) {
    return "[{step: s0, action: v}, {step: s1, action: w, after: [s0]}, {step: s2, action: " +
           random.Of<std::string>({"v", "w"}) + "}]";
  }
  if (random.Chance(50)) {
    return "[{step: s0, action: w}, {step: s1, action: w}, {step: s4, action: w}, "
           "{step: s2, action: w, after: [s0, s1, s4], if: " +
           AnyIf(random, "s0", "s1") + "}, {step: s3, action: w, after: [s2]}]";
  }
  return "[{sequence: [{concurrence: [{step: s0, action: w}, {step: s1, action: w}, {step: s2, "
         "action: w, after: [s0], if: " +
         AnyIf(random, "s0", "s0") + "}]}, {concurrence: [{step: s3, action: w}, {step: s4, " +
         "action: w, if: " + AnyIf(random, "s1", "s2") + "}]}]}]";
}

}  // namespace

std::string DrillPlan(Random& random, DrillKind kind, const std::string& id,
                      const std::string& strategy) {
  std::string text = "plan: " + id + "\nupgrade_strategy: " + strategy + "\n";
  if (kind == DrillKind::kConditions && random.Chance(35)) {
    text += "wait_after_fail: " + random.Of<std::string>({"0s", "2s"}) + "\n";
  }
  if (kind >= DrillKind::kConditions && random.Chance(40)) {
    text +=
        "hooks: [{on: [failure], action: hooked}, {on: [cancelled], action: hooked}, {on: "
        "[success, warning], action: hooked}]\n";
  }
  return text + "flow: " + Flow(random, kind) + "\n---\n";
}

std::string DrillDefinitions(Random& random, DrillKind kind) {
  std::string text =
      "id: m\nnodes: {a: {start: true, transitions: {ok: z}}, z: {final: true}}\n---\n"
      "plan: twig\nflow: [{step: w, action: w}]\n---\nplan: leaf\nflow: [{step: l, action: w}]\n"
      "---\naction: v\nplan: worker\n---\naction: w\n";
  if (random.Chance(20)) text += "retry: 2\n";
  if (random.Chance(20)) text += "timeout_strategy: fixed\ntimeout: 3.0\n";
  text += "---\n";
  if (kind >= DrillKind::kConditions) text += MoreActions(random);
  for (int i = 0; i < 3; ++i) text += DrillPlan(random, kind, "p" + std::to_string(i), "continue");
  return text.substr(0, text.size() - 4);
}

DrillKind Sim::DrawDrill() {
  using enum DrillKind;
  const DrillKind kind = of_drills_.Of<DrillKind>({kSections, kIfs, kPlanners});
  if (of_drills_.Chance(12) && !busy_) return kind;
  const DrillKind other =
      of_more_drills_.Of<DrillKind>({kConditions, kConditions, kLists, kWaits, kSections});
  if (!of_more_drills_.Chance(12) || busy_) return kNone;
  skips_ = true;
  return other;
}

void Sim::Drill(Asked& engine) {
  PollOne(engine);
  UseTask(engine);
  UseTask(engine);
  if (drill_ == DrillKind::kPlanners) return SaySecondWord(engine);
  if (drill_ == DrillKind::kWaits) SendEvents(engine);
  if (failed_.empty() || !of_drills_.Chance(30)) return;
  const auto [id, step] = of_drills_.Of(failed_);
  const bool skips = step == "s4" || (skips_ && of_drills_.Chance(40));
  const std::string word = skips ? "skip" : "retry";
  if (engine.Report("ns", id, {.transition = word, .node = step, .client = "op"})) ++frees_[id];
}

// A planner that has failed while its instance was cancelled says something else later on.
void Sim::SaySecondWord(Asked& engine) {
  std::vector<Task> planners;
  for (const Task& task : hands_) {
    if (task.phase == "plan") planners.push_back(task);
  }
  if (planners.empty()) return;
  const Task task = of_drills_.Of(planners);
  if (of_drills_.Chance(30) && engine.Cancel("ns", task.instance, CancelMode::kCancel)) {
    ++frees_[task.instance];
    ReportTask(engine, task, "error");
  } else if (of_drills_.Chance(30)) {
    ReportTask(engine, task, "planned");
  } else if (of_drills_.Chance(30) && engine.Resume("ns", task.instance, "", false)) {
    ++frees_[task.instance];
  }
}

// What is stopped by force its workers report all the same: the report is kept for a resume, but
// one by force wants nothing of it.
void Sim::ForceSome(Asked& engine) {
  if (!forces_ || hands_.empty() || !of_forces_.Chance(30)) return;
  const Task task = of_forces_.Of(hands_);
  if (of_forces_.Chance(70)) (void)engine.Cancel("ns", task.instance, CancelMode::kForce);
  ++frees_[task.instance];
  if (of_forces_.Chance(70)) ReportTask(engine, task, WordFor(task));
  if (of_forces_.Chance(50)) return;
  const bool force = of_forces_.Chance(60);
  (void)engine.Resume("ns", task.instance, "", force);
  if (force) FreeFamily(task.instance);
}

// To steps that run, so that they wait in order.
void Sim::SendEvents(Asked& engine) {
  if (hands_.empty()) return;
  const Task task = of_drills_.Of(hands_);
  for (size_t n = of_drills_.Below(3); n > 0; --n) {
    const std::string data = "{\"n\":" + std::to_string(of_drills_.Below(1'000)) + "}";
    (void)engine.Report("ns", task.instance,
                        {.transition = of_drills_.Of<std::string>({"go", "poke"}),
                         .params = data,
                         .node = task.node,
                         .client = "op"});
    ++frees_[task.instance];  // one that is suspended runs again in the same visit
  }
}

}  // namespace dfsmr
