// What several partitions have counted, each for itself, added up.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "storage/rows/keys.h"
#include "storage/rows/reader.h"

namespace dfsmr::rows {

// One row of several partitions.
struct RowOf {
  PartitionId partition = 0;
  std::string value;
};
// The row of all, of a kind of which each partition has its share: a machine's counters, a group,
// an agent, a bulk, a clock; of other kinds that of the first. `rows`: by partition, one at least.
Result<std::string> AddUp(Kind kind, std::string_view key, const std::vector<RowOf>& rows);

}  // namespace dfsmr::rows
