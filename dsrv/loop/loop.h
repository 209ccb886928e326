// Drives an engine: one thread decides, another writes and then answers. While a turn is written,
// the next one is decided; commands that arrive meanwhile join it and share its commit.
#pragma once

#include <atomic>
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
    std::function<Timestamp()> clock;
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
  // Finishes the mail in the mailbox, saves the counters, and ends the threads. Call it once.
  void Stop();

  // Any thread.
  const Meter& meter() const { return meter_; }

 private:
  using Taken = std::optional<Mailbox::Taken>;

  void Decide();
  bool DecideTurn(StageClock* clock);
  Taken TakeMail(const std::atomic<bool>* meanwhile);
  void Pass(const Taken& taken, Timestamp now, StageClock* clock);
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

  std::thread committer_;
  std::thread decider_;
};

}  // namespace dfsmr
