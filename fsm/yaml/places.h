// Finds the places of problems that show only when a source is compiled: a plan keeps where its
// steps were written, but not where each of their keys was.
#pragma once

#include "fsm/plan/planning.h"
#include "fsm/yaml/tree.h"

namespace dfsmr {

// The place of a definition's problem in `tree`: the value at its path, and within that the first
// text that holds its reference. If the tree has no such path it is `problem.written`.
Written PlaceOf(const PlanProblem& problem, const YamlTree& tree);

}  // namespace dfsmr
