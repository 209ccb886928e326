#include "storage/postgres/pg_logs.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace dfsmr {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kWritePatience{2'000};  // twice as long after each time without an answer
constexpr int kWriteDoublings = 2;
constexpr milliseconds kHurriedPatience{300};
constexpr milliseconds kLogsPatience{5'000};
constexpr size_t kFirstLogs = 64;  // rows of a scan
constexpr size_t kMostLogs = 256;
constexpr size_t kWriters = 1;  // connections that are kept, and of those who read
constexpr size_t kReaders = 1;
constexpr size_t kBeyond = 4;  // of each besides, while there is much to do
// After all rows of a partition there is the one that says who writes them.
constexpr std::string_view kWriterRow = "\xff";

void AppendNumber(std::string* text, uint64_t number) {
  for (int shift = 56; shift >= 0; shift -= 8) *text += static_cast<char>(number >> shift & 0xff);
}

std::string PrefixOf(PartitionId partition) {
  return {static_cast<char>(partition >> 8), static_cast<char>(partition & 0xff)};
}

Error Away(const std::string& why) {
  return {Code::kUnavailable, Reason::kStoreUnreachable, "the logs in the database: " + why};
}

// Waits while others have all of them.
Result<PgPool::Lease> TakeFrom(PgPool& pool, milliseconds patience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (true) {
    auto lease = pool.Take(kBeyond);
    if (lease || lease.error().code != Code::kResourceExhausted) return lease;
    if (std::chrono::steady_clock::now() >= until) return lease;
  }
}

// A scan of one or more rounds. `run` runs a statement.
template <typename Run>
Result<Ok> ScanBy(const Run& run, const PgLogStatements& statements, const std::string& prefix,
                  std::string_view begin, std::string_view end, const View::Visit& visit,
                  bool reverse) {
  std::string first = prefix + std::string(begin);
  std::string after = prefix + std::string(end.empty() ? kWriterRow : end);
  for (size_t limit = kFirstLogs;; limit = kMostLogs) {
    PgCall call{reverse ? statements.scan_reverse : statements.scan};
    call.params.View(first).View(after).Int(static_cast<int32_t>(limit));
    Result<PgResult> rows = run(call);
    if (!rows) return rows.error();
    for (int row = 0; row < rows->rows(); ++row) {
      if (!visit(rows->Bytes(row, 0).substr(prefix.size()), rows->Bytes(row, 1))) return Ok{};
    }
    if (static_cast<size_t>(rows->rows()) < limit) return Ok{};
    const std::string last = rows->Text(rows->rows() - 1, 0);
    (reverse ? after : first) = reverse ? last : last + '\0';
  }
}

class PgLogBatch final : public LogBatch {
 public:
  explicit PgLogBatch(const std::string& prefix) : prefix_(prefix) {}

  void Put(std::string_view key, std::string_view value) override {
    rows_.insert_or_assign(prefix_ + std::string(key), std::string(value));
  }
  void Delete(std::string_view key) override {
    rows_.insert_or_assign(prefix_ + std::string(key), std::nullopt);
  }
  void DeletePrefix(std::string_view prefix) override {
    const std::string end = PrefixEnd(prefix);
    begins_.push_back(prefix_ + std::string(prefix));
    ends_.push_back(prefix_ + std::string(end.empty() ? kWriterRow : end));
  }
  void Append(std::string_view key, std::string_view value) override {
    auto& row = rows_[prefix_ + std::string(key)];
    if (!row) row.emplace();
    row->append(value);
  }
  bool empty() const override { return rows_.empty() && begins_.empty(); }

  // What writes it, without the transaction. The batch outlives the calls.
  void AddTo(const PgLogStatements& statements, std::vector<PgCall>* calls) const {
    std::vector<std::string_view> deleted;
    std::vector<std::string_view> keys;
    std::vector<std::string_view> values;
    for (const auto& [key, value] : rows_) {
      (value ? keys : deleted).push_back(key);
      if (value) values.push_back(*value);
    }
    if (!begins_.empty()) {
      calls->push_back({statements.delete_ranges});
      calls->back().params.Arrays({begins_.begin(), begins_.end()}).Arrays(
          {ends_.begin(), ends_.end()});
    }
    if (!deleted.empty()) {
      calls->push_back({statements.delete_keys});
      calls->back().params.Arrays(deleted);
    }
    if (keys.empty()) return;
    calls->push_back({statements.put});
    calls->back().params.Arrays(keys).Arrays(values);
  }

 private:
  const std::string& prefix_;
  std::map<std::string, std::optional<std::string>> rows_;  // nullopt: deleted
  std::vector<std::string> begins_;
  std::vector<std::string> ends_;
};

// The rows as of its first read, on a connection of its own from then on.
class PgLogMoment final : public View {
 public:
  PgLogMoment(const PgDatabase& database, PgPool& pool, const std::string& prefix)
      : statements_(database.statements()), pool_(pool), prefix_(prefix) {}
  ~PgLogMoment() override {
    if (connection_) (*connection_)->Post(statements_.commit);
  }

  Result<std::optional<std::string>> Get(std::string_view key) const override {
    const std::string whole = prefix_ + std::string(key);
    PgCall call{statements_.logs.get};
    call.params.Arrays({whole});
    auto rows = Run(call);
    if (!rows) return rows.error();
    if (rows->rows() == 0) return std::optional<std::string>();
    return std::optional(rows->Text(0, 1));
  }
  Result<Ok> Scan(std::string_view begin, std::string_view end, const Visit& visit,
                  bool reverse) const override {
    return ScanBy([this](const PgCall& call) { return Run(call); }, statements_.logs, prefix_,
                  begin, end, visit, reverse);
  }

 private:
  Result<PgResult> Run(const PgCall& call) const {
    if (over_) return Away("the moment is over");
    if (!connection_) return RunFirst(call);
    PgAnswer answer = (*connection_)->Run({&call, 1}, kLogsPatience);
    if (!answer.failure) return std::move(answer.results.front());
    return Fail(**connection_, *answer.failure);
  }

  // A connection that was kept may have been lost since.
  Result<PgResult> RunFirst(const PgCall& call) const {
    for (bool again = true;; again = false) {
      auto lease = TakeFrom(pool_, kLogsPatience);
      if (!lease) return Away(lease.error().message);
      const PgCall calls[] = {{statements_.begin_moment}, call};
      PgAnswer answer = (*lease)->Run(calls, kLogsPatience);
      if (!answer.failure) {
        connection_.emplace(*std::move(lease));
        return std::move(answer.results.back());
      }
      if (!again || !(*lease)->lost()) return Fail(**lease, *answer.failure);
    }
  }

  Error Fail(PgConnection& connection, const PgFailure& failure) const {
    connection.Lose();  // the moment is over, whatever went wrong
    over_ = true;
    return Away(failure.message);
  }

  const PgStatements& statements_;
  PgPool& pool_;
  const std::string& prefix_;
  mutable bool over_ = false;
  mutable std::optional<PgPool::Lease> connection_;
};

}  // namespace

