// Lists of instances and operations that are of several partitions.
#include "dsrv/cluster/instance_lists.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "dfsmr/v1/agent.pb.h"
#include "dfsmr/v1/runner.pb.h"
#include "dsrv/wire/agents.h"
#include "dsrv/wire/pages.h"
#include "fsm/base/hex.h"
#include "storage/place.h"
#include "tests/dsrv/cluster/asked.h"

namespace dfsmr {
namespace {

constexpr const char* kList = "dfsmr.v1.RunnerService/ListInstances";
constexpr const char* kOperations = "dfsmr.v1.AgentService/ListOperations";

// The instances of a store, each in its partition, listed by id as the services do.
struct ById {
  explicit ById(uint16_t in_all) : partitions(in_all), ids(in_all) {}

  void Add(const std::string& id) {
    auto& list = ids[PartitionOf("", id, partitions)];
    list.insert(std::ranges::upper_bound(list, id), id);
    all.insert(std::ranges::upper_bound(all, id), id);
  }
  PartAnswer Answer(PartitionId partition, const std::string& bytes) {
    const auto request = Parsed<v1::ListInstancesRequest>(bytes);
    const std::string filters = FiltersOf(request);
    const auto after = ParsePageToken(filters, request.page_token());
    REQUIRE(after);
    const auto& list = ids[partition];
    auto at = std::ranges::upper_bound(list, *after);
    v1::ListInstancesResponse page;
    for (; at != list.end() && page.instances_size() < request.page_size(); ++at) {
      v1::Instance* const instance = page.add_instances();
      instance->set_id(*at);
      instance->set_params(std::string(bytes_each, 'x'));
    }
    asked += request.page_size();
    page.set_looked_at(static_cast<uint64_t>(page.instances_size()));
    if (at != list.end()) page.set_next_page_token(PageToken(filters, *(at - 1)));
    return Replied(page);
  }
  v1::ListInstancesResponse Page(const v1::ListInstancesRequest& request,
                                 Driven* driven = nullptr) {
    const auto call =
        MakeParted(std::string("/") + kList, request.SerializeAsString(), {partitions, 1});
    const auto outcome = Drive(*call, [this](PartitionId partition, const std::string& bytes) {
      return Answer(partition, bytes);
    });
    if (driven) *driven = outcome;
    return Parsed<v1::ListInstancesResponse>(outcome.end.reply);
  }

