// The front of a server that shares its store with others. Its port takes every call as bytes and
// passes it on: to the services of this process while it owns the partition that the call is for,
// else to the server that does. So any server will do for a client, and the owner alone decides,
// and alone guards. A call that comes from another front is not passed on again.
//
// While nobody can be asked, calls wait: 2 s for an owner, 1 s for the way to it or for the lease.
// What a call that was under way meets when its owner is lost depends on it: one that only reads is
// asked again of the next owner; of another nobody knows whether it was done.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "dsrv/access/direct.h"
#include "dsrv/cluster/lease_time.h"
#include "dsrv/cluster/meter.h"
#include "dsrv/cluster/part_call.h"
#include "dsrv/cluster/recent_looks.h"
#include "fsm/base/mutex.h"
#include "storage/store.h"

namespace dfsmr {

// Another server, and the connection to it.
struct Peer {
  Peer(std::string its_id, std::string its_address, std::shared_ptr<grpc::Channel> its_channel)
      : id(std::move(its_id)),
        address(std::move(its_address)),
        channel(std::move(its_channel)),
        stub(channel) {}

  const std::string id;
  const std::string address;
  const std::shared_ptr<grpc::Channel> channel;
  grpc::GenericStub stub;
  std::atomic<bool> answers = false;  // as last tried
  std::atomic<bool> silent = false;   // has not renewed its lease for kSilent, as last seen
  std::atomic<int64_t> round_trip_us = 0;
  std::atomic<int> told = -1;  // what of `answers` was last logged; -1: nothing
  // When it last answered, or was dialled.
  std::atomic<int64_t> answered = LeaseTimeNow().count();
};

// Where the calls for a partition go.
struct Route {
  enum class Kind { kNobody, kHere, kThere };
  Kind kind = Kind::kNobody;
  std::shared_ptr<Peer> peer;                 // kThere
  std::shared_ptr<grpc::GenericStub> inside;  // kHere
  std::shared_ptr<DirectServices> direct = {};  // the same without gRPC; null: there is no such way
  friend bool operator==(const Route&, const Route&) = default;
};

class Passing;

// A call that ends by itself when the server stops.
class Stoppable {
 public:
  virtual ~Stoppable() = default;
  virtual void Stop() = 0;  // any thread
};

class Front final : public grpc::CallbackGenericService {
 public:
  // Has partitions adopt what home has changed in a namespace; empty: in any. `done` is called once,
  // from any thread, perhaps at once; false: it has to be asked again.
  using Adopt = std::function<void(const std::string& ns, std::function<void(bool done)> done)>;
  // Has a partition apply messages that another one has for it, as bytes. `done` is called once,
  // from any thread, perhaps at once; nullopt: nobody knows what became of them.
  using Deliver = std::function<void(
      const std::string& portion, std::function<void(std::optional<std::string> reply)> done)>;
  struct Outside {
    std::string self;    // this server's id
    std::string secret;  // of the store
    uint16_t partitions = 1;
    // Whether the lease holds. Any thread.
    std::function<bool()> may_answer;
    // Whether the store has kept no commit of this server waiting for long. Any thread.
    std::function<bool()> commits = [] { return true; };
    // Another server has reached this one; `look`: and says that there is something to see in the
    // roster. Any thread; must not block.
    std::function<void(bool look)> pinged;
    // The reply to GetCluster of a server that finds nobody to ask, for who shows this token;
    // nullopt: without an owner nobody knows whether he may see it. Any thread.
    std::function<std::optional<grpc::ByteBuffer>(const std::string& bearer)> cluster;
    // Has those adopt it that this server owns. Any thread; must not block. Where there are several
    // partitions, as the next.
    Adopt adopt = {};
    // Has all of the store adopt it, and calls `done` then, not before it returns.
    std::function<void(const std::string& ns, std::function<void()> done)> spread = {};
    // For a partition that this server serves.
    Deliver deliver = {};
    // Answers what home asks of such a partition, in the same way.
    Deliver answer = {};
  };
  explicit Front(Outside outside);
  ~Front() override;

