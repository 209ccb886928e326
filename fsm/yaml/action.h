// An action's document, and the keys that actions share with steps and plans.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "fsm/plan/source.h"
#include "fsm/yaml/fields.h"

namespace dfsmr {

// Reports everything that is wrong; then nullopt.
std::optional<ActionSource> ReadAction(const YamlNode& root, Reporter* reporter);
std::span<const std::string_view> ActionKeys();

// The keys of an action that a step may give for itself: queue, priority, a timeout's, retry, …
std::span<const std::string_view> OwnKeys();
// `inherits`: a missing key may be inherited, so a missing key is not an error.
void ReadOwnKeys(const Keys& keys, bool inherits, Reporter* reporter, ActionSource* to);

// use, replace and without.
void ReadMiddleware(const Keys& keys, MiddlewareSource* to);

Written WrittenAt(const Field& field);
std::optional<OnConflict> ReadOnConflict(const Keys& keys);
inline constexpr std::string_view kSingletonExample = "\"infra-${params.site}\"";
// Refuses on_conflict without singleton.
void CheckSingleton(const Keys& keys);

}  // namespace dfsmr
