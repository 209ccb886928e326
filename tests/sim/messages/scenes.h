// Short scenes between the partitions of one store, of what drawn runs meet too rarely: what
// happens is written down, and must end as it is said here; how messages come, twice or late or in
// which order, and whose engine crashes meanwhile, is drawn.
#pragma once

#include <cstdint>
#include <string>

namespace dfsmr::message_sim {

// Two scenes of a seed. What was wrong; empty: all is well.
std::string PlayScenes(uint64_t seed, bool trace);

}  // namespace dfsmr::message_sim
