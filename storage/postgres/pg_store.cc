#include "storage/postgres/pg_store.h"

#include <algorithm>
#include <utility>

#include "storage/fate.h"
#include "storage/fence.h"
#include "storage/postgres/scan.h"
#include "storage/postgres/writing.h"

namespace dfsmr {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kReadPatience{3'000};
constexpr milliseconds kAgain{50};  // between two tries
constexpr milliseconds kSnapshotTries{1'000};
constexpr size_t kSmallScan = 32;  // rows that one statement reads, in place of a transaction

Error Failed(const PgFailure& failure) {
  return {Code::kUnavailable, Reason::kNone, "the database refuses: " + failure.message};
}

}  // namespace

PgStore::PgStore(std::shared_ptr<const PgDatabase> database, Options options)
    : database_(std::move(database)),
      fresh_(options.fresh),
      patience_(options.patience),
      writers_(database_, options.writers),
      readers_(database_, options.readers) {}

PgStore::~PgStore() = default;

std::optional<Holding> PgStore::Known(PartitionId partition) const {
  const Lock lock(mutex_);
  const auto owned = owned_.find(partition);
  if (owned == owned_.end()) return std::nullopt;
  return owned->second.at;
}

void PgStore::Advance(PartitionId partition, Holding at) {
  const Lock lock(mutex_);
  owned_[partition].at = at;
}

bool PgStore::Pause(milliseconds time) const {
  Lock lock(mutex_);
  return !changed_.WaitFor(lock, time, [this] { return given_up_.load(); });
}

void PgStore::GiveUp() {
  const Lock lock(mutex_);
  given_up_ = true;
  changed_.NotifyAll();
}

Error PgStore::GivenUp() const {
  return {Code::kUnavailable, Reason::kNone, "this server has given up its place at the database"};
}

void PgStore::NoteAway(const std::string& why) const {
  if (!away_.exchange(true)) {
    database_->options().tell(true, why + "; what is under way waits for it");
  }
}

void PgStore::NoteBack() const {
  if (away_ && away_.exchange(false)) {
    database_->options().tell(false, database_->shown() + " answers again");
  }
}

// One that can be used; waits for the database. kUnavailable: given up, or `until` is over.
Result<PgPool::Lease> PgStore::TakeFrom(PgPool& pool, Clock::time_point until,
                                        size_t beyond) const {
  while (true) {
    auto lease = pool.Take(beyond);
    if (lease) return lease;
    const bool away = lease.error().code == Code::kUnavailable;
    if (away) NoteAway(lease.error().message);
    if (Clock::now() > until) {
      return Error{Code::kUnavailable, Reason::kNone, lease.error().message};
    }
    if (!Pause(kAgain)) return GivenUp();
  }
}

void PgStore::Hold(PartitionId partition, const Holding& held) {
  const Lock lock(mutex_);
  owned_[partition] = {held, true};
}

void PgStore::Release(PartitionId partition, Epoch epoch) {
  const Lock lock(mutex_);
  const auto owned = owned_.find(partition);
  if (owned != owned_.end() && owned->second.at.epoch == epoch) owned_.erase(owned);
}

Result<Epoch> PgStore::Acquire(PartitionId partition) {
  {
    const Lock lock(mutex_);
    const auto owned = owned_.find(partition);
    if (owned != owned_.end() && std::exchange(owned->second.taken, false)) {
      return owned->second.at.epoch;
    }
  }
  return AcquireAbove(partition, 0);
}

Result<Epoch> PgStore::AcquireAbove(PartitionId partition, Epoch above) {
  while (true) {
    auto connection = TakeFrom(writers_, Clock::time_point::max());
    if (!connection) return connection.error();
    PgCall call{database_->statements().acquire};
    call.params.Int(partition).Text("").Long(static_cast<int64_t>(above));
    // Where nobody knows whether it was done it is done again: one epoch more is skipped.
    const PgAnswer answer = (*connection)->Run({&call, 1}, kReadPatience);
    if (answer.failure) {
      if (answer.failure->fate == PgFate::kRefused) return Failed(*answer.failure);
      if (!Pause(kAgain)) return GivenUp();
      continue;
    }
    const PgResult& row = answer.results.front();
    if (row.rows() == 0) {
      return Error{Code::kFailedPrecondition, Reason::kNone,
                   "the store has no partition " + std::to_string(partition)};
    }
    const auto epoch = static_cast<Epoch>(row.Number(0, 0));
    Advance(partition, {.epoch = epoch, .seq = static_cast<uint64_t>(row.Number(0, 1))});
    return epoch;
  }
}

Result<Ok> PgStore::Write(PartitionId partition, Epoch epoch, const Batch& batch) {
  const auto known = Known(partition);
  if (!known || known->epoch != epoch) {
    return Superseded(partition, epoch, known ? known->epoch : 0);
  }
  const PgWaits::Mark waits(waits_);
  PgWriting writing(database_->statements(), partition, *known, batch, fresh_, patience_);
  auto written = Settle(writing);
  if (written) Advance(partition, {.epoch = epoch, .seq = known->seq + 1});
  return written;
}

// Until it is known.
Result<Ok> PgStore::Settle(PgWriting& writing) {
  using Step = PgWriting::Step;
  while (true) {
    if (given_up_) return GivenUp();
    auto connection = TakeFrom(writers_, Clock::time_point::max());
    if (!connection) return connection.error();
    const Step step = writing.Try(**connection);
    switch (step) {
      case Step::kWritten:
        NoteBack();
        return Ok{};
      case Step::kOver: {
        if (writing.error().code == Code::kAborted) ++fenced_;
        return writing.error();
      }
      case Step::kAgain:
        ++repeated_;
        break;
      case Step::kFull:
        full_until_ = (Clock::now() + kFullFor).time_since_epoch().count();
        break;
      case Step::kUnknown:
        ++unknown_;
        NoteAway(database_->shown() + ": " + writing.error().message);
        break;
      case Step::kStale:
        ++stale_;
        break;
    }
    if (!Pause(step == Step::kFull ? milliseconds(1'000) : kAgain)) return GivenUp();
  }
}

// Rows of one statement, with the partition's epoch and seq in the columns from `guard` on.
Result<PgResult> PgStore::Read(const PgCall& call, PartitionId partition, int guard) const {
  const PgWaits::Mark waits(waits_);
  while (true) {
    const auto known = Known(partition);
    auto connection = TakeFrom(readers_, Clock::time_point::max());
    if (!connection) return connection.error();
    PgAnswer answer = (*connection)->Run({&call, 1}, kReadPatience);
    if (!answer.failure) {
      NoteBack();
      PgResult rows = std::move(answer.results.front());
      if (!known || rows.rows() == 0 || !Outdated(*known, PointOf(rows, 0, guard))) {
        return rows;
      }
      ++stale_;
      (*connection)->Lose();
    } else if (answer.failure->fate == PgFate::kRefused) {
      return Failed(*answer.failure);
    }
    if (!Pause(kAgain)) return GivenUp();
  }
}

Result<std::optional<std::string>> PgStore::Get(std::string_view key) const {
  const auto split = SplitKey(key);
  const auto& tables = database_->statements().tables;
  if (!split || split->partition >= tables.size()) return std::optional<std::string>();
  PgCall call{tables[split->partition].get};
  call.params.Int(split->partition).View(split->rest);
  auto rows = Read(call, split->partition, 1);
  if (!rows) return rows.error();
  if (rows->rows() == 0 || rows->IsNull(0, 0)) return std::optional<std::string>();
  return std::optional(rows->Text(0, 0));
}

Result<Ok> PgStore::Scan(std::string_view begin, std::string_view end, const Visit& visit,
                         bool reverse) const {
  const PgScan scan(database_->statements(), begin, end, reverse, kSmallScan);
  if (scan.done()) return Ok{};
  if (scan.single()) {
    auto rows = Read(scan.First(kSmallScan), scan.partition(), 2);
    if (!rows) return rows.error();
    if (static_cast<size_t>(rows->rows()) < kSmallScan) {
      VisitRows(*rows, scan.partition(), visit);
      return Ok{};
    }
  }
  // There are more: all of them of one moment.
  return ScanOn(begin, end, visit, reverse, Rounds::kSmall);
}

Result<Ok> PgStore::ScanOnce(std::string_view begin, std::string_view end,
                             const Visit& visit) const {
  return ScanOn(begin, end, visit, false, Rounds::kLarge);
}

// Where the database goes away in the middle, what is left is read in another moment.
Result<Ok> PgStore::ScanOn(std::string_view begin, std::string_view end, const Visit& visit,
                           bool reverse, Rounds rounds) const {
  std::string first(begin);
  std::string after(end);
  std::string last;
  bool enough = false;
  const auto note = [&](std::string_view key, std::string_view value) {
    last = key;
    enough = !visit(key, value);
    return !enough;
  };
  while (true) {
    auto moment = Moment(Clock::time_point::max());
    if (!moment) return moment.error();
    const auto read = rounds == Rounds::kLarge ? (*moment)->ScanOnce(first, after, note)
                                               : (*moment)->Scan(first, after, note, reverse);
    if (read || enough || (*moment)->refused()) return read;
    NoteAway(database_->shown() + ": " + read.error().message);
    if (!Pause(kAgain)) return GivenUp();
    if (last.empty()) continue;
    if (reverse) {
      after = last;
    } else {
      first = last + '\0';
    }
  }
}

Result<std::unique_ptr<PgMoment>> PgStore::Moment(Clock::time_point until, size_t beyond) const {
  const PgWaits::Mark waits(waits_);
  while (true) {
    std::map<PartitionId, Owned> owned;
    {
      const Lock lock(mutex_);
      owned = owned_;
    }
    auto connection = TakeFrom(readers_, until, beyond);
    if (!connection) return connection.error();
    const PgStatements& statements = database_->statements();
    const PgCall calls[] = {{statements.begin_moment}, {statements.heads}};
    const PgAnswer answer = (*connection)->Run(calls, kReadPatience);
    if (!answer.failure) {
      NoteBack();
      const PgResult& heads = answer.results[1];
      bool stale = false;
      for (int row = 0; row < heads.rows(); ++row) {
        const auto one = owned.find(static_cast<PartitionId>(heads.Number(row, 0)));
        stale = stale || (one != owned.end() && Outdated(one->second.at, PointOf(heads, row, 1)));
      }
      if (!stale) {
        return std::make_unique<PgMoment>(database_, *std::move(connection));
      }
      ++stale_;
      (*connection)->Lose();
    } else if (answer.failure->fate == PgFate::kRefused || Clock::now() > until) {
      return Failed(*answer.failure);
    }
    if (!Pause(kAgain)) return GivenUp();
  }
}

std::unique_ptr<const View> PgStore::Snapshot() const {
  auto moment = Moment(Clock::now() + kSnapshotTries, kSnapshotsBeyond);
  if (moment) return *std::move(moment);
  return std::make_unique<const PgNoMoment>(moment.error());
}

bool PgStore::full() const { return Clock::now().time_since_epoch().count() < full_until_.load(); }

Duration PgStore::waiting() const { return waits_.oldest(); }

PgStore::Counts PgStore::counts() const {
  return {fenced_, unknown_, repeated_, stale_, writers_.counts(), readers_.counts()};
}

}  // namespace dfsmr
