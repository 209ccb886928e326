#include "storage/archive/files.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "fsm/package/ustar.h"

namespace dfsmr {
namespace {

namespace fs = std::filesystem;

// A folder that is gone when the test is over.
class Folder {
 public:
  Folder() {
    char name[] = "/tmp/archive_test_XXXXXX";
    path = mkdtemp(name);
  }
  ~Folder() {
    (void)RemoveUnpacked(path + "/out");
    fs::remove_all(path);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  void Put(const std::string& file, const std::string& text, mode_t mode = 0644) const {
    fs::create_directories(fs::path(path + "/" + file).parent_path());
    std::ofstream(path + "/" + file) << text;
    chmod((path + "/" + file).c_str(), mode);
  }

  std::string path;
};

std::string Text(const std::string& path) { return *ReadWholeFile(path); }

std::string ArchiveOf(const std::string& folder, const PackageFiles& files,
                      const std::string& manifest) {
  std::string bytes;
  const auto done =
      WriteArchive(folder, files, "etl-1.0.0", manifest, [&](std::string_view piece) -> Result<Ok> {
        bytes += piece;
        return Ok{};
      });
  REQUIRE(done);
  return bytes;
}

mode_t ModeOf(const std::string& path) {
  struct stat about {};
  REQUIRE(lstat(path.c_str(), &about) == 0);
  return about.st_mode & 07777U;
}

}  // namespace

TEST_CASE("a folder goes into an archive and comes out of it") {
  const Folder folder;
  folder.Put("in/package.yaml", "package: etl\nversion: 0.9.0\n");
  folder.Put("in/bin/a", "#!/bin/sh\n", 0700);
  folder.Put("in/notes.log", "no");
  folder.Put("in/.git/x", "no");
  folder.Put("in/ä", "text");
  fs::create_directory(folder.path + "/in/empty");
  fs::create_symlink("bin/a", folder.path + "/in/link");
  const auto files = ReadFolder(folder.path + "/in", Exclusions({"*.log"}), "etl-1.0.0");
  REQUIRE(files);
  CHECK(files->size() == 4);
  const std::string manifest = "package: etl\nversion: 1.0.0\n";
  const std::string bytes = ArchiveOf(folder.path + "/in", *files, manifest);
  CHECK(bytes == ArchiveOf(folder.path + "/in", *files, manifest));
  CHECK(bytes.size() % 512 == 0);
  folder.Put("etl.dfsmr", bytes);

  const auto unpacked = Unpack(folder.path + "/etl.dfsmr", folder.path + "/out");
  REQUIRE_MESSAGE(unpacked, (unpacked ? "" : unpacked.error().message));
  CHECK(unpacked->top == "etl-1.0.0");
  CHECK(unpacked->manifest == manifest);
  CHECK(Text(folder.path + "/out/package.yaml") == manifest);
  CHECK(Text(folder.path + "/out/link") == "#!/bin/sh\n");
  CHECK(ModeOf(folder.path + "/out/bin/a") == 0555);
  CHECK(ModeOf(folder.path + "/out/ä") == 0444);
  CHECK(ModeOf(folder.path + "/out/bin") == 0555);
  CHECK(ModeOf(folder.path + "/out") == 0555);
  const PackageFile& file = unpacked->files.at("bin/a");
  CHECK(*ReadPart(folder.path + "/etl.dfsmr", file.offset, file.size) == "#!/bin/sh\n");
  CHECK_FALSE(Unpack(folder.path + "/etl.dfsmr", folder.path + "/out").has_value());
  CHECK(Text(folder.path + "/out/ä") == "text");  // what was there is left alone
  REQUIRE(RemoveUnpacked(folder.path + "/out"));
  CHECK_FALSE(fs::exists(folder.path + "/out"));
}

TEST_CASE("nothing of an unsound archive is written") {
  const Folder folder;
  folder.Put("in/package.yaml", "package: etl\nversion: 1.0.0\n");
  folder.Put("in/a", "text");
  const auto files = ReadFolder(folder.path + "/in", Exclusions(), "etl-1.0.0");
  REQUIRE(files);
  const std::string bytes =
      ArchiveOf(folder.path + "/in", *files, Text(folder.path + "/in/package.yaml"));
  folder.Put("etl.dfsmr", bytes.substr(0, bytes.size() - 512));
  const auto unpacked = Unpack(folder.path + "/etl.dfsmr", folder.path + "/out");
  REQUIRE_FALSE(unpacked.has_value());
  CHECK(unpacked.error().reason == Reason::kBadArchive);
  CHECK_FALSE(fs::exists(folder.path + "/out"));
}

TEST_CASE("a folder may hold what an archive may") {
  const Folder folder;
  const auto why = [&] {
    const auto files = ReadFolder(folder.path + "/in", Exclusions(), "etl-1.0.0");
    return files ? "" : files.error().message;
  };
  folder.Put("in/a", "");
  CHECK(why().starts_with("there is no package.yaml in "));
  folder.Put("in/package.yaml", "");
  CHECK(why() == "");
  mkfifo((folder.path + "/in/f").c_str(), 0600);
  CHECK(why().find("it is a FIFO") != std::string::npos);
  fs::remove(folder.path + "/in/f");
  fs::create_symlink("../../etc", folder.path + "/in/l");
  CHECK(why().find("leads out of the package") != std::string::npos);
}

}  // namespace dfsmr
