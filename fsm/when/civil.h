// Dates and times of day as people write them: of the local clock, or of UTC, to the second.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "fsm/base/time.h"

namespace dfsmr {

using Instant = std::chrono::sys_seconds;      // a second of UTC
using LocalTime = std::chrono::local_seconds;  // what a clock on the wall shows
using LocalDay = std::chrono::local_days;

// Calendars look no further: the years that a proto Timestamp and RFC 3339 can say.
inline constexpr Instant kFirstInstant{std::chrono::seconds(-62'135'596'800)};  // 0001-01-01
inline constexpr Instant kLastInstant{
    std::chrono::seconds(253'402'300'799)};  // 9999-12-31T23:59:59

// The second that contains `time`, and the first one that does not begin before it; within the
// range above.
Instant FloorSecond(Timestamp time);
Instant CeilSecond(Timestamp time);

struct Civil {
  int year = 1970, month = 1, day = 1, hour = 0, minute = 0, second = 0;
};
Civil ToCivil(LocalTime time);
Civil ToCivil(Instant time);

std::string DateText(LocalDay day);        // 2026-11-23
std::string ClockText(int second_of_day);  // 02:30, or 02:30:15 where there are seconds

// A month and how its days lie.
struct Month {
  int year;
  int month;          // 1 to 12
  int length;         // days
  int first_weekday;  // of its first day; 0 is Sunday
  LocalDay first;
};
Month MonthOf(LocalDay day);
Month NextMonth(const Month& month);
Month PreviousMonth(const Month& month);

inline int DayOfMonth(LocalDay day, const Month& month) {
  return static_cast<int>((day - month.first).count()) + 1;
}

// Reads `YYYY-MM-DD`, years 0001 to 9999; nullopt: the text is something else, or there is no such
// day.
std::optional<LocalDay> ReadDate(std::string_view text);
// Reads `H:MM`, `HH:MM` or `HH:MM:SS`: the second of the day.
std::optional<int> ReadClock(std::string_view text);

}  // namespace dfsmr
