// The graph of one instance of a plan, as compiled: plain values, kept with the instance.
//
// It is a DAG of places: a place is a step, or a gate between several places and several others.
// The places that a place leads to wait for it; a place with several before it waits for all of
// them. Nothing else is ordered.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fsm/machine/machine.h"
#include "fsm/plan/source.h"

namespace dfsmr {

// What steps with the same action and keys have in common: the action as it was when the plan was
// compiled, with the keys that the steps give themselves.
struct StepAction {
  std::string name;
  std::string queue = "default";
  int32_t priority = 0;
  TimeoutPolicy timeout;
  RetryPolicy retry;
  AttemptBounds bounds;
  std::optional<PollPolicy> poll;
  Rescue rescue = Rescue::kPause;
  Weights weight;
  std::vector<std::string> middleware;  // outermost first
  RunsOn runs_on;                       // as written
  DryRunRule dry_run;
  Schema input;
  Schema output;
};

struct Spawn {
  std::string machine;
  std::optional<std::string> items;  // a template whose value is a list; absent: one child
  std::string as;
  std::string input;         // a template; `as` is left in it
  uint32_t concurrency = 0;  // 0: no limit
};

// The `if` of a step, or of a nested plan: then the step is the nested plan's own, which runs
// nothing, stands in front of it and has its path.
struct StepIf {
  ConditionPtr condition;         // compiled: steps are "#12" and "@3", its references lenient
  std::string text;               // as it was written
  std::vector<uint32_t> members;  // of a nested plan: its steps, which run or are skipped together
};

// A step. A lenient reference, `${##12.output.ip}` or `${@@3.output}`, stands in a step with an
// `if`: it is null when what it refers to did not succeed, and leads to `state` and `error`, too.
// In its templates references are compiled: `${#12.output.ip}` is the output of step 12,
// `${@3.output[1]}` that of group 3; `params`, `instance` and what cannot be known before it is
// handed out stay as written. In a planner's input references to outputs are text, `$${a.output}`,
// for its worker to pass on. A compensation refers to what it compensates, and to all else that is
// outside of it, by `${###12.output.id}` and `${@@@3.output}`: null for what is not there.
struct Step {
  enum class Kind : uint8_t {
    kWork,   // a worker runs it
    kSpawn,  // starts instances and waits for them
    kPass,   // nothing to run: `when` left it out, its action has no run phase, or it decides
             // whether a nested plan runs
  };
  std::string path;
  std::string of;  // its path without the numbers of for_each; in a definition a `*` for each
  Kind kind = Kind::kWork;
  bool finalize = false;     // has a finalize phase
  bool left_out = false;     // by `when`: its output is null
  bool planner = false;      // of a planning graph: its worker says what comes below it
  bool tells_worker = false;  // who reports its `ok` is kept: `${#12.worker}`
  uint32_t action = 0;       // in actions
  std::string input = "{}";  // a template
  // Steps that need its output by itself. Those that need it as part of a group are that group's
  // readers, so that m members and n readers cost m + n: ReadersOf gives all.
  std::vector<uint32_t> readers;
  std::vector<uint32_t> groups;  // that it is a member of
};

// What `${node.output}` gives when node is a for_each (a list) or a nested plan (an object).
struct Group {
  struct Member {
    std::string name;    // in an object
    bool group = false;  // of groups, else of steps
    uint32_t index = 0;
  };
  bool list = false;
  std::vector<Member> members;
  std::vector<uint32_t> readers;  // steps that need it
  std::vector<uint32_t> groups;   // that it is a member of
};

struct Place {
  uint32_t step = UINT32_MAX;  // none: a gate
  std::string gate;            // its name, of a gate
  std::vector<uint32_t> next;  // places that wait for this one, each once
};

// Steps that are tried again as a whole, or what compensates them. Its steps are numbered without a
// gap: the one in front of the others, which has its path; the one behind them; the others; those
// of its compensation.
struct Section {
  uint32_t entry = 0;           // a kPass step, as is the next one, behind the others
  uint32_t end = 0;             // after the last of its steps, compensation included
  uint32_t outer = kNoSection;  // the section that it is in; of a compensation: that it compensates
  uint32_t compensation = kNoSection;
  bool compensates = false;  // it is a compensation: it has no tries of its own
  bool rescue = false;       // rescue: compensate
  RetryPolicy retry;

  uint32_t exit() const { return entry + 1; }
};

struct PlanGraph {
  bool planning = false;  // holds only planners' steps: what they say is to be compiled next
  std::vector<StepAction> actions;
  std::vector<Step> steps;  // in the order written, subscribers after what they subscribe to
  std::vector<Group> groups;
  std::vector<Place> places;                   // of the steps, numbered as they are; then the gates
  std::map<uint32_t, Spawn> spawns;            // by step
  std::map<uint32_t, LimitAsks> limits;        // by step: that its run asks for
  std::map<uint32_t, StepIf> ifs;              // by step
  std::map<uint32_t, std::string> agents;      // by step: the agent it is for, a template
  std::vector<Section> sections;               // by entry, ascending

  // Of the instance as a whole, from its plan; templates over params and instance.id.
  std::string label;  // a JSON string; empty: none
  struct Hook {
    std::vector<std::string> on;
    std::string action;
    std::string input;
  };
  std::vector<Hook> hooks;

  // Whether this graph could differ for other params of the same plan under the same definitions.
  bool depends_on_params = false;
};

// The steps that need the output of this one, by itself or as part of a group: each once,
// ascending.
std::vector<uint32_t> ReadersOf(const PlanGraph& graph, uint32_t step);
// Whether the section `inner` is `outer`, or in it. kNoSection is around all.
inline bool LiesIn(const PlanGraph& graph, uint32_t inner, uint32_t outer) {
  if (outer == kNoSection) return true;
  if (inner == kNoSection) return false;
  const uint32_t at = graph.sections[inner].entry;
  return graph.sections[outer].entry <= at && at < graph.sections[outer].end;
}
// The innermost compensation that the section is, or is in; kNoSection: none.
uint32_t CompensationAround(const PlanGraph& graph, uint32_t section);

}  // namespace dfsmr
