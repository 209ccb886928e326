// The order of compiled plans against a naive reading of the same flows, and what it costs.
#include "fsm/plan/order.h"

#include <random>

#include "fsm/base/limits.h"
#include "fsm/base/template.h"
#include "tests/fsm/plan/plans.h"

namespace dfsmr {
namespace {

// Flows at random: blocks, steps, repeated parts and nested plans, with references of all kinds.
class Flows {
 public:
  explicit Flows(uint32_t seed) : random_(seed) {}

  FlowNode Root(Compiled* plans) {
    plans_ = plans;
    return Body(3);
  }

 private:
  size_t Pick(size_t below) { return random_() % below; }

  // A plan's flow, with at least one step (parts without are transparent to order, which the naive
  // reading below does not know). Its references are to names that it has, forwards and backwards.
  FlowNode Body(size_t depth) {
    Names names;
    FlowNode flow = Make(depth, &names);
    if (!HasSteps(flow)) {
      names.push_back("s");
      flow = Seq({flow, Act("s")});
    }
    AddReferences(names, &flow);
    return flow;
  }

  FlowNode Make(size_t depth, Names* names) {
    const size_t kind = Pick(depth == 0 ? 2 : 7);
    if (kind < 2) {
      names->push_back("s" + std::to_string(names->size()));
      FlowNode step = Act(names->back());
      return Pick(8) == 0 ? When("false", std::move(step)) : step;
    }
    if (kind == 2 && plan_ < 6) {
      const std::string plan = "q" + std::to_string(plan_++);
      plans_->With(PlanOf(plan, Body(depth - 1)));
      names->push_back("n" + std::to_string(names->size()));
      return Nested(names->back(), plan);
    }
    if (kind == 3) {
      FlowNode each = ForEach("[1,2]", "i", Make(depth - 1, names));
      each.sequential = Pick(2) == 0;
      return each;
    }
    std::vector<FlowNode> children;
    for (size_t i = Pick(4); i > 0; --i) children.push_back(Make(depth - 1, names));
    return Pick(2) == 0 ? Seq(std::move(children)) : Par(std::move(children));
  }

  static bool HasSteps(const FlowNode& node) {
    return node.kind == FlowNode::Kind::kStep ||
           std::ranges::any_of(node.children, HasSteps);
  }

  void AddReferences(const Names& names, FlowNode* node) {
    for (FlowNode& child : node->children) AddReferences(names, &child);
    if (names.empty() || !HasSteps(*node)) return;
    if (Pick(12) == 0) node->after.push_back(names[Pick(names.size())]);
    if (Pick(24) == 0) node->after = names;  // the same list again and again
    if (node->kind != FlowNode::Kind::kStep) return;
    std::string input = "{\"x\": 1";
    if (Pick(3) == 0) input = "{\"x\": \"${" + names[Pick(names.size())] + ".output}\"";
    if (Pick(4) == 0) input += ", \"y\": \"${params.x}\"";
    node->input = input + "}";
  }

  std::mt19937 random_;
  Compiled* plans_ = nullptr;
  size_t plan_ = 0;
};

// What the flow means, said as directly as can be: sets of steps before sets of steps.
class Reading {
 public:
  explicit Reading(const Compiled& plans) : plans_(plans) {}

  // nullopt: something waits for itself.
  std::optional<Order> Run(const FlowNode& flow) {
    Expand(flow, Add({}), "", "");
    for (const Later& later : later_) Refer(later);
    for (const auto& [middle, unused] : std::map(next_)) {
      for (auto& [from, to] : next_) {
        if (to.contains(middle)) to.insert(next_[middle].begin(), next_[middle].end());
      }
    }
    Order order;
    for (const auto& [from, to] : next_) {
      for (const std::string& name : to) order.emplace(from, name);
      if (to.contains(from)) return std::nullopt;
    }
    return order;
  }

 private:
  struct Space {
    Space* outer = nullptr;
    std::map<std::string, Names> names;
    Space* caller = nullptr;
    const FlowNode* call = nullptr;
  };
  struct Later {
    const FlowNode* node;
    Space* space;
    Names steps;
  };

