#include "dcli/call/backup.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "dcli/commands/commands.h"
#include "dcli/system/signals.h"

namespace dfsmr::cli {
namespace backup_command {

namespace fs = std::filesystem;

// "dfsmr-20260131T080000Z.tar.zst".
std::string NameOfNow() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[64];
  std::strftime(text, sizeof text, "dfsmr-%Y%m%dT%H%M%SZ.tar.zst", &utc);
  return text;
}

Error Trouble(const std::string& verb, const std::string& path) {
  return {Code::kUnavailable, Reason::kNone,
          "cannot " + verb + " " + path + ": " + std::strerror(errno)};
}

// Where the backup goes: a file that has its name once it is whole, or standard output.
class Sink {
 public:
  ~Sink() {
    if (file_ >= 0 && !name_.empty()) {
      close(file_);
      unlink(Unfinished().c_str());
    }
  }
  Sink() = default;
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  Result<Ok> Open(const std::string& folder) {
    if (folder == "-") {
      file_ = STDOUT_FILENO;
      return Ok{};
    }
    std::error_code failure;
    fs::create_directories(folder, failure);
    name_ = fs::path(folder) / NameOfNow();
    if (fs::exists(name_, failure)) {
      errno = EEXIST;
      return Trouble("write", name_);
    }
    file_ = open(Unfinished().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file_ < 0) return Trouble("write", Unfinished());
    return Ok{};
  }

  bool Write(std::string_view bytes) {
    bytes_ += bytes.size();
    while (!bytes.empty()) {
      const ssize_t put = write(file_, bytes.data(), bytes.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) {
        failed_ = Trouble("write", name_.empty() ? "to standard output" : Unfinished());
        return false;
      }
      bytes.remove_prefix(static_cast<size_t>(put));
    }
    return true;
  }

  // The backup is whole: it gets its name.
  Result<Ok> Finish() {
    if (name_.empty()) return Ok{};
    if (fsync(file_) != 0) return Trouble("write", Unfinished());
    if (std::rename(Unfinished().c_str(), name_.c_str()) != 0) return Trouble("write", name_);
    close(std::exchange(file_, -1));
    const int folder = open(fs::path(name_).parent_path().c_str(), O_RDONLY | O_CLOEXEC);
    const bool synced = folder >= 0 && fsync(folder) == 0;
    if (folder >= 0) close(folder);
    if (!synced) return Trouble("write", name_);
    return Ok{};
  }

  const std::optional<Error>& failed() const { return failed_; }
  const std::string& name() const { return name_; }
  uint64_t bytes() const { return bytes_; }

 private:
  std::string Unfinished() const { return name_ + ".part"; }

  int file_ = -1;
  std::string name_;  // empty: standard output
  uint64_t bytes_ = 0;
  std::optional<Error> failed_;
};

std::string MiB(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

// "[#####     ] 52%  212.4 MiB". `size` is about what there will be.
std::string BarOf(uint64_t bytes, uint64_t size) {
  constexpr size_t kWidth = 20;
  const uint64_t percent = size == 0 ? 0 : std::min<uint64_t>(bytes * 100 / size, 99);
  const size_t filled = static_cast<size_t>(percent) * kWidth / 100;
  return "[" + std::string(filled, '#') + std::string(kWidth - filled, ' ') + "] " +
         std::to_string(percent) + "%  " + MiB(bytes);
}

class Progress {
 public:
  explicit Progress(Context& context) : context_(context), draws_(context.err_look.relative) {}
  ~Progress() {
    if (draws_) context_.Status("");
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Show(uint64_t bytes, uint64_t size) {
    const auto now = std::chrono::steady_clock::now();
    if (!draws_ || now < next_) return;
    next_ = now + std::chrono::milliseconds(250);
    context_.Status(BarOf(bytes, size));
  }

 private:
  Context& context_;
  const bool draws_;
  std::chrono::steady_clock::time_point next_{};
};

}  // namespace backup_command

int Backup(Context& context, const BackupOptions& options) {
  using namespace backup_command;  // NOLINT: what stands above
  if (options.to == "-" && isatty(STDOUT_FILENO) == 1) {
    return context.Fail(kBadUsage, "a backup is nothing for a terminal",
                        "redirect it, dcli backup - > FILE, or name a folder");
  }
  Sink sink;
  if (auto opened = sink.Open(options.to); !opened) {
    return context.Fail(kRefused, opened.error().message);
  }
  Canceller canceller;
  const Interrupts interrupts([&canceller](int) { canceller.Cancel(); });
  auto done = [&] {
    Progress progress(context);
    uint64_t size = 0;
    return context.client->backups().Backup(
        [&](const v1::BackupResponse& response) {
          size = std::max<uint64_t>(size, response.size());
          progress.Show(sink.bytes(), size);
          return sink.Write(response.data());
        },
        &canceller);
  }();
  if (canceller.cancelled()) return kInterrupted;
  if (done && sink.failed()) return context.Fail(kRefused, sink.failed()->message);
  if (!done) return context.Fail(done.error());
  if (auto finished = sink.Finish(); !finished) {
    return context.Fail(kRefused, finished.error().message);
  }
  if (!sink.name().empty()) context.out << sink.name() << '\n';
  context.Note("the backup is whole: " + MiB(sink.bytes()));
  return kSucceeded;
}

}  // namespace dfsmr::cli
