#include "fsm/plan/compile.h"

#include <algorithm>
#include <unordered_set>

#include "fsm/base/json.h"
#include "fsm/base/limits.h"
#include "fsm/base/names.h"
#include "fsm/plan/draft.h"
#include "fsm/plan/expand.h"
#include "fsm/plan/order.h"
#include "fsm/plan/resolve.h"
#include "fsm/plan/step_actions.h"

namespace dfsmr {
namespace {

void TakeTopLevel(const PlanSource& plan, PlanNames* names, PlanGraph* graph) {
  auto quoted = [&](const std::string& text, std::string_view key) {
    if (text.empty()) return std::string();
    std::string json = json::Quote(text);
    names->CheckTopLevel(json, {.written = &plan.written, .key = key});
    return json;
  };
  graph->label = quoted(plan.label, "label");
  for (const LimitAsk& ask : plan.limits) {
    if (ask.singleton) quoted(ask.key, "singleton");  // of others their reader has looked at it
  }
  for (const HookSource& hook : plan.hooks) {
    names->CheckTopLevel(hook.input, {.written = &hook.written, .key = "input"});
    graph->hooks.push_back({hook.on, hook.action, hook.input});
  }
}

// A round of planning: the steps of the planners that are to be asked, and nothing else.
void KeepPlanners(PlanDraft* draft, PlanNames* names) {
  PlanGraph& graph = draft->graph;
  graph.planning = true;
  std::vector<Step> planners;
  std::map<uint32_t, std::string> agents;
  for (uint32_t step : draft->unplanned) {
    names->CompilePlanner(step);
    if (auto agent = graph.agents.extract(step)) {
      agents[static_cast<uint32_t>(planners.size())] = std::move(agent.mapped());
    }
    planners.push_back(std::move(graph.steps[step]));
    planners.back().planner = true;
    graph.places.push_back({.step = static_cast<uint32_t>(graph.places.size())});
  }
  graph.steps = std::move(planners);
  graph.agents = std::move(agents);
  graph.sections.clear();
}

void CheckPaths(PlanDraft* draft) {
  const std::vector<Step>& steps = draft->graph.steps;
  std::unordered_set<std::string_view> paths;
  paths.reserve(steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    if (paths.insert(steps[i].path).second) continue;
    draft->problems.Add(draft->steps[i].where, "there are two steps " + Quoted(steps[i].path));
  }
}

void CompileAll(PlanDraft* draft, PlanNames* names) {
  for (const Scope* nested : draft->nested) names->CheckCall(*nested);
  for (uint32_t i = 0; i < draft->steps.size() && names->Keep(0); ++i) {
    names->CompileStep(i);
    names->CompileIf(i);
  }
  for (const AfterDraft& after : draft->afters) names->CompileAfter(after);
  if (draft->problems.any()) return;

  PlanGraph& graph = draft->graph;
  auto cycle = draft->order.FindCycle(graph.steps.size());
  if (!cycle) {
    graph.places = draft->order.Places(graph.steps);
    return;
  }
  std::string path;
  for (uint32_t step : *cycle) path += graph.steps[step].path + " → ";
  const Where where = cycle->empty() ? Where() : draft->steps[cycle->front()].where;
  draft->problems.Add(where, cycle->empty()
                                 ? "parts without steps wait for each other"
                                 : "a cycle of steps that wait for each other: " + path +
                                       graph.steps[cycle->front()].path);
}

}  // namespace

std::shared_ptr<const PlanGraph> CompilePlan(const PlanningArgs& args,
                                             std::vector<PlanProblem>* problems) {
  PlanDraft draft(args, problems);
  PlanNames names(&draft);
  StepActions actions(&draft);
  TakeTopLevel(*args.plan, &names, &draft.graph);
  PlanExpander(&draft, &names, &actions).Run();
  if (draft.graph.steps.size() > args.steps_max) {
    problems->push_back({args.plan->written,
                         "the plan has more than " + std::to_string(args.steps_max) + " steps",
                         {},
                         {},
                         /*too_large=*/true});
    return nullptr;
  }
  if (!draft.problems.any()) CheckPaths(&draft);
  if (draft.Defining()) actions.ReportUnused();
  if (draft.unplanned.empty()) {
    CompileAll(&draft, &names);
  } else if (!draft.problems.any()) {
    KeepPlanners(&draft, &names);
  }
  if (draft.problems.any()) return nullptr;
  return std::make_shared<const PlanGraph>(std::move(draft.graph));
}

}  // namespace dfsmr
