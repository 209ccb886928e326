// Several owners, and databases that go away in the middle of a commit.
#include "storage/postgres/pg_store.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <thread>

#include "tests/storage/postgres/postgres_server.h"
#include "tests/storage/postgres/proxy.h"

namespace dfsmr {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

std::string RowKey(uint64_t number) {
  std::string digits = std::to_string(number);
  return std::string("\0\0\1", 3) + std::string(8 - digits.size(), '0') + digits;
}

Result<Ok> WriteRow(Store& store, Epoch epoch, uint64_t number, const std::string& value) {
  Batch batch;
  batch.Put(RowKey(number), value);
  batch.Put(std::string("\0\0\2count", 8), std::to_string(number));
  return store.Write(0, epoch, batch);
}

std::unique_ptr<PgStore> OpenStore(const std::string& uri, const std::string& schema,
                                   const PgStore::Options& options = {}) {
  return std::make_unique<PgStore>(MustOpen({.uri = uri, .schema = schema}), options);
}

Epoch AcquireOf(Store& store) {
  const auto epoch = store.Acquire(0);
  REQUIRE_MESSAGE(epoch, (epoch ? "" : epoch.error().message));
  return *epoch;
}

// Asks until it is so.
void Await(const std::function<bool()>& so) {
  for (int attempt = 0; attempt < 2'000; ++attempt) {
    if (so()) return;
    usleep(5'000);
  }
  FAIL("it never came");
}

// Backends that wait for this in a statement of a store.
std::string Waiting(const std::string& event) {
  return "select count(*)::text from pg_stat_activity where wait_event = '" + event +
         "' and application_name = 'dsrv'";
}

TEST_CASE("of several owners the last one writes, and the others are told for sure") {
  const std::string schema = NewSchema();
  const auto first = OpenStore(SharedPostgres().Uri(), schema);
  const auto second = OpenStore(SharedPostgres().Uri(), schema);
  const Epoch before = AcquireOf(*first);
  REQUIRE(WriteRow(*first, before, 1, "first"));
  const Epoch after = AcquireOf(*second);
  CHECK(after == before + 1);
  const auto late = WriteRow(*first, before, 2, "late");
  REQUIRE_FALSE(late);
  CHECK(late.error().code == Code::kAborted);
  CHECK(late.error().message.find("under epoch 2") != std::string::npos);
  CHECK(first->counts().fenced == 1);
  REQUIRE(WriteRow(*second, after, 2, "second"));
  CHECK(*second->Get(RowKey(2)) == "second");
  CHECK(*second->Get(RowKey(1)) == "first");
}

TEST_CASE("what the roster has taken is not taken again") {
  const auto store = OpenStore(SharedPostgres().Uri(), NewSchema());
  AcquireOf(*store);
  store->Hold(0, {.epoch = 1, .seq = 0});
  const Epoch held = AcquireOf(*store);
  CHECK(held == 1);
  REQUIRE(WriteRow(*store, held, 1, "v"));
  CHECK(AcquireOf(*store) == 2);
}

TEST_CASE("owners that contend write a history without gaps, which has what was acknowledged") {
  const std::string schema = NewSchema();
  std::atomic<int> takes = 0;
  std::mutex mutex;
  std::map<uint64_t, std::string> acknowledged;
  const auto contend = [&](const std::string& name) {
    const auto store = OpenStore(SharedPostgres().Uri(), schema);
    while (takes < 60) {
      const auto epoch = store->Acquire(0);
      ++takes;
      const auto count = store->Get(std::string("\0\0\2count", 8));
      uint64_t next = 1 + (*count ? std::stoull(**count) : 0);
      for (; WriteRow(*store, *epoch, next, name + std::to_string(*epoch)); ++next) {
        const std::lock_guard lock(mutex);
        acknowledged[next] = name + std::to_string(*epoch);
        if (next % 5 == 0) break;
      }
    }
  };
  std::thread a(contend, "a"), b(contend, "b"), c(contend, "c");
  a.join();
  b.join();
  c.join();
  const auto store = OpenStore(SharedPostgres().Uri(), schema);
  uint64_t expected = 0;
  const auto visit = [&](std::string_view key, std::string_view value) {
    CHECK(key == RowKey(++expected));
    CHECK(acknowledged[expected] == value);
    return true;
  };
  REQUIRE(store->ScanOnce(std::string("\0\0\1", 3), std::string("\0\0\2", 3), visit));
  CHECK(expected == acknowledged.size());
  CHECK(expected > 20);
}

TEST_CASE("a commit whose answer is lost is found, and not done twice") {
  const std::string schema = NewSchema();
  Proxy proxy(SharedPostgres().folder());
  const auto store = OpenStore(proxy.Uri(), schema);
  const Epoch epoch = AcquireOf(*store);
  REQUIRE(WriteRow(*store, epoch, 1, "1"));
  proxy.Set(Proxy::Mode::kSwallow);
  REQUIRE(WriteRow(*store, epoch, 2, "2"));
  CHECK(proxy.swallowed() == 1);
  CHECK(store->counts().unknown == 1);
  REQUIRE(WriteRow(*store, epoch, 3, "3"));
  CHECK(*store->Get(RowKey(2)) == "2");
  CHECK(SharedPostgres().Sql("select seq::text from " + schema + ".part") == "3");
}

TEST_CASE("a write that never arrived is sent again, the same bytes") {
  const std::string schema = NewSchema();
  Proxy proxy(SharedPostgres().folder());
  const auto store = OpenStore(proxy.Uri(), schema);
  const Epoch epoch = AcquireOf(*store);
  REQUIRE(WriteRow(*store, epoch, 1, "1"));
  proxy.Set(Proxy::Mode::kRefuse);
  proxy.Cut();
  auto written = std::async(std::launch::async, [&] { return WriteRow(*store, epoch, 2, "2"); });
  Await([&] { return store->waiting() > 100ms; });
  proxy.Set(Proxy::Mode::kPass);
  REQUIRE(written.get());
  CHECK(*store->Get(RowKey(2)) == "2");
  CHECK(SharedPostgres().Sql("select seq::text from " + schema + ".part") == "2");
  CHECK(store->waiting() == Duration::zero());
}

TEST_CASE("a database that answers no more is left for one that does") {
  const std::string schema = NewSchema();
  Proxy proxy(SharedPostgres().folder());
  const auto store = OpenStore(proxy.Uri(), schema);
  const Epoch epoch = AcquireOf(*store);
  REQUIRE(WriteRow(*store, epoch, 1, "1"));
  proxy.Set(Proxy::Mode::kFreeze);
  auto written = std::async(std::launch::async, [&] { return WriteRow(*store, epoch, 2, "2"); });
  Await([&] { return store->counts().unknown > 0; });
  proxy.Cut();
  proxy.Set(Proxy::Mode::kPass);
  REQUIRE(written.get());
  CHECK(*store->Get(RowKey(2)) == "2");
}

TEST_CASE("who is superseded after a commit without an answer cannot know") {
  const std::string schema = NewSchema();
  Proxy proxy(SharedPostgres().folder());
  const auto store = OpenStore(proxy.Uri(), schema);
  const Epoch epoch = AcquireOf(*store);
  REQUIRE(WriteRow(*store, epoch, 1, "1"));
  proxy.AfterSwallow(Proxy::Mode::kRefuse);
  proxy.Set(Proxy::Mode::kSwallow);
  auto written = std::async(std::launch::async, [&] { return WriteRow(*store, epoch, 2, "2"); });
  Await([&] { return proxy.swallowed() == 1; });
  const auto next = OpenStore(SharedPostgres().Uri(), schema);
  AcquireOf(*next);
  CHECK(*next->Get(RowKey(2)) == "2");  // it had arrived
  proxy.Set(Proxy::Mode::kPass);
  const auto outcome = written.get();
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == Code::kUnavailable);
  CHECK(outcome.error().message.find("nobody knows") != std::string::npos);
}

TEST_CASE("who gives up waits no more") {
  Proxy proxy(SharedPostgres().folder());
  const auto store = OpenStore(proxy.Uri(), NewSchema());
  const Epoch epoch = AcquireOf(*store);
  proxy.Set(Proxy::Mode::kRefuse);
  proxy.Cut();
  auto written = std::async(std::launch::async, [&] { return WriteRow(*store, epoch, 1, "1"); });
  auto read = std::async(std::launch::async, [&] { return store->Get(RowKey(1)); });
  Await([&] { return store->waiting() > 100ms; });
  store->GiveUp();
  const auto outcome = written.get();
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == Code::kUnavailable);
  CHECK_FALSE(read.get());
}

