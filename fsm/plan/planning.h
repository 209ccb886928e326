// What a plan is compiled with: the other definitions, the params of the instance and the flows
// that its planners have reported. And the problems that compiling it finds.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/base/limits.h"
#include "fsm/plan/source.h"

namespace dfsmr {

// The definitions of one namespace, which a plan may name.
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
  // The ProblemKey that the same problem has in the plan in which it stands, when that is one that
  // this plan holds; empty: it stands in this one.
  std::string inner;
};

// A problem of a plan by itself: where it stands in it, and what it says.
inline std::string ProblemKey(std::string_view plan, std::string_view path,
                              std::string_view message) {
  return std::string(plan) + '\n' + std::string(path) + '\n' + std::string(message);
}

// The flows that planner steps have reported so far, by their paths.
using PlannedFlows = std::map<std::string, std::shared_ptr<const PlanSource>, std::less<>>;

struct PlanningArgs {
  const PlanSource* plan = nullptr;
  const Library* library = nullptr;
  // The instance's params, a JSON object. Absent when the plan is only defined: then each for_each
  // has one template step, named without a number, and `when` leaves nothing out.
  std::optional<std::string_view> params;
  const PlannedFlows* planned = nullptr;
  std::string_view instance;  // its id; empty when the plan is only defined
  // A plan of more steps is not compiled: a problem with `too_large` says so, after work that grows
  // with this number and not with the plan.
  size_t steps_max = limits::kSteps;
};

}  // namespace dfsmr
