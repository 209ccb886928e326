// Packages on disk: folders and archives read into the values of fsm/package, archives written and
// unpacked.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "fsm/base/result.h"
#include "fsm/package/archive_rules.h"
#include "fsm/package/exclude.h"

namespace dfsmr {

// The files of a package's folder that go into its archive, by the same rules as those of an
// archive: what no archive may hold is BAD_ARCHIVE or TOO_LARGE. `top`: NAME-VERSION.
Result<PackageFiles> ReadFolder(const std::string& folder, const Exclusions& exclusions,
                                const std::string& top);

// The files of an archive, after all of it was read and found sound. Its bytes are in the file at
// the offsets that the files say.
struct ArchiveOnDisk {
  std::string top;
  std::string manifest;
  PackageFiles files;
  uint64_t bytes = 0;
};
Result<ArchiveOnDisk> ReadArchive(const std::string& path);

// All bytes of a file, or those of a part of it. kUnavailable: it cannot be read, and the message
// says why.
Result<std::string> ReadWholeFile(const std::string& path);
Result<std::string> ReadPart(const std::string& path, uint64_t offset, uint64_t size);

// Gives the archive of a folder's files in pieces, in order. `manifest` stands in the place of
// package.yaml. A file that has changed its size since it was listed is an error.
Result<Ok> WriteArchive(const std::string& folder, const PackageFiles& files,
                        const std::string& top, std::string_view manifest,
                        const std::function<Result<Ok>(std::string_view)>& write);

// Unpacks an archive into `folder`, which must not exist and whose parent must: nothing is written
// unless all of the archive is sound. Files and folders are read-only (executable where the archive
// says so); the files lie in `folder` itself, without the top folder. When it fails, what it wrote
// is gone.
Result<ArchiveOnDisk> Unpack(const std::string& archive, const std::string& folder);
// Deletes an unpacked package, read-only as it is.
Result<Ok> RemoveUnpacked(const std::string& folder);

}  // namespace dfsmr
