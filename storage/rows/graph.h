// The rows of plans' graphs.
#pragma once

#include "fsm/plan/graph.h"
#include "storage/rows/reader.h"

namespace dfsmr::rows {

// The row of a graph; the same graph has the same row.
std::string GraphRow(const PlanGraph& graph);
// Puts it where instance.plan says.
void PutGraph(const Writer& writer, const Instance& instance, std::string row);
// The row that instance.plan names; nullopt: it is missing.
Result<std::optional<std::string>> GetGraphRow(const Reader& reader, const Instance& instance);
// The graph that instance.plan names. kDataLoss when it is missing or damaged.
Result<PlanGraph> GetGraph(const Reader& reader, const Instance& instance);
// The graph of a row; nullopt: it is damaged.
std::optional<PlanGraph> GraphIn(std::string_view row);

}  // namespace dfsmr::rows
