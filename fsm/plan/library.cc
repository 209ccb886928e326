#include "fsm/plan/library.h"

#include <algorithm>

#include "fsm/base/names.h"
#include "fsm/plan/assemble.h"
#include "fsm/plan/compile.h"
#include "fsm/plan/inherit.h"

namespace dfsmr {
namespace {

// Guessing what a name meant compares it with every action: so often in one plan, then no more.
constexpr size_t kComparisonsMax = 50'000;

class UnknownActions {
 public:
  UnknownActions(const Definitions& definitions, std::vector<PlanProblem>* problems)
      : definitions_(definitions), problems_(*problems) {}

  void Visit(const FlowNode& node) {
    for (const FlowNode& child : node.children) Visit(child);
    if (node.action.empty() || definitions_.FindAction(node.action)) return;
    if (problems_.size() >= kWarningsMax) return;
    auto [known, is_new] = messages_.try_emplace(node.action);
    if (is_new) known->second = MessageOf(node.action);
    problems_.push_back({.written = node.written,
                         .message = known->second,
                         .about = {node.action},
                         .warning = true});
  }

 private:
  std::string MessageOf(const std::string& action) {
    std::string hint;
    if (definitions_.FindPlan(action)) hint = "; there is a plan of that name: write 'plan:'";
    if (definitions_.HasMachine(action)) hint = "; the machine of that name can be spawned";
    Nearest nearest(action);
    for (const auto& [id, machine] : definitions_.latest()) {
      if (!hint.empty() || ++comparisons_ > kComparisonsMax) break;
      if (machine->action()) nearest.Try(id);
    }
    return "action " + Quoted(action) + " is not defined" + nearest.Hint() +
           "; the step has the defaults" + hint;
  }

  const Definitions& definitions_;
  std::vector<PlanProblem>& problems_;
  std::map<std::string_view, std::string> messages_;  // by action
  size_t comparisons_ = 0;
};

}  // namespace

void WarnOfUnknownActions(const Machine& machine, const Definitions& definitions,
                          std::vector<PlanProblem>* problems) {
  if (machine.plan()) UnknownActions(definitions, problems).Visit(machine.plan()->flow);
}

void Definitions::Index() {
  subscribers_.clear();
  std::vector<PlanProblem> problems;  // said when the action itself is compiled
  for (const auto& [id, machine] : latest_) {
    if (!machine->action()) continue;
    const ActionSource inherited = Inherited(*machine->action(), *this, &problems);
    if (!inherited.subscribes_to) continue;
    for (const std::string& trigger : *inherited.subscribes_to) {
      subscribers_[trigger].push_back(machine->action());
    }
  }
}

bool Definitions::Doubtful(const PlanProblem& problem) const {
  return std::ranges::any_of(unsound_, [&problem](const std::string& id) {
    return id.empty() || std::ranges::find(problem.about, id) != problem.about.end();
  });
}

const Machine* Definitions::Latest(std::string_view id) const {
  auto it = latest_.find(id);
  return it == latest_.end() ? nullptr : it->second;
}

const ActionSource* Definitions::FindAction(std::string_view id) const {
  const Machine* machine = Latest(id);
  return machine ? machine->action() : nullptr;
}

const PlanSource* Definitions::FindPlan(std::string_view id) const {
  const Machine* machine = Latest(id);
  return machine ? machine->plan() : nullptr;
}

bool Definitions::HasMachine(std::string_view id) const {
  const Machine* machine = Latest(id);
  return machine && machine->IsPlain();
}

std::vector<const ActionSource*> Definitions::SubscribersOf(std::string_view action) const {
  auto it = subscribers_.find(action);
  return it == subscribers_.end() ? std::vector<const ActionSource*>() : it->second;
}

void ToldProblems::Add(const std::string& id, const PlanProblem& problem) {
  if (problem.inner.empty()) told_.insert(ProblemKey(id, problem.written.path, problem.message));
}

bool ToldProblems::Again(const PlanProblem& problem) const {
  return !problem.inner.empty() && told_.contains(problem.inner);
}

std::shared_ptr<const Machine> CompileDefinition(const Machine& machine, const Library& library,
                                                 std::vector<PlanProblem>* problems) {
  if (machine.IsPlain()) return nullptr;
  const size_t before = problems->size();
  if (machine.action()) (void)Inherited(*machine.action(), library, problems);
  if (problems->size() > before) return nullptr;
  const PlanSource source = machine.plan() ? *machine.plan() : PlanOfAction(*machine.action());
  for (const HookSource& hook : source.hooks) {
    if (!library.FindPlan(hook.action) && !library.HasMachine(hook.action)) continue;
    problems->push_back({hook.written,
                         "a hook starts an action, and " + Quoted(hook.action) + " is a " +
                             (library.HasMachine(hook.action) ? "machine" : "plan"),
                         {hook.action}});
  }
  if (problems->size() > before) return nullptr;
  auto graph = CompilePlan({&source, &library, std::nullopt, nullptr, {}}, problems);
  if (!graph) return nullptr;
  Machine named;
  named.id = machine.id;
  return std::make_shared<const Machine>(Assemble(std::move(graph), std::move(named)));
}

}  // namespace dfsmr
