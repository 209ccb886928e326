// What operators see of the server besides its answers: logs on standard error, and counts.
#pragma once

#include <chrono>
#include <cstdint>

#include <map>
#include <string>
#include <string_view>

#include "fsm/base/mutex.h"
#include "fsm/base/result.h"

namespace dfsmr {

// Sets the process's logger up. `level` is one of trace, debug, info, warn, error, off. With
// `json`, a JSON object a line.
Result<Ok> StartLog(const std::string& level, bool json);

// The calls that the server has refused. Any thread.
class Refusals {
 public:
  // Counts a refused call by its reason, and logs it: at most a few a second one by one, the rest
  // as a number, so that a flood of refusals is not a flood of logs.
  void Note(const Error& error, std::string_view peer);
  // How many there were, by reason (by code where there is no reason).
  std::map<std::string, uint64_t> Counts() const;

 private:
  mutable Mutex mutex_;
  std::map<std::string, uint64_t> counts_ GUARDED(mutex_);
  std::chrono::steady_clock::time_point second_ GUARDED(mutex_);  // when the current one began
  int lines_ GUARDED(mutex_) = 0;                                 // logged in it
  uint64_t held_back_ GUARDED(mutex_) = 0;                        // and not logged
};

}  // namespace dfsmr
