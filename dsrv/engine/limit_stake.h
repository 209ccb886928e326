// What an instance as a whole, or a token of it, has of the table of limits.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "fsm/machine/limit.h"
#include "fsm/rules/instance.h"

namespace dfsmr {

struct LimitStake {
  enum class Kind : uint8_t { kNothing, kWaits, kPaused, kReserved, kHolds };
  Kind kind = Kind::kNothing;
  const std::vector<LimitKey>* keys = nullptr;
  uint64_t order = 0;
  Timestamp since;
  bool forced = false;

  bool Stands() const { return kind == Kind::kWaits || kind == Kind::kPaused; }  // in a line
  bool Holds() const { return kind == Kind::kReserved || kind == Kind::kHolds; }
};
LimitStake StakeOf(const Boxed<InstanceLimits>& limits, InstanceState state, Waits waits);
LimitStake StakeOf(const Token& token, InstanceState state);

// The group whose close would hold an instance back; empty: it is in none.
std::string_view GroupOf(const Instance& instance);

}  // namespace dfsmr
