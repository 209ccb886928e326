// The rows of a store of one partition in one of several: each lies where its instance lives, and
// each partition is sound by itself.
#include "storage/rows/spread.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "storage/memory_store.h"
#include "storage/rows/bulk.h"
#include "storage/rows/feed.h"
#include "storage/rows/machine.h"
#include "storage/rows/message.h"
#include "storage/rows/past.h"
#include "storage/rows/space.h"
#include "storage/rows/verify.h"
#include "tests/storage/rows/two_nodes.h"

namespace dfsmr {
namespace {

constexpr uint16_t kPartitions = 4;
constexpr int kInstances = 40;
constexpr PartitionId kThere = 1;  // elsewhere than at home

struct World {
  World() {
    epoch = *source.Acquire(kHome);
    for (PartitionId id = 0; id < kPartitions; ++id) epochs.push_back(*target.Acquire(id));
    Batch batch;
    const rows::Writer writer{batch, kHome};
    rows::PutMachine(writer, {.ns = "ns", .id = "m", .version = 1, .source = "source"});
    for (int number = 0; number < kInstances; ++number) Add(writer, number);
    Record("removed", ChangeKind::kStarted);
    rows::PutPages(writer, pages);
    rows::PutGroup(writer, {"ns", "g"}, {.counts = stopped});
    Write(batch);
  }

  static std::string NameOf(int number) { return "one-" + std::to_string(number); }
  static bool Stops(int number) { return number % 3 == 0; }

  // Of a group; each third one has stopped, and each waits for the one before it.
  void Add(const rows::Writer& writer, int number) {
    Instance instance;
    instance.ns = "ns";
    instance.id = NameOf(number);
    instance.machine = "m";
    instance.version = 1;
    instance.state = InstanceState::kScheduled;
    instance.provenance = Provenance{.group = "g"};
    instance.history = {Record(instance.id, ChangeKind::kStarted)};
    Spec spec;
    spec.labels = {{"number", std::to_string(number)}};
    spec.first_seq = instance.history.front();
    rows::Changed changed{.spec = &spec};
    if (Stops(number)) {
      instance.state = InstanceState::kStopped;
      instance.result = InstanceResult::kSuccess;
      instance.history.push_back(Record(instance.id, ChangeKind::kTransitioned));
      changed.expiry = FromMicros(1'000);
      stopped.Add(ShareOf(instance));
    } else {
      if (number > 0) instance.after.push_back({.instance = NameOf(number - 1)});
    }
    all.Add(ShareOf(instance));
    rows::PutInstance(writer, instance, machine, changed);
  }

  uint64_t Record(const std::string& id, ChangeKind kind) {
    Event event;
    event.seq = ++last;
    event.ns = "ns";
    event.machine = "m";
    event.version = 1;
    event.instance = id;
    event.kind = kind;
    const bool moves = kind == ChangeKind::kTransitioned;
    event.node = moves ? "end" : "a";
    if (moves) event.prev_node = "a";
    if (moves) event.transition = "ok";
    rows::AddEvent(&pages, event);
    return last;
  }

  void Write(const Batch& batch) { REQUIRE(source.Write(kHome, epoch, batch)); }

  void SpreadAll() {
    const auto put = [this](std::string key, std::string value) {
      const auto id = static_cast<PartitionId>(static_cast<uint8_t>(key[1]));
      Batch batch;
      batch.Put(std::move(key), std::move(value));
      REQUIRE(target.Write(id, epochs[id], batch));
    };
    rows::Spread spread({source, kHome}, kPartitions, resolve, put,
                        {[](const rows::Resting&, PartitionId) { return Ok{}; },
                         [this](const Instance&, PartitionId) { return ++seen, Ok{}; }});
    REQUIRE(spread.Begin());
    REQUIRE(source.Scan("", "", [&](std::string_view key, std::string_view value) {
      REQUIRE(spread.Take(key, value));
      return true;
    }));
    REQUIRE(spread.Finish());
  }

  std::string Problems(PartitionId id, uint64_t* instances) {
    rows::Verified verified;
    REQUIRE(rows::Verify({target, id},
                         [this](std::string_view) { return Result<Machine>(machine); }, &verified,
                         kHome));
    *instances += verified.instances;
    std::string problems;
    for (const std::string& one : verified.problems) problems += one + "\n";
    return problems;
  }

  Machine machine = TwoNodes();
  rows::Resolve resolve = [this](std::string_view, std::string_view, uint32_t) {
    return &machine;
  };
  MemoryStore source;
  MemoryStore target;
  Epoch epoch = 0;
  std::vector<Epoch> epochs;
  std::vector<rows::FeedPage> pages;
  uint64_t last = 0;
  GroupCounts stopped;
  GroupCounts all;
  int seen = 0;
};

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
