// What is wrong with a schedule although it reads well. See check.h.
#pragma once

#include <string>
#include <vector>

#include "fsm/plan/library.h"
#include "fsm/when/schedule.h"

namespace dfsmr {

// Appends what is found to `problems`: rules that never come due, a machine that is not defined,
// params that, filled in for the next time after `now`, break its schema.
void CheckSchedule(const ScheduleSource& schedule, const std::string& name,
                   const Definitions& definitions, Timestamp now,
                   std::vector<PlanProblem>* problems);

// The problem of a launch whose machine is not defined; nullopt: it is, or it sends.
std::optional<PlanProblem> MachineProblem(const LaunchSource& launch, Position document,
                                          const Definitions& definitions);

}  // namespace dfsmr
