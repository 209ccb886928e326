// The first or last local time of a range at which a rule is true: by months, then days, then the
// time of day, all as masks of bits, so that no step is taken for what is not true.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>

#include "fsm/when/cron.h"
#include "fsm/when/every.h"
#include "fsm/when/exceptions.h"

namespace dfsmr {

// The directions of a search: which bit of a mask comes next, which bits `from` on remain, what
// lies beyond a limit.
struct Forward {
  static constexpr bool kForward = true;
  static constexpr int kFirstSecond = 0;
  static int Pick(uint64_t mask) { return std::countr_zero(mask); }
  static uint64_t Clip(uint64_t mask, int from) { return mask & ~uint64_t{0} << from; }
  static bool Beyond(LocalTime time, LocalTime limit) { return time > limit; }
  static LocalTime Begin(LocalDay day) { return day; }
  static LocalTime Begin(const Month& month) { return month.first; }
  static Month Step(const Month& month) { return NextMonth(month); }
};
struct Backward {
  static constexpr bool kForward = false;
  static constexpr int kFirstSecond = 86'399;
  static int Pick(uint64_t mask) { return 63 - std::countl_zero(mask); }
  static uint64_t Clip(uint64_t mask, int from) { return mask & ~uint64_t{0} >> (63 - from); }
  static bool Beyond(LocalTime time, LocalTime limit) { return time < limit; }
  static LocalTime Begin(LocalDay day) { return day + std::chrono::seconds(kFirstSecond); }
  static LocalTime Begin(const Month& month) {
    return month.first + std::chrono::days(month.length) - std::chrono::seconds(1);
  }
  static Month Step(const Month& month) { return PreviousMonth(month); }
};

// Takes the next bit out of `mask`.
template <typename Direction>
int Take(uint64_t& mask) {
  const int bit = Direction::Pick(mask);
  mask &= ~(uint64_t{1} << bit);
  return bit;
}

template <typename Direction>
std::optional<int> FindTime(const CronRule& rule, const Exceptions::Day& except, int from) {
  const int from_hour = from / 3600, from_minute = from / 60 % 60, from_second = from % 60;
  for (uint64_t hours = Direction::Clip(rule.hours, from_hour); hours != 0;) {
    const int hour = Take<Direction>(hours);
    uint64_t minutes = rule.minutes & ~except.Minutes(hour, rule.seconds);
    if (hour == from_hour) minutes = Direction::Clip(minutes, from_minute);
    while (minutes != 0) {
      const int minute = Take<Direction>(minutes);
      uint64_t seconds = rule.seconds & ~except.Seconds(hour, minute);
      const bool edge = hour == from_hour && minute == from_minute;
      if (edge) seconds = Direction::Clip(seconds, from_second);
      if (seconds != 0) return hour * 3600 + minute * 60 + Direction::Pick(seconds);
    }
  }
  return std::nullopt;
}

template <typename Direction>
std::optional<int> FindTime(const AnchoredEvery& every, const Exceptions::Day& except, int from) {
  const auto& times = every.rule.times;
  for (size_t i = 0; i < times.size(); ++i) {
    const int time = Direction::kForward ? times[i] : times[times.size() - 1 - i];
    const bool before = Direction::kForward ? time < from : time > from;
    if (!before && !except.Has(time)) return time;
  }
  return std::nullopt;
}

// From `from` to `limit`, both inclusive.
template <typename Direction, typename Rule>
std::optional<LocalTime> FindLocal(const Rule& rule, const Exceptions& except, LocalTime from,
                                   LocalTime limit) {
  const LocalDay first_day = std::chrono::floor<std::chrono::days>(from);
  Month month = MonthOf(first_day);
  Exceptions::Spent spent;
  uint64_t days = Direction::Clip(rule.Days(month), DayOfMonth(first_day, month));
  while (true) {
    while (days != 0) {
      const LocalDay day = month.first + std::chrono::days(Take<Direction>(days) - 1);
      if (Direction::Beyond(Direction::Begin(day), limit)) return std::nullopt;
      const Exceptions::Day left_out = except.On(day, month);
      if (left_out.whole() || spent.Covers(left_out)) continue;
      const int start =
          day == first_day ? static_cast<int>((from - day).count()) : Direction::kFirstSecond;
      const auto second = FindTime<Direction>(rule, left_out, start);
      if (!second) {
        if (start == Direction::kFirstSecond) spent.Add(left_out);
        continue;
      }
      const LocalTime found = day + std::chrono::seconds(*second);
      if (Direction::Beyond(found, limit)) return std::nullopt;
      return found;
    }
    month = Direction::Step(month);
    if (Direction::Beyond(Direction::Begin(month), limit)) return std::nullopt;
    days = rule.Days(month);
  }
}

}  // namespace dfsmr
