// Whether the graph of a plan keeps the order that its flow has in writing: a slow reading of
// `sequence` and `after`, which asks of each two steps that are in order whether the graph leads
// from one to the other, and by no step that an `if` may pass over early.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fsm/plan/graph.h"
#include "fsm/plan/source.h"

namespace dfsmr {

class OrderAudit {
 public:
  using Expect = std::function<void(bool good, const std::string& what)>;
  OrderAudit(const PlanGraph& graph, Expect expect) : graph_(graph), expect_(std::move(expect)) {}

  void Check(const FlowNode& flow) { Read(flow, "", {}); }

 private:
  // A step as it is written, with its path.
  struct Named {
    std::string path;
    const FlowNode* node = nullptr;
  };
  using Steps = std::vector<Named>;
  // Of a part of the flow: the steps that wait for what comes before it, and those that what comes
  // after it waits for.
  struct Part {
    Steps first;
    Steps last;
  };

  // `scopes`: the paths that its names are looked up in, the innermost last.
  Part Read(const FlowNode& node, const std::string& in, std::vector<std::string> scopes) {
    using Kind = FlowNode::Kind;
    if (node.kind == Kind::kStep) return After(node, {{{in + node.name, &node}}, {}}, in, scopes);
    const bool section = node.kind == Kind::kSection;
    const std::string inside = section ? in + node.name + "." : in;
    std::vector<std::string> inner = scopes;
    inner.push_back(inside);
    Part whole;
    // The second part of a section compensates the first, in an order of its own.
    for (size_t i = 0; i < (section ? 1 : node.children.size()); ++i) {
      const Part part = Read(node.children[i], inside, inner);
      const bool follows = node.kind == Kind::kSequence && !whole.last.empty();
      if (follows) InOrder(whole.last, part.first);
      if (node.kind == Kind::kForEach && node.sequential) Items(part.first);
      if (!IsThere(part.first)) {  // a list of nothing, or left out: what is before it counts
        for (const Named& one : part.first) instead_[one.path] = whole.last;
        continue;
      }
      if (node.kind == Kind::kSequence) whole.last.clear();
      if (!follows) whole.first.insert(whole.first.end(), part.first.begin(), part.first.end());
      whole.last.insert(whole.last.end(), part.last.begin(), part.last.end());
    }
    return After(node, std::move(whole), in, scopes);
  }

  Part After(const FlowNode& node, Part part, const std::string& in,
             const std::vector<std::string>& scopes) {
    if (node.kind == FlowNode::Kind::kStep) part.last = part.first;
    for (const std::string& name : node.after) {
      const Named before = Find(name, in, scopes);
      InOrder({before}, part.first);
      const auto instead = instead_.find(before.path);
      if (instead != instead_.end()) InOrder(instead->second, part.first);
    }
    return part;
  }

  Named Find(const std::string& name, const std::string& in,
             const std::vector<std::string>& scopes) const {
    static const FlowNode kAny;
    for (size_t i = scopes.size(); i > 0; --i) {
      if (!StepsOf(scopes[i - 1] + name).empty()) return {scopes[i - 1] + name, &kAny};
    }
    return {in + name, &kAny};
  }

  // The steps that are written with this path, whatever their number in a list. `below`: those of a
  // nested plan as well, and those that subscribe to it.
  std::vector<uint32_t> StepsOf(const std::string& path, bool below = false) const {
    std::vector<uint32_t> steps;
    for (uint32_t i = 0; i < graph_.steps.size(); ++i) {
      const std::string& of = graph_.steps[i].of;
      const bool inside = below && of.starts_with(path + ".");
      if (of == path || inside) steps.push_back(i);
    }
    return steps;
  }

  bool IsThere(const Steps& part) const {
    return std::ranges::any_of(
        part, [this](const Named& one) { return !StepsOf(one.path, /*below=*/true).empty(); });
  }

  // Nothing waits for what subscribes to a step, or for what is planned by that. It is called
  // TRIGGER.ACTION, and no other step of the simulator has the name of its action.
  std::vector<std::string> Subscribers() const {
    std::vector<std::string> paths;
    for (const Step& step : graph_.steps) {
      const std::string& action = graph_.actions[step.action].name;
      if (!action.empty() && step.of.ends_with("." + action)) paths.push_back(step.of);
    }
    return paths;
  }
  bool IsWaitedFor(uint32_t step) const {
    const std::string& of = graph_.steps[step].of;
    return std::ranges::none_of(subscribers_, [&of](const std::string& path) {
      return of == path || of.starts_with(path + ".");
    });
  }

  // What comes after something only by way of an `if` does not wait for that.
  void InOrder(const Steps& first, const Steps& second) {
    for (const Named& before : first) {
      for (const Named& after : second) {
        const bool nested = !before.node->plan.empty();
        const bool decides = after.node->condition != nullptr;  // and what is below it follows
        for (uint32_t from : StepsOf(before.path, nested)) {
          if (!IsWaitedFor(from)) continue;
          for (uint32_t to : StepsOf(after.path, !decides)) MustLead(from, to, decides);
        }
      }
    }
  }

  // One item after the other: by the numbers in their paths.
  void Items(const Steps& body) {
    for (const Named& step : body) {
      const std::vector<uint32_t> items = StepsOf(step.path);
      for (size_t i = 1; i < items.size(); ++i) MustLead(items[i - 1], items[i], false);
    }
  }

  // What has an `if` itself (`decides`) is decided when those before have settled, and so may come
  // after a decision.
  void MustLead(uint32_t from, uint32_t to, bool decides) {
    std::vector<bool> seen(graph_.places.size());
    std::vector<uint32_t> open = {from};
    while (!open.empty()) {
      const uint32_t at = open.back();
      open.pop_back();
      if (at == to) return;
      if (at != from && graph_.ifs.contains(at) && !decides) continue;
      for (uint32_t next : graph_.places[at].next) {
        if (!seen[next]) open.push_back(next);
        seen[next] = true;
      }
    }
    expect_(false, graph_.steps[to].path + " does not wait for " + graph_.steps[from].path +
                       ", which comes before it in the flow");
  }

  const PlanGraph& graph_;
  const Expect expect_;
  std::map<std::string, Steps> instead_;  // of steps of lists without items, by path
  const std::vector<std::string> subscribers_ = Subscribers();
};

}  // namespace dfsmr
