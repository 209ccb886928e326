// What a scrape shows of the servers that share a store. Plain values and their text; pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "dsrv/metrics/exposition.h"
#include "dsrv/metrics/snapshot.h"

namespace dfsmr::metrics {

struct ClusterCounts {
  std::map<std::string, uint64_t> partitions;  // by state, as this server sees them
  std::map<std::string, uint64_t> servers;     // the same
  double lease_seconds = 0;                    // that are left of it
  uint64_t crashes = 0;                        // take-overs after one
  uint64_t handovers = 0;
  Ranges takeover;
  std::map<std::pair<std::string, std::string>, uint64_t> forwarded;  // by method and outcome
  Ranges forward;
  uint64_t outbox = 0;
  uint64_t fenced = 0;
  std::map<std::string, uint64_t> connections;  // to the database, by state
};

// Without `whole` the families have no series.
void RenderCluster(const ClusterCounts& counts, bool whole, Exposition* out);

}  // namespace dfsmr::metrics
