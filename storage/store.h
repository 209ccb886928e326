// Ordered map of byte strings with atomic, fenced, durable batches: all that the engine asks of a
// disk, so that the disk can be RocksDB, memory, or something that fails on purpose.
// Get and Scan: any thread. Write: only the thread that owns the partition.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/base/result.h"

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
    operations_.push_back({Operation::Kind::kDeleteRange, std::move(begin), std::move(end)});
  }
  const std::vector<Operation>& operations() const { return operations_; }
  size_t bytes() const { return bytes_; }
  bool empty() const { return operations_.empty(); }

 private:
  std::vector<Operation> operations_;
  size_t bytes_ = 0;
};

// Raised each time a partition gets an owner; a write under an old one fails.
using Epoch = uint64_t;

class Store {
 public:
  // Return false to end the scan. The views die with the call.
  using Visit = std::function<bool(std::string_view key, std::string_view value)>;

  virtual ~Store() = default;

  // Makes the caller the owner of `partition`: durable on return, and greater than any epoch before.
  virtual Result<Epoch> Acquire(PartitionId partition) = 0;

  // The value, or nullopt. Fails with kUnavailable (I/O) or kDataLoss (checksum) only.
  virtual Result<std::optional<std::string>> Get(std::string_view key) const = 0;

  // Rows with begin <= key < end, ascending (or descending with `reverse`), until `visit` returns
  // false. Sees one consistent state. An empty `end` means: to the last key. Fails as Get does; rows
  // visited before a failure were real, but some may be missing, so a failed scan proves nothing.
  virtual Result<Ok> Scan(std::string_view begin, std::string_view end, const Visit& visit,
                          bool reverse = false) const = 0;

  // The same, ascending, of what is read once from end to end, however much: it drives nothing else
  // out of memory, and may be read by another thread while this one visits.
  virtual Result<Ok> ScanOnce(std::string_view begin, std::string_view end,
                              const Visit& visit) const {
    return Scan(begin, end, visit);
  }

  // All or nothing, durable on return. kAborted: `epoch` has been superseded, nothing was written.
  // After any other failure the outcome is unknown: the owner must stop.
  virtual Result<Ok> Write(PartitionId partition, Epoch epoch, const Batch& batch) = 0;
};

// The first key after all those with `prefix`; empty when there is none.
std::string PrefixEnd(std::string_view prefix);

}  // namespace dfsmr
