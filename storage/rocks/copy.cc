#include "storage/rocks/copy.h"

#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/utilities/checkpoint.h>

#include <charconv>
#include <random>
#include <string>
#include <utility>

#include "fsm/base/epoch.h"
#include "storage/rocks/environment.h"
#include "storage/rocks/file.h"
#include "storage/rocks/high_water.h"
#include "storage/rocks/rocks_store.h"
#include "storage/rocks/rocks_view.h"

namespace dfsmr {
namespace {

namespace fs = std::filesystem;

Error Unreadable(const fs::path& folder, const rocksdb::Status& status) {
  const bool lost = status.IsCorruption() || status.IsPathNotFound();
  return {lost ? Code::kDataLoss : Code::kUnavailable, Reason::kNone,
          (lost ? "the store in " + folder.string() + " is damaged: "
                : "the store in " + folder.string() + " cannot be read: ") +
              status.ToString()};
}

// Only what is not served may be read so: a served one changes meanwhile.
Result<Ok> CheckUnserved(const fs::path& folder) {
  rocksdb::Env* env = rocksdb::Env::Default();
  const std::string name = (folder / "LOCK").string();
  if (!env->FileExists(name).ok()) return Ok{};
  rocksdb::FileLock* lock = nullptr;
  if (const auto locked = env->LockFile(name, &lock); !locked.ok()) {
    return Error{Code::kFailedPrecondition, Reason::kNone,
                 "another dsrv holds store " + folder.string() + ": stop it first (" +
                     locked.ToString() + ")"};
  }
  env->UnlockFile(lock);
  return Ok{};
}

std::unique_ptr<rocksdb::Iterator> AllRows(rocksdb::DB& db) {
  rocksdb::ReadOptions options;
  options.fill_cache = false;
  options.readahead_size = 2 << 20;
  return std::unique_ptr<rocksdb::Iterator>(db.NewIterator(options));
}

// The logs have rows that are merged (storage/logs), and what is not in a table yet is not read without
// an operator. Here nobody looks at what such a row holds.
class AnyMerge final : public rocksdb::AssociativeMergeOperator {
 public:
  bool Merge(const rocksdb::Slice&, const rocksdb::Slice*, const rocksdb::Slice& value,
             std::string* merged, rocksdb::Logger*) const override {
    merged->assign(value.data(), value.size());
    return true;
  }
  const char* Name() const override { return "dfsmr.AnyMerge"; }
};

Result<std::unique_ptr<rocksdb::DB>> OpenToRead(const fs::path& folder) {
  rocksdb::Options options;
  options.env = StoreEnvironment();
  options.paranoid_checks = true;
  options.max_open_files = 256;
  options.merge_operator = std::make_shared<AnyMerge>();
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  rocksdb::DB* opened = nullptr;
  const auto status = rocksdb::DB::OpenForReadOnly(options, folder.string(), &opened);
  if (!status.ok()) return Unreadable(folder, status);
  return std::unique_ptr<rocksdb::DB>(opened);
}

Result<Ok> Verified(rocksdb::DB& db) {
  const auto sound = db.VerifyChecksum();
  if (sound.ok()) return Ok{};
  return Error{Code::kDataLoss, Reason::kNone, "a table is damaged: " + sound.ToString()};
}

PartitionId PartitionOf(const rocksdb::Slice& key) {
  const auto byte = [&key](size_t i) { return static_cast<unsigned char>(key[i]); };
  return static_cast<PartitionId>(byte(0) << 8 | byte(1));
}

// Where epochs of another life begin. It is drawn, so that two stores made of one copy differ.
uint64_t NextLife(uint64_t epoch) {
  std::random_device random;
  return (LifeOfEpoch(epoch) + 1 + random() % (1U << 16)) << kEpochLifeShift;
}

Result<Ok> BeginLife(rocksdb::DB& db, PartitionId partition) {
  const std::string key = EpochKey(partition);
  std::string text;
  uint64_t epoch = 0;
  const auto got = db.Get(rocksdb::ReadOptions(), key, &text);
  const auto read = std::from_chars(text.data(), text.data() + text.size(), epoch);
  if (!got.ok() || read.ec != std::errc()) {
    return Error{Code::kDataLoss, Reason::kNone,
                 "the epoch of partition " + std::to_string(partition) +
                     " is unreadable: " + (got.ok() ? "\"" + text + "\"" : got.ToString())};
  }
  rocksdb::WriteOptions durable;
  durable.sync = true;
  const auto put = db.Put(durable, key, std::to_string(NextLife(epoch)));
  if (put.ok()) return Ok{};
  return Error{Code::kUnavailable, Reason::kNone, "cannot write the epoch: " + put.ToString()};
}

Result<Ok> BeginLives(rocksdb::DB& db) {
  const auto row = AllRows(db);
  row->SeekToFirst();
  while (row->Valid() && row->key().size() >= sizeof(PartitionId)) {
    const PartitionId partition = PartitionOf(row->key());
    if (auto begun = BeginLife(db, partition); !begun) return begun;
    if (partition == UINT16_MAX) break;
    const auto next = static_cast<PartitionId>(partition + 1);
    row->Seek(std::string{static_cast<char>(next >> 8), static_cast<char>(next & 0xff)});
  }
  if (row->status().ok()) return Ok{};
  return Error{Code::kDataLoss, Reason::kNone,
               "cannot read the store: " + row->status().ToString()};
}

}  // namespace

Result<Ok> RocksStore::Copy(const fs::path& folder) const {
  rocksdb::Checkpoint* made = nullptr;
  auto status = rocksdb::Checkpoint::Create(db_.get(), &made);
  const std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
  if (status.ok()) status = checkpoint->CreateCheckpoint(folder.string());
  if (!status.ok()) {
    return Error{Code::kUnavailable, Reason::kNone,
                 "cannot copy the store to " + folder.string() + ": " + status.ToString()};
  }
  return ReplaceFile(folder / "FORMAT", FormatText());
}

StoredCopy::StoredCopy(std::unique_ptr<rocksdb::DB> db)
    : db_(std::move(db)), view_(std::make_unique<RocksView>(*db_)) {}

StoredCopy::~StoredCopy() = default;

Result<std::unique_ptr<StoredCopy>> StoredCopy::Open(const fs::path& folder) {
  std::error_code failure;
  if (!fs::exists(folder / "FORMAT", failure) || !fs::exists(folder / "CURRENT", failure)) {
    return Error{Code::kFailedPrecondition, Reason::kNone,
                 "there is no store in " + folder.string()};
  }
  if (auto free = CheckUnserved(folder); !free) return free.error();
  auto db = OpenToRead(folder);
  if (!db) return db.error();
  return std::unique_ptr<StoredCopy>(new StoredCopy(*std::move(db)));
}

Result<Ok> StoredCopy::VerifyChecksums() const { return Verified(*db_); }

Result<Ok> StoredCopy::VerifyHighWater(const fs::path& folder) const {
  auto mark = HighWater::Open(folder / "HIGH_WATER");
  if (!mark && mark.error().code == Code::kNotFound) return Ok{};
  if (!mark) return mark.error();
  const uint64_t durable = (*mark)->mark().sequence;
  const uint64_t there = db_->GetLatestSequenceNumber();
  if (durable <= there) return Ok{};
  return Error{Code::kDataLoss, Reason::kNone,
               "writes are lost: the store ends at sequence number " + std::to_string(there) +
                   ", and " + std::to_string(durable) + " was durable"};
}

Result<Ok> VerifyTables(const fs::path& folder) {
  auto db = OpenToRead(folder);
  return db ? Verified(**db) : Result<Ok>(db.error());
}

Result<Ok> AdoptCopy(const fs::path& folder) {
  rocksdb::Options options;
  options.env = StoreEnvironment();
  options.disable_auto_compactions = true;
  options.compression = rocksdb::kLZ4Compression;
  options.paranoid_checks = true;
  options.track_and_verify_wals_in_manifest = true;
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  rocksdb::DB* opened = nullptr;
  const auto status = rocksdb::DB::Open(options, folder.string(), &opened);
  if (!status.ok()) return Unreadable(folder, status);
  const std::unique_ptr<rocksdb::DB> db(opened);
  if (auto begun = BeginLives(*db); !begun) return begun;
  return ReplaceFile(folder / "FORMAT", FormatText());
}

}  // namespace dfsmr
