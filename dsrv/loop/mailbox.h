// The commands that wait for the engine, in the order in which they came.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "fsm/base/limits.h"
#include "fsm/base/mutex.h"
#include "fsm/base/time.h"

namespace dfsmr {

class Engine;

// Bounded by count, bytes and time: when it is full, mail is refused at once. Any thread posts; one
// thread takes.
class Mailbox {
 public:
  // What one turn takes at most, besides limits::kTurnItems: enough for group commit, and so little
  // that the next mail does not wait for long. Some three thousand items fit.
  static constexpr size_t kTurnBytes = 256 << 10;

  struct Mail {
    std::function<void(Engine&)> run;
    // Called instead of run when the caller's deadline has passed.
    std::function<void()> drop;
    Timestamp deadline = kNever;
    size_t bytes = 0;
    // Ends something that was accepted before, and so is taken even by a full mailbox.
    bool owed = false;
    std::chrono::steady_clock::time_point posted = {};  // set by Post
  };

  struct Taken {
    std::vector<Mail> mail;
    size_t bytes = 0;
  };

  // False: the mailbox is full or closed, and did not take the mail. It is full at
  // limits::kMailboxItems and kMailboxBytes; also when more than a turn's worth waits and the
  // oldest item has waited for limits::kMailboxWait, or the newest would wait as long at the pace
  // of recent full turns. One slow fsync does not fill it.
  bool Post(Mail mail);
  // Whether it is full: for callers to whom making the mail is costly.
  bool Full();
  size_t size();
  // Takes the mail that is there, at most a turn's worth. Waits for the first item until `until`;
  // with `meanwhile` only as long as that is true, so call Wake after setting it to false. nullopt:
  // the mailbox is closed and empty.
  std::optional<Taken> Take(std::chrono::steady_clock::time_point until,
                            const std::atomic<bool>* meanwhile = nullptr);
  void Wake();
  void Close();

 private:
  using Moment = std::chrono::steady_clock::time_point;

  bool FullAt(Moment now) const REQUIRES(mutex_);

  Mutex mutex_;
  ConditionVariable arrived_;
  std::deque<Mail> mail_ GUARDED(mutex_);
  size_t bytes_ GUARDED(mutex_) = 0;
  bool closed_ GUARDED(mutex_) = false;
  bool wakeable_ GUARDED(mutex_) = false;  // Take waits, and only as long as `meanwhile` is true
  // The pace: how long full turns kept the engine busy, and how much they took. Recent turns count
  // most. Zero after the mailbox was empty.
  double busy_seconds_ GUARDED(mutex_) = 0;
  double busy_bytes_ GUARDED(mutex_) = 0;
  // The last Take: when it was, how much it took, and whether it left more.
  Moment taken_at_ GUARDED(mutex_){};
  double taken_bytes_ GUARDED(mutex_) = 0;
  bool left_over_ GUARDED(mutex_) = false;
};

}  // namespace dfsmr
