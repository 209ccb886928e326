// Keeps this server's lease, and does what its member tells: buries, takes, and has the front pass
// calls on to the owners of the partitions. One thread of its own does all that; it alone uses the
// roster.
#pragma once

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dsrv/cluster/front.h"
#include "dsrv/cluster/member.h"
#include "fsm/base/mutex.h"
#include "storage/roster.h"

namespace dfsmr {

class Keeper {
 public:
  // A partition, and the server that is to have it.
  using Gift = std::pair<PartitionId, std::string>;

  // All are called by the keeper's thread, and must not block: as long as they do, the lease is not
  // renewed.
  struct Outside {
    std::function<std::shared_ptr<grpc::Channel>(const std::string& address)> dial;
    // This server owns the partition. It calls Serves when it serves it.
    std::function<void(const PartRow& part)> took;
    // What it had is another server's, or will be: nothing of it may be told any more.
    std::function<void(const std::string& why)> lost;
    // It should give the partition to that server, by Give.
    std::function<void(const Gift& gift)> give;
    // Nothing can be done any more: the process ends.
    std::function<void(const std::string& why)> end;
    // What the store's clock shows. The server's follows it.
    std::function<void(Timestamp time)> time;
    // Whether this server can serve now, which holds as long as its lease.
    std::function<void(bool alive)> alive;
    // Who has not answered for so long is dialled anew: by then its certificate, ours, or what its
    // name stands for may be another one.
    LeaseTime redial = std::chrono::seconds(10);
    // Once it has taken partitions for so long it renews the lease, and then takes the others.
    LeaseTime busy = kRenewal;
  };
  struct Sight {
    Roster::Seen seen;
    LeaseTime when{};  // it was asked for
    std::vector<std::shared_ptr<Peer>> peers;
  };
  using SightPtr = std::shared_ptr<const Sight>;

  // `roster` was opened, and `self` has joined it at `joined`.
  Keeper(Roster& roster, const ServerRow& self, LeaseTime joined, Front& front, Outside outside);
  ~Keeper();
  void Start();

  // Any thread. ---------------------------------------------------------------------------------

  // For how long nothing but this server can own what it owns.
  LeaseTime lease_left() const {
    return std::max(LeaseTime::zero(), LeaseTime(answers_until_.load()) - LeaseTimeNow());
  }
  bool MayAnswer() const { return LeaseTimeNow().count() < answers_until_.load(); }
  // Another server has reached this one; `look`: there is something to see.
  void Pinged(bool look);
  // The partition's calls go to `inside`, or `direct`, from now on, if it is still this server's.
  void Serves(PartitionId partition, std::shared_ptr<grpc::GenericStub> inside,
              std::shared_ptr<DirectServices> direct);
  // What was served of the partition is closed, all commits have returned: it is that server's from
  // now on, and the others are told. False: it was lost before.
  bool Give(const Gift& gift);
  // This server gives away what it has, and takes nothing. Returns what is to be given next;
  // nullopt when it owns nothing, or when nobody can have it by `until`.
  std::optional<Gift> Leave(std::chrono::steady_clock::time_point until);
  // It is gone: its row says so, the others are told, and the thread ends.
  void Quit();
  // What it has seen last; null: nothing yet.
  SightPtr sight() const;
  // Looks, and tells what it has seen last. `then` is called by the keeper's thread, and must not
  // block; never, when it ends before.
  void LookFor(std::function<void(const SightPtr& sight)> then);

 private:
  // What other threads want of this one, done between two looks. True: it was done.
  bool Ask(std::function<void()> what, std::chrono::steady_clock::time_point until);
  void Run();
  LeaseTime Look();
  // False: something was to be done, and could not be.
  bool Act(const Member::Todo& todo, const Roster::Seen& seen);
  bool Bury(const std::string& id);
  bool Take(const PartRow& part);
  void NoteVain(const std::string& what, const Error* why);
  std::shared_ptr<Peer> Meet(const ServerRow& row);
  void MeetPeers(const Roster::Seen& seen);
  Route RouteOf(const PartRow& part);
  void SetRoutes(const Roster::Seen& seen);
  void Tell();

  Roster& roster_;
  const ServerRow self_;
  Front& front_;
  const Outside outside_;
  Member member_;  // of the thread, as all up to the mutex
  std::map<std::string, std::shared_ptr<Peer>> peers_;
  // A partition that this server owns.
  struct Mine {
    Epoch epoch = 0;
    LeaseTime took{};                                 // when
    std::shared_ptr<grpc::GenericStub> inside = {};  // null: it does not serve it
    std::shared_ptr<DirectServices> direct = {};
  };
  std::map<PartitionId, Mine> mine_;
  std::map<PartitionId, Route> routed_;  // as it was set last, where there is somebody
  std::optional<Gift> gift_;             // what is to be given next
  bool gone_ = false;
  bool failing_ = false;  // renewals are, as last logged
  std::string vain_;      // what could not be done, as last logged
  std::atomic<int64_t> answers_until_ = 0;
  std::atomic<int64_t> pinged_ = 0;

  mutable Mutex mutex_;
  ConditionVariable changed_;
  bool look_ GUARDED(mutex_) = false;
  bool ended_ GUARDED(mutex_) = false;
  std::vector<std::function<void()>> asked_ GUARDED(mutex_);
  SightPtr sight_ GUARDED(mutex_);
  std::thread thread_;
};

}  // namespace dfsmr
