#include "dsrv/cluster/sums.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "dsrv/cluster/fields.h"
#include "fsm/base/limits.h"

namespace dfsmr {
namespace {

void AddNodeStats(const v1::NodeStats& part, v1::NodeStats* sum) {
  AddNumbers(part,
             {"ready", "claimed", "waiting", "held", "completed", "timed_out", "limited"}, sum);
}

void AddMachineStats(const v1::MachineStats& part, v1::MachineStats* sum) {
  AddNumbers(part, {"scheduled", "running", "paused", "stopped"}, sum);
  TakeGreater(part, {"retry_rate"}, sum);
  sum->set_breaker(WorseBreaker(sum->breaker(), part.breaker()));
  sum->set_loading(sum->loading() || part.loading());
}

}  // namespace

std::string WorseBreaker(const std::string& a, const std::string& b) {
  for (const char* const breaker : {"open", "half-open"}) {
    if (a == breaker || b == breaker) return breaker;
  }
  return a.empty() ? b : a;
}

void Add(const v1::Machine& part, v1::Machine* sum) {
  AddMachineStats(part.stats(), sum->mutable_stats());
  std::unordered_map<std::string_view, const v1::Node*> nodes;
  for (const v1::Node& node : part.nodes()) nodes.emplace(node.id(), &node);
  for (v1::Node& node : *sum->mutable_nodes()) {
    const auto found = nodes.find(node.id());
    if (found == nodes.end() || !found->second->has_stats()) continue;
    AddNodeStats(found->second->stats(), node.mutable_stats());
  }
}

void NoteMissing(const std::vector<std::string>& servers, v1::Machine* sum) {
  if (!servers.empty()) sum->mutable_stats()->set_loading(true);
}

void NoteMissing(const std::vector<std::string>& servers, v1::ListMachinesResponse* sum) {
  for (v1::Machine& machine : *sum->mutable_machines()) NoteMissing(servers, &machine);
}

void Add(const v1::Namespace& part, v1::Namespace* sum) {
  AddNumbers(part.usage(),
        {"live_instances", "ready_tasks", "claimed_tasks", "starts_per_second",
         "stopped_instances"},
        sum->mutable_usage());
}

void Add(const v1::Agent& part, v1::Agent* sum) {
  AddNumbers(part, {"in_hand", "done", "failed", "abandoned"}, sum);
  TakeGreater(part, {"last_seen"}, sum);
  sum->mutable_operations()->MergeFrom(part.operations());
  // What several partitions do not offer it for now is told once, with the latest end.
  AddRows(
      part.refuses(),
      [](const v1::RefusedWork& one) {
        return std::tuple(one.machine(), one.node(), one.version());
      },
      [](const v1::RefusedWork& one, v1::RefusedWork* known) {
        TakeGreater(one, {"until"}, known);
      },
      sum->mutable_refuses());
  // Where it is connected nobody knows what it has in hand elsewhere.
  const bool drains = sum->state() == v1::Agent::DRAINED && sum->in_hand() > 0;
  if (drains) sum->set_state(v1::Agent::DRAINING);
}

void Finish(v1::Agent* sum) {
  constexpr int kShown = 1'000;  // operations
  std::ranges::stable_sort(*sum->mutable_operations(), {}, [](const v1::Operation& one) {
    return std::pair(one.claim_time().seconds(), one.claim_time().nanos());
  });
  while (sum->operations_size() > kShown) sum->mutable_operations()->RemoveLast();
}

void Add(const v1::EvictAgentResponse& part, v1::EvictAgentResponse* sum) {
  AddNumbers(part, {"given_back", "kept"}, sum);
}

void Add(const v1::QueueRow& part, v1::QueueRow* sum) {
  AddNumbers(part, {"ready", "held_back", "claimed", "claims_per_second"}, sum);
  // Who asks, asks all partitions.
  TakeGreater(part, {"asking", "asked_time", "oldest_ready"}, sum);
  if (sum->action().empty()) sum->set_action(part.action());
}

void Add(const v1::WorkerRow& part, v1::WorkerRow* sum) {
  const auto seen = [](const v1::WorkerRow& row) {
    return std::pair(row.seen_time().seconds(), row.seen_time().nanos());
  };
  if (seen(part) > seen(*sum)) {
    sum->set_address(part.address());
    sum->set_how(part.how());
    if (!part.asks_for().empty()) sum->set_asks_for(part.asks_for());
  }
  AddNumbers(part, {"in_hand", "done_hour", "failed_hour", "timed_out_hour", "stale_hour"}, sum);
  TakeGreater(part, {"capacity", "seen_time"}, sum);
}

// Of each partition its owner alone has counted.
void Add(const v1::Cluster& part, v1::Cluster* sum) {
  for (int i = 0; i < part.partitions_size() && i < sum->partitions_size(); ++i) {
    AddNumbers(part.partitions(i), {"live", "ready", "claimed", "outbox"},
               sum->mutable_partitions(i));
  }
}

// The original's. --------------------------------------------------------------------------------

void Add(const ::InstancesReply& part, ::InstancesReply* sum) {
  sum->mutable_instances()->MergeFrom(part.instances());
}

// By id, as many as one message holds.
void Finish(::InstancesReply* sum) {
  const auto id = [](const ::TaskMessage& task) -> std::string_view { return task.id(); };
  std::ranges::sort(*sum->mutable_instances(), {}, id);
  size_t bytes = 0;
  int shown = 0;
  for (const ::TaskMessage& task : sum->instances()) {
    bytes += task.ByteSizeLong() + 8;
    if (bytes > limits::kMessage) break;
    ++shown;
  }
  while (sum->instances_size() > shown) sum->mutable_instances()->RemoveLast();
}

}  // namespace dfsmr
