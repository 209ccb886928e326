// Calls for one instance, and what they may be refused for.
#include <algorithm>

#include "tests/sim/model/machine_rules.h"

namespace dfsmr::model {

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
    at = life_.Only();
    if (!at || (!args.node.empty() && at->node != args.node)) return Reason::kIllegalTransition;
  }
  if (args.fault) return args.fault->reason;
  bool chosen = false;
  const Stand left = *at;
  const size_t first = life_.expected.size();
  if (args.transition == "error" && IsWork(left) && Fail(left, args)) {
    answer->nodes = {left.node};
    Reported(claim, args, left, first, answer);
    return Reason::kNone;
  }
  const Edge* edge = args.transition.starts_with("dfsmr.")
                         ? nullptr
                         : EdgeOf(*NodeOf(left.node), args.transition, args.params, &chosen);
  if (!edge) return Reason::kIllegalTransition;
  const std::string to = machine_.nodes[edge->targets.front()].id;
  Enter(to, left.node, args.transition, args.params);
  TellChoice(first, to, chosen);
  for (size_t i = first; i < life_.expected.size(); ++i) {
    const Event& event = life_.expected[i].event;
    if (event.kind == ChangeKind::kTransitioned) answer->nodes = {event.node};
  }
  if (life_.stuck && !life_.Stopped()) {  // what was held has moved
    life_.stuck = false;
    life_.state = InstanceState::kRunning;
    Tell(ChangeKind::kResumed, life_.Where(), life_.Visit());
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
    told.client = args.client.empty() ? one.worker : args.client;
    told.samples.push_back({left.node, one.id, std::nullopt, false, one.outlasted, one.retry});
  }
  Abandoned(left, claim.id, &told.samples);
  if (claim.given) {
    told.event.answer = *answer;
    life_.answers[claim.id] = *answer;
  }
}

// Of a visit that a resume would go on with, the first is kept.
void MachineRules::KeepLate(const Shown& claim, const ReportArgs& args) {
  const auto left = life_.left.find(claim.visit);
  if (!claim.known || !life_.resumable || !life_.keeps_late || left == life_.left.end()) return;
  Stand& stand = left->second;
  const Claimed* const listed = stand.Find(claim.id);
  if (listed ? listed->given_back : !stand.lost.contains(claim.id)) return;
  if (stand.late || args.fault || args.transition.starts_with("dfsmr.")) return;
  const auto names = [&](const Edge& edge) { return edge.transition == args.transition; };
  const bool known_edge = std::ranges::any_of(NodeOf(stand.node)->transitions, names);
  const bool holds = IsWork(stand) && stand.state != TokenState::kHeld &&
                     args.transition == "error" && !args.error_kind.empty();
  if (!known_edge && !holds) return;
  stand.late = args;
  Expected& told = Tell(ChangeKind::kLate, stand.node, stand.visit);
  told.event.transition = args.transition;
  told.event.attempt = listed ? listed->attempt : 0;
}

Reason MachineRules::Continue(const std::string& node, bool force,
                              std::vector<ReportArgs>* late) {
  if (!life_.resumable) return Reason::kInstanceStopped;
  if (!node.empty() && !NodeOf(node)) return Reason::kNoSuchNode;
  const bool there = !life_.left.empty() && life_.left.begin()->second.node == node;
  if (!node.empty() && !there) return Reason::kNotHeld;
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
  GoOn(*life_.Only(), force, first, late);
  const Stand at = *life_.Only();
  if (at.state != TokenState::kDone) return Reason::kNone;
  Stop(ResultOf(*NodeOf(at.node)), at.node, at.visit);
  return Reason::kNone;
}

void MachineRules::GoOn(Stand& stand, bool force, size_t told, std::vector<ReportArgs>* late) {
  if (NodeOf(stand.node)->kind != NodeKind::kWork) return;
  for (Claimed& claim : stand.claims) {
    if (std::exchange(claim.untold, false)) GiveBack(stand, claim);
  }
  if (force) {
    TakeAllBack(stand);
    stand.late.reset();
  }
  stand.tries = 0;
  if (stand.late) {
    late->push_back(*stand.late);
    life_.claimed_at.erase(stand.late->claim.id);  // the time in between does not count
    stand.late.reset();
    return;
  }
  if (stand.state == TokenState::kClaimed && stand.HasLive()) return;
  stand.state = TokenState::kReady;
  stand.again = false;
  life_.expected[told].enters = stand.visit;
}

