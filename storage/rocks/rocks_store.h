// The store on one machine: RocksDB, set up so that acknowledged writes are there after a crash.
// When some are missing it refuses to open, and says why and what to do.
//
// Besides RocksDB's files its directory has files of the store itself:
//   FORMAT      "dfsmr store format 1"; written last when a store is made, so that a directory
//               without it holds no store, whatever else is in it.
//   HIGH_WATER  see high_water.h; written with each write, synced every `high_water_period`, and
//               never ahead of the disk. Deleting it accepts whatever was lost. Delete it also
//               after restoring a backup: the store then gets a new incarnation.
//   MOVED       a mark (moved.h), of a store that nobody is to serve.
// Keys are `partition (2 bytes, big-endian) | kind (1 byte) | ...`. Kind 0 is reserved for the
// store, which keeps the partition's epoch there: scans do not show it, and ranges do not delete
// it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "fsm/base/mutex.h"
#include "fsm/base/spread.h"
#include "storage/rocks/high_water.h"
#include "storage/rocks/reclaimer.h"
#include "storage/store.h"

namespace rocksdb {
class DB;
class WriteBatch;
}  // namespace rocksdb

namespace dfsmr {

class RocksStore final : public Store {
 public:
  struct Options {
    std::filesystem::path path;
    bool create_if_missing = true;
    // Also one that has a mark (moved.h): then nobody serves it.
    bool marked_too = false;
    // Reads every block of every table before serving: minutes for a large store.
    bool verify_checksums = false;
    // The cache of the tables' blocks, indexes and filters. The memtables have memory of their own
    // besides, and what they do not use serves the cache.
    size_t cache_mb = 256;
    // The size of one memtable. Up to three exist, and a restart replays at most as much of the
    // log.
    size_t memtable_mb = 64;
    int max_open_files = 1024;
    int background_threads = 2;
    std::chrono::milliseconds high_water_period{1000};
  };

  // kNotFound: there is no store, and create_if_missing is false. kFailedPrecondition: another
  // process holds it, its format is newer, or the path is not a directory or not a store.
  // kUnavailable: I/O, permissions. kDataLoss: it is damaged, or durable writes are missing. The
  // message says what to do.
  static Result<std::unique_ptr<RocksStore>> Open(const Options& options);

  // No other call may be under way, and no snapshot may be left.
  ~RocksStore() override;

  std::unique_ptr<const View> Snapshot() const override;
  Result<Epoch> Acquire(PartitionId partition) override { return AcquireAbove(partition, 0); }
  // The same, under an epoch greater than `above`, too.
  Result<Epoch> AcquireAbove(PartitionId partition, Epoch above);
  Result<std::optional<std::string>> Get(std::string_view key) const override;
  Result<Ok> Scan(std::string_view begin, std::string_view end, const Visit& visit,
                  bool reverse = false) const override;
  Result<Ok> ScanOnce(std::string_view begin, std::string_view end,
                      const Visit& visit) const override;
  // Owners of several partitions share syncs. After the first failure every further Write and
  // Acquire fails: only a restart shows what the disk holds.
  Result<Ok> Write(PartitionId partition, Epoch epoch, const Batch& batch) override;

  // Puts a consistent copy of all that is written when it is called into a new folder: tables by
  // hard links, where the folder is on the same disk, the rest as it is. Writes go on meanwhile.
  // The copy has no HIGH_WATER: opened as a store it gets an incarnation of its own.
  Result<Ok> Copy(const std::filesystem::path& folder) const;

  // See moved.h. An empty one takes it away.
  Result<std::string> Mark() const;
  Result<Ok> SetMark(const std::string& mark);

  // For those who scrape the server. Any thread.
  struct Sizes {
    uint64_t all = 0;
    std::vector<uint64_t> of;  // as the kinds that were asked for
  };
  // About how many bytes the rows of a partition take, on disk and in memory: of each group of
  // kinds (the third byte of their keys), and of all.
  Sizes SizesOf(PartitionId partition, const std::vector<std::vector<uint8_t>>& groups) const;
  // Whether writes wait because tables are not merged fast enough.
  bool Stalls() const;
  // How long syncs of the log took.
  const Spread<kOwnEdges, std::atomic<uint64_t>>& syncs() const { return syncs_; }

  // Changes when the store was restored (see HIGH_WATER): a cursor from an earlier incarnation may
  // follow records that do not exist in this one.
  uint64_t incarnation() const { return incarnation_; }

  // What a store takes of its disk for moments, beyond its rows: see kWorkingMemtables.
  static uint64_t WorkingBytes(size_t memtable_mb);

  static std::string Version();  // of RocksDB

 private:
  struct Owner {
    Mutex mutex;  // held while writing, so that no write of an old owner ends after Acquire
    Epoch epoch GUARDED(mutex) = 0;  // 0: no owner since the store was opened
  };

  RocksStore(std::filesystem::path path, std::unique_ptr<rocksdb::DB> db,
             std::unique_ptr<HighWater> high_water, std::chrono::milliseconds high_water_period);

  Owner& OwnerOf(PartitionId partition);
  Result<Ok> Commit(rocksdb::WriteBatch& batch);
  Error Stop(std::string_view why);
  std::optional<Error> Stopped() const;
  void FollowHighWater(std::chrono::milliseconds period);

  const std::filesystem::path path_;
  const std::unique_ptr<rocksdb::DB> db_;
  Spread<kOwnEdges, std::atomic<uint64_t>> syncs_;

  Mutex owners_mutex_;
  std::map<PartitionId, Owner> owners_ GUARDED(owners_mutex_);

  std::atomic<bool> stopped_ = false;
  mutable Mutex why_stopped_mutex_;
  std::string why_stopped_ GUARDED(why_stopped_mutex_);

  // RocksDB numbers operations without gaps. This is the number of the last one that was written
  // successfully; RocksDB's own counter may be ahead of the disk.
  std::atomic<uint64_t> durable_sequence_;
  const std::unique_ptr<HighWater> high_water_;  // synced by follower_
  const uint64_t incarnation_;
  Mutex closing_mutex_;
  ConditionVariable closing_changed_;
  bool closing_ GUARDED(closing_mutex_) = false;
  Reclaimer reclaimer_;
  std::thread follower_;
};

}  // namespace dfsmr
