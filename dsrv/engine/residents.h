// The instances in memory: loaded when they are touched, evicted when nothing keeps them, and
// written at the end of a turn that has changed them.
#pragma once

#include <absl/container/flat_hash_set.h>

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dsrv/engine/catalog.h"
#include "dsrv/engine/statistics.h"
#include "dsrv/engine/turn.h"
#include "fsm/base/boxed.h"
#include "storage/rows/plan.h"

namespace dfsmr {

// The items for which a step starts children, and how far it has come with them.
struct PlanItems {
  std::string list;  // of a spawn: a JSON list
  size_t at = 0;     // where item number `next` begins in `list`
  uint64_t next = 0;
  std::vector<rows::ChildStart> starts;  // as a worker asked for them
};

// What an instance of a plan has in memory besides.
struct PlanCache {
  std::shared_ptr<const PlanSource> source;
  std::map<std::string, std::string_view> params;  // members of large params; point into the spec
  std::map<uint64_t, PlanItems> items;             // by generation
};

struct Resident {
  Instance instance;
  VersionState* version = nullptr;
  GraphPtr graph;
  std::shared_ptr<const Spec> spec;        // null: not loaded yet
  std::list<Resident*>::iterator place{};  // in order of use, or among those that have stopped
  std::vector<Event> pending;              // CLAIMED events that are not in the feed yet
  // The timers' keys of live claims' deadlines.
  std::vector<std::pair<ClaimId, std::pair<Timestamp, uint64_t>>> claim_timers;
  uint64_t dirty_turn = 0;  // the last turn that wrote its row
  bool used = false;        // since eviction last looked at it
  bool ended = false;       // it is in the list of those that have stopped
  bool lazy = false;        // something of it is only in memory, and it has a
  std::list<std::pair<Timestamp, Resident*>>::iterator lazy_place{};
  bool created = false;      // in this turn: its spec is to be written
  bool got_outputs = false;  // in this turn
  bool stopped_on_disk = false;
  bool left_here = false;  // of a plan that stopped in an earlier turn: what is left is in memory
  bool fleeting = false;  // once it has stopped it is removed at once
  Boxed<PlanCache> plan;

  const Machine& machine() const { return *graph->machine; }
  NodeState& StateOf(NodeIndex node) const { return graph->StateOf(node); }
};

inline PlanCache& CacheOf(Resident& resident) {
  if (!resident.plan) resident.plan = PlanCache();
  return *resident.plan;
}

// Finds residents by name without making a key.
struct ResidentName {
  std::string_view ns;
  std::string_view id;
  friend bool operator==(const ResidentName&, const ResidentName&) = default;
};
inline ResidentName NameOf(const Resident& resident) {
  return {resident.instance.ns, resident.instance.id};
}

// ns\0id: a name as one text, and back.
std::string ResidentKey(std::string_view ns, std::string_view id);
std::pair<std::string, std::string> SplitKey(const std::string& key);

// Whether what is ready is handed out.
inline bool Runs(InstanceState state) {
  return /*mutant paused-handed-out*/ state == InstanceState::kRunning ||
         state == InstanceState::kPlanning /*end*/;
}

class Spaces;  // namespaces.h

class Residents {
 public:
  Residents(OpenTurn& turn, Catalog& catalog, Statistics& statistics, const EngineOptions& options)
      : turn_(turn), catalog_(catalog), statistics_(statistics), options_(options) {}

  // Sets what knows how long namespaces keep at most what has stopped. Call it once.
  void SetSpaces(const Spaces* spaces) { spaces_ = spaces; }

  // The instance as it is, from memory or the store. kNotFound: there is none. Any other error is
  // the store's.
  Result<Resident*> Load(const std::string& ns, const std::string& id);
  Resident* InMemory(ResidentName name);  // null: it is not
  // All that are in memory, in no order.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const auto& resident : residents_) visit(std::as_const(*resident));
  }
  Resident* Insert(Instance instance, VersionState* version, GraphPtr graph);
  void Erase(Resident& resident);

  // Brings what is left of a stopped instance into memory until the turn ends, with its graph: all
  // of it, or of a plan only what is left at one step.
  Result<Ok> LoadLeft(Resident& resident);
  Result<Ok> LoadLeft(Resident& resident, NodeIndex home);

  // The number of an instance's first record, without bringing the instance into memory. nullopt:
  // there is no such instance.
  Result<std::optional<uint64_t>> FirstSeqOf(const std::string& ns, const std::string& id);
  Result<std::shared_ptr<const Spec>> SpecOf(Resident& resident);
  InstanceView ViewOf(Resident& resident);

  // Has its row written with this turn.
  void MarkDirty(Resident& resident);
  // Something of it is only in memory. It is settled after a short while.
  void MarkLazy(Resident& resident);
  // Puts the events into the feed and the instance's history, after those that were held back.
  void Stage(Resident& resident, std::vector<Event>& events);
  // Puts what is only in memory of it into this turn's batch.
  void Settle(Resident& resident);
  void SettleAll();
  void SettleDue();
  Timestamp SettleDueAt() const { return lazy_.empty() ? kNever : lazy_.front().first; }

  // Whether the store has the instance as it is now.
  bool Durable(const Resident& resident) const {
    return /*mutant durable-at-once*/ turn_.Durable(resident.dirty_turn) /*end*/;
  }
  // The residents that this turn has changed. Their rows are put when the turn ends, so scans do
  // not see the changes before.
  const std::vector<Resident*>& dirty() const { return dirty_; }
  bool Dirty(const Resident& resident) const {
    return resident.dirty_turn == turn_.number() && turn_.number() != 0;  // 0: at the start
  }
  // When a stopped instance may be removed: at the same time, whenever it is asked.
  Timestamp ExpiryOf(const Resident& resident) const;

  // At the end of a turn: puts the rows of all residents that it has changed.
  void Write();
  // Makes room in memory, with a bounded amount of work.
  void Evict();

 private:
  struct ByName {
    using is_transparent = void;
    template <typename One>
    size_t operator()(const One& one) const;
    template <typename One, typename Other>
    bool operator()(const One& one, const Other& other) const;
  };

  // Whether what is left of a resident is in the store only.
  static bool IsLeftOnDisk(const Resident& resident);
  std::list<Resident*>& ListOf(const Resident& resident) {
    return resident.ended ? ended_ : by_use_;
  }
  bool MayLeave(const Resident& resident) const;
  template <typename Full>
  void EvictFrom(std::list<Resident*>* list, Full full);
  Result<Ok> LoadGraphOfLeft(Resident& resident);
  void NotLazy(Resident& resident);
  void KeepWorker(Resident& resident, Event& event);
  void WriteOne(Resident& resident);
  void DropOutputs(Resident& resident);

  OpenTurn& turn_;
  Catalog& catalog_;
  Statistics& statistics_;
  const EngineOptions& options_;
  const Spaces* spaces_ = nullptr;
  absl::flat_hash_set<std::unique_ptr<Resident>, ByName, ByName> residents_;  // has no order
  // The first of each is the next that may leave memory. Those that have stopped go before the
  // others.
  std::list<Resident*> by_use_;
  std::list<Resident*> ended_;
  std::list<std::pair<Timestamp, Resident*>> lazy_;  // to be written by then, the first due first
  std::vector<Resident*> dirty_;
};

}  // namespace dfsmr
