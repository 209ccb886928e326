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
  return "plan: " + id + "\nupgrade_strategy: " + strategy + "\nflow: " + Flow(random, kind) +
         "\n---\n";
}

std::string DrillDefinitions(Random& random, DrillKind kind) {
  std::string text =
      "id: m\nnodes: {a: {start: true, transitions: {ok: z}}, z: {final: true}}\n---\n"
      "plan: twig\nflow: [{step: w, action: w}]\n---\nplan: leaf\nflow: [{step: l, action: w}]\n"
      "---\naction: v\nplan: worker\n---\naction: w\n";
  if (random.Chance(20)) text += "retry: 2\n";
  if (random.Chance(20)) text += "timeout_strategy: fixed\ntimeout: 3.0\n";
  text += "---\n";
  for (int i = 0; i < 3; ++i) text += DrillPlan(random, kind, "p" + std::to_string(i), "continue");
  return text.substr(0, text.size() - 4);
}

DrillKind Sim::DrawDrill(Random& random, bool busy) {
  using enum DrillKind;
  const DrillKind kind = random.Of<DrillKind>({kSections, kIfs, kPlanners});
  return random.Chance(12) && !busy ? kind : kNone;
}

void Sim::Drill(Asked& engine) {
  PollOne(engine);
  UseTask(engine);
  UseTask(engine);
  if (drill_ == DrillKind::kPlanners) return SaySecondWord(engine);
  if (failed_.empty() || !of_drills_.Chance(30)) return;
  const auto [id, step] = of_drills_.Of(failed_);
  const std::string word = step == "s4" ? "skip" : "retry";
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

}  // namespace dfsmr
