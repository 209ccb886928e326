#include "dsrv/engine/operations.h"

#include <algorithm>
#include <utility>

#include "dsrv/engine/changer.h"
#include "dsrv/engine/claims.h"
#include "dsrv/engine/desk.h"
#include "dsrv/engine/residents.h"
#include "dsrv/engine/turn.h"
#include "fsm/base/hex.h"
#include "fsm/rules/rules.h"

namespace dfsmr {
namespace {

// Of an agent, and in its hands: it may go on with what has timed out or was abandoned.
bool InHand(const Claim& claim) {
  return claim.operation && !claim.operation->agent.empty() && !claim.given_back && !claim.ended &&
         claim.Begun();
}

rows::LeftoverRow RowOf(const Instance& instance, const std::string& node, uint64_t visit,
                        const Claim& claim) {
  rows::LeftoverRow row;
  row.ns = instance.ns;
  row.agent = claim.operation ? claim.operation->agent : "";
  row.id = claim.id;
  row.session = claim.operation ? claim.operation->session : "";
  row.instance = instance.id;
  row.machine = instance.machine;
  row.version = instance.version;
  row.node = node;
  row.visit = visit;
  row.attempt = claim.attempt;
  row.claim = rules::ClaimText(instance, visit, claim.id);
  row.claim_time = claim.claim_time;
  row.begin_time = claim.Begun() ? claim.BeginTime() : Timestamp();
  row.deadline = claim.deadline;
  row.progress = claim.progress;
  row.dry_run = static_cast<bool>(instance.dry_run);
  if (claim.operation) {
    row.note = claim.operation->note;
    row.signal_time = claim.operation->signal_time;
  }
  return row;
}

}  // namespace

std::string OperationPlace(const OperationView& view) {
  std::string place;
  place += ToHex(static_cast<uint64_t>(Micros(view.row.claim_time)));
  place += ToHex(view.row.id.epoch);
  place += ToHex(view.row.id.serial);
  return place;
}

Result<Ok> Operations::Recover() {
  return rows::ScanLeftovers(turn_.reader(), [&](rows::LeftoverRow row) {
    by_agent_[{row.ns, row.agent}].insert(row.id);
    by_instance_[{row.ns, row.instance}].insert(row.id);
    const ClaimId id = row.id;
    leftovers_.emplace(id, std::move(row));
  });
}

void Operations::Load(Resident& resident) {
  const Instance& instance = resident.instance;
  for (const Token& token : instance.tokens) {
    for (const Claim& claim : token.claims) {
      if (InHand(claim)) Note(instance, token.visit, claim);
    }
  }
}

void Operations::Note(const Instance& instance, uint64_t visit, const Claim& claim) {
  const AgentName agent{instance.ns, claim.operation->agent};
  auto session = sessions_.find(agent);
  if (session == sessions_.end() ||
      /*mutant former-session-in-hand*/ session->second != claim.operation->session /*end*/) {
    return;
  }
  if (!leftovers_.empty()) Drop(claim.id);  // its instance has been resumed
  auto [it, is_new] = begun_[agent].try_emplace(claim.id);
  if (is_new) it->second = {instance.id, visit, rules::ClaimText(instance, visit, claim.id)};
}

void Operations::Absorb(const Change& change) {
  const Instance& instance = change.instance();
  for (const ClaimChange& claim : change.claims) {
    if (claim.Has(InHand)) Note(instance, claim.visit, *claim.now);
    if (!claim.Left(InHand)) continue;
    const ClaimId id = claim.before->id;
    auto of = begun_.find({instance.ns, claim.before->operation->agent});
    if (of == begun_.end() || of->second.erase(id) == 0) continue;
    if (of->second.empty()) begun_.erase(of);
    if (id != change.self) Leave(change, *claim.token_before, *claim.before);
  }
}

void Operations::Leave(const Change& change, const Token& token, const Claim& claim) {
  const Graph& graph = *change.before.graph;
  const std::string node = graph.Has(token.node) ? graph.machine->nodes[token.node].id : "";
  rows::LeftoverRow row = RowOf(change.instance(), node, token.visit, claim);
  row.killed = change.instance().cancel == CancelMode::kKill;
  row.order_time = turn_.now();
  Add(std::move(row));
}

void Operations::Add(rows::LeftoverRow row) {
  /*mutant leftover-not-on-disk*/ rows::PutLeftover(turn_.writer(), row); /*end*/
  by_agent_[{row.ns, row.agent}].insert(row.id);
  by_instance_[{row.ns, row.instance}].insert(row.id);
  const ClaimId id = row.id;
  leftovers_[id] = std::move(row);
}

void Operations::Drop(ClaimId id) {
  auto at = leftovers_.find(id);
  if (at == leftovers_.end()) return;
  const rows::LeftoverRow& row = at->second;
  rows::DropLeftover(turn_.writer(), row);
  const auto forget = [id](auto& index, const auto& key) {
    auto of = index.find(key);
    if (of == index.end()) return;
    of->second.erase(id);
    if (of->second.empty()) index.erase(of);
  };
  forget(by_agent_, AgentName{row.ns, row.agent});
  forget(by_instance_, std::pair{row.ns, row.instance});
  leftovers_.erase(at);
}

void Operations::Told(const AgentName& agent, const std::string& instance, const ClaimRef& claim,
                      bool ended) {
  auto at = leftovers_.find(claim.id);
  const bool left = at != leftovers_.end();
  if (left && (at->second.agent != agent.second || at->second.ns != agent.first)) return;
  auto of = begun_.find(agent);
  if (!left && (of == begun_.end() || !of->second.contains(claim.id))) return;
  if (ended) {
    Drop(claim.id);
    (void)claims_.End(agent.first, instance, claim);
  } else if (left) {
    at->second.signal_time = turn_.now();
    rows::PutLeftover(turn_.writer(), at->second);
  } else if (auto touched = changer_.Touch(agent.first, instance); touched) {
    changer_.Apply(**touched,
                   [&](Scene& scene) { rules::NoteSignal(scene, claim.visit, claim.id); });
    residents_.MarkLazy(**touched);
  }
}

void Operations::EndedLate(const ClaimRef& claim) {
  if (!leftovers_.empty()) Drop(claim.id);
}

bool Operations::Kill(const std::string& ns, const std::string& instance) {
  auto of = by_instance_.find({ns, instance});
  if (of == by_instance_.end()) return false;
  for (ClaimId id : of->second) {
    rows::LeftoverRow& row = leftovers_.at(id);
    if (row.killed) continue;
    row.killed = true;
    row.order_time = turn_.now();
    row.signal_time = {};
    rows::PutLeftover(turn_.writer(), row);
    desk_.Order(SessionName{row.ns, row.agent, row.session},
                {.cancelled = {row.claim}, .killed = {row.claim}});
  }
  return true;
}

void Operations::Follow(const AgentName& agent, const std::string& session) {
  const std::string former = std::exchange(sessions_[agent], session);
  if (session.empty()) sessions_.erase(agent);
  if (former.empty() || former == session) return;
  begun_.erase(agent);
  auto of = by_agent_.find(agent);
  if (of == by_agent_.end()) return;
  const std::set<ClaimId> gone = of->second;
  for (ClaimId id : gone) Drop(id);
}

void Operations::Repeat(const AgentName& agent, SessionId stream) {
  SessionUpdate orders;
  if (auto of = by_agent_.find(agent); of != by_agent_.end()) {
    for (ClaimId id : of->second) {
      const rows::LeftoverRow& row = leftovers_.at(id);
      /*mutant order-not-repeated*/ orders.cancelled.push_back(row.claim); /*end*/
      if (row.killed) orders.killed.push_back(row.claim);
    }
  }
  if (auto of = begun_.find(agent); of != begun_.end()) {
    for (const auto& [id, begun] : of->second) {
      auto resident = residents_.Load(agent.first, begun.instance);
      if (!resident) continue;
      const Token* token = (*resident)->instance.tokens.Find(begun.visit);
      if (!token || !rules::IsToldToStop((*resident)->instance, *token)) continue;
      orders.cancelled.push_back(begun.text);
      orders.finishable.push_back(begun.text);
    }
  }
  if (!orders.cancelled.empty()) desk_.Order(stream, std::move(orders));
}

size_t Operations::LeftoversOf(const std::string& ns, const std::string& instance) const {
  auto of = by_instance_.find({ns, instance});
  return of == by_instance_.end() ? 0 : of->second.size();
}

std::map<ClaimId, Operations::Begun> Operations::BegunBy(const AgentName& agent) const {
  auto of = begun_.find(agent);
  return of == begun_.end() ? std::map<ClaimId, Begun>() : of->second;
}

size_t Operations::CountBy(const AgentName& agent, SessionId stream) const {
  std::set<ClaimId> all;
  if (auto of = begun_.find(agent); of != begun_.end()) {
    for (const auto& [id, begun] : of->second) all.insert(id);
  }
  for (const auto& [id, held] : desk_.InHandOf(stream)) all.insert(id);
  return all.size();
}

bool Operations::ViewOf(const std::string& ns, const Begun& begun, ClaimId id,
                        OperationView* view) {
  auto resident = residents_.Load(ns, begun.instance);
  if (!resident) return false;
  const Instance& instance = (*resident)->instance;
  const Token* token = instance.tokens.Find(begun.visit);
  const Claim* claim = token ? token->FindClaim(id) : nullptr;
  if (!claim || !(*resident)->graph->Has(token->node)) return false;
  view->row = RowOf(instance, (*resident)->machine().nodes[token->node].id, begun.visit, *claim);
  view->lost = claim->operation && claim->operation->lost;
  if (rules::IsToldToStop(instance, *token)) {
    view->order = CancelMode::kCancel;
    view->row.order_time = instance.cancel_time;
  }
  return true;
}

std::vector<OperationView> Operations::List(
    const OperationQuery& query, const std::vector<std::pair<AgentName, SessionId>>& agents) {
  std::vector<OperationView> all;
  const auto wanted = [&](const std::string& instance) {
    return query.instance.empty() || query.instance == instance;
  };
  for (const auto& [agent, stream] : agents) {
    std::map<ClaimId, Begun> in_hand = BegunBy(agent);
    for (const auto& [id, held] : desk_.InHandOf(stream)) {
      in_hand.try_emplace(id, Begun{held.instance, held.visit, ""});
    }
    for (const auto& [id, begun] : in_hand) {
      OperationView view;
      if (!wanted(begun.instance) || !ViewOf(agent.first, begun, id, &view)) continue;
      view.row.agent = agent.second;
      all.push_back(std::move(view));
    }
    auto of = by_agent_.find(agent);
    if (of == by_agent_.end()) continue;
    for (ClaimId id : of->second) {
      const rows::LeftoverRow& row = leftovers_.at(id);
      if (!wanted(row.instance)) continue;
      all.push_back({row, row.killed ? CancelMode::kKill : CancelMode::kCancel, /*leftover=*/true,
                     /*lost=*/stream == 0});
    }
  }
  std::ranges::sort(all, {}, OperationPlace);
  std::erase_if(all, [&](const OperationView& view) {
    return !query.after.empty() && OperationPlace(view) <= query.after;
  });
  if (all.size() > query.limit) all.resize(query.limit);
  return all;
}

}  // namespace dfsmr
