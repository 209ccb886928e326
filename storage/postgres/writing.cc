#include "storage/postgres/writing.h"

#include <algorithm>
#include <string>

#include "storage/fate.h"
#include "storage/fence.h"
#include "storage/postgres/arranged.h"

namespace dfsmr {
namespace {

using std::chrono::milliseconds;

constexpr int kDoublings = 5;

}  // namespace

Holding PointOf(const PgResult& rows, int row, int column) {
  return {static_cast<Epoch>(rows.Number(row, column)),
          static_cast<uint64_t>(rows.Number(row, column + 1))};
}

PgWriting::PgWriting(const PgStatements& statements, PartitionId partition, const Holding& at,
                     const Batch& batch, bool fresh, const Patience& patience)
    : statements_(statements), partition_(partition), at_(at), patience_(patience) {
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
    calls_.push_back({fresh ? table.append : table.put});
    calls_.back().params.Arrays(rows.keys).Arrays(rows.values);
  }
  calls_.push_back({statements.commit});
}

milliseconds PgWriting::Wait() const {
  return patience_.first * (1 << std::min(unanswered_, kDoublings));
}

PgWriting::Step PgWriting::Try(PgConnection& connection) {
  if (doubt_) {
    if (const auto known = FindOut(connection)) return *known;
  }
  return Send(connection);
}

PgWriting::Step PgWriting::Send(PgConnection& connection) {
  const PgAnswer answer = connection.Run(calls_, Wait());
  if (!answer.failure) return Step::kWritten;
  error_ = {Code::kUnavailable, Reason::kNone, answer.failure->message};
  switch (answer.failure->fate) {
    case PgFate::kFenced: {
      const auto known = FindOut(connection);
      return known.value_or(Step::kAgain);
    }
    case PgFate::kNothing:
      if (answer.failure->state == "25006") connection.Lose();  // it is a standby now
      return Step::kAgain;
    case PgFate::kFull:
      return Step::kFull;
    case PgFate::kUnknown:
      doubt_ = true;
      ++unanswered_;
      connection.Lose();
      return Step::kUnknown;
    case PgFate::kRefused:
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
  const PgAnswer answer = connection.Run({&call, 1}, Wait());
  if (answer.failure) {
    error_ = {Code::kUnavailable, Reason::kNone, answer.failure->message};
    if (answer.failure->fate == PgFate::kRefused) return Step::kOver;
    if (connection.lost()) ++unanswered_;
    return connection.lost() ? Step::kUnknown : Step::kAgain;
  }
  const PgResult& rows = answer.results.front();
  return Judge(rows.rows() == 0 ? Holding{} : PointOf(rows, 0, 0), connection);
}

std::optional<PgWriting::Step> PgWriting::Judge(const Holding& found, PgConnection& connection) {
  if (Outdated(at_, found)) {
    connection.Lose();
    const auto time = std::chrono::steady_clock::now();
    if (!stale_since_) stale_since_ = time;
    if (time - *stale_since_ < patience_.stale) return Step::kStale;
    error_ = {Code::kDataLoss, Reason::kNone,
              "the database holds less than what was acknowledged: it was restored to an earlier "
              "time; stop all servers, and run dsrv store renew"};
    return Step::kOver;
  }
  stale_since_.reset();
  switch (FateOf(at_, doubt_, found)) {
    case Fate::kDone:
      return Step::kWritten;
    case Fate::kNotYet:
      return std::nullopt;
    case Fate::kSuperseded:
      error_ = Superseded(partition_, at_.epoch, found.epoch);
      return Step::kOver;
    case Fate::kUnknown:
      error_ = {Code::kUnavailable, Reason::kNone,
                "partition " + std::to_string(partition_) + " has another owner, under epoch " +
                    std::to_string(found.epoch) +
                    ": nobody knows whether what was being written under epoch " +
                    std::to_string(at_.epoch) + " arrived"};
      return Step::kOver;
    case Fate::kBroken:
      break;
  }
  Check(false, "a partition's owner knows how many commits it has");
  return Step::kOver;
}

}  // namespace dfsmr
