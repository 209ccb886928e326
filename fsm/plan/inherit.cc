#include "fsm/plan/inherit.h"

#include <algorithm>

#include "fsm/base/limits.h"
#include "fsm/base/names.h"
#include "fsm/plan/middleware.h"

namespace dfsmr {
namespace {

template <typename T>
void Override(const std::optional<T>& given, std::optional<T>* value) {
  if (given) *value = given;
}

// The action, what it extends, and so on. Where that comes round, it ends, and `problems` says so.
std::vector<const ActionSource*> Lineage(const ActionSource& action, const Library& library,
                                         std::vector<PlanProblem>* problems) {
  std::vector<const ActionSource*> lineage = {&action};
  while (!lineage.back()->extends.empty()) {
    const std::string& base = lineage.back()->extends;
    auto same = [&base](const ActionSource* known) { return known->id == base; };
    auto seen = std::ranges::find_if(lineage, same);
    if (seen != lineage.end()) {
      std::string path;
      for (; seen != lineage.end(); ++seen) path += (*seen)->id + " → ";
      problems->push_back(
          {action.extends_written, "a cycle of actions that extend each other: " + path + base});
      break;
    }
    if (lineage.size() == limits::kExtends) {
      problems->push_back({action.extends_written, "more than " + std::to_string(limits::kExtends) +
                                                       " actions extend one another"});
      break;
    }
    const ActionSource* next = library.FindAction(base);
    if (!next) {
      problems->push_back({lineage.back()->extends_written,
                           "there is no action " + Quoted(base) +
                               " to extend; define it first, or "
                               "in the same source",
                           {base}});
      break;
    }
    lineage.push_back(next);
  }
  return lineage;
}

// `bases`: the ids of the actions that the chain comes from.
void InheritMiddleware(const MiddlewareSource& own, const std::vector<std::string>& bases,
                       MiddlewareSource* chain, std::vector<PlanProblem>* problems) {
  AddUses(own.use, &chain->use);
  for (const std::string& name : ApplyChanges(own, &chain->use)) {
    Nearest nearest(name);
    for (const Use& use : chain->use) nearest.Try(use.name);
    problems->push_back(
        {own.written,
         "there is no middleware " + Quoted(name) + " to replace or do without" + nearest.Hint(),
         bases});
  }
}

}  // namespace

void OverrideKeys(const ActionSource& own, ActionSource* action) {
  Override(own.phases, &action->phases);
  Override(own.planned_by_worker, &action->planned_by_worker);
  Override(own.queue, &action->queue);
  Override(own.priority, &action->priority);
  action->timeout = own.timeout.Over(action->timeout);
  Override(own.retry, &action->retry);
  Override(own.run_timeout, &action->run_timeout);
  Override(own.ready_timeout, &action->ready_timeout);
  Override(own.abandon_after, &action->abandon_after);
  Override(own.poll, &action->poll);
  /*mutant step-rescue-ignored*/ Override(own.rescue, &action->rescue); /*end*/
  if (own.rescue || !own.rescue_from.empty()) action->rescue_from = own.rescue_from;
  Override(own.weight, &action->weight);
  Override(own.input, &action->input);
  Override(own.output, &action->output);
  Override(own.limits, &action->limits);
  Override(own.on_conflict, &action->on_conflict);
  Override(own.runs_on, &action->runs_on);
  Override(own.dry_run, &action->dry_run);
  Override(own.subscribes_to, &action->subscribes_to);
  Override(own.with, &action->with);
}

ActionSource Inherited(const ActionSource& action, const Library& library,
                       std::vector<PlanProblem>* problems) {
  const std::vector<const ActionSource*> lineage = Lineage(action, library, problems);
  std::vector<std::string> bases;
  for (const ActionSource* one : lineage) {
    if (!one->extends.empty()) bases.push_back(one->extends);
  }
  ActionSource result;
  for (size_t i = lineage.size(); i-- > 0;) {
    OverrideKeys(*lineage[i], &result);
    // What is wrong with a base is said of the base.
    std::vector<PlanProblem> unheard;
    InheritMiddleware(lineage[i]->middleware, bases, &result.middleware,
                      i == 0 ? problems : &unheard);
  }
  std::string cycle;
  InOrder(result.middleware.use, &cycle);
  if (!cycle.empty()) {
    problems->push_back({action.middleware.written,
                         "middleware cannot be put in order, there is a cycle: " + cycle, bases});
  }
  result.id = action.id;
  result.description = action.description;
  result.extends = action.extends;
  result.written = action.written;
  result.middleware.written = action.middleware.written;
  return result;
}

PlanSource PlanOfAction(const ActionSource& action) {
  PlanSource plan;
  plan.id = action.id;
  plan.description = action.description;
  if (action.input) plan.params = *action.input;
  plan.written = action.written;
  plan.flow.written = action.written;
  FlowNode& step = plan.flow.children.emplace_back();
  step.kind = FlowNode::Kind::kStep;
  step.written = action.written;
  step.name = action.id;
  step.action = action.id;
  step.input = "\"${params}\"";
  return plan;
}

}  // namespace dfsmr
