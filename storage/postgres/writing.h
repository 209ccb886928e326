// One write of a partition on its way into the database, try by try. See pg_store.h.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "fsm/base/result.h"
#include "storage/postgres/connection.h"
#include "storage/postgres/statements.h"
#include "storage/store.h"

namespace dfsmr {

// Where a partition is.
struct PgPoint {
  Epoch epoch = 0;
  uint64_t seq = 0;
  friend auto operator<=>(const PgPoint&, const PgPoint&) = default;
};
// In two columns of a row.
PgPoint PointOf(const PgResult& rows, int row, int column);

class PgWriting {
 public:
  enum class Step : uint8_t {
    kWritten,  // it is there, and durable
    kOver,     // it never will be, or nobody can know; see error()
    kAgain,    // nothing was written: try again
    kFull,     // the same, for want of room
    kUnknown,  // nobody knows yet: try again with another connection
    kStale,    // the database is one that was deposed: with another connection
  };

  // `at`: before the write. The batch outlives this.
  PgWriting(const PgStatements& statements, PartitionId partition, PgPoint at, const Batch& batch);

  // Finds out about an earlier try first, if need be, and sends the same bytes.
  Step Try(PgConnection& connection);
  const Error& error() const { return error_; }

 private:
  Step Send(PgConnection& connection);
  // What became of earlier tries; nullopt: they never arrived.
  std::optional<Step> FindOut(PgConnection& connection);

  const PgStatements& statements_;
  const PartitionId partition_;
  const PgPoint at_;
  std::vector<PgCall> calls_;
  bool doubt_ = false;  // an earlier try may have arrived
  int unanswered_ = 0;
  std::optional<std::chrono::steady_clock::time_point> stale_since_;
  Error error_;
};

}  // namespace dfsmr
