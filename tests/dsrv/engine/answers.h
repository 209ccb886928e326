// What answers say, in the words of tests.
#pragma once

#include <string>

#include "fsm/base/names.h"
#include "fsm/base/result.h"

namespace dfsmr {

// The name of the reason of a refusal; empty: it is none.
inline std::string ReasonOf(const auto& result) {
  return result ? "" : std::string(Name(result.error().reason));
}

}  // namespace dfsmr
