// What a front asks of one partition: a call, or the part of one that several have a share in.
// Where this process serves the partition its services are asked without gRPC; else a part goes the
// way of any call (passing.h), which waits for owners, crosses to other servers, and is repeated.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dsrv/access/direct.h"
#include "dsrv/cluster/lease_time.h"
#include "dsrv/cluster/method_facts.h"
#include "fsm/base/mutex.h"
#include "storage/store.h"

namespace dfsmr {

class Front;
class PartCalls;
struct Peer;

// Who asks in a call that came to the front, for the services; it enters `namespaces`, too.
std::shared_ptr<const DirectOrigin> OriginOf(const grpc::GenericCallbackServerContext& outer,
                                             const std::string& namespaces = "");

class PartCall final : public std::enable_shared_from_this<PartCall> {
 public:
  using Deadline = std::chrono::system_clock::time_point;
  struct Ask {
    PartitionId partition = 0;
    std::string method;
    std::string request;
    Deadline deadline = Deadline::max();
    bool waits = false;  // until something happens, perhaps
  };
  // Called once, from any thread, but not before Begin or Cancel has returned.
  using Done = std::function<void(DirectServices::Reply)>;

  PartCall(Front& front, std::shared_ptr<const DirectOrigin> origin, Ask ask, Done done);
  void Begin();
  // False: there is no direct way, and `done` is never called. Where the services do not let it in,
  // the reply says so.
  bool BeginDirectly() {
    only_directly_ = true;
    return AskDirectly();
  }
  // Nobody waits for it any more: it ends with CANCELLED, unless it has ended.
  void Cancel();

  // For the call that carries several to another server (part_batch.h). -------------------------

  // The server that it could go to together with others; null: none.
  std::shared_ptr<Peer> Way() const;
  // It is on its way there, and comes back with a reply, or nobody knows what became of it.
  void Leaves(std::shared_ptr<Peer> peer);
  void Returns(DirectServices::Reply reply);
  void Fails(const grpc::Status& status);
  const Ask& ask() const { return ask_; }
  const DirectOrigin& origin() const { return *origin_; }

 private:
  friend class PartCalls;
  struct ByGrpc;

  bool GivenUp();
  bool IsAway();  // with another server, and not lost
  bool AskDirectly();
  void AskFront();
  void Answered(DirectServices::Reply reply);
  void Settle(DirectServices::Reply reply);
  // Ends one that is under way directly, or together with others, whatever it comes to.
  void EndAs(DirectServices::Reply reply);
  // The server that it has gone to is not the partition's any more, or says nothing.
  void Compare();
  void LoseAway();
  void AskFrontInstead();
  void Finish(DirectServices::Reply reply);

  Front& front_;
  const std::shared_ptr<const DirectOrigin> origin_;
  const Ask ask_;
  const MethodFacts facts_;
  Done done_;
  bool only_directly_ = false;

  Mutex mutex_;
  std::shared_ptr<DirectServices> services_ GUARDED(mutex_);  // that are asked
  std::shared_ptr<DirectServices::Call> direct_ GUARDED(mutex_);
  std::shared_ptr<ByGrpc> by_grpc_ GUARDED(mutex_);
  std::shared_ptr<Peer> away_ GUARDED(mutex_);  // with others, at that server
  LeaseTime left_{};                             // since then
  std::optional<DirectServices::Reply> early_ GUARDED(mutex_);  // it came while it was asked
  bool asking_ GUARDED(mutex_) = false;
  bool cancelled_ GUARDED(mutex_) = false;
  bool over_ GUARDED(mutex_) = false;
};

// The parts that are asked directly, or together with others, and are not answered yet. Any thread.
class PartCalls {
 public:
  PartCalls();
  ~PartCalls();

  void Enter(const std::shared_ptr<PartCall>& call, bool away = false);
  void Leave(PartCall* call);
  // Calls go to other servers from now on.
  void Rerouted();
  // Whether any is under way in this process for this partition, or anywhere. `brief`: those that
  // do not wait for something to happen.
  bool Any(std::optional<PartitionId> of, bool brief = false) const;
  // Those in this process will never be answered, and end here and now. `ending`: all of them,
  // since the server stops.
  void Lose(std::optional<PartitionId> of, bool ending);

 private:
  using Time = std::chrono::system_clock::time_point;
  struct Entry {
    std::shared_ptr<PartCall> call;
    bool away = false;
    std::optional<std::multimap<Time, PartCall*>::iterator> due;
  };
  void Watch();

  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::unordered_map<PartCall*, Entry> calls_ GUARDED(mutex_);
  std::multimap<Time, PartCall*> due_ GUARDED(mutex_);
  bool ended_ GUARDED(mutex_) = false;
  std::thread watcher_;
};

}  // namespace dfsmr
