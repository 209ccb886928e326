#include "dsrv/cluster/batches.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "fsm/base/limits.h"
#include "fsm/base/result.h"
#include "storage/place.h"

namespace dfsmr {
namespace {

constexpr int kMostItems = static_cast<int>(limits::kBatchItems);

// The part of a partition, made when it is missing.
template <typename Request>
BatchPart<Request>& PartOf(PartitionId partition, BatchParts<Request>* parts) {
  const auto found = std::ranges::find(*parts, partition, &BatchPart<Request>::partition);
  if (found != parts->end()) return *found;
  return parts->emplace_back(BatchPart<Request>{partition, Request()});
}

std::vector<int> UpTo(int count) {
  std::vector<int> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

int HighestOf(const std::vector<int>& places, int highest) {
  return places.empty() ? highest : std::max(highest, places.back() + 1);
}

v1::Error TooShort() {
  v1::Error error;
  error.set_code(static_cast<int>(Code::kInternal));
  error.set_message("the owner of the item's partition has answered fewer items than it was sent");
  return error;
}

// The results of one part, which go to their places in all.
template <typename List>
void PutResults(const std::vector<int>& places, List* results, const v1::Error& otherwise,
                List* all) {
  for (size_t i = 0; i < places.size(); ++i) {
    auto* const to = all->Mutable(places[i]);
    if (results && static_cast<int>(i) < results->size()) {
      *to = std::move(*results->Mutable(static_cast<int>(i)));
    } else {
      *to->mutable_error() = otherwise;
    }
  }
}

template <typename List>
void Grow(int size, List* list) {
  while (list->size() < size) list->Add();
}

// The error of a batch of which no part was answered.
template <typename Reply>
std::optional<v1::Error> FailureOf(const std::vector<PartReply<Reply>>& replies) {
  for (const PartReply<Reply>& one : replies) {
    if (one.reply) return std::nullopt;
  }
  return replies.front().error;
}

// `results`: the list of results in a reply. `places`: of a part.
template <typename Request, typename Reply, typename Results, typename Places>
void JoinList(const BatchParts<Request>& parts, std::vector<PartReply<Reply>>* replies,
              Results results, Places places, Reply* out) {
  int size = 0;
  for (const BatchPart<Request>& part : parts) size = HighestOf(places(part), size);
  Grow(size, results(out));
  for (size_t i = 0; i < parts.size(); ++i) {
    PartReply<Reply>& one = (*replies)[i];
    PutResults(places(parts[i]), one.reply ? results(&*one.reply) : nullptr,
               one.reply ? TooShort() : one.error, results(out));
  }
}

const auto kItemsOf = [](const auto& part) -> const std::vector<int>& { return part.items; };
const auto kStartsOf = [](const auto& part) -> const std::vector<int>& { return part.starts; };

}  // namespace

BatchParts<v1::StartBatchRequest> Split(v1::StartBatchRequest&& batch, uint16_t partitions,
                                        PartitionId any) {
  BatchParts<v1::StartBatchRequest> parts;
  const int count = batch.starts_size();
  if (count == 0 || count > kMostItems) {
    parts.push_back({kHome, std::move(batch), UpTo(count)});
    return parts;
  }
  for (int i = 0; i < count; ++i) {
    v1::StartRequest& start = *batch.mutable_starts(i);
    auto& part = PartOf(start.id().empty()
                            ? any
                            : PartitionOf(start.namespace_(), start.id(), partitions),
                        &parts);
    *part.request.add_starts() = std::move(start);
    part.items.push_back(i);
  }
  return parts;
}

BatchParts<v1::ReportRequest> Split(v1::ReportRequest&& batch, uint16_t partitions,
                                    PartitionId any) {
  BatchParts<v1::ReportRequest> parts;
  batch.clear_next();
  const int reports = batch.transitions_size();
  const int starts = batch.starts_size();
  if (reports + starts == 0 || reports > kMostItems || starts > kMostItems) {
    parts.push_back({kHome, std::move(batch), UpTo(reports), UpTo(starts)});
    return parts;
  }
  for (int i = 0; i < reports; ++i) {
    v1::TransitionRequest& report = *batch.mutable_transitions(i);
    auto& part = PartOf(PartitionOf(report.namespace_(), report.instance(), partitions), &parts);
    *part.request.add_transitions() = std::move(report);
    part.items.push_back(i);
  }
  const PartitionId without = parts.empty() ? any : parts.front().partition;
  for (int i = 0; i < starts; ++i) {
    v1::StartRequest& start = *batch.mutable_starts(i);
    auto& part = PartOf(start.id().empty()
                            ? without
                            : PartitionOf(start.namespace_(), start.id(), partitions),
                        &parts);
    *part.request.add_starts() = std::move(start);
    part.starts.push_back(i);
  }
  return parts;
}

BatchParts<v1::ExtendRequest> Split(v1::ExtendRequest&& batch, uint16_t partitions, PartitionId) {
  BatchParts<v1::ExtendRequest> parts;
  const int count = batch.items_size();
  if (count == 0 || count > kMostItems) {
    parts.push_back({kHome, std::move(batch), UpTo(count)});
    return parts;
  }
  for (int i = 0; i < count; ++i) {
    v1::ExtendRequest::Item& item = *batch.mutable_items(i);
    auto& part = PartOf(PartitionOf(batch.namespace_(), item.instance(), partitions), &parts);
    if (part.items.empty()) part.request.set_namespace_(batch.namespace_());
    *part.request.add_items() = std::move(item);
    part.items.push_back(i);
  }
  return parts;
}

namespace {

// Namespaces, each once.
class Entered {
 public:
  void Enter(const std::string& ns) {
    const std::string name = ns.empty() ? "default" : ns;
    if (known_.insert(name).second) names_.push_back(name);
  }
  std::vector<std::string> Take() {
    if (names_.size() < 2) names_.clear();
    return std::move(names_);
  }