PgLogConnections::PgLogConnections(const std::shared_ptr<const PgDatabase>& of)
    : database(of),
      writers(of, kWriters, &of->statements().logs.settle),
      readers(of, kReaders) {}

PgLogTable::PgLogTable(std::shared_ptr<PgLogConnections> connections, PartitionId partition,
                       Epoch epoch)
    : connections_(std::move(connections)),
      prefix_(PrefixOf(partition)),
      fence_(prefix_ + std::string(kWriterRow)),
      epoch_(epoch) {}

milliseconds PgLogTable::Patience() const {
  if (hurried_) return kHurriedPatience;
  return kWritePatience * (1 << std::min(unanswered_, kWriteDoublings));
}

// The writer --------------------------------------------------------------------------------------

Result<PgPool::Lease> PgLogTable::BeReady() const {
  if (!superseded_) {
    auto lease = TakeFrom(connections_->writers, Patience());
    if (!lease) return Away(lease.error().message);
    if (ready_ && !(*lease)->lost()) return lease;
    auto claimed = Claim(**lease);
    if (claimed) return lease;
    if (!superseded_) return claimed.error();
  }
  return Error{Code::kAborted, Reason::kNone,
               "the logs in the database have another owner than that of epoch " +
                   std::to_string(epoch_)};
}

// Each claim differs from all before, so that batches under those are refused.
Result<Ok> PgLogTable::Claim(PgConnection& connection) const {
  ready_ = false;
  std::string who;
  AppendNumber(&who, epoch_);
  AppendNumber(&who, ++claims_);
  PgCall call{connections_->database->statements().logs.claim};
  call.params.View(fence_).View(who);
  const PgAnswer answer = connection.Run({&call, 1}, Patience());
  if (answer.failure) {
    if (connection.lost()) ++unanswered_;
    return Away(answer.failure->message);
  }
  superseded_ = answer.results.front().rows() == 0;
  if (superseded_) return Away("they are another owner's");
  who_ = std::move(who);
  ready_ = true;
  return Ok{};
}

