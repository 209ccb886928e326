// An action's document, and the keys that actions share with steps and plans.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "fsm/plan/source.h"
#include "fsm/yaml/fields.h"
#include "fsm/yaml/limits.h"

namespace dfsmr {

// Reports everything that is wrong; then nullopt.
std::optional<ActionSource> ReadAction(const YamlNode& root, Reporter* reporter);
std::span<const std::string_view> ActionKeys();

// The keys of an action that a step may give for itself: queue, priority, a timeout's, retry, …
std::span<const std::string_view> OwnKeys();
// `inherits`: a missing key may be inherited, so a missing key is not an error.
void ReadOwnKeys(const Keys& keys, bool inherits, Reporter* reporter, ActionSource* to);

// How often something is tried, and when again.
void ReadRetry(const Field& field, std::optional<RetryPolicy>* to);

// use, replace and without.
void ReadMiddleware(const Keys& keys, MiddlewareSource* to);

Written WrittenAt(const Field& field);
// The keys of limits: `limit`, or `singleton` with `on_conflict`. nullopt: it has neither.
// `inherits`: on_conflict may stand without singleton.
std::optional<LimitAsks> ReadLimits(const Keys& keys, bool inherits, LimitAsker asker,
                                    std::optional<OnConflict>* on_conflict);

}  // namespace dfsmr
