// The store on one machine: RocksDB, set up so that what was acknowledged is there after a crash,
// and so that it refuses to open, with a reason and what to do, when it is not.
//
// Besides RocksDB's files its directory has two of ours:
//   FORMAT      "dfsmr store format 1"; written last when a store is made, so that a directory
//               without it holds no store, however much else is in it.
//   HIGH_WATER  see high_water.h; written with each write, synced every `high_water_period`, and
//               never ahead of the disk. To delete it is to accept whatever was lost. Delete it
//               when a backup was put in place, too: the store then gets a new incarnation.
// Keys are `partition (2 bytes, big-endian) | kind (1 byte) | ...`. Kind 0 is the store's own: it
// keeps the partition's epoch there, which scans do not show and ranges do not delete.
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

#include "fsm/base/mutex.h"
#include "storage/rocks/high_water.h"
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
    // Reads every block of every table before serving: minutes for a large store.
    bool verify_checksums = false;
    // What is cached of the tables: blocks, indexes and filters. The memtables come on top of it,
    // and lend it what they do not use.
    size_t cache_mb = 256;
    // One memtable. Up to three exist; a restart replays at most that much of the log.
    size_t memtable_mb = 64;
    int max_open_files = 1024;
    int background_threads = 2;
    std::chrono::milliseconds high_water_period{1000};
  };

  // kNotFound: no store there, and not told to make one. kFailedPrecondition: held by another
  // process, of a newer format, not a directory, or not a store. kUnavailable: I/O, permissions.
  // kDataLoss: damaged, or less is there than was durable. The message says what to do.
  static Result<std::unique_ptr<RocksStore>> Open(const Options& options);

  // No other call may be under way, and no snapshot be left.
  ~RocksStore() override;

  std::unique_ptr<const View> Snapshot() const override;
  Result<Epoch> Acquire(PartitionId partition) override;
  Result<std::optional<std::string>> Get(std::string_view key) const override;
  Result<Ok> Scan(std::string_view begin, std::string_view end, const Visit& visit,
                  bool reverse = false) const override;
  Result<Ok> ScanOnce(std::string_view begin, std::string_view end,
                      const Visit& visit) const override;
  // Owners of several partitions share syncs. After the first failure every further write fails,
  // and so does Acquire: what the disk holds is known again after a restart only.
  Result<Ok> Write(PartitionId partition, Epoch epoch, const Batch& batch) override;

  // Changes when the store was restored (see HIGH_WATER): what was promised in an earlier one, such
  // as a cursor, may never have happened in this one.
  uint64_t incarnation() const { return incarnation_; }

 private:
  struct Owner {
    Mutex mutex;  // held while writing, so that no write of an old owner ends after Acquire
    Epoch epoch GUARDED(mutex) = 0;   // 0: nobody yet
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

  Mutex owners_mutex_;
  std::map<PartitionId, Owner> owners_ GUARDED(owners_mutex_);

  std::atomic<bool> stopped_ = false;
  mutable Mutex why_stopped_mutex_;
  std::string why_stopped_ GUARDED(why_stopped_mutex_);

  // RocksDB numbers operations without gaps. This counts those of successful writes only; its own
  // counter may run ahead of the disk.
  std::atomic<uint64_t> durable_sequence_;
  const std::unique_ptr<HighWater> high_water_;  // follower_'s alone
  const uint64_t incarnation_;
  Mutex closing_mutex_;
  Condition closing_changed_;
  bool closing_ GUARDED(closing_mutex_) = false;
  std::thread follower_;
};

}  // namespace dfsmr
