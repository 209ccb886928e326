// What waits for the database, so that one can tell for how long the oldest of it has.
#pragma once

#include <chrono>
#include <set>

#include "fsm/base/mutex.h"
#include "fsm/base/time.h"

namespace dfsmr {

// Any thread. It outlives its marks.
class PgWaits {
  using Clock = std::chrono::steady_clock;

 public:
  // Something waits as long as this lives.
  class Mark {
   public:
    explicit Mark(PgWaits& waits) : waits_(waits) {
      const Lock lock(waits_.mutex_);
      at_ = waits_.since_.insert(Clock::now());
    }
    ~Mark() {
      const Lock lock(waits_.mutex_);
      waits_.since_.erase(at_);
    }
    Mark(const Mark&) = delete;
    Mark& operator=(const Mark&) = delete;

   private:
    PgWaits& waits_;
    std::multiset<Clock::time_point>::iterator at_;
  };

  // Zero: nothing waits.
  Duration oldest() const {
    const Lock lock(mutex_);
    if (since_.empty()) return Duration::zero();
    return std::chrono::duration_cast<Duration>(Clock::now() - *since_.begin());
  }

 private:
  mutable Mutex mutex_;
  std::multiset<Clock::time_point> since_ GUARDED(mutex_);
};

}  // namespace dfsmr
