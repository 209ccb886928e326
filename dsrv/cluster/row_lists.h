// Lists of which several partitions may have the same row: pages of one list, with the rows of all
// added up. Pure.
#pragma once

#include <vector>

#include "dfsmr/v1/agent.pb.h"
#include "dfsmr/v1/package.pb.h"
#include "dfsmr/v1/runner.pb.h"
#include "dfsmr/v1/view.pb.h"

namespace dfsmr {

// `parts`: what partitions reply to `request`, each a page of its own list. What of a row is not a
// number is of the first that has it.
v1::ListMachinesResponse JoinParts(const v1::ListMachinesRequest& request,
                                   std::vector<v1::ListMachinesResponse> parts);
v1::ListNamespacesResponse JoinParts(const v1::ListNamespacesRequest& request,
                                     std::vector<v1::ListNamespacesResponse> parts);
v1::ListAgentsResponse JoinParts(const v1::ListAgentsRequest& request,
                                 std::vector<v1::ListAgentsResponse> parts);
v1::ListQueuesResponse JoinParts(const v1::ListQueuesRequest& request,
                                 std::vector<v1::ListQueuesResponse> parts);
v1::ListWorkersResponse JoinParts(const v1::ListWorkersRequest& request,
                                  std::vector<v1::ListWorkersResponse> parts);

}  // namespace dfsmr
