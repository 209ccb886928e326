#include "fsm/middleware.h"

#include <algorithm>
#include <queue>
#include <string_view>
#include <unordered_map>

namespace dfsmr {
namespace {

using Indexes = std::vector<std::vector<size_t>>;

// next[i]: those that must come inside of i.
Indexes Inner(const std::vector<Use>& chain) {
  std::unordered_map<std::string_view, size_t> index;
  for (size_t i = 0; i < chain.size(); ++i) index.emplace(chain[i].name, i);
  Indexes next(chain.size());
  auto lead = [&](std::string_view from, std::string_view to) {
    auto outer = index.find(from), inner = index.find(to);
    if (outer != index.end() && inner != index.end()) next[outer->second].push_back(inner->second);
  };
  for (const Use& use : chain) {
    for (const std::string& name : use.before) lead(use.name, name);
    for (const std::string& name : use.after) lead(name, use.name);
  }
  return next;
}

// Some cycle among those that still wait: each of them has one that it waits for, so going back
// comes by twice.
std::string CycleOf(const std::vector<Use>& chain, const Indexes& next,
                    const std::vector<size_t>& waits) {
  std::vector<size_t> before(chain.size(), SIZE_MAX);
  for (size_t i = 0; i < chain.size(); ++i) {
    if (waits[i] == 0) continue;
    for (size_t inner : next[i]) before[inner] = std::min(before[inner], i);
  }
  size_t at = 0;
  while (waits[at] == 0) ++at;
  for (size_t i = 0; i < chain.size(); ++i) at = before[at];
  std::vector<size_t> cycle;
  for (size_t i = at; cycle.empty() || i != at; i = before[i]) cycle.push_back(i);
  std::ranges::reverse(cycle);
  std::ranges::rotate(cycle, std::ranges::min_element(cycle));
  std::string text;
  for (size_t i : cycle) text += chain[i].name + " → ";
  return text + chain[cycle.front()].name;
}

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
  const Indexes next = Inner(chain);
  std::vector<size_t> waits(chain.size());
  for (const std::vector<size_t>& inner : next) {
    for (size_t i : inner) ++waits[i];
  }
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> free;
  for (size_t i = 0; i < chain.size(); ++i) {
    if (waits[i] == 0) free.push(i);
  }
  std::vector<std::string> names;
  while (!free.empty()) {
    const size_t i = free.top();
    free.pop();
    names.push_back(chain[i].name);
    for (size_t inner : next[i]) {
      if (--waits[inner] == 0) free.push(inner);
    }
  }
  if (names.size() == chain.size()) return names;
  *cycle = CycleOf(chain, next, waits);
  return {};
}

}  // namespace dfsmr
