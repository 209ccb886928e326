// The database that simulated servers share: rows, the fence, and a roster whose clock is set. Each
// commit, and each change of the roster, is checked as it arrives, by what is known here and not by
// the servers' word.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "dsrv/cluster/lease_time.h"
#include "dsrv/engine/types.h"
#include "fsm/rules/instance.h"
#include "storage/memory_roster.h"
#include "storage/memory_store.h"

namespace dfsmr::cluster_sim {

// A server's commit, as it is on its way.
struct Commit {
  uint64_t number = 0;  // of its own, however often it is sent
  std::string server;   // its id
  PartitionId partition = 0;
  Holding before;
  uint64_t feed = 0;  // after it
  std::shared_ptr<const Batch> batch;
  std::shared_ptr<const std::vector<rows::FeedPage>> pages;
};

class Database {
 public:
  // As it was once: rows, and where each partition was.
  struct Past {
    std::vector<Holding> held;
    std::shared_ptr<const View> view;
  };
  using Ledger = std::map<uint64_t, Event>;  // by seq

  Database(Timestamp now, uint16_t partitions);

  MemoryRoster& roster() { return roster_; }
  // As the roster does it. A lease is good for kLease from when a renewal has arrived, by a clock
  // that does not leap: `now` of the network.
  Result<Ok> Join(const ServerRow& self, const std::vector<std::string>& before, LeaseTime now);
  Result<Roster::Seen> Renew(const std::string& self, bool reached, bool leaving, LeaseTime now);
  Result<bool> Bury(const std::string& server, LeaseTime now);
  Result<std::optional<Holding>> Take(const PartRow& seen, const std::string& self);
  Result<bool> Give(PartitionId partition, Epoch epoch, const std::string& self,
                    const std::string& server);
  bool HasLease(const std::string& server, LeaseTime now) const;
  // So many states of before are kept, for reads that are answered by a deposed primary.
  void KeepPasts(size_t most) {
    most_pasts_ = most;
    if (most == 0) pasts_.clear();
  }
  // False: the fence has refused it, and nothing was changed.
  bool Apply(const Commit& commit);
  // Whether a commit of this number was done, and nobody needs to wonder.
  bool Applied(uint64_t number) const { return applied_.contains(number); }
  const PartRow& part(PartitionId partition) const { return parts_[partition]; }
  const Store& rows() const { return rows_; }
  const std::deque<Past>& pasts() const { return pasts_; }

  // All records of a partition that were ever committed, and what is derived from them.
  const Ledger& ledger(PartitionId partition) const { return ledgers_[partition]; }
  const std::vector<Ledger>& ledgers() const { return ledgers_; }
  uint64_t head(PartitionId partition) const {
    return ledgers_[partition].empty() ? 0 : ledgers_[partition].rbegin()->first;
  }
  // The last record of an instance, in its partition.
  uint64_t LastOf(const std::string& instance) const;
  // The transition that a claim was accepted for; empty: it was not.
  std::string AcceptedBy(const std::string& claim) const;
  // Those that have begun, and not finished.
  const std::set<std::string>& live() const { return live_; }
  uint64_t commits() const { return commits_; }
  const std::string& problem() const { return problem_; }

 private:
  void Expect(bool good, const std::string& what) {
    if (!good && problem_.empty()) problem_ = what;
  }
  bool Alive(const std::string& server);
  void ReadParts() { parts_ = roster_.Renew("", false, false)->parts; }
  void Record(PartitionId partition, const Event& event);
  void CheckOwner(const Commit& commit, const PartRow& part);
  void CheckKeys(const Commit& commit);

  MemoryRoster roster_;
  std::vector<PartRow> parts_;  // its rows, as of now
  MemoryStore rows_;
  std::vector<Epoch> rows_epochs_;  // by partition
  size_t most_pasts_ = 0;
  std::deque<Past> pasts_;
  std::vector<Ledger> ledgers_;  // by partition
  std::map<std::string, uint64_t> last_of_;
  std::set<std::string> live_;
  std::map<std::string, std::string> accepted_;      // claim → transition
  std::set<std::pair<std::string, uint64_t>> left_;  // visits that have ended
  std::vector<uint64_t> expected_;                   // the last commit, by partition
  std::set<uint64_t> applied_;                       // commits
  std::map<std::string, LeaseTime> renewed_;            // by server
  uint64_t commits_ = 0;
  std::string problem_;
};

}  // namespace dfsmr::cluster_sim
