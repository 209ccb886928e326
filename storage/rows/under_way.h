// Why a store cannot become one of another number of partitions as it is.
#pragma once

#include <string>

#include "fsm/base/result.h"

namespace dfsmr::rows {

inline Error UnderWay(const std::string& what, const std::string& remedy) {
  return {Code::kFailedPrecondition, Reason::kNone,
          what + ": serve the store once more, " + remedy +
              ", and let it move into another number of partitions then"};
}

}  // namespace dfsmr::rows
