#include "fsm/machine/timeout.h"

#include <algorithm>

#include "fsm/base/duration.h"

namespace dfsmr {
namespace {

using Strategy = TimeoutPolicy::Strategy;

template <typename T>
void Inherit(const std::optional<T>& base, std::optional<T>* key) {
  if (!*key) *key = base;
}

void JudgeValue(const TimeoutKeys& keys, const TimeoutPolicy& policy,
                std::vector<TimeoutProblem>* problems) {
  const bool fixed = policy.strategy == Strategy::kFixed;
  if (!keys.timeout) {
    if (fixed) {
      problems->push_back(
          {"timeout_strategy", "'timeout_strategy: fixed' needs a 'timeout' in seconds"});
    }
    return;
  }
  if (!fixed && policy.value >= 100) {
    problems->push_back({"timeout", "a percentile lies between 0 and 100, both excluded (0.0: "
                                    "never timed out); for seconds add 'timeout_strategy: "
                                    "fixed'"});
  }
  if (fixed && policy.value > Seconds(kDurationMax)) {
    problems->push_back({"timeout", "at most 100 years (3155760000 seconds) are allowed"});
  }
  if (fixed && policy.value > 0 && policy.value < 1e-6) {
    problems->push_back({"timeout", "less than a microsecond; 0.0 is what never times out"});
  }
}

}  // namespace

TimeoutKeys TimeoutKeys::Over(const TimeoutKeys& base) const {
  TimeoutKeys keys = *this;
  Inherit(base.timeout, &keys.timeout);
  Inherit(base.strategy, &keys.strategy);
  Inherit(base.initial, &keys.initial);
  /*mutant timeout-min-not-inherited*/ Inherit(base.min, &keys.min); /*end*/
  Inherit(base.max, &keys.max);
  return keys;
}

TimeoutPolicy PolicyOf(const TimeoutKeys& keys, std::vector<TimeoutProblem>* problems) {
  TimeoutPolicy policy;
  policy.strategy = keys.strategy.value_or(policy.strategy);
  policy.value = keys.timeout.value_or(policy.value);
  JudgeValue(keys, policy, problems);
  policy.min = keys.min.value_or(policy.min);
  policy.max = keys.max.value_or(policy.max);
  if (keys.min && keys.max && policy.min > policy.max) {
    problems->push_back({"timeout_min", "timeout_min " + FormatDuration(policy.min) +
                                            " is more than timeout_max " +
                                            FormatDuration(policy.max)});
    return policy;
  }
  if (!keys.max) policy.max = std::max(policy.max, policy.min);
  if (!keys.min) policy.min = std::min(policy.min, policy.max);
  policy.initial = std::clamp(keys.initial.value_or(policy.initial), policy.min, policy.max);
  return policy;
}

}  // namespace dfsmr
