// What the rules share among each other; only fsm/rules includes it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fsm/plan/graph.h"
#include "fsm/rules/rules.h"

namespace dfsmr::rules {

// report.cc --------------------------------------------------------------------------------------

// Keeps the answer to a claim's report for its repetition.
void KeepAnswer(const Answer& answer, Instance* instance, Event* event);

// scene.cc ---------------------------------------------------------------------------------------

Error Refused(Reason reason, std::string message);
Error Stale(const Instance& instance, const std::string& why);
Error Stopped(const Instance& instance);
Error BeingCancelled(const Instance& instance);
std::string Named(const Instance& instance);  // "instance 'x'"
// The node and the visit of an instance with one token; "" and 0 for any other.
std::string Where(const Scene& scene);
uint64_t VisitOf(const Scene& scene);

Event& Emit(Scene& scene, ChangeKind kind);
void SetState(Scene& scene, InstanceState state);
// Gives the instance a reason not to run: it is PAUSED or SCHEDULED from now on.
void KeepFromRunning(Scene& scene, Wait reason);
// Takes reasons not to run away. When no reason is left, an instance that had begun goes on;
// StartDue begins any other.
void LetRun(Scene& scene, Waits reasons);
// Ends the instance on a node; kElsewhere: of a plan, on instance.plan->ended_at. It keeps one DONE
// token there, none when `where` is kNoNode.
void Stop(Scene& scene, InstanceResult result, NodeIndex where, uint64_t visit,
          std::string error = "");
// The same, and keeps where it stood, so that a resume can continue it.
void StopResumable(Scene& scene, InstanceResult result, NodeIndex where, uint64_t visit,
                   std::string error = "");
void StopCancelled(Scene& scene);
// A cancel waits for claimed work: the end of the last claim ends the instance.
void StopIfCancelled(Scene& scene);
Duration DelayOf(const DelayPolicy& policy, uint32_t entry, double fraction);
double Fraction(uint64_t random, uint64_t salt);  // uniform in [0, 1)

inline bool IsPlanned(const Scene& scene) {
  return scene.instance.plan && scene.machine.graph != nullptr;
}
inline const Step& StepOf(const Scene& scene, const Token& token) {
  return scene.machine.graph->steps[scene.machine.nodes[token.node].step];
}
inline const StepAction& ActionOf(const Scene& scene, const Token& token) {
  return scene.machine.graph->actions[StepOf(scene, token).action];
}
// Whether the token waits for children.
inline bool Awaits(const Token& token) {
  return token.step && token.step->children && token.step->children->Awaited();
}
template <typename Predicate>
std::vector<uint64_t> VisitsWith(const Instance& instance, Predicate wanted) {
  std::vector<uint64_t> visits;
  for (const Token& token : instance.tokens) {
    if (wanted(token)) visits.push_back(token.visit);
  }
  return visits;
}

// What leads a token on, for the event.
struct Led {
  std::string transition;
  std::string params;
  std::string client;
};

// enter.cc ---------------------------------------------------------------------------------------

struct Arrival {
  NodeIndex node = kNoNode;
  std::string prev_node;
  std::string transition;
  std::string params;
  std::string client;
  std::string note = {};  // which choice led there
};
// The edge to take of those that have the same transition as `first`: the first whose `if` holds.
// Sets `arrival->note` when there was a choice. `given`: the params that came with it.
const Edge& Choose(Scene& scene, const Node& node, const Edge& first, Arrival* arrival);
InstanceResult ResultOf(Outcome outcome);
// Puts the token at `slot` on a node, past nodes that have no visits left, and emits TRANSITIONED
// for each of them. `announce` false: not for the first, which STARTED has named. False when the
// instance stopped on the way.
bool Enter(Scene& scene, size_t slot, Arrival arrival, bool announce = true);
// Ends the visit of the token at `slot` along `edge`. Answers the nodes that were entered.
std::vector<std::string> Follow(Scene& scene, size_t slot, const Edge& edge, Arrival arrival);

// claim.cc ---------------------------------------------------------------------------------------

// The token that a worker's claim is about, once the claim is known to be of this instance.
Result<size_t> ClaimedSlot(Scene& scene, const ClaimRef& claim);
// Whether a claim of the token is not void: it is listed, or was lost in a crash.
bool MayStillReport(const Scene& scene, const Token& token, ClaimId id);
// What the node's latency learns from a report, by `claim` (null: without one), and from the other
// live claims of the visit.
void SampleReport(Scene& scene, const Token& token, const Claim* claim, Event& event);
// Live claims other than `winner` lost their visit: each lasted at least this long. When that
// happens does not depend on how long the claim would have taken, so counting it is fair.
void SampleAbandoned(Scene& scene, const Token& token, ClaimId winner, Event& event);
void GiveBack(Scene& scene, Token& token, Claim& claim, const std::string& client,
              std::string note = "");
// An empty one leaves what there is.
void KeepCheckpoint(Token& token, const std::string& checkpoint);
// The work of a claim has ended, and nobody says how: it is ready again; what runs at most once is
// held. False: the claim is void.
bool EndUntold(Scene& scene, uint64_t visit, ClaimId id);
// Claims of a visit that have not begun go back.
void TakeBackUnbegunOf(Scene& scene, uint64_t visit);
// Runs a claimed visit again: its claims are void, whatever became of their workers.
void Rerun(Scene& scene, uint64_t visit);

// resume.cc --------------------------------------------------------------------------------------

// Work that runs at most once has ended without saying how: held until somebody decides.
void HoldForUnsaid(Scene& scene, uint64_t visit);
// A machine that was paused because of work that runs at most once, and of which nobody knows how
// it went, goes on when that has been dealt with.
void GoOnIfSaid(Scene& scene);

// retry.cc ---------------------------------------------------------------------------------------

// Why work has failed.
struct Failure {
  std::string error;
  std::string kind;  // a name; may be empty
  bool fatal = false;
  std::optional<Duration> retry_after = {};
};
// Somebody has to decide: instance.error says about what.
void PauseStuck(Scene& scene);
void TellStuck(Scene& scene);
// Whether another try of the work at this token follows.
bool MayTryAgain(const Scene& scene, const Token& left, const Failure& failure);
// The next try of the phase at `slot`, its next poll, or its end. `led.transition` is "error".
void FailWork(Scene& scene, size_t slot, const Failure& failure, const Led& led);

// What a report makes of a node of a machine.
enum class NodeFailing : uint8_t {
  kMoves,       // along its transition, if it has that
  kTriedAgain,  // it stays there, for another try
  kHeld,        // it has no `error` to take: it is held, and its instance paused
};
NodeFailing FailingOf(const Scene& scene, const Token& left, std::string_view transition,
                      const Failure& failure);
// Does it, unless it moves. Answers the node.
std::vector<std::string> StayFailed(Scene& scene, size_t slot, NodeFailing how,
                                    const Failure& failure, const Arrival& arrival);
// Makes a held node of a machine ready, with a new set of tries.
void OfferAgain(Scene& scene, size_t slot);

// step_report.cc, step_control.cc ----------------------------------------------------------------

Result<Answer> ReportStep(Scene& scene, size_t slot, ClaimId claim, const ReportArgs& args);
Result<Ok> ResumeSteps(Scene& scene, const std::string& node, bool force);
Error NotHeld(const Scene& scene, const std::string& node, const std::string& hint);
Result<Ok> SkipStep(Scene& scene, const std::string& node);
// The token that a call from outside names, by its step's path or its exact node; the only one when
// `node` is empty.
Result<size_t> StepSlot(const Scene& scene, const std::string& node);
// Whether a plan that is stuck may go on: it gave its limits' keys back when it paused.
Result<Ok> MayGoOn(const Scene& scene);
void CancelSteps(Scene& scene);
// Tells a step that has begun to end. False: it has not, and may be dropped.
bool TellToEnd(Scene& scene, size_t slot);
// Removes a token that nobody works on any more when the instance is being cancelled.
void DropIfCancelled(Scene& scene, uint64_t visit);
// To be called after any change to the tokens: pauses, resumes or stops the instance as they say.
void JudgeSteps(Scene& scene);

// limits.cc --------------------------------------------------------------------------------------

// Asks for the limits of an instance that is about to begin. False: it waits as SCHEDULED, or has
// stopped.
bool Admitted(Scene& scene);
// Begins an instance that the limits have let in. start.cc
void BeginAdmitted(Scene& scene);
// Takes reasons of a paused instance away, and lets it go on if there is room; else it stays PAUSED
// until its turn.
void GoOnInTurn(Scene& scene, Waits reasons);
// The instance gives the keys of its limits back.
void ReleaseLimits(Instance& instance);
// What the tokens of a paused instance gave up they do not take again.
void ForgetTokenLimits(Instance& instance);
// Tokens whose turn had come have to ask anew: the instance does not run any more.
void ForgetCalls(Scene& scene);
inline constexpr std::string_view kWaitsItsTurn = "limits have no room for it; it waits its turn";

// children.cc ------------------------------------------------------------------------------------

// Goes on, or is held, once all children that the token waits for have ended.
void JudgeChildren(Scene& scene, uint64_t visit);
// What a step's token knows of its children, for the next try of its section.
void KeepChildren(Scene& scene, const Token& token);
uint64_t FirstChildOf(const Scene& scene, NodeIndex home);

// settle.cc --------------------------------------------------------------------------------------

// Whether the `if` of a step holds now.
bool Decide(Scene& scene, uint32_t step);
// Tells the conditions behind a phase that it has settled, though nothing leads on from it yet.
// Those that are to be decided because of that are on the plan's open way: see WalkOn.
void Announce(Scene& scene, NodeIndex home);
// Takes that back: what had settled is tried again. What has been decided stays so.
void Withdraw(Scene& scene, NodeIndex home);
// An entry of the plan's open way that stands for the decision of this node's `if`.
inline OpenEdge ToDecide(NodeIndex node) {
  return {
      .from = node, .owner = node, .edge = kDecision, .next = 0, .transition = {}, .client = {}};
}
// Nothing moves any more, and the plan is to stop: what is blocked counts as skipped from now on.
// False: all of it did already.
bool CountBlocked(Scene& scene);
// The step at `slot` has just failed: the others may go on for the plan's wait_after_fail.
void AwaitOthers(Scene& scene, size_t slot);
// The time is over: the plan is to pause, or to stop, whatever could go on.
void RunOut(Scene& scene, size_t slot);
// Whether the plan is to be paused though others could go on.
bool OutOfPatience(Scene& scene);

// phases.cc --------------------------------------------------------------------------------------

// What a node's phase counts in the progress.
double WeightOf(const Scene& scene, const Node& home);
// Ends a phase of a step: it counts in full. When it is skipped, the steps that need its output are
// skipped, too.
void EndPhase(Scene& scene, const Node& home, NodeIndex index, Ended ended);
// Leaves out a phase that has not begun, because of what happened in this section. It counts as
// done.
void LeaveOut(Scene& scene, NodeIndex home, uint32_t section);
// A step was skipped, because of what happened in this section: so are its finalize phase and all
// that need its output, in their turn. Those outside of the section are skipped when it is over.
// Those in `over` have been.
void SkipReaders(Scene& scene, uint32_t of, uint32_t section, uint32_t over = kNoSection);
// A step was skipped, but not by its `if`.
void NoteSkipped(Scene& scene, const Node& home);

// sections.cc ------------------------------------------------------------------------------------

// How the section stands; a default one when nothing has happened to it.
const SectionState& StateOf(const Scene& scene, uint32_t section);
SectionState& ChangeState(Scene& scene, uint32_t section);
// Whether a section that the place is in ends, so that nothing in it is tried again or leads on.
bool EndsAround(const Scene& scene, NodeIndex home);
// Whether a section that the place is in keeps it from being reached: it ends, or is held, or
// begins anew.
bool KeptShut(const Scene& scene, NodeIndex node);
// Notes that an arrow from outside leads into a section.
void NoteCrossing(Scene& scene, NodeIndex from, NodeIndex to);
// The step held at `slot` has failed for good. True: a section that it is in takes it up, and
// begins anew or is compensated; what is to be done is on the plan's open way.
bool SectionTakes(Scene& scene, size_t slot, const Failure& failure);
// Takes a step away that is not done, since its section ends.
void DropStep(Scene& scene, uint64_t visit);
// A step's phase has ended; its section may have, too.
void CheckSectionsOf(Scene& scene, NodeIndex home);
// Sections whose last step has ended are compensated, those that were are begun anew or held.
void JudgeSections(Scene& scene);
// The plan was stopped, and goes on: sections that were ending end what has begun anew.
void GoOnWithSections(Scene& scene);
// kSweep and kReset on the plan's open way. True: it is done.
bool SweepSome(Scene& scene, OpenEdge& edge);
bool ResetSome(Scene& scene, OpenEdge& edge);
// Whether a section may begin, after it was reset: what is before it has led on.
bool MayBegin(const Scene& scene, NodeIndex entry);
// The walk has passed the gate behind a section, or behind a compensation.
void PassedSection(Scene& scene, const Node& exit);
// The time between two tries is over.
void BeginSection(Scene& scene, size_t slot);
// Tries the held section at `slot` again, or skips it.
void LeaveHeldSection(Scene& scene, size_t slot, SectionState::Then then,
                      const std::string& client);
// The section that a call names by `node` while no token stands in front of it.
std::optional<uint32_t> SectionNamed(const Scene& scene, const std::string& node);
Result<Answer> ReportSection(Scene& scene, uint32_t section, const ReportArgs& args);

// moves.cc ---------------------------------------------------------------------------------------

// Goes on along the plan's open way, at most scene.portion nodes far.
void WalkOn(Scene& scene);
// Opens a gate that has been open before. Its event says that it was left for itself.
void OpenAgain(Scene& scene, NodeIndex gate, NodeIndex from, const std::string& transition,
               const std::string& client);
// Removes the token at `slot`, whose phase has ended, and goes on along `edge`. Answers the nodes
// that were entered, the first hundred of them.
std::vector<std::string> LeadOn(Scene& scene, size_t slot, const Edge& edge, bool skipped,
                                const Led& led);
// Puts the token at `slot` on another node of its step, in a new visit, and emits `kind`.
Token& MoveTo(Scene& scene, size_t slot, NodeIndex node, TokenState state, ChangeKind kind,
              const Led& led);
void EnterPlan(Scene& scene);
void Wake(Scene& scene, size_t slot, std::string event, std::string data,
          const std::string& client);
void Hold(Scene& scene, size_t slot, const std::string& error, const Led& led);
// The step at `slot` has failed for good: held, skipped by its rescue, or removed in a cancel.
void GiveUp(Scene& scene, size_t slot, const Failure& failure, const Led& led);
// Leaves the failed step at `slot` out, and goes on without it. To conditions it has failed when
// its own rescue skips it, and was skipped when a caller does.
void SkipHeld(Scene& scene, size_t slot, const std::string& client,
              StepOutcome outcome = StepOutcome::kSkipped);
void Retry(Scene& scene, size_t slot, const std::string& client);
// Decides when the step that has just suspended at `slot` is woken by itself, and by which event.
void Suspended(Scene& scene, size_t slot, std::optional<Duration> wake_after);
// Hands the oldest event that waits to the step suspended at `slot`. False: no event waits.
bool TakeEvent(Scene& scene, size_t slot);
// What a waiting step's token waits for by the clock has come: its wake-up, or its next try.
void EndWaitOfStep(Scene& scene, size_t slot);

}  // namespace dfsmr::rules
