#include "dsrv/engine/outgoing.h"

#include <algorithm>
#include <set>
#include <utility>

#include "storage/rows/message.h"

namespace dfsmr {
namespace {

constexpr size_t kNewest = 1'000;         // messages in memory for each partition
constexpr size_t kNewestBytes = 1 << 20;  // and of these
constexpr size_t kPortionBytes = 1 << 20;

}  // namespace

void Outgoing::Notify(Tell tell) {
  std::vector<PartitionId> waiting;
  {
    const Lock lock(mutex_);
    tell_ = tell;
    for (const auto& [to, way] : ways_) {
      if (way.last > way.applied) waiting.push_back(to);
    }
  }
  if (!tell) return;
  for (const PartitionId to : waiting) tell(to);
}

Result<std::vector<Outgoing::Numbered>> Outgoing::Next(PartitionId to, uint64_t after,
                                                       size_t most) const {
  std::vector<Numbered> next;
  size_t bytes = 0;
  const auto fits = [&](size_t size) {
    bytes += size;
    return next.size() < most && (next.empty() || bytes <= kPortionBytes);
  };
  uint64_t last = 0;
  {
    const Lock lock(mutex_);
    const auto found = ways_.find(to);
    if (found == ways_.end()) return next;
    const Way& way = found->second;
    after = std::max(after, way.applied);
    last = way.last;
    if (after >= last) return next;
    if (!way.newest.empty() && way.newest.front().number <= after + 1) {
      const auto skipped = static_cast<std::ptrdiff_t>(after + 1 - way.newest.front().number);
      for (auto one = way.newest.begin() + skipped; one != way.newest.end(); ++one) {
        if (!fits(one->text.size())) break;
        next.push_back(*one);
      }
      return next;
    }
  }
  auto read = rows::ReadOut({store_, from_}, to, after,
                            [&](uint64_t number, std::string_view text) {
                              if (number > last || !fits(text.size())) return false;
                              next.push_back({number, std::string(text)});
                              return true;
                            });
  if (!read) return read.error();
  // What was applied meanwhile may be gone.
  if (!next.empty() && next.front().number != after + 1) next.clear();
  return next;
}

uint64_t Outgoing::waiting() const {
  const Lock lock(mutex_);
  uint64_t count = 0;
  for (const auto& [to, way] : ways_) count += way.last - way.applied;
  return count;
}

void Outgoing::Restore(PartitionId to, uint64_t first, uint64_t last) {
  const Lock lock(mutex_);
  ways_[to] = Way{.applied = first - 1, .last = last};
}

void Outgoing::Add(std::vector<Sent> sent) {
  std::set<PartitionId> told;
  Tell tell;
  {
    const Lock lock(mutex_);
    for (Sent& one : sent) {
      Way& way = ways_[one.to];
      way.last = one.one.number;
      way.bytes += one.one.text.size();
      way.newest.push_back(std::move(one.one));
      while (way.newest.size() > kNewest || way.bytes > kNewestBytes) {
        way.bytes -= way.newest.front().text.size();
        way.newest.pop_front();
      }
      told.insert(one.to);
    }
    tell = tell_;
  }
  if (!tell) return;
  for (const PartitionId to : told) tell(to);
}

void Outgoing::Applied(PartitionId to, uint64_t up_to) {
  const Lock lock(mutex_);
  Way& way = ways_[to];
  way.applied = std::max(way.applied, up_to);
  while (!way.newest.empty() && way.newest.front().number <= way.applied) {
    way.bytes -= way.newest.front().text.size();
    way.newest.pop_front();
  }
}

}  // namespace dfsmr
