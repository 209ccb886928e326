// Bulks of several partitions as one.
#include "dsrv/cluster/bulk_calls.h"

#include <map>
#include <numeric>
#include <set>

#include "storage/place.h"
#include "tests/dsrv/cluster/asked.h"

namespace dfsmr {
namespace {

constexpr const char* kStartBulk = "dfsmr.v1.BulkService/StartBulk";
constexpr const char* kGetBulk = "dfsmr.v1.BulkService/GetBulk";
constexpr const char* kListBulks = "dfsmr.v1.BulkService/ListBulks";

v1::StartBulkRequest BulkWanted() {
  v1::StartBulkRequest request;
  request.set_filter("machine:*");
  request.set_action(v1::StartBulkRequest::PAUSE);
  return request;
}

v1::Bulk BulkBegun(const std::string& request) {
  v1::Bulk bulk;
  *bulk.mutable_request() = Parsed<v1::StartBulkRequest>(request);
  bulk.set_state(v1::Bulk::RUNNING);
  return bulk;
}

TEST_CASE("a bulk begins in all partitions under one id") {
  std::set<std::string> ids;
  const auto reply =
      Ask<v1::Bulk>(kStartBulk, BulkWanted(), {4, 0}, [&](PartitionId, const std::string& bytes) {
        v1::Bulk bulk = BulkBegun(bytes);
        ids.insert(bulk.request().id());
        bulk.set_matched(10);
        return Replied(bulk);
      });
  CHECK(ids == std::set{reply.request().id()});
  CHECK(reply.request().id() != "");
  CHECK(reply.matched() == 40);
  CHECK(reply.state() == v1::Bulk::RUNNING);
}

TEST_CASE("of instances each partition gets those that live there, and the others nothing") {
  v1::StartBulkRequest request = BulkWanted();
  request.clear_filter();
  std::map<PartitionId, std::set<std::string>> live;
  for (int i = 0; live.size() < 2; ++i) {
    const std::string id = "i" + std::to_string(i);
    const PartitionId place = PartitionOf("", id, 8);
    if (place > 1) continue;
    live[place].insert(id);
    request.add_instances(id);
  }
  std::map<PartitionId, std::set<std::string>> asked;
  const auto reply =
      Ask<v1::Bulk>(kStartBulk, request, {8, 0}, [&](PartitionId place, const std::string& bytes) {
        const v1::Bulk bulk = BulkBegun(bytes);
        asked[place] = {bulk.request().instances().begin(), bulk.request().instances().end()};
        return Replied(bulk);
      });
  CHECK(asked == live);
  CHECK(reply.request().instances_size() == request.instances_size());
}

TEST_CASE("a bulk that may change so many changes no more in all partitions together") {
  v1::StartBulkRequest request = BulkWanted();
  request.set_at_most(10);
  uint64_t allowed = 0;
  const auto reply =
      Ask<v1::Bulk>(kStartBulk, request, {3, 0}, [&](PartitionId place, const std::string& bytes) {
        v1::Bulk bulk = BulkBegun(bytes);
        if (bulk.request().validate_only()) {
          bulk.set_state(v1::Bulk::PREVIEW);
          bulk.set_changed(place == 0 ? 0 : 10u * place);
        } else {
          CHECK(place != 0);
          CHECK(bulk.request().at_most() > 0);
          allowed += bulk.request().at_most();
        }
        return Replied(bulk);
      });
  CHECK(allowed == 10);
  CHECK(reply.request().at_most() == 10);
}

TEST_CASE("shares are in proportion, and all is shared out") {
  CHECK(ShareOut(10, {10, 20}) == std::vector<uint64_t>{3, 7});
  CHECK(ShareOut(10, {5, 5}) == std::vector<uint64_t>{5, 5});
  CHECK(ShareOut(1, {1, 1, 1}) == std::vector<uint64_t>{1, 0, 0});
  for (const uint64_t at_most : {1, 7, 100, 1000}) {
    for (const auto& would : std::vector<std::vector<uint64_t>>{{0, 0}, {1, 0, 3}, {9, 9, 9}}) {
      const auto shares = ShareOut(at_most, would);
      CHECK(std::accumulate(shares.begin(), shares.end(), uint64_t{0}) == at_most);
    }
  }
}

TEST_CASE("a preview shows the first of all, and what is wrong is said once") {
  v1::StartBulkRequest request = BulkWanted();
  request.set_validate_only(true);
  const auto reply =
      Ask<v1::Bulk>(kStartBulk, request, {3, 0}, [&](PartitionId place, const std::string& bytes) {
        v1::Bulk bulk = BulkBegun(bytes);
        bulk.set_state(v1::Bulk::PREVIEW);
        for (int i = 0; i < 15; ++i) bulk.add_sample("i" + std::to_string(100 + 3 * i + place));
        bulk.set_at_least(place == 1);
        return Replied(bulk);
      });
  CHECK(reply.state() == v1::Bulk::PREVIEW);
  CHECK(reply.sample_size() == 20);
  CHECK(reply.sample(0) == "i100");
  CHECK(reply.sample(19) == "i119");
  CHECK(reply.at_least());
  request.clear_filter();
  const auto call = MakeParted("/" + std::string(kStartBulk), request.SerializeAsString(), {3, 1});
  const auto driven = Drive(*call, [](PartitionId, const std::string&) {
    return Failed(grpc::StatusCode::INVALID_ARGUMENT, "BAD_REQUEST");
  });
  CHECK(driven.questions == 1);
  CHECK(driven.end.as_question == 0);
}

TEST_CASE("a bulk goes on as long as it does anywhere, and is nowhere if no partition has it") {
  v1::GetBulkRequest request;
  request.set_id("b");
  const auto state_of = [&](v1::Bulk::State one, v1::Bulk::State other) {
    return Ask<v1::Bulk>(kGetBulk, request, {3, 0}, [&](PartitionId place, const std::string&) {
      if (place == 2) return Failed(grpc::StatusCode::NOT_FOUND, "NO_SUCH_BULK");
      v1::Bulk bulk;
      bulk.set_state(place == 0 ? one : other);
      bulk.set_changed(1);
      return Replied(bulk);
    });
  };
  CHECK(state_of(v1::Bulk::DONE, v1::Bulk::RUNNING).state() == v1::Bulk::RUNNING);
  CHECK(state_of(v1::Bulk::DONE, v1::Bulk::DONE).state() == v1::Bulk::DONE);
  CHECK(state_of(v1::Bulk::LIMITED, v1::Bulk::DONE).state() == v1::Bulk::LIMITED);
  CHECK(state_of(v1::Bulk::STOPPED, v1::Bulk::DONE).state() == v1::Bulk::STOPPED);
  CHECK(state_of(v1::Bulk::STOPPED, v1::Bulk::DONE).changed() == 2);
  const auto call = MakeParted("/" + std::string(kGetBulk), request.SerializeAsString(), {3, 0});
  const auto driven = Drive(*call, [](PartitionId, const std::string&) {
    return Failed(grpc::StatusCode::NOT_FOUND, "NO_SUCH_BULK");
  });
  CHECK(driven.end.as_question == 0);
}

TEST_CASE("a list of bulks has each once, the newest first, page by page") {
  v1::ListBulksRequest request;
  request.set_page_size(2);
  std::vector<std::string> seen;
  do {
    const auto page = Ask<v1::ListBulksResponse>(
        kListBulks, request, {3, 0}, [&](PartitionId place, const std::string&) {
          v1::ListBulksResponse part;
          for (int i = 5; i-- > 0;) {
            if (i == place) continue;  // it has no share in it
            v1::Bulk& bulk = *part.add_bulks();
            bulk.mutable_request()->set_id("b" + std::to_string(i));
            bulk.mutable_start_time()->set_seconds(10 * i + place);
            bulk.set_changed(1);
          }
          return Replied(part);
        });
    for (const v1::Bulk& bulk : page.bulks()) {
      seen.push_back(bulk.request().id());
      CHECK(bulk.changed() == (bulk.request().id() > "b2" ? 3 : 2));
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  CHECK(seen == std::vector<std::string>{"b4", "b3", "b2", "b1", "b0"});
}

}  // namespace
}  // namespace dfsmr
