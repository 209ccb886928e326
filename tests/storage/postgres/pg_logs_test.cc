// The table of the lines of operations: several owners, databases that go away, and stores of
// before it. What the store of logs makes of it is tested in tests/storage/logs.
#include "storage/postgres/pg_logs.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/storage/postgres/postgres_server.h"
#include "tests/storage/postgres/proxy.h"

namespace dfsmr {
namespace {

using Rows = std::vector<std::pair<std::string, std::string>>;

Result<Ok> Put(LogTable& table, const std::string& key, const std::string& value) {
  const auto batch = table.NewBatch();
  batch->Put(key, value);
  return table.Write(*batch);
}

Rows All(const View& view, const std::string& begin = "", const std::string& end = "",
         bool reverse = false) {
  Rows rows;
  const auto scanned = view.Scan(
      begin, end,
      [&rows](std::string_view key, std::string_view value) {
        rows.emplace_back(key, value);
        return true;
      },
      reverse);
  REQUIRE_MESSAGE(scanned, (scanned ? "" : scanned.error().message));
  return rows;
}

std::string Numbered(int number) {
  const std::string digits = std::to_string(number);
  return "c" + std::string(4 - digits.size(), '0') + digits;
}

// Asks until the database is back.
void PutAtLast(LogTable& table, const std::string& key, const std::string& value) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    const auto written = Put(table, key, value);
    if (written) return;
    REQUIRE(written.error().code == Code::kUnavailable);
    usleep(50'000);
  }
  FAIL("the database does not come back");
}

TEST_CASE("a batch is written in its order, as a whole") {
  const auto database = MustOpen({.uri = SharedPostgres().Uri(), .schema = NewSchema()});
  PgLogTable table(database, 0, 1);
  const auto batch = table.NewBatch();
  CHECK(batch->empty());
  for (const char* key : {"a1", "a2", "b1", "b2"}) batch->Put(key, key);
  batch->Append("c", "one ");
  batch->Append("c", "row");
  REQUIRE(table.Write(*batch));
  CHECK(*table.Get("c") == "one row");
  const auto next = table.NewBatch();
  next->DeletePrefix("a");
  next->Put("a2", "anew");
  next->Delete("b1");
  next->Put("b2", "lost");
  next->Delete("b2");
  next->Put("d", "");
  REQUIRE(table.Write(*next));
  CHECK(All(table, "a", "e") == Rows{{"a2", "anew"}, {"c", "one row"}, {"d", ""}});
  const std::vector<std::string> keys{"d", "b1", "a2", "d"};
  const auto values = table.GetMany(keys);
  REQUIRE(values);
  CHECK((*values)[0] == "");
  CHECK_FALSE((*values)[1].has_value());
  CHECK((*values)[2] == "anew");
  CHECK((*values)[3] == "");
}

TEST_CASE("scans come in rounds, in both directions, and see their partition only") {
  const auto database =
      MustOpen({.uri = SharedPostgres().Uri(), .schema = NewSchema(), .partitions = 2});
  PgLogTable table(database, 0, 1);
  PgLogTable other(database, 1, 1);
  const auto batch = table.NewBatch();
  Rows all;
  for (int number = 0; number < 700; ++number) {
    all.emplace_back(Numbered(number), std::to_string(number));
    batch->Put(all.back().first, all.back().second);
  }
  REQUIRE(table.Write(*batch));
  REQUIRE(Put(other, "c0001", "another partition's"));
  CHECK(All(table, "c") == Rows(all.begin(), all.end()));
  CHECK(All(table, "c", "d", true) == Rows(all.rbegin(), all.rend()));
  CHECK(All(table, "c0100", "c0103") == Rows(all.begin() + 100, all.begin() + 103));
  CHECK(All(other, "c") == Rows{{"c0001", "another partition's"}});
  Rows found;
  const std::vector<std::string> prefixes{"c000", "c0699", "x"};
  REQUIRE(table.ScanAll(prefixes, [&found](std::string_view key, std::string_view value) {
    found.emplace_back(key, value);
    return true;
  }));
  CHECK(found.size() == 11);
}

TEST_CASE("a reader sees one moment") {
  const auto database = MustOpen({.uri = SharedPostgres().Uri(), .schema = NewSchema()});
  PgLogTable table(database, 0, 1);
  REQUIRE(Put(table, "a", "before"));
  const auto moment = table.Snapshot();
  CHECK(*moment->Get("a") == "before");
  REQUIRE(Put(table, "a", "after"));
  CHECK(*moment->Get("a") == "before");
  CHECK(All(*moment, "a") == Rows{{"a", "before"}});
  CHECK(*table.Snapshot()->Get("a") == "after");
}

TEST_CASE("a deposed owner writes nothing over what its successor has written") {
  const auto database = MustOpen({.uri = SharedPostgres().Uri(), .schema = NewSchema()});
  PgLogTable first(database, 0, 1);
  REQUIRE(Put(first, "a", "first"));
  PgLogTable second(database, 0, 2);
  CHECK(*second.Get("a") == "first");
  CHECK_FALSE(Put(first, "a", "late"));
  REQUIRE(Put(second, "b", "second"));
  const auto late = Put(first, "b", "late");
  REQUIRE_FALSE(late);
  CHECK(late.error().code == Code::kAborted);
  CHECK(All(second, "a", "c") == Rows{{"a", "first"}, {"b", "second"}});
  PgLogTable slow(database, 0, 1);  // it begins when it is over already
  CHECK(Put(slow, "a", "late").error().code == Code::kAborted);
  REQUIRE(Put(second, "b", "goes on"));
}

TEST_CASE("a batch of before its owner has claimed the table again is refused") {
  const std::string schema = NewSchema();
  PgLogTable table(MustOpen({.uri = SharedPostgres().Uri(), .schema = schema}), 0, 1);
  REQUIRE(Put(table, "a", "1"));
  // As its own next claim would, on another connection.
  SharedPostgres().Sql("update " + schema + ".logs set v = v || '\\x00'::bytea where "
                       "substr(k, 3) = '\\xff'::bytea");
  CHECK(Put(table, "a", "2").error().code == Code::kUnavailable);
  CHECK(*table.Get("a") == "1");
  REQUIRE(Put(table, "a", "3"));
}

TEST_CASE("a batch whose answer is lost is there, or is not") {
  Proxy proxy(SharedPostgres().folder());
  PgLogTable table(MustOpen({.uri = proxy.Uri(), .schema = NewSchema()}), 0, 1);
  REQUIRE(Put(table, "a", "1"));
  proxy.Set(Proxy::Mode::kSwallow);
  CHECK(Put(table, "a", "2").error().code == Code::kUnavailable);
  CHECK(proxy.swallowed() == 1);
  CHECK(*table.Get("a") == "2");
  proxy.Cut();
  PutAtLast(table, "a", "3");
  CHECK(*table.Get("a") == "3");
}

TEST_CASE("a database that comes back is gone on with, by writer and readers") {
  PostgresServer server;
  PgLogTable table(MustOpen({.uri = server.Uri()}), 0, 1);
  REQUIRE(Put(table, "a", "1"));
  CHECK(*table.Snapshot()->Get("a") == "1");
  server.Sql("checkpoint");  // else the last of it may be lost
  server.Stop();
  CHECK(Put(table, "a", "2").error().code == Code::kUnavailable);
  const auto read = table.Snapshot()->Get("a");
  REQUIRE_FALSE(read);
  CHECK(read.error().code == Code::kUnavailable);
  server.Start();
  CHECK(*table.Snapshot()->Get("a") == "1");
  PutAtLast(table, "a", "3");
  CHECK(*table.Get("a") == "3");
}

TEST_CASE("commits of logs do not wait for the disk") {
  PostgresServer server;
  PgLogTable table(MustOpen({.uri = server.Uri()}), 0, 1);
  REQUIRE(Put(table, "a", "1"));
  const auto batch = table.NewBatch();
  batch->Put("a", "2");
  // Nobody would answer a commit that waits for this standby.
  server.Sql("alter system set synchronous_standby_names = 'nobody'");
  server.Sql("select pg_reload_conf()");
  while (server.Sql("show synchronous_standby_names") != "nobody") usleep(10'000);
  REQUIRE(table.Write(*batch));
  CHECK(*table.Get("a") == "2");
}

TEST_CASE("a store of before gets the table, where its role may make it") {
  const std::string schema = NewSchema();
  PostgresServer& server = SharedPostgres();
  std::vector<std::string> told;
  const auto tell = [&told](bool bad, const std::string& what) {
    if (bad) told.push_back(what);
  };
  const PgDatabase::Options options{
      .uri = server.Uri("loggers"), .schema = schema, .tell = tell};
  CHECK(MustOpen({.uri = server.Uri(), .schema = schema})->has_logs());
  server.Sql("create role loggers login");
  server.Sql("grant usage on schema " + schema + " to loggers");
  server.Sql("drop table " + schema + ".logs");
  server.Sql("grant select, insert, update, delete on all tables in schema " + schema +
             " to loggers");
  CHECK_FALSE(MustOpen(options)->has_logs());
  REQUIRE(told.size() == 1);
  CHECK(told.front().find("right CREATE on the schema") != std::string::npos);
  server.Sql("grant create on schema " + schema + " to loggers");
  const auto database = MustOpen(options);
  CHECK(database->has_logs());
  CHECK(told.size() == 1);
  PgLogTable table(database, 0, 1);
  REQUIRE(Put(table, "a", "1"));
  server.Sql("drop owned by loggers cascade");
  server.Sql("drop role loggers");
}

}  // namespace
}  // namespace dfsmr
