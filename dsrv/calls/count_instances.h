// CountInstances: by counters where they can tell, else by searching.
#pragma once

#include "dfsmr/v1/view.pb.h"
#include "dsrv/calls/call.h"

namespace dfsmr {

void ServeCountInstances(Call& call, const v1::CountInstancesRequest& request,
                         v1::CountInstancesResponse* reply);

}  // namespace dfsmr
