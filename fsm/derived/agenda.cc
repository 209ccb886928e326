#include "fsm/derived/agenda.h"

#include <algorithm>
#include <utility>

#include "fsm/base/limits.h"
#include "fsm/derived/agenda_inside.h"

namespace dfsmr {

namespace {

// Whether a pattern, NAME, NAME.* or *, stands for the action.
bool StandsFor(std::string_view pattern, std::string_view action) {
  if (!pattern.ends_with('*')) return pattern == action;
  return action.starts_with(pattern.substr(0, pattern.size() - 1));
}

// A match with one of the actions or packages is enough; without either all tasks are asked for.
bool Serves(const Filter& filter, const std::string& action, const std::string& package) {
  if (filter.actions.empty() && filter.packages.empty()) return true;
  const auto stands = [&](const std::string& pattern) { return StandsFor(pattern, action); };
  if (std::ranges::any_of(filter.actions, stands)) return true;
  if (package.empty()) return false;
  return std::ranges::any_of(filter.packages, [&package](const std::string& wanted) {
    return wanted == "*" || wanted == package;
  });
}

}  // namespace

bool Filter::Wants(const QueueKey& key) const {
  return ns == key.ns && (machine.empty() || machine == key.machine) &&
         (node.empty() || node == key.node) && (action.empty() || action == key.action) &&
         /*mutant filter-ignores-queue*/ (queue.empty() || queue == key.queue) /*end*/ &&
         (queues.empty() || std::ranges::binary_search(queues, key.queue)) &&
         Serves(*this, key.action, key.package) && (dry_run || !key.dry_run);
}

std::vector<std::string> QueueKey::Words() const {
  std::vector<std::string> words;
  std::ranges::set_union(capabilities, required, std::back_inserter(words));
  return words;
}

bool Filter::Has(const std::vector<std::string>& words) const {
  return std::ranges::includes(capabilities, words);
}

bool Filter::Matches(const QueueKey& key) const {
  if (!Wants(key)) return false;
  if (/*mutant capabilities-ignored*/ !Has(key.capabilities) /*end*/) return false;
  if (!Has(key.required)) return false;
  return refuses.empty() || std::ranges::find(refuses, RefusedNode{key.machine, key.version,
                                                                   key.node}) == refuses.end();
}

namespace {

std::string Prefix(std::string_view ns, std::string_view machine) {
  std::string key(ns);
  key += '\0';
  key += machine;
  key += '\0';
  return key;
}

std::string Address(const QueueKey& key) {
  std::string address = Prefix(key.ns, key.machine);
  address += std::to_string(key.version);
  address += '\0';
  for (const std::string& part : {key.node, key.action, key.queue}) {
    address += part;
    address += '\0';
  }
  if (key.capabilities.empty() && key.agent.empty() && !key.dry_run) return address;
  for (const std::string& word : key.capabilities) {
    address += word;
    address += '\0';
  }
  address += '\0';
  address += key.dry_run ? 'd' : ' ';
  return address + key.agent;
}

std::string GateName(const std::string& ns, Agenda::Subject subject, const std::string& name) {
  return ns + '\0' + (subject == Agenda::Subject::kQueue ? 'q' : 'a') + name;
}

}  // namespace

Agenda::Agenda() : evict_at_(limits::kFilters), sweep_at_(limits::kFilters) {}
Agenda::~Agenda() = default;

const QueueKey& Agenda::KeyOf(const Queue* queue) { return queue->key; }

Agenda::Queue* Agenda::QueueFor(const QueueKey& key) {
  std::string address = Address(key);
  if (auto known = queues_.find(address); known != queues_.end()) return known->second.get();
  if (!key.agent.empty() && named_queues_ >= sweep_at_) SweepNamed();
  auto made = std::make_unique<Queue>(key, ++tick_);
  Queue* queue = queues_.emplace(std::move(address), std::move(made)).first->second.get();
  if (!key.agent.empty()) {
    AddNamed(queue);
  } else {
    AttachAll(queue);
  }
  if (!gates_.empty()) EnterGates(queue);
  if (!frozen_.empty()) queue->frozen = frozen_.contains(key.ns);
  if (!held_.empty()) queue->held = Holds(key);
  return queue;
}

void Agenda::VisitQueues(const std::string& ns,
                         const std::function<void(const Queue*)>& visit) const {
  const std::string prefix = ns + '\0';
  auto at = ns.empty() ? queues_.begin() : queues_.lower_bound(prefix);
  for (; at != queues_.end() && (ns.empty() || at->first.starts_with(prefix)); ++at) {
    visit(at->second.get());
  }
}

void Agenda::VisitOldest(const Queue* queue, const std::function<bool(const ReadyEntry&)>& visit) {
  for (const auto& [priority, level] : queue->levels) {
    for (const ReadyEntry& entry : level) {
      if (!visit(entry)) break;
    }
  }
}

size_t Agenda::AskingFor(const Queue* queue) const {
  size_t asking = 0;
  for (const Group* group : queue->groups) asking += group->waiters.size();
  return asking;
}

std::optional<Timestamp> Agenda::AskedTime(const Queue* queue) const {
  std::optional<Timestamp> asked;
  for (const Group* group : queue->groups) {
    const Timestamp time = group->waiters.empty() ? group->asked : now_;
    if (time != Timestamp()) asked = std::max(asked.value_or(time), time);
  }
  return asked;
}

void Agenda::VisitFilters(const std::string& ns, const VisitAsked& visit) const {
  for (auto at = groups_.lower_bound({.ns = ns}); at != groups_.end() && at->first.ns == ns; ++at) {
    const Group& group = *at->second;
    visit(at->first, group.waiters.size(), group.waiters.empty() ? group.asked : now_);
  }
}

void Agenda::Keep(Queue* queue) { queue->kept = true; }

void Agenda::EnterGates(Queue* queue) {
  if (queue->key.dry_run) return;  // no limit sees it
  for (const std::string& name : {GateName(queue->key.ns, Subject::kQueue, queue->key.queue),
                                  GateName(queue->key.ns, Subject::kAction, queue->key.action)}) {
    auto gate = gates_.find(name);
    if (gate == gates_.end()) continue;
    if (gate->second.queues.insert(Address(queue->key)).second && gate->second.closed) {
      ++queue->closed;
    }
  }
}

void Agenda::SetClosed(const std::string& ns, Subject subject, const std::string& name,
                       bool closed) {
  const auto [it, is_new] = gates_.try_emplace(GateName(ns, subject, name));
  Gate& gate = it->second;
  if (is_new) {
    for (auto& [address, queue] : queues_) {
      const std::string& its = subject == Subject::kQueue ? queue->key.queue : queue->key.action;
      if (queue->key.ns == ns && its == name && !queue->key.dry_run) gate.queues.insert(address);
    }
  }
  if (std::exchange(gate.closed, closed) == closed) return;
  for (const std::string& address : gate.queues) {
    auto queue = queues_.find(address);
    if (queue == queues_.end()) continue;
    queue->second->closed += closed ? 1 : -1;
    Rerank(queue->second.get());
  }
}

uint64_t Agenda::ReadyIn(const std::string& ns, Subject subject, const std::string& name) const {
  const auto gate = gates_.find(GateName(ns, subject, name));
  uint64_t ready = 0;
  if (gate == gates_.end()) return ready;
  for (const std::string& address : gate->second.queues) {
    const auto queue = queues_.find(address);
    if (queue == queues_.end()) continue;
    for (const auto& [priority, entries] : queue->second->levels) ready += entries.size();
  }
  return ready;
}

std::vector<Agenda::Turn> Agenda::FirstIn(const std::string& ns, Subject subject,
                                          const std::string& name, size_t most) const {
  std::vector<Turn> first;
  const auto gate = gates_.find(GateName(ns, subject, name));
  if (gate == gates_.end()) return first;
  for (const std::string& address : gate->second.queues) {
    const auto queue = queues_.find(address);
    if (queue == queues_.end()) continue;
    size_t left = most;
    for (const auto& [priority, entries] : queue->second->levels) {
      for (size_t i = 0; i < entries.size() && left > 0; ++i, --left) {
        first.push_back({priority, entries[i].since});
      }
    }
  }
  std::ranges::stable_sort(first, [](const Turn& a, const Turn& b) { return a.Before(b); });
  if (first.size() > most) first.resize(most);
  return first;
}

void Agenda::SetFrozen(const std::string& ns, bool frozen) {
  if (frozen) {
    frozen_.insert(ns);
  } else {
    frozen_.erase(ns);
  }
  const std::string prefix = ns + '\0';
  for (auto it = queues_.lower_bound(prefix); it != queues_.end() && it->first.starts_with(prefix);
       ++it) {
    it->second->frozen = frozen;
    Rerank(it->second.get());
  }
}

void Agenda::SetHeld(const std::string& ns, Held held) {
  if (held) {
    held_[ns] = std::move(held);
  } else {
    held_.erase(ns);
  }
  const std::string prefix = ns + '\0';
  for (auto it = queues_.lower_bound(prefix); it != queues_.end() && it->first.starts_with(prefix);
       ++it) {
    it->second->held = Holds(it->second->key);
    Rerank(it->second.get());
  }
}

bool Agenda::Holds(const QueueKey& key) const {
  const auto held = held_.find(key.ns);
  return held != held_.end() && held->second(key);
}

void Agenda::DropNamespace(const std::string& ns) {
  const std::string prefix = ns + '\0';
  for (auto it = queues_.lower_bound(prefix);
       it != queues_.end() && it->first.starts_with(prefix);) {
    Queue* queue = (it++)->second.get();
    DropQueue(queue);
    Erase(queue);
  }
  std::erase_if(gates_, [&prefix](const auto& gate) { return gate.first.starts_with(prefix); });
  for (auto& [filter, group] : groups_) {
    if (filter.ns == ns) group->asked = {};
  }
  frozen_.erase(ns);
  held_.erase(ns);
}

bool Agenda::IsClosed(const Queue* queue) { return queue->closed > 0; }

void Agenda::Attach(Group* group, Queue* queue) {
  queue->groups.push_back(group);
  if (queue->place) group->ranks.insert(group->RankOf(queue, *queue->place));
}

void Agenda::AttachAll(Queue* queue) {
  const auto attach = [&](auto& groups) {
    for (auto& [filter, group] : groups) {
      if (!filter.Matches(queue->key)) continue;
      Attach(group.get(), queue);
      group->Note(&matched_);
    }
  };
  if (queue->key.agent.empty()) return attach(groups_);
  attach(named_.at(NameIn(queue->key.ns, queue->key.agent)).groups);
}

void Agenda::Detach(Queue* queue) {
  for (Group* group : queue->groups) {
    if (queue->place) group->ranks.erase(group->RankOf(queue, *queue->place));
    group->Note(&matched_);
  }
  queue->groups.clear();
}

void Agenda::Derive(const std::string& ns, const std::function<void(QueueKey*)>& derive) {
  const std::string prefix = ns + '\0';
  for (auto it = queues_.lower_bound(prefix); it != queues_.end() && it->first.starts_with(prefix);
       ++it) {
    Queue* queue = it->second.get();
    QueueKey key = queue->key;
    derive(&key);
    if (key.package == queue->key.package && key.required == queue->key.required) continue;
    Detach(queue);
    queue->key = std::move(key);
    AttachAll(queue);
  }
}

// Brings what the groups know of a queue up to date.
void Agenda::Rerank(Queue* queue) {
  std::optional<Queue::Place> place;
  if (!queue->empty() && /*mutant closed-queue-served*/ queue->closed == 0 /*end*/ &&
      /*mutant frozen-handed-out*/ !queue->frozen /*end*/ &&
      /*mutant blocked-handed-out*/ !queue->held /*end*/)
    place = {queue->priority(), queue->oldest(), queue->served};
  if (place == queue->place) return;
  for (Group* group : queue->groups) {
    if (queue->place) group->ranks.erase(group->RankOf(queue, *queue->place));
    if (place) group->ranks.insert(group->RankOf(queue, *place));
    if (!group->waiters.empty()) group->Note(&matched_);
  }
  queue->place = place;
}

void Agenda::Push(Queue* queue, ReadyEntry entry) {
  auto& level = queue->levels[entry.priority];
  auto place = level.end();
  if (!level.empty() && level.back().since > entry.since) {
    /*mutant given-back-goes-last*/ place =
        std::ranges::upper_bound(level, entry.since, {}, &ReadyEntry::since); /*end*/
  }
  /*mutant ready-not-announced*/ level.insert(place, std::move(entry));
  Rerank(queue); /*end*/
}

void Agenda::Load(Queue* queue, ReadyEntry entry) {
  queue->levels[entry.priority].push_back(std::move(entry));
}

void Agenda::Loaded() {
  for (auto& [address, queue] : queues_) {
    for (auto& [priority, level] : queue->levels) {
      auto sorted = std::ranges::is_sorted_until(level, {}, &ReadyEntry::since);
      /*mutant recover-order-lost*/ if (sorted != level.end())
        std::ranges::sort(level, {}, &ReadyEntry::since); /*end*/
    }
    Rerank(queue.get());
  }
}

// The queue that comes first of two groups of one filter; null: neither has work.
Agenda::Queue* Agenda::Next(const Group* group, const Group* other) {
  if (!other || other->ranks.empty()) std::swap(group, other);
  if (!other || other->ranks.empty()) return nullptr;
  if (!group || group->ranks.empty()) return other->ranks.begin()->queue;
  return std::min(*group->ranks.begin(), *other->ranks.begin(), RankLess()).queue;
}

std::optional<Agenda::Popped> Agenda::Pop(const Filter& filter, std::string_view name) {
  const Group* group = GroupFor(filter);
  Named* named = named_.empty() ? nullptr : NamedFor(filter, name);
  Queue* queue = Next(group, named ? NamedGroup(named, filter) : nullptr);
  if (!queue) return std::nullopt;
  auto level = queue->levels.begin();
  Popped popped{queue, std::move(level->second.front()), queue->served};
  level->second.pop_front();
  if (level->second.empty()) queue->levels.erase(level);
  queue->served = ++tick_;
  Rerank(queue);
  return popped;
}

void Agenda::KeepTurn(const Popped& popped) {
  popped.queue->served = popped.served;
  Rerank(popped.queue);
}

std::vector<Agenda::Level> Agenda::Peek(const Filter& filter, std::string_view name, size_t most) {
  std::map<int64_t, Level, std::greater<>> found;
  const auto from = [&found](int64_t priority) {
    size_t entries = 0;
    for (const auto& [at, level] : found) entries += at >= priority ? level.entries : 0;
    return entries;
  };
  const size_t times = std::min(most, kTimes);
  const auto add = [&](const Queue& queue) {
    for (const auto& [priority, entries] : queue.levels) {
      if (from(priority) >= most) return;
      Level& level = found.try_emplace(priority, Level{priority, 0, {}}).first->second;
      level.entries += entries.size();
      const auto middle = static_cast<std::ptrdiff_t>(level.since.size());
      for (size_t i = 0; i < std::min(times, entries.size()); ++i) {
        level.since.push_back(entries[i].since);
      }
      std::inplace_merge(level.since.begin(), level.since.begin() + middle, level.since.end());
      level.since.resize(std::min(times, level.since.size()));
    }
  };
  Named* named = named_.empty() ? nullptr : NamedFor(filter, name);
  for (const Group* group : {GroupFor(filter), named ? NamedGroup(named, filter) : nullptr}) {
    if (!group) continue;
    for (const Rank& rank : group->ranks) {
      if (from(rank.priority) >= most) break;
      add(*rank.queue);
    }
  }
  std::vector<Level> levels;
  size_t entries = 0;
  for (const auto& [priority, level] : found) {
    if (entries >= most) break;
    levels.push_back(level);
    entries += level.entries;
  }
  return levels;
}

Agenda::Group* Agenda::GroupFor(const Filter& filter) {
  auto it = groups_.find(filter);
  if (it == groups_.end()) {
    EvictGroups();
    it = groups_.emplace(filter, std::make_unique<Group>()).first;
    it->second->filter = filter;
    for (auto& [address, queue] : queues_) {
      if (queue->key.agent.empty() && filter.Matches(queue->key)) {
        Attach(it->second.get(), queue.get());
      }
    }
  }
  it->second->used = ++tick_;
  it->second->asked = now_;
  return it->second.get();
}

// Filters come from outside, so what is remembered of them is bounded: the half that was used
// longest ago and that nobody waits for goes.
void Agenda::EvictGroups() {
  if (groups_.size() < evict_at_) return;
  std::vector<uint64_t> used;
  for (const auto& [filter, group] : groups_) used.push_back(group->used);
  auto middle = used.begin() + static_cast<std::ptrdiff_t>(used.size() / 2);
  std::nth_element(used.begin(), middle, used.end());
  std::set<Group*> gone;
  for (const auto& [filter, group] : groups_) {
    if (group->used <= *middle && group->waiters.empty()) gone.insert(group.get());
  }
  for (auto& [address, queue] : queues_) {
    std::erase_if(queue->groups, [&gone](Group* group) { return gone.contains(group); });
  }
  std::erase_if(groups_, [&gone](const auto& item) { return gone.contains(item.second.get()); });
  evict_at_ = std::max(limits::kFilters, 2 * groups_.size());
}

void Agenda::DropQueue(Queue* queue) {
  queue->levels.clear();
  Rerank(queue);
}

void Agenda::Erase(Queue* queue) {
  if (!queue->key.agent.empty()) RemoveNamed(queue);
  const std::string address = Address(queue->key);
  for (auto& [name, gate] : gates_) gate.queues.erase(address);
  queues_.erase(address);
}

void Agenda::DropVersions(const std::string& ns, const std::string& machine, uint32_t before) {
  const std::string prefix = Prefix(ns, machine);
  for (auto it = queues_.lower_bound(prefix);
       it != queues_.end() && it->first.starts_with(prefix);) {
    const uint32_t version = it->second->key.version;  // 0: of what nobody has defined
    if (version > 0 && version < before) {
      Queue* queue = (it++)->second.get();
      DropQueue(queue);
      Erase(queue);
    } else {
      ++it;
    }
  }
}

void Agenda::AddWaiter(WaiterId waiter, const Filter& filter, std::string_view name) {
  Group* group = GroupFor(filter);
  group->waiters.push_back({waiter, ++tick_});
  waiters_[waiter] = {group, std::prev(group->waiters.end()), std::string(name)};
  /*mutant waiter-not-matched*/ if (!group->ranks.empty())
    matched_.insert(group); /*end*/
  if (!watches_names_) return;
  by_name_[NameIn(filter.ns, name)].insert(waiter);
  /*mutant named-not-joined*/ if (Named* named = NamedFor(filter, name))
    JoinNamed(waiter, named); /*end*/
}

void Agenda::RemoveWaiter(WaiterId waiter) {
  auto it = waiters_.find(waiter);
  if (it == waiters_.end()) return;
  Group* group = it->second.group;
  group->waiters.erase(it->second.place);
  if (group->waiters.empty()) matched_.erase(group);
  if (Group* own = it->second.own) {
    own->waiters.erase(it->second.own_place);
    if (own->waiters.empty()) matched_.erase(own);
  }
  if (watches_names_) {
    const auto known = by_name_.find(NameIn(group->filter.ns, it->second.name));
    known->second.erase(waiter);
    if (known->second.empty()) by_name_.erase(known);
  }
  waiters_.erase(it);
}

bool Agenda::IsAwaited(const QueueKey& key) const {
  const auto queue = queues_.find(Address(key));
  if (queue == queues_.end()) return false;
  const auto waits = [](const Group* group) { return !group->waiters.empty(); };
  return std::ranges::any_of(queue->second->groups, waits);
}

std::optional<std::pair<WaiterId, Filter>> Agenda::NextMatch() {
  if (matched_.empty()) return std::nullopt;
  auto since = [](const Group* group) { return group->waiters.front().since; };
  Group* group = *std::ranges::min_element(matched_, {}, since);
  const WaiterId id = group->waiters.front().id;
  const uint64_t now = ++tick_;
  const auto move_last = [now](std::list<Waiter>& all, std::list<Waiter>::iterator place) {
    place->since = now;
    all.splice(all.end(), all, place);
  };
  if (!watches_names_) {
    move_last(group->waiters, group->waiters.begin());
    return std::pair{id, group->filter};
  }
  const Parked& parked = waiters_.at(id);
  move_last(parked.group->waiters, parked.place);
  if (parked.own) move_last(parked.own->waiters, parked.own_place);
  return std::pair{id, group->filter};
}

}  // namespace dfsmr
