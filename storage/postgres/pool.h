// Connections that threads share: each takes one, uses it alone, and gives it back.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <vector>

#include "fsm/base/mutex.h"
#include "storage/postgres/database.h"

namespace dfsmr {

// Any thread. It outlives what was taken of it.
class PgPool {
 public:
  class Lease {
   public:
    Lease(PgPool* pool, std::unique_ptr<PgConnection> connection)
        : pool_(pool), connection_(std::move(connection)) {}
    Lease(Lease&& other) noexcept = default;
    Lease& operator=(Lease&& other) = delete;
    ~Lease() {
      if (connection_) pool_->Back(std::move(connection_));
    }
    PgConnection* operator->() const { return connection_.get(); }
    PgConnection& operator*() const { return *connection_; }

   private:
    PgPool* pool_;
    std::unique_ptr<PgConnection> connection_;
  };

  // `settle`: is run on each new connection; null: nothing is. It outlives the pool.
  PgPool(std::shared_ptr<const PgDatabase> database, size_t most,
         const PgStatement* settle = nullptr);

  // Waits a moment while all are taken; then it opens one of `beyond` that there may be besides,
  // since who holds one may need another to come to an end. kResourceExhausted: these are taken,
  // too. kUnavailable: the database cannot be reached.
  Result<Lease> Take(size_t beyond);

  struct Counts {
    size_t idle = 0;
    size_t busy = 0;
  };
  Counts counts() const;

 private:
  Result<std::unique_ptr<PgConnection>> Connect() const;
  void Back(std::unique_ptr<PgConnection> connection);

  const std::shared_ptr<const PgDatabase> database_;
  const size_t most_;
  const PgStatement* const settle_;
  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::vector<std::unique_ptr<PgConnection>> idle_ GUARDED(mutex_);
  size_t busy_ GUARDED(mutex_) = 0;
};

}  // namespace dfsmr
