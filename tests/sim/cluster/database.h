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
  Holding before;
  uint64_t feed = 0;  // after it
  std::shared_ptr<const Batch> batch;
  std::shared_ptr<const std::vector<rows::FeedPage>> pages;
};

class Database {
 public:
  // As it was once: rows, and where the partition was.
  struct Past {
    Holding held;
    std::shared_ptr<const View> view;
  };
  explicit Database(Timestamp now);

  MemoryRoster& roster() { return roster_; }
  // As the roster does it. A lease is good for kLease from when a renewal has arrived, by a clock
  // that does not leap: `now` of the network.
  Result<Ok> Join(const ServerRow& self, const std::vector<std::string>& before, LeaseTime now);
  Result<Roster::Seen> Renew(const std::string& self, bool reached, bool leaving, LeaseTime now);
  Result<bool> Bury(const std::string& server, LeaseTime now);
  Result<std::optional<Holding>> Take(const PartRow& seen, const std::string& self);
  Result<bool> Give(Epoch epoch, const std::string& self, const std::string& server);
  bool HasLease(const std::string& server, LeaseTime now) const;
  // So many states of before are kept, for reads that are answered by a deposed primary.
  void KeepPasts(size_t most) { most_pasts_ = most; }
  // False: the fence has refused it, and nothing was changed.
  bool Apply(const Commit& commit);
  // Whether a commit of this number was done, and nobody needs to wonder.
  bool Applied(uint64_t number) const { return applied_.contains(number); }
  // The partition's row.
  PartRow part();
  const Store& rows() const { return rows_; }
  const std::deque<Past>& pasts() const { return pasts_; }

  // All records that were ever committed, and what is derived from them.
  const std::map<uint64_t, Event>& ledger() const { return ledger_; }
  uint64_t head() const { return ledger_.empty() ? 0 : ledger_.rbegin()->first; }
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
  void Record(const Event& event);

  MemoryRoster roster_;
  MemoryStore rows_;
  Epoch rows_epoch_ = 0;
  size_t most_pasts_ = 0;
  std::deque<Past> pasts_;
  std::map<uint64_t, Event> ledger_;
  std::map<std::string, uint64_t> last_of_;
  std::set<std::string> live_;
  std::map<std::string, std::string> accepted_;      // claim → transition
  std::set<std::pair<std::string, uint64_t>> left_;  // visits that have ended
  Holding expected_;                                 // the last commit
  std::set<uint64_t> applied_;                       // commits
  std::map<std::string, LeaseTime> renewed_;            // by server
  uint64_t commits_ = 0;
  std::string problem_;
};

}  // namespace dfsmr::cluster_sim
