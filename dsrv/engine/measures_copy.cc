// The copy of what is counted, with how things stand now.
#include "dsrv/engine/measures.h"

#include "dsrv/engine/asked_for.h"
#include "dsrv/engine/catalog.h"
#include "dsrv/engine/counted_nodes.h"
#include "dsrv/engine/package_table.h"
#include "dsrv/engine/turn.h"

namespace dfsmr {
namespace {

bool HasTokens(const NodeState& node) {
  return node.ready > 0 || node.claimed > 0 || node.waiting > 0 || node.held > 0;
}

// The name of a node in a definition: of a plan's step with `*` for each for_each around it.
// `nodes` null: nobody knows.
std::string AsWritten(const Machine* nodes, const std::string& name) {
  const NodeIndex found = nodes && nodes->graph ? nodes->Find(name) : kNoNode;
  const uint32_t step = found == kNoNode ? kNoStep : nodes->nodes[found].step;
  if (step == kNoStep) return name;
  const Step& written = nodes->graph->steps[step];
  return written.of + name.substr(std::min(written.path.size(), name.size()));
}

std::string QueueOf(const VersionState& version, const std::string& node) {
  const Machine* nodes = NodesOf(version);
  const NodeIndex found = nodes ? nodes->Find(node) : kNoNode;
  return found == kNoNode ? "default" : nodes->nodes[found].settings->queue;
}

}  // namespace

class Measures::Copying {
 public:
  Copying(Measures& from, Timestamp now) : from_(from), now_(now) {}

  // The machines and their tokens.
  void AddUp() {
    for (auto& [ns, other] : from_.others_) Clear(other);
    from_.nodes_ = 0;  // those of namespaces that are gone make room for others
    for (const auto& [name, state] : from_.catalog_.machines()) {
      Clear(state->measures);
      from_.nodes_ += state->measures.nodes.size();
    }
    for (const auto& [name, state] : from_.catalog_.machines()) Add(*state);
  }
  void AddQueue(const Agenda::Queue* queue, const OldestOf& oldest_of, const Agenda& agenda) {
    const QueueKey& key = Agenda::KeyOf(queue);
    const auto place = places_.find({key.ns, key.machine});
    if (key.dry_run || place == places_.end()) return;
    Measured::Queue& row = copy_.machines[place->second].queues[key.queue];
    row.asking = std::max<uint64_t>(row.asking, agenda.AskingFor(queue));
    const auto since = row.ready > 0 ? oldest_of(queue) : std::nullopt;
    if (!since) return;
    row.oldest = std::max(row.oldest.value_or(Duration()), now_ - *since);
  }
  // For the queues of machines that have had no work yet. After the others.
  void AddAsking(const Agenda& agenda, const PackageTable& packages) {
    std::optional<AskedFor> asked;
    const std::string* of = nullptr;  // the namespace; machines are in order of these
    for (const auto& [name, state] : from_.catalog_.machines()) {
      if (!of || *of != state->ns) asked.emplace(agenda, *(of = &state->ns));
      if (!asked->empty() && !state->measures.folded) AddAsking(*state, *asked, packages);
    }
  }
  // Last, when all has been added up.
  Measured Take() {
    for (const auto& [name, state] : from_.catalog_.machines()) {
      if (!state->measures.folded) CopyNodes(*state);
    }
    for (const auto& [ns, other] : from_.others_) {
      Measured::Machine& machine = MachineAt(ns, std::string(kOtherSeries));
      machine.counts = other.counts;
      for (const auto& [name, node] : other.nodes) {
        machine.nodes.push_back({name, *node, std::nullopt});
      }
    }
    copy_.folded = 0;
    for (const auto& [ns, nodes] : from_.folded_) copy_.folded += nodes.size();
    copy_.bulks = from_.bulks_;
    copy_.occurrence_delay = from_.occurrence_delay_;
    for (const auto& [labels, count] : from_.occurrences_) {
      copy_.occurrences.push_back({labels[0], labels[1], labels[2], count});
    }
    return std::move(copy_);
  }

 private:
  static void Clear(MachineMeasures& measures) {
    for (auto& [name, node] : measures.nodes) node->tokens = {};
  }

  // The row of a machine, or of those that are not shown by themselves.
  Measured::Machine& MachineAt(const std::string& ns, const std::string& id) {
    const auto [place, added] = places_.try_emplace({ns, id}, copy_.machines.size());
    if (!added) return copy_.machines[place->second];
    Measured::Machine& machine = copy_.machines.emplace_back();
    machine.ns = ns;
    machine.id = id;
    return machine;
  }