TEST_CASE("a scan that loses the database in the middle goes on where it was") {
  Proxy proxy(SharedPostgres().folder());
  const auto store = OpenStore(proxy.Uri(), NewSchema());
  const Epoch epoch = AcquireOf(*store);
  Batch batch;
  constexpr uint64_t kRows = 2'500;
  for (uint64_t number = 1; number <= kRows; ++number) batch.Put(RowKey(number), "v");
  REQUIRE(store->Write(0, epoch, batch));
  const std::string begin("\0\0\1", 3);
  const std::string end("\0\0\2", 3);
  for (const bool reverse : {false, true}) {
    CAPTURE(reverse);
    uint64_t seen = 0;
    std::future<void> back;
    const auto visit = [&](std::string_view key, std::string_view) {
      ++seen;
      CHECK(key == RowKey(reverse ? kRows + 1 - seen : seen));
      if (seen == 50) {
        proxy.Set(Proxy::Mode::kRefuse);
        proxy.Cut();
        back = std::async(std::launch::async, [&] {
          Await([&] { return store->waiting() > 200ms; });
          proxy.Set(Proxy::Mode::kPass);
        });
      }
      return true;
    };
    REQUIRE(store->Scan(begin, end, visit, reverse));
    CHECK(seen == kRows);
  }
}

