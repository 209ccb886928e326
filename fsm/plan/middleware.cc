#include "fsm/plan/middleware.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>

namespace dfsmr {
namespace {

using Indexes = std::vector<std::vector<size_t>>;

// outer[i]: those that must come outside of i.
Indexes Outer(const std::vector<Use>& chain) {
  std::unordered_map<std::string_view, size_t> index;
  for (size_t i = 0; i < chain.size(); ++i) index.emplace(chain[i].name, i);
  Indexes outer(chain.size());
  auto lead = [&](std::string_view from, std::string_view to) {
    auto first = index.find(from), then = index.find(to);
    if (first != index.end() && then != index.end()) outer[then->second].push_back(first->second);
  };
  for (const Use& use : chain) {
    for (const std::string& name : use.before) lead(use.name, name);
    for (const std::string& name : use.after) lead(name, use.name);
  }
  for (std::vector<size_t>& of : outer) std::ranges::sort(of);
  return outer;
}

// Each name in its turn, those that must come outside of it first.
class Sorting {
 public:
  explicit Sorting(const std::vector<Use>& chain)
      : chain_(chain), outer_(Outer(chain)), seen_(chain.size()) {}

  // False when there is a cycle.
  bool Run() {
    for (size_t i = 0; i < chain_.size(); ++i) {
      if (!seen_[i] && !Visit(i)) return false;
    }
    return true;
  }
  std::vector<std::string> names() && { return std::move(names_); }
  // "a → b → a", from the first that the chain holds.
  std::string Cycle() const {
    std::vector<size_t> cycle = path_;
    cycle.erase(cycle.begin(), std::ranges::find(cycle, again_));
    std::ranges::reverse(cycle);
    std::rotate(cycle.begin(), std::ranges::min_element(cycle), cycle.end());
    std::string text;
    for (size_t i : cycle) text += chain_[i].name + " → ";
    return text + chain_[cycle.front()].name;
  }

 private:
  // Without recursion: a chain may be as long as a document.
  bool Visit(size_t start) {
    std::vector<size_t> next = {0};  // of each in path_, which outer one comes next
    path_ = {start};
    seen_[start] = true;
    open_.insert(start);
    while (!path_.empty()) {
      const size_t at = path_.back();
      if (next.back() == outer_[at].size()) {
        names_.push_back(chain_[at].name);
        open_.erase(at);
        path_.pop_back();
        next.pop_back();
        continue;
      }
      again_ = outer_[at][next.back()++];
      if (open_.contains(again_)) return false;
      if (seen_[again_]) continue;
      seen_[again_] = true;
      open_.insert(again_);
      path_.push_back(again_);
      next.push_back(0);
    }
    return true;
  }

  const std::vector<Use>& chain_;
  const Indexes outer_;
  std::vector<bool> seen_;
  std::set<size_t> open_;     // those of path_
  std::vector<size_t> path_;  // from the one in turn outwards
  size_t again_ = 0;
  std::vector<std::string> names_;
};

}  // namespace

void AddUses(const std::vector<Use>& uses, std::vector<Use>* chain) {
  for (const Use& use : uses) {
    auto there = std::ranges::find(*chain, use.name, &Use::name);
    if (there == chain->end()) {
      chain->push_back(use);
      continue;
    }
    there->before.insert(there->before.end(), use.before.begin(), use.before.end());
    there->after.insert(there->after.end(), use.after.begin(), use.after.end());
  }
}

std::vector<std::string> ApplyChanges(const MiddlewareSource& change, std::vector<Use>* chain) {
  std::vector<std::string> missing;
  for (const auto& [name, replacement] : change.replace) {
    if (std::ranges::find(*chain, name, &Use::name) == chain->end()) missing.push_back(name);
    std::vector<Use> changed;
    for (Use& use : *chain) {
      if (use.name == name) use.name = replacement;
      std::ranges::replace(use.before, name, replacement);
      std::ranges::replace(use.after, name, replacement);
      AddUses({use}, &changed);
    }
    *chain = std::move(changed);
  }
  for (const std::string& name : change.without) {
    if (std::erase_if(*chain, [&](const Use& use) { return use.name == name; }) == 0) {
      missing.push_back(name);
    }
  }
  return missing;
}

std::vector<std::string> InOrder(const std::vector<Use>& chain, std::string* cycle) {
  Sorting sorting(chain);
  if (sorting.Run()) return std::move(sorting).names();
  *cycle = sorting.Cycle();
  return {};
}

}  // namespace dfsmr
