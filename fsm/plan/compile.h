// Plans: a flow compiled to the graph of one instance. It is pure: the other definitions come as a
// Library.
#pragma once

#include <memory>
#include <vector>

#include "fsm/plan/graph.h"
#include "fsm/plan/planning.h"

namespace dfsmr {

// Appends everything that is wrong to `problems`; then null. A graph with `planning` set holds one
// more round of planners, whose flows have to be known first.
std::shared_ptr<const PlanGraph> CompilePlan(const PlanningArgs& args,
                                             std::vector<PlanProblem>* problems);

}  // namespace dfsmr
