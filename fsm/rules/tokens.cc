#include "fsm/rules/tokens.h"

#include <algorithm>

#include "fsm/base/result.h"

namespace dfsmr {

const Claim* Token::FindClaim(ClaimId id) const {
  auto it = std::ranges::find(claims, id, &Claim::id);
  return it == claims.end() ? nullptr : &*it;
}

bool Token::HasLiveClaim() const { return std::ranges::any_of(claims, &Claim::Live); }

const std::string& Token::LastWorker() const {
  static const std::string kNobody;
  if (!claims.empty()) return claims.back().worker;
  return step ? step->worker : kNobody;
}

bool Token::TimedOutBefore() const { return std::ranges::any_of(claims, &Claim::timed_out); }

const Tokens::Plan& Tokens::InPlan() const {
  static const Plan kNone;
  return plan_ ? *plan_ : kNone;
}

Tokens::Plan& Tokens::OfPlan() {
  if (!plan_) plan_ = Plan();
  return *plan_;
}

std::optional<size_t> Tokens::SlotOf(uint64_t visit) const {
  if (plan_ && !plan_->by_visit.empty()) {
    auto it = plan_->by_visit.find(visit);
    if (it != plan_->by_visit.end()) return it->second;
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
  const auto& by_home = InPlan().by_home;
  auto it = by_home.find(home);
  if (it == by_home.end()) return std::nullopt;
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

bool Tokens::Within(size_t nodes) const {
  const auto within = [nodes](NodeIndex index) { return index < nodes; };
  const Plan& plan = InPlan();
  const auto stands = [&](const Token& token) {
    if (token.home == kNoNode && token.state == TokenState::kDone) return true;  // it has stopped
    return within(token.node) && (token.home == kNoNode || within(token.home));
  };
  return std::ranges::all_of(left(), stands, [](const auto& one) { return one.second; }) &&
         std::ranges::all_of(tokens_, stands) &&
         std::ranges::all_of(plan.arrived, within, [](const auto& one) { return one.first; }) &&
         std::ranges::all_of(plan.doomed, within) &&
         std::ranges::all_of(plan.patched, within, [](const auto& one) { return one.first; }) &&
         std::ranges::all_of(plan.settlings, within, [](const auto& one) { return one.first; }) &&
         std::ranges::all_of(plan.kept, within, [](const auto& one) { return one.first; });
}

// Whether the token as it was before is not noted yet; then the caller notes it.
bool Tokens::NoteFirst(const Token& token) {
  if (token.home == kNoNode) {
    return std::ranges::find(touched_, token.visit, &Touched::visit) == touched_.end();
  }
  Plan& plan = OfPlan();
  plan.dirty.insert(token.home);
  return plan.touched.insert(token.visit).second;
}

void Tokens::Note(const Token& token) {
  if (NoteFirst(token)) touched_.push_back({token.visit, token});
}

void Tokens::NoteNew(uint64_t visit) {
  const Token* token = Find(visit);
  if (token->home != kNoNode) {
    Plan& plan = OfPlan();
    plan.dirty.insert(token->home);
    plan.ended.erase(token->home);
    plan.touched.insert(visit);
  }
  touched_.push_back({visit, std::nullopt});
}

void Tokens::Index(size_t slot) {
  const Token& token = tokens_[slot];
  if (token.home == kNoNode) return;
  Plan& plan = OfPlan();
  plan.by_visit[token.visit] = slot;
  plan.by_home[token.home] = slot;
}

void Tokens::Unindex(size_t slot) {
  const Token& token = tokens_[slot];
  if (token.home == kNoNode) return;
  Plan& plan = OfPlan();
  plan.by_visit.erase(token.visit);
  auto it = plan.by_home.find(token.home);
  if (it != plan.by_home.end() && it->second == slot) plan.by_home.erase(it);
}

Token& Tokens::Mutable(size_t slot) {
  Check(slot < tokens_.size(), "a token that changes is there");
  Note(tokens_[slot]);
  return tokens_[slot];
}

Token* Tokens::FindMutable(uint64_t visit) {
  auto slot = SlotOf(visit);
  return slot ? &Mutable(*slot) : nullptr;
}

Token& Tokens::Add(Token token) {
  Check(token.visit == 0 || !SlotOf(token.visit), "a visit has one token");
  Check(token.home == kNoNode || !SlotOfHome(token.home), "a phase of a step has one token");
  tokens_.push_back(std::move(token));
  Index(tokens_.size() - 1);
  NoteNew(tokens_.back().visit);
  return tokens_.back();
}

void Tokens::Replace(size_t slot, Token token) {
  Check(slot < tokens_.size(), "a token that is replaced is there");
  Unindex(slot);
  std::swap(tokens_[slot], token);
  if (NoteFirst(token)) touched_.push_back({token.visit, std::move(token)});
  Index(slot);
  NoteNew(tokens_[slot].visit);
}

void Tokens::Remove(size_t slot) {
  Check(slot < tokens_.size(), "a token that is removed is there");
  Unindex(slot);
  Token& gone = tokens_[slot];
  if (NoteFirst(gone)) touched_.push_back({gone.visit, std::move(gone)});
  if (slot + 1 != tokens_.size()) {
    Unindex(tokens_.size() - 1);
    tokens_[slot] = std::move(tokens_.back());
    Index(slot);
  }
  tokens_.pop_back();
}

void Tokens::Clear() {
  for (Token& token : tokens_) {
    if (NoteFirst(token)) touched_.push_back({token.visit, std::move(token)});
  }
  tokens_.clear();
  left_.reset();
  if (!plan_) return;
  plan_->by_visit.clear();
  plan_->by_home.clear();
  plan_->arrived.clear();
  /*mutant doomed-after-upgrade*/ plan_->doomed.clear(); /*end*/
  plan_->patched.clear();
  plan_->settlings.clear();
  if (!plan_->kept.empty()) plan_->last_kept = std::exchange(plan_->kept, {});
  plan_->to_check.clear();
  plan_->cursors.clear();
}

const Tokens::Left& Tokens::left() const {
  static const Left kNone;
  return left_ ? *left_ : kNone;
}

void Tokens::Leave(size_t slot) {
  Check(slot < tokens_.size(), "a token that is left is there");
  RestoreLeft(tokens_[slot]);
  Remove(slot);
}

void Tokens::LeaveAll() {
  for (Token& token : tokens_) {
    RestoreLeft(token);
    if (NoteFirst(token)) touched_.push_back({token.visit, std::move(token)});
  }
  tokens_.clear();
  if (!plan_) return;
  plan_->by_visit.clear();
  plan_->by_home.clear();
}

void Tokens::RestoreLeft(Token token) {
  if (!left_) left_ = Left();
  const std::pair key(token.home, token.visit);
  (*left_)[key] = std::move(token);
}

Token* Tokens::LeftOf(uint64_t visit) {
  if (!left_) return nullptr;
  auto it = std::ranges::find(*left_, visit, [](const auto& one) { return one.first.second; });
  if (it == left_->end()) return nullptr;
  if (it->first.first != kNoNode) OfPlan().dirty.insert(it->first.first);
  return &it->second;
}

Token* Tokens::LeftAt(NodeIndex home) {
  if (!left_) return nullptr;
  auto it = left_->lower_bound({home, 0});
  if (it == left_->end() || it->first.first != home) return nullptr;
  OfPlan().dirty.insert(home);
  return &it->second;
}

void Tokens::TakeUp() {
  uint64_t done = 0;  // the visit of the DONE token: one that is left may have it, too
  if (tokens_.size() == 1 && tokens_[0].home == kNoNode && tokens_[0].state == TokenState::kDone) {
    done = tokens_[0].visit;
    Note(tokens_[0]);
    tokens_.clear();
  }
  if (!left_) return;
  Left left = std::move(*left_);
  left_.reset();
  for (auto& [key, token] : left) {
    tokens_.push_back(std::move(token));
    Index(tokens_.size() - 1);
    const uint64_t visit = key.second;
    if (key.first == kNoNode) {
      if (visit != done) NoteNew(visit);
      continue;
    }
    Plan& plan = OfPlan();
    plan.dirty.insert(key.first);
    plan.ended.erase(key.first);
    if (plan.touched.insert(visit).second && visit != done) {
      touched_.push_back({visit, std::nullopt});
    }
  }
}

void Tokens::ForgetLeft() {
  left_.reset();
  if (!plan_) return;
  plan_->arrived.clear();
  plan_->doomed.clear();
  plan_->patched.clear();
  plan_->settlings.clear();
}

uint32_t Tokens::Arrive(NodeIndex node) {
  Plan& plan = OfPlan();
  plan.dirty.insert(node);
  return ++plan.arrived[node];
}

void Tokens::Open(NodeIndex node) {
  if (plan_ && plan_->arrived.erase(node) > 0) plan_->dirty.insert(node);
}

void Tokens::Doom(NodeIndex home) {
  Plan& plan = OfPlan();
  plan.dirty.insert(home);
  plan.doomed.insert(home);
}

void Tokens::Patch(NodeIndex home, std::string input) {
  OfPlan().dirty.insert(home);
  OfPlan().patched[home] = std::move(input);
}

const std::string* Tokens::Patched(NodeIndex home) const {
  auto it = InPlan().patched.find(home);
  return it == InPlan().patched.end() ? nullptr : &it->second;
}

const Settling* Tokens::SettlingOf(NodeIndex home) const {
  const auto& settlings = InPlan().settlings;
  auto it = settlings.find(home);
  return it == settlings.end() ? nullptr : &it->second;
}

Settling& Tokens::Settle(NodeIndex home) {
  Plan& plan = OfPlan();
  plan.dirty.insert(home);
  return plan.settlings[home];
}

void Tokens::End(NodeIndex home, Ended ended) {
  Plan& plan = OfPlan();
  plan.dirty.insert(home);
  plan.ended[home] = std::move(ended);
}

const Keepsake* Tokens::KeptAt(NodeIndex home) const {
  const auto& kept = InPlan().kept;
  auto it = kept.find(home);
  return it == kept.end() ? nullptr : &it->second;
}

Keepsake& Tokens::Keep(NodeIndex home) {
  Plan& plan = OfPlan();
  plan.dirty.insert(home);
  return plan.kept[home];
}

const Keepsake* Tokens::LastKeptAt(NodeIndex home) const {
  const auto& kept = InPlan().last_kept;
  auto it = kept.find(home);
  return it == kept.end() ? nullptr : &it->second;
}

void Tokens::Reset(NodeIndex home) {
  Check(!SlotOfHome(home), "a place where a token stands is not reset");
  Plan& plan = OfPlan();
  plan.dirty.insert(home);
  plan.resets.push_back(home);
  plan.arrived.erase(home);
  plan.doomed.erase(home);
  plan.settlings.erase(home);
  plan.ended.erase(home);
}

std::vector<NodeIndex> Tokens::TakeResets() {
  return HasResets() ? std::exchange(plan_->resets, {}) : std::vector<NodeIndex>();
}

std::optional<NodeIndex> Tokens::NextToCheck() {
  if (!plan_ || plan_->to_check.empty()) return std::nullopt;
  const NodeIndex entry = plan_->to_check.back();
  plan_->to_check.pop_back();
  return entry;
}

void Tokens::Forget() {
  for (const Touched& one : touched_) {
    if (one.before) --counts_[static_cast<size_t>(one.before->state)];
    if (const Token* now = Find(one.visit)) ++counts_[static_cast<size_t>(now->state)];
  }
  // What was large once does not stay so. (`= {}` would keep the memory.)
  constexpr size_t kMany = 1'000;
  if (touched_.size() > kMany) {
    touched_ = std::vector<Touched>();
    if (plan_) plan_->touched = std::unordered_set<uint64_t>();
    return;
  }
  if (plan_) {
    for (const Touched& one : touched_) plan_->touched.erase(one.visit);
  }
  touched_.clear();
}

const Ended* Tokens::EndedAt(NodeIndex home) const {
  const auto& ended = InPlan().ended;
  auto it = ended.find(home);
  return it == ended.end() ? nullptr : &it->second;
}

void Tokens::ForgetRows() {
  if (!plan_) return;
  plan_->dirty.clear();
  plan_->ended.clear();
  plan_->last_kept.clear();
}

void Tokens::Restore(Token token) {
  ++counts_[static_cast<size_t>(token.state)];
  tokens_.push_back(std::move(token));
  Index(tokens_.size() - 1);
}

}  // namespace dfsmr
