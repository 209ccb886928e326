// What threads other than the loop may see of an engine.
#pragma once

#include "dsrv/engine/engine.h"

namespace dfsmr {

// The definitions and the store, of one partition. Any thread; outlived by the engine.
struct Reader {
  Reader(const Engine& engine)  // NOLINT: an engine can be read, and a reader does nothing else
      : registry(engine.registry()), store(engine.store()), partition(engine.partition()) {}

  const Registry& registry;
  const Store& store;
  const PartitionId partition;
};

}  // namespace dfsmr
