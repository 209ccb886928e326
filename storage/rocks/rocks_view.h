// Reads a RocksDB database as it is now, or as it was when a snapshot of it was taken.
#pragma once

#include <string_view>

#include "storage/store.h"

namespace rocksdb {
class DB;
class Snapshot;
}  // namespace rocksdb

namespace dfsmr {

// Get finds every row. Scans do not show the rows of the epochs, which belong to the store itself.
class RocksView : public View {
 public:
  // `snapshot` null: each read sees the database as it is then. Owns neither.
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

// Takes a snapshot, and releases it when the view is destroyed.
std::unique_ptr<const View> SnapshotOf(rocksdb::DB& db);

// The key under which the store keeps the epoch of a partition: kind 0, which has no other rows.
std::string EpochKey(PartitionId partition);

}  // namespace dfsmr
