#include "dsrv/engine/machine_state.h"

#include <algorithm>

namespace dfsmr {
namespace {

constexpr size_t kImplicitNames = 10'000;

}  // namespace

std::string StatsName(const VersionState& version, std::string_view node) {
  if (!version.plan || (version.shown && version.shown->Find(node) != kNoNode)) {
    return std::string(node);
  }
  std::string name;
  std::string_view rest = node;
  std::string_view phase;
  if (const size_t slash = node.find('/'); slash != std::string_view::npos && slash > 0) {
    rest = node.substr(0, slash);
    phase = node.substr(slash);
  }
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find('.'));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    const bool number = std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
    if (number && !name.empty()) continue;
    if (!name.empty()) name += '.';
    name += part;
  }
  name += phase;
  const bool crowded = version.definition->version == 0 && version.nodes.size() > kImplicitNames;
  return crowded && !version.nodes.contains(name) ? "other" : name;
}

Graph::Graph(VersionState& version, std::shared_ptr<const Machine> of)
    : machine(std::move(of)), version_(version), states_(machine->nodes.size()) {
  if (machine->graph) return;
  for (size_t i = 0; i < states_.size(); ++i) LookUp(static_cast<NodeIndex>(i));
}

NodeState& Graph::LookUp(NodeIndex index) const {
  const Node& node = machine->nodes[index];
  const std::string name = StatsName(version_, node.id);
  NodeState& state = version_.nodes[name];
  if (node.kind == NodeKind::kWork && !state.latency) {
    state.latency = &version_.machine->latencies[name];
  }
  return *(states_[index] = &state);
}

}  // namespace dfsmr
