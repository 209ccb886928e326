// Flows written in code, and a library of definitions, for tests.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fsm/plan.h"

namespace dfsmr {

inline FlowNode Act(std::string name, std::string input = "{}",
                    std::vector<std::string> after = {}) {
  FlowNode node;
  node.kind = FlowNode::Kind::kStep;
  node.name = name;
  node.action = "act";
  node.input = std::move(input);
  node.after = std::move(after);
  node.written.path = name;
  return node;
}
inline FlowNode Of(FlowNode step, std::string action) {
  step.action = std::move(action);
  return step;
}
// A step whose input refers to each of these.
inline FlowNode Reads(std::string name, const std::vector<std::string>& references,
                      std::vector<std::string> after = {}) {
  std::string input = "{";
  for (size_t i = 0; i < references.size(); ++i) {
    input += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":\"${" + references[i] + "}\"";
  }
  return Act(std::move(name), input + "}", std::move(after));
}
inline FlowNode Nested(std::string name, std::string plan, std::string input = "{}",
                       std::vector<std::string> after = {}) {
  FlowNode node = Act(std::move(name), std::move(input), std::move(after));
  node.action = "";
  node.plan = std::move(plan);
  return node;
}
inline FlowNode Block(FlowNode::Kind kind, std::vector<FlowNode> children) {
  FlowNode node;
  node.kind = kind;
  node.children = std::move(children);
  node.written.path = kind == FlowNode::Kind::kSequence ? "sequence" : "concurrence";
  return node;
}
inline FlowNode Seq(std::vector<FlowNode> children) {
  return Block(FlowNode::Kind::kSequence, std::move(children));
}
inline FlowNode Par(std::vector<FlowNode> children) {
  return Block(FlowNode::Kind::kConcurrence, std::move(children));
}
inline FlowNode ForEach(std::string items, std::string as, FlowNode body) {
  FlowNode node = Block(FlowNode::Kind::kForEach, {});
  node.items = std::move(items);
  node.as = std::move(as);
  node.written.path = "for_each";
  node.children.push_back(std::move(body));
  return node;
}
inline FlowNode When(std::string when, FlowNode node) {
  node.when = std::move(when);
  return node;
}
inline FlowNode After(std::vector<std::string> after, FlowNode node) {
  node.after = std::move(after);
  return node;
}
inline FlowNode SpawnOf(std::string name, SpawnSource spawn) {
  FlowNode node = Act(std::move(name));
  node.action = "";
  node.spawn = std::move(spawn);
  return node;
}
inline FlowNode Self(std::vector<std::string> after = {}) {
  FlowNode node = Act("", "{}", std::move(after));
  node.action = "";
  node.self_run = true;
  node.written.path = "self";
  return node;
}

inline PlanSource PlanOf(std::string id, FlowNode flow) {
  PlanSource plan;
  plan.id = std::move(id);
  plan.flow = std::move(flow);
  return plan;
}
inline ActionSource ActionOf(std::string id) {
  ActionSource action;
  action.id = std::move(id);
  return action;
}

class TestLibrary : public Library {
 public:
  void Add(PlanSource plan) { plans_[plan.id] = std::move(plan); }
  void Add(ActionSource action) { actions_[action.id] = std::move(action); }
  void AddMachine(std::string id) { machines_.insert(std::move(id)); }

  const ActionSource* FindAction(std::string_view id) const override { return At(actions_, id); }
  const PlanSource* FindPlan(std::string_view id) const override { return At(plans_, id); }
  bool HasMachine(std::string_view id) const override { return machines_.contains(id); }
  std::vector<const ActionSource*> SubscribersOf(std::string_view action) const override {
    std::vector<const ActionSource*> found;
    for (const auto& [id, known] : actions_) {
      if (!known.subscribes_to) continue;
      for (const std::string& to : *known.subscribes_to) {
        if (to == action) found.push_back(&known);
      }
    }
    return found;
  }

 private:
  template <typename T>
  static const T* At(const std::map<std::string, T, std::less<>>& map, std::string_view id) {
    auto it = map.find(id);
    return it == map.end() ? nullptr : &it->second;
  }
  std::map<std::string, PlanSource, std::less<>> plans_;
  std::map<std::string, ActionSource, std::less<>> actions_;
  std::set<std::string, std::less<>> machines_;
};

}  // namespace dfsmr
