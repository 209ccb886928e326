// Resuming what has stopped: it goes on where it stood. What is done stays done, and the rest
// begins anew, except for what workers may still have in hand.
#include <algorithm>
#include <iterator>

#include "fsm/base/names.h"
#include "fsm/rules/inside.h"

namespace dfsmr::rules {
namespace {

// How to go on.
struct Way {
  NodeIndex named = kNoNode;  // of a plan, a home: what is held there is handed out, too
  bool force = false;         // what workers have in hand is handed out again
};

bool HasEnded(const Claim& claim) { return claim.ended && !claim.given_back; }

// Whether nobody knows how the token's work went, which must not be done twice.
bool IsUnsaid(const Scene& scene, const Token& token) {
  if (token.unsaid) return true;
  return scene.machine.nodes[token.node].AtMostOnce() && !token.HasLiveClaim() && !token.late &&
         std::ranges::any_of(token.claims, HasEnded);
}

// What workers have in hand and have reported of it does not count any more.
void VoidClaims(Scene& scene, Token& token) {
  for (Claim& claim : token.claims) {
    if (!claim.given_back) GiveBack(scene, token, claim, "", "resumed with force");
  }
  token.forgotten_epoch = std::max(token.forgotten_epoch, scene.epoch - 1);
  /*mutant force-keeps-late*/ token.late.reset(); /*end*/
}

// A report that came meanwhile says how long its attempt took.
void AdmitLate(Scene& scene, Token& token) {
  if (!token.late) return;
  auto claim = std::ranges::find(token.claims, token.late->claim, &Claim::id);
  if (claim != token.claims.end()) {
    const Duration since = scene.now - token.late->time;
    claim->claim_time += since;
    if (claim->operation && claim->Begun()) claim->operation->begin_time += since;
  }
  token.late.reset();
}

// What workers have given back meanwhile the history tells now.
void TellGivenBack(Scene& scene, Token& token) {
  for (Claim& claim : token.claims) {
    if (!claim.given_back || !std::exchange(claim.ended, false)) continue;
    GiveBack(scene, token, claim, "", "given back while the instance was stopped");
  }
}

// The token is ready at its node, as if it had just come there.
void Offer(Scene& scene, Token& token) {
  for (Claim& claim : token.claims) {
    if (HasEnded(claim)) GiveBack(scene, token, claim, "", "its worker ended without a report");
  }
  token.state = TokenState::kReady;
  token.available_at = scene.now;
  token.limits.reset();
  token.failures.reset();
  token.error.clear();
  token.unsaid = false;
}

// Machines ---------------------------------------------------------------------------------------

void HoldNodeUnsaid(Scene& scene, Token& token) {
  token.state = TokenState::kHeld;
  token.available_at = kNever;
  token.unsaid = true;
  token.error =
      "its work at " + Quoted(scene.machine.nodes[token.node].id) +
      " runs at most once, and ended without saying how: resume it by that name to hand it "
      "out again, or move it on";
  scene.instance.error = token.error;
}

void GoOnAt(Scene& scene, uint64_t visit, const Way& way) {
  Token& token = *scene.instance.tokens.FindMutable(visit);
  const Node& node = scene.machine.nodes[token.node];
  if (node.kind != NodeKind::kWork) {
    if (token.WaitsForLimits()) token.limits.reset();
    return;  // a delay runs on
  }
  TellGivenBack(scene, token);
  if (way.force) VoidClaims(scene, token);
  const bool late = static_cast<bool>(token.late);
  AdmitLate(scene, token);
  token.failures.reset();  // a new set of tries, also for what is in hand or was reported late
  if (late || (token.state == TokenState::kClaimed && token.HasLiveClaim())) return;
  const bool named = way.force || way.named == token.node;
  if (!named && IsUnsaid(scene, token)) return HoldNodeUnsaid(scene, token);
  Offer(scene, token);
}

void GoOnWithMachine(Scene& scene, const Way& way) {
  Instance& instance = scene.instance;
  for (uint64_t visit : VisitsWith(instance, [](const Token&) { return true; })) {
    GoOnAt(scene, visit, way);
  }
  const bool held = instance.tokens.Count(TokenState::kHeld) > 0;
  if (!held || !instance.waits.Paused()) return;
  instance.waits.Add(Wait::kStuck);
}

// Where the report that came with the cancel has led already.
void EndIfThere(Scene& scene) {
  Instance& instance = scene.instance;
  if (instance.Stopped() || instance.tokens.size() != 1) return;
  const Token token = std::as_const(instance.tokens).front();
  const Node& node = scene.machine.nodes[token.node];
  if (node.kind == NodeKind::kFinal) Stop(scene, ResultOf(node.result), token.node, token.visit);
}

// Plans ------------------------------------------------------------------------------------------

void ForgetTries(StepState& step) { step.tries = step.polls = step.poll_failures = 0; }

// The step begins anew, in a new visit; one whose children are still waited for waits for them.
void BeginAnew(Scene& scene, size_t slot) {
  const Token& token = std::as_const(scene.instance.tokens)[slot];
  const Node& home = scene.machine.nodes[token.home];
  const bool waits = Awaits(token) && home.role != Role::kSpawn;
  if (waits && token.state == TokenState::kWaiting) return;  // it stands there already
  if (token.state == TokenState::kHeld) return Retry(scene, slot, "");
  const NodeIndex node = waits ? home.FindTransition("suspend")->targets.front() : token.home;
  const bool over = token.state == TokenState::kNone;  // a report has ended its visit
  Token& now = MoveTo(scene, slot, node, waits ? TokenState::kWaiting : TokenState::kReady,
                      ChangeKind::kTransitioned, {"resume", {}, {}});
  if (over) scene.events.back().left_visit = 0;
  now.limits.reset();
  ForgetTries(*now.step);
  now.step->event.clear();
  now.step->event_data.clear();
  now.step->progress = 0;
}

// Work that runs at most once, and of which nobody knows how it went.
void HoldUnsaid(Scene& scene, size_t slot) {
  const Token token = std::as_const(scene.instance.tokens)[slot];
  if (token.unsaid) return;
  const std::string why =
      "it runs at most once, and ended without saying how: resume it by name to hand it out again, "
      "or skip it";
  if (scene.machine.nodes[token.node].role == Role::kPlanner) {
    return PlanningFailed(scene, "step " + StepOf(scene, token).path + ": " + why);
  }
  Hold(scene, slot, why, {"error", {}, {}});
  scene.instance.tokens.Mutable(slot).unsaid = true;
  if (scene.machine.conditional) Announce(scene, token.home);
}

void GoOnWithStep(Scene& scene, uint64_t visit, const Way& way) {
  Tokens& tokens = scene.instance.tokens;
  const auto slot = tokens.SlotOf(visit);
  if (!slot || scene.instance.Stopped()) return;
  Token& token = tokens.Mutable(*slot);
  TellGivenBack(scene, token);
  if (way.force) VoidClaims(scene, token);
  const bool late = static_cast<bool>(token.late);
  AdmitLate(scene, token);
  const Settling* settling = tokens.SettlingOf(token.home);
  if (settling && settling->dropped) {  // its plan was stopping
    tokens.Settle(token.home).dropped = false;
    tokens.Settle(token.home).outcome = StepOutcome::kNone;
  }
  ForgetTries(*token.step);
  if (late || (token.state == TokenState::kClaimed && token.HasLiveClaim())) return;
  const bool named = way.force || way.named == token.home;
  if (!named && IsUnsaid(scene, token)) return HoldUnsaid(scene, *slot);
  const Role role = scene.machine.nodes[token.home].role;
  if (role == Role::kSection && token.state != TokenState::kHeld) return;  // its delay runs on
  const bool spawn = role == Role::kSpawn;
  if (spawn && token.state == TokenState::kWaiting) {
    token.step->children->counted = false;  // the cancel had it start no more
    return;
  }
  const bool first_run = token.step->event.empty() && token.node == token.home;
  if (first_run && !Awaits(token) && token.state != TokenState::kHeld &&
      token.state != TokenState::kNone) {
    return Offer(scene, token);
  }
  BeginAnew(scene, *slot);
}

void CountPartial(Scene& scene) {
  PlanState& plan = *scene.instance.plan;
  plan.partial = 0;
  for (const Token& token : std::as_const(scene.instance.tokens)) {
    plan.partial += token.step->progress * WeightOf(scene, scene.machine.nodes[token.home]);
  }
}

void GoOnWithPlan(Scene& scene, const Way& way) {
  using Resuming = PlanState::Resuming;
  Instance& instance = scene.instance;
  PlanState& plan = *instance.plan;
  plan.stopping = false;
  plan.impatient = kNoNode;
  const auto awaits = [](const Token& token) {
    return Awaits(token) && token.step->children->started > 0;
  };
  if (std::ranges::any_of(instance.tokens, awaits)) {
    plan.resuming = way.force ? Resuming::kForces : Resuming::kResumes;
  }
  bool finalized = false;  // retrying one finalize phase retries all
  for (uint64_t visit : VisitsWith(instance, [](const Token&) { return true; })) {
    const Token* token = std::as_const(instance.tokens).Find(visit);
    const bool retries = token && token->state == TokenState::kHeld &&
                         scene.machine.nodes[token->home].role == Role::kFinalize;
    if (retries && std::exchange(finalized, true)) continue;
    GoOnWithStep(scene, visit, way);
  }
  if (instance.Stopped()) return;
  CountPartial(scene);
  std::ranges::move(std::exchange(plan.shut, {}), std::back_inserter(plan.open));
  GoOnWithSections(scene);
  WalkOn(scene);
}

// Both -------------------------------------------------------------------------------------------

NodeIndex HomeNamed(const Scene& scene, const std::string& node) {
  const NodeIndex index = node.empty() ? kNoNode : scene.machine.Find(node);
  if (index == kNoNode || !IsPlanned(scene)) return index;
  return scene.machine.nodes[index].home;
}

// Takes what is left up again.
void GoOnWithLeft(Scene& scene, const Way& way) {
  scene.instance.tokens.TakeUp();
  if (IsPlanned(scene)) return GoOnWithPlan(scene, way);
  if (!scene.instance.plan) GoOnWithMachine(scene, way);
}

void ForgetEnd(Instance& instance) {
  instance.result = InstanceResult::kPending;
  instance.end_time = {};
  instance.error.clear();
  instance.cancel = CancelMode::kNone;
  instance.cancel_time = {};
  instance.cancel_reason.reset();
  instance.with_parent = instance.resumable = false;
  if (instance.plan) instance.plan->ended_at.clear();
}

// It never began, and begins now, whatever it waited for; only limits and its group are asked.
void BeginAfterAll(Scene& scene, std::string note) {
  Instance& instance = scene.instance;
  instance.state = InstanceState::kScheduled;
  instance.waits = {};
  instance.after.clear();
  instance.start_at = {};
  if (instance.start_before <= scene.now) instance.start_before = kNever;
  instance.tokens.TakeUp();
  Emit(scene, ChangeKind::kResumed).note = std::move(note);
  StartDue(scene);
  if (instance.state == InstanceState::kScheduled && scene.entered.empty()) {
    scene.entered.push_back(InstanceState::kScheduled);
  }
}

}  // namespace

Result<Ok> MayContinue(const Scene& scene, const std::string& node) {
  const Instance& instance = scene.instance;
  if (!instance.Stopped() || !instance.resumable) return Stopped(instance);
  if (node.empty()) return Ok{};
  if (scene.machine.Find(node) == kNoNode) {
    return Error{
        Code::kNotFound, Reason::kNoSuchNode,
        Named(instance) + " of " + Quoted(instance.machine) + " has no node " + Quoted(node)};
  }
  const NodeIndex named = HomeNamed(scene, node);
  const bool there = std::ranges::any_of(instance.tokens.left(), [&](const auto& one) {
    return (IsPlanned(scene) ? one.second.home : one.second.node) == named;
  });
  if (there) return Ok{};
  return NotHeld(scene, node, "; without a node it is resumed as a whole");
}

void Continue(Scene& scene, const std::string& node, bool force) {
  Instance& instance = scene.instance;
  Check(instance.Stopped() && instance.resumable, "what has stopped for a while is resumed");
  std::string note = "it had stopped with " + std::string(Name(instance.result));
  ForgetEnd(instance);
  if (!instance.Begun()) return BeginAfterAll(scene, std::move(note));
  instance.state = InstanceState::kPaused;
  instance.waits = {Wait::kPause};
  const size_t told = scene.events.size();
  Emit(scene, ChangeKind::kResumed).note = std::move(note);
  GoOnWithLeft(scene, {.named = HomeNamed(scene, node), .force = force});
  if (instance.Stopped()) return;
  scene.events[told].node = node.empty() ? Where(scene) : node;
  scene.events[told].visit = VisitOf(scene);
  /*mutant done-displaces*/ if (!instance.plan)
    EndIfThere(scene); /*end*/
  if (instance.Stopped()) return;  // it asks for no turn, so nobody gives way to it
  GoOnInTurn(scene, {Wait::kPause});
  if (instance.waits.Has(Wait::kTurn)) {
    scene.events[told].note += "; " + std::string(kWaitsItsTurn);
  }
  if (instance.state == InstanceState::kPaused) scene.entered.push_back(instance.state);
  if (instance.plan) return JudgeSteps(scene);
  if (instance.waits.Has(Wait::kStuck)) TellStuck(scene);
}

void CallOff(Scene& scene, bool force) {
  Instance& instance = scene.instance;
  if (instance.Stopped() || !instance.Cancelling()) return;
  ForgetEnd(instance);
  Emit(scene, ChangeKind::kResumed).note = "its parent goes on";
  GoOnWithLeft(scene, {.force = force});
  if (IsPlanned(scene)) JudgeSteps(scene);
}

void ChildrenResumed(Scene& scene) {
  Instance& instance = scene.instance;
  if (!instance.plan || instance.plan->resuming == PlanState::Resuming::kNone) return;
  instance.plan->resuming = PlanState::Resuming::kNone;
  if (instance.Stopped()) return;
  for (uint64_t visit : VisitsWith(instance, [](const Token& token) { return Awaits(token); })) {
    if (!instance.tokens.FindMutable(visit)) continue;  // so that its next children are started
    JudgeChildren(scene, visit);
  }
  JudgeSteps(scene);
}

void HoldForUnsaid(Scene& scene, uint64_t visit) {
  Instance& instance = scene.instance;
  const size_t slot = *instance.tokens.SlotOf(visit);
  if (IsPlanned(scene)) {
    HoldUnsaid(scene, slot);
    return JudgeSteps(scene);
  }
  HoldNodeUnsaid(scene, instance.tokens.Mutable(slot));
  if (instance.waits.Has(Wait::kPause)) return;
  PauseStuck(scene);
}

void GoOnIfSaid(Scene& scene) {
  Instance& instance = scene.instance;
  if (instance.plan || instance.Stopped() || !instance.waits.Has(Wait::kStuck)) return;
  if (instance.tokens.Count(TokenState::kHeld) > 0) return;
  instance.error.clear();
  GoOnInTurn(scene, {Wait::kStuck});
  Event& event = Emit(scene, ChangeKind::kResumed);
  event.node = Where(scene);
  event.visit = VisitOf(scene);
  if (instance.waits.Has(Wait::kTurn)) event.note = std::string(kWaitsItsTurn);
}

// What is told of what has stopped ---------------------------------------------------------------

namespace {

constexpr std::string_view kStepWords[] = {"ok", "error", "suspend", "planned"};

bool IsPossible(const Scene& scene, const Token& token, const ReportArgs& args) {
  const std::string& transition = args.transition;
  const Node& node = scene.machine.nodes[token.node];
  if (IsPlanned(scene)) {
    return std::ranges::find(kStepWords, transition) != std::ranges::end(kStepWords);
  }
  const Failure failure{args.error, args.error_kind, args.fatal, args.retry_after};
  if (FailingOf(scene, token, transition, failure) != NodeFailing::kMoves) return true;
  return !transition.starts_with(kSystemPrefix) && node.FindTransition(transition);
}

}  // namespace

bool KeepLate(Scene& scene, const ReportArgs& args) {
  Token* token = scene.instance.tokens.LeftOf(args.claim.visit);
  if (!token || /*mutant late-report-replaced*/ static_cast<bool>(token->late) /*end*/ ||
      !args.claim.given()) {
    return false;
  }
  if (!MayStillReport(scene, *token, args.claim.id)) return false;
  if (args.fault || !IsPossible(scene, *token, args)) return false;
  token->late = LateReport{.claim = args.claim.id,
                           .time = scene.now,
                           .transition = args.transition,
                           .params = args.params,
                           .output = args.output,
                           .error = args.error,
                           .client = args.client,
                           .wake_after = args.wake_after,
                           .children = args.children,
                           .concurrency = args.concurrency,
                           .checkpoint = args.checkpoint,
                           .error_kind = args.error_kind,
                           .fatal = args.fatal,
                           .retry_after = args.retry_after,
                           .starts = args.starts};
  const Claim* claim = token->FindClaim(args.claim.id);
  Event& event = Emit(scene, ChangeKind::kLate);
  event.node = NodeName(scene.machine, token->node);
  event.transition = args.transition;
  event.visit = token->visit;
  event.attempt = claim ? claim->attempt : 0;
  event.client = !args.client.empty() ? args.client : claim ? claim->worker : "";
  event.params = args.params;
  event.error_kind = args.error_kind;
  event.note = "refused, and counts if the instance is resumed";
  if (!args.error.empty()) event.note += ": " + args.error;
  return true;
}

ReportArgs ReportOf(const Instance& instance, uint64_t visit, const LateReport& late) {
  ReportArgs args;
  args.transition = late.transition;
  args.params = late.params;
  args.claim = ClaimOf(instance, visit, late.claim);
  args.output = late.output;
  args.error = late.error;
  args.client = late.client;
  args.wake_after = late.wake_after;
  args.children = late.children;
  args.concurrency = late.concurrency;
  args.checkpoint = late.checkpoint;
  args.error_kind = late.error_kind;
  args.fatal = late.fatal;
  args.retry_after = late.retry_after;
  args.starts = late.starts;
  return args;
}

bool EndClaim(Scene& scene, const ClaimRef& claim, bool gave_back) {
  Instance& instance = scene.instance;
  const bool stands = instance.tokens.SlotOf(claim.visit).has_value() && !instance.Stopped();
  Token* token =
      stands ? instance.tokens.FindMutable(claim.visit) : instance.tokens.LeftOf(claim.visit);
  const bool section = stands && !instance.Cancelling();
  if (section && !EndsAround(scene, token->home)) {
    return EndUntold(scene, claim.visit, claim.id);
  }
  if (!token) return false;
  auto ended = std::ranges::find(token->claims, claim.id, &Claim::id);
  if (ended == token->claims.end() || ended->given_back || ended->ended) return false;
  if (token->late && token->late->claim == claim.id) return false;  // it has said how
  ended->ended = true;
  if (gave_back) ended->given_back = true;
  if (!stands || token->HasLiveClaim()) return true;
  if (section) {
    DropStep(scene, claim.visit);
  } else if (IsPlanned(scene)) {
    instance.tokens.Leave(*instance.tokens.SlotOf(claim.visit));
  }
  if (IsPlanned(scene)) JudgeSteps(scene);
  StopIfCancelled(scene);
  return true;
}

std::vector<Leftover> LeftoversOf(const Instance& instance) {
  std::vector<Leftover> leftovers;
  for (const auto& [key, token] : instance.tokens.left()) {
    for (const Claim& claim : token.claims) {
      const bool told =
          claim.given_back || claim.ended || (token.late && token.late->claim == claim.id);
      if (!told) leftovers.push_back({token.visit, token.node, claim});
    }
  }
  return leftovers;
}

}  // namespace dfsmr::rules
