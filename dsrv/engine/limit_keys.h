// The keys that are asked for, or held.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "fsm/machine/limit.h"

namespace dfsmr {

inline std::vector<LimitKey> KeysAsked(const LimitAsks& asks) {
  std::vector<LimitKey> keys;
  for (const LimitAsk& ask : asks) keys.push_back({ask.key, ask.numbers});
  return keys;
}

inline bool HasKey(const std::vector<LimitKey>& keys, const std::string& key) {
  return std::ranges::find(keys, key, &LimitKey::key) != keys.end();
}

}  // namespace dfsmr
