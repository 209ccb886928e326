// Counts of the last hour, for people who look at the server. In memory: they begin anew with it.
// Noting something costs a few nanoseconds, and nothing is done as time passes: a slot that is too
// old is cleared when it is used again, and left out by who reads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "fsm/base/time.h"

namespace dfsmr {

// `kSlots` slots of `Width` each, the current one being the last.
template <typename Counts, int64_t kWidthUs, size_t kSlots>
class Ring {
 public:
  // What is counted at `now`.
  Counts& At(Timestamp now) {
    const int64_t number = Micros(now) / kWidthUs;
    Slot& slot = slots_[static_cast<size_t>(number) % kSlots];
    if (slot.number != number) slot = {number, {}};
    return slot.counts;
  }
  // Calls `visit` with the begin of each slot in which something was counted, and its counts, in no
  // order.
  template <typename Visit>
  void ForEach(Timestamp now, Visit visit) const {
    const int64_t last = Micros(now) / kWidthUs;
    for (const Slot& slot : slots_) {
      const bool counts = slot.number > last - static_cast<int64_t>(kSlots) && slot.number <= last;
      if (counts) visit(FromMicros(slot.number * kWidthUs), slot.counts);
    }
  }

 private:
  struct Slot {
    int64_t number = INT64_MIN;
    Counts counts{};
  };
  std::array<Slot, kSlots> slots_{};
};

inline constexpr int64_t kMinuteUs = 60'000'000;

struct MinuteCounts {
  uint32_t started = 0;
  uint32_t succeeded = 0;
  uint32_t failed = 0;
  uint32_t cancelled = 0;
  uint32_t transitions = 0;
  uint32_t timed_out = 0;
};
using Minutes = Ring<MinuteCounts, kMinuteUs, 60>;  // of a machine

struct Attempts {
  uint32_t completed = 0;
  Duration spent{};  // by all attempts
};
// Of a node.
struct NodePulse {
  Ring<Attempts, 10 * kMinuteUs, 6> hour;
  Ring<uint32_t, 10'000'000, 6> claims;  // of a minute
};

}  // namespace dfsmr
