// What moves: instances, their tokens and claims, and the events that say what happened. Plain
// values; no I/O, no clock. Names are those of runner.proto.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fsm/base/boxed.h"
#include "fsm/base/time.h"
#include "fsm/base/trace.h"
#include "fsm/machine/machine.h"
#include "fsm/rules/tokens.h"

namespace dfsmr {

// Same numbers as runner.proto's enums; convert.cc asserts it.
enum class InstanceState : uint8_t { kNone, kScheduled, kPlanning, kRunning, kPaused, kStopped };
enum class InstanceResult : uint8_t {
  kNone, kPending, kSuccess, kWarning, kError, kCancelled, kAborted
};
enum class ChangeKind : uint8_t {
  kNone,
  kDefined,
  kStarted,
  kClaimed,
  kTransitioned,
  kRelinquished,
  kTimedOut,
  kUpgraded,
  kAborted,
  kFinished,
  kScheduled,
  kPaused,
  kResumed,
  kSkipped,
  kCancelled,
  kSuspended,
  kWoken,
  kBreakerOpened,
  kBreakerClosed,
  kRefused = 20,
  kAbandoned,
  kLate,
  kAgentConnected,
  kAgentLost,
  kAgentLeft,
  kOccurred = 30,
  kDeleted,
  kLimitSet,
  kGroupFinished,
  kStartRefused,
  kPackagePushed = 40,
  kPackageActivated,
  kPackageDeactivated,
  kPackageRemoved,
  kRetired,
  kNamespaceChanged = 50,
  kNamespaceDeleted,
  kImported
};
bool IsChangeKind(uint32_t number);  // whether a kind has it; kNone has not
enum class CancelMode : uint8_t { kNone, kCancel, kForce, kKill };  // the later, the harder

std::string_view Name(InstanceState state);    // "RUNNING"
std::string_view Name(InstanceResult result);  // "SUCCESS"
// SUCCESS, or with warnings.
inline bool EndedWell(InstanceResult result) {
  return result == InstanceResult::kSuccess || result == InstanceResult::kWarning;
}

// Nodes that no machine lists but a stopped instance may stand on.
inline constexpr NodeIndex kAbortedIndex = kNoNode - 1;
inline constexpr NodeIndex kCancelledIndex = kNoNode - 2;
inline constexpr NodeIndex kElsewhere = kNoNode - 3;  // of a plan: plan->ended_at names it
std::string_view NodeName(const Machine& machine, NodeIndex node);
NodeIndex NodeNamed(const Machine& machine, std::string_view name);  // kNoNode when there is none

// A reason why an instance does not run.
enum class Wait : uint8_t {
  kHold,     // it was started held, until it is resumed
  kStartAt,  // its start_at has not come
  kAfter,    // an instance of `after` has not stopped
  kLimit,    // limits have no room for it
  kPause,    // it was paused by a call, until it is resumed
  kStuck,    // all steps that are left of the plan have failed, until one of them is dealt with
  kGroup,    // its group lets no member begin
  kTurn,     // it was paused and is to go on, but limits have no room for it
};

// All reasons why an instance does not run. It begins, or goes on, when none is left. As long as
// there is one it is PAUSED or SCHEDULED; once it has stopped, they say why it never began.
class Waits {
 public:
  constexpr Waits() = default;
  constexpr Waits(std::initializer_list<Wait> reasons) {
    for (Wait reason : reasons) Add(reason);
  }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr bool Has(Wait reason) const { return (bits_ & Bit(reason)) != 0; }
  constexpr void Add(Wait reason) { bits_ |= Bit(reason); }
  constexpr void Remove(Wait reason) { Remove(Waits{reason}); }
  constexpr void Remove(Waits reasons) { bits_ &= static_cast<uint8_t>(~reasons.bits_); }
  // Whether it is PAUSED, rather than SCHEDULED.
  constexpr bool Paused() const {
    return Has(Wait::kPause) || Has(Wait::kStuck) || Has(Wait::kTurn);
  }
  // Whether it waits for room under limits, and for nothing else.
  constexpr bool ForTurn() const { return bits_ == Bit(Wait::kLimit) || bits_ == Bit(Wait::kTurn); }
  friend bool operator==(const Waits&, const Waits&) = default;

