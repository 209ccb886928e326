// Time is a value handed in; nothing below dsrv reads a clock.
#pragma once

#include <chrono>
#include <cstdint>

namespace dfsmr {

using Duration = std::chrono::microseconds;
using Timestamp = std::chrono::sys_time<Duration>;  // server time, UTC

inline constexpr Timestamp kNever = Timestamp::max();

constexpr int64_t Micros(Timestamp t) { return t.time_since_epoch().count(); }
constexpr Timestamp FromMicros(int64_t us) { return Timestamp(Duration(us)); }
constexpr double Seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

// Saturates instead of overflowing: a duration of decades added to now is "never", not yesterday.
constexpr Timestamp After(Timestamp t, Duration d) {
  if (d > Duration::zero() && t > kNever - d) return kNever;
  return t + d;
}

}  // namespace dfsmr
