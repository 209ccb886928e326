// The key `retry` of actions, steps, sections and nodes, and the keys beside it that bound
// attempts.
#pragma once

#include <cstdint>

#include "fsm/machine/retry.h"
#include "fsm/yaml/fields.h"

namespace dfsmr {

// How many tries there are in all, or {limit: 3, delay: 1s, factor: 2, max: 1m, jitter: 0.25, on:
// [transient]}.
bool ReadRetry(const Field& field, RetryPolicy* out);

// A share from 0 to 1.
bool ReadJitter(const Field& field, double* out);

// How many attempts may be lost with their agents; 0: as many as there are.
bool ReadAbandonAfter(const Field& field, uint32_t* out);

}  // namespace dfsmr
