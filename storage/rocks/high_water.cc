#include "storage/rocks/high_water.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>
#include <string_view>

#include "storage/rocks/file.h"

namespace dfsmr {
namespace {

constexpr size_t kSlotBytes = 4096;  // a page: a torn write of one slot cannot touch the other
constexpr std::string_view kMagic = "dfsmr-hw";
constexpr uint64_t kVersion = 1;

struct Slot {
  uint64_t turn = 0;
  HighWater::Mark mark;
};

uint64_t Fnv1a(std::string_view bytes) {
  uint64_t hash = 14695981039346656037U;
  for (const char byte : bytes) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 1099511628211U;
  }
  return hash;
}

void Append(std::string& bytes, uint64_t number) {
  for (int shift = 56; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(number >> shift));
}

uint64_t Take(std::string_view& bytes) {
  uint64_t number = 0;
  for (const char byte : bytes.substr(0, 8)) {
    number = number << 8 | static_cast<unsigned char>(byte);
  }
  bytes.remove_prefix(8);
  return number;
}

std::string Encode(const Slot& slot) {
  std::string bytes(kMagic);
  Append(bytes, kVersion);
  Append(bytes, slot.turn);
  Append(bytes, slot.mark.sequence);
  Append(bytes, slot.mark.incarnation);
  Append(bytes, Fnv1a(bytes));
  bytes.resize(kSlotBytes);
  return bytes;
}

std::optional<Slot> Decode(std::string_view bytes) {
  constexpr size_t kHashed = kMagic.size() + 4 * sizeof(uint64_t);
  if (bytes.size() < kHashed + sizeof(uint64_t) || !bytes.starts_with(kMagic)) return std::nullopt;
  const uint64_t hash = Fnv1a(bytes.substr(0, kHashed));
  bytes.remove_prefix(kMagic.size());
  const uint64_t version = Take(bytes);
  Slot slot;
  slot.turn = Take(bytes);
  slot.mark.sequence = Take(bytes);
  slot.mark.incarnation = Take(bytes);
  if (version != kVersion || Take(bytes) != hash) return std::nullopt;
  return slot;
}

// Up to kSlotBytes, fewer at the end of the file; nullopt: errno says why it failed.
std::optional<std::string> ReadAt(int file, size_t offset) {
  std::string bytes(kSlotBytes, '\0');
  size_t size = 0;
  while (size < kSlotBytes) {
    const ssize_t got =
        pread(file, bytes.data() + size, kSlotBytes - size, static_cast<off_t>(offset + size));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace

Result<std::unique_ptr<HighWater>> HighWater::Open(const std::filesystem::path& path) {
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0 && errno == ENOENT)
    return Error{Code::kNotFound, Reason::kNone, "no file " + path.string()};
  if (file < 0) return FileError("open", path);
  std::unique_ptr<HighWater> opened(new HighWater(path, file, 0, {}));
  const Lock lock(opened->mutex_);
  bool found = false;
  for (const size_t offset : {size_t{0}, kSlotBytes}) {
    const auto bytes = ReadAt(file, offset);
    if (!bytes) return FileError("read", path);
    const auto slot = Decode(*bytes);
    if (!slot || (found && slot->turn <= opened->turn_)) continue;
    found = true;
    opened->turn_ = slot->turn;
    opened->mark_ = slot->mark;
  }
  if (!found) return Error{Code::kDataLoss, Reason::kNone, path.string() + " is damaged"};
  return opened;
}

Result<std::unique_ptr<HighWater>> HighWater::Create(const std::filesystem::path& path, Mark mark) {
  // Both slots at once, so that later writes never make the file grow: a sync then costs half.
  const auto replaced = ReplaceFile(path, Encode({0, mark}) + Encode({1, mark}));
  if (!replaced) return replaced.error();
  return Open(path);
}

HighWater::~HighWater() { close(file_); }

HighWater::Mark HighWater::mark() const {
  const Lock lock(mutex_);
  return mark_;
}

Result<Ok> HighWater::Raise(uint64_t sequence) {
  const Lock lock(mutex_);
  if (sequence <= mark_.sequence) return Ok{};
  const Slot slot{turn_ + 1, {sequence, mark_.incarnation}};
  if (!WriteAt(file_, Encode(slot), slot.turn % 2 * kSlotBytes)) return FileError("write", path_);
  turn_ = slot.turn;
  mark_ = slot.mark;
  synced_ = false;
  return Ok{};
}

Result<Ok> HighWater::Sync() {
  {
    const Lock lock(mutex_);
    if (synced_) return Ok{};
    synced_ = true;
  }
  // Not under the lock, so that writers can go on. What they raise meanwhile waits for the next
  // Sync.
  if (fdatasync(file_) != 0) return FileError("write", path_);
  return Ok{};
}

}  // namespace dfsmr
