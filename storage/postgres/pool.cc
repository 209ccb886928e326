#include "storage/postgres/pool.h"

#include <string>
#include <utility>

namespace dfsmr {
namespace {

constexpr std::chrono::milliseconds kWait{200};  // for one that is taken
constexpr std::chrono::milliseconds kSettles{2'000};

}  // namespace

PgPool::PgPool(std::shared_ptr<const PgDatabase> database, size_t most, const PgStatement* settle)
    : database_(std::move(database)), most_(most), settle_(settle) {}

Result<std::unique_ptr<PgConnection>> PgPool::Connect() const {
  auto opened = database_->Connect();
  if (!opened || !settle_) return opened;
  const PgCall settle{*settle_};
  const PgAnswer settled = (*opened)->Run({&settle, 1}, kSettles);
  if (!settled.failure || !(*opened)->lost()) return opened;  // others than PostgreSQL may refuse
  return Error{Code::kUnavailable, Reason::kNone, settled.failure->message};
}

Result<PgPool::Lease> PgPool::Take(size_t beyond) {
  std::vector<std::unique_ptr<PgConnection>> gone;  // closed without the lock
  {
    Lock lock(mutex_);
    changed_.WaitFor(lock, kWait,
                     [this]() REQUIRES(mutex_) { return !idle_.empty() || busy_ < most_; });
    if (busy_ >= most_ + beyond) {
      return Error{Code::kResourceExhausted, Reason::kNone,
                   "all " + std::to_string(busy_) + " connections to the database are in use"};
    }
    ++busy_;
    while (!idle_.empty() && idle_.back()->lost()) {  // another host is chosen
      gone.push_back(std::move(idle_.back()));
      idle_.pop_back();
    }
    if (!idle_.empty()) {
      Lease lease(this, std::move(idle_.back()));
      idle_.pop_back();
      return lease;
    }
  }
  auto opened = Connect();
  if (opened) return Lease(this, *std::move(opened));
  const Lock lock(mutex_);
  --busy_;
  changed_.NotifyOne();
  return opened.error();
}

void PgPool::Back(std::unique_ptr<PgConnection> connection) {
  std::vector<std::unique_ptr<PgConnection>> gone;  // closed without the lock
  const Lock lock(mutex_);
  --busy_;
  if (connection->lost()) {
    // Where one is lost the others are, most likely: who takes one would only find that out.
    gone.swap(idle_);
    gone.push_back(std::move(connection));
  } else if (idle_.size() + busy_ < most_) {
    idle_.push_back(std::move(connection));
  } else {
    gone.push_back(std::move(connection));
  }
  changed_.NotifyOne();
}

PgPool::Counts PgPool::counts() const {
  const Lock lock(mutex_);
  return {idle_.size(), busy_};
}

}  // namespace dfsmr
