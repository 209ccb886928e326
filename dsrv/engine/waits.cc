#include "dsrv/engine/waits.h"

namespace dfsmr {
namespace {

using WaitKind = WaitView::Kind;

std::vector<WaitView> OfKeys(const std::vector<LimitKey>& keys) {
  std::vector<WaitView> waits;
  for (const LimitKey& key : keys) {
    waits.push_back({.kind = WaitKind::kLimit, .key = key.key, .max = key.numbers.max.value_or(0)});
  }
  return waits;
}

}  // namespace

InstanceWaits WaitsIn(const Instance& instance) {
  InstanceWaits waits;
  if (instance.Stopped()) return waits;
  const Waits& reasons = instance.waits;
  if (reasons.Has(Wait::kHold)) waits.instance.push_back({.kind = WaitKind::kHold});
  if (reasons.Has(Wait::kStartAt)) {
    waits.instance.push_back({.kind = WaitKind::kStartAt, .until = instance.start_at});
  }
  if (reasons.Has(Wait::kAfter)) {
    for (const Instance::Prerequisite& one : instance.after) {
      waits.instance.push_back({.kind = WaitKind::kAfter, .key = one.instance});
    }
  }
  const bool for_limits = reasons.Has(Wait::kLimit) || reasons.Has(Wait::kTurn);
  if (for_limits && instance.limits) {
    for (WaitView& wait : OfKeys(instance.limits->keys)) waits.instance.push_back(std::move(wait));
  }
  for (const Token& token : instance.tokens) {
    if (token.WaitsForLimits()) waits.tokens[token.visit] = OfKeys(token.limits->keys);
  }
  return waits;
}

}  // namespace dfsmr
