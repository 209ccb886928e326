// The rows of a store of one partition in one of several: each lies where its instance lives, and
// each partition is sound by itself.
#include "storage/rows/spread.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "storage/rows/bulk.h"
#include "storage/rows/message.h"
#include "storage/rows/past.h"
#include "storage/rows/space.h"
#include "tests/storage/rows/spread_world.h"

namespace dfsmr {
namespace {

constexpr PartitionId kThere = 1;  // elsewhere than at home

}  // namespace

TEST_CASE("each partition of a store that was spread is sound, and has its instances") {
  World world;
  world.SpreadAll();
  uint64_t instances = 0;
  for (PartitionId id = 0; id < kPartitions; ++id) {
    CAPTURE(id);
    const uint64_t before = instances;
    CHECK(world.Problems(id, &instances) == "");
    CHECK(instances > before);
    const rows::Reader reader{world.target, id};
    CHECK(*rows::LastSeq(reader) == world.last);
    CHECK(*rows::FirstSeq(reader) == (id == kHome ? 1 : world.last + 1));
  }
  CHECK(instances == kInstances);
  for (int number = 0; number < kInstances; ++number) {
    const std::string name = World::NameOf(number);
    const rows::Reader there{world.target, PartitionOf("ns", name, kPartitions)};
    auto instance = rows::GetInstance(there, {"ns", name}, world.resolve);
    REQUIRE(instance);
    CHECK(instance->Stopped() == World::Stops(number));
    CHECK(rows::History(there, *instance, 0)->size() == (World::Stops(number) ? 2 : 1));
    CHECK(rows::GetSpec(there, {"ns", name})->labels.at("number") == std::to_string(number));
  }
}

TEST_CASE("home knows what the members of a group count elsewhere, and these that it does") {
  World world;
  world.SpreadAll();
  auto home = rows::GetGroup({world.target, kHome}, {"ns", "g"});
  REQUIRE((home && *home));
  GroupCounts there;
  uint64_t stopped = (*home)->counts.Of(MemberShare::Kind::kSuccess);
  for (PartitionId id = 1; id < kPartitions; ++id) {
    auto group = rows::GetGroup({world.target, id}, {"ns", "g"});
    REQUIRE((group && *group));
    stopped += (*group)->counts.Of(MemberShare::Kind::kSuccess);
    for (size_t i = 0; i < there.members.size(); ++i) {
      there.members[i] += (*group)->apart.members[i];
    }
  }
  CHECK((*home)->apart.members == there.members);
  CHECK(stopped == world.stopped.Total());
  CHECK(there.Total() < world.all.Total());
  // What has stopped elsewhere is counted there, and counts as removed at home.
  uint64_t counted = 0;
  for (PartitionId id = 1; id < kPartitions; ++id) {
    REQUIRE(rows::ScanStats({world.target, id}, [&](const rows::StatsRow& row) {
      counted += row.versions.at(1).stopped.all;
    }));
  }
  uint64_t removed = 0;
  REQUIRE(rows::ScanDropped({world.target, kHome},
                            [&](const std::string&, const std::string&,
                                const rows::DroppedCounts& dropped) {
                              removed += dropped.at(1).all;
                            }));
  CHECK(counted == removed);
  CHECK(counted == stopped - (*home)->counts.Of(MemberShare::Kind::kSuccess));
}

TEST_CASE("what a follower elsewhere waits for knows of it, or is asked") {
  World world;
  world.SpreadAll();
  uint64_t known = 0;
  uint64_t asked = 0;
  for (PartitionId id = 0; id < kPartitions; ++id) {
    const rows::Reader reader{world.target, id};
    REQUIRE(rows::ScanFollowers(reader, [&](const rows::FollowerRow& row) {
      CHECK(PartitionOf("ns", row.instance, kPartitions) == id);
      CHECK(PartitionOf("ns", row.follower, kPartitions) == row.from);
      const rows::Reader there{world.target, row.from};
      CHECK(rows::GetSpec(there, {"ns", row.follower})->first_seq == row.born);
      ++known;
    }));
    REQUIRE(rows::ScanOut(reader, [&](PartitionId to, uint64_t) {
      CHECK(to != id);
      ++asked;
    }));
  }
  uint64_t live = 0;
  uint64_t over = 0;
  for (int number = 1; number < kInstances; ++number) {
    const auto place = [](int one) { return PartitionOf("ns", World::NameOf(one), kPartitions); };
    if (World::Stops(number) || place(number) == place(number - 1)) continue;
    ++(World::Stops(number - 1) ? over : live);
  }
  CHECK(known == live);
  CHECK(asked == over);
  CHECK(live > 0);
  CHECK(over > 0);
}

TEST_CASE("records of before are found in order, and trimmed as the feed is") {
  World world;
  world.SpreadAll();
  const rows::Reader reader{world.target, kThere};
  const auto kept = [&](bool backwards) {
    std::vector<uint64_t> seqs;
    REQUIRE(rows::ScanKept(reader, 0, world.last + 1, backwards, [&seqs](const Event& event) {
      CHECK(PartitionOf("ns", event.instance, kPartitions) == kThere);
      seqs.push_back(event.seq);
      return true;
    }));
    if (backwards) std::ranges::reverse(seqs);
    return seqs;
  };
  const auto before = kept(false);
  CHECK(before.size() > 5);
  CHECK(std::ranges::is_sorted(before));
  CHECK(kept(true) == before);
  CHECK(*rows::PastStart(reader) == before.front());
  const auto trim = [&](Timestamp horizon, uint64_t drop) {
    Batch batch;
    REQUIRE(rows::TrimPast(reader, {batch, kThere}, world.last + 1, horizon, SIZE_MAX,
                           [drop](const Event& event) { return event.seq != drop; }));
    REQUIRE(world.target.Write(kThere, world.epochs[kThere], batch));
  };
  trim(Timestamp() - Duration(1), 0);
  CHECK(*rows::PastStart(reader) == before.front());
  trim(Timestamp(), before[1]);
  CHECK(*rows::PastStart(reader) == UINT64_MAX);
  std::vector<uint64_t> rest = before;
  rest.erase(rest.begin() + 1);
  CHECK(kept(false) == rest);
  CHECK(kept(true) == rest);
  trim(Timestamp(), 0);  // there is nothing left to trim
  CHECK(kept(false) == rest);
  CHECK(*rows::LastSeq(reader) == world.last);
}

TEST_CASE("what is under way is said before anything is moved") {
  World world;
  CHECK(rows::Spread::MayMove({world.source, kHome}, kPartitions));
  Batch batch;
  rows::PutBulk({batch, kHome}, {"ns", "b"}, {.state = rows::BulkState::kRunning});
  world.Write(batch);
  auto may = rows::Spread::MayMove({world.source, kHome}, kPartitions);
  REQUIRE_FALSE(may);
  CHECK(may.error().message.find("bulk 'b'") != std::string::npos);
  Batch gone;
  rows::DropBulk({gone, kHome}, {"ns", "b"});
  rows::PutSpace({gone, kHome}, "ns", {.state = rows::SpaceState::kDropping});
  world.Write(gone);
  may = rows::Spread::MayMove({world.source, kHome}, kPartitions);
  REQUIRE_FALSE(may);
  CHECK(may.error().message.find("namespace 'ns' is being deleted") != std::string::npos);
}

TEST_CASE("a child that would not live where its parent does keeps both where they are") {
  World world;
  int other = 2;  // one that lives elsewhere than "one-1", which has not stopped
  const auto place = [](int one) { return PartitionOf("ns", World::NameOf(one), kPartitions); };
  while (place(other) == place(1)) ++other;
  const auto add = [&](const std::string& id) {
    Instance child;
    child.ns = "ns";
    child.id = id;
    child.machine = "m";
    child.version = 1;
    child.parent = World::NameOf(1);
    const Spec spec;
    Batch batch;
    rows::PutInstance({batch, kHome}, child, world.machine, {.spec = &spec});
    world.Write(batch);
  };
  add(World::NameOf(1) + "/step/1");
  CHECK(rows::Spread::MayMove({world.source, kHome}, kPartitions));
  add(World::NameOf(other) + "/step/1");
  const auto may = rows::Spread::MayMove({world.source, kHome}, kPartitions);
  REQUIRE_FALSE(may);
  CHECK(may.error().message.find("'one-1' of namespace 'ns' has child") != std::string::npos);
}

}  // namespace dfsmr
