// The graph of one instance as clients see it: its nodes and, for a plan, its steps. Reads the
// store, which blocks: call it in the pool.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "dfsmr/v1/runner.pb.h"
#include "dsrv/wire/moment.h"

namespace dfsmr {

// `instance` was read at `moment`.
Result<Ok> ShowNodes(const Moment& moment, const Instance& instance, v1::Instance* out);

// May keep what it is shown by swapping; else the next step comes in the same message.
using VisitStep = std::function<void(v1::Step&)>;
// Shows the steps of an instance of a plan, in the order written; none before it is planned. Of
// `under` (empty: the plan) only that step, and those whose paths lie under it: then the others cost
// little.
Result<Ok> VisitSteps(const Moment& moment, const Instance& instance, std::string_view under,
                      const VisitStep& visit);
// The same of a plan as it is before any params: `machine` shows its nodes.
void ShowSteps(const Machine& machine, v1::Machine* out);

// One step as it is now, and what stands in the graph of it.
struct StepSource {
  v1::Step step;
  std::string input;  // as written, or as an operator has replaced it
  std::string queue;
  int32_t priority = 0;
};
// nullopt: the instance has no such step.
Result<std::optional<StepSource>> ReadStepSource(const Moment& moment, const Instance& instance,
                                                 const std::string& path);

}  // namespace dfsmr
