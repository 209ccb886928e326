#include "tests/sim/model/machine_rules.h"

#include <algorithm>
#include <cmath>

#include "fsm/base/json.h"
#include "fsm/condition/condition.h"

namespace dfsmr::model {

const Node* MachineRules::NodeOf(const std::string& name) const {
  const auto node = std::ranges::find(machine_.nodes, name, &Node::id);
  return node == machine_.nodes.end() ? nullptr : &*node;
}

Expected& MachineRules::Tell(ChangeKind kind, const std::string& node, uint64_t visit) {
  Expected& expected = life_.expected.emplace_back();
  expected.event.kind = kind;
  expected.event.instance = life_.id;
  expected.event.machine = life_.machine;
  expected.event.version = life_.version;
  expected.event.node = node;
  expected.event.visit = visit;
  return expected;
}

Expected& MachineRules::TellOf(ChangeKind kind, const Stand& stand, const Claimed& claim) {
  Expected& told = Tell(kind, stand.node, stand.visit);
  told.event.attempt = claim.attempt;
  told.claim = claim.id;
  return told;
}

// Where it comes to stand now, and nowhere else.
Stand MachineRules::At(const std::string& node, uint64_t visit, const std::string& params) const {
  Stand stand;
  stand.node = node;
  stand.visit = visit;
  stand.params = params;
  stand.since = stand.ready_at = stand.ready_by = now_;
  stand.earliest = stand.latest = kNever;
  const Node* const at = NodeOf(node);
  stand.state = !at || at->kind == NodeKind::kFinal ? TokenState::kDone
                : at->kind == NodeKind::kWork       ? TokenState::kReady
                                                    : TokenState::kWaiting;
  return stand;
}

void MachineRules::Put(const Stand& stand) {
  life_.stands.clear();
  life_.stands[stand.visit] = stand;
}

// initial × factor^(n-1), at most max, then ± jitter.
std::pair<Duration, Duration> MachineRules::SpanOf(const DelayPolicy& delay, uint32_t n) {
  double wait = static_cast<double>(delay.initial.count()) * std::pow(delay.factor, n - 1);
  wait = std::min(wait, static_cast<double>(delay.max.count()));
  return {Duration(static_cast<int64_t>(wait * (1 - delay.jitter))),
          Duration(static_cast<int64_t>(wait * (1 + delay.jitter)) + 1)};
}

void MachineRules::Wait(Stand& stand, const DelayPolicy& delay, uint32_t n) const {
  const auto [least, most] = SpanOf(delay, n);
  stand.earliest = After(now_, least);
  stand.latest = After(now_, most);
}

InstanceResult MachineRules::ResultOf(const Node& node) {
  const InstanceResult results[] = {InstanceResult::kSuccess, InstanceResult::kWarning,
                                    InstanceResult::kError};
  return results[static_cast<size_t>(node.result)];
}

// Beginning and ending ---------------------------------------------------------------------------

void MachineRules::Begin() {
  life_.state = InstanceState::kRunning;
  life_.hold = false;
  const std::string start = machine_.nodes[machine_.start].id;
  Tell(ChangeKind::kStarted, start, life_.last_visit + 1);
  Enter(start, "", "", "", /*announce=*/false);
}

void MachineRules::Schedule() {
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
    Stand& stand = life_.stands[visit] = At(node, visit, "");
    stand.state = TokenState::kDone;
  }
  Tell(ChangeKind::kFinished, node, visit).event.note = Name(result);
}

void MachineRules::StopCancelled() {
  const std::string from = life_.Where();
  Tell(ChangeKind::kCancelled, std::string(kCancelledNode), life_.Visit()).event.prev_node = from;
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
      Expected& told = Tell(ChangeKind::kTransitioned, node, visit);
      told.event.prev_node = from;
      told.event.transition = by;
      told.event.params = params;
    }
    announce = true;
    const Node& at = *NodeOf(node);
    const uint32_t most = at.settings->max_visits;
    if (most == 0 || life_.entries[node] < most) break;
    if (hops > machine_.nodes.size()) {  // all of them point at each other
      if (life_.cancel_requested) {
        if (!life_.stands.empty()) StandAnew(life_.Only()->node, visit);
        return StopCancelled();
      }
      return Stop(InstanceResult::kError, node, visit);
    }
    from = at.id;
    by = std::string(kExhausted);
    node = machine_.nodes[EdgeOf(at, kExhausted, "")->targets.front()].id;
  }
  Place(*NodeOf(node), visit, params, life_.expected.size() - 1);
}

