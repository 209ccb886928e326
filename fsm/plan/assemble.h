// The graph of a plan as the nodes of a machine.
#pragma once

#include <memory>
#include <vector>

#include "fsm/machine/machine.h"
#include "fsm/plan/graph.h"

namespace dfsmr {

// The nodes of a graph. For a step S of kind kWork: work node S (ok → what waits for it, error →
// S/error, suspend → S/suspended), held node S/error (retry → S, skip → what waits for it), manual
// node S/suspended (wake → S). kSpawn: manual node S (ok, error), held S/error. kPass: gate S.
// Gates: gate nodes (ok). In front of the steps of a section gate SECTION, and behind them gate
// SECTION/end; in front of and behind its compensation, which nothing leads to and which leads
// nowhere, SECTION/compensate and SECTION/compensate/end. Finalize phases: work nodes S/finalize,
// in a chain after everything else (ok → the next), held S/finalize/error (retry → the first of the
// chain, skip → the next). Before and after everything: gate /start and final node /end. Each node
// with several before it has join kAll. In a planning graph the nodes of planners are work nodes S
// (planned → /end), without more. `machine` brings id, description and the like; nodes, index and
// start are filled in.
Machine Assemble(std::shared_ptr<const PlanGraph> graph, Machine machine);

// Where those nodes are, without making them: of 100,000 steps they are 300,000.
struct NodeNumbers {
  std::vector<NodeIndex> places;     // of each place the first node
  std::vector<uint32_t> finalizers;  // steps with a finalize phase
  NodeIndex finalize = 0;            // the first of their nodes, each followed by its held one
  NodeIndex end = 0;

  NodeIndex Finalize(size_t position) const {
    return finalize + static_cast<NodeIndex>(2 * position);
  }
};
NodeNumbers NumberNodes(const PlanGraph& graph);

}  // namespace dfsmr
