// What a scrape shows of the servers that share a store, as one of them knows it.
#pragma once

#include <memory>

#include "dsrv/cluster/front.h"
#include "dsrv/cluster/keeper.h"
#include "dsrv/metrics/cluster.h"
#include "dsrv/served.h"

namespace dfsmr {

// `served`: null while this server owns nothing. `fenced`: commits before this one's. Any thread.
std::shared_ptr<const metrics::ClusterCounts> CountCluster(Front& front, const Keeper& keeper,
                                                           const ServerRow& self,
                                                           const Served* served, uint64_t fenced);

}  // namespace dfsmr
