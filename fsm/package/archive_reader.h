// Reads the archive of a package from bytes that come in pieces, by the rules of archive_rules.h:
// ustar, pax and GNU long names, whoever wrote them. Pure, and its memory does not grow with the
// archive: it keeps the list of the files, the manifest, and what it is asked for. There is a
// reader of our own because the libraries are lenient where we must not be (an end that is missing,
// names that they translate), and because it tells where each file's bytes are.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "fsm/base/result.h"
#include "fsm/package/archive_rules.h"

namespace dfsmr {

class ArchiveReader {
 public:
  // The bytes of a file, in pieces; called with an empty piece when all of them were given. `path`
  // is below the top folder. Links have no bytes, and are only in files().
  using Sink = std::function<void(const std::string& path, std::string_view piece)>;
  // `sink` may be null.
  explicit ArchiveReader(Sink sink) : sink_(std::move(sink)) {}

  // BAD_ARCHIVE, TOO_LARGE: then nothing more may be given to it.
  Result<Ok> Feed(std::string_view bytes);
  // There are no more bytes. Refuses an archive that is cut, one whose manifest says another top
  // folder, and links that lead out; from then on files() may be trusted.
  Result<Ok> Finish();

  const std::string& manifest() const { return manifest_; }  // complete once another entry began
  const std::string& top() const { return rules_.top(); }
  const PackageFiles& files() const { return rules_.files(); }
  PackageFiles TakeFiles() && { return std::move(rules_).TakeFiles(); }

 private:
  enum class State : uint8_t { kHeader, kFile, kExtra, kEnd };
  // What pax records and GNU's long names say of the next entry.
  struct Extra {
    std::optional<std::string> path;
    std::optional<std::string> link;
    std::optional<uint64_t> size;
    bool sparse = false;
  };

  Result<Ok> TakeBlock(std::string_view block);
  Result<Ok> TakeHeader(std::string_view block);
  Result<Ok> BeginEntry(std::string_view block, uint64_t size);
  Result<Ok> BeginExtra(std::string_view block, uint64_t size);
  Result<Ok> TakeExtra();
  Result<Ok> ReadPax(std::string_view records, bool global);
  Result<Ok> TakeRecord(std::string_view key, std::string_view value, bool global);
  void TakeData(std::string_view* bytes);
  Result<Ok> EndData();
  Result<Ok> CheckTop();

  Sink sink_;
  ArchiveRules rules_;
  std::string manifest_;
  bool manifest_read_ = false;
  State state_ = State::kHeader;
  std::string block_;      // the begin of a block of which more is to come
  uint64_t position_ = 0;  // in the archive
  uint64_t left_ = 0;      // bytes of the file or extra to come
  size_t padding_ = 0;     // zero bytes behind it
  std::string path_;       // of the file
  char extra_kind_ = 0;
  std::string extra_text_;
  Extra extra_;
  size_t zero_blocks_ = 0;
};

// What compressed an archive that begins so, as the command that undoes it: "gunzip (gzip -d)";
// nullopt: it is not compressed by anything that we know.
std::optional<std::string> Decompressor(std::string_view begin);

}  // namespace dfsmr
