// Which tasks a worker gets of those that the partitions have. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "dfsmr/peer.pb.h"
#include "storage/store.h"

namespace dfsmr {

// What a partition has of one priority, and is not dealt yet.
struct LevelLeft {
  PartitionId partition = 0;
  uint32_t tasks = 0;
  std::vector<int64_t> since;  // microseconds; of the oldest, in order
  size_t next = 0;             // of these

  // The first is ready since then, or later where nobody knows.
  int64_t Head() const { return next < since.size() ? since[next] : since.back(); }
  bool Known() const { return next < since.size(); }
};

// Of several partitions that would do equally well, which is taken: one of `near`, by partition
// (may be empty), of these the next in turn.
struct Choice {
  uint64_t turn = 0;
  std::vector<bool> near = {};

  bool IsNear(PartitionId partition) const { return partition < near.size() && near[partition]; }
};

// `found`: what each partition has. The partition of each task that the worker is to have, at most
// `most`, in their order: the highest priority first, of equals the oldest. As many as may be come
// from one partition, since each that has a share in a report costs a call and a commit: tasks go
// together that have been ready for up to 30 ms less than the oldest of all. Where that leaves a
// choice `choice` makes it. Of tasks whose age nobody has told one of each partition comes in turn.
std::vector<PartitionId> Deal(const std::vector<peer::PeekResponse>& found, size_t most,
                              const Choice& choice = {});

// What was found of the highest priority, for others that ask for the same soon after.
class TopLevel {
 public:
  explicit TopLevel(const std::vector<peer::PeekResponse>& found);
  // As Deal, and others do not get these then. nullopt: so many are not known; it takes a look.
  std::optional<std::vector<PartitionId>> Take(size_t tasks, const Choice& choice);

 private:
  std::vector<LevelLeft> left_;
};

}  // namespace dfsmr
