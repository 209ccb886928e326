#include "fsm/rules/group.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace dfsmr {
namespace {

constexpr double kBillion = 1e9;

MemberShare::Kind KindOf(const Instance& instance) {
  using Kind = MemberShare::Kind;
  switch (instance.state) {
    case InstanceState::kNone:
      return Kind::kNone;
    case InstanceState::kScheduled:
      return Kind::kScheduled;
    case InstanceState::kPlanning:
    case InstanceState::kRunning:
      return Kind::kRunning;
    case InstanceState::kPaused:
      return Kind::kPaused;
    case InstanceState::kStopped:
      break;
  }
  switch (instance.result) {
    case InstanceResult::kWarning:
      return Kind::kWarning;
    case InstanceResult::kError:
      return Kind::kError;
    case InstanceResult::kCancelled:
      return Kind::kCancelled;
    case InstanceResult::kAborted:
      return Kind::kAborted;
    default:
      return Kind::kSuccess;
  }
}

}  // namespace

double ProgressOf(const Instance& instance) {
  if (instance.plan) {
    const PlanState& plan = *instance.plan;
    const double progress = (plan.done_weight + plan.partial) / plan.weight;
    // Nothing weighs, or too much.
    if (!std::isfinite(progress)) return EndedWell(instance.result) ? 1 : 0;
    return std::clamp(progress, 0.0, 1.0);
  }
  double progress = instance.Stopped() ? 1 : 0;
  for (const Token& token : std::as_const(instance.tokens)) {
    for (const Claim& claim : token.claims) progress = std::max(progress, claim.progress);
  }
  return progress;
}

MemberShare ShareOf(const Instance& instance) {
  if (!instance.provenance || instance.provenance->group.empty()) return {};
  MemberShare share;
  share.kind = KindOf(instance);
  if (share.kind == MemberShare::Kind::kNone) return {};
  share.failed = share.kind == MemberShare::Kind::kError ||
                 share.kind == MemberShare::Kind::kAborted ||
                 (!share.Stopped() && instance.waits.Has(Wait::kStuck));
  share.progress = std::llround(ProgressOf(instance) * kBillion);
  return share;
}

void GroupCounts::Count(const MemberShare& share, int sign) {
  if (share.kind == Kind::kNone) return;
  const auto by = static_cast<uint64_t>(sign);  // modulo 2^64
  members[static_cast<size_t>(share.kind)] += by;
  if (share.failed && !share.Stopped()) stuck += by;
  (share.Stopped() ? progress_stopped : progress_live) += sign * share.progress;
}

uint64_t GroupCounts::Stopped() const {
  return Of(Kind::kSuccess) + Of(Kind::kWarning) + Of(Kind::kError) + Of(Kind::kCancelled) +
         Of(Kind::kAborted);
}

InstanceState GroupCounts::State(uint64_t to_come) const {
  const uint64_t total = Total() + to_come;
  if (total == 0) return InstanceState::kNone;
  if (Of(Kind::kScheduled) == total) return InstanceState::kScheduled;
  if (Stopped() == total) return InstanceState::kStopped;
  const bool moves = Of(Kind::kRunning) > 0 || Of(Kind::kScheduled) > 0 || to_come > 0;
  return !moves && Of(Kind::kPaused) > 0 ? InstanceState::kPaused : InstanceState::kRunning;
}

InstanceResult GroupCounts::Result(uint64_t to_come) const {
  if (State(to_come) != InstanceState::kStopped) return InstanceResult::kPending;
  if (Of(Kind::kError) + Of(Kind::kAborted) > 0) return InstanceResult::kError;
  if (Of(Kind::kCancelled) > 0) return InstanceResult::kCancelled;
  return Of(Kind::kWarning) > 0 ? InstanceResult::kWarning : InstanceResult::kSuccess;
}

double GroupCounts::Progress(uint64_t to_come) const {
  const uint64_t total = Total() + to_come;
  if (total == 0) return 0;
  return static_cast<double>(progress_live + progress_stopped) / kBillion /
         static_cast<double>(total);
}

}  // namespace dfsmr
