#include "storage/logs/rocks_table.h"

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/checkpoint.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <string>
#include <utility>

#include "storage/rocks/environment.h"

namespace dfsmr {
namespace {

// A row of pieces, one behind the other: messages join by being joined.
class JoinPieces final : public rocksdb::AssociativeMergeOperator {
 public:
  bool Merge(const rocksdb::Slice&, const rocksdb::Slice* existing, const rocksdb::Slice& value,
             std::string* joined, rocksdb::Logger*) const override {
    joined->clear();
    joined->reserve((existing ? existing->size() : 0) + value.size());
    if (existing) joined->assign(existing->data(), existing->size());
    joined->append(value.data(), value.size());
    return true;
  }
  const char* Name() const override { return "dfsmr.JoinPieces"; }
};

rocksdb::Options OptionsFor(uint64_t bound) {
  rocksdb::Options options;
  options.env = StoreEnvironment();
  options.create_if_missing = true;
  options.merge_operator = std::make_shared<JoinPieces>();
  options.compression = rocksdb::kLZ4Compression;
  options.level_compaction_dynamic_level_bytes = true;
  options.write_buffer_size =
      static_cast<size_t>(std::clamp<uint64_t>(bound / 16, 1 << 20, 32 << 20));
  options.max_write_buffer_number = 3;
  options.max_total_wal_size = 3 * options.write_buffer_size;
  options.target_file_size_base = options.write_buffer_size;
  options.max_open_files = 256;
  options.max_background_jobs = 2;
  // Bytes reach the disk as they are written, not in bursts that the engine's fsyncs wait behind.
  options.bytes_per_sync = 1 << 20;
  options.wal_bytes_per_sync = 1 << 20;
  // What cannot be read at the end of its log was lost with the machine: the lines before count.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  options.allow_fallocate = false;  // room that no line needs is the store's
  options.max_log_file_size = 4 << 20;
  options.keep_log_file_num = 2;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(16 << 20);
  table.block_size = 16 << 10;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

Result<Ok> Outcome(const rocksdb::Status& status) {
  if (status.ok()) return Ok{};
  const bool lost = status.IsCorruption() || status.IsPathNotFound();
  return Error{lost ? Code::kDataLoss : Code::kUnavailable, Reason::kNone,
               "the store of logs: " + status.ToString()};
}

rocksdb::Slice SliceOf(std::string_view text) { return {text.data(), text.size()}; }

Result<std::optional<std::string>> GetFrom(rocksdb::DB& db, const rocksdb::ReadOptions& options,
                                           std::string_view key) {
  std::string value;
  const rocksdb::Status status = db.Get(options, SliceOf(key), &value);
  if (status.IsNotFound()) return std::optional<std::string>();
  if (!status.ok()) return Outcome(status).error();
  return std::optional(std::move(value));
}

Result<Ok> ScanIn(rocksdb::DB& db, rocksdb::ReadOptions options, std::string_view begin,
                  std::string_view end, const View::Visit& visit, bool reverse) {
  const rocksdb::Slice lower = SliceOf(begin);
  const rocksdb::Slice upper = SliceOf(end);
  options.iterate_lower_bound = &lower;
  if (!end.empty()) options.iterate_upper_bound = &upper;
  const std::unique_ptr<rocksdb::Iterator> row(db.NewIterator(options));
  reverse ? row->SeekToLast() : row->SeekToFirst();
  while (row->Valid() && visit(row->key().ToStringView(), row->value().ToStringView())) {
    reverse ? row->Prev() : row->Next();
  }
  return Outcome(row->status());
}

class RocksBatch final : public LogBatch {
 public:
  explicit RocksBatch(rocksdb::DB& db) : db_(db) {}

  void Put(std::string_view key, std::string_view value) override {
    batch_.Put(SliceOf(key), SliceOf(value));
  }
  void Delete(std::string_view key) override { batch_.Delete(SliceOf(key)); }
  // Row by row: a range that is deleted would cost all later reads.
  void DeletePrefix(std::string_view prefix) override {
    const auto scanned = ScanIn(
        db_, {}, prefix, PrefixEnd(prefix),
        [this](std::string_view key, std::string_view) {
          Delete(key);
          return true;
        },
        false);
    if (!scanned) failure_ = scanned;
  }
  void Append(std::string_view key, std::string_view value) override {
    batch_.Merge(SliceOf(key), SliceOf(value));
  }
  bool empty() const override { return batch_.Count() == 0; }

  Result<Ok> WriteTo(rocksdb::DB& db) {
    if (!failure_) return failure_;
    return Outcome(db.Write({}, &batch_));
  }

 private:
  rocksdb::DB& db_;
  rocksdb::WriteBatch batch_;
  Result<Ok> failure_ = Ok{};
};

class RocksMoment final : public View {
 public:
  explicit RocksMoment(rocksdb::DB& db) : db_(db), snapshot_(&db) {
    options_.snapshot = snapshot_.snapshot();
  }
  Result<std::optional<std::string>> Get(std::string_view key) const override {
    return GetFrom(db_, options_, key);
  }
  Result<Ok> Scan(std::string_view begin, std::string_view end, const Visit& visit,
                  bool reverse) const override {
    return ScanIn(db_, options_, begin, end, visit, reverse);
  }

 private:
  rocksdb::DB& db_;
  rocksdb::ManagedSnapshot snapshot_;
  rocksdb::ReadOptions options_;
};

class RocksLogTable final : public LogTable {
 public:
  explicit RocksLogTable(std::unique_ptr<rocksdb::DB> db) : db_(std::move(db)) {}

  Result<std::optional<std::string>> Get(std::string_view key) const override {
    return GetFrom(*db_, {}, key);
  }
  Result<Ok> Scan(std::string_view begin, std::string_view end, const Visit& visit,
                  bool reverse) const override {
    return ScanIn(*db_, {}, begin, end, visit, reverse);
  }
  Result<std::vector<std::optional<std::string>>> GetMany(
      std::span<const std::string> keys) const override {
    std::vector<std::optional<std::string>> values;
    for (const std::string& key : keys) {
      auto value = Get(key);
      if (!value) return value.error();
      values.push_back(*std::move(value));
    }
    return values;
  }
  Result<Ok> ScanAll(std::span<const std::string> prefixes, const Visit& visit) const override {
    for (const std::string& prefix : prefixes) {
      auto scanned = Scan(prefix, PrefixEnd(prefix), visit, false);
      if (!scanned) return scanned;
    }
    return Ok{};
  }

  std::unique_ptr<LogBatch> NewBatch() const override { return std::make_unique<RocksBatch>(*db_); }
  Result<Ok> Write(LogBatch& batch) override {
    auto written = static_cast<RocksBatch&>(batch).WriteTo(*db_);
    if (!written) (void)db_->Resume();
    unsynced_ = true;
    return written;
  }
  Result<Ok> Sync() override {
    if (!std::exchange(unsynced_, false)) return Ok{};
    return Outcome(db_->SyncWAL());
  }
  Result<Ok> Reclaim() override {
    auto flushed = Outcome(db_->Flush({}));
    if (!flushed) return flushed;
    rocksdb::CompactRangeOptions options;
    options.exclusive_manual_compaction = false;
    options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
    return Outcome(db_->CompactRange(options, nullptr, nullptr));
  }

  std::unique_ptr<const View> Snapshot() const override {
    return std::make_unique<RocksMoment>(*db_);
  }
  Result<Ok> Copy(const std::filesystem::path& folder) const override {
    rocksdb::Checkpoint* made = nullptr;
    auto status = rocksdb::Checkpoint::Create(db_.get(), &made);
    const std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
    if (status.ok()) status = checkpoint->CreateCheckpoint(folder.string());
    if (status.ok()) return Ok{};
    return Error{Code::kUnavailable, Reason::kNone,
                 "cannot copy the logs to " + folder.string() + ": " + status.ToString()};
  }

 private:
  const std::unique_ptr<rocksdb::DB> db_;
  bool unsynced_ = false;
};

}  // namespace

Result<std::unique_ptr<LogTable>> OpenRocksLogTable(const std::filesystem::path& path,
                                                    uint64_t bound) {
  rocksdb::DB* db = nullptr;
  auto opened = Outcome(rocksdb::DB::Open(OptionsFor(bound), path, &db));
  if (!opened) return opened.error();
  return std::unique_ptr<LogTable>(
      std::make_unique<RocksLogTable>(std::unique_ptr<rocksdb::DB>(db)));
}

}  // namespace dfsmr