// It has nowhere to go, and is cancelled: a resume would find it where it was.
void MachineRules::StandAnew(const std::string& node, uint64_t visit) {
  Stand stand = At(node, visit, "");
  if (NodeOf(node)->kind == NodeKind::kDelay) stand.earliest = now_;
  Put(stand);
}

void MachineRules::Place(const Node& node, uint64_t visit, const std::string& params, size_t told) {
  ++life_.entries[node.id];
  Stand stand = At(node.id, visit, params);
  if (node.kind == NodeKind::kDelay) Wait(stand, node.settings->delay, life_.entries[node.id]);
  Put(stand);
  life_.expected[told].enters = visit;
  if (node.kind != NodeKind::kFinal) return;
  if (life_.cancel_requested) return StopCancelled();
  Stop(ResultOf(node), node.id, visit);
}

// Claims -----------------------------------------------------------------------------------------

void MachineRules::Claim(Stand& stand, Claimed claim) {
  claim.attempt = ++stand.attempts;
  claim.retry = stand.TimedOutBefore();
  stand.state = TokenState::kClaimed;
  TellOf(ChangeKind::kClaimed, stand, claim).client = claim.worker;
  stand.claims.push_back(claim);
}

void MachineRules::Free(Stand& stand) {
  if (stand.state != TokenState::kClaimed || stand.HasLive()) return;
  stand.state = TokenState::kReady;
  stand.ready_at = stand.ready_by = now_;
}

void MachineRules::GiveBack(Stand& stand, Claimed& claim) {
  claim.given_back = true;
  TellOf(ChangeKind::kRelinquished, stand, claim);
}

// Also from those whom a crash has made the server forget.
void MachineRules::TakeAllBack(Stand& stand) {
  stand.lost.clear();
  for (Claimed& claim : stand.claims) {
    if (!claim.given_back) GiveBack(stand, claim);
  }
}

// A task that never reached its worker was never claimed: its attempt is free again, if it is still
// the last.
void MachineRules::Unclaim(Stand& stand, ClaimId id, bool told) {
  Claimed* const claim = stand.Find(id);
  if (!claim || claim->given_back) return;
  if (claim->attempt == stand.attempts) --stand.attempts;
  if (told) {
    GiveBack(stand, *claim);
  } else {
    std::erase_if(life_.expected, [&](const Expected& one) { return one.claim == id; });
    std::erase_if(stand.claims, [&](const Claimed& one) { return one.id == id; });
  }
  Free(stand);
  StopIfCancelled();
}

Stand* MachineRules::Held(const Shown& claim) {
  if (!claim.known || life_.Stopped()) return nullptr;
  Stand* const stand = life_.At(claim.visit);
  if (!stand) return nullptr;
  const Claimed* const one = stand->Find(claim.id);
  return (one ? !one->given_back : stand->lost.contains(claim.id)) ? stand : nullptr;
}

