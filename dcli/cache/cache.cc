#include "dcli/cache/cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "fsm/base/hex.h"
#include "storage/archive/files.h"

namespace dfsmr::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDigestKind = "sha256:";
constexpr size_t kHexDigits = 64;
constexpr std::chrono::milliseconds kLookForLock{20};
constexpr size_t kHashPiece = 1 << 20;

Error CacheTrouble(const std::string& verb, const std::string& path) {
  return {Code::kUnavailable, Reason::kNone,
          "cannot " + verb + " " + path + ": " + std::strerror(errno)};
}

bool IsHexName(const std::string& name) {
  return name.size() == kHexDigits && name.find_first_not_of("0123456789abcdef") == name.npos;
}

std::string HexOf(const std::string& digest) {
  return digest.starts_with(kDigestKind) ? digest.substr(kDigestKind.size()) : "";
}

// What the file `about` of an entry says.
struct About {
  std::string top;
  std::string sha512;  // hex digits
  uint64_t bytes = 0;
  std::string birth;
};

std::optional<About> ReadAbout(const std::string& entry) {
  std::ifstream file(entry + "/about");
  About about;
  if (file >> about.top >> about.sha512 >> about.bytes >> about.birth) return about;
  return std::nullopt;
}

// The kernel's own idea of now is some milliseconds coarse.
void UsedNow(const Descriptor& lock) {
  timespec now[2] = {};
  clock_gettime(CLOCK_REALTIME, &now[0]);
  now[1] = now[0];
  if (futimens(lock.get(), now) != 0) futimens(lock.get(), nullptr);  // somebody else's file
}

// Whether the file of a lock is still the one of this path.
bool Linked(const Descriptor& lock, const std::string& path) {
  struct stat ours {};
  struct stat there {};
  return fstat(lock.get(), &ours) == 0 && stat(path.c_str(), &there) == 0 &&
         ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
}

// The lock of an entry, held; not open: somebody holds it against us, or it was deleted meanwhile.
Descriptor TryLock(const std::string& path, int kind) {
  Descriptor lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!lock.open() || flock(lock.get(), kind | LOCK_NB) != 0) return {};
  return Linked(lock, path) ? std::move(lock) : Descriptor();
}

Result<ArchiveHashes> HashFile(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.open()) return CacheTrouble("read", path);
  ArchiveHasher hasher;
  std::string piece(kHashPiece, '\0');
  while (true) {
    const ssize_t got = read(file.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return CacheTrouble("read", path);
    if (got == 0) return hasher.Take();
    hasher.Add(std::string_view(piece).substr(0, static_cast<size_t>(got)));
  }
}

// Deletes a folder or file on its way in or out.
void DeleteEntry(const std::string& path) {
  std::error_code ignored;
  for (const auto& inside : fs::directory_iterator(path, ignored)) {
    if (inside.is_directory(ignored) && !inside.is_symlink(ignored)) {
      (void)RemoveUnpacked(inside.path().string());
    }
  }
  fs::remove_all(path, ignored);
}

Result<Ok> WriteAbout(const std::string& entry, const About& about) {
  std::ofstream file(entry + "/about");
  file << about.top << '\n' << about.sha512 << '\n' << about.bytes << '\n' << about.birth << '\n';
  file.close();
  if (file) return Ok{};
  return CacheTrouble("write", entry + "/about");
}

}  // namespace

// It was used until now.
CachedPackage::~CachedPackage() {
  if (lock_.open()) UsedNow(lock_);
}

std::string PackageCache::Place(const char* kind, const std::string& hex) const {
  return folder_ + "/" + kind + "/" + hex;
}

