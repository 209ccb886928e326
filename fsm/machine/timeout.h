// The keys of a timeout, each given or not, so that each can be inherited by itself; and the policy
// that they make together.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/base/time.h"
#include "fsm/machine/machine.h"

namespace dfsmr {

struct TimeoutKeys {
  std::optional<double> timeout;  // percent, or seconds
  std::optional<TimeoutPolicy::Strategy> strategy;
  std::optional<Duration> initial;
  std::optional<Duration> min;
  std::optional<Duration> max;

  bool empty() const { return *this == TimeoutKeys{}; }
  // These keys, and the keys of `base` that are not given here.
  TimeoutKeys Over(const TimeoutKeys& base) const;
  friend bool operator==(const TimeoutKeys&, const TimeoutKeys&) = default;
};

struct TimeoutProblem {
  std::string_view key;  // as it is written: "timeout_min"
  std::string message;
};

// A key that is given changes the defaults of the others; keys that are given must agree. Appends
// what is wrong to `problems`; the policy is usable only when nothing is.
TimeoutPolicy PolicyOf(const TimeoutKeys& keys, std::vector<TimeoutProblem>* problems);

}  // namespace dfsmr
