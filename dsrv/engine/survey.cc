#include "dsrv/engine/survey.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "dsrv/engine/asked_for.h"
#include "dsrv/engine/catalog.h"
#include "dsrv/engine/counted_nodes.h"
#include "dsrv/engine/histogram.h"
#include "dsrv/engine/package_table.h"
#include "dsrv/engine/residents.h"
#include "dsrv/engine/troubles.h"
#include "dsrv/engine/values.h"
#include "fsm/base/names.h"
#include "storage/rows/bare.h"
#include "storage/rows/plan.h"

namespace dfsmr {
namespace {

// Of a queue so many entries are looked at for the first that is ready still: others were paused,
// skipped or cancelled while they waited.
constexpr size_t kLookedAt = 20;

void AddNode(const NodeState& node, Tally* tally) {
  tally->ready += node.ready - std::min(node.ready, node.idle);
  tally->claimed += node.claimed;
  tally->waiting += node.waiting;
  tally->held += node.held;
}

void SetOlder(std::optional<Duration> age, std::optional<Duration>* oldest) {
  if (age && (!*oldest || **oldest < *age)) *oldest = age;
}

}  // namespace

void Tally::Add(const Tally& other) {
  scheduled += other.scheduled;
  running += other.running;
  paused += other.paused;
  stopped += other.stopped;
  ready += other.ready;
  claimed += other.claimed;
  waiting += other.waiting;
  held += other.held;
  SetOlder(other.oldest_ready, &oldest_ready);
}

void Survey::BeginPass() {
  agenda_.SetTime(turn_.now());
  begun_ = std::min(begun_, turn_.now());
}

namespace {

// Of the machines that somebody asks about.
template <typename Visit>
void VisitMachines(const Catalog& catalog, const Survey::Sees& sees, const std::string& machine,
                   Visit visit) {
  for (const auto& [name, state] : catalog.machines()) {
    if ((machine.empty() || state->id == machine) && sees(state->ns)) visit(*state);
  }
}

}  // namespace

MinuteTallies Survey::LastHour(const Sees& sees, const std::string& machine) const {
  MinuteTallies minutes;
  const Timestamp now = turn_.now();
  const int64_t last = Micros(now) / kMinuteUs;
  for (int64_t i = 59; i >= 0; --i) minutes[FromMicros((last - i) * kMinuteUs)] = {};
  VisitMachines(catalog_, sees, machine, [&](const MachineState& state) {
    if (!state.minutes) return;
    state.minutes->ForEach(now, [&](Timestamp begin, const MinuteCounts& counts) {
      MinuteCounts& sum = minutes[begin];
      sum.started += counts.started;
      sum.succeeded += counts.succeeded;
      sum.failed += counts.failed;
      sum.cancelled += counts.cancelled;
      sum.transitions += counts.transitions;
      sum.timed_out += counts.timed_out;
    });
  });
  return minutes;
}

std::vector<SlowNodeView> Survey::SlowNodes(const Sees& sees, const std::string& machine,
                                            size_t most) const {
  std::vector<SlowNodeView> all;
  VisitMachines(catalog_, sees, machine, [&](const MachineState& state) {
    std::map<std::string, SlowNodeView> nodes;
    for (const auto& [number, version] : state.versions) {
      for (const auto& [name, node] : version.nodes) {
        if (!node.pulse) continue;
        SlowNodeView& view = nodes[name];
        node.pulse->hour.ForEach(turn_.now(), [&](Timestamp, const Attempts& attempts) {
          view.completed += attempts.completed;
          view.spent += attempts.spent;
        });
      }
    }
    for (auto& [name, view] : nodes) {
      if (view.spent <= Duration()) continue;
      view.machine = state.id;
      view.node = name;
      all.push_back(std::move(view));
    }
  });
  std::ranges::stable_sort(all, std::greater(), &SlowNodeView::spent);
  if (all.size() > most) all.resize(most);
  for (SlowNodeView& view : all) {
    VisitMachines(catalog_, sees, view.machine, [&](const MachineState& state) {
      const auto latency = state.latencies.find(view.node);
      if (latency == state.latencies.end() || view.p50) return;
      view.p50 = latency->second.Quantile(50);
      view.p95 = latency->second.Quantile(95);
      view.timeout_now = TimeoutOf(state, view.node, latency->second);
    });
  }
  return all;
}

std::optional<Duration> Survey::TimeoutOf(const MachineState& machine, const std::string& node,
                                          const Latency& latency) {
  for (auto version = machine.versions.rbegin(); version != machine.versions.rend(); ++version) {
    const Machine* nodes = NodesOf(version->second);
    if (!nodes) continue;
    for (const Node& one : nodes->nodes) {
      if (StatsName(version->second, one.id) != node || one.kind != NodeKind::kWork) continue;
      const auto counts = version->second.nodes.find(node);
      const uint64_t claimed = counts == version->second.nodes.end() ? 0 : counts->second.claimed;
      return latency.Timeout(one.settings->timeout, /*retry=*/false, claimed);
    }
  }
  return std::nullopt;
}

std::vector<TroubleView> Survey::Troubles(const std::string& ns, const std::string& machine,
                                          const std::vector<QueueView>& queues) const {
  std::vector<TroubleView> troubles;
  const auto sees = [&](const std::string& one) { return one == ns; };
  VisitMachines(catalog_, sees, machine, [&](const MachineState& state) {
    FindTroubles(state, {queues, residents_, workers_, turn_.now(), begun_}, &troubles);
  });
  return troubles;
}

Result<Histogram> Survey::Durations(const std::string& ns, const std::string& machine,
                                    uint32_t version, const std::string& node) {
  const VersionState* state = catalog_.VersionOf(ns, machine, version);
  if (!state) return NoSuchMachine(ns, machine, version);
  const Machine* nodes = NodesOf(*state);
  const std::string name = StatsName(*state, node);
  if (nodes) {
    for (const Node& one : nodes->nodes) {
      if (StatsName(*state, one.id) != name) continue;
      const auto known = state->machine->latencies.find(name);
      const auto counts = state->nodes.find(name);
      const Latency none;
      Histogram histogram =
          HistogramOf(known == state->machine->latencies.end() ? none : known->second,
                      one.settings->timeout,
                      counts == state->nodes.end() ? 0 : counts->second.claimed);
      if (one.kind != NodeKind::kWork) {  // nobody claims it
        histogram.timeout_now.reset();
        histogram.retry_timeout_now.reset();
        histogram.rule.clear();
        histogram.meant = 0;
      }
      return histogram;
    }
  }
  return Error{Code::kNotFound, Reason::kNoSuchNode,
               "machine " + Quoted(machine) + " has no node " + Quoted(node)};
}

namespace {

void AddIdle(const Graph& graph, const Token& token, uint64_t by) {
  if (token.state == TokenState::kReady && graph.Has(token.node)) {
    graph.StateOf(token.node).idle += by;
  }
}

constexpr uint64_t kOneLess = ~uint64_t{0};

}  // namespace

void Survey::Load(Resident& resident) {
  const Instance& instance = resident.instance;
  if (instance.dry_run) return;
  for (const Token& token : std::as_const(instance.tokens)) {
    if (token.state == TokenState::kHeld) NoteHeld(resident, token);
  }
  if (Runs(instance.state)) return;
  for (const Token& token : std::as_const(instance.tokens)) AddIdle(*resident.graph, token, 1);
}

// Notes why a token came to be held, and since when something is held at its node.
void Survey::NoteHeld(const Resident& resident, const Token& token) {
  if (!resident.graph->Has(token.node)) return;
  NodeState& node = resident.graph->StateOf(token.node);
  if (node.held <= 1) node.held_since = turn_.now();
  std::string name = StatsName(*resident.version, resident.machine().nodes[token.node].id);
  name.resize(std::min(name.size(), name.find('/')));
  resident.version->machine->held[name].Add(token.error, resident.instance.id, turn_.now());
}

// Notes since when something waits for a person at its node.
void Survey::NoteWaiting(const Resident& resident, const Token& token) {
  if (!resident.graph->Has(token.node)) return;
  const Node& node = resident.machine().nodes[token.node];
  if (node.kind != NodeKind::kManual && node.role != Role::kSuspended) return;
  NodeState& state = resident.graph->StateOf(token.node);
  if (state.waiting <= 1) state.person_since = turn_.now();
}

void Survey::NoteStops(const Change& change) {
  const Instance& instance = change.instance();
  for (const Tokens::Touched& one : change.touched()) {
    const TokenState before = one.before ? one.before->state : TokenState::kNone;
    const Token* now = instance.tokens.Find(one.visit);
    if (!now || now->state == before) continue;
    if (now->state == TokenState::kHeld) NoteHeld(change.resident, *now);
    if (now->state == TokenState::kWaiting) NoteWaiting(change.resident, *now);
  }
}

void Survey::Absorb(const Change& change) {
  const Instance& instance = change.instance();
  if (!instance.dry_run) NoteStops(change);
  const bool ran = Runs(change.before.state);
  const bool runs = Runs(instance.state);
  if ((ran && runs) || instance.dry_run) return;
  const Graph& graph = *change.resident.graph;
  size_t ready = instance.tokens.Count(TokenState::kReady);
  std::set<uint64_t> touched;
  for (const Tokens::Touched& one : change.touched()) {
    if (!ran && one.before) AddIdle(*change.before.graph, *one.before, kOneLess);
    const Token* now = instance.tokens.Find(one.visit);
    if (!now || now->state != TokenState::kReady) continue;
    if (!runs) AddIdle(graph, *now, 1);
    touched.insert(one.visit);
    --ready;
  }
  if (ran == runs) return;
  // Those that were not touched were counted and are not any more, or the reverse.
  for (auto token = instance.tokens.begin(); ready > 0 && token != instance.tokens.end(); ++token) {
    if (token->state != TokenState::kReady || touched.contains(token->visit)) continue;
    AddIdle(graph, *token, runs ? kOneLess : 1);
    --ready;
  }
}

std::optional<std::string> Survey::InputOf(const std::string& ns, const std::string& id,
                                           const std::string& path) {
  auto loaded = residents_.Load(ns, id);
  if (!loaded) return std::nullopt;
  Resident& resident = **loaded;
  const Machine& machine = resident.machine();
  const NodeIndex home = resident.instance.plan ? machine.Find(path) : kNoNode;
  if (!machine.graph || home == kNoNode || machine.nodes[home].step == kNoStep) {
    return std::nullopt;
  }
  const std::string* patched = resident.instance.tokens.Patched(home);
  auto filled = values_.Fill(
      resident, patched ? *patched : machine.graph->steps[machine.nodes[home].step].input);
  return filled ? std::optional(*std::move(filled)) : std::nullopt;
}

std::vector<std::string> Survey::Namespaces() const {
  std::vector<std::string> all;
  for (const auto& [name, machine] : catalog_.machines()) {
    if (all.empty() || all.back() != name.first) all.push_back(name.first);
  }
  return all;
}

std::vector<MachineTally> Survey::Machines(const Sees& sees, const std::string& machine) const {
  std::vector<MachineTally> all;
  std::map<std::pair<std::string, std::string>, Timestamp> oldest;
  agenda_.VisitQueues("", [&](const Agenda::Queue* queue) {
    const QueueKey& key = Agenda::KeyOf(queue);
    if (key.dry_run || (!machine.empty() && key.machine != machine)) return;
    const auto since = OldestOf(queue);
    if (!since) return;
    const auto [at, added] = oldest.try_emplace({key.ns, key.machine}, *since);
    if (!added) at->second = std::min(at->second, *since);
  });
  for (const auto& [name, state] : catalog_.machines()) {
    if ((!machine.empty() && state->id != machine) || !sees(state->ns)) continue;
    MachineTally one;
    one.ns = state->ns;
    one.id = state->id;
    one.kind = "plan";  // so are flows that nobody has defined
    for (const auto& [number, version] : state->versions) {
      one.version = std::max(one.version, number);
      if (version.definition && number > 0) {
        one.kind = KindName(version.definition->machine.defined_as);
      }
      one.now.scheduled += version.scheduled;
      one.now.running += version.running;
      one.now.paused += version.paused;
      one.now.stopped += version.stopped;
      for (const auto& [node, counts] : version.nodes) AddNode(counts, &one.now);
    }
    const auto since = oldest.find(name);
    if (since != oldest.end() && one.now.ready > 0) {
      one.now.oldest_ready = std::max(Duration(), turn_.now() - since->second);
    }
    if (state->minutes) {
      state->minutes->ForEach(turn_.now(), [&one](Timestamp, const MinuteCounts& counts) {
        one.started_hour += counts.started;
        one.failed_hour += counts.failed;
      });
    }
    one.retry_rate = state->breaker.RetryShare(turn_.now());
    one.breaker = Name(state->breaker.state());
    all.push_back(std::move(one));
  }
  return all;
}

bool Survey::StillReady(const std::string& ns, const ReadyEntry& entry, size_t* reads) const {
  const auto is_ready = [](const Token& token) { return token.state == TokenState::kReady; };
  const auto stands_ready = [&](const Instance& instance) {
    const Token* token = instance.tokens.Find(entry.visit);
    return token && is_ready(*token) && Runs(instance.state);
  };
  if (const Resident* resident = residents_.InMemory({ns, entry.instance})) {
    return stands_ready(resident->instance);
  }
  if (reads && *reads == 0) return true;
  if (reads) --*reads;
  // A resident leaves memory when it is written, and then its row says how it stands.
  auto instance = rows::GetBareInstance(turn_.reader(), {ns, entry.instance}, catalog_.resolve());
  if (!instance || !instance->plan) return instance && stands_ready(*instance);
  if (!Runs(instance->state)) return false;
  // Of a plan's steps only those that come before it in the store are read.
  bool ready = false;
  auto scanned = rows::ScanSteps(turn_.reader(), *instance, [&](const rows::StepRow& row) {
    const bool found = row.token && row.token->visit == entry.visit;
    if (found) ready = is_ready(*row.token);
    return !found;
  });
  return scanned && ready;
}

std::optional<Timestamp> Survey::OldestOf(const Agenda::Queue* queue, size_t* reads) const {
  size_t left = kLookedAt;
  std::optional<Timestamp> oldest;
  Agenda::VisitOldest(queue, [&](const ReadyEntry& entry) {
    if (!oldest || entry.since < *oldest) {
      const bool counts = left == 0 || StillReady(Agenda::KeyOf(queue).ns, entry, reads);
      if (counts) oldest = entry.since;
      if (!counts && --left > 0) return true;  // the next of this priority
    }
    return false;
  });
  return oldest;
}

// The rows of one call, by queue, machine and node.
class Survey::QueueRows {
 public:
  QueueRows(const QueueQuery& query, Timestamp now) : query_(query), now_(now) {}

