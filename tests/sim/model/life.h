// What the reference model knows of one instance: where it stands, who has claimed it, what was
// promised about it, and what the feed must tell of it next. Plain values, looked for by whole
// scans.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fsm/plan/graph.h"
#include "fsm/rules/instance.h"
#include "fsm/rules/rules.h"

namespace dfsmr::model {

constexpr Duration kSlack = std::chrono::milliseconds(10);  // an engine's clock runs ahead of ours

// A claim as its worker was told of it.
struct Claimed {
  ClaimId id;
  uint32_t attempt = 0;
  Timestamp deadline = kNever;
  bool timed_out = false;
  bool given_back = false;
  bool untold = false;                 // given back, which the feed tells at the resume
  bool retry = false;                  // an earlier claim of its visit had timed out
  std::optional<Timestamp> outlasted;  // it has timed out once, at this deadline
  uint64_t stream = 0;                 // that it was handed out on; 0: none
  std::optional<std::string> worker;   // absent: a crash has made the server forget it

  bool Live() const { return !timed_out && !given_back; }
};

// One place where an instance stands.
struct Stand {
  std::string node;
  uint64_t visit = 0;
  TokenState state = TokenState::kNone;
  uint32_t attempts = 0;
  std::string params;
  std::vector<Claimed> claims;
  // Claims that workers hold and that a crash took from the server's memory: they count again when
  // they are heard of.
  std::set<ClaimId> lost;
  std::optional<ReportArgs> late;  // a report that was refused, and counts at the resume
  Timestamp since;             // its place in line
  bool again = false;          // it lies ready for another try: its place is between the next two
  Timestamp earliest, latest;  // a wait ends between these; kNever: somebody has to end it

  uint32_t tries = 0;  // of a node of a machine, that failed
  // As far as ready_timeout goes it is ready since then, at the earliest and at the latest.
  Timestamp ready_at, ready_by;

  // When it came to its place in line, at the earliest and at the latest.
  Timestamp SinceFrom() const { return again ? earliest : since; }
  Timestamp SinceTo() const { return again ? latest : since; }
  bool HasLive() const { return std::ranges::any_of(claims, &Claimed::Live); }
  bool TimedOutBefore() const { return std::ranges::any_of(claims, &Claimed::timed_out); }
  // Null: it knows of no such claim.
  Claimed* Find(ClaimId id) {
    const auto claim = std::ranges::find(claims, id, &Claimed::id);
    return claim == claims.end() ? nullptr : &*claim;
  }
};

// What a record tells of how long an attempt took.
struct Lasted {
  std::string node;
  ClaimId claim;
  std::optional<Timestamp> until;  // its deadline; absent: the time of the record
  bool censored = false;
  std::optional<Timestamp> replaces;  // it was told before that the claim outlasted this deadline
  bool retry = false;
};

// What the feed must tell next of an instance. Of the event count the fields that the contract
// fixes; of FINISHED the note begins with the result.
struct Expected {
  Event event;
  std::vector<Lasted> samples;
  ClaimId claim;        // of CLAIMED and RELINQUISHED
  std::optional<std::string> client;  // absent: the contract does not say
  uint64_t enters = 0;  // the visit that this record begins; 0: none
};

struct Life {
  std::string id;
  std::string machine;
  uint32_t version = 0;
  InstanceState state = InstanceState::kNone;
  InstanceResult result = InstanceResult::kPending;
  int32_t priority = 0;
  std::string params;
  Timestamp start_at;
  Timestamp start_before = kNever;
  Timestamp ended_at;
  bool hold = false;
  bool opaque = false;  // a plan: the model only follows what the feed tells of it
  std::vector<Instance::Prerequisite> after;
  bool cancel_requested = false;
  bool stuck = false;  // of a machine: paused because its node is held
  uint64_t last_visit = 0;
  std::map<uint64_t, Stand> stands;  // by visit: one, or none
  std::map<uint64_t, Stand> left;    // stopped: where a resume goes on
  bool resumable = false;
  bool keeps_late = false;           // of the call at hand
  std::map<std::string, uint32_t> entries;
  std::map<ClaimId, Answer> answers;  // of accepted reports

  // Of a plan.
  bool paused = false;
  std::pair<uint64_t, InstanceResult> ended;  // the turn in which it has stopped last, and how
  bool unheard = false;    // some of its records came before a crash and were not followed
  uint64_t paused_in = 0;  // the turn
  std::shared_ptr<const PlanGraph> graph;      // null: not looked at yet
  std::map<std::string, uint32_t> tries;       // by home, that failed
  std::set<uint64_t> polled;                   // visits that a poll has begun
  std::map<uint64_t, Timestamp> not_before;    // visits that are tries: handed out no earlier
  std::set<std::string> ending;                // sections of which a step has failed for good
  std::map<std::string, std::string> patched;  // by home: the params of the patch

  bool adopt = false;  // its row says more than the model was told
  std::deque<Expected> expected;
  std::map<ClaimId, Timestamp> claimed_at;  // as the feed has told

  bool Stopped() const { return state == InstanceState::kStopped; }
  bool HasLive() const { return !stands.empty() && stands.begin()->second.HasLive(); }
  // Null: it does not stand in that visit.
  Stand* At(uint64_t visit) {
    const auto at = stands.find(visit);
    return at == stands.end() ? nullptr : &at->second;
  }
  // Where it stands; null: nowhere.
  Stand* Only() { return stands.empty() ? nullptr : &stands.begin()->second; }
  std::string Where() const { return stands.empty() ? "" : stands.begin()->second.node; }
  uint64_t Visit() const { return stands.empty() ? 0 : stands.begin()->first; }
};

}  // namespace dfsmr::model
