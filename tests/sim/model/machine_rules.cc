#include "tests/sim/model/machine_rules.h"

#include <algorithm>
#include <cmath>

#include "fsm/base/json.h"
#include "fsm/condition/condition.h"

namespace dfsmr::model {

const Node* MachineRules::NodeOf(const std::string& name) const {
  for (const Node& node : machine_.nodes) {
    if (node.id == name) return &node;
  }
  return nullptr;
}

Expected& MachineRules::Tell(ChangeKind kind) {
  Expected& expected = life_.expected.emplace_back();
  expected.event.kind = kind;
  expected.event.instance = life_.id;
  expected.event.machine = life_.machine;
  expected.event.version = life_.version;
  return expected;
}

// Beginning and ending ---------------------------------------------------------------------------

void MachineRules::Begin() {
  life_.state = InstanceState::kRunning;
  life_.hold = false;
  const std::string start = machine_.nodes[machine_.start].id;
  Expected& told = Tell(ChangeKind::kStarted);
  told.event.node = start;
  told.event.visit = life_.last_visit + 1;
  Enter(start, "", "", "", /*announce=*/false);
}

void MachineRules::Schedule(const std::string&) {
  life_.state = InstanceState::kScheduled;
  Tell(ChangeKind::kScheduled);
}

void MachineRules::Stop(InstanceResult result, const std::string& node, uint64_t visit) {
  life_.state = InstanceState::kStopped;
  life_.result = result;
  life_.stands.clear();
  life_.entries.clear();
  life_.stuck = false;
  if (!node.empty()) {
    Stand stand;
    stand.node = node;
    stand.visit = visit;
    stand.state = TokenState::kDone;
    life_.stands[visit] = stand;
  }
  Expected& told = Tell(ChangeKind::kFinished);
  told.event.node = node;
  told.event.visit = visit;
  told.event.note = Name(result);
}

void MachineRules::StopCancelled() {
  Expected& told = Tell(ChangeKind::kCancelled);
  told.event.prev_node = life_.Where();
  told.event.node = kCancelledNode;
  told.event.visit = life_.Visit();
  life_.left = life_.stands;
  life_.resumable = true;
  const auto entries = life_.entries;
  Stop(InstanceResult::kCancelled, std::string(kCancelledNode), life_.last_visit);
  life_.entries = entries;
}

// Once cancel was asked for the result is CANCELLED, as soon as nobody has work in hand.
void MachineRules::StopIfCancelled() {
  if (life_.Stopped() || !life_.cancel_requested || life_.HasLive()) return;
  StopCancelled();
}

// Moving -----------------------------------------------------------------------------------------

const Edge* MachineRules::EdgeOf(const Node& node, std::string_view name, const std::string& params,
                                 bool* chosen) const {
  for (size_t i = 0; i < node.transitions.size(); ++i) {
    const Edge& edge = node.transitions[i];
    if (edge.transition != name) continue;
    const auto& choices = node.settings->choices;
    const Condition* condition = choices.empty() ? nullptr : choices[i].get();
    const bool one_of = i > 0 && node.transitions[i - 1].transition == name;
    if (chosen) *chosen = condition || one_of;
    if (!condition) return &edge;
    const bool given = condition->value == "\"${given.n}\"";
    const auto value = given ? json::Member(params, "n") : json::Member(life_.params, "flag");
    if (!value) continue;
    if (given ? std::stoi(std::string(*value)) > std::stoi(condition->operand) : *value == "true") {
      return &edge;
    }
  }
  return nullptr;
}

void MachineRules::TellChoice(size_t told, const std::string& to, bool chosen) {
  if (chosen && told < life_.expected.size()) life_.expected[told].event.note = "chose " + to;
}

// Entry n + 1 to a node with max_visits n is diverted at once, and does not count.
void MachineRules::Enter(const std::string& to, const std::string& prev,
                         const std::string& transition, const std::string& params, bool announce) {
  const uint64_t visit = ++life_.last_visit;
  std::string node = to, from = prev, by = transition;
  for (size_t hops = 0;; ++hops) {
    if (announce) {
      Expected& told = Tell(ChangeKind::kTransitioned);
      told.event.prev_node = from;
      told.event.node = node;
      told.event.transition = by;
      told.event.visit = visit;
      told.event.params = params;
    }
    announce = true;
    const Node& at = *NodeOf(node);
    const uint32_t most = at.settings->max_visits;
    if (most == 0 || life_.entries[node] < most) break;
    if (hops > machine_.nodes.size()) {  // all of them point at each other
      if (life_.cancel_requested) {
        if (!life_.stands.empty()) StandAnew(life_.stands.begin()->second.node, visit);
        return StopCancelled();
      }
      return Stop(InstanceResult::kError, node, visit);
    }
    for (const Edge& edge : at.transitions) {
      if (edge.transition != kExhausted) continue;
      from = at.id;
      by = std::string(kExhausted);
      node = machine_.nodes[edge.targets.front()].id;
      break;
    }
  }
  Place(*NodeOf(node), visit, params, life_.expected.size() - 1);
}

// It has nowhere to go, and is cancelled: a resume would find it where it was.
void MachineRules::StandAnew(const std::string& node, uint64_t visit) {
  Stand stand;
  stand.node = node;
  stand.visit = visit;
  stand.since = now_;
  stand.earliest = stand.latest = kNever;
  stand.state =
      NodeOf(node)->kind == NodeKind::kWork ? TokenState::kReady : TokenState::kWaiting;
  if (NodeOf(node)->kind == NodeKind::kDelay) stand.earliest = now_;
  life_.stands.clear();
  life_.stands[visit] = stand;
}

void MachineRules::Place(const Node& node, uint64_t visit, const std::string& params, size_t told) {
  ++life_.entries[node.id];
  Stand stand;
  stand.node = node.id;
  stand.visit = visit;
  stand.params = params;
  stand.since = stand.ready_at = stand.ready_by = now_;
  stand.latest = stand.earliest = kNever;
  stand.state = node.kind == NodeKind::kWork    ? TokenState::kReady
                : node.kind == NodeKind::kFinal ? TokenState::kDone
                                                : TokenState::kWaiting;
  if (node.kind == NodeKind::kDelay) {
    // initial × factor^(n-1), n counting entries, at most max, then ± jitter.
    const DelayPolicy& delay = node.settings->delay;
    double wait = static_cast<double>(delay.initial.count()) *
                  std::pow(delay.factor, life_.entries[node.id] - 1);
    wait = std::min(wait, static_cast<double>(delay.max.count()));
    stand.earliest = After(now_, Duration(static_cast<int64_t>(wait * (1 - delay.jitter))));
    stand.latest = After(now_, Duration(static_cast<int64_t>(wait * (1 + delay.jitter)) + 1));
  }
  life_.stands.clear();
  life_.stands[visit] = stand;
  life_.expected[told].enters = visit;
  if (node.kind != NodeKind::kFinal) return;
  if (life_.cancel_requested) return StopCancelled();
  const InstanceResult results[] = {InstanceResult::kSuccess, InstanceResult::kWarning,
                                    InstanceResult::kError};
  Stop(results[static_cast<size_t>(node.result)], node.id, visit);
}

// Claims -----------------------------------------------------------------------------------------

void MachineRules::Claim(Stand& stand, Claimed claim) {
  claim.attempt = ++stand.attempts;
  claim.retry = stand.TimedOutBefore();
  stand.state = TokenState::kClaimed;
  Expected& told = Tell(ChangeKind::kClaimed);
  told.event.node = stand.node;
  told.event.visit = stand.visit;
  told.event.attempt = claim.attempt;
  told.claim = claim.id;
  stand.claims.push_back(claim);
}

void MachineRules::Free(Stand& stand) {
  if (stand.state != TokenState::kClaimed || stand.HasLive()) return;
  stand.state = TokenState::kReady;
  stand.ready_at = stand.ready_by = now_;
}

void MachineRules::GiveBack(Stand& stand, Claimed& claim) {
  claim.given_back = true;
  Expected& told = Tell(ChangeKind::kRelinquished);
  told.event.node = stand.node;
  told.event.visit = stand.visit;
  told.event.attempt = claim.attempt;
  told.claim = claim.id;
}

// A task that never reached its worker was never claimed: its attempt is free again, if it is still
// the last.
void MachineRules::Unclaim(Stand& stand, ClaimId id, bool told) {
  const auto claim = std::ranges::find(stand.claims, id, &Claimed::id);
  if (claim == stand.claims.end() || claim->given_back) return;
  if (claim->attempt == stand.attempts) --stand.attempts;
  if (told) {
    GiveBack(stand, *claim);
  } else {
    std::erase_if(life_.expected, [&](const Expected& one) { return one.claim == id; });
    stand.claims.erase(claim);
  }
  Free(stand);
  StopIfCancelled();
}

Stand* MachineRules::Held(const Shown& claim) {
  if (!claim.known || life_.Stopped()) return nullptr;
  const auto at = life_.stands.find(claim.visit);
  if (at == life_.stands.end()) return nullptr;
  for (const Claimed& one : at->second.claims) {
    if (one.id == claim.id) return one.given_back ? nullptr : &at->second;
  }
  return at->second.lost.contains(claim.id) ? &at->second : nullptr;
}

// A claim that a crash took from the server's memory counts from now on.
Claimed* MachineRules::Recover(Stand& stand, ClaimId id) {
  for (Claimed& one : stand.claims) {
    if (one.id == id) return &one;
  }
  stand.lost.erase(id);
  Claimed claim;
  claim.id = id;
  claim.attempt = ++stand.attempts;
  Expected& told = Tell(ChangeKind::kClaimed);
  told.event.node = stand.node;
  told.event.visit = stand.visit;
  told.event.attempt = claim.attempt;
  told.claim = id;
  stand.claims.push_back(claim);
  return &stand.claims.back();
}

// Every attempt that somebody else's report cuts short lasted at least until now.
void MachineRules::Abandoned(const Stand& stand, ClaimId winner, std::vector<Lasted>* samples) {
  for (const Claimed& claim : stand.claims) {
    if (!claim.Live() || claim.id == winner) continue;
    samples->push_back(
        {stand.node, claim.id, std::nullopt, /*censored=*/true, claim.outlasted, claim.retry});
  }
}

// Calls ------------------------------------------------------------------------------------------

Reason MachineRules::Report(const Shown& claim, const ReportArgs& args, Answer* answer) {
  Stand* at = nullptr;
  if (claim.given) {
    const auto before = life_.answers.find(claim.id);
    if (claim.known && before != life_.answers.end() &&
        before->second.transition == args.transition) {
      *answer = before->second;
      answer->repeated = true;
      return Reason::kNone;
    }
    at = Held(claim);
    if (!at) KeepLate(claim, args);
    if (!at) return Reason::kStaleClaim;
  } else {
    if (life_.Stopped()) return Reason::kInstanceStopped;
    if (!args.node.empty() && !NodeOf(args.node)) return Reason::kNoSuchNode;
    if (life_.stands.empty()) return Reason::kIllegalTransition;
    at = &life_.stands.begin()->second;
    if (!args.node.empty() && at->node != args.node) return Reason::kIllegalTransition;
  }
  if (args.fault) return args.fault->reason;
  bool chosen = false;
  const Stand before = *at;
  const size_t stays = life_.expected.size();
  if (args.transition == "error" && IsWork(before) && Fail(before, args)) {
    answer->nodes = {before.node};
    Reported(claim, args, before, stays, answer);
    return Reason::kNone;
  }
  const Edge* edge = args.transition.starts_with("dfsmr.")
                         ? nullptr
                         : EdgeOf(*NodeOf(at->node), args.transition, args.params, &chosen);
  if (!edge) return Reason::kIllegalTransition;
  const Stand left = *at;
  const size_t first = life_.expected.size();
  const std::string to = machine_.nodes[edge->targets.front()].id;
  Follow(left, to, left.node, args.transition, args.params);
  TellChoice(first, to, chosen);
  for (size_t i = first; i < life_.expected.size(); ++i) {
    const Event& event = life_.expected[i].event;
    if (event.kind == ChangeKind::kTransitioned) answer->nodes = {event.node};
  }
  if (life_.stuck && !life_.Stopped()) {  // what was held has moved
    life_.stuck = false;
    life_.state = InstanceState::kRunning;
    Expected& resumed = Tell(ChangeKind::kResumed);
    resumed.event.node = life_.Where();
    resumed.event.visit = life_.Visit();
  }
  Reported(claim, args, left, first, answer);
  return Reason::kNone;
}

// What all reports have in common; `first`: what the feed tells of it first.
void MachineRules::Reported(const Shown& claim, const ReportArgs& args, const Stand& left,
                            size_t first, Answer* answer) {
  answer->claim = claim.id;
  answer->transition = args.transition;
  answer->prev_node = left.node;
  answer->visit = life_.expected[first].event.visit;
  StopIfCancelled();
  answer->state = life_.state;
  answer->result = life_.result;
  answer->started = args.started;
  Expected& told = life_.expected[first];
  told.event.left_visit = left.visit;
  for (const Claimed& one : left.claims) {
    if (!claim.given || one.id != claim.id) continue;
    told.event.attempt = one.attempt;
    told.samples.push_back({left.node, one.id, std::nullopt, false, one.outlasted, one.retry});
  }
  Abandoned(left, claim.id, &told.samples);
  if (claim.given) {
    told.event.answer = *answer;
    life_.answers[claim.id] = *answer;
  }
}

bool MachineRules::IsWork(const Stand& stand) const {
  return NodeOf(stand.node)->kind == NodeKind::kWork;
}

bool MachineRules::Fail(const Stand& left, const ReportArgs& args) {
  const Node& node = *NodeOf(left.node);
  const RetryPolicy& retry = node.settings->retry;
  bool listed = false;
  for (const Edge& edge : node.transitions) listed = listed || edge.transition == "error";
  // The kinds that are drawn are words, and no text holds them.
  bool meant = retry.on.empty();
  for (const std::string& on : retry.on) {
    meant = meant || on == args.error_kind || (on == "transient" && args.error_kind == "unclaimed");
  }
  const bool tries =
      listed && meant && !args.fatal && !life_.cancel_requested && left.tries + 1 < retry.limit;
  const bool holds = !listed && !args.error_kind.empty() && left.state != TokenState::kHeld;
  if (!tries && !holds) return false;
  Stand stand;
  stand.node = left.node;
  stand.visit = ++life_.last_visit;
  stand.params = left.params;
  stand.tries = left.tries + 1;
  stand.since = stand.ready_at = stand.ready_by = now_;
  stand.earliest = stand.latest = kNever;
  stand.state = tries ? TokenState::kReady : TokenState::kHeld;
  if (tries) {
    double wait = static_cast<double>(retry.delay.initial.count()) *
                  std::pow(retry.delay.factor, stand.tries - 1);
    wait = std::min(wait, static_cast<double>(retry.delay.max.count()));
    double share = retry.delay.jitter;
    if (args.retry_after) wait = static_cast<double>(args.retry_after->count()), share = 0;
    if (wait > 0) {
      stand.state = TokenState::kWaiting;
      stand.earliest = After(now_, Duration(static_cast<int64_t>(wait * (1 - share))));
      stand.latest = After(now_, Duration(static_cast<int64_t>(wait * (1 + share)) + 1));
    }
  }
  Expected& told = Tell(ChangeKind::kTransitioned);
  told.event.prev_node = told.event.node = left.node;
  told.event.transition = "error";
  told.event.visit = stand.visit;
  told.event.params = args.params;
  told.event.left_visit = left.visit;
  told.enters = stand.visit;
  life_.stands.clear();
  life_.stands[stand.visit] = stand;
  if (tries || life_.cancel_requested || life_.state == InstanceState::kPaused) return true;
  life_.state = InstanceState::kPaused;
  life_.stuck = true;
  Expected& paused = Tell(ChangeKind::kPaused);
  paused.event.node = left.node;
  paused.event.visit = stand.visit;
  return true;
}

void MachineRules::MakeReady(Stand& stand, Timestamp by) {
  if (stand.state != TokenState::kWaiting || !IsWork(stand) || stand.earliest > by) return;
  stand.state = TokenState::kReady;
  stand.again = true;
  stand.ready_at = stand.earliest;
  stand.ready_by = now_;
}

void MachineRules::Unclaimed(Stand& stand) {
  ReportArgs args{.transition = "error", .error_kind = "unclaimed"};
  const Stand left = stand;
  const size_t first = life_.expected.size();
  if (!Fail(left, args)) {
    bool chosen = false;
    const Edge& edge = *EdgeOf(*NodeOf(left.node), "error", "", &chosen);
    Follow(left, machine_.nodes[edge.targets.front()].id, left.node, "error", "");
  }
  StopIfCancelled();
  life_.expected[first].event.left_visit = left.visit;
  Abandoned(left, {}, &life_.expected[first].samples);
}

// Of a visit that a resume would go on with, the first is kept.
void MachineRules::KeepLate(const Shown& claim, const ReportArgs& args) {
  const auto left = life_.left.find(claim.visit);
  if (!claim.known || !life_.resumable || !life_.keeps_late || left == life_.left.end()) return;
  Stand& stand = left->second;
  const auto listed = std::ranges::find(stand.claims, claim.id, &Claimed::id);
  const bool known = listed != stand.claims.end();
  if (known ? listed->given_back : !stand.lost.contains(claim.id)) return;
  if (stand.late || args.fault || args.transition.starts_with("dfsmr.")) return;
  const auto names = [&](const Edge& edge) { return edge.transition == args.transition; };
  const bool known_edge = std::ranges::any_of(NodeOf(stand.node)->transitions, names);
  const bool holds = IsWork(stand) && stand.state != TokenState::kHeld &&
                     args.transition == "error" && !args.error_kind.empty();
  if (!known_edge && !holds) return;
  stand.late = args;
  Expected& told = Tell(ChangeKind::kLate);
  told.event.node = stand.node;
  told.event.visit = stand.visit;
  told.event.transition = args.transition;
  told.event.attempt = known ? listed->attempt : 0;
}

Reason MachineRules::Continue(const std::string& node, bool force,
                              std::vector<ReportArgs>* late) {
  if (!life_.resumable) return Reason::kInstanceStopped;
  if (!node.empty() && !NodeOf(node)) return Reason::kNoSuchNode;
  const auto there = [&](const auto& one) { return one.second.node == node; };
  if (!node.empty() && std::ranges::none_of(life_.left, there)) return Reason::kNotHeld;
  life_.resumable = life_.cancel_requested = life_.hold = false;
  life_.result = InstanceResult::kPending;
  life_.stands = std::exchange(life_.left, {});
  const size_t first = life_.expected.size();
  Tell(ChangeKind::kResumed);
  if (life_.stands.empty()) {  // it never began
    life_.after.clear();
    life_.start_at = {};
    if (life_.start_before <= now_) life_.start_before = kNever;
    Begin();
    return Reason::kNone;
  }
  life_.state = InstanceState::kRunning;
  life_.expected[first].event.node = node.empty() ? life_.Where() : node;
  life_.expected[first].event.visit = life_.Visit();
  for (auto& [visit, stand] : life_.stands) GoOn(stand, force, first, late);
  const Stand at = life_.stands.begin()->second;
  if (at.state != TokenState::kDone) return Reason::kNone;
  const InstanceResult results[] = {InstanceResult::kSuccess, InstanceResult::kWarning,
                                    InstanceResult::kError};
  Stop(results[static_cast<size_t>(NodeOf(at.node)->result)], at.node, at.visit);
  return Reason::kNone;
}

void MachineRules::GoOn(Stand& stand, bool force, size_t told, std::vector<ReportArgs>* late) {
  if (NodeOf(stand.node)->kind != NodeKind::kWork) return;
  for (Claimed& claim : stand.claims) {
    if (std::exchange(claim.untold, false)) GiveBack(stand, claim);
  }
  if (force) {
    for (Claimed& claim : stand.claims) {
      if (!claim.given_back) GiveBack(stand, claim);
    }
    stand.lost.clear();
    stand.late.reset();
  }
  if (stand.late) {
    late->push_back(*stand.late);
    life_.claimed_at.erase(stand.late->claim.id);  // the time in between does not count
    stand.late.reset();
    return;
  }
  if (stand.state == TokenState::kClaimed && stand.HasLive()) return;
  stand.state = TokenState::kReady;
  stand.tries = 0;
  stand.again = false;
  life_.expected[told].enters = stand.visit;
}

void MachineRules::Follow(Stand, const std::string& to, const std::string& prev,
                          const std::string& transition, const std::string& params) {
  Enter(to, prev, transition, params, /*announce=*/true);
}

Reason MachineRules::Relinquish(const Shown& claim, std::string* node) {
  if (!claim.given) {
    if (life_.Stopped()) return Reason::kInstanceStopped;
    *node = life_.Where();
    for (auto& [visit, stand] : life_.stands) {
      if (stand.state != TokenState::kReady && stand.state != TokenState::kClaimed) continue;
      stand.lost.clear();
      for (Claimed& one : stand.claims) {
        if (!one.given_back) GiveBack(stand, one);
      }
      Free(stand);
    }
    StopIfCancelled();
    return Reason::kNone;
  }
  Stand* stand = Held(claim);
  const auto left = life_.left.find(claim.visit);
  if (!stand && claim.known && life_.resumable && left != life_.left.end()) {
    for (Claimed& one : left->second.claims) {
      const bool reported = left->second.late && left->second.late->claim.id == one.id;
      if (one.id != claim.id || one.given_back || reported) continue;
      one.given_back = one.untold = true;
    }
  }
  if (!stand) return Reason::kStaleClaim;
  *node = stand->node;
  GiveBack(*stand, *Recover(*stand, claim.id));
  Free(*stand);
  StopIfCancelled();
  return Reason::kNone;
}

// `deadline`: what was asked for. It never shortens, and brings a timed-out claim back to life.
Reason MachineRules::Extend(const Shown& claim, Timestamp* deadline, bool by_given,
                            Timestamp answered) {
  Stand* stand = Held(claim);
  if (!stand) return Reason::kStaleClaim;
  bool known = false;
  for (const Claimed& one : stand->claims) known = known || one.id == claim.id;
  Claimed& one = *Recover(*stand, claim.id);
  // Without `by` it is the node's timeout now, which the model does not predict.
  const Timestamp asked = by_given ? *deadline : answered;
  // Up to 30 s after run_timeout a claim may be extended; when it was made the feed has told.
  const Duration run = NodeOf(stand->node)->settings->bounds.run_timeout;
  const auto made = life_.claimed_at.find(claim.id);
  if (run > Duration() && made != life_.claimed_at.end()) {
    const Timestamp last = made->second + run + std::chrono::seconds(30);
    const bool over = answered != kNever && answered != one.deadline &&
                      answered > last + std::chrono::milliseconds(10);
    if (over) return Reason::kNone;  // the caller finds it wrong
    const bool spent = one.timed_out && last <= now_ + std::chrono::milliseconds(10);
    if (spent && answered == one.deadline) {
      *deadline = answered;
      return Reason::kNone;
    }
  }
  if (run > Duration()) {  // what is asked for may be cut short
    *deadline = answered;
    if (!known || one.timed_out || one.deadline == kNever) one.deadline = answered;
    if (one.deadline != kNever) one.deadline = std::max(one.deadline, answered);
    one.timed_out = false;
    stand->state = TokenState::kClaimed;
    return Reason::kNone;
  }
  if (!known || one.timed_out) one.deadline = asked;
  one.timed_out = false;
  if (one.deadline != kNever) one.deadline = std::max(one.deadline, asked);
  *deadline = one.deadline;
  stand->state = TokenState::kClaimed;
  return Reason::kNone;
}

Reason MachineRules::Pause() {
  if (life_.Stopped()) return Reason::kInstanceStopped;
  if (life_.state == InstanceState::kPaused || life_.cancel_requested) return Reason::kNone;
  life_.state = InstanceState::kPaused;
  Expected& told = Tell(ChangeKind::kPaused);
  told.event.node = life_.Where();
  told.event.visit = life_.Visit();
  return Reason::kNone;
}

// `begins`: it is SCHEDULED and nothing holds it any more, so that it begins if it is due.
Reason MachineRules::Resume(const std::string& node, bool force, bool* begins) {
  if (life_.Stopped()) return Reason::kInstanceStopped;
  if (life_.cancel_requested) return Reason::kCancelling;
  if (!node.empty() && !NodeOf(node)) return Reason::kNoSuchNode;
  std::vector<uint64_t> again;
  for (const auto& [visit, stand] : life_.stands) {
    if (!node.empty() && stand.node != node) continue;
    if (force && stand.state == TokenState::kClaimed) again.push_back(visit);
    if (stand.state == TokenState::kHeld) again.push_back(visit);
  }
  if (!node.empty() && again.empty()) return Reason::kNotHeld;
  const bool paused = life_.state == InstanceState::kPaused && (node.empty() || life_.stuck);
  if (!life_.hold && !paused && again.empty()) return Reason::kNone;
  if (paused) {
    life_.state = life_.stands.empty() ? InstanceState::kScheduled : InstanceState::kRunning;
  }
  // What was held, and paused, is held again. A call that names a node takes neither away.
  if (!paused && node.empty()) life_.hold = false;
  if (paused) life_.stuck = false;
  for (auto& [visit, stand] : life_.stands) stand.ready_at = stand.ready_by = now_;
  Expected& told = Tell(ChangeKind::kResumed);
  told.event.node = node.empty() ? life_.Where() : node;
  told.event.visit = life_.Visit();
  for (uint64_t visit : again) {
    Stand& stand = life_.stands.at(visit);
    if (stand.state == TokenState::kHeld) {
      OfferAgain(Stand(stand));
      continue;
    }
    stand.lost.clear();
    for (Claimed& one : stand.claims) {
      if (!one.given_back) GiveBack(stand, one);
    }
    Free(stand);
  }
  *begins = life_.state == InstanceState::kScheduled;
  return Reason::kNone;
}

void MachineRules::OfferAgain(const Stand& held) {
  Stand stand;
  stand.node = held.node;
  stand.params = held.params;
  stand.visit = ++life_.last_visit;
  stand.state = TokenState::kReady;
  stand.since = stand.ready_at = stand.ready_by = now_;
  stand.earliest = stand.latest = kNever;
  Expected& told = Tell(ChangeKind::kTransitioned);
  told.event.prev_node = told.event.node = held.node;
  told.event.transition = "retry";
  told.event.visit = stand.visit;
  told.event.left_visit = held.visit;
  told.enters = stand.visit;
  life_.stands.clear();
  life_.stands[stand.visit] = stand;
}

Reason MachineRules::Skip(const std::string& node) {
  if (life_.Stopped()) return Reason::kInstanceStopped;
  if (!node.empty() && !NodeOf(node)) return Reason::kNoSuchNode;
  return Reason::kNotHeld;  // only steps of plans are
}

Reason MachineRules::Cancel(CancelMode mode) {
  if (life_.Stopped()) {
    return life_.result == InstanceResult::kCancelled ? Reason::kNone : Reason::kInstanceStopped;
  }
  life_.cancel_requested = true;
  if (mode != CancelMode::kCancel) {
    StopCancelled();
  } else {
    StopIfCancelled();
  }
  if (life_.Stopped() || life_.state != InstanceState::kPaused) return Reason::kNone;
  life_.state = InstanceState::kRunning;  // whoever has work in hand has to be told
  Expected& told = Tell(ChangeKind::kResumed);
  told.event.node = life_.Where();
  told.event.visit = life_.Visit();
  return Reason::kNone;
}

// By itself --------------------------------------------------------------------------------------

void MachineRules::TimeOut(Stand& stand, Claimed& claim) {
  claim.timed_out = true;
  Expected& told = Tell(ChangeKind::kTimedOut);
  told.event.prev_node = stand.node;
  told.event.node = kTimeoutNode;
  told.event.visit = stand.visit;
  told.event.attempt = claim.attempt;
  told.samples.push_back(
      {stand.node, claim.id, claim.deadline, /*censored=*/true, claim.outlasted, claim.retry});
  claim.outlasted = claim.deadline;
  const Edge* diverts = nullptr;
  for (const Edge& edge : NodeOf(stand.node)->transitions) {
    if (edge.transition == kTimeoutNode) diverts = &edge;
  }
  if (diverts) {
    Abandoned(stand, claim.id, &told.samples);
    const Stand left = stand;
    Follow(left, machine_.nodes[diverts->targets.front()].id, std::string(kTimeoutNode),
           std::string(kTimeoutNode), left.params);
  } else {
    Free(stand);
  }
  StopIfCancelled();
}

void MachineRules::EndWait(Stand& stand) {
  const Stand left = stand;
  bool chosen = false;
  const Edge& edge = *EdgeOf(*NodeOf(left.node), "ok", left.params, &chosen);
  const size_t first = life_.expected.size();
  const std::string to = machine_.nodes[edge.targets.front()].id;
  Follow(left, to, left.node, "ok", left.params);
  TellChoice(first, to, chosen);
  life_.expected[first].event.left_visit = left.visit;
}

// Paused instances are moved and stay paused, scheduled ones start on the new version.
void MachineRules::Upgrade(const Machine& next, uint32_t version) {
  const std::string from = life_.Where();
  const uint64_t visit = life_.Visit();
  life_.version = version;
  life_.entries.clear();  // an upgrade starts the count anew
  life_.stuck = false;    // it stays paused, though nothing is held any more
  Expected& told = Tell(ChangeKind::kUpgraded);
  told.event.prev_node = from;
  told.event.node = kUpgradedNode;
  told.event.visit = visit;
  for (const auto& [number, stand] : life_.stands) Abandoned(stand, {}, &told.samples);
  if (life_.stands.empty()) return;
  if (life_.state != InstanceState::kPaused) life_.state = InstanceState::kRunning;
  MachineRules on_next(next, life_, now_);
  on_next.Enter(next.nodes[next.start].id, std::string(kUpgradedNode), std::string(kUpgradedNode),
                "", /*announce=*/true);
  on_next.StopIfCancelled();
}

void MachineRules::Abort() {
  if (life_.cancel_requested) return StopCancelled();
  Expected& told = Tell(ChangeKind::kAborted);
  told.event.prev_node = life_.Where();
  told.event.node = kAbortedNode;
  told.event.visit = life_.Visit();
  for (const auto& [number, stand] : life_.stands) Abandoned(stand, {}, &told.samples);
  Stop(InstanceResult::kAborted, std::string(kAbortedNode), life_.last_visit);
}

}  // namespace dfsmr::model
