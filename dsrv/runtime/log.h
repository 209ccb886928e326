// What operators see of the server: logs on standard error, and counts of refusals.
#pragma once

#include <chrono>
#include <cstdint>

#include <map>
#include <string>
#include <string_view>

#include "fsm/base/mutex.h"
#include "fsm/base/result.h"

namespace dfsmr {

// Sets up the process's logger. `level` is one of trace, debug, info, warn, error, off. With `json`
// each line is a JSON object.
Result<Ok> StartLog(const std::string& level, bool json);

// The calls that the server has refused. Any thread.
class Refusals {
 public:
  // Counts a refused call by its reason, and logs it. Only a few in each second get a line of their
  // own and the others a common one, so that a flood of refusals does not flood the log.
  void Note(const Error& error, std::string_view peer, std::string_view request_id = {});
  // How many there were, by reason, or by code if there is no reason.
  std::map<std::string, uint64_t> Counts() const;

 private:
  mutable Mutex mutex_;
  std::map<std::string, uint64_t> counts_ GUARDED(mutex_);
  std::chrono::steady_clock::time_point second_ GUARDED(mutex_);  // when the current one began
  int lines_ GUARDED(mutex_) = 0;                                 // that were logged in it
  uint64_t held_back_ GUARDED(mutex_) = 0;                        // that were not
};

}  // namespace dfsmr
