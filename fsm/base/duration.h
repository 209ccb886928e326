// Durations as people write them.
#pragma once

#include <string>
#include <string_view>

#include "fsm/base/result.h"
#include "fsm/base/time.h"

namespace dfsmr {

inline constexpr Duration kDurationMax = std::chrono::hours(24 * 36525);  // a hundred years

// A number with a unit: 250us, 250ms, 1.5s, 5m, 2h, 7d. Not negative, at most kDurationMax, to the
// microsecond. The error's message says what would be right.
Result<Duration> ParseDuration(std::string_view text);

// In the largest unit that takes no fraction: 90s, 5m, 7d.
std::string FormatDuration(Duration duration);

}  // namespace dfsmr
