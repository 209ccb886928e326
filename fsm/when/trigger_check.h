// What is wrong with a trigger although it reads well. See check.h.
#pragma once

#include <string>
#include <vector>

#include "fsm/plan/library.h"
#include "fsm/when/trigger.h"

namespace dfsmr {

// Appends what is found to `problems`: a machine or the action of a poll that is not defined (of
// the action a warning: its workers may know more), a poll of something that is no action, and
// params that, whatever the item, break the machine's schema.
void CheckTrigger(const TriggerSource& trigger, const Definitions& definitions,
                  std::vector<PlanProblem>* problems);

}  // namespace dfsmr
