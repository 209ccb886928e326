// The task as a command gets it: proto3 JSON on one line, where instanceParams, nodeParams and
// eventData are objects, always there, with every digit as it was given.
#pragma once

#include <string>

#include "dfsmr/v1/runner.pb.h"

namespace dfsmr::cli {

// Of `dcli work`.
std::string TaskJson(const v1::Task& task);
// Of an agent: tries, triesLimit and dryRun are always there, too.
std::string AgentTaskJson(const v1::Task& task);

}  // namespace dfsmr::cli
