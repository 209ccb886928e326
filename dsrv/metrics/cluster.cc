#include "dsrv/metrics/cluster.h"

namespace dfsmr::metrics {
namespace {

constexpr double kMicrosPerSecond = 1e6;

void AddStates(const std::map<std::string, uint64_t>& states, bool whole, Exposition* out) {
  if (!whole) return;
  for (const auto& [state, count] : states) out->Add(Labels().With("state", state), count);
}

void AddTimes(const Ranges& ranges, bool whole, Exposition* out) {
  if (!whole || ranges.counts.empty()) return;
  out->AddHistogram({}, ranges.edges, ranges.counts, ranges.sum, kMicrosPerSecond);
}

}  // namespace

void RenderCluster(const ClusterCounts& counts, bool whole, Exposition* out) {
  out->Family("dfsmr_partitions", Type::kGauge, "Partitions of the store, as this server sees them.");
  AddStates(counts.partitions, whole, out);
  out->Family("dfsmr_cluster_servers", Type::kGauge, "Servers that share the store.");
  AddStates(counts.servers, whole, out);
  out->Family("dfsmr_lease_remaining_seconds", Type::kGauge,
              "For how long this server may still answer without a renewal.");
  if (whole) out->Add({}, counts.lease_seconds);
  out->Family("dfsmr_takeovers", Type::kCounter, "Partitions that this server has taken.");
  if (whole) {
    out->Add(Labels().With("why", "crash"), counts.crashes);
    out->Add(Labels().With("why", "handover"), counts.handovers);
  }
  out->Family("dfsmr_takeover_seconds", Type::kHistogram, "From taking one to serving it.");
  AddTimes(counts.takeover, whole, out);
  out->Family("dfsmr_forwarded_calls", Type::kCounter, "Calls that were passed on to the owner.");
  if (whole) {
    for (const auto& [labels, count] : counts.forwarded) {
      out->Add(Labels().With("method", labels.first).With("outcome", labels.second), count);
    }
  }
  out->Family("dfsmr_forward_seconds", Type::kHistogram,
              "How long they took, without streams and those that waited.");
  AddTimes(counts.forward, whole, out);
  out->Family("dfsmr_outbox_messages", Type::kGauge, "Messages on their way to other partitions.");
  if (whole) out->Add({}, counts.outbox);
  out->Family("dfsmr_fenced_commits", Type::kCounter,
              "Commits that the database refused, since another server owns the partition.");
  if (whole) out->Add({}, counts.fenced);
  out->Family("dfsmr_store_connections", Type::kGauge, "Connections to the database.");
  AddStates(counts.connections, whole, out);
}

}  // namespace dfsmr::metrics
