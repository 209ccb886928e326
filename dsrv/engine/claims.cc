#include "dsrv/engine/claims.h"

#include <algorithm>

namespace dfsmr {
namespace {

constexpr size_t kEndedClaims = 65'536;

}  // namespace

Result<std::string> Claims::Relinquish(const std::string& ns, const std::string& id,
                                       const std::string& claim, const std::string& client) {
  auto resident = changer_.Touch(ns, id);
  if (!resident) return resident.error();
  const Tokens& tokens = (*resident)->instance.tokens;
  ClaimId self;
  if (auto ref = rules::ParseClaim((*resident)->instance, claim)) {
    self = ref->id;
    const Token* token = tokens.Find(ref->visit);
    const Claim* one = token ? token->FindClaim(self) : nullptr;
    if (one && one->Live()) throttle_.GivenBack(*(*resident)->version->machine, *one);
  } else if (claim.empty()) {
    for (const Token& token : tokens) {
      for (const Claim& one : token.claims) {
        if (one.Live()) throttle_.GivenBack(*(*resident)->version->machine, one);
      }
    }
  }
  auto node = changer_.Apply(**resident, self, [&](Scene& scene) {
    scene.born_after = BornAfter(**resident, self);
    return rules::Relinquish(scene, claim, client);
  });
  if (node && claim.empty())
    residents_.MarkDirty(**resident);  // it may have voided what nobody knows of
  return node;
}

Timestamp Claims::NewDeadline(const Resident& resident, const Token* token,
                              std::optional<Duration> by) {
  if (by) return After(turn_.now(), *by);
  if (!token || !resident.graph->Has(token->node)) return kNever;
  const NodeState& counts = resident.StateOf(token->node);
  if (!counts.latency) return kNever;
  const TimeoutPolicy& policy = resident.machine().nodes[token->node].settings->timeout;
  auto timeout = counts.latency->Timeout(policy, token->TimedOutBefore(), counts.claimed);
  return timeout ? After(turn_.now(), *timeout) : kNever;
}

Extended Claims::Extend(const std::string& ns, const std::string& id, const std::string& text,
                        std::optional<Duration> by, double progress) {
  Extended extended;
  auto touched = changer_.Touch(ns, id);
  if (!touched) {
    extended.error = touched.error();
    return extended;
  }
  Resident& resident = **touched;
  const Instance& instance = resident.instance;
  auto ref = rules::ParseClaim(instance, text);
  const Token* token = ref ? instance.tokens.Find(ref->visit) : nullptr;
  const Timestamp deadline = NewDeadline(resident, token, by);
  auto outcome = changer_.Apply(resident, [&](Scene& scene) {
    if (ref) scene.born_after = BornAfter(resident, ref->id);
    return rules::Extend(scene, text, deadline, progress);
  });
  if (outcome) {
    residents_.MarkLazy(resident);
    extended.deadline = outcome->deadline;
    extended.cancel_requested = outcome->cancel_requested;
    return extended;
  }
  extended.error = outcome.error();
  extended.cancel_requested = instance.cancel_requested;
  extended.kill_requested = instance.killed;
  return extended;
}

void Claims::Undelivered(const std::vector<Task>& tasks, bool perhaps) {
  for (auto task = tasks.rbegin(); task != tasks.rend(); ++task) {
    auto touched = changer_.Touch(task->ns, task->instance);
    if (!touched) continue;
    Resident& resident = **touched;
    const Token* token = std::as_const(resident.instance.tokens).Find(task->visit);
    const Claim* claim = token ? token->FindClaim(task->claim_id) : nullptr;
    if (!claim || !claim->Live()) continue;
    if (/*mutant perhaps-given-back*/ perhaps && resident.machine().nodes[token->node].AtMostOnce() /*end*/) continue;
    throttle_.GivenBack(*resident.version->machine, *claim);
    const size_t told = resident.pending.size();
    std::erase_if(resident.pending, [&](const Event& event) {
      return event.kind == ChangeKind::kClaimed && event.visit == task->visit &&
             event.attempt == claim->attempt;
    });
    const bool unseen = resident.pending.size() < told;  // by the feed
    changer_.Apply(resident, task->claim_id, [&](Scene& scene) {
      rules::Unclaim(scene, task->visit, task->claim_id, /*told=*/!unseen);
      return Ok{};
    });
  }
}

void Claims::Abandon(const std::string& ns, const std::string& id, uint64_t visit, ClaimId which) {
  auto touched = changer_.Touch(ns, id);
  if (!touched) return;
  Resident& resident = **touched;
  const Token* token = std::as_const(resident.instance.tokens).Find(visit);
  const Claim* claim = token ? token->FindClaim(which) : nullptr;
  if (/*mutant closed-stream-gives-back*/ !claim || !claim->Live() ||
      resident.machine().nodes[token->node].AtMostOnce() /*end*/) {
    return;
  }
  throttle_.GivenBack(*resident.version->machine, *claim);
  const std::string text = rules::ClaimText(resident.instance, visit, which);
  (void)changer_.Apply(resident, which,
                       [&](Scene& scene) { return rules::Relinquish(scene, text, ""); });
}

void Claims::TimeOut(const ClaimDeadline& due) {
  const Instance& claimed = due.resident->instance;
  auto touched = changer_.Touch(claimed.ns, claimed.id);
  if (!touched) return;
  Resident& resident = **touched;
  const Token* token = std::as_const(resident.instance.tokens).Find(due.visit);
  const Claim* claim = token ? token->FindClaim(due.claim) : nullptr;
  if (!claim || !claim->Live()) return;
  const bool retry = claim->retry;
  const Timestamp claimed_at = claim->claim_time;
  MachineState& machine = *resident.version->machine;
  changer_.Apply(resident, [&](Scene& scene) { rules::TimeOut(scene, due.visit, due.claim); });
  if (retry) machine.breaker.RetryFailed(claimed_at);
}

void Claims::LateReport(const Instance& instance, const std::string& claim) {
  auto ref = rules::ParseClaim(instance, claim);
  if (!ref || ref->id.epoch != turn_.epoch()) return;
  auto it = ended_.find(ref->id.serial);
  if (it == ended_.end()) return;
  const Ended& ended = it->second;
  ended.latency->Learn({turn_.now() - ended.claim_time, false, ended.censored_at, ended.retry},
                       turn_.now());
  statistics_.Changed(catalog_.StateOf(instance.ns, instance.machine));
  ended_.erase(it);
}

ClaimId Claims::BornAfter(Resident& resident, ClaimId claim) {
  if (!claim || claim.epoch >= turn_.epoch()) return {};
  auto spec = residents_.SpecOf(resident);
  return spec ? (*spec)->born_after : ClaimId();
}

void Claims::Absorb(const Change& change) {
  for (const Tokens::Touched& touched : change.touched()) {
    if (!touched.before) continue;
    const Instance& instance = change.instance();
    if (!instance.Stopped() && instance.tokens.Find(touched.visit)) continue;
    for (const Claim& was : touched.before->claims) {
      if (!was.given_back && was.id != change.self) Lose(change, touched.before->node, was);
    }
  }
}

void Claims::Lose(const Change& change, NodeIndex node, const Claim& claim) {
  if (claim.id.epoch != turn_.epoch() || !change.graph->Has(node)) return;
  Latency* latency = change.graph->StateOf(node).latency;
  if (!latency) return;
  const Duration censored_at =
      claim.timed_out ? claim.sampled : std::max(turn_.now() - claim.claim_time, Duration(1));
  ended_[claim.id.serial] = {latency, claim.claim_time, censored_at, claim.retry};
  ended_order_.push_back(claim.id.serial);
  if (ended_order_.size() <= kEndedClaims) return;
  ended_.erase(ended_order_.front());
  ended_order_.pop_front();
}

}  // namespace dfsmr
