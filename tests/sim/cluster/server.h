// A simulated server: the real member, engine and feed, driven as dsrv/cluster/keeper.cc and
// dsrv/loop/loop.cc drive them. Between two events nothing of it runs; paused, nothing at all.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dsrv/cluster/member.h"
#include "dsrv/engine/engine.h"
#include "dsrv/feed/changes.h"
#include "tests/sim/cluster/door.h"
#include "tests/sim/cluster/network.h"

namespace dfsmr::cluster_sim {

// How a call ends for whoever asked.
enum class End : uint8_t {
  kAnswered,
  kNotDone,  // for certain: NO_OWNER, PEER_UNREACHABLE, STORE_UNREACHABLE
  kNotMine,  // between fronts
  kUnknown,  // OUTCOME_UNKNOWN
};

// What the owner has to run a call with.
struct Owner {
  std::string id;
  bool hands_over = false;  // and so runs nothing more
  Engine& engine;
  Changes& changes;
  Door& store;
};
// `tell`: hands out what was decided; run by the client when the answer reaches it.
using Reply = std::function<void(std::function<void()> tell)>;
struct Call {
  bool reads_only = false;
  std::function<void(const Owner& owner, Reply reply)> run;
  std::function<void(End end, std::function<void()> tell)> done;
};
using CallPtr = std::shared_ptr<const Call>;

class Server;

// What servers share, and whom they tell what they do.
struct Cluster {
  Network& network;
  Database& database;
  EngineOptions options;
  int lost_commits = 0;   // percent of which the answer is lost, of each kind
  int lost_renewals = 0;  // the same of what is asked of the roster
  int late_acts = 0;      // percent of takes, gifts and burials that are done long after
  int stale_reads = 0;    // percent
  int pace = 0;           // clocks of servers are off in pace by up to so many per thousand
  std::function<Timestamp()> store_time;
  std::vector<std::unique_ptr<Server>> servers;
  std::function<void(const std::string& what)> wrong;
  std::function<void(const std::string& what)> note;
  std::map<std::string, uint64_t> hits;
  uint64_t commits = 0;  // numbers of them
};

class Server {
 public:
  Server(Cluster& cluster, int number);
  ~Server();

  // A process of its own each time, at the same address.
  void Start();
  void Kill();
  void Pause(LeaseTime until) { paused_until_ = until; }
  // What happens once the database has done what it is asked for next, before the answer is here.
  struct InAnswer {
    LeaseTime span{};         // for so long
    bool cut = false;      // it is cut from the database; else it is paused
    bool renewal = false;  // of a renewal; else of anything
  };
  void Befalls(std::optional<InAnswer> what) { in_answer_ = what; }
  bool runs() const { return runs_; }
  LeaseTime paused_until() const { return paused_until_; }
  bool paused() const { return cluster_.network.now() < paused_until_; }
  // SIGTERM: hands over, and ends.
  void Terminate();

  // A client's call, or one that another server passes on to `receiver`.
  void Take(CallPtr call);
  void TakePassedOn(const CallPtr& call, const std::string& receiver);
  // Another server has reached this one.
  void Ping(bool look);

  const std::string& id() const { return id_; }
  int number() const { return number_; }
  // It owns the partition, and serves it.
  bool serves() const { return engine_ && serving_; }
  Epoch epoch() const { return epoch_ ? *epoch_ : 0; }

 private:
  struct Try {  // a call of ours that another server has
    CallPtr call;
    std::string at;
    int number;
    LeaseTime since;
  };
  struct Waiting {
    CallPtr call;
    LeaseTime since;
  };

  // Runs `what` when this process can; never, when it is another one by then.
  void Later(LeaseTime after, std::function<void()> what);
  std::function<void()> Mine(std::function<void()> what);
  LeaseTime Clock() const;
  LeaseTime InWorld(LeaseTime own) const;
  Timestamp Time();
  bool MayAnswer() const { return member_ && member_->MayAnswer(Clock()); }

  void Befall();
  // Asks the database. `then` gets what came back, or kUnavailable.
  struct Way {
    int lost = 0;  // percent of each kind of loss
    int late = 0;  // percent that are done long after, besides
  };
  template <typename T>
  void Ask(Way way, std::function<Result<T>()> ask, std::function<void(Result<T>)> then);
  Way ToRoster() const { return {cluster_.lost_renewals, 0}; }
  Way ToAct() const { return {cluster_.lost_renewals, cluster_.late_acts}; }
  Way ToRows() const { return {cluster_.lost_commits, 0}; }
  void Join();
  void Look();
  void Looked(const Result<Roster::Seen>& seen, LeaseTime sent);
  void Act(Member::Todo todo, size_t at);
  void Rest(LeaseTime wait);
  void SetRoute();
  void PingTo(const std::string& id, bool look);
  void TellAll();
  void Quit();
  static int NumberOf(const std::string& id);

  // The partition.
  void Took(const Holding& held);
  void Open();
  void Lose(const std::string& why);
  void HandOver(const std::string& to);
  void GiveSoon();

  // The loop.
  void Post(CallPtr call);
  void PumpAt(LeaseTime when);
  void Decide();
  void Rewind();
  void Write(Turn turn);
  void Send();
  void Doubt();
  void Written(Fate fate);

  // The front.
  bool Here() const;
  void Route(Waiting waiting);
  void Await(Waiting waiting);
  void PassOn(const Waiting& waiting, int number);
  void LoseTry(const Try& lost);
  void Tell(const CallPtr& call, std::function<void()> tell);

  Cluster& cluster_;
  const int number_;
  const std::string address_;
  int starts_ = 0;
  uint64_t process_ = 0;  // another one with each start
  bool runs_ = false;
  bool leaving_ = false;
  LeaseTime paused_until_{};
  std::optional<InAnswer> in_answer_;
  LeaseTime offset_{};  // of its clock
  int64_t pace_ = 1'000;

  std::string id_;
  std::optional<Member> member_;
  std::optional<LeaseTime> pinged_;
  Roster::Seen seen_;
  bool looking_ = false;
  bool look_again_ = false;
  uint64_t look_number_ = 0;
  std::string owner_;  // by the last look; empty: nobody
  Epoch owner_epoch_ = 0;
  int leave_looks_ = 0;
  Timestamp store_time_{};
  LeaseTime store_time_at_{};
  Timestamp shown_{};
  std::string give_to_;

  std::optional<Epoch> epoch_;
  std::unique_ptr<Door> door_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<Changes> changes_;
  std::unique_ptr<Engine> engine_;
  uint64_t holding_ = 0;  // another number with each time that it takes the partition
  bool serving_ = false;
  bool giving_ = false;   // calls for it wait
  bool stopped_ = false;  // and it hands out no more
  bool given_ = false;    // it is being given: nothing is decided any more
  std::string hand_to_;
  std::deque<CallPtr> mail_;
  std::vector<CallPtr> inside_;  // posted, not told
  LeaseTime pump_at_ = LeaseTime::max();
  uint64_t entropy_ = 0;

  std::optional<Turn> writing_;
  std::optional<Turn> next_;
  Commit commit_;
  bool in_doubt_ = false;
  uint64_t attempt_ = 0;

  std::deque<Waiting> waiting_;
  std::map<uint64_t, Try> tries_;
  uint64_t last_try_ = 0;
};

}  // namespace dfsmr::cluster_sim
