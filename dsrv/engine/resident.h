// An instance in memory, as the parts of the engine hand it to each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dsrv/engine/machine_state.h"
#include "dsrv/engine/names.h"
#include "dsrv/engine/types.h"
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

}  // namespace dfsmr
