// How work that fails is tried again, and how long and how often it may be tried.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/base/time.h"

namespace dfsmr {

// initial × factor^(n-1) for the n-th time, at most max, then ± jitter (a share).
struct DelayPolicy {
  Duration initial{};
  double factor = 1.0;
  Duration max = Duration::max();
  double jitter = 0.0;
  friend bool operator==(const DelayPolicy&, const DelayPolicy&) = default;
};

// In front of the n-th further try stands the n-th of the delays.
struct RetryPolicy {
  uint32_t limit = 1;  // tries in all
  DelayPolicy delay;
  std::vector<std::string> on;  // kinds or texts of errors that are tried again; empty: all
  friend bool operator==(const RetryPolicy&, const RetryPolicy&) = default;
};

// An entry of `on` that stands for what may be gone the next time: the kinds timeout, crashed and
// unclaimed, and texts that speak of timeouts, connections and the like.
inline constexpr std::string_view kTransient = "transient";

// Whether an error is one of those that the policy tries again, however many tries there were.
bool TriesAgain(const RetryPolicy& policy, std::string_view kind, std::string_view error);

// How long an attempt may take, how long no worker may come, and how many attempts of a visit may
// be lost with their agents.
struct AttemptBounds {
  Duration run_timeout{};      // from the begin of an attempt; zero: none
  Duration ready_timeout{};    // ready, with nothing but a worker missing; zero: none
  uint32_t abandon_after = 3;  // 0: never
  friend bool operator==(const AttemptBounds&, const AttemptBounds&) = default;
};

// So long after run_timeout an attempt is over, whatever its worker says.
inline constexpr Duration kRunGrace = std::chrono::seconds(30);

}  // namespace dfsmr
