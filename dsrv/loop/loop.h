// Drives an engine: one thread decides, one writes and then answers. While a turn is written the
// next one is decided; what arrives meanwhile joins it, and shares its commit.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "dsrv/engine/engine.h"
#include "dsrv/loop/meter.h"
#include "fsm/base/mutex.h"
#include "storage/store.h"

namespace dfsmr {

// What waits for the engine: bounded by count, bytes and time, refused at once when full.
class Mailbox {
 public:
  struct Mail {
    std::function<void(Engine&)> run;
    std::function<void()>
        drop;  // instead of run: its caller's deadline passed, or the server ended
    Timestamp deadline = kNever;
    size_t bytes = 0;
    bool owed = false;  // ends what was let in before: taken however full it is
    std::chrono::steady_clock::time_point posted = {};  // set by Post
  };

  struct Taken {
    std::vector<Mail> mail;
    size_t bytes = 0;
  };

  // False when it is full or closed: nothing was taken. It is full, too, when a crowd waits whose
  // oldest has waited for long, or whose last would have to, as fast as mail was taken of late: a
  // pause of the disk alone does not fill it.
  bool Post(Mail mail);
  // Whether it is full: to ask before there is work in what is to be posted.
  bool Full();
  // What is there, at most a turn's worth; waits for the first of it until `until`, and no longer
  // than `meanwhile` holds: who ends that calls Wake. Nullopt once the mailbox is closed and empty.
  std::optional<Taken> Take(std::chrono::steady_clock::time_point until,
                            const std::atomic<bool>* meanwhile = nullptr);
  void Wake();
  void Close();

 private:
  using Moment = std::chrono::steady_clock::time_point;

  bool FullAt(Moment now) const REQUIRES(mutex_);

  Mutex mutex_;
  Condition arrived_;
  std::deque<Mail> mail_ GUARDED(mutex_);
  size_t bytes_ GUARDED(mutex_) = 0;
  bool closed_ GUARDED(mutex_) = false;
  bool wakeable_ GUARDED(mutex_) = false;  // who waits does so only as long as something holds
  // How long full turns of late kept the engine busy, the older the less they count.
  double busy_seconds_ GUARDED(mutex_) = 0;
  double busy_bytes_ GUARDED(mutex_) = 0;
  Moment taken_at_ GUARDED(mutex_){};
  double taken_bytes_ GUARDED(mutex_) = 0;
  bool left_over_ GUARDED(mutex_) = false;  // more was there than one turn takes
};

class Loop {
 public:
  struct Outside {
    std::function<Timestamp()> clock;
    std::function<uint64_t()> entropy;
    // How much room the disk has; asked at most every 10 ms. Null: ample.
    std::function<Room()> room;
    // The records of one commit, in order, before any answer that rests on them.
    std::function<void(std::shared_ptr<const std::vector<rows::FeedPage>>)> publish;
    // The feed's records before this one are gone.
    std::function<void(uint64_t)> trimmed;
    // The store has failed: what it holds is unknown, nothing may be answered any more.
    std::function<void(const Error&)> fail;
  };

  // `engine` and `store` must outlive it.
  Loop(Engine& engine, Store& store, Outside outside);
  ~Loop();

  // Any thread. False when the server is overloaded.
  bool Post(Mailbox::Mail mail) { return mailbox_.Post(std::move(mail)); }
  bool Overloaded() { return mailbox_.Full(); }
  // Finishes what is in the mailbox, saves the counters, and ends. Once.
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
  Mailbox mailbox_;
  Meter meter_;

  Mutex mutex_;
  Condition changed_;
  std::optional<Turn> turn_ GUARDED(mutex_);  // handed over, not yet answered
  std::atomic<bool> writing_ = false;  // turn_, for who does not want to wait for the lock
  bool ended_ GUARDED(mutex_) = false;

  std::chrono::steady_clock::time_point room_due_;  // decider_'s alone

  std::thread committer_;
  std::thread decider_;
};

}  // namespace dfsmr
