// An epoch numbers the owners of a partition, one after the other. Its upper half is a life: a
// store that was made of a backup begins another one, so that its epochs never meet those that the
// store which was backed up goes on with.
#pragma once

#include <cstdint>

namespace dfsmr {

inline constexpr int kEpochLifeShift = 32;
constexpr uint64_t LifeOfEpoch(uint64_t epoch) { return epoch >> kEpochLifeShift; }

}  // namespace dfsmr
