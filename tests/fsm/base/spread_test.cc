#include "fsm/base/spread.h"

#include <doctest/doctest.h>

namespace dfsmr {
namespace {

constexpr std::array<uint64_t, 3> kEdges = {10, 20, 40};
using Counts = std::array<uint64_t, 4>;

template <typename Number>
void CheckRanges() {
  Spread<kEdges, Number> spread;
  CHECK(spread.counts() == Counts{});
  for (uint64_t value : {0, 10, 11, 20, 40, 41, 1'000}) spread.Add(value);
  CHECK(spread.counts() == Counts{2, 2, 1, 2});
  CHECK(spread.sum() == 1'122);
}

}  // namespace

TEST_CASE("an edge belongs to the range that it ends") {
  CheckRanges<uint64_t>();
  CheckRanges<std::atomic<uint64_t>>();
}

}  // namespace dfsmr
