// Pause, resume, skip and cancel.
#include <algorithm>

#include "fsm/base/names.h"
#include "fsm/rules/inside.h"

namespace dfsmr::rules {

Result<Ok> Pause(Scene& scene) {
  Instance& instance = scene.instance;
  if (instance.Stopped()) return Stopped(instance);
  if (instance.waits.Has(Wait::kTurn)) {  // it is PAUSED still, and is to stay so
    instance.waits.Remove(Wait::kTurn);
    ReleaseLimits(instance);
  } else if (instance.waits.Paused()) {
    return Ok{};
  }
  // What is being cancelled is not paused: the workers that have it in hand have to be told.
  if (/*mutant cancelling-paused*/ instance.Cancelling() /*end*/) return Ok{};
  TakeBackUnbegun(scene);
  // One that waits for its turn keeps its place.
  if (!instance.waits.Has(Wait::kLimit))
    /*mutant pause-keeps-singleton*/ ReleaseLimits(instance); /*end*/
  if (scene.machine.nodes_ask) ForgetCalls(scene);
  KeepFromRunning(scene, Wait::kPause);
  Event& event = Emit(scene, ChangeKind::kPaused);
  event.node = Where(scene);
  event.visit = VisitOf(scene);
  return Ok{};
}
namespace {

// The visits of the tokens that a call names: those at `node`, or all.
Result<std::vector<uint64_t>> Chosen(Scene& scene, const std::string& node) {
  Instance& instance = scene.instance;
  if (node.empty()) return VisitsWith(instance, [](const Token&) { return true; });
  const NodeIndex index = scene.machine.Find(node);
  if (index == kNoNode) {
    return Error{Code::kNotFound, Reason::kNoSuchNode,
                 "machine " + Quoted(instance.machine) + " has no node " + Quoted(node)};
  }
  return VisitsWith(instance, [index](const Token& token) { return token.node == index; });
}

bool HoldsAny(const Instance& instance) {
  return std::ranges::any_of(
      instance.tokens, [](const Token& token) { return token.state == TokenState::kHeld; });
}

}  // namespace

Result<Ok> Resume(Scene& scene, const std::string& node, bool force) {
  Instance& instance = scene.instance;
  if (instance.Stopped()) return Stopped(instance);
  if (instance.Cancelling()) return BeingCancelled(instance);
  if (IsPlanned(scene)) return ResumeSteps(scene, node, force);
  auto chosen = Chosen(scene, node);
  if (!chosen) return chosen.error();
  std::erase_if(*chosen, [&](uint64_t visit) {
    const Token& token = *std::as_const(instance.tokens).Find(visit);
    const bool held =
        token.state == TokenState::kHeld && (!token.unsaid || force || !node.empty());
    return !held && (!force || token.state != TokenState::kClaimed);
  });
  if (!node.empty() && chosen->empty()) {
    return Refused(Reason::kNotHeld, "nothing of " + Named(instance) + " is held at " +
                                         Quoted(node) +
                                         (force ? "" : "; 'force' runs claimed work again"));
  }
  // Held by an error; what is held for another reason goes on by itself, once it is dealt with.
  const bool failed = std::ranges::any_of(*chosen, [&](uint64_t visit) {
    const Token& token = *std::as_const(instance.tokens).Find(visit);
    return token.state == TokenState::kHeld && !token.unsaid;
  });
  const bool held = instance.waits.Has(Wait::kHold) || instance.waits.Has(Wait::kPause);
  if (!(held && node.empty()) && chosen->empty()) return Ok{};
  Waits reasons;
  // One that was started held, and then paused, is held again.
  if (node.empty()) reasons.Add(instance.waits.Has(Wait::kPause) ? Wait::kPause : Wait::kHold);
  if (failed) reasons.Add(Wait::kStuck);
  /*mutant planted-03*/ if (!reasons.empty())
    GoOnInTurn(scene, reasons); /*end*/
  // It is planned anew, or stands elsewhere since an upgrade: what had failed is gone.
  if (held && node.empty() && !HoldsAny(instance)) instance.error.clear();
  Event& event = Emit(scene, ChangeKind::kResumed);
  event.node = node.empty() ? Where(scene) : node;
  event.visit = VisitOf(scene);
  if (instance.waits.Has(Wait::kTurn)) event.note = std::string(kWaitsItsTurn);
  for (uint64_t visit : *chosen) {
    const size_t slot = *instance.tokens.SlotOf(visit);
    const Token& token = std::as_const(instance.tokens)[slot];
    if (token.state == TokenState::kHeld && !token.unsaid) {
      OfferAgain(scene, slot);
    } else {
      Rerun(scene, visit);
    }
  }
  if (instance.state == InstanceState::kScheduled) StartDue(scene);
  GoOnIfSaid(scene);
  return Ok{};
}

Result<Ok> Skip(Scene& scene, const std::string& node) {
  Instance& instance = scene.instance;
  if (instance.Stopped()) return Stopped(instance);
  if (IsPlanned(scene)) return SkipStep(scene, node);
  auto chosen = Chosen(scene, node);
  if (!chosen) return chosen.error();
  return Refused(Reason::kNotHeld,
                 Named(instance) + (node.empty() ? "" : " at " + Quoted(node)) +
                     " has no step to skip: only a held step of a plan can be skipped; a machine "
                     "moves on by one of its transitions");
}

Result<Ok> Cancel(Scene& scene, CancelMode mode) {
  Instance& instance = scene.instance;
  if (instance.Stopped()) {
    if (instance.result == InstanceResult::kCancelled) return Ok{};
    return Stopped(instance);
  }
  if (!instance.Cancelling()) {
    instance.cancel_time = scene.now;
    instance.with_parent = false;
    if (!HoldsAny(instance)) instance.error.clear();  // of what it has gone on from
  }
  instance.cancel = std::max({instance.cancel, mode, CancelMode::kCancel});
  if (!scene.reason.empty()) {
    if (!instance.cancel_reason) instance.cancel_reason = std::string();
    std::string& reason = *instance.cancel_reason;
    if (!reason.ends_with(scene.reason)) {
      reason += (reason.empty() ? "" : "; ") + std::string(scene.reason);
    }
  }
  TakeBackUnbegun(scene);
  if (/*mutant kill-waits*/ mode >= CancelMode::kForce /*end*/) {
    StopCancelled(scene);
    return Ok{};
  }
  if (IsPlanned(scene)) CancelSteps(scene);
  StopIfCancelled(scene);
  // Whoever has work in hand has to be told, also when somebody had paused the instance.
  if (!instance.Stopped() && instance.waits.Paused()) {
    LetRun(scene, {Wait::kPause, Wait::kStuck, Wait::kTurn});
    ReleaseLimits(instance);
    ForgetTokenLimits(instance);
    Event& event = Emit(scene, ChangeKind::kResumed);
    event.node = IsPlanned(scene) ? "" : Where(scene);
    event.visit = IsPlanned(scene) ? 0 : VisitOf(scene);
    event.note = "to be cancelled";
  }
  return Ok{};
}

}  // namespace dfsmr::rules
