// A plan's document.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "fsm/plan/source.h"
#include "fsm/yaml/fields.h"

namespace dfsmr {

std::span<const std::string_view> PlanKeys();

// Reports everything that is wrong; then nullopt.
std::optional<PlanSource> ReadPlan(const YamlNode& root, Reporter* reporter);
// Reads a flow from Start or from a planner: a list, a block or a step, or a map with keys of a
// plan, where `plan` may be missing.
std::optional<PlanSource> ReadGivenFlow(const YamlNode& root, Reporter* reporter);

}  // namespace dfsmr
