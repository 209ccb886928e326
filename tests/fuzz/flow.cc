// Flows as they are sent with Start or reported by a planner, and the params they are planned with:
// flow, zero byte, params.
#include "fsm/plan/assemble.h"
#include "fsm/plan/compile.h"
#include "fsm/plan/library.h"
#include "fsm/plan/source.h"
#include "fsm/schema/schema.h"
#include "fsm/yaml/definitions.h"
#include "tests/fuzz/bytes.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dfsmr;
  Bytes bytes(data, size);
  const std::string_view text = bytes.Line();
  const std::string_view params = bytes.Rest();
  const auto flow = ToFlow(text);
  if (!flow) {
    Check(!flow.error().message.empty(), "a refused flow is told why");
    return 0;
  }
  Definitions library;
  library.Index();
  // Every planner says what the whole is, so that what planners say is planned, too.
  PlannedFlows planned{{"a", *flow}, {"a.a", *flow}};
  std::vector<PlanProblem> problems;
  const auto graph = CompilePlan({.plan = flow->get(),
                                  .library = &library,
                                  .params = params.empty() ? "{}" : params,
                                  .planned = &planned,
                                  .instance = "i"},
                                 &problems);
  Check(!graph == !problems.empty(), "a flow has a graph or a problem");
  if (graph) Check(!Assemble(graph, {.id = "m"}).nodes.empty(), "a graph has nodes");
  return 0;
}
