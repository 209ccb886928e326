// The keys that are asked for.
#pragma once

#include <vector>

#include "fsm/machine/limit.h"

namespace dfsmr {

inline std::vector<LimitKey> KeysAsked(const LimitAsks& asks) {
  std::vector<LimitKey> keys;
  for (const LimitAsk& ask : asks) keys.push_back({ask.key, ask.numbers});
  return keys;
}

}  // namespace dfsmr