TEST_CASE("what is read waits for the database as what is written does, and it shows") {
  Proxy proxy(SharedPostgres().folder());
  const auto store = OpenStore(proxy.Uri(), NewSchema());
  AcquireOf(*store);
  CHECK(store->waiting() == Duration::zero());
  proxy.Set(Proxy::Mode::kRefuse);
  proxy.Cut();
  auto read = std::async(std::launch::async, [&] { return store->Get(RowKey(1)); });
  Await([&] { return store->waiting() > 100ms; });
  proxy.Set(Proxy::Mode::kPass);
  CHECK(read.get());
  CHECK(store->waiting() == Duration::zero());
}

TEST_CASE("however many snapshots are held, the database has so many connections and no more") {
  const auto store = OpenStore(SharedPostgres().Uri(), NewSchema(), {.readers = 2});
  const Epoch epoch = AcquireOf(*store);
  REQUIRE(WriteRow(*store, epoch, 1, "1"));
  std::vector<std::future<std::unique_ptr<const View>>> asked;
  for (int i = 0; i < 14; ++i) {
    asked.push_back(std::async(std::launch::async, [&] { return store->Snapshot(); }));
  }
  std::vector<std::unique_ptr<const View>> held;
  for (auto& one : asked) held.push_back(one.get());
  const auto good = std::ranges::count_if(
      held, [](const auto& view) { return view->Get(RowKey(1)).has_value(); });
  CHECK(good == 10);
  CHECK(store->counts().readers.busy == 10);
  CHECK(*store->Get(RowKey(1)) == "1");  // what is short has some left
  held.clear();
  CHECK(store->Snapshot()->Get(RowKey(1)));
}

TEST_CASE("a database that has forgotten what it acknowledged is no place to go on") {
  const std::string schema = NewSchema();
  const auto store =
      OpenStore(SharedPostgres().Uri(), schema, {.patience = {.stale = 100ms}});
  const Epoch epoch = AcquireOf(*store);
  REQUIRE(WriteRow(*store, epoch, 1, "1"));
  SharedPostgres().Sql("update " + schema + ".part set seq = seq - 1");
  const auto outcome = WriteRow(*store, epoch, 2, "2");
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == Code::kDataLoss);
}

