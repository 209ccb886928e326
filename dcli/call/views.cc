#include "dcli/call/views.h"

#include "dcli/call/calling.h"

namespace dfsmr::cli {

ViewCalls Client::views() { return ViewCalls(*this); }

Result<v1::Overview> ViewCalls::GetOverview(const v1::GetOverviewRequest& request) {
  return client_.Call<v1::Overview>(&ViewStub::GetOverview, request, true);
}
Result<v1::CountInstancesResponse> ViewCalls::CountInstances(
    const v1::CountInstancesRequest& request) {
  return client_.Call<v1::CountInstancesResponse>(&ViewStub::CountInstances, request, true);
}
Result<v1::ListStepsResponse> ViewCalls::ListSteps(const v1::ListStepsRequest& request) {
  return client_.Call<v1::ListStepsResponse>(&ViewStub::ListSteps, request, true);
}
Result<v1::GetStepResponse> ViewCalls::GetStep(const v1::GetStepRequest& request) {
  return client_.Call<v1::GetStepResponse>(&ViewStub::GetStep, request, true);
}
Result<v1::GetDurationsResponse> ViewCalls::GetDurations(const v1::GetDurationsRequest& request) {
  return client_.Call<v1::GetDurationsResponse>(&ViewStub::GetDurations, request, true);
}
Result<v1::ListQueuesResponse> ViewCalls::ListQueues(const v1::ListQueuesRequest& request) {
  return client_.Call<v1::ListQueuesResponse>(&ViewStub::ListQueues, request, true);
}
Result<v1::ListWorkersResponse> ViewCalls::ListWorkers(const v1::ListWorkersRequest& request) {
  return client_.Call<v1::ListWorkersResponse>(&ViewStub::ListWorkers, request, true);
}

Result<v1::Bulk> ViewCalls::StartBulk(const v1::StartBulkRequest& request) {
  const bool repeatable = request.validate_only() || !request.id().empty();
  return client_.Call<v1::Bulk>(&BulkStub::StartBulk, request, repeatable);
}
Result<v1::Bulk> ViewCalls::GetBulk(const v1::GetBulkRequest& request) {
  return client_.Call<v1::Bulk>(&BulkStub::GetBulk, request, true);
}
Result<v1::ListBulksResponse> ViewCalls::ListBulks(const v1::ListBulksRequest& request) {
  return client_.Call<v1::ListBulksResponse>(&BulkStub::ListBulks, request, true);
}
Result<v1::Bulk> ViewCalls::StopBulk(const v1::StopBulkRequest& request) {
  return client_.Call<v1::Bulk>(&BulkStub::StopBulk, request, true);
}

Result<v1::Cluster> ViewCalls::GetCluster(const v1::GetClusterRequest& request) {
  return client_.Call<v1::Cluster>(&ClusterStub::GetCluster, request, true);
}

}  // namespace dfsmr::cli
