#include "dsrv/engine/traces.h"

#include <algorithm>
#include <utility>

#include "dsrv/engine/resident.h"
#include "dsrv/engine/residents.h"
#include "dsrv/engine/turn.h"
#include "fsm/base/epoch.h"
#include "storage/rows/plan.h"

namespace dfsmr {
namespace {

// Whether `name` is `node`, or one of the nodes that are named after it.
bool Within(const std::string& name, const std::string& node) {
  return name.starts_with(node) && (name.size() == node.size() || name[node.size()] == '/');
}

}  // namespace

// As in rules/claim.cc: a crash may have lost the claim before an fsync covered it, and its worker
// still has it.
bool Traces::LostInCrash(const Resident& resident, const Token& token, ClaimId claim,
                         ClaimId born_after) {
  const Node& node = resident.machine().nodes[token.node];
  return claim.epoch < turn_.epoch() && claim.epoch > token.forgotten_epoch &&
         LifeOfEpoch(claim.epoch) == LifeOfEpoch(turn_.epoch()) && claim > born_after &&
         node.kind == NodeKind::kWork && !node.AtMostOnce();
}

Traces::Trace Traces::TraceOf(const std::string& ns, const std::string& id,
                              const ClaimRef& claim) {
  Trace trace;
  auto loaded = residents_.Load(ns, id);
  if (!loaded) return trace;
  Resident& resident = **loaded;
  const Instance& instance = resident.instance;
  auto spec = residents_.SpecOf(resident);
  if (!spec || !rules::CheckClaim(instance, claim)) return trace;
  if (claim.visit == 0 || claim.visit > instance.last_visit) return trace;
  trace.born = (*spec)->first_seq;
  trace.visit = claim.visit;
  trace.dry_run = static_cast<bool>(instance.dry_run);
  const Token* token = instance.tokens.Find(claim.visit);
  if (instance.Stopped() || !token || !resident.graph->Has(token->node)) {
    trace.kind = Trace::Kind::kOver;
    return trace;
  }
  trace.node = NodeName(resident.machine(), token->node);
  if (const Claim* listed = token->FindClaim(claim.id)) {
    trace.kind = listed->given_back ? Trace::Kind::kOver : Trace::Kind::kOpen;
    trace.attempt = listed->attempt;
    trace.worker = listed->worker;
  } else if (LostInCrash(resident, *token, claim.id, (*spec)->born_after)) {
    trace.kind = Trace::Kind::kOpen;
    trace.attempt = token->attempt + 1;  // the one that it gets when it is heard of again
    trace.worker = "unknown";
  }
  return trace;
}

Result<Traces::Scope> Traces::ScopeOf(const std::string& ns, const std::string& id,
                                      const std::string& node, uint64_t visit) {
  auto loaded = residents_.Load(ns, id);
  if (!loaded) return loaded.error();
  Resident& resident = **loaded;
  const Instance& instance = resident.instance;
  auto spec = residents_.SpecOf(resident);
  if (!spec) return spec.error();
  Scope scope{.born = (*spec)->first_seq};
  if (!node.empty()) LookForNode(resident, node, &scope);
  if (visit != 0) {
    scope.stands = instance.tokens.Find(visit) != nullptr;
    scope.over = !scope.stands && visit <= instance.last_visit;
  }
  if (instance.Stopped()) {
    scope.over = true;
    scope.end_time = instance.end_time;
  }
  return scope;
}

void Traces::LookForNode(const Resident& resident, const std::string& node, Scope* scope) {
  const Machine& machine = resident.machine();
  const Instance& instance = resident.instance;
  const NodeIndex index = machine.Find(node);
  scope->named = index != kNoNode || rules::AwaitsGraph(instance) ||
                 std::ranges::any_of(machine.nodes,
                                     [&](const Node& one) { return Within(one.id, node); });
  if (instance.plan && index != kNoNode && machine.nodes[index].home != kNoNode) {
    return LookForStep(resident, machine.nodes[index], scope);
  }
  scope->stands = std::ranges::any_of(instance.tokens, [&](const Token& token) {
    return resident.graph->Has(token.node) && Within(machine.nodes[token.node].id, node);
  });
}

void Traces::LookForStep(const Resident& resident, const Node& meant, Scope* scope) {
  const Tokens& tokens = resident.instance.tokens;
  scope->stands = tokens.SlotOfHome(meant.home).has_value();
  if (scope->stands) return;
  auto row = rows::GetStep(turn_.reader(), resident.instance, meant.home);
  if (!row || !*row) return;
  const auto& settling = (*row)->settling;
  scope->over = (*row)->ended || (*row)->doomed ||
                (settling && (settling->decision == Settling::Decision::kStays ||
                              settling->decision == Settling::Decision::kPassed));
}

}  // namespace dfsmr
