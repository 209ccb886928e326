// What every store promises, and that all of them do the same with the same operations.
#include "storage/store.h"

#include <doctest/doctest.h>

#include <atomic>
#include <map>
#include <random>
#include <thread>
#include <utility>

#include "storage/memory_store.h"
#include "storage/rocks/rocks_store.h"
#include "tests/storage/rocks/temporary_folder.h"

namespace dfsmr {
namespace {

using Rows = std::vector<std::pair<std::string, std::string>>;

std::unique_ptr<Store> OpenRocks(const TemporaryFolder& folder) {
  auto store = RocksStore::Open({.path = folder / "store", .cache_mb = 8, .memtable_mb = 1});
  REQUIRE_MESSAGE(store, (store ? "" : store.error().message));
  return *std::move(store);
}

Rows ScanOf(const View& view, std::string_view begin, std::string_view end, bool reverse = false,
            size_t limit = SIZE_MAX) {
  Rows rows;
  const auto visit = [&rows, limit](std::string_view key, std::string_view value) {
    rows.emplace_back(key, value);
    return rows.size() < limit;
  };
  REQUIRE(view.Scan(begin, end, visit, reverse));
  return rows;
}

Epoch AcquireOf(Store& store, PartitionId partition) {
  const auto epoch = store.Acquire(partition);
  REQUIRE(epoch);
  return *epoch;
}

std::string Key(PartitionId partition, char kind, std::string_view rest) {
  std::string key{static_cast<char>(partition >> 8), static_cast<char>(partition & 0xff), kind};
  return key.append(rest);
}

// Runs `test` on an empty store of each kind.
template <typename Test>
void OnEachStore(const Test& test) {
  SUBCASE("in memory") {
    MemoryStore store;
    test(store);
  }
  SUBCASE("in RocksDB") {
    const TemporaryFolder folder;
    test(*OpenRocks(folder));
  }
}

TEST_CASE("the end of a prefix is the first key after all that have it") {
  CHECK(PrefixEnd("abc") == "abd");
  CHECK(PrefixEnd("ab\xff\xff") == "ac");
  CHECK(PrefixEnd(std::string_view("a\0", 2)) == "a\x01");
  CHECK(PrefixEnd("a\x7f") == "a\x80");
  CHECK(PrefixEnd("\xff\xff").empty());
  CHECK(PrefixEnd("").empty());
}

TEST_CASE("a batch is applied in order, the later write of a key wins") {
  OnEachStore([](Store& store) {
    const std::string a = Key(1, 1, "a");
    const std::string b = Key(1, 1, "b");
    const std::string c = Key(1, 1, "c");
    const Epoch epoch = AcquireOf(store, 1);
    Batch batch;
    batch.Put(a, "1");
    batch.Delete(a);
    batch.Put(b, "1");
    batch.DeleteRange(a, c);
    batch.Put(b, "2");
    batch.Put(c, "");
    REQUIRE(store.Write(1, epoch, batch));
    CHECK(ScanOf(store, "", "") == Rows{{b, "2"}, {c, ""}});
    CHECK(*store.Get(a) == std::nullopt);
    CHECK(*store.Get(c) == "");
  });
}

TEST_CASE("a scan keeps to its bounds, in either direction, and ends when told") {
  OnEachStore([](Store& store) {
    const Epoch epoch = AcquireOf(store, 1);
    Batch batch;
    for (const char* key : {"\1\1a", "\1\1b", "\1\1c", "\1\1d"}) batch.Put(key, "v");
    REQUIRE(store.Write(1, epoch, batch));
    CHECK(ScanOf(store, "\1\1b", "\1\1d") == Rows{{"\1\1b", "v"}, {"\1\1c", "v"}});
    CHECK(ScanOf(store, "\1\1b", "\1\1d", true) == Rows{{"\1\1c", "v"}, {"\1\1b", "v"}});
    CHECK(ScanOf(store, "\1\1b", "", false, 1) == Rows{{"\1\1b", "v"}});
    CHECK(ScanOf(store, "", "", true, 1) == Rows{{"\1\1d", "v"}});
    CHECK(ScanOf(store, "\1\1c", "\1\1b").empty());
    CHECK(ScanOf(store, "\1\1b", "\1\1b", true).empty());
  });
}

TEST_CASE("a visit may read the store that it scans") {
  OnEachStore([](Store& store) {
    Batch batch;
    batch.Put("\1\1a", "1");
    batch.Put("\1\1b", "2");
    REQUIRE(store.Write(1, AcquireOf(store, 1), batch));
    int read = 0;
    const auto visit = [&](std::string_view key, std::string_view value) {
      CHECK(*store.Get(key) == value);
      return ++read < 10;
    };
    REQUIRE(store.Scan("", "", visit));
    CHECK(read == 2);
  });
}

TEST_CASE("only the last owner of a partition writes") {
  OnEachStore([](Store& store) {
    Batch batch;
    batch.Put("\1\1a", "first");
    CHECK(store.Write(7, 0, batch).error().code == Code::kAborted);
    CHECK(store.Write(7, 1, batch).error().code == Code::kAborted);
    const Epoch first = AcquireOf(store, 7);
    REQUIRE(store.Write(7, first, batch));
    const Epoch second = AcquireOf(store, 7);
    CHECK(second > first);
    Batch late;
    late.Put("\1\1a", "late");
    const auto refused = store.Write(7, first, late);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Code::kAborted);
    CHECK(refused.error().message.find("partition 7") != std::string::npos);
    CHECK(store.Write(7, second + 1, late).error().code == Code::kAborted);
    CHECK(store.Write(7, first, Batch()).error().code == Code::kAborted);
    CHECK(*store.Get("\1\1a") == "first");
    REQUIRE(store.Write(7, second, late));
    AcquireOf(store, 8);
    CHECK(store.Write(7, second, Batch()));
  });
}

TEST_CASE("the fence of a partition survives the deletion of all its rows") {
  const TemporaryFolder folder;
  Epoch last = 0;
  {
    const auto store = OpenRocks(folder);
    last = AcquireOf(*store, 1);
    Batch batch;
    batch.Put(Key(1, 1, "a"), "v");
    batch.DeleteRange(Key(1, 0, ""), Key(2, 0, ""));
    REQUIRE(store->Write(1, last, batch));
    CHECK(ScanOf(*store, "", "").empty());
  }
  CHECK(AcquireOf(*OpenRocks(folder), 1) == last + 1);
}

TEST_CASE("a scan sees one state while the owner writes on") {
  OnEachStore([](Store& store) {
    const Epoch epoch = AcquireOf(store, 1);
    const auto write = [&](int value) {
      Batch batch;
      for (const char* key : {"\1\1a", "\1\1m", "\1\1z"}) batch.Put(key, std::to_string(value));
      return store.Write(1, epoch, batch);
    };
    REQUIRE(write(0));
    std::atomic<bool> writing = true;
    bool written = true;
    std::thread owner([&] {
      for (int value = 1; value <= 300; ++value) written = written && write(value);
      writing = false;
    });
    bool consistent = true;
    for (int round = 0; writing || round < 10; ++round) {
      const Rows rows = ScanOf(store, "", "", round % 2 != 0);
      consistent = consistent && rows.size() == 3 && rows[0].second == rows[1].second &&
                   rows[1].second == rows[2].second;
    }
    owner.join();
    CHECK(written);
    CHECK(consistent);
    CHECK(*store.Get("\1\1m") == "300");
  });
}

TEST_CASE("a snapshot shows the rows as they were when it was taken, until it is dropped") {
  OnEachStore([](Store& store) {
    const std::string a = Key(1, 1, "a");
    const std::string b = Key(1, 1, "b");
    const std::string c = Key(1, 1, "c");
    const Epoch epoch = AcquireOf(store, 1);
    const auto empty = store.Snapshot();
    Batch first;
    first.Put(a, "1");
    first.Put(b, "1");
    REQUIRE(store.Write(1, epoch, first));
    auto before = store.Snapshot();
    const auto same = store.Snapshot();
    Batch second;
    second.DeleteRange(a, b);
    second.Put(b, "2");
    second.Put(c, "2");
    REQUIRE(store.Write(1, epoch, second));
    CHECK(ScanOf(*empty, "", "").empty());
    CHECK(ScanOf(*before, "", "") == Rows{{a, "1"}, {b, "1"}});
    CHECK(ScanOf(*before, "", "", true, 1) == Rows{{b, "1"}});
    CHECK(*before->Get(a) == "1");
    CHECK(*before->Get(c) == std::nullopt);
    CHECK(ScanOf(*store.Snapshot(), "", "") == Rows{{b, "2"}, {c, "2"}});
    before.reset();
    CHECK(*same->Get(b) == "1");
    Rows once;
    REQUIRE(same->ScanOnce(b, "", [&once](std::string_view key, std::string_view value) {
      once.emplace_back(key, value);
      return true;
    }));
    CHECK(once == Rows{{b, "1"}});
    CHECK(*store.Get(a) == std::nullopt);
  });
}

TEST_CASE("a snapshot holds each write whole or not at all, and does not change") {
  OnEachStore([](Store& store) {
    const Epoch epoch = AcquireOf(store, 1);
    const auto write = [&](int value) {
      Batch batch;
      for (const char* key : {"\1\1a", "\1\1m", "\1\1z"}) batch.Put(key, std::to_string(value));
      return store.Write(1, epoch, batch);
    };
    std::atomic<int> written = 0;
    std::atomic<bool> writing = true;
    REQUIRE(write(0));
    std::thread owner([&] {
      for (int value = 1; value <= 300 && write(value); ++value) written = value;
      writing = false;
    });
    bool consistent = true;
    for (int round = 0; writing || round < 10; ++round) {
      const int least = written;
      const auto snapshot = store.Snapshot();
      const std::string value = **snapshot->Get("\1\1a");
      consistent = consistent && std::stoi(value) >= least &&
                   ScanOf(*snapshot, "", "", round % 2 != 0) ==
                       ScanOf(*snapshot, "", "", round % 2 != 0) &&
                   *snapshot->Get("\1\1m") == value && *snapshot->Get("\1\1z") == value;
    }
    owner.join();
    CHECK(written == 300);
    CHECK(consistent);
  });
}

// The same random operations on both stores, one of which is closed and opened in between, and on
// snapshots of them.
class Twins {
 public:
  explicit Twins(uint64_t seed) : random_(seed) { Reopen(); }

