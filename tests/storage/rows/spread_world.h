// A store of one partition, and one of several that was made of it.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "storage/memory_store.h"
#include "storage/rows/feed.h"
#include "storage/rows/group.h"
#include "storage/rows/machine.h"
#include "storage/rows/spread.h"
#include "storage/rows/verify.h"
#include "tests/storage/rows/two_nodes.h"

namespace dfsmr {

inline constexpr uint16_t kPartitions = 4;
inline constexpr int kInstances = 40;
// A store of one partition: 40 instances, each third one stopped, each of the others after the one
// before it; and what becomes of it when it is spread.
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

}  // namespace dfsmr
