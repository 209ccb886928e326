#include "storage/backup/pieces.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>

namespace dfsmr {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPiece = 256 << 10;

class Closing {
 public:
  explicit Closing(int file) : file_(file) {}
  ~Closing() {
    if (file_ >= 0) close(file_);
  }
  Closing(const Closing&) = delete;
  Closing& operator=(const Closing&) = delete;

 private:
  const int file_;
};

Result<Ok> List(const fs::path& folder, const std::string& prefix,
                std::vector<std::string>* names) {
  std::error_code failure;
  fs::directory_iterator entry(folder, failure);
  for (const fs::directory_iterator end; !failure && entry != end; entry.increment(failure)) {
    const std::string name = entry->path().filename().string();
    if (entry->is_directory(failure) && !failure) {
      if (!prefix.empty()) continue;
      if (auto below = List(entry->path(), name + "/", names); !below) return below;
    } else if (!failure && entry->is_regular_file(failure)) {
      names->push_back(prefix + name);
    }
  }
  if (!failure) return Ok{};
  errno = failure.value();
  return DiskError("read", folder);
}

}  // namespace

Error DiskError(std::string_view doing, const fs::path& path) {
  const int number = errno;
  return {Code::kUnavailable, Reason::kNone,
          "cannot " + std::string(doing) + " " + path.string() + ": " +
              std::generic_category().message(number)};
}

Result<Ok> ReadPieces(const fs::path& path, const TakeBytes& take) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return DiskError("read", path);
  const Closing closing(file);
  const auto buffer = std::make_unique<char[]>(kPiece);
  while (true) {
    const ssize_t got = read(file, buffer.get(), kPiece);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return DiskError("read", path);
    if (got == 0) return Ok{};
    if (auto taken = take({buffer.get(), static_cast<size_t>(got)}); !taken) return taken;
  }
}

Result<std::vector<std::string>> FilesBelow(const fs::path& folder) {
  std::vector<std::string> names;
  if (auto listed = List(folder, "", &names); !listed) return listed.error();
  std::ranges::sort(names);
  return names;
}

NewFile::~NewFile() {
  if (file_ < 0) return;
  close(file_);
  unlink(path_.c_str());
}

Result<Ok> NewFile::Create(const fs::path& path) {
  path_ = path;
  file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640);
  if (file_ < 0) return DiskError("make", path);
  return Ok{};
}

Result<Ok> NewFile::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = write(file_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return DiskError("write", path_);
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return Ok{};
}

Result<Ok> NewFile::Close() {
  if (fsync(file_) != 0) return DiskError("write", path_);
  close(file_);
  file_ = -1;
  return Ok{};
}

Result<Ok> SyncNames(const fs::path& folder) {
  const int file = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return DiskError("open", folder);
  const Closing closing(file);
  if (fsync(file) != 0) return DiskError("sync", folder);
  return Ok{};
}

}  // namespace dfsmr