  const uint16_t partitions;
  std::vector<std::vector<std::string>> ids;
  std::vector<std::string> all;
  size_t bytes_each = 10;
  int asked = 0;
};

TEST_CASE("a list by id is one list, and its token is what it is on one server") {
  ById store(16);
  for (int i = 0; i < 1'000; ++i) store.Add("job-" + std::to_string(i));
  v1::ListInstancesRequest request;
  request.set_page_size(100);
  std::vector<std::string> seen;
  int pages = 0;
  do {
    Driven driven;
    const auto page = store.Page(request, &driven);
    ++pages;
    CHECK(page.instances_size() == 100);
    CHECK(driven.rounds <= 3);
    for (const auto& instance : page.instances()) seen.push_back(instance.id());
    request.set_page_token(page.next_page_token());
    if (!page.next_page_token().empty()) {
      CHECK(page.next_page_token() == PageToken(FiltersOf(request), seen.back()));
    }
  } while (!request.page_token().empty());
  CHECK(seen == store.all);
  CHECK(pages == 10);
  CHECK(store.asked < 4 * 1'000);  // not all of every partition
}

TEST_CASE("a list that lives in one partition is found whole") {
  ById store(16);
  for (int i = 0; i < 500; ++i) store.Add("shop/order/" + std::to_string(i));
  Driven driven;
  v1::ListInstancesRequest request;
  request.set_page_size(300);
  const auto page = store.Page(request, &driven);
  CHECK(page.instances_size() == 300);
  CHECK(driven.rounds == 2);
  CHECK(driven.questions == 17);
}

TEST_CASE("a page is full when a message is") {
  ById store(4);
  store.bytes_each = 1'000'000;
  for (int i = 0; i < 10; ++i) store.Add("job-" + std::to_string(i));
  const auto page = store.Page({});
  CHECK(page.instances_size() == 4);
  CHECK(!page.next_page_token().empty());
}

TEST_CASE("what is of one parent is asked of one partition") {
  ById store(16);
  store.Add("hello/step/1");
  v1::ListInstancesRequest request;
  request.set_parent("hello");
  request.set_page_size(10);
  Driven driven;
  CHECK(store.Page(request, &driven).instances_size() == 1);
  CHECK(driven.questions == 1);
}

TEST_CASE("a partition that cannot be asked fails the list") {
  ById store(4);
  const auto call = MakeParted(std::string("/") + kList, "", {4, 1});
  const auto driven = Drive(*call, [&](PartitionId partition, const std::string& bytes) {
    if (partition == 2) return Failed(grpc::StatusCode::UNAVAILABLE, "NO_OWNER");
    return store.Answer(partition, bytes);
  });
  CHECK(driven.end.as_question == 2);
}

TEST_CASE("a token of another list is refused by one partition, which says what is wrong") {
  v1::ListInstancesRequest request;
  request.set_page_token("00");
  const auto call = MakeParted(std::string("/") + kList, request.SerializeAsString(), {4, 3});
  const auto driven = Drive(*call, [&](PartitionId partition, const std::string& bytes) {
    CHECK(partition == 3);
    CHECK(bytes == request.SerializeAsString());
    return Failed(grpc::StatusCode::INVALID_ARGUMENT, "BAD_REQUEST");
  });
  CHECK(driven.end.as_question == 0);
}

TEST_CASE("an owner that does not tell its places is no owner") {
  v1::ListInstancesRequest request;
  request.set_order_by("-changed");
  const auto call = MakeParted(std::string("/") + kList, request.SerializeAsString(), {4, 3});
  const auto driven = Drive(*call, [&](PartitionId, const std::string&) {
    return Replied(v1::ListInstancesResponse());
  });
  REQUIRE(driven.end.refused);
  CHECK(driven.end.refused->code == Code::kInternal);
}

// In order of time. -------------------------------------------------------------------------------

// Records of partitions, each in order of its numbers, as the services list them: they end a page
// where they like.
struct InTime {
  struct Record {
    uint64_t time = 0;
    std::string id;
    bool matches = true;
  };
  InTime(uint64_t seed, bool latest_first)
      : random(seed), backwards(latest_first), records(2 + Below(6)) {
    const size_t count = Below(200);
    uint64_t time = 1'700'000'000'000'000;
    for (size_t i = 0; i < count; ++i) {
      const bool matches = Below(4) > 0;
      records[Below(records.size())].push_back({time, "i" + std::to_string(i), matches});
      if (matches) all.push_back("i" + std::to_string(i));
      time += 1 + Below(5);
    }
    if (backwards) std::ranges::reverse(all);
  }
  uint64_t Below(uint64_t most) { return random() % most; }

  PartAnswer Answer(PartitionId partition, const std::string& bytes) {
    const auto request = Parsed<v1::ListInstancesRequest>(bytes);
    const std::string filters = FiltersOf(request);
    auto after = ParsePageToken(filters, request.page_token());
    REQUIRE(after);
    REQUIRE(TakeTellsPlaces(&*after));
    const auto& list = records[partition];
    size_t from = 0;  // of so many the list has come to its next
    if (!after->empty()) from = std::stoul(after->substr(after->find('.') + 1));
    v1::ListInstancesResponse page;
    PlacesOfPage places;
    size_t most = std::min<size_t>(1 + Below(30), static_cast<size_t>(request.page_size()));
    for (; from < list.size() && most > 0; ++from, --most) {
      const Record& record = list[backwards ? list.size() - 1 - from : from];
      places.last = ToHex(record.time) + '.' + std::to_string(from + 1);
      page.mutable_back_to()->set_seconds(static_cast<int64_t>(record.time / 1'000'000));
      page.mutable_back_to()->set_nanos(static_cast<int32_t>(record.time % 1'000'000) * 1'000);
      if (!record.matches) continue;
      page.add_instances()->set_id(record.id);
      places.items.push_back(places.last);
    }
    if (from == list.size()) places.last.clear();
    page.set_next_page_token(PageToken(filters, TextOf(places)));
    return Replied(page);
  }

  std::mt19937_64 random;
  const bool backwards;
  std::vector<std::vector<Record>> records;
  std::vector<std::string> all;
};

TEST_CASE("whoever walks through a list in order of time sees all once, and in order") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    const bool backwards = seed % 2 == 1;
    InTime store(seed, backwards);
    v1::ListInstancesRequest request;
    request.set_order_by(backwards ? "-changed" : "started");
    std::vector<std::string> seen;
    for (int pages = 0; pages < 1'000; ++pages) {
      request.set_page_size(static_cast<int32_t>(1 + store.Below(20)));
      const auto page = Ask<v1::ListInstancesResponse>(
          kList, request, {static_cast<uint16_t>(store.records.size()), 0},
          [&](PartitionId partition, const std::string& bytes) {
            return store.Answer(partition, bytes);
          });
      CHECK(page.instances_size() <= request.page_size());
      for (const auto& instance : page.instances()) seen.push_back(instance.id());
      request.set_page_token(page.next_page_token());
      if (page.next_page_token().empty()) break;
    }
    REQUIRE(request.page_token().empty());
    CHECK(seen == store.all);
  }
}

TEST_CASE("a token of a list in order of time that was made up is refused") {
  v1::ListInstancesRequest request;
  request.set_order_by("changed");
  for (const char* text : {"-,-", "x,y,z", "12"}) {
    request.set_page_token(PageToken(FiltersOf(request), text));
    const auto call = MakeParted(std::string("/") + kList, request.SerializeAsString(), {2, 0});
    CHECK(call->Next().empty());
    const auto end = call->End();
    REQUIRE(end.refused);
    CHECK(end.refused->code == Code::kInvalidArgument);
  }
}

TEST_CASE("operations are in order of their claims, those of one time in all partitions, too") {
  // In each of three partitions ten, all claimed at the same two times.
  const auto answer = [](PartitionId partition, const std::string& bytes) {
    const auto request = Parsed<v1::ListOperationsRequest>(bytes);
    auto after = ParsePageToken(FiltersOf(request), request.page_token());
    REQUIRE(after);
    REQUIRE(TakeTellsPlaces(&*after));
    v1::ListOperationsResponse page;
    PlacesOfPage places;
    for (uint64_t i = 0; i < 10; ++i) {
      const std::string place = ToHex(1'000'000 * (1 + i / 5)) + ToHex(uint64_t{1}) + ToHex(i);
      if (place <= *after) continue;
      if (page.operations_size() == request.page_size()) {
        places.last = places.items.back();
        break;
      }
      v1::Operation* const operation = page.add_operations();
      operation->set_instance(std::to_string(partition) + "/" + std::to_string(i));
      operation->mutable_claim_time()->set_seconds(static_cast<int64_t>(1 + i / 5));
      places.items.push_back(place);
    }
    page.set_next_page_token(PageToken(FiltersOf(request), TextOf(places)));
    return Replied(page);
  };
  v1::ListOperationsRequest request;
  request.set_page_size(4);
  std::map<std::string, int> seen;
  int64_t latest = 0;
  do {
    const auto page = Ask<v1::ListOperationsResponse>(kOperations, request, {3, 0}, answer);
    CHECK(page.operations_size() <= 4);
    for (const auto& operation : page.operations()) {
      ++seen[operation.instance()];
      CHECK(operation.claim_time().seconds() >= latest);
      latest = operation.claim_time().seconds();
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  CHECK(seen.size() == 30);
  CHECK(std::ranges::all_of(seen, [](const auto& one) { return one.second == 1; }));
}

TEST_CASE("partitions are asked for a little more than their share") {
  CHECK(ShareOf(1'000, 16) == 80);
  CHECK(ShareOf(100, 1'024) == 2);
  CHECK(ShareOf(1, 16) == 1);
  CHECK(ShareOf(7, 1) == 7);
}

}  // namespace
}  // namespace dfsmr
