// The transitions that a task may report.
#pragma once

#include <string>
#include <vector>

#include "dcli/call/client.h"

namespace dfsmr::cli {

// Those that the task's node has. Asked for when a report was refused.
Result<std::vector<std::string>> LegalTransitions(Client& client, const v1::Task& task);

}  // namespace dfsmr::cli
