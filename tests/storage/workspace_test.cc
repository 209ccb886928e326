// The engine's view of the store reads what was written, durable or not.
#include "storage/workspace.h"

#include <doctest/doctest.h>

#include <deque>
#include <random>
#include <utility>

#include "storage/memory_store.h"

namespace dfsmr {
namespace {

using Rows = std::vector<std::pair<std::string, std::string>>;

Rows ScanOf(const View& view, std::string_view begin, std::string_view end, bool reverse = false,
            size_t limit = SIZE_MAX) {
  Rows rows;
  REQUIRE(view.Scan(
      begin, end,
      [&rows, limit](std::string_view key, std::string_view value) {
        rows.emplace_back(key, value);
        return rows.size() < limit;
      },
      reverse));
  return rows;
}

// A store and its owner.
struct Disk {
  MemoryStore store;
  Epoch epoch = *store.Acquire(0);

  void Write(const Batch& batch) { REQUIRE(store.Write(0, epoch, batch)); }
};

TEST_CASE("what a turn writes is read at once, by it and by those after it") {
  Disk disk;
  Workspace rows(disk.store);
  rows.batch().Put("a", "1");
  CHECK(*rows.Get("a") == "1");
  CHECK(*disk.store.Get("a") == std::nullopt);
  rows.batch().Put("b", "1");
  rows.batch().Put("a", "2");
  CHECK(ScanOf(rows, "", "") == Rows{{"a", "2"}, {"b", "1"}});
  const auto batch = rows.Seal(1);
  rows.batch().Delete("a");
  CHECK(ScanOf(rows, "", "") == Rows{{"b", "1"}});
  disk.Write(*batch);
  CHECK(ScanOf(rows, "", "") == Rows{{"b", "1"}});
  rows.Committed(1);
  CHECK(ScanOf(rows, "", "", true) == Rows{{"b", "1"}});
  CHECK(*rows.Get("a") == std::nullopt);
  CHECK(*disk.store.Get("a") == "2");
}

TEST_CASE("a sealed batch is what was written, and changes no more") {
  Disk disk;
  Workspace rows(disk.store);
  CHECK(rows.Seal(1)->empty());
  rows.batch().Put("a", "1");
  const auto batch = rows.Seal(2);
  rows.batch().Put("b", "1");
  REQUIRE(batch->operations().size() == 1);
  CHECK(batch->operations().front().key == "a");
  CHECK(rows.Seal(3)->operations().front().key == "b");
}

TEST_CASE("what was sealed is read until it is said to be durable, and no longer") {
  Disk disk;
  Workspace rows(disk.store);
  rows.batch().Put("a", "1");
  (void)rows.Seal(1);
  rows.batch().Put("b", "2");
  (void)rows.Seal(2);
  rows.batch().Put("c", "3");
  rows.Committed(1);  // though it never was
  CHECK(ScanOf(rows, "", "") == Rows{{"b", "2"}, {"c", "3"}});
  rows.Committed(2);
  CHECK(ScanOf(rows, "", "") == Rows{{"c", "3"}});
}

TEST_CASE("ranges hide what was there before them, and nothing that comes after them") {
  Disk disk;
  Workspace rows(disk.store);
  Batch first;
  for (const char* key : {"a", "b", "c", "d"}) first.Put(key, "0");
  disk.Write(first);
  rows.batch().Put("bb", "1");
  rows.batch().DeleteRange("b", "d");
  rows.batch().Put("c", "1");
  CHECK(ScanOf(rows, "", "") == Rows{{"a", "0"}, {"c", "1"}, {"d", "0"}});
  CHECK(ScanOf(rows, "", "", true, 2) == Rows{{"d", "0"}, {"c", "1"}});
  CHECK(*rows.Get("b") == std::nullopt);
  CHECK(*rows.Get("bb") == std::nullopt);
  (void)rows.Seal(1);
  rows.batch().DeleteRange("a", "cc");
  CHECK(ScanOf(rows, "", "") == Rows{{"d", "0"}});
  CHECK(*rows.Get("c") == std::nullopt);
  rows.batch().DeleteRange("z", "a");  // empty
  CHECK(*rows.Get("d") == "0");
}

TEST_CASE("a visit may read and write; its scan goes on as it began") {
  Disk disk;
  Workspace rows(disk.store);
  Batch first;
  for (const char* key : {"a", "c", "e"}) first.Put(key, "0");
  disk.Write(first);
  rows.batch().Put("b", "0");
  Rows visited;
  REQUIRE(rows.Scan("", "", [&](std::string_view key, std::string_view value) {
    visited.emplace_back(key, value);
    rows.batch().Delete("b");
    rows.batch().Put("d", "1");
    rows.batch().DeleteRange("e", "f");
    for (int i = 0; i < 100; ++i) rows.batch().Put("x" + std::to_string(i), "");
    CHECK(*rows.Get("b") == std::nullopt);
    CHECK(ScanOf(rows, "d", "f") == Rows{{"d", "1"}});
    return true;
  }));
  CHECK(visited == Rows{{"a", "0"}, {"b", "0"}, {"c", "0"}, {"e", "0"}});
}

// A store whose reads fail.
class Broken final : public View {
 public:
  Result<std::optional<std::string>> Get(std::string_view) const override {
    return Error{Code::kUnavailable, Reason::kNone, "broken"};
  }
  Result<Ok> Scan(std::string_view, std::string_view, const Visit& visit, bool) const override {
    visit("a", "0");
    return Error{Code::kUnavailable, Reason::kNone, "broken"};
  }
};

TEST_CASE("a store that cannot be read fails the read, unless the row is not its own") {
  const Broken store;
  Workspace rows(store);
  rows.batch().Put("b", "1");
  rows.batch().Delete("c");
  CHECK(*rows.Get("b") == "1");
  CHECK(*rows.Get("c") == std::nullopt);
  CHECK(rows.Get("a").error().code == Code::kUnavailable);
  size_t visited = 0;
  const auto scanned =
      rows.Scan("", "", [&](std::string_view, std::string_view) { return ++visited > 0; });
  REQUIRE_FALSE(scanned);
  CHECK(visited == 1);
}

// A workspace against a map to which every write is made at once. Batches reach the store after
// they are sealed, and are said to be durable later still.
class Model {
 public:
  explicit Model(uint64_t seed) : random_(seed) {}

