// One load: what drives the server, against what it is compared, and what that must show.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dfsmr::bench {

// Of a figure's ratio, server to what it is run in turns with. "rate" is the case's own.
struct Goal {
  std::string figure;
  double at_least = 0;
  double at_most = 0;  // 0: no bound
};

struct Case {
  enum class Kind {
    kUnary,   // Ready, then Transition
    kReport,  // Report with the next tasks
    kWork,    // a stream
    kStart,   // Start or StartBatch
    kRelay,   // one task, handed round among waiting polls
  };
  // Plans. Without steps the machine is a chain of nodes.
  enum class Shape { kConcurrent, kChains, kFan, kChildren };

  std::string name;
  Kind kind = Kind::kUnary;
  int callers = 64;
  int batch = 1;              // tasks in a Report, capacity of a Work stream, instances in a Start
  double per_second = 0;      // open loop: transitions are due at this rate; 0: closed loop
  int nodes = 3;              // of the machine's chain
  bool lifecycle = false;     // the chain ends, and another instance starts; else it leads round
  bool starts = false;        // of a lifecycle: the report that ends one starts the other
  int params_bytes = 200;     // given at start
  int node_params_bytes = 0;  // given with each transition

  // Beside the load. The floor has no watchers and no residents.
  int idle_polls = 0;         // long polls that nothing answers
  int watchers = 0;           // followers of the feed
  int64_t resident = 0;       // idle instances: half of them ready without a worker, half delayed
  int planners = 0;           // callers that start large plans
  int planner_steps = 100'000;

  Shape shape = Shape::kConcurrent;
  int steps = 0;              // of one plan; kChildren: the children of its one step
  int64_t instances = 0;      // started before everything; 0: enough for the callers
  int64_t stock = 0;          // steps made ready before each turn, in plans of their own

  // What it is run in turns with: another case on a dsrv of its own, or kFsync, or else the floor.
  std::string against = {};
  std::vector<Goal> goals = {};
  bool key = false;           // one of those that --goals runs
  bool drawn = false;         // a bar of the figure
  bool slow = false;          // minutes of setup: runs only when named
  double least_seconds = 0;   // of a turn, though fewer be asked for

  bool children() const { return steps > 0 && shape == Shape::kChildren; }
  bool against_floor() const { return against.empty(); }
};

// An append of 600 bytes and its fdatasync, over and over: the time of one is p50_ms.
inline constexpr char kFsync[] = "fsync";

constexpr int kMostSteps = 100'000;
constexpr int kChain = 10;  // steps one after the other, in kChains

inline std::string JsonOfSize(int bytes) {
  const std::string frame = R"({"p":""})";
  const int filling = bytes - static_cast<int>(frame.size());
  if (filling < 0) return {};
  return R"({"p":")" + std::string(static_cast<std::size_t>(filling), 'x') + R"("})";
}

inline std::string NumbersUpTo(int count, int64_t from = 0) {
  std::string text = R"({"items":[)";
  for (int i = 0; i < count; ++i) text += (i > 0 ? "," : "") + std::to_string(from + i);
  return text + "]}";
}

// What instances are started with.
inline std::string ParamsOf(const Case& c) {
  if (c.steps == 0) return JsonOfSize(c.params_bytes);
  // Long numbers, so that the params of many chains are too large to go out with each task, as
  // those of many steps are: what is compared is the number of tokens.
  constexpr int64_t kLong = 1'000'000'000'000;
  if (c.shape == Case::Shape::kChains) return NumbersUpTo(c.steps / kChain, kLong);
  return NumbersUpTo(c.steps);
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
  text += "  wait:\n    start: true\n    transitions: {ok: end}\n";
  text += "  end:\n    final: true\n";
  if (c.planners > 0) text += "---\n" + Plans("big", Case::Shape::kConcurrent);
  return text;
}

}  // namespace dfsmr::bench
