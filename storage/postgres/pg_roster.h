// The roster in PostgreSQL: rows beside the store's, by a connection of its own, so that a lease
// does not wait for writes.
#pragma once

#include <memory>
#include <span>

#include "storage/postgres/database.h"
#include "storage/roster.h"

namespace dfsmr {

class PgRoster final : public Roster {
 public:
  explicit PgRoster(std::shared_ptr<const PgDatabase> database);

  Result<ClusterRow> Open(uint16_t partitions) override;
  StoreFacts Facts() const override { return database_->facts(); }
  Result<Ok> Join(const ServerRow& self, const std::vector<std::string>& before) override;
  Result<Seen> Renew(const std::string& self, bool reached, bool leaving) override;
  Result<bool> Bury(const std::string& server) override;
  Result<std::optional<Holding>> Take(const PartRow& seen, const std::string& self) override;
  Result<bool> Give(PartitionId partition, Epoch epoch, const std::string& self,
                    const std::string& server) override;
  Result<Ok> Leave(const std::string& self) override;
  Result<Ok> Raise(uint32_t level) override;

  // For dsrv store: another life, so that cursors and claims of before are of before; and where the
  // store has gone, or "" when it is here.
  Result<Ok> SetLife(uint64_t life);
  Result<Ok> SetMoved(const std::string& where);

 private:
  // One round trip, and once more where the connection had been lost before.
  Result<std::vector<PgResult>> Run(std::span<const PgCall> calls);
  Result<std::vector<PgResult>> Run(const PgCall& call) { return Run({&call, 1}); }

  const std::shared_ptr<const PgDatabase> database_;
  std::unique_ptr<PgConnection> connection_;
};

}  // namespace dfsmr
