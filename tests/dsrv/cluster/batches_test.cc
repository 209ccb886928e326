// Batches over several partitions.
#include "dsrv/cluster/batches.h"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "fsm/base/limits.h"
#include "storage/place.h"
#include "tests/dsrv/cluster/asked.h"

namespace dfsmr {
namespace {

constexpr uint16_t kFour = 4;
constexpr PartitionId kDrawn = 3;

v1::StartBatchRequest StartsOf(const std::vector<std::string>& ids) {
  v1::StartBatchRequest batch;
  for (const std::string& id : ids) {
    batch.add_starts()->set_id(id);
    batch.mutable_starts(batch.starts_size() - 1)->set_namespace_("ns");
  }
  return batch;
}

std::vector<std::string> Ids(int count) {
  std::vector<std::string> ids;
  for (int i = 0; i < count; ++i) ids.push_back("i" + std::to_string(i));
  return ids;
}

v1::Error ErrorOf(const std::string& reason) {
  v1::Error error;
  error.set_code(14);
  error.set_reason(reason);
  return error;
}

// Each start is answered by its id.
std::vector<PartReply<v1::StartBatchResponse>> AnswerEach(
    const BatchParts<v1::StartBatchRequest>& parts) {
  std::vector<PartReply<v1::StartBatchResponse>> replies;
  for (const auto& part : parts) {
    v1::StartBatchResponse reply;
    for (const auto& start : part.request.starts()) {
      reply.add_results()->mutable_started()->mutable_instance()->set_id(start.id());
    }
    replies.push_back({std::move(reply)});
  }
  return replies;
}

TEST_CASE("each start goes where its instance lives, once, and those of a partition in order") {
  const std::vector<std::string> ids = Ids(50);
  const auto parts = Split(StartsOf(ids), kFour, kDrawn);
  CHECK(parts.size() == kFour);
  std::map<int, std::string> seen;
  for (const auto& part : parts) {
    CHECK(std::ranges::is_sorted(part.items));
    REQUIRE(part.items.size() == static_cast<size_t>(part.request.starts_size()));
    for (size_t i = 0; i < part.items.size(); ++i) {
      const v1::StartRequest& start = part.request.starts(static_cast<int>(i));
      CHECK(PartitionOf("ns", start.id(), kFour) == part.partition);
      seen[part.items[i]] = start.id();
    }
  }
  REQUIRE(seen.size() == ids.size());
  for (const auto& [place, id] : seen) CHECK(ids[static_cast<size_t>(place)] == id);
}

TEST_CASE("results come in the order of the batch") {
  const std::vector<std::string> ids = Ids(50);
  const auto parts = Split(StartsOf(ids), kFour, kDrawn);
  v1::StartBatchResponse joined;
  CHECK_FALSE(JoinReplies(parts, AnswerEach(parts), &joined));
  REQUIRE(joined.results_size() == 50);
  for (int i = 0; i < 50; ++i) {
    CHECK(joined.results(i).started().instance().id() == ids[static_cast<size_t>(i)]);
  }
}

TEST_CASE("items of a partition that does not answer have its error, the others are done") {
  const std::vector<std::string> ids = Ids(20);
  const auto parts = Split(StartsOf(ids), kFour, kDrawn);
  auto replies = AnswerEach(parts);
  replies[1] = {std::nullopt, ErrorOf("NO_OWNER")};
  replies[2].reply->mutable_results()->RemoveLast();
  const int missing = parts[2].items.back();
  v1::StartBatchResponse joined;
  CHECK_FALSE(JoinReplies(parts, std::move(replies), &joined));
  REQUIRE(joined.results_size() == 20);
  for (int i = 0; i < 20; ++i) {
    const bool away = std::ranges::find(parts[1].items, i) != parts[1].items.end();
    const v1::StartResult& result = joined.results(i);
    CHECK(result.has_started() == (!away && i != missing));
    CHECK(result.error().reason() == (away ? "NO_OWNER" : ""));
    if (i == missing) CHECK(result.error().code() == 13);
  }
}

TEST_CASE("a batch that nobody answers fails") {
  const auto parts = Split(StartsOf(Ids(20)), kFour, kDrawn);
  std::vector<PartReply<v1::StartBatchResponse>> replies(parts.size(),
                                                         {std::nullopt, ErrorOf("NO_OWNER")});
  replies[1].error = ErrorOf("OTHER");
  v1::StartBatchResponse joined;
  const auto failure = JoinReplies(parts, std::move(replies), &joined);
  REQUIRE(failure);
  CHECK(failure->reason() == "NO_OWNER");
  CHECK(joined.results_size() == 0);
}

TEST_CASE("starts without ids go together") {
  const auto parts = Split(StartsOf({"", "", ""}), kFour, kDrawn);
  REQUIRE(parts.size() == 1);
  CHECK(parts.front().partition == kDrawn);
  CHECK(parts.front().items == std::vector<int>{0, 1, 2});
}

TEST_CASE("what is refused as a whole is not split") {
  for (const int count : {0, static_cast<int>(limits::kBatchItems) + 1}) {
    const auto starts = Split(StartsOf(Ids(count)), kFour, kDrawn);
    REQUIRE(starts.size() == 1);
    CHECK(starts.front().partition == 0);
    CHECK(starts.front().request.starts_size() == count);
    v1::ExtendRequest extends;
    for (int i = 0; i < count; ++i) extends.add_items()->set_instance("i" + std::to_string(i));
    const auto parts = Split(std::move(extends), kFour);
    REQUIRE(parts.size() == 1);
    CHECK(parts.front().request.items_size() == count);
  }
}

TEST_CASE("reports go with what is started besides, and what has no id with the first of them") {
  v1::ReportRequest batch;
  std::vector<PartitionId> of_reports;
  for (int i = 0; i < 12; ++i) {
    v1::TransitionRequest& report = *batch.add_transitions();
    report.set_instance("i" + std::to_string(i));
    of_reports.push_back(PartitionOf("", report.instance(), kFour));
  }
  batch.mutable_next()->set_max_tasks(3);
  batch.add_starts();
  batch.add_starts()->set_id("hello");
  batch.mutable_starts(1)->set_namespace_("acme");
  const auto parts = Split(std::move(batch), kFour, kDrawn);
  std::vector<PartReply<v1::ReportResponse>> replies;
  for (const auto& part : parts) {
    CHECK_FALSE(part.request.has_next());
    v1::ReportResponse reply;
    for (const auto& report : part.request.transitions()) {
      CHECK(PartitionOf("", report.instance(), kFour) == part.partition);
      reply.add_results()->mutable_accepted()->set_instance(report.instance());
    }
    for (const auto& start : part.request.starts()) {
      const PartitionId to = start.id().empty() ? of_reports.front()
                                                : PartitionOf("acme", start.id(), kFour);
      CHECK(to == part.partition);
      reply.add_started()->mutable_started()->mutable_instance()->set_id(start.id() + "!");
    }
    replies.push_back({std::move(reply)});
  }
  v1::ReportResponse joined;
  CHECK_FALSE(JoinReplies(parts, std::move(replies), &joined));
  REQUIRE(joined.results_size() == 12);
  for (int i = 0; i < 12; ++i) {
    CHECK(joined.results(i).accepted().instance() == "i" + std::to_string(i));
  }
  REQUIRE(joined.started_size() == 2);
  CHECK(joined.started(0).started().instance().id() == "!");
  CHECK(joined.started(1).started().instance().id() == "hello!");
}

TEST_CASE("extends of one instance keep their order, in their namespace") {
  v1::ExtendRequest batch;
  batch.set_namespace_("acme");
  for (int i = 0; i < 30; ++i) {
    v1::ExtendRequest::Item& item = *batch.add_items();
    item.set_instance("i" + std::to_string(i % 5));
    item.set_claim(std::to_string(i));
  }
  const auto parts = Split(std::move(batch), kFour);
  std::vector<PartReply<v1::ExtendResponse>> replies;
  for (const auto& part : parts) {
    CHECK(part.request.namespace_() == "acme");
    v1::ExtendResponse reply;
    int last = -1;
    for (const auto& item : part.request.items()) {
      CHECK(PartitionOf("acme", item.instance(), kFour) == part.partition);
      CHECK(std::stoi(item.claim()) > last);
      last = std::stoi(item.claim());
      reply.add_items()->mutable_deadline()->set_seconds(last);
    }
    replies.push_back({std::move(reply)});
  }
  v1::ExtendResponse joined;
  CHECK_FALSE(JoinReplies(parts, std::move(replies), &joined));
  REQUIRE(joined.items_size() == 30);
  for (int i = 0; i < 30; ++i) CHECK(joined.items(i).deadline().seconds() == i);
}

TEST_CASE("a batch tells its parts the namespaces of the whole, if there are several") {
  using Names = std::vector<std::string>;
  v1::StartBatchRequest batch;
  CHECK(NamespacesOf(batch).empty());
  batch.add_starts();
  batch.add_starts()->set_namespace_("default");
  CHECK(NamespacesOf(batch).empty());
  batch.add_starts()->set_namespace_("b");
  batch.add_starts()->set_namespace_("a");
  batch.add_starts()->set_namespace_("b");
  CHECK(NamespacesOf(batch) == Names{"default", "b", "a"});
  v1::ReportRequest report;
  report.add_transitions()->set_namespace_("a");
  report.mutable_transitions(0)->add_starts();
  CHECK(NamespacesOf(report).empty());
  report.mutable_transitions(0)->add_starts()->set_namespace_("c");
  report.add_starts()->set_namespace_("d");
  CHECK(NamespacesOf(report) == Names{"a", "d", "c"});
}

}  // namespace

TEST_CASE("a Report that asks for the next tasks says so, and not to its parts") {
  v1::ReportRequest report;
  report.add_transitions()->set_instance("a");
  const auto make = [&report] {
    return MakeParted("/dfsmr.v1.RunnerService/Report", report.SerializeAsString(), {4, 0});
  };
  CHECK_FALSE(make()->Wanted());
  report.mutable_next()->set_max_tasks(7);
  const auto call = make();
  REQUIRE(call->Wanted());
  CHECK(call->Wanted()->max_tasks() == 7);
  const Driven driven = Drive(*call, [](PartitionId, const std::string& bytes) {
    CHECK_FALSE(Parsed<v1::ReportRequest>(bytes).has_next());
    v1::ReportResponse reply;
    reply.add_results()->mutable_accepted()->set_node("b");
    return Replied(reply);
  });
  CHECK(Parsed<v1::ReportResponse>(driven.end.reply).results_size() == 1);
}

}  // namespace dfsmr
