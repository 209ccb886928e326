// The conditions of a document, under `if`: of triggers, steps and transitions. What is wrong is
// reported where it stands.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "fsm/condition/condition.h"
#include "fsm/yaml/fields.h"

namespace dfsmr {

// What the conditions of one kind of thing may say.
struct ConditionRules {
  // Whether they may be about steps: succeeded, failed, skipped and always.
  bool steps = false;
  // What is wrong with a reference; nullopt: nothing. Absent: all references are taken.
  std::function<std::optional<std::string>(const Reference&)> refuse = {};
  // A comparison as messages show it.
  std::string_view example = "{value: \"${params.size}\", greater: 10}";
};

bool ReadIf(const Field& field, const ConditionRules& rules, Condition* to);

}  // namespace dfsmr
