// How many instances there are of a namespace in one partition, for another.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "storage/rows/stats.h"
#include "storage/store.h"

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

// How far a trigger has read the feed of a partition.
struct FeedPlace {
  std::string trigger;
  PartitionId partition = 0;
  uint64_t position = 0;  // all records up to it have been looked at
  uint64_t lag = 0;       // how many are behind it
};

struct LiveCounts {
  std::vector<LiveCount> versions;
  std::vector<CauseCount> causes;
  std::vector<FeedPlace> places;

  bool Empty() const { return versions.empty() && causes.empty() && places.empty(); }
};

}  // namespace dfsmr
