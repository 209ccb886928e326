#include "fsm/derived/latency.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <queue>
#include <random>
#include <vector>

namespace dfsmr {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

const Timestamp kStart = FromMicros(1'700'000'000'000'000);
constexpr double kZ95 = 1.6448536;  // of the normal distribution

// A policy that bounds nothing a test does not ask for.
TimeoutPolicy Percentile() {
  return {.min = microseconds(1), .max = hours(1'000'000)};
}

double Off(Duration is, Duration should) { return std::abs(Seconds(is) / Seconds(should) - 1); }

void Complete(Latency& latency, Duration took, int times = 1, Timestamp now = kStart) {
  for (int i = 0; i < times; ++i) latency.Learn({.took = took}, now);
}

enum class Workers {
  kGiveUp,          // at the deadline, and are never heard of again
  kReportLate,      // work on; what is refused, because another attempt has won, is not a sample
  kReportLateKnown  // work on; refused reports are samples too
};
enum class Slow { kByChance, kVisits };  // every attempt draws its duration, or every visit does

struct Workload {
  double sigma = 1;
  Duration mean = seconds(1);
  int workers = 10;
  Workers kind = Workers::kGiveUp;
  Slow slow = Slow::kByChance;
  int completions = 100'000;
  TimeoutPolicy policy = Percentile();
  double shift = 1;  // durations from half-way on
  Duration pause{};  // of a worker between two tasks
  uint64_t seed = 1;
};

// Workers that always find work, a virtual clock, and what a server does about it: a visit that
// timed out is handed out again, the first report wins, other attempts of the visit are told to
// stop.
class World {
 public:
  explicit World(const Workload& workload) : load_(workload), random_(workload.seed) {
    const double s = load_.sigma;
    log_median_ = std::log(Seconds(load_.mean) * 1e6) - s * s / 2;
    for (int i = 0; i < load_.workers; ++i) Claim();
    Run(load_.completions / 2);
    half_ = counts_;
    log_median_ += std::log(load_.shift);
    Run(load_.completions);
  }

  double Share() const { return counts_.Share(); }
  double ShareOfSecondHalf() const { return counts_.Minus(half_).Share(); }
  double AttemptsPerVisit() const { return double(attempts_.size()) / double(counts_.first); }
  // The quantile that the percentile stands for.
  Duration TrueQuantile() const {
    return Duration(static_cast<int64_t>(std::exp(log_median_ + kZ95 * load_.sigma)));
  }
  const Latency& latency() const { return latency_; }
  Duration Timeout() const { return *latency_.Timeout(load_.policy, false, under_way_); }

 private:
  struct Attempt {
    size_t visit = 0;
    bool retry = false;
    Timestamp claimed, deadline, done;
    Duration censored{};
    bool ended = false;
  };
  struct Visit {
    bool over = false;
    Duration needs{};
    std::vector<size_t> attempts;
  };
  struct Counts {
    int64_t first = 0, timed_out = 0;
    double Share() const { return double(timed_out) / double(first); }
    Counts Minus(const Counts& o) const { return {first - o.first, timed_out - o.timed_out}; }
  };
  struct Due {
    Timestamp at;
    size_t attempt = 0;
    bool operator>(const Due& o) const { return at > o.at; }
  };
  static constexpr size_t kRest = SIZE_MAX;  // a worker's pause ends

  Duration Draw() {
    const double us = std::exp(log_median_ + load_.sigma * normal_(random_));
    return Duration(1 + static_cast<int64_t>(us));
  }

  void Claim() {
    Attempt attempt;
    while (!retries_.empty() && visits_[retries_.front()].over) retries_.pop_front();
    if (retries_.empty()) {
      attempt.visit = visits_.size();
      visits_.push_back({.needs = Draw()});
      ++counts_.first;
    } else {
      attempt.visit = retries_.front();
      attempt.retry = true;
      retries_.pop_front();
    }
    Visit& visit = visits_[attempt.visit];
    attempt.claimed = now_;
    attempt.deadline = now_ + *latency_.Timeout(load_.policy, attempt.retry, under_way_++);
    attempt.done = now_ + (load_.slow == Slow::kVisits ? visit.needs : Draw());
    visit.attempts.push_back(attempts_.size());
    due_.push({std::min(attempt.deadline, attempt.done), attempts_.size()});
    attempts_.push_back(attempt);
  }

  void Learn(const Attempt& attempt, bool censored) {
    latency_.Learn({.took = now_ - attempt.claimed,
                    .censored = censored,
                    .replaces = attempt.censored,
                    .retry = attempt.retry},
                   now_);
  }

  void Free() {
    if (load_.pause == Duration::zero()) return Claim();
    due_.push({now_ + load_.pause, kRest});
  }

  void TimedOut(size_t id) {
    Attempt& attempt = attempts_[id];
    if (!attempt.retry) ++counts_.timed_out;
    --under_way_;
    Learn(attempt, true);
    retries_.push_back(attempt.visit);
    attempt.censored = now_ - attempt.claimed;
    attempt.ended = load_.kind == Workers::kGiveUp;
    if (attempt.ended) return Free();
    due_.push({attempt.done, id});
  }

  void Reported(size_t id) {
    Attempt& attempt = attempts_[id];
    Visit& visit = visits_[attempt.visit];
    attempt.ended = true;
    const bool late = attempt.censored != Duration::zero();
    if (!late) --under_way_;
    if (!visit.over || load_.kind == Workers::kReportLateKnown) Learn(attempt, false);
    int free = 1;
    if (!visit.over) {
      visit.over = true;
      ++completions_;
      for (size_t other_id : visit.attempts) {
        Attempt& other = attempts_[other_id];
        if (other.ended || other.censored != Duration::zero()) continue;
        other.ended = true;
        --under_way_;
        Learn(other, true);
        ++free;
      }
    }
    for (; free > 0; --free) Free();
  }

  void Run(int completions) {
    while (completions_ < completions) {
      const Due due = due_.top();
      due_.pop();
      now_ = due.at;
      if (due.attempt == kRest) {
        Claim();
        continue;
      }
      const Attempt& attempt = attempts_[due.attempt];
      if (attempt.ended) continue;
      now_ == attempt.done ? Reported(due.attempt) : TimedOut(due.attempt);
    }
  }

  Workload load_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  double log_median_ = 0;
  Timestamp now_ = kStart;
  Latency latency_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  std::vector<Attempt> attempts_;
  std::vector<Visit> visits_;
  std::deque<size_t> retries_;
  Counts counts_, half_;
  int completions_ = 0;
  size_t under_way_ = 0;
};

void CheckPromise(const Workload& load) {
  const World world(load);
  INFO("sigma ", load.sigma, ", mean ", Seconds(load.mean), " s, workers ", load.workers,
       ", workers' kind ", int(load.kind), ", slow ", int(load.slow));
  CHECK(world.Share() > 0.04);
  CHECK(world.Share() < 0.06);
  CHECK(world.ShareOfSecondHalf() > 0.04);
  CHECK(world.ShareOfSecondHalf() < 0.06);
  CHECK(world.AttemptsPerVisit() < 1.1);
}

}  // namespace

TEST_CASE("a quantile is within one percent of the sample it stands for") {
  std::mt19937_64 random(7);
  for (double sigma : {0.1, 1.0, 3.0}) {
    std::lognormal_distribution<double> draw(12, sigma);
    Latency latency;
    std::vector<Duration> sorted;
    for (int i = 0; i < 5'000; ++i) {
      sorted.push_back(Duration(static_cast<int64_t>(draw(random))));
      Complete(latency, sorted.back());
    }
    std::sort(sorted.begin(), sorted.end());
    for (double percent : {1.0, 10.0, 50.0, 90.0, 95.0, 99.0, 99.9}) {
      CAPTURE(percent);
      const auto rank = static_cast<size_t>(std::ceil(percent / 100 * 5'001));
      CHECK(Off(*latency.Quantile(percent), sorted[rank - 1]) < 0.01);
    }
  }
}

TEST_CASE("durations from none to three hundred thousand years have a bucket") {
  for (int64_t us : {int64_t{0}, int64_t{1}, int64_t{255}, int64_t{256}, int64_t{3'600'000'000},
                     INT64_MAX}) {
    CAPTURE(us);
    Latency latency;
    Complete(latency, Duration(us), 20);
    CHECK(std::abs(double(latency.Quantile(50)->count()) - double(us)) <= 0.01 * double(us));
  }
  Latency backwards;  // the clock was set back meanwhile
  Complete(backwards, seconds(-5));
  CHECK(backwards.Quantile(50) == Duration(0));
}

TEST_CASE("without samples there is no quantile") { CHECK(!Latency().Quantile(50)); }

TEST_CASE("the percentile counts from twenty samples on") {
  Latency latency;
  const TimeoutPolicy policy = Percentile();
  Complete(latency, seconds(2), 19);
  CHECK(latency.Timeout(policy, false, 0) == seconds(60));
  Complete(latency, seconds(2));
  CHECK(Off(*latency.Timeout(policy, false, 0), seconds(2)) < 0.01);
}

TEST_CASE("the percentile counts when most of the attempts claimed together have ended") {
  Latency latency;
  const TimeoutPolicy policy = Percentile();
  Complete(latency, seconds(2), 40);
  CHECK(latency.Timeout(policy, false, 11) == seconds(60));
  CHECK(Off(*latency.Timeout(policy, false, 10), seconds(2)) < 0.01);
  Complete(latency, seconds(2), 4'096);
  CHECK(Off(*latency.Timeout(policy, false, 1'000'000), seconds(2)) < 0.01);
}

TEST_CASE("min and max bound the timeout, also the initial one") {
  TimeoutPolicy policy{.min = seconds(1), .max = seconds(10)};
  Latency latency;
  CHECK(latency.Timeout(policy, false, 0) == seconds(10));
  Complete(latency, milliseconds(1), 20);
  CHECK(latency.Timeout(policy, false, 0) == seconds(1));
  Complete(latency, hours(1), 200);
  CHECK(latency.Timeout(policy, false, 0) == seconds(10));
  CHECK(Off(*latency.Quantile(95), hours(1)) < 0.01);
}

TEST_CASE("a fixed timeout does not depend on samples, and zero is never") {
  TimeoutPolicy policy{.strategy = TimeoutPolicy::Strategy::kFixed, .value = 1.5};
  Latency latency;
  Complete(latency, hours(1), 100);
  CHECK(latency.Timeout(policy, false, 0) == milliseconds(1'500));
  policy.value = 0;
  CHECK(!latency.Timeout(policy, false, 0));
  policy.strategy = TimeoutPolicy::Strategy::kPercentile;
  CHECK(!latency.Timeout(policy, false, 0));
  CHECK(latency.Timeout({.strategy = TimeoutPolicy::Strategy::kFixed, .value = 1e300}, false, 0) >
        hours(1'000'000));
}

TEST_CASE("an attempt that timed out counts as having lasted at least as long") {
  // Of 10 attempts 4 took 1 s, 3 at least 2 s, 3 took 4 s. S is 1 - 4/10 = 0.6 after 1 s, and of
  // the 3 that were followed beyond 2 s none took longer than 4 s: more than half of all take 4 s.
  Latency latency;
  Complete(latency, seconds(1), 4);
  for (int i = 0; i < 3; ++i) latency.Learn({.took = seconds(2), .censored = true}, kStart);
  Complete(latency, seconds(4), 3);
  CHECK(Off(*latency.Quantile(30), seconds(1)) < 0.01);
  CHECK(Off(*latency.Quantile(50), seconds(4)) < 0.01);
}

TEST_CASE("a timeout grows as long as attempts outlast it") {
  Latency latency;
  const TimeoutPolicy policy = Percentile();
  Timestamp now = kStart;
  for (int i = 0; i < 2'000; ++i) {
    const Duration timeout = *latency.Timeout(policy, false, 1);
    if (timeout > hours(5)) break;
    now += timeout;
    latency.Learn({.took = timeout, .censored = true}, now);
  }
  CHECK(*latency.Timeout(policy, false, 1) > hours(5));
}

TEST_CASE("a late report replaces what was known of its attempt") {
  Latency latency;
  for (int i = 0; i < 30; ++i) latency.Learn({.took = seconds(1), .censored = true}, kStart);
  for (int i = 0; i < 30; ++i) {
    latency.Learn({.took = seconds(5), .replaces = seconds(1)}, kStart + seconds(4));
  }
  CHECK(latency.Samples() == 30);
  CHECK(Off(*latency.Quantile(50), seconds(5)) < 0.01);
  const auto before = latency.Save();
  latency.Learn({.took = seconds(5), .replaces = seconds(1)}, kStart);  // of which nothing is known
  CHECK(latency.Save() == before);
}

TEST_CASE("an attempt that was extended after its timeout may time out again") {
  Latency latency, other;
  latency.Learn({.took = seconds(1), .censored = true}, kStart);
  latency.Learn({.took = seconds(3), .censored = true, .replaces = seconds(1)}, kStart);
  other.Learn({.took = seconds(3), .censored = true}, kStart);
  CHECK(latency.Save() == other.Save());
}

TEST_CASE("retries are given their own percentile, where that is more") {
  Latency latency;
  const TimeoutPolicy policy = Percentile();
  Complete(latency, seconds(2), 100);
  for (int i = 0; i < 19; ++i) latency.Learn({.took = seconds(9), .retry = true}, kStart);
  CHECK(Off(*latency.Timeout(policy, true, 0), seconds(2)) < 0.01);
  latency.Learn({.took = seconds(9), .retry = true}, kStart);
  CHECK(Off(*latency.Timeout(policy, true, 0), seconds(9)) < 0.01);
  CHECK(Off(*latency.Timeout(policy, false, 0), seconds(2)) < 0.01);
  CHECK(latency.Samples() == 100);
  CHECK(latency.Retries() == 20);
  for (int i = 0; i < 200; ++i) {
    latency.Learn({.took = seconds(1), .retry = true}, kStart + minutes(i));
  }
  CHECK(Off(*latency.Timeout(policy, true, 0), seconds(2)) < 0.01);
}

TEST_CASE("a busy node forgets what is older than an hour") {
  Latency latency;
  Timestamp now = kStart;
  for (; now < kStart + hours(2); now += seconds(1)) Complete(latency, seconds(1), 1, now);
  for (; now < kStart + minutes(120 + 66); now += seconds(1)) Complete(latency, seconds(2), 1, now);
  CHECK(Off(*latency.Quantile(1), seconds(2)) < 0.01);
  CHECK(latency.Samples() >= 3'600);
  CHECK(latency.Samples() <= 3'600 + 300);
}

TEST_CASE("a node that runs once an hour keeps its last thousand samples") {
  Latency latency;
  Timestamp now = kStart;
  for (int i = 0; i < 5'000; ++i) Complete(latency, seconds(i < 3'900 ? 1 : 2), 1, now += hours(1));
  CHECK(latency.Samples() >= 1'000);
  CHECK(latency.Samples() < 1'100);
  CHECK(Off(*latency.Quantile(1), seconds(2)) < 0.01);
  CHECK(latency.Save().slices.size() <= 14);
}

TEST_CASE("a very busy node keeps fifty thousand samples at most") {
  Latency latency;
  for (int i = 0; i < 200'000; ++i) Complete(latency, seconds(1), 1, kStart + microseconds(i));
  CHECK(latency.Samples() >= 49'152);
  CHECK(latency.Samples() <= 49'152 + 4'096);
}

TEST_CASE("a clock that is set back loses no samples") {
  Latency latency;
  Timestamp now = kStart;
  for (int i = 0; i < 2'000; ++i) Complete(latency, seconds(1), 1, now += seconds(1));
  now -= hours(24);
  for (int i = 0; i < 1'000; ++i) Complete(latency, seconds(1), 1, now += seconds(1));
  CHECK(latency.Samples() == 3'000);
}

TEST_CASE("a snapshot keeps every quantile and every timeout") {
  const World world({.kind = Workers::kReportLate, .slow = Slow::kVisits, .completions = 20'000});
  const Latency& latency = world.latency();
  const Latency::Snapshot saved = latency.Save();
  const Latency restored = Latency::Restore(saved);
  CHECK(restored.Save() == saved);
  for (double percent : {1.0, 50.0, 95.0, 99.9}) {
    CHECK(restored.Quantile(percent) == latency.Quantile(percent));
  }
  for (bool retry : {false, true}) {
    CHECK(restored.Timeout(Percentile(), retry, 9) == latency.Timeout(Percentile(), retry, 9));
  }
  CHECK(restored.Samples() == latency.Samples());
  CHECK(restored.Retries() == latency.Retries());
}

TEST_CASE("a snapshot that no sketch has saved does no harm") {
  Latency::Snapshot odd;
  odd.slices.push_back({.start = kStart, .counts = {{UINT16_MAX, 5, 5}, {3, UINT32_MAX, 7}}});
  const Latency restored = Latency::Restore(odd);
  CHECK(restored.Samples() == 4'096);
  CHECK(restored.Quantile(50) == Duration(3));
}

TEST_CASE("merged samples are as good as if one node had taken them all") {
  std::mt19937_64 random(3);
  std::lognormal_distribution<double> draw(12, 1);
  Latency even, odd, all;
  for (int i = 0; i < 2'000; ++i) {
    const Latency::Sample sample{.took = Duration(static_cast<int64_t>(draw(random))),
                                 .censored = i % 7 == 0,
                                 .retry = i % 5 == 0};
    const Timestamp now = kStart + seconds(i);
    (i % 2 ? odd : even).Learn(sample, now);
    all.Learn(sample, now);
  }
  even.Merge(odd);
  CHECK(even.Samples() == all.Samples());
  CHECK(even.Retries() == all.Retries());
  for (double percent : {10.0, 50.0, 95.0}) CHECK(even.Quantile(percent) == all.Quantile(percent));
  Latency none;
  none.Merge(all);
  CHECK(none.Quantile(95) == all.Quantile(95));
}

TEST_CASE("merging full windows keeps the newer samples") {
  Latency one, two;
  for (int i = 0; i < 100'000; ++i) {
    Complete(one, seconds(1), 1, kStart + microseconds(i));
    Complete(two, seconds(2), 1, kStart + seconds(1) + microseconds(i));
  }
  for (int i = 0; i < 3; ++i) one.Merge(two);
  CHECK(one.Samples() >= 49'152);
  CHECK(one.Samples() <= 49'152 + 4'096);
  CHECK(Off(*one.Quantile(1), seconds(2)) < 0.01);
  CHECK(Latency::Restore(one.Save()).Samples() == one.Samples());
}

// The promise of the contract.
TEST_CASE("five percent of the first attempts time out") {
  for (Workers kind : {Workers::kGiveUp, Workers::kReportLate, Workers::kReportLateKnown}) {
    for (Slow slow : {Slow::kByChance, Slow::kVisits}) {
      for (double sigma : {0.3, 1.0, 2.0}) {
        const Workload at_10_per_second{.sigma = sigma, .kind = kind, .slow = slow};
        CheckPromise(at_10_per_second);
        Workload at_1000_per_second = at_10_per_second;
        at_1000_per_second.mean = milliseconds(100);
        at_1000_per_second.workers = 100;
        CheckPromise(at_1000_per_second);
      }
    }
  }
}

TEST_CASE("five percent time out also with one worker, and with a thousand from a cold start") {
  for (Workers kind : {Workers::kGiveUp, Workers::kReportLate}) {
    for (double sigma : {0.3, 1.0, 2.0}) {
      CheckPromise({.sigma = sigma, .workers = 1, .kind = kind});
      CheckPromise({.sigma = sigma, .workers = 1'000, .kind = kind});
    }
  }
}

TEST_CASE("five percent time out of attempts that take hours, and one minute at first") {
  for (Workers kind : {Workers::kGiveUp, Workers::kReportLate}) {
    CheckPromise({.mean = hours(3), .workers = 3, .kind = kind, .pause = hours(1)});
  }
}

TEST_CASE("bounds beyond the percentile do not touch the share, bounds within it decide it") {
  Workload load{.sigma = 0.5};
  load.policy.min = milliseconds(100);
  load.policy.max = hours(24);
  CheckPromise(load);
  load.policy.max = milliseconds(1'000);  // 60 % of the attempts take less
  load.kind = Workers::kReportLate;
  CHECK(World(load).Share() == doctest::Approx(0.40).epsilon(0.03));
  load.policy.min = load.policy.max = seconds(5);
  CHECK(World(load).Share() < 0.001);
}

TEST_CASE("the timeout follows durations that grow tenfold, or shrink") {
  for (Workers kind : {Workers::kGiveUp, Workers::kReportLate}) {
    for (Slow slow : {Slow::kByChance, Slow::kVisits}) {
      for (double shift : {10.0, 0.1}) {
        CAPTURE(int(kind));
        CAPTURE(shift);
        const World world({.workers = 20,
                           .kind = kind,
                           .slow = slow,
                           .completions = 150'000,
                           .shift = shift});
        CHECK(Off(world.Timeout(), world.TrueQuantile()) < 0.1);
        CHECK(world.ShareOfSecondHalf() < 0.15);
        CHECK(world.AttemptsPerVisit() < 1.3);
      }
    }
  }
}

// Where they are kept elsewhere -----------------------------------------------------------------

TEST_CASE("a pace gives the timeouts of the attempts that it was read from") {
  Latency there;
  for (int i = 1; i <= 100; ++i) there.Learn({.took = seconds(i)}, Timestamp());
  for (int i = 1; i <= 40; ++i) there.Learn({.took = seconds(200), .retry = true}, Timestamp());
  Latency here;
  here.Tell(there.PaceAt({50, 95, 99}));
  TimeoutPolicy policy{.initial = seconds(1'000), .max = hours(1)};
  for (const double percent : {50.0, 95.0, 99.0}) {
    policy.value = percent;
    for (const bool retry : {false, true}) {
      CHECK(here.Timeout(policy, retry) == there.Timeout(policy, retry));
    }
  }
  CHECK(here.Samples() == 100);
  CHECK(here.Retries() == 40);
  policy.value = 80;  // of one that was not told the next greater counts
  CHECK(here.Timeout(policy, false) == there.Quantile(95));
  policy.value = 99.9;
  CHECK(here.Timeout(policy, false) == there.Quantile(99));
}

TEST_CASE("attempts wait to be taken where they are kept, and those under way elsewhere count") {
  Latency here;
  here.KeepElsewhere();
  here.Learn({.took = seconds(1)}, Timestamp());
  here.Learn({.took = seconds(2), .censored = true}, Timestamp());
  CHECK(here.Samples() == 0);
  REQUIRE(here.Untold() == 2);
  const auto samples = here.TakeUntold();
  REQUIRE(samples.size() == 2);
  CHECK(samples[1].censored);
  CHECK(here.Untold() == 0);

  Latency there;
  for (int i = 0; i < 40; ++i) there.Learn({.took = seconds(1)}, Timestamp());
  const TimeoutPolicy policy{.initial = seconds(1'000), .max = hours(1)};
  CHECK(there.Timeout(policy, false, 5) < seconds(2));
  there.SetUnderWayElsewhere(6);
  CHECK(there.Timeout(policy, false, 5) == seconds(1'000));
  Pace pace = there.PaceAt({95});
  pace.under_way = 11;
  here.Tell(pace);
  CHECK(here.Timeout(policy, false, 5) == seconds(1'000));
}

}  // namespace dfsmr
