// What is wrong with a schedule although it reads well. See check.h.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fsm/plan/library.h"
#include "fsm/when/schedule.h"

namespace dfsmr {

// Appends what is found to `problems`: rules that never come due, a machine or version of it that
// is not defined, params that, filled in for the next time after `now`, break its schema.
void CheckSchedule(const ScheduleSource& schedule, const std::string& name,
                   const Definitions& definitions, Timestamp now,
                   std::vector<PlanProblem>* problems);

// The problem of a launch whose machine, or version of it, is not defined; nullopt: it is, or the
// launch sends.
std::optional<PlanProblem> MachineProblem(const LaunchSource& launch, Position document,
                                          const Definitions& definitions);

// What the params of a launch are held against; null: anything goes, or nobody knows. REQUIRES: its
// machine is defined.
std::shared_ptr<const ParamsCheck> ParamsCheckOf(const LaunchStart& start,
                                                 const Definitions& definitions);
// What the input of an action's step is held against, which it may inherit; null: anything goes. An
// action whose steps a worker plans may take any: what it plans has inputs of its own.
std::shared_ptr<const ParamsCheck> InputCheckOf(const ActionSource& action,
                                                const Definitions& definitions);

}  // namespace dfsmr
