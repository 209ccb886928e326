// What the engine keeps in memory. Included by engine*.cc only.
#pragma once

#include <algorithm>

#include "dsrv/engine/engine.h"

namespace dfsmr {

struct Engine::NodeState {
  uint64_t ready = 0;
  uint64_t claimed = 0;
  uint64_t waiting = 0;
  uint64_t held = 0;
  uint64_t completed = 0;
  uint64_t timed_out = 0;
  Agenda::Queue* queue = nullptr;  // work nodes, from the first ready token on
  Latency* latency = nullptr;      // work nodes; shared by the versions of the machine
};

// The nodes of an instance, and where each of them is counted. All instances of a plain machine
// share one; those of a plan share one as long as their params make no difference.
struct Engine::Graph {
  std::shared_ptr<const Machine> machine;
  std::vector<NodeState*> states;  // as machine->nodes
};

struct Engine::VersionState {
  MachineVersionPtr definition;
  MachineState* machine = nullptr;
  std::map<std::string, NodeState> nodes;  // by StatsName
  GraphPtr graph;  // of a plain machine; of a plan: no nodes yet
  std::shared_ptr<const PlanSource> plan;  // null: a plain machine
  std::shared_ptr<const Machine> shown;  // a plan's nodes; null: it cannot be compiled any more
  std::set<std::string> written;         // shared graphs that the store has
  // The graph that the plan has under the definitions as they stand.
  std::string shared_name;
  std::weak_ptr<const Graph> shared;
  uint64_t scheduled = 0;
  uint64_t running = 0;
  uint64_t paused = 0;
  uint64_t stopped = 0;
  // What a later version's upgrade_strategy makes of instances that have not stopped.
  VersionState* upgrades_to = nullptr;
  VersionState* aborted_by = nullptr;

  bool LeftBehind() const { return upgrades_to || aborted_by; }
  uint64_t Alive() const { return scheduled + running + paused; }
};

struct Engine::MachineState {
  std::string ns;
  std::string id;
  std::map<uint32_t, VersionState> versions;
  std::map<std::string, Latency> latencies;  // by node
  Breaker breaker;
  std::optional<TimerKey> breaker_timer;
  // Retries that an open breaker holds back, by their queues. One of each queue at a time is let
  // out to be asked for; which of them is handed out when the next retry may be is up to who asks.
  struct HeldBack {
    std::deque<ReadyEntry> waiting;  // oldest first
    std::string released;            // the instance of the one that is out; empty: none
    uint64_t released_visit = 0;
  };
  std::map<Agenda::Queue*, HeldBack> held_back;
  std::string swept;  // the background move has come as far as this id
  // Of the versions' stopped instances, those that retention has dropped since the stats row.
  rows::DroppedCounts dropped;
};

// What a step starts children for, and how far it has come.
struct Engine::PlanItems {
  std::string list;   // of a spawn
  size_t at = 0;
  uint64_t next = 0;  // the number of the item at `at`
  std::vector<rows::ChildStart> starts;  // of a worker
  std::set<uint64_t> unstarted;          // numbers noted as such, maybe not durable yet
};

// What is kept of an instance of a plan while it is in memory.
struct Engine::PlanCache {
  std::shared_ptr<const PlanSource> source;
  std::map<std::string, std::string_view> params;  // members of large ones; in the resident's spec
  bool new_graph = false;  // its row is to be written this turn
  uint64_t dropped_turn = 0;  // until it is written the store has outputs and flows that are gone
  // What the store may not show yet: of the last turns, and of those before them.
  struct Unseen {
    std::map<std::string, std::string> outputs;  // by step
    std::map<std::string, std::string> planned;  // by step
  };
  Unseen last;
  Unseen before;
  std::map<uint64_t, PlanItems> items;  // by generation
};

struct Engine::Resident {
  Instance instance;
  VersionState* version = nullptr;
  GraphPtr graph;
  std::shared_ptr<const Spec> spec;        // null: not loaded yet
  std::list<Resident*>::iterator place{};  // in by_use_
  std::vector<Event> pending;              // CLAIMED events that are not in the feed yet
  std::vector<std::pair<std::string, std::string>> outputs;  // of this turn: node → JSON
  std::vector<std::pair<ClaimId, TimerKey>> claim_timers;
  // Pages of its history, written but maybe not durable yet: as PlanCache's, of the last turns and
  // of those up to `before_turn`. An instance that is busy in every turn is never wholly durable.
  std::vector<uint64_t> pages;
  std::vector<uint64_t> pages_before;
  uint64_t before_turn = 0;
  uint64_t dirty_turn = 0;                 // the last turn that wrote its row
  bool used = false;                       // since its place in by_use_ was looked at
  bool lazy = false;                       // something is only in memory: it is in lazy_,
  std::list<std::pair<Timestamp, Resident*>>::iterator lazy_place{};  // here
  bool created = false;                    // in this turn: its spec is to be written
  bool stopped_on_disk = false;
  Boxed<PlanCache> plan;

