#include "dsrv/engine/compile.h"

#include <algorithm>
#include <utility>

namespace dfsmr {

Compiled CompileAll(std::shared_ptr<const DefinitionSet> under,
                    const std::vector<Machine>& machines, const std::vector<std::string>& unsound) {
  Compiled compiled;
  Definitions definitions = under->definitions;
  compiled.under = std::move(under);
  for (const Machine& machine : machines) definitions.Add(machine);
  for (const std::string& id : unsound) definitions.AddUnsound(id);
  definitions.Index();
  for (size_t i = 0; i < machines.size(); ++i) {
    std::vector<PlanProblem> found;
    compiled.shown.push_back(CompileDefinition(machines[i], definitions, &found));
    const bool too_large = std::ranges::any_of(found, &PlanProblem::too_large);
    for (PlanProblem& problem : found) {
      if (!definitions.Doubtful(problem)) compiled.problems.push_back({i, std::move(problem)});
    }
    if (too_large) break;
  }
  if (!compiled.problems.empty() || !unsound.empty()) return compiled;
  for (size_t i = 0; i < machines.size(); ++i) {
    if (compiled.problems.size() >= kWarningsMax) break;
    std::vector<PlanProblem> found;
    WarnOfUnknownActions(machines[i], definitions, &found);
    for (PlanProblem& problem : found) compiled.problems.push_back({i, std::move(problem)});
  }
  return compiled;
}

}  // namespace dfsmr
