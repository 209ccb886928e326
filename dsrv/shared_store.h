// The store that the flags name, in a database.
#pragma once

#include "dsrv/flags.h"
#include "dsrv/shared.h"

namespace dfsmr {

// Connects, and makes the store where there is none. The log is open. `known`: as in RunShared.
Result<SharedStore> OpenShared(const Flags& flags, const std::string& known);

}  // namespace dfsmr