  Space* Add(Space space) {
    spaces_.push_back(std::make_unique<Space>(std::move(space)));
    return spaces_.back().get();
  }
  void Before(const Names& first, const Names& then) {
    for (const std::string& a : first) next_[a].insert(then.begin(), then.end());
  }
  static void Append(const Names& more, Names* names) {
    names->insert(names->end(), more.begin(), more.end());
  }

  Names Expand(const FlowNode& node, Space* space, const std::string& prefix,
               const std::string& numbers) {
    Names steps;
    if (node.kind == FlowNode::Kind::kForEach) {
      for (int i = 0; i < 2; ++i) {
        const std::string number = "." + std::to_string(i);
        Space* item = Add({.outer = space});
        const Names part = Expand(node.children[0], item, prefix, numbers + number);
        if (node.sequential) Before(steps, part);
        Append(part, &steps);
        for (const auto& [name, of] : item->names) Append(of, &space->names[name]);
      }
    } else if (node.kind != FlowNode::Kind::kStep) {
      for (const FlowNode& child : node.children) {
        const Names part = Expand(child, space, prefix, numbers);
        if (node.kind == FlowNode::Kind::kSequence) Before(steps, part);
        Append(part, &steps);
      }
    } else {
      const std::string path = prefix + node.name + numbers;
      if (node.plan.empty()) {
        steps = {path};
      } else {
        Space* inner = Add({.caller = space, .call = &node});
        steps = Expand(plans_.library().FindPlan(node.plan)->flow, inner, path + ".", "");
      }
      space->names[node.name] = steps;
    }
    if (node.plan.empty() || !node.after.empty()) later_.push_back({&node, space, steps});
    return steps;
  }

  static const Names& Find(Space* space, const std::string& name) {
    while (!space->names.contains(name)) space = space->outer;
    return space->names[name];
  }

  void Refer(const Later& later) {
    for (const std::string& name : later.node->after) Before(Find(later.space, name), later.steps);
    const bool runs = later.node->kind == FlowNode::Kind::kStep && later.node->plan.empty() &&
                      later.node->when.empty();
    if (runs) Need(later.node->input, later.space, later.steps);
  }

  void Need(const std::string& input, Space* space, const Names& steps) {
    const Result<std::vector<Reference>> references = References(input);
    for (const Reference& reference : *references) {
      if (reference.parts[0].key != "params") {
        Before(Find(space, reference.parts[0].key), steps);
        continue;
      }
      Space* plan = space;
      while (plan->outer) plan = plan->outer;
      if (!plan->caller) continue;
      Need(*FindTemplate(plan->call->input, std::span(reference.parts).subspan(1)), plan->caller,
           steps);
    }
  }

