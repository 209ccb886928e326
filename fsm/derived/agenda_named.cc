// What is for the workers of one name alone: its queues, and the waiters of that name.
#include <algorithm>
#include <utility>

#include "fsm/base/limits.h"
#include "fsm/derived/agenda_inside.h"

namespace dfsmr {

Agenda::Named* Agenda::NamedFor(const Filter& filter, std::string_view name) {
  const auto named = named_.find(NameIn(filter.ns, name));
  return named == named_.end() ? nullptr : &named->second;
}

Agenda::Group* Agenda::NamedGroup(Named* named, const Filter& filter) {
  auto it = named->groups.find(filter);
  if (it == named->groups.end()) {
    EvictNamed(named);
    it = named->groups.emplace(filter, std::make_unique<Group>()).first;
    it->second->filter = filter;
    for (Queue* queue : named->queues) {
      if (filter.Matches(queue->key)) Attach(it->second.get(), queue);
    }
  }
  return it->second.get();
}

// Filters come from outside, so what is remembered of them is bounded.
void Agenda::EvictNamed(Named* named) {
  constexpr size_t kMost = 16;
  if (named->groups.size() < kMost) return;
  for (Queue* queue : named->queues) {
    std::erase_if(queue->groups, [](const Group* group) { return group->waiters.empty(); });
  }
  std::erase_if(named->groups, [](const auto& item) { return item.second->waiters.empty(); });
}

void Agenda::AddNamed(Queue* queue) {
  ++named_queues_;
  if (!watches_names_) WatchNames();
  const std::string name = NameIn(queue->key.ns, queue->key.agent);
  const auto [it, is_new] = named_.try_emplace(name);
  Named& named = it->second;
  named.queues.push_back(queue);
  AttachAll(queue);
  const auto known = is_new ? by_name_.find(name) : by_name_.end();
  if (known == by_name_.end()) return;
  std::vector<std::pair<uint64_t, WaiterId>> parked;
  for (WaiterId waiter : known->second) {
    parked.emplace_back(waiters_.at(waiter).place->since, waiter);
  }
  std::ranges::sort(parked);
  /*mutant parked-not-joined*/ for (const auto& [since, waiter] : parked)
    JoinNamed(waiter, &named); /*end*/
}

// The queue holds nothing any more. With the last one of its name goes what is remembered of that.
void Agenda::RemoveNamed(Queue* queue) {
  --named_queues_;
  const auto it = named_.find(NameIn(queue->key.ns, queue->key.agent));
  std::erase(it->second.queues, queue);
  if (!it->second.queues.empty()) return;
  for (const auto& [filter, group] : it->second.groups) {
    for (const Waiter& waiter : group->waiters) waiters_.at(waiter.id).own = nullptr;
    matched_.erase(group.get());
  }
  named_.erase(it);
}

// Names come from params, so the queues that nothing is in are not kept for ever.
void Agenda::SweepNamed() {
  std::vector<Queue*> gone;
  for (const auto& [address, queue] : queues_) {
    if (!queue->key.agent.empty() && queue->empty() && !queue->kept) gone.push_back(queue.get());
  }
  for (Queue* queue : gone) Erase(queue);
  sweep_at_ = std::max(limits::kFilters, 2 * named_queues_);
}

void Agenda::WatchNames() {
  watches_names_ = true;
  for (const auto& [waiter, parked] : waiters_) {
    by_name_[NameIn(parked.group->filter.ns, parked.name)].insert(waiter);
  }
}

// The waiter keeps its place in line.
void Agenda::JoinNamed(WaiterId waiter, Named* named) {
  Parked& parked = waiters_.at(waiter);
  Group* own = NamedGroup(named, parked.group->filter);
  own->waiters.push_back({waiter, parked.place->since});
  parked.own = own;
  parked.own_place = std::prev(own->waiters.end());
  own->Note(&matched_);
}

}  // namespace dfsmr
