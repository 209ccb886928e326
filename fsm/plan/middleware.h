// Chains of middleware: what is around a task, outermost first.
#pragma once

#include <string>
#include <vector>

#include "fsm/plan/source.h"

namespace dfsmr {

// At the end of the chain, innermost. A name counts once, outermost: of one that is there already
// only the constraints are added.
void AddUses(const std::vector<Use>& uses, std::vector<Use>* chain);

// `without` and `replace` of `change`, on what is in the chain. Gives the names that are not there.
// The replacement stands where the replaced stood, under the constraints that were upon it.
std::vector<std::string> ApplyChanges(const MiddlewareSource& change, std::vector<Use>* chain);

// The names in the order of the chain, save that before each come those that must be outside of it
// by `before` and `after`; constraints about what is not in the chain count for nothing. When they
// cannot be met: empty, and `cycle` is "a → b → a".
std::vector<std::string> InOrder(const std::vector<Use>& chain, std::string* cycle);

}  // namespace dfsmr
