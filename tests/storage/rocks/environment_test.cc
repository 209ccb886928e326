// RocksDB's own log beside a store: its lines are in its file, and a disk that takes none is borne.
#include "storage/rocks/environment.h"

#include <doctest/doctest.h>
#include <rocksdb/env.h>

#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "storage/rocks/rocks_store.h"
#include "tests/storage/rocks/temporary_folder.h"

namespace dfsmr {
namespace {

std::shared_ptr<rocksdb::Logger> LogAt(const std::string& path) {
  std::shared_ptr<rocksdb::Logger> log;
  REQUIRE(StoreEnvironment()->NewLogger(path, &log).ok());
  return log;
}

std::vector<std::string> LinesOf(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

TEST_CASE("lines of the log are written at once, with their time") {
  const TemporaryFolder folder;
  const auto log = LogAt(folder / "LOG");
  rocksdb::Info(log, "flushed %d tables of %s", 3, std::string(5'000, 'x').c_str());
  rocksdb::Warn(log, "has its end\n");

  const auto lines = LinesOf(folder / "LOG");
  REQUIRE(lines.size() == 2);
  const std::string stamp = R"(\d{4}/\d\d/\d\d-\d\d:\d\d:\d\d\.\d{6} \d+ )";
  CHECK(std::regex_match(lines[0].substr(0, 80), std::regex(stamp + "flushed 3 tables of x+")));
  CHECK(lines[0].ends_with(std::string(5'000, 'x')));
  CHECK(std::regex_match(lines[1], std::regex(stamp + R"(\[WARN\] has its end)")));
  CHECK(log->GetLogFileSize() == std::filesystem::file_size(folder / "LOG"));
}

TEST_CASE("a full disk takes no lines, and nobody ends by that") {
  const auto log = LogAt("/dev/full");
  for (int i = 0; i < 3; ++i) {
    rocksdb::Info(log, "line %d", i);
    rocksdb::LogFlush(log);
  }
  CHECK(log->GetLogFileSize() == 0);
}

TEST_CASE("a log that cannot be opened is told with its path") {
  std::shared_ptr<rocksdb::Logger> log;
  const auto status = StoreEnvironment()->NewLogger("/nowhere/LOG", &log);
  CHECK(status.ToString().find("/nowhere/LOG: No such file") != std::string::npos);
}

TEST_CASE("a store has its log, and keeps that of the time before") {
  const TemporaryFolder folder;
  for (int i = 0; i < 2; ++i) REQUIRE(RocksStore::Open({.path = folder / "data"}));
  CHECK_FALSE(LinesOf(folder / "data" / "LOG").empty());
  size_t logs = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder / "data")) {
    if (file.path().filename().string().starts_with("LOG")) ++logs;
  }
  CHECK(logs == 2);
}

}  // namespace
}  // namespace dfsmr
