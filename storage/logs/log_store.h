// Keeps the lines that operations write, apart from the store: nothing waits for a log, and nothing
// but a log is lost with it.
//
// Its rows are in a table of its own (storage/log_table.h): a RocksDB beside the store's
// (rocks_table.h), or a table in the database that servers share (storage/postgres/pg_logs.h). In a
// column family of the store each fsync of the engine would wait for the bytes of logs as well.
// Files of our own, one for each visit, would be millions of small ones where operations are short.
//
// Lines lie in chunks: up to 32 KiB of consecutive lines of one claim. A chunk's row grows by
// appending (RocksDB's merge), so a line costs its own bytes, and what is dropped are whole chunks.
// In a table that is far a chunk grows within one Append only, so that its row is written once.
// A line's place in the order of its instance is its arrival. It never goes back: it begins anew
// after an opening, at a number that the clock gives. No chunk spans more than span() arrivals, so
// a reader that looks for a place need not look far.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/base/result.h"
#include "storage/log_table.h"
#include "storage/logs/log.h"

namespace dfsmr {

class LogStore {
 public:
  struct Options {
    uint64_t bytes = 0;  // kept of all instances
    Timestamp now;       // real time
  };

  LogStore(std::unique_ptr<LogTable> table, const Options& options);
  ~LogStore();

  // The writer: all that follows, one thread. Errors are kUnavailable or kDataLoss: something was
  // not written, and the store goes on. What Append did not take may be given to it again: a line
  // is taken once. kAborted: the table has another owner, and nothing is written any more.

  // Reads what is there. REQUIRES: it has succeeded before anything else of the writer's is called.
  Result<Ok> Load();

  struct Piece {
    LogOwner owner;
    LogClaim claim;
    std::vector<LogLine> lines;  // ascending
  };
  // Takes lines that it has not taken before: those of a claim whose numbers are greater than the
  // last one's. `time`: real time.
  Result<Ok> Append(std::span<const Piece> pieces, Timestamp time);

  // What becomes of an instance decides whose logs go first.
  struct Standing {
    enum class Kind : uint8_t { kRuns, kStopped, kGone } kind = Kind::kRuns;
    Timestamp time{};  // kStopped: when
  };
  // Of each owner, in their order.
  using StandingOf = std::function<std::vector<Standing>(std::span<const LogOwner>)>;
  // Drops logs until there are no more than `bytes`: of those that have stopped, the first one
  // first; then of those that run, the first one that had lines first.
  Result<Ok> Shrink(uint64_t bytes, const StandingOf& standing);
  // Gives the space of what was dropped back to the disk now, not by and by.
  Result<Ok> Reclaim();
  struct Name {
    std::string ns;
    std::string instance;
  };
  // Drops the logs of the instances of these names that are gone. False: there are none, or were.
  Result<bool> DropGone(std::span<const Name> names, const StandingOf& standing);
  // The same of all instances, some at a time. False: it has come to the end.
  Result<bool> SweepGone(const StandingOf& standing);
  // What was taken survives a crash of the machine.
  Result<Ok> Sync();

  // Puts a consistent copy into a new folder, as RocksStore::Copy does. Any thread.
  Result<Ok> Copy(const std::filesystem::path& folder) const { return table_->Copy(folder); }

