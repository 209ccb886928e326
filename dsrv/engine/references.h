// What a definition names: for finding out who would miss it.
#pragma once

#include <set>
#include <string>

#include "fsm/machine/machine.h"
#include "fsm/when/document.h"

namespace dfsmr {

// Machines, plans and actions by their ids; schedules and triggers as "schedule:NAME", limits as
// "limit:KEY", without what stands behind the key's first slash.
std::set<std::string> NamesIn(const Machine& machine);
std::set<std::string> NamesIn(const Document& document);

}  // namespace dfsmr
