// What verifying a store finds: each kind of damage, planted.
#include "storage/rows/verify.h"

#include <doctest/doctest.h>

#include "storage/memory_store.h"
#include "storage/rows/feed.h"
#include "storage/rows/instance.h"
#include "storage/rows/machine.h"
#include "storage/rows/message.h"
#include "tests/storage/rows/two_nodes.h"

namespace dfsmr {
namespace {

constexpr PartitionId kPartition = 3;
constexpr PartitionId kAtHome = 0;

// A store with a live instance, "live", and one that has stopped, "over", with its index rows.
struct World {
  World() {
    epoch = *store.Acquire(kPartition);
    Batch batch;
    const rows::Writer writer{batch, kPartition};
    rows::PutMachine(writer, {.ns = "ns", .id = "m", .version = 1, .source = "source"});
    Instance live = Make("live", 1);
    Token token;
    token.node = 0;
    token.visit = 1;
    token.state = TokenState::kReady;
    live.tokens.Restore(token);
    Spec spec;
    spec.labels = {{"color", "red"}};
    rows::PutInstance(writer, live, machine, {.spec = &spec});
    Instance over = Make("over", 2);
    over.history.push_back(3);
    over.state = InstanceState::kStopped;
    over.result = InstanceResult::kSuccess;
    rows::PutInstance(writer, over, machine, {.spec = &spec, .expiry = FromMicros(1'000)});
    rows::PutPages(writer, Pages("ok", "a"));
    Write(batch);
  }

  static Instance Make(const char* id, uint64_t first) {
    Instance instance;
    instance.ns = "ns";
    instance.id = id;
    instance.machine = "m";
    instance.version = 1;
    instance.state = InstanceState::kRunning;
    instance.history.push_back(first);
    return instance;
  }

  // Both are started, then "over" leaves a node by a transition.
  static std::vector<rows::FeedPage> Pages(const char* transition, const char* from) {
    std::vector<rows::FeedPage> pages;
    for (uint64_t seq = 1; seq <= 3; ++seq) {
      Event event;
      event.seq = seq;
      event.ns = "ns";
      event.machine = "m";
      event.version = 1;
      event.instance = seq == 1 ? "live" : "over";
      event.kind = seq == 3 ? ChangeKind::kTransitioned : ChangeKind::kStarted;
      event.node = seq == 3 ? "end" : "a";
      if (seq == 3) event.prev_node = from;
      if (seq == 3) event.transition = transition;
      rows::AddEvent(&pages, event);
    }
    return pages;
  }

  void Write(const Batch& batch) { REQUIRE(store.Write(kPartition, epoch, batch)); }

  // The first key of a kind whose key has this text.
  std::string KeyOf(uint8_t kind, std::string_view text) {
    std::string found;
    REQUIRE(store.Scan("", "", [&](std::string_view key, std::string_view) {
      const bool is = static_cast<uint8_t>(key[2]) == kind && key.find(text) != key.npos;
      if (is) found = key;
      return !is;
    }));
    REQUIRE(!found.empty());
    return found;
  }
  void Put(std::string key, std::string value) {
    Batch batch;
    batch.Put(std::move(key), std::move(value));
    Write(batch);
  }
  void Delete(uint8_t kind, std::string_view text) {
    Batch batch;
    batch.Delete(KeyOf(kind, text));
    Write(batch);
  }

  std::string Problems(std::optional<PartitionId> home = {}) {
    rows::Verified verified;
    const auto read = rows::Verify(
        {store, kPartition},
        [this](std::string_view source) {
          return source == "source" ? Result<Machine>(machine)
                                    : Error{Code::kDataLoss, Reason::kNone, "no machine"};
        },
        &verified, home);
    REQUIRE(read);
    CHECK(verified.wrong == verified.problems.size());
    CHECK(verified.rows > 0);
    std::string all;
    for (const std::string& problem : verified.problems) all += problem + "\n";
    return all;
  }
  bool Finds(std::string_view text) {
    const std::string problems = Problems();
    CAPTURE(problems);
    CHECK(problems.find(text) != problems.npos);
    return problems.find(text) != problems.npos;
  }

  MemoryStore store;
  Epoch epoch = 0;
  Machine machine = TwoNodes();
};

TEST_CASE("nothing is wrong with a store that is sound") {
  World world;
  CHECK(world.Problems() == "");
}

TEST_CASE("a partition is verified by the machines of home") {
  World world;
  // The machine's row, of the store above, is at home instead.
  world.Delete(0x01, "m");
  CHECK(world.Problems() != "");
  const auto epoch = *world.store.Acquire(kAtHome);
  Batch home;
  rows::PutMachine({home, kAtHome}, {.ns = "ns", .id = "m", .version = 1, .source = "source"});
  REQUIRE(world.store.Write(kAtHome, epoch, home));
  CHECK(world.Problems(kAtHome) == "");
}

TEST_CASE("a row that cannot be decoded is found, of each kind that has a message") {
  for (const int kind : {0x01, 0x02, 0x03, 0x04, 0x06}) {
    CAPTURE(kind);
    World world;
    world.Put(world.KeyOf(static_cast<uint8_t>(kind), ""), std::string("\0\xFF\xFF\xFF", 4));
    CHECK(world.Finds("damaged"));
  }
}

TEST_CASE("a plan of which the compiled graph is damaged is found") {
  World world;
  Batch batch;
  rows::PutMachine({batch, kPartition},
                   {.ns = "ns", .id = "p", .version = 1, .source = "source", .graph = "\xFF"});
  world.Write(batch);
  CHECK(world.Finds("the graph that it was compiled to is damaged"));
}

TEST_CASE("a row of a kind that there is not is found") {
  World world;
  world.Put(std::string("\0\3\xEE", 3) + "x", "");
  CHECK(world.Finds("row of an unknown kind under key 0003ee78"));
}

TEST_CASE("an instance that stands where its machine has no node is found") {
  World world;
  Machine other = TwoNodes();
  other.nodes[0].id = "b";
  world.machine = other;
  CHECK(world.Finds("damaged instance under key"));
}

TEST_CASE("an instance whose machine is gone is found") {
  World world;
  world.Delete(0x01, "m");
  CHECK(world.Finds("instance 'live' runs on version 1 of machine 'm'"));
}

TEST_CASE("a history that is no path is found") {
  World world;
  Batch batch;
  SUBCASE("by a transition that its node does not have") {
    rows::PutPages({batch, kPartition}, World::Pages("error", "a"));
  }
  SUBCASE("from a node that was not entered") {
    rows::PutPages({batch, kPartition}, World::Pages("ok", "end"));
  }
  world.Write(batch);
  CHECK(world.Finds("the history of instance 'over' of namespace 'ns' is no path: record 3"));
}

TEST_CASE("a record of a history that is gone, or of another instance, is found") {
  World world;
  SUBCASE("gone") {
    world.Delete(0x06, "");
    CHECK(world.Finds("the history of instance 'live' of namespace 'ns' has record 1: "));
  }
  SUBCASE("of another") {
    Batch batch;
    Instance live = World::Make("live", 2);
    Token token;
    token.node = 0;
    token.visit = 1;
    token.state = TokenState::kReady;
    live.tokens.Restore(token);
    rows::PutInstance({batch, kPartition}, live, world.machine, {});
    world.Write(batch);
    CHECK(world.Finds("has record 2, which is of instance 'over'"));
  }
}

TEST_CASE("indexes that do not agree are found, on either side") {
  World world;
  SUBCASE("no label") {
    world.Delete(0x0A, "live");
    CHECK(world.Finds("'live' of namespace 'ns' is missing in the index of labels"));
  }
  SUBCASE("another label") {
    world.Put(std::string("\0\3\x0Ans\0color\0blue\0live\0", 23), "");
    CHECK(world.Finds("with color=blue, and it has no such label"));
  }
  SUBCASE("no machine") {
    world.Delete(0x0B, "over");
    CHECK(world.Finds("'over' of namespace 'ns' is missing in the index of machines"));
  }
  SUBCASE("another machine") {
    world.Put(std::string("\0\3\x0Bns\0other\0live\0", 17), "");
    CHECK(world.Finds("under 'other', and it is of 'm'"));
  }
  SUBCASE("no instance") {
    world.Put(std::string("\0\3\x0Bns\0m\0none\0", 13), "");
    CHECK(world.Finds("the index of machines has instance 'none'"));
  }
  SUBCASE("no spec") {
    world.Delete(0x04, "live");
    CHECK(world.Finds("instance 'live' of namespace 'ns' has no spec"));
  }
  SUBCASE("a spec alone") {
    world.Delete(0x02, "live");
    CHECK(world.Finds("spec without an instance"));
  }
  SUBCASE("no expiry") {
    world.Delete(0x09, "over");
    CHECK(world.Finds("1 instances have stopped, and 0 rows say when one may be removed"));
  }
  SUBCASE("an expiry alone") {
    world.Delete(0x03, "over");
    CHECK(world.Finds("'over' of namespace 'ns' may be removed at a time, and has not stopped"));
  }
}

TEST_CASE("messages with a gap in their numbers, and followers of what is not there, are found") {
  World world;
  const auto write = [&world](const auto& put) {
    Batch batch;
    put(rows::Writer{batch, kPartition});
    world.Write(batch);
  };
  const std::string message = rows::EncodeMessage({rows::Message::Finished{"ns", "c", "i"}});
  write([&](rows::Writer writer) {
    rows::PutOut(writer, 1, 4, message);
    rows::PutOut(writer, 1, 5, message);
    rows::PutOut(writer, 2, 9, message);
    rows::PutIn(writer, 1, 7);
    rows::PutFollower(writer, {"ns", "live", "f", 1, 3});
  });
  CHECK(world.Problems() == "");
  SUBCASE("a gap") {
    write([&](rows::Writer writer) { rows::PutOut(writer, 1, 7, message); });
    CHECK(world.Finds("message 7 to partition 1 comes after 5"));
  }
  SUBCASE("to itself") {
    write([&](rows::Writer writer) { rows::PutOut(writer, kPartition, 1, message); });
    CHECK(world.Finds("message to nobody else"));
  }
  SUBCASE("no message") {
    write([&](rows::Writer writer) { rows::PutOut(writer, 1, 6, "\xFF"); });
    CHECK(world.Finds("damaged message to another partition"));
  }
  SUBCASE("a follower of what has stopped") {
    write([&](rows::Writer writer) { rows::PutFollower(writer, {"ns", "over", "f", 1, 3}); });
    CHECK(world.Finds("'f' of another partition follows instance 'over'"));
  }
}

}  // namespace
}  // namespace dfsmr
