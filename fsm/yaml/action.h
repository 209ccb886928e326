// An action's document, and the keys of an action that others have too. Behind yaml.h.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "fsm/plan/source.h"
#include "fsm/yaml/fields.h"

namespace dfsmr {

// Everything wrong is reported; nullopt when something is.
std::optional<ActionSource> ReadAction(const YamlNode& root, Reporter* reporter);
std::span<const std::string_view> ActionKeys();

// The keys of an action that a step may give for itself: queue, priority, a timeout's, retry, …
std::span<const std::string_view> OwnKeys();
// `inherits`: what is not given may come from elsewhere, so that its absence says nothing.
void ReadOwnKeys(const Keys& keys, bool inherits, Reporter* reporter, ActionSource* to);

// use, replace and without.
void ReadMiddleware(const Keys& keys, MiddlewareSource* to);

Written WrittenAt(const Field& field);
std::optional<OnConflict> ReadOnConflict(const Keys& keys);
inline constexpr std::string_view kSingletonExample = "\"infra-${params.site}\"";
// on_conflict alone says nothing.
void CheckSingleton(const Keys& keys);

}  // namespace dfsmr
