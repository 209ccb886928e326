// What a call that only reads sees: the rows of an engine's partition as they were when the moment
// was made, and the machines that they name. Everything in one reply is read from one moment, so it
// was all true at the same time. Any thread. Keep it no longer than the call, since the store keeps
// all that a moment shows.
#pragma once

#include <memory>

#include "dsrv/engine/reader.h"
#include "dsrv/engine/registry.h"
#include "storage/rows/instance.h"
#include "storage/rows/reader.h"
#include "storage/store.h"

namespace dfsmr {

struct Moment {
  explicit Moment(const Reader& reader)
      : view(reader.store.Snapshot()),
        rows{*view, reader.partition},
        registry(reader.registry),
        resolve(registry.resolve()) {}

  const std::unique_ptr<const View> view;
  const rows::Reader rows;  // of `view`
  // May be newer than the rows, but has everything that they name: definitions are never removed.
  const Registry& registry;
  const rows::Resolve resolve;
};

}  // namespace dfsmr
