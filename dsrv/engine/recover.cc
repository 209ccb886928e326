// Start-up: what is kept in memory is rebuilt from what lives.
#include <algorithm>

#include "dsrv/engine/engine.h"
#include "dsrv/engine/state.h"

namespace dfsmr {

Result<std::unique_ptr<Engine>> Engine::Open(Store& store, EngineOptions options, Timestamp now) {
  auto epoch = store.Acquire(options.partition);
  if (!epoch) return epoch.error();
  std::unique_ptr<Engine> engine(new Engine(store, std::move(options)));
  engine->epoch_ = *epoch;
  engine->now_ = now;
  auto recovered = engine->Recover(now);
  if (!recovered) return recovered.error();
  return engine;
}

Result<Ok> Engine::Recover(Timestamp now) {
  stats_due_ = expiry_due_ = trim_due_ = now;
  auto last = rows::LastSeq(store_, options_.partition);
  if (!last) return last.error();
  /*mutant recover-feed-gap*/ last_seq_ = *last; /*end*/
  auto first = rows::FirstSeq(store_, options_.partition);
  if (!first) return first.error();
  feed_start_ = *first;
  for (auto step : {&Engine::LoadMachines, &Engine::LoadStats, &Engine::LoadLive}) {
    auto done = (this->*step)();
    if (!done) return done;
  }
  return Ok{};
}

Result<Ok> Engine::LoadMachines() {
  Result<Ok> outcome = Ok{};
  auto scanned = rows::ScanMachines(store_, options_.partition, [&](rows::MachineRow row) {
    auto machine = options_.compile(row.source);
    if (!machine) {
      outcome = Error{Code::kDataLoss, Reason::kStoreFailed,
                      "version " + std::to_string(row.version) + " of machine '" + row.id +
                          "' in the store is not accepted any more: " + machine.error().message};
      return;
    }
    AddVersion(std::make_shared<const MachineVersion>(
        MachineVersion{row.ns, row.version, *std::move(machine), row.define_time}), nullptr);
  });
  if (!scanned || !outcome) return scanned ? outcome : scanned;
  CompileDefined();
  return Ok{};
}

Result<Ok> Engine::LoadStats() {
  auto seq = rows::GetStatsSeq(store_, options_.partition);
  if (!seq) return seq.error();
  auto scanned = rows::ScanStats(store_, options_.partition, [&](const rows::StatsRow& row) {
    MachineState& machine = StateOf(row.ns, row.machine);
    for (const auto& [number, counts] : row.versions) {
      VersionState* version = number == 0 ? &ImplicitVersion(row.ns, row.machine)
                                          : VersionOf(row.ns, row.machine, number);
      if (!version) continue;
      version->stopped = counts.stopped;
      for (const auto& [name, count] : counts.nodes) {
        NodeState& node = version->nodes[name];
        node.completed = count.completed;
        node.timed_out = count.timed_out;
      }
    }
    for (const auto& [node, snapshot] : row.latencies) {
      machine.latencies[node] = Latency::Restore(snapshot);
    }
  });
  if (!scanned) return scanned;
  stats_seq_ = *seq;
  scanned =
      rows::ScanFeed(store_, options_.partition, /*mutant recover-no-last-counts*/ *seq + 1 /*end*/,
                     [this](const Event& event) {
                       Learn(event, nullptr);
                       return true;
                     });
  if (!scanned) return scanned;
  return rows::ScanDropped(
      store_, options_.partition,
      [this](const std::string& ns, const std::string& id, const rows::DroppedCounts& dropped) {
        if (dropped.contains(0)) ImplicitVersion(ns, id);  // no stats row may tell of it
        MachineState& machine = StateOf(ns, id);
        machine.dropped = dropped;
        unsaved_.insert(&machine);
        for (auto& [number, version] : machine.versions) {
          const auto it = dropped.find(number);
          if (/*mutant recover-counts-dropped*/ it != dropped.end() /*end*/)
            version.stopped -= std::min(version.stopped, it->second);
        }
      });
}

// One instance that has not stopped: what of it is in memory besides itself.
Result<Ok> Engine::LoadOne(Instance instance) {
  VersionState* version = VersionFor(instance);
  if (version->LeftBehind()) sweeping_.insert(version->machine);
  auto graph = LoadGraph(instance, *version);
  if (!graph) return graph.error();
  Resident passing;
  Resident* resident = &passing;
  if (instance.HasLiveClaim()) {
    resident = Insert(std::move(instance), version, *std::move(graph));
  } else {
    passing.instance = std::move(instance);
    passing.version = version;
    passing.graph = *std::move(graph);
  }
  CountState(*resident, +1);
  const Instance& loaded = resident->instance;
  for (const Token& token : std::as_const(loaded.tokens)) {
    CountToken(*resident->graph, token, +1);
    for (const dfsmr::Claim& claim : token.claims) {
      /*mutant recover-no-deadlines*/ if (claim.Live())
        ArmClaim(*resident, token.visit, claim); /*end*/
    }
    if (/*mutant recover-no-delays*/ token.state == TokenState::kWaiting &&
        token.available_at != kNever /*end*/) {
      Await(token.available_at, NameOf(*resident), token.visit);
    }
    if (token.state == TokenState::kReady && Runs(loaded.state) && !version->LeftBehind()) {
      agenda_.Load(QueueOf(*version, *resident->graph, token.node),
                   EntryOf(*resident->graph, loaded.id, loaded.priority, token));
    }
  }
  for (const Instance::Prerequisite& one : loaded.after) {
    /*mutant recover-no-prerequisites*/ followers_[ResidentKey(loaded.ns, one.instance)].insert(
        loaded.id); /*end*/
  }
  if (/*mutant recover-no-starts*/ loaded.tokens.empty() && NextStart(loaded) != kNever /*end*/) {
    Await(NextStart(loaded), NameOf(*resident), 0);
  }
  if (/*mutant recover-no-singletons*/ loaded.plan || loaded.parent_step /*end*/)
    LoadPlan(*resident);
  return Ok{};
}

// The same, of the common kind. `version` is that of the one before, likely the same.
Result<Ok> Engine::LoadResting(const rows::Resting& row, VersionState** version) {
  const auto same = [&](const MachineVersion& one) {
    return one.version == row.version && one.machine.id == row.machine && one.ns == row.ns;
  };
  if (!*version || !same(*(*version)->definition)) {
    *version = VersionOf(row.ns, row.machine, row.version);
  }
  VersionState* const of = *version;
  const NodeIndex node = of && !row.node.empty() ? of->graph->machine->Find(row.node) : kNoNode;
  if (!of || of->plan || (!row.node.empty() && node == kNoNode)) {
    return Error{Code::kDataLoss, Reason::kStoreFailed,
                 "instance '" + std::string(row.id) + "' runs on version " +
                     std::to_string(row.version) + " of machine '" + std::string(row.machine) +
                     "', which the store does not hold"};
  }
  if (of->LeftBehind()) sweeping_.insert(of->machine);
  if (node == kNoNode) {
    ++of->scheduled;
    Await(row.start_at, {row.ns, row.id}, 0);
    return Ok{};
  }
  ++of->running;
  Token token;
  token.node = node;
  token.visit = row.visit;
  token.state = row.token;
  token.available_at = row.available_at;
  CountToken(*of->graph, token, +1);
  if (row.token == TokenState::kWaiting && row.available_at != kNever) {
    Await(row.available_at, {row.ns, row.id}, row.visit);
  }
  if (row.token == TokenState::kReady && !of->LeftBehind()) {
    agenda_.Load(QueueOf(*of, *of->graph, node),
                 EntryOf(*of->graph, std::string(row.id), row.priority, token));
  }
  return Ok{};
}

Result<Ok> Engine::LoadLive() {
  VersionState* version = nullptr;
  auto scanned = rows::ScanLive(
      store_, options_.partition, resolve(),
      [&](const rows::Resting& row) { return LoadResting(row, &version); },
      [&](Instance instance) { return LoadOne(std::move(instance)); });
  if (!scanned) return scanned;
  agenda_.Loaded();
  CancelOrphans();
  OrderKeys();
  return Ok{};
}

}  // namespace dfsmr
