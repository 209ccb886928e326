// A Ready for a store of several partitions. It looks what each has, takes from those that have the
// most urgent, and waits at all of them when none has anything. An owner that hangs keeps nobody
// from what others have: it is left out at first, and waited for longer when they have nothing.
// What was taken for a worker that is gone meanwhile goes back.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dfsmr/peer.pb.h"
#include "dfsmr/v1/runner.pb.h"
#include "dsrv/cluster/front.h"
#include "dsrv/cluster/part_call.h"
#include "fsm/base/mutex.h"

namespace dfsmr {

// Owns itself from Begin until it is done.
class Taking final : public grpc::ServerGenericBidiReactor,
                     public std::enable_shared_from_this<Taking> {
 public:
  // Whether a call is such a one: it comes from a client, and there are several partitions.
  static bool Wants(const Front& front, const grpc::GenericCallbackServerContext& context);

  Taking(Front& front, grpc::GenericCallbackServerContext* context);
  void Begin();

 private:
  using Clock = std::chrono::steady_clock;
  using milliseconds = std::chrono::milliseconds;
  // One question of a round: what is asked of all goes on when all, or one with something, have
  // answered.
  struct Asked {
    std::shared_ptr<PartCall> call;
    bool done = false;
  };
  struct Round {
    std::vector<Asked> asked;
    size_t left = 0;
    bool over = false;   // nobody waits for the rest
    bool takes = false;  // then each is let finish, since what it took must not be lost
  };
  using RoundPtr = std::shared_ptr<Round>;
  using Reply = DirectServices::Reply;
  using Answered = std::function<void(const Reply& reply)>;

  // Takes what another poll for the same has found, waits for what it is about to find, or looks.
  void Share() REQUIRES(mutex_);
  // Has those that wait for this one's look go on.
  void EndShare() REQUIRES(mutex_);
  // By which what others have found is known.
  std::string NameOfLook() const REQUIRES(mutex_);
  size_t Most() const { return static_cast<size_t>(std::clamp(asked_.max_tasks(), 1, 1'000)); }
  void OnReadDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  void Add(const RoundPtr& round, PartitionId partition, const char* method,
           const std::string& request, milliseconds patience, Answered answered,
           bool waits = false)
      REQUIRES(mutex_);
  // Asks all of the round.
  void Begin(const RoundPtr& round) REQUIRES(mutex_);
  // Looks at all partitions, and waits there for so long if there is nothing.
  void Look(milliseconds wait) REQUIRES(mutex_);
  void Looked(const RoundPtr& round, milliseconds wait, size_t partition, const Reply& reply);
  void Judge() REQUIRES(mutex_);
  void Take(const std::vector<PartitionId>& dealt) REQUIRES(mutex_);
  void Took(const RoundPtr& round, PartitionId partition, const Reply& reply);
  void LookAgain() REQUIRES(mutex_);
  void GiveBack(bool perhaps) REQUIRES(mutex_);
  void Fail(const Reply& reply) REQUIRES(mutex_);
  void EndUnreachable() REQUIRES(mutex_);
  void End(const grpc::Status& status) REQUIRES(mutex_);

  Front& front_;
  grpc::GenericCallbackServerContext* const context_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer out_;
  v1::ReadyRequest asked_;
  std::shared_ptr<const DirectOrigin> origin_;
  Clock::time_point until_;

  Mutex mutex_;
  std::shared_ptr<Taking> self_ GUARDED(mutex_);
  RoundPtr round_ GUARDED(mutex_);
  std::string look_ GUARDED(mutex_);     // as NameOfLook
  bool shares_ GUARDED(mutex_) = false;  // others wait for this one's look
  int waited_ GUARDED(mutex_) = 0;       // for others' looks
  std::vector<peer::PeekResponse> found_ GUARDED(mutex_);  // by partition
  milliseconds patience_ GUARDED(mutex_);                  // of this look, beyond its wait
  size_t unanswered_ GUARDED(mutex_) = 0;                  // partitions within it, in this round
  size_t unreachable_ GUARDED(mutex_) = 0;                 // partitions, in this round
  grpc::Status why_ GUARDED(mutex_);                       // of the first of them
  std::string reason_ GUARDED(mutex_);
  std::vector<PartitionId> dealt_ GUARDED(mutex_);  // tasks are taken from, in their order
  std::map<PartitionId, v1::ReadyResponse> taken_ GUARDED(mutex_);
  bool cancelled_ GUARDED(mutex_) = false;
  bool ended_ GUARDED(mutex_) = false;
};

}  // namespace dfsmr