  bool Wants(const std::string& machine, const std::string& queue) const {
    return (query_.machine.empty() || query_.machine == machine) &&
           (!query_.queue || *query_.queue == queue);
  }
  QueueView& Of(const std::string& queue, const std::string& machine, const std::string& node) {
    return RowOf(queue, machine, node).view;
  }
  // Those of older versions only while something is there.
  void AddNodes(const MachineState& machine, const VersionState& version, bool latest) {
    const Machine* nodes = NodesOf(version);
    if (!nodes) return AddUndefined(machine, version);
    for (const Node& node : nodes->nodes) {
      if (node.kind != NodeKind::kWork || !Wants(machine.id, node.settings->queue)) continue;
      const std::string name = StatsName(version, node.id);
      const auto found = version.nodes.find(name);
      const NodeState* counts = found == version.nodes.end() ? nullptr : &found->second;
      const bool counted = counts && (counts->ready > 0 || counts->claimed > 0);
      if (!counted && !latest) continue;
      Row& known = RowOf(node.settings->queue, machine.id, name);
      if (latest) known.latest = &version;
      QueueView& row = known.view;
      row.action = node.settings->action;
      if (counts) Count(*counts, &row);
    }
  }
  QueueView& AddQueue(const Agenda::Queue* queue, const Agenda& agenda) {
    const QueueKey& key = Agenda::KeyOf(queue);
    Row& known = RowOf(key.queue, key.machine, key.node);
    known.has_queue = true;
    QueueView& row = known.view;
    const auto undefined = undefined_.extract({key.machine, key.node});
    for (const NodeState* counts : undefined ? undefined.mapped() : Counts()) Count(*counts, &row);
    row.action = key.action;
    row.asking = std::max<uint64_t>(row.asking, agenda.AskingFor(queue));
    if (const auto asked = agenda.AskedTime(queue)) SetLater(*asked, &row.asked_time);
    return row;
  }
  // Nodes at which nothing was ever ready are asked for all the same.
  void AddAsking(const Agenda& agenda, const PackageTable& packages) {
    const AskedFor asked(agenda, query_.ns);
    if (asked.empty()) return;
    for (auto& [place, row] : rows_) {
      if (row.has_queue || !row.latest) continue;
      const MachineVersion& definition = *row.latest->definition;
      QueueKey key{query_.ns,      row.view.machine, definition.version,
                   row.view.node,  row.view.action,  row.view.queue};
      packages.Derive(definition.package, &key);
      const AskedFor::Askers askers = asked.Of(key);
      row.view.asking += askers.waiters;
      if (askers.last != Timestamp()) SetLater(askers.last, &row.view.asked_time);
    }
  }
  std::vector<QueueView> Take() {
    std::vector<QueueView> all;
    for (auto& [place, row] : rows_) all.push_back(std::move(row.view));
    return all;
  }

