// What a watcher reads of the feed, in portions, from memory and from the store.
#include "dsrv/feed/changes.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/dsrv/engine/world.h"

namespace dfsmr {
namespace {

// A feed of `records` records or some more: DEFINED, STARTED of i and j, then transitions. Every
// hundredth is of j, the others of i.
struct Feed {
  explicit Feed(size_t records, size_t bytes_each) {
    world.OnCommit([this](const Turn& turn, const std::vector<Event>&) {
      if (!turn.feed->empty()) changes.Publish(turn.feed);
    });
    changes_bytes = bytes_each;
    world.Define(
        "id: job\nnodes: {a: {start: true, transitions: {loop: a, ok: z}}, z: {final: true}}\n");
    world.Start("job", "i");
    world.Start("job", "j");
    while (world.engine().last_seq() < records) {
      world.Decide([](Engine& engine) {
        for (int i = 0; i < 100; ++i) {
          REQUIRE(engine.Report("ns", i % 100 == 99 ? "j" : "i", {.transition = "loop"}));
        }
      });
      world.Commit();
    }
  }

  // The numbers of all records that match, read portion by portion.
  template <typename ReadOne>
  std::vector<uint64_t> All(ReadOne read) {
    std::vector<uint64_t> seqs;
    portions = 0;
    for (uint64_t at = 0; at < changes.head();) {
      const Changes::PortionPtr portion = read(at);
      REQUIRE(portion);
      REQUIRE(portion->up_to > at);
      for (const auto& change : portion->changes) seqs.push_back(std::stoull(*change));
      CHECK(portion->at_head == (portion->up_to == changes.head()));
      at = portion->up_to;
      ++portions;
    }
    return seqs;
  }
  std::vector<uint64_t> FromStore(const ChangeFilter& filter) {
    return All([&](uint64_t after) {
      auto portion = changes.ReadStore(after, UINT64_MAX, filter);
      REQUIRE(portion);
      return *portion;
    });
  }
  std::vector<uint64_t> FromMemory(const ChangeFilter& filter) {
    return All([&](uint64_t after) { return changes.Read(after, changes.head(), filter); });
  }
  // What should be read, by the feed itself.
  std::vector<uint64_t> Matching(const ChangeFilter& filter) {
    std::vector<uint64_t> seqs;
    for (const Event& event : world.Feed()) {
      if (filter.Matches(event)) seqs.push_back(event.seq);
    }
    return seqs;
  }

  size_t changes_bytes = 0;
  size_t portions = 0;
  World world;
  Pool pool{1};
  Changes changes{
      world.store(), {world.partition(), 0, 1}, pool, [this](const Event& event, PartitionId) {
        std::string text = std::to_string(event.seq);
        text.resize(std::max(text.size(), changes_bytes), ' ');
        return text;
      }};
};

TEST_CASE("who has read all has no lag, and who has not lags since the next record came") {
  const auto begin = std::chrono::steady_clock::now();
  Feed feed(300, 10);
  CHECK(feed.changes.LagOf(feed.changes.head()).count() == 0);
  const auto newest = feed.changes.LagOf(feed.changes.head() - 1);
  const auto oldest = feed.changes.LagOf(0);
  CHECK(newest.count() > 0);
  CHECK(oldest >= newest);
  CHECK(oldest <= std::chrono::steady_clock::now() - begin);
}

TEST_CASE("a watcher that reads in portions misses no record, and sees none twice") {
  SUBCASE("portions that are full of bytes") {
    Feed feed(400, 5'000);
    CHECK(feed.FromStore({}) == feed.Matching({}));
    CHECK(feed.portions > 10);
    CHECK(feed.FromMemory({}) == feed.Matching({}));
    CHECK(feed.portions > 10);
  }
  SUBCASE("portions that end since so many records were looked at") {
    Feed feed(20'500, 1);
    for (const char* instance : {"i", "j"}) {
      CAPTURE(instance);
      const ChangeFilter filter{.instance = instance};
      CHECK(feed.FromStore(filter) == feed.Matching(filter));
      CHECK(feed.portions > 2);
      CHECK(feed.FromMemory(filter) == feed.Matching(filter));
      CHECK(feed.portions > 2);
    }
  }
}

}  // namespace
}  // namespace dfsmr
