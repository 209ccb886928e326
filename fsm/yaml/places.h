// Where in a source something is that was found only when the source was compiled: a plan keeps
// where its steps were written, not where each of their keys was.
#pragma once

#include "fsm/plan/planning.h"
#include "fsm/yaml/tree.h"

namespace dfsmr {

// The place of a problem of a definition in `tree`: where its path leads to, and within that the
// first text that holds its reference. As `problem.written` says when the tree has no such path.
Written PlaceOf(const PlanProblem& problem, const YamlTree& tree);

}  // namespace dfsmr