 private:
  using Counts = std::vector<const NodeState*>;  // of versions

  // Only what is ready tells in which queue a step of a flow stands that nobody has defined.
  void AddUndefined(const MachineState& machine, const VersionState& version) {
    for (const auto& [name, counts] : version.nodes) {
      undefined_[{machine.id, name}].push_back(&counts);
    }
  }
  void Count(const NodeState& counts, QueueView* row) const {
    if (counts.pulse) row->claims_per_second += ClaimsPerSecond(*counts.pulse);
    row->ready += counts.ready - std::min(counts.ready, counts.idle);
    row->claimed += counts.claimed;
  }

  struct Row {
    QueueView view;
    const VersionState* latest = nullptr;  // whose node it is; null: of an earlier version's alone
    bool has_queue = false;
  };
  Row& RowOf(const std::string& queue, const std::string& machine, const std::string& node) {
    Row& row = rows_[{queue, machine, node}];
    row.view.ns = query_.ns;
    row.view.queue = queue;
    row.view.machine = machine;
    row.view.node = node;
    return row;
  }
  static void SetLater(Timestamp time, std::optional<Timestamp>* to) {
    *to = std::max(to->value_or(time), time);
  }
  double ClaimsPerSecond(const NodePulse& pulse) const {
    uint64_t claims = 0;
    pulse.claims.ForEach(now_, [&claims](Timestamp, uint32_t count) { claims += count; });
    return static_cast<double>(claims) / 60;
  }

