#include "tests/bench/histogram.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace dfsmr::bench {
namespace {

TEST_CASE("nothing has percentile 0") { CHECK(Histogram().Percentile(0.5) == 0); }

TEST_CASE("small values are exact") {
  Histogram histogram;
  for (uint64_t us = 0; us < 128; ++us) {
    histogram.Add(us);
    CHECK(histogram.Percentile(1) == static_cast<double>(us));
  }
  CHECK(histogram.Percentile(0.5) == 63);
}

TEST_CASE("percentiles are within 1 % of those of the sorted values, up to an hour") {
  std::minstd_rand random(1);
  for (const double most : {200.0, 10e3, 5e6, 3.6e9}) {
    Histogram one;
    Histogram other;
    std::vector<uint64_t> sorted;
    std::uniform_real_distribution<double> upto(0, most);
    for (int i = 0; i < 10'000; ++i) {
      const auto us = static_cast<uint64_t>(upto(random));
      (i % 2 == 0 ? one : other).Add(us);
      sorted.push_back(us);
    }
    std::ranges::sort(sorted);
    one.Add(other);
    for (const double share : {0.01, 0.5, 0.9, 0.99, 0.999, 1.0}) {
      CAPTURE(most);
      CAPTURE(share);
      const auto rank = static_cast<std::size_t>(share * static_cast<double>(sorted.size()));
      const auto exact = static_cast<double>(sorted[rank - 1]);
      CHECK(one.Percentile(share) == doctest::Approx(exact).epsilon(0.01));
    }
  }
}

TEST_CASE("what is added times over counts as often, and what is too large as the largest") {
  Histogram histogram;
  histogram.Add(10, 99);
  histogram.Add(UINT64_MAX);
  CHECK(histogram.Percentile(0.99) == 10);
  CHECK(histogram.Percentile(1) == doctest::Approx(4294967295.0).epsilon(0.01));
}

}  // namespace
}  // namespace dfsmr::bench
