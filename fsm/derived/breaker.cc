#include "fsm/derived/breaker.h"

#include <algorithm>
#include <cmath>

namespace dfsmr {
namespace {

constexpr uint32_t kClaimsLeast = 20;
constexpr double kRateAtOpening = 1;  // retries a second
constexpr double kRateLeast = 0.1;
constexpr double kRateMost = 1e6;  // one in a microsecond: no brake at all

int64_t SecondOf(Timestamp t) {
  return std::chrono::floor<std::chrono::seconds>(t).time_since_epoch().count();
}

}  // namespace

Breaker::Effect Breaker::Claimed(bool retry, Timestamp now) {
  Pass(now);
  for (Slot* slot : {&slots_[static_cast<size_t>(second_ % kSlots)], &sum_}) {
    ++slot->claims;
    slot->retries += retry;
  }
  if (retry) last_retry_ = now;
  return Judge(now);
}

Breaker::Effect Breaker::GivenBack(bool retry, Timestamp claimed_at, Timestamp now) {
  Pass(now);
  const int64_t second = SecondOf(claimed_at);
  if (second > second_ - kSlots && second <= second_) {
    Slot& slot = slots_[static_cast<size_t>(second % kSlots)];
    if ((retry ? slot.retries : slot.claims - slot.retries) > 0) {
      for (Slot* from : {&slot, &sum_}) {
        --from->claims;
        /*mutant given-back-retry-counts*/ from->retries -= retry; /*end*/
      }
    }
  }
  return Judge(now);
}

void Breaker::RetrySucceeded(Timestamp claimed_at) {
  if (!HandedOutSinceOpening(claimed_at)) return;
  rate_ = std::min(rate_ * 2, kRateMost);
  state_ = State::kHalfOpen;
}

void Breaker::RetryFailed(Timestamp claimed_at) {
  if (HandedOutSinceOpening(claimed_at)) rate_ = std::max(rate_ / 2, kRateLeast);
}

Breaker::Effect Breaker::Tick(Timestamp now) {
  Pass(now);
  return Judge(now);
}

Timestamp Breaker::NextTick() const {
  if (state_ == State::kClosed) return kNever;
  for (int64_t second = second_ - kSlots + 1; second <= second_; ++second) {
    if (slots_[static_cast<size_t>(second % kSlots)].claims == 0) continue;
    return Timestamp(std::chrono::seconds(second + kSlots));
  }
  return kNever;
}

Timestamp Breaker::NextRetry(Timestamp now) const {
  // A last retry in the future was handed out before the clock was set back.
  if (state_ == State::kClosed || last_retry_ > now) return now;
  const Duration pause(static_cast<int64_t>(std::ceil(1e6 / rate_)));
  return std::max(now, last_retry_ + pause);
}

double Breaker::RetryShare(Timestamp now) const {
  Slot sum = sum_;
  const int64_t aged = std::clamp<int64_t>(SecondOf(now) - second_, 0, kSlots);
  for (int64_t second = second_ - kSlots + 1; second <= second_ - kSlots + aged; ++second) {
    const Slot& old = slots_[static_cast<size_t>((second + kSlots) % kSlots)];
    sum.claims -= old.claims;
    sum.retries -= old.retries;
  }
  return sum.claims == 0 ? 0 : static_cast<double>(sum.retries) / sum.claims;
}

void Breaker::Pass(Timestamp now) {
  const int64_t second = std::max<int64_t>(SecondOf(now), kSlots);
  if (second < second_) {
    const int64_t back = (second_ - second) % kSlots;
    std::rotate(slots_.begin(), slots_.begin() + back, slots_.end());
    second_ = second;
    last_retry_ = std::min(last_retry_, now);
    opened_at_ = std::min(opened_at_, now - Duration(1));
  }
  for (int64_t ahead = std::min(second - second_, kSlots); ahead > 0; --ahead) {
    Slot& oldest = slots_[static_cast<size_t>((second - ahead + 1) % kSlots)];
    sum_.claims -= oldest.claims;
    sum_.retries -= oldest.retries;
    oldest = {};
  }
  second_ = second;
}

Breaker::Effect Breaker::Judge(Timestamp now) {
  if (state_ == State::kClosed) {
    if (/*mutant breaker-opens-late*/ sum_.claims < kClaimsLeast /*end*/ ||
        sum_.retries * 2 < sum_.claims)
      return Effect::kNone;
    state_ = State::kOpen;
    rate_ = kRateAtOpening;
    opened_at_ = last_retry_ = now;
    return Effect::kOpened;
  }
  if (/*mutant planted-12*/ sum_.claims > 0 && sum_.retries * 10 >= sum_.claims /*end*/)
    return Effect::kNone;
  state_ = State::kClosed;
  return Effect::kClosed;
}

bool Breaker::HandedOutSinceOpening(Timestamp claimed_at) const {
  // Strictly later: what opened the breaker was handed out before, and no retry was for a second.
  return state_ != State::kClosed && claimed_at > opened_at_;
}

std::string_view Name(Breaker::State state) {
  switch (state) {
    case Breaker::State::kClosed: return "closed";
    case Breaker::State::kOpen: return "open";
    case Breaker::State::kHalfOpen: return "half-open";
  }
  return "";
}

}  // namespace dfsmr
