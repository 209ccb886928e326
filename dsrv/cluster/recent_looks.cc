#include "dsrv/cluster/recent_looks.h"

#include <algorithm>
#include <utility>

#include "dsrv/cluster/run_after.h"

namespace dfsmr {

std::string NameOfLook(const v1::ReadyRequest& asked, const DirectOrigin& origin) {
  v1::ReadyRequest request = asked;
  request.clear_wait();
  request.clear_worker();
  std::string name = request.SerializeAsString();
  name += std::string(origin.Bearer()) + '\0' + origin.Certificate();
  return name;
}

size_t TasksWanted(const v1::ReadyRequest& asked) {
  return static_cast<size_t>(std::clamp(asked.max_tasks(), 1, 1'000));
}

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

bool RecentLooks::AsksAllNext() {
  const Lock lock(mutex_);
  return (turn_ + 1) % kAsksOf == 0;
}

std::optional<std::vector<PartitionId>> RecentLooks::Take(const std::string& what, size_t tasks,
                                                          std::vector<bool> near, Time now) {
  const Lock lock(mutex_);
  if (++turn_ % kAsksOf == 0) return std::nullopt;
  const auto look = looks_.find(what);
  if (look == looks_.end()) return std::nullopt;
  if (now - look->second.time <= kRecent) {
    return look->second.top.Take(tasks, {turn_, std::move(near)});
  }
  looks_.erase(look);
  return std::nullopt;
}

uint64_t RecentLooks::NextTurn() {
  const Lock lock(mutex_);
  return ++turn_;
}

}  // namespace dfsmr
