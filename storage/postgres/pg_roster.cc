#include "storage/postgres/pg_roster.h"

#include <utility>

namespace dfsmr {
namespace {

// A renewal that takes longer is of no use: the lease is 10 s.
constexpr std::chrono::milliseconds kRosterPatience{3'000};

// PostgreSQL counts from 2000.
constexpr int64_t kEpochMicros = 946'684'800'000'000;
Timestamp Time(const PgResult& rows, int row, int column) {
  return FromMicros(rows.Number(row, column) + kEpochMicros);
}

Holding HoldingOf(const PgResult& rows, int row, int column) {
  return {static_cast<Epoch>(rows.Number(row, column)),
          static_cast<uint64_t>(rows.Number(row, column + 1)),
          static_cast<uint64_t>(rows.Number(row, column + 2))};
}

ServerRow ToServer(const PgResult& rows, int row) {
  return {.id = rows.Text(row, 0),
          .address = rows.Text(row, 1),
          .version = rows.Text(row, 2),
          .level = static_cast<uint32_t>(rows.Number(row, 3)),
          .started = Time(rows, row, 4),
          .seen = Time(rows, row, 5),
          .reached = rows.Bool(row, 6),
          .leaving = rows.Bool(row, 7),
          .dead = rows.Bool(row, 8)};
}

PartRow ToPart(const PgResult& rows, int row) {
  return {.id = static_cast<PartitionId>(rows.Number(row, 0)),
          .held = HoldingOf(rows, row, 1),
          .owner = rows.Text(row, 4),
          .since = Time(rows, row, 5)};
}

Error Gone(const std::string& what) {
  return {Code::kUnavailable, Reason::kNone, "the database does not answer: " + what};
}

}  // namespace

PgRoster::PgRoster(std::shared_ptr<const PgDatabase> database) : database_(std::move(database)) {}

Result<std::vector<PgResult>> PgRoster::Run(std::span<const PgCall> calls) {
  const bool old = connection_ && !connection_->lost();
  for (bool again = old;; again = false) {
    if (!connection_ || connection_->lost()) {
      connection_.reset();
      auto opened = database_->Connect();
      if (!opened) return opened.error();
      connection_ = *std::move(opened);
    }
    PgAnswer answer = connection_->Run(calls, kRosterPatience);
    if (!answer.failure) return std::move(answer.results);
    // Whoever has become a standby takes no writes, but keeps its connections.
    if (answer.failure->state == "25006") connection_->Lose();
    const bool lost = connection_->lost();
    if (!lost || !again) return Gone(answer.failure->message);
  }
}

Result<ClusterRow> PgRoster::Open(uint16_t partitions) {
  auto rows = Run({database_->statements().cluster});
  if (!rows) return rows.error();
  if (rows->front().rows() == 0) return Gone("the row of the cluster is missing");
  const ClusterRow cluster = ToCluster(rows->front());
  if (partitions == kAsMade || cluster.partitions == partitions) return cluster;
  return Error{Code::kFailedPrecondition, Reason::kNone,
               "the store has " + std::to_string(cluster.partitions) + " partitions, not " +
                   std::to_string(partitions) + ": their number is for good"};
}

Result<Ok> PgRoster::Join(const ServerRow& self, const std::vector<std::string>& before) {
  const PgStatements& all = database_->statements();
  std::string ids;
  for (const std::string& id : before) ids += (ids.empty() ? "" : ",") + id;
  std::vector<PgCall> calls{
      {all.begin}, {all.bury_address}, {all.forget}, {all.join}, {all.commit}};
  calls[1].params.Text(self.address).Text(self.id).Text(ids);
  calls[3]
      .params.Text(self.id)
      .Text(self.address)
      .Text(self.version)
      .Int(static_cast<int32_t>(self.level));
  auto joined = Run(calls);
  return joined ? Result<Ok>(Ok{}) : joined.error();
}

Result<Roster::Seen> PgRoster::Renew(const std::string& self, bool reached, bool leaving) {
  const PgStatements& all = database_->statements();
  std::vector<PgCall> calls{{all.renew}, {all.clock}, {all.cluster}, {all.servers}, {all.parts}};
  calls[0].params.Text(self).Bool(reached).Bool(leaving);
  auto rows = Run(calls);
  if (!rows) return rows.error();
  if ((*rows)[2].rows() == 0) return Gone("the row of the cluster is missing");
  Seen seen{.now = Time((*rows)[1], 0, 0),
            .alive = (*rows)[0].rows() > 0,
            .cluster = ToCluster((*rows)[2])};
  for (int row = 0; row < (*rows)[3].rows(); ++row) {
    seen.servers.push_back(ToServer((*rows)[3], row));
  }
  for (int row = 0; row < (*rows)[4].rows(); ++row) seen.parts.push_back(ToPart((*rows)[4], row));
  return seen;
}

Result<bool> PgRoster::Bury(const std::string& server) {
  const PgStatements& all = database_->statements();
  std::vector<PgCall> calls{{all.bury}, {all.dead}};
  calls[0].params.Text(server).Int(
      static_cast<int32_t>(std::chrono::duration_cast<std::chrono::seconds>(kLease).count()));
  calls[1].params.Text(server);
  auto rows = Run(calls);
  if (!rows) return rows.error();
  return rows->back().rows() == 0;
}

Result<std::optional<Holding>> PgRoster::Take(const PartRow& seen, const std::string& self) {
  PgCall call{database_->statements().take};
  call.params.Int(seen.id).Long(static_cast<int64_t>(seen.held.epoch)).Text(seen.owner).Text(self);
  auto rows = Run(call);
  if (!rows) return rows.error();
  if (rows->front().rows() == 0) return std::optional<Holding>();
  return std::optional(HoldingOf(rows->front(), 0, 0));
}

Result<bool> PgRoster::Give(PartitionId partition, Epoch epoch, const std::string& self,
                            const std::string& server) {
  PgCall call{database_->statements().give};
  call.params.Int(partition).Long(static_cast<int64_t>(epoch)).Text(self).Text(server);
  auto rows = Run(call);
  if (!rows) return rows.error();
  return rows->front().rows() > 0;
}

Result<Ok> PgRoster::Leave(const std::string& self) {
  PgCall call{database_->statements().leave};
  call.params.Text(self);
  auto done = Run(call);
  return done ? Result<Ok>(Ok{}) : done.error();
}

Result<Ok> PgRoster::Raise(uint32_t level) {
  PgCall call{database_->statements().raise};
  call.params.Int(static_cast<int32_t>(level));
  auto done = Run(call);
  return done ? Result<Ok>(Ok{}) : done.error();
}

Result<Ok> PgRoster::SetLife(uint64_t life) {
  PgCall call{database_->statements().set_life};
  call.params.Long(static_cast<int64_t>(life));
  auto done = Run(call);
  return done ? Result<Ok>(Ok{}) : done.error();
}

Result<Ok> PgRoster::SetMoved(const std::string& where) {
  PgCall call{database_->statements().set_moved};
  call.params.Text(where);
  auto done = Run(call);
  return done ? Result<Ok>(Ok{}) : done.error();
}

}  // namespace dfsmr
