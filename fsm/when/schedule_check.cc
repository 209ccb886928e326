#include "fsm/when/schedule_check.h"

#include <utility>

#include "fsm/base/json.h"
#include "fsm/base/names.h"
#include "fsm/plan/inherit.h"

namespace dfsmr {
namespace {

// Where a text of `key` was written: in a list when there are several.
std::string PathOf(const CalendarProblem& problem, const CalendarRules& rules) {
  const size_t texts = problem.key == "cron"    ? rules.cron.size()
                       : problem.key == "every" ? rules.every.size()
                       : problem.key == "at"    ? rules.at.size()
                                                : 1;
  if (texts < 2) return problem.key;
  return problem.key + "[" + std::to_string(problem.index) + "]";
}

void CheckParams(const ScheduleSource& schedule, const std::string& name,
                 const Definitions& definitions, Timestamp now,
                 std::vector<PlanProblem>* problems) {
  const LaunchStart& start = *schedule.launch.start();
  const auto check = ParamsCheckOf(start, definitions);
  if (!check) return;
  const ScheduleTimes times(*schedule.calendar, "", name, kNever);
  Timestamp next = times.Next(now);
  if (next == kNever) next = now;  // it has ended; what it would start is of interest all the same
  ScheduleMoment moment =
      MomentOf(times, name, OccurrenceKind::kRegular, next, schedule.calendar->zone());
  auto params = Evaluate(start.params, ResolverOf(std::move(moment)));
  PlanProblem problem;
  problem.written = {schedule.written.at, "start.params"};
  if (start.params == "{}") problem.written.path = "start";
  if (!params) {
    problem.message = params.error().message;
  } else if (json::KindOf(*params) != json::Kind::kObject) {
    problem.message = "params are an object, not " + Quoted(*params);
  } else if (auto violation = check->Violation(*params)) {
    problem.message = "at " + UtcText(next) + " machine " + Quoted(start.machine) +
                      " would not accept these params: " + *violation;
    problem.about = {start.machine};
  } else {
    return;
  }
  problems->push_back(std::move(problem));
}

std::optional<PlanProblem> VersionProblem(const LaunchStart& start, Position document,
                                          const Definitions& definitions) {
  if (start.version == 0 || !definitions.find_version()) return std::nullopt;
  if (definitions.find_version()(start.machine, start.version)) return std::nullopt;
  PlanProblem problem;
  problem.written = {document, "start.version"};
  problem.message = "machine " + Quoted(start.machine) + " has no version " +
                    std::to_string(start.version) +
                    "; name one that is defined, or none to start the latest";
  problem.about = {start.machine};
  return problem;
}

}  // namespace

std::shared_ptr<const ParamsCheck> InputCheckOf(const ActionSource& action,
                                                const Definitions& definitions) {
  std::vector<PlanProblem> problems;  // said when the action itself is compiled
  const ActionSource inherited = Inherited(action, definitions, &problems);
  if (!inherited.input || inherited.planned_by_worker.value_or(false)) return nullptr;
  return inherited.input->check;
}

std::shared_ptr<const ParamsCheck> ParamsCheckOf(const LaunchStart& start,
                                                 const Definitions& definitions) {
  const Machine* machine = definitions.latest().at(start.machine);
  if (start.version != 0) {
    if (!definitions.find_version()) return nullptr;
    machine = definitions.find_version()(start.machine, start.version);
  }
  if (!machine) return nullptr;
  return machine->action() ? InputCheckOf(*machine->action(), definitions) : machine->params;
}

std::optional<PlanProblem> MachineProblem(const LaunchSource& launch, Position document,
                                          const Definitions& definitions) {
  const LaunchStart* start = launch.start();
  if (!start) return std::nullopt;
  if (definitions.latest().contains(start->machine)) {
    return VersionProblem(*start, document, definitions);
  }
  Nearest nearest(start->machine);
  for (const auto& [id, machine] : definitions.latest()) nearest.Try(id);
  PlanProblem problem;
  problem.written = {document, "start.machine"};
  problem.message = "machine " + Quoted(start->machine) + " is not defined" + nearest.Hint() +
                    "; define it first, or in the same source";
  problem.about = {start->machine};
  return problem;
}

void CheckSchedule(const ScheduleSource& schedule, const std::string& name,
                   const Definitions& definitions, Timestamp now,
                   std::vector<PlanProblem>* problems) {
  for (const CalendarProblem& one : schedule.calendar->Barren(schedule.rules, now)) {
    PlanProblem problem;
    problem.written = {schedule.written.at, PathOf(one, schedule.rules)};
    problem.message = one.message;
    problems->push_back(std::move(problem));
  }
  if (auto missing = MachineProblem(schedule.launch, schedule.written.at, definitions)) {
    return problems->push_back(*std::move(missing));
  }
  if (schedule.launch.start()) CheckParams(schedule, name, definitions, now, problems);
}

}  // namespace dfsmr
