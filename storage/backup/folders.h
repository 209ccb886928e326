// Backups as folders, one beside the other: TO/dfsmr-20260131T080000Z. Tables never change, so what
// a backup has in common with the one before it, or with the store, are hard links.
#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "storage/backup/manifest.h"

namespace dfsmr {

// The whole backups in a folder, the oldest first. None where there is no such folder.
Result<std::vector<std::filesystem::path>> ListBackups(const std::filesystem::path& to);

struct KnownBackup {
  BackupManifest manifest;
  uint64_t bytes = 0;
};
// kUnavailable, kDataLoss: it has no manifest that can be read.
Result<KnownBackup> ReadKnownBackup(const std::filesystem::path& folder);

// Called after so many bytes were read: it may wait, and end it.
using Pace = std::function<Result<Ok>(size_t bytes)>;

// Saves the files of `copy` in `to`, which is made where it is missing, under the name of the
// manifest's time. It has that name when it is whole, and durable. Returns how many bytes it has.
Result<uint64_t> SaveBackup(const std::filesystem::path& copy, BackupManifest manifest,
                            const std::filesystem::path& to, const Pace& pace);

// Deletes the oldest until there are no more than `keep`, and what a crash has left half made.
Result<Ok> DropBackups(const std::filesystem::path& to, size_t keep);

}  // namespace dfsmr
