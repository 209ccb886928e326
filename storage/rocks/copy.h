// Copies of a store: read as they are, or made a store again.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "storage/view.h"

namespace rocksdb {
class DB;
}  // namespace rocksdb

namespace dfsmr {

// A file in the folder that a restore fills, as long as it is not whole.
inline constexpr std::string_view kRestoring = "RESTORING";

// The rows of a copy (RocksStore::Copy), or of a store that nobody serves. Writes nothing.
class StoredCopy {
 public:
  // kDataLoss: it is damaged. kFailedPrecondition: a dsrv serves it, or it is no store.
  // kUnavailable: it cannot be read.
  static Result<std::unique_ptr<StoredCopy>> Open(const std::filesystem::path& folder);
  ~StoredCopy();

  const View& view() const { return *view_; }
  // Reads every block of every table, and compares it with its checksum.
  Result<Ok> VerifyChecksums() const;
  // Whether all is there that the note beside it says was durable (high_water.h), if there is one.
  Result<Ok> VerifyHighWater(const std::filesystem::path& folder) const;

 private:
  explicit StoredCopy(std::unique_ptr<rocksdb::DB> db);

  const std::unique_ptr<rocksdb::DB> db_;
  const std::unique_ptr<const View> view_;
};

// The same as StoredCopy::VerifyChecksums for any database of RocksDB: the logs, too.
Result<Ok> VerifyTables(const std::filesystem::path& folder);

// Makes a store of a copy's files, of which FORMAT was left out: FORMAT is written last. Its epochs
// go on at a number that the store which was copied never comes to, with another life (epoch.h),
// so that no claim is good that it hands out after the copy.
Result<Ok> AdoptCopy(const std::filesystem::path& folder);

// The text of the file FORMAT.
std::string FormatText();

}  // namespace dfsmr
