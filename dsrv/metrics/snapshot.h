// Everything that one scrape shows, as it stood at one moment. Plain values: gather.h fills them
// in, render.h makes text of them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dsrv/calls/call_meter.h"
#include "dsrv/engine/measured.h"
#include "dsrv/engine/package_views.h"
#include "dsrv/otlp/exporter.h"

namespace dfsmr::metrics {

// A copy of a Spread with any edges.
struct Ranges {
  std::span<const uint64_t> edges;
  std::vector<uint64_t> counts;
  uint64_t sum = 0;

  Ranges() = default;
  template <typename Spread>
  explicit Ranges(const Spread& from) : edges(Spread::edges()), sum(from.sum()) {
    const auto copy = from.counts();
    counts.assign(copy.begin(), copy.end());
  }
};

struct AgentCounts {
  std::map<std::string, uint64_t> by_state;  // "active" …
  uint64_t slots = 0;                        // of those that are connected
  uint64_t operations = 0;
};
struct LimitCounts {
  uint64_t held = 0;
  uint64_t waiting = 0;
};
struct PackageCounts {
  uint64_t bytes = 0;    // of the archives
  uint64_t blocked = 0;  // versions that are in use
};
struct WatcherCounts {
  std::string name;  // of its class
  uint64_t count = 0;
  uint64_t lag_records = 0;  // of the slowest
  double lag_seconds = 0;
};
struct LoopCounts {
  uint64_t turns = 0;
  Ranges turn_records;
  uint64_t mailbox = 0;
  Ranges mailbox_wait;
  std::map<std::string, uint64_t> stage_us;
  uint64_t commits = 0;
  Ranges commit;
  uint64_t bytes = 0;
  uint64_t puts = 0;
  uint64_t deletes = 0;
};
struct StoreCounts {
  Ranges sync;
  std::vector<std::pair<std::string, uint64_t>> bytes;  // by kind
  bool stalled = false;
  std::optional<uint64_t> disk_free;
  std::string room;
};
struct ProcessCounts {
  double cpu_seconds = 0;
  double start_seconds = 0;  // since 1970
  uint64_t virtual_bytes = 0;
  uint64_t resident_bytes = 0;
  uint64_t files = 0;
  uint64_t most_files = 0;
};

struct ClusterCounts;  // cluster.h

struct Snapshot {
  Measured measured;
  // By namespace, and by namespace and source or limit.
  using Name = std::pair<std::string, std::string>;
  std::map<std::string, AgentCounts> agents;
  std::map<Name, LimitCounts> limits;
  std::map<std::string, PackageCounts> packages;  // of namespaces that have any
  ActivationOutcomes activations;
  std::map<Name, uint64_t> trigger_lags;
  std::map<Name, uint64_t> dead_letters;

  std::map<CallMeter::Kind, uint64_t> calls;
  Ranges call_seconds;
  int64_t calls_open = 0;
  std::map<std::string, uint64_t> refusals;
  LoopCounts loop;
  StoreCounts store;
  uint64_t feed_first = 0;
  uint64_t feed_last = 0;
  std::vector<WatcherCounts> watchers;

  uint64_t http_connections = 0;
  std::map<std::string, uint64_t> http_closed;
  std::optional<otlp::Exporter::Counts> spans;  // nullopt: without a collector
  uint64_t log_lines = 0;
  uint64_t log_lines_left_out = 0;
  uint64_t log_bytes = 0;

  bool backs_up = false;              // the server was told to
  std::optional<double> backup_time;  // of the last good one, in seconds since 1970
  uint64_t backup_bytes = 0;
  uint64_t backup_failures = 0;

  std::string version;
  std::optional<double> tls_expiry;  // in seconds since 1970
  bool audit_failed = false;
  ProcessCounts process;
  std::shared_ptr<const ClusterCounts> cluster;  // null: the store is this server's alone
};

}  // namespace dfsmr::metrics
