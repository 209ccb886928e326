// A schedule as it is written. Plain values, immutable once read.
#pragma once

#include "fsm/plan/source.h"

namespace dfsmr {

struct ScheduleSource {
  Written written;  // the document
};

}  // namespace dfsmr
