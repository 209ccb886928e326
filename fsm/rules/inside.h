// What the rules of machines (rules.cc) and those of plans' steps (steps*.cc) share. Included by
// these only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fsm/plan/graph.h"
#include "fsm/rules/rules.h"

namespace dfsmr::inside {

Error Refused(Reason reason, std::string message);
std::string Named(const Instance& instance);  // "instance 'x'"
std::string HeldBy(const std::string& key, const std::string& holder);  // of a singleton

Event& Emit(Scene& scene, ChangeKind kind);
void SetState(Scene& scene, InstanceState state);
// Ends the instance on a node; `where` kElsewhere: of a plan, on instance.plan->ended_at.
void Stop(Scene& scene, InstanceResult result, NodeIndex where, uint64_t visit,
          std::string error = "");
void StopCancelled(Scene& scene);
Duration DelayOf(const DelayPolicy& policy, uint32_t entry, double fraction);
double Fraction(uint64_t random, uint64_t salt);  // uniform in [0, 1)
void SampleReport(Scene& scene, const Token& token, const Claim* claim, Event& event);
void GiveBack(Scene& scene, Token& token, Claim& claim, const std::string& client,
              std::string note = "");
void Rerun(Scene& scene, uint64_t visit);

inline bool IsPlanned(const Scene& scene) {
  return scene.instance.plan && scene.machine.graph != nullptr;
}
inline const Step& StepOf(const Scene& scene, const Token& token) {
  return scene.machine.graph->steps[scene.machine.nodes[token.node].step];
}
inline const StepAction& ActionOf(const Scene& scene, const Token& token) {
  return scene.machine.graph->actions[StepOf(scene, token).action];
}

// steps.cc: reports and control of steps.
Result<Answer> ReportStep(Scene& scene, size_t slot, ClaimId claim, const ReportArgs& args);
Result<Ok> ResumeSteps(Scene& scene, const std::string& node, bool force);
Result<Ok> SkipStep(Scene& scene, const std::string& node);
// Where a call from outside means, by the step's path or the exact node; empty: the only token.
Result<size_t> StepSlot(const Scene& scene, const std::string& node);

// steps_moves.cc: how tokens of a plan move.
// What a node's phase counts in the progress.
double WeightOf(const Scene& scene, const Node& home);
struct Led {
  std::string transition;
  std::string params;
  std::string client;
};
// Takes the token at `slot` away, its step's phase ended, and goes on along `edge`. Answers the
// nodes that were entered, the first kNamed of them.
std::vector<std::string> LeadOn(Scene& scene, size_t slot, const Edge& edge, bool skipped,
                                const Led& led);
// Puts the token at `slot` on another node of its family, in a new visit, and emits `kind`.
Token& MoveTo(Scene& scene, size_t slot, NodeIndex node, TokenState state, ChangeKind kind,
              const Led& led);
void EnterPlan(Scene& scene);
void Wake(Scene& scene, size_t slot, const std::string& event, const std::string& data,
          const std::string& client);
void Hold(Scene& scene, size_t slot, const std::string& error, const Led& led);
// The step at `slot` has failed for good: held, skipped by its rescue, or dropped in a cancel.
void GiveUp(Scene& scene, size_t slot, const std::string& error, const Led& led);
void SkipHeld(Scene& scene, size_t slot, const std::string& client);
void Retry(Scene& scene, size_t slot, const std::string& client);
// Another try of the run at `slot`, or its end in S/error. `led.transition` is "error".
void Failed(Scene& scene, size_t slot, const std::string& error, const Led& led);
// Sets when the step that has just suspended at `slot` is woken by itself, and by what.
void Suspended(Scene& scene, size_t slot, std::optional<Duration> wake_after);
// Hands the oldest event that waits to the step suspended at `slot`. False: there is none.
bool TakeEvent(Scene& scene, size_t slot);
// Goes on, or is held, once the children that the token waits for have all ended.
void JudgeChildren(Scene& scene, uint64_t visit);
void EndWaitOfStep(Scene& scene, size_t slot);
void CancelSteps(Scene& scene);
// Nobody works on the token any more: when the instance is being cancelled, nobody will.
void DropIfCancelled(Scene& scene, uint64_t visit);
// After any change: paused, running or stopped by what the tokens are.
void SettleSteps(Scene& scene);

}  // namespace dfsmr::inside
