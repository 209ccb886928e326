// The conditions of steps: what they name, by number.
#include "fsm/condition/condition.h"
#include "fsm/plan/resolve.h"

namespace dfsmr {

// A number as a condition names it: "#12", or "@3" of what is several steps.
std::string PlanNames::NumberOf(const Entity& entity) {
  if (entity.kind == Entity::Kind::kStep) return "#" + std::to_string(entity.index);
  return "@" + std::to_string(StateGroupOf(entity.index));
}

// The group of all steps of a bundle. Of a planner that runs itself they are one more than those
// that have an output in it.
uint32_t PlanNames::StateGroupOf(uint32_t bundle) {
  const uint32_t inner = GroupOf(bundle);
  if (!draft_.bundles[bundle].runs) return inner;
  const auto group = static_cast<uint32_t>(draft_.graph.groups.size());
  Group& all = draft_.graph.groups.emplace_back();
  all.members = {{"self", false, draft_.bundles[bundle].own}, {"steps", true, inner}};
  return group;
}

Condition PlanNames::CompileCondition(const Condition& condition, const Scope& scope,
                                      const Where& where, Reader* reader) {
  Condition compiled{.kind = condition.kind, .op = condition.op, .outcome = condition.outcome};
  for (const Condition& part : condition.parts) {
    compiled.parts.push_back(CompileCondition(part, scope, where, reader));
  }
  for (const std::string& step : condition.steps) {
    compiled.steps.push_back(StepNamed(step, scope, where, *reader));
  }
  if (condition.kind != Condition::Kind::kValue) return compiled;
  compiled.value = Compile(condition.value, scope, where, reader);
  compiled.operand = Compile(condition.operand, scope, where, reader);
  (void)PreparePattern(&compiled);  // of a text that is known by now
  return compiled;
}

void PlanNames::CompileIf(uint32_t index) {
  const StepDraft& draft = draft_.steps[index];
  if (!draft.decided) return;
  const FlowNode& node = *draft.decided;
  Where where = draft.where;
  Reader reader{.step = index, .lenient = true};
  draft_.order.AddDecision(index);
  if (!node.plan.empty()) {  // what its input refers to is waited for, whoever uses it
    where.key = "input";
    Compile(node.input, *draft.scope, where, &reader);
  }
  where.key = "if";
  StepIf decision;
  decision.text = TextOf(*node.condition);
  decision.condition = std::make_shared<const Condition>(
      CompileCondition(*node.condition, *draft.scope, where, &reader));
  for (uint32_t at = draft.members.first; at < draft.members.second; ++at) {
    decision.members.push_back(at);
  }
  Keep(decision.text.size() + 4 * decision.members.size());
  draft_.graph.ifs[index] = std::move(decision);
}

}  // namespace dfsmr
