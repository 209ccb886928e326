// The values of a plan's templates for one instance, from its params and the outputs of its steps.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "dsrv/engine/names.h"
#include "dsrv/engine/types.h"
#include "fsm/base/template.h"
#include "fsm/plan/graph.h"
#include "fsm/rules/rules.h"

namespace dfsmr {

// The value of a template as text: JSON, or a JSON string's content without its quotes.
std::string TextOf(const std::string& json);
Result<std::string> TextOf(const Result<std::string>& filled);

// The error of a reference to something that does not exist.
Error Missing(const Reference& reference, const std::string& why);

class Values {
 public:
  Values(OpenTurn& turn, Residents& residents, const EngineOptions& options)
      : turn_(turn), residents_(residents), options_(options) {}

  // The source of an instance's plan; its own source if a flow came with its start.
  Result<std::shared_ptr<const PlanSource>> SourceOf(Resident& resident);
  // A JSON text with its references replaced. Fails when one of them refers to nothing.
  Result<std::string> Fill(Resident& resident, std::string_view json);
  // The same where outputs go by the names of nodes, if it is an instance of a plain machine.
  Result<std::string> FillByNode(Resident& resident, std::string_view json);
  Result<std::string> Value(Resident& resident, const Reference& reference);
  // What a reference of a condition leads to; nullopt: to nothing. `fresh` is an output that is
  // not kept yet.
  std::optional<std::string> ForCondition(Resident& resident, const Reference& reference,
                                          const FreshOutput& fresh);

  // How many references of dry runs have led to outputs that nobody gave, and so to null.
  uint64_t unknown() const { return unknown_; }

 private:
  Result<std::string> OutputOf(Resident& resident, const std::string& step);
  // Who reported `ok` of a node or step.
  Result<std::string> WorkerOf(Resident& resident, const std::string& node);
  Result<std::string> OfMachine(Resident& resident, const Reference& reference);
  // `lenient`: null for what did not succeed.
  Result<std::string> GroupValue(Resident& resident, const Group& group, bool lenient);
  Result<std::string> StepValue(Resident& resident, const Step& step, bool lenient);
  // "state" or "error" of a step or group.
  Result<std::string> FactOf(Resident& resident, const Reference& reference);
  // For a compensation: null for what is not there.
  Result<std::string> AsItIs(Resident& resident, const Reference& reference, bool step,
                             size_t index);
  Result<std::string> OutputAt(Resident& resident, const Reference& reference);
  Result<std::string> Unknown();  // null, of a dry run
  static std::optional<std::string_view> ParamAt(Resident& resident, std::string_view params,
                                                 std::span<const Reference::Part> path);

  OpenTurn& turn_;
  Residents& residents_;
  const EngineOptions& options_;
  FreshOutput fresh_;      // while a condition is decided
  bool as_it_is_ = false;  // while a compensation refers to something
  uint64_t unknown_ = 0;
};

}  // namespace dfsmr
