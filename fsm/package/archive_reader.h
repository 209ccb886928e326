// Reads the archive of a package from bytes that come in pieces, by the rules of archive_rules.h.
// Pure, and its memory does not grow with the archive: it keeps the list of the files, the
// manifest, and what it is asked for. There is a reader of our own because the libraries are
// lenient where we must not be (an end that is missing, names that they translate), and because it
// tells where each file's bytes are.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "fsm/base/result.h"
#include "fsm/package/archive_rules.h"
#include "fsm/package/tar_reader.h"

namespace dfsmr {

class ArchiveReader : public TarReader {
 public:
  // The bytes of a file, in pieces; called with an empty piece when all of them were given. `path`
  // is below the top folder. Links have no bytes, and are only in files().
  using Sink = std::function<void(const std::string& path, std::string_view piece)>;
  // `sink` may be null.
  explicit ArchiveReader(Sink sink)
      : TarReader("an archive of a package"), sink_(std::move(sink)) {}

  // There are no more bytes. Refuses an archive that is cut, one whose manifest says another top
  // folder, and links that lead out; from then on files() may be trusted.
  Result<Ok> Finish();

  const std::string& manifest() const { return manifest_; }  // complete once another entry began
  const std::string& top() const { return rules_.top(); }
  const PackageFiles& files() const { return rules_.files(); }
  PackageFiles TakeFiles() && { return std::move(rules_).TakeFiles(); }

 private:
  Result<Ok> Count(uint64_t bytes) override;
  Result<Ok> Begin(const ArchiveEntry& entry) override;
  void Data(std::string_view piece) override;
  Result<Ok> End() override;
  std::string Place() const override;
  Result<Ok> CheckTop();

  Sink sink_;
  ArchiveRules rules_;
  std::string manifest_;
  bool manifest_read_ = false;
  std::string path_;  // of the file
};

}  // namespace dfsmr
