// One partition, as a server has it while it owns it: the real engine and feed, driven as
// dsrv/loop/loop.cc drives them, and the calls that are under way in it.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/cluster/call.h"
#include "tests/sim/cluster/process.h"

namespace dfsmr::cluster_sim {

class Part {
 public:
  Part(Server& server, Process& process, Cluster& cluster, PartitionId id);

  // The server has taken it. Served in a moment.
  void Take(const Holding& held);
  // It is not the server's any more. What is in hand is lost.
  void Drop(const std::string& why);
  // Nothing comes in any more; all that was decided is written and told. Then Server::Give.
  void HandOver();
  void Post(CallPtr call);
  // What is under way in it will never be answered.
  void LoseInside();

  bool held() const { return epoch_.has_value(); }
  bool serves() const { return engine_ && serving_; }
  bool giving() const { return giving_; }
  Epoch epoch() const { return epoch_ ? *epoch_ : 0; }
  uint64_t ran() const { return ran_; }  // calls, so far

 private:
  void Open();
  void GiveSoon();
  // `what` happens unless the partition is lost before.
  void Later(LeaseTime after, std::function<void()> what);
  std::string Name() const;
  bool IsMine() const;

  // The loop.
  void PumpAt(LeaseTime when);
  void Decide();
  void Rewind();
  void Write(Turn turn);
  void Send();
  void Doubt();
  void Written(Fate fate);
  void Audit(Fate fate) const;
  void Tell(const CallPtr& call, std::function<void()> tell);

  Server& server_;
  Process& process_;
  Cluster& cluster_;
  const PartitionId id_;

  std::optional<Epoch> epoch_;
  std::unique_ptr<Door> door_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<Changes> changes_;
  std::unique_ptr<Engine> engine_;
  uint64_t holding_ = 0;  // another number each time that it is taken or lost
  bool serving_ = false;
  bool giving_ = false;   // calls for it wait
  bool stopped_ = false;  // and it hands out no more
  bool given_ = false;    // it is being given: nothing is decided any more
  std::deque<CallPtr> mail_;
  std::vector<CallPtr> inside_;  // posted, not told
  uint64_t ran_ = 0;
  LeaseTime pump_at_ = LeaseTime::max();

  std::optional<Turn> writing_;
  std::optional<Turn> next_;
  Commit commit_;
  bool in_doubt_ = false;
  uint64_t attempt_ = 0;
};

}  // namespace dfsmr::cluster_sim
