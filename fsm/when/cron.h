// Rules as cron writes them: "30 2 * * MON-FRI".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "fsm/base/result.h"
#include "fsm/when/weekdays.h"

namespace dfsmr {

// The local times that a text stands for, as masks: bit n of `minutes` is minute n.
struct CronRule {
  uint64_t seconds = 1;
  uint64_t minutes = 0;
  uint32_t hours = 0;
  uint32_t days = 0;    // bits 1 to 31
  uint16_t months = 0;  // bits 1 to 12
  bool last_day = false;
  bool day_given = false;      // the day field does not begin with * or ?
  bool weekday_given = false;  // both given: a day that either of them matches
  // The hour field begins with * or ?: the rule goes by elapsed time where clocks are changed.
  bool elapsed = false;
  WeekdaySet weekdays;

  // The days of `month` that it matches.
  uint32_t Days(const Month& month) const;
  friend bool operator==(const CronRule&, const CronRule&) = default;
};

struct CronText {
  CronRule rule;
  std::string warning;  // "" when there is nothing odd about it
};

// Five fields or six, or one of @hourly, @daily, @weekly, @monthly, @yearly. The error's message
// says which field is wrong, and what would be right.
Result<CronText> ParseCron(std::string_view text);

// The same, of a text under `except`: one of five fields speaks of whole minutes, so that it leaves
// out all their seconds.
Result<CronText> ParseExceptCron(std::string_view text);

}  // namespace dfsmr