  const Machine& machine() const { return *graph->machine; }
  NodeState& StateOf(NodeIndex node) const { return *graph->states[node]; }
};

struct Engine::Waiter {
  Filter filter;
  std::string worker;
  size_t max = 1;  // tasks of the answer, or capacity of the stream
  PollSink poll;
  std::optional<TimerKey> timer;
  SessionSink session;
  bool draining = false;
  struct InHand {
    std::string instance;
    uint64_t visit;
  };
  std::map<ClaimId, InHand> in_hand;

  size_t Room() const { return draining || in_hand.size() >= max ? 0 : max - in_hand.size(); }
};

// What Consequences compares an instance with.
struct Engine::Before {
  InstanceState state;
  VersionState* version;
  GraphPtr graph;
  bool killed;
  bool cancel_requested;
  ChildClass child;
  bool plan;
  std::string key;
  bool waits_for_key;
};

inline Engine::PlanCache& Engine::CacheOf(Resident& resident) {
  if (!resident.plan) resident.plan = PlanCache();
  return *resident.plan;
}

// Whether what is ready is handed out.
inline bool Runs(InstanceState state) {
  return /*mutant paused-handed-out*/ state == InstanceState::kRunning ||
         state == InstanceState::kPlanning /*end*/;
}

// The finaliser of MurmurHash3: spreads what little entropy a counter has.
inline uint64_t Mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdull;
  x ^= x >> 33;
  return x;
}

inline Engine::ResidentName Engine::NameOf(const Resident& resident) {
  return {resident.instance.ns, resident.instance.id};
}

template <typename One>
size_t Engine::ByName::operator()(const One& one) const {
  if constexpr (std::is_same_v<One, ResidentName>) {
    const std::hash<std::string_view> hash;
    return hash(one.id) ^ Mix(hash(one.ns));
  } else {
    return (*this)(NameOf(*one));
  }
}

template <typename One, typename Other>
bool Engine::ByName::operator()(const One& one, const Other& other) const {
  if constexpr (!std::is_same_v<One, ResidentName>) {
    return (*this)(NameOf(*one), other);
  } else if constexpr (!std::is_same_v<Other, ResidentName>) {
    return one == NameOf(*other);
  } else {
    return one == other;
  }
}

inline std::string ResidentKey(std::string_view ns, std::string_view id) {
  std::string key;
  key.reserve(ns.size() + id.size() + 1);
  key += ns;
  key += '\0';
  key += id;
  return key;
}

template <typename Rule>
auto Engine::Change(Resident& resident, ClaimId self, Rule rule) {
  Instance& instance = resident.instance;
  const PlanState* plan = instance.plan ? &*instance.plan : nullptr;
  Before before{instance.state, resident.version, resident.graph, instance.killed,
                instance.cancel_requested, ClassOf(instance), plan != nullptr,
                plan ? plan->key : "", plan && plan->waits_for_key};
  random_ = Mix(random_ + 0x9e3779b97f4a7c15ull);
  now_ += Duration(1);  // no two changes at the same time: so "oldest first" needs no second key
  std::vector<Event> events;
  /*mutant change-counted-twice*/ CountState(resident, -1); /*end*/
  const GraphPtr graph = resident.graph;  // an upgrade may put another in its place
  Scene scene{*graph->machine, instance, now_, epoch_, random_, events, {}, {}};
  if (plan) AskForKey(resident, &scene);
  auto outcome = rule(scene);
  CountState(resident, +1);
  CountTokens(resident, *before.graph);
  if (!events.empty()) Stage(resident, events);
  if (events.empty() && !instance.tokens.touched().empty()) MarkLazy(resident);
  Consequences(resident, before, self, scene.entered);
  instance.tokens.Forget();
  return outcome;
}

}  // namespace dfsmr
