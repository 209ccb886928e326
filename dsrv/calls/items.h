// What workers do to single instances, alone or as items of a batch or a stream: each item is
// allowed by itself. All of it in the loop.
#pragma once

#include <string>

#include "dsrv/access/access.h"
#include "dsrv/wire/requests.h"

namespace dfsmr {

// Moves the report's arguments away. What an operator does from outside is in the audit trail when
// it is durable, unless the whole call is noted there.
Result<Answer> ReportAs(const Caller& caller, Engine& engine, ReportCommand* report);

Engine::Extended ExtendAs(const Caller& caller, Engine& engine, const std::string& ns,
                          const v1::ExtendRequest::Item& item);

// Answers the node. `client` is who does it without a claim.
Result<std::string> RelinquishAs(const Caller& caller, Engine& engine, const std::string& ns,
                                 const std::string& instance, const ClaimRef& claim,
                                 const std::string& client);

}  // namespace dfsmr
