// What limits do to an instance: it begins, waits its turn, is left out, or gives way.
#include "fsm/rules/limits.h"

#include <functional>

#include "fsm/base/names.h"
#include "fsm/rules/inside.h"

namespace dfsmr::rules {
namespace {

using Kind = LimitAnswer::Kind;
using State = InstanceLimits::State;

// Notes what the instance asked for. An instance that has never asked keeps no room for it.
void Note(Scene& scene, const LimitAnswer& answer, State state) {
  Instance& instance = scene.instance;
  if (answer.keys.empty() && !instance.limits) return;
  if (!instance.limits) instance.limits = InstanceLimits();
  InstanceLimits& limits = *instance.limits;
  if (answer.keys.empty()) state = State::kNone;
  if (limits.state != state) limits.since = scene.now;
  limits.keys = answer.keys;
  limits.order = answer.order;
  limits.state = state;
  limits.displaces = state != State::kNone && (limits.displaces || answer.displaces);
}

void LeaveOutAll(Scene& scene, const std::string& why) {
  scene.instance.error = why;
  StopCancelled(scene);
}

// What becomes of an instance without room. `wait`: the reason to wait.
void TurnAway(Scene& scene, const LimitAnswer& answer, Wait wait) {
  if (answer.kind == Kind::kFails) {
    return Stop(scene, InstanceResult::kError, kNoNode, 0, answer.why);
  }
  if (answer.kind == Kind::kLeftOut) return LeaveOutAll(scene, answer.why);
  Note(scene, answer, State::kWaits);
  KeepFromRunning(scene, wait);
  Emit(scene, ChangeKind::kScheduled).note = answer.why + "; it waits its turn";
}

}  // namespace

void ReleaseLimits(Instance& instance) {
  if (!instance.limits) return;
  instance.limits->state = State::kNone;
  instance.limits->keys.clear();
  instance.limits->displaces = false;
}

void ForgetCalls(Scene& scene) {
  for (uint64_t visit : VisitsWith(scene.instance, [](const Token& token) {
         return token.limits && token.limits->state == TokenLimits::State::kCalled;
       })) {
    scene.instance.tokens.FindMutable(visit)->limits.reset();
  }
}

void ForgetTokenLimits(Instance& instance) {
  for (uint64_t visit :
       VisitsWith(instance, [](const Token& token) { return static_cast<bool>(token.limits); })) {
    instance.tokens.FindMutable(visit)->limits.reset();
  }
}

bool Admitted(Scene& scene) {
  if (!scene.gate) return true;
  const LimitAnswer answer = scene.gate->Ask(scene.instance);
  if (/*mutant limit-ignored-at-start*/ answer.kind == Kind::kRoom /*end*/) {
    Note(scene, answer, State::kHolds);
    return true;
  }
  TurnAway(scene, answer, Wait::kLimit);
  return false;
}

bool AskAgain(Scene& scene) { return Admitted(scene); }

namespace {

// What has waited for limits while the instance was paused asks anew: it has lost its turn to none
// that came meanwhile, but takes it from none that is ready either.
void AskAnew(Scene& scene) {
  for (uint64_t visit : VisitsWith(scene.instance, std::mem_fn(&Token::WaitsForLimits))) {
    Token& token = *scene.instance.tokens.FindMutable(visit);
    token.state = TokenState::kReady;
    token.available_at = token.limits->ready_since;
    token.limits.reset();
  }
}

void RunAgain(Scene& scene, Waits reasons) {
  LetRun(scene, reasons);
  /*mutant resumed-keeps-turn*/ if (scene.machine.nodes_ask)
    AskAnew(scene); /*end*/
}

}  // namespace

void GoOnInTurn(Scene& scene, Waits reasons) {
  Instance& instance = scene.instance;
  const bool was_paused = instance.waits.Paused();
  Waits left = instance.waits;
  left.Remove(reasons);
  const bool goes_on = instance.Begun() && was_paused && !left.Paused() && !left.Has(Wait::kLimit);
  if (!goes_on) return LetRun(scene, reasons);
  if (!scene.gate) return RunAgain(scene, reasons);
  const LimitAnswer answer = scene.gate->Ask(instance);
  if (answer.kind == Kind::kRoom) {
    Note(scene, answer, State::kHolds);
    return RunAgain(scene, reasons);
  }
  Note(scene, answer, State::kWaits);
  instance.waits.Remove(reasons);
  instance.waits.Add(Wait::kTurn);  // it was PAUSED, and still is
}

void LetIn(Scene& scene) {
  Instance& instance = scene.instance;
  if (!instance.waits.ForTurn() || !scene.gate) return;
  if (scene.group_closed && !instance.Begun()) return instance.waits.Add(Wait::kGroup);
  const LimitAnswer answer = scene.gate->Ask(instance);
  if (answer.kind == Kind::kFails) {
    return Stop(scene, InstanceResult::kError, kNoNode, 0, answer.why);
  }
  if (answer.kind != Kind::kRoom) return Note(scene, answer, State::kWaits);
  Note(scene, answer, State::kHolds);
  if (instance.waits.Has(Wait::kLimit)) {
    instance.waits.Remove(Wait::kLimit);
    return BeginAdmitted(scene);
  }
  RunAgain(scene, {Wait::kTurn});
  Emit(scene, ChangeKind::kResumed).note = "its turn has come";
  JudgeSteps(scene);
}

void RefuseTurn(Scene& scene, const LimitAnswer& answer) {
  Instance& instance = scene.instance;
  if (!instance.waits.ForTurn()) return;
  if (instance.waits.Has(Wait::kLimit)) {
    return answer.kind == Kind::kFails
               ? Stop(scene, InstanceResult::kError, kNoNode, 0, answer.why)
               : LeaveOutAll(scene, answer.why);
  }
  ReleaseLimits(instance);
  instance.waits.Remove(Wait::kTurn);
  instance.waits.Add(Wait::kPause);
  Emit(scene, ChangeKind::kPaused).note = answer.why;
}

void HasDisplaced(Scene& scene) {
  if (scene.instance.limits) scene.instance.limits->displaces = false;
}

void HoldPastLimits(Scene& scene, const LimitAnswer& answer) {
  if (!scene.instance.Stopped()) Note(scene, answer, State::kHolds);
}

void HoldPastLimits(Scene& scene, uint64_t visit, const LimitAnswer& answer) {
  Token* token = scene.instance.tokens.FindMutable(visit);
  if (!token || token->state != TokenState::kClaimed || token->limits) return;
  token->limits = TokenLimits{.state = TokenLimits::State::kHolds,
                              .keys = answer.keys,
                              .order = answer.order,
                              .since = scene.now};
}

void AwaitTurn(Scene& scene, uint64_t visit, TokenLimits limits) {
  Instance& instance = scene.instance;
  const auto slot = instance.tokens.SlotOf(visit);
  if (!slot || instance.tokens[*slot].state != TokenState::kReady) return;
  if (IsPlanned(scene) && instance.Cancelling()) {  // the step has not begun, and will not
    instance.tokens.Leave(*slot);
    return JudgeSteps(scene);
  }
  Token& token = instance.tokens.Mutable(*slot);
  limits.state = TokenLimits::State::kWaits;
  limits.since = scene.now;
  limits.ready_since = std::exchange(token.available_at, kNever);
  token.state = TokenState::kWaiting;
  token.limits = std::move(limits);
}

void CallToken(Scene& scene, uint64_t visit) {
  Token* token = scene.instance.tokens.FindMutable(visit);
  if (!token || !token->WaitsForLimits()) return;
  token->state = TokenState::kReady;
  // It keeps its place in line.
  token->available_at = token->limits->ready_since;
  token->limits->state = TokenLimits::State::kCalled;
  token->limits->since = scene.now;
}

void LeaveOutStep(Scene& scene, uint64_t visit, const std::string& why) {
  Instance& instance = scene.instance;
  const auto slot = instance.tokens.SlotOf(visit);
  if (!slot || instance.Stopped() || !IsPlanned(scene)) return;
  instance.tokens.Mutable(*slot).error = why;
  const Token token = std::as_const(instance.tokens)[*slot];
  const Node& home = scene.machine.nodes[token.home];
  Event& event = Emit(scene, ChangeKind::kSkipped);
  event.prev_node = scene.machine.nodes[token.node].id;
  event.node = home.id;
  event.transition = "skip";
  event.visit = visit;
  event.note = why;
  LeadOn(scene, *slot, *home.FindTransition("ok"), /*skipped=*/true, {"skip", {}, {}});
  JudgeSteps(scene);
}

void GiveWay(Scene& scene, CancelMode mode, const std::string& why) {
  if (scene.instance.Stopped()) return;
  scene.reason = why;
  (void)Cancel(scene, mode);
  if (!scene.instance.Stopped()) scene.instance.error = why;
}

}  // namespace dfsmr::rules
