// An ordered map of byte strings with atomic, fenced, durable batches. The engine asks nothing else
// of a disk, so the disk can be RocksDB, memory, or a store that fails on purpose.
// Reads (view.h) and Snapshot: any thread. Write: only the thread that owns the partition.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "fsm/base/result.h"
#include "storage/view.h"

namespace dfsmr {

using PartitionId = uint16_t;

// Writes in order; a later write to a key wins over an earlier one.
class Batch {
 public:
  struct Operation {
    enum class Kind : uint8_t { kPut, kDelete, kDeleteRange } kind;
    std::string key;    // kDeleteRange: the first key to delete
    std::string value;  // kDeleteRange: the first key after those
  };
  void Put(std::string key, std::string value) {
    bytes_ += key.size() + value.size();
    operations_.push_back({Operation::Kind::kPut, std::move(key), std::move(value)});
  }
  void Delete(std::string key) {
    bytes_ += key.size();
    operations_.push_back({Operation::Kind::kDelete, std::move(key), {}});
  }
  // For retention only: each live range tombstone costs every later read.
  void DeleteRange(std::string begin, std::string end) {
    ranges_.push_back(operations_.size());
    operations_.push_back({Operation::Kind::kDeleteRange, std::move(begin), std::move(end)});
  }
  // Adding an operation does not move the others in memory.
  const std::deque<Operation>& operations() const { return operations_; }
  // The indexes of the DeleteRanges among them, ascending.
  const std::vector<size_t>& ranges() const { return ranges_; }
  size_t bytes() const { return bytes_; }
  bool empty() const { return operations_.empty(); }

 private:
  std::deque<Operation> operations_;
  std::vector<size_t> ranges_;
  size_t bytes_ = 0;
};

// Raised each time a partition gets an owner; a write under an earlier epoch fails.
using Epoch = uint64_t;

// Two reads of a store may see two states, since its owner writes meanwhile. Take a snapshot where
// several reads must agree.
class Store : public View {
 public:
  // The rows as they are now, for as long as the snapshot lives. It holds each write in full or not
  // at all: every write that has returned, no write that begins later, and a write under way only
  // if it is durable already. So a snapshot taken after a commit was answered shows the commit. Any
  // thread may take, read and drop a snapshot, several at a time. Drop it before the store, and
  // soon: as long as it lives, the store cannot reclaim the space of anything that it shows.
  virtual std::unique_ptr<const View> Snapshot() const = 0;

  // Makes the caller the owner of `partition`, under a new epoch, greater than any before. Durable
  // on return.
  virtual Result<Epoch> Acquire(PartitionId partition) = 0;

  // All or nothing, durable on return. kAborted: `epoch` has been superseded, and nothing was
  // written. After any other failure nobody knows what was written: the owner must stop.
  virtual Result<Ok> Write(PartitionId partition, Epoch epoch, const Batch& batch) = 0;
};

}  // namespace dfsmr
