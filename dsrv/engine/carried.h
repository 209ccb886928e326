// Whether the rows of an instance that an import brings are sound: whatever they are, the engine
// takes only what it could have written itself. Pure, for any thread.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "dsrv/engine/imports.h"
#include "storage/rows/instance.h"

namespace dfsmr {

struct CarriedSurroundings {
  rows::Resolve resolve;                      // the versions that come along
  std::map<std::string, std::string> graphs;  // that instances share: rows, by name
  // Whether a text is a flow, as sent with a start or reported by a planner.
  std::function<bool(const std::string& text)> is_flow;
  // Whether a text is a JSON object, or empty.
  std::function<bool(const std::string& text)> is_object;
};

// BAD_ARCHIVE names the instance.
Result<Ok> CheckCarried(const CarriedInstance& rows, const CarriedSurroundings& around);

// Whether the graph in such a row can be used.
bool IsGraph(const std::string& row);

}  // namespace dfsmr
