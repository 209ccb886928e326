// Reads of a RocksDB, as it is now or as it was when a snapshot of it was taken.
#pragma once

#include <string_view>

#include "storage/store.h"

namespace rocksdb {
class DB;
class Snapshot;
}  // namespace rocksdb

namespace dfsmr {

// Shows all rows but those of the epochs, which are the store's own: Get finds them, scans do not.
class RocksView : public View {
 public:
  // `snapshot` null: as it is at each read. Neither is owned.
  explicit RocksView(rocksdb::DB& db, const rocksdb::Snapshot* snapshot = nullptr)
      : db_(db), snapshot_(snapshot) {}

  Result<std::optional<std::string>> Get(std::string_view key) const override;
  Result<Ok> Scan(std::string_view begin, std::string_view end, const Visit& visit,
                  bool reverse = false) const override;
  Result<Ok> ScanOnce(std::string_view begin, std::string_view end,
                      const Visit& visit) const override;

 private:
  rocksdb::DB& db_;
  const rocksdb::Snapshot* const snapshot_;
};

// Takes a snapshot, and releases it when it is dropped.
std::unique_ptr<const View> SnapshotOf(rocksdb::DB& db);

// Where the store keeps the epoch of a partition: kind 0, which is nobody else's.
std::string EpochKey(PartitionId partition);

}  // namespace dfsmr
