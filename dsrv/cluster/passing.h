// One call on its way through the front: from the client to the owner, and back.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "dsrv/cluster/front.h"
#include "dsrv/cluster/method_facts.h"
#include "dsrv/cluster/part_call.h"
#include "dsrv/cluster/proof.h"
#include "dsrv/cluster/reach.h"
#include "fsm/base/mutex.h"
#include "fsm/base/reason.h"

namespace dfsmr {

// A server that has given the partition away has decided what it had, and says so at once; one that
// is gone says nothing. It is waited for so long.
inline constexpr std::chrono::milliseconds kLastWord{500};

// Why a front ends a call by itself: UNAVAILABLE, with a word for programs.
struct NoAnswer {
  Reason reason = Reason::kNone;
  std::string message;
};

// Of a call that was under way in a process that does not own its partition any more. `ending`:
// since that one stops.
NoAnswer WhyLost(bool reads_only, bool ending);

// Owns itself from Begin until both sides are done with it.
class Passing final : public grpc::ServerGenericBidiReactor,
                      public std::enable_shared_from_this<Passing> {
 public:
  Passing(Front& front, grpc::GenericCallbackServerContext* context);
  void Begin();

  // Goes on with what waits. False: nothing waits any more.
  bool Tick(LeaseTime now);
  // The front has other routes: whom is asked is perhaps not the owner any more.
  void Rerouted();
  void LoseInside(std::optional<PartitionId> of);
  void End();
  // Whether it is with the services of this process, and one of these.
  bool IsInside(const Front::Inside& which);
  // Whether it takes one request and is answered once, as soon as that can be.
  bool Brief() const {
    return !facts_.many_requests && !facts_.many_replies && !facts_.waits;
  }

 private:
  class Try;

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override { self_.reset(); }

  // False: it claims to come from another front, and does not.
  bool Identify();
  bool IdentifyPartition();
  void FindPartition() REQUIRES(mutex_);
  std::shared_ptr<const Route> RouteNow() const REQUIRES(mutex_) {
    return front_.route(partition_);
  }
  // Whether it is a part of a stream that is opened anew where it was.
  bool OfFeed() const {
    const bool feed = facts_.name == "Changes" || facts_.name == "Watch";
    return feed && !origin_.partition.empty();
  }
  void Read() REQUIRES(mutex_);
  void Ask(LeaseTime now) REQUIRES(mutex_);
  std::optional<NoAnswer> Patience(const Route& route, LeaseTime now) REQUIRES(mutex_);
  void Send(const Route& route, bool waited) REQUIRES(mutex_);
  // False: there is no way past gRPC, or not for such a call.
  bool SendDirectly(const Route& route) REQUIRES(mutex_);
  void TakeDirect(DirectServices::Reply reply);
  void Describe(grpc::ClientContext* context, const Route& route) REQUIRES(mutex_);
  void WriteOn() REQUIRES(mutex_);
  void Abandon() REQUIRES(mutex_);

  // What comes from the owner.
  void AddStart(const grpc::ClientContext& from) REQUIRES(mutex_);
  void TakeStart(Try* from, bool ok);
  void TakeReply(Try* from, bool ok);
  void TakeWritten(Try* from, bool ok);
  void TakeEnd(Try* from, const grpc::Status& status);
  bool Closed(const Try& from, const grpc::Status& status) REQUIRES(mutex_);
  bool IsForAll(const Try& from, const grpc::Status& status) const;
  void Spread(const grpc::Status& status) REQUIRES(mutex_);
  static bool OwnerLost(const Try& from, const grpc::Status& status);
  void AskAgain() REQUIRES(mutex_);
  void Compare() REQUIRES(mutex_);

  bool MayTell() REQUIRES(mutex_);
  void Tell() REQUIRES(mutex_);
  void Lost() REQUIRES(mutex_);
  void Finish(NoAnswer why) REQUIRES(mutex_);
  void Finish(grpc::Status status) REQUIRES(mutex_);
  void FinishNow() REQUIRES(mutex_);
  void Count() REQUIRES(mutex_);

  Front& front_;
  grpc::GenericCallbackServerContext* const context_;
  const std::string method_;
  const MethodFacts facts_;
  PassedOn origin_;
  const LeaseTime began_ = LeaseTimeNow();
  bool page_ = false;  // a page of the console asks
  bool from_front_ = false;

  Mutex mutex_;
  std::shared_ptr<Passing> self_;
  PartitionId partition_ GUARDED(mutex_) = kHome;  // that it is for, once it waits for a route
  bool any_partition_ GUARDED(mutex_) = false;     // any other would do

  // The client's side.
  grpc::ByteBuffer incoming_;
  std::optional<grpc::ByteBuffer> first_;  // its first message: what it takes to ask again
  bool reading_ GUARDED(mutex_) = false;
  size_t taken_ GUARDED(mutex_) = 0;        // messages
  bool asked_all_ GUARDED(mutex_) = false;  // it has said all it wants to say
  bool started_ GUARDED(mutex_) = false;    // its initial metadata is on its way
  grpc::ByteBuffer reply_;
  bool have_reply_ GUARDED(mutex_) = false;  // in reply_, not told yet
  bool told_ GUARDED(mutex_) = false;        // something was
  bool telling_ GUARDED(mutex_) = false;     // a message is being written
  bool cancelled_ GUARDED(mutex_) = false;
  bool forwarded_ GUARDED(mutex_) = false;  // to another server, or was to be
  std::string outcome_ GUARDED(mutex_) = "answered";
  std::optional<grpc::Status> end_ GUARDED(mutex_);  // as soon as all is told
  bool finished_ GUARDED(mutex_) = false;

  // The owner's side.
  std::deque<grpc::ByteBuffer> unsent_ GUARDED(mutex_);
  std::shared_ptr<PartCall> direct_ GUARDED(mutex_);  // in place of a try
  std::shared_ptr<Try> try_ GUARDED(mutex_);
  bool asking_ GUARDED(mutex_) = false;  // it waits for a route
  LeaseTime asking_since_ GUARDED(mutex_){};
  LeaseTime not_before_ GUARDED(mutex_){};
  LeaseTime give_up_ GUARDED(mutex_){};                  // waiting for the word of a lost owner
  std::optional<LeaseTime> lost_since_ GUARDED(mutex_);  // the first owner that was
};

}  // namespace dfsmr
