#include <algorithm>
#include <map>
#include <set>

#include "dcli/text/text.h"
#include "dcli/view/describe.h"
#include "dcli/view/graph.h"
#include "dcli/view/steps.h"

namespace dfsmr::cli {
namespace {

constexpr size_t kMostArrows = 400;  // a gate that stands for more arrows is drawn as a gate

std::string FillOf(v1::Step::State state) {
  switch (state) {
    case v1::Step::DONE:
      return "#ccffcc";
    case v1::Step::READY:
    case v1::Step::CLAIMED:
    case v1::Step::RUNNING:
      return "#ffdd66";
    case v1::Step::WAITING:
    case v1::Step::SUSPENDED:
      return "#cce0ff";
    case v1::Step::HELD:
      return "#ff9999";
    case v1::Step::SKIPPED:
    case v1::Step::LEFT_OUT:
      return "#dddddd";
    default:
      return "";
  }
}

bool Underway(v1::Step::State state) {
  return state == v1::Step::READY || state == v1::Step::CLAIMED || state == v1::Step::RUNNING ||
         state == v1::Step::WAITING || state == v1::Step::SUSPENDED || state == v1::Step::HELD;
}

GraphNode NodeOf(const v1::Step& step) {
  GraphNode node{
      .id = step.path(),
      .kind = step.has_children() ? "spawn" : "work",
      .marked = Underway(step.state()) || step.finalize() == v1::Step::HELD,
      .fill = FillOf(step.finalize() == v1::Step::HELD ? step.finalize() : step.state())};
  if (!step.action().empty() && step.action() != step.path()) {
    node.remarks.push_back(step.action());
  }
  std::string state = Lower(NameOf(step.state()));
  if (Underway(step.state()) && step.progress() > 0) state += ", " + PercentText(step.progress());
  if (!state.empty()) node.remarks.push_back(state);
  if (step.has_children()) node.remarks.push_back(ChildrenText(step.children()));
  if (step.finalize() > v1::Step::PENDING) {
    node.remarks.push_back("finalize " + Lower(NameOf(step.finalize())));
  }
  return node;
}

// The nodes of a compiled plan: which of them are steps, which are gates between steps, and which
// are not drawn.
class CompiledNodes {
 public:
  explicit CompiledNodes(const v1::Machine& machine) : machine_(machine) {
    for (const v1::Node& node : machine.nodes()) {
      nodes_[node.id()] = &node;
      for (const std::string& to : TargetsOf(node)) ++arrows_in_[to];
    }
  }

  Drawing Draw() {
    Drawing drawing{.title = MachineText(machine_.id(), machine_.version())};
    for (const v1::Node& node : machine_.nodes()) {
      if (!Drawn(node)) continue;
      drawing.nodes.push_back(NodeFor(node));
      std::set<std::string> passed;
      std::vector<std::string> reached;
      for (const std::string& to : TargetsOf(node)) Follow(to, &passed, &reached);
      for (const std::string& to : reached) drawing.edges.push_back({node.id(), "", to});
    }
    return drawing;
  }

 private:
  static bool IsStep(const v1::Node& node) {
    return node.kind() != "system" && !node.id().starts_with('/') &&
           StepOfNode(node.id()) == node.id();
  }
  static bool IsGate(const v1::Node& node) {
    if (node.id() == "/end") return false;
    return node.id() == "/start" || node.id().ends_with("/gate") || node.id().ends_with("/end") ||
           node.id().ends_with("/compensate");
  }
  static std::set<std::string> TargetsOf(const v1::Node& node) {
    std::set<std::string> targets;
    if (!IsStep(node) && !IsGate(node)) return targets;
    for (const v1::Edge& edge : node.transitions()) {
      targets.insert(edge.targets().begin(), edge.targets().end());
    }
    return targets;
  }
  bool Drawn(const v1::Node& node) const { return IsStep(node) || (IsGate(node) && Wide(node)); }
  bool Wide(const v1::Node& node) const {
    const auto in = arrows_in_.find(node.id());
    return in != arrows_in_.end() && in->second * TargetsOf(node).size() > kMostArrows;
  }

  void Follow(const std::string& id, std::set<std::string>* passed,
              std::vector<std::string>* reached) const {
    const auto found = nodes_.find(id);
    if (found == nodes_.end() || !passed->insert(id).second) return;
    const v1::Node& node = *found->second;
    if (Drawn(node)) {
      reached->push_back(id);
    } else if (IsGate(node)) {
      for (const std::string& to : TargetsOf(node)) Follow(to, passed, reached);
    }
  }

  uint64_t HeldAt(const std::string& id) const {
    const auto found = nodes_.find(id);
    return found == nodes_.end() ? 0 : found->second->stats().held();
  }

  GraphNode NodeFor(const v1::Node& node) const {
    if (!IsStep(node)) return {.id = node.id(), .kind = "gate"};
    const bool spawn = node.kind() == "manual";
    GraphNode drawn{.id = node.id(), .kind = spawn ? "spawn" : node.kind()};
    if (!node.action().empty() && node.action() != node.id()) {
      drawn.remarks.push_back(node.action());
    }
    std::vector<std::string> counts;
    const auto add = [&](uint64_t count, const char* what) {
      if (count > 0) counts.push_back(std::to_string(count) + " " + what);
    };
    add(node.stats().ready(), "ready");
    add(node.stats().claimed(), "claimed");
    add(node.stats().waiting(), "waiting");
    const auto suspended = nodes_.find(node.id() + "/suspended");
    if (suspended != nodes_.end()) add(suspended->second->stats().waiting(), "suspended");
    add(HeldAt(node.id() + "/error") + HeldAt(node.id() + "/finalize/error"), "held");
    if (!counts.empty()) drawn.remarks.push_back(Join(counts, ", "));
    return drawn;
  }

  const v1::Machine& machine_;
  std::map<std::string, const v1::Node*> nodes_;
  std::map<std::string, size_t> arrows_in_;
};

}  // namespace

Drawing FlowOf(const v1::Instance& instance) {
  Drawing drawing{.title = instance.id()};
  for (const v1::Step& step : instance.steps()) {
    drawing.nodes.push_back(NodeOf(step));
    for (const std::string& before : step.after()) {
      drawing.edges.push_back({before, "", step.path()});
    }
  }
  return drawing;
}

Drawing FlowOf(const v1::Machine& machine) { return CompiledNodes(machine).Draw(); }

}  // namespace dfsmr::cli