  void Add(MachineState& state) {
    LookAt(state);
    const bool folded = state.measures.folded;
    Measured::Machine& row = MachineAt(state.ns, folded ? std::string(kOtherSeries) : state.id);
    if (folded) places_[{state.ns, state.id}] = places_.at({row.ns, row.id});
    for (auto& [number, version] : state.versions) {
      row.instances[0] += version.scheduled;
      row.instances[1] += version.running;
      row.instances[2] += version.paused;
      row.instances[3] += version.stopped;
      for (auto& [name, node] : version.nodes) AddNode(version, name, node, &row);
    }
    for (const auto& [queue, held] : state.held_back) row.held_back += held.waiting.size();
    if (folded) return;
    row.counts = state.measures.counts;
    row.retry_ratio = state.breaker.RetryShare(now_);
    row.breaker = Name(state.breaker.state());
  }

  void AddAsking(const MachineState& state, const AskedFor& asked, const PackageTable& packages) {
    const VersionState* latest =
        state.versions.empty() ? nullptr : &state.versions.rbegin()->second;
    const Machine* nodes = latest ? NodesOf(*latest) : nullptr;
    if (!nodes) return;
    auto& queues = MachineAt(state.ns, state.id).queues;
    std::map<std::string, uint64_t> fresh;
    for (const Node& node : nodes->nodes) {
      if (node.kind != NodeKind::kWork || queues.contains(node.settings->queue)) continue;
      const MachineVersion& definition = *latest->definition;
      QueueKey key{state.ns,
                   state.id,
                   definition.version,
                   StatsName(*latest, node.id),
                   node.settings->action,
                   node.settings->queue};
      packages.Derive(definition.package, &key);
      uint64_t& most = fresh[key.queue];
      most = std::max(most, asked.Of(key).waiters);
    }
    for (const auto& [queue, askers] : fresh) queues[queue].asking = askers;
  }

  // The nodes of a new version have numbers from its beginning, and not from their first use.
  void LookAt(MachineState& state) {
    from_.PlaceOf(state);
    MachineMeasures& measures = state.measures;
    if (measures.folded || state.versions.empty()) return;
    const auto& [number, version] = *state.versions.rbegin();
    const Machine* nodes = number > measures.looked_at ? NodesOf(version) : nullptr;
    measures.looked_at = std::max(measures.looked_at, number);
    if (!nodes) return;
    for (const Node& node : nodes->nodes) {
      if (node.kind == NodeKind::kWork) (void)from_.Of(state, StatsName(version, node.id));
    }
  }

  void AddNode(VersionState& version, const std::string& name, NodeState& node,
               Measured::Machine* row) {
    if (!HasTokens(node)) return;
    NodeMeasures& measures = from_.Of(version, name, node);
    measures.tokens[0] += node.ready;
    measures.tokens[1] += node.claimed;
    measures.tokens[2] += node.waiting;
    measures.tokens[3] += node.held;
    const uint64_t ready = node.ready - std::min(node.ready, node.idle);
    if (ready > 0) row->queues[QueueOf(version, name)].ready += ready;
  }

  void CopyNodes(const MachineState& state) {
    Measured::Machine& machine = MachineAt(state.ns, state.id);
    const VersionState* latest =
        state.versions.empty() ? nullptr : &state.versions.rbegin()->second;
    const Machine* nodes = latest ? NodesOf(*latest) : nullptr;
    machine.nodes.reserve(state.measures.nodes.size());
    for (const auto& [name, measures] : state.measures.nodes) {
      const NodeIndex found = nodes ? nodes->Find(name) : kNoNode;
      Measured::Node& node =
          machine.nodes.emplace_back(Measured::Node{AsWritten(nodes, name), *measures, {}});
      const auto latency = state.latencies.find(name);
      if (found == kNoNode || latency == state.latencies.end()) continue;
      const auto counts = latest->nodes.find(name);
      node.timeout =
          latency->second.Timeout(nodes->nodes[found].settings->timeout, /*retry=*/false,
                                  counts == latest->nodes.end() ? 0 : counts->second.claimed);
    }
  }

  Measures& from_;
  const Timestamp now_;
  Measured copy_;
  std::map<std::pair<std::string, std::string>, size_t> places_;  // in copy_.machines
};

Measured Measures::Copy(const Agenda& agenda, const PackageTable& packages,
                        const OldestOf& oldest_of) {
  Copying copying(*this, turn_.now());
  copying.AddUp();
  agenda.VisitQueues(
      "", [&](const Agenda::Queue* queue) { copying.AddQueue(queue, oldest_of, agenda); });
  copying.AddAsking(agenda, packages);
  return copying.Take();
}

}  // namespace dfsmr
