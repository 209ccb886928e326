// Planning as a value: what the graph of an instance is made from, and what comes of it. It needs
// nothing of the engine, so that it can be done on any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "dsrv/engine/names.h"
#include "fsm/base/diagnostic.h"
#include "fsm/base/result.h"
#include "fsm/machine/machine.h"
#include "fsm/plan/source.h"
#include "fsm/rules/instance.h"

namespace dfsmr {

struct Planning {
  std::string instance;
  std::string machine;
  std::shared_ptr<const PlanSource> source;
  std::shared_ptr<const Spec> spec;
  // What is defined when planning begins: what is defined later makes no difference to it.
  std::shared_ptr<const DefinitionSet> definitions;
  // The flows that planners have reported, as text, by step.
  std::map<std::string, std::string> flows;
  std::function<Result<std::shared_ptr<const PlanSource>>(std::string_view, TextOrigin)> parse_flow;

  // How much text is read: of params and of flows.
  size_t bytes() const;
};

struct PlanningResult {
  std::shared_ptr<const Machine> machine;  // with the graph; null: `problem` says why
  std::string row;                         // of the graph, to be stored
  bool own = false;                        // other params could have led to another graph
  std::string problem;
  bool too_large = false;  // the problem is that there are more than `steps_max` steps
};

// Any thread. The work grows with planning.bytes(), and with the steps up to `steps_max`.
PlanningResult MakeGraph(const Planning& planning, size_t steps_max);

}  // namespace dfsmr
