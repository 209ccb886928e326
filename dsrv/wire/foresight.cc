#include "dsrv/wire/foresight.h"

#include <algorithm>
#include <string_view>

namespace dfsmr {
namespace {

using Outcome = Foresight::Outcome;

Foresight Refused(Reason reason) { return {Outcome::kRefused, reason}; }

// The step of a plan's node: "a.b" of "a.b/error"; a machine's node itself.
std::string_view StepOf(std::string_view node) { return node.substr(0, node.find('/')); }

bool Means(const std::string& pattern, std::string_view node) {
  if (pattern.empty()) return true;
  if (pattern.ends_with(".*")) {
    return StepOf(node).starts_with(std::string_view(pattern).substr(0, pattern.size() - 1));
  }
  return StepOf(node) == pattern || node == pattern;
}

// Whether a token that `holds` stands at such a node.
template <typename Holds>
bool Any(const InstanceView& view, const std::string& pattern, Holds holds) {
  for (size_t i = 0; i < view.nodes.size(); ++i) {
    if (Means(pattern, view.nodes[i]) && holds(view.instance.tokens[i])) return true;
  }
  return false;
}

bool IsHeld(const Token& token) { return token.state == TokenState::kHeld; }

Foresight ForeseePause(const Instance& instance) {
  if (instance.Stopped()) return Refused(Reason::kInstanceStopped);
  const bool stays =
      instance.waits.Has(Wait::kTurn) ? false : instance.waits.Paused() || instance.Cancelling();
  return {stays ? Outcome::kUnchanged : Outcome::kChanged};
}

Foresight ForeseeResume(const InstanceView& view, const rows::BulkRow& row) {
  const Instance& instance = view.instance;
  if (instance.Stopped()) {
    if (!instance.resumable || view.left_behind) return Refused(Reason::kInstanceStopped);
    return {};
  }
  if (instance.Cancelling()) return Refused(Reason::kCancelling);
  const bool again = Any(view, row.node, [&](const Token& token) {
    if (row.force && token.state == TokenState::kClaimed) return true;
    return IsHeld(token) && (!token.unsaid || row.force || !row.node.empty());
  });
  if (again) return {};
  if (!row.node.empty()) return Refused(Reason::kNotHeld);
  const bool waits = instance.waits.Has(Wait::kPause) || instance.waits.Has(Wait::kHold);
  return {waits ? Outcome::kChanged : Outcome::kUnchanged};
}

Foresight ForeseeSkip(const InstanceView& view, const rows::BulkRow& row) {
  if (view.instance.Stopped()) return Refused(Reason::kInstanceStopped);
  if (!view.instance.plan || !Any(view, row.node, IsHeld)) return Refused(Reason::kNotHeld);
  return {};
}

Foresight ForeseeCancel(const Instance& instance, CancelMode mode) {
  if (instance.Stopped()) {
    if (instance.result != InstanceResult::kCancelled) return Refused(Reason::kInstanceStopped);
    return {Outcome::kUnchanged};
  }
  const bool asked = instance.cancel >= std::max(mode, CancelMode::kCancel);
  return {asked ? Outcome::kUnchanged : Outcome::kChanged};
}

Foresight ForeseeMove(const Moment& moment, const InstanceView& view, const rows::BulkRow& row) {
  const Instance& instance = view.instance;
  if (instance.Stopped()) return Refused(Reason::kInstanceStopped);
  if (instance.plan) return {};  // whatever its name, it may be an event
  if (instance.tokens.empty()) return Refused(Reason::kIllegalTransition);
  const Machine* machine = moment.registry.Resolve(instance.ns, instance.machine, instance.version);
  if (!row.node.empty() && machine->Find(row.node) == kNoNode) return Refused(Reason::kNoSuchNode);
  if (row.node.empty() && instance.tokens.size() > 1) return Refused(Reason::kAmbiguousNode);
  for (size_t i = 0; i < view.nodes.size(); ++i) {
    if (!row.node.empty() && view.nodes[i] != row.node) continue;
    const NodeIndex node = instance.tokens[i].node;
    if (node >= machine->nodes.size()) continue;
    const auto& ways = machine->nodes[node].transitions;
    if (std::ranges::any_of(ways,
                            [&](const Edge& edge) { return edge.transition == row.transition; })) {
      return {};
    }
  }
  return Refused(Reason::kIllegalTransition);
}

}  // namespace

Foresight Foresee(const Moment& moment, const InstanceView& view, const rows::BulkRow& row) {
  switch (row.action) {
    case rows::BulkAction::kPause:
      return ForeseePause(view.instance);
    case rows::BulkAction::kResume:
      return ForeseeResume(view, row);
    case rows::BulkAction::kSkip:
      return ForeseeSkip(view, row);
    case rows::BulkAction::kCancel:
      return ForeseeCancel(view.instance, row.mode);
    default:
      return ForeseeMove(moment, view, row);
  }
}

}  // namespace dfsmr
