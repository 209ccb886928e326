#include "dsrv/wire/views.h"

#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>

#include "dsrv/engine/histogram.h"
#include "dsrv/engine/survey.h"
#include "dsrv/engine/troubles.h"
#include "dsrv/engine/workers.h"
#include "dsrv/wire/replies.h"

namespace dfsmr {

void ToProto(const Tally& tally, v1::Tally* out) {
  out->set_scheduled(tally.scheduled);
  out->set_running(tally.running);
  out->set_paused(tally.paused);
  out->set_stopped(tally.stopped);
  out->set_ready(tally.ready);
  out->set_claimed(tally.claimed);
  out->set_waiting(tally.waiting);
  out->set_held(tally.held);
  if (tally.oldest_ready) ToProto(*tally.oldest_ready, out->mutable_oldest_ready());
}

void ToProto(const MachineTally& machine, v1::MachineRow* out) {
  out->set_id(machine.id);
  out->set_version(machine.version);
  out->set_kind(machine.kind);
  ToProto(machine.now, out->mutable_now());
  out->set_started_hour(machine.started_hour);
  out->set_failed_hour(machine.failed_hour);
  out->set_retry_rate(machine.retry_rate);
  out->set_breaker(std::string(machine.breaker));
}

void ToProto(const QueueView& queue, v1::QueueRow* out) {
  out->set_queue(queue.queue);
  out->set_machine(queue.machine);
  out->set_node(queue.node);
  out->set_action(queue.action);
  out->set_ready(queue.ready);
  out->set_held_back(queue.held_back);
  out->set_claimed(queue.claimed);
  if (queue.oldest_ready) ToProto(*queue.oldest_ready, out->mutable_oldest_ready());
  out->set_asking(queue.asking);
  if (queue.asked_time) ToProto(*queue.asked_time, out->mutable_asked_time());
  out->set_claims_per_second(queue.claims_per_second);
}

void ToProto(const WorkerView& worker, v1::WorkerRow* out) {
  out->set_worker(worker.worker);
  out->set_address(worker.address);
  out->set_how(worker.how);
  out->set_asks_for(worker.asks_for);
  out->set_in_hand(worker.in_hand);
  out->set_capacity(worker.capacity);
  out->set_done_hour(worker.done);
  out->set_failed_hour(worker.failed);
  out->set_timed_out_hour(worker.timed_out);
  out->set_stale_hour(worker.stale);
  ToProto(worker.seen, out->mutable_seen_time());
}

void ToProto(Timestamp begin, const MinuteCounts& counts, v1::Minute* out) {
  ToProto(begin, out->mutable_time());
  out->set_started(counts.started);
  out->set_succeeded(counts.succeeded);
  out->set_failed(counts.failed);
  out->set_cancelled(counts.cancelled);
  out->set_transitions(counts.transitions);
  out->set_timed_out(counts.timed_out);
}

void ToProto(const SlowNodeView& node, v1::SlowNode* out) {
  out->set_machine(node.machine);
  out->set_node(node.node);
  out->set_completed_hour(node.completed);
  ToProto(node.spent, out->mutable_spent_hour());
  if (node.p50) ToProto(*node.p50, out->mutable_p50());
  if (node.p95) ToProto(*node.p95, out->mutable_p95());
  if (node.timeout_now) ToProto(*node.timeout_now, out->mutable_timeout_now());
}

static_assert(static_cast<int>(TroubleView::Kind::kAtMaximum) == v1::Trouble::AT_MAXIMUM);

void ToProto(const TroubleView& trouble, v1::Trouble* out) {
  out->set_kind(static_cast<v1::Trouble::Kind>(trouble.kind));
  out->set_machine(trouble.machine);
  out->set_node(trouble.node);
  out->set_queue(trouble.queue);
  out->set_count(trouble.count);
  ToProto(trouble.since, out->mutable_since());
  for (const ErrorTally& error : trouble.errors) {
    v1::ErrorText* to = out->add_errors();
    to->set_text(error.text);
    to->set_count(error.count);
    ToProto(error.last, to->mutable_last());
    to->set_instance(error.instance);
  }
  out->set_filter(trouble.filter);
}

void ToProto(const Histogram& histogram, v1::GetDurationsResponse* out) {
  const auto show = [](const std::vector<Histogram::Bucket>& buckets, auto add) {
    for (const Histogram::Bucket& bucket : buckets) {
      v1::GetDurationsResponse::Bucket* to = add();
      ToProto(bucket.up_to, to->mutable_up_to());
      to->set_count(bucket.count);
      to->set_timed_out(bucket.timed_out);
    }
  };
  show(histogram.first, [out] { return out->add_first(); });
  show(histogram.retries, [out] { return out->add_retries(); });
  if (histogram.p50) ToProto(*histogram.p50, out->mutable_p50());
  if (histogram.p90) ToProto(*histogram.p90, out->mutable_p90());
  if (histogram.p95) ToProto(*histogram.p95, out->mutable_p95());
  if (histogram.p99) ToProto(*histogram.p99, out->mutable_p99());
  if (histogram.timeout_now) ToProto(*histogram.timeout_now, out->mutable_timeout_now());
  if (histogram.retry_timeout_now) {
    ToProto(*histogram.retry_timeout_now, out->mutable_retry_timeout_now());
  }
  out->set_rule(histogram.rule);
  out->set_meant(histogram.meant);
  out->set_seen(histogram.seen);
  out->set_samples(histogram.samples);
  if (histogram.since) ToProto(*histogram.since, out->mutable_since());
}

// Pages. -----------------------------------------------------------------------------------------

namespace {

std::string SpaceOf(const std::string& given) { return given.empty() ? "default" : given; }

}  // namespace

std::string FiltersOf(const v1::CountInstancesRequest& request) {
  return SpaceOf(request.namespace_()) + '\n' + std::to_string(request.by()) + '\n' +
         request.filter();
}

std::string FiltersOf(const v1::ListQueuesRequest& request) {
  return SpaceOf(request.namespace_()) + '\n' + request.machine() + '\n' + request.queue();
}

std::string FiltersOf(const v1::ListWorkersRequest& request) {
  return SpaceOf(request.namespace_()) + '\n' + request.machine() + '\n' + request.queue() +
         "\nworkers";
}

std::string PlaceOf(const v1::QueueRow& row) {
  return row.queue() + '\0' + row.machine() + '\0' + row.node();
}

// Overviews. -------------------------------------------------------------------------------------

namespace {

constexpr int kMachinesShown = 200;
constexpr int kQueuesShown = 200;
constexpr int kLimitsShown = 50;
constexpr int kTroublesShown = 50;

// How much somebody is needed at a machine.
auto NeedOf(const v1::MachineRow& machine) {
  const uint64_t breaker = machine.breaker() == "closed" ? 0 : 1;
  return std::tuple(machine.now().held() + breaker, machine.failed_hour(), machine.now().paused(),
                    machine.now().ready());
}

std::pair<int64_t, int32_t> Comparable(const google::protobuf::Duration& duration) {
  return {duration.seconds(), duration.nanos()};
}

template <typename Rows>
void CutTo(int most, Rows* rows) {
  while (rows->size() > most) rows->RemoveLast();
}

}  // namespace

double FillOf(const v1::Limit& limit) {
  const double share = limit.max() > 0 ? static_cast<double>(limit.held()) / limit.max() : 0;
  return share + (limit.waiting() > 0 ? 1 : 0);
}

void Arrange(v1::Overview* overview) {
  std::ranges::stable_sort(*overview->mutable_machines(), std::greater(), NeedOf);
  CutTo(kMachinesShown, overview->mutable_machines());
  const auto age = [](const v1::QueueTally& one) { return Comparable(one.oldest_ready()); };
  std::ranges::stable_sort(*overview->mutable_queues(), std::greater(), age);
  CutTo(kQueuesShown, overview->mutable_queues());
  // The kinds are numbered by how bad they are.
  std::ranges::stable_sort(*overview->mutable_troubles(), [](const auto& a, const auto& b) {
    return std::pair(a.kind(), b.count()) < std::pair(b.kind(), a.count());
  });
  CutTo(kTroublesShown, overview->mutable_troubles());
  const auto spent = [](const v1::SlowNode& one) { return Comparable(one.spent_hour()); };
  std::ranges::stable_sort(*overview->mutable_slow(), std::greater(), spent);
  CutTo(kSlowShown, overview->mutable_slow());
  std::ranges::stable_sort(*overview->mutable_limits(), std::greater(), FillOf);
  CutTo(kLimitsShown, overview->mutable_limits());
}

}  // namespace dfsmr
