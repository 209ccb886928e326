// A schedule as it is written, and its times as it stands. Plain values, immutable once read.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/base/template.h"
#include "fsm/when/calendar.h"
#include "fsm/when/launch.h"
#include "fsm/when/occurrence.h"

namespace dfsmr {

// What is done when several times are due at once.
struct MissedPolicy {
  enum class Take : uint8_t { kLast, kSkip, kAll };
  Take take = Take::kLast;
  Duration window = std::chrono::hours(24);  // nothing that was due longer ago is taken
  uint32_t max = 100;                        // kAll: the newest so many
};

struct ScheduleSource {
  Written written;  // the document
  CalendarRules rules;
  std::shared_ptr<const Calendar> calendar;  // of them; never null
  LaunchSource launch;
  MissedPolicy missed;
};

// The times of the schedule NAMESPACE/NAME. Borrows all that it is given.
class ScheduleTimes {
 public:
  // `last`: where `count` ends them; kNever: it does not.
  ScheduleTimes(const Calendar& calendar, std::string_view ns, std::string_view name,
                Timestamp last)
      : calendar_(calendar), ns_(ns), name_(name), last_(last) {}

  Timestamp Next(Timestamp after) const;  // kNever: none is to come
  std::optional<Timestamp> Previous(Timestamp before) const;
  uint64_t Count(Timestamp after, Timestamp until, uint64_t most) const;
  Timestamp Begin(Timestamp time) const;
  // The newest one that begins at `now` or before, with jitter; nullopt: none does.
  std::optional<Timestamp> NewestBegun(Timestamp now) const;
  std::vector<PlannedTime> Plan(Timestamp after, size_t most) const;
  PlannedTime Planned(Timestamp time) const;

 private:
  const Calendar& calendar_;
  std::string_view ns_;
  std::string_view name_;
  Timestamp last_;
};

// What `${schedule.…}` stands for in one launch.
struct ScheduleMoment {
  std::string name;
  OccurrenceKind kind = OccurrenceKind::kRegular;
  Timestamp time;
  std::optional<Timestamp> previous;
  std::optional<Timestamp> next;
  std::optional<Timestamp> last_success;
  const Zone* zone = nullptr;  // borrowed
};
// Without last_success.
ScheduleMoment MomentOf(const ScheduleTimes& times, std::string_view name, OccurrenceKind kind,
                        Timestamp time, const Zone& zone);
Resolver ResolverOf(ScheduleMoment moment);
// What is wrong with a reference in a schedule; nullopt: nothing is.
std::optional<std::string> ScheduleReferenceProblem(const Reference& reference);

}  // namespace dfsmr