// A claim that a crash took from the server's memory counts from now on.
Claimed* MachineRules::Recover(Stand& stand, ClaimId id) {
  if (Claimed* const known = stand.Find(id)) return known;
  stand.lost.erase(id);
  Claimed claim;
  claim.id = id;
  claim.attempt = ++stand.attempts;
  TellOf(ChangeKind::kClaimed, stand, claim);
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

// Failing ----------------------------------------------------------------------------------------

bool MachineRules::IsWork(const Stand& stand) const {
  return NodeOf(stand.node)->kind == NodeKind::kWork;
}

bool MachineRules::Fail(const Stand& left, const ReportArgs& args) {
  const Node& node = *NodeOf(left.node);
  const RetryPolicy& retry = node.settings->retry;
  const bool listed =
      std::ranges::find(node.transitions, "error", &Edge::transition) != node.transitions.end();
  const bool tries = listed && Meant(retry, args.error_kind) && !args.fatal &&
                     !life_.cancel_requested && left.tries + 1 < retry.limit;
  const bool holds = !listed && !args.error_kind.empty() && left.state != TokenState::kHeld;
  if (!tries && !holds) return false;
  Stand stand = At(left.node, ++life_.last_visit, left.params);
  stand.tries = left.tries + 1;
  stand.state = tries ? TokenState::kReady : TokenState::kHeld;
  DelayPolicy delay = retry.delay;
  if (args.retry_after) {
    delay.initial = delay.max = *args.retry_after;
    delay.jitter = 0;
  }
  if (tries && delay.initial > Duration()) {
    stand.state = TokenState::kWaiting;
    Wait(stand, delay, stand.tries);
  }
  Stay(left, stand, "error").event.params = args.params;
  if (tries || life_.cancel_requested || life_.state == InstanceState::kPaused) return true;
  life_.state = InstanceState::kPaused;
  life_.stuck = true;
  Tell(ChangeKind::kPaused, left.node, stand.visit);
  return true;
}

// The kinds that are drawn are words, and no text holds them.
bool MachineRules::Meant(const RetryPolicy& retry, const std::string& kind) {
  return retry.on.empty() || std::ranges::any_of(retry.on, [&](const std::string& on) {
           return on == kind || (on == "transient" && kind == "unclaimed");
         });
}

// It stays at its node, in a visit of its own.
Expected& MachineRules::Stay(const Stand& left, const Stand& stand, const std::string& by) {
  Expected& told = Tell(ChangeKind::kTransitioned, stand.node, stand.visit);
  told.event.prev_node = left.node;
  told.event.transition = by;
  told.event.left_visit = left.visit;
  told.enters = stand.visit;
  Put(stand);
  return told;
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
    Enter(machine_.nodes[edge.targets.front()].id, left.node, "error", "");
  }
  StopIfCancelled();
  life_.expected[first].event.left_visit = left.visit;
  Abandoned(left, {}, &life_.expected[first].samples);
}

// By itself --------------------------------------------------------------------------------------

void MachineRules::TimeOut(Stand& stand, Claimed& claim) {
  claim.timed_out = true;
  Expected& told = Tell(ChangeKind::kTimedOut, std::string(kTimeoutNode), stand.visit);
  told.event.prev_node = stand.node;
  told.event.attempt = claim.attempt;
  told.client = claim.worker;
  told.samples.push_back(
      {stand.node, claim.id, claim.deadline, /*censored=*/true, claim.outlasted, claim.retry});
  claim.outlasted = claim.deadline;
  if (const Edge* const diverts = EdgeOf(*NodeOf(stand.node), kTimeoutNode, "")) {
    Abandoned(stand, claim.id, &told.samples);
    Enter(machine_.nodes[diverts->targets.front()].id, std::string(kTimeoutNode),
          std::string(kTimeoutNode), std::string(stand.params));
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
  Enter(to, left.node, "ok", left.params);
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
  Expected& told = Tell(ChangeKind::kUpgraded, std::string(kUpgradedNode), visit);
  told.event.prev_node = from;
  if (life_.stands.empty()) return;
  Abandoned(*life_.Only(), {}, &told.samples);
  if (life_.state != InstanceState::kPaused) life_.state = InstanceState::kRunning;
  MachineRules on_next(next, life_, now_);
  on_next.Enter(next.nodes[next.start].id, std::string(kUpgradedNode), std::string(kUpgradedNode),
                "");
  on_next.StopIfCancelled();
}

void MachineRules::Abort() {
  if (life_.cancel_requested) return StopCancelled();
  Expected& told = Tell(ChangeKind::kAborted, std::string(kAbortedNode), life_.Visit());
  told.event.prev_node = life_.Where();
  for (const auto& [number, stand] : life_.stands) Abandoned(stand, {}, &told.samples);
  Stop(InstanceResult::kAborted, std::string(kAbortedNode), life_.last_visit);
}

}  // namespace dfsmr::model
