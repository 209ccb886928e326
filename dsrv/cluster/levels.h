// Which tasks a worker gets of those that the partitions have. Pure.
#pragma once

#include <vector>

#include "dfsmr/peer.pb.h"
#include "storage/store.h"

namespace dfsmr {

// `found`: what each partition has. The partition of each task that the worker is to have, at most
// `most`, in their order: the highest priority first; of equals one of each partition in turn,
// beginning with the one whose oldest has been ready longest, so that none is passed over.
std::vector<PartitionId> Deal(const std::vector<peer::PeekResponse>& found, size_t most);

}  // namespace dfsmr
