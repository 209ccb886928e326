// What templates of a plan come to for one instance: its params, and outputs of its steps.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "dsrv/engine/residents.h"
#include "dsrv/engine/turn.h"
#include "fsm/base/template.h"

namespace dfsmr {

// The text that a template came to, whatever it is: a JSON string without its quotes.
std::string TextOf(const std::string& json);
Result<std::string> TextOf(const Result<std::string>& filled);

// The error of a reference that leads nowhere.
Error Missing(const Reference& reference, const std::string& why);

class Values {
 public:
  Values(OpenTurn& turn, Residents& residents, const EngineOptions& options)
      : turn_(turn), residents_(residents), options_(options) {}

  // The plan of an instance as it was written; its own when it came with the start.
  Result<std::shared_ptr<const PlanSource>> SourceOf(Resident& resident);
  // The singleton that its plan asks for; "" when it asks for none.
  Result<std::string> KeyOf(Resident& resident, const PlanSource& source);
  // A JSON text with its references replaced. Fails when one of them leads nowhere.
  Result<std::string> Fill(Resident& resident, std::string_view json);
  Result<std::string> Value(Resident& resident, const Reference& reference);

 private:
  Result<std::string> OutputOf(Resident& resident, const std::string& step);
  Result<std::string> GroupValue(Resident& resident, const Group& group);
  Result<std::string> StepValue(Resident& resident, const Step& step);
  Result<std::string> OutputAt(Resident& resident, const Reference& reference);
  static std::optional<std::string_view> ParamAt(Resident& resident, std::string_view params,
                                                 std::span<const Reference::Part> path);

  OpenTurn& turn_;
  Residents& residents_;
  const EngineOptions& options_;
};

}  // namespace dfsmr
