// Planning an instance, and the singletons that a plan or a step waits for.
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
    const Weights& weight = graph.actions[step.action].weight;
    if (step.kind != Step::Kind::kPass) plan.weight += weight.run;
    if (step.finalize) plan.weight += weight.finalize;
  }
  if (!graph.planning) {
    SetState(scene, InstanceState::kRunning);
    plan.ran = true;
  }
  EnterPlan(scene);
  JudgeSteps(scene);
}

bool TakeKey(Scene& scene) {
  Instance& instance = scene.instance;
  Check(static_cast<bool>(instance.plan), "only an instance of a plan takes a singleton");
  if (scene.key_holder.empty()) {
    instance.plan->key = scene.key;
    return true;
  }
  instance.plan->key.clear();
  const std::string why = HeldBy(scene.key, scene.key_holder);
  if (scene.on_conflict == OnConflict::kFail) return PlanningFailed(scene, why), false;
  KeepFromRunning(scene, Wait::kKey);
  Emit(scene, ChangeKind::kScheduled).note = why + "; it waits its turn";
  return false;
}

void PlanningFailed(Scene& scene, const std::string& why) {
  Stop(scene, InstanceResult::kError, kNoNode, 0, why);
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
  GiveUp(scene, *slot, why, {"error", {}, {}});
  JudgeSteps(scene);
}

void AwaitKey(Scene& scene, uint64_t visit, const std::string& key, const std::string& holder,
              OnConflict on_conflict) {
  const std::string why = HeldBy(key, holder);
  if (on_conflict == OnConflict::kFail) return FailStep(scene, visit, why);
  Token* token = scene.instance.tokens.FindMutable(visit);
  if (!token) return;
  if (scene.instance.Cancelling()) {  // the step has not begun, and will not
    scene.instance.tokens.Remove(*scene.instance.tokens.SlotOf(visit));
    return JudgeSteps(scene);
  }
  token->state = TokenState::kWaiting;
  token->step->ready_since = std::exchange(token->available_at, kNever);
  token->step->waits_for_key = true;
  token->step->key = key;
}

void RetryKey(Scene& scene, uint64_t visit) {
  Token* token = scene.instance.tokens.FindMutable(visit);
  if (!token || !token->step || !token->step->waits_for_key) return;
  token->state = TokenState::kReady;
  // It keeps its place in line while it waits for its singleton.
  const Timestamp since = std::exchange(token->step->ready_since, {});
  token->available_at = since == Timestamp() ? scene.now : since;
  token->step->waits_for_key = false;
  token->step->key.clear();
}

}  // namespace dfsmr::rules
