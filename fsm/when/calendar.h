// The times of a schedule: a union of rules. Pure: clocks and zones are handed in.
//
// From texts to times:
//   1. CalendarRules is filled by the reader of the document, one text after the other: ParseCron,
//      ParseEvery, ParseTimeText (for `at`, `from`, `until`), AddExcept. What a text says wrong is
//      its error, what is odd about it its warning.
//   2. Problems(rules) finds what is wrong with them together. It needs no zone.
//   3. A Calendar is made of the rules and the zone of that name (storage/zones finds it, and the
//      nearest name). Calendar::Barren finds, when a schedule is defined, what needs the zone and
//      the time of the definition: rules without a time in eight years.
//   4. `count`: LastOfCount says once, when a schedule is defined, which time is the last; that may
//      take a million steps (some 0.1 s). Keep it, and tell it to each Calendar that is made again
//      (EndAt). So no query counts, and no counter of times taken need be kept.
//
// Bounds. `from`, where it is written, `until` and EndAt bound all queries. A `from` that is not
// written is when the schedule was first defined: it bounds what is taken and counted, but neither
// backfills nor `previous`. So it is not the calendar's: take Next of the position, which begins
// just before the first definition (a time at that very instant counts).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/base/result.h"
#include "fsm/base/time.h"
#include "fsm/when/cron.h"
#include "fsm/when/every.h"
#include "fsm/when/exceptions.h"
#include "fsm/when/written_time.h"
#include "fsm/when/zone.h"

namespace dfsmr {

namespace limits {
inline constexpr size_t kCalendarRules = 100;         // of cron and every; and cron texts of except
inline constexpr size_t kCalendarTimes = 1'000;       // of at; and dates of except
inline constexpr int64_t kCalendarCount = 1'000'000;  // of count
inline constexpr Duration kJitter = std::chrono::hours(24);
inline constexpr int kBarrenYears = 8;
inline constexpr uint64_t kMissedCount = 10'000;  // how far missed times are counted
}  // namespace limits

// What the keys of a schedule say, understood.
struct CalendarRules {
  std::vector<CronRule> cron;
  std::vector<EveryRule> every;
  std::vector<WrittenTime> at;
  std::vector<CronRule> except;
  std::vector<LocalDay> except_dates;
  std::string timezone = "UTC";
  std::optional<WrittenTime> from;
  std::optional<WrittenTime> until;
  std::optional<int64_t> count;
  Duration jitter{0};
  friend bool operator==(const CalendarRules&, const CalendarRules&) = default;
};

// A text of `except`, a cron text or a date, into `rules`. What is odd about it; "" when nothing
// is.
Result<std::string> AddExcept(std::string_view text, CalendarRules& rules);

// What is wrong with a key of a schedule, for whoever knows the line it stands in.
struct CalendarProblem {
  std::string key;   // cron, every, at, except, from, until, count, jitter; "": the whole
  size_t index = 0;  // which text of the key's list
  std::string message;
  friend bool operator==(const CalendarProblem&, const CalendarProblem&) = default;
};
std::vector<CalendarProblem> Problems(const CalendarRules& rules);

struct PlannedTime {
  Timestamp time;
  Timestamp begin;    // with jitter
  std::string local;  // RFC 3339 in the zone
  std::string note;   // what is odd: "02:30 does not exist on this day"
  friend bool operator==(const PlannedTime&, const PlannedTime&) = default;
};

class Calendar {
 public:
  // `rules` without Problems.
  Calendar(const CalendarRules& rules, ZonePtr zone);

  const Zone& zone() const { return *zone_; }
  Duration jitter() const { return jitter_; }

  // The first time after `after`; kNever: none is to come, at least in a hundred years. No
  // allocation; 0.1 to 0.2 us for a usual rule, 6 us for February 29 on a Friday, some 10 ms where
  // `except` leaves out all times of a hundred years.
  Timestamp Next(Timestamp after) const;
  // The last time before `before`.
  std::optional<Timestamp> Previous(Timestamp before) const;
  // How many lie after `after`, up to and at `until`; counted up to `most`.
  uint64_t Count(Timestamp after, Timestamp until, uint64_t most) const;

  // Which time `count` makes the last, for a schedule that was first defined at `defined`: kNever
  // without `count`, or when there are fewer.
  Timestamp LastOfCount(Timestamp defined) const;
  // No time is later than `last`.
  void EndAt(Timestamp last);

  // What only a zone and the time of the definition can tell: rules without a time in eight years,
  // an `until` before `from`. `until` and EndAt are left aside: a schedule may have ended already.
  std::vector<CalendarProblem> Barren(const CalendarRules& rules, Timestamp defined) const;

  // When `time` begins, with the jitter of that schedule.
  Timestamp Begin(std::string_view name_space, std::string_view name, Timestamp time) const;
  // What is odd about the local clock at `time`, one of its times; "" when nothing is.
  std::string Note(Timestamp time) const;
  // The first `most` times after `after`, as they are shown.
  std::vector<PlannedTime> Plan(std::string_view name_space, std::string_view name, Timestamp after,
                                size_t most) const;

 private:
  struct AtTime {
    Instant at;
    LocalTime local;  // as it is written
    friend auto operator<=>(const AtTime&, const AtTime&) = default;
  };
  class Walk;

  size_t rules() const { return cron_.size() + every_.size() + 1; }
  template <typename Direction>
  std::optional<Instant> FindOf(size_t rule, Instant low, Instant high) const;
  template <typename Direction>
  std::optional<Instant> Find(Instant low, Instant high) const;
  template <typename Direction>
  std::optional<Instant> FindAt(Instant low, Instant high) const;
  std::optional<LocalTime> FirstInGap(LocalTime begin, LocalTime end) const;

  ZonePtr zone_;
  std::vector<CronRule> cron_;
  std::vector<AnchoredEvery> every_;
  std::vector<AtTime> at_;  // in order, each once; none that is left out
  Exceptions except_;
  Instant first_ = kFirstInstant;
  Instant last_ = kLastInstant;
  std::optional<int64_t> count_;
  bool from_is_written_ = false;
  Duration jitter_{0};
};

// The times in words: "at 02:30 on Monday to Friday, Europe/Berlin".
std::string Summary(const CalendarRules& rules);

// How much later than `time` it begins: FNV-1a64 of "NAMESPACE/NAME/UNIX SECONDS", modulo the
// lesser of `jitter` and the distance to `next` (kNever: none), in milliseconds.
Duration JitterOf(std::string_view name_space, std::string_view name, Timestamp time,
                  Timestamp next, Duration jitter);

// 20261123T013000Z, for ids.
std::string StampText(Timestamp time);
// 2026-11-23T01:30:00Z; with a fraction only where there is one.
std::string UtcText(Timestamp time);
// 2026-11-23T02:30:00+01:00, and the date of it.
std::string LocalText(Timestamp time, const Zone& zone);
std::string LocalDateText(Timestamp time, const Zone& zone);

}  // namespace dfsmr
