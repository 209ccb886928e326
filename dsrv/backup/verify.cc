#include "dsrv/backup/verify.h"

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <system_error>
#include <utility>

#include "storage/backup/pieces.h"
#include "storage/backup/read.h"
#include "storage/rocks/copy.h"

namespace dfsmr {
namespace {

namespace fs = std::filesystem;

// A folder that goes with the object.
class Temporary {
 public:
  ~Temporary() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  Temporary() = default;
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;

  Result<Ok> Make() {
    std::string name = fs::temp_directory_path() / "dfsmr-verify-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) return DiskError("make", name);
    path_ = name;
    return Ok{};
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

class Unpacking {
 public:
  explicit Unpacking(const fs::path& to) : to_(to) {}

  Result<Ok> Take(const std::string& name, std::string_view piece) {
    if (!file_) {
      std::error_code failure;
      fs::create_directories((to_ / name).parent_path(), failure);
      file_ = std::make_unique<NewFile>();
      if (auto made = file_->Create(to_ / name); !made) return made;
    }
    if (!piece.empty()) return file_->Write(piece);
    auto closed = file_->Close();
    file_.reset();
    return closed;
  }

 private:
  const fs::path& to_;
  std::unique_ptr<NewFile> file_;
};

class Verification {
 public:
  explicit Verification(const rows::CompileSource& compile) : compile_(compile) {}

  Result<StoreVerified> Run(const fs::path& path) {
    std::error_code failure;
    if (!fs::exists(path, failure)) {
      return Error{Code::kNotFound, Reason::kNone, "there is no " + path.string()};
    }
    const bool folder = fs::is_directory(path, failure);
    Temporary unpacked;
    if (!folder) {
      if (auto made = unpacked.Make(); !made) return made.error();
    }
    if (!folder || IsBackupFolder(path)) {
      if (auto read = ReadFiles(path, unpacked.path()); !read) return read.error();
    }
    if (auto looked = LookAt(folder ? path : unpacked.path()); !looked) return looked.error();
    return std::move(found_);
  }

 private:
  void Problem(std::string text) {
    ++found_.wrong;
    found_.problems.push_back(std::move(text));
  }
  void Note(const Result<Ok>& outcome) {
    if (!outcome) Problem(outcome.error().message);
  }

  // `to` empty: they lie there already.
  Result<Ok> ReadFiles(const fs::path& path, const fs::path& to) {
    Unpacking unpacking(to);
    auto read = ReadBackup(path, [&](const std::string& name, std::string_view piece) {
      return to.empty() ? Result<Ok>(Ok{}) : unpacking.Take(name, piece);
    });
    if (!read) return read.error();
    for (std::string& problem : read->problems) Problem(std::move(problem));
    found_.read =
        std::to_string(read->files) + " files, " + std::to_string(read->bytes) + " bytes, ";
    return Ok{};
  }

  Result<Ok> LookAt(const fs::path& folder) {
    auto store = StoredCopy::Open(folder);
    if (!store && (store.error().code == Code::kDataLoss || found_.wrong > 0)) {
      Problem(store.error().message);
      found_.read += "and no rows";
      return Ok{};
    }
    if (!store) return store.error();
    Note((*store)->VerifyHighWater(folder));
    Note((*store)->VerifyChecksums());
    std::error_code failure;
    if (fs::exists(folder / "logs" / "CURRENT", failure)) Note(VerifyTables(folder / "logs"));
    rows::Verified verified;
    Note(rows::Verify({(*store)->view(), 0}, compile_, &verified));
    found_.wrong += verified.wrong;
    for (std::string& problem : verified.problems) found_.problems.push_back(std::move(problem));
    found_.read += std::to_string(verified.rows) + " rows, " + std::to_string(verified.instances) +
                   " instances, " + std::to_string(verified.records) +
                   " records of their histories";
    return Ok{};
  }

  const rows::CompileSource& compile_;
  StoreVerified found_;
};

}  // namespace

Result<StoreVerified> VerifyStore(const fs::path& path, const rows::CompileSource& compile) {
  return Verification(compile).Run(path);
}

}  // namespace dfsmr
