#include "fsm/plan/library.h"

#include <algorithm>

#include "fsm/base/names.h"

namespace dfsmr {

void Definitions::Index() {
  subscribers_.clear();
  std::vector<PlanProblem> problems;  // said when the action itself is compiled
  for (const auto& [id, machine] : latest_) {
    if (!machine->action) continue;
    const ActionSource inherited = Inherited(*machine->action, *this, &problems);
    if (!inherited.subscribes_to) continue;
    for (const std::string& trigger : *inherited.subscribes_to) {
      subscribers_[trigger].push_back(machine->action.get());
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
  return machine ? machine->action.get() : nullptr;
}

const PlanSource* Definitions::FindPlan(std::string_view id) const {
  const Machine* machine = Latest(id);
  return machine ? machine->plan.get() : nullptr;
}

bool Definitions::HasMachine(std::string_view id) const {
  const Machine* machine = Latest(id);
  return machine && machine->Kind() == "machine";
}

std::vector<const ActionSource*> Definitions::SubscribersOf(std::string_view action) const {
  auto it = subscribers_.find(action);
  return it == subscribers_.end() ? std::vector<const ActionSource*>() : it->second;
}

std::shared_ptr<const Machine> CompileDefinition(const Machine& machine, const Library& library,
                                                 std::vector<PlanProblem>* problems) {
  if (machine.Kind() == "machine") return nullptr;
  const size_t before = problems->size();
  if (machine.action) (void)Inherited(*machine.action, library, problems);
  if (problems->size() > before) return nullptr;
  const PlanSource source = machine.plan ? *machine.plan : PlanOfAction(*machine.action);
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
