// How much room the disk under the store has left.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "dsrv/engine/engine.h"

namespace dfsmr {

// One thread uses it.
class Disk {
 public:
  // `reserve` bytes should stay free; nullopt: 5 % of the disk, at most 256 MiB. 0: room is always
  // ample.
  Disk(std::filesystem::path path, std::optional<uint64_t> reserve);

  // Room is scarce below the reserve, and there is none below half of it. It improves again only an
  // eighth of the reserve above these limits, so that the result does not flicker. Logs a change.
  // Room is ample when the system does not say how much is free: the next write will show.
  Room Look();

 private:
  const std::filesystem::path path_;
  const std::optional<uint64_t> given_;
  Room room_ = Room::kAmple;
};

// Whether the disk is so full that what can be done without has to go before room is scarce: a
// quarter of the reserve above it, at least 64 MiB. Never with a reserve of 0. Any thread.
bool NearlyScarce(const std::filesystem::path& path, std::optional<uint64_t> reserve);
bool NearlyScarce(uint64_t free, uint64_t reserve);

// How many bytes may be taken before room is scarce, when the store takes `working` for its own work
// meanwhile. nullopt: any number, with a reserve of 0, or where the system does not say how much is
// free. Any thread.
std::optional<uint64_t> SpareRoom(const std::filesystem::path& path,
                                  std::optional<uint64_t> reserve, uint64_t working);
// The rule alone.
uint64_t SpareRoom(uint64_t free, uint64_t reserve, uint64_t working);

// The rule alone: the room with `free` bytes when it was `was` before.
Room RoomOf(uint64_t free, uint64_t reserve, Room was);

}  // namespace dfsmr
