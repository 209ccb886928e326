// The rules: what a command does to an instance. They are pure: a rule knows only what it is given,
// and all that it does is change the instance and add events. A rule that refuses has changed
// nothing. They are declared here by the file that defines them.
#pragma once

#include <concepts>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/base/result.h"
#include "fsm/base/template.h"
#include "fsm/machine/machine.h"
#include "fsm/plan/source.h"
#include "fsm/rules/instance.h"

namespace dfsmr {

// What the limits say to an instance that is about to begin, or to go on.
struct LimitAnswer {
  enum class Kind : uint8_t { kRoom, kWaits, kLeftOut, kFails };  // the worse the later
  Kind kind = Kind::kRoom;
  std::vector<LimitKey> keys;  // that it asks for; kRoom: it holds them from now on
  uint64_t order = 0;          // of the instance's start
  std::string key;             // unless kRoom: the first that there is no room under
  std::string why;             // unless kRoom: that key, its number, and who holds it
  bool singleton = false;      // unless kRoom: the key was written as `singleton`
  bool crowded = false;        // kLeftOut: since as many wait already as may
  bool displaces = false;      // kWaits: more are to be cancelled in its favour than can be at once
};

// Knows the limits, and the other instances that hold them.
class LimitGate {
 public:
  // Others are cancelled in favour of the instance, if that is what it asks for.
  virtual LimitAnswer Ask(const Instance& instance) = 0;
  // The same answer, and nothing comes of it.
  virtual LimitAnswer WouldAnswer(const Instance& instance) = 0;

 protected:
  ~LimitGate() = default;
};

// What a report has just given out, before it is kept: conditions see it already.
struct FreshOutput {
  std::string_view node;  // of a plan: the step
  std::string_view json;
};

// What a rule is given, and where it puts what it does.
struct Scene {
  const Machine& machine;  // the version that the instance is pinned to
  Instance& instance;
  Timestamp now;
  uint64_t epoch = 0;   // of the partition's owner
  uint64_t random = 0;  // for jitter
  std::vector<Event>& events;
  // Asked before the instance begins or goes on; null: there are no limits.
  LimitGate* gate = nullptr;
  std::vector<InstanceState> entered;  // the states that it went through, in order
  // The last claim that was made before the instance was started. Earlier claims belong to another
  // instance, which had the same id.
  ClaimId born_after = {};
  // How many nodes of a plan are reached in one change, at most; ReachMore reaches the next ones.
  size_t portion = SIZE_MAX;
  // What a reference of a condition leads to, among the params and the outputs that are kept, as
  // JSON; nullopt: to nothing. Absent when the machine has no conditions.
  std::function<std::optional<std::string>(const Reference&, const FreshOutput&)> value = {};
  FreshOutput fresh = {};
  // The group that it is a member of lets no member begin.
  bool group_closed = false;
  // Why the caller of an operator's call says that he makes it.
  std::string_view reason = {};
  // What the clock shows, when that is not `now`: a virtual clock stands, while each change has a
  // time of its own.
  std::optional<Timestamp> clock = {};

  // The time that waits count from.
  Timestamp Clock() const { return clock.value_or(now); }
};

// A claim as a request names it, read from its text once. By these numbers a late claim is refused.
struct ClaimRef {
  ClaimRef() = default;  // the request names no claim: it comes from outside
  // As Read. A text converts, since it says the same.
  template <std::convertible_to<std::string_view> Text>
  ClaimRef(const Text& text) : ClaimRef(Read(text)) {}  // NOLINT(google-explicit-constructor)
  // Of empty text: no claim. Text that no worker was given makes a claim that the rules refuse.
  static ClaimRef Read(std::string_view text);

  bool given() const { return read || !unreadable.empty(); }

