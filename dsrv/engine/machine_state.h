// The counters and graphs of what is defined: a machine, its versions, and the nodes of each
// version. `catalog` makes them, and never removes them; the parts keep in them what is theirs. One
// thread.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "dsrv/engine/error_texts.h"
#include "dsrv/engine/measured.h"
#include "dsrv/engine/pulse.h"
#include "dsrv/engine/registry.h"
#include "dsrv/engine/types.h"
#include "fsm/derived/agenda.h"
#include "fsm/derived/breaker.h"
#include "fsm/derived/latency.h"
#include "fsm/plan/source.h"
#include "storage/rows/stats.h"

namespace dfsmr {

struct MachineState;
struct VersionState;

// What the quotas of a namespace count as it changes.
struct SpaceCounts {
  uint64_t live = 0;   // instances that have not stopped
  uint64_t ready = 0;  // tokens
};

// What is kept of a node. `statistics` keeps the counts.
struct NodeState : NodeCounts {
  uint64_t idle = 0;                 // of `ready`: of instances that do not run
  Timestamp held_since;              // since when something is held here; see Survey
  Timestamp person_since;            // the same of what waits here for a person
  std::shared_ptr<NodePulse> pulse;  // null: nothing has happened yet
  NodePulse& Pulse() {
    if (!pulse) pulse = std::make_shared<NodePulse>();
    return *pulse;
  }
  Agenda::Queue* queue = nullptr;  // of a work node; null before its first ready token
  Agenda::Queue* last_queue = nullptr;  // where a token of it was put last
  Latency* latency = nullptr;      // of a work node; the versions of the machine share it
  NodeMeasures* measures = nullptr;  // the same of every node; null: see Measures
};

// The nodes of an instance, and the state in which each is counted. All instances of a version of a
// plain machine share a graph; those of a plan share one unless their params make a difference.
class Graph {
 public:
  // A plan may have a hundred thousand nodes, so the state of a plan's node is looked up when a
  // token first stands there.
  Graph(VersionState& version, std::shared_ptr<const Machine> of);

  const std::shared_ptr<const Machine> machine;
  bool Has(NodeIndex node) const { return node < states_.size(); }
  SpaceCounts* space() const;  // of its machine
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
  GraphPtr graph;                          // of a plain machine; for a plan it has no nodes
  std::shared_ptr<const PlanSource> plan;  // null: a plain machine
  std::shared_ptr<const Machine> shown;    // a plan's nodes; null: it does not compile any more
  std::set<std::string> written;           // shared graphs that the store has
  // The graph that the plan has under the present definitions.
  std::string shared_name;
  std::weak_ptr<const Graph> shared;
  uint64_t scheduled = 0;
  uint64_t running = 0;   // those that are planned as well
  uint64_t planning = 0;  // of them
  uint64_t paused = 0;
  uint64_t stopped = 0;
  rows::ResultCounts results = {};  // of these, if it is of a package
  uint64_t dry_runs = 0;            // that have not stopped; the other counts leave them out
  // What elsewhere.h adds of other partitions, as long as home decides what depends on it.
  struct Counts {
    uint64_t live = 0;
    uint64_t dry_runs = 0;
    rows::ResultCounts results = {};
  };
  Counts elsewhere;
  // The later version that upgrades or aborts the instances that have not stopped; null: none does.
  VersionState* upgrades_to = nullptr;
  VersionState* aborted_by = nullptr;
  // A later version of a package that is the same but for its programs: the instances that have not
  // stopped go on where they stand, and count as its. Null: there is none.
  VersionState* stands_for = nullptr;

  VersionState& Now() { return stands_for ? *stands_for : *this; }
  const VersionState& Now() const { return stands_for ? *stands_for : *this; }
  bool LeftBehind() const { return upgrades_to || aborted_by; }
  uint64_t Alive() const { return scheduled + running + paused; }
  // In all partitions.
  uint64_t AliveAnywhere() const { return Alive() + elsewhere.live; }
  uint64_t DryRunsAnywhere() const { return dry_runs + elsewhere.dry_runs; }
};

struct MachineState {
  std::string ns;
  std::string id;
  std::map<uint32_t, VersionState> versions;  // 0: of what nobody has defined
  uint32_t current = 0;  // the version that its name means; 0: there is none, or it is not defined
  bool retired = false;  // the package that it belongs to no longer has it
  VersionState* candidate = nullptr;  // takes a share of the starts by name; null: none does
  uint32_t share = 0;                 // in hundredths of a percent
  std::map<std::string, Latency> latencies;   // by node
  bool paced = false;  // home keeps the latencies, and tells the pace of each node
  Latency& LatencyOf(const std::string& node) {
    Latency& latency = latencies[node];
    if (paced) latency.KeepElsewhere();
    return latency;
  }
  std::unique_ptr<Minutes> minutes;           // null: nothing has happened yet
  ErrorTexts failures;                        // of instances that ended with ERROR
  std::map<std::string, ErrorTexts> held;     // of tokens that are held, by node
  SpaceCounts* space = nullptr;  // null: its namespace has no quota that needs them
  MachineMeasures measures;      // only Measures looks into it

  // Whether its id is taken: it is defined by hand, or by a package that has it still.
  bool Stands() const { return candidate || (current > 0 && !retired); }

  // For the throttle.
  Breaker breaker;
  std::optional<std::pair<Timestamp, uint64_t>> breaker_timer;
  // Retries that an open breaker holds back, by their queues. One of each queue at a time is in the
  // agenda, and the filters of polls decide which of these is the next retry that is handed out.
  struct HeldBack {
    std::deque<ReadyEntry> waiting;  // oldest first
    std::string released;            // the instance of the retry in the agenda; empty: none
    uint64_t released_visit = 0;
  };
  std::map<Agenda::Queue*, HeldBack> held_back;

  // For the upgrades: instances up to this id are moved.
  std::string swept;
  // For the statistics: stopped instances, by version, that retention has dropped since the stats
  // row was written.
  rows::DroppedCounts dropped;
};

// Orders machines by their names, not their addresses, so that the same seed gives the same run.
struct ByNames {
  bool operator()(const MachineState* a, const MachineState* b) const {
    return std::tie(a->ns, a->id) < std::tie(b->ns, b->id);
  }
};
using MachineSet = std::set<MachineState*, ByNames>;

// The name under which a node is counted: in a plan, without the numbers that for_each gave its
// steps. (A step whose own name is a number keeps it, since the plan as it is shown has it.)
std::string StatsName(const VersionState& version, std::string_view node);

}  // namespace dfsmr
