#include "storage/postgres/moment.h"

#include <utility>

namespace dfsmr {
namespace {

constexpr std::chrono::milliseconds kMomentPatience{10'000};
constexpr size_t kMomentRound = 1'000;
constexpr size_t kLargeRound = 10'000;

}  // namespace

PgMoment::PgMoment(std::shared_ptr<const PgDatabase> database, PgPool::Lease connection)
    : database_(std::move(database)), connection_(std::move(connection)) {}

PgMoment::~PgMoment() { connection_->Post(database_->statements().commit); }

Result<PgResult> PgMoment::Run(const PgCall& call) const {
  const Lock lock(mutex_);
  PgAnswer answer = connection_->Run({&call, 1}, kMomentPatience);
  if (!answer.failure) return std::move(answer.results.front());
  if (answer.failure->fate == PgFate::kRefused) refused_ = true;
  connection_->Lose();  // the moment is over, whatever went wrong
  return Error{Code::kUnavailable, Reason::kNone,
               "the database could not be read: " + answer.failure->message};
}

Result<std::optional<std::string>> PgMoment::Get(std::string_view key) const {
  const auto split = SplitKey(key);
  const auto& tables = database_->statements().tables;
  if (!split || split->partition >= tables.size()) return std::optional<std::string>();
  PgCall call{tables[split->partition].get};
  call.params.Int(split->partition).View(split->rest);
  auto rows = Run(call);
  if (!rows) return rows.error();
  if (rows->rows() == 0 || rows->IsNull(0, 0)) return std::optional<std::string>();
  return std::optional(rows->Text(0, 0));
}

Result<Ok> PgMoment::ScanBy(size_t most, std::string_view begin, std::string_view end,
                            const Visit& visit, bool reverse) const {
  PgScan scan(database_->statements(), begin, end, reverse, most);
  while (!scan.done()) {
    auto rows = Run(scan.Next());
    if (!rows) return rows.error();
    if (!scan.Take(*rows, visit)) break;
  }
  return Ok{};
}

Result<Ok> PgMoment::Scan(std::string_view begin, std::string_view end, const Visit& visit,
                          bool reverse) const {
  return ScanBy(kMomentRound, begin, end, visit, reverse);
}

Result<Ok> PgMoment::ScanOnce(std::string_view begin, std::string_view end,
                              const Visit& visit) const {
  return ScanBy(kLargeRound, begin, end, visit, false);
}

}  // namespace dfsmr
