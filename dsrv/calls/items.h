// What workers do to single instances, alone or as items of a batch or a stream. Each function
// checks whether the caller may do it. Call them in the loop.
#pragma once

#include <string>
#include <string_view>

#include "dsrv/access/access.h"
#include "dsrv/wire/requests.h"

namespace dfsmr {

// Moves the report's arguments away. A report from outside, and what a changer's report starts, go
// into the audit trail when they are durable, unless the whole call does.
Result<Answer> ReportAs(Engine& engine, const Caller& caller, ReportCommand& report);

// What the audit trail says of a report: its transition, and what it starts.
std::string DetailOf(const ReportCommand& report);

// A start belongs to the trace of its call, unless it names one of its own. `traceparent` may be
// empty or malformed: then it counts for nothing.
void Join(std::string_view traceparent, StartArgs* start);

// A start beside reports, which ToAllowedStarts has admitted. Moves its arguments away.
Result<Started> StartAs(Engine& engine, const Caller& caller, Result<StartArgs>& start);

// kTooLarge when the reports of one message, and `besides` starts in it, start too many instances.
Result<Ok> CheckStarts(const google::protobuf::RepeatedPtrField<v1::TransitionRequest>& transitions,
                       int besides);

// `session`: the stream that it came on; 0: none.
Extended ExtendAs(Engine& engine, const Caller& caller, const Result<ExtendCommand>& extend,
                  SessionId session = 0);

// Returns the node.
Result<std::string> RelinquishAs(Engine& engine, const Caller& caller,
                                 RelinquishCommand& relinquish);

}  // namespace dfsmr
