// The flow of a plan: lists, blocks and steps.
#pragma once

#include "fsm/plan/source.h"
#include "fsm/yaml/fields.h"

namespace dfsmr {

// Whether a map says by its keys that it is a block or a step.
bool IsFlow(const YamlNode& map);
// Reports everything that is wrong. `planner`: the flow comes from a planner's worker, and may say
// where the planner's own run stands.
FlowNode ReadFlow(const Field& field, bool planner);

}  // namespace dfsmr
