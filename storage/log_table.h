// Where the lines of operations rest (storage/logs): an ordered map of byte strings with atomic
// batches. It stands apart from the store: nothing waits for a log, and nothing but a log is lost
// with it. A batch that was written survives the writer's process. A machine that dies may lose the
// last ones: the writer's, or the database's.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/base/result.h"
#include "storage/view.h"

namespace dfsmr {

// In order; a later operation on a key wins.
class LogBatch {
 public:
  virtual ~LogBatch() = default;
  virtual void Put(std::string_view key, std::string_view value) = 0;
  virtual void Delete(std::string_view key) = 0;
  // All rows with this prefix that are there before the batch.
  virtual void DeletePrefix(std::string_view prefix) = 0;
  // Adds to the end of a row, which may be missing. In a table that is Far only a row that this
  // batch has made can grow.
  virtual void Append(std::string_view key, std::string_view value) = 0;
  virtual bool empty() const = 0;
};

// As a View it shows the rows as they are now, and is the writer's alone. The writer is one thread.
// Reads and Write fail with kUnavailable (try again later), kDataLoss, or kAborted: another owner
// writes the table, and nothing was written. After any other failure of Write nobody knows what was
// written until the next read.
class LogTable : public View {
 public:
  // Each call is a round trip, and a row that grows is written anew. So calls should be few, and
  // rows are not added to.
  virtual bool Far() const { return false; }

  // As many Gets.
  virtual Result<std::vector<std::optional<std::string>>> GetMany(
      std::span<const std::string> keys) const = 0;
  // The rows of each prefix.
  virtual Result<Ok> ScanAll(std::span<const std::string> prefixes, const Visit& visit) const = 0;

  virtual std::unique_ptr<LogBatch> NewBatch() const = 0;
  // All or nothing. The batch was made by NewBatch.
  virtual Result<Ok> Write(LogBatch& batch) = 0;
  // What was written survives a crash of this machine.
  virtual Result<Ok> Sync() { return Ok{}; }
  // Gives the space of what was deleted back now, not by and by.
  virtual Result<Ok> Reclaim() { return Ok{}; }
  // From now on nothing waits for long. Any thread.
  virtual void Hurry() {}

  // The rows of one moment, for a reader. Any thread. What it returns is for one thread, and goes
  // before the table does, and soon.
  virtual std::unique_ptr<const View> Snapshot() const = 0;
  // Puts a consistent copy into a new folder, from which it can be opened. Any thread.
  virtual Result<Ok> Copy(const std::filesystem::path& folder) const = 0;
};

}  // namespace dfsmr
