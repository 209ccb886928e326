// The rows that say where schedules have come to.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "storage/rows/reader.h"

namespace dfsmr::rows {

struct ScheduleState {
  uint32_t version = 0;             // that what follows is of
  Timestamp position;               // all times up to this one have been dealt with
  Timestamp next_time = kNever;     // the first that has not; kNever: none is to come
  Timestamp next_begin = kNever;    // when it begins, with jitter
  Timestamp last_time = kNever;     // where `count` ends its times; kNever: it does not
  bool paused = false;
  std::string note;                 // why it is paused
  std::string paused_by;
  Timestamp pause_time;
  uint32_t failures = 0;            // in a row
  std::optional<Timestamp> last_success;  // the latest time whose instance has succeeded
  bool deleted = false;

  bool Awaits() const { return !deleted && !paused && next_begin != kNever; }
  friend bool operator==(const ScheduleState&, const ScheduleState&) = default;
};

void PutScheduleState(const Writer& writer, std::string_view ns, std::string_view name,
                      const ScheduleState& state);
// nullopt: there was never such a schedule.
Result<std::optional<ScheduleState>> GetScheduleState(const Reader& reader, std::string_view ns,
                                                      std::string_view name);
Result<Ok> ScanScheduleStates(
    const Reader& reader,
    const std::function<void(std::string_view ns, std::string_view name, const ScheduleState&)>&
        visit);

}  // namespace dfsmr::rows
