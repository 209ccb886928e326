// Plans: a flow compiled to the graph of one instance, and the graph to the nodes of a machine.
//
// The graph is a DAG of places: a place is a step, or a gate between many and many. What a place
// leads to waits for it; what has several places before it waits for all. Nothing else is ordered.
// Pure; what is defined beside the plan is handed in as a Library.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/base/result.h"
#include "fsm/machine/machine.h"
#include "fsm/plan/source.h"

namespace dfsmr {

// What the steps of one kind have in common: an action as it stood when the plan was compiled, with
// the keys that its steps give themselves.
struct Work {
  std::string action;
  std::string queue = "default";
  int32_t priority = 0;
  TimeoutPolicy timeout;
  RetryPolicy retry;
  std::optional<PollPolicy> poll;
  Rescue rescue = Rescue::kPause;
  Weights weight;
  std::vector<std::string> middleware;  // outermost first
  Schema input;
  Schema output;
  OnConflict on_conflict = OnConflict::kFail;
};

struct Spawn {
  std::string machine;
  std::optional<std::string> items;  // a template whose value is a list; absent: one child
  std::string as;
  std::string input;                 // a template; `as` is left in it
  uint32_t concurrency = 0;          // 0: no limit
};

// A step. In its templates references are compiled: `${#12.output.ip}` is the output of step 12,
// `${@3.output[1]}` that of group 3; `params`, `instance` and what cannot be known before it is
// handed out stay as written. In a planner's input references to outputs are text, `$${a.output}`,
// for its worker to pass on.
struct Step {
  enum class Kind : uint8_t {
    kWork,     // a worker runs it
    kSpawn,    // starts instances and waits for them
    kPass,     // nothing to run: `when` left it out, or its action has no run phase
  };
  std::string path;
  std::string of;          // its path without the numbers of for_each: what its timings go by
  Kind kind = Kind::kWork;
  bool finalize = false;   // has a finalize phase
  bool left_out = false;   // by `when`: its output is null
  bool planner = false;    // of a planning graph: its worker says what comes below it
  uint32_t work = 0;       // in works
  std::string input = "{}";            // a template
  // Steps that need its output by itself. Those that need it as part of a group are that group's
  // readers, so that m members and n readers cost m + n: ReadersOf gives all.
  std::vector<uint32_t> readers;
  std::vector<uint32_t> groups;        // that it is a member of
};

// What `${node.output}` gives when node is a for_each (a list) or a nested plan (an object).
struct Group {
  struct Member {
    std::string name;      // in an object
    bool group = false;    // of groups, else of steps
    uint32_t index = 0;
  };
  bool list = false;
  std::vector<Member> members;
  std::vector<uint32_t> readers;  // steps that need it
  std::vector<uint32_t> groups;   // that it is a member of
};

struct Place {
  uint32_t step = UINT32_MAX;      // none: a gate
  std::string gate;                // its name, of a gate
  std::vector<uint32_t> next;      // places that wait for this one, each once
};

struct PlanGraph {
  bool planning = false;  // holds only planners' steps: what they say is to be compiled next
  std::vector<Work> works;
  std::vector<Step> steps;   // in the order written, subscribers after what they subscribe to
  std::vector<Group> groups;
  std::vector<Place> places;  // of the steps, numbered as they are; then the gates
  std::map<uint32_t, Spawn> spawns;           // by step
  std::map<uint32_t, std::string> singletons;  // by step: a template text as JSON string

  // Of the instance as a whole, from its plan; templates over params and instance.id.
  std::string label;       // a JSON string; empty: none
  std::string singleton;   // a JSON string; empty: none
  OnConflict on_conflict = OnConflict::kFail;
  struct Hook {
    std::vector<std::string> on;
    std::string action;
    std::string input;
  };
  std::vector<Hook> hooks;

  // Whether this graph could differ for other params of the same plan under the same definitions.
  bool depends_on_params = false;
};

// The steps that need the output of this one, by itself or as part of a group: each once, ascending.
std::vector<uint32_t> ReadersOf(const PlanGraph& graph, uint32_t step);

// The definitions that a plan may name, of one namespace, as they stand.
class Library {
 public:
  virtual ~Library() = default;
  virtual const ActionSource* FindAction(std::string_view id) const = 0;  // null: not defined
  virtual const PlanSource* FindPlan(std::string_view id) const = 0;
  virtual bool HasMachine(std::string_view id) const = 0;  // a plain machine of that name
  // Actions whose subscribes_to (their own or inherited) names this action, in order of id.
  virtual std::vector<const ActionSource*> SubscribersOf(std::string_view action) const = 0;
};

struct PlanProblem {
  Written written;
  std::string message;
  // Ids of other definitions that the problem depends on: with other content of theirs, or once
  // they exist, it may be gone.
  std::vector<std::string> about;
  // The reference that is wrong, as it stands in the text at `written`: "${a.output}"; may be
  // empty.
  std::string reference;
  bool too_large = false;  // compiling the rest of its source would take as long again
  bool warning = false;    // the definition may be used all the same
};

// What planner steps have said so far, by their paths.
using PlannedFlows = std::map<std::string, std::shared_ptr<const PlanSource>, std::less<>>;

struct PlanningArgs {
  const PlanSource* plan = nullptr;
  const Library* library = nullptr;
  // The instance's params, a JSON object. Absent when the plan is only defined: then each for_each
  // has one template step, named without a number, and `when` leaves nothing out.
  std::optional<std::string_view> params;
  const PlannedFlows* planned = nullptr;
  std::string_view instance;  // its id; empty when the plan is only defined
};

// Null when there is a problem; all of them are appended. What is in the result with `planning` set
// is one more round of planners.
std::shared_ptr<const PlanGraph> CompilePlan(const PlanningArgs& args,
                                             std::vector<PlanProblem>* problems);

// An action as a plan of one step that is named after it, with the instance's params as its input.
PlanSource PlanOfAction(const ActionSource& action);
// The keys of an action with what it extends; `problems` as above. Unknown names are actions with
// nothing but defaults.
ActionSource Inherited(const ActionSource& action, const Library& library,
                       std::vector<PlanProblem>* problems);
// The keys that `own` gives are put in place of the action's; middleware and names are left alone.
void OverrideKeys(const ActionSource& own, ActionSource* action);

// The nodes of a graph. For a step S of kind kWork: work node S (ok → what waits for it, error →
// S/error, suspend → S/suspended), held node S/error (retry → S, skip → what waits for it), manual
// node S/suspended (wake → S). kSpawn: manual node S (ok, error), held S/error. kPass: gate S.
// Gates: gate nodes (ok). Finalize phases: work nodes S/finalize, in a chain after everything else
// (ok → the next), held S/finalize/error (retry → the first of the chain, skip → the next). Before
// and after everything: gate /start and final node /end. Each node with several before it has
// join kAll. In a planning graph the nodes of planners are work nodes S (planned → /end), without
// more. `machine` brings id, description and the like; nodes, index and start are filled in.
Machine Assemble(std::shared_ptr<const PlanGraph> graph, Machine machine);

}  // namespace dfsmr
