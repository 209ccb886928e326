// Backups as streams and as folders: what goes in comes out, and what is not whole is told.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "storage/backup/folders.h"
#include "storage/backup/pack.h"
#include "storage/backup/read.h"
#include "storage/backup/tar.h"
#include "tests/storage/rocks/temporary_folder.h"

namespace dfsmr {
namespace {

namespace fs = std::filesystem;

void Put(const fs::path& path, const std::string& bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string Text(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// Bytes that do not compress.
std::string Noise(size_t size, uint64_t seed = 1) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    byte = static_cast<char>(seed >> 56);
  }
  return bytes;
}

BackupManifest At(int minute) {
  return {.time = FromMicros(1'769'846'400'123'456 + minute * 60'000'000LL),
          .cursor = "0.7.abc",
          .incarnation = "abc",
          .version = "1.0.0",
          .level = kBackupLevel,
          .files = {}};
}

using Files = std::map<std::string, std::string>;

void Fill(const fs::path& folder, const Files& files) {
  for (const auto& [name, bytes] : files) Put(folder / name, bytes);
}

const Files kFiles = {{"CURRENT", "MANIFEST-000004\n"},
                      {"000012.sst", Noise(1'000'000)},
                      {"000013.sst", std::string(5'000, 'x')},
                      {"empty", ""},
                      {"logs/000001.sst", Noise(512)}};

std::string Pack(const fs::path& folder) {
  std::string stream;
  auto packed = PackBackup(folder, At(0), {.give = [&stream](std::string_view bytes) {
                             stream += bytes;
                             return Result<Ok>(Ok{});
                           }});
  REQUIRE(packed);
  return stream;
}

struct Taken {
  Files files;
  BackupRead read;
};
Taken Read(const fs::path& path) {
  Taken taken;
  auto read = ReadBackup(path, [&](const std::string& name, std::string_view piece) {
    taken.files[name] += piece;
    return Result<Ok>(Ok{});
  });
  REQUIRE(read);
  taken.read = *read;
  return taken;
}

std::string Problems(const fs::path& path) {
  std::string all;
  for (const std::string& problem : Read(path).read.problems) all += problem + "\n";
  return all;
}

TEST_CASE("what is packed is read again, with what the manifest says") {
  TemporaryFolder folder;
  Fill(folder / "copy", kFiles);
  Put(folder / "backup", Pack(folder / "copy"));
  const Taken taken = Read(folder / "backup");
  CHECK(taken.read.problems.empty());
  CHECK(taken.files == kFiles);
  CHECK(taken.read.files == kFiles.size());
  CHECK(taken.read.manifest.time == At(0).time);
  CHECK(taken.read.manifest.cursor == "0.7.abc");
  CHECK(taken.read.manifest.files.size() == kFiles.size());
}

TEST_CASE("tar itself can read what is packed") {
  TemporaryFolder folder;
  Fill(folder / "copy", kFiles);
  Put(folder / "backup", Pack(folder / "copy"));
  fs::create_directories(folder / "out");
  const std::string command = "tar -C " + (folder / "out").string() + " --zstd -xf " +
                              (folder / "backup").string() + " 2>/dev/null";
  if (std::system("tar --zstd -cf /dev/null /dev/null 2>/dev/null") != 0) return;  // no zstd
  REQUIRE(std::system(command.c_str()) == 0);
  for (const auto& [name, bytes] : kFiles) CHECK(Text(folder / "out" / name) == bytes);
  CHECK(Problems(folder / "out").empty());  // a folder with a manifest is a backup, too
}

TEST_CASE("a stream that is cut anywhere is not whole") {
  TemporaryFolder folder;
  Fill(folder / "copy", {{"CURRENT", "x"}, {"000012.sst", Noise(3'000)}});
  const std::string stream = Pack(folder / "copy");
  for (size_t size = 0; size < stream.size(); size += 97) {
    CAPTURE(size);
    Put(folder / "backup", stream.substr(0, size));
    CHECK(Problems(folder / "backup") != "");
  }
}

TEST_CASE("a stream with another bit is not whole") {
  TemporaryFolder folder;
  Fill(folder / "copy", {{"CURRENT", "x"}, {"000012.sst", Noise(3'000)}});
  const std::string stream = Pack(folder / "copy");
  for (size_t at = 0; at < stream.size(); at += 61) {
    CAPTURE(at);
    std::string damaged = stream;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    Put(folder / "backup", damaged);
    CHECK(Problems(folder / "backup") != "");
  }
}

TEST_CASE("a folder with another byte, file or without one is not whole") {
  TemporaryFolder folder;
  Fill(folder / "copy", kFiles);
  REQUIRE(SaveBackup(folder / "copy", At(0), folder / "to", nullptr));
  const fs::path saved = folder / "to/dfsmr-20260131T080000Z";
  REQUIRE(fs::exists(saved));
  CHECK(Problems(saved) == "");
  Put(saved / "more", "x");
  CHECK(Problems(saved) == "more is not in the manifest\n");
  fs::remove(saved / "more");
  Put(saved / "CURRENT", "MANIFEST-000005\n");
  CHECK(Problems(saved).starts_with("CURRENT is damaged: its SHA-256 is "));
  fs::remove(saved / "CURRENT");
  CHECK(Problems(saved) == "CURRENT is missing\n");
  fs::remove(saved / "manifest.json");
  CHECK(Problems(saved) == "it has no manifest.json, which a whole backup ends with\n");
}

TEST_CASE("a backup of a newer dsrv is refused by its version") {
  TemporaryFolder folder;
  std::string text = ToJson(At(0));
  text.replace(text.find("\"level\": 1"), 10, "\"level\": 2");
  text.replace(text.find("1.0.0"), 5, "2.5.0");
  Put(folder / "backup/manifest.json", text);
  const auto read = ReadBackup(folder / "backup", nullptr);
  REQUIRE(!read);
  CHECK(read.error().code == Code::kFailedPrecondition);
  CHECK(read.error().message.find("2.5.0") != std::string::npos);
}

TEST_CASE("names that lead out of the folder are no files of a backup") {
  for (const char* name : {"", "/etc/passwd", "../x", "a/../x", "a/b/c", ".hidden", "a/", "a b"}) {
    CAPTURE(name);
    CHECK(!IsBackupFileName(name));
  }
  CHECK(IsBackupFileName("logs/OPTIONS-000007"));
  std::string seen;
  BackupTarReader tar([&seen](const std::string& name, std::string_view) {
    seen = name;
    return Result<Ok>(Ok{});
  });
  REQUIRE(tar.Feed(TarHeader("./CURRENT", 0)));
  CHECK(seen == "CURRENT");
}

TEST_CASE("a file of more than 8 GiB has its size in the header") {
  const uint64_t size = (uint64_t{11} << 30) + 5;
  uint64_t got = 0;
  bool ended = false;
  BackupTarReader tar([&](const std::string&, std::string_view piece) {
    got += piece.size();
    ended = ended || piece.empty();
    return Result<Ok>(Ok{});
  });
  REQUIRE(tar.Feed(TarHeader("000012.sst", size)));
  const std::string block(64 << 20, 'x');
  for (uint64_t left = size + TarPadding(size); left > 0;) {
    const auto piece = static_cast<size_t>(std::min<uint64_t>(left, block.size()));
    REQUIRE(tar.Feed(std::string_view(block).substr(0, piece)));
    left -= piece;
  }
  CHECK(got == size);
  CHECK(ended);
  CHECK(!tar.Finish());
  REQUIRE(tar.Feed(std::string(1024, '\0')));
  CHECK(tar.Finish());
}

TEST_CASE("tables that were in the backup before are hard links to it") {
  TemporaryFolder folder;
  Fill(folder / "copy", kFiles);
  REQUIRE(SaveBackup(folder / "copy", At(0), folder / "to", nullptr));
  // On another disk tables could not be links to the store: here they are new files.
  fs::remove_all(folder / "copy");
  Files later = kFiles;
  later.erase("000013.sst");
  later["000014.sst"] = "new";
  Fill(folder / "copy", later);
  size_t read = 0;
  REQUIRE(SaveBackup(folder / "copy", At(1), folder / "to", [&read](size_t bytes) {
    read += bytes;
    return Result<Ok>(Ok{});
  }));
  CHECK(read < 1'000);
  const auto links = [&](const char* name) {
    return fs::hard_link_count(folder / "to" / "dfsmr-20260131T080100Z" / name);
  };
  CHECK(links("000012.sst") == 2);
  CHECK(links("logs/000001.sst") == 2);
  CHECK(links("CURRENT") == 1);
  CHECK(Problems(folder / "to/dfsmr-20260131T080000Z") == "");
  CHECK(Problems(folder / "to/dfsmr-20260131T080100Z") == "");
}

TEST_CASE("tables of another incarnation are never taken for the same") {
  TemporaryFolder folder;
  Fill(folder / "copy", {{"000012.sst", "one"}});
  REQUIRE(SaveBackup(folder / "copy", At(0), folder / "to", nullptr));
  fs::remove_all(folder / "copy");
  Fill(folder / "copy", {{"000012.sst", "two"}});
  BackupManifest other = At(1);
  other.incarnation = "abd";
  REQUIRE(SaveBackup(folder / "copy", other, folder / "to", nullptr));
  CHECK(Text(folder / "to/dfsmr-20260131T080100Z/000012.sst") == "two");
}

TEST_CASE("the oldest go, and what is no backup stays") {
  TemporaryFolder folder;
  Fill(folder / "copy", kFiles);
  for (int minute = 0; minute < 4; ++minute) {
    REQUIRE(SaveBackup(folder / "copy", At(minute), folder / "to", nullptr));
  }
  Put(folder / "to/notes", "mine");
  Put(folder / "to/.dfsmr-20260131T070000Z/CURRENT", "half made by a crash");
  REQUIRE(DropBackups(folder / "to", 2));
  auto left = ListBackups(folder / "to");
  REQUIRE(left);
  CHECK(*left == std::vector<fs::path>{folder / "to" / "dfsmr-20260131T080200Z",
                                       folder / "to" / "dfsmr-20260131T080300Z"});
  CHECK(Text(folder / "to/notes") == "mine");
  CHECK(!fs::exists(folder / "to/.dfsmr-20260131T070000Z"));
  CHECK(Problems(left->front()) == "");
}

TEST_CASE("what ends a backup in the middle leaves nothing under its name") {
  TemporaryFolder folder;
  Fill(folder / "copy", kFiles);
  const auto ended = SaveBackup(folder / "copy", At(0), folder / "to", [](size_t) -> Result<Ok> {
    return Error{Code::kUnavailable, Reason::kNone, "the server stops"};
  });
  REQUIRE(!ended);
  CHECK(ended.error().message == "the server stops");
  CHECK(fs::is_empty(folder / "to"));
}

TEST_CASE("times are written and read") {
  const Timestamp time = At(0).time;
  CHECK(BackupTimeText(time) == "2026-01-31T08:00:00.123456Z");
  CHECK(NameOfTime(time) == "20260131T080000Z");
  REQUIRE(ParseBackupTime(BackupTimeText(time)));
  CHECK(*ParseBackupTime(BackupTimeText(time)) == time);
  for (const char* text : {"", "2026-02-30T08:00:00.000000Z", "2026-01-31T25:00:00.000000Z",
                           "2026-01-31T08:00:00.000000Zx"}) {
    CAPTURE(text);
    CHECK(!ParseBackupTime(text));
  }
}

}  // namespace
}  // namespace dfsmr
