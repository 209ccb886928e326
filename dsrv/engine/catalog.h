// What is defined, by namespace and id: machines, their versions, the nodes of each and where these
// are counted. Versions are never removed. One thread, except for the registry.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dsrv/engine/registry.h"
#include "dsrv/engine/turn.h"
#include "fsm/derived/breaker.h"
#include "fsm/derived/latency.h"
#include "fsm/plan/library.h"
#include "storage/rows/instance.h"
#include "storage/rows/stats.h"

namespace dfsmr {

struct MachineState;
struct VersionState;

// How many tokens stand on a node, and have; `statistics` keeps the numbers.
struct NodeState {
  uint64_t ready = 0;
  uint64_t claimed = 0;
  uint64_t waiting = 0;
  uint64_t held = 0;
  uint64_t completed = 0;
  uint64_t timed_out = 0;
  Agenda::Queue* queue = nullptr;  // work nodes, from the first ready token on
  Latency* latency = nullptr;      // work nodes; shared by the versions of the machine
};

// The nodes of an instance, and where each of them is counted. All instances of a plain machine
// share one; those of a plan share one as long as their params make no difference.
class Graph {
 public:
  // A plan may have a hundred thousand nodes: each of its nodes is looked up when a token first
  // stands there.
  Graph(VersionState& version, std::shared_ptr<const Machine> of);

  const std::shared_ptr<const Machine> machine;
  bool Has(NodeIndex node) const { return node < states_.size(); }
  NodeState& StateOf(NodeIndex node) const {
    NodeState* state = states_[node];
    return state ? *state : LookUp(node);
  }

 private:
  NodeState& LookUp(NodeIndex node) const;

  VersionState& version_;
  mutable std::vector<NodeState*> states_;  // as machine->nodes; null: not looked up yet
};
using GraphPtr = std::shared_ptr<const Graph>;

struct VersionState {
  MachineVersionPtr definition;
  MachineState* machine = nullptr;
  std::map<std::string, NodeState> nodes;  // by StatsName
  GraphPtr graph;                          // of a plain machine; of a plan: no nodes yet
  std::shared_ptr<const PlanSource> plan;  // null: a plain machine
  std::shared_ptr<const Machine> shown;    // a plan's nodes; null: it does not compile any more
  std::set<std::string> written;           // shared graphs that the store has
  // The graph that the plan has under the definitions as they stand.
  std::string shared_name;
  std::weak_ptr<const Graph> shared;
  uint64_t scheduled = 0;
  uint64_t running = 0;
  uint64_t paused = 0;
  uint64_t stopped = 0;
  // What a later version's upgrade_strategy makes of instances that have not stopped.
  VersionState* upgrades_to = nullptr;
  VersionState* aborted_by = nullptr;

  bool LeftBehind() const { return upgrades_to || aborted_by; }
  uint64_t Alive() const { return scheduled + running + paused; }
};

struct MachineState {
  std::string ns;
  std::string id;
  std::map<uint32_t, VersionState> versions;  // 0: of what nobody has defined
  std::map<std::string, Latency> latencies;   // by node

  // The throttle's.
  Breaker breaker;
  std::optional<std::pair<Timestamp, uint64_t>> breaker_timer;
  // Retries that an open breaker holds back, by their queues. One of each queue at a time is let
  // out to be asked for; the filters that ask decide which of them is handed out when the next
  // retry may be.
  struct HeldBack {
    std::deque<ReadyEntry> waiting;  // oldest first
    std::string released;            // the instance of the retry that is let out; empty: none
    uint64_t released_visit = 0;
  };
  std::map<Agenda::Queue*, HeldBack> held_back;

