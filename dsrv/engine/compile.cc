#include "dsrv/engine/compile.h"

#include <algorithm>
#include <utility>

#include "fsm/when/check.h"

namespace dfsmr {

namespace {

// The versions that there are, and those that the source adds. Both outlive what is returned.
Definitions::FindVersion VersionsWith(const Sources& sources, const Definitions& present) {
  return [&sources, &present](std::string_view id, uint32_t version) -> const Machine* {
    const auto& find = present.find_version();
    if (const Machine* known = find(id, version)) return known;
    const auto added = std::ranges::find(sources.machines, id, &Machine::id);
    if (added == sources.machines.end() || (version > 1 && !find(id, version - 1))) return nullptr;
    const auto latest = present.latest().find(id);
    const bool same =
        latest != present.latest().end() && latest->second->fingerprint == added->fingerprint;
    return same ? nullptr : &*added;
  };
}

}  // namespace

std::vector<DefineProblem> CheckOwners(const Sources& sources, Owners owners) {
  std::vector<DefineProblem> taken;
  for (DocumentProblem& one : CheckOwners(sources.documents, std::move(owners))) {
    taken.push_back({sources.machines.size() + one.document, std::move(one.problem)});
  }
  return taken;
}

Compiled CompileAll(std::shared_ptr<const DefinitionSet> under, const Sources& sources,
                    const std::vector<std::string>& unsound, Timestamp now) {
  const std::vector<Machine>& machines = sources.machines;
  Compiled compiled;
  const Definitions& present = under->definitions;
  Definitions definitions = present;
  if (present.find_version()) definitions.SetVersions(VersionsWith(sources, present));
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
  ToldProblems told;
  for (const auto& [definition, problem] : compiled.problems) {
    told.Add(machines[definition].id, problem);
  }
  std::erase_if(compiled.problems, [&](const auto& one) { return told.Again(one.problem); });
  std::vector<DefineProblem> warnings;
  for (size_t i = 0; i < sources.documents.size(); ++i) {
    std::vector<PlanProblem> found;
    CheckDocument(sources.documents[i], definitions, now, &found);
    for (PlanProblem& problem : found) {
      if (definitions.Doubtful(problem)) continue;
      auto& among = problem.warning ? warnings : compiled.problems;
      among.push_back({machines.size() + i, std::move(problem)});
    }
  }
  for (DefineProblem& one : CheckOwners(sources, {})) compiled.problems.push_back(std::move(one));
  if (!compiled.problems.empty() || !unsound.empty()) return compiled;
  compiled.problems = std::move(warnings);
  for (size_t i = 0; i < machines.size(); ++i) {
    if (compiled.problems.size() >= kWarningsMax) break;
    std::vector<PlanProblem> found;
    WarnOfUnknownActions(machines[i], definitions, &found);
    for (PlanProblem& problem : found) compiled.problems.push_back({i, std::move(problem)});
  }
  return compiled;
}

}  // namespace dfsmr
