// A limit as it is written. Plain values, immutable once read.
#pragma once

#include <map>
#include <string>

#include "fsm/machine/limit.h"
#include "fsm/plan/source.h"

namespace dfsmr {

struct LimitSource {
  Written written;  // the document
  // The key that it governs, with all keys that begin with it and a slash; of a built-in one, such
  // as "queue:mail", only that.
  std::string root;
  LimitNumbers numbers;
  std::map<std::string, LimitNumbers> keys;  // in place of `numbers`: what is absent there counts
};

}  // namespace dfsmr
