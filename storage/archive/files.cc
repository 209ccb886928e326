#include "storage/archive/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "fsm/base/names.h"
#include "fsm/package/archive_reader.h"
#include "fsm/package/manifest.h"
#include "fsm/package/ustar.h"

namespace dfsmr {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPiece = 1 << 20;

Error Trouble(const std::string& verb, const std::string& path, int error) {
  return {Code::kUnavailable, Reason::kNone,
          "cannot " + verb + " " + path + ": " + std::strerror(error)};
}

// An open file.
class Handle {
 public:
  explicit Handle(int fd) : fd_(fd) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (fd_ >= 0) close(fd_);
  }
  bool open() const { return fd_ >= 0; }
  int get() const { return fd_; }

 private:
  const int fd_;
};

// Gives the bytes of a file in pieces; returns how many there were.
Result<uint64_t> ReadPieces(const std::string& path,
                            const std::function<Result<Ok>(std::string_view)>& take) {
  const Handle file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.open()) return Trouble("read", path, errno);
  const auto buffer = std::make_unique<char[]>(kPiece);
  for (uint64_t all = 0;;) {
    const ssize_t got = read(file.get(), buffer.get(), kPiece);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Trouble("read", path, errno);
    if (got == 0) return all;
    all += static_cast<uint64_t>(got);
    if (auto taken = take({buffer.get(), static_cast<size_t>(got)}); !taken) return taken.error();
  }
}

Result<Ok> WriteAll(const Handle& file, const std::string& path, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = write(file.get(), bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return Trouble("write", path, errno);
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return Ok{};
}

EntryKind KindOf(mode_t mode) {
  if (S_ISREG(mode)) return EntryKind::kFile;
  if (S_ISLNK(mode)) return EntryKind::kLink;
  if (S_ISFIFO(mode)) return EntryKind::kFifo;
  if (S_ISCHR(mode) || S_ISBLK(mode)) return EntryKind::kDevice;
  return EntryKind::kOther;
}

// Walks a folder without following links; collects what is in it by path.
class FolderReader {
 public:
  FolderReader(const std::string& folder, const Exclusions& exclusions)
      : folder_(folder), exclusions_(exclusions) {}

  Result<Ok> Walk(const std::string& below) {
    const std::string whole = below.empty() ? folder_ : folder_ + "/" + below;
    std::error_code error;
    fs::directory_iterator entry(whole, error);
    for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) {
      const std::string name = entry->path().filename().string();
      if (auto seen = See(below.empty() ? name : below + "/" + name); !seen) return seen;
    }
    if (error) return Trouble("read", whole, error.value());
    return Ok{};
  }

  std::map<std::string, ArchiveEntry> entries;

 private:
  Result<Ok> See(const std::string& path) {
    const std::string whole = folder_ + "/" + path;
    struct stat about {};
    if (lstat(whole.c_str(), &about) != 0) return Trouble("read", whole, errno);
    if (S_ISDIR(about.st_mode)) return exclusions_.LeavesOutFolder(path) ? Ok{} : Walk(path);
    if (exclusions_.LeavesOut(path)) return Ok{};
    ArchiveEntry entry{.kind = KindOf(about.st_mode),
                       .path = path,
                       .link = "",
                       .executable = (about.st_mode & 0111U) != 0};
    if (entry.kind == EntryKind::kFile) entry.size = static_cast<uint64_t>(about.st_size);
    if (entry.kind == EntryKind::kLink) {
      std::error_code error;
      entry.link = fs::read_symlink(whole, error).string();
      if (error) return Trouble("read", whole, error.value());
    }
    entries[path] = std::move(entry);
    return Ok{};
  }

  const std::string& folder_;
  const Exclusions& exclusions_;
};

// Writes what it reads below a folder that it has made.
class Unpacker {
 public:
  // `sound`: the archive as it was found to be.
  Unpacker(const std::string& folder, const ArchiveOnDisk& sound)
      : folder_(folder), sound_(sound) {}

