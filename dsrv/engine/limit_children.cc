#include "dsrv/engine/limit_children.h"

namespace dfsmr {

bool LimitChildren::Add(const std::string& key, const std::string& parent,
                        const std::string& child) {
  const auto [at, fresh] = by_key_[key].parents.try_emplace(parent);
  ++at->second.children[child];
  if (fresh) uncharted_.emplace(key, parent);
  return fresh;
}

bool LimitChildren::Remove(const std::string& key, const std::string& parent,
                           const std::string& child) {
  const auto waited = by_key_.find(key);
  if (waited == by_key_.end()) return false;
  const auto at = waited->second.parents.find(parent);
  if (at == waited->second.parents.end()) return false;
  auto& children = at->second.children;
  const auto its = children.find(child);
  if (its == children.end() || --its->second > 0) return false;
  children.erase(its);
  if (!children.empty()) return false;
  for (const std::string& ancestor : at->second.above) {
    const auto below = waited->second.below.find(ancestor);
    below->second.erase(parent);
    if (below->second.empty()) waited->second.below.erase(below);
  }
  uncharted_.erase({key, parent});
  waited->second.parents.erase(at);
  if (waited->second.parents.empty()) by_key_.erase(waited);
  return true;
}

std::optional<std::pair<std::string, std::string>> LimitChildren::NextUncharted() {
  if (uncharted_.empty()) return std::nullopt;
  return std::move(uncharted_.extract(uncharted_.begin()).value());
}

void LimitChildren::Chart(const std::string& key, const std::string& parent,
                          const std::set<std::string>& above) {
  const auto waited = by_key_.find(key);
  if (waited == by_key_.end()) return;
  const auto at = waited->second.parents.find(parent);
  if (at == waited->second.parents.end()) return;
  at->second.above = above;
  for (const std::string& ancestor : above) waited->second.below[ancestor].insert(parent);
}

const std::set<std::string>& LimitChildren::Below(const std::string& key,
                                                  const std::string& ancestor) const {
  static const std::set<std::string> kNone;
  const auto waited = by_key_.find(key);
  if (waited == by_key_.end()) return kNone;
  const auto below = waited->second.below.find(ancestor);
  return below == waited->second.below.end() ? kNone : below->second;
}

std::vector<std::string> LimitChildren::ChildrenOf(const std::string& key,
                                                   const std::string& parent, size_t most) const {
  std::vector<std::string> ids;
  const auto waited = by_key_.find(key);
  if (waited == by_key_.end()) return ids;
  const auto at = waited->second.parents.find(parent);
  if (at == waited->second.parents.end()) return ids;
  for (const auto& [child, times] : at->second.children) {
    if (ids.size() == most) break;
    ids.push_back(child);
  }
  return ids;
}

}  // namespace dfsmr
