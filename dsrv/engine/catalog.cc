#include "dsrv/engine/catalog.h"

#include <algorithm>

#include "dsrv/engine/package_version.h"
#include "dsrv/engine/references.h"
#include "dsrv/engine/turn.h"
#include "fsm/base/names.h"
#include "fsm/plan/assemble.h"
#include "fsm/plan/inherit.h"
#include "storage/rows/graph.h"
#include "storage/rows/instance.h"

namespace dfsmr {

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

std::string GraphKept(const std::shared_ptr<const Machine>& shown) {
  return shown && shown->graph ? rows::GraphRow(*shown->graph) : std::string();
}

std::shared_ptr<const Machine> ShownOf(const std::string& id, std::string_view graph) {
  auto read = graph.empty() ? std::nullopt : rows::GraphIn(graph);
  if (!read) return nullptr;
  Machine named;
  named.id = id;
  return std::make_shared<const Machine>(
      Assemble(std::make_shared<const PlanGraph>(*std::move(read)), std::move(named)));
}

Core CoreOf(const Machine& machine) {
  Core core{0xcbf29ce484222325ull, 0x9ae16a3b2f90404full};
  const auto take = [&core](std::string_view entry) {
    for (char c : entry) {
      core.first = (core.first ^ static_cast<uint8_t>(c)) * 0x100000001b3ull;
      core.second = Mix(core.second + static_cast<uint8_t>(c) + 1);
    }
  };
  for (const std::string& name : NamesIn(machine)) take(name + ' ');
  const std::string_view fingerprint = machine.fingerprint;
  size_t begin = 1;  // of an entry; behind the first brace
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < fingerprint.size(); ++i) {
    const char c = fingerprint[i];
    if (c == '\\') {
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted) {
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') --depth;
      if ((c == ',' && depth == 1) || depth == 0) {
        const std::string_view entry = fingerprint.substr(begin, i - begin);
        const bool said =
            entry.starts_with("\"description\":") || entry.starts_with("\"upgrade_strategy\":");
        if (!said) take(entry);
        begin = i + 1;
      }
    }
  }
  return core;
}

bool SameButPrograms(const MachineVersion& one, const MachineVersion& other) {
  return one.package && other.package && one.core == other.core;
}

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
    machine->paced = !turn_.at_home();
    if (!turn_.at_home()) machine->breaker.FollowOthers();
    if (options_.partitions > 1) machine->breaker.LetOpen(false);
    const auto counted = counted_.find(ns);
    if (counted != counted_.end()) machine->space = counted->second;
  }
  return *machine;
}

MachineState* Catalog::Find(const std::string& ns, const std::string& id) const {
  const auto machine = machines_.find({ns, id});
  return machine == machines_.end() ? nullptr : machine->second.get();
}

VersionState* Catalog::VersionOf(std::string_view ns, std::string_view id, uint32_t version) {
  auto machine = machines_.find({std::string(ns), std::string(id)});
  if (machine == machines_.end() || machine->second->versions.empty()) return nullptr;
  auto& versions = machine->second->versions;
  if (version == 0) version = machine->second->current;
  if (version == 0) return nullptr;  // what nobody has defined is none
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
  Changed(definition->ns);
  if (definition->package) own_[definition->package.get()][defined.id] = &state;
  registry_.Add(definition);
  if (/*mutant candidate-is-meant*/ definition->candidate /*end*/) return state;
  machine.current = definition->version;
  machine.retired = false;
  SetDestinations(machine, state);
  return state;
}

void Catalog::Changed(const std::string& ns) {
  definitions_.erase(ns);
  const auto of_ns = [&ns](const auto& one) { return one.first.first == ns; };
  std::erase_if(of_packages_, of_ns);
  std::erase_if(without_, of_ns);
}

