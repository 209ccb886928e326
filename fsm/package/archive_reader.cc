#include "fsm/package/archive_reader.h"

#include "fsm/package/manifest.h"

namespace dfsmr {

Result<Ok> ArchiveReader::Count(uint64_t bytes) {
  if (bytes <= limits::kArchive) return Ok{};
  return TooLarge("", "the archive has more than 256 MiB");
}

Result<Ok> ArchiveReader::Begin(const ArchiveEntry& entry) {
  if (entry.size > limits::kArchive) {
    return TooLarge(entry.path, "with it the archive has more than 256 MiB");
  }
  auto path = rules_.Take(entry);
  if (!path) return path.error();
  if (entry.path.ends_with("/package.yaml") && *path == kManifestName &&
      entry.size > kManifestMax) {
    return TooLarge(entry.path, "a manifest has at most 256 KiB");
  }
  path_ = *path;
  return Ok{};
}

void ArchiveReader::Data(std::string_view piece) {
  if (path_ == kManifestName) manifest_ += piece;
  if (sink_) sink_(path_, piece);
}

Result<Ok> ArchiveReader::End() {
  if (sink_) sink_(path_, "");
  if (path_ != kManifestName || manifest_read_) return Ok{};
  manifest_read_ = true;
  return CheckTop();
}

std::string ArchiveReader::Place() const { return path_.empty() ? "" : top() + "/" + path_; }

// Says nothing of a manifest that cannot be read: that is for the check of the package.
Result<Ok> ArchiveReader::CheckTop() {
  std::vector<Diagnostic> ignored;
  const auto manifest = ParseManifest(manifest_, std::string(kManifestName), AnyProgram, &ignored);
  if (!manifest) return Ok{};
  return rules_.ExpectTop(manifest->Top());
}

Result<Ok> ArchiveReader::Finish() {
  if (auto whole = FinishTar(); !whole) return whole;
  return rules_.Finish();
}

}  // namespace dfsmr