TEST_CASE("a write that takes longer than any other so far gets done") {
  const std::string schema = NewSchema();
  const auto store = OpenStore(SharedPostgres().Uri(), schema, {.patience = {.first = 50ms}});
  const Epoch epoch = AcquireOf(*store);
  SharedPostgres().Sql("create function " + schema +
                       ".slow() returns trigger language plpgsql as $$ begin perform "
                       "pg_sleep(0.35); return new; end $$");
  SharedPostgres().Sql("create trigger slow before insert on " + schema +
                       ".p0000 for each statement execute function " + schema + ".slow()");
  auto written = std::async(std::launch::async, [&] { return WriteRow(*store, epoch, 1, "1"); });
  if (written.wait_for(30s) != std::future_status::ready) store->GiveUp();
  CHECK(written.get());
}

TEST_CASE("a snapshot fails soon where there is no database, and others come when it is back") {
  Proxy proxy(SharedPostgres().folder());
  const auto store = OpenStore(proxy.Uri(), NewSchema());
  const Epoch epoch = AcquireOf(*store);
  REQUIRE(WriteRow(*store, epoch, 1, "1"));
  const auto before = store->Snapshot();
  CHECK(*before->Get(RowKey(1)) == "1");
  proxy.Set(Proxy::Mode::kRefuse);
  proxy.Cut();
  CHECK(before->Get(RowKey(1)).error().code == Code::kUnavailable);
  CHECK(store->Snapshot()->Get(RowKey(1)).error().code == Code::kUnavailable);
  proxy.Set(Proxy::Mode::kPass);
  CHECK(*store->Snapshot()->Get(RowKey(1)) == "1");
}

// With a standby that never comes, commits wait for it.
class WaitsForStandby {
 public:
  WaitsForStandby() : server_("synchronous_standby_names = ''") {
    store_ = OpenStore(server_.Uri(), "dfsmr");
    epoch_ = AcquireOf(*store_);
    REQUIRE(WriteRow(*store_, epoch_, 1, "1"));
    SetStandby("nobody");
  }
  // A write that waits in its commit.
  std::future<Result<Ok>> Write() {
    auto written =
        std::async(std::launch::async, [this] { return WriteRow(*store_, epoch_, 2, "2"); });
    AwaitCommit();
    return written;
  }
  void AwaitCommit() {
    Await([this] { return server_.Sql(Waiting("SyncRep")) != "0"; });
  }
  void Each(const std::string& function) {
    server_.Sql("select " + function + "(pid) from pg_stat_activity where wait_event = 'SyncRep'");
  }
  void SetStandby(const std::string& name) {
    server_.Sql("alter system set synchronous_standby_names = '" + name + "'");
    server_.Sql("select pg_reload_conf()");
    Await([&] { return server_.Sql("show synchronous_standby_names") == name; });
  }
  // The write is there, once, now that commits do not wait any more.
  void CheckWritten(std::future<Result<Ok>> written) {
    CHECK(written.wait_for(100ms) == std::future_status::timeout);
    SetStandby("");
    REQUIRE(written.get());
    CHECK(store_->counts().unknown >= 1);
    CHECK(*store_->Get(RowKey(2)) == "2");
    CHECK(server_.Sql("select seq::text from dfsmr.part") == "2");
  }

 private:
  PostgresServer server_;
  std::unique_ptr<PgStore> store_;
  Epoch epoch_ = 0;
};

TEST_CASE("a commit that stops waiting for its standby is not answered until the standby has it") {
  WaitsForStandby waits;
  auto written = waits.Write();
  SUBCASE("its wait is cancelled: success, with a warning") { waits.Each("pg_cancel_backend"); }
  SUBCASE("its backend is ended") { waits.Each("pg_terminate_backend"); }
  waits.AwaitCommit();  // of what finds out about it
  waits.CheckWritten(std::move(written));
}