Result<std::vector<PgResult>> PgLogTable::Run(const PgCall& call) const {
  auto lease = BeReady();
  if (!lease) return lease.error();
  return RunOn(**lease, {&call, 1});
}

Result<std::vector<PgResult>> PgLogTable::RunOn(PgConnection& connection,
                                                std::span<const PgCall> calls) const {
  PgAnswer answer = connection.Run(calls, Patience());
  if (!answer.failure) {
    unanswered_ = 0;
    return std::move(answer.results);
  }
  // Whatever it was, what is under way is over only once the table is claimed again.
  ready_ = false;
  if (connection.lost()) ++unanswered_;
  if (answer.failure->state == "25006") connection.Lose();  // it is a standby now
  if (answer.failure->fate == PgFate::kRefused) {
    return Error{Code::kDataLoss, Reason::kNone,
                 "the database refuses: " + answer.failure->message};
  }
  return Away(answer.failure->message);
}

Result<std::vector<std::optional<std::string>>> PgLogTable::GetMany(
    std::span<const std::string> keys) const {
  std::vector<std::optional<std::string>> values(keys.size());
  if (keys.empty()) return values;
  std::map<std::string, std::vector<size_t>, std::less<>> wanted;
  for (size_t i = 0; i < keys.size(); ++i) wanted[prefix_ + keys[i]].push_back(i);
  std::vector<std::string_view> whole;
  for (const auto& [key, places] : wanted) whole.push_back(key);
  PgCall call{connections_->database->statements().logs.get};
  call.params.Arrays(whole);
  auto results = Run(call);
  if (!results) return results.error();
  const PgResult& rows = results->front();
  for (int row = 0; row < rows.rows(); ++row) {
    const auto found = wanted.find(rows.Bytes(row, 0));
    if (found == wanted.end()) continue;
    for (const size_t place : found->second) values[place] = rows.Text(row, 1);
  }
  return values;
}

Result<std::optional<std::string>> PgLogTable::Get(std::string_view key) const {
  const std::string one(key);
  auto values = GetMany({&one, 1});
  if (!values) return values.error();
  return std::move(values->front());
}

Result<Ok> PgLogTable::Scan(std::string_view begin, std::string_view end, const Visit& visit,
                            bool reverse) const {
  const auto run = [this](const PgCall& call) -> Result<PgResult> {
    auto results = Run(call);
    if (!results) return results.error();
    return std::move(results->front());
  };
  return ScanBy(run, connections_->database->statements().logs, prefix_, begin, end, visit,
                reverse);
}

Result<Ok> PgLogTable::ScanAll(std::span<const std::string> prefixes, const Visit& visit) const {
  if (prefixes.empty()) return Ok{};
  std::vector<std::string> begins;
  std::vector<std::string> ends;
  for (const std::string& prefix : prefixes) {
    begins.push_back(prefix_ + prefix);
    ends.push_back(PrefixEnd(begins.back()));
  }
  PgCall call{connections_->database->statements().logs.scan_ranges};
  call.params.Arrays({begins.begin(), begins.end()}).Arrays({ends.begin(), ends.end()});
  auto results = Run(call);
  if (!results) return results.error();
  const PgResult& rows = results->front();
  for (int row = 0; row < rows.rows(); ++row) {
    if (!visit(rows.Bytes(row, 0).substr(prefix_.size()), rows.Bytes(row, 1))) break;
  }
  return Ok{};
}

std::unique_ptr<LogBatch> PgLogTable::NewBatch() const {
  return std::make_unique<PgLogBatch>(prefix_);
}

Result<Ok> PgLogTable::Write(LogBatch& batch) {
  auto lease = BeReady();
  if (!lease) return lease.error();
  const PgStatements& statements = connections_->database->statements();
  std::vector<PgCall> calls{{statements.begin}, {statements.logs.fence}};
  calls.back().params.View(fence_).View(who_);
  static_cast<const PgLogBatch&>(batch).AddTo(statements.logs, &calls);
  calls.push_back({statements.commit});
  auto written = RunOn(**lease, calls);
  if (!written) return written.error();
  return Ok{};
}

// Readers -----------------------------------------------------------------------------------------

std::unique_ptr<const View> PgLogTable::Snapshot() const {
  return std::make_unique<PgLogMoment>(*connections_->database, connections_->readers, prefix_);
}

Result<Ok> PgLogTable::Copy(const std::filesystem::path&) const {
  return Error{Code::kFailedPrecondition, Reason::kNone,
               "the logs are in " + connections_->database->shown() + ": back up the database"};
}

}  // namespace dfsmr
