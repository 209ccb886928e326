// Work that fails: the next try, or the end of all tries; of steps, and of nodes of machines. A
// failure is reported, or found by the server.
#include <algorithm>

#include "fsm/rules/inside.h"

namespace dfsmr {

uint32_t TriesOf(const Token& token) {
  if (token.step) return token.step->tries;
  return token.failures ? token.failures->tries : 0;
}

uint32_t TriesLimitOf(const Machine* machine, const Token& token) {
  if (token.step) return token.step->tries_limit;
  if (!machine || token.node >= machine->nodes.size()) return 0;
  const Node& node = machine->nodes[token.node];
  return node.kind == NodeKind::kWork ? node.settings->retry.limit : 0;
}

namespace rules {
namespace {

constexpr std::string_view kError = "error";
constexpr size_t kAgentsNamed = 16;

// Of the work of a token; a step's is that of its phase, wherever the token stands.
const RetryPolicy& PolicyOf(const Scene& scene, const Token& token) {
  const NodeIndex node = token.home == kNoNode ? token.node : token.home;
  return scene.machine.nodes[node].settings->retry;
}

// Between the try that has just failed, the last of `tries`, and the next one.
Duration DelayBefore(const Scene& scene, const Token& left, uint32_t tries,
                     const Failure& failure) {
  if (failure.retry_after) return *failure.retry_after;
  return DelayOf(PolicyOf(scene, left).delay, tries, Fraction(scene.random, left.visit));
}

// Puts a token that has just entered its node for another try where it waits for that.
void AwaitTry(const Scene& scene, Duration delay, Token* token) {
  if (delay <= Duration::zero()) return;
  token->state = TokenState::kWaiting;
  token->available_at = /*mutant retry-at-once*/ After(scene.Clock(), delay) /*end*/;
}

// A report has ended it: nobody who had it in hand has anything more to say of it.
void EndVisit(const Scene& scene, Token& token) {
  token.state = TokenState::kNone;
  if (token.step) token.step->worker = token.LastWorker();
  /*mutant second-word-kept*/ token.claims.clear(); /*end*/
  token.forgotten_epoch = std::max(token.forgotten_epoch, scene.epoch);
}

// A planner's last try has failed, or nobody wants its plan any more.
void FailPlanner(Scene& scene, size_t slot, const Failure& failure, const Led& led) {
  const Token left = std::as_const(scene.instance.tokens)[slot];
  Event& event = Emit(scene, ChangeKind::kTransitioned);
  event.prev_node = scene.machine.nodes[left.node].id;
  event.transition = led.transition;
  event.client = led.client;
  event.left_visit = left.visit;
  event.note = failure.error;
  if (scene.instance.Cancelling()) {
    EndVisit(scene, scene.instance.tokens.Mutable(slot));
    return scene.instance.tokens.Leave(slot);
  }
  FailStep(scene, left.visit,
           failure.error.empty() ? "its planner reported an error" : failure.error);
}

bool PollAgain(Scene& scene, size_t slot, const Failure& failure, const Led& led) {
  const Token& left = std::as_const(scene.instance.tokens)[slot];
  const StepAction& action = ActionOf(scene, left);
  if (failure.fatal || left.step->poll_failures + 1 >= action.poll->max_failures) return false;
  const Node& home = scene.machine.nodes[left.home];
  Token& token = MoveTo(scene, slot, home.FindTransition("suspend")->targets.front(),
                        TokenState::kWaiting, ChangeKind::kTransitioned, led);
  scene.events.back().note = failure.error;
  ++token.step->poll_failures;
  Suspended(scene, slot, std::nullopt);
  if (failure.retry_after && token.step->wake == "poll") {
    token.available_at = After(scene.Clock(), *failure.retry_after);
  }
  TakeEvent(scene, slot);
  return true;
}

// Puts the token of a machine on its own node again, in a new visit. Keeps what it was given, and
// the limits' keys that it holds.
Token& StayAt(Scene& scene, size_t slot, const Arrival& arrival) {
  Instance& instance = scene.instance;
  const Token& left = std::as_const(instance.tokens)[slot];
  Token token;
  token.node = left.node;
  token.visit = ++instance.last_visit;
  token.state = TokenState::kReady;
  token.available_at = scene.now;
  token.params = left.params;
  if (left.handling) KeepCheckpoint(token, left.handling->checkpoint);
  if (left.limits && left.limits->state == TokenLimits::State::kHolds) token.limits = left.limits;
  Event& event = Emit(scene, ChangeKind::kTransitioned);
  event.prev_node = event.node = scene.machine.nodes[left.node].id;
  event.transition = arrival.transition;
  event.visit = token.visit;
  event.client = arrival.client;
  event.params = arrival.params;
  event.left_visit = left.visit;
  instance.tokens.Replace(slot, std::move(token));
  return instance.tokens.Mutable(slot);
}

void HoldNode(Scene& scene, size_t slot, const Failure& failure, const Arrival& arrival) {
  Instance& instance = scene.instance;
  const uint32_t tries = TriesOf(std::as_const(instance.tokens)[slot]) + 1;
  Token& token = StayAt(scene, slot, arrival);
  token.state = TokenState::kHeld;
  token.available_at = kNever;
  token.failures = Failures{.tries = tries};
  token.error = failure.error.empty() ? "it failed with " + failure.kind : failure.error;
  token.limits.reset();
  if (instance.Cancelling()) return;
  const Node& node = scene.machine.nodes[token.node];
  instance.error = node.id + ": " + token.error;
  if (instance.waits.Has(Wait::kPause)) return;  // by a call: it stays so
  PauseStuck(scene);
}

}  // namespace

void PauseStuck(Scene& scene) {
  scene.instance.waits.Remove(Wait::kTurn);
  ReleaseLimits(scene.instance);
  KeepFromRunning(scene, Wait::kStuck);
  TellStuck(scene);
}

void TellStuck(Scene& scene) {
  Event& event = Emit(scene, ChangeKind::kPaused);
  event.node = Where(scene);
  event.visit = VisitOf(scene);
  event.note = scene.instance.error;
}

bool MayTryAgain(const Scene& scene, const Token& left, const Failure& failure) {
  const RetryPolicy& policy = PolicyOf(scene, left);
  if (/*mutant fatal-tried-again*/ failure.fatal /*end*/ || scene.instance.Cancelling())
    return false;
  if (left.step && EndsAround(scene, left.home)) return false;
  return /*mutant one-try-more*/ TriesOf(left) + 1 /*end*/ < policy.limit &&
         /*mutant any-error-tried-again*/ TriesAgain(policy, failure.kind, failure.error) /*end*/;
}

void FailWork(Scene& scene, size_t slot, const Failure& failure, const Led& led) {
  const Token& left = std::as_const(scene.instance.tokens)[slot];
  const NodeIndex home = left.home;
  const bool again = MayTryAgain(scene, left, failure);
  const size_t first = scene.events.size();
  const uint32_t tries = left.step->tries + 1;
  const bool polled = left.step->event == "poll" && ActionOf(scene, left).poll;
  const bool planner = scene.machine.nodes[left.node].role == Role::kPlanner;
  if (planner && !again) {
    FailPlanner(scene, slot, failure, led);
  } else if (polled) {
    const bool goes_on = !scene.instance.Cancelling() && !EndsAround(scene, home);
    if (!goes_on || !PollAgain(scene, slot, failure, led)) {
      GiveUp(scene, slot, failure, led);
    }
  } else if (again) {
    const Duration delay = DelayBefore(scene, left, tries, failure);
    Token& token = MoveTo(scene, slot, home, TokenState::kReady, ChangeKind::kTransitioned, led);
    scene.events.back().note = failure.error;
    AwaitTry(scene, delay, &token);
    token.step->tries = tries;
    token.step->event.clear();
    token.step->event_data.clear();
  } else {
    scene.instance.tokens.Mutable(slot).step->tries = tries;
    GiveUp(scene, slot, failure, led);
  }
  scene.events[first].error_kind = failure.kind;
}

NodeFailing FailingOf(const Scene& scene, const Token& left, std::string_view transition,
                      const Failure& failure) {
  const Node& node = scene.machine.nodes[left.node];
  if (transition != kError || node.kind != NodeKind::kWork) return NodeFailing::kMoves;
  if (node.FindTransition(kError)) {
    return MayTryAgain(scene, left, failure) ? NodeFailing::kTriedAgain : NodeFailing::kMoves;
  }
  const bool held = left.state == TokenState::kHeld;
  return failure.kind.empty() || held ? NodeFailing::kMoves : NodeFailing::kHeld;
}

std::vector<std::string> StayFailed(Scene& scene, size_t slot, NodeFailing how,
                                    const Failure& failure, const Arrival& arrival) {
  const Token left = std::as_const(scene.instance.tokens)[slot];
  const Node& node = scene.machine.nodes[left.node];
  if (how == NodeFailing::kHeld) {
    HoldNode(scene, slot, failure, arrival);
    return {node.id};
  }
  const uint32_t tries = TriesOf(left) + 1;
  const Duration delay = DelayBefore(scene, left, tries, failure);
  Token& token = StayAt(scene, slot, arrival);
  token.failures = Failures{.tries = tries};
  AwaitTry(scene, delay, &token);
  return {node.id};
}

void OfferAgain(Scene& scene, size_t slot) {
  Arrival arrival;
  arrival.transition = "retry";
  StayAt(scene, slot, arrival);
  scene.instance.error.clear();
}

namespace {

// As if `error` had been reported of the work at `slot`.
void FailBySelf(Scene& scene, size_t slot, const Failure& failure) {
  const Token left = std::as_const(scene.instance.tokens)[slot];
  const size_t first = scene.events.size();
  if (IsPlanned(scene)) {
    FailWork(scene, slot, failure, {std::string(kError), {}, {}});
    JudgeSteps(scene);
  } else {
    const Node& node = scene.machine.nodes[left.node];
    Arrival arrival;
    arrival.prev_node = node.id;
    arrival.transition = kError;
    scene.instance.error = failure.error;
    const NodeFailing how = FailingOf(scene, left, kError, failure);
    if (how == NodeFailing::kMoves) {
      const Edge& edge = Choose(scene, node, *node.FindTransition(kError), &arrival);
      Follow(scene, slot, edge, std::move(arrival));
    } else {
      StayFailed(scene, slot, how, failure, arrival);
    }
    StopIfCancelled(scene);
  }
  Event& event = scene.events[first];
  event.error_kind = failure.kind;
  event.left_visit = left.visit;
  if (event.note.find(failure.error) == std::string::npos) {
    event.note += (event.note.empty() ? "" : "; ") + failure.error;
  }
  SampleAbandoned(scene, left, {}, event);
}

}  // namespace

void Unclaimed(Scene& scene, uint64_t visit, const std::string& why) {
  const auto slot = scene.instance.tokens.SlotOf(visit);
  if (!slot || scene.instance.Stopped()) return;
  if (std::as_const(scene.instance.tokens)[*slot].state != TokenState::kReady) return;
  FailBySelf(scene, *slot, {.error = why, .kind = "unclaimed"});
}

bool FailIfAbandoned(Scene& scene, uint64_t visit) {
  const auto slot = scene.instance.tokens.SlotOf(visit);
  if (!slot || scene.instance.Stopped()) return false;
  const Token& token = std::as_const(scene.instance.tokens)[*slot];
  const uint32_t most = scene.machine.nodes[token.node].settings->bounds.abandon_after;
  const uint32_t lost = token.handling ? token.handling->abandoned : 0;
  if (most == 0 || lost < most) return false;
  std::vector<std::string> agents;
  for (const Claim& claim : token.claims) {
    const bool gone = claim.operation && claim.operation->abandoned;
    const bool named = std::ranges::find(agents, claim.worker) != agents.end();
    if (gone && !named && agents.size() < kAgentsNamed) agents.push_back(claim.worker);
  }
  std::string why = std::to_string(lost) + (lost == 1 ? " attempt was" : " attempts were") +
                    " lost with the agent" + (agents.size() == 1 ? " " : "s ");
  for (size_t i = 0; i < agents.size(); ++i) why += (i ? ", " : "") + agents[i];
  FailBySelf(scene, *slot, {.error = std::move(why), .kind = "abandoned", .fatal = true});
  return true;
}

}  // namespace rules
}  // namespace dfsmr
