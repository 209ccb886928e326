// The store of logs, on a disk and in a database: what is kept of a visit and of the server, in
// which order it is read, and what a cursor finds when lines are gone.
#include "storage/logs/log_store.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "storage/logs/log_reader.h"
#include "storage/logs/rocks_table.h"
#include "storage/postgres/pg_logs.h"
#include "tests/storage/postgres/postgres_server.h"
#include "tests/storage/postgres/proxy.h"

namespace dfsmr {
namespace {

using Kind = LogStore::Standing::Kind;

constexpr Timestamp kNow = FromMicros(1'700'000'000'000'000);

class Disk {
 public:
  Disk() {
    static int count = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("dfsmr_logs_" + std::to_string(::getpid()) + "_" + std::to_string(++count));
    std::filesystem::remove_all(path_);
  }
  ~Disk() { std::filesystem::remove_all(path_); }
  Result<std::unique_ptr<LogTable>> Open(int, uint64_t bytes) const {
    return OpenRocksLogTable(path_, bytes);
  }

 private:
  std::filesystem::path path_;
};

class Database {
 public:
  Result<std::unique_ptr<LogTable>> Open(int times, uint64_t) const {
    return std::unique_ptr<LogTable>(
        std::make_unique<PgLogTable>(database_, 0, static_cast<Epoch>(times)));
  }

 private:
  const std::shared_ptr<PgDatabase> database_ =
      MustOpen({.uri = SharedPostgres().Uri(), .schema = NewSchema()});
};

template <typename Place>
class LogsIn {
 public:
  explicit LogsIn(uint64_t bytes = 1ull << 30) : bytes_(bytes) { Open(); }

  void Open() {
    store_.reset();
    auto table = place_.Open(++opened_, bytes_);
    REQUIRE(table);
    store_ = std::make_unique<LogStore>(
        *std::move(table), LogStore::Options{bytes_, kNow + std::chrono::seconds(opened_)});
    REQUIRE(store_->Load());
  }

  LogStore& operator*() { return *store_; }
  LogStore* operator->() { return store_.get(); }

  // Appends `count` lines of `size` bytes that begin with their number, from `first` on.
  void Append(const LogOwner& owner, const LogClaim& claim, uint64_t first, int count,
              size_t size = 8) {
    LogStore::Piece piece{owner, claim, {}};
    for (int i = 0; i < count; ++i) {
      std::string text = std::to_string(first) + " ";
      text.resize(std::max(size, text.size()), 'x');
      piece.lines.push_back({first++, kNow, 1, std::move(text)});
    }
    REQUIRE(store_->Append({&piece, 1}, kNow));
  }

  std::vector<LogEntry> Read(LogQuery query, uint64_t* position = nullptr) {
    LogReader reader(*store_, std::move(query));
    std::vector<LogEntry> all;
    for (bool more = true; more;) {
      auto portion = reader.Next(50'000);
      REQUIRE(portion);
      more = portion->more;
      for (LogEntry& entry : portion->entries) all.push_back(std::move(entry));
    }
    if (position) *position = reader.position();
    return all;
  }

 private:
  const Place place_;
  const uint64_t bytes_;
  int opened_ = 0;
  std::unique_ptr<LogStore> store_;
};

#define BOTH LogsIn<Disk>, LogsIn<Database>

LogClaim Claim(uint64_t visit, uint32_t attempt = 1, std::string node = "build") {
  return {std::to_string(visit) + "-" + std::to_string(attempt),
          std::move(node),
          visit,
          attempt,
          "w1",
          false};
}

std::vector<uint64_t> Numbers(const std::vector<LogEntry>& entries) {
  std::vector<uint64_t> numbers;
  for (const LogEntry& entry : entries) numbers.push_back(entry.line.number);
  return numbers;
}

uint64_t Text(const std::vector<LogEntry>& entries) {
  uint64_t bytes = 0;
  for (const LogEntry& entry : entries) bytes += entry.line.text.size();
  return bytes;
}

uint64_t AllLines(const std::vector<LogEntry>& entries) {
  uint64_t lines = entries.size();
  for (const LogEntry& entry : entries) lines += entry.left_out;
  return lines;
}

const LogOwner kSite{"default", "site-7", 11};

// Asks for one at a time.
LogStore::StandingOf Each(std::function<LogStore::Standing(const LogOwner&)> of) {
  return [of = std::move(of)](std::span<const LogOwner> owners) {
    std::vector<LogStore::Standing> all;
    for (const LogOwner& owner : owners) all.push_back(of(owner));
    return all;
  };
}

TEST_CASE_TEMPLATE(
    "lines are read as they were written, with what is known of their claim", Logs, BOTH) {
  Logs logs;
  LogClaim claim{"1-2-3", "build", 3, 2, "h1", true};
  LogStore::Piece piece{kSite, claim, {{1, kNow, 2, "compiling a.c"}, {5, kNow, 3, ""}}};
  REQUIRE(logs->Append({&piece, 1}, kNow));
  const auto entries = logs.Read({kSite});
  REQUIRE(entries.size() == 2);
  CHECK(*entries[0].claim == claim);
  CHECK(entries[0].line.text == "compiling a.c");
  CHECK(entries[0].line.stream == 2);
  CHECK(entries[0].line.time == kNow);
  CHECK(entries[0].left_out == 0);
  CHECK(entries[1].line.number == 5);
  CHECK(entries[1].left_out == 3);
  CHECK(logs->lines() == 2);
  CHECK(logs->left_out() == 3);
  CHECK(logs.Read({{"default", "site-7", 12}}).empty());
  CHECK(logs.Read({{"default", "site", 11}}).empty());
}

TEST_CASE_TEMPLATE("a line that is sent again is taken once, also after a restart", Logs, BOTH) {
  Logs logs;
  logs.Append(kSite, Claim(1), 1, 5);
  logs.Append(kSite, Claim(1), 1, 5);
  logs.Append(kSite, Claim(1), 4, 4);
  logs.Open();
  logs.Append(kSite, Claim(1), 6, 4);
  CHECK(Numbers(logs.Read({kSite})) == std::vector<uint64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9});
  logs.Append(kSite, Claim(1, 2), 1, 1);  // of another attempt
  CHECK(logs.Read({kSite}).size() == 10);
}

TEST_CASE_TEMPLATE(
    "of a visit its first 64 KiB and its last 1 MiB are kept, over all its attempts", Logs, BOTH) {
  Logs logs;
  constexpr int kLines = 10'000;
  for (int i = 0; i < kLines; i += 100) {
    logs.Append(kSite, Claim(1, i < 5'000 ? 1 : 2), static_cast<uint64_t>(i % 5'000 + 1), 100, 300);
  }
  const auto entries = logs.Read({kSite});
  CHECK(Text(entries) <= kLogHead + kLogTail);
  CHECK(Text(entries) > kLogHead + kLogTail - 600);
  CHECK(entries.front().line.number == 1);
  CHECK(entries.back().line.number == 5'000);
  CHECK(entries.back().claim->attempt == 2);
  CHECK(AllLines(entries) == kLines);
  CHECK(std::ranges::count_if(entries, [](const LogEntry& e) { return e.left_out > 0; }) == 1);
  CHECK(logs->bytes() < 3 << 20);

  // Another visit is not touched by it.
  logs.Append(kSite, Claim(2), 1, 10);
  CHECK(logs.Read({kSite, "", 2}).size() == 10);
  // Of an attempt its own lines count.
  CHECK(AllLines(logs.Read({kSite, "", 1, 2})) == 5'000);
  CHECK(AllLines(logs.Read({kSite, "", 1, 1})) < 5'000);  // none is behind those of the head
}

TEST_CASE_TEMPLATE("lines of several claims are read in the order in which they came", Logs, BOTH) {
  Logs logs;
  std::vector<std::pair<uint64_t, uint64_t>> sent;
  for (uint64_t i = 0; i < 9'000; ++i) {
    const uint64_t visit = i % 7 == 0 ? 1 : i % 3 + 2;
    const uint64_t number = static_cast<uint64_t>(
        std::ranges::count(sent, visit, &std::pair<uint64_t, uint64_t>::first) + 1);
    if (sent.size() < 300 || visit == 1) {
      logs.Append(kSite, Claim(visit), number, 1);
      sent.emplace_back(visit, number);
    }
  }
  const auto entries = logs.Read({kSite});
  REQUIRE(entries.size() == sent.size());
  for (size_t i = 0; i < sent.size(); ++i) {
    CHECK(entries[i].claim->visit == sent[i].first);
    CHECK(entries[i].line.number == sent[i].second);
  }
}

TEST_CASE_TEMPLATE(
    "filters: node with the nodes of the step, visit, attempt, tail, and a cursor", Logs, BOTH) {
  Logs logs;
  logs.Append(kSite, Claim(1, 1, "build"), 1, 3);
  logs.Append(kSite, Claim(2, 1, "build/finalize"), 1, 3);
  logs.Append(kSite, Claim(3, 1, "builder"), 1, 3);
  logs.Append(kSite, Claim(3, 2, "builder"), 1, 2);
  CHECK(logs.Read({kSite, "build"}).size() == 6);
  CHECK(logs.Read({kSite, "build/finalize"}).size() == 3);
  CHECK(logs.Read({kSite, "", 3}).size() == 5);
  CHECK(logs.Read({kSite, "", 3, 2}).size() == 2);
  CHECK(logs.Read({kSite, "", 0, 2}).size() == 2);
  const auto tail = logs.Read({kSite, "", 0, 0, 4});
  CHECK(Numbers(tail) == std::vector<uint64_t>{2, 3, 1, 2});
  CHECK(logs.Read({kSite, "build", 0, 0, 1}).back().claim->node == "build/finalize");
  CHECK(logs.Read({kSite, "", 0, 0, 100}).size() == 11);

  uint64_t position = 0;
  LogReader reader(*logs, {kSite});
  auto portion = reader.Next(1);
  REQUIRE(portion);
  REQUIRE(portion->entries.size() == 1);
  CHECK(portion->more);
  position = reader.position();
  CHECK(logs.Read({kSite, "", 0, 0, 0, position}).size() == 10);
  CHECK(logs.Read({kSite, "", 0, 0, 3, position}).size() == 3);
  (void)logs.Read({kSite}, &position);
  CHECK(logs.Read({kSite, "", 0, 0, 0, position}).empty());
  logs.Open();
  logs.Append(kSite, Claim(4), 1, 1);
  CHECK(logs.Read({kSite, "", 0, 0, 0, position}).size() == 1);
}

TEST_CASE_TEMPLATE(
    "a cursor of lines that are gone goes on with the next, and says how many are missing", Logs,
    BOTH) {
  Logs logs;
  logs.Append(kSite, Claim(1), 1, 700, 100);  // 64 KiB are 655 lines
  LogReader reader(*logs, {kSite});
  REQUIRE(reader.Next(UINT64_MAX));
  const uint64_t position = reader.position();
  for (uint64_t first = 701; first < 30'000; first += 100) {
    logs.Append(kSite, Claim(1), first, 100, 100);
  }
  const auto rest = logs.Read({kSite, "", 0, 0, 0, position});
  REQUIRE(!rest.empty());
  CHECK(rest.front().left_out == rest.front().line.number - 701);
  auto same = reader.Next(UINT64_MAX);  // nor does a reader that was too slow miss one uncounted
  REQUIRE(same);
  CHECK(same->entries.front().left_out == rest.front().left_out);
  // The gap directly in front of a tail is told, one further away is not.
  const auto kept = static_cast<uint32_t>(rest.size());
  CHECK(logs.Read({kSite, "", 0, 0, kept}).front().left_out == rest.front().line.number - 656);
  CHECK(logs.Read({kSite, "", 0, 0, kept - 1}).front().left_out == 0);
}

TEST_CASE_TEMPLATE("of the server so much is kept, and what stopped first goes first", Logs, BOTH) {
  Logs logs(1 << 20);
  std::map<std::string, LogStore::Standing> standing;
  const auto of =
      Each([&standing](const LogOwner& owner) { return standing[owner.instance]; });
  for (const char* id : {"a", "b", "c", "d"}) {
    for (uint64_t visit = 1; visit <= 4; ++visit) {
      logs.Append({"default", id, 1}, Claim(visit), 1, 100, 1'000);
    }
  }
  standing["c"] = {Kind::kStopped, kNow};
  standing["a"] = {Kind::kStopped, kNow + std::chrono::seconds(1)};
  const auto lines = [&](const char* id) { return logs.Read({{"default", id, 1}}).size(); };
  REQUIRE(logs->Shrink(logs->bound(), of));
  CHECK(logs->bytes() <= logs->bound());
  CHECK(lines("c") == 0);
  CHECK(lines("a") < 400);
  CHECK(lines("b") == 400);
  CHECK(lines("d") == 400);
  REQUIRE(logs->Shrink(600'000, of));  // those that run lose their first lines
  CHECK(lines("a") == 0);
  CHECK(lines("b") < 400);
  CHECK(lines("b") > 0);
  const LogEntry first = logs.Read({{"default", "b", 1}}).front();
  CHECK(first.left_out == first.line.number - 1);
  CHECK(lines("d") == 400);
  CHECK(*LogReader(*logs, {{"default", "c", 1}}).Ever());
  CHECK_FALSE(*LogReader(*logs, {{"default", "x", 1}}).Ever());

  logs.Append({"default", "b", 1}, Claim(4), 101, 5);  // it goes on, and nothing comes twice
  CHECK(logs.Read({{"default", "b", 1}}).back().line.number == 105);
  const uint64_t before = logs->bytes();
  logs.Open();
  CHECK(logs->bytes() == before);
  REQUIRE(logs->Shrink(0, of));
  CHECK(logs->bytes() == 0);
  CHECK(lines("d") == 0);
  logs.Append({"default", "d", 1}, Claim(4), 101, 1);
  const auto d = logs.Read({{"default", "d", 1}});
  REQUIRE(d.size() == 1);
  CHECK(d.front().left_out == 100);
}

TEST_CASE_TEMPLATE("one that was resumed is not among those that stopped first", Logs, BOTH) {
  Logs logs;
  std::map<std::string, LogStore::Standing> standing;
  const auto of =
      Each([&standing](const LogOwner& owner) { return standing[owner.instance]; });
  for (const char* id : {"a", "b"}) logs.Append({"default", id, 1}, Claim(1), 1, 10, 1'000);
  standing["a"] = {Kind::kStopped, kNow};
  standing["b"] = {Kind::kStopped, kNow + std::chrono::seconds(1)};
  REQUIRE(logs->Shrink(logs->bytes() - 1, of));
  CHECK(logs.Read({{"default", "a", 1}}).empty());
  logs.Append({"default", "a", 1}, Claim(2), 1, 10, 1'000);
  standing["a"] = {};
  REQUIRE(logs->Shrink(logs->bytes() - 1, of));
  CHECK(logs.Read({{"default", "b", 1}}).empty());
  CHECK(logs.Read({{"default", "a", 1}}).size() == 10);
}

TEST_CASE_TEMPLATE(
    "logs go with their instance, and not with another one of its name", Logs, BOTH) {
  Logs logs;
  const LogOwner next{kSite.ns, kSite.instance, 99};
  logs.Append(kSite, Claim(1), 1, 5);
  logs.Append(next, Claim(1), 1, 3);
  CHECK(logs.Read({next}).size() == 3);
  const auto of = Each([&](const LogOwner& owner) {
    return LogStore::Standing{owner == kSite ? Kind::kGone : Kind::kRuns};
  });
  const std::vector<LogStore::Name> names{{kSite.ns, "unknown"}, {kSite.ns, kSite.instance}};
  CHECK(*logs->DropGone(names, of));
  CHECK_FALSE(*logs->DropGone({names.data(), 1}, of));
  CHECK(*logs->DropGone(names, of));  // there may be others of its name
  CHECK(logs.Read({kSite}).empty());
  CHECK(logs.Read({next}).size() == 3);
  CHECK_FALSE(*LogReader(*logs, {kSite}).Ever());
  for (int i = 0; i < 600; ++i) {
    logs.Append({"default", "i" + std::to_string(i), 1}, Claim(1), 1, 1);
  }
  const auto none = Each([](const LogOwner&) { return LogStore::Standing{Kind::kGone}; });
  CHECK(*logs->SweepGone(none));
  while (*logs->SweepGone(none)) {
  }
  CHECK(logs->bytes() == 0);
  REQUIRE(logs->Reclaim());
}

TEST_CASE_TEMPLATE("what is known of many visits need not be in memory", Logs, BOTH) {
  Logs logs;
  std::vector<LogStore::Piece> pieces;
  for (uint64_t visit = 1; visit <= 20'500; ++visit) {
    pieces.push_back({kSite, Claim(visit), {{1, kNow, 1, "line"}}});
    if (pieces.size() < 500) continue;
    REQUIRE(logs->Append(pieces, kNow));
    pieces.clear();
  }
  logs.Append(kSite, Claim(1), 1, 2);
  CHECK(Numbers(logs.Read({kSite, "", 1})) == std::vector<uint64_t>{1, 2});
  CHECK(logs.Read({kSite}).size() == 20'501);
  CHECK(logs.Read({kSite}).back().claim->visit == 1);
}

TEST_CASE("lines are taken once, whatever becomes of the answers of the database") {
  Proxy proxy(SharedPostgres().folder());
  LogStore store(std::make_unique<PgLogTable>(MustOpen({.uri = proxy.Uri(), .schema = NewSchema()}),
                                              0, 1),
                 {1 << 30, kNow});
  REQUIRE(store.Load());
  LogReader follower(store, {kSite});
  std::vector<LogEntry> read;
  for (uint64_t first = 1; first <= 91; first += 10) {
    LogStore::Piece piece{kSite, Claim(1), {}};
    for (uint64_t number = first; number < first + 10; ++number) {
      piece.lines.push_back({number, kNow, 1, std::to_string(number)});
    }
    if (first % 3 == 1) proxy.Set(Proxy::Mode::kSwallow);
    if (first % 3 == 2) proxy.Cut();
    bool taken = false;
    for (int attempt = 0; attempt < 100 && !taken; ++attempt) {
      const auto appended = store.Append({&piece, 1}, kNow);
      taken = appended.has_value();
      if (!taken) REQUIRE(appended.error().code == Code::kUnavailable);
    }
    REQUIRE(taken);
    auto portion = follower.Next(UINT64_MAX);
    if (!portion) portion = follower.Next(UINT64_MAX);  // its connection was cut
    REQUIRE(portion);
    for (LogEntry& entry : portion->entries) read.push_back(std::move(entry));
  }
  CHECK(proxy.swallowed() > 0);
  REQUIRE(read.size() == 100);
  for (uint64_t number = 1; number <= 100; ++number) {
    CHECK(read[number - 1].line.number == number);
    CHECK(read[number - 1].left_out == 0);
  }
}

TEST_CASE("a cursor is a number") {
  CHECK(ParseLogCursor("") == 0);
  CHECK(ParseLogCursor(LogCursorText(17)) == 17);
  CHECK(ParseLogCursor(LogCursorText(UINT64_MAX)) == UINT64_MAX);
  for (const char* bad : {"x", "1x", " 1", "-1", "18446744073709551616"}) {
    CHECK_FALSE(ParseLogCursor(bad).has_value());
  }
}

}  // namespace
}  // namespace dfsmr
