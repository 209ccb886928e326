// What is ready, and which polls wait for it: derived from the live instances, kept in memory,
// rebuilt at start. It never looks at an instance. A token that it hands back may have moved since,
// so the caller checks.
//
// Ready tokens sit in queues, one per (namespace, machine, version, node, action, queue). A filter
// is what a poll asks for. It is matched against the queues once, and then keeps the queues that
// match in the order in which they are served: higher priority first. Then, for a filter that names
// a machine, the queue with the oldest entry; for any other the one that was served longest ago, so
// that a flood on one does not starve another. Within a queue: higher priority, then oldest.
//
// A queue may be for the workers of one name alone. Filters do not match those: they are matched
// for a worker who asks by that name, and as long as there is no such queue, names cost nothing.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
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
  std::vector<std::string> capabilities = {};  // that a worker must have; sorted
  std::string agent = {};                      // only for workers of that name; empty: for all
  bool dry_run = false;                        // only for workers that take dry runs, too
  // What follows from the packages in force, and is no part of its identity: whose task it is, and
  // what a worker must have besides, sorted.
  std::string package = {};
  std::vector<std::string> required = {};
  // Of capabilities and required.
  std::vector<std::string> Words() const;
};

// A node of a version that a worker is not offered.
struct RefusedNode {
  std::string machine;
  uint32_t version = 0;
  std::string node;
  friend auto operator<=>(const RefusedNode&, const RefusedNode&) = default;
};

// Empty fields match anything; `ns` is always given. Equal filters share what is remembered of
// them, so lists are sorted.
struct Filter {
  std::string ns;
  std::string machine;
  std::string node;
  std::string action;
  std::string queue;
  std::vector<std::string> actions = {};       // NAME, NAME.* or *: one of them, or of `packages`
  std::vector<std::string> packages = {};      // "*": of any
  std::vector<std::string> queues = {};        // one of them
  std::vector<std::string> capabilities = {};  // what the worker has
  std::vector<RefusedNode> refuses = {};       // what it is not offered for now
  bool dry_run = false;                        // also tasks of dry runs
  friend auto operator<=>(const Filter&, const Filter&) = default;
  // Whatever the worker's name is.
  bool Matches(const QueueKey& key) const;
  // The same, whatever it has.
  bool Wants(const QueueKey& key) const;
  bool Has(const std::vector<std::string>& words) const;  // all of these, sorted, capabilities
};

struct ReadyEntry {
  std::string instance;
  uint64_t visit = 0;
  Timestamp since;  // its place in line, which a token keeps when it is given back or timed out
  int64_t priority = 0;  // of node and instance together, which is more than 32 bits hold
};

using WaiterId = uint64_t;

class Agenda {
 public:
  class Queue;

  Agenda();
  ~Agenda();
  Agenda(const Agenda&) = delete;
  Agenda& operator=(const Agenda&) = delete;

  // The queue of a node; made on first use. Stable until its version is dropped; one for a single
  // worker only until the next one is made, unless it holds something or is kept.
  Queue* QueueFor(const QueueKey& key);
  void Push(Queue* queue, ReadyEntry entry);
  // For the start: adds many entries in any order; Loaded then sorts them.
  void Load(Queue* queue, ReadyEntry entry);
  void Loaded();

  struct Popped {
    Queue* queue;
    ReadyEntry entry;
    uint64_t served = 0;  // when something of its queue was handed out before
  };
  // The next entry for the filter of a worker of this name; nullopt when nothing matches.
  std::optional<Popped> Pop(const Filter& filter, std::string_view name = {});
  // What was popped is not ready any more: its queue still has its turn. Right after the pop.
  void KeepTurn(const Popped& popped);
  // What Pop would find, by priority, highest first: at least `most` entries, or all there are.
  struct Level {
    int64_t priority = 0;
    size_t entries = 0;
    std::vector<Timestamp> since;  // of the oldest, in order: `most` of them, or kTimes
  };
  static constexpr size_t kTimes = 64;
  std::vector<Level> Peek(const Filter& filter, std::string_view name, size_t most);
  // Makes the queue stable until its version is dropped.
  static void Keep(Queue* queue);

  static const QueueKey& KeyOf(const Queue* queue);

  // The packages in force of a namespace have changed: `derive` fills in anew what follows from
  // them, for each of its queues.
  void Derive(const std::string& ns, const std::function<void(QueueKey*)>& derive);

  // For people who look ---------------------------------------------------------------------------
  // All queues of a namespace, or of all (empty).
  void VisitQueues(const std::string& ns, const std::function<void(const Queue*)>& visit) const;
  // Of each priority the entries, oldest first, until `visit` returns false.
  static void VisitOldest(const Queue* queue, const std::function<bool(const ReadyEntry&)>& visit);
  // How many waiters are parked that would be given what is in this queue.
  size_t AskingFor(const Queue* queue) const;
  // When somebody last asked for such work, as far as filters are remembered; nullopt: nobody has.
  std::optional<Timestamp> AskedTime(const Queue* queue) const;
  // What is asked for in a namespace, as far as filters are remembered: by how many waiters, and
  // when last (Timestamp(): not since the start). For nodes that have no queue, since nothing was
  // ever ready there.
  using VisitAsked = std::function<void(const Filter& filter, size_t waiters, Timestamp asked)>;
  void VisitFilters(const std::string& ns, const VisitAsked& visit) const;
  // The time of what is asked from now on.
  void SetTime(Timestamp now) { now_ = now; }

