// The lines of operations in PostgreSQL, beside the rows of a shared store: written by the owner of
// a partition, on connections apart from those of commits, which the partitions of a server share.
//
// A row of the table says who writes the partition's lines: the epoch of its owner, and how often
// that one has claimed them. Each batch begins by locking this row, and fails where it is another
// one. So a deposed owner writes nothing over what its successor has written, and a batch whose
// outcome nobody knows (the connection was lost) is over once its owner has claimed the row again:
// it waits for what is under way, and what arrives later is refused. The fence of commits is not
// used for it, since commits would wait for logs then. Keys that begin with the epoch would need no
// fence, but each reader would put the owners' rows together, for as long as any are kept.
//
// No commit of it waits for the disk (synchronous_commit off): a killed server loses nothing, a
// crash of the database's machine may lose the lines of the last second. The rows are whole batches
// even then.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "storage/log_table.h"
#include "storage/postgres/database.h"
#include "storage/postgres/pool.h"
#include "storage/store.h"

namespace dfsmr {

// Of one server. Any thread.
struct PgLogConnections {
  explicit PgLogConnections(const std::shared_ptr<const PgDatabase>& database);
  const std::shared_ptr<const PgDatabase> database;
  PgPool writers;
  PgPool readers;
};

class PgLogTable final : public LogTable {
 public:
  // For who owns the partition under this epoch. Connects when it is used.
  PgLogTable(std::shared_ptr<PgLogConnections> connections, PartitionId partition, Epoch epoch);
  // With connections of its own.
  PgLogTable(const std::shared_ptr<const PgDatabase>& database, PartitionId partition, Epoch epoch)
      : PgLogTable(std::make_shared<PgLogConnections>(database), partition, epoch) {}

  bool Far() const override { return true; }
  Result<std::optional<std::string>> Get(std::string_view key) const override;
  Result<Ok> Scan(std::string_view begin, std::string_view end, const Visit& visit,
                  bool reverse = false) const override;
  Result<std::vector<std::optional<std::string>>> GetMany(
      std::span<const std::string> keys) const override;
  Result<Ok> ScanAll(std::span<const std::string> prefixes, const Visit& visit) const override;

  std::unique_ptr<LogBatch> NewBatch() const override;
  Result<Ok> Write(LogBatch& batch) override;
  void Hurry() override { hurried_ = true; }

  std::unique_ptr<const View> Snapshot() const override;
  // kFailedPrecondition: the database is copied by its own means.
  Result<Ok> Copy(const std::filesystem::path& folder) const override;

 private:
  // A connection, when the table is this owner's.
  Result<PgPool::Lease> BeReady() const;
  Result<Ok> Claim(PgConnection& connection) const;
  Result<std::vector<PgResult>> Run(const PgCall& call) const;
  Result<std::vector<PgResult>> RunOn(PgConnection& connection,
                                      std::span<const PgCall> calls) const;
  std::chrono::milliseconds Patience() const;

  const std::shared_ptr<PgLogConnections> connections_;
  const std::string prefix_;  // of all keys
  const std::string fence_;   // the key of the row that says who writes
  const Epoch epoch_;
  std::atomic<bool> hurried_ = false;

  // The writer's.
  mutable bool ready_ = false;  // the table is claimed, and nothing was left unanswered since
  mutable bool superseded_ = false;
  mutable uint64_t claims_ = 0;
  mutable std::string who_;  // as last claimed
  mutable int unanswered_ = 0;
};

}  // namespace dfsmr
