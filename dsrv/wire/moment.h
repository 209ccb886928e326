// What a call that only reads sees: the rows of an engine's partition as they were when the moment
// was made, and the machines that they name. All that goes into one reply is read from one moment,
// so it was true at once. Any thread; as short as the call, for the store's sake.
#pragma once

#include <memory>

#include "dsrv/engine/reader.h"
#include "storage/rows/instance.h"
#include "storage/rows/reader.h"
#include "storage/store.h"

namespace dfsmr {

struct Moment {
  explicit Moment(const Reader& reader)
      : view(reader.store.Snapshot()),
        rows{*view, reader.partition},
        registry(reader.registry),
        resolve([&known = registry](std::string_view ns, std::string_view id, uint32_t version) {
          return known.Resolve(ns, id, version);
        }) {}

  const std::unique_ptr<const View> view;
  const rows::Reader rows;  // of `view`
  // Newer than the rows, but definitions are never removed: it has all that the rows name.
  const Registry& registry;
  const rows::Resolve resolve;
};

}  // namespace dfsmr
