// A simulated server: the real member, driven as dsrv/cluster/keeper.cc drives it, a front, and the
// partitions that it owns. Between two events nothing of it runs; paused, nothing at all.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dsrv/cluster/member.h"
#include "tests/sim/cluster/part.h"

namespace dfsmr::cluster_sim {

inline constexpr LeaseTime kTick = std::chrono::milliseconds(20);

class Server {
 public:
  Server(Cluster& cluster, int number);
  ~Server();

  // A process of its own each time, at the same address.
  void Start();
  void Kill();
  // SIGTERM: hands over, and ends.
  void Terminate();
  Process& process() { return process_; }
  bool runs() const { return process_.runs(); }
  bool leaving() const { return leaving_; }

  // A client's call, or one that another server passes on to `receiver`.
  void Take(CallPtr call);
  void TakePassedOn(const CallPtr& call, const std::string& receiver);
  // Another server has reached this one.
  void Ping(bool look);

  const std::string& id() const { return id_; }
  int number() const { return number_; }
  // It owns the partition, and serves it.
  bool serves(PartitionId partition) const { return parts_.at(partition).serves(); }
  // So many it serves.
  size_t share() const;

  // For its partitions. -------------------------------------------------------------------------

  bool MayAnswer() const { return member_ && member_->MayAnswer(process_.Clock()); }
  void Look();
  // Something that it had is another one's, or nobody knows what was written: all that it has is
  // lost, and it starts anew.
  void Lose(const std::string& why);
  // Nothing is under way any more in the partition that is to be given.
  void Give();

 private:
  struct Try {  // a call of ours that another server has
    CallPtr call;
    std::string at;
    int number;
    LeaseTime since;
    bool lost;  // unless it is answered in a moment
  };
  struct Waiting {
    CallPtr call;
    LeaseTime since;
  };
  // Where the calls for a partition go, by the last look.
  struct Owned {
    std::string by;  // empty: nobody
    Epoch epoch = 0;
  };
  // What is being given, and to whom.
  struct Gift {
    PartitionId partition;
    std::string to;
    uint64_t ran;  // calls that the others had run when it began
  };

  // The keeper.
  void Join();
  void Looked(const Result<Roster::Seen>& seen, LeaseTime sent);
  void Act(Member::Todo todo, size_t at);
  void Took(PartitionId partition, const Holding& holding);
  void GiveNext(const Member::Todo& todo);
  void HandOver(PartitionId partition, const std::string& to);
  void Given(bool surely);
  void Rest(LeaseTime wait);
  void SetRoutes();
  void PingTo(const std::string& id, bool look);
  void TellAll();
  void Quit();
  size_t held() const;
  bool MayQuit() const;
  uint64_t RanBeside(PartitionId partition) const;
  static int NumberOf(const std::string& id);

  // The front.
  bool Here(PartitionId partition) const;
  void Post(CallPtr call);
  void Route(Waiting waiting);
  void Await(Waiting waiting);
  void PassOn(const Waiting& waiting, int number);
  void Answered(uint64_t number, End end, std::function<void()> tell);
  void LoseTry(uint64_t number);

  Cluster& cluster_;
  const int number_;
  const std::string address_;
  Process process_;
  int starts_ = 0;
  bool leaving_ = false;

  std::string id_;
  std::optional<Member> member_;
  std::optional<LeaseTime> pinged_;
  Roster::Seen seen_;
  bool looking_ = false;  // or anything else that the keeper's one thread does
  bool look_again_ = false;
  uint64_t look_number_ = 0;
  LeaseTime acts_since_{};
  int leave_looks_ = 0;
  std::optional<Gift> gift_;
  bool give_ = false;  // as soon as the keeper has time
  LeaseTime found_until_{};  // by those who do not know yet whose that is which it gave

  std::map<PartitionId, Part> parts_;  // all there are, whoever owns them
  std::vector<Owned> owners_;          // by partition
  std::deque<Waiting> waiting_;
  std::map<uint64_t, Try> tries_;
  uint64_t last_try_ = 0;
};

}  // namespace dfsmr::cluster_sim
