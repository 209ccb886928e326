// What operators see of the server beside its answers: logs on standard error, and counts.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "fsm/base/result.h"

namespace dfsmr {

// Sets the process's logger up, and routes gRPC's own log into it. `level` is one of trace, debug,
// info, warn, error, off. With `json`, a JSON object a line.
Result<Ok> StartLog(const std::string& level, bool json);

// Counts a refused call by its reason, and logs it: at most a few a second one by one, the rest as
// a number, so that a flood of refusals is not a flood of logs. Any thread.
void NoteRefusal(const Error& error, std::string_view peer);

// Refused calls so far, by reason (by code where there is no reason).
std::map<std::string, uint64_t> Refusals();

}  // namespace dfsmr
