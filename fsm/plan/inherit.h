// Actions as they take part in plans: with what they extend, and as plans of their own.
#pragma once

#include <vector>

#include "fsm/plan/planning.h"
#include "fsm/plan/source.h"

namespace dfsmr {

// An action as a plan of one step that is named after it, with the instance's params as its input.
PlanSource PlanOfAction(const ActionSource& action);
// The keys of an action with those that it inherits. What is wrong with its bases or its middleware
// is appended to `problems`; then what was found stands for the rest.
ActionSource Inherited(const ActionSource& action, const Library& library,
                       std::vector<PlanProblem>* problems);
// The keys that `own` gives are put in place of the action's; middleware and names are left alone.
void OverrideKeys(const ActionSource& own, ActionSource* action);

}  // namespace dfsmr
