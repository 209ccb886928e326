// How long attempts of one node take, and what timeout that gives the next claim.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "fsm/base/time.h"
#include "fsm/machine/machine.h"

namespace dfsmr {

// Durations in a sliding window, and quantiles of them. One thread at a time, reading included.
//
// Buckets. A duration of d microseconds falls into one of 128 equal parts of its power of two (each
// d < 256 has its own): two values of a bucket differ by less than 0.8 %, and so do a quantile and
// the sample it stands for. The layout is that of HdrHistogram (Tene, hdrhistogram.org); that
// logarithmic buckets bound the relative error of every quantile and merge without loss is from
// DDSketch (Masson, Rim, Lee, VLDB 2019). Integers only: the same on every machine.
//
// Window. Samples lie in slices in the order of their arrival. A slice is closed when it holds
// 4,096 samples, or a twelfth of `least` and is 5 minutes old. The oldest is dropped when the
// others hold `least` and it is past an hour old, or they hold 49,152. So: the last hour, of a busy
// node its last 49,152 samples at least, and never fewer than the last `least`. Only a new sample
// moves the window: a node at rest keeps what it knows, and reading needs no clock.
//
// Censoring. An attempt that timed out lasted *at least* that long. Quantiles are taken from the
// product-limit estimate of the survival function, S(t) = Π (1 - d/r) over the buckets up to t, d
// being the exact samples in a bucket, and r all samples, exact or censored, that lasted that long
// (Kaplan, Meier, JASA 1958; as there, exact samples come before censored ones of the same bucket).
// With n samples the p-quantile is where S falls to 1 - p - p/n: an (n+1)th lies beyond that with
// probability 1 - p. When too few samples are left to follow S down to there (fewer than 10, or
// than a quarter of what should lie beyond, but at least 1), the tail is continued as a power law
// through the last factor of four of S (Hill, Ann. Statist. 1975), where there is no such stretch
// by a factor of 2, and never by more than that. So a timeout that is too short grows for as long
// as attempts outlast it, instead of walking itself down.
//
// Costs. 2 bytes a sample and 6 a bucket in use: 1,000 samples take at most 8 KiB, a full window at
// most 150 KiB. A sample and a quantile read after it take 60 to 190 ns: quantiles are kept, and
// computed anew after as many samples as 1/32 of the window, at most 256.
class Sketch {
 public:
  explicit Sketch(size_t least) : least_(least) {}

  void Add(Duration duration, bool censored, Timestamp now);
  // A sample that was censored at `at` becomes this one. Nothing when the window has moved on.
  void Replace(Duration at, Duration duration, bool censored);

  size_t Least() const { return least_; }
  size_t Samples() const { return samples_; }  // in the window, censored ones included
  uint64_t Changes() const { return changes_; }  // counts up with each
  // 0 < percent < 100. Nullopt without samples.
  std::optional<Duration> Quantile(double percent) const;

  void Merge(const Sketch& other);

  // What rests on disk; a bucket's number never changes its meaning.
  struct Count {
    uint16_t bucket = 0;
    uint32_t exact = 0;
    uint32_t censored = 0;
    friend bool operator==(const Count&, const Count&) = default;
  };
  struct SavedSlice {
    Timestamp start;
    std::vector<Count> counts;  // by bucket, ascending
    bool retries = false;       // of Latency's two sketches, which
    friend bool operator==(const SavedSlice&, const SavedSlice&) = default;
  };
  // Quantiles after a Restore are exactly those that follow on Save.
  std::vector<SavedSlice> Save() const;
  // Takes the next slice, in the order of Save. What no sketch can have saved is left out.
  void Restore(const SavedSlice& slice);

 private:
  using Mark = uint16_t;  // a sample: its bucket, and whether it is censored
  struct Slice {
    Timestamp start;
    std::vector<Mark> marks;
  };
  struct Tallied {
    uint16_t bucket = 0;
    uint16_t exact = 0;
    uint16_t censored = 0;
  };
  struct Kept {
    double percent = 0;
    uint64_t changes = 0;
    Duration value{};
  };

  void Tally(Mark mark, int by);
  void Roll(Timestamp now);
  void Trim(Timestamp now);
  Duration Compute(double share) const;

