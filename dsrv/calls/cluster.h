// ClusterService: who serves what.
#pragma once

#include "dfsmr/v1/cluster.pb.h"
#include "dsrv/access/roles.h"
#include "dsrv/calls/call.h"

namespace dfsmr {

inline constexpr Method kGetClusterMethod = {"dfsmr.v1.ClusterService/GetCluster", kReaders};
void ServeGetCluster(Call& call, const v1::GetClusterRequest& request, v1::Cluster* reply);

}  // namespace dfsmr
