#include "storage/memory_roster.h"

#include <algorithm>

#include "storage/fence.h"

namespace dfsmr {

Result<ClusterRow> MemoryRoster::Open(uint16_t partitions) {
  const Lock lock(mutex_);
  if (!cluster_) {
    if (partitions == kAsMade) partitions = kMadeOf;
    cluster_ = ClusterRow{
        .format = 1, .partitions = partitions, .life = 1, .secret = std::string(32, 's')};
    for (uint16_t id = 0; id < partitions; ++id) parts_.push_back({.id = id});
  }
  if (partitions == kAsMade || cluster_->partitions == partitions) return *cluster_;
  return Error{Code::kFailedPrecondition, Reason::kNone,
               "the store has " + std::to_string(cluster_->partitions) + " partitions, not " +
                   std::to_string(partitions) + ": their number is for good"};
}

ServerRow* MemoryRoster::Alive(const std::string& id) {
  const auto row = servers_.find(id);
  return row == servers_.end() || row->second.dead ? nullptr : &row->second;
}

PartRow* MemoryRoster::Part(PartitionId partition) {
  return partition < parts_.size() ? &parts_[partition] : nullptr;
}

Result<Ok> MemoryRoster::Join(const ServerRow& self, const std::vector<std::string>& before) {
  const Lock lock(mutex_);
  if (servers_.contains(self.id)) return Ok{};
  for (auto& [id, other] : servers_) {
    if (other.dead || other.address != self.address) continue;
    if (/*mutant cluster-joins-late*/ std::ranges::count(before, id) == 0 /*end*/) return Ok{};
  }
  for (auto& [id, other] : servers_) {
    if (other.address == self.address) other.dead = true;
  }
  ServerRow row = self;
  row.started = row.seen = now_;
  row.reached = row.leaving = row.dead = false;
  servers_.emplace(row.id, std::move(row));
  return Ok{};
}

Result<Roster::Seen> MemoryRoster::Renew(const std::string& self, bool reached, bool leaving) {
  const Lock lock(mutex_);
  Check(cluster_.has_value(), "a roster is opened before it is used");
  ServerRow* const row = Alive(self);
  if (row) {
    row->seen = now_;
    row->reached = reached;
    row->leaving = leaving;
  }
  Seen seen{.now = now_, .alive = row != nullptr, .cluster = *cluster_, .parts = parts_};
  for (const auto& [id, server] : servers_) seen.servers.push_back(server);
  return seen;
}

Result<bool> MemoryRoster::Bury(const std::string& server) {
  const Lock lock(mutex_);
  ServerRow* const row = Alive(server);
  if (!row) return true;
  row->dead = /*mutant cluster-buried-in-time*/ row->seen < now_ - kLease /*end*/;
  return row->dead;
}

Result<std::optional<Holding>> MemoryRoster::Take(const PartRow& seen, const std::string& self) {
  const Lock lock(mutex_);
  PartRow* const part = Part(seen.id);
  const bool same = part && /*mutant cluster-take-unseen*/ part->owner == seen.owner &&
                    part->held.epoch == seen.held.epoch /*end*/ && Alive(self);
  const bool free = /*mutant cluster-take-without-bury*/ part &&
                    (part->owner == self || !Alive(part->owner)) /*end*/;
  if (!same || !free) return std::optional<Holding>();
  /*mutant cluster-take-keeps-epoch*/ ++part->held.epoch; /*end*/
  part->owner = self;
  part->since = now_;
  return std::optional(part->held);
}

Result<bool> MemoryRoster::Give(PartitionId partition, Epoch epoch, const std::string& self,
                                const std::string& server) {
  const Lock lock(mutex_);
  PartRow* const part = Part(partition);
  if (!part || /*mutant cluster-give-of-another*/ part->owner != self ||
      part->held.epoch != epoch /*end*/) {
    return false;
  }
  /*mutant cluster-give-keeps-epoch*/ ++part->held.epoch; /*end*/
  part->owner = server;
  part->since = now_;
  return true;
}

Result<Ok> MemoryRoster::Leave(const std::string& self) {
  const Lock lock(mutex_);
  if (ServerRow* const row = Alive(self)) row->dead = true;
  return Ok{};
}

Result<Ok> MemoryRoster::Raise(uint32_t level) {
  const Lock lock(mutex_);
  Check(cluster_.has_value(), "a roster is opened before it is used");
  cluster_->level = std::max(cluster_->level, level);
  return Ok{};
}

Result<Ok> MemoryRoster::Commit(PartitionId partition, const Holding& held, uint64_t feed) {
  const Lock lock(mutex_);
  PartRow* const part = Part(partition);
  const Epoch current = part ? part->held.epoch : 0;
  if (current == 0 || current != held.epoch) return Superseded(partition, held.epoch, current);
  Check(part->held.seq == held.seq, "a partition's owner knows how many commits it has");
  ++part->held.seq;
  part->held.feed = feed;
  return Ok{};
}

void MemoryRoster::SetClock(Timestamp now) {
  const Lock lock(mutex_);
  now_ = now;
}

Timestamp MemoryRoster::clock() const {
  const Lock lock(mutex_);
  return now_;
}

}  // namespace dfsmr
