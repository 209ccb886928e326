// Batches of items of many instances: split by the partitions in which these live, and the replies
// joined in the order of the items. Items of one instance keep their order. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dfsmr/v1/runner.pb.h"
#include "dsrv/cluster/reach.h"
#include "storage/store.h"

namespace dfsmr {

// What one partition takes of a batch.
template <typename Request>
struct BatchPart {
  PartitionId partition = 0;
  Request request;
  std::vector<int> items = {};   // where they stand in the batch
  std::vector<int> starts = {};  // the same, of what a Report starts besides
};
template <typename Request>
using BatchParts = std::vector<BatchPart<Request>>;

// In order of their first items. What has no id goes to `any`, or where the rest of the batch does.
// A batch with more items than there may be, or with none, is one part, for home to refuse.
// `next` of a Report is left out: tasks are not of one partition.
BatchParts<v1::StartBatchRequest> Split(v1::StartBatchRequest&& batch, uint16_t partitions,
                                        PartitionId any);
BatchParts<v1::ReportRequest> Split(v1::ReportRequest&& batch, uint16_t partitions,
                                    PartitionId any);
BatchParts<v1::ExtendRequest> Split(v1::ExtendRequest&& batch, uint16_t partitions,
                                    PartitionId any = kHome);

// All the namespaces that the batch enters, in that order, each once. Empty: no more than one.
std::vector<std::string> NamespacesOf(const v1::StartBatchRequest& batch);
std::vector<std::string> NamespacesOf(const v1::ReportRequest& batch);
std::vector<std::string> NamespacesOf(const v1::ExtendRequest& batch);

// What became of one part.
template <typename Reply>
struct PartReply {
  std::optional<Reply> reply;
  v1::Error error = {};  // why there is none
};

// `replies`: of the parts, in their order. The items of a part without reply have its error; where
// no part has one the call fails, with the first part's, and `out` stays as it is.
std::optional<v1::Error> JoinReplies(const BatchParts<v1::StartBatchRequest>& parts,
                                     std::vector<PartReply<v1::StartBatchResponse>> replies,
                                     v1::StartBatchResponse* out);
std::optional<v1::Error> JoinReplies(const BatchParts<v1::ReportRequest>& parts,
                                     std::vector<PartReply<v1::ReportResponse>> replies,
                                     v1::ReportResponse* out);
std::optional<v1::Error> JoinReplies(const BatchParts<v1::ExtendRequest>& parts,
                                     std::vector<PartReply<v1::ExtendResponse>> replies,
                                     v1::ExtendResponse* out);

}  // namespace dfsmr
