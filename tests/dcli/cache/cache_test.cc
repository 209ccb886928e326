#include "dcli/cache/cache.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "storage/archive/files.h"

namespace dfsmr::cli {
namespace {

namespace fs = std::filesystem;

// A folder that goes with its test.
struct Place {
  Place() {
    path = (fs::temp_directory_path() / "cache-test-XXXXXX").string();
    REQUIRE(mkdtemp(path.data()) != nullptr);
  }
  ~Place() {
    for (const auto& one : fs::directory_iterator(path + "/cache/packages")) {
      for (const auto& inside : fs::directory_iterator(one)) {
        if (inside.is_directory()) (void)RemoveUnpacked(inside.path().string());
      }
    }
    fs::remove_all(path);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  std::string path;
};

struct Archive {
  std::string digest;
  std::string bytes;
};

Archive ArchiveOf(const Place& place, const std::string& version, size_t size = 10) {
  const std::string folder = place.path + "/of-" + version;
  fs::create_directories(folder);
  std::ofstream(folder + "/package.yaml") << "package: p\nversion: " << version << "\n";
  std::ofstream(folder + "/data") << std::string(size, 'x');
  const auto files = ReadFolder(folder, Exclusions(), "p-" + version);
  REQUIRE(files);
  Archive archive;
  const auto written =
      WriteArchive(folder, *files, "p-" + version, *ReadWholeFile(folder + "/package.yaml"),
                   [&archive](std::string_view piece) -> Result<Ok> {
                     archive.bytes += piece;
                     return Ok{};
                   });
  REQUIRE(written);
  archive.digest = HashesOf(archive.bytes).Digest();
  return archive;
}

PackageCache::Fetch Gives(const std::string& bytes, std::atomic<int>* count = nullptr) {
  return [bytes, count](const std::string& path) -> Result<Ok> {
    if (count != nullptr) ++*count;
    std::ofstream(path, std::ios::binary) << bytes;
    return Ok{};
  };
}

bool Never() { return false; }

size_t Count(const std::string& folder) {
  return static_cast<size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

}  // namespace

TEST_CASE("of those who want a package one fetches it, and all have it read-only") {
  const Place place;
  const PackageCache cache(place.path + "/cache", 1 << 20);
  REQUIRE(cache.Open());
  const Archive archive = ArchiveOf(place, "1.0.0");
  CHECK(cache.Find(archive.digest) == nullptr);
  std::atomic<int> fetched = 0;
  std::atomic<int> had = 0;
  std::vector<std::thread> all;
  for (int i = 0; i < 8; ++i) {
    all.emplace_back([&] {
      const PackageCache own(place.path + "/cache", 1 << 20);
      const auto got = own.Get(archive.digest, Gives(archive.bytes, &fetched), Never);
      if (got && fs::exists((*got)->folder() + "/package.yaml")) ++had;
    });
  }
  for (std::thread& one : all) one.join();
  CHECK(had == 8);
  CHECK(fetched == 1);
  const auto found = cache.Find(archive.digest);
  REQUIRE(found != nullptr);
  CHECK(found->folder().ends_with("/p-1.0.0"));
  CHECK(found->hashes().Digest() == archive.digest);
  CHECK(found->hashes().sha512 == HashesOf(archive.bytes).sha512);
  struct stat about {};
  REQUIRE(stat((found->folder() + "/data").c_str(), &about) == 0);
  CHECK((about.st_mode & 0222U) == 0);
  CHECK(cache.Digests(10) == std::vector<std::string>{archive.digest});
}

TEST_CASE("what is in use stays, and of the rest the least recently used goes") {
  const Place place;
  const PackageCache cache(place.path + "/cache", 100'000);
  REQUIRE(cache.Open());
  std::vector<Archive> archives;
  for (const char* version : {"1.0.0", "2.0.0", "3.0.0", "4.0.0"}) {
    archives.push_back(ArchiveOf(place, version, 40'000));
  }
  const auto get = [&](size_t i) {
    auto got = cache.Get(archives[i].digest, Gives(archives[i].bytes), Never);
    REQUIRE(got);
    return *got;
  };
  const auto there = [&](size_t i) { return cache.Find(archives[i].digest) != nullptr; };
  auto used = get(0);
  get(1);
  get(2);
  CHECK(there(0));
  CHECK(!there(1));
  CHECK(there(2));
  used.reset();  // just now
  get(3);
  CHECK(!there(2));
  CHECK(there(0));
  CHECK(Count(place.path + "/cache/partial") == 0);
  CHECK(Count(place.path + "/cache/locks") == 2);
}

TEST_CASE("what was left half-written is not used, and goes") {
  const Place place;
  const PackageCache cache(place.path + "/cache", 1 << 20);
  REQUIRE(cache.Open());
  const Archive archive = ArchiveOf(place, "1.0.0");
  const std::string hex = archive.digest.substr(7);
  fs::create_directories(place.path + "/cache/partial/" + hex + ".abcdef/new");
  fs::create_directories(place.path + "/cache/packages/" + hex);  // says nothing about itself
  CHECK(cache.Find(archive.digest) == nullptr);
  REQUIRE(cache.Open());
  CHECK(Count(place.path + "/cache/partial") == 0);
  const auto got = cache.Get(archive.digest, Gives(archive.bytes), Never);
  REQUIRE(got);
  CHECK(fs::exists((*got)->folder() + "/data"));
}

TEST_CASE("a folder that anybody may write to is none for programs") {
  const Place place;
  const PackageCache cache(place.path + "/cache", 1 << 20);
  REQUIRE(cache.Open());
  fs::permissions(place.path + "/cache/packages", fs::perms::all);
  const auto opened = cache.Open();
  REQUIRE(!opened);
  CHECK(opened.error().message == "anybody may write to " + place.path + "/cache/packages");
}

TEST_CASE("bytes that are wrong are refused, and nothing stays of them") {
  const Place place;
  const PackageCache cache(place.path + "/cache", 1 << 20);
  REQUIRE(cache.Open());
  const Archive archive = ArchiveOf(place, "1.0.0");
  const auto other = cache.Get(archive.digest, Gives("other"), Never);
  REQUIRE(!other);
  CHECK(other.error().reason == Reason::kDigestMismatch);
  const std::string no_archive = "no archive";
  CHECK(!cache.Get(HashesOf(no_archive).Digest(), Gives(no_archive), Never));
  CHECK(!cache.Get("../../x", Gives("x"), Never));
  const auto failed = cache.Get(
      archive.digest,
      [](const std::string&) -> Result<Ok> {
        return Error{Code::kUnavailable, Reason::kNone, "away"};
      },
      Never);
  REQUIRE(!failed);
  CHECK(failed.error().message == "away");
  CHECK(Count(place.path + "/cache/partial") == 0);
  CHECK(Count(place.path + "/cache/packages") == 0);
}

}  // namespace dfsmr::cli
