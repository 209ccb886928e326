// What an instance says of what it waits for; who holds the limits' keys only the engine knows.
#pragma once

#include "dsrv/engine/types.h"

namespace dfsmr {

InstanceWaits WaitsIn(const Instance& instance);

}  // namespace dfsmr
