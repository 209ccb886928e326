// What a filter may ask of an instance that was read from the store.
#pragma once

#include <optional>

#include "dsrv/wire/instance_views.h"
#include "fsm/filter/filter.h"

namespace dfsmr {

class InstanceFacts : public FilterFacts {
 public:
  // `view` may be filled in while it is asked.
  InstanceFacts(const Moment& moment, InstanceView& view, ParentSteps& steps, Timestamp now)
      : moment_(moment), view_(view), steps_(steps), now_(now) {}

  bool AnyText(FilterKey key, const std::string& label, const Visit& visit) const override;
  double Number(FilterKey key) const override;
  std::optional<Timestamp> Time(FilterKey key) const override;
  // What could not be read; then the answers mean nothing.
  const std::optional<Error>& failed() const { return failed_; }

 private:
  bool AnyNode(const Visit& visit) const;
  bool AnyParent(const Visit& visit) const;
  bool AnyWorker(const Visit& visit) const;
  bool AnyProperty(const Visit& visit) const;
  bool AnyError(const Visit& visit) const;

  const Moment& moment_;
  InstanceView& view_;
  ParentSteps& steps_;
  const Timestamp now_;
  mutable std::optional<Error> failed_;
};

}  // namespace dfsmr