 private:
  static constexpr uint8_t Bit(Wait reason) {
    return static_cast<uint8_t>(1 << static_cast<uint8_t>(reason));
  }
  uint8_t bits_ = 0;
};

// An instance that a report has started, or has found started in the same way.
struct Begun {
  std::string id;
  bool created = false;
  friend bool operator==(const Begun&, const Begun&) = default;
};

// The answer to an accepted report. An instance keeps the last one, so that its repetition needs no
// look into the history; an answer that says what was started is kept in its record only, because
// it may be long, and the instance's row is written often.
struct Answer {
  ClaimId claim;
  std::string transition;
  std::string prev_node;
  std::vector<std::string> nodes;
  uint64_t visit = 0;
  InstanceState state = InstanceState::kNone;
  InstanceResult result = InstanceResult::kNone;
  bool repeated = false;  // set when it is given again
  Boxed<std::vector<Begun>> started = {};
  friend bool operator==(const Answer&, const Answer&) = default;
};

// An edge of a plan's graph that the instance goes along, and has not reached the end of.
struct OpenEdge {
  NodeIndex from = kNoNode;   // the node that was left
  NodeIndex owner = kNoNode;  // the node that has the edge: from, or its home
  uint32_t edge = 0;          // in the owner's transitions
  uint32_t next = 0;          // in the edge's targets: those before it have been reached
  std::string transition;     // what the events call it
  std::string client;
  friend bool operator==(const OpenEdge&, const OpenEdge&) = default;
};

// In the place of an edge's number: something else to be done on the way, at the gate `owner`.
inline constexpr uint32_t kDecision = UINT32_MAX;   // the `if` of a node is to be decided
inline constexpr uint32_t kSweep = UINT32_MAX - 1;  // the steps of a section are told to end
inline constexpr uint32_t kReset = UINT32_MAX - 2;  // they are put back to where nothing had begun
inline constexpr uint32_t kBegin = UINT32_MAX - 3;  // they, or their compensation, begin
inline constexpr uint32_t kFirstDeed = kBegin;      // this and all above are no edges

inline constexpr std::string_view kOwnGraph = "own";

// What only an instance of a plan has.
struct PlanState {
  // Names the row of its graph; empty: not planned yet. With kOwnGraph no other instance has that
  // graph, and both are dropped together.
  std::string graph;
  std::string label;
  bool skipped = false;   // a step was skipped: the result is WARNING
  bool ran = false;       // it was RUNNING once: its steps were ready
  bool upgraded = false;  // it had begun when it was upgraded, and has not entered its graph since
  uint64_t children = 0;         // one more than the highest number that a child was given
  uint64_t first_child = 0;      // the lowest number for a child; above 0 after an upgrade
  double done_weight = 0;        // of the steps that are done or skipped
  double done_finalize = 0;      // the part of done_weight that finalize phases have
  double partial = 0;            // of the steps under way, by the progress that they report
  double weight = 0;             // of all
  std::string ended_at;          // stopped: the node
  std::optional<Duration> wait_after_fail;  // how long others go on after a failure; absent: on
  bool wait_given = false;                  // by the start, in place of the plan's
  bool stopping = false;          // wait_after_fail is over, and the plan stops with ERROR
  NodeIndex impatient = kNoNode;  // the held step because of which wait_after_fail has paused it
  std::vector<OpenEdge> open;    // the way that is left when many nodes are reached at once
  // The way that a cancel or a stop has left, for the resume.
  std::vector<OpenEdge> shut;
  // It was resumed, and children that were cancelled with it are still to be resumed.
  enum class Resuming : uint8_t { kNone, kResumes, kForces };
  Resuming resuming = Resuming::kNone;

  bool OwnsGraph() const { return graph == kOwnGraph; }
  friend bool operator==(const PlanState&, const PlanState&) = default;
};

// Where an instance comes from: only of one that is in a group, or that a schedule or trigger has
// started.
struct Provenance {
  std::string group;   // that it is a member of; empty: of none
  std::string cause;   // "schedule:NAME" or "trigger:NAME"; empty: a caller
  uint32_t depth = 0;  // in a chain of change triggers
  bool backfill = false;  // of a schedule: its overlap and failures do not count
  Timestamp time{};       // of the occurrence that started it
  friend bool operator==(const Provenance&, const Provenance&) = default;
};

// The limits of an instance as a whole: what it was started with, and what it holds or waits for.
struct InstanceLimits {
  enum class State : uint8_t { kNone, kWaits, kHolds };
  LimitAsks asks;  // besides those of its machine or plan; their keys are no templates
  std::optional<OnConflict> on_conflict;  // in place of what the documents say
  bool force = false;                     // it begins past all limits, and counts

  State state = State::kNone;
  std::vector<LimitKey> keys;  // that it holds or waits for
  uint64_t order = 0;          // of its start among the starts of the partition
  Timestamp since;             // in this state
  bool displaces = false;      // not all have been cancelled that are to make room for it
  friend bool operator==(const InstanceLimits&, const InstanceLimits&) = default;
};

// What only an instance of a dry run has.
struct DryRun {
  // Of nodes whose answer is for some visits only: for how many it was given.
  std::vector<std::pair<std::string, uint64_t>> given;
  friend bool operator==(const DryRun&, const DryRun&) = default;
};

// The step of `parent` that started an instance and waits for it.
struct ParentStep {
  NodeIndex home = kNoNode;
  uint64_t generation = 0;
  friend bool operator==(const ParentStep&, const ParentStep&) = default;
};

struct Instance {
  std::string ns;
  std::string id;
  std::string machine;
  uint32_t version = 0;
  InstanceState state = InstanceState::kNone;
  InstanceResult result = InstanceResult::kPending;
  int32_t priority = 0;
  Timestamp start_time;             // begun; zero before
  Timestamp end_time;               // zero before
  Timestamp start_at;               // scheduled for; zero: not scheduled
  Timestamp start_before = kNever;  // too late after this
  Waits waits;
  struct Prerequisite {
    std::string instance;  // must have stopped before this one begins
    bool any_result = false;
    friend bool operator==(const Prerequisite&, const Prerequisite&) = default;
  };
  std::vector<Prerequisite> after;  // those that have not stopped yet
  CancelMode cancel = CancelMode::kNone;  // as it was asked for
  Timestamp cancel_time;                  // when it was asked for first; zero: it was not
  Boxed<std::string> cancel_reason;       // null: nobody said why
  // It is cancelled because its parent is, or has stopped. When it goes on: a call has resumed it
  // after that, and no step waits for it.
  bool with_parent = false;
  bool resumable = false;                 // it has stopped, and a resume continues it
  std::string parent;
  std::string error;
  uint64_t last_visit = 0;  // the highest visit number given out
  Tokens tokens;
  std::vector<std::pair<std::string, uint32_t>> entries;  // node → entries; limited and delay nodes
  std::optional<Answer> last_answer;
  Boxed<PlanState> plan;  // null: an instance of a plain machine
  Boxed<ParentStep> parent_step;  // null: no step waits for it
  Boxed<Provenance> provenance;
  Boxed<InstanceLimits> limits;  // null: it asked for none
  Boxed<DryRun> dry_run;         // null: what it does is real

