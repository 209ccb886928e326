// What bench can measure: a case is a row.
#pragma once

#include <vector>

#include "tests/bench/case.h"

namespace dfsmr::bench {

using Kind = Case::Kind;
using Shape = Case::Shape;

// One call a step: Ready, then Transition; and one call for both.
inline std::vector<Case> UnaryCases() {
  return {
      {.name = "unary1", .callers = 1},
      {.name = "unary16", .callers = 16},
      {.name = "unary64", .goals = {{.figure = "rate", .at_least = 0.9}}, .key = true,
       .drawn = true},
      {.name = "unary256", .callers = 256},
      {.name = "unary400", .callers = 400},
      {.name = "report64x1", .kind = Kind::kReport,
       .goals = {{.figure = "rate", .at_least = 0.9}}, .key = true, .drawn = true},
      {.name = "params4k", .params_bytes = 4 << 10, .node_params_bytes = 4 << 10},
      {.name = "params64k", .params_bytes = 64 << 10, .node_params_bytes = 64 << 10},
  };
}

inline std::vector<Case> BatchCases() {
  return {
      {.name = "report16x1", .kind = Kind::kReport, .callers = 16},
      {.name = "report16x10", .kind = Kind::kReport, .callers = 16, .batch = 10,
       .goals = {{.figure = "rate", .at_least = 1}, {.figure = "cpu_us", .at_most = 0.8}},
       .key = true, .drawn = true},
      {.name = "report16x32", .kind = Kind::kReport, .callers = 16, .batch = 32},
      {.name = "report16x100", .kind = Kind::kReport, .callers = 16, .batch = 100,
       .goals = {{.figure = "cpu_us", .at_most = 0.8}}, .key = true, .drawn = true},
      {.name = "work16x1", .kind = Kind::kWork, .callers = 16},
      {.name = "work16x10", .kind = Kind::kWork, .callers = 16, .batch = 10,
       .goals = {{.figure = "rate", .at_least = 1}}, .key = true, .drawn = true},
      {.name = "work16x100", .kind = Kind::kWork, .callers = 16, .batch = 100},
      {.name = "lifecycle1", .kind = Kind::kReport, .callers = 16, .batch = 10, .nodes = 1,
       .lifecycle = true},
      {.name = "lifecycle3", .kind = Kind::kReport, .callers = 16, .batch = 10, .nodes = 3,
       .lifecycle = true, .against = "report16x10",
       .goals = {{.figure = "cpu_us", .at_most = 1.3}}, .key = true},
      {.name = "lifecycle3starts", .kind = Kind::kReport, .callers = 16, .batch = 10, .nodes = 3,
       .lifecycle = true, .starts = true, .against = "report16x10",
       .goals = {{.figure = "cpu_us", .at_most = 1.3}}, .key = true},
      {.name = "lifecycle9", .kind = Kind::kReport, .callers = 16, .batch = 10, .nodes = 9,
       .lifecycle = true},
      {.name = "start64", .kind = Kind::kStart},
      {.name = "start16x10", .kind = Kind::kStart, .callers = 16, .batch = 10},
      {.name = "start16x100", .kind = Kind::kStart, .callers = 16, .batch = 100},
  };
}

// Where the time counts, not the rate.
inline std::vector<Case> TimedCases() {
  return {
      {.name = "open1k", .per_second = 1'000},
      {.name = "open10k", .kind = Kind::kReport, .callers = 16, .batch = 10,
       .per_second = 10'000},
      {.name = "handover", .kind = Kind::kRelay, .callers = 16, .instances = 1,
       .against = kFsync, .goals = {{.figure = "p50_ms", .at_most = 1.3}}, .key = true},
  };
}

// The same load with and without others beside it.
inline std::vector<Case> CrowdedCases() {
  return {
      {.name = "polls1k", .idle_polls = 1'000, .against = "unary64"},
      {.name = "polls10k", .idle_polls = 10'000, .against = "unary64",
       .goals = {{.figure = "rate", .at_least = 0.97}}, .key = true},
      {.name = "report16x10polls10k", .kind = Kind::kReport, .callers = 16, .batch = 10,
       .idle_polls = 10'000, .against = "report16x10",
       .goals = {{.figure = "rate", .at_least = 0.97}}, .key = true},
      // The floor beside as many: what of it is gRPC's.
      {.name = "unary64polls10k", .idle_polls = 10'000,
       .goals = {{.figure = "rate", .at_least = 0.9}}},
      {.name = "watchers1", .callers = 16, .watchers = 1, .against = "unary16"},
      {.name = "watchers10", .callers = 16, .watchers = 10, .against = "unary16"},
      {.name = "watchers100", .callers = 16, .watchers = 100, .against = "unary16",
       .goals = {{.figure = "rate", .at_least = 0.8}}, .key = true},
      // What rests is paid for when RocksDB merges tables: some 20 s of load apart.
      {.name = "resident1m", .kind = Kind::kReport, .callers = 16, .batch = 10,
       .resident = 1'000'000, .against = "report16x10",
       .goals = {{.figure = "rate", .at_least = 0.95}}, .key = true, .least_seconds = 25},
      {.name = "resident10m", .kind = Kind::kReport, .callers = 16, .batch = 10,
       .resident = 10'000'000, .against = "report16x10",
       .goals = {{.figure = "rate", .at_least = 0.95}}, .slow = true, .least_seconds = 25},
  };
}

// What a step or a child costs must not depend on how many there are.
inline std::vector<Case> PlanCases() {
  const std::vector<Goal> flat = {{.figure = "rate", .at_least = 0.8}};
  return {
      {.name = "plan10", .kind = Kind::kReport, .callers = 16, .batch = 10, .steps = 10,
       .stock = kMostSteps},
      {.name = "plan100k", .kind = Kind::kReport, .callers = 16, .batch = 10, .steps = kMostSteps,
       .stock = kMostSteps, .against = "plan10", .goals = flat, .key = true},
      {.name = "chains10", .kind = Kind::kReport, .callers = 16, .batch = 10,
       .shape = Shape::kChains, .steps = 10, .stock = kMostSteps},
      {.name = "chains100k", .kind = Kind::kReport, .callers = 16, .batch = 10,
       .shape = Shape::kChains, .steps = kMostSteps, .stock = kMostSteps, .against = "chains10",
       .goals = flat, .key = true},
      {.name = "fanout100", .kind = Kind::kReport, .callers = 16, .batch = 10, .lifecycle = true,
       .shape = Shape::kFan, .steps = 100, .instances = 32},
      {.name = "children10", .kind = Kind::kReport, .callers = 8, .batch = 8, .nodes = 1,
       .lifecycle = true, .shape = Shape::kChildren, .steps = 10, .instances = 7},
      {.name = "children100k", .kind = Kind::kReport, .callers = 8, .batch = 8, .nodes = 1,
       .lifecycle = true, .shape = Shape::kChildren, .steps = kMostSteps, .instances = 1,
       .against = "children10", .goals = flat},
      {.name = "planning10", .kind = Kind::kStart, .callers = 16, .batch = 100, .steps = 10},
      {.name = "planning100k", .kind = Kind::kStart, .callers = 1, .steps = kMostSteps,
       .against = "planning10", .goals = flat},
      {.name = "beside100k", .callers = 16, .planners = 1, .against = "unary16"},
  };
}

inline std::vector<Case> AllCases() {
  std::vector<Case> all;
  for (const auto& rows :
       {UnaryCases(), BatchCases(), TimedCases(), CrowdedCases(), PlanCases()}) {
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

// So small that it only shows whether it works.
inline Case Tiny(Case c) {
  const auto at_most = [](auto* number, auto most) { *number = *number > most ? most : *number; };
  at_most(&c.callers, 8);
  at_most(&c.idle_polls, 20);
  at_most(&c.watchers, 3);
  at_most(&c.resident, int64_t{100});
  at_most(&c.steps, 200);
  at_most(&c.planner_steps, 200);
  at_most(&c.stock, int64_t{1'000});
  at_most(&c.per_second, 1'000.0);
  c.least_seconds = 0;
  c.goals.clear();
  return c;
}

}  // namespace dfsmr::bench
