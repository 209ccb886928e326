// What workers do to single instances, alone or as items of a batch or a stream. Each function
// checks whether the caller may do it. Call them in the loop.
#pragma once

#include <string>

#include "dsrv/access/access.h"
#include "dsrv/wire/requests.h"

namespace dfsmr {

// Moves the report's arguments away. A report from outside goes into the audit trail when it is
// durable, unless the whole call does.
Result<Answer> ReportAs(Engine& engine, const Caller& caller, ReportCommand& report);

Extended ExtendAs(Engine& engine, const Caller& caller, const Result<ExtendCommand>& extend);

// Returns the node.
Result<std::string> RelinquishAs(Engine& engine, const Caller& caller,
                                 RelinquishCommand& relinquish);

}  // namespace dfsmr
