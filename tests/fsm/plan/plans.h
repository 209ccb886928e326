// Flows written in code, and a library of definitions, for tests.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fsm/plan/compile.h"

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

// ---- What came of a plan.

using Names = std::vector<std::string>;
using Order = std::set<std::pair<std::string, std::string>>;

inline std::string Lines(const std::vector<PlanProblem>& problems) {
  std::string lines;
  for (const PlanProblem& problem : problems) {
    lines += problem.written.path + ": " + problem.message + "\n";
  }
  return lines;
}

class Compiled {
 public:
  explicit Compiled(PlanSource plan) : plan_(std::move(plan)) {}
  Compiled(FlowNode flow, const char* params) : plan_(PlanOf("p", std::move(flow))) {
    if (params) params_ = params;
  }
  template <typename Source>
  Compiled& With(Source source) {
    library_.Add(std::move(source));
    return *this;
  }
  Compiled& WithMachine(std::string id) {
    library_.AddMachine(std::move(id));
    return *this;
  }
  Compiled& Planned(std::string path, FlowNode flow) {
    planned_[path] = std::make_shared<PlanSource>(PlanOf("", std::move(flow)));
    return *this;
  }
  Compiled& Params(std::string params) {
    params_ = std::move(params);
    return *this;
  }

  void Flow(FlowNode flow) { plan_.flow = std::move(flow); }
  const Library& library() const { return library_; }

  // Null with problems.
  std::shared_ptr<const PlanGraph> Try() {
    problems_.clear();
    PlanningArgs args{.plan = &plan_, .library = &library_, .planned = &planned_};
    if (params_) args.params = *params_;
    args.instance = params_ ? "i-1" : "";
    auto graph = CompilePlan(args, &problems_);
    CHECK((graph == nullptr) == !problems_.empty());
    return graph;
  }
  std::shared_ptr<const PlanGraph> Graph() {
    auto graph = Try();
    REQUIRE_MESSAGE(graph, Lines(problems_));
    return graph;
  }
  std::string Problems() {
    CHECK(!Try());
    return Lines(problems_);
  }

 private:
  PlanSource plan_;
  TestLibrary library_;
  PlannedFlows planned_;
  std::optional<std::string> params_;
  std::vector<PlanProblem> problems_;
};

inline std::shared_ptr<const PlanGraph> GraphOf(FlowNode flow, const char* params = nullptr) {
  return Compiled(std::move(flow), params).Graph();
}
inline std::string ProblemsOf(FlowNode flow, const char* params = nullptr) {
  return Compiled(std::move(flow), params).Problems();
}

inline std::string NameOf(const PlanGraph& graph, uint32_t place) {
  const Place& at = graph.places[place];
  return at.step == UINT32_MAX ? at.gate : graph.steps[at.step].path;
}

inline Names Paths(const PlanGraph& graph) {
  Names paths;
  for (const Step& step : graph.steps) paths.push_back(step.path);
  return paths;
}
inline const Step& StepOf(const PlanGraph& graph, std::string_view path) {
  auto it = std::ranges::find(graph.steps, path, &Step::path);
  REQUIRE_MESSAGE(it != graph.steps.end(), path);
  return *it;
}

// As written in places, gates included: "a>b".
inline Names Edges(const PlanGraph& graph) {
  Names edges;
  for (uint32_t i = 0; i < graph.places.size(); ++i) {
    for (uint32_t next : graph.places[i].next) {
      edges.push_back(NameOf(graph, i) + ">" + NameOf(graph, next));
    }
  }
  std::ranges::sort(edges);
  return edges;
}

inline size_t EdgeCount(const PlanGraph& graph) {
  size_t count = 0;
  for (const Place& place : graph.places) count += place.next.size();
  return count;
}

inline Names Gates(const PlanGraph& graph) {
  Names gates;
  for (const Place& place : graph.places) {
    if (place.step == UINT32_MAX) gates.push_back(place.gate);
  }
  std::ranges::sort(gates);
  return gates;
}

// Which step comes before which, through gates and other steps.
inline Order OrderOf(const PlanGraph& graph) {
  Order order;
  for (uint32_t from = 0; from < graph.places.size(); ++from) {
    if (graph.places[from].step == UINT32_MAX) continue;
    std::vector<bool> seen(graph.places.size());
    std::vector<uint32_t> open = {from};
    while (!open.empty()) {
      const uint32_t at = open.back();
      open.pop_back();
      for (uint32_t next : graph.places[at].next) {
        if (seen[next]) continue;
        seen[next] = true;
        open.push_back(next);
        if (graph.places[next].step != UINT32_MAX) {
          order.emplace(NameOf(graph, from), NameOf(graph, next));
        }
      }
    }
  }
  return order;
}

// The least edges that make that order.
inline Names Least(const Order& order) {
  Names least;
  for (const auto& edge : order) {
    const bool between = std::ranges::any_of(order, [&](const auto& other) {
      return other.first == edge.first && order.contains({other.second, edge.second});
    });
    if (!between) least.push_back(edge.first + ">" + edge.second);
  }
  std::ranges::sort(least);
  return least;
}
inline Names Least(const PlanGraph& graph) { return Least(OrderOf(graph)); }

}  // namespace dfsmr
