// The calls of ViewService, BulkService and ClusterService.
#pragma once

#include "dcli/call/client.h"
#include "dfsmr/v1/cluster.pb.h"
#include "dfsmr/v1/view.pb.h"

namespace dfsmr::cli {

// Valid as long as their client.
class ViewCalls {
 public:
  explicit ViewCalls(Client& client) : client_(client) {}

  Result<v1::Overview> GetOverview(const v1::GetOverviewRequest& request);
  Result<v1::CountInstancesResponse> CountInstances(const v1::CountInstancesRequest& request);
  Result<v1::ListStepsResponse> ListSteps(const v1::ListStepsRequest& request);
  Result<v1::GetStepResponse> GetStep(const v1::GetStepRequest& request);
  Result<v1::GetDurationsResponse> GetDurations(const v1::GetDurationsRequest& request);
  Result<v1::ListQueuesResponse> ListQueues(const v1::ListQueuesRequest& request);
  Result<v1::ListWorkersResponse> ListWorkers(const v1::ListWorkersRequest& request);

  // Repeated when the connection breaks only if the request has an id, or changes nothing.
  Result<v1::Bulk> StartBulk(const v1::StartBulkRequest& request);
  Result<v1::Bulk> GetBulk(const v1::GetBulkRequest& request);
  Result<v1::ListBulksResponse> ListBulks(const v1::ListBulksRequest& request);
  Result<v1::Bulk> StopBulk(const v1::StopBulkRequest& request);

  Result<v1::Cluster> GetCluster(const v1::GetClusterRequest& request);

 private:
  Client& client_;
};

}  // namespace dfsmr::cli
