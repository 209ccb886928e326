// Ordered map of byte strings with atomic, fenced, durable batches: all that the engine asks of a
// disk, so that the disk can be RocksDB, memory, or something that fails on purpose.
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
    std::string key;    // kDeleteRange: first key that goes
    std::string value;  // kDeleteRange: first key that stays
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
  // An operation stays where it is in memory as others are added.
  const std::deque<Operation>& operations() const { return operations_; }
  // Which of them are DeleteRanges, in order.
  const std::vector<size_t>& ranges() const { return ranges_; }
  size_t bytes() const { return bytes_; }
  bool empty() const { return operations_.empty(); }

 private:
  std::deque<Operation> operations_;
  std::vector<size_t> ranges_;
  size_t bytes_ = 0;
};

// Raised each time a partition gets an owner; a write under an old one fails.
using Epoch = uint64_t;

// Two reads of a store may see two states, since its owner writes meanwhile. Who needs several
// reads to agree, takes a snapshot.
class Store : public View {
 public:
  // The rows as they are now, for as long as the snapshot lives. Each write is in it whole or not
  // at all: those that have returned are, those that begin later are not, and one under way is in
  // it only if it is durable already. So what is read after an answer that rests on a commit shows
  // the commit. Any thread; the snapshot may be read by several, and dropped by any. It must be
  // dropped before the store is. Drop it soon: while it lives nothing that it shows can be
  // reclaimed.
  virtual std::unique_ptr<const View> Snapshot() const = 0;

  // Makes the caller the owner of `partition`: durable on return, and greater than any epoch
  // before.
  virtual Result<Epoch> Acquire(PartitionId partition) = 0;

  // All or nothing, durable on return. kAborted: `epoch` has been superseded, nothing was written.
  // After any other failure the outcome is unknown: the owner must stop.
  virtual Result<Ok> Write(PartitionId partition, Epoch epoch, const Batch& batch) = 0;
};

}  // namespace dfsmr
