// Finds the instances that a list asks for in order of their last or first records. No index is
// kept for that: the feed's records are read in their order, and then those of histories that the
// feed no longer holds. An instance stands where its own last (or first) record does, so each
// stands in one place, and none is missing.
#pragma once

#include "dsrv/wire/search.h"

namespace dfsmr {

Result<SearchPage> SearchInOrder(const Moment& moment, const InstanceQuery& query);

}  // namespace dfsmr