  // Hands out nothing of a queue, or of an action, of a namespace while it is closed. What is ready
  // there keeps its place.
  enum class Subject : uint8_t { kQueue, kAction };
  void SetClosed(const std::string& ns, Subject subject, const std::string& name, bool closed);
  static bool IsClosed(const Queue* queue);
  // Hands out nothing of a namespace while it is frozen, not even dry runs.
  void SetFrozen(const std::string& ns, bool frozen);
  bool IsFrozen(const std::string& ns) const { return frozen_.contains(ns); }
  // Hands out nothing of those queues of a namespace for which `held` is true, whether they are
  // there or are made later; null: of all of them something. What it looks at may change only with
  // another call.
  using Held = std::function<bool(const QueueKey&)>;
  void SetHeld(const std::string& ns, Held held);
  bool Holds(const QueueKey& key) const;
  bool HoldsAny() const { return !held_.empty(); }
  // Drops all queues of a namespace, and forgets what was closed in it.
  void DropNamespace(const std::string& ns);
  // How many are ready in a queue, or of an action, that was closed once.
  uint64_t ReadyIn(const std::string& ns, Subject subject, const std::string& name) const;

  // Of these the first, as many: by priority, highest first, of equals the oldest.
  struct Turn {
    int64_t priority = 0;
    Timestamp since;
    friend bool operator==(const Turn&, const Turn&) = default;
    // Whether it comes before another one.
    bool Before(const Turn& other) const {
      return priority != other.priority ? priority > other.priority : since < other.since;
    }
  };
  std::vector<Turn> FirstIn(const std::string& ns, Subject subject, const std::string& name,
                            size_t most) const;

  // Drops the queues of versions before `version`: none of their entries is handed out any more.
  void DropVersions(const std::string& ns, const std::string& machine, uint32_t before);

  // Parks a waiter of this name. NextMatch answers it when its filter has work, the longest waiting
  // first.
  void AddWaiter(WaiterId waiter, const Filter& filter, std::string_view name = {});
  void RemoveWaiter(WaiterId waiter);
  // Whether a waiter is parked that may be given what is in this queue.
  bool IsAwaited(const QueueKey& key) const;
  size_t waiters() const { return waiters_.size(); }
  size_t named_queues() const { return named_queues_; }
  // Whether there ever was a queue for one name alone.
  bool watches_names() const { return watches_names_; }
  // A waiter whose filter has an entry queued, with that filter; nullopt when no waiter has. The
  // waiter stays parked, last in line; remove it when it wants nothing more.
  std::optional<std::pair<WaiterId, Filter>> NextMatch();

 private:
  struct Rank;
  struct RankLess;
  struct Group;

  Group* GroupFor(const Filter& filter);
  void Attach(Group* group, Queue* queue);
  void AttachAll(Queue* queue);  // to those that match it
  void Detach(Queue* queue);
  static Queue* Next(const Group* group, const Group* other);
  void Rerank(Queue* queue);
  void EvictGroups();
  void DropQueue(Queue* queue);
  void EnterGates(Queue* queue);
  void Erase(Queue* queue);

  // What is for the workers of one name alone.
  struct Named {
    std::vector<Queue*> queues;
    std::map<Filter, std::unique_ptr<Group>> groups;  // of waiters and polls of that name
  };
  Named* NamedFor(const Filter& filter, std::string_view name);  // null: there is nothing
  Group* NamedGroup(Named* named, const Filter& filter);
  void EvictNamed(Named* named);
  void AddNamed(Queue* queue);
  void RemoveNamed(Queue* queue);
  void SweepNamed();
  void WatchNames();
  void JoinNamed(WaiterId waiter, Named* named);

  Timestamp now_;
  uint64_t tick_ = 0;
  size_t evict_at_;
  std::map<std::string, std::unique_ptr<Queue>, std::less<>>
      queues_;  // by all of its key
  std::map<Filter, std::unique_ptr<Group>> groups_;
  struct Gate {
    bool closed = false;
    std::set<std::string> queues;  // that it is the gate of, by all of their keys
  };
  std::map<std::string, Gate> gates_;  // of what was closed once
  std::set<std::string> frozen_;       // namespaces
  std::map<std::string, Held> held_;   // by namespace
  struct Waiter {
    WaiterId id;
    uint64_t since;  // tick
  };
  struct Parked {
    Group* group;
    std::list<Waiter>::iterator place;
    std::string name;
    Group* own = nullptr;  // of what is for its name alone; null: there is no such queue
    std::list<Waiter>::iterator own_place = {};
  };
  std::unordered_map<WaiterId, Parked> waiters_;
  std::set<Group*> matched_;  // groups with both waiters and work
  std::map<std::string, Named, std::less<>> named_;  // by namespace and name
  size_t named_queues_ = 0;
  size_t sweep_at_;
  // From the first queue for a single worker on: the waiters by namespace and name.
  bool watches_names_ = false;
  std::unordered_map<std::string, std::set<WaiterId>> by_name_;
};

}  // namespace dfsmr
