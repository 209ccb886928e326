// The flow of a plan: lists, blocks and steps. Behind yaml.h.
#pragma once

#include "fsm/plan/source.h"
#include "fsm/yaml/fields.h"

namespace dfsmr {

// Whether a map says by its keys that it is a block or a step.
bool IsFlow(const YamlNode& map);
// Everything wrong is reported. `planner`: what a planner said, with a place for its own run.
FlowNode ReadFlow(const Field& field, bool planner);

}  // namespace dfsmr