// What `latest`'s upgrade_strategy makes of the versions before it.
void Catalog::SetDestinations(MachineState& machine, VersionState& latest) {
  const UpgradeStrategy strategy = latest.definition->machine.upgrade_strategy;
  if (strategy == UpgradeStrategy::kContinue) return;
  for (auto& [number, version] : machine.versions) {
    if (&version == &latest || version.aborted_by || number == 0) continue;
    if (!version.LeftBehind() &&
        /*mutant same-moves-all*/ SameButPrograms(*version.definition,
                                                  *latest.definition) /*end*/) {
      /*mutant programs-stay-behind*/ version.stands_for = &latest; /*end*/
      registry_.StandFor(*version.definition, latest.definition);
      continue;
    }
    // What is on its way to a version that goes on, goes on as well.
    const VersionState* to = version.upgrades_to;
    const bool goes_on = to && SameButPrograms(*to->Now().definition, *latest.definition);
    version.stands_for = nullptr;
    registry_.LeaveBehind(*version.definition);
    if (strategy == UpgradeStrategy::kAbort && !goes_on) {
      version.aborted_by = &latest;
    } else {
      version.upgrades_to = &latest;
    }
  }
}

Defined Catalog::Preview(const std::string& ns, const Machine& machine) {
  Defined one{KindName(machine.defined_as), machine.id, 1, true, machine.upgrade_strategy, 0};
  const VersionState* latest = VersionOf(ns, machine.id, 0);
  if (!latest) {
    const auto known = machines_.find({ns, machine.id});
    if (known != machines_.end() && !known->second->versions.empty()) {
      one.version = known->second->versions.rbegin()->first + 1;
    }
    return one;
  }
  one.version = latest->definition->version;
  one.changed = latest->machine->retired || latest->definition->package ||
                latest->definition->machine.fingerprint != machine.fingerprint;
  if (!one.changed) return one;
  one.version = latest->machine->versions.rbegin()->first + 1;
  for (const auto& [number, version] : latest->machine->versions) {
    const bool moves = machine.upgrade_strategy != UpgradeStrategy::kContinue && number > 0;
    if (moves) one.affected += /*mutant affected-only-running*/ version.AliveAnywhere() /*end*/;
  }
  return one;
}

// Packages --------------------------------------------------------------------------------------

const std::map<std::string, VersionState*>& Catalog::OwnVersions(
    const PackageVersion& package) const {
  static const std::map<std::string, VersionState*> kNone;
  const auto own = own_.find(&package);
  return own == own_.end() ? kNone : own->second;
}

VersionState* Catalog::OwnVersion(const PackageVersion& package, const std::string& id) const {
  const auto& own = OwnVersions(package);
  const auto found = own.find(id);
  return found == own.end() ? nullptr : found->second;
}

uint32_t Catalog::VersionMeantBy(const VersionState& version, const std::string& id) const {
  const PackageVersion* package = version.Now().definition->package.get();
  const VersionState* own = package ? OwnVersion(*package, id) : nullptr;
  while (own && own->LeftBehind()) own = own->aborted_by ? own->aborted_by : own->upgrades_to;
  return own ? own->Now().definition->version : 0;
}

std::string Catalog::NameMeantBy(const VersionState& version, const std::string& name) const {
  const PackageVersion* package = version.Now().definition->package.get();
  if (!package) return name;
  const std::string own = package->package + "." + name;
  return OwnVersion(*package, own) ? own : name;
}

bool Catalog::IsOwn(const VersionState& version, const std::string& id,
                    const std::string& package_version) const {
  const PackageVersion* package = version.Now().definition->package.get();
  return package && package->version == package_version && OwnVersion(*package, id);
}

PackageVersionPtr Catalog::OwnerOf(const std::string& ns, const std::string& id) const {
  const auto found = machines_.find({ns, id});
  if (found == machines_.end()) return nullptr;
  const MachineState& machine = *found->second;
  if (machine.candidate) return machine.candidate->definition->package;
  if (machine.retired || machine.current == 0) return nullptr;
  return machine.versions.at(machine.current).definition->package;
}

