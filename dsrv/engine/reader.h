// The part of an engine that threads other than the loop may see.
#pragma once

#include <cstdint>

#include "dsrv/engine/names.h"
#include "storage/store.h"

namespace dfsmr {

// The definitions and the store of one partition. Any thread. The engine must outlive it.
struct Reader {
  const Registry& registry;
  const Store& store;
  const PartitionId partition;
  const uint16_t partitions = 1;  // of the store
};

}  // namespace dfsmr
