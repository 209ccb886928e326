// Counts of times by size, as HdrHistogram keeps them: buckets grow with the value, so that every
// percentile is right within 1 % from a microsecond to an hour, in 16 KiB however many there are.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace dfsmr::bench {

class Histogram {
 public:
  void Add(uint64_t us, uint64_t times = 1) {
    counts_[BucketOf(std::min(us, kMost))] += times;
    total_ += times;
  }

  void Add(const Histogram& other) {
    for (std::size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
    total_ += other.total_;
  }

  // The value that `share` of all are at most; 0 of nothing.
  double Percentile(double share) const {
    const double wanted = share * static_cast<double>(total_);
    uint64_t seen = 0;
    std::size_t last = 0;
    for (std::size_t i = 0; i < kBuckets; ++i) {
      if (counts_[i] == 0) continue;
      seen += counts_[i];
      last = i;
      if (static_cast<double>(seen) >= wanted) break;
    }
    return total_ == 0 ? 0 : MiddleOf(last);
  }

 private:
  static constexpr int kBits = 6;  // each power of two is divided by 2^kBits
  static constexpr int kPowers = 26;
  static constexpr uint64_t kMost = (uint64_t{1} << (kBits + kPowers)) - 1;
  static constexpr std::size_t kBuckets = std::size_t{kPowers + 1} << kBits;

  // Below 2^kBits each value has a bucket of its own.
  static std::size_t BucketOf(uint64_t us) {
    const int shift = std::max(0, static_cast<int>(std::bit_width(us)) - kBits - 1);
    return (static_cast<std::size_t>(shift) << kBits) + static_cast<std::size_t>(us >> shift);
  }
  static double MiddleOf(std::size_t bucket) {
    const std::size_t size = std::size_t{1} << kBits;
    if (bucket < 2 * size) return static_cast<double>(bucket);
    const std::size_t shift = (bucket >> kBits) - 1;
    const auto least = static_cast<double>((bucket - (shift << kBits)) << shift);
    return least + static_cast<double>((uint64_t{1} << shift) - 1) / 2;
  }

  std::array<uint64_t, kBuckets> counts_{};
  uint64_t total_ = 0;
};

}  // namespace dfsmr::bench
