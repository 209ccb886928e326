// Lists of which several partitions have the same rows.
#include "dsrv/cluster/row_lists.h"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "dsrv/wire/pages.h"
#include "dsrv/wire/views.h"
#include "tests/dsrv/cluster/asked.h"

namespace dfsmr {
namespace {

TEST_CASE("queues are added up, page by page") {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    std::vector<std::map<std::string, uint64_t>> parts(1 + random() % 5);
    std::map<std::string, uint64_t> all;
    for (int i = 0; i < 60; ++i) {
      const std::string queue = "q" + std::to_string(random() % 40);
      const uint64_t ready = 1 + random() % 9;
      parts[random() % parts.size()][queue] += ready;
      all[queue] += ready;
    }
    v1::ListQueuesRequest request;
    request.set_page_size(static_cast<int32_t>(1 + random() % 12));
    std::map<std::string, uint64_t> seen;
    std::string last;
    for (int pages = 0; pages < 100; ++pages) {
      const auto page = Ask<v1::ListQueuesResponse>(
          "dfsmr.v1.ViewService/ListQueues", request,
          {static_cast<uint16_t>(parts.size()), 0},
          [&](PartitionId partition, const std::string& bytes) {
            const auto given = Parsed<v1::ListQueuesRequest>(bytes);
            auto after = ParsePageToken(FiltersOf(given), given.page_token());
            REQUIRE(after);
            v1::ListQueuesResponse reply;
            for (const auto& [queue, ready] : parts[partition]) {
              v1::QueueRow row;
              row.set_queue(queue);
              row.set_ready(ready);
              if (PlaceOf(row) <= *after) continue;
              if (reply.queues_size() == given.page_size()) {
                reply.set_next_page_token(
                    PageToken(FiltersOf(given), PlaceOf(*reply.queues().rbegin())));
                break;
              }
              *reply.add_queues() = row;
            }
            return Replied(reply);
          });
      CHECK(page.queues_size() <= request.page_size());
      for (const auto& row : page.queues()) {
        CHECK(row.queue() > last);
        last = row.queue();
        seen[row.queue()] += row.ready();
      }
      request.set_page_token(page.next_page_token());
      if (page.next_page_token().empty()) break;
    }
    CHECK(seen == all);
  }
}

v1::Machine MachineOf(const std::string& id, uint32_t version, uint64_t running) {
  v1::Machine machine;
  machine.set_id(id);
  machine.set_version(version);
  machine.mutable_stats()->set_running(running);
  machine.set_source("s" + std::to_string(running));
  return machine;
}

TEST_CASE("versions of a machine are in the order of their numbers") {
  v1::ListMachinesRequest request;
  request.set_all_versions(true);
  request.set_page_size(2);
  v1::ListMachinesResponse home;
  *home.add_machines() = MachineOf("a", 9, 1);
  *home.add_machines() = MachineOf("a", 10, 2);
  *home.add_machines() = MachineOf("b", 1, 3);
  v1::ListMachinesResponse other;
  *other.add_machines() = MachineOf("a", 10, 20);
  *other.add_machines() = MachineOf("b", 1, 30);
  const auto page = JoinParts(request, {home, other});
  REQUIRE(page.machines_size() == 2);
  CHECK(page.machines(0).version() == 9);
  CHECK(page.machines(1).version() == 10);
  CHECK(page.machines(1).stats().running() == 22);
  CHECK(page.machines(1).source() == "s2");  // home's
  CHECK(page.next_page_token() == PageToken(FiltersOf(request), "a\n10"));
}

TEST_CASE("counts of machines are said to be incomplete while a partition has no owner") {
  const auto answer = [](PartitionId partition, const std::string&) {
    v1::ListMachinesResponse reply;
    *reply.add_machines() = MachineOf("a", 1, 1);
    if (partition == 2) return Failed(grpc::StatusCode::UNAVAILABLE, "NO_OWNER");
    return Replied(reply);
  };
  const auto page = Ask<v1::ListMachinesResponse>("dfsmr.v1.RunnerService/ListMachines",
                                                  v1::ListMachinesRequest(), {4, 0}, answer);
  REQUIRE(page.machines_size() == 1);
  CHECK(page.machines(0).stats().running() == 3);
  CHECK(page.machines(0).stats().loading());
  // Without home there is no list.
  const auto call = MakeParted("/dfsmr.v1.RunnerService/ListMachines", "", {4, 3});
  const auto driven = Drive(*call, [&](PartitionId partition, const std::string& bytes) {
    return partition == 0 ? Failed(grpc::StatusCode::UNAVAILABLE) : answer(partition, bytes);
  });
  CHECK(driven.end.as_question == 0);
}

TEST_CASE("workers are one row each, as they were last seen") {
  v1::ListWorkersResponse a;
  v1::WorkerRow* row = a.add_workers();
  row->set_worker("w");
  row->set_address("1.1.1.1");
  row->set_how("poll");
  row->set_in_hand(2);
  row->set_done_hour(5);
  row->mutable_seen_time()->set_seconds(10);
  v1::ListWorkersResponse b = a;
  row = b.mutable_workers(0);
  row->set_address("2.2.2.2");
  row->set_how("stream");
  row->set_capacity(8);
  row->mutable_seen_time()->set_seconds(20);
  b.add_workers()->set_worker("x");
  const auto page = JoinParts(v1::ListWorkersRequest(), {a, b});
  REQUIRE(page.workers_size() == 2);
  CHECK(page.workers(0).address() == "2.2.2.2");
  CHECK(page.workers(0).how() == "stream");
  CHECK(page.workers(0).in_hand() == 4);
  CHECK(page.workers(0).done_hour() == 10);
  CHECK(page.workers(0).capacity() == 8);
  CHECK(page.workers(0).seen_time().seconds() == 20);
  CHECK(page.workers(1).worker() == "x");
}

TEST_CASE("agents and namespaces are home's, with what is used and done everywhere") {
  v1::ListAgentsResponse home;
  v1::Agent* agent = home.add_agents();
  agent->set_name("a");
  agent->set_state(v1::Agent::DRAINED);
  v1::ListAgentsResponse other;
  agent = other.add_agents();
  agent->set_name("a");
  agent->set_in_hand(3);
  agent->set_done(4);
  const auto agents = JoinParts(v1::ListAgentsRequest(), {home, other});
  REQUIRE(agents.agents_size() == 1);
  CHECK(agents.agents(0).state() == v1::Agent::DRAINING);
  CHECK(agents.agents(0).in_hand() == 3);
  CHECK(agents.agents(0).done() == 4);

  v1::ListNamespacesResponse spaces;
  v1::Namespace* space = spaces.add_namespaces();
  space->set_name("n");
  space->mutable_usage()->set_live_instances(2);
  space->mutable_usage()->set_definitions(7);
  const auto all = JoinParts(v1::ListNamespacesRequest(), {spaces, spaces});
  REQUIRE(all.namespaces_size() == 1);
  CHECK(all.namespaces(0).usage().live_instances() == 4);
  CHECK(all.namespaces(0).usage().definitions() == 7);
}

}  // namespace
}  // namespace dfsmr
