// Keeps a machine from drowning in its own retries.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

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

  // When time alone may close the breaker. kNever while it is closed: time may also open it, as old
  // first attempts leave the minute, but that matters only to the next claim, which notices it.
  Timestamp NextTick() const;
  // When the next retry may be handed out: `now` if it may be right away, at most 10 s later.
  Timestamp NextRetry(Timestamp now) const;
  bool MayRetry(Timestamp now) const { return NextRetry(now) <= now; }

  State state() const { return state_; }
  double RetriesPerSecond() const { return rate_; }  // matters while it is not closed
  // Retries / claims over the last minute; 0 without claims.
  double RetryShare(Timestamp now) const;

 private:
  static constexpr int64_t kSlots = 60;
  struct Slot {
    uint32_t claims = 0;
    uint32_t retries = 0;
  };

  void Pass(Timestamp now);
  Effect Judge(Timestamp now);
  bool HandedOutSinceOpening(Timestamp claimed_at) const;

  std::array<Slot, kSlots> slots_{};  // the slot of a second is its number modulo 60
  int64_t second_ = 0;                // of the newest slot
  Slot sum_;
  State state_ = State::kClosed;
  double rate_ = 0;
  Timestamp opened_at_;
  Timestamp last_retry_;  // or the opening, whichever was later
};

std::string_view Name(Breaker::State state);  // "closed", "open", "half-open"

}  // namespace dfsmr
