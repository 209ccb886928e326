// Where an instance lives: in one of the store's partitions, for good. Children live with their
// parents, since their ids begin with those.
#pragma once

#include <string_view>

#include "storage/store.h"

namespace dfsmr {

// What belongs to all is here: definitions, packages, tokens, secrets, schedules.
inline constexpr PartitionId kHome = 0;

// The id without the ends /STEP/N that make a child's of its parent's: without all of them that
// have something before them.
std::string_view Root(std::string_view id);

// What decides: a hash of the namespace (empty: "default") and of the id's root.
uint64_t PlaceHash(std::string_view ns, std::string_view id);

// Of so many partitions.
inline PartitionId PartitionOf(std::string_view ns, std::string_view id, uint16_t partitions) {
  return partitions == 1 ? PartitionId{0}
                         : static_cast<PartitionId>(PlaceHash(ns, id) % partitions);
}

}  // namespace dfsmr
