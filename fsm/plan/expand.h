// The first pass over a plan: turns its flow into steps and their order, with nested plans,
// for_each, `when`, planners and subscribers. Templates are left to the second pass, when all names
// are known.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/plan/draft.h"
#include "fsm/plan/resolve.h"
#include "fsm/plan/step_actions.h"

namespace dfsmr {

class PlanExpander {
 public:
  PlanExpander(PlanDraft* draft, PlanNames* names, StepActions* actions)
      : draft_(*draft), names_(*names), actions_(*actions) {}

  void Run();

 private:
  // An action that is to become a step.
  struct Task {
    std::string_view action;
    const ActionSource* own = nullptr;
    const std::string* input = nullptr;  // null: the action's `with`
    Scope* scope = nullptr;
    Where where;
    std::string path;
    std::string of;
    std::vector<std::string_view> triggers;  // actions, outermost first
  };

  Span Expand(const FlowNode& node, Scope* scope, bool left_out);
  Span ExpandKind(const FlowNode& node, Scope* scope, bool left_out);
  Span ExpandStep(const FlowNode& node, Scope* scope, bool left_out);
  Span ExpandLeftOut(const FlowNode& node, Scope* scope, std::string path, std::string of);
  Span ExpandPlan(const FlowNode& node, Scope* scope, std::string path, std::string of);
  Span ExpandSpawn(const FlowNode& node, Scope* scope, std::string path, std::string of);
  // The span with a step in front that decides whether what is between is run: the steps from
  // number `first` on. It takes the path `path`.
  Span Decided(const FlowNode& node, Scope* scope, std::string path, uint32_t first, Span span);
  // expand_items.cc
  Span ExpandForEach(const FlowNode& node, Scope* scope, bool left_out);
  std::optional<std::string> Items(const FlowNode& node, const Scope& scope);
  bool CheckAs(const FlowNode& node, const std::string& as, const Scope& scope);
  std::string_view KeepList(const FlowNode& node, std::string_view items);
  Span ExpandItems(const FlowNode& node, std::string_view items, Scope* scope);
  Span ExpandItem(const FlowNode& body, Scope* scope, const std::vector<uint32_t>& lists);
  // expand_section.cc
  Span ExpandSection(const FlowNode& node, Scope* scope, bool left_out);
  Span ExpandInSection(const FlowNode& flow, Scope* scope, const FlowNode& node,
                       const std::string& path, const std::string& of);
  uint32_t AddSection(const FlowNode& node, Scope* scope, const std::string& path,
                      const std::string& of);
  void CheckSize(const FlowNode& node, const Scope& scope, std::string_view what, uint32_t section);
  // expand.cc, as the rest
  Span ExpandSelf(const FlowNode& node, Scope* scope, bool left_out);

  Span ExpandAction(Task task, Entity* entity);
  Span ExpandPlanned(const Task& task, uint32_t step, const StepForm& form,
                     const PlanSource& planned, Entity* entity);
  // The action of a step of this form, once the rescue that its params choose is known.
  uint32_t ActionOf(const StepForm& form, const Task& task);
  Span AddSubscribers(const Task& task, Entity trigger, uint32_t step, Span span);

  uint32_t AddStep(Step::Kind kind, std::string path, std::string of, uint32_t action,
                   StepDraft draft);
  Span Concurrent(const std::vector<Span>& spans);
  Span Sequential(const std::vector<Span>& spans);
  Span NeverEmpty(Span span);

  const Symbols& SymbolsOf(const FlowNode& flow, const Body* whole);
  void CollectNames(const FlowNode& node, const Body* whole, Symbols* symbols);
  Scope* AddScope(Scope scope);
  static void SetEntity(Scope* scope, std::string_view name, Entity entity);
  bool LeavesOut(const FlowNode& node, const Scope& scope);
  void CheckParams(const FlowNode& node, const PlanSource& plan, const Scope& scope);
  bool GoesRound(const FlowNode& node, const PlanSource& plan, const Body& body);
  bool Stopped();
  static std::string_view KindName(std::string_view json);
  void Fail(const FlowNode& node, const Scope& scope, std::string_view key, std::string message,
            std::vector<std::string> about = {});
  void FailUnknown(const FlowNode& node, const Scope& scope, std::string_view key,
                   const PlanNames::Value& value);

  PlanDraft& draft_;
  PlanNames& names_;
  StepActions& actions_;
  uint32_t section_ = kNoSection;  // the innermost around what is expanded
  std::map<std::string, std::vector<const ActionSource*>, std::less<>> subscribers_;
  std::map<const FlowNode*, std::string_view> lists_;  // the last of each for_each
  size_t depth_ = 0;
  size_t visited_ = 0;
  bool stopped_ = false;
};

}  // namespace dfsmr
