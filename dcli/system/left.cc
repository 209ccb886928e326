#include "dcli/system/left.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

namespace dfsmr::cli {
namespace {

constexpr int kOpenFolder = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
constexpr int kMostRounds = 100'000;  // one for each level of the deepest folder

const char* KindName(mode_t mode) {
  if (S_ISREG(mode)) return "a file";
  if (S_ISFIFO(mode)) return "a FIFO (named pipe)";
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISLNK(mode)) return "a symbolic link";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

Error Wrong(const std::string& why) { return {Code::kInvalidArgument, Reason::kNone, why}; }

Error NotAFile(const std::string& what, mode_t mode) {
  return Wrong("in the place of " + what + " is " + KindName(mode) +
               "; it is a regular file, to be written and not to be replaced");
}

Error NotReadable(const std::string& what) {
  return Wrong(what + " cannot be read: " + std::strerror(errno));
}

std::vector<std::string> NamesIn(int folder) {
  std::vector<std::string> names;
  const int own = openat(folder, ".", kOpenFolder);  // which closedir closes
  DIR* entries = own < 0 ? nullptr : fdopendir(own);
  if (entries == nullptr) {
    if (own >= 0) close(own);
    return names;
  }
  while (const dirent* entry = readdir(entries)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  closedir(entries);
  return names;
}

// A folder whose owner may not enter or write it is given back to its owner first.
Descriptor OpenFolder(int parent, const std::string& name) {
  Descriptor folder(openat(parent, name.c_str(), kOpenFolder));
  struct stat about {};
  if (!folder.open() && errno == EACCES &&
      fstatat(parent, name.c_str(), &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(about.st_mode)) {
    fchmodat(parent, name.c_str(), 0700, 0);
    folder = Descriptor(openat(parent, name.c_str(), kOpenFolder));
  }
  if (folder.open()) fchmod(folder.get(), 0700);
  return folder;
}

// Empties one folder at a time: folders below a folder are moved up to `top` first, so that no
// depth costs descriptors or stack.
class Emptying {
 public:
  explicit Emptying(int top) : top_(top) {}

  void Run() {
    for (int round = 0; round < kMostRounds; ++round) {
      moved_ = false;
      const std::vector<std::string> names = NamesIn(top_);
      for (const std::string& name : names) Delete(name);
      if (names.empty() || !moved_) return;
    }
  }

 private:
  void Delete(const std::string& name) {
    if (unlinkat(top_, name.c_str(), 0) == 0) return;
    const Descriptor folder = OpenFolder(top_, name);
    if (!folder.open()) return;
    for (const std::string& below : NamesIn(folder.get())) {
      if (unlinkat(folder.get(), below.c_str(), 0) == 0) continue;
      if (unlinkat(folder.get(), below.c_str(), AT_REMOVEDIR) == 0) continue;
      MoveUp(folder.get(), below);
    }
    unlinkat(top_, name.c_str(), AT_REMOVEDIR);
  }

  void MoveUp(int folder, const std::string& name) {
    OpenFolder(folder, name);  // only a folder that its owner may write can be moved
    while (true) {
      const std::string up = "up-" + std::to_string(next_++);
      if (renameat(folder, name.c_str(), top_, up.c_str()) == 0) break;
      if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR) return;  // the name is taken
    }
    moved_ = true;
  }

  const int top_;
  uint64_t next_ = 1;
  bool moved_ = false;
};

}  // namespace

Result<std::string> ReadLeft(const Descriptor& folder, const std::string& name, size_t most,
                             const std::string& what) {
  struct stat about {};
  if (fstatat(folder.get(), name.c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return std::string();
    return NotReadable(what);
  }
  if (!S_ISREG(about.st_mode)) return NotAFile(what, about.st_mode);
  constexpr int kFlags = O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC;
  const Descriptor file(openat(folder.get(), name.c_str(), kFlags));
  if (!file.open() || fstat(file.get(), &about) != 0) return NotReadable(what);
  if (!S_ISREG(about.st_mode)) return NotAFile(what, about.st_mode);
  std::string text;
  std::array<char, 65'536> piece;
  while (text.size() <= most) {
    const ssize_t count = read(file.get(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return NotReadable(what);
    if (count == 0) return text;
    text.append(piece.data(), static_cast<size_t>(count));
  }
  return Wrong("what " + what + " holds is larger than any report may be");
}

void DeleteFolder(const std::string& path) {
  const Descriptor top = OpenFolder(AT_FDCWD, path);
  if (top.open()) {
    Emptying(top.get()).Run();
  } else {
    unlink(path.c_str());
  }
  rmdir(path.c_str());
}

}  // namespace dfsmr::cli