Reason MachineRules::Relinquish(const Shown& claim, std::string* node) {
  if (!claim.given) {
    if (life_.Stopped()) return Reason::kInstanceStopped;
    *node = life_.Where();
    Stand* const at = life_.Only();
    if (at && (at->state == TokenState::kReady || at->state == TokenState::kClaimed)) {
      TakeAllBack(*at);
      Free(*at);
    }
    StopIfCancelled();
    return Reason::kNone;
  }
  Stand* stand = Held(claim);
  const auto left = life_.left.find(claim.visit);
  if (!stand && claim.known && life_.resumable && left != life_.left.end()) {
    Claimed* const one = left->second.Find(claim.id);
    const bool reported = left->second.late && left->second.late->claim.id == claim.id;
    if (one && !one->given_back && !reported) one->given_back = one->untold = true;
  }
  if (!stand) return Reason::kStaleClaim;
  *node = stand->node;
  GiveBack(*stand, *Recover(*stand, claim.id));
  Free(*stand);
  StopIfCancelled();
  return Reason::kNone;
}

// `deadline`: what was asked for. It never shortens, and brings a timed-out claim back to life. Up
// to 30 s after run_timeout a claim may be extended, and what is asked for is cut short there.
// Without `by` it is the node's timeout now.
Reason MachineRules::Extend(const Shown& claim, Timestamp* deadline, bool by_given,
                            Timestamp answered) {
  Stand* stand = Held(claim);
  if (!stand) return Reason::kStaleClaim;
  const bool known = stand->Find(claim.id) != nullptr;
  Claimed& one = *Recover(*stand, claim.id);
  const Duration run = NodeOf(stand->node)->settings->bounds.run_timeout;
  const auto made = life_.claimed_at.find(claim.id);  // as the feed has told
  if (run > Duration() && made != life_.claimed_at.end()) {
    const Timestamp last = made->second + run + std::chrono::seconds(30);
    const bool same = answered == one.deadline;
    const bool late = answered != kNever && answered > last + kSlack;
    if (!same && late) return Reason::kNone;  // the caller finds it wrong
    const bool spent = one.timed_out && last <= now_ + kSlack;
    if (spent && same) *deadline = answered;
    if (spent && same) return Reason::kNone;
  }
  const Timestamp asked = by_given && run == Duration() ? *deadline : answered;
  const bool none = run > Duration() && one.deadline == kNever;
  if (!known || one.timed_out || none) one.deadline = asked;
  one.timed_out = false;
  if (one.deadline != kNever) one.deadline = std::max(one.deadline, asked);
  *deadline = run > Duration() ? answered : one.deadline;
  stand->state = TokenState::kClaimed;
  return Reason::kNone;
}

Reason MachineRules::Pause() {
  if (life_.Stopped()) return Reason::kInstanceStopped;
  if (life_.state == InstanceState::kPaused || life_.cancel_requested) return Reason::kNone;
  life_.state = InstanceState::kPaused;
  Tell(ChangeKind::kPaused, life_.Where(), life_.Visit());
  return Reason::kNone;
}

// `begins`: it is SCHEDULED and nothing holds it any more, so that it begins if it is due.
Reason MachineRules::Resume(const std::string& node, bool force, bool* begins) {
  if (life_.Stopped()) return Reason::kInstanceStopped;
  if (life_.cancel_requested) return Reason::kCancelling;
  if (!node.empty() && !NodeOf(node)) return Reason::kNoSuchNode;
  Stand* const at = life_.Only();
  const bool meant = at && (node.empty() || at->node == node);
  const bool frees = meant && force && at->state == TokenState::kClaimed;
  const bool retries = meant && at->state == TokenState::kHeld;
  if (!node.empty() && !frees && !retries) return Reason::kNotHeld;
  const bool paused = life_.state == InstanceState::kPaused && (node.empty() || life_.stuck);
  if (!life_.hold && !paused && !frees && !retries) return Reason::kNone;
  if (paused) {
    life_.state = life_.stands.empty() ? InstanceState::kScheduled : InstanceState::kRunning;
  }
  // What was held, and paused, is held again. A call that names a node takes neither away.
  if (!paused && node.empty()) life_.hold = false;
  if (paused) life_.stuck = false;
  if (at) at->ready_at = at->ready_by = now_;
  Tell(ChangeKind::kResumed, node.empty() ? life_.Where() : node, life_.Visit());
  if (frees) {
    TakeAllBack(*at);
    Free(*at);
  } else if (retries) {
    const Stand held = *at;
    Stay(held, At(held.node, ++life_.last_visit, held.params), "retry");
  }
  *begins = life_.state == InstanceState::kScheduled;
  return Reason::kNone;
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
  mode == CancelMode::kCancel ? StopIfCancelled() : StopCancelled();
  if (life_.Stopped() || life_.state != InstanceState::kPaused) return Reason::kNone;
  life_.state = InstanceState::kRunning;  // whoever has work in hand has to be told
  Tell(ChangeKind::kResumed, life_.Where(), life_.Visit());
  return Reason::kNone;
}

}  // namespace dfsmr::model
