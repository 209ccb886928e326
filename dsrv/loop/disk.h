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

// The rule alone: the room with `free` bytes when it was `was` before.
Room RoomOf(uint64_t free, uint64_t reserve, Room was);

}  // namespace dfsmr
