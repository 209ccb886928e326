// What a call that only reads sees: the rows of an engine's partition as they were when the moment
// was made, and the machines that they name. All that goes into one reply is read from one moment,
// so it was true at once. Any thread; as short as the call, for the store's sake.
#pragma once

#include <memory>

#include "dsrv/engine/engine.h"
#include "storage/rows/instance.h"
#include "storage/rows/reader.h"
#include "storage/store.h"

namespace dfsmr {

struct Moment {
  explicit Moment(const Engine& engine)
      : view(engine.store().Snapshot()),
        rows{*view, engine.partition()},
        registry(engine.registry()),
        resolve(engine.resolve()) {}

  const std::unique_ptr<const View> view;
  const rows::Reader rows;  // of `view`
  // Newer than the rows, but definitions are never removed: it has all that the rows name.
  const Registry& registry;
  const rows::Resolve resolve;
};

}  // namespace dfsmr
