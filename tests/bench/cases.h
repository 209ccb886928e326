// What bench can measure: one row is one load, against the server and against its floor.
#pragma once

#include <cstdint>
#include <string>
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
};

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
  return cases;
}

inline std::string JsonOfSize(int bytes) {
  const std::string frame = R"({"p":""})";
  const int filling = bytes - static_cast<int>(frame.size());
  if (filling < 0) return {};
  return R"({"p":")" + std::string(static_cast<std::size_t>(filling), 'x') + R"("})";
}

// The chain n0 -> n1 -> ... under "ok", and a machine "idle" whose instances wait for ever. No
// claim is to time out however slow the machine is: a benchmark of retries would be another one.
inline std::string Definitions(const Case& c) {
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
  return text;
}

}  // namespace dfsmr::bench
