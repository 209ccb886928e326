// ClusterService: who serves what.
#pragma once

#include "dfsmr/v1/cluster.pb.h"
#include "dsrv/calls/call.h"

namespace dfsmr {

void ServeGetCluster(Call& call, const v1::GetClusterRequest& request, v1::Cluster* reply);

}  // namespace dfsmr
