// Sections of flows, as they are written.
#include <doctest/doctest.h>

#include "fsm/plan/source.h"
#include "fsm/yaml/definitions.h"

namespace dfsmr {
namespace {

using namespace std::chrono_literals;

std::string Problems(const std::string& flow) {
  std::string text;
  for (const Diagnostic& one : ParseDefinitions("plan: p\nflow: " + flow + "\n", "f").diagnostics) {
    text += Format(one) + "\n";
  }
  return text;
}

TEST_CASE("every key of a section") {
  const Parsed parsed = ParseDefinitions(R"(plan: p
flow:
  section: node1
  do: {sequence: [{step: create, action: x}, {step: start, action: x}]}
  retry: {limit: 3, delay: 10s, factor: 2, max: 1m, jitter: 0.5, on: [transient]}
  compensate: {step: delete, action: x, input: {id: "${create.output.id}"}}
  rescue: compensate
  when: "${params.flag}"
  after: [a]
)",
                                         "f");
  REQUIRE(parsed.ok());
  const FlowNode& section = parsed.definitions[0].plan()->flow;
  CHECK(section.kind == FlowNode::Kind::kSection);
  CHECK(section.name == "node1");
  CHECK(section.retry == RetryPolicy{3,
                                     {.initial = 10s, .factor = 2, .max = 1min, .jitter = 0.5},
                                     {"transient"}});
  REQUIRE(section.children.size() == 2);
  CHECK(section.children[0].children[1].name == "start");
  CHECK(section.children[1].name == "delete");
  CHECK(section.own.rescue == Rescue::kFail);
  CHECK(section.when == "\"${params.flag}\"");
  CHECK(section.after == std::vector<std::string>{"a"});
}

TEST_CASE("a section needs a flow, and two tries or more") {
  CHECK(Problems("{section: s, do: [], retry: 2}").empty());
  CHECK(Problems("{section: s, do: []}") ==
        "f:2:1: flow: the section has no 'retry'; add how often it is tried in all: {section: "
        "NAME, do: FLOW, retry: {limit: 3, delay: 10s}}\n");
  CHECK(Problems("{section: s, retry: 2}") ==
        "f:2:1: flow: the section has no 'do'; add its flow: {section: NAME, do: FLOW, retry: "
        "{limit: 3, delay: 10s}}\n");
  CHECK(Problems("{section: s, do: [], retry: {limit: 1}}") ==
        "f:2:28: flow.retry: a section is tried twice or more; of one try it is the steps alone\n");
  CHECK(Problems("{section: s, do: [], retry: 2, rescue: compensate}") ==
        "f:2:46: flow.rescue: rescue: compensate runs the section's 'compensate', and there is "
        "none; add it, or remove this\n");
  CHECK(Problems("{section: s, do: [], retry: 2, compensate: [], rescue: pause}")
            .find("flow.rescue: ") != std::string::npos);
  CHECK(Problems("{section: s, do: [], retry: 2, if: always}").find("flow.if: ") !=
        std::string::npos);
  CHECK(Problems("{section: 'a b', do: [], retry: 2}").find("flow.section: ") != std::string::npos);
}

}  // namespace
}  // namespace dfsmr
