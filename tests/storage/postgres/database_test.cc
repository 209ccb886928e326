// Which databases are refused, and that several servers make one store.
#include "storage/postgres/database.h"

#include <doctest/doctest.h>

#include <future>
#include <set>

#include "storage/postgres/pg_store.h"
#include "tests/storage/postgres/postgres_server.h"

namespace dfsmr {
namespace {

void CheckRefused(const PgDatabase::Options& options, Code code,
                  const std::vector<std::string>& words) {
  const auto database = PgDatabase::Open(options);
  REQUIRE_FALSE(database);
  CAPTURE(database.error().message);
  CHECK(database.error().code == code);
  for (const std::string& word : words) {
    CAPTURE(word);
    CHECK(database.error().message.find(word) != std::string::npos);
  }
}

TEST_CASE("ten servers that start at once make one store") {
  const std::string schema = NewSchema();
  std::vector<std::future<Result<std::shared_ptr<PgDatabase>>>> starting;
  for (int server = 0; server < 10; ++server) {
    starting.push_back(std::async(std::launch::async, [&] {
      return PgDatabase::Open({.uri = SharedPostgres().Uri(), .schema = schema});
    }));
  }
  std::set<uint64_t> lives;
  std::set<std::string> secrets;
  for (auto& one : starting) {
    const auto database = one.get();
    REQUIRE_MESSAGE(database, (database ? "" : database.error().message));
    lives.insert((*database)->cluster().life);
    secrets.insert((*database)->cluster().secret);
  }
  CHECK(lives.size() == 1);
  CHECK(secrets.size() == 1);
  CHECK(secrets.begin()->size() == 32);
}

TEST_CASE("a start needs no rights but those of its tables once they are there") {
  const std::string schema = NewSchema();
  PostgresServer& server = SharedPostgres();
  server.Sql("create role plain login");
  CheckRefused({.uri = server.Uri("plain"), .schema = schema}, Code::kFailedPrecondition,
               {"cannot be made", "right CREATE on the database", schema});
  SUBCASE("made by another") {
    MustOpen({.uri = server.Uri(), .schema = schema});
    server.Sql("grant usage on schema " + schema + " to plain");
    server.Sql("grant select, insert, update, delete on all tables in schema " + schema +
               " to plain");
  }
  SUBCASE("in an empty schema of its own") {
    server.Sql("create schema " + schema + " authorization plain");
  }
  MustOpen({.uri = server.Uri("plain"), .schema = schema});
  server.Sql("drop owned by plain cascade");
  server.Sql("drop role plain");
}

TEST_CASE("it is told that there is no standby") {
  std::vector<std::string> told;
  MustOpen({.uri = SharedPostgres().Uri(),
            .schema = NewSchema(),
            .tell = [&told](bool, const std::string& what) { told.push_back(what); }});
  REQUIRE(told.size() == 1);
  CHECK(told[0].find("no standby") != std::string::npos);
}

TEST_CASE("a database that may lose what it acknowledged is refused, unless that is allowed") {
  PostgresServer server("fsync = off");
  CheckRefused({.uri = server.Uri()}, Code::kFailedPrecondition,
               {"fsync is off", "fsync = on", "--allow-loss"});
  std::vector<std::string> warned;
  const auto tell = [&warned](bool bad, const std::string& what) {
    if (bad) warned.push_back(what);
  };
  const auto opened = MustOpen({.uri = server.Uri(), .allow_loss = true, .tell = tell});
  CHECK(opened->facts().durability == "single");
  REQUIRE(warned.size() == 1);
  CHECK(warned[0].find("fsync is off") != std::string::npos);
  server.Configure("full_page_writes = off");
  server.Sql("select pg_reload_conf()");
  server.Stop(SIGINT);
  server.Start();
  CheckRefused({.uri = server.Uri()}, Code::kFailedPrecondition,
               {"full_page_writes is off", "full_page_writes = on", "--allow-loss"});
}

// What receives the database's log is a standby to it.
class Standby {
 public:
  explicit Standby(PostgresServer& server) : server_(server) {
    pid_ = fork();
    if (pid_ == 0) {
      const std::string host = server.folder();
      execlp("pg_receivewal", "pg_receivewal", "-h", host.c_str(), "-U", "tester", "-D",
             folder_.c_str(), "--no-sync", nullptr);
      _exit(127);
    }
    while (server.Sql("select count(*)::text from pg_stat_replication") == "0") {
      REQUIRE(waitpid(pid_, nullptr, WNOHANG) == 0);
      usleep(20'000);
    }
  }
  ~Standby() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    std::filesystem::remove_all(folder_);
  }

