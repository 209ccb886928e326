// What a call that only reads sees: the rows of an engine's partition as they were when the moment
// was made, and the machines that they name. Everything in one reply is read from one moment, so it
// was all true at the same time. Any thread. Keep it no longer than the call, since the store keeps
// all that a moment shows.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "dsrv/engine/reader.h"
#include "dsrv/engine/registry.h"
#include "storage/place.h"
#include "storage/rows/instance.h"
#include "storage/rows/reader.h"
#include "storage/store.h"

namespace dfsmr {

struct Moment {
  explicit Moment(const Reader& reader)
      : view(reader.store.Snapshot()),
        rows{*view, reader.partition},
        registry(reader.registry),
        resolve(registry.resolve()),
        partitions(reader.partitions) {}

  // The rows of the partition in which an instance lives, as they are durable. What another one has
  // in memory only does not show in them, such as claims.
  rows::Reader RowsOf(std::string_view ns, std::string_view instance) const {
    return {*view, partitions == 1 ? rows.partition : PartitionOf(ns, instance, partitions)};
  }

  const std::unique_ptr<const View> view;
  const rows::Reader rows;  // of `view`
  // May be newer than the rows, but has everything that they name: definitions are never removed.
  const Registry& registry;
  const rows::Resolve resolve;
  const uint16_t partitions;  // of the store
};

}  // namespace dfsmr
