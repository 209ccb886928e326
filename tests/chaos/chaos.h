// The parts of chaos. Each prints what it did, and throws Broken at a promise that does not hold.
#pragma once

#include "tests/chaos/server.h"

namespace dfsmr::chaos {

// kill -9, again and again, under all kinds of load; then the audit.
void Kill(const Options& options, int kills);

// Concurrent calls on the same instances, kills among them, checked against a sequential
// specification.
void Linear(const Options& options, uint64_t operations, double seconds_between_kills);

// Ten times the load that it can carry for so long, and clients that behave badly.
void Overload(const Options& options, double seconds, bool brief);

// 70 % of what it can carry, for so long; memory and open files must stay flat. `rate` is in
// instances a second; 0: measured.
void Soak(const Options& options, double minutes, double rate);

}  // namespace dfsmr::chaos
