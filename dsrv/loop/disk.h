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
  // `reserve` bytes are to stay free; absent: 5 % of the disk, at most 256 MiB. 0: room is ample.
  Disk(std::filesystem::path path, std::optional<uint64_t> reserve);

  // Scarce below the reserve, none below half of it. Each step back comes an eighth of the reserve
  // later, so that a disk that hovers at a limit does not flicker. Logs a change. Room is ample
  // when the system does not say how much is free: the next write will show.
  Room Look();

 private:
  const std::filesystem::path path_;
  const std::optional<uint64_t> given_;
  Room room_ = Room::kAmple;
};

// The rule alone: what comes after `was` with `free` bytes.
Room RoomOf(uint64_t free, uint64_t reserve, Room was);

}  // namespace dfsmr
