#include "dsrv/engine/planning.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "dsrv/engine/compile.h"
#include "fsm/plan/assemble.h"
#include "fsm/plan/compile.h"
#include "storage/rows/graph.h"

namespace dfsmr {
namespace {

PlanningResult Failure(std::string text) {
  PlanningResult result;
  result.problem = std::move(text);
  return result;
}

}  // namespace

size_t Planning::bytes() const {
  size_t bytes = spec->params.size();
  for (const auto& [step, flow] : flows) bytes += flow.size();
  return bytes;
}

PlanningResult MakeGraph(const Planning& planning, size_t steps_max) {
  PlannedFlows planned;
  for (const auto& [step, flow] : planning.flows) {
    auto parsed = planning.parse_flow(flow, TextOrigin::kGiven);
    if (!parsed) {
      return Failure("the flow that was planned for step " + step + ": " + parsed.error().message);
    }
    planned[step] = *std::move(parsed);
  }
  const std::string& params = planning.spec->params;
  std::vector<PlanProblem> problems;
  auto graph = CompilePlan({.plan = planning.source.get(),
                            .library = &planning.definitions->definitions,
                            .params = params.empty() ? "{}" : params,
                            .planned = &planned,
                            .instance = planning.instance,
                            .steps_max = steps_max},
                           &problems);
  if (!graph) {
    const PlanProblem& first = problems.front();
    const std::string where = first.written.path.empty() ? "" : first.written.path + ": ";
    PlanningResult result = Failure(where + first.message);
    result.too_large = std::ranges::any_of(problems, &PlanProblem::too_large);
    return result;
  }
  PlanningResult result;
  result.own = !planned.empty() || graph->depends_on_params || graph->planning;
  result.row = rows::GraphRow(*graph);
  Machine machine;
  machine.id = planning.machine;
  result.machine =
      std::make_shared<const Machine>(Assemble(std::move(graph), std::move(machine)));
  return result;
}

}  // namespace dfsmr