 private:
  PostgresServer& server_;
  const std::string folder_ = [] {
    std::string name = std::filesystem::temp_directory_path() / "dfsmr_wal_XXXXXX";
    return std::string(mkdtemp(name.data()));
  }();
  pid_t pid_ = 0;
};

TEST_CASE("a standby that commits do not wait for is refused, unless that is allowed") {
  PostgresServer server;
  CHECK(MustOpen({.uri = server.Uri()})->facts().durability == "single");
  const Standby standby(server);
  CheckRefused(
      {.uri = server.Uri()}, Code::kFailedPrecondition,
      {"a standby is attached", "synchronous_standby_names is empty", "Patroni", "--allow-loss"});
  CHECK(MustOpen({.uri = server.Uri(), .allow_loss = true})->facts().durability == "asynchronous");
  server.Sql("alter system set synchronous_standby_names = '*'");
  server.Sql("select pg_reload_conf()");
  while (server.Sql("show synchronous_standby_names") != "*") usleep(10'000);
  CHECK(MustOpen({.uri = server.Uri()})->facts().durability == "synchronous");
}

TEST_CASE("a store of a newer server, of other partitions or that has moved is refused") {
  const std::string schema = NewSchema();
  PostgresServer& server = SharedPostgres();
  const PgDatabase::Options options{.uri = server.Uri(), .schema = schema};
  MustOpen(options);
  CheckRefused({.uri = server.Uri(), .schema = schema, .partitions = 4}, Code::kFailedPrecondition,
               {"has 1 partitions", "4 are asked for", "for good"});
  server.Sql("update " + schema + ".cluster set moved = 'postgresql://elsewhere/db'");
  CheckRefused(options, Code::kFailedPrecondition,
               {"has moved to postgresql://elsewhere/db", "dsrv store unmark"});
  server.Sql("update " + schema + ".cluster set moved = '', level = 2");
  CheckRefused(options, Code::kFailedPrecondition, {"newer dsrv", "level 2"});
  server.Sql("update " + schema + ".cluster set level = 1, format = 9");
  CheckRefused(options, Code::kFailedPrecondition, {"newer dsrv", "format 9"});
}

TEST_CASE("what is no address is refused, and a password is never shown") {
  for (const char* uri : {"host=db1 password=sesame", "postgresql://u:sesame@[::1/db",
                          "postgresql://u:ses%zzame@db/x", "postgresql://db/x?password=sesame&y"}) {
    CAPTURE(uri);
    const auto parsed = ParsePgAddress(uri);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().code == Code::kInvalidArgument);
    CHECK(parsed.error().message.find("ses") == std::string::npos);
  }
  const auto parsed = ParsePgAddress("postgresql://me:sesame@db1:5433,db2/dfsmr?sslmode=prefer");
  REQUIRE(parsed);
  CHECK(parsed->shown == "postgresql://me@db1:5433,db2/dfsmr");
  CHECK(parsed->hosts.size() == 2);
  CheckRefused({.uri = "postgresql://me:sesame@127.0.0.1:1,127.0.0.1:2/db"}, Code::kUnavailable,
               {"postgresql://me@127.0.0.1:1,127.0.0.1:2/db cannot be reached",
                "127.0.0.1:1:", "127.0.0.1:2:"});
  CheckRefused({.uri = SharedPostgres().Uri(), .schema = "a; drop"}, Code::kInvalidArgument,
               {"--store-schema", "a; drop"});
}

TEST_CASE("what became of a transaction is told by the code of its failure") {
  for (const char* unknown : {"", "08006", "57P01", "57P02", "57P03", "40003"}) {
    CAPTURE(unknown);
    CHECK(PgFateOf(unknown) == PgFate::kUnknown);
  }
  for (const char* nothing : {"40001", "40P01", "53000", "53200", "53300", "25006"}) {
    CAPTURE(nothing);
    CHECK(PgFateOf(nothing) == PgFate::kNothing);
  }
  CHECK(PgFateOf("53100") == PgFate::kFull);
  CHECK(PgFateOf("22012") == PgFate::kFenced);
  for (const char* refused : {"42501", "42P01", "23505", "XX001"}) {
    CAPTURE(refused);
    CHECK(PgFateOf(refused) == PgFate::kRefused);
  }
}

TEST_CASE("a schema may have a name that is a word of SQL's, but not one of the database's own") {
  const auto database = MustOpen({.uri = SharedPostgres().Uri(), .schema = "order"});
  PgStore store(database, {});
  const auto epoch = store.Acquire(0);
  REQUIRE(epoch);
  Batch batch;
  batch.Put(std::string("\0\0\1k", 4), "v");
  REQUIRE(store.Write(0, *epoch, batch));
  CHECK(*store.Get(std::string("\0\0\1k", 4)) == "v");
  REQUIRE(MustOpen({.uri = SharedPostgres().Uri(), .schema = "order"}));
  CHECK_FALSE(IsPgSchema("information_schema"));
}

}  // namespace
}  // namespace dfsmr
