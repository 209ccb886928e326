// Sets of weekdays, also by their place in a month or year: every Monday, the second Friday, the
// last Sunday.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "fsm/when/civil.h"

namespace dfsmr {

inline constexpr std::array<std::string_view, 7> kWeekdayNames = {
    "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};

// Weekday 0 is Sunday: bit 0. Days of a month are bits 1 to 31 of a mask.
struct WeekdaySet {
  uint8_t every = 0;
  uint8_t last = 0;
  std::array<uint8_t, 5> nth = {};  // the first, …, the fifth

  bool empty() const { return *this == WeekdaySet(); }
  bool HasPlaces() const { return last != 0 || nth != std::array<uint8_t, 5>(); }
  uint32_t InMonth(const Month& month) const;
  // The days of `month` in its year: `nth` and `last` count within the year.
  uint32_t InYear(const Month& month) const;
  friend bool operator==(const WeekdaySet&, const WeekdaySet&) = default;
};

// All days that `month` has.
inline uint32_t AllDays(const Month& month) {
  return ~uint32_t{1} & static_cast<uint32_t>((uint64_t{2} << month.length) - 1);
}

}  // namespace dfsmr
