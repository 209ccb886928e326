#include "dsrv/cluster/levels.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

namespace dfsmr {
namespace {

constexpr int64_t kTogether = 30'000;  // microseconds by which others may be overtaken

// By priority, the highest first.
using Levels = std::map<int64_t, std::vector<LevelLeft>, std::greater<>>;

Levels LevelsOf(const std::vector<peer::PeekResponse>& found) {
  Levels levels;
  for (size_t partition = 0; partition < found.size(); ++partition) {
    for (const auto& level : found[partition].levels()) {
      if (level.tasks() == 0) continue;
      LevelLeft left{static_cast<PartitionId>(partition), level.tasks(), {}};
      const int64_t oldest =
          google::protobuf::util::TimeUtil::TimestampToMicroseconds(level.since());
      left.since.push_back(oldest);
      for (const uint64_t later : level.later()) {
        left.since.push_back(oldest + static_cast<int64_t>(later));
      }
      levels[level.priority()].push_back(std::move(left));
    }
  }
  return levels;
}

// How many of the known ones are that old.
size_t UpTo(const LevelLeft& one, int64_t time) {
  const auto from = one.since.begin() + static_cast<std::ptrdiff_t>(one.next);
  return static_cast<size_t>(std::upper_bound(from, one.since.end(), time) - from);
}

// One after the other from where most go together. Ends where it is not known who is the oldest.
void DealKnown(std::vector<LevelLeft>* level, size_t most, const Choice& choice,
               std::vector<PartitionId>* dealt) {
  while (dealt->size() < most) {
    int64_t oldest = INT64_MAX;
    for (const LevelLeft& one : *level) {
      if (one.tasks > 0) oldest = std::min(oldest, one.Head());
    }
    if (oldest == INT64_MAX) return;
    const size_t wanted = most - dealt->size();
    LevelLeft* best = nullptr;
    std::pair<size_t, bool> of_best;  // so many go together, and it is near
    for (size_t i = 0; i < level->size(); ++i) {
      LevelLeft& one = (*level)[(i + choice.turn) % level->size()];
      if (one.tasks == 0) continue;
      const std::pair of_one(
          std::min(wanted, UpTo(one, /*mutant front-overtakes*/ oldest + kTogether /*end*/)),
          /*mutant front-near-ignored*/ choice.IsNear(one.partition) /*end*/);
      if (of_one.first == 0 || of_one <= of_best) continue;
      best = &one;
      of_best = of_one;
    }
    if (!best) return;
    dealt->insert(dealt->end(), of_best.first, best->partition);
    best->next += of_best.first;
    best->tasks -= static_cast<uint32_t>(of_best.first);
  }
}

// One of each in turn, until there are no more or none is wanted.
void DealInTurn(std::vector<LevelLeft> level, size_t most, std::vector<PartitionId>* dealt) {
  std::erase_if(level, [](const LevelLeft& one) { return one.tasks == 0; });
  std::ranges::sort(level, {},
                    [](const LevelLeft& one) { return std::pair(one.Head(), one.partition); });
  while (dealt->size() < most && !level.empty()) {
    for (LevelLeft& one : level) {
      if (dealt->size() == most) return;
      dealt->push_back(one.partition);
      --one.tasks;
    }
    std::erase_if(level, [](const LevelLeft& one) { return one.tasks == 0; });
  }
}

}  // namespace

std::vector<PartitionId> Deal(const std::vector<peer::PeekResponse>& found, size_t most,
                              const Choice& choice) {
  std::vector<PartitionId> dealt;
  for (auto& [priority, level] : LevelsOf(found)) {
    DealKnown(&level, most, choice, &dealt);
    DealInTurn(std::move(level), most, &dealt);
    if (dealt.size() >= most) break;
  }
  return dealt;
}

TopLevel::TopLevel(const std::vector<peer::PeekResponse>& found) {
  Levels levels = LevelsOf(found);
  if (!levels.empty()) left_ = std::move(levels.begin()->second);
}

std::optional<std::vector<PartitionId>> TopLevel::Take(size_t tasks, const Choice& choice) {
  std::vector<LevelLeft> left = left_;
  std::vector<PartitionId> dealt;
  DealKnown(&left, tasks, choice, &dealt);
  if (/*mutant front-unknown-taken*/ dealt.size() < tasks /*end*/) return std::nullopt;
  left_ = std::move(left);
  return dealt;
}

}  // namespace dfsmr
