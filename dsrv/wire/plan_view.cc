#include "dsrv/wire/plan_view.h"

#include <string_view>
#include <utility>

#include "dsrv/wire/plan_steps.h"
#include "dsrv/wire/replies.h"
#include "fsm/plan/assemble.h"
#include "fsm/plan/graph.h"
#include "fsm/plan/written.h"
#include "storage/rows/graph.h"

namespace dfsmr {
namespace {

// An instance's own graph; nullptr: it is not planned yet, or is of a plain machine.
Result<std::shared_ptr<const PlanGraph>> ReadGraph(const Moment& moment, const Instance& instance) {
  if (!instance.plan || instance.plan->graph.empty()) return std::shared_ptr<const PlanGraph>();
  auto graph = rows::GetGraph(moment.rows, instance);
  if (!graph) return graph.error();
  return std::make_shared<const PlanGraph>(*std::move(graph));
}

Machine AssembleOf(const Instance& instance, std::shared_ptr<const PlanGraph> graph) {
  Machine named;
  named.id = instance.machine;
  return Assemble(std::move(graph), std::move(named));
}

}  // namespace

Result<Ok> ShowNodes(const Moment& moment, const Instance& instance, v1::Instance* out) {
  if (!instance.plan) {
    const Machine* machine =
        moment.registry.Resolve(instance.ns, instance.machine, instance.version);
    for (const Node& node : machine->nodes) ToProto(node, *machine, out->add_nodes());
    return Ok{};
  }
  auto graph = ReadGraph(moment, instance);
  if (!graph) return graph.error();
  if (!*graph) return Ok{};
  const Machine machine = AssembleOf(instance, *graph);
  for (const Node& node : machine.nodes) ToProto(node, machine, out->add_nodes());
  PlanSteps steps(*graph, "", instance.Stopped());
  auto read = steps.Read(moment.rows, instance);
  for (size_t at = 0; read && at < steps.size(); ++at) read = steps.Show(at, out->add_steps());
  return read;
}

Result<std::unique_ptr<Steps>> OpenSteps(const Moment& moment, const Instance& instance,
                                         std::string_view under) {
  auto graph = ReadGraph(moment, instance);
  if (!graph) return graph.error();
  std::unique_ptr<Steps> opened;
  if (!*graph) return opened;
  auto steps = std::make_unique<PlanSteps>(*std::move(graph), under, instance.Stopped());
  auto read = steps->Read(moment.rows, instance);
  if (!read) return read.error();
  opened = std::move(steps);
  return opened;
}

void ShowSteps(const Machine& machine, v1::Machine* out) {
  if (!machine.graph) return;
  PlanSteps steps(machine.graph, "", /*stopped=*/false);
  // Without rows there is nothing to fail.
  for (size_t at = 0; at < steps.size(); ++at) (void)steps.Show(at, out->add_steps());
}

Result<std::optional<StepSource>> ReadStepSource(const Moment& moment, const Instance& instance,
                                                 const std::string& path) {
  std::optional<StepSource> source;
  auto graph = ReadGraph(moment, instance);
  if (!graph) return graph.error();
  if (!*graph) return source;
  const Machine machine = AssembleOf(instance, *graph);
  const NodeIndex home = machine.Find(path);
  if (home == kNoNode || machine.nodes[home].step == kNoStep) return source;
  source.emplace();
  source->input = AsWritten(**graph, (*graph)->steps[machine.nodes[home].step].input);
  source->queue = machine.nodes[home].settings->queue;
  source->priority = machine.nodes[home].settings->priority;
  PlanSteps steps(*graph, path, instance.Stopped());
  auto read = steps.Read(moment.rows, instance);
  if (!read) return read.error();
  auto replaced = steps.NewInputOf(home);
  if (!replaced) return replaced.error();
  if (!replaced->empty()) source->input = *std::move(replaced);
  for (size_t at = 0; at < steps.size(); ++at) {
    if (steps.PathOf(at) != path) continue;
    auto shown = steps.Show(at, &source->step);
    if (!shown) return shown.error();
  }
  return source;
}

}  // namespace dfsmr
