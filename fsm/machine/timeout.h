// The keys of a timeout, each as it is given or not, so that every one of them can be inherited by
// itself; and what they come to together.
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
  // These keys, and those of `base` that are not among them.
  TimeoutKeys Over(const TimeoutKeys& base) const;
  friend bool operator==(const TimeoutKeys&, const TimeoutKeys&) = default;
};

struct TimeoutProblem {
  std::string_view key;  // as it is written: "timeout_min"
  std::string message;
};

// What is said explicitly bends the default of the other; both said must agree. Appends what is
// wrong to `problems`; the policy is usable only when nothing is.
TimeoutPolicy PolicyOf(const TimeoutKeys& keys, std::vector<TimeoutProblem>* problems);

}  // namespace dfsmr
