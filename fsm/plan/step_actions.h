// The actions of a plan with what their steps and the plans around them add, each kept once.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fsm/plan/draft.h"

namespace dfsmr {

// What an action, with the keys of a step, makes of that step.
struct StepForm {
  uint32_t action = 0;  // in graph.actions
  bool run = true;
  bool finalize = false;
  bool planner = false;
  LimitAsks limits;
  std::string with = "{}";  // of a subscriber
  std::string rescue_from;  // a template that is the rescue; empty: the action's is
};

class StepActions {
 public:
  explicit StepActions(PlanDraft* draft) : draft_(*draft) {}

  // The middleware context of a plan inside the context `outer`; 0 is outside of all plans.
  uint32_t Enter(uint32_t outer, const PlanSource& plan);
  // The form of a step with this action (empty: a spawn has none) and these keys of its own.
  const StepForm& Of(std::string_view action, const ActionSource& own, uint32_t context,
                     const Where& where);
  // The number of the action that differs from this one in its rescue alone.
  uint32_t WithRescue(uint32_t action, Rescue rescue);
  // Reports middleware that the plan replaces or does without, though no step has it.
  void ReportUnused();

 private:
  struct Context {
    uint32_t outer = 0;
    const MiddlewareSource* middleware = nullptr;
  };

  const ActionSource& Base(std::string_view action, const Where& where);
  StepForm Make(const ActionSource& base, const ActionSource& own, uint32_t context,
                const Where& where);
  std::vector<std::string> Chain(const ActionSource& base, const ActionSource& own,
                                 uint32_t context, const Where& where);
  void ApplyPlan(const MiddlewareSource& change, std::vector<Use>* chain);
  uint32_t Intern(StepAction action);

  PlanDraft& draft_;
  std::vector<Context> contexts_{1};
  std::map<std::pair<uint32_t, const MiddlewareSource*>, uint32_t> context_ids_;
  std::map<std::string, ActionSource, std::less<>> bases_;
  std::map<std::pair<const void*, uint32_t>, StepForm> forms_;
  std::map<std::string, uint32_t> interned_;
  std::set<std::pair<const MiddlewareSource*, std::string>> used_;
};

}  // namespace dfsmr
