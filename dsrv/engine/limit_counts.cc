#include "dsrv/engine/limit_counts.h"

#include <algorithm>

namespace dfsmr {
namespace {

bool Holds(InstanceState state) {
  return state == InstanceState::kPlanning || state == InstanceState::kRunning;
}

bool IsTask(BuiltIn kind) { return kind == BuiltIn::kQueue || kind == BuiltIn::kAction; }

Agenda::Subject SubjectOf(BuiltIn kind) {
  return kind == BuiltIn::kQueue ? Agenda::Subject::kQueue : Agenda::Subject::kAction;
}

std::string NameIn(const std::string& key) { return key.substr(key.find(':') + 1); }

void Add(std::map<std::string, uint64_t>* counts, const std::string& key, int64_t by) {
  uint64_t& count = (*counts)[key];
  count += static_cast<uint64_t>(by);
  if (count == 0) counts->erase(key);
}

}  // namespace

void LimitCounts::Load(const Instance& instance) {
  if (Holds(instance.state) && !instance.dry_run) CountInstance(instance, +1);
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
  if (counts_.size() == tasks_.size()) return;
  CountOne(ns, "machine:" + instance.machine, by);
  if (instance.parent_step) return;
  CountOne(ns, "namespace:" + ns, by);
  if (!from) return;
  if (!from->group.empty()) CountOne(ns, "group:" + from->group, by);
  if (const auto cause = CountedCause(*from)) CountOne(ns, std::string(*cause), by);
}

void LimitCounts::CountOne(const std::string& ns, const std::string& key, int64_t by) {
  auto count = counts_.find(ResidentKey(ns, key));
  if (count == counts_.end()) return;
  count->second += static_cast<uint64_t>(by);
  if (count->second == 0 && !numbers_.tracked().contains(count->first)) {
    counts_.erase(count);
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
  table_.SetCount(ns, key, count);
}

void LimitCounts::CountTask(const Instance& instance, const Graph& graph, const Token& token,
                            int64_t by) {
  if (token.state != TokenState::kClaimed || !graph.Has(token.node)) return;
  const NodeSettings& settings = *graph.machine->nodes[token.node].settings;
  CountOne(instance.ns, "queue:" + settings.queue, by);
  CountOne(instance.ns, "action:" + settings.action, by);
}

void LimitCounts::Absorb(const Change& change) {
  const Instance& instance = change.instance();
  if (instance.dry_run) return;
  const bool held = Holds(change.before.state);
  const bool holds = Holds(instance.state);
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

uint64_t LimitCounts::TasksOf(const std::string& ns, Agenda::Subject subject,
                              const std::string& name) const {
  uint64_t tasks = 0;
  residents_.ForEach([&](const Resident& resident) {
    const Tokens& tokens = resident.instance.tokens;
    if (resident.instance.dry_run) return;
    if (resident.instance.ns != ns || tokens.Count(TokenState::kClaimed) == 0) return;
    for (const Token& token : tokens) {
      if (token.state != TokenState::kClaimed || !resident.graph->Has(token.node)) continue;
      const NodeSettings& settings = *resident.machine().nodes[token.node].settings;
      if ((subject == Agenda::Subject::kQueue ? settings.queue : settings.action) == name) ++tasks;
    }
  });
  return tasks;
}

uint64_t LimitCounts::CountOf(const std::string& ns, const std::string& key) const {
  const BuiltIn kind = BuiltInOf(key);
  const auto in = [](const std::map<std::string, uint64_t>& counts, const std::string& name) {
    auto found = counts.find(name);
    return found == counts.end() ? 0 : found->second;
  };
  switch (kind) {
    case BuiltIn::kNone:
      return 0;
    case BuiltIn::kNamespace:
      return NameIn(key) == ns ? InstancesOf(ns, "") - in(children_, ns) : 0;
    case BuiltIn::kMachine:
      return InstancesOf(ns, NameIn(key));
    case BuiltIn::kGroup:
    case BuiltIn::kSchedule:
    case BuiltIn::kTrigger:
      return in(causes_, ResidentKey(ns, key));
    case BuiltIn::kQueue:
    case BuiltIn::kAction:
      return TasksOf(ns, SubjectOf(kind), NameIn(key));
  }
  return 0;
}

uint64_t LimitCounts::WaitingFor(const std::string& ns, const std::string& key) const {
  if (!tasks_.contains(ResidentKey(ns, key)) || table_.HasRoom(ns, key, "", turn_.clock()))
    return 0;
  return agenda_.ReadyIn(ns, SubjectOf(BuiltInOf(key)), NameIn(key));
}

void LimitCounts::HoldersOf(const std::string& ns, const std::string& key, size_t most,
                            std::vector<LimitHolderView>* to) const {
  const BuiltIn kind = BuiltInOf(key);
  const std::string name = NameIn(key);
  const auto holds = [&](const Instance& instance) {
    const Provenance* from = instance.provenance ? &*instance.provenance : nullptr;
    if (kind == BuiltIn::kMachine) return instance.machine == name;
    if (instance.parent_step) return false;
    if (kind == BuiltIn::kNamespace) return name == ns;
    return from && (kind == BuiltIn::kGroup ? from->group == name : CountedCause(*from) == key);
  };
  residents_.ForEach([&](const Resident& resident) {
    const Instance& instance = resident.instance;
    if (instance.ns != ns || instance.dry_run || !Holds(instance.state) || to->size() >= most)
      return;
    if (!IsTask(kind)) {
      if (holds(instance)) to->push_back({.instance = instance.id, .since = instance.start_time});
      return;
    }
    for (const Token& token : instance.tokens) {
      if (token.state != TokenState::kClaimed || !resident.graph->Has(token.node)) continue;
      const NodeSettings& settings = *resident.machine().nodes[token.node].settings;
      if ((kind == BuiltIn::kQueue ? settings.queue : settings.action) != name) continue;
      const Timestamp since =
          token.claims.empty() ? token.available_at : token.claims.back().claim_time;
      to->push_back({.instance = instance.id, .node = std::to_string(token.visit), .since = since});
    }
  });
}

void LimitCounts::Sync() {
  const std::set<std::string>& tracked = numbers_.tracked();
  for (auto it = counts_.begin(); it != counts_.end();) {
    if (tracked.contains(it->first) || (it->second > 0 && !tasks_.contains(it->first))) {
      ++it;
      continue;
    }
    const auto [ns, key] = SplitKey(it->first);
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
  const auto [ns, key] = SplitKey(full);
  const bool room = table_.HasRoom(ns, key, "", turn_.clock());
  agenda_.SetClosed(ns, SubjectOf(BuiltInOf(key)), NameIn(key), !room);
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
