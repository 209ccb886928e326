// The rule of a zone for the years to come, as POSIX writes it in the variable TZ and in the last
// line of a tzdata file: "CET-1CEST,M3.5.0,M10.5.0/3".
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "fsm/base/result.h"
#include "fsm/when/civil.h"

namespace dfsmr {

struct PosixZone {
  // A day of each year and a local time on it, which may lie on another day (-167 h to 167 h).
  struct Turn {
    enum class Kind : uint8_t {
      kWeekday,      // the `week`th (5: last) `weekday` of `month`
      kDay,          // `day` of 365; February 29 is not counted
      kDayWithLeap,  // `day` from 0; February 29 is counted
    };
    Kind kind = Kind::kWeekday;
    int month = 1, week = 1, weekday = 0, day = 0;
    std::chrono::seconds time = std::chrono::hours(2);
    LocalTime In(int year) const;
    friend bool operator==(const Turn&, const Turn&) = default;
  };
  // Daylight saving: from `begin` (by the standard clock) to `end` (by its own) of each year.
  struct Summer {
    std::chrono::seconds offset;
    Turn begin;
    Turn end;
    friend bool operator==(const Summer&, const Summer&) = default;
  };
  std::chrono::seconds offset{0};  // of standard time, ahead of UTC
  std::optional<Summer> summer;
  friend bool operator==(const PosixZone&, const PosixZone&) = default;
};

Result<PosixZone> ParsePosixZone(std::string_view text);

}  // namespace dfsmr
