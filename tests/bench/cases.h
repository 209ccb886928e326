// What bench can measure: one row is one load, against the server and against its floor.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dfsmr::bench {

struct Case {
  enum class Kind { kUnary, kReport, kWork, kStart };
  std::string name;
  Kind kind = Kind::kUnary;
  int callers = 64;
  int batch = 1;             // tasks in a Report, capacity of a Work stream, instances in a Start
  int nodes = 3;             // of the machine's chain
  bool lifecycle = false;    // the chain ends, and another instance starts; else it leads round
  int params_bytes = 200;    // given at start
  int node_params_bytes = 0; // given with each transition
  int idle_polls = 0;        // long polls beside the load that nothing answers
  int watchers = 0;          // followers of the feed beside the load
  int64_t resident = 0;      // idle instances beside the load; the floor has none
  double goal = 0;           // least ratio of the rates, server to floor; 0: none

  // Plans. Without steps the machine is the chain.
  enum class Shape { kConcurrent, kChains, kFan, kChildren };
  Shape shape = Shape::kConcurrent;
  int steps = 0;             // of one plan; kChildren: the children of its one step
  int64_t instances = 0;     // started before everything; 0: enough for the callers
  int64_t stock = 0;         // steps made ready before each turn, in plans of their own
  int planners = 0;          // callers beside the load that start plans of 100,000 steps
  std::string against;       // another case to be run in turns with, by dsrv too, not the floor

  bool children() const { return steps > 0 && shape == Shape::kChildren; }
};

constexpr int kMostSteps = 100'000;
constexpr int kChain = 10;

// What a step or a child costs must not depend on how many there are.
inline void AddPlans(std::vector<Case>* cases) {
  using Kind = Case::Kind;
  using Shape = Case::Shape;
  for (const auto& [name, shape] :
       {std::pair{"plan", Shape::kConcurrent}, std::pair{"chains", Shape::kChains}}) {
    const Case few{.name = std::string(name) + "10", .kind = Kind::kReport, .callers = 16,
                   .batch = 10, .shape = shape, .steps = 10, .stock = kMostSteps};
    Case many = few;
    many.name = std::string(name) + "100k";
    many.steps = kMostSteps;
    many.goal = 0.8;
    many.against = few.name;
    cases->insert(cases->end(), {few, many});
  }
  cases->push_back({.name = "fanout100", .kind = Kind::kReport, .callers = 16, .batch = 10,
                    .lifecycle = true, .shape = Shape::kFan, .steps = 100, .instances = 32});
  const Case few{.name = "children10", .kind = Kind::kReport, .callers = 8, .batch = 8,
                 .nodes = 1, .lifecycle = true, .shape = Shape::kChildren, .steps = 10,
                 .instances = 7};
  Case many = few;
  many.name = "children100k";
  many.steps = kMostSteps;
  many.instances = 1;
  many.goal = 0.8;
  many.against = few.name;
  cases->insert(cases->end(), {few, many});
  cases->push_back({.name = "planning10", .kind = Kind::kStart, .callers = 16, .batch = 100,
                    .steps = 10});
  cases->push_back({.name = "planning100k", .kind = Kind::kStart, .callers = 1, .goal = 0.8,
                    .steps = kMostSteps, .against = "planning10"});
  cases->push_back({.name = "beside100k", .callers = 16, .planners = 1, .against = "unary16"});
}

inline std::vector<Case> AllCases() {
  using Kind = Case::Kind;
  std::vector<Case> cases = {
      {.name = "unary64", .goal = 0.7},
      {.name = "report16x10", .kind = Kind::kReport, .callers = 16, .batch = 10, .goal = 0.6},
  };
  for (const int callers : {1, 16, 256, 400}) {
    cases.push_back({.name = "unary" + std::to_string(callers), .callers = callers});
  }
  for (const int batch : {1, 32, 100}) {
    cases.push_back({.name = "report16x" + std::to_string(batch),
                     .kind = Kind::kReport,
                     .callers = 16,
                     .batch = batch});
  }
  for (const int capacity : {1, 10, 100}) {
    cases.push_back({.name = "work16x" + std::to_string(capacity),
                     .kind = Kind::kWork,
                     .callers = 16,
                     .batch = capacity});
  }
  for (const int nodes : {1, 3, 9}) {
    cases.push_back({.name = "lifecycle" + std::to_string(nodes),
                     .kind = Kind::kReport,
                     .callers = 16,
                     .batch = 10,
                     .nodes = nodes,
                     .lifecycle = true});
  }
  cases.push_back({.name = "start64", .kind = Kind::kStart});
  for (const int batch : {10, 100}) {
    cases.push_back({.name = "start16x" + std::to_string(batch),
                     .kind = Kind::kStart,
                     .callers = 16,
                     .batch = batch});
  }
  for (const int polls : {1'000, 10'000}) {
    cases.push_back({.name = "polls" + std::to_string(polls), .idle_polls = polls});
  }
  for (const int watchers : {1, 10, 100}) {
    cases.push_back({.name = "watchers" + std::to_string(watchers),
                     .callers = 16,
                     .watchers = watchers});
  }
  for (const int millions : {1, 10}) {
    cases.push_back({.name = "resident" + std::to_string(millions) + "m",
                     .kind = Kind::kReport,
                     .callers = 16,
                     .batch = 10,
                     .resident = millions * 1'000'000LL});
  }
  for (const int kib : {4, 64}) {
    cases.push_back({.name = "params" + std::to_string(kib) + "k",
                     .params_bytes = kib << 10,
                     .node_params_bytes = kib << 10});
  }
  AddPlans(&cases);
  return cases;
}

