// Callers' deadlines, which gRPC reckons by this host's clock, by the server's own.
#pragma once

#include <chrono>

#include "fsm/base/time.h"

namespace dfsmr {

// When the deadline is by a clock that shows `clock` when this host's shows `here`.
inline Timestamp ByClock(std::chrono::system_clock::time_point deadline,
                         std::chrono::system_clock::time_point here, Timestamp clock) {
  if (deadline == std::chrono::system_clock::time_point::max()) return kNever;
  return After(clock, std::chrono::duration_cast<Duration>(deadline - here));
}

}  // namespace dfsmr
