// Time as leases reckon it: of a clock that goes on while the machine sleeps, and that nobody sets.
#pragma once

#include <chrono>
#include <ctime>

namespace dfsmr {

// CLOCK_BOOTTIME.
using LeaseTime = std::chrono::nanoseconds;

inline LeaseTime LeaseTimeNow() {
  timespec time{};
  clock_gettime(CLOCK_BOOTTIME, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace dfsmr
