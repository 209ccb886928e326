// What "now" is for a command that names a time to the server.
#pragma once

#include <string_view>

#include "dcli/call/context.h"
#include "fsm/base/time.h"

namespace dfsmr::cli {

// As ParseTime. "+DURATION" counts from the server's time if its clock is virtual; otherwise from
// ours, also when the server does not say.
Result<Timestamp> ParseServerTime(Context& context, std::string_view text);
// How long ago something was is told by the server's time, too, from now on.
void LookByServerTime(Context& context);

}  // namespace dfsmr::cli
