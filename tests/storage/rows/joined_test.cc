// A store of several partitions, read as one of a single partition: what was spread is whole again,
// and what several have recorded, counted and read is one.
#include "storage/rows/joined.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "storage/rows/bulk.h"
#include "storage/rows/clock.h"
#include "storage/rows/message.h"
#include "storage/rows/past.h"
#include "storage/rows/space.h"
#include "storage/rows/stats.h"
#include "storage/rows/trigger.h"
#include "tests/storage/rows/spread_world.h"

namespace dfsmr {
namespace {

using Records = std::vector<std::pair<uint64_t, std::string>>;  // number, instance

struct Joining : World {
  Joining() { SpreadAll(); }

  void WriteTo(PartitionId id, const Batch& batch) {
    REQUIRE(target.Write(id, epochs[id], batch));
  }
  // So many records of one partition, on one page.
  void Append(PartitionId id, int time, const std::vector<std::string>& instances) {
    auto seq = rows::LastSeq({target, id});
    REQUIRE(seq);
    std::vector<rows::FeedPage> page;
    for (const std::string& instance : instances) {
      Event event;
      event.seq = ++*seq;
      event.time = FromMicros(time);
      event.ns = "ns";
      event.machine = "m";
      event.instance = instance;
      event.kind = ChangeKind::kStarted;
      rows::AddEvent(&page, event);
    }
    Batch batch;
    rows::PutPages({batch, id}, page);
    WriteTo(id, batch);
  }
  void Follow(PartitionId id, uint64_t position) {
    Batch batch;
    rows::PutTrigger({batch, id}, {"ns", "t"}, {.position = position});
    WriteTo(id, batch);
  }
  uint64_t Last(PartitionId id) { return *rows::LastSeq({target, id}); }
  // The messages that a spread store begins with have been applied.
  void Deliver() {
    for (PartitionId from = 0; from < kPartitions; ++from) {
      std::map<PartitionId, uint64_t> sent;
      REQUIRE(rows::ScanOut({target, from},
                            [&](PartitionId to, uint64_t number) { sent[to] = number; }));
      for (const auto& [to, number] : sent) {
        Batch batch;
        rows::PutIn({batch, to}, from, number);
        WriteTo(to, batch);
      }
    }
  }
  // What was counted is up to the heads.
  void Count() {
    for (PartitionId id = 0; id < kPartitions; ++id) {
      Batch batch;
      rows::PutStatsSeq({batch, id}, Last(id));
      WriteTo(id, batch);
    }
  }
  std::unique_ptr<rows::Joined> Join() {
    auto joined = std::make_unique<rows::Joined>(target, kPartitions);
    const auto begun = joined->Begin();
    REQUIRE_MESSAGE(begun, begun.error().message);
    return joined;
  }
  // The same rows in a store.
  void Copy(const View& view, MemoryStore* to) {
    const Epoch mine = *to->Acquire(kHome);
    Batch batch;
    std::string before;
    REQUIRE(view.ScanOnce("", "", [&](std::string_view key, std::string_view value) {
      CHECK(before < key);
      before = key;
      batch.Put(std::string(key), std::string(value));
      return true;
    }));
    REQUIRE(to->Write(kHome, mine, batch));
  }
};

Records Feed(const View& view) {
  Records records;
  REQUIRE(rows::ScanFeed({view, kHome}, *rows::FirstSeq({view, kHome}), [&](const Event& event) {
    records.emplace_back(event.seq, event.instance);
    return true;
  }));
  return records;
}

std::vector<std::string> Walk(const View& view, const std::string& id,
                              const rows::Resolve& resolve) {
  auto instance = rows::GetInstance({view, kHome}, {"ns", id}, resolve);
  REQUIRE(instance);
  auto seqs = rows::History({view, kHome}, *instance, 0);
  REQUIRE(seqs);
  CHECK(std::ranges::is_sorted(*seqs));
  rows::FeedReader feed(view, kHome);
  std::vector<std::string> walk;
  for (const uint64_t seq : *seqs) {
    auto event = feed.Get(seq);
    REQUIRE_MESSAGE(event, event.error().message);
    CHECK(event->instance == id);
    walk.push_back(event->node);
  }
  return walk;
}

}  // namespace

TEST_CASE("a store that was spread is joined to what it was") {
  Joining world;
  world.Deliver();
  world.Count();
  const auto joined = world.Join();
  MemoryStore copy;
  world.Copy(*joined, &copy);
  rows::Verified verified;
  REQUIRE(rows::Verify({copy, kHome},
                       [&](std::string_view) { return Result<Machine>(world.machine); },
                       &verified));
  CHECK(verified.problems == std::vector<std::string>());
  CHECK(verified.instances == kInstances);
  CHECK(Feed(copy) == Feed(world.source));
  CHECK(*rows::PastStart({copy, kHome}) == UINT64_MAX);  // home's feed has all of it
  for (int number = 0; number < kInstances; ++number) {
    const std::string id = World::NameOf(number);
    CHECK(Walk(copy, id, world.resolve) == Walk(world.source, id, world.resolve));
    CHECK(rows::GetSpec({*joined, kHome}, {"ns", id})->first_seq ==
          rows::GetSpec({world.source, kHome}, {"ns", id})->first_seq);
  }
  const auto group = rows::GetGroup({copy, kHome}, {"ns", "g"});
  REQUIRE((group && *group));
  CHECK((*group)->counts.members == world.stopped.members);
  CHECK((*group)->apart == GroupCounts());
  // Backwards it is the same.
  std::vector<std::string> keys;
  REQUIRE(copy.Scan("", "", [&](std::string_view key, std::string_view) {
    keys.emplace_back(key);
    return true;
  }));
  REQUIRE(joined->Scan(
      "", "",
      [&](std::string_view key, std::string_view) {
        CHECK(keys.back() == key);
        keys.pop_back();
        return true;
      },
      true));
  CHECK(keys.empty());
}

TEST_CASE("the feeds become one in the order of their times") {
  Joining world;
  world.Deliver();
  const uint64_t before = world.last;
  world.Append(2, 30, {"b", "c"});
  world.Append(1, 10, {"a"});
  world.Append(1, 40, {"d"});
  world.Append(2, 35, {"e"});
  world.Append(kHome, 20, {"f"});
  world.Count();
  const auto joined = world.Join();
  Records records = Feed(*joined);
  records.erase(records.begin(), records.begin() + static_cast<std::ptrdiff_t>(before));
  const Records want = {{before + 1, "a"}, {before + 2, "f"}, {before + 3, "b"},
                        {before + 4, "c"}, {before + 5, "e"}, {before + 6, "d"}};
  CHECK(records == want);
  CHECK(*rows::GetStatsSeq({*joined, kHome}) == before + 6);
}

TEST_CASE("what lies before a cut stays before it, whatever the times") {
  Joining world;
  world.Deliver();
  const uint64_t before = world.last;
  world.Append(1, 10, {"a", "b"});
  world.Append(2, 5, {"c", "d"});
  world.Append(kHome, 1, {"e"});
  world.Count();
  // A trigger that was paused in the midst of a page, and another one in front of it.
  world.Follow(kHome, before);
  world.Follow(1, before + 1);
  world.Follow(2, before);
  world.Follow(3, before);
  const auto joined = world.Join();
  Records records = Feed(*joined);
  records.erase(records.begin(), records.begin() + static_cast<std::ptrdiff_t>(before));
  const Records want = {{before + 1, "a"}, {before + 2, "e"}, {before + 3, "c"},
                        {before + 4, "d"}, {before + 5, "b"}};
  CHECK(records == want);
  auto trigger = rows::GetTrigger({*joined, kHome}, {"ns", "t"});
  REQUIRE((trigger && *trigger));
  CHECK((*trigger)->position == before + 1);
  CHECK_FALSE((*trigger)->following);
}

TEST_CASE("what has come differently far in several partitions is refused") {
  Joining world;
  world.Deliver();
  world.Append(1, 10, {"a"});
  world.Append(2, 10, {"b"});
  Batch counted;
  rows::PutStatsSeq({counted, 1}, world.Last(1));
  world.WriteTo(1, counted);
  world.Follow(kHome, world.Last(kHome));
  world.Follow(1, world.Last(1) - 1);  // is behind what is counted there,
  world.Follow(2, world.Last(2));      // and has gone past it here
  rows::Joined joined(world.target, kPartitions);
  const auto begun = joined.Begin();
  REQUIRE_FALSE(begun);
  CHECK(begun.error().code == Code::kFailedPrecondition);
  CHECK(begun.error().message.find("stop its servers with SIGTERM") != std::string::npos);
}

TEST_CASE("messages under way are refused") {
  Joining world;
  rows::Joined joined(world.target, kPartitions);
  const auto begun = joined.Begin();
  REQUIRE_FALSE(begun);
  CHECK(begun.error().message.find("messages between partitions") != std::string::npos);
}

TEST_CASE("who waits for a limit stands in line by its start, as in a store of one partition") {
  Joining world;
  world.Deliver();
  world.Count();
  const std::string id = World::NameOf(1);  // which has not stopped
  const PartitionId place = PartitionOf("ns", id, kPartitions);
  auto instance = rows::GetInstance({world.target, place}, {"ns", id}, world.resolve);
  REQUIRE(instance);
  instance->limits = InstanceLimits{.state = InstanceLimits::State::kWaits,
                                    .order = 1'700'000'000'000'000};  // a time
  Batch batch;
  rows::PutInstance({batch, place}, *instance, world.machine, {});
  world.WriteTo(place, batch);
  const auto joined = world.Join();
  const auto moved = rows::GetInstance({*joined, kHome}, {"ns", id}, world.resolve);
  REQUIRE(moved);
  const auto spec = rows::GetSpec({*joined, kHome}, {"ns", id});
  REQUIRE(spec);
  CHECK(moved->limits->order == spec->first_seq);
}

TEST_CASE("records that only histories have any more are found by their new numbers") {
  Joining world;
  world.Deliver();
  world.Count();
  const auto before = [&](int number) {
    return Walk(world.source, World::NameOf(number), world.resolve);
  };
  // Retention has taken home's feed, and in one partition what had come from there.
  for (const PartitionId id : {kHome, PartitionId{1}}) {
    Batch batch;
    const rows::Reader reader{world.target, id};
    const auto keep = [&](const Event& event) {
      return PartitionOf("ns", event.instance, kPartitions) == id && event.instance != "removed";
    };
    REQUIRE(rows::TrimPast(reader, {batch, id}, *rows::FirstSeq(reader), kNever, SIZE_MAX, keep));
    if (id == kHome) {
      REQUIRE(rows::TrimFeed(reader, {batch, id}, 1, kNever, SIZE_MAX, keep));
    }
    world.WriteTo(id, batch);
  }
  const auto joined = world.Join();
  MemoryStore copy;
  world.Copy(*joined, &copy);
  CHECK(Feed(copy).empty());
  CHECK(*rows::FirstSeq({copy, kHome}) > world.last + 1);
  CHECK(*rows::PastStart({copy, kHome}) < *rows::FirstSeq({copy, kHome}));
  for (int number = 0; number < kInstances; ++number) {
    CHECK(Walk(copy, World::NameOf(number), world.resolve) == before(number));
  }
  rows::Verified verified;
  REQUIRE(rows::Verify({copy, kHome},
                       [&](std::string_view) { return Result<Machine>(world.machine); },
                       &verified));
  CHECK(verified.problems == std::vector<std::string>());
}

TEST_CASE("what each partition has counted is added up") {
  Joining world;
  world.Deliver();
  for (PartitionId id = 0; id < kPartitions; ++id) {
    Batch batch;
    rows::StatsRow stats{.ns = "ns", .machine = "other"};
    stats.versions[1].stopped.all = 10;
    stats.versions[1].nodes["a"] = {.completed = 5, .timed_out = id};
    Latency latency;
    for (int i = 0; i <= id; ++i) {
      latency.Learn({.took = std::chrono::milliseconds(10 * i + 1)}, FromMicros(1'000'000));
    }
    stats.latencies["a"] = latency.Save();
    rows::PutStats({batch, id}, stats);
    rows::PutBulk({batch, id}, {"ns", "bulk"},
                  {.state = id == 2 ? rows::BulkState::kLimited : rows::BulkState::kDone,
                   .changed = 3,
                   .reasons = {{"REFUSED", 2}, {"OTHER", id}}});
    rows::PutClock({batch, id}, {FromMicros(5), FromMicros(5 + id)});
    rows::PutSpace({batch, id}, "ns", {.description = id == kHome ? "home's" : "a copy"});
    world.WriteTo(id, batch);
  }
  world.Count();
  const auto joined = world.Join();
  const rows::Reader reader{*joined, kHome};
  bool found = false;
  REQUIRE(rows::ScanStats(reader, [&](const rows::StatsRow& row) {
    if (row.machine != "other") return;
    found = true;
    CHECK(row.versions.at(1).stopped.all == 40);
    CHECK(row.versions.at(1).nodes.at("a").completed == 20);
    CHECK(row.versions.at(1).nodes.at("a").timed_out == 6);
    CHECK(Latency::Restore(row.latencies.at("a")).Samples() == 10);
  }));
  CHECK(found);
  size_t bulks = 0;
  REQUIRE(rows::ScanBulks(reader, [&](rows::BulkName, const rows::BulkRow& bulk) {
    ++bulks;
    CHECK(bulk.state == rows::BulkState::kLimited);
    CHECK(bulk.changed == 12);
    CHECK(bulk.reasons == std::map<std::string, uint64_t>{{"REFUSED", 8}, {"OTHER", 6}});
  }));
  CHECK(bulks == 1);
  CHECK((*rows::GetClock(reader))->last_change == FromMicros(8));
  size_t spaces = 0;
  REQUIRE(rows::ScanSpaces(reader, [&](std::string_view, const rows::SpaceRow& space) {
    ++spaces;
    CHECK(space.description == "home's");
  }));
  CHECK(spaces == 1);
}

}  // namespace dfsmr
