// The store that the flags name, in a database.
#pragma once

#include "dsrv/flags.h"
#include "dsrv/shared.h"

namespace dfsmr {

// Connects, and makes the store where there is none. The log is open.
Result<SharedStore> OpenShared(const Flags& flags);

}  // namespace dfsmr
