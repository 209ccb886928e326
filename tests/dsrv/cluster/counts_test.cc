// Instances of several partitions counted.
#include "dsrv/cluster/counts.h"

#include <map>
#include <string>

#include "dsrv/wire/pages.h"
#include "dsrv/wire/views.h"
#include "tests/dsrv/cluster/asked.h"

namespace dfsmr {
namespace {

constexpr const char* kCount = "dfsmr.v1.ViewService/CountInstances";

TEST_CASE("counts of partitions that count to their ends at once are added up") {
  v1::CountInstancesRequest request;
  request.set_by(v1::CountInstancesRequest::STATE);
  const auto reply = Ask<v1::CountInstancesResponse>(
      kCount, request, {4, 0}, [](PartitionId partition, const std::string&) {
        v1::CountInstancesResponse part;
        part.set_total(10);
        (*part.mutable_groups())["RUNNING"] = 9;
        (*part.mutable_groups())[partition == 3 ? "PAUSED" : "STOPPED"] = 1;
        return Replied(part);
      });
  CHECK(reply.total() == 40);
  CHECK(reply.groups().at("RUNNING") == 36);
  CHECK(reply.groups().at("STOPPED") == 3);
  CHECK(reply.groups().at("PAUSED") == 1);
  CHECK(reply.looked_at() == 0);
  CHECK(reply.next_page_token().empty());
}

TEST_CASE("a count goes on where partitions have more, and counts nothing twice") {
  // Partition p has 10 × p instances, of which it looks at seven at a time.
  v1::CountInstancesRequest request;
  request.set_filter("label:x");
  const std::string filters = FiltersOf(request);
  int asked = 0;
  const auto answer = [&](PartitionId partition, const std::string& bytes) {
    ++asked;
    const auto given = Parsed<v1::CountInstancesRequest>(bytes);
    const auto token = ParsePageToken(filters, given.page_token());
    REQUIRE(token);
    const auto from = token->empty() ? 0 : std::stoull(token->substr(0, token->find('\0')));
    v1::CountInstancesResponse part;
    if (!token->empty()) CHECK(part.ParseFromString(token->substr(token->find('\0') + 1)));
    CHECK(part.total() == 0);  // what was counted before is known to who asks
    const auto to = std::min<uint64_t>(from + 7, 10u * partition);
    part.set_total(to - from);
    part.set_looked_at(to - from);
    if (to < 10u * partition) {
      const std::string so_far = part.SerializeAsString();
      part.set_next_page_token(PageToken(filters, std::to_string(to) + '\0' + so_far));
    }
    return Replied(part);
  };
  v1::CountInstancesResponse reply;
  int rounds = 0;
  do {
    reply = Ask<v1::CountInstancesResponse>(kCount, request, {4, 0}, answer);
    request.set_page_token(reply.next_page_token());
    ++rounds;
  } while (!reply.next_page_token().empty());
  CHECK(reply.total() == 60);
  CHECK(reply.looked_at() == 60);
  CHECK(rounds == 5);
  CHECK(asked == 4 + 3 + 2 + 1 + 1);
}

TEST_CASE("a partition that cannot be asked fails the count rather than be left out") {
  const auto call = MakeParted(std::string("/") + kCount, "", {4, 0});
  const auto driven = Drive(*call, [](PartitionId partition, const std::string&) {
    return partition == 1 ? Failed(grpc::StatusCode::UNAVAILABLE, "NO_OWNER")
                          : Replied(v1::CountInstancesResponse());
  });
  CHECK(driven.end.as_question == 1);
}

TEST_CASE("what is counted so far can be told and read") {
  CountSoFar count;
  CHECK(CountIn(TextOf(count)) == count);
  count.sum.set_total(7);
  count.left = {{0, "a:b"}, {15, ""}, {1'023, std::string("x\0:3:", 5)}};
  CHECK(CountIn(TextOf(count)) == count);
  for (const char* text : {"", "1", "1:", "1:5:abc", "99999:1:a:", "x:1:a:", ":\x0b"}) {
    CAPTURE(text);
    CHECK_FALSE(CountIn(text));
  }
}

TEST_CASE("a token that was made up is refused") {
  v1::CountInstancesRequest request;
  for (const char* text : {"abc", ":", "4:1:a:"}) {
    request.set_page_token(PageToken(FiltersOf(request), text));
    const auto call = MakeParted(std::string("/") + kCount, request.SerializeAsString(), {4, 0});
    CHECK(call->Next().empty());
    CHECK(call->End().refused);
  }
}

TEST_CASE("more groups than are shown are counted under no name") {
  v1::CountInstancesResponse sum;
  for (int part = 0; part < 3; ++part) {
    v1::CountInstancesResponse counted;
    for (int i = 0; i < 500; ++i) {
      (*counted.mutable_groups())[std::to_string(part * 500 + i)] = 1;
    }
    Add(counted, &sum);
  }
  CHECK(sum.groups_size() == 1'001);
  CHECK(sum.groups().at("") == 500);
}

}  // namespace
}  // namespace dfsmr
