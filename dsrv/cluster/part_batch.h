// Parts of one call that go to the same server: one call carries all of them, since each would cost
// as much as the work that it asks for.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dsrv/cluster/part_call.h"

namespace dfsmr {

// Begins them all, each in the way that is the shortest.
void BeginAll(Front& front, const std::vector<std::shared_ptr<PartCall>>& calls);

// Serves what another server's BeginAll asks, peer::Parts. `done` is called once, with
// peer::PartReplies.
void ServeParts(Front& front, const std::string& request,
                std::function<void(const std::string& replies)> done);

}  // namespace dfsmr
