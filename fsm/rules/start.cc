// When an instance begins: at its start, when it is due, or once what it waits for has come.
#include <algorithm>

#include "fsm/base/names.h"
#include "fsm/rules/inside.h"

namespace dfsmr::rules {
namespace {

// Sets the instance PLANNING, unless its singleton is held; then the engine plans it.
void BeginPlanning(Scene& scene) {
  Instance& instance = scene.instance;
  PlanState& plan = *instance.plan;
  if (!scene.key_holder.empty()) {
    const std::string holder = HeldBy(scene.key, scene.key_holder);
    if (scene.on_conflict == OnConflict::kFail) {
      return Stop(scene, InstanceResult::kError, kNoNode, 0, holder);
    }
    if (std::exchange(plan.waits_for_key, true)) return;
    SetState(scene, InstanceState::kScheduled);
    Emit(scene, ChangeKind::kScheduled).note = holder + "; it waits its turn";
    return;
  }
  plan.waits_for_key = false;
  plan.key = scene.key;
  SetState(scene, InstanceState::kPlanning);
  // It may have begun on an earlier version.
  if (instance.start_time == Timestamp()) instance.start_time = scene.now;
  instance.hold = false;
  Emit(scene, ChangeKind::kStarted).node = "/start";
}

void Begin(Scene& scene) {
  Instance& instance = scene.instance;
  Check(instance.tokens.empty(), "an instance begins once");
  if (instance.plan) return BeginPlanning(scene);
  SetState(scene, InstanceState::kRunning);
  instance.start_time = scene.now;
  instance.hold = false;
  Event& event = Emit(scene, ChangeKind::kStarted);
  event.node = scene.machine.nodes[scene.machine.start].id;
  event.visit = instance.last_visit + 1;
  Enter(
      scene, 0,
      {.node = scene.machine.start, .prev_node = {}, .transition = {}, .params = {}, .client = {}},
      /*announce=*/false);
}

// The time by which it must have begun. kNever for an instance that has begun, and waits for a
// singleton again.
Timestamp LatestStart(const Instance& instance) {
  return instance.start_time != Timestamp() ? kNever : instance.start_before;
}

// Whether planning has begun, though there is no token yet.
bool Begun(const Instance& instance) {
  return instance.start_time != Timestamp() && instance.state != InstanceState::kScheduled;
}

}  // namespace

Timestamp NextStart(const Instance& instance) {
  if (instance.Stopped() || !instance.tokens.empty() || Begun(instance)) return kNever;
  const bool waits = instance.hold || !instance.after.empty() ||
                     (instance.plan && instance.plan->waits_for_key) ||
                     instance.state != InstanceState::kScheduled;
  if (waits) return LatestStart(instance);
  return std::min(instance.start_at, LatestStart(instance));
}

void Start(Scene& scene) {
  Instance& instance = scene.instance;
  instance.state = InstanceState::kScheduled;
  instance.result = InstanceResult::kPending;
  if (/*mutant begins-before-prerequisites*/ !instance.hold && instance.after.empty() &&
      instance.start_at <= scene.now /*end*/) {
    Begin(scene);
    return;
  }
  SetState(scene, InstanceState::kScheduled);
  Event& event = Emit(scene, ChangeKind::kScheduled);
  if (instance.hold) event.note = "held until it is resumed";
}

void PrerequisiteStopped(Scene& scene, const std::string& id, InstanceResult result) {
  Instance& instance = scene.instance;
  auto it = std::ranges::find(instance.after, id, &Instance::Prerequisite::instance);
  if (it == instance.after.end() || instance.Stopped()) return;
  if (/*mutant begins-after-any-result*/ !it->any_result && result != InstanceResult::kSuccess /*end*/) {
    Stop(scene, InstanceResult::kError, kNoNode, 0,
         "it was to start after instance " + Quoted(id) + ", which ended with " +
             std::string(Name(result)) + " instead of SUCCESS");
    return;
  }
  instance.after.erase(it);
  if (instance.after.empty()) StartDue(scene);
}

void KeyFreed(Scene& scene) {
  Instance& instance = scene.instance;
  // It may have been moved to a machine, which waits for no singleton.
  if (!instance.plan || !instance.plan->waits_for_key || !scene.key_holder.empty()) return;
  // When its start_at has not come, it asks again then: a clock may go back over a restart.
  if (instance.state == InstanceState::kScheduled) instance.plan->waits_for_key = false;
  StartDue(scene);
}

void StartDue(Scene& scene) {
  Instance& instance = scene.instance;
  if (instance.Stopped() || !instance.tokens.empty() || Begun(instance)) return;
  const bool waits = instance.plan && instance.plan->waits_for_key && !scene.key_holder.empty();
  const bool due = instance.state == InstanceState::kScheduled && !instance.hold && !waits &&
                   instance.after.empty() && instance.start_at <= scene.now;
  const Timestamp latest = LatestStart(instance);
  if (scene.now > latest || (!due && scene.now >= latest)) {
    Stop(scene, InstanceResult::kError, kNoNode, 0, "it could not start before its start_before");
  } else if (due) {
    Begin(scene);
  }
}

void BeginAgain(Scene& scene) {
  Instance& instance = scene.instance;
  instance.result = InstanceResult::kPending;
  instance.end_time = {};
  instance.error.clear();
  instance.tokens.Clear();
  if (instance.plan) instance.plan = PlanState();
  instance.start_time = {};
  instance.start_at = {};
  SetState(scene, InstanceState::kScheduled);
  Emit(scene, ChangeKind::kScheduled).note = "begins again: the step that started it was retried";
  StartDue(scene);
}

}  // namespace dfsmr::rules
