#include "dsrv/cluster/log_shares.h"

#include <map>
#include <utility>

#include "storage/place.h"

namespace dfsmr {
namespace {

constexpr size_t kLogRequest = 1 << 20;  // bytes of a request

}  // namespace

void LogShares::Take(std::string bytes) {
  v1::AppendLogsRequest request;
  const bool first = taken_++ == 0;
  requests_.emplace_back();
  const bool sound = bytes.size() <= kLogRequest && request.ParseFromString(bytes) &&
                     (first || request.namespace_().empty());
  if (!sound) return Add(kHome, std::move(bytes));
  if (first) ns_ = request.namespace_();
  std::map<PartitionId, v1::AppendLogsRequest> shares;
  if (first || request.batches().empty()) shares[kHome];
  const auto partitions = static_cast<uint16_t>(parts_.size());
  for (v1::LogBatch& batch : *request.mutable_batches()) {
    const PartitionId of = PartitionOf(ns_, batch.instance(), partitions);
    *shares[of].add_batches() = std::move(batch);
  }
  for (const auto& [of, share] : shares) Add(of, share.SerializeAsString());
}

void LogShares::Add(PartitionId partition, std::string bytes) {
  ++requests_.back().left;
  parts_[partition].unanswered.push_back({taken_, std::move(bytes)});
}

std::optional<std::string> LogShares::NextFor(PartitionId partition) {
  if (!HasNextFor(partition)) return std::nullopt;
  Part& part = parts_[partition];
  const std::string& share = part.unanswered[part.said++].bytes;
  if (std::exchange(part.begun, true)) return share;
  v1::AppendLogsRequest opening;
  opening.set_namespace_(ns_);
  return opening.SerializeAsString() + share;  // as one message
}

void LogShares::TakeAnswer(PartitionId partition, const v1::AppendLogsResponse& answer) {
  Part& part = parts_[partition];
  for (; part.answered < answer.requests() && part.said > 0; ++part.answered, --part.said) {
    // Those that all have answered are gone from the front.
    Request& request =
        requests_[requests_.size() - 1 - (taken_ - part.unanswered.front().request)];
    --request.left;
    request.refused.insert(answer.refused_claims().begin(), answer.refused_claims().end());
    part.unanswered.pop_front();
  }
}

void LogShares::Lose(PartitionId partition) {
  Part& part = parts_[partition];
  /*mutant front-log-lines-lost*/ part.said = 0; /*end*/
  part.begun = false;
  part.answered = 0;
}

std::optional<v1::AppendLogsResponse> LogShares::TakeResponse() {
  if (requests_.empty()) return std::nullopt;
  if (/*mutant front-log-answered-early*/ requests_.front().left > 0 /*end*/) return std::nullopt;
  v1::AppendLogsResponse response;
  for (const std::string& claim : requests_.front().refused) response.add_refused_claims(claim);
  requests_.pop_front();
  response.set_requests(taken_ - requests_.size());
  return response;
}

}  // namespace dfsmr
