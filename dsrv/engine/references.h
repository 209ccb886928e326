// What a definition names: for finding out who would miss it.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "fsm/machine/machine.h"
#include "fsm/when/document.h"

namespace dfsmr {

// Machines, plans and actions by their ids; schedules and triggers as "schedule:NAME", limits as
// "limit:KEY", without what stands behind the key's first slash.
std::set<std::string> NamesIn(const Machine& machine);
std::set<std::string> NamesIn(const Document& document);

// Some of them, for a message: "a, b and 3 more".
std::string Listed(const std::vector<std::string>& names);

}  // namespace dfsmr
