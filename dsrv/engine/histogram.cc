#include "dsrv/engine/histogram.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "fsm/base/duration.h"
#include "fsm/derived/latency_buckets.h"

namespace dfsmr {
namespace {

struct Counted {
  uint64_t count = 0;
  uint64_t timed_out = 0;
};
using ByEnd = std::map<Duration, Counted>;

std::vector<Histogram::Bucket> Widen(const ByEnd& counts) {
  std::vector<Histogram::Bucket> buckets;
  if (counts.empty()) return buckets;
  const auto us = [](Duration d) { return static_cast<double>(std::max<int64_t>(d.count(), 1)); };
  const double first = us(counts.begin()->first);
  const double last = us(counts.rbegin()->first);
  // The last bucket ends where the longest does, or a little later.
  const double factor =
      std::max(1.1, std::pow(last / first, 1.0 / (Histogram::kBuckets - 1)) * 1.000001);
  double end = first;
  buckets.push_back({Duration(static_cast<int64_t>(end)), 0, 0});
  for (const auto& [up_to, counted] : counts) {
    while (us(up_to) > end) {
      end = std::ceil(end * factor);
      buckets.push_back({Duration(static_cast<int64_t>(end)), 0, 0});
    }
    buckets.back().count += counted.count;
    buckets.back().timed_out += counted.timed_out;
  }
  return buckets;
}

std::string Percent(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

std::string RuleOf(const Latency& latency, const TimeoutPolicy& policy) {
  if (policy.AtMostOnce()) return "at most once";
  if (policy.strategy == TimeoutPolicy::Strategy::kFixed) {
    return "fixed " + FormatDuration(Duration(static_cast<int64_t>(policy.value * 1e6)));
  }
  if (latency.Samples() < Latency::kEnough) {
    return "initial " + FormatDuration(policy.initial) + ": " + std::to_string(latency.Samples()) +
           " of " + std::to_string(Latency::kEnough) + " samples";
  }
  return "percentile " + Percent(policy.value);
}

}  // namespace

Histogram HistogramOf(const Latency& latency, const TimeoutPolicy& policy, uint64_t under_way) {
  Histogram out;
  ByEnd first;
  ByEnd retries;
  uint64_t timed_out = 0;
  for (const Sketch::SavedSlice& slice : latency.Save().slices) {
    if (!slice.retries && (!out.since || slice.start < *out.since)) out.since = slice.start;
    for (const Sketch::Count& count : slice.counts) {
      Counted& to = (slice.retries ? retries : first)[LongestIn(count.bucket)];
      to.count += count.exact + count.censored;
      to.timed_out += count.censored;
      if (!slice.retries) timed_out += count.censored;
    }
  }
  out.first = Widen(first);
  out.retries = Widen(retries);
  out.p50 = latency.Quantile(50);
  out.p90 = latency.Quantile(90);
  out.p95 = latency.Quantile(95);
  out.p99 = latency.Quantile(99);
  out.timeout_now = latency.Timeout(policy, /*retry=*/false, under_way);
  out.retry_timeout_now = latency.Timeout(policy, /*retry=*/true, under_way);
  out.rule = RuleOf(latency, policy);
  const bool percentile =
      policy.strategy == TimeoutPolicy::Strategy::kPercentile && !policy.AtMostOnce();
  if (percentile) out.meant = (100 - policy.value) / 100;
  out.samples = latency.Samples();
  if (out.samples > 0) out.seen = static_cast<double>(timed_out) / static_cast<double>(out.samples);
  return out;
}

}  // namespace dfsmr
