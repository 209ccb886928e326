#include "storage/postgres/database.h"

#include <sys/random.h>

#include <utility>

#include "storage/moved.h"

namespace dfsmr {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kConnectPatience{10'000};  // before anything is served
constexpr int kOldest = 130000;

Error Refused(const std::string& message) {
  return {Code::kFailedPrecondition, Reason::kNone, message};
}

std::string Draw(size_t bytes) {
  std::string drawn(bytes, '\0');
  Check(getrandom(drawn.data(), drawn.size(), 0) == static_cast<ssize_t>(bytes),
        "the system gives random bytes");
  return drawn;
}

// Positive, so that it is the same as a bigint.
int64_t DrawLife() {
  uint64_t life = 0;
  for (const char byte : Draw(8)) life = life << 8 | static_cast<unsigned char>(byte);
  return static_cast<int64_t>(life >> 1 | 1);
}

PgAnswer RunText(PgConnection& connection, const std::string& text, PgParams params = {}) {
  const PgStatement statement{"", text};  // the unnamed one, which is made anew each time
  const PgCall call{statement, std::move(params)};
  return connection.RunOnce(call, kConnectPatience);
}

}  // namespace

ClusterRow ToCluster(const PgResult& result) {
  return {.format = static_cast<uint32_t>(result.Number(0, 0)),
          .level = static_cast<uint32_t>(result.Number(0, 1)),
          .partitions = static_cast<uint16_t>(result.Number(0, 2)),
          .life = static_cast<uint64_t>(result.Number(0, 3)),
          .secret = result.Text(0, 4),
          .moved = result.Text(0, 5)};
}

PgDatabase::PgDatabase(Options options, const PgAddress& address)
    : options_(std::move(options)),
      shown_(address.shown),
      hosts_(address, options_.known, options_.tell),
      statements_(options_.schema) {}

Result<std::unique_ptr<PgConnection>> PgDatabase::Connect() const {
  return hosts_.Connect();
}

Error PgDatabase::Unfit(const std::string& why) const {
  return Refused(shown_ + " is not fit for a store: " + why);
}

Result<std::shared_ptr<PgDatabase>> PgDatabase::Open(Options options) {
  auto address = ParsePgAddress(options.uri);
  if (!address) return address.error();
  if (!IsPgSchema(options.schema)) {
    return Error{Code::kInvalidArgument, Reason::kNone,
                 "--store-schema \"" + options.schema +
                     "\": it takes up to 40 small letters, digits and underscores, begins with "
                     "none of the digits, and not with pg_; nor is it information_schema"};
  }
  std::shared_ptr<PgDatabase> database(new PgDatabase(std::move(options), *address));
  auto connection = database->Connect();
  if (!connection) return connection.error();
  if (auto fit = database->Inspect(**connection); !fit) return fit.error();
  auto there = database->ReadCluster(**connection);
  if (!there) return there.error();
  if (!*there) {
    if (!database->options_.create) {
      return Error{
          Code::kNotFound, Reason::kNone,
          "there is no store in schema " + database->options_.schema + " of " + database->shown()};
    }
    if (auto made = database->MakeTables(**connection); !made) return made.error();
  }
  if (auto known = database->CheckCluster(); !known) return known.error();
  database->statements_.AddTables(database->options_.schema, database->cluster_.partitions);
  if (auto logs = database->FindLogs(**connection); !logs) return logs.error();
  return database;
}

Result<Ok> PgDatabase::Inspect(PgConnection& connection) {
  const PgAnswer answer = RunText(connection, "select version()");
  if (answer.failure) return Unfit(answer.failure->message);
  const std::string version = answer.results.front().Text(0, 0);
  plain_ = !version.starts_with("PostgreSQL ") || version.find("-YB-") != version.npos;
  facts_ = {"postgresql", version.substr(0, version.find(" (")), "single"};
  if (!plain_ && connection.version() < kOldest) {
    return Unfit("it is " + facts_.database + ", and a store takes PostgreSQL 13 or later: " +
                 "upgrade it, for example with pg_upgrade");
  }
  if (auto kept = InspectPooler(connection); !kept) return kept;
  return plain_ ? Ok{} : InspectDurability(connection);
}

namespace {

// How what was acknowledged may be lost, and what would be right; empty: it is not.
std::string RiskOf(const PgResult& row, const std::string& durability) {
  for (const auto& [column, name] : {std::pair(0, "fsync"), {1, "full_page_writes"}}) {
    if (row.Bytes(0, column) == "on") continue;
    return std::string(name) + " is " + row.Text(0, column) +
           ", so a crash of its machine may lose what was acknowledged, or all: set " + name +
           " = on in postgresql.conf";
  }
  if (durability != "asynchronous") return "";
  return "a standby is attached, but synchronous_standby_names is empty, so a failover "
         "loses what was acknowledged: set synchronous_standby_names (with Patroni: "
         "synchronous_mode and synchronous_mode_strict)";
}

}  // namespace

Result<Ok> PgDatabase::InspectDurability(PgConnection& connection) {
  // Those who follow by logical replication, or copy a backup, are no standbys.
  const PgAnswer answer = RunText(
      connection,
      "select current_setting('fsync'), current_setting('full_page_writes'), "
      "current_setting('synchronous_standby_names'), (select count(*) from pg_stat_replication r "
      "where r.state is distinct from 'backup' and not exists (select 1 from "
      "pg_replication_slots s where s.active_pid = r.pid and s.slot_type = 'logical'))");
  if (answer.failure) return Unfit(answer.failure->message);
  const PgResult& row = answer.results.front();
  const bool synchronous = !row.Bytes(0, 2).empty();
  const bool attached = row.Number(0, 3) > 0;
  facts_.durability = synchronous ? "synchronous" : attached ? "asynchronous" : "single";
  const std::string risk = RiskOf(row, facts_.durability);
  if (!risk.empty() && !options_.allow_loss) {
    return Unfit(risk + "; or start with --allow-loss, and what was acknowledged may be lost");
  }
  if (!risk.empty()) options_.tell(true, risk);
  if (facts_.durability == "single" && risk.empty()) {
    options_.tell(false, "the store has no standby: it is as durable as the disk of its database");
  }
  return Ok{};
}

// A pooler that hands each transaction to whichever backend is free loses what was prepared. While
// a second connection holds the backend of the first, the first one gets another.
Result<Ok> PgDatabase::InspectPooler(PgConnection& connection) const {
  const PgStatement probe{"dsrv_probe", "select 1"};
  const PgStatement begin{"dsrv_probe_begin", "begin"};
  const PgStatement hold{"dsrv_probe_hold", "select 1"};
  const PgCall prepare{probe};
  PgAnswer answer = connection.Run({&prepare, 1}, kConnectPatience);
  auto second = Connect();
  if (!second) return second.error();
  const PgCall held[] = {{begin}, {hold}};
  if (!answer.failure) (*second)->Run(held, kConnectPatience);
  if (!answer.failure) answer = connection.Run({&prepare, 1}, milliseconds(3'000));
  if (!answer.failure) return Ok{};
  return Unfit("it loses prepared statements (" + answer.failure->message +
               "), as behind a pooler of transactions: connect to the database itself, or have the "
               "pooler keep sessions (pgbouncer: pool_mode = session)");
}

// False: there are no tables, or not all yet.
Result<bool> PgDatabase::ReadCluster(PgConnection& connection) {
  const PgAnswer answer = RunText(connection, statements_.cluster.text);
  if (answer.failure) {
    const std::string& state = answer.failure->state;
    if (state == "42P01" || state == "3F000") return false;  // no table, no schema
    return Error{Code::kUnavailable, Reason::kNone,
                 shown_ + ": " + answer.failure->message};
  }
  if (answer.results.front().rows() == 0) return false;
  cluster_ = ToCluster(answer.results.front());
  return true;
}

Result<Ok> PgDatabase::MakeTables(PgConnection& connection) {
  const uint16_t partitions = options_.partitions == kAsMade ? kMadeOf : options_.partitions;
  std::string why;
  // Of several that make them at once all but one fail somewhere, and find them at the next look.
  for (int attempt = 0; attempt < 20 && !connection.lost(); ++attempt) {
    const PgAnswer found = RunText(
        connection, "select count(*) from information_schema.schemata where schema_name = $1::text",
        PgParams().Text(options_.schema));
    if (found.failure) return Unfit(found.failure->message);
    const bool exists = found.results.front().Number(0, 0) > 0;
    PgAnswer answer = RunText(connection, "begin");
    for (const std::string& text : PgTables(options_.schema, partitions, exists, plain_)) {
      if (!answer.failure) answer = RunText(connection, text);
    }
    if (!answer.failure) {
      answer = RunText(connection, PgFirstRow(options_.schema),
                       PgParams()
                           .Int(kPgFormat)
                           .Int(kPgLevel)
                           .Int(partitions)
                           .Long(DrawLife())
                           .Text(Draw(32)));
    }
    if (!answer.failure) answer = RunText(connection, "commit");
    if (answer.failure) why = answer.failure->message;
    auto there = ReadCluster(connection);
    if (!there) return there.error();
    if (!*there) continue;
    for (uint16_t id = 0; id < partitions && !plain_ && !answer.failure; ++id) {
      if (connection.version() >= 140000) {
        RunText(connection, PgCompression(options_.schema, id));
      }
    }
    if (!plain_ && !answer.failure) RunText(connection, PgLogCompression(options_.schema));
    return Ok{};
  }
  return Unfit("the tables cannot be made: " + why +
               "; give its role the right CREATE on the database, or a schema " + options_.schema +
               " of its own");
}

// A store of before these were kept gets their table. Where its role may not make it the store is
// served without.
Result<Ok> PgDatabase::FindLogs(PgConnection& connection) {
  std::string why;
  for (int attempt = 0; attempt < 5; ++attempt) {  // several servers may make it at once
    const PgAnswer answer = RunText(connection, statements_.logs.probe.text);
    has_logs_ = !answer.failure;
    if (has_logs_) return Ok{};
    if (connection.lost()) {
      return Error{Code::kUnavailable, Reason::kNone,
                   shown_ + ": " + answer.failure->message};
    }
    const bool missing = answer.failure->state == "42P01";
    if (why.empty() || !missing) why = answer.failure->message;
    if (!missing || !options_.create) break;
    const PgAnswer made = RunText(connection, PgLogTableText(options_.schema, plain_));
    if (made.failure) why = made.failure->message;
    if (made.failure && made.failure->state == "42501") break;
    if (!made.failure && !plain_) RunText(connection, PgLogCompression(options_.schema));
  }
  if (!options_.create) return Ok{};
  options_.tell(true, "logs of operations are not kept: " + why + "; give the role of " +
                          shown_ + " the rights on the table logs in schema " +
                          options_.schema + ", or the right CREATE on the schema, and start anew");
  return Ok{};
}

Result<Ok> PgDatabase::CheckCluster() const {
  const std::string store = "the store in schema " + options_.schema + " of " + shown_;
  if (cluster_.format > kPgFormat || cluster_.level > kPgLevel) {
    return Refused(
        store + " was written by a newer dsrv: it has format " + std::to_string(cluster_.format) +
        " and level " + std::to_string(cluster_.level) + ", this dsrv knows up to " +
        std::to_string(kPgFormat) + " and " + std::to_string(kPgLevel) + "; run the newer dsrv");
  }
  if (!cluster_.moved.empty() && !options_.moved_too) {
    return NotHere(store, cluster_.moved);
  }
  const bool any = options_.partitions == kAsMade;
  if (any || cluster_.partitions == options_.partitions) return Ok{};
  return Refused(store + " has " + std::to_string(cluster_.partitions) + " partitions, and " +
                 std::to_string(options_.partitions) +
                 " are asked for with --partitions: their number is for good");
}

}  // namespace dfsmr
