// The tar of a backup: plain files, below one folder at most. It is read leniently, so that one
// that was unpacked and packed again by hand is read as well: entries that are no files count for
// nothing, and "./" in front of a name is left out.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "fsm/base/result.h"

namespace dfsmr {

inline constexpr size_t kTarBlockBytes = 512;

// The header of a file; a size of 8 GiB or more is written as GNU tar does. REQUIRES: the name has
// at most 100 bytes.
std::string TarHeader(std::string_view name, uint64_t bytes);
// How many zero bytes follow a file of so many bytes.
constexpr size_t TarPadding(uint64_t bytes) {
  return static_cast<size_t>((kTarBlockBytes - bytes % kTarBlockBytes) % kTarBlockBytes);
}

class BackupTarReader {
 public:
  // The bytes of a file in pieces, then an empty piece.
  using Take = std::function<Result<Ok>(const std::string& name, std::string_view piece)>;
  explicit BackupTarReader(Take take) : take_(std::move(take)) {}

  // kDataLoss: these bytes are no tar. What `take` fails with ends it as well.
  Result<Ok> Feed(std::string_view bytes);
  // There are no more bytes. kDataLoss: more should have come.
  Result<Ok> Finish() const;

 private:
  Result<Ok> TakeHeader();
  Result<Ok> EndEntry();

  const Take take_;
  std::string header_;  // as much of it as has come
  std::string name_;
  bool file_ = false;    // the entry is one
  uint64_t left_ = 0;    // of its bytes
  size_t padding_ = 0;   // behind them
  bool inside_ = false;  // an entry is not over
  bool ended_ = false;   // a block of zeros has come
  uint64_t position_ = 0;
};

}  // namespace dfsmr
