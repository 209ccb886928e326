#include "tests/sim/cluster/database.h"

#include <algorithm>

#include "storage/place.h"
#include "storage/rows/feed.h"

namespace dfsmr::cluster_sim {

Database::Database(Timestamp now, uint16_t partitions)
    : roster_(now), ledgers_(partitions), expected_(partitions) {
  for (PartitionId id = 0; id < partitions; ++id) rows_epochs_.push_back(*rows_.Acquire(id));
  (void)roster_.Open(partitions);
  ReadParts();
}

uint64_t Database::LastOf(const std::string& instance) const {
  const auto found = last_of_.find(instance);
  return found == last_of_.end() ? 0 : found->second;
}

std::string Database::AcceptedBy(const std::string& claim) const {
  const auto found = accepted_.find(claim);
  return found == accepted_.end() ? "" : found->second;
}

// The roster -------------------------------------------------------------------------------------

bool Database::Alive(const std::string& server) {
  const auto servers = roster_.Renew("", false, false)->servers;
  const auto row = std::ranges::find(servers, server, &ServerRow::id);
  return row != servers.end() && !row->dead;
}

Result<Ok> Database::Join(const ServerRow& self, const std::vector<std::string>& before,
                          LeaseTime now) {
  renewed_[self.id] = now;
  return roster_.Join(self, before);
}

Result<Roster::Seen> Database::Renew(const std::string& self, bool reached, bool leaving,
                                     LeaseTime now) {
  auto seen = roster_.Renew(self, reached, leaving);
  if (seen && seen->alive) renewed_[self] = now;
  return seen;
}

bool Database::HasLease(const std::string& server, LeaseTime now) const {
  const auto renewed = renewed_.find(server);
  return renewed != renewed_.end() && now < renewed->second + kLease;
}

Result<bool> Database::Bury(const std::string& server, LeaseTime now) {
  const bool alive = Alive(server);
  auto buried = roster_.Bury(server);
  Expect(!alive || !buried || !*buried || !HasLease(server, now),
         "server " + server + " is buried while its lease is good");
  return buried;
}

// Only what is as it was seen, and belongs to nobody who lives.
Result<std::optional<Holding>> Database::Take(const PartRow& seen, const std::string& self) {
  const PartRow before = part(seen.id);
  const bool lives = Alive(before.owner);
  auto held = roster_.Take(seen, self);
  if (!held || !*held) return held;
  ReadParts();
  Expect(before.owner == seen.owner && before.held.epoch == seen.held.epoch,
         self + " takes what " + before.owner + " has taken since it looked");
  Expect(before.owner == self || !lives,
         self + " takes a partition from " + before.owner + ", which lives");
  Expect((*held)->epoch > before.held.epoch, "an owner has the epoch of the one before");
  return held;
}

Result<bool> Database::Give(PartitionId partition, Epoch epoch, const std::string& self,
                            const std::string& server) {
  const PartRow before = part(partition);
  auto given = roster_.Give(partition, epoch, self, server);
  if (!given || !*given) return given;
  ReadParts();
  Expect(before.owner == self && before.held.epoch == epoch,
         self + " gives what belongs to " + before.owner);
  Expect(part(partition).held.epoch > epoch, "a partition is given under the epoch that it had");
  return given;
}

// Commits ----------------------------------------------------------------------------------------

bool Database::Apply(const Commit& commit) {
  const PartitionId id = commit.partition;
  const PartRow part = parts_[id];
  // A late copy of a commit whose owner has sent it again finds another number.
  if (/*mutant cluster-fence-without-seq*/ part.held.epoch == commit.before.epoch &&
      part.held.seq != commit.before.seq /*end*/) {
    return false;
  }
  const Holding fenced{part.held.epoch == commit.before.epoch ? commit.before.epoch : 0,
                       part.held.seq, part.held.feed};
  const bool passes = /*mutant cluster-fence-without-epoch*/ fenced.epoch != 0 /*end*/;
  if (!passes) return false;
  Holding as_owner = part.held;
  if (!roster_.Commit(id, as_owner, commit.feed)) return false;
  ReadParts();

  ++commits_;
  applied_.insert(commit.number);
  CheckOwner(commit, part);
  CheckKeys(commit);
  expected_[id] = commit.before.seq + 1;
  if (most_pasts_ > 0) {
    Past past{.held = {}, .view = rows_.Snapshot()};
    for (const PartRow& row : parts_) past.held.push_back(row.held);
    past.held[id] = part.held;
    pasts_.push_back(std::move(past));
    if (pasts_.size() > most_pasts_) pasts_.pop_front();
  }
  (void)rows_.Write(id, rows_epochs_[id], *commit.batch);
  if (!commit.pages) return true;
  for (const rows::FeedPage& page : *commit.pages) {
    const auto read = rows::ReadPage(page, page.first, [this, id](const Event& event) {
      Record(id, event);
      return true;
    });
    Expect(read.has_value(), "a page of the feed cannot be read");
  }
  Expect(head(id) == commit.feed, "a commit says that the feed ends at " +
                                      std::to_string(commit.feed) + ", not " +
                                      std::to_string(head(id)));
  return true;
}

void Database::CheckOwner(const Commit& commit, const PartRow& part) {
  const uint64_t last = expected_[commit.partition];
  Expect(part.owner == commit.server, "commit " + std::to_string(commit.before.seq) +
                                          " is by server " + commit.server +
                                          ", but the partition belongs to " + part.owner);
  Expect(part.held.epoch == commit.before.epoch, "a commit is not of its epoch");
  Expect(part.held.seq == commit.before.seq && last == commit.before.seq,
         "a commit follows " + std::to_string(last) + ", but was made after " +
             std::to_string(commit.before.seq));
}

// A partition's rows are its owner's alone.
void Database::CheckKeys(const Commit& commit) {
  for (const Batch::Operation& operation : commit.batch->operations()) {
    const auto byte = [&key = operation.key](size_t at) { return static_cast<uint8_t>(key[at]); };
    Expect(operation.key.size() > 2 && byte(0) * 256 + byte(1) == commit.partition,
           "a commit of partition " + std::to_string(commit.partition) + " writes another's rows");
  }
}

void Database::Record(PartitionId partition, const Event& event) {
  Expect(event.seq == head(partition) + 1, "record " + std::to_string(event.seq) +
                                               " of the feed follows " +
                                               std::to_string(head(partition)));
  const auto partitions = static_cast<uint16_t>(ledgers_.size());
  Expect(event.instance.empty() || PartitionOf(event.ns, event.instance, partitions) == partition,
         event.instance + " does not live in partition " + std::to_string(partition) +
             ", but changes there");
  if (event.left_visit != 0) {
    Expect(left_.emplace(event.instance, event.left_visit).second,
           "visit " + std::to_string(event.left_visit) + " of " + event.instance +
               " was accepted twice");
  }
  if (event.answer && event.answer->claim) {
    const std::string claim = event.instance + " " + std::to_string(event.answer->claim.epoch) +
                              "." + std::to_string(event.answer->claim.serial);
    Expect(accepted_.emplace(claim, event.transition).second,
           "claim " + claim + " was accepted twice");
  }
  if (event.kind == ChangeKind::kStarted || event.kind == ChangeKind::kScheduled) {
    live_.insert(event.instance);
  } else if (event.kind == ChangeKind::kFinished) {
    live_.erase(event.instance);
  }
  last_of_[event.instance] = event.seq;
  ledgers_[partition].emplace(event.seq, event);
}

}  // namespace dfsmr::cluster_sim
