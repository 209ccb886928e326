// Rules about limits that only the engine's limits apply.
#pragma once

#include "fsm/rules/rules.h"

namespace dfsmr::rules {

// An instance that runs already holds keys from now on, whether there is room or not.
void HoldPastLimits(Scene& scene, const LimitAnswer& answer);

}  // namespace dfsmr::rules