  size_t least_;
  size_t samples_ = 0;
  std::vector<Slice> slices_;    // in the order of arrival; the last one is open
  std::vector<Tallied> counts_;  // over all slices, by bucket, ascending
  uint64_t changes_ = 0;
  mutable std::array<Kept, 3> kept_;  // p50, p95 and the policy's
  mutable size_t next_kept_ = 0;
};

// What is known of a node's attempts where others keep them: enough for the timeout of a claim.
struct Pace {
  struct At {
    double percent = 0;
    Duration first{};  // of first attempts
    Duration retry{};  // of retries
    friend bool operator==(const At&, const At&) = default;
  };
  size_t samples = 0;    // first attempts
  size_t retries = 0;
  size_t learned = 0;    // first attempts, also those that have left the window; up to kWarm
  size_t under_way = 0;  // that are claimed, everywhere
  std::vector<At> at;    // by percent, ascending
  friend bool operator==(const Pace&, const Pace&) = default;
};

// The attempts of one node. One thread at a time, reading included.
//
// First attempts and retries (claims of a visit of which an earlier claim timed out) are kept
// apart. A visit that timed out is often a slow one, and will be slow again: among the first
// attempts its retries would push the timeout up, and the share of those timed out down; and if
// retries had the timeout of first attempts, a visit that needs longer, with workers that give up
// at the deadline, would never get done. So a first attempt is given the percentile of first
// attempts, and a retry that of retries, where that is more: a visit that kills its workers ends up
// with ever longer deadlines, and does no harm to the others.
//
// The share of first attempts timed out stays what the percentile says, because *every* attempt
// that was not given back ends as a sample:
// - One that was cut short (another attempt of its visit won, the visit was cancelled or upgraded)
//   is censored at that time. The longer an attempt the likelier it is cut short, so dropping those
//   would favour the short ones; when it was cut short does not depend on how long it would have
//   taken, which is what censoring asks for.
// - One that timed out stays censored at its deadline until its worker reports after all. Reports
//   that are refused because another attempt has won are worth a sample too. Without them S is
//   right up to the timeout, but falls too fast beyond it, since the slow among the late are
//   missing: a timeout that is too short then takes longer to recover.
// Simulated over 100,000 completions (tests/fsm/latency_test.cc), for sigmas from 0.05 to 2 and 1
// to 1,000 workers: 4.5 % to 5.4 %, with the cold start of 1,000 workers up to 5.6 %, and up to
// 5.95 % when their refused late reports are not counted.
class Latency {
 public:
  // First attempts that a node must have as samples before the percentile counts, and also 4 times
  // as many as attempts are under way: of those that were claimed together the first to report are
  // the fastest, not typical. After kWarm samples only the former matters.
  static constexpr size_t kEnough = 20;
  static constexpr size_t kPerAttemptUnderWay = 4;
  static constexpr size_t kWarm = 4'096;

  struct Sample {
    Duration took{};        // from claim to report, deadline or being cut short
    bool censored = false;  // it lasted at least that long
    Duration replaces{};    // not zero: this attempt had been a sample, censored at this
    bool retry = false;
  };
  void Learn(const Sample& sample, Timestamp now);

  // What a claim made now is given, `under_way` claims of this node being live here. Nullopt: it
  // never times out.
  std::optional<Duration> Timeout(const TimeoutPolicy& policy, bool retry,
                                  size_t under_way = 0) const;

  // Of first attempts, for display: p50, p95.
  std::optional<Duration> Quantile(double percent) const { return QuantileOf(percent, false); }
  size_t Samples() const { return remote_ ? remote_->pace.samples : first_.Samples(); }
  size_t Retries() const { return remote_ ? remote_->pace.retries : retries_.Samples(); }

  // The attempts of a node may be kept in one place for several that see some of them each. There,
  // its pace is read. Percents ascend.
  Pace PaceAt(const std::vector<double>& percents) const;
  // Counts up with each sample.
  uint64_t Changes() const { return first_.Changes() + retries_.Changes(); }
  // So many more are claimed elsewhere.
  void SetUnderWayElsewhere(size_t under_way) { elsewhere_ = under_way; }
  // Elsewhere samples wait to be taken there, and timeouts follow from the pace that is told. Of a
  // percent that it does not say, the next greater counts.
  void KeepElsewhere() {
    if (!remote_) remote_.emplace();
  }
  void Tell(Pace pace);
  const Pace* told() const { return remote_ ? &remote_->pace : nullptr; }
  size_t Untold() const { return remote_ ? remote_->untold.size() : 0; }
  std::vector<Sample> TakeUntold();

  // `other`'s samples too.
  void Merge(const Latency& other);

  using Count = Sketch::Count;
  struct Snapshot {
    std::vector<Sketch::SavedSlice> slices;  // those of first attempts, then those of retries
    friend bool operator==(const Snapshot&, const Snapshot&) = default;
  };
  Snapshot Save() const;
  static Latency Restore(const Snapshot& snapshot);

 private:
  struct Remote {
    Pace pace;
    std::vector<Sample> untold;
  };

  std::optional<Duration> QuantileOf(double percent, bool retries) const;

  // Retries are few: a window that had to hold as many would reach back for months.
  Sketch first_{1'000};
  Sketch retries_{100};
  size_t learned_ = 0;  // first attempts, also those that have left the window; up to kWarm
  size_t elsewhere_ = 0;
  std::optional<Remote> remote_;  // nullopt: they are kept here
};

}  // namespace dfsmr
