// Where steps run: the agent that a runs_on names.
#include "fsm/base/json.h"
#include "fsm/plan/resolve.h"

namespace dfsmr {

std::optional<std::string> PlanNames::WorkerOf(const Reference& reference, const Scope& scope,
                                               const Where& where, Reader* reader) {
  std::vector<std::string_view> keys;
  for (const Reference::Part& part : reference.parts) keys.push_back(part.key);
  keys.pop_back();
  const auto found = Find(scope, keys, false);
  if (!found) {
    Fail(where, *reader, reference, ": " + UnknownName(scope, keys, false));
    return std::nullopt;
  }
  Entity entity = found->entity;
  if (entity.kind == Entity::Kind::kNone) return std::nullopt;  // said where it stands
  if (entity.kind == Entity::Kind::kBundle && draft_.bundles[entity.index].runs) {
    entity = {Entity::Kind::kStep, draft_.bundles[entity.index].own};
  }
  if (entity.kind == Entity::Kind::kBundle) {
    Fail(where, *reader, reference, " is of several steps; name one that a worker runs");
    return std::nullopt;
  }
  if (entity.index == reader->step) {
    Fail(where, *reader, reference, " is the step's own worker");
    return std::nullopt;
  }
  Step& step = draft_.graph.steps[entity.index];
  if (step.kind == Step::Kind::kSpawn || (step.kind == Step::Kind::kPass && !step.left_out)) {
    Fail(where, *reader, reference, ": no worker runs this step");
    return std::nullopt;
  }
  step.tells_worker = true;
  return OutputOf(entity, "worker", reader);
}

void PlanNames::CompileAgent(uint32_t index, Reader* reader) {
  const StepDraft& draft = draft_.steps[index];
  const Step& step = draft_.graph.steps[index];
  const bool works = step.kind == Step::Kind::kWork || step.finalize || reader->planner;
  if (!works || step.action >= draft_.graph.actions.size()) return;
  const std::string& agent = draft_.graph.actions[step.action].runs_on.agent;
  if (agent.empty()) return;
  Where where = draft.where;
  if (where.subscriber.empty()) where.key = "runs_on";
  reader->places = true;
  std::string compiled = Compile(json::Quote(agent), *draft.scope, where, reader);
  reader->places = false;
  Keep(compiled.size());
  draft_.graph.agents[index] = std::move(compiled);
}

}  // namespace dfsmr
