// What an archive of a package may hold. Pure: entries come one by one, whoever wrote and read
// them, and each is refused, with its name, before anything of it is used. The server, `pull` and
// agents all go by these rules.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "fsm/base/result.h"

namespace dfsmr {

namespace limits {
inline constexpr uint64_t kArchive = 256ULL << 20;  // bytes
inline constexpr size_t kArchiveEntries = 20'000;
inline constexpr size_t kArchivePath = 255;   // bytes, with the top folder
inline constexpr size_t kArchiveLevels = 32;  // below the top folder
}  // namespace limits

// A file, or a symbolic link, of a package.
struct PackageFile {
  uint64_t size = 0;
  bool executable = false;
  std::string link;     // its target; empty: it is a file
  uint64_t offset = 0;  // where its bytes begin in the archive it was read from
  friend bool operator==(const PackageFile&, const PackageFile&) = default;
};
// By path below the top folder; in the order of bytes.
using PackageFiles = std::map<std::string, PackageFile, std::less<>>;

enum class EntryKind : uint8_t {
  kFile,
  kFolder,
  kLink,
  kHardLink,
  kDevice,
  kFifo,
  kSparse,
  kOther
};

struct ArchiveEntry {
  EntryKind kind = EntryKind::kFile;
  std::string path;  // with the top folder; a folder's may end with a slash
  std::string link;
  bool executable = false;
  uint64_t size = 0;
  uint64_t offset = 0;
};

// What is wrong with a path below the top folder: it is absolute, or has a part that is '..', '.'
// or empty, a control character, or no UTF-8; nullopt: nothing.
std::optional<std::string> PathProblem(std::string_view path);

Error BadArchive(std::string_view entry, const std::string& why);
Error TooLarge(std::string_view entry, const std::string& why);

class ArchiveRules {
 public:
  // The path below the top folder; empty: it is a folder. BAD_ARCHIVE, TOO_LARGE.
  Result<std::string> Take(const ArchiveEntry& entry);
  // The top folder that the manifest says, "etl-1.4.0", once it is known.
  Result<Ok> ExpectTop(const std::string& top) const;
  // All were taken. Judges links, which may lead through others that came later.
  Result<Ok> Finish() const;

  const std::string& top() const { return top_; }
  const PackageFiles& files() const { return files_; }
  PackageFiles TakeFiles() && { return std::move(files_); }

 private:
  Result<std::string> BelowTop(const ArchiveEntry& entry);
  Result<Ok> CheckKind(const ArchiveEntry& entry) const;
  Result<Ok> CheckPlace(const ArchiveEntry& entry, const std::string& path) const;
  Result<Ok> Count(const ArchiveEntry& entry);
  void AddFolders(std::string_view path);

  std::string top_;
  PackageFiles files_;
  std::set<std::string, std::less<>> folders_;
  size_t entries_ = 0;
  uint64_t bytes_ = 0;
};

// What a path of a package comes to, through links: that of a file, or of a folder; nullopt: there
// is nothing.
std::optional<std::string> Resolved(const PackageFiles& files, std::string_view path);

}  // namespace dfsmr
