// What becomes of launches, and who hears of it.
#pragma once

#include <cstdint>
#include <string>

#include "fsm/base/time.h"
#include "fsm/when/occurrence.h"

namespace dfsmr {

// What became of a launch: kStarted, kSent, kExists, kSkipped or kFailed.
struct Launched {
  OccurrenceOutcome outcome = OccurrenceOutcome::kFailed;
  std::string error;     // kSkipped, kFailed: why
  std::string instance;  // kStarted, kSent, kExists: its own, the one it moved, the one there was
  bool elsewhere = false;  // it is expected to be so: LaunchDecided tells if it is not
};

// Hears how what it started has ended.
class LaunchKeeper {
 public:
  virtual ~LaunchKeeper() = default;
  // An instance that `name` started, and no backfill, has stopped, or was paused because steps
  // failed; in the same commit. `failed`: with ERROR or ABORTED, or so paused. Else it stopped with
  // SUCCESS or WARNING; CANCELLED is not told. `time`: that of its launch.
  virtual void LaunchEnded(const std::string& ns, const std::string& name,
                           const std::string& instance, bool failed, Timestamp time) = 0;
  // What has become of a launch elsewhere, as of `number`, an occurrence of `name`: always told of
  // what was sent, and of what was to be started unless it was.
  virtual void LaunchDecided(const std::string& ns, const std::string& name, uint64_t number,
                             const Launched& launched) = 0;
};

// Instances of a schedule or trigger that go on, without those of backfills.
struct LaunchCounts {
  uint64_t running = 0;  // begun, and neither stopped nor paused
  uint64_t waiting = 0;  // SCHEDULED
};

}  // namespace dfsmr
