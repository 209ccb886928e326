#include "dsrv/engine/catalog.h"

#include <algorithm>

#include "fsm/base/names.h"
#include "fsm/plan/assemble.h"
#include "fsm/plan/inherit.h"
#include "storage/rows/graph.h"
#include "storage/rows/instance.h"

namespace dfsmr {
namespace {

// Whether an instance stands only where its graph has nodes.
bool Fits(const Instance& instance, const Machine& machine) {
  const std::vector<Node>& nodes = machine.nodes;
  const auto kept_is = [&](const auto& one) {
    const auto section_is = [&](uint32_t section) {
      return section == kNoSection || section < machine.sections.size();
    };
    const Keepsake& kept = one.second;
    if (!section_is(kept.doomed_in)) return false;
    if (!std::ranges::all_of(kept.led, section_is, [](const auto& led) { return led.first; }) ||
        !std::ranges::all_of(kept.led_from, [&](NodeIndex from) { return from < nodes.size(); })) {
      return false;
    }
    return !kept.section || std::ranges::all_of(kept.section->skipped, [&](uint32_t step) {
      return step < machine.graph->steps.size();
    });
  };
  const auto fits = [&](const OpenEdge& open) {
    if (open.from >= nodes.size() || open.owner >= nodes.size()) return false;
    const Node& owner = nodes[open.owner];
    if (open.edge == kDecision) return true;
    if (open.edge >= kFirstDeed) return owner.role == Role::kSection;
    return open.edge < owner.transitions.size() &&
           open.next < owner.transitions[open.edge].targets.size();
  };
  return std::ranges::all_of(instance.tokens.kept(), kept_is) &&
         instance.tokens.Within(nodes.size()) && std::ranges::all_of(instance.plan->open, fits) &&
         std::ranges::all_of(instance.plan->shut, fits);
}

}  // namespace

Error NoSuchMachine(const std::string& ns, const std::string& id, uint32_t version) {
  return {Code::kNotFound, Reason::kNoSuchMachine,
          "namespace " + Quoted(ns) + " has no " +
              (version ? "version " + std::to_string(version) + " of machine " : "machine ") +
              Quoted(id)};
}

// Machines and versions -------------------------------------------------------------------------

MachineState& Catalog::StateOf(const std::string& ns, const std::string& id) {
  auto& machine = machines_[{ns, id}];
  if (!machine) {
    machine = std::make_unique<MachineState>();
    machine->ns = ns;
    machine->id = id;
  }
  return *machine;
}

VersionState* Catalog::VersionOf(std::string_view ns, std::string_view id, uint32_t version) {
  auto machine = machines_.find({std::string(ns), std::string(id)});
  if (machine == machines_.end() || machine->second->versions.empty()) return nullptr;
  auto& versions = machine->second->versions;
  if (version == 0) {  // the latest; what nobody has defined is none
    return versions.rbegin()->first == 0 ? nullptr : &versions.rbegin()->second;
  }
  auto it = versions.find(version);
  return it == versions.end() ? nullptr : &it->second;
}

VersionState* Catalog::VersionFor(const Instance& instance) {
  if (instance.version == 0) return &ImplicitVersion(instance.ns, instance.machine);
  return VersionOf(instance.ns, instance.machine, instance.version);
}

VersionState& Catalog::ImplicitVersion(const std::string& ns, const std::string& id) {
  MachineState& machine = StateOf(ns, id);
  VersionState& state = machine.versions[0];
  if (state.definition) return state;
  Machine unplanned;
  unplanned.id = id;
  state.definition =
      std::make_shared<const MachineVersion>(MachineVersion{ns, 0, unplanned, turn_.now()});
  state.machine = &machine;
  ActionSource action;
  action.id = id;
  state.plan = std::make_shared<const PlanSource>(PlanOfAction(action));
  state.graph =
      std::make_shared<const Graph>(state, std::make_shared<const Machine>(std::move(unplanned)));
  return state;
}

VersionState& Catalog::Add(MachineVersionPtr definition, std::shared_ptr<const Machine> shown) {
  MachineState& machine = StateOf(definition->ns, definition->machine.id);
  VersionState& state = machine.versions[definition->version];
  state.definition = definition;
  state.machine = &machine;
  const Machine& defined = definition->machine;
  state.shown = std::move(shown);
  if (const PlanPtr* plan = std::get_if<PlanPtr>(&defined.defined_as)) {
    state.plan = *plan;
  } else if (defined.action()) {
    state.plan = std::make_shared<const PlanSource>(PlanOfAction(*defined.action()));
  }
  if (state.plan) {
    Machine unplanned;
    unplanned.id = defined.id;
    state.graph =
        std::make_shared<const Graph>(state, std::make_shared<const Machine>(std::move(unplanned)));
  } else {
    state.graph =
        std::make_shared<const Graph>(state, std::shared_ptr<const Machine>(definition, &defined));
  }
  definitions_.erase(definition->ns);
  registry_.Add(std::move(definition));
  SetDestinations(machine, state);
  return state;
}

// What `latest`'s upgrade_strategy makes of the versions before it.
void Catalog::SetDestinations(MachineState& machine, VersionState& latest) {
  const UpgradeStrategy strategy = latest.definition->machine.upgrade_strategy;
  if (strategy == UpgradeStrategy::kContinue) return;
  for (auto& [number, version] : machine.versions) {
    if (&version == &latest || version.aborted_by || number == 0) continue;
    if (strategy == UpgradeStrategy::kAbort) {
      version.aborted_by = &latest;
    } else {
      version.upgrades_to = &latest;
    }
  }
}

Defined Catalog::Preview(const std::string& ns, const Machine& machine) {
  Defined one{KindName(machine.defined_as), machine.id, 1, true, machine.upgrade_strategy, 0};
  const VersionState* latest = VersionOf(ns, machine.id, 0);
  if (!latest) return one;
  one.version = latest->definition->version;
  one.changed = latest->definition->machine.fingerprint != machine.fingerprint;
  if (!one.changed) return one;
  ++one.version;
  for (const auto& [number, version] : latest->machine->versions) {
    const bool moves = machine.upgrade_strategy != UpgradeStrategy::kContinue && number > 0;
    if (moves) one.affected += /*mutant affected-only-running*/ version.Alive() /*end*/;
  }
  return one;
}

std::shared_ptr<const DefinitionSet> Catalog::DefinitionsOf(const std::string& ns) {
  auto& known = definitions_[ns];
  if (known) return known;
  auto fresh = std::make_shared<DefinitionSet>();
  for (auto it = machines_.lower_bound({ns, ""}); it != machines_.end() && it->first.first == ns;
       ++it) {
    for (const auto& [number, version] : it->second->versions) {
      if (number == 0) continue;
      ++fresh->generation;
      fresh->kept.push_back(version.definition);
      fresh->definitions.Add(version.definition->machine);
    }
  }
  fresh->definitions.Index();
  known = fresh;
  return known;
}

void Catalog::CompileDefined() {
  for (auto& [key, machine] : machines_) {
    for (auto& [number, version] : machine->versions) {
      if (!version.plan || number == 0) continue;
      std::vector<PlanProblem> problems;
      version.shown = CompileDefinition(version.definition->machine,
                                        DefinitionsOf(key.first)->definitions, &problems);
    }
  }
}

// Graphs ----------------------------------------------------------------------------------------

GraphPtr Catalog::GraphOf(VersionState& version, std::shared_ptr<const Machine> machine) const {
  if (machine->nodes.size() <= options_.steps_at_once) {
    return std::make_shared<const Graph>(version, std::move(machine));
  }
  auto free_aside = [offload = options_.offload, machine](const Machine*) mutable {
    offload([machine = std::move(machine)] { return nullptr; });
  };
  const Machine* of = machine.get();
  machine.reset();
  return std::make_shared<const Graph>(version,
                                       std::shared_ptr<const Machine>(of, std::move(free_aside)));
}

Result<GraphPtr> Catalog::LoadGraph(const Instance& instance, VersionState& version,
                                    bool resumed) {
  const bool over = instance.Stopped() && !resumed;
  if (!instance.plan || instance.plan->graph.empty() || over) return version.graph;
  auto graph = GraphOfPlan(instance, version);
  if (!graph || Fits(instance, *(*graph)->machine)) return graph;
  return Error{Code::kDataLoss, Reason::kStoreFailed,
               "the store holds a damaged step of instance '" + instance.id +
                   "': its plan has no such node"};
}

Result<GraphPtr> Catalog::GraphOfPlan(const Instance& instance, VersionState& version) {
  const bool shared = !instance.plan->OwnsGraph();
  if (shared && version.shared_name == instance.plan->graph) {
    if (auto graph = version.shared.lock()) return graph;
  }
  auto read = rows::GetGraph(turn_.reader(), instance);
  if (!read) return read.error();
  for (StepAction& action : read->actions) {
    if (!action.input.text.empty())
      action.input.check = options_.schema(action.input.text, "input");
    if (!action.output.text.empty())
      action.output.check = options_.schema(action.output.text, "output");
  }
  Machine machine;
  machine.id = instance.machine;
  auto graph = GraphOf(
      version, std::make_shared<const Machine>(Assemble(
                   std::make_shared<const PlanGraph>(*std::move(read)), std::move(machine))));
  if (shared) {
    version.shared_name = instance.plan->graph;
    version.shared = graph;
  }
  return graph;
}

GraphPtr Catalog::Share(const Instance& instance, VersionState& version, GraphPtr graph,
                        std::string row) {
  const std::string& name = instance.plan->graph;
  if (version.shared_name == name) {
    if (auto known = version.shared.lock()) return known;
  }
  if (version.written.insert(name).second) {
    auto known = rows::GetGraphRow(turn_.reader(), instance);
    if (!turn_.Trust(known)) return graph;
    if (*known && **known != row) {  // it is read only where it may differ: it can be large
      auto stored = LoadGraph(instance, version);
      if (stored) return *stored;
      if (stored.error().code == Code::kUnavailable) turn_.Trust(stored);
    }
    if (*known != row) rows::PutGraph(turn_.writer(), instance, std::move(row));
  }
  version.shared_name = name;
  version.shared = graph;
  return graph;
}

// Views -----------------------------------------------------------------------------------------

MachineView Catalog::View(const VersionState& version) const {
  MachineView view;
  view.definition = version.definition;
  view.stats = {version.scheduled,
                version.running,
                version.paused,
                version.stopped,
                version.machine->breaker.RetryShare(),
                Name(version.machine->breaker.state())};
  view.machine = version.plan ? version.shown : version.graph->machine;
  if (!view.machine) view.machine = version.graph->machine;
  for (const Node& defined : view.machine->nodes) {
    NodeStats& node = view.nodes.emplace_back();
    const std::string name = StatsName(version, defined.id);
    const auto counted = version.nodes.find(name);
    if (counted != version.nodes.end()) static_cast<NodeCounts&>(node) = counted->second;
    if (defined.kind != NodeKind::kWork) continue;
    const Agenda::Queue* queue =
        counted == version.nodes.end() ? nullptr : counted->second.last_queue;
    if (queue && Agenda::IsClosed(queue)) node.limited = node.ready;
    const auto known = version.machine->latencies.find(name);
    const Latency none;  // nobody has worked there
    const Latency& latency = known == version.machine->latencies.end() ? none : known->second;
    node.p50 = latency.Quantile(50);
    node.p95 = latency.Quantile(95);
    node.timeout_now = latency.Timeout(defined.settings->timeout, /*retry=*/false, node.claimed);
  }
  return view;
}

Result<MachineView> Catalog::GetMachine(const std::string& ns, const std::string& id,
                                        uint32_t version) {
  const VersionState* state = VersionOf(ns, id, version);
  if (!state) return NoSuchMachine(ns, id, version);
  return View(*state);
}

std::vector<MachineView> Catalog::ListMachines(const std::string& ns, bool all_versions,
                                               const std::pair<std::string, uint32_t>& after,
                                               size_t limit) const {
  std::vector<MachineView> views;
  for (auto it = machines_.lower_bound({ns, after.first});
       it != machines_.end() && it->first.first == ns && views.size() < limit; ++it) {
    const auto& versions = it->second->versions;
    auto version = all_versions ? versions.lower_bound(1) : std::prev(versions.end());
    if (version != versions.end() && version->first == 0) continue;
    for (; version != versions.end() && views.size() < limit; ++version) {
      const bool seen = it->first.second == after.first &&
                        /*mutant machine-page-repeats-one*/ version->first <= after.second /*end*/;
      if (!seen) views.push_back(View(version->second));
    }
  }
  return views;
}

}  // namespace dfsmr
