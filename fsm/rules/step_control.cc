// What operators do to the steps of a plan, and how its state follows from its tokens.
#include <algorithm>
#include <iterator>

#include "fsm/base/names.h"
#include "fsm/rules/inside.h"

namespace dfsmr::rules {

Result<size_t> StepSlot(const Scene& scene, const std::string& node) {
  const Instance& instance = scene.instance;
  if (node.empty()) {
    if (instance.tokens.size() == 1) return size_t{0};
    if (instance.tokens.empty()) {
      return Refused(Reason::kIllegalTransition, Named(instance) + " stands nowhere; it is " +
                                                     std::string(Name(instance.state)));
    }
    std::string nodes;
    for (size_t i = 0; i < instance.tokens.size() && i < 10; ++i) {
      nodes += (i ? ", " : "") + scene.machine.nodes[instance.tokens[i].node].id;
    }
    if (instance.tokens.size() > 10) nodes += ", …";
    return Refused(Reason::kAmbiguousNode, Named(instance) + " stands on several nodes (" + nodes +
                                               "): say which one with 'node'");
  }
  const NodeIndex index = scene.machine.Find(node);
  if (index == kNoNode) {
    return Error{
        Code::kNotFound, Reason::kNoSuchNode,
        Named(instance) + " of plan " + Quoted(instance.machine) + " has no step " + Quoted(node)};
  }
  const Node& meant = scene.machine.nodes[index];
  const bool exact = meant.role == Role::kError || meant.role == Role::kSuspended ||
                     meant.role == Role::kFinalizeError;
  auto slot = instance.tokens.SlotOfHome(meant.home);
  if (exact && slot && instance.tokens[*slot].node != index) slot.reset();
  if (!slot && !exact) {
    const NodeIndex finalize = scene.machine.Find(node + "/finalize");
    if (finalize != kNoNode) slot = instance.tokens.SlotOfHome(finalize);
  }
  if (slot) return *slot;
  return Refused(Reason::kIllegalTransition, Named(instance) + " does not stand at " +
                                                 Quoted(node) +
                                                 ": the step has not begun, or has ended");
}

Result<Ok> MayGoOn(const Scene& scene) {
  const Instance& instance = scene.instance;
  // One that was paused by a call stays so.
  if (!instance.waits.Has(Wait::kStuck) || instance.waits.Has(Wait::kPause) || !scene.gate) {
    return Ok{};
  }
  const LimitAnswer answer = scene.gate->WouldAnswer(instance);
  using enum LimitAnswer::Kind;
  if (answer.kind == kRoom || (answer.kind == kWaits && !answer.singleton)) return Ok{};
  return Refused(answer.singleton ? Reason::kIllegalTransition : Reason::kLimitReached,
                 answer.why + "; let this one go on when there is room");
}
namespace {

std::vector<uint64_t> VisitsIn(const Instance& instance, TokenState state) {
  std::vector<uint64_t> visits;
  for (const Token& token : instance.tokens) {
    if (token.state == state) visits.push_back(token.visit);
  }
  std::ranges::sort(visits);
  return visits;
}

// Lets a paused plan go on, which asks for its limits again.
void GoOn(Scene& scene) {
  scene.instance.error.clear();
  GoOnInTurn(scene, {Wait::kPause, Wait::kStuck});
}

}  // namespace

Error NotHeld(const Scene& scene, const std::string& node, const std::string& hint) {
  return Refused(Reason::kNotHeld, "nothing of " + Named(scene.instance) + " is held" +
                                       (node.empty() ? "" : " at " + Quoted(node)) + hint);
}

Result<Ok> ResumeSteps(Scene& scene, const std::string& node, bool force) {
  Instance& instance = scene.instance;
  std::vector<uint64_t> held;
  std::vector<uint64_t> claimed;
  if (node.empty()) {
    held = VisitsIn(instance, TokenState::kHeld);
    if (!force) {  // what nobody knows the end of is handed out by name only
      std::erase_if(held, [&](uint64_t visit) {
        return std::as_const(instance.tokens).Find(visit)->unsaid;
      });
    }
    if (force) claimed = VisitsIn(instance, TokenState::kClaimed);
  } else {
    auto slot = StepSlot(scene, node);
    if (!slot && slot.error().reason == Reason::kNoSuchNode) return slot.error();
    const Token* token = slot ? &std::as_const(instance.tokens)[*slot] : nullptr;
    if (token && token->state == TokenState::kHeld) held.push_back(token->visit);
    if (token && force && token->state == TokenState::kClaimed) claimed.push_back(token->visit);
    if (held.empty() && claimed.empty()) {
      return NotHeld(scene, node, force ? "" : "; 'force' runs claimed work again");
    }
  }
  const bool paused = instance.waits.Has(Wait::kPause);
  if (!(paused && node.empty()) && held.empty() && claimed.empty()) return Ok{};
  if (instance.waits.Has(Wait::kStuck) ||
      /*mutant node-resume-ends-pause*/ (paused && node.empty()) /*end*/)
    GoOn(scene);
  Event& event = Emit(scene, ChangeKind::kResumed);
  event.node = node;
  if (instance.waits.Has(Wait::kTurn)) event.note = std::string(kWaitsItsTurn);
  bool finalized = false;  // retrying one finalize phase retries all
  for (uint64_t visit : held) {
    const auto slot = instance.tokens.SlotOf(visit);
    if (!slot) continue;
    const Token& token = std::as_const(instance.tokens)[*slot];
    if (scene.machine.nodes[token.home].role == Role::kFinalize && std::exchange(finalized, true)) {
      continue;
    }
    Retry(scene, *slot, "");
  }
  for (uint64_t visit : claimed) Rerun(scene, visit);
  JudgeSteps(scene);
  return Ok{};
}

Result<Ok> SkipStep(Scene& scene, const std::string& node) {
  Instance& instance = scene.instance;
  std::vector<uint64_t> held;
  if (node.empty()) {
    held = VisitsIn(instance, TokenState::kHeld);
    if (held.size() > 1) {
      return Refused(Reason::kAmbiguousNode, std::to_string(held.size()) + " steps of " +
                                                 Named(instance) +
                                                 " are held: say which one with 'node'");
    }
  } else {
    auto slot = StepSlot(scene, node);
    if (!slot && slot.error().reason == Reason::kNoSuchNode) return slot.error();
    if (slot && std::as_const(instance.tokens)[*slot].state == TokenState::kHeld) {
      held.push_back(std::as_const(instance.tokens)[*slot].visit);
    }
  }
  if (held.empty()) return NotHeld(scene, node, "; only a held step can be skipped");
  auto may = MayGoOn(scene);
  if (!may) return may;
  SkipHeld(scene, *instance.tokens.SlotOf(held.front()), "");
  JudgeSteps(scene);
  return Ok{};
}

void DropIfCancelled(Scene& scene, uint64_t visit) {
  Instance& instance = scene.instance;
  if (!IsPlanned(scene)) return;
  const auto slot = instance.tokens.SlotOf(visit);
  if (!slot) return;
  const Token& token = std::as_const(instance.tokens)[*slot];
  if (token.state != TokenState::kReady || token.step->event == "cancel") return;
  if (instance.Cancelling()) return instance.tokens.Leave(*slot);
  if (EndsAround(scene, token.home)) DropStep(scene, visit);
}

bool TellToEnd(Scene& scene, size_t slot) {
  Tokens& tokens = scene.instance.tokens;
  const Token& token = std::as_const(tokens)[slot];
  const Role role = scene.machine.nodes[token.node].role;
  if (token.state == TokenState::kClaimed) return true;
  if (role == Role::kSuspended) {
    Wake(scene, slot, "cancel", "", "");
  } else if (role == Role::kSpawn &&
             token.step->children->running + token.step->children->paused > 0) {
    ChildCounts& children = *tokens.Mutable(slot).step->children;
    children.total = children.started;  // no more are started, and those that run are told
    children.counted = true;
    children.restart = false;
  } else if (token.state == TokenState::kReady && !token.step->event.empty()) {
    StepState& step = *tokens.Mutable(slot).step;
    step.event = "cancel";
    step.event_data.clear();
  } else {
    return false;
  }
  return true;
}

void CancelSteps(Scene& scene) {
  Instance& instance = scene.instance;
  std::ranges::move(std::exchange(instance.plan->open, {}),
                    std::back_inserter(instance.plan->shut));
  instance.plan->resuming = PlanState::Resuming::kNone;
  std::vector<uint64_t> visits;
  for (const Token& token : instance.tokens) visits.push_back(token.visit);
  for (uint64_t visit : visits) {
    const size_t slot = *instance.tokens.SlotOf(visit);
    if (!TellToEnd(scene, slot)) {
      /*mutant cancelled-step-forgotten*/ instance.tokens.Leave(slot); /*end*/
    }
  }
}

namespace {

// Whether nothing of the plan moves any more until somebody deals with what is held.
bool AtRest(const Instance& instance) {
  const Tokens& tokens = instance.tokens;
  const size_t held = tokens.Count(TokenState::kHeld);
  const bool any = held > 0 || instance.plan->stopping;
  return any && held == tokens.size() && !HasOpenEdges(instance);
}

// wait_after_fail is over, and nothing is left to be done before the plan stops.
void StopAfterFailure(Scene& scene) {
  const Tokens& tokens = scene.instance.tokens;
  const NodeIndex where = tokens.empty() ? kNoNode : tokens.front().node;
  StopResumable(scene, InstanceResult::kError, where, tokens.empty() ? 0 : tokens.front().visit);
}

// What is blocked counts as skipped from now on, so that the steps whose `if` waits for it are
// decided. False: there is nothing more to decide.
bool RunFinally(Scene& scene) {
  bool news = false;
  while (scene.machine.conditional && AtRest(scene.instance) &&
         /*mutant finally-not-run*/ CountBlocked(scene) /*end*/) {
    WalkOn(scene);
    news = true;
  }
  return news && !AtRest(scene.instance);
}

// The held step that is told of.
const Token& FirstHeld(const Scene& scene, bool impatient) {
  const Tokens& tokens = scene.instance.tokens;
  return impatient ? tokens[*tokens.SlotOfHome(scene.instance.plan->impatient)] : tokens.front();
}

std::string WhyStuck(const Scene& scene, bool impatient) {
  const size_t held = scene.instance.tokens.Count(TokenState::kHeld);
  const Token& first = FirstHeld(scene, impatient);
  return "step " + StepOf(scene, first).path + ": " +
         (first.error.empty() ? "it failed" : first.error) +
         (held > 1 ? " (and " + std::to_string(held - 1) + " more)" : "");
}

}  // namespace

void JudgeSteps(Scene& scene) {
  Instance& instance = scene.instance;
  if (instance.Stopped() || !IsPlanned(scene)) return;
  if (instance.Cancelling()) {
    if (instance.tokens.empty()) StopCancelled(scene);
    return;
  }
  JudgeSections(scene);
  if (instance.Stopped()) return;
  const Tokens& tokens = instance.tokens;
  const bool impatient = OutOfPatience(scene);
  const bool rest = AtRest(instance);
  const bool stuck = rest || impatient;
  if (instance.waits.Has(Wait::kStuck) && !stuck) {
    GoOn(scene);
    Emit(scene, ChangeKind::kResumed);
    return;
  }
  const bool paused = instance.waits.Has(Wait::kStuck) && tokens.Count(TokenState::kHeld) > 0;
  if (paused) instance.error = WhyStuck(scene, impatient);  // others may be held by now
  if (!stuck || instance.state != InstanceState::kRunning) return;
  if (instance.plan->stopping) {
    if (!RunFinally(scene)) StopAfterFailure(scene);
    return;
  }
  const auto fails = [&](const Token& token) {
    return ActionOf(scene, token).rescue == Rescue::kFail && !token.unsaid;
  };
  const bool fail =
      rest && /*mutant disagreement-fails*/ std::ranges::all_of(tokens, fails) /*end*/;
  if (fail && RunFinally(scene)) return;
  const Token first = FirstHeld(scene, impatient);
  const std::string why = WhyStuck(scene, impatient);
  if (fail) return StopResumable(scene, InstanceResult::kError, first.node, first.visit, why);
  instance.error = why;
  ReleaseLimits(instance);
  if (scene.machine.nodes_ask) ForgetCalls(scene);
  KeepFromRunning(scene, Wait::kStuck);
  Event& event = Emit(scene, ChangeKind::kPaused);
  event.node = scene.machine.nodes[first.node].id;
  event.visit = first.visit;
  event.note = why;
}

}  // namespace dfsmr::rules