  // Any thread.
  void Hurry() { table_->Hurry(); }  // nothing waits for long from now on
  bool far() const { return far_; }  // see LogTable::Far
  uint64_t span() const { return far_ ? 256 : 4'096; }
  uint64_t bound() const { return bound_; }
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  uint64_t lines() const { return lines_.load(std::memory_order_relaxed); }        // taken
  uint64_t left_out() const { return left_out_.load(std::memory_order_relaxed); }  // passed over
  // Whether no instance can have logs.
  bool empty() const { return owners_.load(std::memory_order_relaxed) == 0; }
  std::unique_ptr<const View> Snapshot() const { return table_->Snapshot(); }

 private:
  struct OpenChunk {
    uint64_t first = 0;  // 0: none is open
    uint64_t text = 0;
    uint64_t cost = 0;
    uint64_t offset = 0;
    bool head = false;
    std::string claim;
  };
  struct Visit {
    std::string node;
    uint64_t text = 0;
    uint64_t ordinal = 0;
    std::vector<std::pair<std::string, uint64_t>> numbers;
    uint64_t tail = 0;
    OpenChunk open;
    uint64_t trim_at = 0;  // its oldest chunk behind the head can go when `text` is so much
    uint64_t* NumberOf(const std::string& claim);
  };
  struct Instance {
    uint64_t arrival = 0;
    uint64_t cost = 0;
    int64_t order = 0;
    int64_t created = 0;
    std::map<uint64_t, Visit> visits;  // those that were used lately
  };
  class Writing;  // the chunk that lines go into, with what is to be written of it
  struct Dropping;

  template <typename Record>
  Result<bool> Get(const std::string& key, Record* record) const;
  Result<Ok> Walk(std::string_view prefix, std::string_view begin, const View::Visit& visit) const;
  Result<Ok> ReadTotal();
  Result<Ok> BeReady();
  void Forget();  // what is in memory of instances: the rows have all of it
  void Revert();  // the same, since it is ahead of the rows
  Result<Ok> Commit(LogBatch& batch);

  Result<Ok> Fetch(std::span<const Piece> pieces);
  Result<Instance*> InstanceOf(const LogOwner& owner, Timestamp time);
  Result<Visit*> VisitOf(const LogOwner& owner, Instance& instance, const LogClaim& claim);
  Result<Ok> AppendPiece(const Piece& piece, Timestamp time, LogBatch& batch);
  Result<Ok> AppendAll(std::span<const Piece> pieces, Timestamp time);
  void PutInstance(const LogOwner& owner, const Instance& instance, LogBatch& batch) const;
  void PutVisit(const LogOwner& owner, uint64_t number, const Visit& visit, LogBatch& batch) const;
  Result<Ok> Trim(const LogOwner& owner, uint64_t number, LogBatch& batch);
  void Close(std::span<const Piece> pieces);

  Result<std::vector<Dropping>> DroppingsOf(const std::vector<std::string>& turns,
                                            const StandingOf& standing) const;
  Result<Ok> ReorderSome(const std::vector<std::string>& turns, const StandingOf& standing);
  Result<Ok> Reorder(const StandingOf& standing);
  Result<Ok> ShrinkSome(const std::vector<std::string>& turns, uint64_t bytes,
                        const StandingOf& standing);
  Result<bool> DropFirstChunks(const Dropping& of, uint64_t bytes, LogBatch& batch);
  void DropChunks(const Dropping& of, LogBatch& batch);
  void Move(const Dropping& of, int64_t order, LogBatch& batch) const;
  void Drop(const Dropping& of, LogBatch& batch);
  Result<std::vector<LogOwner>> DropGoneOf(const std::vector<LogOwner>& owners,
                                           const StandingOf& standing);

  const std::unique_ptr<LogTable> table_;
  const bool far_;
  const uint64_t bound_;
  uint64_t first_arrival_;  // of instances that were not written to since the opening
  bool reverted_ = false;   // since then nothing was read
  bool arrives_anew_ = false;
  absl::flat_hash_map<std::string, Instance> instances_;  // by their rows' keys
  size_t visits_ = 0;                                     // in memory
  // Rows that an Append in a far table needs, read at once.
  absl::flat_hash_map<std::string, std::optional<std::string>> fetched_;
  absl::flat_hash_set<size_t> names_;  // hashes of those that have logs
  std::string swept_;                  // the last key that SweepGone has seen
  uint64_t total_ = 0;
  std::atomic<uint64_t> bytes_ = 0;
  std::atomic<uint64_t> lines_ = 0;
  std::atomic<uint64_t> left_out_ = 0;
  std::atomic<uint64_t> owners_ = 1;  // until they are counted
};

}  // namespace dfsmr
