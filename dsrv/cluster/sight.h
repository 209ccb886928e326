// What a server knows of the others, as GetCluster tells it.
#pragma once

#include "dfsmr/v1/cluster.pb.h"
#include "dsrv/cluster/keeper.h"
#include "storage/roster.h"

namespace dfsmr {

// As of the last renewal that was answered. Any thread.
void Show(const Keeper& keeper, const ServerRow& self, const StoreFacts& store, v1::Cluster* out);

}  // namespace dfsmr
