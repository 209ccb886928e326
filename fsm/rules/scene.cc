// What all rules do to a scene: events, states and ends; and how they refuse.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "fsm/base/duration.h"
#include "fsm/base/names.h"
#include "fsm/rules/inside.h"

namespace dfsmr::rules {

Error Refused(Reason reason, std::string message) {
  return {Code::kFailedPrecondition, std::move(reason), std::move(message)};
}

std::string Named(const Instance& instance) { return "instance " + Quoted(instance.id); }

Error Stale(const Instance& instance, const std::string& why) {
  return Refused(Reason::kStaleClaim, "the claim of " + Named(instance) + " is stale: " + why);
}

Error Stopped(const Instance& instance) {
  return Refused(Reason::kInstanceStopped,
                 Named(instance) + " has stopped with " + std::string(Name(instance.result)) +
                     (instance.resumable ? "; resume it first" : "; nothing moves it any more"));
}

Error BeingCancelled(const Instance& instance) {
  return Refused(Reason::kCancelling,
                 Named(instance) + " is being cancelled; it can be resumed once it has stopped");
}

std::string Where(const Scene& scene) {
  const Tokens& tokens = scene.instance.tokens;
  if (tokens.size() != 1) return "";
  return std::string(NodeName(scene.machine, tokens.front().node));
}

uint64_t VisitOf(const Scene& scene) {
  const Tokens& tokens = scene.instance.tokens;
  return tokens.size() == 1 ? tokens.front().visit : 0;
}

Event& Emit(Scene& scene, ChangeKind kind) {
  Event& event = scene.events.emplace_back();
  event.kind = kind;
  event.time = scene.now;
  event.ns = scene.instance.ns;
  event.machine = scene.instance.machine;
  event.version = scene.instance.version;
  event.instance = scene.instance.id;
  return event;
}

void SetState(Scene& scene, InstanceState state) {
  Check(!scene.instance.Stopped() || state == InstanceState::kScheduled,
        "a stopped instance only begins again");
  scene.instance.state = state;
  scene.entered.push_back(state);
}

namespace {

// What follows from why it does not run, and from how far it has come.
InstanceState StateNow(const Scene& scene) {
  const Instance& instance = scene.instance;
  if (instance.waits.Paused()) return InstanceState::kPaused;
  if (!instance.waits.empty() || !instance.Begun()) return InstanceState::kScheduled;
  const bool planning =
      IsPlanned(scene) ? scene.machine.graph->planning : static_cast<bool>(instance.plan);
  return planning ? InstanceState::kPlanning : InstanceState::kRunning;
}

}  // namespace

void KeepFromRunning(Scene& scene, Wait reason) {
  scene.instance.waits.Add(reason);
  SetState(scene, StateNow(scene));
}

void LetRun(Scene& scene, Waits reasons) {
  scene.instance.waits.Remove(reasons);
  const InstanceState state = StateNow(scene);
  if (state != scene.instance.state) SetState(scene, state);
}

namespace {

// Where a stopped instance is to go on is kept with it.
void LeaveForResume(Instance& instance) {
  instance.resumable = true;
  if (instance.plan) {
    std::ranges::move(instance.plan->open, std::back_inserter(instance.plan->shut));
    instance.plan->open.clear();
  }
  instance.tokens.LeaveAll();
}

}  // namespace

void StopResumable(Scene& scene, InstanceResult result, NodeIndex where, uint64_t visit,
                   std::string error) {
  auto entries = scene.instance.entries;
  /*mutant stopped-forgets-where*/ LeaveForResume(scene.instance); /*end*/
  Stop(scene, result, where, visit, std::move(error));
  scene.instance.entries = std::move(entries);
}

void Stop(Scene& scene, InstanceResult result, NodeIndex where, uint64_t visit, std::string error) {
  Instance& instance = scene.instance;
  SetState(scene, InstanceState::kStopped);
  instance.result = result;
  instance.end_time = scene.now;
  const bool well = EndedWell(result);
  /*mutant success-keeps-error*/ if (well)
    instance.error.clear(); /*end*/  // of a failure on the way
  if (!error.empty()) instance.error = std::move(error);
  if (!instance.resumable) instance.tokens.Clear();
  instance.entries.clear();
  instance.waits.Remove({Wait::kLimit, Wait::kTurn, Wait::kPause, Wait::kStuck, Wait::kGroup});
  /*mutant limit-not-given-back*/ ReleaseLimits(instance); /*end*/
  const bool planned = IsPlanned(scene) && where < scene.machine.nodes.size();
  if (instance.plan) {
    instance.plan->open.clear();
    instance.plan->resuming = PlanState::Resuming::kNone;
    if (planned) instance.plan->ended_at = scene.machine.nodes[where].id;
  }
  if (where != kNoNode) {
    Token token;
    token.node = planned ? kElsewhere : where;
    token.visit = visit;
    token.state = TokenState::kDone;
    instance.tokens.Add(std::move(token));
  }
  Event& event = Emit(scene, ChangeKind::kFinished);
  event.node = NodeName(scene.machine, where);
  event.visit = visit;
  event.note = Name(result);
  if (!instance.error.empty()) event.note += ": " + instance.error;
}

void StopCancelled(Scene& scene) {
  Event& event = Emit(scene, ChangeKind::kCancelled);
  event.prev_node = Where(scene);
  event.node = kCancelledNode;
  event.visit = VisitOf(scene);
  if (scene.instance.cancel_reason) scene.instance.error = *scene.instance.cancel_reason;
  event.note = scene.instance.error;
  StopResumable(scene, InstanceResult::kCancelled, kCancelledIndex, scene.instance.last_visit);
}

void StopIfCancelled(Scene& scene) {
  const Instance& instance = scene.instance;
  if (!instance.Stopped() && !instance.Cancelling() && instance.tokens.ToCheck()) {
    return JudgeSteps(scene);  // a step of a section that ends was given back
  }
  /*mutant cancel-never-ends*/ if (instance.Stopped() || !instance.Cancelling())
    return; /*end*/
  if (IsPlanned(scene) ? instance.tokens.empty() : !instance.HasLiveClaim()) StopCancelled(scene);
}

// SplitMix64's finaliser.
double Fraction(uint64_t random, uint64_t salt) {
  uint64_t z = random + salt * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1.0p-53;
}

Duration DelayOf(const DelayPolicy& policy, uint32_t entry, double fraction) {
  if (policy.initial == Duration::zero()) return {};  // not 0 × infinity
  const double initial = static_cast<double>(policy.initial.count());
  double delay = initial * std::pow(policy.factor, entry - 1);
  delay = std::min(delay, static_cast<double>(policy.max.count()));
  delay *= 1 + policy.jitter * (2 * fraction - 1);
  return Duration(
      static_cast<int64_t>(std::min(delay, static_cast<double>(kDurationMax.count()))));
}

}  // namespace dfsmr::rules
