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
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find('.'));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    // "0/error" of "a.0/error" is a number and a phase.
    const std::string_view head = part.substr(0, part.find('/'));
    const bool number = std::ranges::all_of(head, [](char c) { return c >= '0' && c <= '9'; });
    const bool counts = number && !name.empty();
    if (!counts && !name.empty()) name += '.';
    name += counts ? part.substr(head.size()) : part;
  }
  const bool crowded = version.definition->version == 0 && version.nodes.size() > kImplicitNames;
  return crowded && !version.nodes.contains(name) ? "other" : name;
}

Graph::Graph(VersionState& version, std::shared_ptr<const Machine> of)
    : machine(std::move(of)), version_(version), states_(machine->nodes.size()) {
  if (machine->graph) return;
  for (size_t i = 0; i < states_.size(); ++i) LookUp(static_cast<NodeIndex>(i));
}

SpaceCounts* Graph::space() const { return version_.machine->space; }

NodeState& Graph::LookUp(NodeIndex index) const {
  const Node& node = machine->nodes[index];
  const std::string name = StatsName(version_, node.id);
  NodeState& state = version_.nodes[name];
  if (node.kind == NodeKind::kWork && !state.latency) {
    state.latency = &version_.machine->LatencyOf(name);
  }
  return *(states_[index] = &state);
}

}  // namespace dfsmr
