// Makes what clients see of an instance out of its rows, as far as it is needed. They block: for
// the pool.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dsrv/engine/types.h"
#include "dsrv/wire/moment.h"

namespace dfsmr {

// Where it stands, and its version as users see it. Without params, labels and outputs.
Result<InstanceView> ViewOf(const Moment& moment, Instance instance);
// Reads params and labels, if that was not done yet.
Result<Ok> Fill(const Moment& moment, InstanceView* view);
// Whether its group holds it back, and whether an upgrade has left it behind.
Result<Ok> Finish(const Moment& moment, InstanceView* view);

// When the last record of its history was made; of an instance that has not changed since such
// times are kept, the record is read.
Result<Timestamp> ChangeTimeOf(const Moment& moment, const Instance& instance);

// Whether one of `nodes` is `node`, or one of its nodes if `node` is a step.
bool StandsAt(const std::vector<std::string>& nodes, const std::string& node);
// Whether it is pinned to the package "etl", or "etl@1.4.0".
bool IsPinnedTo(const InstanceView& view, const std::string& package);

// Finds the steps that started instances. Keeps the graph of the last parent, since children are
// looked at one after the other.
class ParentSteps {
 public:
  explicit ParentSteps(const Moment& moment) : moment_(moment) {}
  // The path of the step of its parent that started it; empty: none did, or it is not known.
  Result<std::string> Of(const Instance& instance);

 private:
  const Moment& moment_;
  std::string parent_;
  std::unique_ptr<const Machine> machine_;
};

}  // namespace dfsmr
