// A note, kept outside of a store, of how far the store was known to be durable. No recovery mode
// of RocksDB notices that a log file is missing, or was cut between two records: the database opens
// with fewer rows, as if all were well. Comparing it with this note shows the loss.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <utility>

#include "fsm/base/mutex.h"
#include "fsm/base/result.h"

namespace dfsmr {

// A file of two slots of 4 KiB, overwritten alternately, so that a torn write leaves the other slot
// intact. A slot is "dfsmr-hw" | version 1 | turn | sequence | incarnation | FNV-1a of all that,
// with numbers of 64 bits, big-endian. The readable slot with the greater turn counts.
// Any thread.
class HighWater {
 public:
  struct Mark {
    uint64_t sequence = 0;     // all up to here was durable when this was written
    uint64_t incarnation = 0;  // drawn at random when the file was made
    friend bool operator==(const Mark&, const Mark&) = default;
  };

  // kNotFound: there is no such file. kDataLoss: neither of its slots can be read.
  static Result<std::unique_ptr<HighWater>> Open(const std::filesystem::path& path);

  // Replaces an older file. After a crash the file is complete or as it was before.
  static Result<std::unique_ptr<HighWater>> Create(const std::filesystem::path& path, Mark mark);

  ~HighWater();
  HighWater(const HighWater&) = delete;
  HighWater& operator=(const HighWater&) = delete;

  Mark mark() const;

  // Writes without syncing: the mark survives a crash of the process, and after Sync also a crash
  // of the machine. Does nothing when `sequence` is not above the mark.
  Result<Ok> Raise(uint64_t sequence);
  // The mark is durable on return. Does nothing when it was not raised since the last Sync.
  Result<Ok> Sync();

 private:
  HighWater(std::filesystem::path path, int file, uint64_t turn, Mark mark)
      : path_(std::move(path)), file_(file), turn_(turn), mark_(mark) {}

  const std::filesystem::path path_;
  const int file_;
  mutable Mutex mutex_;
  uint64_t turn_ GUARDED(mutex_);
  Mark mark_ GUARDED(mutex_);
  bool synced_ GUARDED(mutex_) = true;
};

}  // namespace dfsmr
