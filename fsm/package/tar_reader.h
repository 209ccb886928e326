// Reads a tar from bytes that come in pieces: ustar, pax and GNU long names, whoever wrote them.
// Pure, and its memory does not grow with the archive. What its entries may be, and what becomes of
// their bytes, says who derives from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "fsm/base/result.h"
#include "fsm/package/archive_rules.h"

namespace dfsmr {

class TarReader {
 public:
  virtual ~TarReader() = default;
  // BAD_ARCHIVE, TOO_LARGE: then nothing more may be given to it.
  Result<Ok> Feed(std::string_view bytes);

 protected:
  // `what` is the subject of what is wrong with it: "an archive of a package".
  explicit TarReader(std::string what) : what_(std::move(what)) {}
  TarReader(const TarReader&) = delete;
  TarReader& operator=(const TarReader&) = delete;

  // An entry comes, and then, if it is a file, its bytes: `entry.size` of them. An error ends all.
  virtual Result<Ok> Begin(const ArchiveEntry& entry) = 0;
  virtual void Data(std::string_view piece) = 0;
  virtual Result<Ok> End() = 0;
  // So many bytes were read.
  virtual Result<Ok> Count(uint64_t /*bytes*/) { return Ok{}; }
  // The entry under way, for people.
  virtual std::string Place() const = 0;

  // There are no more bytes. Refuses an archive that is cut.
  Result<Ok> FinishTar() const;

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
  Error Compressed(const std::string& command) const;

  const std::string what_;
  State state_ = State::kHeader;
  std::string block_;      // the begin of a block of which more is to come
  uint64_t position_ = 0;  // in the archive
  uint64_t left_ = 0;      // bytes of the file or extra to come
  size_t padding_ = 0;     // zero bytes behind it
  char extra_kind_ = 0;
  std::string extra_text_;
  Extra extra_;
  size_t zero_blocks_ = 0;
};

// What compressed an archive that begins so, as the command that undoes it: "gunzip (gzip -d)";
// nullopt: it is not compressed by anything that we know.
std::optional<std::string> Decompressor(std::string_view begin);

}  // namespace dfsmr
