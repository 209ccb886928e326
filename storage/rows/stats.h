// The rows of machines' counters and latencies.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "fsm/derived/latency.h"
#include "storage/rows/reader.h"

namespace dfsmr::rows {

// Counters and latencies of one machine.
struct NodeCounts {
  uint64_t completed = 0;
  uint64_t timed_out = 0;
};
// By InstanceResult.
using ResultCounts = std::array<uint64_t, 8>;
struct StoppedCounts {
  uint64_t all = 0;
  ResultCounts results = {};  // of versions of packages only
  friend bool operator==(const StoppedCounts&, const StoppedCounts&) = default;
};
struct VersionCounts {
  StoppedCounts stopped;
  std::map<std::string, NodeCounts> nodes;
};
struct StatsRow {
  std::string ns;
  std::string machine;
  std::map<uint32_t, VersionCounts> versions;
  std::map<std::string, Latency::Snapshot> latencies;  // by node
  std::map<std::string, Pace> paces;                   // the same where home keeps latencies
};
void PutStats(const Writer& writer, const StatsRow& row);
// The last record of the feed that the stats rows account for; 0 when none was ever put.
void PutStatsSeq(const Writer& writer, uint64_t seq);
Result<uint64_t> GetStatsSeq(const Reader& reader);
Result<Ok> ScanStats(const Reader& reader, const std::function<void(StatsRow)>& visit);
// How many stopped instances of each version of a machine retention has dropped since PutStats,
// which removes this row.
using DroppedCounts = std::map<uint32_t, StoppedCounts>;
void PutDropped(const Writer& writer, std::string_view ns, std::string_view machine,
                const DroppedCounts& dropped);
Result<Ok> ScanDropped(const Reader& reader,
                       const std::function<void(const std::string& ns, const std::string& machine,
                                                const DroppedCounts&)>& visit);

}  // namespace dfsmr::rows
