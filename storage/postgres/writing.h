// One write of a partition on its way into the database, try by try. See pg_store.h.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "fsm/base/result.h"
#include "storage/postgres/connection.h"
#include "storage/postgres/statements.h"
#include "storage/roster.h"
#include "storage/store.h"

namespace dfsmr {

// Where a partition is, in two columns of a row; without its feed.
Holding PointOf(const PgResult& rows, int row, int column);

class PgWriting {
 public:
  struct Patience {
    // Without an answer for so long the connection is given up; twice as long after each time,
    // since a database that is slow for all would never get done.
    std::chrono::milliseconds first{3'000};
    // An older state than what was acknowledged, for so long, is no deposed primary.
    std::chrono::milliseconds stale{60'000};
  };
  enum class Step : uint8_t {
    kWritten,  // it is there, and durable
    kOver,     // it never will be, or nobody can know; see error()
    kAgain,    // nothing was written: try again
    kFull,     // the same, for want of room
    kUnknown,  // nobody knows yet: try again with another connection
    kStale,    // the database is one that was deposed: with another connection
  };

  // `at`: before the write. The batch outlives this. `fresh`: none of its keys is there.
  PgWriting(const PgStatements& statements, PartitionId partition, const Holding& at,
            const Batch& batch, bool fresh, const Patience& patience);

  // Finds out about an earlier try first, if need be, and sends the same bytes.
  Step Try(PgConnection& connection);
  const Error& error() const { return error_; }

 private:
  Step Send(PgConnection& connection);
  // What became of earlier tries; nullopt: they never arrived.
  std::optional<Step> FindOut(PgConnection& connection);
  std::optional<Step> Judge(const Holding& found, PgConnection& connection);
  std::chrono::milliseconds Wait() const;

  const PgStatements& statements_;
  const PartitionId partition_;
  const Holding at_;
  const Patience patience_;
  std::vector<PgCall> calls_;
  bool doubt_ = false;  // an earlier try may have arrived
  int unanswered_ = 0;
  std::optional<std::chrono::steady_clock::time_point> stale_since_;
  Error error_;
};

}  // namespace dfsmr
