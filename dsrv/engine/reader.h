// The part of an engine that threads other than the loop may see.
#pragma once

#include "dsrv/engine/engine.h"

namespace dfsmr {

// The definitions and the store of one partition. Any thread. The engine must outlive it.
struct Reader {
  Reader(const Engine& engine)  // NOLINT: an engine serves where a reader is wanted
      : registry(engine.registry()), store(engine.store()), partition(engine.partition()) {}

  const Registry& registry;
  const Store& store;
  const PartitionId partition;
};

}  // namespace dfsmr
