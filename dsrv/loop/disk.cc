#include "dsrv/loop/disk.h"

#include <spdlog/spdlog.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <utility>

namespace dfsmr {
namespace {

constexpr uint64_t kReserveMax = 256 << 20;
constexpr uint64_t kReserveShare = 20;  // one in so many bytes

void Tell(Room room, const std::filesystem::path& path, uint64_t free, uint64_t reserve) {
  constexpr uint64_t kMebibyte = 1 << 20;
  const auto log = [&](auto level, std::string_view what) {
    spdlog::log(level, "{}: {} MiB are free under {}, and {} MiB are to stay free", what,
                free / kMebibyte, path.string(), reserve / kMebibyte);
  };
  switch (room) {
    case Room::kAmple: return log(spdlog::level::info, "the disk has room again");
    case Room::kScarce:
      return log(spdlog::level::warn,
                 "the disk is nearly full: nothing new is accepted until there is room");
    case Room::kNone:
      return log(spdlog::level::err,
                 "the disk is as good as full: no work is handed out and no reports are accepted "
                 "until there is room");
  }
}

struct Space {
  uint64_t free;
  uint64_t reserve;
};

// nullopt: the system does not say.
std::optional<Space> SpaceOf(const std::filesystem::path& path, std::optional<uint64_t> reserve) {
  struct statvfs disk = {};
  if (statvfs(path.c_str(), &disk) != 0) return std::nullopt;
  const uint64_t share = std::min(kReserveMax, disk.f_blocks * disk.f_frsize / kReserveShare);
  return Space{disk.f_bavail * disk.f_frsize, reserve.value_or(share)};
}

}  // namespace

Disk::Disk(std::filesystem::path path, std::optional<uint64_t> reserve)
    : path_(std::move(path)), given_(reserve) {}

Room Disk::Look() {
  const auto space = SpaceOf(path_, given_);
  if (!space) return room_ = Room::kAmple;
  const auto [free, reserve] = *space;
  const Room now = RoomOf(free, reserve, room_);
  if (now != std::exchange(room_, now)) Tell(now, path_, free, reserve);
  return now;
}

bool NearlyScarce(uint64_t free, uint64_t reserve) {
  constexpr uint64_t kLeast = 64 << 20;
  return reserve != 0 && free < reserve + std::max(reserve / 4, kLeast);
}

bool NearlyScarce(const std::filesystem::path& path, std::optional<uint64_t> reserve) {
  const auto space = SpaceOf(path, reserve);
  return space && NearlyScarce(space->free, space->reserve);
}

std::optional<uint64_t> SpareRoom(const std::filesystem::path& path,
                                  std::optional<uint64_t> reserve, uint64_t working) {
  const auto space = SpaceOf(path, reserve);
  if (!space || space->reserve == 0) return std::nullopt;
  return SpareRoom(space->free, space->reserve, working);
}

uint64_t SpareRoom(uint64_t free, uint64_t reserve, uint64_t working) {
  return free < reserve + working ? 0 : free - reserve - working;
}

Room RoomOf(uint64_t free, uint64_t reserve, Room was) {
  const auto more = [reserve, was](Room room) { return was >= room ? reserve / 8 : 0; };
  if (free < reserve / 2 + more(Room::kNone)) return Room::kNone;
  if (free < reserve + more(Room::kScarce)) return Room::kScarce;
  return Room::kAmple;
}

}  // namespace dfsmr
