// Keeps a machine from drowning in its own retries.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "fsm/base/time.h"

namespace dfsmr {

// Each machine has one. It is not kept over a restart. One thread at a time.
//
// A retry is a claim of a visit of which an earlier claim timed out. A claim that was given back
// does not count. Closed, the breaker lets everything pass. It opens when over the last minute
// there were at least 20 claims, half or more of them retries. From then on retries are handed out
// at most once a second, the first of them a second after the opening. Of those handed out since,
// each that succeeds doubles the rate and each that fails halves it, down to one in 10 s. First
// attempts pass as ever. It closes when less than a tenth of the last minute's claims are retries,
// or when the last minute had no claims: then there is nothing to hold back.
//
// The minute is 60 slots of a second, the current one being the last: between 59 s and 60 s.
// Each call with a `now` drops the slots that have become too old, which may open or close the
// breaker. When the clock is set back, the minute goes back with it.
class Breaker {
 public:
  enum class State : uint8_t { kClosed, kOpen, kHalfOpen };  // half-open: a success since it opened
  enum class Effect : uint8_t { kNone, kOpened, kClosed };   // what a call has done

  // A claim was handed out.
  [[nodiscard]] Effect Claimed(bool retry, Timestamp now);
  // The claim handed out at `claimed_at` was given back, and no longer counts. The next retry waits
  // all the same, or a worker that gives back every task would undo the brake.
  [[nodiscard]] Effect GivenBack(bool retry, Timestamp claimed_at, Timestamp now);
  // A retry's report was accepted, whatever its transition, and also after the retry timed out.
  void RetrySucceeded(Timestamp claimed_at);
  // A retry timed out.
  void RetryFailed(Timestamp claimed_at);
  // Lets time pass. Due at NextTick.
  [[nodiscard]] Effect Tick(Timestamp now);

  // Over several partitions one breaker judges what all of them hand out, and the others follow it.
  struct Told {
    State state = State::kClosed;
    double rate = 0;     // retries a second, of all partitions
    Timestamp since;     // it opened
    uint32_t place = 0;  // of `of` that hold retries back, in whose turns they are handed out; the
    uint32_t of = 0;     // first is 0. 0: none is to be handed out here
    friend bool operator==(const Told&, const Told&) = default;
  };
  struct Second {
    int64_t second = 0;
    int64_t claims = 0;  // less than zero: more were given back
    int64_t retries = 0;
  };
  struct Spent {  // what was handed out, and has come back
    std::vector<Second> seconds;
    std::vector<Timestamp> succeeded;  // when these retries were claimed
    std::vector<Timestamp> failed;
    bool empty() const { return seconds.empty() && succeeded.empty() && failed.empty(); }
  };
  struct Counts {
    uint32_t claims = 0;
    uint32_t retries = 0;
  };
  // Of the one that judges. What it is told of counts at the next Tick. It opens only if it may.
  Told Stand() const { return {state_, rate_, opened_at_, 0, 0}; }
  void Count(const Spent& elsewhere, Timestamp now);
  void LetOpen(bool may) { may_open_ = may; }
  void Share(uint32_t place, uint32_t of);
  // Of one that follows: it never opens or closes by itself.
  void FollowOthers() {
    follows_ = true;
    of_ = 0;
  }
  void Follow(const Told& told);
  bool HasSpent() const { return !spent_.empty(); }
  Spent TakeSpent() { return std::exchange(spent_, {}); }
  // What was handed out here in the last minute; of the one that judges, everywhere.
  Counts Minute(Timestamp now);

  // When time alone may close the breaker. kNever while it is closed: time may also open it, as old
  // first attempts leave the minute, but that matters only to the next claim, which notices it.
  Timestamp NextTick() const;
  // When the next retry may be handed out: `now` if it may be right away, at most 10 s later;
  // kNever for one that follows and has no turn yet.
  Timestamp NextRetry(Timestamp now) const;
  bool MayRetry(Timestamp now) const { return NextRetry(now) <= now; }

  State state() const { return state_; }
  double RetriesPerSecond() const { return rate_; }  // matters while it is not closed
  // Retries / claims over the last minute; 0 without claims, and of one that follows.
  double RetryShare(Timestamp now) const { return follows_ ? 0 : RetryShareHere(now); }
  // The same of what was handed out here.
  double RetryShareHere(Timestamp now) const;
  bool Follows() const { return follows_; }

 private:
  static constexpr int64_t kSlots = 60;
  struct Slot {
    uint32_t claims = 0;
    uint32_t retries = 0;
  };

  void Pass(Timestamp now);
  Effect Judge(Timestamp now);
  void Spend(int64_t second, int64_t claims, int64_t retries);
  Timestamp NextTurn(Timestamp now) const;
  bool HandedOutSinceOpening(Timestamp claimed_at) const;

  std::array<Slot, kSlots> slots_{};  // the slot of a second is its number modulo 60
  int64_t second_ = 0;                // of the newest slot
  Slot sum_;
  State state_ = State::kClosed;
  double rate_ = 0;
  Timestamp opened_at_;
  Timestamp last_retry_;  // or the opening, whichever was later
  bool follows_ = false;
  bool may_open_ = true;
  uint32_t place_ = 0;
  uint32_t of_ = 1;
  Spent spent_;  // of one that follows: to be told
};

std::string_view Name(Breaker::State state);  // "closed", "open", "half-open"

}  // namespace dfsmr
