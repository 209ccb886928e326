// Plans: a flow compiled to the graph of one instance. Pure; what is defined beside the plan is
// handed in as a Library.
#pragma once

#include <memory>
#include <vector>

#include "fsm/plan/graph.h"
#include "fsm/plan/planning.h"

namespace dfsmr {

// Null when there is a problem; all of them are appended. What is in the result with `planning` set
// is one more round of planners.
std::shared_ptr<const PlanGraph> CompilePlan(const PlanningArgs& args,
                                             std::vector<PlanProblem>* problems);

}  // namespace dfsmr