  Result<Ok> Run(const std::string& archive) {
    if (mkdir(folder_.c_str(), 0700) != 0) return Trouble("make", folder_, errno);
    ArchiveReader reader([this](const std::string& path, std::string_view piece) {
      if (result_) result_ = Take(path, piece);
    });
    const auto read = ReadPieces(archive, [&](std::string_view bytes) {
      auto fed = reader.Feed(bytes);
      return fed && !result_ ? result_ : fed;
    });
    if (!read) return read.error();
    if (auto ended = reader.Finish(); !ended) return ended;
    if (!result_) return result_;
    if (reader.files() != sound_.files) {
      return Error{Code::kUnavailable, Reason::kNone, archive + " changed while it was read"};
    }
    for (const auto& [path, file] : reader.files()) {
      if (file.link.empty()) continue;
      if (auto made = MakeFolders(path); !made) return made;
      const std::string whole = folder_ + "/" + path;
      if (symlink(file.link.c_str(), whole.c_str()) != 0) return Trouble("make", whole, errno);
    }
    return Close();
  }

 private:
  Result<Ok> Take(const std::string& path, std::string_view piece) {
    const std::string whole = folder_ + "/" + path;
    if (!open_) {
      if (auto made = MakeFolders(path); !made) return made;
      open_ = std::make_unique<Handle>(
          open(whole.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
      if (!open_->open()) return Trouble("write", whole, errno);
    }
    if (!piece.empty()) return WriteAll(*open_, whole, piece);
    open_.reset();
    return Ok{};
  }

  Result<Ok> MakeFolders(const std::string& path) {
    for (size_t end = path.find('/'); end != path.npos; end = path.find('/', end + 1)) {
      const std::string whole = folder_ + "/" + path.substr(0, end);
      if (mkdir(whole.c_str(), 0700) != 0 && errno != EEXIST) return Trouble("make", whole, errno);
    }
    return Ok{};
  }

  // From the inside out, so that folders are still open to us.
  Result<Ok> Close() {
    std::error_code error;
    std::vector<std::string> folders = {folder_};
    fs::recursive_directory_iterator entry(folder_, error);
    for (const fs::recursive_directory_iterator end; !error && entry != end;
         entry.increment(error)) {
      if (entry->is_symlink()) continue;
      const std::string path = entry->path().string();
      if (entry->is_directory()) {
        folders.push_back(path);
        continue;
      }
      const mode_t mode = Executable(path) ? 0555 : 0444;
      if (chmod(path.c_str(), mode) != 0) return Trouble("close", path, errno);
    }
    if (error) return Trouble("read", folder_, error.value());
    for (size_t i = folders.size(); i-- > 0;) {
      if (chmod(folders[i].c_str(), 0555) != 0) return Trouble("close", folders[i], errno);
    }
    return Ok{};
  }

  bool Executable(const std::string& path) const {
    const auto file = sound_.files.find(path.substr(folder_.size() + 1));
    return file != sound_.files.end() && file->second.executable;
  }

  const std::string& folder_;
  const ArchiveOnDisk& sound_;
  std::unique_ptr<Handle> open_;
  Result<Ok> result_ = Ok{};
};

}  // namespace

Result<PackageFiles> ReadFolder(const std::string& folder, const Exclusions& exclusions,
                                const std::string& top) {
  FolderReader reader(folder, exclusions);
  if (auto walked = reader.Walk(""); !walked) return walked.error();
  ArchiveRules rules;
  const std::string manifest(kManifestName);
  const auto first = reader.entries.find(manifest);
  if (first == reader.entries.end()) {
    return Error{Code::kNotFound, Reason::kNone, "there is no " + manifest + " in " + folder};
  }
  const auto take = [&](ArchiveEntry entry) {
    entry.path = top + "/" + entry.path;
    return rules.Take(entry);
  };
  if (auto taken = take(first->second); !taken) return taken.error();
  for (const auto& [path, entry] : reader.entries) {
    if (path == manifest) continue;
    if (auto taken = take(entry); !taken) return taken.error();
  }
  if (auto sound = rules.Finish(); !sound) return sound.error();
  return std::move(rules).TakeFiles();
}

Result<ArchiveOnDisk> ReadArchive(const std::string& path) {
  ArchiveReader reader(nullptr);
  const auto size = ReadPieces(path, [&](std::string_view bytes) { return reader.Feed(bytes); });
  if (!size) return size.error();
  if (auto ended = reader.Finish(); !ended) return ended.error();
  if (*size > limits::kArchive) return TooLarge("", "the archive has more than 256 MiB");
  ArchiveOnDisk archive{
      .top = reader.top(), .manifest = reader.manifest(), .files = {}, .bytes = *size};
  archive.files = std::move(reader).TakeFiles();
  return archive;
}

Result<std::string> ReadWholeFile(const std::string& path) {
  std::string text;
  const auto read = ReadPieces(path, [&](std::string_view bytes) -> Result<Ok> {
    text += bytes;
    return Ok{};
  });
  if (!read) return read.error();
  return text;
}

Result<std::string> ReadPart(const std::string& path, uint64_t offset, uint64_t size) {
  const Handle file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.open()) return Trouble("read", path, errno);
  std::string text(static_cast<size_t>(size), '\0');
  for (size_t at = 0; at < text.size();) {
    const ssize_t got =
        pread(file.get(), text.data() + at, text.size() - at, static_cast<off_t>(offset + at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Trouble("read", path, errno);
    if (got == 0) return Trouble("read", path, EIO);
    at += static_cast<size_t>(got);
  }
  return text;
}

Result<Ok> WriteArchive(const std::string& folder, const PackageFiles& files,
                        const std::string& top, std::string_view manifest,
                        const std::function<Result<Ok>(std::string_view)>& write) {
  uint64_t all = 0;
  const auto put = [&](std::string_view bytes) {
    all += bytes.size();
    return write(bytes);
  };
  for (const std::string& path : WriteOrder(files)) {
    PackageFile file = files.find(path)->second;
    const bool own = path == kManifestName;
    if (own) file.size = manifest.size();
    const auto header = UstarHeader(top, path, file);
    if (!header) return header.error();
    if (auto done = put(*header); !done) return done;
    if (!file.link.empty()) continue;
    const std::string whole = folder + "/" + path;
    const auto size = own ? Result<uint64_t>(file.size) : ReadPieces(whole, put);
    if (!size) return size.error();
    if (own) {
      if (auto done = put(manifest); !done) return done;
    }
    if (*size != file.size) {
      return Error{Code::kUnavailable, Reason::kNone, whole + " changed while it was read"};
    }
    if (auto done = put(std::string(UstarPadding(file.size), '\0')); !done) return done;
  }
  if (auto done = put(std::string(kTarEnd, '\0')); !done) return done;
  if (all > limits::kArchive) return TooLarge("", "the archive has more than 256 MiB");
  return Ok{};
}

Result<ArchiveOnDisk> Unpack(const std::string& archive, const std::string& folder) {
  auto sound = ReadArchive(archive);
  if (!sound) return sound;
  struct stat about {};
  const bool there = lstat(folder.c_str(), &about) == 0;
  if (auto done = Unpacker(folder, *sound).Run(archive); !done) {
    if (!there) (void)RemoveUnpacked(folder);
    return done.error();
  }
  return sound;
}

Result<Ok> RemoveUnpacked(const std::string& folder) {
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(folder, error))) return Ok{};
  chmod(folder.c_str(), 0700);
  fs::recursive_directory_iterator entry(folder, error);
  for (const fs::recursive_directory_iterator end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (fs::is_directory(entry->symlink_status(ignored))) chmod(entry->path().c_str(), 0700);
  }
  fs::remove_all(folder, error);
  if (error) return Trouble("delete", folder, error.value());
  return Ok{};
}

}  // namespace dfsmr
