// One instance in full, for people.
#pragma once

#include "dcli/call/context.h"

namespace dfsmr::cli {

// Prints what the instance is, where it stands, which workers have it, what it waits for, and which
// commands could come next. `instance.nodes` should hold its graph. A plan is shown by its steps.
void PrintWhole(Context& context, const v1::Instance& instance);

void PrintHistory(Context& context, const v1::GetHistoryResponse& history);

}  // namespace dfsmr::cli
