// The machine that an agent runs on.
#pragma once

#include <string>

#include "dfsmr/v1/agent.pb.h"

namespace dfsmr::cli {

// All but `cgroups`.
v1::Host ThisHost();
// Characters that nobody guesses, new in each process.
std::string NewSession();

}  // namespace dfsmr::cli
