#include "fsm/when/weekdays.h"

namespace dfsmr {
namespace {

// The set as seen from a day that is `first`: bit 0 is that weekday, bit 1 the next, …
uint64_t From(uint8_t weekdays, int first) {
  const unsigned doubled = static_cast<unsigned>(weekdays) | static_cast<unsigned>(weekdays) << 7;
  return doubled >> first & 0x7f;
}

constexpr uint64_t kWeeks = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28;

// Of a stretch of days that begins with weekday `first`; bit 0 is its first day.
uint64_t Places(const std::array<uint8_t, 5>& nth, int first) {
  uint64_t mask = 0;
  for (size_t week = 0; week < nth.size(); ++week) mask |= From(nth[week], first) << 7 * week;
  return mask;
}

// The last seven days of a month of `length` days.
uint64_t LastWeek(uint8_t weekdays, const Month& month) {
  const int start = month.length - 7;  // counted from 0
  return From(weekdays, (month.first_weekday + start) % 7) << start;
}

}  // namespace

uint32_t WeekdaySet::InMonth(const Month& month) const {
  uint64_t mask = From(every, month.first_weekday) * kWeeks;
  if (HasPlaces()) mask |= Places(nth, month.first_weekday) | LastWeek(last, month);
  return static_cast<uint32_t>(mask << 1) & AllDays(month);
}

uint32_t WeekdaySet::InYear(const Month& month) const {
  uint64_t mask = From(every, month.first_weekday) * kWeeks;
  // The first 35 days of a year end in February.
  if (month.month == 1) mask |= Places(nth, month.first_weekday);
  if (month.month == 2) mask |= Places(nth, PreviousMonth(month).first_weekday) >> 31;
  if (month.month == 12) mask |= LastWeek(last, month);
  return static_cast<uint32_t>(mask << 1) & AllDays(month);
}

}  // namespace dfsmr
