// A backup as one stream: a tar of the files of a folder, then manifest.json; compressed with zstd.
#pragma once

#include <filesystem>
#include <functional>

#include "storage/backup/manifest.h"
#include "storage/backup/pieces.h"

namespace dfsmr {

struct PackOptions {
  // Takes the stream, in pieces of at most 256 KiB.
  TakeBytes give;
  // Called after so many bytes were read: it may wait, so as to leave the disk to others, and end
  // it. Null: nobody waits.
  std::function<Result<Ok>(size_t bytes)> pace;
};

// Reads each file once; memory does not grow with them. `manifest.files` is filled in here. An
// error of `give` or `pace` ends it and is returned.
Result<Ok> PackBackup(const std::filesystem::path& folder, BackupManifest manifest,
                      const PackOptions& options);

// About how many bytes the stream of a folder has: no less than it turns out to have, mostly.
Result<uint64_t> BytesBelow(const std::filesystem::path& folder);

}  // namespace dfsmr