  void Step() {
    const uint64_t dice = Draw(100);
    if (dice < 40) {
      Write();
    } else if (dice < 60) {
      const std::string key = RandomKey();
      const auto row = rows_.Get(key);
      REQUIRE(row);
      CHECK(*row == *all_.store.Get(key));
    } else if (dice < 80) {
      Scan();
    } else if (dice < 90) {
      ++turn_;
      sealed_.emplace_back(turn_, rows_.Seal(turn_));
    } else if (dice < 96) {
      if (written_ < sealed_.size()) disk_.Write(*sealed_[written_++].second);
    } else if (written_ > 0) {
      rows_.Committed(sealed_[Draw(written_)].first);  // perhaps not for the first time
    }
  }

 private:
  uint64_t Draw(uint64_t below) { return random_() % below; }

  std::string RandomKey() {
    constexpr std::string_view kBytes("\0a\x7f\x80\xff", 5);
    std::string key;
    // Some are long enough to lie apart from their string.
    if (Draw(4) == 0) key.assign(20, 'a');
    for (uint64_t size = Draw(4); size > 0; --size) key.push_back(kBytes[Draw(kBytes.size())]);
    return key;
  }

  void Write() {
    Batch now;
    for (uint64_t size = 1 + Draw(5); size > 0; --size) {
      const uint64_t dice = Draw(100);
      const std::string key = RandomKey();
      const std::string value = std::to_string(Draw(1'000));
      const std::string end = RandomKey() + "a";
      for (Batch* batch : {&now, &rows_.batch()}) {
        if (dice < 65) {
          batch->Put(key, value);
        } else if (dice < 92) {
          batch->Delete(key);
        } else {
          batch->DeleteRange(key, end);
        }
      }
    }
    all_.Write(now);
  }

  void Scan() {
    const std::string begin = Draw(4) == 0 ? "" : RandomKey();
    const std::string end = Draw(4) == 0 ? "" : RandomKey();
    const bool reverse = Draw(2) == 0;
    const size_t limit = Draw(2) == 0 ? SIZE_MAX : 1 + Draw(5);
    CHECK(ScanOf(rows_, begin, end, reverse, limit) ==
          ScanOf(all_.store, begin, end, reverse, limit));
    Rows once;
    REQUIRE(rows_.ScanOnce(begin, end, [&once](std::string_view key, std::string_view value) {
      once.emplace_back(key, value);
      return true;
    }));
    CHECK(once == ScanOf(all_.store, begin, end));
  }

  std::mt19937_64 random_;
  Disk all_;
  Disk disk_;
  Workspace rows_{disk_.store};
  uint64_t turn_ = 0;
  std::deque<std::pair<uint64_t, std::shared_ptr<const Batch>>> sealed_;
  size_t written_ = 0;
};

TEST_CASE("a workspace reads as a map would to which every write is made at once") {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    Model model(seed);
    for (int step = 0; step < 400; ++step) model.Step();
  }
}

}  // namespace
}  // namespace dfsmr
