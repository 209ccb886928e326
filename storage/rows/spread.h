// The rows of a store of one partition as those of a store of several: each where its instance
// lives, what belongs to all at home, and besides them what partitions keep of each other.
//
// The feed stays at home, with its numbers; the others begin theirs after the last of these. So no
// number means two things. What is of the histories of their instances lies before that (past.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "fsm/rules/group.h"
#include "storage/place.h"
#include "storage/rows/group.h"
#include "storage/rows/instance.h"
#include "storage/rows/reader.h"
#include "storage/rows/resting.h"
#include "storage/rows/stats.h"

namespace dfsmr::rows {

class Spread {
 public:
  // Takes a row of the target, whose key begins with its partition.
  using Put = std::function<void(std::string key, std::string value)>;
  // Hear of all that live, in order: of one that rests, and of any other.
  struct Visit {
    std::function<Result<Ok>(const Resting&, PartitionId)> resting;
    std::function<Result<Ok>(const Instance&, PartitionId)> other;
  };

  // `source`: of the one partition. REQUIRES: partitions > 1.
  Spread(const Reader& source, uint16_t partitions, Resolve resolve, Put put, Visit visit)
      : source_(source),
        partitions_(partitions),
        resolve_(std::move(resolve)),
        put_(std::move(put)),
        visit_(std::move(visit)) {}

  // kFailedPrecondition: something is under way that cannot be moved so; the message says what to
  // do first.
  static Result<Ok> MayMove(const Reader& source, uint16_t partitions);
  // Before any row.
  Result<Ok> Begin();
  // One row of the source after the other, ascending.
  Result<Ok> Take(std::string_view key, std::string_view value);
  // After the last row.
  Result<Ok> Finish();

  // All rows of a batch that has nothing else.
  static void PutEach(const Batch& batch, const Put& put);

  PartitionId PlaceOf(InstanceName name) const {
    return PartitionOf(name.ns, name.id, partitions_);
  }

 private:
  // What the members of a group count that live in one partition.
  struct Members {
    GroupCounts stopped;
    GroupCounts all;
  };
  struct Follower {
    std::string ns;
    std::string instance;  // that it waits for
    std::string follower;
    auto operator<=>(const Follower&) const = default;
  };
  using MachineName = std::pair<std::string, std::string>;

  void MoveTo(PartitionId partition, std::string_view key, std::string_view value);
  void MoveToAll(std::string_view key, std::string_view value);
  void MoveExpiry(std::string_view key, std::string_view value);
  Result<Ok> TakeLive(std::string_view key, std::string_view value);
  Result<Ok> TakeStopped(std::string_view key, std::string_view value);
  void Note(const Instance& instance, PartitionId place);
  Result<Ok> TakeSpec(std::string_view key, std::string_view value);
  Result<Ok> TakePage(std::string_view key, std::string_view value);
  Result<Ok> TakeKept(std::string_view key, std::string_view value);
  Result<PartitionId> PlaceOfRecord(uint64_t seq, std::string_view record, bool in_feed) const;
  Result<Ok> TakeGraph(std::string_view key, std::string_view value);
  Result<Ok> TakeGroup(std::string_view key, std::string_view value);
  Result<Ok> TakeAgent(std::string_view key, std::string_view value);
  Result<Ok> TakeLeftover(std::string_view key, std::string_view value);
  Result<Ok> TakeDropped(std::string_view key, std::string_view value);
  // The number of the first record of an instance that there is; nullopt: there is none.
  std::optional<uint64_t> BornOf(InstanceName name) const;
  void PutCounters();
  Result<Ok> PutFollowers();

  const Reader source_;
  const uint16_t partitions_;
  const Resolve resolve_;
  const Put put_;
  const Visit visit_;
  uint64_t last_ = 0;  // of the feed
  std::set<std::tuple<std::string, std::string, uint32_t>> packaged_;  // versions of packages
  // Of all instances, by a hash of their names: the number of the first record. Ascending, once the
  // last has come.
  std::vector<std::pair<uint64_t, uint64_t>> born_;
  bool sorted_ = false;
  std::map<std::pair<std::string, std::string>, std::set<PartitionId>> graphs_;  // shared, by name
  std::map<std::pair<std::string, std::string>, std::map<PartitionId, Members>> groups_;
  std::map<MachineName, std::map<PartitionId, DroppedCounts>> stopped_;  // elsewhere than at home
  std::map<MachineName, DroppedCounts> dropped_;                         // at home, as it is
  std::set<Follower> followers_;
  std::map<PartitionId, uint64_t> past_;  // where the first page is that came of the feed
};

// How far the copy of one partition has come: it has all that becomes of the rows of the source up
// to a key. Each step has a row of its own in place of the one before: no row is written twice.
struct Copied {
  uint64_t step = 0;  // 0: none yet
  std::string up_to;
};
void PutCopied(const Writer& writer, const Copied& copied);
void DropCopied(const Writer& writer, uint64_t step);
Result<Copied> GetCopied(const Reader& reader);
// Whether it is the key of such a row.
bool IsOfCopied(std::string_view key);

}  // namespace dfsmr::rows
