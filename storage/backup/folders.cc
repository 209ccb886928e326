#include "storage/backup/folders.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <string>
#include <system_error>

#include "storage/backup/pieces.h"
#include "storage/backup/sha256.h"

namespace dfsmr {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "dfsmr-";
constexpr std::string_view kUnfinished = ".dfsmr-";  // in front of a name while it is made
constexpr size_t kNameOfTime = 16;                   // "20260131T080000Z"

bool IsBackupName(std::string_view name) {
  if (!name.starts_with(kPrefix)) return false;
  name.remove_prefix(kPrefix.size());
  return name.size() == kNameOfTime && name[8] == 'T' && name[15] == 'Z' &&
         name.find_first_not_of("0123456789TZ") == name.npos;
}

Error Wrong(std::string_view doing, const fs::path& path, const std::error_code& failure) {
  errno = failure.value();
  return DiskError(doing, path);
}

Result<Ok> MakeFolder(const fs::path& path) {
  std::error_code failure;
  fs::create_directories(path, failure);
  if (failure) return Wrong("make", path, failure);
  return Ok{};
}

Result<Ok> Remove(const fs::path& path) {
  std::error_code failure;
  fs::remove_all(path, failure);
  if (failure) return Wrong("delete", path, failure);
  return Ok{};
}

// The files of a copy on their way into a backup.
class Saving {
 public:
  Saving(const fs::path& copy, const fs::path& to, const Pace& pace)
      : copy_(copy), to_(to), pace_(pace) {}

  // What was in the backup before this one.
  void Know(const fs::path& folder, const BackupManifest& manifest) {
    before_ = folder;
    for (const BackupFile& file : manifest.files) known_[file.name] = file;
  }

  Result<BackupFile> Save(const std::string& name) {
    if (const size_t slash = name.find('/'); slash != name.npos) {
      if (auto made = MakeFolder(to_ / name.substr(0, slash)); !made) return made.error();
    }
    const bool table = name.ends_with(".sst");
    if (table) {
      auto known = LinkKnown(name);
      if (known) return *known;
    }
    return table && link((copy_ / name).c_str(), (to_ / name).c_str()) == 0 ? Look(name)
                                                                            : Write(name);
  }

 private:
  // Null: the backup before has no such table.
  const BackupFile* LinkKnown(const std::string& name) {
    const auto found = known_.find(name);
    std::error_code failure;
    if (found == known_.end()) return nullptr;
    if (fs::file_size(copy_ / name, failure) != found->second.bytes || failure) return nullptr;
    if (link((before_ / name).c_str(), (to_ / name).c_str()) != 0) return nullptr;
    return &found->second;
  }

  Result<BackupFile> Read(const std::string& name, const TakeBytes& also) {
    BackupFile file{name, 0, ""};
    Sha256 digest;
    auto read = ReadPieces(copy_ / name, [&](std::string_view bytes) {
      digest.Add(bytes);
      file.bytes += bytes.size();
      auto taken = also(bytes);
      return taken && pace_ ? pace_(bytes.size()) : taken;
    });
    if (!read) return read.error();
    file.sha256 = digest.Take();
    return file;
  }

  Result<BackupFile> Look(const std::string& name) {
    return Read(name, [](std::string_view) { return Result<Ok>(Ok{}); });
  }

  Result<BackupFile> Write(const std::string& name) {
    NewFile out;
    if (auto made = out.Create(to_ / name); !made) return made.error();
    auto file = Read(name, [&out](std::string_view bytes) { return out.Write(bytes); });
    if (!file) return file;
    if (auto closed = out.Close(); !closed) return closed.error();
    return file;
  }

  const fs::path& copy_;
  const fs::path& to_;
  const Pace& pace_;
  fs::path before_;
  std::map<std::string, BackupFile> known_;
};

Result<Ok> WriteManifest(const fs::path& folder, const BackupManifest& manifest) {
  NewFile file;
  auto done = file.Create(folder / kBackupManifest);
  if (done) done = file.Write(ToJson(manifest));
  return done ? file.Close() : done;
}

// Names survive a crash: those below the folder, too.
Result<Ok> SyncAll(const fs::path& folder) {
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(folder, failure)) {
    if (!entry.is_directory()) continue;
    if (auto synced = SyncNames(entry.path()); !synced) return synced;
  }
  return SyncNames(folder);
}