void Catalog::Retire(MachineState& machine) {
  machine.retired = true;
  Changed(machine.ns);
}

namespace {

// The definitions that names mean, except those that `leave_out` says.
template <typename LeaveOut>
std::shared_ptr<DefinitionSet> Present(
    const std::map<std::pair<std::string, std::string>, std::unique_ptr<MachineState>>& machines,
    const Registry& registry, const std::string& ns, LeaveOut leave_out) {
  auto fresh = std::make_shared<DefinitionSet>();
  fresh->definitions.SetVersions([&registry, ns](std::string_view id, uint32_t version) {
    const MachineVersionPtr found = registry.Find(ns, id, version);
    return found ? &found->machine : nullptr;  // the registry keeps it
  });
  for (auto it = machines.lower_bound({ns, ""}); it != machines.end() && it->first.first == ns;
       ++it) {
    const MachineState& machine = *it->second;
    // It only grows, whatever is defined, activated and retired.
    fresh->generation += 2 * (machine.versions.size() - machine.versions.count(0));
    fresh->generation += machine.retired;
    if (machine.current == 0 || machine.retired) continue;
    const MachineVersionPtr& definition = machine.versions.at(machine.current).definition;
    if (leave_out(*definition)) continue;
    fresh->kept.push_back(definition);
    fresh->definitions.Add(definition->machine);
  }
  return fresh;
}

}  // namespace

std::shared_ptr<const DefinitionSet> Catalog::DefinitionsOf(const std::string& ns,
                                                            const PackageVersion* package) {
  if (!package) return DefinitionsOf(ns);
  auto& known = of_packages_[{ns, package->package + "@" + package->version}];
  if (known) return known;
  // Not what another version of it has: a subscriber, for one, would join in unasked.
  auto fresh = Present(machines_, registry_, ns, [package](const MachineVersion& one) {
    return one.package && one.package->package == package->package;
  });
  for (const auto& [id, version] : OwnVersions(*package)) {
    fresh->kept.push_back(version->definition);
    fresh->definitions.Add(version->definition->machine);
  }
  fresh->definitions.Index();
  return known = fresh;
}

std::shared_ptr<const DefinitionSet> Catalog::DefinitionsWithout(const std::string& ns,
                                                                 const std::string& package) {
  auto& known = without_[{ns, package}];
  if (known) return known;
  auto fresh = Present(machines_, registry_, ns, [&](const MachineVersion& one) {
    return one.package && one.package->package == package;
  });
  fresh->definitions.Index();
  return known = fresh;
}

std::shared_ptr<const DefinitionSet> Catalog::DefinitionsOf(const std::string& ns) {
  auto& known = definitions_[ns];
  if (known) return known;
  auto fresh = Present(machines_, registry_, ns, [](const MachineVersion&) { return false; });
  fresh->definitions.Index();
  return known = fresh;
}

void Catalog::CompileDefined() {
  for (auto& [key, machine] : machines_) {
    for (auto& [number, version] : machine->versions) {
      if (!version.plan || version.shown || number == 0) continue;
      std::vector<PlanProblem> problems;
      version.shown = CompileDefinition(
          version.definition->machine,
          DefinitionsOf(key.first, version.definition->package.get())->definitions, &problems);
    }
  }
}

// Namespaces ------------------------------------------------------------------------------------

Catalog::Counts Catalog::CountsOf(const std::string& ns) const {
  Counts counts;
  for (auto it = machines_.lower_bound({ns, ""}); it != machines_.end() && it->first.first == ns;
       ++it) {
    if (it->second->Stands()) ++counts.defined;
    for (const auto& [number, version] : it->second->versions) {
      counts.live += version.Alive();
      counts.stopped += version.stopped;
      for (const auto& [name, node] : version.nodes) {
        counts.ready += node.ready;
        counts.claimed += node.claimed;
      }
    }
  }
  return counts;
}

