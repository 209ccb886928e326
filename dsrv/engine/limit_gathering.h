// Who gives way to an instance that asks with latest, cancel or replace. There may be a million that
// hold its keys or wait for them, so they are looked through in portions.
#pragma once

#include <absl/container/btree_map.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "fsm/base/time.h"
#include "fsm/derived/limit_table.h"
#include "fsm/machine/limit.h"

namespace dfsmr {

// An instance, and since when it holds a key or waits for it.
using DatedInstance = std::pair<Timestamp, std::string>;

// How far LimitJudge::Gather has come.
struct LimitGathering {
  std::string ns;
  std::string id;                // that asks
  uint64_t order = 0;            // of its start
  Timestamp since;               // when it asked: newer ones ask for themselves
  std::set<std::string> spared;  // it and its ancestors, which wait for it
  LimitAsks asks;                // with words that cancel others
  size_t at = 0;                 // of `asks`

  // Of one ask. Those that wait go first, so that none of them begins when a holder goes.
  enum class Phase : uint8_t { kWaiters, kHolders, kCounted, kChoose, kWaitersGo, kHoldersGo };
  Phase phase = Phase::kWaiters;
  std::optional<LimitTable::Turn> turn;         // the last waiter that was looked at
  std::pair<std::string, uint64_t> last;        // the last of another phase, and its visit
  struct Found {
    Timestamp since;
    bool holds = false;
  };
  absl::btree_map<std::string, Found> found;    // by instance; several tokens count once
  std::optional<DatedInstance> stays;           // this one and the newer ones stay; absent: none
};

}  // namespace dfsmr
