// What workers do to single instances, alone or as items of a batch or a stream: each item is
// allowed by itself. All of it in the loop.
#pragma once

#include <string>

#include "dsrv/access/access.h"
#include "dsrv/wire/requests.h"

namespace dfsmr {

// Moves the report's arguments away. What an operator does from outside is in the audit trail when
// it is durable, unless the whole call is noted there.
Result<Answer> ReportAs(Engine& engine, const Caller& caller, ReportCommand& report);

Engine::Extended ExtendAs(Engine& engine, const Caller& caller,
                          const Result<ExtendCommand>& extend);

// Answers the node.
Result<std::string> RelinquishAs(Engine& engine, const Caller& caller,
                                 RelinquishCommand& relinquish);

}  // namespace dfsmr
