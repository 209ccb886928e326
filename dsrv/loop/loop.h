// Drives an engine: one thread decides, another writes and then answers. While a turn is written,
// the next one is decided; commands that arrive meanwhile join it and share its commit.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "dsrv/engine/engine.h"
#include "dsrv/loop/mailbox.h"
#include "dsrv/loop/meter.h"
#include "fsm/base/mutex.h"
#include "storage/store.h"

namespace dfsmr {

class Loop {
 public:
  struct Outside {
    std::function<Timestamp()> clock;  // real time
    // The server's clock stands at what the engine's shows until it is told to advance. False: the
    // server's clock is `clock`.
    bool virtual_clock = false;
    std::function<uint64_t()> entropy;
    // How much room the disk has; asked at most every 10 ms. Null: always ample.
    std::function<Room()> room;
    // Publishes the records of one commit, in order, before any answer that depends on them.
    std::function<void(std::shared_ptr<const std::vector<rows::FeedPage>>)> publish;
    // The feed's records before this one were dropped.
    std::function<void(uint64_t)> trimmed;
    // The store has failed: nobody knows what it holds, so nothing may be answered any more.
    std::function<void(const Error&)> fail;
  };

  // `engine`, `store` and `mailbox`, from which it takes what the engine is to do, must outlive it.
  Loop(Engine& engine, Store& store, Mailbox& mailbox, Outside outside);
  ~Loop();

  // Any thread. False: the server is overloaded.
  bool Post(Mailbox::Mail mail) { return mailbox_.Post(std::move(mail)); }
  bool Overloaded() { return mailbox_.Full(); }
  size_t MailWaiting() { return mailbox_.size(); }
  // Finishes the mail in the mailbox, saves the counters, and ends the threads. Call it once.
  void Stop();

  // What the server's clock shows. Any thread.
  Timestamp Now() const;
  bool has_virtual_clock() const { return outside_.virtual_clock; }

  struct Arrival {
    Timestamp time;
    Timestamp next_due = kNever;
    uint64_t timers = 0;  // that were due on the way
  };
  // A way for a virtual clock to go. On the way it shows each time at which something is due, in
  // turns that are bounded as ever.
  struct Advance {
    // Where to go, or why not. Asked when the advances before this one have come to their ends.
    std::function<Result<Timestamp>(Engine&)> target;
    // Called when everything that was due on the way is durable.
    std::function<void(const Result<Arrival>&)> done;
  };
  // In the loop, with a virtual clock: it goes from here, or when it has arrived where it was told
  // to go before.
  void AdvanceClock(Advance advance) { advances_.push_back(std::move(advance)); }
  // In the loop: from now on the clock stands where it has come to, and advances that have not
  // arrived fail.
  void HaltClock(Error why);

  // Whether the store is being written to: then the deciding thread may have to wait. Any thread.
  bool Writing() const { return writing_; }

  // Any thread.
  const Meter& meter() const { return meter_; }

 private:
  using Taken = std::optional<Mailbox::Taken>;

  void Decide();
  bool DecideTurn(StageClock* clock);
  Taken TakeMail(const std::atomic<bool>* meanwhile);
  Duration WaitForMail() const;
  void Pass(const Taken& taken, Timestamp real, StageClock* clock);
  void StepClock();
  bool BeginAdvance();
  void EndAdvance(Result<Arrival> arrival);
  void Commit();
  void HandOver(Turn turn);
  void LookForRoom();

  Engine& engine_;
  Store& store_;
  const Outside outside_;
  Mailbox& mailbox_;
  Meter meter_;

  Mutex mutex_;
  ConditionVariable changed_;
  std::optional<Turn> turn_ GUARDED(mutex_);  // handed to the writing thread, not yet answered
  std::atomic<bool> writing_ = false;         // whether turn_ is set, to be read without the lock
  bool ended_ GUARDED(mutex_) = false;

  std::chrono::steady_clock::time_point room_due_;  // used by decider_ only
  // Of a virtual clock. All but `stands_` is used by decider_ only.
  std::atomic<Timestamp> stands_;
  std::deque<Advance> advances_;  // the first is under way when there is a target
  std::optional<Timestamp> target_;
  uint64_t fired_before_ = 0;  // the engine's timers when the advance began
  std::optional<Error> halted_;

  std::thread committer_;
  std::thread decider_;
};

}  // namespace dfsmr
