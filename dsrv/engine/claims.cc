#include "dsrv/engine/claims.h"

#include <algorithm>

#include "dsrv/engine/catalog.h"
#include "dsrv/engine/changer.h"
#include "dsrv/engine/residents.h"
#include "dsrv/engine/statistics.h"
#include "dsrv/engine/throttle.h"
#include "dsrv/engine/timers.h"
#include "dsrv/engine/turn.h"

namespace dfsmr {
namespace {

constexpr size_t kEndedClaims = 65'536;

// Whether a record that waits for its instance's row tells of the claim. As long as it waits, no row
// has the claim, either.
auto TellsOf(uint64_t visit, const Claim& claim) {
  return [visit, attempt = claim.attempt](const Event& event) {
    return event.kind == ChangeKind::kClaimed && event.visit == visit && event.attempt == attempt;
  };
}

}  // namespace

Result<std::string> Claims::Relinquish(const std::string& ns, const std::string& id,
                                       const ClaimRef& claim, const GiveBackArgs& args) {
  auto resident = changer_.Touch(ns, id);
  if (!resident) return resident.error();
  const Instance& instance = (*resident)->instance;
  const auto given_back = [&](const Claim& one) {
    if (one.Live()) GivenBack(**resident, one);
  };
  const bool all = !claim.given();
  if (all) {
    for (const Token& token : instance.tokens) std::ranges::for_each(token.claims, given_back);
  } else if (rules::CheckClaim(instance, claim)) {
    const Token* token = instance.tokens.Find(claim.visit);
    const Claim* one = token ? token->FindClaim(claim.id) : nullptr;
    if (one) given_back(*one);
  }
  auto node = changer_.Apply(**resident, claim.id, [&](Scene& scene) {
    scene.born_after = BornAfter(**resident, claim.id);
    return rules::Relinquish(scene, claim, args);
  });
  if (node && all) residents_.MarkDirty(**resident);  // it may have voided what nobody knows of
  // It is refused when the instance has stopped, but its resume need not wait for the worker.
  if (!node && !all) (void)End(ns, id, claim, /*gave_back=*/true);
  return node;
}

bool Claims::End(const std::string& ns, const std::string& id, const ClaimRef& claim,
                 bool gave_back) {
  auto touched = changer_.Touch(ns, id);
  if (!touched || !rules::CheckClaim((*touched)->instance, claim)) return false;
  Resident& resident = **touched;
  const Instance& instance = resident.instance;
  if (instance.Stopped() && !instance.resumable) return false;
  if (!residents_.LoadLeft(resident)) return false;
  const bool ended = changer_.Apply(resident, claim.id, [&](Scene& scene) {
    return rules::EndClaim(scene, claim, gave_back);
  });
  if (ended) residents_.MarkDirty(resident);
  return ended;
}

Timestamp Claims::NewDeadline(const Resident& resident, const Token* token,
                              std::optional<Duration> by) {
  if (by) return After(turn_.clock(), *by);
  if (!token || !resident.graph->Has(token->node)) return kNever;
  const NodeState& counts = resident.StateOf(token->node);
  if (!counts.latency) return kNever;
  const TimeoutPolicy& policy = resident.machine().nodes[token->node].settings->timeout;
  auto timeout = counts.latency->Timeout(policy, token->TimedOutBefore(), counts.claimed);
  return timeout ? After(turn_.clock(), *timeout) : kNever;
}

// A crash may lose a claim that is not written, where the work may be repeated: the worker extends
// it, or reports, and has it again. A begin that is written with its claim adds nothing to that. Of
// a claim that is written already a crash would leave what has not begun, and goes to others once
// its worker is late. And nobody may forget, while it runs, who holds a place of a limit, or who it
// is where others are to run at the same worker.
bool Claims::BeginsEarly(const Resident& resident, const Token& token, const Claim& claim,
                         const ExtendArgs& args) const {
  if (!options_.early_begins || !args.begin || claim.Begun() || !claim.Live()) return false;
  if (/*mutant early-checkpoint*/ !args.checkpoint.empty() /*end*/) return false;
  const auto& nodes = resident.machine().nodes;
  if (/*mutant early-at-most-once*/ nodes[token.node].AtMostOnce() /*end*/) return false;
  if (token.limits || nodes[token.step ? token.home : token.node].tells_worker) return false;
  return /*mutant early-of-written*/ std::ranges::any_of(resident.pending,
                                                         TellsOf(token.visit, claim)) /*end*/;
}

Extended Claims::Extend(const std::string& ns, const std::string& id, const ClaimRef& claim,
                        std::optional<Duration> by, ExtendArgs args) {
  Extended extended;
  auto touched = changer_.Touch(ns, id);
  if (!touched) {
    extended.error = touched.error();
    return extended;
  }
  Resident& resident = **touched;
  const Instance& instance = resident.instance;
  const Token* token = instance.tokens.Find(claim.visit);
  const Timestamp deadline = NewDeadline(resident, token, by);
  const Claim* listed = token ? token->FindClaim(claim.id) : nullptr;
  if (listed && listed->operation) {
    args.begin_by = After(turn_.clock(), listed->operation->begin_within);
  }
  // On disk before the answer.
  const bool kept = /*mutant checkpoint-not-durable*/ !args.checkpoint.empty() /*end*/ ||
                    /*mutant begin-not-durable*/ args.begin /*end*/;
  const bool early = listed && BeginsEarly(resident, *token, *listed, args);
  auto outcome = changer_.Apply(resident, [&](Scene& scene) {
    scene.born_after = BornAfter(resident, claim.id);
    return rules::Extend(scene, claim, deadline, args);
  });
  if (outcome) {
    kept ? residents_.MarkDirty(resident) : residents_.MarkLazy(resident);
    extended.deadline = outcome->deadline;
    extended.cancel_requested = outcome->cancel_requested;
    extended.early = early && !extended.cancel_requested;
    return extended;
  }
  extended.error = outcome.error();
  extended.cancel_requested = instance.Cancelling();
  extended.kill_requested = instance.cancel == CancelMode::kKill;
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
    /*mutant planted-16*/ if (perhaps && resident.machine().nodes[token->node].AtMostOnce())
      continue; /*end*/
    GivenBack(resident, *claim);
    const size_t told = resident.pending.size();
    std::erase_if(resident.pending, TellsOf(task->visit, *claim));
    const bool unseen = resident.pending.size() < told;  // by the feed
    changer_.Apply(resident, task->claim_id, [&](Scene& scene) {
      rules::Unclaim(scene, task->visit, task->claim_id, /*told=*/!unseen);
      return Ok{};
    });
  }
}

