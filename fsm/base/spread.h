// How often something took how long, or was how large: counts by ranges with fixed edges, as
// Prometheus' histograms have them.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace dfsmr {

// In microseconds. Of work: from a millisecond to half a day.
inline constexpr std::array<uint64_t, 12> kWorkEdges = {
    1'000,      5'000,      25'000,      100'000,       500'000,       2'500'000,
    10'000'000, 60'000'000, 300'000'000, 1'800'000'000, 7'200'000'000, 43'200'000'000};
// Of the server's own doings: from 100 µs to 10 s.
inline constexpr std::array<uint64_t, 16> kOwnEdges = {
    100,    250,     500,     1'000,   2'500,     5'000,     10'000,    25'000,
    50'000, 100'000, 250'000, 500'000, 1'000'000, 2'500'000, 5'000'000, 10'000'000};
// Of records, not time.
inline constexpr std::array<uint64_t, 10> kRecordEdges = {1,   2,   5,   10,    25,
                                                          100, 250, 500, 1'000, 2'500};

// `kEdges`: the greatest value of each range, ascending. Number: uint64_t for one thread, or
// std::atomic<uint64_t>, of which any thread may add and read; each of its numbers is correct by
// itself then, but they do not all show the same moment.
template <const auto& kEdges, typename Number = uint64_t>
class Spread {
 public:
  void Add(uint64_t value) {
    const auto at = std::ranges::lower_bound(kEdges, value);
    Increase(counts_[static_cast<size_t>(at - kEdges.begin())], 1);
    Increase(sum_, value);
  }

  // The counts of the ranges; the last one is of all that lies above the edges.
  std::array<uint64_t, kEdges.size() + 1> counts() const {
    std::array<uint64_t, kEdges.size() + 1> copy{};
    for (size_t i = 0; i < copy.size(); ++i) copy[i] = counts_[i];
    return copy;
  }
  uint64_t sum() const { return sum_; }
  static constexpr std::span<const uint64_t> edges() { return kEdges; }

 private:
  static void Increase(Number& number, uint64_t by) {
    if constexpr (requires { number.fetch_add(by, std::memory_order_relaxed); }) {
      number.fetch_add(by, std::memory_order_relaxed);
    } else {
      number += by;
    }
  }

  std::array<Number, kEdges.size() + 1> counts_{};
  Number sum_{};
};

}  // namespace dfsmr
