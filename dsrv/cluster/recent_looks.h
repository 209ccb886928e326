// What was found at partitions a moment ago, for polls that ask for the same: of many workers not
// each asks all partitions.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dfsmr/v1/runner.pb.h"
#include "dsrv/access/direct.h"
#include "dsrv/cluster/levels.h"
#include "fsm/base/mutex.h"

namespace dfsmr {

// All that decides what such a poll finds: `what` below.
std::string NameOfLook(const v1::ReadyRequest& asked, const DirectOrigin& origin);
// How many tasks it wants.
size_t TasksWanted(const v1::ReadyRequest& asked);

// Any thread.
class RecentLooks {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // True: the caller is to look, and to call Keep or Leave
  // then. False: somebody does so already, and `then` is called when that is over, by RunAfter.
  bool Begin(const std::string& what, std::function<void()> then);
  void Keep(const std::string& what, TopLevel top, Time now);
  void Leave(const std::string& what);
  // The partitions of so many tasks. nullopt: all are to be asked, since nobody has for 20 ms, or
  // others have got what was found; or it is only due: what a look leaves out (tasks for one
  // worker) is not left out for ever.
  std::optional<std::vector<PartitionId>> Take(const std::string& what, size_t tasks,
                                               std::vector<bool> near, Time now);
  // Whether the next Take asks all: so that it is not tried in vain.
  bool AsksAllNext();
  uint64_t NextTurn();

 private:
  static constexpr std::chrono::milliseconds kRecent{20};
  static constexpr size_t kMost = 256;    // looks
  static constexpr uint64_t kAsksOf = 8;  // polls one asks all
  struct Look {
    TopLevel top;
    Time time;
  };

  Mutex mutex_;
  std::map<std::string, Look> looks_ GUARDED(mutex_);
  std::map<std::string, std::vector<std::function<void()>>> under_way_ GUARDED(mutex_);
  uint64_t turn_ GUARDED(mutex_) = 0;
};

}  // namespace dfsmr
