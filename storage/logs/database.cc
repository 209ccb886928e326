#include "storage/logs/database.h"

#include <rocksdb/cache.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/table.h>

#include <algorithm>
#include <memory>
#include <string>

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

}  // namespace

rocksdb::Options LogDatabaseOptions(uint64_t bound) {
  rocksdb::Options options;
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

}  // namespace dfsmr
