// How many hold the built-in keys of limits, while these have a number or a rate: instances of a
// namespace, machine, group, schedule or trigger, and tasks of a queue or action. Tasks that find
// no room stay in the agenda.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "dsrv/engine/limit_holders.h"
#include "dsrv/engine/machine_state.h"
#include "dsrv/engine/names.h"
#include "fsm/derived/agenda.h"

namespace dfsmr {

class LimitCensus;
class LimitPlaces;

// Of a key of tasks.
inline Agenda::Subject SubjectOf(BuiltIn kind) {
  return kind == BuiltIn::kQueue ? Agenda::Subject::kQueue : Agenda::Subject::kAction;
}

class LimitCounts {
 public:
  LimitCounts(OpenTurn& turn, Catalog& catalog, Residents& residents, Agenda& agenda,
              LimitTable& table, LimitNumbersBook& numbers)
      : turn_(turn),
        catalog_(catalog),
        agenda_(agenda),
        table_(table),
        numbers_(numbers),
        holders_(turn, catalog, residents) {}

  // At start, before instances are loaded.
  void BeginLoad();
  void Load(const Instance& instance);
  // The same for one that rests, of which little is read.
  void LoadResting(const std::string& ns, const std::string& id, const std::string& machine,
                   Timestamp since);
  // The numbers of built-in keys may have changed: begins to count those that have one now.
  void Sync();
  // Somebody asks for a key: if it is that of a schedule or a trigger, those of its instances that
  // may overlap, and so have not asked, count as well.
  void Follow(const std::string& ns, const std::string& key);
  void Absorb(const Change& change);
  // A token that is claimed came, or went.
  void CountTask(const Instance& instance, const Graph& graph, const Token& token, int64_t by);
  // One that lives elsewhere holds a key, or does not any more.
  void CountGuest(const std::string& ns, const std::string& key, int64_t by);
  // How many hold a key that is counted, by ns\0key.
  uint64_t Counted(const std::string& full) const;
  // Elsewhere than at home: is told of each such key whose count changes.
  void SetCensus(LimitCensus* census) { census_ = census; }
  // Of several partitions: keeps the places of tasks.
  void SetPlaces(LimitPlaces* places) { places_ = places; }
  // Opens or closes a queue or an action, as there is room. Of another key it does nothing.
  void Judge(const std::string& full);
  // A token was handed out.
  void Claimed(const Resident& resident, const Token& token);
  // How many hold a built-in key, also of one that has no number.
  uint64_t CountOf(const std::string& ns, const std::string& key) const;

  // Whether some queue or action has a number.
  bool TasksLimited() const { return !tasks_.empty(); }
  // How many tasks are ready, and find no room under a queue's or an action's limit.
  uint64_t WaitingFor(const std::string& ns, const std::string& key) const;
  // These, the next first; some may not be ready any more. At most kReadyShown.
  static constexpr size_t kReadyShown = 10'000;
  std::vector<ReadyEntry> ReadyFor(const std::string& ns, const std::string& key) const;
  // The instances and tasks that hold a built-in key without having asked for it.
  void ForEachHolder(const std::string& ns, const std::string& key, const LimitHolders::Name& after,
                     const LimitHolders::Visit& visit) const {
    holders_.ForEach(ns, key, after, visit);
  }
  // Reads some more of what rests on disk. False: all is known.
  bool ReadMore() { return holders_.ReadMore(); }
  bool Reading() const { return holders_.Reading(); }

  // When a rate lets the next task be handed out; FireDue lets it.
  Timestamp Due() const;
  void FireDue();

 private:
  void CountOne(const std::string& ns, const std::string& key, int64_t by);
  void CountInstance(const Instance& instance, int64_t by);
  uint64_t InstancesOf(const std::string& ns, const std::string& machine) const;
  uint64_t TasksOf(const std::string& ns, const std::string& key) const;

  OpenTurn& turn_;
  Catalog& catalog_;
  Agenda& agenda_;
  LimitTable& table_;
  LimitNumbersBook& numbers_;
  LimitHolders holders_;  // of the keys of counts_
  std::map<std::string, uint64_t>
      counts_;  // of keys that have a number or are asked for, by ns\0key
  std::map<std::string, uint64_t> causes_;  // running instances by ns\0group:G, ns\0schedule:S, …
  std::map<std::string, uint64_t> guests_;    // that live elsewhere, by ns\0key
  std::map<std::string, uint64_t> children_;  // that steps started and that run, by namespace
  std::map<std::string, Timestamp> until_;    // closed because of their rate, by ns\0key
  std::set<std::string> tasks_;               // of counts_: queues and actions
  LimitCensus* census_ = nullptr;
  LimitPlaces* places_ = nullptr;
};

}  // namespace dfsmr
