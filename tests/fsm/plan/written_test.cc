#include "fsm/plan/written.h"

#include <doctest/doctest.h>

namespace dfsmr {
namespace {

PlanGraph Example() {
  PlanGraph graph;
  for (const char* path : {"copy", "each.1.vm", "each.2.vm", "last"}) {
    graph.steps.emplace_back().path = path;
  }
  Group inner;
  inner.members.push_back({"vm", false, 1});
  Group outer;
  outer.list = true;
  outer.members.push_back({"", true, 0});
  graph.groups = {inner, outer, Group()};
  return graph;
}

TEST_CASE("numbers of steps and groups become their paths again") {
  const PlanGraph graph = Example();
  const auto written = [&graph](const std::string& text) { return AsWritten(graph, text); };
  CHECK(written(R"({"a": "${#0.output.ip}"})") == R"({"a": "${copy.output.ip}"})");
  CHECK(written(R"({"a": "x-${##1.output[2].b}"})") == R"({"a": "x-${each.1.vm.output[2].b}"})");
  CHECK(written(R"({"a": "${###3.state}"})") == R"({"a": "${last.state}"})");
  CHECK(written(R"({"a": "${@0.output}"})") == R"({"a": "${each.1.output}"})");
  CHECK(written(R"({"a": "${@1.output[0].vm}"})") == R"({"a": "${each.output[0].vm}"})");
}

TEST_CASE("what has no path, and what is no number, stays as it is") {
  const PlanGraph graph = Example();
  for (const char* text : {R"({"a": "${params.x}"})", R"({"a": "$${#0.output}"})", R"({"a": 1})",
                           R"({"a": "${@2.output}"})", R"({"a": "${#9.output}"})"}) {
    CHECK(AsWritten(graph, text) == text);
  }
}

}  // namespace
}  // namespace dfsmr
