// Decides whether an instance that was read is one that a list asks for.
#pragma once

#include <optional>

#include "dsrv/wire/instance_views.h"
#include "dsrv/wire/requests.h"

namespace dfsmr {

class Matcher {
 public:
  // Both must outlive it.
  Matcher(const Moment& moment, const InstanceQuery& query)
      : moment_(moment), query_(query), steps_(moment) {}

  // The view of it, without params unless they were needed; nullopt: it is not asked for.
  Result<std::optional<InstanceView>> Match(Instance instance);

 private:
  bool IsFrom(const Instance& instance) const;
  Result<bool> HasLabels(InstanceView* view) const;

  const Moment& moment_;
  const InstanceQuery& query_;
  ParentSteps steps_;
};

// Ends a search when it has lasted long enough. The first row is always looked at.
class Patience {
 public:
  explicit Patience(std::optional<Duration> patience)
      : until_(patience ? std::optional(std::chrono::steady_clock::now() + *patience)
                        : std::nullopt) {}
  bool IsOver() const { return until_ && std::chrono::steady_clock::now() >= *until_; }

 private:
  std::optional<std::chrono::steady_clock::time_point> until_;
};

}  // namespace dfsmr
