#include "dcli/package/watch.h"

#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>

namespace dfsmr::cli {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr milliseconds kRestTime{200};
constexpr milliseconds kLongestUnrest{2'000};
constexpr milliseconds kLookTime{1'000};
constexpr milliseconds kHearCancel{50};
constexpr uint32_t kHappenings = IN_CLOSE_WRITE | IN_MODIFY | IN_ATTRIB | IN_CREATE | IN_DELETE |
                                 IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF |
                                 IN_ONLYDIR;

// Folders that are never part of a package.
bool OfNoInterest(const std::string& name) {
  constexpr std::array<std::string_view, 4> kNames = {".git", ".hg", ".svn", "__pycache__"};
  return std::ranges::find(kNames, name) != kNames.end();
}

// Calls `visit` with each folder, and with what else there is, without following links.
template <typename Visit>
void WalkFolder(const std::string& folder, const Visit& visit) {
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  for (const fs::recursive_directory_iterator end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    const bool is_folder = entry->is_directory(ignored) && !entry->is_symlink(ignored);
    if (is_folder && OfNoInterest(entry->path().filename().string())) {
      entry.disable_recursion_pending();
      continue;
    }
    visit(entry->path().string(), is_folder);
  }
}

}  // namespace

FolderWatch::FolderWatch(std::vector<std::string> folders, bool poll,
                         std::function<void(const std::string&)> note)
    : folders_(std::move(folders)), note_(std::move(note)) {
  if (!poll) {
    inotify_ = Descriptor(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
    if (!inotify_.open()) {
      note_(std::string("no watches: ") + std::strerror(errno) + "; it looks each second");
    }
    WatchAll();
  }
  if (!inotify_.open()) seen_ = Look();
}

void FolderWatch::WatchAll() {
  bool all = inotify_.open();
  for (const std::string& folder : folders_) {
    all = all && WatchFolder(folder);
    WalkFolder(folder, [&](const std::string& path, bool is_folder) {
      if (is_folder && all) all = WatchFolder(path);
    });
  }
  if (all || !inotify_.open()) return;
  note_(std::string("the kernel has no more watches (") + std::strerror(errno) +
        "; fs.inotify.max_user_watches); it looks each second");
  inotify_.Close();
  seen_ = Look();
}

// False: there are no more watches.
bool FolderWatch::WatchFolder(const std::string& folder) {
  if (inotify_add_watch(inotify_.get(), folder.c_str(), kHappenings) >= 0) return true;
  return errno != ENOSPC && errno != ENOMEM && errno != EMFILE;  // else it is gone
}

// Takes all that is told. False: nothing is.
bool FolderWatch::Drain() {
  std::array<char, 16'384> buffer;
  bool any = false;
  while (read(inotify_.get(), buffer.data(), buffer.size()) > 0) any = true;
  return any;
}

bool FolderWatch::Await(const Canceller& canceller, milliseconds at_most) {
  const auto until = Clock::now() + at_most;
  return inotify_.open() ? AwaitEvents(canceller, until) : AwaitLooks(canceller, until);
}

bool FolderWatch::AwaitEvents(const Canceller& canceller, Clock::time_point until) {
  Clock::time_point first{};
  Clock::time_point last{};
  while (!canceller.cancelled()) {
    const auto now = Clock::now();
    const bool begun = first != Clock::time_point();
    if (begun && (now - last >= kRestTime || now - first >= kLongestUnrest)) {
      WatchAll();
      return true;
    }
    if (!begun && now >= until) return true;
    const auto rest = begun ? last + kRestTime - now : until - now;
    const auto wait = std::min(std::chrono::ceil<milliseconds>(rest), kHearCancel);
    pollfd told{.fd = inotify_.get(), .events = POLLIN, .revents = 0};
    poll(&told, 1, static_cast<int>(wait.count()));
    if (!Drain()) continue;
    last = Clock::now();
    if (!begun) first = last;
  }
  return false;
}

bool FolderWatch::AwaitLooks(const Canceller& canceller, Clock::time_point until) {
  while (Clock::now() < until) {
    if (canceller.SleepFor(
            std::min(std::chrono::ceil<milliseconds>(until - Clock::now()), kLookTime))) {
      return false;
    }
    std::string now = Look();
    if (now == seen_) continue;
    const auto first = Clock::now();
    while (now != seen_ && Clock::now() - first < kLongestUnrest) {
      seen_ = std::move(now);
      if (canceller.SleepFor(kRestTime)) return false;
      now = Look();
    }
    return true;
  }
  return !canceller.cancelled();
}

// What can be seen from outside of the files, as a text.
std::string FolderWatch::Look() const {
  std::map<std::string, std::string> files;
  for (const std::string& folder : folders_) {
    WalkFolder(folder, [&files](const std::string& path, bool) {
      struct stat about {};
      if (lstat(path.c_str(), &about) != 0) return;
      std::string& text = files[path];
      for (const auto number :
           {static_cast<int64_t>(about.st_ino), static_cast<int64_t>(about.st_size),
            static_cast<int64_t>(about.st_mode), static_cast<int64_t>(about.st_mtim.tv_sec),
            static_cast<int64_t>(about.st_mtim.tv_nsec)}) {
        text += std::to_string(number) + ' ';
      }
    });
  }
  std::string all;
  for (const auto& [path, text] : files) all += path + '\0' + text + '\n';
  return all;
}

}  // namespace dfsmr::cli