Result<Ok> PackageCache::Open() const {
  for (const char* kind : {"packages", "locks", "partial"}) {
    std::error_code error;
    const std::string path = folder_ + "/" + kind;
    fs::create_directories(path, error);
    if (error) {
      errno = error.value();
      return CacheTrouble("make the folder", path);
    }
    if (access(path.c_str(), W_OK) != 0) return CacheTrouble("write to", path);
    struct stat about {};
    if (stat(path.c_str(), &about) != 0) return CacheTrouble("look at", path);
    if ((about.st_mode & S_IWOTH) != 0) {  // what is run would be anybody's to choose
      return Error{Code::kFailedPrecondition, Reason::kNone, "anybody may write to " + path};
    }
  }
  SweepPartial();
  Trim();
  return Ok{};
}

// The entry as it is, under a lock of ours; null: there is none.
CachedPackagePtr PackageCache::Seen(const std::string& hex, Descriptor lock) const {
  const std::string entry = Place("packages", hex);
  const auto about = ReadAbout(entry);
  if (!about) return nullptr;
  UsedNow(lock);
  auto found = std::make_shared<CachedPackage>();
  found->lock_ = std::move(lock);
  found->folder_ = entry + "/" + about->top;
  found->hashes_ = {.sha256 = FromHex(hex).value_or(""),
                    .sha512 = FromHex(about->sha512).value_or("")};
  found->birth_ = about->birth;
  return found;
}

CachedPackagePtr PackageCache::Find(const std::string& digest) const {
  const std::string hex = HexOf(digest);
  if (!IsHexName(hex)) return nullptr;
  std::error_code ignored;
  if (!fs::exists(Place("packages", hex), ignored)) return nullptr;
  Descriptor lock = TryLock(Place("locks", hex), LOCK_SH);
  return lock.open() ? Seen(hex, std::move(lock)) : nullptr;
}

Result<CachedPackagePtr> PackageCache::Get(const std::string& digest, const Fetch& fetch,
                                           const std::function<bool()>& given_up) const {
  const std::string hex = HexOf(digest);
  if (!IsHexName(hex)) {
    return Error{Code::kInvalidArgument, Reason::kNone, "\"" + digest + "\" is no digest"};
  }
  while (true) {
    if (CachedPackagePtr found = Find(digest)) return found;
    Descriptor lock = TryLock(Place("locks", hex), LOCK_EX);
    if (!lock.open() && access((folder_ + "/locks").c_str(), W_OK) != 0) {
      return CacheTrouble("write to", folder_ + "/locks");
    }
    if (lock.open() && !ReadAbout(Place("packages", hex))) {
      if (auto brought = Bring(digest, fetch); !brought) return brought.error();
      // From exclusive to shared; if an eviction gets between the two, then once more.
      const bool ours = flock(lock.get(), LOCK_SH) == 0 && Linked(lock, Place("locks", hex));
      CachedPackagePtr found = ours ? Seen(hex, std::move(lock)) : nullptr;
      if (!found) continue;
      Trim();
      return found;
    }
    lock.Close();
    if (given_up()) return Error{Code::kCancelled, Reason::kNone, "it was given up"};
    std::this_thread::sleep_for(kLookForLock);
  }
}

