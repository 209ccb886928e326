// A plan's document. Behind yaml.h.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "fsm/plan/source.h"
#include "fsm/yaml/fields.h"

namespace dfsmr {

std::span<const std::string_view> PlanKeys();

// Everything wrong is reported; nullopt when something is.
std::optional<PlanSource> ReadPlan(const YamlNode& root, Reporter* reporter);
// What was said outside of a document: a list, a block or a step, or the keys of a plan, which then
// need not be named.
std::optional<PlanSource> ReadGivenFlow(const YamlNode& root, Reporter* reporter);

}  // namespace dfsmr
