// The rows of packages: their versions, the pieces of their archives, and which versions are in
// force.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/rows/reader.h"

namespace dfsmr::rows {

// What is kept of an archive's content besides its bytes.
struct PackageDocument {
  std::string kind;  // machine, plan, action, schedule, trigger or limit
  std::string id;    // as it is written, without the package's name
  std::string path;  // in the archive
  uint32_t line = 0;
  friend bool operator==(const PackageDocument&, const PackageDocument&) = default;
};
struct PackageWorker {
  std::string name;
  std::vector<std::string> serves;
  std::vector<std::string> capabilities;
  std::vector<std::string> secrets;
  std::vector<std::string> actions;  // what `serves` comes to, by full name
  bool dry_run = false;              // it heeds dry runs
};
struct PackageFile {
  std::string path;  // below the top folder
  uint64_t size = 0;
  bool executable = false;
  std::string link;
  uint64_t offset = 0;  // of its bytes in the archive
};

// Under what the pieces and texts of an archive are kept: of one upload.
struct UploadId {
  uint64_t epoch = 0;  // of the partition's owner that began it
  uint64_t number = 0;
  friend auto operator<=>(const UploadId&, const UploadId&) = default;
};

struct PackageVersionRow {
  std::string ns;
  std::string package;
  std::string version;
  std::string digest;  // "sha256:…"
  uint64_t size = 0;
  std::string manifest;
  std::string description;
  std::map<std::string, std::string> labels;
  std::vector<PackageDocument> documents;
  std::vector<PackageWorker> workers;
  std::vector<std::string> nodes;  // MACHINE.NODE of its machines, as they are written
  std::vector<PackageFile> files;
  Timestamp put_time;
  std::string put_by;
  UploadId upload;
  uint32_t pieces = 0;
  bool removed = false;  // its archive is gone; its name is not free
  std::string sha512 = {};  // of the archive, 64 bytes; empty: put before there were signatures
};
void PutPackageVersion(const Writer& writer, const PackageVersionRow& row);
// nullopt: it was never put.
Result<std::optional<PackageVersionRow>> GetPackageVersion(const Reader& reader,
                                                           std::string_view ns,
                                                           std::string_view package,
                                                           std::string_view version);
Result<Ok> ScanPackageVersions(const Reader& reader,
                               const std::function<void(PackageVersionRow)>& visit);

// Which versions are in force.
struct PackageRow {
  std::string active;     // empty: none
  std::string candidate;  // empty: none
  uint32_t share = 0;     // of the candidate, in hundredths of a percent
  std::string previous;   // what was active before; empty: nothing was
  uint64_t activations = 0;
  std::string before = {};  // what was active before `previous`, when that was deactivated
};
void PutPackage(const Writer& writer, std::string_view ns, std::string_view package,
                const PackageRow& row);
Result<Ok> ScanPackages(
    const Reader& reader,
    const std::function<void(std::string_view ns, std::string_view package, PackageRow)>& visit);

struct ActivationRow {
  Timestamp time;
  std::string version;  // empty: deactivated
  std::string digest;
  uint32_t share = 0;
  bool rollback = false;
  std::string by;
  std::string note;
};
void PutActivation(const Writer& writer, std::string_view ns, std::string_view package,
                   uint64_t number, const ActivationRow& row);
void DropActivation(const Writer& writer, std::string_view ns, std::string_view package,
                    uint64_t number);
// The newest first, at most so many.
Result<std::vector<ActivationRow>> GetActivations(const Reader& reader, std::string_view ns,
                                                  std::string_view package, size_t most);

void PutPiece(const Writer& writer, std::string_view ns, UploadId upload, uint32_t number,
              std::string bytes);
Result<std::optional<std::string>> GetPiece(const Reader& reader, std::string_view ns,
                                            UploadId upload, uint32_t number);
// A file with documents.
void PutPackageText(const Writer& writer, std::string_view ns, UploadId upload,
                    std::string_view path, std::string text);
Result<std::map<std::string, std::string>> GetPackageTexts(const Reader& reader,
                                                           std::string_view ns, UploadId upload);
// Drops pieces and texts of an upload.
void DropUpload(const Writer& writer, std::string_view ns, UploadId upload);
// The uploads of which anything is kept.
Result<Ok> ScanUploads(const Reader& reader,
                       const std::function<void(std::string_view ns, UploadId upload)>& visit);

}  // namespace dfsmr::rows
