#include "tests/sim/cluster/database.h"

#include <algorithm>

#include "storage/rows/feed.h"

namespace dfsmr::cluster_sim {

Database::Database(Timestamp now) : roster_(now) {
  rows_epoch_ = *rows_.Acquire(0);
  (void)roster_.Open(1);
}

PartRow Database::part() { return roster_.Renew("", false, false)->parts.front(); }

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
  const PartRow before = part();
  const bool lives = Alive(before.owner);
  auto held = roster_.Take(seen, self);
  if (!held || !*held) return held;
  Expect(before.owner == seen.owner && before.held.epoch == seen.held.epoch,
         self + " takes what " + before.owner + " has taken since it looked");
  Expect(before.owner == self || !lives, self + " takes the partition from " + before.owner +
                                             ", which lives");
  Expect((*held)->epoch > before.held.epoch, "an owner has the epoch of the one before");
  return held;
}

Result<bool> Database::Give(Epoch epoch, const std::string& self, const std::string& server) {
  const PartRow before = part();
  auto given = roster_.Give(0, epoch, self, server);
  if (!given || !*given) return given;
  Expect(before.owner == self && before.held.epoch == epoch,
         self + " gives what belongs to " + before.owner);
  Expect(part().held.epoch > epoch, "a partition is given under the epoch that it had");
  return given;
}

// Commits ----------------------------------------------------------------------------------------

bool Database::Apply(const Commit& commit) {
  const PartRow part = this->part();
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
  if (!roster_.Commit(0, as_owner, commit.feed)) return false;

  ++commits_;
  applied_.insert(commit.number);
  Expect(part.owner == commit.server, "commit " + std::to_string(commit.before.seq) +
                                          " is by server " + commit.server +
                                          ", but the partition belongs to " + part.owner);
  Expect(part.held.epoch == commit.before.epoch, "a commit is not of its epoch");
  Expect(part.held.seq == commit.before.seq && expected_.seq == commit.before.seq,
         "a commit follows " + std::to_string(expected_.seq) + ", but was made after " +
             std::to_string(commit.before.seq));
  expected_.seq = commit.before.seq + 1;
  if (most_pasts_ > 0) {
    pasts_.push_back({part.held, rows_.Snapshot()});
    if (pasts_.size() > most_pasts_) pasts_.pop_front();
  }
  (void)rows_.Write(0, rows_epoch_, *commit.batch);
  if (!commit.pages) return true;
  for (const rows::FeedPage& page : *commit.pages) {
    const auto read = rows::ReadPage(page, page.first, [this](const Event& event) {
      Record(event);
      return true;
    });
    Expect(read.has_value(), "a page of the feed cannot be read");
  }
  Expect(head() == commit.feed, "a commit says that the feed ends at " +
                                    std::to_string(commit.feed) + ", not " +
                                    std::to_string(head()));
  return true;
}

void Database::Record(const Event& event) {
  Expect(event.seq == head() + 1,
         "record " + std::to_string(event.seq) + " of the feed follows " + std::to_string(head()));
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
  ledger_.emplace(event.seq, event);
}

}  // namespace dfsmr::cluster_sim