// Under the exclusive lock.
Result<Ok> PackageCache::Bring(const std::string& digest, const Fetch& fetch) const {
  const std::string hex = HexOf(digest);
  DeletePartial(hex);
  DeleteEntry(Place("packages", hex));  // one that says nothing about itself
  std::string partial = Place("partial", hex) + ".XXXXXX";
  if (mkdtemp(partial.data()) == nullptr) return CacheTrouble("make the folder", partial);
  const auto bring = [&]() -> Result<Ok> {
    const std::string archive = partial + "/archive";
    if (auto fetched = fetch(archive); !fetched) return fetched;
    const auto hashes = HashFile(archive);
    if (!hashes) return hashes.error();
    if (hashes->Digest() != digest) {
      return Error{Code::kDataLoss, Reason::kDigestMismatch,
                   "what came has the digest " + hashes->Digest() + ", not " + digest};
    }
    auto unpacked = Unpack(archive, partial + "/new");
    if (!unpacked) return unpacked.error();
    unlink(archive.c_str());
    const std::string files = partial + "/" + unpacked->top;
    chmod((partial + "/new").c_str(), 0755);
    if (rename((partial + "/new").c_str(), files.c_str()) != 0) return CacheTrouble("make", files);
    chmod(files.c_str(), 0555);
    const std::string birth = partial.substr(partial.size() - 6) + std::to_string(getpid());
    auto written =
        WriteAbout(partial, {unpacked->top, ToHex(hashes->sha512), unpacked->bytes, birth});
    if (!written) return written;
    chmod(partial.c_str(), 0755);
    // The rename must not be on the disk before what is renamed.
    const Descriptor folder(open(partial.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder.open() || syncfs(folder.get()) != 0) return CacheTrouble("write", partial);
    const std::string entry = Place("packages", hex);
    if (rename(partial.c_str(), entry.c_str()) != 0) return CacheTrouble("make", entry);
    return Ok{};
  };
  auto brought = bring();
  if (!brought) DeleteEntry(partial);
  return brought;
}

// Under the exclusive lock: nobody is at work there.
void PackageCache::DeletePartial(const std::string& hex) const {
  std::error_code ignored;
  std::vector<std::string> left;
  for (const auto& one : fs::directory_iterator(folder_ + "/partial", ignored)) {
    if (one.path().filename().string().starts_with(hex)) left.push_back(one.path().string());
  }
  for (const std::string& path : left) DeleteEntry(path);
}

void PackageCache::SweepPartial() const {
  std::error_code ignored;
  std::vector<std::string> left;
  for (const auto& one : fs::directory_iterator(folder_ + "/partial", ignored)) {
    left.push_back(one.path().filename().string().substr(0, kHexDigits));
  }
  for (const std::string& hex : left) {
    if (!IsHexName(hex)) continue;
    const Descriptor lock = TryLock(Place("locks", hex), LOCK_EX);
    if (lock.open()) DeletePartial(hex);
  }
}

namespace {

struct Resident {
  std::string hex;
  uint64_t bytes = 0;
  timespec used{};
};

// The last used first.
std::vector<Resident> ResidentsOf(const std::string& folder) {
  std::vector<Resident> all;
  std::error_code ignored;
  for (const auto& one : fs::directory_iterator(folder + "/packages", ignored)) {
    Resident entry{.hex = one.path().filename().string()};
    const auto about = ReadAbout(one.path().string());
    if (!IsHexName(entry.hex) || !about) continue;
    entry.bytes = about->bytes;
    struct stat lock {};
    if (stat((folder + "/locks/" + entry.hex).c_str(), &lock) == 0) entry.used = lock.st_mtim;
    all.push_back(std::move(entry));
  }
  std::ranges::sort(all, [](const Resident& a, const Resident& b) {
    return std::pair(a.used.tv_sec, a.used.tv_nsec) > std::pair(b.used.tv_sec, b.used.tv_nsec);
  });
  return all;
}

}  // namespace

std::vector<std::string> PackageCache::Digests(size_t most) const {
  std::vector<std::string> digests;
  for (const Resident& one : ResidentsOf(folder_)) {
    if (digests.size() == most) break;
    digests.push_back(std::string(kDigestKind) + one.hex);
  }
  return digests;
}

void PackageCache::Trim() const {
  const std::vector<Resident> all = ResidentsOf(folder_);
  uint64_t bytes = 0;
  for (const Resident& one : all) bytes += one.bytes;
  for (size_t i = all.size(); i-- > 0 && bytes > most_;) {
    const Descriptor lock = TryLock(Place("locks", all[i].hex), LOCK_EX);
    if (!lock.open()) continue;  // in use
    Evict(all[i].hex);
    bytes -= all[i].bytes;
  }
}

// Under the exclusive lock, which goes, too: whoever waits for it finds that it is another one.
void PackageCache::Evict(const std::string& hex) const {
  const std::string away = Place("partial", hex) + ".gone";
  DeleteEntry(away);
  if (rename(Place("packages", hex).c_str(), away.c_str()) != 0) return;
  DeleteEntry(away);
  unlink(Place("locks", hex).c_str());
}

}  // namespace dfsmr::cli
