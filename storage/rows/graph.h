// The rows of plans' graphs.
#pragma once

#include "fsm/plan/graph.h"
#include "storage/rows/reader.h"

namespace dfsmr::rows {

void PutGraph(const Writer& writer, const Instance& instance, const PlanGraph& graph);
// The graph that instance.plan names. kDataLoss when it is missing or damaged.
Result<PlanGraph> GetGraph(const Reader& reader, const Instance& instance);

}  // namespace dfsmr::rows
