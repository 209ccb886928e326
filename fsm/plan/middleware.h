// Chains of middleware: what is around a task, outermost first.
#pragma once

#include <string>
#include <vector>

#include "fsm/plan/source.h"

namespace dfsmr {

// Adds `uses` at the end of the chain, innermost. A name counts once, outermost: for a name that is
// in the chain already, only the constraints are added.
void AddUses(const std::vector<Use>& uses, std::vector<Use>* chain);

// Applies `without` and `replace` of `change` to the chain. Answers the names that are not in it. A
// replacement takes the place and the constraints of the name that it replaces.
std::vector<std::string> ApplyChanges(const MiddlewareSource& change, std::vector<Use>* chain);

// The names in the order of the chain, except that each comes after the names that `before` and
// `after` put outside of it. Constraints on names that are not in the chain do not count. When they
// cannot be met: empty, and `cycle` is "a → b → a".
std::vector<std::string> InOrder(const std::vector<Use>& chain, std::string* cycle);

}  // namespace dfsmr
