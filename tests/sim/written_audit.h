// Whether the graph of a plan says of its steps what is written: their rescue and priority, own or
// inherited, and lists in the order of their items. And whether subscribers wait for what their
// triggers wait for.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "fsm/machine/machine.h"
#include "fsm/plan/graph.h"
#include "fsm/plan/source.h"

namespace dfsmr {

class WrittenAudit {
 public:
  using Expect = std::function<void(bool good, const std::string& what)>;
  using Actions = std::function<const ActionSource*(const std::string& name)>;
  // `machine`: made of the graph.
  WrittenAudit(const PlanGraph& graph, const Machine& machine, Actions actions, Expect expect)
      : graph_(graph),
        machine_(machine),
        actions_(std::move(actions)),
        expect_(std::move(expect)) {}

  void Check(const FlowNode& flow) {
    Read(flow, "");
    Lists();
    Subscribers();
  }

 private:
  void Read(const FlowNode& node, const std::string& in) {
    using Kind = FlowNode::Kind;
    if (node.kind == Kind::kStep) return Keys(node, in + node.name);
    const bool section = node.kind == Kind::kSection;
    // The second part of a section compensates the first.
    for (size_t i = 0; i < (section ? 1 : node.children.size()); ++i) {
      Read(node.children[i], section ? in + node.name + "." : in);
    }
  }

  void Keys(const FlowNode& node, const std::string& path) {
    if (node.action.empty()) return;
    Rescue rescue = Rescue::kPause;
    int32_t priority = 0;
    std::vector<const ActionSource*> all = {&node.own};
    for (const ActionSource* at = actions_(node.action); at; at = actions_(at->extends)) {
      all.push_back(at);
    }
    if (std::ranges::any_of(all, [](const auto* one) { return !one->rescue_from.empty(); })) return;
    std::ranges::reverse(all);
    for (const ActionSource* one : all) {
      rescue = one->rescue.value_or(rescue);
      priority = one->priority.value_or(priority);
    }
    for (const Step& step : graph_.steps) {
      if (step.of != path || step.left_out || step.kind != Step::Kind::kWork) continue;
      const NodeIndex at = machine_.Find(step.path);
      expect_(graph_.actions[step.action].rescue == rescue,
              step.path + " has another rescue than is written");
      expect_(at != kNoNode && machine_.nodes[at].settings->priority == priority,
              step.path + " has another priority than " + std::to_string(priority));
    }
  }

  // The last number in a path from `part` on: 12 of nodes.12 and of nodes.12.vm.
  static uint64_t NumberFrom(const std::string& path, size_t part) {
    const size_t at = path.find_first_of("0123456789", part);
    return at == std::string::npos ? 0 : std::strtoull(path.c_str() + at, nullptr, 10);
  }

  // `${node.output}` of a for_each is the list in order.
  void Lists() {
    for (const Group& group : graph_.groups) {
      std::string last;
      for (const Group::Member& member : group.members) {
        if (!group.list || member.group) continue;
        const std::string& path = graph_.steps[member.index].path;
        size_t part = static_cast<size_t>(std::ranges::mismatch(last, path).in2 - path.begin());
        while (part > 0 && std::isdigit(path[part - 1])) --part;
        expect_(last.empty() || NumberFrom(last, part) < NumberFrom(path, part),
                "the outputs of a for_each have " + path + " after " + last);
        last = path;
      }
    }
  }

  // Those that each place is waited for by.
  std::vector<bool> Behind(uint32_t place) const {
    std::vector<bool> seen(graph_.places.size());
    std::vector<uint32_t> open = {place};
    while (!open.empty()) {
      const uint32_t at = open.back();
      open.pop_back();
      for (uint32_t next : graph_.places[at].next) {
        if (!seen[next]) open.push_back(next);
        seen[next] = true;
      }
    }
    return seen;
  }

  // A subscriber is called TRIGGER.ACTION.
  void Subscribers() {
    std::vector<std::pair<uint32_t, uint32_t>> pairs;
    for (uint32_t i = 0; i < graph_.steps.size(); ++i) {
      const std::string ending = "." + graph_.actions[graph_.steps[i].action].name;
      const std::string& path = graph_.steps[i].path;
      if (ending.size() == 1 || !path.ends_with(ending)) continue;
      const std::string trigger = path.substr(0, path.size() - ending.size());
      for (uint32_t j = 0; j < graph_.steps.size(); ++j) {
        if (graph_.steps[j].path == trigger) pairs.emplace_back(j, i);
      }
    }
    for (uint32_t from = 0; !pairs.empty() && from < graph_.steps.size(); ++from) {
      const std::vector<bool> behind = Behind(from);
      for (const auto& [trigger, subscriber] : pairs) {
        expect_(!behind[trigger] || behind[subscriber] || from == subscriber,
                graph_.steps[subscriber].path + " does not wait for " + graph_.steps[from].path +
                    ", which its trigger waits for");
      }
    }
  }

  const PlanGraph& graph_;
  const Machine& machine_;
  const Actions actions_;
  const Expect expect_;
};

}  // namespace dfsmr
