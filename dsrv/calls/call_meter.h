// Counts calls for those who scrape the server: by door, method and how they ended. Any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>

#include "fsm/base/mutex.h"
#include "fsm/base/result.h"
#include "fsm/base/spread.h"

namespace dfsmr {

class CallMeter {
 public:
  struct Kind {
    std::string_view method;  // that lives as long as the process
    bool http = false;        // by that door
    Code code = Code::kOk;    // how it ended
    friend auto operator<=>(const Kind&, const Kind&) = default;
  };

  void Began() { open_.fetch_add(1, std::memory_order_relaxed); }
  // `took`: absent for streams, and for calls that waited for something to happen.
  void Ended(const Kind& kind, std::optional<std::chrono::nanoseconds> took) {
    open_.fetch_sub(1, std::memory_order_relaxed);
    if (took) seconds_.Add(static_cast<uint64_t>(*took / std::chrono::microseconds(1)));
    const Lock lock(mutex_);
    ++counts_[kind];
  }

  std::map<Kind, uint64_t> counts() const {
    const Lock lock(mutex_);
    return counts_;
  }
  const Spread<kOwnEdges, std::atomic<uint64_t>>& seconds() const { return seconds_; }
  int64_t open() const { return open_.load(std::memory_order_relaxed); }

 private:
  mutable Mutex mutex_;
  std::map<Kind, uint64_t> counts_ GUARDED(mutex_);
  Spread<kOwnEdges, std::atomic<uint64_t>> seconds_;
  std::atomic<int64_t> open_ = 0;
};

}  // namespace dfsmr