  const QueueQuery& query_;
  const Timestamp now_;
  std::map<std::tuple<std::string, std::string, std::string>, Row> rows_;
  std::map<std::pair<std::string, std::string>, Counts> undefined_;  // by machine and node
};

std::vector<QueueView> Survey::Queues(const QueueQuery& query) const {
  QueueRows rows(query, turn_.now());
  for (auto at = catalog_.machines().lower_bound({query.ns, query.machine});
       at != catalog_.machines().end() && at->first.first == query.ns; ++at) {
    const MachineState& machine = *at->second;
    if (!query.machine.empty() && machine.id != query.machine) break;
    for (const auto& [number, version] : machine.versions) {
      rows.AddNodes(machine, version, number == machine.versions.rbegin()->first);
    }
    for (const auto& [queue, held] : machine.held_back) {
      const QueueKey& key = Agenda::KeyOf(queue);
      if (!rows.Wants(machine.id, key.queue)) continue;
      rows.Of(key.queue, key.machine, key.node).held_back += held.waiting.size();
    }
  }
  agenda_.VisitQueues(query.ns, [&](const Agenda::Queue* queue) {
    const QueueKey& key = Agenda::KeyOf(queue);
    if (key.dry_run || !rows.Wants(key.machine, key.queue)) return;
    QueueView& row = rows.AddQueue(queue, agenda_);
    const auto since = row.ready > 0 ? OldestOf(queue) : std::nullopt;
    if (since) SetOlder(std::max(Duration(), turn_.now() - *since), &row.oldest_ready);
  });
  rows.AddAsking(agenda_, packages_);
  return rows.Take();
}

std::optional<std::vector<std::string>> Survey::Holding(const std::string& ns,
                                                        uint64_t most) const {
  std::vector<std::string> machines;
  uint64_t instances = 0;
  for (auto at = catalog_.machines().lower_bound({ns, ""});
       at != catalog_.machines().end() && at->first.first == ns; ++at) {
    bool holds = false;
    uint64_t has = 0;
    for (const auto& [number, version] : at->second->versions) {
      has += version.scheduled + version.running + version.paused + version.stopped;
      holds = holds || std::ranges::any_of(version.nodes,
                                           [](const auto& node) { return node.second.held > 0; });
    }
    if (!holds) continue;
    machines.push_back(at->second->id);
    instances += has;
    if (instances > most) return std::nullopt;
  }
  return machines;
}

void Survey::VisitVersions(const std::string& ns,
                           const std::function<void(const CountedVersion&)>& visit) const {
  for (auto at = catalog_.machines().lower_bound({ns, ""});
       at != catalog_.machines().end() && at->first.first == ns; ++at) {
    for (const auto& [number, version] : at->second->versions) {
      const bool plan = version.plan || !version.graph || number == 0;
      visit({at->second->id, version.Now().definition->version, version.scheduled,
             version.planning, version.running - version.planning, version.paused, version.stopped,
             plan ? nullptr : version.graph->machine.get(), version.nodes});
    }
  }
}

}  // namespace dfsmr
