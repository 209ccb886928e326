#include "fsm/derived/breaker.h"

#include <doctest/doctest.h>

#include <deque>
#include <random>

namespace dfsmr {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using State = Breaker::State;
using Effect = Breaker::Effect;

const Timestamp kStart = FromMicros(1'700'000'000'000'000);

// The last turn of `times` claims.
Effect Claim(Breaker& breaker, bool retry, int times, Timestamp now = kStart) {
  Effect last = Effect::kNone;
  for (int i = 0; i < times; ++i) last = breaker.Claimed(retry, now);
  return last;
}

// Opened at kStart by 10 first attempts and 10 retries.
Breaker Opened() {
  Breaker breaker;
  CHECK(Claim(breaker, false, 10) == Effect::kNone);
  CHECK(Claim(breaker, true, 9) == Effect::kNone);
  CHECK(Claim(breaker, true, 1) == Effect::kOpened);
  return breaker;
}

}  // namespace

TEST_CASE("it opens when half of twenty claims are retries") {
  const Breaker breaker = Opened();
  CHECK(breaker.state() == State::kOpen);
  CHECK(breaker.RetryShare(kStart) == 0.5);
}

TEST_CASE("nineteen claims do not open it, whatever they are") {
  Breaker breaker;
  CHECK(Claim(breaker, true, 19) == Effect::kNone);
  CHECK(breaker.MayRetry(kStart));
  CHECK(Claim(breaker, true, 1) == Effect::kOpened);
}

TEST_CASE("fewer than half do not open it") {
  Breaker breaker;
  Claim(breaker, false, 51);
  CHECK(Claim(breaker, true, 50) == Effect::kNone);
  CHECK(Claim(breaker, true, 1) == Effect::kOpened);
}

TEST_CASE("only the last minute counts") {
  Breaker breaker;
  Claim(breaker, true, 19);
  CHECK(breaker.Claimed(true, kStart + seconds(60)) == Effect::kNone);
  CHECK(breaker.RetryShare(kStart + seconds(60)) == 1);
  Breaker within;
  Claim(within, true, 19);
  CHECK(within.Claimed(true, kStart + seconds(59)) == Effect::kOpened);
}

TEST_CASE("it opens when the first attempts that kept it closed are a minute old") {
  Breaker breaker;
  Claim(breaker, false, 100);
  Claim(breaker, true, 30, kStart + seconds(30));
  CHECK(breaker.Tick(kStart + seconds(59)) == Effect::kNone);
  CHECK(breaker.Tick(kStart + seconds(60)) == Effect::kOpened);
}

TEST_CASE("claims given back are none") {
  Breaker breaker;
  Claim(breaker, true, 19);
  CHECK(breaker.GivenBack(true, kStart, kStart + seconds(1)) == Effect::kNone);
  CHECK(Claim(breaker, true, 1, kStart + seconds(1)) == Effect::kNone);
  CHECK(Claim(breaker, true, 1, kStart + seconds(1)) == Effect::kOpened);
  Breaker other;
  Claim(other, false, 11);
  Claim(other, true, 10);
  CHECK(other.GivenBack(false, kStart, kStart) == Effect::kOpened);
}

TEST_CASE("a claim given back after a minute changes nothing") {
  Breaker breaker;
  Claim(breaker, true, 5);
  Claim(breaker, true, 5, kStart + seconds(70));
  CHECK(breaker.GivenBack(true, kStart, kStart + seconds(70)) == Effect::kNone);
  CHECK(breaker.GivenBack(true, kStart + seconds(80), kStart + seconds(70)) == Effect::kNone);
  CHECK(breaker.GivenBack(false, kStart + seconds(70), kStart + seconds(70)) == Effect::kNone);
  CHECK(breaker.RetryShare(kStart + seconds(70)) == 1);
}

TEST_CASE("once open it hands out a retry a second") {
  Breaker breaker = Opened();
  CHECK(!breaker.MayRetry(kStart));
  CHECK(!breaker.MayRetry(kStart + milliseconds(999)));
  CHECK(breaker.NextRetry(kStart) == kStart + seconds(1));
  CHECK(breaker.MayRetry(kStart + seconds(1)));
  const Timestamp later = kStart + milliseconds(1'700);
  CHECK(breaker.Claimed(true, later) == Effect::kNone);
  CHECK(!breaker.MayRetry(later));
  CHECK(breaker.NextRetry(later) == later + seconds(1));
}

TEST_CASE("first attempts do not use up a retry's turn") {
  Breaker breaker = Opened();
  Claim(breaker, false, 5, kStart + milliseconds(900));
  CHECK(breaker.MayRetry(kStart + seconds(1)));
}

TEST_CASE("each retry that succeeds doubles the rate, each that fails halves it") {
  Breaker breaker = Opened();
  const Timestamp claimed = kStart + seconds(1);
  Claim(breaker, true, 1, claimed);
  breaker.RetrySucceeded(claimed);
  CHECK(breaker.NextRetry(claimed) == claimed + milliseconds(500));
  breaker.RetrySucceeded(claimed);
  CHECK(breaker.NextRetry(claimed) == claimed + milliseconds(250));
  breaker.RetryFailed(claimed);
  CHECK(breaker.NextRetry(claimed) == claimed + milliseconds(500));
  for (int i = 0; i < 20; ++i) breaker.RetryFailed(claimed);
  CHECK(breaker.NextRetry(claimed) == claimed + seconds(10));
  breaker.RetrySucceeded(claimed);
  CHECK(breaker.NextRetry(claimed) == claimed + seconds(5));
  for (int i = 0; i < 2'000; ++i) breaker.RetrySucceeded(claimed);
  CHECK(breaker.NextRetry(claimed) <= claimed + Duration(1));
}

TEST_CASE("it is half-open from the first success on, until it closes") {
  Breaker breaker = Opened();
  const Timestamp claimed = kStart + seconds(1);
  breaker.RetryFailed(claimed);
  CHECK(breaker.state() == State::kOpen);
  breaker.RetrySucceeded(claimed);
  CHECK(breaker.state() == State::kHalfOpen);
  breaker.RetryFailed(claimed);
  CHECK(breaker.state() == State::kHalfOpen);
  CHECK(Claim(breaker, false, 81, claimed) == Effect::kClosed);
  CHECK(breaker.state() == State::kClosed);
}

TEST_CASE("retries handed out before the opening do not move the rate") {
  Breaker breaker = Opened();
  breaker.RetrySucceeded(kStart);
  breaker.RetrySucceeded(kStart - seconds(5));
  CHECK(breaker.state() == State::kOpen);
  breaker.RetryFailed(kStart);
  CHECK(breaker.RetriesPerSecond() == 1);
}

TEST_CASE("it closes when less than a tenth of the claims are retries") {
  Breaker breaker = Opened();  // 10 of 20
  CHECK(Claim(breaker, false, 80) == Effect::kNone);
  CHECK(breaker.Claimed(false, kStart) == Effect::kClosed);
  CHECK(breaker.state() == State::kClosed);
  CHECK(breaker.MayRetry(kStart));
  CHECK(breaker.NextTick() == kNever);
}

TEST_CASE("it closes when the retries are a minute old") {
  Breaker breaker = Opened();
  Claim(breaker, false, 1, kStart + seconds(30));
  CHECK(breaker.NextTick() == kStart + seconds(60));
  CHECK(breaker.Tick(kStart + seconds(59)) == Effect::kNone);
  CHECK(breaker.Tick(kStart + seconds(60)) == Effect::kClosed);
}

TEST_CASE("the share of retries ages while nothing is claimed") {
  Breaker breaker;
  Claim(breaker, true, 1);
  Claim(breaker, false, 3, kStart + seconds(30));
  CHECK(breaker.RetryShare(kStart + seconds(59)) == 0.25);
  CHECK(breaker.RetryShare(kStart + seconds(60)) == 0);
  CHECK(breaker.RetryShare(kStart + hours(24)) == 0);
  CHECK(breaker.RetryShare(kStart + seconds(59)) == 0.25);  // asking changes nothing
}

TEST_CASE("it closes after a minute without claims") {
  Breaker breaker = Opened();
  CHECK(breaker.Tick(breaker.NextTick()) == Effect::kClosed);
  CHECK(breaker.RetryShare(kStart + seconds(60)) == 0);
  Breaker asleep = Opened();
  CHECK(asleep.Tick(kStart + hours(1'000)) == Effect::kClosed);
}

TEST_CASE("it stays open while only retries are handed out, however few") {
  Breaker breaker = Opened();
  Timestamp now = kStart;
  for (int i = 0; i < 100; ++i) {
    now = breaker.NextRetry(now);
    CHECK(breaker.Claimed(true, now) == Effect::kNone);
    breaker.RetryFailed(now);
  }
  CHECK(breaker.state() == State::kOpen);
  CHECK(now > kStart + seconds(900));
}

TEST_CASE("it opens again, with a rate of one a second") {
  Breaker breaker = Opened();
  const Timestamp before = kStart + seconds(1);
  breaker.RetrySucceeded(before);
  Claim(breaker, false, 81, before);
  CHECK(breaker.state() == State::kClosed);
  const Timestamp again = kStart + seconds(100);
  CHECK(Claim(breaker, true, 20, again) == Effect::kOpened);
  CHECK(breaker.state() == State::kOpen);
  breaker.RetryFailed(before);  // handed out before this opening
  CHECK(breaker.NextRetry(again) == again + seconds(1));
}

TEST_CASE("a clock that is set back holds no retry for long") {
  Breaker breaker = Opened();
  const Timestamp back = kStart - hours(5) - seconds(7);
  CHECK(breaker.MayRetry(back));
  CHECK(breaker.Claimed(true, back) == Effect::kNone);
  CHECK(breaker.NextRetry(back) == back + seconds(1));
  CHECK(breaker.RetryShare(back) == doctest::Approx(11.0 / 21));
  breaker.RetrySucceeded(back + seconds(1));
  CHECK(breaker.state() == State::kHalfOpen);
  CHECK(breaker.Tick(back + seconds(59)) == Effect::kNone);
  CHECK(breaker.Tick(back + seconds(60)) == Effect::kClosed);
}

TEST_CASE("the sums are those of the claims of the last minute") {
  std::mt19937_64 random(5);
  struct Made {
    int64_t second;
    bool retry;
  };
  std::deque<Made> made;
  Breaker breaker;
  State before = State::kClosed;
  Timestamp now = kStart;
  for (int i = 0; i < 20'000; ++i) {
    now += milliseconds(random() % 400 == 0 ? random() % 90'000 : random() % 600);
    const bool retry = random() % 100 < (random() % 2 + static_cast<uint64_t>(i / 1'000 % 2)) * 45;
    made.push_back({Micros(now) / 1'000'000, retry});
    Effect turn = breaker.Claimed(retry, now);
    if (random() % 10 == 0) {
      made.pop_back();
      const Effect then = breaker.GivenBack(retry, now, now);
      if (then != Effect::kNone) turn = then;
      before = breaker.state();  // it may have opened and closed in between
    }
    while (!made.empty() && made.front().second <= Micros(now) / 1'000'000 - 60) made.pop_front();
    uint32_t retries = 0;
    for (const Made& claim : made) retries += claim.retry;
    const auto claims = static_cast<uint32_t>(made.size());
    REQUIRE(breaker.RetryShare(now) == (claims == 0 ? 0 : double(retries) / claims));
    if (before == State::kClosed && breaker.state() != State::kClosed) {
      REQUIRE(turn == Effect::kOpened);
      REQUIRE(claims >= 20);
      REQUIRE(retries * 2 >= claims);
    }
    if (before != State::kClosed && breaker.state() == State::kClosed) {
      REQUIRE(turn == Effect::kClosed);
      REQUIRE((claims == 0 || retries * 10 < claims));
    }
    before = breaker.state();
  }
}

// Over several partitions ----------------------------------------------------------------------

TEST_CASE("one that judges counts what others tell, and opens only if it may") {
  Breaker judge;
  judge.LetOpen(false);
  const int64_t now = kStart.time_since_epoch().count() / 1'000'000;
  judge.Count({.seconds = {{now, 12, 6}, {now - 59, 8, 4}, {now - 60, 99, 0}}}, kStart);
  CHECK(judge.Minute(kStart).claims == 20);
  CHECK(judge.Minute(kStart).retries == 10);
  CHECK(judge.Tick(kStart) == Effect::kNone);
  judge.LetOpen(true);
  CHECK(judge.Tick(kStart) == Effect::kOpened);
  judge.Count({.seconds = {{now, -50, -50}}}, kStart);  // never less than none
  CHECK(judge.Minute(kStart).claims == 8);
  CHECK(judge.Minute(kStart).retries == 4);
}

TEST_CASE("one that follows tells what it hands out, and never opens by itself") {
  Breaker here;
  here.FollowOthers();
  CHECK(Claim(here, true, 30) == Effect::kNone);
  CHECK(here.GivenBack(true, kStart, kStart) == Effect::kNone);
  CHECK(here.state() == State::kClosed);
  CHECK(here.RetryShare(kStart) == 0);
  CHECK(here.RetryShareHere(kStart) == 1);
  REQUIRE(here.HasSpent());
  const Breaker::Spent spent = here.TakeSpent();
  REQUIRE(spent.seconds.size() == 1);
  CHECK(spent.seconds[0].claims == 29);
  CHECK(spent.seconds[0].retries == 29);
  CHECK_FALSE(here.HasSpent());
}

TEST_CASE("those that hold retries back have their turns one after the other") {
  std::vector<Breaker> all(3);
  for (uint32_t place = 0; place < 3; ++place) {
    all[place].FollowOthers();
    all[place].Follow({.state = State::kOpen, .rate = 1, .since = kStart, .place = place, .of = 3});
    CHECK(all[place].NextRetry(kStart) == kStart + seconds(1 + place));
  }
  std::vector<size_t> order;
  for (Timestamp now = kStart; now <= kStart + seconds(9); now += milliseconds(100)) {
    for (size_t i = 0; i < all.size(); ++i) {
      if (!all[i].MayRetry(now)) continue;
      (void)all[i].Claimed(true, now);
      order.push_back(i);
    }
  }
  CHECK(order == std::vector<size_t>{0, 1, 2, 0, 1, 2, 0, 1, 2});
  // A turn is not saved up: who has missed some has one.
  Breaker late = all[0];
  const Timestamp now = kStart + seconds(30);
  CHECK(late.MayRetry(now));
  (void)late.Claimed(true, now);
  CHECK(late.NextRetry(now) > now);
  late.Follow({.state = State::kOpen, .rate = 1, .since = kStart, .place = 0, .of = 0});
  CHECK(late.NextRetry(now) == kNever);
  late.Follow({});
  CHECK(late.MayRetry(now));
}

TEST_CASE("its states have names") {
  CHECK(Name(State::kClosed) == "closed");
  CHECK(Name(State::kOpen) == "open");
  CHECK(Name(State::kHalfOpen) == "half-open");
}

}  // namespace dfsmr
