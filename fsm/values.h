// What moves: instances, their tokens and claims, and the events that say what happened. Plain
// values; no I/O, no clock. Names are those of runner.proto.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fsm/machine.h"
#include "fsm/time.h"

namespace dfsmr {

// Same numbers as runner.proto's enums; convert.cc asserts it.
enum class InstanceState : uint8_t { kNone, kScheduled, kPlanning, kRunning, kPaused, kStopped };
enum class InstanceResult : uint8_t {
  kNone, kPending, kSuccess, kWarning, kError, kCancelled, kAborted
};
enum class TokenState : uint8_t { kNone, kReady, kClaimed, kWaiting, kHeld, kDone };
enum class ChangeKind : uint8_t {
  kNone, kDefined, kStarted, kClaimed, kTransitioned, kRelinquished, kTimedOut, kUpgraded, kAborted,
  kFinished, kScheduled, kPaused, kResumed, kSkipped, kCancelled, kSuspended, kWoken,
  kBreakerOpened, kBreakerClosed
};
enum class CancelMode : uint8_t { kNone, kCancel, kForce, kKill };

std::string_view Name(InstanceState state);    // "RUNNING"
std::string_view Name(InstanceResult result);  // "SUCCESS"

// Nodes that no machine lists but a stopped instance may stand on.
inline constexpr NodeIndex kAbortedIndex = kNoNode - 1;
inline constexpr NodeIndex kCancelledIndex = kNoNode - 2;
std::string_view NodeName(const Machine& machine, NodeIndex node);
NodeIndex NodeNamed(const Machine& machine, std::string_view name);  // kNoNode when there is none

// Unique in a partition for ever: serials start anew under each epoch, epochs never repeat.
struct ClaimId {
  uint64_t epoch = 0;
  uint64_t serial = 0;
  friend auto operator<=>(const ClaimId&, const ClaimId&) = default;
  explicit operator bool() const { return serial != 0; }
};

struct Claim {
  ClaimId id;
  std::string worker;
  uint32_t attempt = 0;
  Timestamp claim_time;
  Timestamp deadline = kNever;
  bool timed_out = false;
  bool given_back = false;  // void: kept only so that it is known as such after a restart
  bool retry = false;       // an earlier claim of the visit had timed out
  double progress = 0;
  Duration sampled{};       // not zero: counted as having lasted at least this long
  uint64_t session = 0;     // the stream it was handed out on, 0 for none; not kept on disk

  bool Live() const { return !timed_out && !given_back; }
  friend bool operator==(const Claim&, const Claim&) = default;
};

// One place where an instance stands.
struct Token {
  NodeIndex node = kNoNode;
  uint64_t visit = 0;
  TokenState state = TokenState::kNone;
  uint32_t attempt = 0;  // claims of this visit so far
  std::string params;    // JSON object, given by the transition that led here; empty means {}
  std::vector<Claim> claims;
  Timestamp available_at;  // ready: since when; waiting: until when (kNever: until someone acts)
  std::string error;
  uint64_t forgotten_epoch = 0;  // claims of this and earlier epochs that are not listed are void

  const Claim* FindClaim(ClaimId id) const;
  bool HasLiveClaim() const;
  bool TimedOutBefore() const;
  friend bool operator==(const Token&, const Token&) = default;
};

// The answer to the last accepted report, so that its repetition needs no look into the history.
struct Answer {
  ClaimId claim;
  std::string transition;
  std::string prev_node;
  std::vector<std::string> nodes;
  uint64_t visit = 0;
  InstanceState state = InstanceState::kNone;
  InstanceResult result = InstanceResult::kNone;
  bool repeated = false;  // set when it is given again
  friend bool operator==(const Answer&, const Answer&) = default;
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
  bool hold = false;                // scheduled, and not due before it is resumed
  struct Prerequisite {
    std::string instance;  // must have stopped before this one begins
    bool any_result = false;
    friend bool operator==(const Prerequisite&, const Prerequisite&) = default;
  };
  std::vector<Prerequisite> after;  // those that have not stopped yet
  bool cancel_requested = false;
  bool killed = false;
  std::string parent;
  std::string error;
  uint64_t last_visit = 0;  // the highest visit number given out
  std::vector<Token> tokens;
  std::vector<std::pair<std::string, uint32_t>> entries;  // node → entries; limited and delay nodes
  std::optional<Answer> last_answer;

  // The history's index: numbers of this instance's records in the feed. Full pages are rows of
  // their own; this is the page being filled. rows.h says more.
  std::vector<uint64_t> history;

  bool Stopped() const { return state == InstanceState::kStopped; }
  bool HasLiveClaim() const;
  Token* FindVisit(uint64_t visit);
  uint32_t& Entries(const std::string& node);
  friend bool operator==(const Instance&, const Instance&) = default;
};

// What is fixed at start and read only when work is handed out or shown: kept apart, so that a
// transition does not write it again.
struct Spec {
  std::string params;  // JSON object, byte for byte; empty means {}
  std::map<std::string, std::string> labels;
  std::string client;
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
  friend bool operator==(const Event&, const Event&) = default;
};

}  // namespace dfsmr
