#include "fsm/derived/agenda.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "fsm/base/limits.h"

namespace dfsmr {

bool Filter::Matches(const QueueKey& key) const {
  return ns == key.ns && (machine.empty() || machine == key.machine) &&
         (node.empty() || node == key.node) && (action.empty() || action == key.action) &&
         /*mutant filter-ignores-queue*/ (queue.empty() || queue == key.queue) /*end*/;
}

class Agenda::Queue {
 public:
  Queue(const QueueKey& k, uint64_t n) : key(k), number(n) {}

  bool empty() const { return levels.empty(); }
  int64_t priority() const { return levels.begin()->first; }
  Timestamp oldest() const { return levels.begin()->second.front().since; }

  QueueKey key;
  const uint64_t number;  // orders equals: by address no two runs would be alike
  std::map<int64_t, std::deque<ReadyEntry>, std::greater<>> levels;  // by priority, none empty
  uint64_t served = 0;             // tick of the last hand-out
  int closed = 0;                  // how many of its gates are
  std::vector<Group*> groups;      // the filters that match it
  struct Place {
    int64_t priority = 0;
    Timestamp oldest;
    uint64_t served = 0;
    friend bool operator==(const Place&, const Place&) = default;
  };
  std::optional<Place> place;  // as the groups know it; none: it is empty
};

struct Agenda::Rank {
  int64_t priority;
  int64_t turn;  // the lower the sooner
  Queue* queue;
};

struct Agenda::RankLess {
  bool operator()(const Rank& a, const Rank& b) const {
    if (a.priority != b.priority) return a.priority > b.priority;
    if (a.turn != b.turn) return a.turn < b.turn;
    return a.queue->number < b.queue->number;
  }
};

struct Agenda::Group {
  // Of one machine the oldest is next; of several their queues take turns.
  Rank RankOf(Queue* queue, const Queue::Place& place) const {
    const bool several = /*mutant machines-take-no-turns*/ filter.machine.empty() /*end*/;
    const int64_t turn = several ? static_cast<int64_t>(place.served) : Micros(place.oldest);
    return {place.priority, turn, queue};
  }

  Filter filter;
  std::set<Rank, RankLess> ranks;  // the queues with work
  std::list<Waiter> waiters;       // longest waiting first
  uint64_t used = 0;
};

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
  return address;
}

std::string GateName(const std::string& ns, Agenda::Subject subject, const std::string& name) {
  return ns + '\0' + (subject == Agenda::Subject::kQueue ? 'q' : 'a') + name;
}

}  // namespace

Agenda::Agenda() : evict_at_(limits::kFilters) {}
Agenda::~Agenda() = default;

const QueueKey& Agenda::KeyOf(const Queue* queue) { return queue->key; }

Agenda::Queue* Agenda::QueueFor(const QueueKey& key) {
  auto& queue = queues_[Address(key)];
  if (!queue) {
    queue = std::make_unique<Queue>(key, ++tick_);
    for (auto& [filter, group] : groups_) {
      if (filter.Matches(key)) Attach(group.get(), queue.get());
    }
    if (!gates_.empty()) EnterGates(queue.get());
  }
  return queue.get();
}

void Agenda::EnterGates(Queue* queue) {
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
      if (queue->key.ns == ns && its == name) gate.queues.insert(address);
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

bool Agenda::IsClosed(const Queue* queue) { return queue->closed > 0; }

void Agenda::Attach(Group* group, Queue* queue) {
  queue->groups.push_back(group);
  if (queue->place) group->ranks.insert(group->RankOf(queue, *queue->place));
}

// Brings what the groups know of a queue up to date.
void Agenda::Rerank(Queue* queue) {
  std::optional<Queue::Place> place;
  if (!queue->empty() && /*mutant closed-queue-served*/ queue->closed == 0 /*end*/)
    place = {queue->priority(), queue->oldest(), queue->served};
  if (place == queue->place) return;
  for (Group* group : queue->groups) {
    if (queue->place) group->ranks.erase(group->RankOf(queue, *queue->place));
    if (place) group->ranks.insert(group->RankOf(queue, *place));
    if (group->waiters.empty()) continue;
    if (group->ranks.empty()) {
      matched_.erase(group);
    } else {
      matched_.insert(group);
    }
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

std::optional<Agenda::Popped> Agenda::Pop(const Filter& filter) {
  Group* group = GroupFor(filter);
  if (group->ranks.empty()) return std::nullopt;
  Queue* queue = group->ranks.begin()->queue;
  auto level = queue->levels.begin();
  Popped popped{queue, std::move(level->second.front())};
  level->second.pop_front();
  if (level->second.empty()) queue->levels.erase(level);
  queue->served = ++tick_;
  Rerank(queue);
  return popped;
}

Agenda::Group* Agenda::GroupFor(const Filter& filter) {
  auto it = groups_.find(filter);
  if (it == groups_.end()) {
    EvictGroups();
    it = groups_.emplace(filter, std::make_unique<Group>()).first;
    it->second->filter = filter;
    for (auto& [address, queue] : queues_) {
      if (filter.Matches(queue->key)) Attach(it->second.get(), queue.get());
    }
  }
  it->second->used = ++tick_;
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

void Agenda::DropVersions(const std::string& ns, const std::string& machine, uint32_t before) {
  const std::string prefix = Prefix(ns, machine);
  for (auto it = queues_.lower_bound(prefix);
       it != queues_.end() && it->first.starts_with(prefix);) {
    const uint32_t version = it->second->key.version;  // 0: of what nobody has defined
    if (version > 0 && version < before) {
      DropQueue(it->second.get());
      for (auto& [name, gate] : gates_) gate.queues.erase(it->first);
      it = queues_.erase(it);
    } else {
      ++it;
    }
  }
}

void Agenda::AddWaiter(WaiterId waiter, const Filter& filter) {
  Group* group = GroupFor(filter);
  group->waiters.push_back({waiter, ++tick_});
  waiters_[waiter] = {group, std::prev(group->waiters.end())};
  /*mutant waiter-not-matched*/ if (!group->ranks.empty())
    matched_.insert(group); /*end*/
}

void Agenda::RemoveWaiter(WaiterId waiter) {
  auto it = waiters_.find(waiter);
  if (it == waiters_.end()) return;
  Group* group = it->second.group;
  group->waiters.erase(it->second.place);
  if (group->waiters.empty()) matched_.erase(group);
  waiters_.erase(it);
}

std::optional<std::pair<WaiterId, Filter>> Agenda::NextMatch() {
  if (matched_.empty()) return std::nullopt;
  auto since = [](const Group* group) { return group->waiters.front().since; };
  Group* group = *std::ranges::min_element(matched_, {}, since);
  group->waiters.splice(group->waiters.end(), group->waiters, group->waiters.begin());
  group->waiters.back().since = ++tick_;
  return std::pair{group->waiters.back().id, group->filter};
}

}  // namespace dfsmr
