#include "dsrv/engine/limit_stake.h"

#include "dsrv/engine/resident.h"

namespace dfsmr {

LimitStake StakeOf(const Boxed<InstanceLimits>& limits, InstanceState state, Waits waits) {
  using State = InstanceLimits::State;
  LimitStake part;
  if (!limits || limits->keys.empty() || state == InstanceState::kStopped) return part;
  part.keys = &limits->keys;
  part.order = limits->order;
  part.since = limits->since;
  part.forced = limits->force;
  if (limits->state == State::kHolds && Runs(state)) {
    part.kind = LimitStake::Kind::kHolds;
  } else if (limits->state == State::kWaits) {
    part.kind = waits.ForTurn() ? LimitStake::Kind::kWaits : LimitStake::Kind::kPaused;
  }
  return part;
}

LimitStake StakeOf(const Token& token, InstanceState state) {
  using State = TokenLimits::State;
  LimitStake part;
  if (!token.limits || token.limits->keys.empty() || state == InstanceState::kStopped) return part;
  part.keys = &token.limits->keys;
  part.order = token.limits->order;
  part.since = token.limits->since;
  const bool runs = Runs(state);
  switch (token.limits->state) {
    case State::kWaits:
      part.kind = runs ? LimitStake::Kind::kWaits : LimitStake::Kind::kPaused;
      break;
    case State::kCalled:
      if (runs) part.kind = LimitStake::Kind::kReserved;
      break;
    case State::kHolds:
      if (runs) part.kind = LimitStake::Kind::kHolds;
      break;
  }
  return part;
}

std::string_view GroupOf(const Instance& instance) {
  return instance.provenance ? std::string_view(instance.provenance->group) : std::string_view();
}

}  // namespace dfsmr
