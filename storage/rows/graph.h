// The rows of plans' graphs.
#pragma once

#include "fsm/plan/compile.h"
#include "storage/rows/reader.h"

namespace dfsmr::rows {

void PutGraph(const Writer& writer, const Instance& instance, const PlanGraph& graph);
// kNotFound when it is not there. The schemas' checks are not made: only their texts are kept.
Result<PlanGraph> GetGraph(const Reader& reader, const Instance& instance);

}  // namespace dfsmr::rows
