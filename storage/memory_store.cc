#include "storage/memory_store.h"

#include "storage/fence.h"

namespace dfsmr {

Result<Epoch> MemoryStore::Acquire(PartitionId partition) {
  const std::lock_guard lock(mutex_);
  return ++epochs_[partition];
}

Result<std::optional<std::string>> MemoryStore::Get(std::string_view key) const {
  const std::lock_guard lock(mutex_);
  const auto row = rows_.find(key);
  return row == rows_.end() ? std::optional<std::string>() : std::optional(row->second);
}

Result<Ok> MemoryStore::Scan(std::string_view begin, std::string_view end, const Visit& visit,
                             bool reverse) const {
  if (!end.empty() && begin >= end) return Ok{};
  const std::lock_guard lock(mutex_);
  const auto first = rows_.lower_bound(begin);
  const auto last = end.empty() ? rows_.end() : rows_.lower_bound(end);
  ++scans_;
  if (reverse) {
    for (auto row = last; row != first;) {
      --row;
      if (!visit(row->first, row->second)) break;
    }
  } else {
    for (auto row = first; row != last; ++row) {
      if (!visit(row->first, row->second)) break;
    }
  }
  --scans_;
  return Ok{};
}

Result<Ok> MemoryStore::Write(PartitionId partition, Epoch epoch, const Batch& batch) {
  const std::lock_guard lock(mutex_);
  Check(scans_ == 0, "MemoryStore: a scan's visit wrote");
  const auto owner = epochs_.find(partition);
  const Epoch current = owner == epochs_.end() ? 0 : owner->second;
  if (/*mutant superseded-owner-writes*/ current == 0 || epoch != current /*end*/)
    return Superseded(partition, epoch, current);
  for (const auto& operation : batch.operations()) Apply(operation);
  return Ok{};
}

void MemoryStore::Apply(const Batch::Operation& operation) {
  switch (operation.kind) {
    case Batch::Operation::Kind::kPut:
      rows_.insert_or_assign(operation.key, operation.value);
      break;
    case Batch::Operation::Kind::kDelete:
      rows_.erase(operation.key);
      break;
    case Batch::Operation::Kind::kDeleteRange:
      Check(!operation.value.empty(), "a range to delete has an end");
      if (operation.key >= operation.value) break;
      rows_.erase(rows_.lower_bound(operation.key), rows_.lower_bound(operation.value));
      break;
  }
}

}  // namespace dfsmr
