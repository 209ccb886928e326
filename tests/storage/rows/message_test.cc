// Messages between partitions, as rows keep them.
#include "storage/rows/message.h"

#include <doctest/doctest.h>

#include <vector>

#include "record.pb.h"
#include "storage/memory_store.h"

namespace dfsmr {
namespace {

using rows::Message;

constexpr PartitionId kHere = 3;

struct Rest {
  Rest() { epoch = *store.Acquire(kHere); }
  template <typename Put>
  void Write(Put put) {
    Batch batch;
    put(rows::Writer{batch, kHere});
    REQUIRE(store.Write(kHere, epoch, batch));
  }
  rows::Reader reader() const { return {store, kHere}; }
  std::vector<std::pair<PartitionId, uint64_t>> Out() const {
    std::vector<std::pair<PartitionId, uint64_t>> all;
    REQUIRE(rows::ScanOut(reader(), [&all](PartitionId to, uint64_t number) {
      all.emplace_back(to, number);
    }));
    return all;
  }

  MemoryStore store;
  Epoch epoch = 0;
};

// What comes of it, when it is written and read.
template <typename One>
One Read(const One& one) {
  auto message = rows::DecodeMessage(rows::EncodeMessage({one}));
  REQUIRE_MESSAGE(message, (message ? "" : message.error().message));
  REQUIRE(std::holds_alternative<One>(message->of));
  return std::get<One>(message->of);
}

const Message::Asker kAsker{"ns", "schedule:s", 7, "i"};

TEST_CASE("a message that is read is what was written") {
  const auto follow = Read(Message::Follow{"ns", "a", "b", 12});
  CHECK(follow.ns == "ns");
  CHECK(follow.instance == "a");
  CHECK(follow.follower == "b");
  CHECK(follow.born == 12);
  for (const auto result : {std::optional<InstanceResult>(), std::optional(InstanceResult::kError),
                            std::optional(InstanceResult::kAborted)}) {
    const auto ended = Read(Message::Ended{"ns", "a", "b", 12, result});
    CHECK(ended.result == result);
    CHECK(ended.follower == "b");
    CHECK(ended.born == 12);
  }
  const auto move = Read(Message::Move{kAsker, "ns", "i", "ok", "node", "{}", 3});
  CHECK(move.asker == kAsker);
  CHECK(move.transition == "ok");
  CHECK(move.node == "node");
  CHECK(move.params == "{}");
  CHECK(move.depth == 3);
  const auto decided = Read(Message::Decided{kAsker, OccurrenceOutcome::kExists, "why", "x"});
  CHECK(decided.asker == kAsker);
  CHECK(decided.outcome == OccurrenceOutcome::kExists);
  CHECK(decided.error == "why");
  CHECK(decided.instance == "x");
  const auto finished =
      Read(Message::Finished{"ns", "trigger:t", "x", true, FromMicros(1'700'000'000'000'000)});
  CHECK(finished.cause == "trigger:t");
  CHECK(finished.failed);
  CHECK(finished.time == FromMicros(1'700'000'000'000'000));
}

TEST_CASE("a start that is read is what was to be started") {
  Message::Begin begin;
  begin.asker = kAsker;
  begin.start.ns = "ns";
  begin.start.machine = "m";
  begin.start.version = 4;
  begin.start.id = "x";
  begin.start.spec.params = R"({"n":1})";
  begin.start.spec.labels = {{"color", "red"}};
  begin.start.after = {{"p", true}};
  begin.start.on_conflict = OnConflict::kSkip;
  begin.provenance = Provenance{"g", "schedule:s", 2, true, FromMicros(5)};
  begin.asks = {{.key = "schedule:s", .on_conflict = OnConflict::kLatest, .waiting = 1}};
  begin.client = "w";
  begin.inside = begin.outside = begin.follows = true;
  const auto read = Read(begin);
  CHECK(read.asker == kAsker);
  CHECK(read.start.machine == "m");
  CHECK(read.start.version == 4);
  CHECK(read.start.id == "x");
  CHECK(read.start.spec == begin.start.spec);
  CHECK(read.start.after == begin.start.after);
  CHECK(read.start.on_conflict == OnConflict::kSkip);
  CHECK(read.provenance == begin.provenance);
  CHECK(read.asks == begin.asks);
  CHECK(read.client == "w");
  CHECK(read.inside);
  CHECK(read.outside);
  CHECK(read.follows);
  CHECK_FALSE(Read(Message::Begin{.start = begin.start}).provenance);
}

TEST_CASE("what is no message is not taken for one") {
  record::Message bad;
  bad.mutable_ended()->set_result(99);
  CHECK_FALSE(rows::DecodeMessage(bad.SerializeAsString()));
  bad.mutable_decided()->set_outcome(99);
  CHECK_FALSE(rows::DecodeMessage(bad.SerializeAsString()));
  bad.mutable_begin()->set_starts("\xFF");
  CHECK_FALSE(rows::DecodeMessage(bad.SerializeAsString()));
  bad.mutable_begin()->set_starts("");
  CHECK_FALSE(rows::DecodeMessage(bad.SerializeAsString()));
  CHECK_FALSE(rows::DecodeMessage(""));
  CHECK_FALSE(rows::DecodeMessage("\xFF"));
}

TEST_CASE("messages rest by partition and number, and are read from one on") {
  Rest rest;
  rest.Write([](rows::Writer writer) {
    for (uint64_t number : {256, 1, 2, 255}) rows::PutOut(writer, 300, number, "to 300");
    rows::PutOut(writer, 1, 9, "to 1");
  });
  using All = std::vector<std::pair<PartitionId, uint64_t>>;
  CHECK(rest.Out() == All{{1, 9}, {300, 1}, {300, 2}, {300, 255}, {300, 256}});
  std::vector<uint64_t> read;
  REQUIRE(rows::ReadOut(rest.reader(), 300, 1, [&](uint64_t number, std::string_view message) {
    CHECK(message == "to 300");
    read.push_back(number);
    return read.size() < 2;
  }));
  CHECK(read == std::vector<uint64_t>{2, 255});
  rest.Write([](rows::Writer writer) { rows::DropOut(writer, 300, 2); });
  CHECK(rest.Out() == All{{1, 9}, {300, 1}, {300, 255}, {300, 256}});
}

TEST_CASE("the numbers of what was applied rest by partition") {
  Rest rest;
  rest.Write([](rows::Writer writer) {
    rows::PutIn(writer, 1, 5);
    rows::PutIn(writer, 1'000, 7);
    rows::PutIn(writer, 1, 6);
  });
  auto ins = rows::GetIns(rest.reader());
  REQUIRE(ins);
  CHECK(*ins == std::map<PartitionId, uint64_t>{{1, 6}, {1'000, 7}});
}

TEST_CASE("followers rest under what they follow, and go with their namespace") {
  Rest rest;
  const rows::FollowerRow row{"ns", "a", "b", 9, 12};
  rest.Write([&](rows::Writer writer) {
    rows::PutFollower(writer, row);
    rows::PutFollower(writer, {"ns", "a", "b", 8, 13});
    rows::PutFollower(writer, {"other", "a", "b", 9, 14});
  });
  const auto born = [&rest] {
    std::vector<uint64_t> all;
    REQUIRE(rows::ScanFollowers(rest.reader(), [&all](const rows::FollowerRow& one) {
      CHECK(one.instance == "a");
      CHECK(one.follower == "b");
      all.push_back(one.born);
    }));
    return all;
  };
  CHECK(born() == std::vector<uint64_t>{13, 12, 14});
  rest.Write([&](rows::Writer writer) { rows::DropFollower(writer, row); });
  CHECK(born() == std::vector<uint64_t>{13, 14});
}

}  // namespace
}  // namespace dfsmr
