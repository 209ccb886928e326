#include "dsrv/metrics/joined.h"

#include <doctest/doctest.h>

namespace dfsmr::metrics {
namespace {

constexpr const char* kOne =
    "# HELP dfsmr_starts_total Started.\n# TYPE dfsmr_starts_total counter\n"
    "dfsmr_starts_total{machine=\"a b\"} 3\n"
    "# HELP dfsmr_call_seconds Calls.\n# TYPE dfsmr_call_seconds histogram\n"
    "dfsmr_call_seconds_bucket{le=\"0.1\"} 1\ndfsmr_call_seconds_bucket{le=\"+Inf\"} 2\n"
    "dfsmr_call_seconds_sum 0.25\ndfsmr_call_seconds_count 2\n"
    "# HELP process_open_fds Files.\n# TYPE process_open_fds gauge\nprocess_open_fds 7\n";
constexpr const char* kOther =
    "# HELP dfsmr_starts_total Started.\n# TYPE dfsmr_starts_total counter\n"
    "dfsmr_starts_total{machine=\"c\"} 1\ndfsmr_starts_total{machine=\"a b\"} 4\n"
    "# HELP dfsmr_call_seconds Calls.\n# TYPE dfsmr_call_seconds histogram\n"
    "dfsmr_call_seconds_bucket{le=\"0.1\"} 5\ndfsmr_call_seconds_bucket{le=\"+Inf\"} 5\n"
    "dfsmr_call_seconds_sum 0.5\ndfsmr_call_seconds_count 5\n"
    "# HELP process_open_fds Files.\n# TYPE process_open_fds gauge\nprocess_open_fds 9\n";

TEST_CASE("what partitions count is added up, and what is of the process is told once") {
  CHECK(Joined({kOne}) == kOne);
  CHECK(Joined({kOne, kOther}) ==
        "# HELP dfsmr_starts_total Started.\n# TYPE dfsmr_starts_total counter\n"
        "dfsmr_starts_total{machine=\"a b\"} 7\ndfsmr_starts_total{machine=\"c\"} 1\n"
        "# HELP dfsmr_call_seconds Calls.\n# TYPE dfsmr_call_seconds histogram\n"
        "dfsmr_call_seconds_bucket{le=\"0.1\"} 6\ndfsmr_call_seconds_bucket{le=\"+Inf\"} 7\n"
        "dfsmr_call_seconds_sum 0.75\ndfsmr_call_seconds_count 7\n"
        "# HELP process_open_fds Files.\n# TYPE process_open_fds gauge\nprocess_open_fds 9\n");
}

TEST_CASE("the form with an end has one end") {
  const std::string one = "# HELP a A.\n# TYPE a gauge\na 1\n# EOF\n";
  CHECK(Joined({one, one, one}) == "# HELP a A.\n# TYPE a gauge\na 3\n# EOF\n");
}

}  // namespace
}  // namespace dfsmr::metrics
