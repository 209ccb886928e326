#include "storage/backup/read.h"

#include <zstd.h>

#include <map>
#include <optional>
#include <system_error>

#include "storage/backup/pieces.h"
#include "storage/backup/sha256.h"
#include "storage/backup/tar.h"

namespace dfsmr {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLargestManifest = 64 << 20;

class Decompressor {
 public:
  explicit Decompressor(const TakeBytes& give)
      : give_(give), context_(ZSTD_createDCtx()), out_(256 << 10, '\0') {
    Check(context_ != nullptr, "zstd has memory");
  }
  ~Decompressor() { ZSTD_freeDCtx(context_); }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  Result<Ok> Feed(std::string_view bytes) {
    ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
    bool full = false;  // there may be more to come out of what went in
    while (in.pos < in.size || full) {
      ZSTD_outBuffer out{out_.data(), out_.size(), 0};
      const size_t hint = ZSTD_decompressStream(context_, &out, &in);
      if (ZSTD_isError(hint) != 0) {
        return Error{Code::kDataLoss, Reason::kNone,
                     "it is damaged near its byte " + std::to_string(position_ + in.pos) + ": " +
                         ZSTD_getErrorName(hint)};
      }
      ended_ = hint == 0;
      full = out.pos == out.size && !ended_;
      if (auto given = give_({out_.data(), out.pos}); !given) return given;
    }
    position_ += bytes.size();
    return Ok{};
  }
  // False: more bytes should have come.
  bool ended() const { return ended_; }
  uint64_t position() const { return position_; }

 private:
  const TakeBytes& give_;
  ZSTD_DCtx* const context_;
  std::string out_;
  uint64_t position_ = 0;
  bool ended_ = false;
};

// Takes files one after the other, and compares them with the manifest when it has all.
class Checker {
 public:
  explicit Checker(const TakeFile& take) : take_(take) {}

  Result<Ok> Take(const std::string& name, std::string_view piece) {
    if (name == kBackupManifest) {
      if (!manifest_) manifest_.emplace();
      manifest_->append(piece);
      if (manifest_->size() <= kLargestManifest) return Ok{};
      return Error{Code::kDataLoss, Reason::kNone, "its manifest has more than 64 MiB"};
    }
    if (!IsBackupFileName(name)) {
      return Error{Code::kDataLoss, Reason::kNone,
                   "it holds a file that no backup has: its name is not plain"};
    }
    digest_.Add(piece);
    bytes_ += piece.size();
    read_.bytes += piece.size();
    if (piece.empty()) End(name);
    return take_ ? take_(name, piece) : Ok{};
  }

  void Problem(std::string what) { read_.problems.push_back(std::move(what)); }

  Result<BackupRead> Finish() {
    if (!manifest_) {
      Problem("it has no " + std::string(kBackupManifest) + ", which a whole backup ends with");
      return std::move(read_);
    }
    auto manifest = ParseBackupManifest(*manifest_);
    if (!manifest && manifest.error().code == Code::kFailedPrecondition) return manifest.error();
    if (!manifest) {
      Problem(manifest.error().message);
      return std::move(read_);
    }
    read_.manifest = *std::move(manifest);
    for (const BackupFile& file : read_.manifest.files) Compare(file);
    for (const auto& [name, file] : seen_) Problem(name + " is not in the manifest");
    return std::move(read_);
  }

 private:
  void End(const std::string& name) {
    ++read_.files;
    seen_[name] = {name, bytes_, digest_.Take()};
    bytes_ = 0;
  }

  void Compare(const BackupFile& file) {
    const auto found = seen_.find(file.name);
    if (found == seen_.end()) return Problem(file.name + " is missing");
    if (found->second.bytes != file.bytes) {
      Problem(file.name + " has " + std::to_string(found->second.bytes) + " bytes, and had " +
              std::to_string(file.bytes));
    } else if (found->second.sha256 != file.sha256) {
      Problem(file.name + " is damaged: its SHA-256 is " + found->second.sha256 + ", and was " +
              file.sha256);
    }
    seen_.erase(found);
  }

  const TakeFile& take_;
  BackupRead read_;
  Sha256 digest_;
  uint64_t bytes_ = 0;
  std::map<std::string, BackupFile> seen_;
  std::optional<std::string> manifest_;
};

Result<Ok> ReadStream(const fs::path& path, Checker* checker) {
  BackupTarReader tar([checker](const std::string& name, std::string_view piece) {
    return checker->Take(name, piece);
  });
  const TakeBytes give = [&tar](std::string_view bytes) { return tar.Feed(bytes); };
  Decompressor stream(give);
  auto read = ReadPieces(path, [&](std::string_view bytes) { return stream.Feed(bytes); });
  if (!read) return read;
  if (!stream.ended()) {
    return Error{Code::kDataLoss, Reason::kNone,
                 "it is cut: it ends after " + std::to_string(stream.position()) + " bytes"};
  }
  return tar.Finish();
}

Result<Ok> ReadFolder(const fs::path& path, Checker* checker) {
  auto names = FilesBelow(path);
  if (!names) return names.error();
  for (const std::string& name : *names) {
    auto read =
        ReadPieces(path / name, [&](std::string_view bytes) { return checker->Take(name, bytes); });
    if (read) read = checker->Take(name, {});
    if (!read) return read;
  }
  return Ok{};
}

}  // namespace

Result<BackupRead> ReadBackup(const fs::path& path, const TakeFile& take) {
  std::error_code failure;
  Result<Ok> taken = Ok{};  // by the caller
  const TakeFile guarded = [&](const std::string& name, std::string_view piece) {
    if (take) taken = take(name, piece);
    return taken;
  };
  Checker checker(guarded);
  auto read =
      fs::is_directory(path, failure) ? ReadFolder(path, &checker) : ReadStream(path, &checker);
  if (!taken) return taken.error();
  if (!read && read.error().code == Code::kDataLoss) {
    checker.Problem(read.error().message);
  } else if (!read) {
    return read.error();
  }
  return checker.Finish();
}

bool IsBackupFolder(const fs::path& path) {
  std::error_code failure;
  return fs::is_regular_file(path / kBackupManifest, failure);
}

}  // namespace dfsmr
