// The store at one moment: a transaction of repeatable reads on a connection of its own.
#pragma once

#include <atomic>

#include "fsm/base/mutex.h"
#include "storage/postgres/pool.h"
#include "storage/postgres/scan.h"
#include "storage/view.h"

namespace dfsmr {

class PgMoment final : public View {
 public:
  // The transaction has begun on the connection, and has read.
  PgMoment(std::shared_ptr<const PgDatabase> database, PgPool::Lease connection);
  ~PgMoment() override;

  Result<std::optional<std::string>> Get(std::string_view key) const override;
  Result<Ok> Scan(std::string_view begin, std::string_view end, const Visit& visit,
                  bool reverse) const override;
  Result<Ok> ScanOnce(std::string_view begin, std::string_view end,
                      const Visit& visit) const override;

  // Whether the database has refused to be read, so that another moment would not help.
  bool refused() const { return refused_; }

 private:
  Result<PgResult> Run(const PgCall& call) const;
  Result<Ok> ScanBy(size_t most, std::string_view begin, std::string_view end, const Visit& visit,
                    bool reverse) const;

  const std::shared_ptr<const PgDatabase> database_;
  mutable std::atomic<bool> refused_ = false;
  mutable Mutex mutex_;  // held for a round trip, never during a visit
  mutable PgPool::Lease connection_ GUARDED(mutex_);
};

// One that could not be begun.
class PgNoMoment final : public View {
 public:
  explicit PgNoMoment(Error why) : why_(std::move(why)) {}
  Result<std::optional<std::string>> Get(std::string_view) const override { return why_; }
  Result<Ok> Scan(std::string_view, std::string_view, const Visit&, bool) const override {
    return why_;
  }

 private:
  const Error why_;
};

}  // namespace dfsmr
