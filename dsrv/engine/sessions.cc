#include "dsrv/engine/sessions.h"

#include <algorithm>

#include "dsrv/engine/claims.h"
#include "dsrv/engine/turn.h"

namespace dfsmr {
namespace {

constexpr size_t kLostPerTurn = 100;

// Of a claim that a session keeps.
bool Kept(const Claim& claim) {
  return claim.operation && claim.operation->keep_for > Duration() && claim.Live();
}

// Of the session that keeps the claim.
SessionName NameOf(const std::string& ns, const Claim& claim) {
  return {ns, claim.operation->agent, claim.operation->session};
}

}  // namespace

Boxed<Operation> WorkerTerms::NewOperation(Timestamp now) const {
  if (begin_within == Duration() && session.empty()) return {};
  return Operation{.begin_within = begin_within,
                   .begin_time = begin_within == Duration() ? now : Timestamp(),
                   .session = session,
                   .keep_for = keep_for,
                   .agent = agent};
}

SessionId Sessions::Open(const std::string& ns, const WorkerTerms& terms, SessionId stream) {
  const SessionName name = terms.NameIn(ns);
  Session& session = sessions_[name];
  const SessionId former = std::exchange(session.stream, stream);
  streams_.erase(former);
  streams_[stream] = name;
  session.terms = terms;
  return former;
}

void Sessions::Close(SessionId stream, StreamEnd how) {
  auto at = streams_.find(stream);
  if (at == streams_.end()) return;
  const SessionName name = at->second;
  streams_.erase(at);
  Session& session = sessions_.at(name);
  session.stream = 0;
  const Duration least = how == StreamEnd::kUnknown ? kAfterRestart : Duration();
  const bool keeps = session.terms.keep_for > Duration();
  const Duration wait = keeps ? std::max(session.terms.keep_for, least) : Duration();
  /*mutant session-never-ends*/ WaitUntil(name, session, After(turn_.real(), wait)); /*end*/
}

void Sessions::End(const SessionName& name) {
  auto at = sessions_.find(name);
  if (at == sessions_.end()) return;
  streams_.erase(std::exchange(at->second.stream, 0));
  WaitUntil(name, at->second, turn_.real());
}

SessionId Sessions::StreamOf(const SessionName& name) const {
  auto at = sessions_.find(name);
  return at == sessions_.end() ? 0 : at->second.stream;
}

void Sessions::WaitUntil(const SessionName& name, Session& session, Timestamp until) {
  if (session.until != kNever) ends_.erase({session.until, name});
  session.until = until;
  if (until != kNever) ends_.emplace(until, name);
}

void Sessions::Complete(const std::string& ns, ExtendArgs* args) const {
  auto at = streams_.find(args->session);
  if (at == streams_.end() || at->second.ns != ns) return;
  args->operation = sessions_.at(at->second).terms.NewOperation(turn_.now());
}

void Sessions::Note(const Instance& instance, uint64_t visit, const Claim& claim) {
  Session& session = sessions_[NameOf(instance.ns, claim)];
  session.held[claim.id] = {instance.id, visit, claim.session};
  // It may have been away when its instance was resumed.
  if (session.stream == 0 && session.until == kNever) waits_ = true;
  if (session.terms.session.empty()) {
    session.terms = {claim.operation->begin_within, claim.operation->session,
                     claim.operation->keep_for, claim.operation->agent};
  }
}

void Sessions::Forget(const std::string& ns, const Claim& claim) {
  const SessionName name = NameOf(ns, claim);
  auto at = sessions_.find(name);
  if (at == sessions_.end()) return;
  at->second.held.erase(claim.id);
  DropIfIdle(name);
}

void Sessions::DropIfIdle(const SessionName& name) {
  auto at = sessions_.find(name);
  if (at == sessions_.end() || at->second.stream != 0 || !at->second.held.empty()) return;
  WaitUntil(name, at->second, kNever);
  sessions_.erase(at);
}

bool Sessions::Renew(Instance* instance) const {
  bool renewed = false;
  for (size_t slot = 0; slot < instance->tokens.size(); ++slot) {
    const Token& token = std::as_const(instance->tokens)[slot];
    const auto unbegun = [](const Claim& claim) { return claim.Live() && !claim.Begun(); };
    if (std::ranges::none_of(token.claims, unbegun)) continue;
    for (Claim& claim : instance->tokens.Mutable(slot).claims) {
      if (unbegun(claim)) claim.deadline = After(turn_.clock(), claim.operation->begin_within);
    }
    renewed = true;
  }
  instance->tokens.Forget();
  return renewed;
}

void Sessions::Load(Resident& resident) {
  const Instance& instance = resident.instance;
  for (const Token& token : instance.tokens) {
    for (const Claim& claim : token.claims) {
      if (!Kept(claim)) continue;
      Note(instance, token.visit, claim);
    }
  }
}

void Sessions::Absorb(const Change& change) {
  const Instance& instance = change.instance();
  for (const ClaimChange& claim : change.claims) {
    if (claim.Left(Kept)) Forget(instance.ns, *claim.before);
    if (claim.Has(Kept)) Note(instance, claim.visit, *claim.now);
  }
}

void Sessions::BeginPass() {
  if (!std::exchange(waits_, false)) return;
  for (auto& [name, session] : sessions_) {
    if (session.stream != 0 || session.until != kNever) continue;
    WaitUntil(name, session,
              After(turn_.real(), /*mutant restart-loses-sessions*/ std::max(
                        session.terms.keep_for, kAfterRestart) /*end*/));
  }
}

bool Sessions::Work() {
  if (Due() > turn_.real()) return false;
  const SessionName name = ends_.begin()->second;
  Session& session = sessions_.at(name);
  std::vector<std::pair<ClaimId, Held>> lost;
  for (const auto& [claim, held] : session.held) {
    /*mutant taken-up-is-lost*/ if (session.stream != 0 && held.stream == session.stream)
      continue; /*end*/
    lost.emplace_back(claim, held);
    if (lost.size() == kLostPerTurn) break;
  }
  for (const auto& [claim, held] : lost) {
    session.held.erase(claim);  // what runs at most once stays with a worker who is not waited for
    claims_.LoseForGood(name.ns, held.instance, held.visit, claim);
  }
  if (lost.size() == kLostPerTurn) return true;
  auto at = sessions_.find(name);
  if (at == sessions_.end()) return true;
  WaitUntil(name, at->second, kNever);
  DropIfIdle(name);
  return true;
}

}  // namespace dfsmr
