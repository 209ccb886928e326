// Where RocksDB begins to look for a new row's place in a memtable: at the last one of the same
// kind, in place of the head. Rows of a kind mostly come in the order of their keys, as ids and
// numbers of records grow, so that a few comparisons do in place of some twenty.
//
// Until RocksDB 9.2 the begin of a deleted range takes and leaves such a hint, too, though ranges are
// kept in a list of their own, which corrupts both (facebook/rocksdb#5118). So no range may begin in
// the domain: AddRange sees to that. And what is read from the log while a store is opened may be of
// before that: it takes no hints.
#pragma once

#include <rocksdb/slice_transform.h>
#include <rocksdb/write_batch.h>

#include <atomic>
#include <cstddef>
#include <string>

#include "storage/store.h"

namespace dfsmr {

inline constexpr size_t kKindEnds = sizeof(PartitionId) + 1;  // in a key

class InsertHints final : public rocksdb::SliceTransform {
 public:
  void Begin() { begun_.store(true, std::memory_order_relaxed); }  // the store is open

  const char* Name() const override { return "dfsmr.kinds"; }
  rocksdb::Slice Transform(const rocksdb::Slice& key) const override {
    return {key.data(), kKindEnds};
  }
  bool InDomain(const rocksdb::Slice& key) const override {
    return key.size() > kKindEnds && !key.ends_with(Beyond()) &&
           begun_.load(std::memory_order_relaxed);
  }

  // Deletes the rows from `begin` to before `end`: the first two keys that there could be by
  // themselves, and then a range, which begins beyond the domain.
  static void AddRange(rocksdb::WriteBatch* rows, std::string begin, const std::string& end) {
    for (size_t i = 0; i < Beyond().size(); ++i) {
      if (begin >= end) return;
      rows->Delete(begin);
      begin += '\0';
    }
    if (begin < end) rows->DeleteRange(begin, end);
  }

 private:
  static rocksdb::Slice Beyond() { return {"\0\0", 2}; }

  std::atomic<bool> begun_ = false;
};

}  // namespace dfsmr
