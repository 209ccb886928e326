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
  if (follows_) Spend(second_, 1, retry);
  return Judge(now);
}

Breaker::Effect Breaker::GivenBack(bool retry, Timestamp claimed_at, Timestamp now) {
  Pass(now);
  const int64_t second = SecondOf(claimed_at);
  if (second > second_ - kSlots && second <= second_) {
    if (follows_) Spend(second, -1, -static_cast<int64_t>(retry));
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
  if (follows_ && state_ != State::kClosed) return spent_.succeeded.push_back(claimed_at);
  if (!HandedOutSinceOpening(claimed_at)) return;
  rate_ = std::min(rate_ * 2, kRateMost);
  state_ = State::kHalfOpen;
}

void Breaker::RetryFailed(Timestamp claimed_at) {
  if (follows_ && state_ != State::kClosed) return spent_.failed.push_back(claimed_at);
  if (HandedOutSinceOpening(claimed_at)) rate_ = std::max(rate_ / 2, kRateLeast);
}

Breaker::Effect Breaker::Tick(Timestamp now) {
  Pass(now);
  return Judge(now);
}

Timestamp Breaker::NextTick() const {
  if (state_ == State::kClosed || follows_) return kNever;
  for (int64_t second = second_ - kSlots + 1; second <= second_; ++second) {
    if (slots_[static_cast<size_t>(second % kSlots)].claims == 0) continue;
    return Timestamp(std::chrono::seconds(second + kSlots));
  }
  return kNever;
}

Timestamp Breaker::NextRetry(Timestamp now) const {
  // A last retry in the future was handed out before the clock was set back.
  if (state_ == State::kClosed || last_retry_ > now) return now;
  if (follows_ || of_ > 1) return NextTurn(now);
  const Duration pause(static_cast<int64_t>(std::ceil(1e6 / rate_)));
  return std::max(now, last_retry_ + pause);
}

// Turns are at the opening + k / rate, k = 1, 2, …; each of-th is this one's. It may be taken
// until the next one of its own.
Timestamp Breaker::NextTurn(Timestamp now) const {
  if (of_ == 0 || rate_ <= 0) return kNever;
  const double pause = 1e6 / rate_;
  const auto at = [&](int64_t turn) {
    const double after = std::ceil(static_cast<double>(turn) * pause);
    return opened_at_ + Duration(static_cast<int64_t>(after));
  };
  const auto passed = static_cast<int64_t>(static_cast<double>((now - opened_at_).count()) / pause);
  const int64_t of = of_;
  int64_t mine = passed - (passed - 1 - place_ + of) % of;  // the last of its own, not later
  if (mine >= 1 && at(mine) <= now && at(mine) > last_retry_) return now;
  while (mine < 1 || at(mine) <= now) mine += of;
  return at(mine);
}

double Breaker::RetryShareHere(Timestamp now) const {
  Slot sum = sum_;
  const int64_t aged = std::clamp<int64_t>(SecondOf(now) - second_, 0, kSlots);
  for (int64_t second = second_ - kSlots + 1; second <= second_ - kSlots + aged; ++second) {
    const Slot& old = slots_[static_cast<size_t>((second + kSlots) % kSlots)];
    sum.claims -= old.claims;
    sum.retries -= old.retries;
  }
  return sum.claims == 0 ? 0 : static_cast<double>(sum.retries) / sum.claims;
}

// Over several partitions -------------------------------------------------------------------------

void Breaker::Spend(int64_t second, int64_t claims, int64_t retries) {
  auto& seconds = spent_.seconds;
  const auto found = std::ranges::find(seconds, second, &Second::second);
  if (found != seconds.end()) {
    found->claims += claims;
    found->retries += retries;
    return;
  }
  std::erase_if(seconds, [this](const Second& one) { return one.second <= second_ - kSlots; });
  seconds.push_back({second, claims, retries});
}

void Breaker::Count(const Spent& elsewhere, Timestamp now) {
  Pass(now);
  const auto add = [](uint32_t* count, int64_t by) {
    const int64_t sum = std::max<int64_t>(static_cast<int64_t>(*count) + by, 0);
    const int64_t change = sum - static_cast<int64_t>(*count);
    *count = static_cast<uint32_t>(sum);
    return change;
  };
  for (const Second& one : elsewhere.seconds) {
    const int64_t second = std::min(one.second, second_);  // its clock may be a little ahead
    if (second <= second_ - kSlots) continue;
    Slot& slot = slots_[static_cast<size_t>(second % kSlots)];
    add(&sum_.claims, add(&slot.claims, one.claims));
    add(&sum_.retries, add(&slot.retries, one.retries));
  }
  for (Timestamp claimed_at : elsewhere.succeeded) RetrySucceeded(claimed_at);
  for (Timestamp claimed_at : elsewhere.failed) RetryFailed(claimed_at);
}

void Breaker::Share(uint32_t place, uint32_t of) {
  place_ = place;
  of_ = of;
}

void Breaker::Follow(const Told& told) {
  state_ = told.state;
  rate_ = told.rate;
  Share(told.place, told.of);
  if (told.of == 0) return;
  opened_at_ = told.since;
  last_retry_ = std::max(last_retry_, told.since);
}

Breaker::Counts Breaker::Minute(Timestamp now) {
  Pass(now);
  return {sum_.claims, sum_.retries};
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
  if (follows_ || (state_ == State::kClosed && !may_open_)) return Effect::kNone;
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
