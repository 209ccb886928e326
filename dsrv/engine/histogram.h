// What the timeout of a node was learned from, for people: few buckets, each a fixed factor wider
// than the one before it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fsm/derived/latency.h"

namespace dfsmr {

struct Histogram {
  static constexpr size_t kBuckets = 64;  // at most
  struct Bucket {
    Duration up_to{};
    uint64_t count = 0;      // timed out ones too
    uint64_t timed_out = 0;  // or cut short: they lasted at least that long
  };
  std::vector<Bucket> first;  // first attempts
  std::vector<Bucket> retries;
  std::optional<Duration> p50, p90, p95, p99;  // of first attempts
  std::optional<Duration> timeout_now;         // of the next first attempt; nullopt: none
  std::optional<Duration> retry_timeout_now;
  std::string rule;  // that the timeout follows, for people
  double meant = 0;  // the share of first attempts that is meant to time out
  double seen = 0;   // that did
  uint64_t samples = 0;
  std::optional<Timestamp> since;  // the window's begin
};

Histogram HistogramOf(const Latency& latency, const TimeoutPolicy& policy, uint64_t under_way);

}  // namespace dfsmr
