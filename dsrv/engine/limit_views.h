// Limits as clients see them. Plain values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dsrv/engine/limit_numbers.h"

namespace dfsmr {

struct LimitHolderView {
  std::string instance;
  std::string node;  // empty: the instance as a whole
  Timestamp since;
  bool forced = false;
  bool cancelling = false;
};
struct LimitWaiterView {
  std::string instance;
  std::string node;
  Timestamp since;
  int32_t priority = 0;
  std::vector<std::string> lacks;
  bool paused = false;
  std::string place;  // in the line: a page begins after it
};
struct LimitView {
  std::string ns;
  std::string key;
  LimitStanding standing;
  rows::LimitOverride override;  // as it was set; empty: it was not
  uint64_t held = 0;
  uint64_t waiting = 0;
  double tokens = 0;     // of the rate
  Timestamp next_token;  // not later than now: there is one
  std::vector<LimitHolderView> holders;
  std::vector<LimitWaiterView> waiters;
  bool more = false;  // that wait
};
struct LimitQuery {
  std::string ns;
  std::string prefix;
  bool waited_for = false;
  std::string after;  // a key
  size_t limit = 0;
};

}  // namespace dfsmr
