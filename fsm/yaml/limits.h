// The key `limit` of machines, plans, actions, steps and nodes, and what it has in common with the
// documents of limits.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "fsm/machine/limit.h"
#include "fsm/yaml/fields.h"

namespace dfsmr {

// What may be asked for: instances know all words of on_conflict.
enum class LimitAsker : uint8_t { kInstance, kStep, kNode };

// A key, a map, or up to 8 of them.
void ReadLimitAsks(const Field& field, LimitAsker asker, LimitAsks* out);

// What is wrong with asking in `field` for a key, or one whose template begins so: it is a built-in
// one. Those were accepted once, so stored documents may have them.
std::optional<std::string> BuiltInKeyProblem(const Field& field, std::string_view key);

inline constexpr size_t kLimitAsks = 8;

// `max`, `rate` and `burst` of a map. False: it has neither max nor rate.
bool ReadLimitNumbers(const Keys& keys, LimitNumbers* out);

}  // namespace dfsmr