  // The history's index: numbers of this instance's records in the feed. Full pages are rows of
  // their own; this is the page being filled. storage/rows/keys.h says more.
  std::vector<uint64_t> history;
  Timestamp change_time;  // of the last record; zero: from before this was noted
  // The store holds only its own row, its spec and its row in the index of its machine. So it can
  // be dropped without being read.
  bool bare = false;
  bool traced = false;  // its spec has a trace

  bool Stopped() const { return state == InstanceState::kStopped; }
  // It may be SCHEDULED again after it began: for the limits of a version that it was moved to.
  bool Begun() const { return start_time != Timestamp(); }
  bool Cancelling() const { return cancel != CancelMode::kNone; }
  bool HasLiveClaim() const;
  uint32_t& Entries(const std::string& node);
  friend bool operator==(const Instance&, const Instance&) = default;
};

// What is fixed at start, and read only when work is handed out or shown. It is kept apart so that
// a transition does not write it again.
struct Spec {
  std::string params;  // JSON object, byte for byte; empty means {}
  std::map<std::string, std::string> labels;
  std::string client;
  std::string flow;  // sent with Start: YAML or JSON text
  // Of a dry run: what the server reports at nodes and steps, as it was sent; see DryAnswer.
  std::map<std::string, std::string> dry_answers = {};
  std::vector<Instance::Prerequisite> after = {};  // those that it was started with
  uint64_t first_seq = 0;  // seq of its start in the feed; 0: from before this was noted
  ClaimId born_after;      // the last claim that was made before it; none: as with first_seq
  Boxed<TraceContext> trace = {};  // null: it belongs to none
  friend bool operator==(const Spec&, const Spec&) = default;
};

// One thing that happened: a record of the feed and of its instance's history. The first part is
// runner.proto's Change; the rest is for ourselves.
struct Event {
  uint64_t seq = 0;  // given when it is committed
  Timestamp time;
  ChangeKind kind = ChangeKind::kNone;
  std::string ns;
  std::string machine;
  uint32_t version = 0;
  std::string instance;
  std::string prev_node;
  std::string node;
  std::string transition;
  uint64_t visit = 0;
  uint32_t attempt = 0;
  std::string client;
  std::string params;
  std::string note;
  std::string error_kind = {};  // of a failure
  // What it is about besides its instance. Those of an instance with a Provenance have it.
  struct About {
    std::string cause;  // "schedule:NAME" … that started or moved the instance; without an instance
                        // what the change is about, also "limit:KEY" or "group:NAME"
    std::string group;  // of the instance
    std::string outcome;     // kOccurred
    std::string occurrence;  // kOccurred: its id
    uint32_t depth = 0;      // in a chain of change triggers
    bool dry_run = false;    // of an instance that is a dry run
    friend bool operator==(const About&, const About&) = default;
  };
  Boxed<About> about;
  // The version of a package that it is about, or that its machine belongs to.
  struct Package {
    std::string name;
    std::string version;
    std::string digest;
    friend bool operator==(const Package&, const Package&) = default;
  };
  Boxed<Package> package;

  Timestamp begin_time;          // of what ends an attempt: when it began
  uint64_t left_visit = 0;       // TRANSITIONED that ended a visit: which
  std::optional<Answer> answer;  // TRANSITIONED by a report: what was answered
  // What the node's latency learns from it: the attempt took, or lasted at least, this long.
  struct Sample {
    std::string node;
    Duration took{};
    bool censored = false;
    Duration replaces{};  // not zero: this attempt had been counted as censored at this
    bool retry = false;
    friend bool operator==(const Sample&, const Sample&) = default;
  };
  std::vector<Sample> samples;
  std::string output;  // JSON object kept as prev_node's output; not part of the record
  Boxed<std::string> worker;  // kept as who reported `ok` of prev_node; not part of the record
  friend bool operator==(const Event&, const Event&) = default;
};

}  // namespace dfsmr