  void Step() {
    const uint64_t dice = Draw(100);
    if (dice < 55) {
      Write();
    } else if (dice < 85) {
      Scan();
    } else if (dice < 95) {
      const std::string key = RandomKey(RandomPartition());
      CHECK(*memory_.Get(key) == *rocks_->Get(key));
    } else if (dice < 97) {
      Snapshot();
    } else if (dice < 98) {
      Acquire(RandomPartition());
    } else {
      Reopen();
    }
  }

  void Compare() {
    for (const bool reverse : {false, true}) {
      CHECK(ScanOf(memory_, "", "", reverse) == ScanOf(*rocks_, "", "", reverse));
    }
  }

  void Reopen() {
    snapshots_.clear();
    rocks_.reset();
    rocks_ = OpenRocks(folder_);
    for (PartitionId partition = 0; partition < kPartitions; ++partition) Acquire(partition);
    Compare();
  }

 private:
  static constexpr PartitionId kPartitions = 3;

  uint64_t Draw(uint64_t below) { return random_() % below; }
  PartitionId RandomPartition() { return static_cast<PartitionId>(Draw(kPartitions)); }

  // Few keys, so that they meet; with the bytes at which an order goes wrong.
  std::string RandomKey(PartitionId partition) {
    constexpr std::string_view kBytes("\0\1a\x7f\x80\xff", 6);
    std::string key = Key(partition, static_cast<char>(1 + Draw(3)), "");
    for (uint64_t size = Draw(4); size > 0; --size) key.push_back(kBytes[Draw(kBytes.size())]);
    return key;
  }

