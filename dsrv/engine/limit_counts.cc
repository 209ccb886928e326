#include "dsrv/engine/limit_counts.h"

#include <algorithm>
#include <tuple>

#include "dsrv/engine/catalog.h"
#include "dsrv/engine/limit_census.h"
#include "dsrv/engine/limit_places.h"
#include "dsrv/engine/part.h"
#include "dsrv/engine/resident.h"
#include "dsrv/engine/turn.h"

namespace dfsmr {
namespace {

void Add(std::map<std::string, uint64_t>* counts, const std::string& key, int64_t by) {
  uint64_t& count = (*counts)[key];
  count += static_cast<uint64_t>(by);
  if (count == 0) counts->erase(key);
}

// The queue or the action of a node.
std::string Asks(const VersionState& version, const std::string& name, const NodeState& state,
                 bool queue) {
  if (state.last_queue) {
    const QueueKey& key = Agenda::KeyOf(state.last_queue);
    return queue ? key.queue : key.action;
  }
  // What is ready there is for single workers.
  const auto& machine = version.plan ? version.shown : version.graph->machine;
  const NodeIndex node = machine ? machine->Find(name) : kNoNode;
  if (node == kNoNode) return "";
  const NodeSettings& settings = *machine->nodes[node].settings;
  return queue ? settings.queue : settings.action;
}

}  // namespace

void LimitCounts::BeginLoad() {
  for (const std::string& full : numbers_.tracked()) {
    const auto [ns, key] = SplitKey(full);
    if (!IsTask(BuiltInOf(key))) holders_.KeepUnread(ns, key);
  }
}

void LimitCounts::Load(const Instance& instance) {
  if (Runs(instance.state) && !instance.dry_run) CountInstance(instance, +1);
}

void LimitCounts::LoadResting(const std::string& ns, const std::string& id,
                              const std::string& machine, Timestamp since) {
  for (const std::string& key : {"machine:" + machine, "namespace:" + ns}) {
    holders_.Put(ns, key, {id, 0, since});
  }
}

void LimitCounts::CountInstance(const Instance& instance, int64_t by) {
  const std::string& ns = instance.ns;
  const Provenance* from = instance.provenance ? &*instance.provenance : nullptr;
  if (instance.parent_step) {
    Add(&children_, ns, by);
  } else if (from) {
    if (!from->group.empty()) Add(&causes_, ResidentKey(ns, "group:" + from->group), by);
    if (const auto cause = CountedCause(*from)) Add(&causes_, ResidentKey(ns, *cause), by);
  }
  if (by > 0) {
    holders_.PutAll(instance);
  } else {
    holders_.RemoveAll(instance);
  }
  if (counts_.size() == tasks_.size()) return;
  ForEachBuiltIn(instance, [&](const std::string& key) { CountOne(ns, key, by); });
}

void LimitCounts::CountOne(const std::string& ns, const std::string& key, int64_t by) {
  auto count = counts_.find(ResidentKey(ns, key));
  if (count == counts_.end()) return;
  count->second += static_cast<uint64_t>(by);
  if (census_) census_->Changed(count->first);
  if (count->second == 0 && !numbers_.tracked().contains(count->first)) {
    counts_.erase(count);
    holders_.Drop(ns, key);
    return table_.SetCount(ns, key, std::nullopt);
  }
  table_.SetCount(ns, key, count->second);
  if (tasks_.contains(count->first)) Judge(count->first);
}

void LimitCounts::Follow(const std::string& ns, const std::string& key) {
  const BuiltIn kind = BuiltInOf(key);
  if (kind != BuiltIn::kSchedule && kind != BuiltIn::kTrigger) return;
  if (counts_.contains(ResidentKey(ns, key))) return;
  const uint64_t count = CountOf(ns, key);
  if (count == 0) return;
  counts_[ResidentKey(ns, key)] = count;
  holders_.Keep(ns, key);
  table_.SetCount(ns, key, count);
}

void LimitCounts::CountTask(const Instance& instance, const Graph& graph, const Token& token,
                            int64_t by) {
  if (token.state != TokenState::kClaimed || !graph.Has(token.node)) return;
  const NodeSettings& settings = *graph.machine->nodes[token.node].settings;
  for (const std::string& key : {"queue:" + settings.queue, "action:" + settings.action}) {
    if (!tasks_.contains(ResidentKey(instance.ns, key))) continue;
    if (by > 0) {
      holders_.Put(instance.ns, key, {instance.id, token.visit, ClaimedSince(token)});
    } else {
      holders_.Remove(instance.ns, key, instance.id, token.visit);
    }
    CountOne(instance.ns, key, by);
  }
}

void LimitCounts::CountGuest(const std::string& ns, const std::string& key, int64_t by) {
  if (BuiltInOf(key) == BuiltIn::kNone) return;
  Add(&guests_, ResidentKey(ns, key), by);
  CountOne(ns, key, by);
}

void LimitCounts::Absorb(const Change& change) {
  const Instance& instance = change.instance();
  if (instance.dry_run) return;
  const bool held = Runs(change.before.state);
  const bool holds = Runs(instance.state);
  const bool counted =
      counts_.size() > tasks_.size() || instance.parent_step || instance.provenance;
  if (held != holds && counted) CountInstance(instance, holds ? +1 : -1);
  if (tasks_.empty()) return;
  for (const Tokens::Touched& touched : change.touched()) {
    if (touched.before) CountTask(instance, *change.before.graph, *touched.before, -1);
    const Token* now = instance.tokens.Find(touched.visit);
    if (now) CountTask(instance, *change.resident.graph, *now, +1);
  }
}

void LimitCounts::Claimed(const Resident& resident, const Token& token) {
  if (tasks_.empty() || resident.instance.dry_run) return;
  const NodeSettings& settings = *resident.machine().nodes[token.node].settings;
  for (const std::string& key : {"queue:" + settings.queue, "action:" + settings.action}) {
    if (!tasks_.contains(ResidentKey(resident.instance.ns, key))) continue;
    numbers_.Spent(resident.instance.ns, key);
    if (places_) places_->Took(ResidentKey(resident.instance.ns, key));
  }
  CountTask(resident.instance, *resident.graph, token, +1);
}

// Counting what has no number --------------------------------------------------------------------

uint64_t LimitCounts::InstancesOf(const std::string& ns, const std::string& machine) const {
  uint64_t running = 0;
  for (const auto& [name, state] : catalog_.machines()) {
    if (name.first != ns || (!machine.empty() && name.second != machine)) continue;
    for (const auto& [number, version] : state->versions) running += version.running;
  }
  return running;
}

uint64_t LimitCounts::TasksOf(const std::string& ns, const std::string& key) const {
  uint64_t tasks = 0;
  holders_.ForEach(ns, key, {}, [&](const LimitHolders::Holder&) { return ++tasks; });
  return tasks;
}

uint64_t LimitCounts::Counted(const std::string& full) const {
  const auto found = counts_.find(full);
  return found == counts_.end() ? 0 : found->second;
}

uint64_t LimitCounts::CountOf(const std::string& ns, const std::string& key) const {
  const BuiltIn kind = BuiltInOf(key);
  const auto in = [](const std::map<std::string, uint64_t>& counts, const std::string& name) {
    auto found = counts.find(name);
    return found == counts.end() ? 0 : found->second;
  };
  const uint64_t guests = in(guests_, ResidentKey(ns, key));
  switch (kind) {
    case BuiltIn::kNone:
      return 0;
    case BuiltIn::kNamespace:
      return NameIn(key) == ns ? InstancesOf(ns, "") - in(children_, ns) + guests : 0;
    case BuiltIn::kMachine:
      return InstancesOf(ns, NameIn(key)) + guests;
    case BuiltIn::kGroup:
    case BuiltIn::kSchedule:
    case BuiltIn::kTrigger:
      return in(causes_, ResidentKey(ns, key)) + guests;
    case BuiltIn::kQueue:
    case BuiltIn::kAction:
      return TasksOf(ns, key) + guests;
  }
  return 0;
}

// By the nodes' counts: the agenda may still have what is not ready any more.
uint64_t LimitCounts::WaitingFor(const std::string& ns, const std::string& key) const {
  if (!tasks_.contains(ResidentKey(ns, key)) || table_.HasRoom(ns, key, "", turn_.clock()))
    return 0;
  const bool of_queue = BuiltInOf(key) == BuiltIn::kQueue;
  const std::string subject = NameIn(key);
  uint64_t ready = 0;
  for (const auto& [name, machine] : catalog_.machines()) {
    if (name.first != ns) continue;
    for (const auto& [number, version] : machine->versions) {
      for (const auto& [node, state] : version.nodes) {
        if (state.ready > 0 && Asks(version, node, state, of_queue) == subject) {
          ready += state.ready;
        }
      }
    }
  }
  return ready;
}

std::vector<ReadyEntry> LimitCounts::ReadyFor(const std::string& ns, const std::string& key) const {
  std::vector<ReadyEntry> ready;
  if (!tasks_.contains(ResidentKey(ns, key)) || table_.HasRoom(ns, key, "", turn_.clock()))
    return ready;
  const bool of_queue = BuiltInOf(key) == BuiltIn::kQueue;
  agenda_.VisitQueues(ns, [&](const Agenda::Queue* queue) {
    const QueueKey& of = Agenda::KeyOf(queue);
    if ((of_queue ? of.queue : of.action) != NameIn(key)) return;
    Agenda::VisitOldest(queue, [&](const ReadyEntry& entry) {
      if (ready.size() == kReadyShown) return false;
      ready.push_back(entry);
      return true;
    });
  });
  std::ranges::sort(ready, [](const ReadyEntry& a, const ReadyEntry& b) {
    return std::tie(b.priority, a.since, a.instance, a.visit) <
           std::tie(a.priority, b.since, b.instance, b.visit);
  });
  return ready;
}

void LimitCounts::Sync() {
  const std::set<std::string>& tracked = numbers_.tracked();
  for (auto it = counts_.begin(); it != counts_.end();) {
    if (tracked.contains(it->first) || (it->second > 0 && !tasks_.contains(it->first))) {
      ++it;
      continue;
    }
    const auto [ns, key] = SplitKey(it->first);
    holders_.Drop(ns, key);
    table_.SetCount(ns, key, std::nullopt);
    if (tasks_.erase(it->first) > 0) {
      agenda_.SetClosed(ns, SubjectOf(BuiltInOf(key)), NameIn(key), false);
      until_.erase(it->first);
    }
    it = counts_.erase(it);
  }
  for (const std::string& full : tracked) {
    const auto [ns, key] = SplitKey(full);
    if (!counts_.contains(full)) {
      holders_.Keep(ns, key);
      const uint64_t count = CountOf(ns, key);
      counts_[full] = count;
      table_.SetCount(ns, key, count);
      if (IsTask(BuiltInOf(key))) tasks_.insert(full);
    }
    if (tasks_.contains(full)) Judge(full);
  }
}

// Tasks ------------------------------------------------------------------------------------------

void LimitCounts::Judge(const std::string& full) {
  if (!tasks_.contains(full)) return;
  const auto [ns, key] = SplitKey(full);
  const bool room = table_.HasRoom(ns, key, "", turn_.clock());
  const bool open = room && (!places_ || places_->HomeMay(full));
  agenda_.SetClosed(ns, SubjectOf(BuiltInOf(key)), NameIn(key), !open);
  if (!room && table_.HasPlace(ns, key, "")) {
    until_[full] = table_.NextToken(ns, key);
  } else {
    until_.erase(full);
  }
}

Timestamp LimitCounts::Due() const {
  Timestamp due = kNever;
  for (const auto& [key, until] : until_) due = std::min(due, until);
  return due;
}

void LimitCounts::FireDue() {
  std::vector<std::string> due;
  for (const auto& [key, until] : until_) {
    if (until <= turn_.clock()) due.push_back(key);
  }
  for (const std::string& key : due) Judge(key);
}

}  // namespace dfsmr
