#include "storage/rocks/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>
#include <utility>

namespace dfsmr {
namespace {

// A new name in a folder survives a crash only when the folder was synced.
Result<Ok> SyncFolder(const std::filesystem::path& path) {
  const int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return FileError("open", path);
  const bool synced = fsync(folder) == 0;
  const Error error = synced ? Error() : FileError("sync", path);
  close(folder);
  if (!synced) return error;
  return Ok{};
}

}  // namespace

Result<Ok> ReplaceFile(const std::filesystem::path& path, std::string_view bytes) {
  const std::filesystem::path fresh = path.string() + ".new";
  const int file = open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
  if (file < 0) return FileError("create", fresh);
  const bool written = WriteAt(file, bytes, 0) && fsync(file) == 0;
  const Error error = written ? Error() : FileError("write", fresh);
  close(file);
  if (!written) return error;
  if (std::rename(fresh.c_str(), path.c_str()) != 0) return FileError("replace", path);
  return SyncFolder(path.parent_path());
}

Result<Ok> CreateFolders(const std::filesystem::path& path) {
  std::error_code failure;
  if (std::filesystem::is_directory(path, failure)) return Ok{};
  if (path.has_relative_path()) {
    if (const auto above = CreateFolders(path.parent_path()); !above) return above;
  }
  std::filesystem::create_directory(path, failure);
  if (failure) {
    return Error{Code::kUnavailable, Reason::kNone,
                 "cannot create " + path.string() + ": " + failure.message()};
  }
  return SyncFolder(path.parent_path());
}

bool WriteAt(int file, std::string_view bytes, size_t offset) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
    offset += static_cast<size_t>(written);
  }
  return true;
}

Error FileError(std::string_view doing, const std::filesystem::path& path) {
  const int number = errno;
  std::string message = "cannot " + std::string(doing) + " " + path.string() + ": ";
  message += std::generic_category().message(number);
  return {Code::kUnavailable, Reason::kNone, std::move(message)};
}

}  // namespace dfsmr
