#include <rocksdb/db.h>
#include <rocksdb/utilities/checkpoint.h>

#include "storage/logs/log_store.h"

namespace dfsmr {

Result<Ok> LogStore::Copy(const std::filesystem::path& folder) const {
  rocksdb::Checkpoint* made = nullptr;
  auto status = rocksdb::Checkpoint::Create(db_.get(), &made);
  const std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
  if (status.ok()) status = checkpoint->CreateCheckpoint(folder.string());
  if (status.ok()) return Ok{};
  return Error{Code::kUnavailable, Reason::kNone,
               "cannot copy the logs to " + folder.string() + ": " + status.ToString()};
}

}  // namespace dfsmr