Claims::Held Claims::Find(const std::string& ns, const std::string& id, uint64_t visit,
                          ClaimId which) {
  auto touched = changer_.Touch(ns, id);
  if (!touched) return {};
  const Token* token = std::as_const((*touched)->instance.tokens).Find(visit);
  const Claim* claim = token ? token->FindClaim(which) : nullptr;
  if (!claim || !claim->Live()) return {};
  return {*touched, token, claim};
}

void Claims::Abandon(const std::string& ns, const std::string& id, uint64_t visit, ClaimId which) {
  const auto [resident, token, claim] = Find(ns, id, visit, which);
  if (!claim) return;
  const bool kept = /*mutant kept-claim-given-back*/ claim->operation &&
                    claim->operation->keep_for > Duration() /*end*/;
  if (kept) return Lose(*resident, visit, *claim, /*for_good=*/false);
  Return(ns, id, visit, which);
}

void Claims::Return(const std::string& ns, const std::string& id, uint64_t visit, ClaimId which) {
  const auto [resident, token, claim] = Find(ns, id, visit, which);
  if (!claim) return;
  if (!claim->Begun()) return Lose(*resident, visit, *claim, /*for_good=*/false);
  if (/*mutant closed-stream-gives-back*/ resident->machine()
          .nodes[token->node]
          .AtMostOnce() /*end*/) {
    // It stays claimed; a session that keeps it is not waited for.
    if (claim->operation) Lose(*resident, visit, *claim, /*for_good=*/true);
    return;
  }
  GivenBack(*resident, *claim);
  (void)changer_.Apply(*resident, which, [&](Scene& scene) {
    return rules::Relinquish(scene, rules::ClaimOf(scene.instance, visit, which), {});
  });
}

void Claims::Leave(const std::string& ns, const std::string& id, uint64_t visit, ClaimId which) {
  const auto [resident, token, claim] = Find(ns, id, visit, which);
  const bool kept = claim && claim->operation && claim->operation->keep_for > Duration();
  if (!kept) return;
  if (claim->Begun()) return Lose(*resident, visit, *claim, /*for_good=*/false);
  const Timestamp begin_by = After(turn_.clock(), claim->operation->begin_within);
  changer_.Apply(*resident,
                 [&](Scene& scene) { rules::AwaitBegin(scene, visit, which, begin_by); });
  residents_.MarkLazy(*resident);
}

void Claims::LoseForGood(const std::string& ns, const std::string& id, uint64_t visit,
                         ClaimId which) {
  const auto [resident, token, claim] = Find(ns, id, visit, which);
  if (claim) Lose(*resident, visit, *claim, /*for_good=*/true);
}

void Claims::GivenBack(const Resident& resident, const Claim& claim) {
  if (!resident.instance.dry_run) throttle_.GivenBack(*resident.version->machine, claim);
}

void Claims::Lose(Resident& resident, uint64_t visit, const Claim& claim, bool for_good) {
  const ClaimId which = claim.id;
  if (!claim.Begun()) GivenBack(resident, claim);
  changer_.Apply(resident, [&](Scene& scene) { rules::LoseClaim(scene, visit, which, for_good); });
  residents_.MarkLazy(resident);
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
  if (!claim->Begun()) GivenBack(resident, *claim);
  const bool begun = claim->Begun();
  MachineState& machine = *resident.version->machine;
  changer_.Apply(resident, [&](Scene& scene) { rules::TimeOut(scene, due.visit, due.claim); });
  if (retry && begun) machine.breaker.RetryFailed(claimed_at);
}

void Claims::LateReport(const Instance& instance, ClaimId claim) {
  if (claim.epoch != turn_.epoch()) return;
  auto it = ended_.find(claim.serial);
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
  for (const ClaimChange& claim : change.claims) {
    if (claim.token || claim.before->given_back || claim.before->id == change.self) continue;
    Remember(change, claim.token_before->node, *claim.before);
  }
}

void Claims::Remember(const Change& change, NodeIndex node, const Claim& claim) {
  const Graph& graph = *change.before.graph;
  if (change.instance().dry_run) return;
  if (claim.id.epoch != turn_.epoch() || !graph.Has(node) || !claim.Begun()) return;
  Latency* latency = graph.StateOf(node).latency;
  if (!latency) return;
  const Duration censored_at =
      claim.timed_out ? claim.sampled : std::max(turn_.now() - claim.BeginTime(), Duration(1));
  ended_[claim.id.serial] = {latency, claim.BeginTime(), censored_at, claim.retry};
  ended_order_.push_back(claim.id.serial);
  if (ended_order_.size() <= kEndedClaims) return;
  ended_.erase(ended_order_.front());
  ended_order_.pop_front();
}

}  // namespace dfsmr
