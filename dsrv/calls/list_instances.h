// ListInstances: the store has the instances, and the engine knows what those that wait wait for.
#pragma once

#include "dfsmr/v1/runner.pb.h"
#include "dsrv/calls/call.h"

namespace dfsmr {

void ServeListInstances(Call& call, const v1::ListInstancesRequest& request,
                        v1::ListInstancesResponse* reply);

}  // namespace dfsmr
