#include "storage/postgres/writing.h"

#include <algorithm>
#include <string>

#include "storage/fence.h"
#include "storage/postgres/arranged.h"

namespace dfsmr {
namespace {

using std::chrono::milliseconds;

// Without an answer for so long the connection is given up; twice as long after each time, since a
// database that is slow for all would never get done.
constexpr milliseconds kPatience{3'000};
constexpr int kDoublings = 2;
// An older state than what was acknowledged, for so long, is no deposed primary.
constexpr std::chrono::seconds kStaleFor{60};

}  // namespace

PgPoint PointOf(const PgResult& rows, int row, int column) {
  return {static_cast<Epoch>(rows.Number(row, column)),
          static_cast<uint64_t>(rows.Number(row, column + 1))};
}

PgWriting::PgWriting(const PgStatements& statements, PartitionId partition, PgPoint at,
                     const Batch& batch)
    : statements_(statements), partition_(partition), at_(at) {
  const PgTable& table = statements.tables[partition];
  const Arranged rows = Arrange(batch, partition);
  calls_.push_back({statements.begin});
  calls_.push_back({statements.fence});
  calls_.back()
      .params.Int(partition)
      .Long(static_cast<int64_t>(at.epoch))
      .Long(static_cast<int64_t>(at.seq));
  for (const auto& [begin, end] : rows.ranges) {
    calls_.push_back({table.delete_range});
    calls_.back().params.Text(begin).Text(end);
  }
  if (!rows.deleted.empty()) {
    calls_.push_back({table.delete_keys});
    calls_.back().params.Arrays(rows.deleted);
  }
  if (!rows.keys.empty()) {
    calls_.push_back({table.put});
    calls_.back().params.Arrays(rows.keys).Arrays(rows.values);
  }
  calls_.push_back({statements.commit});
}

PgWriting::Step PgWriting::Try(PgConnection& connection) {
  if (doubt_) {
    if (const auto known = FindOut(connection)) return *known;
  }
  return Send(connection);
}

PgWriting::Step PgWriting::Send(PgConnection& connection) {
  const auto patience = kPatience * (1 << std::min(unanswered_, kDoublings));
  const PgAnswer answer = connection.Run(calls_, patience);
  if (!answer.failure) return Step::kWritten;
  error_ = {Code::kUnavailable, Reason::kNone, answer.failure->message};
  switch (answer.failure->fate) {
    case Fate::kFenced: {
      const auto known = FindOut(connection);
      return known.value_or(Step::kAgain);
    }
    case Fate::kNothing:
      if (answer.failure->state == "25006") connection.Lose();  // it is a standby now
      return Step::kAgain;
    case Fate::kFull:
      return Step::kFull;
    case Fate::kUnknown:
      doubt_ = true;
      ++unanswered_;
      connection.Lose();
      return Step::kUnknown;
    case Fate::kRefused:
      break;
  }
  error_.message = "the database refuses the write: " + error_.message;
  return Step::kOver;
}

// The row of the partition is written, not only read: where an earlier try still waits for its
// commit this waits for it, and once this is durable on the standbys so is all before it.
std::optional<PgWriting::Step> PgWriting::FindOut(PgConnection& connection) {
  PgCall call{statements_.touch};
  call.params.Int(partition_);
  const auto patience = kPatience * (1 << std::min(unanswered_, kDoublings));
  const PgAnswer answer = connection.Run({&call, 1}, patience);
  if (answer.failure) {
    error_ = {Code::kUnavailable, Reason::kNone, answer.failure->message};
    if (answer.failure->fate == Fate::kRefused) return Step::kOver;
    if (connection.lost()) ++unanswered_;
    return connection.lost() ? Step::kUnknown : Step::kAgain;
  }
  const PgResult& rows = answer.results.front();
  const PgPoint now = rows.rows() == 0 ? PgPoint{} : PointOf(rows, 0, 0);
  if (now < at_) {
    connection.Lose();
    const auto time = std::chrono::steady_clock::now();
    if (!stale_since_) stale_since_ = time;
    if (time - *stale_since_ < kStaleFor) return Step::kStale;
    error_ = {Code::kUnavailable, Reason::kNone,
              "the database holds less than what was acknowledged: it was restored to an earlier "
              "time; stop all servers, and run dsrv store renew"};
    return Step::kOver;
  }
  stale_since_.reset();
  if (now.epoch != at_.epoch) {
    error_ = Superseded(partition_, at_.epoch, now.epoch);
    if (doubt_) {
      error_.code = Code::kUnavailable;
      error_.message = "partition " + std::to_string(partition_) +
                       " has another owner, under epoch " + std::to_string(now.epoch) +
                       ": nobody knows whether what was being written under epoch " +
                       std::to_string(at_.epoch) + " arrived";
    }
    return Step::kOver;
  }
  if (now.seq == at_.seq) return std::nullopt;
  Check(doubt_ && now.seq == at_.seq + 1, "a partition's owner knows how many commits it has");
  return Step::kWritten;
}

}  // namespace dfsmr
