// What the front and the keeper count for those who scrape the server. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "dsrv/cluster/lease_time.h"
#include "fsm/base/mutex.h"
#include "fsm/base/spread.h"

namespace dfsmr {

class ClusterMeter {
 public:
  using Times = Spread<kOwnEdges, std::atomic<uint64_t>>;
  // How calls ended that were passed on, by method and outcome.
  using Forwards = std::map<std::pair<std::string, std::string>, uint64_t>;

  void Forwarded(const std::string& method, const std::string& outcome) {
    const Lock lock(mutex_);
    ++forwards_[{method, outcome}];
  }
  void ForwardTook(LeaseTime time) { forward_.Add(ToMicros(time)); }
  // The partition was taken: after a crash of its owner, or since it was handed over.
  void Took(bool crash) { ++(crash ? crashes_ : handovers_); }
  // And serves, so long after that.
  void Serves(LeaseTime time) { takeover_.Add(ToMicros(time)); }

  Forwards forwards() const {
    const Lock lock(mutex_);
    return forwards_;
  }
  const Times& forward() const { return forward_; }
  const Times& takeover() const { return takeover_; }
  uint64_t crashes() const { return crashes_; }
  uint64_t handovers() const { return handovers_; }

 private:
  static uint64_t ToMicros(LeaseTime time) {
    return static_cast<uint64_t>(time / std::chrono::microseconds(1));
  }

  mutable Mutex mutex_;
  Forwards forwards_ GUARDED(mutex_);
  Times forward_;
  Times takeover_;
  std::atomic<uint64_t> crashes_ = 0;
  std::atomic<uint64_t> handovers_ = 0;
};

}  // namespace dfsmr
