// A plan while it is compiled: its steps, where they were written, and what the names in them mean.
// Everything points into the sources, which outlive it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fsm/plan/graph.h"
#include "fsm/plan/order.h"
#include "fsm/plan/planning.h"

namespace dfsmr {

using Spot = PlanOrder::Spot;
inline constexpr uint32_t kNothing = UINT32_MAX;

// The steps of one plan, or of the flow that a planner's worker has reported.
struct Body {
  const Body* around = nullptr;    // null: the plan itself
  std::string plan;                // its id; empty: a planner's
  std::string title;               // for messages: "plan 'machine'"
  const Written* site = nullptr;   // the step of the outermost body that brought it; null: itself
  std::string prefix;              // of the paths of its steps: "web."
  std::string of_prefix;           // the same without numbers
  uint32_t context = 0;            // of middleware
  uint32_t planner = kNothing;     // the planner's step, which `self: run` may place
  bool self_placed = false;
};

// What a step's name stands for: a step, or a bundle of them.
struct Entity {
  enum class Kind : uint8_t { kNone, kStep, kBundle };
  Kind kind = Kind::kNone;
  uint32_t index = 0;
};

// Names of steps, numbered in the order written.
struct Symbols {
  std::vector<std::string_view> names;
  std::unordered_map<std::string_view, uint32_t> slots;
};

// What names mean to a part of a flow: a plan's steps, one iteration of a for_each, what a planner
// has said, or a subscriber.
struct Scope {
  Body* body = nullptr;
  const Scope* outer = nullptr;      // where to look on; null in a plan
  const Symbols* symbols = nullptr;
  std::vector<Entity> entities;      // by slot

  std::string numbers;               // of for_each: ".0.1"; in a definition: none
  std::string stars;                 // in their place in a definition: ".*.*"
  std::string_view as;               // in a for_each; empty: none
  std::optional<std::string_view> item;  // its value; nullopt while it is not known

  const Scope* caller = nullptr;     // of a nested plan: where its step stands
  const FlowNode* call = nullptr;    // that step, whose input its params are
  uint32_t decision = kNothing;      // of a nested plan with an `if`: the step that decides

  uint32_t planner = kNothing;  // of a planner's flow: its bundle
  uint32_t trigger = kNothing;  // of a subscriber: the step that it subscribes to
  Entity trigger_entity;
};

struct Bundle {
  enum class Kind : uint8_t { kList, kPlan, kPlanner };
  Kind kind = Kind::kList;
  std::vector<Entity> items;         // kList
  const Scope* scope = nullptr;      // else
  uint32_t own = kNothing;           // kPlanner: its own step
  bool runs = false;                 // kPlanner: which has a run phase
  Spot out = PlanOrder::kNone;       // what follows all of it; of lists made when wanted
  Spot empty = PlanOrder::kNone;     // of a list without items: where it would be
  uint32_t group = kNothing;         // in graph.groups, when wanted
  uint32_t section = kNoSection;     // where it stands
};

// The spots in front of and behind a part of a flow.
struct Span {
  Spot in = PlanOrder::kNone;
  Spot out = PlanOrder::kNone;
  bool empty() const { return in == PlanOrder::kNone; }
};

// Where a text stands, for messages.
struct Where {
  const Body* body = nullptr;
  const Written* written = nullptr;
  std::string_view key;         // of what was written; empty: itself
  std::string_view subscriber;  // in `with` of this action, which came for what was written
};

// What is known of the step of the same number while it is compiled.
struct StepDraft {
  Where where;
  const Scope* scope = nullptr;
  const std::string* input = nullptr;
  const SpawnSource* spawn = nullptr;
  const LimitAsks* limits = nullptr;
  const FlowNode* decided = nullptr;      // the part of the flow whose `if` is decided at this step
  std::pair<uint32_t, uint32_t> members;  // of that, when it is more than this step: from, up to
  uint32_t decision = kNothing;           // the step at which its own `if` is decided
  Spot in = PlanOrder::kNone;
  uint32_t section = kNoSection;  // the innermost around it
  // Names below it are not known and mean the step itself: it was left out, or is a planner that
  // has not been asked yet.
  bool opaque = false;
};

struct AfterDraft {
  Where where;
  const Scope* scope = nullptr;
  const FlowNode* node = nullptr;
  Spot in = PlanOrder::kNone;
  uint32_t section = kNoSection;
};

// Collects problems, each once, at places in the outermost plan's text.
class ProblemList {
 public:
  explicit ProblemList(std::vector<PlanProblem>* problems) : problems_(problems) {}
  void Add(const Where& where, std::string message);
  // `problem` holds all but where it was written.
  void Add(const Where& where, PlanProblem problem);
  bool any() const { return !seen_.empty(); }
  bool full() const { return seen_.size() >= kMax; }

 private:
  static constexpr size_t kMax = 1'000;
  std::vector<PlanProblem>* problems_;
  std::set<std::string> seen_;
};

struct PlanDraft {
  PlanDraft(const PlanningArgs& planning, std::vector<PlanProblem>* list)
      : args(planning), problems(list) {}
  bool Defining() const { return !args.params; }

  const PlanningArgs& args;
  ProblemList problems;
  PlanGraph graph;
  std::vector<StepDraft> steps;
  std::vector<AfterDraft> afters;
  std::vector<const Scope*> nested;  // scopes of nested plans
  std::vector<uint32_t> unplanned;   // planners that have not been asked
  std::deque<Body> bodies;
  std::deque<Scope> scopes;
  std::vector<Bundle> bundles;
  std::deque<std::string> texts;     // values that items lie in
  std::map<const FlowNode*, Symbols> symbols;  // of flows, and of the parts that for_each repeats
  PlanOrder order;
};

}  // namespace dfsmr
