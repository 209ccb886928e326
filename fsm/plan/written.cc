#include "fsm/plan/written.h"

#include <charconv>
#include <optional>
#include <span>

#include "fsm/base/template.h"

namespace dfsmr {
namespace {

// The path of a group is that of its members, without what tells them apart. Empty: it has none.
std::string PathOfGroup(const PlanGraph& graph, uint32_t index) {
  const Group& group = graph.groups[index];
  if (group.members.empty()) return "";
  const Group::Member& first = group.members.front();
  const std::string inner =
      first.group ? PathOfGroup(graph, first.index) : graph.steps[first.index].path;
  const size_t dot = inner.rfind('.');
  return dot == inner.npos ? "" : inner.substr(0, dot);
}

}  // namespace

std::string PathOf(const PlanGraph& graph, std::string_view key) {
  const bool group = key.starts_with('@');
  if (!group && !key.starts_with('#')) return "";
  key.remove_prefix(std::min(key.find_first_not_of(key[0]), key.size()));
  uint32_t index = 0;
  const auto [end, failed] = std::from_chars(key.data(), key.data() + key.size(), index);
  if (failed != std::errc() || end != key.data() + key.size()) return "";
  if (index >= (group ? graph.groups.size() : graph.steps.size())) return "";
  return group ? PathOfGroup(graph, index) : graph.steps[index].path;
}

std::string AsWritten(const PlanGraph& graph, std::string_view compiled) {
  const auto substitute = [&graph](const Reference& reference) -> Result<std::optional<std::string>> {
    const std::string path = PathOf(graph, reference.parts.front().key);
    if (path.empty()) return std::optional<std::string>();
    const std::string rest = PathText(std::span(reference.parts).subspan(1));
    return std::optional("\"${" + path + (rest.empty() || rest[0] == '[' ? "" : ".") + rest + "}\"");
  };
  auto written = Instantiate(compiled, substitute);
  return written ? *std::move(written) : std::string(compiled);
}

}  // namespace dfsmr