  const Compiled& plans_;
  std::vector<std::unique_ptr<Space>> spaces_;
  std::vector<Later> later_;
  std::map<std::string, std::set<std::string>> next_;
};

TEST_CASE("compiled plans order what is written, and nothing else") {
  int sound = 0, cyclic = 0;
  for (uint32_t seed = 0; seed < 3'000; ++seed) {
    CAPTURE(seed);
    Compiled plan(FlowNode(), R"({"x": 1})");
    const FlowNode flow = Flows(seed).Root(&plan);
    plan.Flow(flow);
    auto graph = plan.Try();
    std::optional<Order> order = Reading(plan).Run(flow);
    if (!graph) {
      CHECK_MESSAGE(!order, plan.Problems());
      ++cyclic;
      continue;
    }
    ++sound;
    REQUIRE(order);
    CHECK(OrderOf(*graph) == *order);
    std::vector<size_t> waits(graph->places.size());
    for (const Place& place : graph->places) {
      for (uint32_t next : place.next) ++waits[next];
    }
    for (size_t i = 0; i < waits.size(); ++i) {
      if (graph->places[i].step == UINT32_MAX) CHECK(waits[i] > 1);
    }
    for (const Place& place : graph->places) {
      CHECK(std::ranges::is_sorted(place.next));
      CHECK(std::ranges::adjacent_find(place.next) == place.next.end());
      if (place.step == UINT32_MAX) CHECK(place.next.size() > 1);
    }
  }
  CHECK(sound > 500);
  CHECK(cyclic > 100);
}

std::string Numbers(size_t count) {
  std::string list = "[0";
  for (size_t i = 1; i < count; ++i) list += "," + std::to_string(i);
  return list + "]";
}

TEST_CASE("edges grow with m + n, never with m times n") {
  const std::string params = "{\"m\": " + Numbers(50'000) + "}";
  const char* list = R"("${params.m}")";
  auto graph = GraphOf(Seq({ForEach(list, "i", Act("a")), ForEach(list, "i", Act("b"))}),
                       params.c_str());
  CHECK(graph->steps.size() == limits::kSteps);
  CHECK(EdgeCount(*graph) == limits::kSteps);
  CHECK(Gates(*graph) == Names{"b.0/gate"});
  CHECK(graph->actions.size() == 1);

  graph = GraphOf(Par({ForEach(list, "i", Act("a")), ForEach(list, "i", Reads("b", {"a.output"}))}),
                  params.c_str());
  CHECK(EdgeCount(*graph) == limits::kSteps);
  CHECK(graph->groups.size() == 1);
  CHECK(graph->groups[0].readers.size() == 50'000);
  size_t readers = 0;
  for (const Step& step : graph->steps) readers += step.readers.size() + step.groups.size();
  CHECK(readers == 50'000);

  // Plans in a plan.
  Compiled nested(Seq({ForEach(list, "i", Nested("a", "inner")), SpawnOf("z", {.machine = "p"})}),
                  ("{\"m\": " + Numbers(33'333) + "}").c_str());
  graph = nested.With(PlanOf("inner", Par({Act("x"), Act("y", "{}", {"x"}), Act("w")}))).Graph();
  CHECK(graph->steps.size() == limits::kSteps);
  CHECK(EdgeCount(*graph) == limits::kSteps - 1);
}

TEST_CASE("steps after the same list share a gate") {
  Names before, after;
  std::vector<FlowNode> steps;
  for (int i = 0; i < 60; ++i) {
    before.push_back("a" + std::to_string(i));
    steps.push_back(Act(before.back()));
  }
  for (int i = 0; i < 60; ++i) steps.push_back(Act("b" + std::to_string(i), "{}", before));
  auto graph = GraphOf(Par(steps));
  CHECK(EdgeCount(*graph) == 120);
  CHECK(Gates(*graph) == Names{"b0/gate"});
  CHECK(OrderOf(*graph).size() == 3'600);

  // Lists that agree but for an entry each.
  for (int i = 0; i < 60; ++i) steps[60 + i].after.push_back("c" + std::to_string(i));
  for (int i = 0; i < 60; ++i) steps.push_back(Act("c" + std::to_string(i)));
  graph = GraphOf(Par(steps));
  CHECK(EdgeCount(*graph) == 180);
  CHECK(Gates(*graph) == Names{"b0/gate"});

  // What is written stays, though other steps imply it; a list of its own needs no gate.
  CHECK(Edges(*GraphOf(Par({Act("a"), Act("b", "{}", {"a"}), Act("c", "{}", {"a", "b"}),
                            Act("d", "{}", {"b", "a", "b"}), Act("e", "{}", {"a", "d"})}))) ==
        Names{"a>b", "a>c/gate", "a>e", "b>c/gate", "c/gate>c", "c/gate>d", "d>e"});
  CHECK(ProblemsOf(Par({Act("a", "{}", {"a", "b"}), Act("b"), Act("c", "{}", {"a", "b"})})) ==
        "a: a cycle of steps that wait for each other: a → a\n");
}

TEST_CASE("a plan has so many steps at most") {
  const std::string params = "{\"m\": " + Numbers(50'001) + "}";
  const char* list = R"("${params.m}")";
  CHECK(ProblemsOf(Par({ForEach(list, "i", Act("a")), ForEach(list, "i", Act("b"))}),
                   params.c_str()) == ": the plan has more than 100000 steps\n");
}

}  // namespace
}  // namespace dfsmr
