// What every store promises, and that it does the same as the one in memory with the same
// operations. Who includes it has defined, in namespace dfsmr: class Disk, with
// `std::unique_ptr<Store> Open() const`, a store that is empty at first and can be opened again
// once it was closed; and OnEachStore, which runs a test on an empty store of each kind. The stores
// have the partitions 0 to 8.
#pragma once

#include <doctest/doctest.h>

#include <atomic>
#include <map>
#include <random>
#include <thread>
#include <utility>

#include "storage/memory_store.h"
#include "storage/store.h"

namespace dfsmr {
namespace {

using Rows = std::vector<std::pair<std::string, std::string>>;

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
    const auto written = store.Write(1, epoch, batch);
    REQUIRE_MESSAGE(written, (written ? "" : written.error().message));
    CHECK(ScanOf(store, "", "") == Rows{{b, "2"}, {c, ""}});
    CHECK(*store.Get(a) == std::nullopt);
    CHECK(*store.Get(c) == "");
  });
}

TEST_CASE("a scan keeps to its bounds, in either direction, and ends when told") {
  OnEachStore([](Store& store) {
    const Epoch epoch = AcquireOf(store, 1);
    Batch batch;
    for (const std::string& key : {Key(1, 1, "a"), Key(1, 1, "b"), Key(1, 1, "c"), Key(1, 1, "d")})
      batch.Put(key, "v");
    REQUIRE(store.Write(1, epoch, batch));
    CHECK(ScanOf(store, Key(1, 1, "b"), Key(1, 1, "d")) ==
          Rows{{Key(1, 1, "b"), "v"}, {Key(1, 1, "c"), "v"}});
    CHECK(ScanOf(store, Key(1, 1, "b"), Key(1, 1, "d"), true) ==
          Rows{{Key(1, 1, "c"), "v"}, {Key(1, 1, "b"), "v"}});
    CHECK(ScanOf(store, Key(1, 1, "b"), "", false, 1) == Rows{{Key(1, 1, "b"), "v"}});
    CHECK(ScanOf(store, "", "", true, 1) == Rows{{Key(1, 1, "d"), "v"}});
    CHECK(ScanOf(store, Key(1, 1, "c"), Key(1, 1, "b")).empty());
    CHECK(ScanOf(store, Key(1, 1, "b"), Key(1, 1, "b"), true).empty());
  });
}

TEST_CASE("a visit may read the store that it scans") {
  OnEachStore([](Store& store) {
    Batch batch;
    batch.Put(Key(1, 1, "a"), "1");
    batch.Put(Key(1, 1, "b"), "2");
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
    batch.Put(Key(7, 1, "a"), "first");
    CHECK(store.Write(7, 0, batch).error().code == Code::kAborted);
    CHECK(store.Write(7, 1, batch).error().code == Code::kAborted);
    const Epoch first = AcquireOf(store, 7);
    REQUIRE(store.Write(7, first, batch));
    const Epoch second = AcquireOf(store, 7);
    CHECK(second > first);
    Batch late;
    late.Put(Key(7, 1, "a"), "late");
    const auto refused = store.Write(7, first, late);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Code::kAborted);
    CHECK(refused.error().message.find("partition 7") != std::string::npos);
    CHECK(store.Write(7, second + 1, late).error().code == Code::kAborted);
    CHECK(store.Write(7, first, Batch()).error().code == Code::kAborted);
    CHECK(*store.Get(Key(7, 1, "a")) == "first");
    REQUIRE(store.Write(7, second, late));
    AcquireOf(store, 8);
    CHECK(store.Write(7, second, Batch()));
  });
}

TEST_CASE("the fence of a partition survives the deletion of all its rows") {
  const Disk disk;
  Epoch last = 0;
  {
    const auto store = disk.Open();
    last = AcquireOf(*store, 1);
    Batch batch;
    batch.Put(Key(1, 1, "a"), "v");
    batch.DeleteRange(Key(1, 0, ""), Key(2, 0, ""));
    REQUIRE(store->Write(1, last, batch));
    CHECK(ScanOf(*store, "", "").empty());
  }
  CHECK(AcquireOf(*disk.Open(), 1) > last);
}

