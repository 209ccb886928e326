#include "dsrv/cluster/levels.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

namespace dfsmr {
namespace {

struct Left {
  int64_t since = 0;  // microseconds
  PartitionId partition = 0;
  uint32_t tasks = 0;
};

// One of each in turn, until there are no more or none is wanted.
void DealLevel(std::vector<Left> level, size_t most, std::vector<PartitionId>* dealt) {
  std::ranges::sort(level, {}, [](const Left& one) { return std::pair(one.since, one.partition); });
  while (dealt->size() < most && !level.empty()) {
    for (Left& one : level) {
      if (dealt->size() == most) return;
      dealt->push_back(one.partition);
      --one.tasks;
    }
    std::erase_if(level, [](const Left& one) { return one.tasks == 0; });
  }
}

}  // namespace

std::vector<PartitionId> Deal(const std::vector<peer::PeekResponse>& found, size_t most) {
  using google::protobuf::util::TimeUtil;
  std::map<int64_t, std::vector<Left>, std::greater<>> levels;  // by priority
  for (size_t partition = 0; partition < found.size(); ++partition) {
    for (const auto& level : found[partition].levels()) {
      if (level.tasks() == 0) continue;
      levels[level.priority()].push_back({TimeUtil::TimestampToMicroseconds(level.since()),
                                          static_cast<PartitionId>(partition), level.tasks()});
    }
  }
  std::vector<PartitionId> dealt;
  for (auto& [priority, level] : levels) DealLevel(std::move(level), most, &dealt);
  return dealt;
}

}  // namespace dfsmr
