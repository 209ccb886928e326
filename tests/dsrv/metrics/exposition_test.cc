#include "dsrv/metrics/exposition.h"

#include <doctest/doctest.h>

#include <array>
#include <limits>
#include <string>

namespace dfsmr::metrics {

TEST_CASE("plain text has counters by their whole names") {
  Exposition out(Form::kText);
  out.Family("a_starts", Type::kCounter, "How many were started.");
  out.Add(Labels().With("machine", "m"), 3);
  out.Family("a_room", Type::kGauge, "Room.");
  out.Add({}, 0.5);
  out.Family("a_nothing", Type::kGauge, "Nothing of it.");
  CHECK(out.Take() ==
        "# HELP a_starts_total How many were started.\n"
        "# TYPE a_starts_total counter\n"
        "a_starts_total{machine=\"m\"} 3\n"
        "# HELP a_room Room.\n"
        "# TYPE a_room gauge\n"
        "a_room 0.5\n"
        "# HELP a_nothing Nothing of it.\n"
        "# TYPE a_nothing gauge\n");
}

TEST_CASE("OpenMetrics has them without the suffix, and an end") {
  Exposition out(Form::kOpenMetrics);
  out.Family("a_starts", Type::kCounter, "How many.");
  out.Add({}, uint64_t{18446744073709551615u});
  CHECK(out.Take() ==
        "# HELP a_starts How many.\n"
        "# TYPE a_starts counter\n"
        "a_starts_total 18446744073709551615\n"
        "# EOF\n");
}

TEST_CASE("buckets add up, and their edges are in the unit of the family") {
  constexpr std::array<uint64_t, 3> kEdges = {1'000, 2'500'000, 60'000'000};
  constexpr std::array<uint64_t, 4> kCounts = {1, 0, 2, 4};
  const Labels labels = Labels().With("node", "n");
  Exposition text(Form::kText);
  text.Family("a_seconds", Type::kHistogram, "Time.");
  text.AddHistogram(labels, kEdges, kCounts, 1'500'000, 1e6);
  CHECK(text.Take() ==
        "# HELP a_seconds Time.\n"
        "# TYPE a_seconds histogram\n"
        "a_seconds_bucket{node=\"n\",le=\"0.001\"} 1\n"
        "a_seconds_bucket{node=\"n\",le=\"2.5\"} 1\n"
        "a_seconds_bucket{node=\"n\",le=\"60\"} 3\n"
        "a_seconds_bucket{node=\"n\",le=\"+Inf\"} 7\n"
        "a_seconds_sum{node=\"n\"} 1.5\n"
        "a_seconds_count{node=\"n\"} 7\n");
  Exposition open(Form::kOpenMetrics);
  open.Family("a_seconds", Type::kHistogram, "Time.");
  open.AddHistogram({}, kEdges, kCounts, 1'500'000, 1e6);
  const std::string shown = open.Take();
  CHECK(shown.find("a_seconds_bucket{le=\"60.0\"} 3\n") != std::string::npos);
  CHECK(shown.find("a_seconds_bucket{le=\"0.001\"} 1\n") != std::string::npos);
}

TEST_CASE("values of labels may hold any text") {
  CHECK(Labels().With("a", "x\"y\\z\nw").With("b", "ü").text() ==
        "a=\"x\\\"y\\\\z\\nw\",b=\"ü\"");
}

TEST_CASE("numbers that are none have names") {
  Exposition out(Form::kText);
  out.Family("a", Type::kGauge, "A.");
  out.Add({}, std::numeric_limits<double>::infinity());
  out.Add({}, std::numeric_limits<double>::quiet_NaN());
  const std::string text = out.Take();
  CHECK(text.ends_with("a +Inf\na NaN\n"));
}

TEST_CASE("OpenMetrics is for those who want it at least as much as plain text") {
  CHECK(FormOf("") == Form::kText);
  CHECK(FormOf("*/*") == Form::kText);
  CHECK(FormOf("text/plain") == Form::kText);
  CHECK(FormOf("application/openmetrics-text") == Form::kOpenMetrics);
  // As Prometheus 2.42 asks.
  CHECK(FormOf("application/openmetrics-text;version=1.0.0,application/openmetrics-text;"
               "version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1") ==
        Form::kOpenMetrics);
  CHECK(FormOf("text/plain;q=0.9, Application/OpenMetrics-Text;q=0.5") == Form::kText);
  CHECK(FormOf("application/openmetrics-text;q=0") == Form::kText);
  CHECK(FormOf("application/openmetrics-text;q=nonsense") == Form::kOpenMetrics);
}

}  // namespace dfsmr::metrics