  std::string RandomValue() {
    const uint64_t size = Draw(50) == 0 ? 200'000 : Draw(40);
    return std::string(size, static_cast<char>(Draw(256)));
  }

  void Acquire(PartitionId partition) {
    epochs_[partition] = AcquireOf(memory_, partition);
    CHECK(AcquireOf(*rocks_, partition) == epochs_[partition]);
  }

  void Write() {
    const PartitionId partition = RandomPartition();
    Batch batch;
    for (uint64_t size = Draw(20); size > 0; --size) {
      const uint64_t dice = Draw(100);
      if (dice < 70) {
        batch.Put(RandomKey(partition), RandomValue());
      } else if (dice < 97) {
        batch.Delete(RandomKey(partition));
      } else {
        batch.DeleteRange(RandomKey(partition), RandomKey(partition));
      }
    }
    const Epoch epoch = epochs_[partition] - (Draw(10) == 0 ? 1 : 0);
    const auto expected = memory_.Write(partition, epoch, batch);
    const auto actual = rocks_->Write(partition, epoch, batch);
    REQUIRE(actual.has_value() == expected.has_value());
    if (!expected) CHECK(actual.error() == expected.error());
  }

  // Takes another, of a few, and drops the oldest.
  void Snapshot() {
    snapshots_.push_back({memory_.Snapshot(), rocks_->Snapshot(), ScanOf(memory_, "", "")});
    if (snapshots_.size() > 3) snapshots_.erase(snapshots_.begin());
  }

  void Scan() {
    for (const auto& [memory, rocks, rows] : snapshots_) {
      const bool reverse = Draw(2) == 0;
      const std::string key = RandomKey(RandomPartition());
      CHECK(ScanOf(*memory, "", "") == rows);
      CHECK(ScanOf(*memory, key, "", reverse, 5) == ScanOf(*rocks, key, "", reverse, 5));
      CHECK(ScanOf(*rocks, "", "") == rows);
      CHECK(*memory->Get(key) == *rocks->Get(key));
    }
    const std::string begin = Draw(5) == 0 ? "" : RandomKey(RandomPartition());
    const std::string end = Draw(5) == 0 ? "" : RandomKey(RandomPartition());
    const bool reverse = Draw(2) == 0;
    const size_t limit = Draw(2) == 0 ? SIZE_MAX : 1 + Draw(5);
    CHECK(ScanOf(memory_, begin, end, reverse, limit) ==
          ScanOf(*rocks_, begin, end, reverse, limit));
  }

  std::mt19937_64 random_;
  const TemporaryFolder folder_;
  MemoryStore memory_;
  std::unique_ptr<Store> rocks_;
  struct Moment {
    std::unique_ptr<const View> memory;
    std::unique_ptr<const View> rocks;
    Rows rows;
  };
  std::vector<Moment> snapshots_;
  std::map<PartitionId, Epoch> epochs_;
};

TEST_CASE("both stores do the same with the same operations") {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    CAPTURE(seed);
    Twins twins(seed);
    for (int step = 0; step < 400; ++step) twins.Step();
    twins.Compare();
    twins.Reopen();
  }
}

}  // namespace
}  // namespace dfsmr
