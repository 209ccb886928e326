#include "dsrv/cluster/log_shares.h"

#include <doctest/doctest.h>

#include "storage/place.h"

namespace dfsmr {
namespace {

constexpr uint16_t kParts = 4;

// An instance that lives there.
std::string NameIn(PartitionId partition) {
  for (int number = 0;; ++number) {
    const std::string id = "i-" + std::to_string(number);
    if (PartitionOf("space", id, kParts) == partition) return id;
  }
}

std::string Request(const std::vector<PartitionId>& of, const std::string& ns = "") {
  v1::AppendLogsRequest request;
  request.set_namespace_(ns);
  for (const PartitionId partition : of) request.add_batches()->set_instance(NameIn(partition));
  return request.SerializeAsString();
}

v1::AppendLogsRequest Said(LogShares& shares, PartitionId partition) {
  v1::AppendLogsRequest request;
  const auto bytes = shares.NextFor(partition);
  REQUIRE(bytes);
  REQUIRE(request.ParseFromString(*bytes));
  return request;
}

void Answered(LogShares& shares, PartitionId partition, uint64_t requests,
            const std::string& refused = "") {
  v1::AppendLogsResponse answer;
  answer.set_requests(requests);
  if (!refused.empty()) answer.add_refused_claims(refused);
  shares.TakeAnswer(partition, answer);
}

}  // namespace

TEST_CASE("lines go where their instances live, and home is asked about the first request") {
  LogShares shares(kParts);
  shares.Take(Request({2, 3, 2}, "space"));
  CHECK(Said(shares, kHome).namespace_() == "space");
  CHECK_FALSE(shares.HasNextFor(1));
  const auto two = Said(shares, 2);
  CHECK(two.namespace_() == "space");
  CHECK(two.batches_size() == 2);
  CHECK(Said(shares, 3).batches(0).instance() == NameIn(3));
  shares.Take(Request({2}));
  const auto next = Said(shares, 2);
  CHECK(next.namespace_().empty());
  CHECK(next.batches_size() == 1);
  CHECK_FALSE(shares.HasNextFor(2));
  CHECK_FALSE(shares.HasNextFor(kHome));
}

TEST_CASE("a request is answered when all have answered, in order, with what each refuses") {
  LogShares shares(kParts);
  shares.Take(Request({1, 2}, "space"));
  shares.Take(Request({1}));
  for (const PartitionId of : {kHome, PartitionId{1}, PartitionId{2}}) Said(shares, of);
  Said(shares, 1);
  Answered(shares, kHome, 1);
  Answered(shares, 1, 2, "late");  // one answer for both requests
  CHECK_FALSE(shares.TakeResponse());
  CHECK(shares.unanswered() == 2);
  Answered(shares, 2, 1, "strange");
  auto response = shares.TakeResponse();
  REQUIRE(response);
  CHECK(response->requests() == 1);
  CHECK(response->refused_claims_size() == 2);
  response = shares.TakeResponse();
  REQUIRE(response);
  CHECK(response->requests() == 2);
  CHECK_FALSE(shares.TakeResponse());
}

TEST_CASE("what a partition has not answered is said anew on its next stream") {
  LogShares shares(kParts);
  shares.Take(Request({1}, "space"));
  Said(shares, kHome);
  Said(shares, 1);
  Answered(shares, kHome, 1);
  Answered(shares, 1, 1);
  REQUIRE(shares.TakeResponse());
  shares.Take(Request({1}));
  shares.Take(Request({1, 1}));
  Said(shares, 1);
  shares.Lose(1);
  const auto again = Said(shares, 1);
  CHECK(again.namespace_() == "space");
  CHECK(again.batches_size() == 1);
  CHECK(Said(shares, 1).batches_size() == 2);
  Answered(shares, 1, 1);  // counts on each stream from one
  REQUIRE(shares.TakeResponse());
  CHECK(shares.unanswered() == 1);
}

TEST_CASE("home is told what is wrong with a request as it came") {
  LogShares shares(kParts);
  shares.Take(Request({}, "space"));
  Said(shares, kHome);
  const std::string late = Request({1}, "other");
  shares.Take(late);
  CHECK(shares.NextFor(kHome) == late);
  CHECK_FALSE(shares.HasNextFor(1));
  shares.Take("no message");
  CHECK(shares.NextFor(kHome) == "no message");
}

}  // namespace dfsmr
