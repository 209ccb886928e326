// Rules about limits that only the engine's limits apply.
#pragma once

#include "fsm/rules/rules.h"

namespace dfsmr::rules {

// An instance that runs already, or a token of it that is claimed, holds keys from now on, whether
// there is room or not.
void HoldPastLimits(Scene& scene, const LimitAnswer& answer);
void HoldPastLimits(Scene& scene, uint64_t visit, const LimitAnswer& answer);

// One that asked for its turn is not let in: before its begin it stops, as one that finds no room
// does; one that was paused stays so.
void RefuseTurn(Scene& scene, const LimitAnswer& answer);

}  // namespace dfsmr::rules
