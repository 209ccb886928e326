// One instance in full, for people.
#pragma once

#include "dcli/call/context.h"

namespace dfsmr::cli {

// What it is, where it stands, who has it, what leads on, and what to type next. `instance.nodes`
// should hold its graph; one with steps is shown by them.
void PrintWhole(Context& context, const v1::Instance& instance);

void PrintHistory(Context& context, const v1::GetHistoryResponse& history);

}  // namespace dfsmr::cli
