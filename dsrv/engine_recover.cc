// Start-up: what is kept in memory is rebuilt from what lives.
#include <algorithm>

#include "dsrv/engine.h"
#include "dsrv/engine_state.h"

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
  last_seq_ = *last;
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
      outcome = Error{Code::kDataLoss, "STORE_FAILED",
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
  return rows::ScanFeed(store_, options_.partition, *seq + 1, [this](const Event& event) {
    Learn(event, nullptr);
    return true;
  });
}

// One instance that has not stopped: what of it is in memory besides itself.
Result<Ok> Engine::LoadOne(Instance instance, std::vector<Ready>* ready) {
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
      if (claim.Live()) ArmClaim(*resident, token.visit, claim);
    }
    if (token.state == TokenState::kWaiting && token.available_at != kNever) {
      Await(token.available_at, loaded, token.visit);
    }
    if (token.state == TokenState::kReady && Runs(loaded.state) && !version->LeftBehind()) {
      ready->push_back({QueueOf(*version, *resident->graph, token.node),
                        EntryOf(*resident->graph, loaded, token)});
    }
  }
  for (const Instance::Prerequisite& one : loaded.after) {
    followers_[ResidentKey(loaded.ns, one.instance)].insert(loaded.id);
  }
  if (loaded.tokens.empty() && NextStart(loaded) != kNever) {
    Await(NextStart(loaded), loaded, 0);
  }
  if (loaded.plan || loaded.parent_step) LoadPlan(*resident);
  return Ok{};
}

Result<Ok> Engine::LoadLive() {
  std::vector<Ready> ready;
  Result<Ok> outcome = Ok{};
  auto scanned = rows::ScanInstances(
      store_, options_.partition, /*stopped=*/false, "", "", resolve(), [&](Instance instance) {
        outcome = LoadOne(std::move(instance), &ready);
        return outcome.has_value();
      });
  if (!scanned) return scanned;
  if (!outcome) return outcome;
  std::ranges::stable_sort(ready, {}, [](const Ready& one) { return one.entry.since; });
  for (Ready& one : ready) agenda_.Push(one.queue, std::move(one.entry));
  CancelOrphans();
  OrderKeys();
  return Ok{};
}

}  // namespace dfsmr
