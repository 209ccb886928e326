// Replies of several partitions that become one.
#include "dsrv/cluster/sums.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/dsrv/cluster/asked.h"

namespace dfsmr {
namespace {

void Set(google::protobuf::Duration* duration, double seconds) {
  const auto whole = static_cast<int64_t>(seconds);
  duration->set_seconds(whole);
  duration->set_nanos(static_cast<int32_t>((seconds - static_cast<double>(whole)) * 1e9));
}

v1::Machine MachineWith(uint64_t running, uint64_t completed, double p95,
                        const std::string& breaker) {
  v1::Machine machine;
  machine.set_source("source");
  machine.mutable_stats()->set_running(running);
  machine.mutable_stats()->set_retry_rate(static_cast<double>(running) / 10);
  machine.mutable_stats()->set_breaker(breaker);
  machine.add_nodes()->set_id("none");
  v1::Node* const node = machine.add_nodes();
  node->set_id("n");
  node->mutable_stats()->set_ready(running);
  node->mutable_stats()->set_completed(completed);
  if (p95 > 0) Set(node->mutable_stats()->mutable_p95(), p95);
  return machine;
}

TEST_CASE("a machine has the instances of all, home's times, and the worst breaker") {
  v1::Machine sum = MachineWith(1, 10, 1.0, "closed");
  Add(MachineWith(2, 30, 2.0, "half-open"), &sum);
  Add(MachineWith(3, 0, 0, "closed"), &sum);
  CHECK(sum.stats().running() == 6);
  CHECK(sum.stats().retry_rate() == doctest::Approx(0.3));
  CHECK(sum.stats().breaker() == "half-open");
  const v1::NodeStats& stats = sum.nodes(1).stats();
  CHECK(stats.ready() == 6);
  CHECK(stats.completed() == 40);
  CHECK(stats.p95().seconds() == 1);  // home's
  CHECK_FALSE(stats.has_p50());
  CHECK_FALSE(sum.nodes(0).has_stats());
  CHECK(sum.source() == "source");
  Add(MachineWith(0, 0, 0, "open"), &sum);
  CHECK(sum.stats().breaker() == "open");
}

TEST_CASE("an overview adds up tallies, minutes, queues and troubles") {
  v1::Overview a;
  a.mutable_server()->set_version("1");
  a.mutable_now()->set_ready(3);
  Set(a.mutable_now()->mutable_oldest_ready(), 5);
  for (int minute = 0; minute < 60; ++minute) {
    v1::Minute* const to = a.add_minutes();
    to->mutable_time()->set_seconds(60 * minute);
    to->set_started(1);
  }
  a.add_queues()->set_queue("q");
  a.mutable_queues(0)->set_ready(2);
  v1::Trouble* trouble = a.add_troubles();
  trouble->set_kind(v1::Trouble::HELD);
  trouble->set_machine("m");
  trouble->set_count(2);
  trouble->mutable_since()->set_seconds(100);
  trouble->add_errors()->set_text("e");
  trouble->mutable_errors(0)->set_count(2);
  trouble->mutable_errors(0)->set_instance("i");
  a.add_slow()->set_node("n");
  a.mutable_slow(0)->set_completed_hour(1);
  Set(a.mutable_slow(0)->mutable_spent_hour(), 1.5);
  a.set_workers(4);

  v1::Overview b = a;
  b.mutable_server()->set_version("2");
  Set(b.mutable_now()->mutable_oldest_ready(), 9);
  b.mutable_minutes()->DeleteSubrange(0, 1);  // its clock has come to the next minute
  b.add_minutes()->mutable_time()->set_seconds(3'600);
  b.add_queues()->set_queue("older");
  Set(b.mutable_queues(1)->mutable_oldest_ready(), 9);
  b.mutable_troubles(0)->mutable_since()->set_seconds(50);
  b.mutable_troubles(0)->mutable_errors(0)->set_instance("j");
  b.mutable_troubles(0)->mutable_errors(0)->mutable_last()->set_seconds(7);
  b.set_workers(3);

  v1::Overview sum = a;
  Add(b, &sum);
  Finish(&sum);
  NoteMissing({"c"}, &sum);
  CHECK(sum.server().version() == "1");
  CHECK(sum.now().ready() == 6);
  CHECK(sum.now().oldest_ready().seconds() == 9);
  REQUIRE(sum.minutes_size() == 60);
  CHECK(sum.minutes(0).time().seconds() == 60);
  CHECK(sum.minutes(0).started() == 2);
  CHECK(sum.minutes(59).time().seconds() == 3'600);
  REQUIRE(sum.queues_size() == 2);
  CHECK(sum.queues(0).queue() == "older");
  CHECK(sum.queues(1).ready() == 4);
  REQUIRE(sum.troubles_size() == 1);
  CHECK(sum.troubles(0).count() == 4);
  CHECK(sum.troubles(0).since().seconds() == 50);
  REQUIRE(sum.troubles(0).errors_size() == 1);
  CHECK(sum.troubles(0).errors(0).count() == 4);
  CHECK(sum.troubles(0).errors(0).instance() == "j");
  CHECK(sum.slow(0).completed_hour() == 2);
  CHECK(sum.slow(0).spent_hour().seconds() == 3);
  CHECK(sum.workers() == 4);
  CHECK(sum.missing_size() == 1);
}

TEST_CASE("an overview names the servers that do not answer, and is of those that do") {
  const auto answer = [](PartitionId partition, const std::string&) {
    if (partition == 0) return Failed(grpc::StatusCode::DEADLINE_EXCEEDED);
    v1::Overview part;
    part.mutable_now()->set_running(1);
    return Replied(part);
  };
  const auto sum = Ask<v1::Overview>("dfsmr.v1.ViewService/GetOverview",
                                     v1::GetOverviewRequest(), {4, 2}, answer);
  CHECK(sum.now().running() == 3);
  REQUIRE(sum.missing_size() == 1);
  CHECK(sum.missing(0) == "b");
}

void AddHolder(v1::Limit* limit, const std::string& instance, int64_t since) {
  auto& holder = *limit->add_holders();
  holder.set_instance(instance);
  holder.mutable_since()->set_seconds(since);
}

void AddWaiter(v1::Limit* limit, const std::string& instance, int32_t priority, int64_t since) {
  auto& waiter = *limit->add_waiters();
  waiter.set_instance(instance);
  waiter.set_priority(priority);
  waiter.mutable_since()->set_seconds(since);
}

TEST_CASE("a limit has the holders of all partitions, each once, and home's numbers") {
  v1::Limit home;
  home.set_max(4);
  home.set_held(3);
  AddHolder(&home, "b", 2);
  v1::Limit part;
  part.set_held(2);
  AddHolder(&part, "c", 3);
  AddHolder(&part, "b", 2);
  AddHolder(&part, "a", 1);
  part.mutable_holders(1)->set_cancelling(true);
  const v1::Limit sum = JoinParts(v1::GetLimitRequest(), {home, part});
  CHECK(sum.max() == 4);
  CHECK(sum.held() == 3);
  REQUIRE(sum.holders_size() == 3);
  CHECK(sum.holders(0).instance() == "a");
  CHECK(sum.holders(1).cancelling());
  CHECK(sum.holders(2).instance() == "c");
}

TEST_CASE("tasks that wait for a limit come by priority, as many as a page has") {
  v1::Limit home;
  home.set_waiting(2);
  home.set_next_page_token("more");
  AddWaiter(&home, "late", 0, 9);
  v1::Limit part;
  part.set_waiting(2);
  AddWaiter(&part, "urgent", 5, 8);
  AddWaiter(&part, "early", 0, 1);
  v1::GetLimitRequest request;
  request.set_page_size(2);
  const v1::Limit sum = JoinParts(request, {home, part});
  CHECK(sum.waiting() == 4);
  REQUIRE(sum.waiters_size() == 2);
  CHECK(sum.waiters(0).instance() == "urgent");
  CHECK(sum.waiters(1).instance() == "early");
  CHECK(sum.next_page_token().empty());
  CHECK(JoinParts(request, {home, v1::Limit()}).next_page_token() == "more");
}

TEST_CASE("an agent's operations are those of all partitions, the first claimed first") {
  v1::Agent a;
  a.add_operations()->mutable_claim_time()->set_seconds(1);
  a.add_operations()->mutable_claim_time()->set_seconds(3);
  v1::Agent b;
  for (int i = 0; i < 1'000; ++i) b.add_operations()->mutable_claim_time()->set_seconds(2);
  Add(b, &a);
  Finish(&a);
  CHECK(a.operations_size() == 1'000);
  CHECK(a.operations(0).claim_time().seconds() == 1);
  CHECK(a.operations(999).claim_time().seconds() == 2);
}

TEST_CASE("the original's instances are in order of their ids") {
  ::InstancesReply a;
  a.add_instances()->set_id("c");
  ::InstancesReply b;
  b.add_instances()->set_id("a");
  Add(b, &a);
  Finish(&a);
  CHECK(a.instances(0).id() == "a");
}

TEST_CASE("what each owner has counted of its partition stands in one view of the cluster") {
  std::vector<v1::Cluster> parts(2);
  for (uint32_t id = 0; id < 2; ++id) {
    for (v1::Cluster& part : parts) part.add_partitions()->set_id(id);
    parts[id].mutable_partitions(static_cast<int>(id))->set_live(10 + id);
    parts[id].mutable_partitions(static_cast<int>(id))->set_ready(id);
  }
  parts[0].set_answered_by("a");
  parts[1].set_answered_by("b");
  const v1::Cluster all = JoinParts(v1::GetClusterRequest(), std::move(parts));
  CHECK(all.answered_by() == "a");
  CHECK(all.partitions(0).live() == 10);
  CHECK(all.partitions(1).live() == 11);
  CHECK(all.partitions(1).ready() == 1);
}

}  // namespace
}  // namespace dfsmr
