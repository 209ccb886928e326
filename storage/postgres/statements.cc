#include "storage/postgres/statements.h"

#include <algorithm>
#include <cstdio>

namespace dfsmr {
namespace {

// A name that is a word of SQL's would be read as that.
std::string InQuotes(const std::string& name) { return "\"" + name + "\""; }

std::string TableName(const std::string& schema, uint16_t partition) {
  char digits[8];
  std::snprintf(digits, sizeof digits, "p%04d", partition);
  return schema + "." + digits;
}

// A round of a scan; its parameters are numbered from `first` on.
std::string RowsOf(const std::string& table, int first, const std::string& order) {
  const auto param = [first](int nth) { return "$" + std::to_string(first + nth); };
  return "select k, v from " + table + " where k >= " + param(0) + "::bytea and k < " + param(1) +
         "::bytea order by k " + order + " limit " + param(2) + "::int";
}

std::string InsertInto(const std::string& table) {
  return "insert into " + table +
         "(k, v) select t.k, t.v from unnest($1::bytea[], $2::bytea[]) t(k, v)";
}

constexpr const char* kOrReplace = " on conflict (k) do update set v = excluded.v";

std::string DeleteKeys(const std::string& table) {
  return "delete from " + table + " using unnest($1::bytea[]) t(k) where " + table + ".k = t.k";
}

PgTable TableOf(const std::string& schema, uint16_t partition) {
  const std::string table = TableName(schema, partition);
  const std::string suffix = "_" + std::to_string(partition);
  const std::string guard = " from " + schema + ".part f left join ";
  const auto guarded = [&](const std::string& order) {
    return "select r.k, r.v, f.epoch, f.seq" + guard + "(" + RowsOf(table, 2, order) +
           ") r on true where f.id = $1::int order by r.k " + order;
  };
  return {
      .get = {"get" + suffix, "select p.v, f.epoch, f.seq" + guard + table +
                                  " p on p.k = $2::bytea where f.id = $1::int"},
      .scan = {"scan" + suffix, guarded("asc")},
      .scan_reverse = {"scan_reverse" + suffix, guarded("desc")},
      .more = {"more" + suffix, RowsOf(table, 1, "asc")},
      .more_reverse = {"more_reverse" + suffix, RowsOf(table, 1, "desc")},
      .delete_range = {"delete_range" + suffix,
                       "delete from " + table + " where k >= $1::bytea and k < $2::bytea"},
      .delete_keys = {"delete_keys" + suffix, DeleteKeys(table)},
      .put = {"put" + suffix, InsertInto(table) + kOrReplace},
      .append = {"append" + suffix, InsertInto(table)},
  };
}

std::string LogTableName(const std::string& schema) { return schema + ".logs"; }

PgLogStatements LogStatementsOf(const std::string& schema) {
  const std::string table = LogTableName(schema);
  const std::string ranges = "unnest($1::bytea[], $2::bytea[]) r(b, e)";
  return {
      .probe = {"logs_probe", "select k from " + table + " limit 0"},
      // Its commits do not wait for the disk, nor it for a lock for long.
      .settle = {"logs_settle",
                 "select set_config('synchronous_commit', 'off', false), "
                 "set_config('lock_timeout', '1s', false)"},
      .claim = {"logs_claim", "insert into " + table +
                                  "(k, v) values ($1::bytea, $2::bytea) on conflict (k) do update "
                                  "set v = excluded.v where " +
                                  table + ".v < excluded.v returning 1"},
      // The row stays locked until the commit: who claims the table waits for it.
      .fence = {"logs_fence", "with f as (select 1 from " + table +
                                  " where k = $1::bytea and v = $2::bytea for update) select 1 / "
                                  "count(*)::int from f"},
      .get = {"logs_get", "select k, v from " + table + " where k = any($1::bytea[])"},
      .scan = {"logs_scan", RowsOf(table, 1, "asc")},
      .scan_reverse = {"logs_scan_reverse", RowsOf(table, 1, "desc")},
      .scan_ranges = {"logs_scan_ranges", "select l.k, l.v from " + ranges + " join " + table +
                                              " l on l.k >= r.b and l.k < r.e"},
      .delete_ranges = {"logs_delete_ranges", "delete from " + table + " using " + ranges +
                                                  " where " + table + ".k >= r.b and " + table +
                                                  ".k < r.e"},
      .delete_keys = {"logs_delete_keys", DeleteKeys(table)},
      .put = {"logs_put", InsertInto(table) + kOrReplace},
  };
}

// Room in each page, so that a row that changes stays in it and no index is touched.
std::string RowTable(const std::string& table, int percent_full, bool plain) {
  return "create table if not exists " + table +
         (plain ? "(k bytea not null, v bytea not null, primary key (k asc))"
                : "(k bytea primary key, v bytea not null) with (fillfactor = " +
                      std::to_string(percent_full) +
                      ", autovacuum_vacuum_scale_factor = 0.02, "
                  "autovacuum_vacuum_insert_scale_factor = 0.05, "
                  "autovacuum_vacuum_cost_delay = 0)");
}

std::string Compressed(const std::string& table) {
  return "alter table " + table + " alter column v set compression lz4";
}

}  // namespace

void PgStatements::AddTables(const std::string& name, uint16_t partitions) {
  const std::string schema = InQuotes(name);
  for (uint16_t id = 0; id < partitions; ++id) tables.push_back(TableOf(schema, id));
}

// The next epoch of a partition after another one: of n partitions each takes every nth number, so
// none ever has the epoch of another, and claims that name epochs stay apart when partitions become
// one.
static std::string EpochAfter(const std::string& cluster, const std::string& epoch,
                              const std::string& id) {
  const std::string n = "(select partitions::bigint from " + cluster + " where one = 1)";
  return epoch + " - mod(" + epoch + ", " + n + ") + " + n + " + " + id;
}

PgStatements::PgStatements(const std::string& name) {
  const std::string schema = InQuotes(name);
  const std::string part = schema + ".part";
  const std::string server = schema + ".server";
  const std::string cluster_table = schema + ".cluster";
  begin = {"begin", "begin"};
  begin_moment = {"begin_moment", "begin isolation level repeatable read, read only"};
  commit = {"commit", "commit"};
  // Its row is locked until the commit: who takes the partition waits for it.
  fence = {"fence", "with f as (update " + part +
                        " set seq = seq + 1 where id = $1::int and epoch = $2::bigint and seq = "
                        "$3::bigint returning 1) select 1 / count(*)::int from f"};
  touch = {"touch", "update " + part + " set seq = seq where id = $1::int returning epoch, seq"};
  acquire = {"acquire", "update " + part +
                            " set epoch = " +
                            EpochAfter(cluster_table, "greatest(epoch, $3::bigint)", "id") +
                            ", owner = $2::text, since = clock_timestamp() "
                            "where id = $1::int returning epoch, seq, feed"};
  heads = {"heads", "select id, epoch, seq from " + part};
  logs = LogStatementsOf(schema);

  cluster = {"cluster", "select format, level, partitions, life, secret, moved from " +
                            cluster_table + " where one = 1"};
  servers = {"servers",
             "select id, address, version, level, started, seen, reached, leaving, dead from " +
                 server + " order by id"};
  parts = {"parts", "select id, epoch, seq, feed, owner, since from " + part + " order by id"};
  renew = {"renew", "update " + server +
                        " set seen = clock_timestamp(), reached = $2::bool, leaving = $3::bool "
                        "where id = $1::text and not dead returning id"};
  clock = {"clock", "select clock_timestamp()"};
  bury_address = {"bury_address", "update " + server +
                                      " set dead = true where address = $1::text and id <> "
                                      "$2::text and id = any(string_to_array($3::text, ',')) and "
                                      "not dead and not exists (select 1 from " +
                                      server + " s where s.id = $2::text)"};
  forget = {"forget", "delete from " + server +
                          " where dead and seen < clock_timestamp() - interval '1 day'"};
  join = {"join", "insert into " + server +
                      "(id, address, version, level, started, seen, reached, leaving, dead) select "
                      "$1::text, $2::text, $3::text, $4::int, clock_timestamp(), "
                      "clock_timestamp(), false, false, false where not exists (select 1 from " +
                      server +
                      " s where s.address = $2::text and not s.dead) on conflict (id) do nothing"};
  bury = {"bury", "update " + server +
                      " set dead = true where id = $1::text and not dead and seen < "
                      "clock_timestamp() - $2::int * interval '1 second'"};
  dead = {"dead", "select 1 from " + server + " where id = $1::text and not dead"};
  take = {"take", "update " + part +
                      " p set epoch = " + EpochAfter(cluster_table, "p.epoch", "p.id") +
                      ", owner = $4::text, since = clock_timestamp() "
                      "where p.id = $1::int and p.epoch = $2::bigint and p.owner = $3::text and "
                      "exists (select 1 from " +
                      server +
                      " s where s.id = $4::text and not s.dead) and (p.owner = $4::text or not "
                      "exists (select 1 from " +
                      server +
                      " s where s.id = p.owner and not s.dead)) returning epoch, seq, feed"};
  give = {"give", "update " + part +
                      " set epoch = " + EpochAfter(cluster_table, "epoch", "id") +
                      ", owner = $4::text, since = clock_timestamp() where "
                      "id = $1::int and epoch = $2::bigint and owner = $3::text returning epoch"};
  leave = {"leave", "update " + server + " set dead = true where id = $1::text"};
  raise = {"raise", "update " + cluster_table + " set level = greatest(level, $1::int)"};
  set_life = {"set_life", "update " + cluster_table + " set life = $1::bigint"};
  set_moved = {"set_moved", "update " + cluster_table + " set moved = $1::text"};
}

bool IsPgSchema(const std::string& name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !name.empty() && name.size() <= 40 && std::ranges::all_of(name, fits) &&
         !(name.front() >= '0' && name.front() <= '9') && !name.starts_with("pg_") &&
         name != "information_schema";
}

std::vector<std::string> PgTables(const std::string& name, uint16_t partitions, bool schema_exists,
                                  bool plain) {
  const std::string schema = InQuotes(name);
  std::vector<std::string> all;
  if (!schema_exists) all.push_back("create schema if not exists " + schema);
  const std::string table = "create table if not exists " + schema + ".";
  all.push_back(table +
                "cluster(one int primary key, format int not null, level int not null, partitions "
                "int not null, life bigint not null, secret bytea not null, moved text not null)");
  all.push_back(table +
                "server(id text primary key, address text not null, version text not null, level "
                "int not null, started timestamptz not null, seen timestamptz not null, reached "
                "bool not null, leaving bool not null, dead bool not null)");
  all.push_back(table +
                "part(id int primary key, epoch bigint not null, seq bigint not null, feed bigint "
                "not null, owner text not null, since timestamptz not null)" +
                (plain ? "" : " with (fillfactor = 10)"));
  for (uint16_t id = 0; id < partitions; ++id) {
    all.push_back(RowTable(TableName(schema, id), 70, plain));
    all.push_back("insert into " + schema + ".part values (" + std::to_string(id) +
                  ", 0, 0, 0, '', clock_timestamp()) on conflict (id) do nothing");
  }
  all.push_back(PgLogTableText(name, plain));
  return all;
}

std::string PgLogTableText(const std::string& name, bool plain) {
  return RowTable(LogTableName(InQuotes(name)), 90, plain);
}

std::string PgFirstRow(const std::string& name) {
  return "insert into " + InQuotes(name) +
         ".cluster values (1, $1::int, $2::int, $3::int, $4::bigint, $5::bytea, '') on conflict "
         "(one) do nothing";
}

std::string PgCompression(const std::string& name, uint16_t partition) {
  return Compressed(TableName(InQuotes(name), partition));
}

std::string PgLogCompression(const std::string& name) {
  return Compressed(LogTableName(InQuotes(name)));
}

}  // namespace dfsmr
