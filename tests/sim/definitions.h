// Machines, actions and plans drawn at random, as text.
#pragma once

#include <string>

#include "tests/sim/random.h"

namespace dfsmr {

// "ok" always leads on towards the end, so that every instance can be driven there.
// `limits`: what draws limits for it and its nodes; `queues`: and queues; null: it has none.
std::string RandomMachine(Random& random, const std::string& id, const std::string& strategy,
                          Random* limits = nullptr, Random* queues = nullptr);

std::string AnyQueue(Random& random);
// As long as a name may be.
inline std::string LongName(char of) { return std::string(128, of); }

// Of one node that is done over and over, so that how long it takes is learned.
std::string BusyMachine(Random& random, const std::string& id, const std::string& strategy);

// With `keys` it may want a singleton. With `sections`, which hold no planners, it may have some.
std::string RandomPlan(Random& random, const std::string& id, const std::string& strategy,
                       bool keys, bool sections);

// What a planner's worker may answer: steps only, of actions that plan nothing themselves.
std::string RandomSteps(Random& random);

// A plain machine "m", the actions x0 to x5, the plans "leaf" and "twig" that others start, and the
// plans p0 to p2. Singletons are the plans' or the actions': with both, they may wait for each
// other for ever. `planners`: some actions let a worker plan their steps.
std::string Everything(Random& random, bool plan_keys, bool planners);

}  // namespace dfsmr
