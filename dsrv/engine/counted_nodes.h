// The nodes of a version as they are counted.
#pragma once

#include "dsrv/engine/machine_state.h"

namespace dfsmr {

// The machine with them; null: a flow that nobody has defined, or a plan that does not compile any
// more.
inline const Machine* NodesOf(const VersionState& version) {
  if (version.plan) return version.shown.get();
  return version.graph ? version.graph->machine.get() : nullptr;
}

}  // namespace dfsmr
