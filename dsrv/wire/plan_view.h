// The graph of one instance as clients see it: its nodes and, for a plan, its steps. Reads the
// store, which blocks: call it in the pool.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "dfsmr/v1/runner.pb.h"
#include "dsrv/wire/moment.h"
#include "dsrv/wire/steps.h"

namespace dfsmr {

// `instance` was read at `moment`.
Result<Ok> ShowNodes(const Moment& moment, const Instance& instance, v1::Instance* out);

// The steps of an instance of a plan; nullptr before it is planned. Of `under` (empty: the plan)
// only that step, and those whose paths lie under it: then the others cost little.
Result<std::unique_ptr<Steps>> OpenSteps(const Moment& moment, const Instance& instance,
                                         std::string_view under);

// Shows the steps of a plan as it is before any params: `machine` shows its nodes.
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
