#include "fsm/tokens.h"

#include <algorithm>

namespace dfsmr {
const Claim* Token::FindClaim(ClaimId id) const {
  auto it = std::ranges::find(claims, id, &Claim::id);
  return it == claims.end() ? nullptr : &*it;
}

bool Token::HasLiveClaim() const { return std::ranges::any_of(claims, &Claim::Live); }

bool Token::TimedOutBefore() const { return std::ranges::any_of(claims, &Claim::timed_out); }

std::optional<size_t> Tokens::SlotOf(uint64_t visit) const {
  if (!by_visit_.empty()) {
    auto it = by_visit_.find(visit);
    if (it != by_visit_.end()) return it->second;
    return std::nullopt;
  }
  auto it = std::ranges::find(tokens_, visit, &Token::visit);
  if (it == tokens_.end()) return std::nullopt;
  return static_cast<size_t>(it - tokens_.begin());
}

const Token* Tokens::Find(uint64_t visit) const {
  auto slot = SlotOf(visit);
  return slot ? &tokens_[*slot] : nullptr;
}

std::optional<size_t> Tokens::SlotOfHome(NodeIndex home) const {
  auto it = by_home_.find(home);
  if (it == by_home_.end()) return std::nullopt;
  return it->second;
}

size_t Tokens::Count(TokenState state) const {
  size_t count = counts_[static_cast<size_t>(state)];
  for (const Touched& one : touched_) {
    if (one.before && one.before->state == state) --count;
    const Token* now = Find(one.visit);
    if (now && now->state == state) ++count;
  }
  return count;
}

void Tokens::Note(const Token& token) {
  if (token.home == kNoNode) {
    for (const Touched& one : touched_) {
      if (one.visit == token.visit) return;
    }
  } else {
    dirty_.insert(token.home);
    if (!touched_at_.emplace(token.visit, touched_.size()).second) return;
  }
  touched_.push_back({token.visit, token});
}

void Tokens::NoteNew(uint64_t visit) {
  const Token* token = Find(visit);
  if (token->home != kNoNode) {
    dirty_.insert(token->home);
    ended_.erase(token->home);
    touched_at_.emplace(visit, touched_.size());
  }
  touched_.push_back({visit, std::nullopt});
}

void Tokens::Index(size_t slot) {
  const Token& token = tokens_[slot];
  if (token.home == kNoNode) return;
  by_visit_[token.visit] = slot;
  by_home_[token.home] = slot;
}

void Tokens::Unindex(size_t slot) {
  const Token& token = tokens_[slot];
  if (token.home == kNoNode) return;
  by_visit_.erase(token.visit);
  auto it = by_home_.find(token.home);
  if (it != by_home_.end() && it->second == slot) by_home_.erase(it);
}

Token& Tokens::Mutable(size_t slot) {
  Note(tokens_[slot]);
  return tokens_[slot];
}

Token* Tokens::FindMutable(uint64_t visit) {
  auto slot = SlotOf(visit);
  return slot ? &Mutable(*slot) : nullptr;
}

Token& Tokens::Add(Token token) {
  tokens_.push_back(std::move(token));
  Index(tokens_.size() - 1);
  NoteNew(tokens_.back().visit);
  return tokens_.back();
}

void Tokens::Replace(size_t slot, Token token) {
  Note(tokens_[slot]);
  Unindex(slot);
  tokens_[slot] = std::move(token);
  Index(slot);
  NoteNew(tokens_[slot].visit);
}

void Tokens::Remove(size_t slot) {
  Note(tokens_[slot]);
  Unindex(slot);
  if (slot + 1 != tokens_.size()) {
    Unindex(tokens_.size() - 1);
    tokens_[slot] = std::move(tokens_.back());
    Index(slot);
  }
  tokens_.pop_back();
}

void Tokens::Clear() {
  for (const Token& token : tokens_) Note(token);
  tokens_.clear();
  by_visit_.clear();
  by_home_.clear();
  arrived_.clear();
  doomed_.clear();
}

uint32_t Tokens::Arrive(NodeIndex node) {
  dirty_.insert(node);
  return ++arrived_[node];
}

void Tokens::Open(NodeIndex node) {
  if (arrived_.erase(node) > 0) dirty_.insert(node);
}

void Tokens::Doom(NodeIndex home) {
  dirty_.insert(home);
  doomed_.insert(home);
}

void Tokens::End(NodeIndex home, Ended ended) {
  dirty_.insert(home);
  ended_[home] = std::move(ended);
}

void Tokens::Forget() {
  for (const Touched& one : touched_) {
    if (one.before) --counts_[static_cast<size_t>(one.before->state)];
    if (const Token* now = Find(one.visit)) ++counts_[static_cast<size_t>(now->state)];
  }
  touched_.clear();
  touched_at_.clear();
}

const Ended* Tokens::EndedAt(NodeIndex home) const {
  auto it = ended_.find(home);
  return it == ended_.end() ? nullptr : &it->second;
}

void Tokens::ForgetRows() {
  dirty_.clear();
  ended_.clear();
}

void Tokens::Restore(Token token) {
  ++counts_[static_cast<size_t>(token.state)];
  tokens_.push_back(std::move(token));
  Index(tokens_.size() - 1);
}

}  // namespace dfsmr
