// Rules as `every` writes them: "6h offset 1h", "2 weeks on MO,TU at 09:00,17:30".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "fsm/base/result.h"
#include "fsm/when/weekdays.h"

namespace dfsmr {

struct EveryRule {
  enum class Unit : uint8_t { kElapsed, kDay, kWeek, kMonth, kYear };
  Unit unit = Unit::kElapsed;
  int64_t n = 1;           // of the unit; of elapsed time: seconds
  int64_t offset = 0;      // of elapsed time: seconds, less than n
  WeekdaySet days;         // empty: the day of `from`
  std::vector<int> times;  // seconds of the day, in order; empty: that of `from`
  friend bool operator==(const EveryRule&, const EveryRule&) = default;

  // Whether it can only be counted from a `from` that is written: what of it needs one, for a
  // message; "" when nothing does.
  std::string_view NeedsFrom() const;
};

Result<EveryRule> ParseEvery(std::string_view text);

// A rule with what it is counted from.
struct AnchoredEvery {
  EveryRule rule;  // `times` are filled in, and `days` of weeks
  Instant base{};  // of elapsed time: one of its times
  LocalDay day{};  // of calendar units: the day of `from`

  // `from`: what the local clock shows then, and the instant; nullopt: it is not written.
  struct From {
    Instant at;
    LocalTime local;
  };
  AnchoredEvery(const EveryRule& every, const std::optional<From>& from);

  // The days of `month` that it matches; of calendar units only.
  uint32_t Days(const Month& month) const;

 private:
  uint32_t EveryNDays(const Month& month) const;
  uint32_t EveryNWeeks(const Month& month) const;
};

}  // namespace dfsmr
