#include "dsrv/engine/statistics.h"

#include <algorithm>

#include "dsrv/engine/catalog.h"
#include "dsrv/engine/measures.h"
#include "dsrv/engine/turn.h"
#include "storage/rows/feed.h"
#include "storage/rows/stats.h"

namespace dfsmr {

namespace {

constexpr size_t kUntold = 4'096;  // attempts of a node, of which home is told sooner

void TakeAway(const rows::StoppedCounts& dropped, VersionState* version) {
  version->stopped -= std::min(version->stopped, dropped.all);
  for (size_t i = 0; i < dropped.results.size(); ++i) {
    version->results[i] -= std::min(version->results[i], dropped.results[i]);
  }
}

static_assert(static_cast<size_t>(InstanceResult::kAborted) < rows::ResultCounts().size());

}  // namespace

// "ERROR", or "ERROR: it broke".
InstanceResult ResultOf(const Event& finished) {
  const std::string_view name = std::string_view(finished.note).substr(0, finished.note.find(':'));
  for (InstanceResult one : {InstanceResult::kSuccess, InstanceResult::kWarning,
                             InstanceResult::kError, InstanceResult::kCancelled}) {
    if (Name(one) == name) return one;
  }
  return InstanceResult::kAborted;
}

Result<Ok> Statistics::Recover() {
  auto seq = rows::GetStatsSeq(turn_.reader());
  if (!seq) return seq.error();
  auto scanned = rows::ScanStats(turn_.reader(), [&](const rows::StatsRow& row) {
    MachineState& machine = catalog_.StateOf(row.ns, row.machine);
    for (const auto& [number, counts] : row.versions) {
      const bool implicit = /*mutant recover-undefined-counts*/ number == 0 /*end*/;
      VersionState* version = implicit ? &catalog_.ImplicitVersion(row.ns, row.machine)
                                       : catalog_.VersionOf(row.ns, row.machine, number);
      if (!version) continue;
      version->stopped = counts.stopped.all;
      version->results = counts.stopped.results;
      for (const auto& [name, count] : counts.nodes) {
        NodeState& node = version->nodes[name];
        node.completed = count.completed;
        node.timed_out = count.timed_out;
      }
    }
    for (const auto& [node, snapshot] : row.latencies) {
      machine.latencies[node] = Latency::Restore(snapshot);
    }
    for (const auto& [node, pace] : row.paces) {
      /*mutant message-pace-forgotten*/ machine.LatencyOf(node).Tell(pace); /*end*/
    }
    // The others are told of them, whatever they know.
    if (paces_.TellsOthers() && !row.latencies.empty()) unsaved_.insert(&machine);
  });
  if (!scanned) return scanned;
  saved_seq_ = *seq;
  scanned = rows::ScanFeed(turn_.reader(),
                           /*mutant recover-no-last-counts*/ *seq + 1 /*end*/,
                           [this](const Event& event) {
                             Learn(event, nullptr);
                             return true;
                           });
  if (!scanned) return scanned;
  return rows::ScanDropped(turn_.reader(), [this](const std::string& ns, const std::string& id,
                                                  const rows::DroppedCounts& dropped) {
    if (dropped.contains(0)) catalog_.ImplicitVersion(ns, id);  // no stats row may tell of it
    MachineState& machine = catalog_.StateOf(ns, id);
    machine.dropped = dropped;
    unsaved_.insert(&machine);
    for (auto& [number, version] : machine.versions) {
      const auto it = dropped.find(number);
      if (/*mutant recover-counts-dropped*/ it != dropped.end() /*end*/)
        TakeAway(it->second, &version);
    }
  });
}

void Statistics::Record(Event* event, VersionState* version) {
  turn_.Append(event);
  NodeState* const left = Learn(*event, version);
  const bool dry = event->about && event->about->dry_run;
  if (!version || dry) return;
  Note(*event, *version->machine);
  measures_.Record(*event, *version, left);
}

void Statistics::Note(const Event& event, MachineState& machine) {
  const auto now = [&]() -> MinuteCounts& {
    if (!machine.minutes) machine.minutes = std::make_unique<Minutes>();
    return machine.minutes->At(event.time);
  };
  switch (event.kind) {
    case ChangeKind::kTransitioned:
      ++now().transitions;
      break;
    case ChangeKind::kStarted:
      ++now().started;
      break;
    case ChangeKind::kTimedOut:
      ++now().timed_out;
      break;
    case ChangeKind::kFinished: {
      const InstanceResult result = ResultOf(event);
      ++(EndedWell(result)                      ? now().succeeded
         : result == InstanceResult::kCancelled ? now().cancelled
                                                : now().failed);
      if (result != InstanceResult::kError) break;
      const size_t text = event.note.find(": ");
      machine.failures.Add(
          text == std::string::npos ? "" : std::string_view(event.note).substr(text + 2),
          event.instance, event.time);
      break;
    }
    default:
      break;
  }
}

// What the counters and latencies take from a record; at recovery from those of the last seconds.
NodeState* Statistics::Learn(const Event& event, VersionState* version) {
  if (event.about && event.about->dry_run) return nullptr;
  const bool ended = event.kind == ChangeKind::kFinished;
  const bool left = event.kind == ChangeKind::kTransitioned && event.left_visit != 0;
  const bool timed_out = event.kind == ChangeKind::kTimedOut;
  if (!ended && !left && !timed_out && event.samples.empty()) return nullptr;
  if (!version || version->definition->version != event.version) {
    MachineState* const machine = catalog_.Find(event.ns, event.machine);
    if (!machine) return nullptr;
    auto it = machine->versions.find(event.version);
    if (it == machine->versions.end()) return nullptr;
    version = &it->second;
  }
  auto node_of = [&](const std::string& name) -> NodeState* {
    // At recovery no graph of a plan has been read yet, that would have made its nodes known.
    if (version->plan) return &version->nodes[StatsName(*version, name)];
    auto found = version->nodes.find(name);
    return found == version->nodes.end() ? nullptr : &found->second;
  };
  if (ended) ++version->stopped;
  if (ended && version->definition->package) {
    /*mutant results-uncounted*/ ++version->results[static_cast<size_t>(ResultOf(event))]; /*end*/
  }
  NodeState* node = left || timed_out ? node_of(event.prev_node) : nullptr;
  if (node) ++(left ? node->completed : node->timed_out);
  if (node && left) ++node->Pulse().hour.At(event.time).completed;
  for (const Event::Sample& sample : event.samples) {
    NodeState* worked = node && sample.node == event.prev_node ? node : node_of(sample.node);
    if (worked) worked->Pulse().hour.At(event.time).spent += sample.took - sample.replaces;
    Latency& latency = version->machine->LatencyOf(StatsName(*version, sample.node));
    latency.Learn({sample.took, sample.censored, sample.replaces, sample.retry}, event.time);
    if (latency.Untold() >= kUntold) due_ = Timestamp();
  }
  unsaved_.insert(version->machine);
  return node;
}

void Statistics::CountState(VersionState& version, InstanceState state, int64_t by) {
  auto add = [by](uint64_t& counter) { counter += static_cast<uint64_t>(by); };
  if (SpaceCounts* space = version.machine->space) [[unlikely]] {
    /*mutant quota-live-uncounted*/ if (state != InstanceState::kStopped &&
                                        state != InstanceState::kNone)
      add(space->live); /*end*/
  }
  switch (state) {
    case InstanceState::kScheduled:
      add(version.scheduled);
      break;
    case InstanceState::kPlanning:
      add(version.planning);
      [[fallthrough]];
    case InstanceState::kRunning:
      add(version.running);
      break;
    case InstanceState::kPaused:
      add(version.paused);
      break;
    case InstanceState::kNone:
    case InstanceState::kStopped:
      break;  // stopped ones are counted by their FINISHED
  }
}

void Statistics::CountToken(const Graph& graph, const Token& token, int64_t by) {
  if (!graph.Has(token.node)) return;
  NodeState& node = graph.StateOf(token.node);
  auto add = [by](uint64_t& counter) { counter += static_cast<uint64_t>(by); };
  switch (token.state) {
    case TokenState::kReady:
      add(node.ready);
      if (SpaceCounts* space = graph.space()) [[unlikely]]
        add(space->ready);
      break;
    case TokenState::kClaimed:
      add(node.claimed);
      break;
    case TokenState::kWaiting:
      add(node.waiting);
      break;
    case TokenState::kHeld:
      add(node.held);
      break;
    case TokenState::kNone:
    case TokenState::kDone:
      break;
  }
}

void Statistics::CountTokens(const Instance& instance, const Graph& before, const Graph& now) {
  if (instance.dry_run) return;
  const Tokens& tokens = instance.tokens;
  for (const Tokens::Touched& touched : tokens.touched()) {
    if (touched.before) /*mutant token-not-uncounted*/
      CountToken(before, *touched.before, -1) /*end*/;
    if (const Token* token = tokens.Find(touched.visit)) CountToken(now, *token, +1);
  }
}

void Statistics::CountDryRun(VersionState& version, InstanceState state, int64_t by) {
  const bool alive = state != InstanceState::kNone && state != InstanceState::kStopped;
  if (alive) version.dry_runs += static_cast<uint64_t>(by);
}

void Statistics::NoteDropped(VersionState& version, InstanceResult result) {
  /*mutant dropped-still-counted*/ --version.stopped; /*end*/
  rows::StoppedCounts& dropped = version.machine->dropped[version.definition->version];
  ++dropped.all;
  if (version.definition->package) {
    const auto at = static_cast<size_t>(result);
    --version.results[at];
    ++dropped.results[at];
  }
  unsaved_.insert(version.machine);
  dropped_from_.insert(version.machine);
}

void Statistics::Save(bool tells) {
  for (MachineState* machine : unsaved_) {
    rows::StatsRow row;
    row.ns = machine->ns;
    row.machine = machine->id;
    for (const auto& [number, version] : machine->versions) {
      rows::VersionCounts& counts = row.versions[number];
      counts.stopped = {version.stopped, version.results};
      for (const auto& [name, node] : version.nodes) {
        if (/*mutant saved-timeouts-skipped*/ node.completed == 0 && node.timed_out == 0 /*end*/)
          continue;
        counts.nodes[name] = {node.completed, node.timed_out};
      }
    }
    if (tells) paces_.Add(*machine);
    for (const auto& [node, latency] : machine->latencies) {
      if (const Pace* pace = latency.told()) {
        row.paces[node] = *pace;
      } else if (latency.Samples() > 0) {
        row.latencies[node] = latency.Save();
      }
    }
    rows::PutStats(turn_.writer(), row);
    machine->dropped.clear();
    dropped_from_.erase(machine);
  }
  paces_.Tell();
  rows::PutStatsSeq(turn_.writer(), turn_.last_seq());
  saved_seq_ = turn_.last_seq();
  unsaved_.clear();
  due_ = After(turn_.real(), every_);
}

void Statistics::Take(PartitionId from, const rows::Message::Learned& learned) {
  for (MachineState* machine : paces_.Take(from, learned)) unsaved_.insert(machine);
}

// Its row is written in this turn, since nobody tells it again.
void Statistics::Take(const rows::Message::Paced& paced) {
  for (MachineState* machine : paces_.Take(paced)) unsaved_.insert(machine);
  due_ = Timestamp();
}

void Statistics::Stage() {
  for (const MachineState* machine : dropped_from_) {
    rows::PutDropped(turn_.writer(), machine->ns, machine->id, machine->dropped);
  }
  dropped_from_.clear();
}

}  // namespace dfsmr
