// Planning an instance.
#include "fsm/rules/inside.h"

namespace dfsmr::rules {

bool AwaitsGraph(const Instance& instance) {
  return instance.plan && instance.state == InstanceState::kPlanning && instance.tokens.empty() &&
         !HasOpenEdges(instance);
}

void Planned(Scene& scene) {
  Check(IsPlanned(scene), "only an instance of a plan is planned");
  Check(AwaitsGraph(scene.instance), "an instance is planned before its steps begin");
  const PlanGraph& graph = *scene.machine.graph;
  PlanState& plan = *scene.instance.plan;
  plan.done_weight = plan.done_finalize = plan.partial = plan.weight = 0;
  for (const Step& step : graph.steps) {
    if (!graph.sections.empty()) {  // what may have to be compensated counts, but not that
      const uint32_t section = scene.machine.nodes[scene.machine.Find(step.path)].section;
      if (CompensationAround(graph, section) != kNoSection) continue;
    }
    const Weights& weight = graph.actions[step.action].weight;
    if (step.kind != Step::Kind::kPass) plan.weight += weight.run;
    /*mutant finalize-weighs-nothing*/ if (step.finalize)
      plan.weight += weight.finalize; /*end*/
  }
  if (!graph.planning) {
    SetState(scene, InstanceState::kRunning);
    plan.ran = true;
  }
  EnterPlan(scene);
  JudgeSteps(scene);
}

void PlanningFailed(Scene& scene, const std::string& why) {
  Stop(scene, InstanceResult::kError, kNoNode, 0, why);
}

void PlaceToken(Scene& scene, uint64_t visit, RunsOn runs_on) {
  Token* token = scene.instance.tokens.FindMutable(visit);
  if (token && token->state == TokenState::kReady) token->runs_on = std::move(runs_on);
}

void FailStep(Scene& scene, uint64_t visit, const std::string& why) {
  const auto slot = scene.instance.tokens.SlotOf(visit);
  if (!slot || scene.instance.Stopped()) return;
  const Token token = std::as_const(scene.instance.tokens)[*slot];
  const Role role = scene.machine.nodes[token.node].role;
  if (role == Role::kPlanner) {
    PlanningFailed(scene, "step " + StepOf(scene, token).path + " could not be planned: " + why);
    return;
  }
  GiveUp(scene, *slot, {.error = why, .kind = {}}, {"error", {}, {}});
  JudgeSteps(scene);
}

}  // namespace dfsmr::rules
