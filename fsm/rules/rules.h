// The rules: what a command does to an instance. Pure: everything that a rule may know is handed
// in, everything that it does is the changed instance and the events. A rule that refuses has
// changed nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fsm/base/result.h"
#include "fsm/machine/machine.h"
#include "fsm/plan/source.h"
#include "fsm/rules/instance.h"

namespace dfsmr {

struct Scene {
  const Machine& machine;  // the version that the instance is pinned to
  Instance& instance;
  Timestamp now;
  uint64_t epoch = 0;   // of the partition's owner
  uint64_t random = 0;  // for jitter
  std::vector<Event>& events;
  // Who else holds the singleton that the plan asks for; empty: nobody, or it asks for none.
  std::string key;
  std::string key_holder;
  OnConflict on_conflict = OnConflict::kFail;
  std::vector<InstanceState> entered;  // the states that it went through, in order
  // The last claim that was made before the instance was started: it and those before it are of an
  // instance that had the same id.
  ClaimId born_after = {};
};

// Names a claim of a visit to a worker: opaque to it, refused by arithmetic when it is late.
struct ClaimRef {
  uint64_t visit = 0;
  ClaimId id;
};
std::string ClaimText(const Instance& instance, uint64_t visit, ClaimId id);
// kFailedPrecondition STALE_CLAIM when the text is no claim of this instance.
Result<ClaimRef> ParseClaim(const Instance& instance, std::string_view text);

// A new instance: begins it, or leaves it SCHEDULED when it is held or start_at is to come.
void Start(Scene& scene);
// What time does to a SCHEDULED instance: begins it at start_at, stops it after start_before.
void StartDue(Scene& scene);
// One of `instance.after` has stopped: it is waited for no longer, or, when it did not end as it had
// to, this instance stops with ERROR.
void PrerequisiteStopped(Scene& scene, const std::string& id, InstanceResult result);
// When StartDue has something to do next; kNever when only someone can act.
Timestamp NextStart(const Instance& instance);

// Hands out a ready token: the caller has checked that it is ready and that the instance runs.
struct ClaimArgs {
  ClaimId id;
  std::string worker;
  Timestamp deadline = kNever;
  uint64_t session = 0;
  std::string key = {};  // the singleton that the step holds from now on; empty: none
};
const Claim& TakeClaim(Scene& scene, Token& token, ClaimArgs args);

struct ReportArgs {
  std::string transition;
  std::string params;
  std::string claim;  // empty: it comes from outside
  std::string node;
  std::string output;
  std::string error;
  std::string client;
  // Of a suspending report.
  std::optional<Duration> wake_after;
  size_t children = 0;  // instances to start and wait for
  uint32_t concurrency = 0;
  // What is wrong with all that is not the claim and its transition: a repetition is answered as
  // before whatever else it holds.
  std::optional<Error> fault = {};
};
Result<Answer> Report(Scene& scene, const ReportArgs& args);

// Gives a claim back, or all of them when `claim` is empty. Answers the node.
Result<std::string> Relinquish(Scene& scene, std::string_view claim, const std::string& client);
// Takes back a claim that its worker never saw, as if it had not been made: its number is free again.
// `told`: the feed has told of it, and so tells of its end.
void Unclaim(Scene& scene, uint64_t visit, ClaimId id, bool told = false);

struct Extension {
  Timestamp deadline = kNever;
  bool cancel_requested = false;
};
// Moves a live or timed-out claim's deadline to `deadline`, never to an earlier time.
Result<Extension> Extend(Scene& scene, std::string_view claim, Timestamp deadline, double progress);

// The deadline of a claim has passed. Nothing happens when the claim is not live or was extended.
void TimeOut(Scene& scene, uint64_t visit, ClaimId id);
// What a waiting token waits for has come: its delay is over, or its step's wake-up is due. Nothing
// happens when it does not wait any more.
void EndWait(Scene& scene, uint64_t visit);

Result<Ok> Pause(Scene& scene);
Result<Ok> Resume(Scene& scene, const std::string& node, bool force);
Result<Ok> Skip(Scene& scene, const std::string& node);
Result<Ok> Cancel(Scene& scene, CancelMode mode);

// Moves an instance that has not stopped from scene.machine to `next` and its start node.
void Upgrade(Scene& scene, const Machine& next, uint32_t next_version);
void Abort(Scene& scene, uint32_t by_version);

// Plans ------------------------------------------------------------------------------------------

// The instance of a plan that is PLANNING has its graph: scene.machine. A planning graph keeps it
// PLANNING, with its planners' tasks ready; another sets it RUNNING.
void Planned(Scene& scene);
// It is PLANNING and asks for the singleton of scene.key: takes it, waits its turn, or stops.
void TakeKey(Scene& scene);
// Stops it with ERROR: no step was ever ready.
void PlanningFailed(Scene& scene, const std::string& why);

// Fails the run of a step that cannot be handed out, or whose children cannot be started.
void FailStep(Scene& scene, uint64_t visit, const std::string& why);
// A ready step whose singleton somebody else holds: fails, or waits its turn.
void AwaitKey(Scene& scene, uint64_t visit, const std::string& key, const std::string& holder,
              OnConflict on_conflict);
// The key may be free: a scheduled instance, or a waiting step, asks again.
void KeyFreed(Scene& scene);
void RetryKey(Scene& scene, uint64_t visit);

// What a child is to its parent's step.
enum class ChildClass : uint8_t { kNone, kRunning, kPaused, kSuccess, kFailed, kCancelled };
ChildClass ClassOf(const Instance& child);
// How many children there will be. Goes on at once when there are none.
void CountChildren(Scene& scene, uint64_t visit, uint64_t total);
// One more child was given a number; an error when it could not be started.
void ChildStarted(Scene& scene, NodeIndex home, const std::string& error);
// A child went from one class to another. `unplanned`: it stopped before any of its steps was ready.
void ChildMoved(Scene& scene, NodeIndex home, uint64_t generation, ChildClass from, ChildClass to,
                bool unplanned);

// The unplanned ones among those before this number have been started again.
void RestartedUpTo(Scene& scene, uint64_t visit, uint64_t number);
// A stopped instance that never began, of a step that is tried again, begins.
void BeginAgain(Scene& scene);

// Whether the token's step wants more children now.
bool WantsChildren(const Instance& instance, const Token& token);

}  // namespace dfsmr
