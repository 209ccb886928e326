// Where a problem of a compiled plan is found in its text.
#include "fsm/yaml/places.h"

#include <doctest/doctest.h>

#include "fsm/base/diagnostic.h"

namespace dfsmr {
namespace {

constexpr std::string_view kText = R"(plan: p
flow:
  - step: a
    action: x
    input:
      first: "${b.output}"
      second: "${c.output}"
)";

std::string Place(PlanProblem problem) {
  Reporter reporter("f");
  const YamlTree tree = ReadYaml(kText, &reporter);
  const Written written = PlaceOf(problem, tree);
  return std::to_string(written.at.line) + ":" + std::to_string(written.at.column) + " " +
         written.path;
}

TEST_CASE("a problem is where its path leads to, and its reference stands") {
  CHECK(Place({.written = {{3, 5}, "flow[0]"}}) == "3:5 flow[0]");
  CHECK(Place({.written = {{3, 5}, "flow[0].action"}}) == "4:13 flow[0].action");
  CHECK(Place({.written = {{3, 5}, "flow[0].input"}}) == "5:5 flow[0].input");
  CHECK(Place({.written = {{3, 5}, "flow[0].input"}, .reference = "${c.output}"}) ==
        "7:15 flow[0].input.second");
  CHECK(Place({.written = {{3, 5}, "flow[0].nothing"}}) == "3:5 flow[0].nothing");
}

TEST_CASE("the words of a problem do not say where it is") {
  CHECK(Place({.written = {{3, 5}, "flow[0].input"}, .message = "not '${c.output}'"}) ==
        "5:5 flow[0].input");
  CHECK(Place({.written = {{3, 5}, "flow[0].input"},
               .message = "not '${b.output}', but another",
               .reference = "${c.output}"}) == "7:15 flow[0].input.second");
}

}  // namespace
}  // namespace dfsmr
