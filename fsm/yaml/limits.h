// The key `limit` of machines, plans, actions, steps and nodes, and what it has in common with the
// documents of limits.
#pragma once

#include <string_view>

#include "fsm/machine/limit.h"
#include "fsm/yaml/fields.h"

namespace dfsmr {

// What may be asked for: instances know all words of on_conflict.
enum class LimitAsker : uint8_t { kInstance, kStep, kNode };

// A key, a map, or up to 8 of them.
void ReadLimitAsks(const Field& field, LimitAsker asker, LimitAsks* out);

inline constexpr size_t kLimitAsks = 8;

// `max`, `rate` and `burst` of a map. False: it has neither max nor rate.
bool ReadLimitNumbers(const Keys& keys, LimitNumbers* out);

}  // namespace dfsmr