  // The upgrades': instances up to this id are moved.
  std::string swept;
  // The statistics': stopped instances that retention has dropped since the stats row, by version.
  rows::DroppedCounts dropped;
};

// Machines in order of their names, not of their addresses: the same seed gives the same run.
struct ByNames {
  bool operator()(const MachineState* a, const MachineState* b) const {
    return std::tie(a->ns, a->id) < std::tie(b->ns, b->id);
  }
};
using MachineSet = std::set<MachineState*, ByNames>;

// The definitions of one namespace as plans see them, kept alive.
struct DefinitionSet {
  Definitions definitions;
  std::vector<MachineVersionPtr> kept;
  // How many versions there are: another number under other definitions, the same after a restart.
  uint64_t generation = 0;
};

// What is wrong with a machine of a source, given what else is defined.
struct DefineProblem {
  size_t machine;  // its index
  PlanProblem problem;
};
// The machines of a source, compiled.
struct Compiled {
  std::shared_ptr<const DefinitionSet> under;         // what was defined beside them
  std::vector<std::shared_ptr<const Machine>> shown;  // their nodes; null: of a plain machine
  std::vector<DefineProblem> problems;                // warnings only where there is no error

  bool Sound() const { return problems.empty() || problems.front().problem.warning; }
};
// Each plan and action of `machines` with the others beside what is defined; `unsound` are
// documents of the same source that cannot be read. Stops at one that is too large. Any thread.
Compiled CompileAll(std::shared_ptr<const DefinitionSet> under,
                    const std::vector<Machine>& machines, const std::vector<std::string>& unsound);

// What a node is counted as: in a plan, without the numbers that for_each gave it. (A step may be
// called by a number, too: then the plan as it is shown has it.)
std::string StatsName(const VersionState& version, std::string_view node);

// The refusal of a machine that is not there. Version 0: of any version.
Error NoSuchMachine(const std::string& ns, const std::string& id, uint32_t version);

class Catalog {
 public:
  Catalog(OpenTurn& turn, const EngineOptions& options) : turn_(turn), options_(options) {}

  const Registry& registry() const { return registry_; }
  rows::Resolve resolve() const;

  MachineState& StateOf(const std::string& ns, const std::string& id);  // made when missing
  // Version 0 is the latest. Null when there is none.
  VersionState* VersionOf(std::string_view ns, std::string_view id, uint32_t version);
  // The version that an instance is pinned to.
  VersionState* VersionFor(const Instance& instance);
  // Where instances of what nobody has defined are counted: flows sent with Start, and actions that
  // hooks name. Made when missing.
  VersionState& ImplicitVersion(const std::string& ns, const std::string& machine);
  const std::map<std::pair<std::string, std::string>, std::unique_ptr<MachineState>>& machines()
      const {
    return machines_;
  }

  // What defining `machine` would come to.
  Defined Preview(const std::string& ns, const Machine& machine);
  // The next version of its machine. `shown`: its nodes, of a plan.
  VersionState& Add(MachineVersionPtr definition, std::shared_ptr<const Machine> shown);
  // At start, once all versions are added: compiles the plans as they would be compiled now.
  void CompileDefined();
  // As they are now: another set once something has been defined.
  std::shared_ptr<const DefinitionSet> DefinitionsOf(const std::string& ns);

  // Graphs. A graph is the machine's own or, of a plan, the one that its instances share or own.
  // This makes one of a plan; a large one is freed where it holds up nobody.
  GraphPtr GraphOf(VersionState& version, std::shared_ptr<const Machine> machine) const;
  // The graph of an instance as the store has it. Fails with kDataLoss when it does not fit.
  Result<GraphPtr> LoadGraph(const Instance& instance, VersionState& version);
  // The one graph under the name that `instance` has for it: the store's when there is one, so that
  // all instances that share it agree about it. `row`: of `graph`, to be stored.
  GraphPtr Share(const Instance& instance, VersionState& version, GraphPtr graph, std::string row);

  Result<MachineView> GetMachine(const std::string& ns, const std::string& id, uint32_t version);
  // Ordered by (id, version) after `after`, at most `limit`.
  std::vector<MachineView> ListMachines(const std::string& ns, bool all_versions,
                                        const std::pair<std::string, uint32_t>& after,
                                        size_t limit) const;

 private:
  Result<GraphPtr> GraphOfPlan(const Instance& instance, VersionState& version);
  void SetDestinations(MachineState& machine, VersionState& latest);
  MachineView View(const VersionState& version) const;

  OpenTurn& turn_;
  const EngineOptions& options_;
  Registry registry_;
  std::map<std::pair<std::string, std::string>, std::unique_ptr<MachineState>> machines_;
  std::map<std::string, std::shared_ptr<const DefinitionSet>> definitions_;  // by namespace
};

}  // namespace dfsmr
