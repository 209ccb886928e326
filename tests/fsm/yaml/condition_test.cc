// Conditions in YAML: what they mean, and where what is wrong with them is reported.
#include "fsm/yaml/condition.h"

#include <doctest/doctest.h>

namespace dfsmr {
namespace {

struct Reading {
  std::string json;      // what was read; empty: it was refused
  std::string problems;  // a line for each
};

Reading Read(const std::string& text, const ConditionRules& rules = {.steps = true}) {
  Reporter reporter("t");
  const YamlTree tree = ReadYaml(text, &reporter);
  REQUIRE(tree.documents.size() == 1);
  const YamlNode& root = *tree.documents[0].root;
  Condition condition;
  Reading reading;
  if (ReadIf(Field(*root.Find("if"), "if", &reporter), rules, &condition)) {
    reading.json = ToJson(condition);
  }
  for (const Diagnostic& one : std::move(reporter).Take()) reading.problems += Format(one) + "\n";
  CHECK(reading.json.empty() == !reading.problems.empty());
  return reading;
}

TEST_CASE("each form of a condition is read") {
  CHECK(Read("if: always").json == "\"always\"");
  CHECK(Read("if: {value: \"${params.n}\", greater: 1e3}").json ==
        R"({"value":"${params.n}","greater":1e3})");
  CHECK(Read("if: {failed: a}").json == R"({"failed":"a"})");
  CHECK(Read("if: {succeeded: [a, b.c]}").json == R"({"succeeded":["a","b.c"]})");
  CHECK(Read("if:\n- {skipped: a}\n- any: []\n").json == R"({"all":[{"skipped":"a"},{"any":[]}]})");
  CHECK(Read("if: {none: [{value: x, exists: false}, always]}").json ==
        R"({"none":[{"value":"x","exists":false},"always"]})");
  CHECK(Read("if: {value: {a: [1, \"${x.output}\"]}, in: [a, 0x10, ~]}").json ==
        R"({"value":{"a":[1,"${x.output}"]},"in":["a",16,null]})");
  CHECK(Read("if: {value: null, equals: null}").json == R"({"value":null,"equals":null})");
}

TEST_CASE("what is wrong is reported at its place") {
  struct Row {
    const char* text;
    const char* problem;  // its begin
  };
  for (const Row& row : std::initializer_list<Row>{
           {"if: {value: 1, equal: 2}",
            "t:1:16: if.equal: unknown key 'equal' (did you mean "
            "'equals'?)"},
           {"if:\n  any:\n  - {value: 1, is: 2}", "t:3:16: if.any[0].is: unknown key 'is'"},
           {"if: {value: 1}", "t:1:1: if: the comparison says nothing of its value"},
           {"if: {equals: 1}", "t:1:1: if: the comparison has no 'value'"},
           {"if: {value: 1, equals: 1, less: 2}", "t:1:27: if.less: the comparison has 'equals'"},
           {"if: {all: [], any: []}", "t:1:1: if: one condition has one key"},
           {"if: {all: {}}", "t:1:6: if.all: expected a list of conditions, not a map"},
           {"if: {}", "t:1:1: if: the condition is empty"},
           {"if: true", "t:1:5: if: expected a condition such as"},
           {"if: \"${params.flag}\"", "t:1:5: if: expected a condition such as"},
           {"if: {failed: [a, \"b c\"]}", "t:1:18: if.failed[1]: "},
           {"if: {value: x, exists: 3}", "t:1:24: if.exists: expected true or false"},
           {"if: {value: x, matches: \"(\"}", "t:1:25: if.matches: pattern '('"},
           {"if: {value: x, matches: 3}", "t:1:25: if.matches: 'matches' wants"},
           {"if: {value: \"${a..b}\", equals: 1}", "t:1:13: if.value: '${a..b}' is no reference"},
           {"if: {sucess: a}", "t:1:6: if.sucess: unknown key 'sucess'"},
           {"if: {value: {x: [\"${\"]}, equals: 1}", "t:1:18: if.value.x[0]: "}}) {
    CAPTURE(row.text);
    const Reading reading = Read(row.text);
    CHECK_MESSAGE(reading.problems.starts_with(row.problem), reading.problems);
  }
  CHECK(Read("if: \"${params.flag}\"")
            .problems.find("write {value: \"${params.flag}\", equals: "
                           "true}") != std::string::npos);
}

TEST_CASE("only steps of plans are asked what has become of them") {
  const ConditionRules values;
  CHECK(Read("if: {failed: a}", values)
            .problems.starts_with("t:1:6: if.failed: 'failed' is for the steps of a plan"));
  CHECK(Read("if: always", values).problems.starts_with("t:1:5: if: expected a condition"));
  CHECK_FALSE(Read("if: {value: 1, equals: 1}", values).json.empty());
}

TEST_CASE("whoever reads a condition says which references it may have") {
  ConditionRules rules;
  rules.refuse = [](const Reference& reference) -> std::optional<std::string> {
    if (reference.parts[0].key == "params") return std::nullopt;
    return "only params";
  };
  CHECK_FALSE(Read("if: {value: \"${params.x}\", equals: 1}", rules).json.empty());
  CHECK(Read("if: [{value: 1, equals: [\"a-${instance.id}\"]}]", rules).problems ==
        "t:1:26: if[0].equals[0]: ${instance.id}: only params\n");
}

TEST_CASE("a condition has at most 100 parts in 8 levels") {
  const auto list = [](size_t parts) {
    std::string text = "if: [";
    for (size_t i = 0; i < parts; ++i) text += "{value: 1, equals: 1}, ";
    return text + "]";
  };
  CHECK_FALSE(Read(list(100)).json.empty());
  CHECK(Read(list(101)).problems.find("more than 100 parts") != std::string::npos);
  const auto nested = [](size_t levels) {
    std::string text = "{value: 1, equals: 1}";
    for (size_t i = 1; i < levels; ++i) text = "{all: [" + text + "]}";
    return "if: " + text;
  };
  CHECK_FALSE(Read(nested(8)).json.empty());
  CHECK(Read(nested(9)).problems.find("more than 8 levels") != std::string::npos);
}

}  // namespace
}  // namespace dfsmr
