// The trace of what an instance starts.
#pragma once

#include "dsrv/engine/names.h"
#include "dsrv/engine/types.h"

namespace dfsmr {

// What `starter` starts belongs to its trace, unless it names one of its own, and hangs on the span
// of the visit and attempt that starts it (0: of the instance, or of the visit). Costs nothing when
// the starter has no trace.
void InheritTrace(Residents& residents, Resident& starter, uint64_t visit, uint32_t attempt,
                  StartArgs* args);

}  // namespace dfsmr
