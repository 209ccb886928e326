// What a new version does to instances of earlier ones.
#include "fsm/rules/inside.h"

namespace dfsmr::rules {

void Upgrade(Scene& scene, const Machine& next, uint32_t next_version) {
  Instance& instance = scene.instance;
  Check(!instance.Stopped(), "a stopped instance stays on its version");
  const std::string from = Where(scene);
  instance.version = next_version;
  /*mutant planted-08*/ instance.entries.clear(); /*end*/
  // If it waited for limits it asks again, since the new version may want others or none. The steps
  // that failed are gone, but it was paused for an operator to look.
  const bool paused = instance.waits.Paused();
  if (instance.waits.Has(Wait::kLimit) || instance.waits.Has(Wait::kTurn)) ReleaseLimits(instance);
  instance.waits.Remove({Wait::kLimit, Wait::kStuck, Wait::kTurn});
  if (paused) instance.waits.Add(Wait::kPause);
  if (instance.Begun()) instance.waits.Remove(Wait::kGroup);  // it goes on, and begins nothing
  Event& event = Emit(scene, ChangeKind::kUpgraded);
  event.prev_node = from;
  event.node = kUpgradedNode;
  event.visit = VisitOf(scene);
  /*mutant upgrade-learns-nothing*/ for (const Token& token : instance.tokens)
    SampleAbandoned(scene, token, {}, event); /*end*/
  if (instance.tokens.size() != 1) instance.tokens.Clear();
  instance.tokens.ForgetLeft();  // its nodes are those of the version that it leaves
  if (!next.IsPlain()) {
    // It is planned anew, whether it was a plan or a machine, and keeps its limits' keys meanwhile.
    PlanState plan;
    if (instance.plan) {
      plan.children = plan.first_child = instance.plan->children;
      if (instance.plan->wait_given) {
        plan.wait_after_fail = instance.plan->wait_after_fail;
        plan.wait_given = true;
      }
    }
    plan.upgraded = instance.Begun();
    instance.plan = std::move(plan);
    instance.tokens.Clear();
    instance.tokens.ForgetRows();  // they are dropped with the graph
    if (/*mutant planted-04*/ instance.Begun() && !paused /*end*/)
      SetState(scene, InstanceState::kPlanning);
    if (instance.Cancelling()) StopCancelled(scene);  // all claims are gone
    return;
  }
  instance.plan.reset();
  ReleaseLimits(instance);
  if (!instance.Begun()) return;  // it will start on the new version
  // It may have been SCHEDULED again, for the limits of the version that it leaves.
  if (!paused) SetState(scene, InstanceState::kRunning);
  Scene on_next{next, instance, scene.now, scene.epoch, scene.random, scene.events, {}, {}};
  on_next.clock = scene.clock;
  on_next.value = scene.value;
  Enter(on_next, 0,
        {.node = next.start,
         .prev_node = std::string(kUpgradedNode),
         .transition = std::string(kUpgradedNode),
         .params = {},
         .client = {}});
  StopIfCancelled(on_next);
}

void Abort(Scene& scene, uint32_t by_version) {
  Instance& instance = scene.instance;
  if (instance.Cancelling()) return StopCancelled(scene);  // all claims are gone
  Event& event = Emit(scene, ChangeKind::kAborted);
  event.prev_node = Where(scene);
  event.node = kAbortedNode;
  event.visit = VisitOf(scene);
  for (const Token& token : instance.tokens) SampleAbandoned(scene, token, {}, event);
  Stop(scene, InstanceResult::kAborted, kAbortedIndex, instance.last_visit,
       "version " + std::to_string(by_version) + " of machine '" + instance.machine +
           "' aborts what earlier versions started");
}

}  // namespace dfsmr::rules
