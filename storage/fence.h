// What every store answers to a writer whose time is over.
#pragma once

#include <string>

#include "storage/store.h"

namespace dfsmr {

// Epochs start at 1; a partition that nobody has acquired since the store was opened is at 0, and
// then every write is refused: an owner says so first.
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
