#include "dsrv/calls/deadline.h"

#include <doctest/doctest.h>

namespace dfsmr {

TEST_CASE("a caller's deadline is as far away by the server's clock as by this host's") {
  using std::chrono::seconds;
  using HostClock = std::chrono::system_clock;
  const HostClock::time_point here{seconds(1'000'000)};
  const Timestamp ahead{seconds(1'000'030)};
  CHECK(ByClock(here + seconds(10), here, ahead) == ahead + seconds(10));
  CHECK(ByClock(here - seconds(1), here, ahead) == ahead - seconds(1));
  CHECK(ByClock(HostClock::time_point::max(), here, ahead) == kNever);
  CHECK(ByClock(here + std::chrono::hours(24 * 365 * 100), here, kNever - seconds(1)) == kNever);
}

}  // namespace dfsmr