  uint64_t visit = 0;
  ClaimId id;
  uint64_t tag = 0;        // of the instance's name
  bool read = false;       // the numbers above are what the text says
  std::string unreadable;  // the begin of a text that says none
};

struct ClaimArgs {
  ClaimId id;
  std::string worker;
  Timestamp deadline = kNever;  // with `operation` in two stages: until when it must have begun
  uint64_t session = 0;
  std::vector<LimitKey> limits = {};  // keys that the token holds from now on
  Boxed<Operation> operation = {};
};

// How a worker gives a claim back.
struct GiveBackArgs {
  std::string client;    // empty: the worker of the claim
  std::string reason;    // for the history
  bool refused = false;  // the worker cannot begin it: it was no attempt
};

// What an Extend says besides the deadline.
struct ExtendArgs {
  double progress = 0;         // 0: as it was
  bool begin = false;          // of a claim in two stages: it begins
  Timestamp begin_by;          // without `begin`, of a claim that has not begun: the new one
  std::string checkpoint;      // JSON object; empty: as it was
  std::string note;            // empty: as it was
  uint64_t session = 0;        // the stream that it came on; 0: none
  bool takes_up = false;       // the claim is that stream's from now on
  Boxed<Operation> operation;  // of a claim that a crash has lost: what its worker's session says
};

struct ReportArgs {
  std::string transition;
  std::string params;
  ClaimRef claim;
  std::string node;
  std::string output;
  std::string error;
  std::string client;
  std::string checkpoint = {};  // JSON object; empty: as it was
  // Of a report of `error`.
  std::string error_kind = {};
  bool fatal = false;                        // no more tries
  std::optional<Duration> retry_after = {};  // in place of the policy's delay
  // Of a report that suspends.
  std::optional<Duration> wake_after;
  size_t children = 0;  // instances to start and wait for
  uint32_t concurrency = 0;
  // What is wrong with the rest of the report. It is not looked at when the claim and its
  // transition repeat an earlier report, which is answered as before.
  std::optional<Error> fault = {};
  // What is started with the report if it is accepted. The rules only put it into the answer.
  Boxed<std::vector<Begun>> started = {};
  // The same of a report that comes too late and is kept, as the rows have it.
  std::string starts = {};
  // Of a report that the server makes in a dry run: without an output none is checked.
  bool made_up = false;
};

struct Extension {
  Timestamp deadline = kNever;
  bool cancel_requested = false;
};

// What a child is to its parent's step.
enum class ChildClass : uint8_t { kNone, kRunning, kPaused, kSuccess, kFailed, kCancelled };

namespace rules {

// start.cc ---------------------------------------------------------------------------------------

// Begins a new instance, or leaves it SCHEDULED while it is held, or waits for start_at or for the
// instances of `after`. What the call asked for is in the instance, with Wait::kHold if it is held.
void Start(Scene& scene);
// Looks again at what the instance waits for: its start_at may have come. Begins it when it waits
// for nothing any more, and stops it after its start_before.
void StartDue(Scene& scene);
// When StartDue has something to do next; kNever when only a call or another instance can change
// it.
Timestamp NextStart(const Instance& instance);
// An instance of `instance.after` has stopped. It is no longer waited for; or this instance stops
// with ERROR, because the other did not end as it had to.
void PrerequisiteStopped(Scene& scene, const std::string& id, InstanceResult result);
// Begins a stopped instance that never ran, because the step that started it is tried again.
void BeginAgain(Scene& scene);

// claim.cc ---------------------------------------------------------------------------------------

ClaimRef ClaimOf(const Instance& instance, uint64_t visit, ClaimId id);
// A claim as workers see it: opaque text.
std::string ClaimText(const Instance& instance, uint64_t visit, ClaimId id);
std::string ClaimText(std::string_view ns, std::string_view instance, uint64_t visit, ClaimId id);
// kFailedPrecondition STALE_CLAIM when it is not a claim of this instance, or not given.
Result<Ok> CheckClaim(const Instance& instance, const ClaimRef& claim);
// Hands out a token. REQUIRES: the token is READY.
const Claim& TakeClaim(Scene& scene, Token& token, ClaimArgs args);
// Gives a claim back, or all claims of the instance when none is given. Answers the node.
Result<std::string> Relinquish(Scene& scene, const ClaimRef& claim, const GiveBackArgs& args);
// Takes back a claim that its worker never saw, as if it had not been made: its attempt number is
// free again. `told`: the feed has announced the claim, so it announces its end, too.
void Unclaim(Scene& scene, uint64_t visit, ClaimId id, bool told = false);
// Whether a plain cancel tells whoever works on the token to stop. What was handed out because of
// the cancel runs to its end.
bool IsToldToStop(const Instance& instance, const Token& token);
// Begins a claim, or moves the deadline of one that has begun to `deadline`, never to an earlier
// time. The claim may be live or have timed out.
Result<Extension> Extend(Scene& scene, const ClaimRef& claim, Timestamp deadline,
                         const ExtendArgs& args);
// The deadline of a claim has passed. Does nothing when the claim is not live or was extended. One
// that has not begun is void, as if it had not been made.
void TimeOut(Scene& scene, uint64_t visit, ClaimId id);
// The session that has the claim is gone. `for_good`: it does not come back. Then the claim is
// ABANDONED, and its visit ready for others, unless the node runs at most once; what has not begun
// is void in either case.
void LoseClaim(Scene& scene, uint64_t visit, ClaimId id, bool for_good);
// Its worker may live, and may have heard of it: it has until then to begin what has not begun.
void AwaitBegin(Scene& scene, uint64_t visit, ClaimId id, Timestamp begin_by);
// The agent of a claim has the order to stop.
void NoteSignal(Scene& scene, uint64_t visit, ClaimId id);
// What has not begun goes back, because the instance pauses or is cancelled.
void TakeBackUnbegun(Scene& scene);

// report.cc --------------------------------------------------------------------------------------

// Moves the token that a report is about along the transition that it names. A repeated report of
// the last claim is answered as before, and does nothing.
Result<Answer> Report(Scene& scene, const ReportArgs& args);
// The time that a waiting token waits for has come: the end of its delay, or its step's wake-up.
// Does nothing when the token no longer waits.
void EndWait(Scene& scene, uint64_t visit);

// retry.cc ---------------------------------------------------------------------------------------

// No worker came to a ready token for as long as its node allows: its work fails, as if `error` of
// kind `unclaimed` had been reported. Does nothing when it is not ready any more.
void Unclaimed(Scene& scene, uint64_t visit, const std::string& why);
// An attempt of the visit was lost with its worker, which Handling counts. When its node allows no
// more of them, the work fails for good, as if `error` of kind `abandoned` had been reported. True:
// it did, so that the visit is over.
bool FailIfAbandoned(Scene& scene, uint64_t visit);

// control.cc -------------------------------------------------------------------------------------

Result<Ok> Pause(Scene& scene);
// `node` empty: the instance as a whole. `force` also runs claimed work again.
Result<Ok> Resume(Scene& scene, const std::string& node, bool force);
Result<Ok> Skip(Scene& scene, const std::string& node);
Result<Ok> Cancel(Scene& scene, CancelMode mode);

// resume.cc --------------------------------------------------------------------------------------

// Whether Continue would go on with a stopped instance; `node` empty: as a whole.
Result<Ok> MayContinue(const Scene& scene, const std::string& node);
// Goes on with a stopped instance where it stood. What is left of it is restored, and its graph is
// scene.machine. What had begun and has not ended stays with its workers, unless `force`. Of work
// that runs at most once and ended without saying how, only what `node` names is handed out again.
// REQUIRES: MayContinue.
void Continue(Scene& scene, const std::string& node, bool force);
// The same of an instance that is being cancelled because its parent was, which now goes on.
void CallOff(Scene& scene, bool force);
// The children that were cancelled with a plan have been resumed with it.
void ChildrenResumed(Scene& scene);
// Keeps a report that was refused with STALE_CLAIM, because its instance has stopped or its step was
// dropped, for the resume: the first of a visit. False: it is not kept.
bool KeepLate(Scene& scene, const ReportArgs& args);
ReportArgs ReportOf(const Instance& instance, uint64_t visit, const LateReport& late);
// A worker's process has ended without a report: mostly of an instance that has stopped or is being
// cancelled. `gave_back`: its work may be done again, also what runs at most once. False: the claim
// has ended already.
bool EndClaim(Scene& scene, const ClaimRef& claim, bool gave_back);
// What workers still have in hand of an instance that has stopped.
struct Leftover {
  uint64_t visit = 0;
  NodeIndex node = kNoNode;
  Claim claim;
};
std::vector<Leftover> LeftoversOf(const Instance& instance);

// upgrade.cc -------------------------------------------------------------------------------------

// Moves an instance that has not stopped from scene.machine to `next` and its start node.
void Upgrade(Scene& scene, const Machine& next, uint32_t next_version);
// Stops an instance whose version is aborted by a later one.
void Abort(Scene& scene, uint32_t by_version);

// dry_run.cc -------------------------------------------------------------------------------------

// The transition that the server reports at a token's node in a dry run, when nobody says another:
// `ok`, or the first there is. Empty: none leads on.
std::string_view DryTransition(const Machine& machine, const Token& token);
// What the token waits for by the clock is over at once.
void HurryWait(Scene& scene, uint64_t visit);
// Ends a dry run that does not come to an end by itself.
void StopDryRun(Scene& scene, InstanceResult result, const std::string& why);

// settle.cc --------------------------------------------------------------------------------------

// What has become of a step or group of the instance's graph, named as in compiled conditions:
// "#12" or "@3". kNone: it is not settled.
StepOutcome OutcomeOf(const Machine& machine, const Instance& instance, std::string_view step);
// Why it failed or was skipped; of a group the first that has something to say.
std::string WhyOf(const Machine& machine, const Instance& instance, std::string_view step);

// moves.cc ---------------------------------------------------------------------------------------

// Whether a change has left nodes of the plan to be reached: see Scene::portion.
bool HasOpenEdges(const Instance& instance);
// Reaches the next nodes, at most scene.portion of them. Does nothing when there are none.
void ReachMore(Scene& scene);

// planning.cc ------------------------------------------------------------------------------------

// Whether the instance is to be given a graph: it is PLANNING, and has no work of planners left.
bool AwaitsGraph(const Instance& instance);
// The graph of an instance that is PLANNING is scene.machine. With a planning graph it stays
// PLANNING, and its planners' tasks are ready; with any other it is RUNNING.
void Planned(Scene& scene);
// Stops an instance with ERROR before any of its steps was ready.
void PlanningFailed(Scene& scene, const std::string& why);
// Notes which workers may take a ready token.
void PlaceToken(Scene& scene, uint64_t visit, RunsOn runs_on);
// Fails the run of a step that cannot be handed out, or whose children cannot be started.
void FailStep(Scene& scene, uint64_t visit, const std::string& why);

// limits.cc --------------------------------------------------------------------------------------

// An instance that was moved to another version before its steps began asks for the limits of that
// version. False: it waits its turn, or has stopped.
bool AskAgain(Scene& scene);
// It may be an instance's turn: it asks once more, and begins or goes on when there is room.
void LetIn(Scene& scene);
// All have been cancelled that were to make room for the instance.
void HasDisplaced(Scene& scene);
// A ready token that finds no room waits its turn.
void AwaitTurn(Scene& scene, uint64_t visit, TokenLimits limits);
// It is a waiting token's turn: it is ready, and its places are kept for it.
void CallToken(Scene& scene, uint64_t visit);
// A ready step that finds no room is left out.
void LeaveOutStep(Scene& scene, uint64_t visit, const std::string& why);
// Cancels an instance in favour of another one that a limit has no room for beside it.
void GiveWay(Scene& scene, CancelMode mode, const std::string& why);

// children.cc ------------------------------------------------------------------------------------

ChildClass ClassOf(const Instance& child);
// Whether a step of `parent`, which goes on, waits for the child.
bool AwaitsChild(const Instance& parent, const Instance& child);
// Whether the token's step wants more children now.
bool WantsChildren(const Instance& instance, const Token& token);
// Says how many children there will be. The step goes on at once when there are none.
void CountChildren(Scene& scene, uint64_t visit, uint64_t total);
// One more child was given a number. `error`, when not empty: it could not be started.
void ChildStarted(Scene& scene, NodeIndex home, const std::string& error);
// A child went from one class to another. `unplanned`: it stopped before any of its steps was ready.
void ChildMoved(Scene& scene, NodeIndex home, uint64_t generation, ChildClass from, ChildClass to,
                bool unplanned);
// Unplanned children with lower numbers than this have been started again.
void RestartedUpTo(Scene& scene, uint64_t visit, uint64_t number);

}  // namespace rules
}  // namespace dfsmr
