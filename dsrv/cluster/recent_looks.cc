#include "dsrv/cluster/recent_looks.h"

#include <utility>

#include "dsrv/cluster/run_after.h"

namespace dfsmr {

bool RecentLooks::Begin(const std::string& what, std::function<void()> then) {
  const Lock lock(mutex_);
  const auto [at, begins] = under_way_.try_emplace(what);
  if (!begins) at->second.push_back(std::move(then));
  return begins;
}

void RecentLooks::Keep(const std::string& what, TopLevel top, Time now) {
  {
    const Lock lock(mutex_);
    if (looks_.size() >= kMost) looks_.clear();
    looks_.insert_or_assign(what, Look{std::move(top), now});
  }
  Leave(what);
}

void RecentLooks::Leave(const std::string& what) {
  const Lock lock(mutex_);
  const auto waiting = under_way_.extract(what);
  if (!waiting) return;
  for (auto& then : waiting.mapped()) RunAfter(std::chrono::milliseconds(0), std::move(then));
}

std::optional<std::vector<PartitionId>> RecentLooks::Take(const std::string& what, size_t tasks,
                                                          Time now) {
  const Lock lock(mutex_);
  if (++turn_ % kAsksOf == 0) return std::nullopt;
  const auto look = looks_.find(what);
  if (look == looks_.end()) return std::nullopt;
  if (now - look->second.time <= kRecent) return look->second.top.Take(tasks, turn_);
  looks_.erase(look);
  return std::nullopt;
}

uint64_t RecentLooks::NextTurn() {
  const Lock lock(mutex_);
  return ++turn_;
}

}  // namespace dfsmr
