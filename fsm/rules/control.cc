// Pause, resume, skip and cancel.
#include <algorithm>

#include "fsm/base/names.h"
#include "fsm/rules/inside.h"

namespace dfsmr::rules {

Result<Ok> Pause(Scene& scene) {
  Instance& instance = scene.instance;
  if (instance.Stopped()) return Stopped(instance);
  if (instance.state == InstanceState::kPaused) return Ok{};
  // A plan that is being cancelled is not paused: its remaining steps have to be told.
  if (instance.plan && instance.cancel_requested) return Ok{};
  if (instance.plan) {
    instance.plan->pause_requested = true;
    instance.plan->key.clear();
  }
  SetState(scene, InstanceState::kPaused);
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

}  // namespace

Result<Ok> Resume(Scene& scene, const std::string& node, bool force) {
  Instance& instance = scene.instance;
  if (instance.Stopped()) return Stopped(instance);
  if (IsPlanned(scene)) return ResumeSteps(scene, node, force);
  auto chosen = Chosen(scene, node);
  if (!chosen) return chosen.error();
  std::erase_if(*chosen, [&](uint64_t visit) {
    return !force || std::as_const(instance.tokens).Find(visit)->state != TokenState::kClaimed;
  });
  if (!node.empty() && chosen->empty()) {
    return Refused(Reason::kNotHeld, "nothing of " + Named(instance) + " is held at " +
                                         Quoted(node) +
                                         (force ? "" : "; 'force' runs claimed work again"));
  }
  const bool held = instance.hold;
  const bool paused = instance.state == InstanceState::kPaused && node.empty();
  if (!held && !paused && chosen->empty()) return Ok{};
  if (paused) {
    if (instance.plan) instance.plan->pause_requested = false;
    SetState(scene, !instance.tokens.empty() ? InstanceState::kRunning
                    : instance.start_time != Timestamp() && !instance.plan->waits_for_key
                        ? InstanceState::kPlanning
                        : InstanceState::kScheduled);
  }
  /*mutant resume-forgets-cancel*/ instance.hold = false; /*end*/
  Event& event = Emit(scene, ChangeKind::kResumed);
  event.node = node.empty() ? Where(scene) : node;
  event.visit = VisitOf(scene);
  for (uint64_t visit : *chosen) Rerun(scene, visit);
  if (instance.state == InstanceState::kScheduled) StartDue(scene);
  StopIfCancelled(scene);
  return Ok{};
}

Result<Ok> Skip(Scene& scene, const std::string& node) {
  Instance& instance = scene.instance;
  if (instance.Stopped()) return Stopped(instance);
  if (IsPlanned(scene)) return SkipStep(scene, node);
  auto chosen = Chosen(scene, node);
  if (!chosen) return chosen.error();
  return Refused(Reason::kNotHeld, "nothing of " + Named(instance) + " is held" +
                                       (node.empty() ? "" : " at " + Quoted(node)) +
                                       "; only a held step of a plan can be skipped");
}

Result<Ok> Cancel(Scene& scene, CancelMode mode) {
  Instance& instance = scene.instance;
  if (instance.Stopped()) {
    if (instance.result == InstanceResult::kCancelled) return Ok{};
    return Stopped(instance);
  }
  instance.cancel_requested = true;
  if (mode == CancelMode::kKill) instance.killed = true;
  if (mode == CancelMode::kForce || mode == CancelMode::kKill) {
    instance.forced = true;
    StopCancelled(scene);
    return Ok{};
  }
  if (IsPlanned(scene)) {
    CancelSteps(scene);
    // The remaining steps have to be told, also when somebody had paused the plan.
    if (!instance.tokens.empty() && instance.state == InstanceState::kPaused) {
      instance.plan->pause_requested = false;
      SetState(scene,
               scene.machine.graph->planning ? InstanceState::kPlanning : InstanceState::kRunning);
      Emit(scene, ChangeKind::kResumed).note = "to be cancelled";
    }
  }
  StopIfCancelled(scene);
  return Ok{};
}

}  // namespace dfsmr::rules
