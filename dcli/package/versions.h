// What the words of `dcli package` that ask a server share.
#pragma once

#include <optional>
#include <string>

#include "dcli/call/context.h"
#include "dfsmr/v1/package.pb.h"

namespace dfsmr::cli {

// "etl@1.4.0", "etl", "etl@sha256:1234abcd" or "sha256:1234abcd".
struct NamedVersion {
  std::string package;
  std::string version;
};
// Digests may be cut short: looks for the one version that is meant.
Result<NamedVersion> Resolved(Context& context, const std::string& text);

std::string FullName(const v1::PackageVersion& one);
std::string Word(v1::PackageVersion::State state);      // "active"
std::string Word(v1::PackageVersion::Verdict verdict);  // "TRUSTED"

// The archive, as the file PATH.part; without a path it is named after the version.
Result<v1::PackageVersion> FetchArchive(Context& context, const NamedVersion& named,
                                        std::string* path);

// A folder of its own, deleted with all that is in it.
class ScratchFolder {
 public:
  static Result<ScratchFolder> Make();
  ~ScratchFolder();
  ScratchFolder(ScratchFolder&& other) noexcept { path_.swap(other.path_); }
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  const std::string& path() const { return path_; }

 private:
  ScratchFolder() = default;
  std::string path_;
};

}  // namespace dfsmr::cli
