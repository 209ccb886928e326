// The key `runs_on` of actions, steps and nodes.
#pragma once

#include "fsm/machine/runs_on.h"
#include "fsm/yaml/fields.h"

namespace dfsmr {

// {capability: [gpu, arm64], agent: "${params.host}"}, or one of the two. What the agent's
// references lead to is looked at when the machine or plan is compiled.
bool ReadRunsOn(const Field& field, RunsOn* out);

}  // namespace dfsmr
