// The key `dry_run` of actions, steps and nodes.
#pragma once

#include "fsm/machine/dry_run.h"
#include "fsm/yaml/fields.h"

namespace dfsmr {

// `worker`, or {transition: ok, output: {…}}. Whether there is such a transition is looked at by
// the caller.
bool ReadDryRun(const Field& field, DryRunRule* out);
// The same of an action, which has the transitions ok, error and suspend.
bool ReadDryRunOfAction(const Field& field, DryRunRule* out);

}  // namespace dfsmr
