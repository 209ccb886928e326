// How many instances there are of a namespace in one partition, for another.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "storage/rows/stats.h"

namespace dfsmr {

// Of one version of a machine.
struct LiveCount {
  std::string machine;
  uint32_t version = 0;
  uint64_t live = 0;      // that have not stopped
  uint64_t dry_runs = 0;  // the same of dry runs
  rows::ResultCounts results = {};  // of those that have stopped
};
// Of those that a schedule or trigger has started, and that go on.
struct CauseCount {
  std::string cause;
  uint64_t running = 0;
  uint64_t waiting = 0;
};

struct LiveCounts {
  std::vector<LiveCount> versions;
  std::vector<CauseCount> causes;

  bool Empty() const { return versions.empty() && causes.empty(); }
};

}  // namespace dfsmr
