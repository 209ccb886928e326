// What workers do to single instances, alone or as items of a batch or a stream. Each function
// checks whether the caller may do it. Call them in the loop.
#pragma once

#include <string>

#include "dsrv/access/access.h"
#include "dsrv/wire/requests.h"

namespace dfsmr {

// Moves the report's arguments away. A report from outside goes into the audit trail when it is
// durable, unless the whole call does.
Result<Answer> ReportAs(const Caller& caller, Engine& engine, ReportCommand* report);

Engine::Extended ExtendAs(const Caller& caller, Engine& engine, const std::string& ns,
                          const v1::ExtendRequest::Item& item);

// Returns the node. `client` names the caller who relinquishes without a claim.
Result<std::string> RelinquishAs(const Caller& caller, Engine& engine, const std::string& ns,
                                 const std::string& instance, const std::string& claim,
                                 const std::string& client);

}  // namespace dfsmr
