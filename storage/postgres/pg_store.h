// The store in PostgreSQL, for any number of servers, of which one owns each partition. Replication
// and failover of the rows are the database's.
//
// Each write is one transaction, which begins with the fence: it raises the partition's seq where
// that and the epoch are as the writer knows them, and fails where they are not. So an owner that
// was superseded writes nothing, and a write whose outcome is unknown (the connection was lost, the
// database failed over) may be sent again, the same bytes, until it is known: twice it cannot be
// done.
//
// Reads of a connection that is still with a primary that was deposed would be old. So each comes
// with the partition's epoch and seq, and is done again elsewhere when these are less than those of
// the last write.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/base/mutex.h"
#include "storage/postgres/database.h"
#include "storage/postgres/moment.h"
#include "storage/postgres/pool.h"
#include "storage/postgres/waits.h"
#include "storage/postgres/writing.h"
#include "storage/roster.h"
#include "storage/store.h"

namespace dfsmr {

// Reads and writes wait for as long as the database is away, unless GiveUp is called. A scan that
// the database has left goes on where it was, in what is there by then.
class PgStore final : public Store {
 public:
  struct Options {
    size_t writers = 2;  // connections
    size_t readers = 4;
    // All keys that are put are put for the first time: a store is being copied.
    bool fresh = false;
    PgWriting::Patience patience = {};  // of writes
  };
  // What it has done that an operator should know.
  struct Counts {
    uint64_t fenced = 0;    // writes that were refused: somebody else owns the partition
    uint64_t unknown = 0;   // writes whose outcome had to be found out
    uint64_t repeated = 0;  // that were sent again
    uint64_t stale = 0;     // reads from a primary that was deposed
    PgPool::Counts writers, readers;
  };

  PgStore(std::shared_ptr<const PgDatabase> database, Options options);
  // No other call may be under way, and no snapshot may be left.
  ~PgStore() override;

  // What Roster::Take has returned: the next Acquire of the partition returns this epoch, and takes
  // none of its own.
  void Hold(PartitionId partition, const Holding& held);
  // Nothing more is written under this epoch of the partition.
  void Release(PartitionId partition, Epoch epoch);

  std::unique_ptr<const View> Snapshot() const override;
  Result<Epoch> Acquire(PartitionId partition) override;
  // The same, under an epoch greater than `above`, too.
  Result<Epoch> AcquireAbove(PartitionId partition, Epoch above);
  Result<std::optional<std::string>> Get(std::string_view key) const override;
  Result<Ok> Scan(std::string_view begin, std::string_view end, const Visit& visit,
                  bool reverse = false) const override;
  Result<Ok> ScanOnce(std::string_view begin, std::string_view end,
                      const Visit& visit) const override;
  // kAborted: superseded, and nothing was written. kUnavailable: superseded, or GiveUp was called,
  // when an earlier try may have arrived; or the database refuses for good.
  Result<Ok> Write(PartitionId partition, Epoch epoch, const Batch& batch) override;

  // All that waits for the database fails with kUnavailable, now and from now on. Any thread.
  void GiveUp();

  // Whether the database had no room for a write in the last 5 s. Any thread.
  bool full() const;
  // For how long the oldest write or read under way has waited. Zero: there is none. Any thread.
  Duration waiting() const;
  Counts counts() const;

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kFullFor{5};
  // Connections that there may be beyond those of the options.
  static constexpr size_t kBeyond = 16;
  static constexpr size_t kSnapshotsBeyond = 8;  // the others are left for what is short
  struct Owned {
    Holding at;          // after the last write
    bool taken = false;  // by the roster, for the next Acquire
  };

  std::optional<Holding> Known(PartitionId partition) const;
  void Advance(PartitionId partition, Holding at);
  // False: given up.
  bool Pause(std::chrono::milliseconds time) const;
  Error GivenUp() const;
  void NoteAway(const std::string& why) const;
  void NoteBack() const;
  Result<PgPool::Lease> TakeFrom(PgPool& pool, Clock::time_point until,
                                 size_t beyond = kBeyond) const;
  Result<Ok> Settle(PgWriting& writing);
  Result<PgResult> Read(const PgCall& call, PartitionId partition, int guard) const;
  Result<std::unique_ptr<PgMoment>> Moment(Clock::time_point until, size_t beyond = kBeyond) const;
  enum class Rounds : uint8_t { kSmall, kLarge };
  Result<Ok> ScanOn(std::string_view begin, std::string_view end, const Visit& visit, bool reverse,
                    Rounds rounds) const;

  const std::shared_ptr<const PgDatabase> database_;
  const bool fresh_;
  const PgWriting::Patience patience_;
  mutable PgPool writers_;
  mutable PgPool readers_;
  mutable Mutex mutex_;
  mutable ConditionVariable changed_;
  std::map<PartitionId, Owned> owned_ GUARDED(mutex_);
  std::atomic<bool> given_up_ = false;
  mutable std::atomic<bool> away_ = false;  // as last told
  std::atomic<int64_t> full_until_ = 0;     // of the steady clock, in its own unit
  mutable PgWaits waits_;
  mutable std::atomic<uint64_t> fenced_ = 0, unknown_ = 0, repeated_ = 0, stale_ = 0;
};

}  // namespace dfsmr