TEST_CASE(
    "a backend that is ended before its commit has written nothing; the write is sent again") {
  const std::string schema = NewSchema();
  const auto store = OpenStore(SharedPostgres().Uri(), schema);
  const Epoch epoch = AcquireOf(*store);
  const auto address = ParsePgAddress(SharedPostgres().Uri());
  const auto other = PgConnection::Open(*address, 0);
  const PgStatement begin{"begin", "begin"};
  const PgStatement lock{"lock", "update " + schema + ".part set feed = feed"};
  const PgStatement commit{"commit", "commit"};
  const PgCall calls[] = {{begin}, {lock}};
  REQUIRE_FALSE((*other)->Run(calls, 3s).failure);
  auto written = std::async(std::launch::async, [&] { return WriteRow(*store, epoch, 1, "1"); });
  Await([&] { return SharedPostgres().Sql(Waiting("transactionid")) == "1"; });
  SharedPostgres().Sql(
      "select pg_terminate_backend(pid) from pg_stat_activity where wait_event = 'transactionid'");
  Await([&] { return store->counts().unknown == 1; });
  const PgCall end{commit};
  REQUIRE_FALSE((*other)->Run({&end, 1}, 3s).failure);
  REQUIRE(written.get());
  CHECK(SharedPostgres().Sql("select seq::text from " + schema + ".part") == "1");
  CHECK(*store->Get(RowKey(1)) == "1");
}

TEST_CASE("a database that crashes again and again loses nothing that was acknowledged") {
  PostgresServer server;
  const auto store = OpenStore(server.Uri(), "dfsmr");
  const Epoch epoch = AcquireOf(*store);
  std::atomic<uint64_t> acknowledged = 0;
  std::atomic<bool> over = false;
  std::thread owner([&] {
    for (uint64_t number = 1; !over; ++number) {
      if (!WriteRow(*store, epoch, number, std::to_string(number))) return;
      acknowledged = number;
    }
  });
  for (int crash = 0; crash < 3; ++crash) {
    const uint64_t before = acknowledged;
    Await([&] { return acknowledged > before + 50; });
    server.Stop(SIGQUIT);
    server.Start();
  }
  const uint64_t before = acknowledged;
  Await([&] { return acknowledged > before + 50; });
  over = true;
  owner.join();
  uint64_t found = 0;
  const auto count = [&](std::string_view key, std::string_view) {
    CHECK(key == RowKey(++found));
    return true;
  };
  REQUIRE(store->ScanOnce(std::string("\0\0\1", 3), std::string("\0\0\2", 3), count));
  CHECK(found == acknowledged);
}

TEST_CASE("a primary that was deposed is not read") {
  PostgresServer server;
  Proxy proxy(server.folder());
  const auto store = OpenStore(proxy.Uri(), "dfsmr");
  const Epoch epoch = AcquireOf(*store);
  REQUIRE(WriteRow(*store, epoch, 1, "old"));
  // The one that will be deposed has the store as it is now.
  server.Stop(SIGINT);
  PostgresServer deposed;
  deposed.Stop(SIGINT);
  std::filesystem::remove_all(deposed.folder() / "data");
  REQUIRE(
      std::system(("cp -a " + (server.folder() / "data").string() + " " + deposed.folder().string())
                      .c_str()) == 0);
  deposed.Configure("");
  deposed.Start();
  server.Start();
  REQUIRE(WriteRow(*store, epoch, 1, "new"));
  proxy.Aim(deposed.folder());
  proxy.Cut();
  auto read = std::async(std::launch::async, [&] { return store->Get(RowKey(1)); });
  auto snapshot = std::async(std::launch::async, [&] {
    while (true) {
      const auto value = store->Snapshot()->Get(RowKey(1));
      if (value) return **value;
    }
  });
  auto written = std::async(std::launch::async, [&] { return WriteRow(*store, epoch, 2, "2"); });
  Await([&] { return store->counts().stale >= 3; });
  proxy.Aim(server.folder());
  proxy.Cut();
  CHECK(*read.get() == "new");
  CHECK(snapshot.get() == "new");
  REQUIRE(written.get());
  CHECK(*store->Get(RowKey(2)) == "2");
}

}  // namespace
}  // namespace dfsmr