  using Routes = std::map<PartitionId, Route>;
  // From now on the calls for these partitions go there. Those that are under way with another
  // server are lost.
  void SetRoutes(Routes routes);
  void SetRoute(PartitionId partition, Route route);
  // By which way calls of several partitions ask this front for each of them. Before the first
  // call.
  void SetOwn(std::shared_ptr<grpc::GenericStub> own);
  // From now on no call goes anywhere, whatever partition it is for.
  void ClearRoutes();
  // What is under way in this process is lost, and will never be answered: it is answered here and
  // now. Follows ClearRoutes. With `of` only what is for that partition, which goes nowhere.
  void LoseInside(std::optional<PartitionId> of = {});
  // The server is about to stop: polls are answered empty, and streams of work end that have
  // nothing in hand.
  void Stop();
  // Calls that come from clients from now on are refused.
  void Close() { closed_ = true; }
  // Ends all calls that wait, or take too long. Those that come later, too.
  void EndAll();
  // Which calls that are under way in this process.
  struct Inside {
    std::optional<PartitionId> of = {};  // those for this partition
    bool single = false;                 // no streams of requests
  };
  // Waits until none of them is under way. False: some are, at `until`.
  bool AwaitInside(std::chrono::steady_clock::time_point until, const Inside& which);
  // The same for all calls, wherever they are; with `brief` only for those that will soon be
  // answered: no streams, and no polls.
  bool AwaitAll(std::chrono::steady_clock::time_point until, bool brief = false);

  // For calls. ----------------------------------------------------------------------------------

  std::shared_ptr<const Route> route(PartitionId partition) const {
    const Lock lock(route_mutex_);
    return routes_[partition];
  }
  // A partition for what any will do for: each in turn of those that this process serves, else of
  // those that somebody does.
  PartitionId AnyPartition();
  // By partition: whether this process serves it, or a server that serves one of `others`.
  std::vector<bool> ServedHere(const std::vector<PartitionId>& others = {}) const;
  // Whether streams and polls are asked in parts, which go on with the next owner when a partition
  // changes hands. Not those at the one that has all there is: they end with it.
  bool Parts() const {
    return outside_.partitions > 1 || route(0)->kind != Route::Kind::kHere;
  }
  // The way to this front itself, within the process.
  std::shared_ptr<grpc::GenericStub> own() const {
    const Lock lock(route_mutex_);
    return own_;
  }
  PartCalls& parts() { return parts_; }
  const Outside& outside() const { return outside_; }
  ClusterMeter& meter() { return meter_; }
  RecentLooks& looks() { return looks_; }
  bool stops() const { return stops_; }
  bool closed() const { return closed_; }
  bool ending() const { return ending_; }
  // A call that is asked in parts begins, or is over: parts come from it although the front is
  // closed, and it counts between two of them.
  void EnterParted() { ++parted_; }
  void LeaveParted() { --parted_; }
  // Is told when the server stops, if it is still there then.
  void TellOfStop(std::weak_ptr<Stoppable> call);
  void Enter(const std::shared_ptr<Passing>& call);
  void Leave(Passing* call);
  // Has Passing::Tick called every few milliseconds until it says that it waits no more.
  void Wait(const std::shared_ptr<Passing>& call);

 private:
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;
  std::vector<std::shared_ptr<Passing>> All();
  using Counts = std::function<bool(Passing&)>;
  // And until no part is under way: of one partition, or of any.
  bool Await(std::chrono::steady_clock::time_point until, const Counts& counts,
             std::optional<PartitionId> of, bool brief);
  void Tend();

  const Outside outside_;
  ClusterMeter meter_;
  RecentLooks looks_;
  PartCalls parts_;
  mutable Mutex route_mutex_;
  std::vector<std::shared_ptr<const Route>> routes_ GUARDED(route_mutex_);  // by partition
  PartitionId any_ GUARDED(route_mutex_) = 0;  // the last one that was given out
  std::shared_ptr<grpc::GenericStub> own_ GUARDED(route_mutex_);
  std::atomic<bool> stops_ = false;
  std::atomic<bool> closed_ = false;
  std::atomic<bool> ending_ = false;
  std::atomic<int> parted_ = 0;  // calls
  Mutex mutex_;
  ConditionVariable changed_;
  std::unordered_set<Passing*> calls_ GUARDED(mutex_);
  std::deque<std::weak_ptr<Stoppable>> stoppable_ GUARDED(mutex_);  // some may be over
  std::vector<std::shared_ptr<Passing>> waiting_ GUARDED(mutex_);
  bool ended_ GUARDED(mutex_) = false;
  std::thread tender_;
};

}  // namespace dfsmr
