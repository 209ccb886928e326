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

  // Scarce below the reserve, none below half of it, and ample again an eighth of it later, so that
  // one who hovers does not flicker. Logs a change. A disk that does not tell has room: the next
  // write shows.
  Room Look();

 private:
  const std::filesystem::path path_;
  const std::optional<uint64_t> given_;
  Room room_ = Room::kAmple;
};

// The rule alone: what `was` becomes with `free` bytes.
Room RoomOf(uint64_t free, uint64_t reserve, Room was);

}  // namespace dfsmr
