// What the numbers of a Sketch's buckets mean.
#pragma once

#include <cstdint>

#include "fsm/base/time.h"

namespace dfsmr {

// The longest duration that falls into the bucket.
Duration LongestIn(uint16_t bucket);

}  // namespace dfsmr
