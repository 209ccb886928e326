// The instances in memory: loaded when they are touched, evicted when nothing keeps them, and
// written at the end of a turn that has changed them.
#pragma once

#include <absl/container/flat_hash_set.h>

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dsrv/engine/names.h"
#include "dsrv/engine/resident.h"
#include "dsrv/engine/turn.h"
#include "dsrv/engine/types.h"

namespace dfsmr {

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
  // The rows of the partition in which an instance lives.
  rows::Reader RowsOf(const std::string& ns, const std::string& id) const;
  // One of another partition, as the rows of that one have it. kNotFound: there is none.
  Result<Instance> ReadElsewhere(const std::string& ns, const std::string& id) const;
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
  // The earliest of those that were written since FromNow; kNever: none was.
  Timestamp FirstExpiry() const { return first_expiry_; }
  void FromNow() { first_expiry_ = kNever; }

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
  Timestamp first_expiry_ = kNever;
};

}  // namespace dfsmr
