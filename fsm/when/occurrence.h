// What came due of a schedule or trigger, and what became of it. Plain values.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "fsm/base/time.h"

namespace dfsmr {

// Numbers and names are those of Occurrence.Kind and Occurrence.Outcome in schedule.proto.
enum class OccurrenceKind : uint8_t { kNone, kRegular, kManual, kBackfill };
enum class OccurrenceOutcome : uint8_t {
  kNone, kStarted, kSent, kExists, kSkipped, kMissed, kExpired, kFailed, kDropped, kGathered,
  kFiltered, kDuplicate
};
constexpr std::string_view Name(OccurrenceKind kind) {
  constexpr std::string_view kNames[] = {"", "REGULAR", "MANUAL", "BACKFILL"};
  return kNames[static_cast<size_t>(kind)];
}
constexpr std::string_view Name(OccurrenceOutcome outcome) {
  constexpr std::string_view kNames[] = {"",        "STARTED", "SENT",    "EXISTS",
                                         "SKIPPED", "MISSED",  "EXPIRED", "FAILED",
                                         "DROPPED", "GATHERED", "FILTERED", "DUPLICATE"};
  return kNames[static_cast<size_t>(outcome)];
}

struct Occurrence {
  uint64_t number = 0;  // of its schedule or trigger, from 1, in the order in which they came due
  std::string id;       // of a schedule's its time as 20261123T013000Z, of a trigger's its number
  uint32_t version = 0;
  OccurrenceKind kind = OccurrenceKind::kRegular;
  Timestamp time;        // a schedule's nominal time; a trigger's first item's
  Timestamp until_time;  // kMissed: of the last; else zero
  uint64_t count = 0;    // kMissed: how many times, counted up to 10,000; of a gathering its items
  Timestamp note_time;    // when it was listed first: retention counts from it
  Timestamp decide_time;  // when the outcome was decided
  OccurrenceOutcome outcome = OccurrenceOutcome::kNone;
  std::string error;     // why, with what would help
  std::string instance;  // that was started, moved, or there already
  uint32_t tries = 1;
  std::string item;  // JSON: what a trigger was given, or the params that a manual run was given
  // What a retry must know besides; the launcher's own text, which only whoever made it reads.
  std::string given;
  friend bool operator==(const Occurrence&, const Occurrence&) = default;
};

}  // namespace dfsmr
