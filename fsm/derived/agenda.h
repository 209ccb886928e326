// What is ready, and who waits for it: derived from the live instances, kept in memory, rebuilt at
// start. Pure bookkeeping: it never looks at an instance; what it hands back may have moved on
// meanwhile, and the caller checks.
//
// Ready tokens sit in queues, one per (namespace, machine, version, node, action, queue). A filter
// is what a poll asks for; it is matched against the queues once and then remembers those that
// match, ordered by whose turn it is: higher priority first. Then, for a filter that names a
// machine, the queue with the oldest entry; for any other the one that was served longest ago, so
// that a flood on one does not starve another. Within a queue: higher priority, then oldest.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "fsm/base/time.h"

namespace dfsmr {

struct QueueKey {
  std::string ns;
  std::string machine;
  uint32_t version = 0;
  std::string node;
  std::string action;
  std::string queue;
};

// Empty fields match anything; `ns` is always given.
struct Filter {
  std::string ns;
  std::string machine;
  std::string node;
  std::string action;
  std::string queue;
  friend auto operator<=>(const Filter&, const Filter&) = default;
  bool Matches(const QueueKey& key) const;
};

struct ReadyEntry {
  std::string instance;
  uint64_t visit = 0;
  Timestamp since;  // its age: what is given back or timed out keeps its place
  int32_t priority = 0;
};

using WaiterId = uint64_t;

class Agenda {
 public:
  class Queue;

  Agenda();
  ~Agenda();
  Agenda(const Agenda&) = delete;
  Agenda& operator=(const Agenda&) = delete;

  // The queue of a node; made on first use. Stable until its version is dropped.
  Queue* QueueFor(const QueueKey& key);
  void Push(Queue* queue, ReadyEntry entry);
  // At start: the same for many at once, in any order; Loaded puts them in theirs.
  void Load(Queue* queue, ReadyEntry entry);
  void Loaded();

  struct Popped {
    Queue* queue;
    ReadyEntry entry;
  };
  // The next entry for the filter; nullopt when nothing matches.
  std::optional<Popped> Pop(const Filter& filter);

  static const QueueKey& KeyOf(const Queue* queue);

  // Forgets all queues of versions before `version`: nothing of them is handed out any more.
  void DropVersions(const std::string& ns, const std::string& machine, uint32_t before);

  // Parks a waiter; it is named by NextMatch when its filter has work, longest waiting first.
  void AddWaiter(WaiterId waiter, const Filter& filter);
  void RemoveWaiter(WaiterId waiter);
  size_t waiters() const { return waiters_.size(); }
  // A waiter for whose filter something is queued, with that filter; nullopt when there is none.
  // The waiter stays parked, last in line; remove it when it wants nothing more.
  std::optional<std::pair<WaiterId, Filter>> NextMatch();

 private:
  struct Rank;
  struct RankLess;
  struct Group;

  Group* GroupFor(const Filter& filter);
  void Attach(Group* group, Queue* queue);
  void Rerank(Queue* queue);
  void EvictGroups();
  void DropQueue(Queue* queue);

  uint64_t tick_ = 0;
  size_t evict_at_;
  std::map<std::string, std::unique_ptr<Queue>, std::less<>>
      queues_;  // by all of its key
  std::map<Filter, std::unique_ptr<Group>> groups_;
  struct Waiter {
    WaiterId id;
    uint64_t since;  // tick
  };
  struct Parked {
    Group* group;
    std::list<Waiter>::iterator place;
  };
  std::unordered_map<WaiterId, Parked> waiters_;
  std::set<Group*> matched_;  // groups with both waiters and work
};

}  // namespace dfsmr