Result<uint64_t> Fill(const fs::path& copy, BackupManifest* manifest, const fs::path& to,
                      const fs::path& folder, const Pace& pace) {
  Saving saving(copy, folder, pace);
  auto before = ListBackups(to);
  if (!before) return before.error();
  if (!before->empty()) {
    auto known = ReadKnownBackup(before->back());
    const bool same = known && known->manifest.incarnation == manifest->incarnation;
    if (same) saving.Know(before->back(), known->manifest);
  }
  auto names = FilesBelow(copy);
  if (!names) return names.error();
  uint64_t bytes = 0;
  for (const std::string& name : *names) {
    auto file = saving.Save(name);
    if (!file) return file.error();
    bytes += file->bytes;
    manifest->files.push_back(*std::move(file));
  }
  auto done = WriteManifest(folder, *manifest);
  if (done) done = SyncAll(folder);
  if (!done) return done.error();
  return bytes;
}

}  // namespace

Result<std::vector<fs::path>> ListBackups(const fs::path& to) {
  std::vector<fs::path> found;
  std::error_code failure;
  if (!fs::exists(to, failure)) return found;
  fs::directory_iterator entry(to, failure);
  for (const fs::directory_iterator end; !failure && entry != end; entry.increment(failure)) {
    const bool whole = IsBackupName(entry->path().filename().string()) &&
                       fs::exists(entry->path() / kBackupManifest, failure);
    if (whole) found.push_back(entry->path());
  }
  if (failure) return Wrong("read", to, failure);
  std::ranges::sort(found);
  return found;
}

Result<KnownBackup> ReadKnownBackup(const fs::path& folder) {
  std::string text;
  auto read = ReadPieces(folder / kBackupManifest, [&text](std::string_view bytes) -> Result<Ok> {
    text += bytes;
    return Ok{};
  });
  if (!read) return read.error();
  auto manifest = ParseBackupManifest(text);
  if (!manifest) return manifest.error();
  KnownBackup known{*std::move(manifest), 0};
  for (const BackupFile& file : known.manifest.files) known.bytes += file.bytes;
  return known;
}

Result<uint64_t> SaveBackup(const fs::path& copy, BackupManifest manifest, const fs::path& to,
                            const Pace& pace) {
  const std::string time = NameOfTime(manifest.time);
  const fs::path folder = to / (std::string(kPrefix) + time);
  const fs::path unfinished = to / (std::string(kUnfinished) + time);
  std::error_code failure;
  if (fs::exists(folder, failure)) {
    return Error{Code::kAlreadyExists, Reason::kNone, folder.string() + " exists already"};
  }
  auto made = MakeFolder(to);
  if (made) made = Remove(unfinished);
  if (made) made = MakeFolder(unfinished);
  if (!made) return made.error();
  auto bytes = Fill(copy, &manifest, to, unfinished, pace);
  if (bytes) {
    fs::rename(unfinished, folder, failure);
    if (failure) bytes = Wrong("make", folder, failure);
  }
  if (!bytes) {
    (void)Remove(unfinished);
    return bytes;
  }
  if (auto synced = SyncNames(to); !synced) return synced.error();
  return bytes;
}

Result<Ok> DropBackups(const fs::path& to, size_t keep) {
  auto all = ListBackups(to);
  if (!all) return all.error();
  for (size_t i = 0; i + keep < all->size(); ++i) {
    // Under another name first, so that one that is half gone is no backup.
    const fs::path gone = to / ("." + (*all)[i].filename().string());
    std::error_code failure;
    fs::rename((*all)[i], gone, failure);
    if (failure) return Wrong("delete", (*all)[i], failure);
    if (auto removed = Remove(gone); !removed) return removed;
  }
  std::error_code failure;
  std::vector<fs::path> left;
  for (const auto& entry : fs::directory_iterator(to, failure)) {
    if (entry.path().filename().string().starts_with(kUnfinished)) left.push_back(entry.path());
  }
  for (const fs::path& path : left) {
    if (auto removed = Remove(path); !removed) return removed;
  }
  return Ok{};
}

}  // namespace dfsmr
