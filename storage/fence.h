// The error with which every store refuses a writer that does not own the partition, or no longer.
#pragma once

#include <string>

#include "storage/store.h"

namespace dfsmr {

// Epochs start at 1. `current` is 0 when nobody has acquired the partition since the store was
// opened: then every write is refused.
inline Error Superseded(PartitionId partition, Epoch epoch, Epoch current) {
  const std::string name = "partition " + std::to_string(partition);
  return {Code::kAborted, Reason::kNone,
          current == 0 ? "nobody has acquired " + name + ": a write under epoch " +
                             std::to_string(epoch) + " was refused, nothing was written"
                       : name + " has another owner, under epoch " + std::to_string(current) +
                             ": a write under epoch " + std::to_string(epoch) +
                             " was refused, nothing was written"};
}

}  // namespace dfsmr
