// How far a store was known to be durable, kept outside of it. No recovery mode of a database
// notices a log that is gone, or cut between two records: it opens with less, as if all were well.
// Only a note of how much there was shows it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <utility>

#include "fsm/base/mutex.h"
#include "fsm/base/result.h"

namespace dfsmr {

// A file of two slots of 4 KiB, overwritten in turn, so that a torn write leaves the other one. A
// slot, its numbers 64 bits big-endian: "dfsmr-hw" | version 1 | turn | sequence | incarnation |
// FNV-1a of all that. Of the readable slots, the one of the greater turn counts.
// Any thread.
class HighWater {
 public:
  struct Mark {
    uint64_t sequence = 0;     // all up to here was durable when this was written
    uint64_t incarnation = 0;  // drawn when the file was made: a new file is a new life
    friend bool operator==(const Mark&, const Mark&) = default;
  };

  // kNotFound: there is no such file. kDataLoss: there is, and neither slot can be read.
  static Result<std::unique_ptr<HighWater>> Open(const std::filesystem::path& path);

  // The file appears whole or not at all, and replaces an older one.
  static Result<std::unique_ptr<HighWater>> Create(const std::filesystem::path& path, Mark mark);

  ~HighWater();
  HighWater(const HighWater&) = delete;
  HighWater& operator=(const HighWater&) = delete;

  Mark mark() const;

  // Written, not synced: survives the process, and the machine once Sync has passed over it. Does
  // nothing when `sequence` is not above the mark.
  Result<Ok> Raise(uint64_t sequence);
  // Durable on return. Does nothing when nothing was raised since the last one.
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
