// Several engines of one store, each with its partition, and the messages between them, which move
// only when a test says so.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dsrv/engine/adoption.h"
#include "dsrv/engine/messages.h"
#include "storage/place.h"
#include "tests/dsrv/engine/world.h"

namespace dfsmr {

class Parted {
 public:
  struct Letter {
    PartitionId from = 0;
    PartitionId to = 0;
    uint64_t number = 0;
    std::string text;
  };

  // By partition: as its engine sees the one store; absent: as it is.
  using Disks = std::function<Store*(PartitionId)>;
  explicit Parted(uint16_t partitions, const Disks& disks = {}) {
    for (PartitionId id = 0; id < partitions; ++id) {
      EngineOptions options;
      options.partition = id;
      options.partitions = partitions;
      options.home = kHome;
      Store* const store = disks ? disks(id) : &store_;
      worlds_.push_back(std::make_unique<World>(std::move(options), store));
    }
  }

  uint16_t size() const { return static_cast<uint16_t>(worlds_.size()); }
  World& at(PartitionId id) { return *worlds_[id]; }
  PartitionId PlaceOf(std::string_view id) const { return PartitionOf("ns", id, size()); }
  World& Of(std::string_view id) { return at(PlaceOf(id)); }
  Store& store() { return store_; }
  // The first id of this form that lives in a partition.
  std::string Named(const std::string& name, PartitionId place) const {
    for (int i = 0;; ++i) {
      std::string id = name + std::to_string(i);
      if (PlaceOf(id) == place) return id;
    }
  }

  // At home; the others adopt it.
  void Define(std::string_view yaml) {
    at(kHome).Define(yaml);
    Adopt();
  }
  // The others adopt what is at home.
  void Adopt() {
    for (PartitionId id = 1; id < size(); ++id) {
      at(id).Do([](Engine& e) {
        auto adoption = ReadAdoption(e.reader(), kHome, CompileOne, "");
        REQUIRE(adoption);
        e.Adopt(*std::move(adoption));
        return true;
      });
    }
  }
  // Schedules and triggers, which are only at home.
  void DefineDocuments(std::string_view yaml) {
    Parsed parsed = ParseDefinitions(yaml, "test");
    std::vector<DefineProblem> problems;
    auto defined = at(kHome).Do([&](Engine& e) {
      return DefineAtOnce(e, "ns", {std::move(parsed.definitions), std::move(parsed.documents)},
                          false, &problems);
    });
    REQUIRE_MESSAGE(defined, (defined ? "" : defined.error().message));
  }
  Started Start(const std::string& machine, const std::string& id,
                std::vector<Instance::Prerequisite> after = {}) {
    auto started = Of(id).TryStart({.machine = machine, .id = id, .after = std::move(after)});
    REQUIRE_MESSAGE(started, (started ? "" : started.error().message));
    return *started;
  }
  Instance Must(const std::string& id) { return Of(id).Must(id); }
  // How often an instance has begun.
  size_t Begun(const std::string& id) {
    const auto kinds = Of(id).KindsOf(id);
    return static_cast<size_t>(std::ranges::count(kinds, ChangeKind::kStarted));
  }
  // A transition of a machine's only token.
  void Move(const std::string& id, const std::string& transition) {
    auto moved = Of(id).Move(id, transition);
    REQUIRE_MESSAGE(moved, (moved ? "" : moved.error().message));
  }

  // What `from` has for `to` now.
  std::vector<Letter> Offered(PartitionId from, PartitionId to, uint64_t after = 0,
                              size_t most = 1'000) {
    auto next = at(from).engine().messages().outgoing()->Next(to, after, most);
    REQUIRE(next);
    std::vector<Letter> letters;
    for (const Outgoing::Numbered& one : *next) letters.push_back({from, to, one.number, one.text});
    return letters;
  }
  // Everybody has for everybody.
  std::vector<Letter> AllOffered() {
    std::vector<Letter> letters;
    for (PartitionId from = 0; from < size(); ++from) {
      for (PartitionId to = 0; to < size(); ++to) {
        if (to == from) continue;
        std::ranges::move(Offered(from, to), std::back_inserter(letters));
      }
    }
    return letters;
  }
  // Returns up to where all are applied, durably.
  uint64_t Deliver(const Letter& letter) {
    auto up_to = at(letter.to).Do([&](Engine& e) {
      return e.messages().Deliver(letter.from, letter.number, letter.text);
    });
    REQUIRE_MESSAGE(up_to, (up_to ? "" : up_to.error().message));
    return *up_to;
  }
  void Confirm(const Letter& letter, uint64_t up_to) {
    at(letter.from).Do([&](Engine& e) {
      e.messages().Applied(letter.to, up_to);
      return true;
    });
  }
  // Carries all, until nobody has anything; returns what went.
  std::vector<Letter> Carry() {
    std::vector<Letter> carried;
    for (int round = 0; round < 1'000; ++round) {
      for (auto& world : worlds_) world->Drain();
      const auto letters = AllOffered();
      if (letters.empty()) return carried;
      for (const Letter& letter : letters) Confirm(letter, Deliver(letter));
      carried.insert(carried.end(), letters.begin(), letters.end());
    }
    FAIL("there is no end to the messages");
    return carried;
  }
  void Elapse(Duration by) {
    for (auto& world : worlds_) world->Elapse(by);
  }
  void Crash() {
    for (auto& world : worlds_) world->Crash();
  }

 private:
  MemoryStore store_;
  std::vector<std::unique_ptr<World>> worlds_;
};

}  // namespace dfsmr
