// Who is inside: calls are admitted until the server stops, and then it waits for those inside.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace dfsmr {

// Any thread.
class Gate {
 public:
  // False once it is closed; who was admitted must leave.
  bool Admit() {
    std::lock_guard lock(mutex_);
    if (closed_) return false;
    ++inside_;
    return true;
  }
  void Leave() {
    std::lock_guard lock(mutex_);
    if (--inside_ == 0 && closed_) empty_.notify_all();
  }
  void Close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  // Whether all have left by then.
  bool WaitEmpty(std::chrono::steady_clock::time_point until) {
    std::unique_lock lock(mutex_);
    return empty_.wait_until(lock, until, [this] { return inside_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable empty_;
  size_t inside_ = 0;
  bool closed_ = false;
};

}  // namespace dfsmr
