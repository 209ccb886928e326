#include "dsrv/engine/sessions.h"

#include <algorithm>

namespace dfsmr {
namespace {

constexpr size_t kLostPerTurn = 100;

// Of a claim that a session keeps.
bool Kept(const Claim& claim) {
  return claim.operation && claim.operation->keep_for > Duration() && claim.Live();
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
  const Key key{ns, terms.session};
  Session& session = sessions_[key];
  const SessionId former = std::exchange(session.stream, stream);
  streams_.erase(former);
  streams_[stream] = key;
  session.terms = terms;
  return former;
}

void Sessions::Close(SessionId stream) {
  auto at = streams_.find(stream);
  if (at == streams_.end()) return;
  const Key key = at->second;
  streams_.erase(at);
  Session& session = sessions_.at(key);
  session.stream = 0;
  /*mutant session-never-ends*/ WaitUntil(key, session,
                                          After(turn_.real(), session.terms.keep_for)); /*end*/
}

void Sessions::End(const std::string& ns, const std::string& name) {
  const Key key{ns, name};
  auto at = sessions_.find(key);
  if (at == sessions_.end()) return;
  streams_.erase(std::exchange(at->second.stream, 0));
  WaitUntil(key, at->second, turn_.real());
}

SessionId Sessions::StreamOf(const std::string& ns, const std::string& session) const {
  auto at = sessions_.find({ns, session});
  return at == sessions_.end() ? 0 : at->second.stream;
}

void Sessions::WaitUntil(const Key& key, Session& session, Timestamp until) {
  if (session.until != kNever) ends_.erase({session.until, key});
  session.until = until;
  if (until != kNever) ends_.emplace(until, key);
}

void Sessions::Complete(const std::string& ns, ExtendArgs* args) const {
  auto at = streams_.find(args->session);
  if (at == streams_.end() || at->second.first != ns) return;
  args->operation = sessions_.at(at->second).terms.NewOperation(turn_.now());
}

void Sessions::Note(const Instance& instance, uint64_t visit, const Claim& claim) {
  const Key key{instance.ns, claim.operation->session};
  Session& session = sessions_[key];
  session.held[claim.id] = {instance.id, visit, claim.session};
  // It may have been away when its instance was resumed.
  if (session.stream == 0 && session.until == kNever) waits_ = true;
  if (session.terms.session.empty()) {
    session.terms = {claim.operation->begin_within, claim.operation->session,
                     claim.operation->keep_for, claim.operation->agent};
  }
}

void Sessions::Forget(const std::string& ns, const Claim& claim) {
  const Key key{ns, claim.operation->session};
  auto at = sessions_.find(key);
  if (at == sessions_.end()) return;
  at->second.held.erase(claim.id);
  DropIfIdle(key);
}

void Sessions::DropIfIdle(const Key& key) {
  auto at = sessions_.find(key);
  if (at == sessions_.end() || at->second.stream != 0 || !at->second.held.empty()) return;
  WaitUntil(key, at->second, kNever);
  sessions_.erase(at);
}

void Sessions::Renew(Instance* instance) const {
  for (size_t slot = 0; slot < instance->tokens.size(); ++slot) {
    const Token& token = std::as_const(instance->tokens)[slot];
    const auto unbegun = [](const Claim& claim) { return claim.Live() && !claim.Begun(); };
    if (std::ranges::none_of(token.claims, unbegun)) continue;
    for (Claim& claim : instance->tokens.Mutable(slot).claims) {
      if (unbegun(claim)) claim.deadline = After(turn_.clock(), claim.operation->begin_within);
    }
  }
  instance->tokens.Forget();
  instance->tokens.ForgetRows();
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
  for (auto& [key, session] : sessions_) {
    if (session.stream != 0 || session.until != kNever) continue;
    WaitUntil(key, session,
              After(turn_.real(), /*mutant restart-loses-sessions*/ std::max(
                        session.terms.keep_for, kAfterRestart) /*end*/));
  }
}

bool Sessions::Work() {
  if (Due() > turn_.real()) return false;
  const Key key = ends_.begin()->second;
  Session& session = sessions_.at(key);
  std::vector<std::pair<ClaimId, Held>> lost;
  for (const auto& [claim, held] : session.held) {
    /*mutant taken-up-is-lost*/ if (session.stream != 0 && held.stream == session.stream)
      continue; /*end*/
    lost.emplace_back(claim, held);
    if (lost.size() == kLostPerTurn) break;
  }
  for (const auto& [claim, held] : lost) {
    session.held.erase(claim);  // what runs at most once stays with a worker who is not waited for
    claims_.LoseForGood(key.first, held.instance, held.visit, claim);
  }
  if (lost.size() == kLostPerTurn) return true;
  auto at = sessions_.find(key);
  if (at == sessions_.end()) return true;
  WaitUntil(key, at->second, kNever);
  DropIfIdle(key);
  return true;
}

}  // namespace dfsmr
