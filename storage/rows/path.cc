#include "storage/rows/path.h"

#include <algorithm>
#include <string_view>

namespace dfsmr::rows {
namespace {

bool HasEdge(const Machine& machine, NodeIndex from, const Event& event) {
  if (from == kNoNode) return false;
  return std::ranges::any_of(machine.nodes[from].transitions, [&](const Edge& edge) {
    return edge.transition == event.transition &&
           std::ranges::any_of(edge.targets, [&](NodeIndex target) {
             return machine.nodes[target].id == event.node;
           });
  });
}

// Work that failed is tried again at its node, is held there, or is offered again from there: in a
// new visit, and without an edge.
bool StaysAt(const Machine& machine, NodeIndex from, const Event& event) {
  if (from == kNoNode || event.node != event.prev_node) return false;
  return machine.nodes[from].kind == NodeKind::kWork &&
         (event.transition == "error" || event.transition == "retry");
}

}  // namespace

bool Path::Follow(const Event& event, const Machine* machine) {
  const bool moves = event.kind == ChangeKind::kTransitioned;
  const bool leads = !moves || !machine || !machine->IsPlain() || Leads(event, *machine);
  if (event.kind == ChangeKind::kImported) anywhere_ = true;
  if (event.kind == ChangeKind::kTimedOut) timed_out_ = event.prev_node;
  if (event.kind == ChangeKind::kUpgraded) {  // and has left all that it stood on
    entered_.clear();
    anywhere_ = false;
  }
  if (!event.node.empty()) entered_.insert(event.node);
  return leads;
}

bool Path::Leads(const Event& event, const Machine& machine) const {
  if (event.prev_node == kUpgradedNode) {
    return entered_.contains(event.prev_node) && event.transition == kUpgradedNode &&
           event.node == machine.nodes[machine.start].id;
  }
  if (event.prev_node == kTimeoutNode) {
    return entered_.contains(event.prev_node) && event.transition == kTimeoutNode &&
           HasEdge(machine, machine.Find(timed_out_), event);
  }
  if (!anywhere_ && !entered_.contains(event.prev_node)) return false;
  const NodeIndex from = machine.Find(event.prev_node);
  return HasEdge(machine, from, event) || StaysAt(machine, from, event);
}

}  // namespace dfsmr::rows
