// Reading a backup, and checking it against what it says of itself.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/backup/manifest.h"

namespace dfsmr {

struct BackupRead {
  BackupManifest manifest;
  std::vector<std::string> problems;  // empty: the backup is whole
  uint64_t files = 0;
  uint64_t bytes = 0;
};

// The bytes of each file but the manifest in pieces, then an empty piece. Nothing of it may be
// trusted until all was read: the manifest may come last.
using TakeFile = std::function<Result<Ok>(const std::string& name, std::string_view piece)>;

// `path`: a file as PackBackup gives it, or a folder with the files themselves. `take` may be null;
// what it fails with is returned. kUnavailable: it cannot be read.
Result<BackupRead> ReadBackup(const std::filesystem::path& path, const TakeFile& take);

// Whether a folder holds a backup: it has a manifest.
bool IsBackupFolder(const std::filesystem::path& path);

}  // namespace dfsmr
