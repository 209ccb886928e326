// Takes the archive of a package as it comes, in pieces: reads and checks it in passing, and says
// what is kept of it. For puts, and for imports, which bring several.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dsrv/calls/backend.h"
#include "fsm/package/archive_reader.h"
#include "fsm/package/check.h"
#include "storage/rows/package.h"
#include "storage/signatures/signatures.h"

namespace dfsmr {

// Of each piece but the last. One that is committed holds up those who wait for the same commit, or
// the next, by its bytes; so pieces are small.
inline constexpr size_t kPieceBytes = 64 << 10;

class ArchiveIntake {
 public:
  ArchiveIntake();
  ArchiveIntake(const ArchiveIntake&) = delete;
  ArchiveIntake& operator=(const ArchiveIntake&) = delete;

  // BAD_ARCHIVE, TOO_LARGE: then nothing more may be given to it.
  Result<Ok> Feed(std::string_view data);
  uint64_t bytes() const { return bytes_; }
  // All has come. The hashes, once; then what it is. BAD_ARCHIVE, TOO_LARGE.
  const ArchiveHashes& Hash();
  const ArchiveHashes& hashes() const { return hashes_; }
  Result<Ok> Finish() { return reader_.Finish(); }
  // After Finish. What is wrong with its documents is among its diagnostics.
  Result<CheckedPackage> Check(const FindZone& zones, Timestamp now);

  // What is kept of a package that was found sound, but for its namespace, and for who has put what
  // as which upload.
  rows::PackageVersionRow RowOf(const CheckedPackage& checked) const;

 private:
  void Keep(const std::string& path, std::string_view piece);

  uint64_t bytes_ = 0;
  ArchiveHasher hasher_;
  ArchiveHashes hashes_;
  ArchiveReader reader_;
  std::optional<std::vector<std::string>> places_;  // of documents, by the manifest
  std::map<std::string, std::string> texts_;
};

}  // namespace dfsmr