uint64_t Catalog::DefinedIn(const std::string& ns) const {
  uint64_t defined = 0;
  for (auto it = machines_.lower_bound({ns, ""}); it != machines_.end() && it->first.first == ns;
       ++it) {
    if (it->second->Stands()) ++defined;
  }
  return defined;
}

void Catalog::CountIn(const std::string& ns, SpaceCounts* counts) {
  if (counts) {
    counted_[ns] = counts;
  } else {
    counted_.erase(ns);
  }
  for (auto it = machines_.lower_bound({ns, ""}); it != machines_.end() && it->first.first == ns;
       ++it) {
    it->second->space = counts;
  }
}

void Catalog::Forget(const std::string& ns, const std::function<void(MachineState&)>& visit) {
  auto it = machines_.lower_bound({ns, ""});
  while (it != machines_.end() && it->first.first == ns) {
    MachineState& machine = *it->second;
    visit(machine);
    machine.held_back.clear();
    machine.dropped.clear();
    machine.space = nullptr;
    for (auto& [number, version] : machine.versions) {
      for (auto& [name, node] : version.nodes) node.queue = node.last_queue = nullptr;
    }
    forgotten_.push_back(std::move(it->second));
    it = machines_.erase(it);
  }
  Changed(ns);
  std::erase_if(own_, [&ns](const auto& one) { return one.first->ns == ns; });
  registry_.Forget(ns);
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

namespace {

// The versions whose live instances count as those of `version`.
std::vector<const VersionState*> CountedAs(const VersionState& version) {
  std::vector<const VersionState*> all;
  if (!version.stands_for) all.push_back(&version);
  if (!version.definition->package) return all;
  for (const auto& [number, one] : version.machine->versions) {
    if (one.stands_for == &version) all.push_back(&one);
  }
  return all;
}

// Adds the tokens that stand on a node now.
void CountNode(const VersionState& version, const std::string& name, NodeStats* node) {
  const auto counted = version.nodes.find(name);
  if (counted == version.nodes.end()) return;
  const NodeState& state = counted->second;
  node->ready += state.ready;
  node->claimed += state.claimed;
  node->waiting += state.waiting;
  node->held += state.held;
  if (state.last_queue && Agenda::IsClosed(state.last_queue)) node->limited += state.ready;
}

}  // namespace

MachineView Catalog::View(const VersionState& version) const {
  MachineView view;
  view.definition = version.definition;
  view.retired = version.machine->retired;
  view.stats = {0,
                0,
                0,
                version.stopped,
                version.machine->breaker.RetryShare(turn_.now()),
                Name(version.machine->breaker.state())};
  const std::vector<const VersionState*> counted_as = CountedAs(version);
  for (const VersionState* one : counted_as) {
    view.stats.scheduled += one->scheduled;
    view.stats.running += one->running;
    view.stats.paused += one->paused;
  }
  view.machine = version.plan ? version.shown : version.graph->machine;
  if (!view.machine) view.machine = version.graph->machine;
  for (const Node& defined : view.machine->nodes) {
    NodeStats& node = view.nodes.emplace_back();
    const std::string name = StatsName(version, defined.id);
    const auto counted = version.nodes.find(name);
    if (counted != version.nodes.end()) {
      node.completed = counted->second.completed;
      node.timed_out = counted->second.timed_out;
    }
    for (const VersionState* one : counted_as) CountNode(*one, name, &node);
    if (defined.kind != NodeKind::kWork) continue;
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
    const uint32_t current = it->second->current;
    if (current == 0 && !all_versions) continue;
    auto version = all_versions ? versions.lower_bound(1) : versions.find(current);
    const auto end = all_versions ? versions.end() : std::next(version);
    for (; version != end && views.size() < limit; ++version) {
      const bool seen = it->first.second == after.first &&
                        /*mutant machine-page-repeats-one*/ version->first <= after.second /*end*/;
      if (!seen) views.push_back(View(version->second));
    }
  }
  return views;
}

}  // namespace dfsmr
