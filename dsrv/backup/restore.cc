#include "dsrv/backup/restore.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

#include "storage/backup/pieces.h"
#include "storage/backup/read.h"
#include "storage/rocks/copy.h"
#include "storage/rocks/file.h"

namespace dfsmr {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFormat = "FORMAT";  // makes a folder a store, so it comes last
constexpr size_t kMostProblems = 20;

Error Wrong(std::string_view doing, const fs::path& path, const std::error_code& failure) {
  return {Code::kUnavailable, Reason::kNone,
          "cannot " + std::string(doing) + " " + path.string() + ": " + failure.message()};
}

// Empties the folder, but for the mark.
Result<Ok> Empty(const fs::path& data) {
  std::error_code failure;
  std::vector<fs::path> inside;
  for (const auto& entry : fs::directory_iterator(data, failure)) {
    const std::string name = entry.path().filename().string();
    if (name != kRestoring && name != "lost+found") inside.push_back(entry.path());
  }
  if (failure) return Wrong("read", data, failure);
  for (const fs::path& path : inside) {
    fs::remove_all(path, failure);
    if (failure) return Wrong("delete", path, failure);
  }
  return Ok{};
}

// The name of something in the folder that is not ours to delete; empty: there is nothing.
Result<std::string> FindData(const fs::path& data) {
  std::error_code failure;
  const bool half = fs::exists(data / kRestoring, failure) && !fs::exists(data / kFormat, failure);
  std::string found;
  for (const auto& entry : fs::directory_iterator(data, failure)) {
    const std::string name = entry.path().filename().string();
    if (!half && name != "lost+found" && (found.empty() || name < found)) found = name;
  }
  if (failure) return Wrong("read", data, failure);
  return found;
}

// A folder that is being filled: its mark lets another restore begin anew where this one is killed.
class Filling {
 public:
  explicit Filling(fs::path data) : data_(std::move(data)) {}
  ~Filling() {
    if (mark_ >= 0) close(mark_);
  }
  Filling(const Filling&) = delete;
  Filling& operator=(const Filling&) = delete;

  Result<Ok> Begin() {
    std::error_code failure;
    if (fs::exists(data_, failure) && !fs::is_directory(data_, failure)) {
      return Error{Code::kFailedPrecondition, Reason::kNone, data_.string() + " is no folder"};
    }
    if (auto made = CreateFolders(data_); !made) return made;
    auto found = FindData(data_);
    if (!found) return found.error();
    if (!found->empty()) {
      return Error{Code::kFailedPrecondition, Reason::kNone,
                   data_.string() + " holds data (" + *found +
                       "): --restore takes an empty or a missing folder"};
    }
    const fs::path mark = data_ / kRestoring;
    mark_ = open(mark.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0640);
    if (mark_ < 0) return FileError("write", mark);
    if (flock(mark_, LOCK_EX | LOCK_NB) != 0) {
      return Error{Code::kFailedPrecondition, Reason::kNone,
                   "another restore fills " + data_.string()};
    }
    return Empty(data_);
  }

  Result<Ok> Take(const std::string& name, std::string_view piece) {
    if (name == kFormat) {
      format_ += piece;
      return Ok{};
    }
    if (!file_) {
      if (const size_t slash = name.find('/'); slash != name.npos) {
        if (auto made = CreateFolders(data_ / name.substr(0, slash)); !made) return made;
      }
      file_ = std::make_unique<NewFile>();
      if (auto made = file_->Create(data_ / name); !made) return made;
    }
    if (!piece.empty()) return file_->Write(piece);
    auto closed = file_->Close();
    file_.reset();
    return closed;
  }

  Result<Ok> Finish() {
    if (format_ != FormatText()) {
      return Error{Code::kFailedPrecondition, Reason::kNone,
                   "the backup's store has another format than this dsrv knows: use the version "
                   "that took it"};
    }
    if (auto adopted = AdoptCopy(data_); !adopted) return adopted;
    return RemoveMark();
  }

  // Of what was written nothing stays.
  void GiveUp() {
    file_.reset();
    if (mark_ >= 0 && Empty(data_)) (void)RemoveMark();
  }

 private:
  Result<Ok> RemoveMark() {
    std::error_code failure;
    fs::remove(data_ / kRestoring, failure);
    if (failure) return Wrong("delete", data_ / kRestoring, failure);
    return SyncNames(data_);
  }

  const fs::path data_;
  int mark_ = -1;
  std::string format_;
  std::unique_ptr<NewFile> file_;
};

Error NotWhole(const fs::path& from, const std::vector<std::string>& problems) {
  std::string text = "the backup " + from.string() + " is not whole:";
  for (size_t i = 0; i < std::min(problems.size(), kMostProblems); ++i) {
    text += "\n  " + problems[i];
  }
  if (problems.size() > kMostProblems) {
    text += "\n  and " + std::to_string(problems.size() - kMostProblems) + " more";
  }
  return {Code::kDataLoss, Reason::kNone, text};
}

Result<BackupRead> Fill(const fs::path& from, Filling* filling) {
  auto read = ReadBackup(from, [filling](const std::string& name, std::string_view piece) {
    return filling->Take(name, piece);
  });
  if (!read) return read;
  if (!read->problems.empty()) return NotWhole(from, read->problems);
  if (auto finished = filling->Finish(); !finished) return finished.error();
  return read;
}

}  // namespace

Result<std::string> Restore(const fs::path& from, const fs::path& data) {
  std::error_code failure;
  if (!fs::exists(from, failure)) {
    return Error{Code::kNotFound, Reason::kNone, "there is no backup " + from.string()};
  }
  Filling filling(fs::absolute(data).lexically_normal());
  if (auto begun = filling.Begin(); !begun) return begun.error();
  auto read = Fill(from, &filling);
  if (!read) {
    filling.GiveUp();
    return read.error();
  }
  return "restored " + std::to_string(read->files) + " files, " + std::to_string(read->bytes) +
         " bytes, as of " + BackupTimeText(read->manifest.time) + ", to " + data.string();
}

}  // namespace dfsmr
