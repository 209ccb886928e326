// When an instance begins: once it waits for nothing any more.
#include <algorithm>

#include "fsm/base/names.h"
#include "fsm/rules/inside.h"

namespace dfsmr::rules {
namespace {

// Sets the instance PLANNING; then the engine plans it.
void BeginPlanning(Scene& scene) {
  Instance& instance = scene.instance;
  // It may have begun on an earlier version.
  if (!instance.Begun()) instance.start_time = scene.now;
  SetState(scene, InstanceState::kPlanning);
  Emit(scene, ChangeKind::kStarted).node = "/start";
}

void Begin(Scene& scene) {
  Check(scene.instance.waits.empty(), "an instance begins when it waits for nothing");
  if (Admitted(scene)) BeginAdmitted(scene);
}

// The time by which it must have begun. kNever for an instance that has: on an earlier version, if
// it is SCHEDULED again.
Timestamp LatestStart(const Instance& instance) {
  return /*mutant begun-stopped-as-late*/ instance.Begun() /*end*/ ? kNever : instance.start_before;
}

// Whether its group lets it begin is asked again each time.
void AskGroup(Scene& scene) {
  Waits& waits = scene.instance.waits;
  waits.Remove(Wait::kGroup);
  /*mutant group-pause-ignored*/ if (scene.group_closed)
    waits.Add(Wait::kGroup); /*end*/
}

bool IsKeptFromRunning(const Instance& instance) {
  return instance.state == InstanceState::kScheduled || instance.state == InstanceState::kPaused;
}

}  // namespace

void BeginAdmitted(Scene& scene) {
  Instance& instance = scene.instance;
  Check(instance.tokens.empty(), "an instance begins once");
  if (instance.plan) return BeginPlanning(scene);
  instance.start_time = scene.now;
  SetState(scene, InstanceState::kRunning);
  Event& event = Emit(scene, ChangeKind::kStarted);
  event.node = scene.machine.nodes[scene.machine.start].id;
  event.visit = instance.last_visit + 1;
  Enter(
      scene, 0,
      {.node = scene.machine.start, .prev_node = {}, .transition = {}, .params = {}, .client = {}},
      /*announce=*/false);
}

Timestamp NextStart(const Instance& instance) {
  if (!IsKeptFromRunning(instance)) return kNever;
  // It waits for nothing when a new version has just taken away the limits that it waited for.
  const bool by_time = instance.waits.Has(Wait::kStartAt) || instance.waits.empty();
  return std::min(by_time ? instance.start_at : kNever, LatestStart(instance));
}

void Start(Scene& scene) {
  Instance& instance = scene.instance;
  instance.state = InstanceState::kScheduled;
  instance.result = InstanceResult::kPending;
  if (instance.start_at > scene.now) instance.waits.Add(Wait::kStartAt);
  /*mutant begins-before-prerequisites*/ if (!instance.after.empty())
    instance.waits.Add(Wait::kAfter); /*end*/
  AskGroup(scene);
  if (instance.waits.empty()) return Begin(scene);
  SetState(scene, InstanceState::kScheduled);
  Event& event = Emit(scene, ChangeKind::kScheduled);
  if (instance.waits.Has(Wait::kHold)) {
    event.note = "held until it is resumed";
  } else if (instance.waits.Has(Wait::kGroup)) {
    event.note = "group " + Quoted(instance.provenance->group) +
                 " is paused; it waits until that is resumed";
  }
}

void PrerequisiteStopped(Scene& scene, const std::string& id, InstanceResult result) {
  Instance& instance = scene.instance;
  auto it = std::ranges::find(instance.after, id, &Instance::Prerequisite::instance);
  if (it == instance.after.end() || instance.Stopped()) return;
  if (!it->any_result && /*mutant planted-05*/ result != InstanceResult::kSuccess /*end*/) {
    Stop(scene, InstanceResult::kError, kNoNode, 0,
         "it was to start after instance " + Quoted(id) + ", which ended with " +
             std::string(Name(result)) + " instead of SUCCESS");
    return;
  }
  instance.after.erase(it);
  if (!instance.after.empty()) return;
  instance.waits.Remove(Wait::kAfter);
  StartDue(scene);
}

void StartDue(Scene& scene) {
  Instance& instance = scene.instance;
  if (!IsKeptFromRunning(instance)) return;
  Waits& waits = instance.waits;
  if (instance.start_at <= scene.now) waits.Remove(Wait::kStartAt);
  AskGroup(scene);
  const Timestamp latest = LatestStart(instance);
  if (scene.now > latest || (!waits.empty() && scene.now == latest)) {
    Stop(scene, InstanceResult::kError, kNoNode, 0, "it could not start before its start_before");
  } else if (waits.empty()) {
    Begin(scene);
  }
}

void BeginAgain(Scene& scene) {
  Instance& instance = scene.instance;
  instance.result = InstanceResult::kPending;
  instance.end_time = {};
  instance.error.clear();
  instance.tokens.Clear();
  ReleaseLimits(instance);
  instance.waits.Remove({Wait::kLimit, Wait::kTurn});
  if (instance.plan) {
    PlanState plan;
    if (instance.plan->wait_given) plan.wait_after_fail = instance.plan->wait_after_fail;
    plan.wait_given = instance.plan->wait_given;
    instance.plan = std::move(plan);
  }
  instance.start_time = {};
  instance.start_at = {};
  instance.waits.Remove(Wait::kStartAt);
  SetState(scene, InstanceState::kScheduled);
  Emit(scene, ChangeKind::kScheduled).note = "begins again: the step that started it was retried";
  StartDue(scene);
}

}  // namespace dfsmr::rules
