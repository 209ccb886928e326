#include "fsm/when/trigger_check.h"

#include <utility>

#include "fsm/base/names.h"
#include "fsm/when/schedule_check.h"

namespace dfsmr {
namespace {

void CheckPoll(const ItemSource& source, Position document, const Definitions& definitions,
               std::vector<PlanProblem>* problems) {
  const std::string& action = source.poll()->action;
  if (definitions.FindAction(action)) return;
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
void CheckParams(const TriggerSource& trigger, const Machine& machine,
                 std::vector<PlanProblem>* problems) {
  const LaunchStart& start = *trigger.launch.start();
  if (!machine.params || start.version != 0) return;
  const auto references = References(start.params);
  if (!references || !references->empty()) return;
  auto violation = machine.params->Violation(start.params);
  if (!violation) return;
  PlanProblem problem;
  problem.written = {trigger.written.at, start.params == "{}" ? "start" : "start.params"};
  problem.message =
      "machine " + Quoted(machine.id) + " does not accept these params: " + *violation;
  problem.about = {machine.id};
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
  if (const LaunchStart* start = trigger.launch.start()) {
    CheckParams(trigger, *definitions.latest().at(start->machine), problems);
  }
}

}  // namespace dfsmr
