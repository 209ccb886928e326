#include "dsrv/engine/limit_lines.h"

#include <algorithm>
#include <tuple>

#include "dsrv/engine/residents.h"

namespace dfsmr {
namespace {

constexpr size_t kTokensLookedAt = 64;  // few tokens are looked through

}  // namespace

const std::vector<LimitKey>& LimitLines::LineOf(const TokenName& name,
                                                const std::vector<LimitKey>& keys) const {
  auto it = shortened_.find(name);
  return it == shortened_.end() ? keys : it->second;
}

void LimitLines::Waits(const Instance& instance, uint64_t visit,
                       const std::vector<LimitKey>& keys) {
  const std::string full = ResidentKey(instance.ns, instance.id);
  auto known = waiting_.find(full);
  if (known == waiting_.end()) {
    if (instance.tokens.size() <= kTokensLookedAt) return;
    known = waiting_.try_emplace(full).first;
    for (const Token& token : instance.tokens) {
      if (!token.WaitsForLimits()) continue;
      for (const LimitKey& key : token.limits->keys) known->second[key.key].insert(token.visit);
    }
  }
  for (const LimitKey& key : keys) known->second[key.key].insert(visit);
}

void LimitLines::WaitsNoMore(const Instance& instance, uint64_t visit,
                             const std::vector<LimitKey>& keys) {
  const std::string full = ResidentKey(instance.ns, instance.id);
  shortened_.erase({full, visit});
  const auto known = waiting_.find(full);
  if (known == waiting_.end()) return;
  for (const LimitKey& key : keys) {
    const auto its = known->second.find(key.key);
    if (its == known->second.end()) continue;
    its->second.erase(visit);
    if (its->second.empty()) known->second.erase(its);
  }
  const bool few = instance.tokens.size() <= kTokensLookedAt;
  if (known->second.empty() && (few || instance.Stopped())) waiting_.erase(known);
}

void LimitLines::Shorten(const Instance& instance, const Token& token,
                         std::vector<LimitKey> lacks) {
  const TokenName name{ResidentKey(instance.ns, instance.id), token.visit};
  const std::vector<LimitKey>& line = LineOf(name, token.limits->keys);
  if (line == lacks) return;
  const LimitTable::Turn turn{instance.priority, token.limits->order, token.visit};
  // In this order: a key that nobody stood for would be forgotten with its number.
  table_.Stand(instance.ns, lacks, turn, instance.id, token.limits->since,
               LimitTable::Standing::kWaits);
  table_.Leave(instance.ns, line, turn);
  if (lacks.size() == token.limits->keys.size()) {
    shortened_.erase(name);
  } else {
    shortened_[name] = std::move(lacks);
  }
}

void LimitLines::Holds(const Instance& instance, const std::string& key) {
  if (instance.tokens.Count(TokenState::kWaiting) == 0) return;
  doubts_[ResidentKey(instance.ns, instance.id)].keys.insert(key);
}

void LimitLines::HoldsNoMore(const Instance& instance) {
  const std::string full = ResidentKey(instance.ns, instance.id);
  for (auto it = shortened_.lower_bound({full, 0});
       it != shortened_.end() && it->first.first == full; ++it) {
    doubts_[full].visits.insert(it->first.second);
  }
}

void LimitLines::Recheck(const Instance& instance, uint64_t visit,
                         const std::vector<LimitKey>& keys) {
  const TokenName name{ResidentKey(instance.ns, instance.id), visit};
  const auto held = [&](const LimitKey& key) {
    return table_.Holds(instance.ns, key.key, instance.id);
  };
  if (!shortened_.contains(name) && std::ranges::none_of(keys, held)) return;
  doubts_[name.first].visits.insert(visit);
}

std::optional<LimitLines::Doubtful> LimitLines::NextDoubtful() {
  if (doubts_.empty()) return std::nullopt;
  const auto next = doubts_.extract(doubts_.begin());
  Doubtful doubtful;
  std::tie(doubtful.ns, doubtful.id) = SplitKey(next.key());
  doubtful.visits = next.mapped().visits;
  const auto many = waiting_.find(next.key());
  if (many == waiting_.end()) {
    doubtful.all = !next.mapped().keys.empty();
    return doubtful;
  }
  for (const std::string& key : next.mapped().keys) {
    const auto waiting = many->second.find(key);
    if (waiting == many->second.end()) continue;
    doubtful.visits.insert(waiting->second.begin(), waiting->second.end());
  }
  return doubtful;
}

}  // namespace dfsmr
