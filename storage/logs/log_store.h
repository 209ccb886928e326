// Keeps the lines that operations write, apart from the store: nothing waits for a log, and nothing
// but a log is lost with it.
//
// It is a RocksDB of its own beside the store's. In a column family of the store each fsync of the
// engine would wait for the bytes of logs as well. Files of our own, one for each visit, would be
// millions of small ones where operations are short. A batch of lines is in the log of the
// database, and so in the system's memory, before Append returns, but no fsync waits for it: a
// killed process loses nothing, a machine that dies loses what Sync has not put on disk yet.
//
// Lines lie in chunks: up to 32 KiB of consecutive lines of one claim. A chunk's row grows by
// appending (RocksDB's merge), so a line costs its own bytes, and what is dropped are whole chunks.
// A line's place in the order of its instance is its arrival. It never goes back: it begins anew
// after an opening, at a number that the clock gives. No chunk spans more than kSpan arrivals, so a
// reader that looks for a place need not look far.
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
#include "storage/logs/log.h"

namespace rocksdb {
class DB;
class WriteBatch;
}  // namespace rocksdb

namespace dfsmr {

class LogStore {
 public:
  struct Options {
    std::filesystem::path path;
    uint64_t bytes = 0;  // kept of all instances
    Timestamp now;       // real time
  };
  static constexpr uint64_t kSpan = 4'096;

  // Makes it when it is missing. kUnavailable, kDataLoss: it cannot be read.
  static Result<std::unique_ptr<LogStore>> Open(const Options& options);
  ~LogStore();

  // The writer: all that follows, one thread. Errors are kUnavailable or kDataLoss: something was
  // not written, and the store goes on.

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
  using StandingOf = std::function<Standing(const LogOwner&)>;
  // Drops logs until there are no more than `bytes`: of those that have stopped, the first one
  // first; then of those that run, the first one that had lines first.
  Result<Ok> Shrink(uint64_t bytes, const StandingOf& standing);
  // Gives the space of what was dropped back to the disk now, not by and by.
  Result<Ok> Reclaim();
  // Drops the logs of the instances of this name that are gone. False: there are none, or were.
  Result<bool> DropGone(const std::string& ns, const std::string& instance,
                        const StandingOf& standing);
  // The same of all instances, some hundred at a time. False: it has come to the end.
  Result<bool> SweepGone(const StandingOf& standing);
  // What was taken survives a crash of the machine.
  Result<Ok> Sync();

  // Puts a consistent copy into a new folder, as RocksStore::Copy does. Any thread.
  Result<Ok> Copy(const std::filesystem::path& folder) const;

  // Any thread.
  uint64_t bound() const { return bound_; }
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  uint64_t lines() const { return lines_.load(std::memory_order_relaxed); }        // taken
  uint64_t left_out() const { return left_out_.load(std::memory_order_relaxed); }  // passed over
  // Whether an instance of this name may have logs.
  bool empty() const { return owners_.load(std::memory_order_relaxed) == 0; }
  rocksdb::DB& db() const { return *db_; }

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

  LogStore(std::unique_ptr<rocksdb::DB> db, const Options& options);
  Result<Ok> Load();
  Result<Ok> ReadTotal();
  void Revert();

  Result<Instance*> InstanceOf(const LogOwner& owner, Timestamp time);
  Result<Visit*> VisitOf(const LogOwner& owner, Instance& instance, const LogClaim& claim);
  Result<Ok> AppendPiece(const Piece& piece, Timestamp time, rocksdb::WriteBatch* batch);
  void PutInstance(const LogOwner& owner, const Instance& instance, rocksdb::WriteBatch* batch);
  void PutVisit(const LogOwner& owner, uint64_t number, const Visit& visit,
                rocksdb::WriteBatch* batch);
  Result<Ok> Trim(const LogOwner& owner, uint64_t number, rocksdb::WriteBatch* batch);
  Result<Ok> Commit(rocksdb::WriteBatch* batch);
  void Forget();  // what is in memory of instances: the rows have all of it

  Result<Ok> Reorder(const StandingOf& standing);
  Result<Ok> ShrinkOne(const std::string& turn, uint64_t bytes, const StandingOf& standing);
  Result<Ok> DropFirstChunks(const LogOwner& owner, bool stopped, uint64_t bytes);
  Result<Ok> Move(const LogOwner& owner, const std::string& turn, int64_t order);
  Result<Ok> Drop(const LogOwner& owner);

  const std::unique_ptr<rocksdb::DB> db_;
  const uint64_t bound_;
  const uint64_t first_arrival_;  // of instances that were not written to since the opening
  absl::flat_hash_map<std::string, Instance> instances_;  // by their rows' keys
  size_t visits_ = 0;                                     // in memory
  absl::flat_hash_set<size_t> names_;                     // hashes of those that have logs
  std::string swept_;                                     // the last key that SweepGone has seen
  bool unsynced_ = false;
  uint64_t total_ = 0;
  std::atomic<uint64_t> bytes_ = 0;
  std::atomic<uint64_t> lines_ = 0;
  std::atomic<uint64_t> left_out_ = 0;
  std::atomic<uint64_t> owners_ = 0;
};

}  // namespace dfsmr
