// What a scrape shows of the servers that share a store, as one of them knows it.
#pragma once

#include <memory>

#include "dsrv/cluster/front.h"
#include "dsrv/cluster/keeper.h"
#include "dsrv/metrics/cluster.h"
#include "dsrv/shared.h"

namespace dfsmr {

// Any thread.
std::shared_ptr<const metrics::ClusterCounts> CountCluster(Front& front, const Keeper& keeper,
                                                           const ServerRow& self,
                                                           const StoreUse& use, uint64_t outbox);

}  // namespace dfsmr
