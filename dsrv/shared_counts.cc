#include "dsrv/shared_counts.h"

#include "dfsmr/v1/cluster.pb.h"
#include "dsrv/cluster/sight.h"

namespace dfsmr {
namespace {

const char* StateOf(v1::Server::State state) {
  return state == v1::Server::SILENT ? "silent" : state == v1::Server::LEAVING ? "leaving" : "up";
}

const char* StateOf(const v1::Partition& partition, const ServerRow& self, const Front& front) {
  if (partition.state() == v1::Partition::NO_OWNER) return "no_owner";
  if (partition.server() != self.id) return "elsewhere";
  const auto route = front.route(static_cast<PartitionId>(partition.id()));
  return route->kind == Route::Kind::kHere ? "serving" : "loading";
}

}  // namespace

std::shared_ptr<const metrics::ClusterCounts> CountCluster(Front& front, const Keeper& keeper,
                                                           const ServerRow& self,
                                                           const StoreUse& use,
                                                           uint64_t outbox) {
  auto counts = std::make_shared<metrics::ClusterCounts>();
  v1::Cluster cluster;
  Show(keeper, self, {}, &cluster);
  for (const char* state : {"up", "leaving", "silent"}) counts->servers[state] = 0;
  for (const v1::Server& server : cluster.servers()) ++counts->servers[StateOf(server.state())];
  for (const char* state : {"serving", "loading", "elsewhere", "no_owner"}) {
    counts->partitions[state] = 0;
  }
  for (const v1::Partition& partition : cluster.partitions()) {
    ++counts->partitions[StateOf(partition, self, front)];
  }
  counts->lease_seconds = std::chrono::duration<double>(keeper.lease_left()).count();
  const ClusterMeter& meter = front.meter();
  counts->crashes = meter.crashes();
  counts->handovers = meter.handovers();
  counts->takeover = metrics::Ranges(meter.takeover());
  counts->forwarded = meter.forwards();
  counts->forward = metrics::Ranges(meter.forward());
  counts->outbox = outbox;
  counts->fenced = use.fenced;
  counts->connections = {{"idle", use.idle}, {"busy", use.busy}, {"lease", 1}};
  return counts;
}

}  // namespace dfsmr
