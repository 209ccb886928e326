// A trigger as it is written. Plain values, immutable once read.
#pragma once

#include "fsm/plan/source.h"

namespace dfsmr {

struct TriggerSource {
  Written written;  // the document
};

}  // namespace dfsmr
