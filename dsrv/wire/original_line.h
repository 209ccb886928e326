// A change of the feed as the original service tells it.
#pragma once

#include <string>

#include "dfsmr/v1/runner.pb.h"

namespace dfsmr {

// The call, then what was in it.
std::string OriginalLine(const v1::Change& change);

}  // namespace dfsmr
