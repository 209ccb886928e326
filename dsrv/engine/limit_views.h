// Limits as clients see them, and what they change. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fsm/base/time.h"
#include "fsm/when/limit.h"
#include "storage/rows/limit.h"

namespace dfsmr {

// What Limits::Override changes.
struct LimitChange {
  std::optional<uint32_t> max;      // absent: unchanged
  bool no_max = false;              // no limit, as if `max` stood nowhere
  std::optional<Rate> rate;         // absent: unchanged
  bool no_rate = false;             // the same for the rate
  bool reset = false;               // drops the override; alone
  std::optional<std::string> note;  // absent: unchanged
  std::string client;               // who changes it
};

// Which word counts, the strongest last. Same numbers as schedule.proto.
enum class LimitOrigin : uint8_t { kNone = 1, kAsker, kDocument, kOverride };

// The numbers that count for a key, and where they come from.
struct LimitStanding {
  LimitNumbers numbers;
  LimitOrigin max_from = LimitOrigin::kNone;
  LimitOrigin rate_from = LimitOrigin::kNone;
  std::string document;  // that governs the key; empty: none
};

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