 private:
  std::set<std::string> known_;
  std::vector<std::string> names_;
};

}  // namespace

std::vector<std::string> NamespacesOf(const v1::StartBatchRequest& batch) {
  Entered entered;
  for (const v1::StartRequest& start : batch.starts()) entered.Enter(start.namespace_());
  return entered.Take();
}

std::vector<std::string> NamespacesOf(const v1::ReportRequest& batch) {
  Entered entered;
  if (batch.transitions_size() > 0) entered.Enter(batch.transitions(0).namespace_());
  for (const v1::StartRequest& start : batch.starts()) entered.Enter(start.namespace_());
  for (const v1::TransitionRequest& report : batch.transitions()) {
    entered.Enter(report.namespace_());
    for (const v1::StartRequest& start : report.starts()) {
      if (!start.namespace_().empty()) entered.Enter(start.namespace_());  // else the report's
    }
  }
  return entered.Take();
}

std::vector<std::string> NamespacesOf(const v1::ExtendRequest&) { return {}; }

std::optional<v1::Error> JoinReplies(const BatchParts<v1::StartBatchRequest>& parts,
                                     std::vector<PartReply<v1::StartBatchResponse>> replies,
                                     v1::StartBatchResponse* out) {
  if (auto failure = FailureOf(replies)) return failure;
  JoinList(parts, &replies, [](auto* reply) { return reply->mutable_results(); }, kItemsOf, out);
  return std::nullopt;
}

std::optional<v1::Error> JoinReplies(const BatchParts<v1::ReportRequest>& parts,
                                     std::vector<PartReply<v1::ReportResponse>> replies,
                                     v1::ReportResponse* out) {
  if (auto failure = FailureOf(replies)) return failure;
  JoinList(parts, &replies, [](auto* reply) { return reply->mutable_results(); }, kItemsOf, out);
  JoinList(parts, &replies, [](auto* reply) { return reply->mutable_started(); }, kStartsOf, out);
  return std::nullopt;
}

std::optional<v1::Error> JoinReplies(const BatchParts<v1::ExtendRequest>& parts,
                                     std::vector<PartReply<v1::ExtendResponse>> replies,
                                     v1::ExtendResponse* out) {
  if (auto failure = FailureOf(replies)) return failure;
  JoinList(parts, &replies, [](auto* reply) { return reply->mutable_items(); }, kItemsOf, out);
  return std::nullopt;
}

}  // namespace dfsmr
