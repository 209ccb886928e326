// Plans that are made for what rarely happens in others: whatever they hold, they hold it often.
#pragma once

#include <cstdint>
#include <string>

#include "tests/sim/random.h"

namespace dfsmr {

enum class DrillKind : uint8_t {
  kNone,
  kSections,    // what is outside leads into sections that fail and begin anew
  kIfs,         // an `if` behind several steps, which are held and tried again
  kPlanners,    // whose instances are cancelled while they plan
  kConditions,  // an `if` behind lists, nested plans and children, and plans that fail
  kLists,       // empty ones, and lists of lists, and who comes after them
  kWaits,       // polls, timeouts, and events that wait
};

// The plan `id`.
std::string DrillPlan(Random& random, DrillKind kind, const std::string& id,
                      const std::string& strategy);
// All that is defined at first: as Everything (definitions.h), with the actions w, and v, which a
// worker plans.
std::string DrillDefinitions(Random& random, DrillKind kind);

// Of the last three kinds (drill_flows.cc).
std::string MoreFlow(Random& random, DrillKind kind);
std::string MoreActions(Random& random);
// That others nest; it is defined anew now and then.
std::string PairPlan(Random& random);

}  // namespace dfsmr
