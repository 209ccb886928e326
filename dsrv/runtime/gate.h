// Counts the calls that are under way. Calls are admitted until the server stops; the stop then
// waits for their end.
#pragma once

#include <chrono>

#include "fsm/base/mutex.h"

namespace dfsmr {

// Any thread.
class Gate {
 public:
  // False: the gate is closed. Each call that was admitted must leave.
  bool Admit() {
    const Lock lock(mutex_);
    if (closed_) return false;
    ++inside_;
    return true;
  }
  void Leave() {
    const Lock lock(mutex_);
    if (--inside_ == 0 && closed_) empty_.NotifyAll();
  }
  void Close() {
    const Lock lock(mutex_);
    closed_ = true;
  }
  bool closed() {
    const Lock lock(mutex_);
    return closed_;
  }
  // Waits until all calls have left. False: some had not left by `until`.
  bool WaitEmpty(std::chrono::steady_clock::time_point until) {
    Lock lock(mutex_);
    return empty_.WaitUntil(lock, until, [this]() REQUIRES(mutex_) { return inside_ == 0; });
  }

 private:
  Mutex mutex_;
  ConditionVariable empty_;
  size_t inside_ GUARDED(mutex_) = 0;
  bool closed_ GUARDED(mutex_) = false;
};

}  // namespace dfsmr
