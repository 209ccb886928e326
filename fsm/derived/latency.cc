#include "fsm/derived/latency.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <utility>

#include "fsm/derived/latency_buckets.h"

namespace dfsmr {
namespace {

constexpr int kBits = 7;  // 2^7 buckets to a power of two: part of what rests on disk
constexpr uint16_t kBuckets = (64 - kBits) << kBits;
constexpr uint16_t kCensored = 1 << 15;
static_assert(kBuckets < kCensored);

constexpr size_t kSliceMost = 4'096;
constexpr size_t kSlices = 12;
constexpr size_t kWindowMost = kSlices * kSliceMost;
// The oldest slice is kept as long as the others hold less than that, and the open one fills up.
constexpr size_t kSamplesMost = kWindowMost + 2 * kSliceMost;
static_assert(kSamplesMost <= UINT16_MAX, "or no bucket could hold them");
constexpr Duration kSliceSpan = std::chrono::minutes(5);
constexpr Duration kWindowSpan = kSlices * kSliceSpan;

constexpr double kSupportMost = 10;
constexpr double kSupportShare = 0.25;
constexpr double kTailStretch = 4;
constexpr double kGrowthMost = 2;
constexpr size_t kStaleMost = 256;
constexpr size_t kStaleShare = 32;

uint16_t BucketOf(Duration duration) {
  const uint64_t us = duration.count() < 0 ? 0 : static_cast<uint64_t>(duration.count());
  const int shift = std::max(0, static_cast<int>(std::bit_width(us)) - kBits - 1);
  return static_cast<uint16_t>((static_cast<uint64_t>(shift) << kBits) + (us >> shift));
}

int ShiftOf(uint16_t bucket) { return std::max(0, (bucket >> kBits) - 1); }
int64_t Lowest(uint16_t bucket) {
  const int shift = ShiftOf(bucket);
  return static_cast<int64_t>(bucket - (shift << kBits)) << shift;
}
int64_t Width(uint16_t bucket) { return int64_t{1} << ShiftOf(bucket); }

uint16_t MarkOf(Duration duration, bool censored) {
  return static_cast<uint16_t>(BucketOf(duration) | (censored ? kCensored : 0));
}

Duration FromDouble(double us) { return Duration(static_cast<int64_t>(std::min(us, 9e18))); }

}  // namespace

Duration LongestIn(uint16_t bucket) { return Duration(Lowest(bucket) + Width(bucket) - 1); }

void Sketch::Add(Duration duration, bool censored, Timestamp now) {
  Roll(now);
  const Mark mark = MarkOf(duration, censored);
  slices_.back().marks.push_back(mark);
  Tally(mark, 1);
}

void Sketch::Replace(Duration at, Duration duration, bool censored) {
  const Mark old = MarkOf(at, true);
  const Mark mark = MarkOf(duration, censored);
  // Samples of a bucket are alike, so the newest will do: it was censored not long ago.
  for (auto slice = slices_.rbegin(); slice != slices_.rend(); ++slice) {
    auto found = std::find(slice->marks.rbegin(), slice->marks.rend(), old);
    if (found == slice->marks.rend()) continue;
    *found = mark;
    Tally(old, -1);
    Tally(mark, 1);
    return;
  }
}

void Sketch::Tally(Mark mark, int by) {
  const auto bucket = static_cast<uint16_t>(mark & ~kCensored);
  auto at = std::lower_bound(counts_.begin(), counts_.end(), bucket,
                             [](const Tallied& count, uint16_t b) { return count.bucket < b; });
  if (at == counts_.end() || at->bucket != bucket) at = counts_.insert(at, {.bucket = bucket});
  uint16_t& count = mark & kCensored ? at->censored : at->exact;
  count = static_cast<uint16_t>(count + by);
  samples_ += static_cast<size_t>(by);
  ++changes_;
}

void Sketch::Roll(Timestamp now) {
  if (!slices_.empty()) {
    Slice& open = slices_.back();
    const size_t size = open.marks.size();
    const bool old = size * kSlices >= least_ && now >= open.start + kSliceSpan;
    if (size < kSliceMost && !old) return;
    open.marks.shrink_to_fit();
  }
  slices_.push_back({.start = now});
  Trim(now);
}

void Sketch::Trim(Timestamp now) {
  while (slices_.size() > 1) {
    const size_t rest = samples_ - slices_.front().marks.size();
    const bool old = slices_[1].start <= now - kWindowSpan;
    if (rest < least_ || !(old || rest >= kWindowMost)) break;
    for (Mark mark : slices_.front().marks) Tally(mark, -1);
    slices_.erase(slices_.begin());
  }
  std::erase_if(counts_, [](const Tallied& c) { return c.exact == 0 && c.censored == 0; });
}

Duration Sketch::Compute(double share) const {
  auto left = static_cast<double>(samples_);
  const double target = std::max(0.0, 1 - share - share / left);
  const double support = std::clamp(target * left * kSupportShare, 1.0, kSupportMost);
  double survival = 1;
  double reached = 0;
  double stretch_from = 0;
  double stretch_survival = 1;
  for (const Tallied& count : counts_) {
    if (left < support) break;
    const double next = survival * (1 - count.exact / left);
    const int64_t lowest = Lowest(count.bucket);
    const int64_t width = Width(count.bucket);
    if (count.exact > 0 && next <= target) {
      const double part = (survival - target) / (survival - next) * static_cast<double>(width);
      return Duration(lowest + std::min(static_cast<int64_t>(part), width - 1));
    }
    survival = next;
    left -= static_cast<double>(count.exact) + static_cast<double>(count.censored);
    reached = static_cast<double>(lowest) + static_cast<double>(width);
    if (stretch_from == 0 && survival <= kTailStretch * (1 - share)) {
      stretch_from = reached;
      stretch_survival = survival;
    }
  }
  double growth = kGrowthMost;
  if (stretch_from > 0 && survival < stretch_survival && target > 0) {
    const double power = std::log(stretch_survival / survival) / std::log(reached / stretch_from);
    growth = std::min(growth, std::pow(survival / target, 1 / power));
  }
  return FromDouble(reached * growth);
}

std::optional<Duration> Sketch::Quantile(double percent) const {
  if (samples_ == 0) return std::nullopt;
  const size_t stale = std::min(kStaleMost, samples_ / kStaleShare);
  Kept* place = nullptr;
  for (Kept& kept : kept_) {
    if (kept.percent != percent) continue;
    if (kept.changes + stale >= changes_) return kept.value;
    place = &kept;
  }
  if (!place) place = &kept_[next_kept_++ % kept_.size()];
  *place = {.percent = percent, .changes = changes_, .value = Compute(percent / 100)};
  return place->value;
}

void Sketch::Merge(const Sketch& other) {
  std::vector<Slice> merged;
  std::merge(slices_.begin(), slices_.end(), other.slices_.begin(), other.slices_.end(),
             std::back_inserter(merged),
             [](const Slice& a, const Slice& b) { return a.start < b.start; });
  auto oldest = merged.end();
  for (size_t samples = 0; oldest != merged.begin() && samples < kWindowMost;) {
    samples += (--oldest)->marks.size();
  }
  slices_.assign(oldest, merged.end());
  counts_.clear();
  samples_ = 0;
  for (const Slice& slice : slices_) {
    for (Mark mark : slice.marks) Tally(mark, 1);
  }
  if (!slices_.empty()) Trim(slices_.back().start);
}

std::vector<Sketch::SavedSlice> Sketch::Save() const {
  kept_ = {};  // so that both sides compute from the same samples
  std::vector<SavedSlice> saved;
  for (const Slice& slice : slices_) {
    std::vector<Mark> marks = slice.marks;
    std::sort(marks.begin(), marks.end(), [](Mark a, Mark b) {
      return (a & ~kCensored) < (b & ~kCensored);
    });
    SavedSlice& to = saved.emplace_back(SavedSlice{.start = slice.start});
    for (Mark mark : marks) {
      const auto bucket = static_cast<uint16_t>(mark & ~kCensored);
      if (to.counts.empty() || to.counts.back().bucket != bucket) {
        to.counts.push_back({.bucket = bucket});
      }
      /*mutant saved-censored-as-exact*/ ++(mark & kCensored ? to.counts.back().censored
                                                             : to.counts.back().exact); /*end*/
    }
  }
  return saved;
}

void Sketch::Restore(const SavedSlice& saved) {
  if (samples_ > kSamplesMost - kSliceMost) return;
  Slice& slice = slices_.emplace_back(Slice{.start = saved.start});
  auto add = [&](uint32_t times, Mark mark) {
    for (; times > 0 && slice.marks.size() < kSliceMost; --times) {
      slice.marks.push_back(mark);
      Tally(mark, 1);
    }
  };
  for (const Count& count : saved.counts) {
    if (count.bucket >= kBuckets) continue;
    add(count.exact, count.bucket);
    add(count.censored, static_cast<Mark>(count.bucket | kCensored));
  }
  slice.marks.shrink_to_fit();
}

void Latency::Learn(const Sample& sample, Timestamp now) {
  if (remote_) return remote_->untold.push_back(sample);
  Sketch& sketch = sample.retry ? retries_ : first_;
  if (/*mutant late-report-counts-twice*/ sample.replaces != Duration::zero() /*end*/) {
    sketch.Replace(sample.replaces, sample.took, sample.censored);
    return;
  }
  sketch.Add(sample.took, sample.censored, now);
  if (!sample.retry) learned_ = std::min(learned_ + 1, kWarm);
}

std::optional<Duration> Latency::Timeout(const TimeoutPolicy& policy, bool retry,
                                         size_t under_way) const {
  if (policy.AtMostOnce()) return std::nullopt;
  if (policy.strategy == TimeoutPolicy::Strategy::kFixed) return FromDouble(policy.value * 1e6);
  Duration timeout = policy.initial;
  const size_t learned = remote_ ? remote_->pace.learned : learned_;
  under_way = remote_ ? std::max(under_way, remote_->pace.under_way) : under_way + elsewhere_;
  const bool warm = /*mutant under-way-ignored*/ learned >= kWarm ||
                    learned / kPerAttemptUnderWay >= under_way /*end*/;
  if (/*mutant one-sample-more*/ Samples() >= kEnough /*end*/ && warm)
    timeout = QuantileOf(policy.value, false).value_or(timeout);
  if (retry && Retries() >= kEnough) {
    timeout = std::max(timeout, QuantileOf(policy.value, true).value_or(timeout));
  }
  return std::max(policy.min, /*mutant timeout-max-ignored*/ std::min(timeout, policy.max) /*end*/);
}

std::optional<Duration> Latency::QuantileOf(double percent, bool retries) const {
  if (!remote_) return (retries ? retries_ : first_).Quantile(percent);
  const Pace& pace = remote_->pace;
  if ((retries ? pace.retries : pace.samples) == 0 || pace.at.empty()) return std::nullopt;
  auto at = std::ranges::lower_bound(pace.at, percent, {}, &Pace::At::percent);
  if (at == pace.at.end()) --at;
  return retries ? at->retry : at->first;
}

Pace Latency::PaceAt(const std::vector<double>& percents) const {
  Pace pace{.samples = Samples(), .retries = Retries(), .learned = learned_, .at = {}};
  for (double percent : percents) {
    pace.at.push_back({percent, QuantileOf(percent, false).value_or(Duration()),
                       QuantileOf(percent, true).value_or(Duration())});
  }
  return pace;
}

void Latency::Tell(Pace pace) {
  KeepElsewhere();
  remote_->pace = std::move(pace);
}

std::vector<Latency::Sample> Latency::TakeUntold() {
  return remote_ ? std::exchange(remote_->untold, {}) : std::vector<Sample>();
}

void Latency::Merge(const Latency& other) {
  first_.Merge(other.first_);
  retries_.Merge(other.retries_);
  learned_ = std::min(learned_ + other.learned_, kWarm);
}

Latency::Snapshot Latency::Save() const {
  Snapshot snapshot{.slices = first_.Save()};
  for (Sketch::SavedSlice& slice : retries_.Save()) {
    slice.retries = true;
    snapshot.slices.push_back(std::move(slice));
  }
  return snapshot;
}

Latency Latency::Restore(const Snapshot& snapshot) {
  Latency latency;
  for (const Sketch::SavedSlice& slice : snapshot.slices) {
    (slice.retries ? latency.retries_ : latency.first_).Restore(slice);
  }
  // A window that has been full once has seen its first, fast reports go by.
  const size_t samples = latency.first_.Samples();
  latency.learned_ = samples >= latency.first_.Least() ? kWarm : samples;
  return latency;
}

}  // namespace dfsmr
