#include "fsm/when/trigger_check.h"

#include <utility>

#include "fsm/base/json.h"
#include "fsm/base/names.h"
#include "fsm/when/schedule_check.h"

namespace dfsmr {
namespace {

// The first poll has the cursor null.
void CheckInput(const ItemSource& source, const ActionSource& action, Position document,
                const Definitions& definitions, std::vector<PlanProblem>* problems) {
  const auto check = InputCheckOf(action, definitions);
  if (!check) return;
  auto violation = check->Violation(json::Merge(source.poll()->input, R"({"cursor":null})"));
  if (!violation) return;
  PlanProblem problem;
  const bool given = source.poll()->input != "{}";
  problem.written = {document, source.written.path + (given ? ".poll.input" : ".poll.action")};
  problem.message =
      "action " + Quoted(action.id) +
      " does not accept this input, to which a poll adds 'cursor', null at first: " + *violation;
  problem.about = {action.id};
  problems->push_back(std::move(problem));
}

void CheckPoll(const ItemSource& source, Position document, const Definitions& definitions,
               std::vector<PlanProblem>* problems) {
  const std::string& action = source.poll()->action;
  if (const ActionSource* known = definitions.FindAction(action)) {
    return CheckInput(source, *known, document, definitions, problems);
  }
  PlanProblem problem;
  problem.written = {document, source.written.path + ".poll.action"};
  problem.about = {action};
  const bool machine = definitions.HasMachine(action);
  if (machine || definitions.FindPlan(action)) {
    problem.message = "a poll starts an action, and " + Quoted(action) + " is a " +
                      (machine ? "machine" : "plan");
  } else {
    problem.warning = true;
    problem.message = "action " + Quoted(action) +
                      " has no document; its polls have the defaults of actions, unless the name "
                      "is misspelt";
  }
  problems->push_back(std::move(problem));
}

// Params without references are the same for each item.
void CheckParams(const TriggerSource& trigger, const Definitions& definitions,
                 std::vector<PlanProblem>* problems) {
  const LaunchStart& start = *trigger.launch.start();
  const auto check = ParamsCheckOf(start, definitions);
  if (!check) return;
  const auto references = References(start.params);
  if (!references || !references->empty()) return;
  auto violation = check->Violation(start.params);
  if (!violation) return;
  PlanProblem problem;
  problem.written = {trigger.written.at, start.params == "{}" ? "start" : "start.params"};
  problem.message =
      "machine " + Quoted(start.machine) + " does not accept these params: " + *violation;
  problem.about = {start.machine};
  problems->push_back(std::move(problem));
}

}  // namespace

void CheckTrigger(const TriggerSource& trigger, const Definitions& definitions,
                  std::vector<PlanProblem>* problems) {
  for (const ItemSource& one : trigger.on) {
    if (one.poll()) CheckPoll(one, trigger.written.at, definitions, problems);
  }
  if (auto missing = MachineProblem(trigger.launch, trigger.written.at, definitions)) {
    return problems->push_back(*std::move(missing));
  }
  if (trigger.launch.start()) CheckParams(trigger, definitions, problems);
}

}  // namespace dfsmr
