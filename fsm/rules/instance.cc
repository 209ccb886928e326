#include "fsm/rules/instance.h"

#include <algorithm>

namespace dfsmr {

std::string_view Name(InstanceState state) {
  static constexpr std::string_view kNames[] = {"STATE_UNSPECIFIED", "SCHEDULED", "PLANNING",
                                                "RUNNING",           "PAUSED",    "STOPPED"};
  return kNames[static_cast<size_t>(state)];
}

std::string_view Name(InstanceResult result) {
  static constexpr std::string_view kNames[] = {"RESULT_UNSPECIFIED", "PENDING",   "SUCCESS",
                                                "WARNING",            "ERROR",     "CANCELLED",
                                                "ABORTED"};
  return kNames[static_cast<size_t>(result)];
}

bool IsChangeKind(uint32_t number) {
  const auto within = [number](ChangeKind first, ChangeKind last) {
    return number >= static_cast<uint32_t>(first) && number <= static_cast<uint32_t>(last);
  };
  return within(ChangeKind::kDefined, ChangeKind::kBreakerClosed) ||
         within(ChangeKind::kRefused, ChangeKind::kAgentLeft) ||
         within(ChangeKind::kOccurred, ChangeKind::kStartRefused) ||
         within(ChangeKind::kPackagePushed, ChangeKind::kRetired) ||
         within(ChangeKind::kNamespaceChanged, ChangeKind::kImported);
}

std::string_view NodeName(const Machine& machine, NodeIndex node) {
  if (node < machine.nodes.size()) return machine.nodes[node].id;
  if (node == kAbortedIndex) return kAbortedNode;
  if (node == kCancelledIndex) return kCancelledNode;
  return "";
}

NodeIndex NodeNamed(const Machine& machine, std::string_view name) {
  if (name == kAbortedNode) return kAbortedIndex;
  if (name == kCancelledNode) return kCancelledIndex;
  return machine.Find(name);
}

bool Instance::HasLiveClaim() const { return std::ranges::any_of(tokens, &Token::HasLiveClaim); }

uint32_t& Instance::Entries(const std::string& node) {
  auto it = std::ranges::find(entries, node, &std::pair<std::string, uint32_t>::first);
  if (it == entries.end()) it = entries.insert(entries.end(), {node, 0});
  return it->second;
}

}  // namespace dfsmr
