// One overview of those of all partitions. Each shows no more rows than one may, so of what is far
// down in some of them not everything is added up.
#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "dsrv/cluster/fields.h"
#include "dsrv/cluster/sums.h"
#include "dsrv/wire/views.h"

namespace dfsmr {
namespace {

constexpr int kMinutesShown = 60;
constexpr int kErrorsShown = 5;  // of one trouble

void AddTally(const v1::Tally& part, v1::Tally* sum) {
  AddNumbers(part,
             {"scheduled", "running", "paused", "stopped", "ready", "claimed", "waiting", "held"},
             sum);
  TakeGreater(part, {"oldest_ready"}, sum);
}

void AddMinute(const v1::Minute& part, v1::Minute* sum) {
  AddNumbers(part, {"started", "succeeded", "failed", "cancelled", "transitions", "timed_out"},
             sum);
}

void AddMachineRow(const v1::MachineRow& part, v1::MachineRow* sum) {
  AddTally(part.now(), sum->mutable_now());
  AddNumbers(part, {"started_hour", "failed_hour"}, sum);
  TakeGreater(part, {"version", "retry_rate"}, sum);
  sum->set_breaker(WorseBreaker(sum->breaker(), part.breaker()));
}

void AddError(const v1::ErrorText& part, v1::ErrorText* sum) {
  AddNumbers(part, {"count"}, sum);
  const google::protobuf::Timestamp before = sum->last();
  TakeGreater(part, {"last"}, sum);
  if (sum->last() != before) sum->set_instance(part.instance());
}

void AddTrouble(const v1::Trouble& part, v1::Trouble* sum) {
  AddNumbers(part, {"count"}, sum);
  TakeLess(part, {"since"}, sum);
  AddRows(part.errors(), [](const v1::ErrorText& error) { return error.text(); }, AddError,
          sum->mutable_errors());
  std::ranges::stable_sort(*sum->mutable_errors(), std::greater(), &v1::ErrorText::count);
  while (sum->errors_size() > kErrorsShown) sum->mutable_errors()->RemoveLast();
}

void AddSlow(const v1::SlowNode& part, v1::SlowNode* sum) {
  TakeGreater(part, {"p50", "p95", "timeout_now"}, sum);  // they are of all partitions
  AddNumbers(part, {"completed_hour"}, sum);
  AddDurations(part, {"spent_hour"}, sum);
}

void AddQueue(const v1::QueueTally& part, v1::QueueTally* sum) {
  AddNumbers(part, {"ready"}, sum);
  TakeGreater(part, {"oldest_ready"}, sum);
}

// One partition has all that is held under a limit.
void AddLimit(const v1::Limit& part, v1::Limit* sum) {
  if (FillOf(part) > FillOf(*sum)) *sum = part;
}

}  // namespace

void Add(const v1::Overview& part, v1::Overview* sum) {
  AddTally(part.now(), sum->mutable_now());
  AddRows(part.minutes(), [](const v1::Minute& minute) { return minute.time().seconds(); },
          AddMinute, sum->mutable_minutes());
  AddRows(part.machines(),
          [](const v1::MachineRow& machine) { return std::pair(machine.id(), machine.kind()); },
          AddMachineRow, sum->mutable_machines());
  AddRows(part.troubles(),
          [](const v1::Trouble& trouble) {
            return std::tuple(trouble.kind(), trouble.machine(), trouble.node(), trouble.queue(),
                              trouble.filter());
          },
          AddTrouble, sum->mutable_troubles());
  AddRows(part.slow(),
          [](const v1::SlowNode& node) { return std::pair(node.machine(), node.node()); }, AddSlow,
          sum->mutable_slow());
  AddRows(part.queues(), [](const v1::QueueTally& queue) { return queue.queue(); }, AddQueue,
          sum->mutable_queues());
  AddRows(part.limits(),
          [](const v1::Limit& limit) { return std::pair(limit.namespace_(), limit.key()); },
          AddLimit, sum->mutable_limits());
  // Most of those that one partition knows, the others know, too.
  TakeGreater(part, {"workers", "agents"}, sum);
}

void Finish(v1::Overview* sum) {
  auto* const minutes = sum->mutable_minutes();
  std::ranges::stable_sort(*minutes, {}, [](const v1::Minute& minute) {
    return minute.time().seconds();
  });
  if (minutes->size() > kMinutesShown) {
    minutes->DeleteSubrange(0, minutes->size() - kMinutesShown);
  }
  Arrange(sum);
}

void NoteMissing(const std::vector<std::string>& servers, v1::Overview* sum) {
  for (const std::string& server : servers) sum->add_missing(server);
}

}  // namespace dfsmr