TEST_CASE("a scan sees one state while the owner writes on") {
  OnEachStore([](Store& store) {
    const Epoch epoch = AcquireOf(store, 1);
    const auto write = [&](int value) {
      Batch batch;
      for (const std::string& key : {Key(1, 1, "a"), Key(1, 1, "m"), Key(1, 1, "z")})
        batch.Put(key, std::to_string(value));
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
    CHECK(*store.Get(Key(1, 1, "m")) == "300");
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
      for (const std::string& key : {Key(1, 1, "a"), Key(1, 1, "m"), Key(1, 1, "z")})
        batch.Put(key, std::to_string(value));
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
      const std::string value = **snapshot->Get(Key(1, 1, "a"));
      consistent =
          consistent && std::stoi(value) >= least &&
          ScanOf(*snapshot, "", "", round % 2 != 0) == ScanOf(*snapshot, "", "", round % 2 != 0) &&
          *snapshot->Get(Key(1, 1, "m")) == value && *snapshot->Get(Key(1, 1, "z")) == value;
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
      CHECK(*memory_.Get(key) == *stored_->Get(key));
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
      CHECK(ScanOf(memory_, "", "", reverse) == ScanOf(*stored_, "", "", reverse));
    }
  }

  void Reopen() {
    snapshots_.clear();
    stored_.reset();
    stored_ = disk_.Open();
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
    Held& held = held_[partition];
    held = {AcquireOf(memory_, partition), AcquireOf(*stored_, partition), held.stored};
    CHECK(held.stored > held.before);
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
    const bool stale = Draw(10) == 0;
    const Held& held = held_[partition];
    const auto expected = memory_.Write(partition, held.memory - (stale ? 1 : 0), batch);
    const auto actual = stored_->Write(partition, stale ? held.before : held.stored, batch);
    REQUIRE(actual.has_value() == expected.has_value());
    if (!expected) CHECK(actual.error().code == expected.error().code);
  }

  // Takes another, of a few, and drops the oldest.
  void Snapshot() {
    snapshots_.push_back({memory_.Snapshot(), stored_->Snapshot(), ScanOf(memory_, "", "")});
    if (snapshots_.size() > 3) snapshots_.erase(snapshots_.begin());
  }

  void Scan() {
    for (const auto& [memory, stored, rows] : snapshots_) {
      const bool reverse = Draw(2) == 0;
      const std::string key = RandomKey(RandomPartition());
      CHECK(ScanOf(*memory, "", "") == rows);
      CHECK(ScanOf(*memory, key, "", reverse, 5) == ScanOf(*stored, key, "", reverse, 5));
      CHECK(ScanOf(*stored, "", "") == rows);
      CHECK(*memory->Get(key) == *stored->Get(key));
    }
    const std::string begin = Draw(5) == 0 ? "" : RandomKey(RandomPartition());
    const std::string end = Draw(5) == 0 ? "" : RandomKey(RandomPartition());
    const bool reverse = Draw(2) == 0;
    const size_t limit = Draw(2) == 0 ? SIZE_MAX : 1 + Draw(5);
    CHECK(ScanOf(memory_, begin, end, reverse, limit) ==
          ScanOf(*stored_, begin, end, reverse, limit));
  }

  std::mt19937_64 random_;
  const Disk disk_;
  MemoryStore memory_;
  std::unique_ptr<Store> stored_;
  struct Moment {
    std::unique_ptr<const View> memory;
    std::unique_ptr<const View> stored;
    Rows rows;
  };
  std::vector<Moment> snapshots_;
  struct Held {
    Epoch memory = 0;
    Epoch stored = 0;
    Epoch before = 0;  // of the stored one
  };
  std::map<PartitionId, Held> held_;
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
