// Finds tasks for a worker in a store of several partitions. It looks what each has, takes from
// those that have the most urgent, and waits at all of them when none has anything. An owner that
// hangs keeps nobody from what others have: it is left out at first, and waited for longer when
// they have nothing.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dfsmr/peer.pb.h"
#include "dfsmr/v1/runner.pb.h"
#include "dsrv/cluster/front.h"
#include "dsrv/cluster/part_call.h"
#include "fsm/base/mutex.h"

namespace dfsmr {

inline constexpr const char* kReadyMethod = "/dfsmr.v1.RunnerService/Ready";
// What each partition that was dealt is asked, to take its share of what `asked` asks for.
std::map<PartitionId, std::string> TakesOf(const v1::ReadyRequest& asked,
                                           const std::vector<PartitionId>& dealt);
// The tasks that were taken from partitions, in the order in which these were dealt. Moves them.
v1::ReadyResponse TakenInOrder(const std::vector<PartitionId>& dealt,
                               std::map<PartitionId, v1::ReadyResponse>* taken);
// Leaves as many as a client can receive in one message, one at least; returns the others.
v1::ReadyResponse CutToMessage(v1::ReadyResponse* taken);

class Taking final : public Stoppable, public std::enable_shared_from_this<Taking> {
 public:
  using Deadline = std::chrono::system_clock::time_point;
  // Without bytes: what is taken, perhaps nothing, or why nothing could be.
  using Reply = DirectServices::Reply;
  using Done = std::function<void(const Reply& reply, v1::ReadyResponse taken)>;

  // As `asked` asks, for who calls by `origin`. `done` is called once, from any thread, perhaps
  // before Begin returns.
  Taking(Front& front, std::shared_ptr<const DirectOrigin> origin, v1::ReadyRequest asked,
         Deadline deadline, Done done);
  void Begin();
  // The worker is gone: what was taken for it goes back, and it ends with CANCELLED, unless it has
  // ended.
  void Cancel();
  // What has been taken is told; else it ends with nothing.
  void Stop() override;

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
  using Answered = std::function<void(const Reply& reply)>;
  // What is done by one thread at a time, and the end after it: `done` is called without the lock.
  class DFSMR_THREADS(scoped_lockable) Turn {
   public:
    explicit Turn(Taking& taking) DFSMR_THREADS(acquire_capability(taking.mutex_))
        DFSMR_THREADS(no_thread_safety_analysis)
        : taking_(taking), lock_(taking.mutex_) {}
    ~Turn() DFSMR_THREADS(release_capability()) DFSMR_THREADS(no_thread_safety_analysis);

   private:
    Taking& taking_;
    Lock lock_;
  };

  // Takes what another poll for the same has found, waits for what it is about to find, or looks.
  void Share() REQUIRES(mutex_);
  // Has those that wait for this one's look go on.
  void EndShare() REQUIRES(mutex_);

  void Add(const RoundPtr& round, PartitionId partition, const char* method,
           const std::string& request, milliseconds patience, Answered answered,
           bool waits = false)
      REQUIRES(mutex_);
  // Asks all of the round.
  void Begin(const RoundPtr& round) REQUIRES(mutex_);
  static void CancelRest(Round& round);
  // Looks at all partitions, and waits there for so long if there is nothing.
  void Look(milliseconds wait) REQUIRES(mutex_);
  void Looked(const RoundPtr& round, milliseconds wait, size_t partition, const Reply& reply);
  void Judge() REQUIRES(mutex_);
  void Take(const std::vector<PartitionId>& dealt) REQUIRES(mutex_);
  void Took(const RoundPtr& round, PartitionId partition, const Reply& reply);
  void LookAgain() REQUIRES(mutex_);
  void EndUnreachable() REQUIRES(mutex_);
  bool ended() const REQUIRES(mutex_) { return !done_; }
  void End(Reply reply, v1::ReadyResponse taken = {}) REQUIRES(mutex_);

  Front& front_;
  const std::shared_ptr<const DirectOrigin> origin_;
  const v1::ReadyRequest asked_;
  const Deadline deadline_;
  const Clock::time_point until_;
  const std::string look_;  // as NameOfLook

  Mutex mutex_;
  Done done_ GUARDED(mutex_);               // null: it has been called
  std::function<void()> end_ GUARDED(mutex_);  // calls it, at the end of the turn
  RoundPtr round_ GUARDED(mutex_);
  bool shares_ GUARDED(mutex_) = false;  // others wait for this one's look
  bool waits_ GUARDED(mutex_) = false;  // and is told of a stop
  int waited_ GUARDED(mutex_) = 0;       // for others' looks
  std::vector<peer::PeekResponse> found_ GUARDED(mutex_);  // by partition
  milliseconds patience_ GUARDED(mutex_);                  // of this look, beyond its wait
  size_t unanswered_ GUARDED(mutex_) = 0;                  // partitions within it, in this round
  size_t unreachable_ GUARDED(mutex_) = 0;                 // partitions, in this round
  Reply why_ GUARDED(mutex_);                              // of the first of them
  std::vector<PartitionId> dealt_ GUARDED(mutex_);  // tasks are taken from, in their order
  std::map<PartitionId, v1::ReadyResponse> taken_ GUARDED(mutex_);
  bool cancelled_ GUARDED(mutex_) = false;
};

}  // namespace dfsmr
