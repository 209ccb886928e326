// Reading and writing whole files in pieces.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/base/result.h"

namespace dfsmr {

using TakeBytes = std::function<Result<Ok>(std::string_view bytes)>;

// kUnavailable: "cannot read /x/y: No such file or directory", from errno.
Error DiskError(std::string_view doing, const std::filesystem::path& path);

// Gives the bytes of a file, in pieces of at most 256 KiB, in order.
Result<Ok> ReadPieces(const std::filesystem::path& path, const TakeBytes& take);

// The files below a folder, one folder deep at most, by name: "CURRENT", "logs/CURRENT".
Result<std::vector<std::string>> FilesBelow(const std::filesystem::path& folder);

// A file that is being written. Durable once Close has returned; gone with the object before.
class NewFile {
 public:
  NewFile() = default;
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  // kUnavailable: there is a file of that name, or it cannot be made.
  Result<Ok> Create(const std::filesystem::path& path);
  Result<Ok> Write(std::string_view bytes);
  Result<Ok> Close();
  bool open() const { return file_ >= 0; }

 private:
  std::filesystem::path path_;
  int file_ = -1;
};

// The names in a folder survive a crash on return.
Result<Ok> SyncNames(const std::filesystem::path& folder);

}  // namespace dfsmr
