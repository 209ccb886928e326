#include "dcli/work/legal.h"

#include "dcli/view/describe.h"

namespace dfsmr::cli {
namespace {

// The transitions that a plan's step may report, the same for all steps; empty for a machine's
// node.
std::vector<std::string> TransitionsOf(const std::string& phase) {
  if (phase.empty()) return {};
  if (phase == "plan") return {"planned", "error"};
  if (phase == "finalize") return {"ok", "error"};
  return {"ok", "error", "suspend"};
}

}  // namespace

Result<std::vector<std::string>> LegalTransitions(Client& client, const v1::Task& task) {
  if (!task.phase().empty()) return TransitionsOf(task.phase());
  v1::GetInstanceRequest request;
  request.set_namespace_(task.namespace_());
  request.set_id(task.instance());
  request.set_with_nodes(true);
  const auto instance = client.GetInstance(request);
  const v1::Node* node = instance ? FindNode(instance->nodes(), task.node()) : nullptr;

  v1::GetMachineRequest definition;
  definition.set_namespace_(task.namespace_());
  definition.set_id(task.machine());
  definition.set_version(task.version());
  Result<v1::Machine> machine = v1::Machine();
  if (node == nullptr) {
    machine = client.GetMachine(definition);
    if (!machine) return machine.error();
    node = FindNode(machine->nodes(), task.node());
  }
  std::vector<std::string> legal;
  if (node == nullptr) return legal;
  for (const v1::Edge& edge : node->transitions()) {
    const std::string& name = edge.transition();
    const bool choice = !legal.empty() && legal.back() == name;  // by conditions: one transition
    if (!choice && !name.starts_with("dfsmr.")) legal.push_back(name);
  }
  return legal;
}

}  // namespace dfsmr::cli
