// Start-up: what is kept in memory is rebuilt from what lives.
#include <algorithm>
#include <map>
#include <utility>

#include "dsrv/engine/engine.h"
#include "dsrv/engine/adoption.h"
#include "dsrv/engine/parts.h"
#include "storage/rows/clock.h"
#include "storage/rows/feed.h"
#include "storage/rows/machine.h"
#include "storage/rows/resting.h"

namespace dfsmr {

Result<std::unique_ptr<Engine>> Engine::Open(Store& store, EngineOptions options, Timestamp now) {
  auto epoch = store.Acquire(options.partition);
  if (!epoch) return epoch.error();
  std::unique_ptr<Engine> engine(new Engine(store, std::move(options)));
  auto recovered = engine->Recover(*epoch, now);
  if (recovered && engine->parts_->options.virtual_clock) recovered = engine->KeepClock(store);
  if (!recovered) return recovered.error();
  return engine;
}

// A store's first owner decides for all that come after.
Result<Ok> Engine::CheckClock(uint64_t epoch, const std::optional<rows::ClockRow>& kept) {
  const bool wanted = parts_->options.virtual_clock;
  if (wanted == kept.has_value() || (wanted && epoch == 1)) return Ok{};
  const char* problem =
      wanted ? "the data directory was begun under the machine's clock, and --virtual-clock takes "
               "one that was begun with it: leave it out, or name a new directory"
             : "the data directory was begun with --virtual-clock, and what it holds happened by "
               "that clock: give --virtual-clock TIME again, or name another directory";
  return Error{Code::kFailedPrecondition, Reason::kNone, problem};
}

// Before anybody reads the clock: it does not go back after a crash.
Result<Ok> Engine::KeepClock(Store& store) {
  Batch batch;
  rows::PutClock({batch, parts_->turn.partition()}, {parts_->turn.clock(), parts_->turn.now()});
  return store.Write(parts_->turn.partition(), epoch(), batch);
}

Result<Ok> Engine::Recover(uint64_t epoch, Timestamp now) {
  auto first = rows::FirstSeq(parts_->turn.reader());
  if (!first) return first.error();
  auto last = rows::LastSeq(parts_->turn.reader());
  if (!last) return last.error();
  auto kept = rows::GetClock(parts_->turn.reader());
  if (!kept) return kept.error();
  auto done = CheckClock(epoch, *kept);
  if (!done) return done;
  const rows::ClockRow clock = kept->value_or(rows::ClockRow{});
  parts_->turn.Recover(epoch, *first, *last, std::max(now, clock.time), clock.last_change);
  done = parts_->messages.Recover();
  if (done) done = parts_->followers.Recover();
  if (done) done = parts_->spaces.Recover();
  if (done) done = parts_->package_table.Recover(parts_->turn.home());
  if (done) done = LoadMachines();
  if (done) done = parts_->statistics.Recover();
  if (done) done = parts_->groups.Recover();
  if (done) done = parts_->bulks.Recover();
  if (done) done = parts_->limits.Recover();
  if (done) done = parts_->operations.Recover();
  if (done) done = parts_->agents.Recover();
  if (done) done = LoadLive();
  if (done) done = parts_->schedules.Recover();
  if (done) done = parts_->backfills.Recover();
  if (done) done = parts_->triggers.Recover();
  if (done) done = parts_->packages.Recover();
  if (done) done = parts_->trust.Recover();
  if (done) done = parts_->secrets.Recover();
  if (!done) return done;
  parts_->spaces.Loaded();
  for (const std::string& ns : parts_->spaces.Frozen()) parts_->agenda.SetFrozen(ns, true);
  return parts_->deletions.Recover();
}

Result<Ok> Engine::LoadMachines() {
  Result<Ok> outcome = Ok{};
  auto scanned = rows::ScanMachines(parts_->turn.home(), [&](rows::MachineRow row) {
    const bool retired = row.retired;
    auto one = CompileRow(std::move(row), parts_->options.compile);
    if (!one) {
      outcome = one.error();
      return;
    }
    parts_->packages.Complete(one->row, one->version.get());
    const VersionState& added = parts_->catalog.Add(std::move(one->version), std::move(one->shown));
    if (retired) parts_->catalog.Retire(*added.machine);
  });
  if (!scanned || !outcome) return scanned ? outcome : scanned;
  parts_->catalog.CompileDefined();
  return Ok{};
}

// Namespaces first, since their settings say what of packages is blocked.
void Engine::Adopt(Adoption adoption) {
  Check(!parts_->turn.at_home(), "home has nobody to adopt from");
  for (auto& [ns, row] : std::exchange(adoption.spaces, {})) {
    const bool changed = parts_->spaces.Adopt(ns, std::move(row));
    if (!changed) continue;
    parts_->agenda.SetFrozen(ns, parts_->spaces.Frozen(ns));
    parts_->triggers.FreezeChanged(ns);
  }
  parts_->turn.Trust(parts_->deletions.Recover());
  std::map<std::string, std::vector<rows::TrustedKeyRow>> keys;
  for (auto& [ns, key] : adoption.keys) keys[ns].push_back(std::move(key));
  for (const auto& [name, state] : adoption.packages.all()) keys.try_emplace(name.first);
  const std::string ns = adoption.ns;
  const auto triggers = std::exchange(adoption.triggers, {});
  parts_->packages.Adopt(std::move(adoption));
  for (auto& [of, all] : keys) parts_->trust.Adopt(of, std::move(all));
  parts_->triggers.Adopt(ns, triggers);
}

// One instance that has not stopped: what is kept of it in memory besides itself.
Result<Ok> Engine::LoadOne(Instance instance) {
  VersionState* version = parts_->catalog.VersionFor(instance);
  auto graph = parts_->catalog.LoadGraph(instance, *version);
  if (!graph) return graph.error();
  Resident passing;
  Resident* resident = &passing;
  if (instance.HasLiveClaim()) {
    const bool renewed = parts_->sessions.Renew(&instance);
    resident = parts_->residents.Insert(std::move(instance), version, *std::move(graph));
    if (renewed) parts_->residents.MarkLazy(*resident);
  } else {
    passing.instance = std::move(instance);
    passing.version = version;
    passing.graph = *std::move(graph);
  }
  const bool counts = !resident->instance.dry_run;
  if (counts) Statistics::CountState(*version, resident->instance.state, +1);
  if (!counts) Statistics::CountDryRun(*version, resident->instance.state, +1);
  for (const Token& token : std::as_const(resident->instance.tokens)) {
    if (counts) Statistics::CountToken(*resident->graph, token, +1);
  }
  for (Part* part : parts_->all) part->Load(*resident);
  return Ok{};
}

// The same, of the common kind. `version` is that of the one before, likely the same.
Result<Ok> Engine::LoadResting(const rows::Resting& row, VersionState** version) {
  const auto same = [&](const MachineVersion& one) {
    return one.version == row.version && one.machine.id == row.machine && one.ns == row.ns;
  };
  if (!*version || !same(*(*version)->definition)) {
    *version = parts_->catalog.VersionOf(row.ns, row.machine, row.version);
  }
  VersionState* const of = *version;
  const NodeIndex node = of && !row.node.empty() ? of->graph->machine->Find(row.node) : kNoNode;
  if (!of || of->plan || (!row.node.empty() && node == kNoNode)) {
    return Error{Code::kDataLoss, Reason::kStoreFailed,
                 "instance '" + std::string(row.id) + "' runs on version " +
                     std::to_string(row.version) + " of machine '" + std::string(row.machine) +
                     "', which the store does not hold"};
  }
  /*mutant recover-upgrade-stalls*/ parts_->upgrades.Note(*of); /*end*/
  if (node == kNoNode) {
    ++of->scheduled;
    parts_->timers.Await(row.start_at, {row.ns, row.id}, 0);
    return Ok{};
  }
  ++of->running;
  parts_->limits.LoadResting(row.ns, row.id, row.machine, row.start_time);
  Token token;
  token.node = node;
  token.visit = row.visit;
  token.state = row.token;
  token.available_at = row.available_at;
  Statistics::CountToken(*of->graph, token, +1);
  if (row.token == TokenState::kWaiting && row.available_at != kNever) {
    parts_->timers.Await(row.available_at, {row.ns, row.id}, row.visit);
  }
  if (row.token == TokenState::kReady && !of->LeftBehind()) {
    parts_->handouts.LoadResting(*of, std::string(row.id), row.priority, token);
    parts_->unclaimed.LoadReady({row.ns, row.id}, *of->graph->machine, token);
  }
  return Ok{};
}

Result<Ok> Engine::LoadLive() {
  VersionState* version = nullptr;
  auto scanned = rows::ScanLive(
      parts_->turn.reader(), parts_->catalog.resolve(),
      [&](const rows::Resting& row) { return LoadResting(row, &version); },
      [&](Instance instance) { return LoadOne(std::move(instance)); });
  if (!scanned) return scanned;
  parts_->agenda.Loaded();
  parts_->canceller.Loaded();
  parts_->limits.Loaded();
  return Ok{};
}

}  // namespace dfsmr
