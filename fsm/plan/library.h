// Definitions of one namespace as plans see them: the latest of each id.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fsm/machine/machine.h"
#include "fsm/plan/planning.h"

namespace dfsmr {

class Definitions : public Library {
 public:
  // `machine` must outlive this. A later one of the same id takes the place of an earlier one.
  void Add(const Machine& machine) { latest_[machine.id] = &machine; }
  // A document that cannot be read: problems of definitions that need it are doubtful.
  void AddUnsound(const std::string& id) { unsound_.push_back(id); }
  // Finds any version of what is defined; null: there is no such version. Unset: nobody knows.
  using FindVersion = std::function<const Machine*(std::string_view id, uint32_t version)>;
  void SetVersions(FindVersion find) { find_version_ = std::move(find); }
  const FindVersion& find_version() const { return find_version_; }
  // To be called when all are there.
  void Index();
  // Whether a problem may be due to a document that cannot be read.
  bool Doubtful(const PlanProblem& problem) const;

  const ActionSource* FindAction(std::string_view id) const override;
  const PlanSource* FindPlan(std::string_view id) const override;
  bool HasMachine(std::string_view id) const override;
  std::vector<const ActionSource*> SubscribersOf(std::string_view action) const override;
  const std::map<std::string, const Machine*, std::less<>>& latest() const { return latest_; }

 private:
  const Machine* Latest(std::string_view id) const;

  std::map<std::string, const Machine*, std::less<>> latest_;
  FindVersion find_version_;
  std::vector<std::string> unsound_;
  std::map<std::string, std::vector<const ActionSource*>, std::less<>> subscribers_;
};

// The problems of the definitions of one source. What is wrong in a plan is found again in each
// plan that holds it, and is to be told once.
class ToldProblems {
 public:
  void Add(const std::string& id, const PlanProblem& problem);  // of the definition `id`
  // Whether a plan that it holds has the same problem by itself.
  bool Again(const PlanProblem& problem) const;

 private:
  std::set<std::string> told_;
};

// Warns of each step of a plan whose action has no document: that is legal, and the step has the
// defaults, but often the name is misspelt. Nothing of a machine or an action. Stops when
// `problems` holds kWarningsMax, so that a reply can hold them.
inline constexpr size_t kWarningsMax = 1'000;
void WarnOfUnknownActions(const Machine& machine, const Definitions& definitions,
                          std::vector<PlanProblem>* problems);

// A plan or action with the nodes that it has before any instance gives it params; null for a plain
// machine, and when there is a problem.
std::shared_ptr<const Machine> CompileDefinition(const Machine& machine, const Library& library,
                                                 std::vector<PlanProblem>* problems);

}  // namespace dfsmr