inline std::string JsonOfSize(int bytes) {
  const std::string frame = R"({"p":""})";
  const int filling = bytes - static_cast<int>(frame.size());
  if (filling < 0) return {};
  return R"({"p":")" + std::string(static_cast<std::size_t>(filling), 'x') + R"("})";
}

inline std::string NumbersUpTo(int count) {
  std::string text = R"({"items":[)";
  for (int i = 0; i < count; ++i) text += (i > 0 ? "," : "") + std::to_string(i);
  return text + "]}";
}

// What instances are started with.
inline std::string ParamsOf(const Case& c) {
  if (c.steps == 0) return JsonOfSize(c.params_bytes);
  return NumbersUpTo(c.shape == Case::Shape::kChains ? c.steps / kChain : c.steps);
}

// One plan of an action that is never timed out; of children, "bench" is the child.
inline std::string Plans(const std::string& id, Case::Shape shape) {
  using Shape = Case::Shape;
  const std::string step = "{step: s, action: work, input: {n: \"${i}\"}}";
  const std::string each = "for_each: \"${params.items}\"\n";
  const std::string action = "action: work\ntimeout_strategy: fixed\ntimeout: 600\n---\n";
  const std::string plan = "plan: " + id + "\nflow:\n";
  std::string chain;
  switch (shape) {
    case Shape::kConcurrent:
      return action + plan + "  concurrence:\n    " + each + "    as: i\n    do: " + step + "\n";
    case Shape::kChains:
      for (int i = 0; i < kChain; ++i) {
        chain += "        - {step: s" + std::to_string(i) + ", action: work}\n";
      }
      return action + plan + "  concurrence:\n    " + each +
             "    as: i\n    do:\n      sequence:\n" + chain;
    case Shape::kFan:
      return action + plan + "  sequence:\n    - {step: a, action: work}\n    - concurrence:\n" +
             "        " + each + "        as: i\n        do: " + step +
             "\n    - {step: c, action: work}\n";
    case Shape::kChildren:
      return action + plan + "  - {step: s, action: work}\n---\nplan: parent\nflow:\n" +
             "  - step: all\n    spawn: {plan: " + id + ", for_each: \"${params.items}\", as: i, " +
             "input: {n: \"${i}\"}, concurrency: 64}\n";
  }
  return {};
}

// The chain n0 -> n1 -> ... under "ok", and a machine "idle" whose instances wait for ever. No
// claim is to time out however slow the machine is: a benchmark of retries would be another one.
inline std::string Definitions(const Case& c) {
  if (c.steps > 0) return Plans("bench", c.shape);
  std::string text = "id: bench\ndefaults: {timeout_min: 60s, timeout_initial: 60s}\nnodes:\n";
  for (int node = 0; node < c.nodes; ++node) {
    const bool last = node + 1 == c.nodes;
    const std::string round = "n" + std::to_string((node + 1) % c.nodes);
    text += "  n" + std::to_string(node) + ":\n";
    if (node == 0) text += "    start: true\n";
    text += "    transitions: {ok: " + (last && c.lifecycle ? "end" : round) + ", stop: end}\n";
  }
  text += "  end:\n    final: true\n";
  text += "---\nid: idle\nnodes:\n";
  text += "  wait:\n    start: true\n    manual: true\n    transitions: {ok: end}\n";
  text += "  end:\n    final: true\n";
  if (c.planners > 0) text += "---\n" + Plans("big", Case::Shape::kConcurrent);
  return text;
}

}  // namespace dfsmr::bench
