// What conditions say of values and of steps, and how they are written down.
#include "fsm/condition/condition.h"

#include <doctest/doctest.h>

#include <map>

#include "fsm/base/json.h"

namespace dfsmr {
namespace {

// Whether the condition holds of these facts: `root` is a JSON object whose members are the first
// keys of references; steps by name.
bool Check(std::string_view condition, std::string_view root = "{}",
           const std::map<std::string, StepOutcome>& steps = {}) {
  const auto parsed = ParseCondition(condition);
  REQUIRE_MESSAGE(parsed.has_value(), condition);
  Facts facts;
  facts.value = [&](const Reference& reference) -> std::optional<std::string> {
    auto found = Find(root, reference.parts);
    if (!found) return std::nullopt;
    return std::string(*found);
  };
  facts.step = [&](std::string_view step) { return steps.at(std::string(step)); };
  return Holds(*parsed, facts);
}

TEST_CASE("a comparison is true when its operator says so") {
  struct Row {
    const char* condition;
    bool holds;
  };
  static constexpr const char* kRoot =
      R"({"p": {"n": 5, "big": 9007199254740993, "t": "abcde", "null": null, "yes": true,
          "list": [1, "a", {"k": 1.0}], "map": {"b": 2, "a": [1]}}})";
  for (const Row& row : std::initializer_list<Row>{
           {R"({"value": "${p.n}", "equals": 5})", true},
           {R"({"value": "${p.n}", "equals": 5.0})", true},
           {R"({"value": "${p.n}", "equals": 0.5e1})", true},
           {R"({"value": "${p.n}", "equals": "5"})", false},
           {R"({"value": "${p.big}", "equals": 9007199254740992})", false},
           {R"({"value": "${p.map}", "equals": {"a": [1.0], "b": 2}})", true},
           {R"({"value": "${p.yes}", "equals": true})", true},
           {R"({"value": "${p.yes}", "equals": 1})", false},
           {R"({"value": "${p.null}", "equals": null})", true},
           {R"({"value": "x-${p.n}", "equals": "x-5"})", true},
           {R"({"value": 5, "equals": "${p.n}"})", true},
           {R"({"value": "${p.n}", "not": 5})", false},
           {R"({"value": "${p.n}", "not": 6})", true},
           {R"({"value": "${p.n}", "greater": 4.999})", true},
           {R"({"value": "${p.n}", "greater": 5})", false},
           {R"({"value": "${p.n}", "greater": -7})", true},
           {R"({"value": "${p.n}", "greater": "4"})", false},
           {R"({"value": "${p.t}", "greater": 4})", false},
           {R"({"value": "${p.big}", "greater": 9007199254740992})", true},
           {R"({"value": "${p.n}", "less": 10})", true},
           {R"({"value": "${p.n}", "less": 5})", false},
           {R"({"value": -10, "less": -9.5})", true},
           {R"({"value": "${p.t}", "contains": "bcd"})", true},
           {R"({"value": "${p.t}", "contains": "x"})", false},
           {R"({"value": "${p.t}", "contains": 5})", false},
           {R"({"value": "${p.list}", "contains": "a"})", true},
           {R"({"value": "${p.list}", "contains": 1.0})", true},
           {R"({"value": "${p.list}", "contains": {"k": 1}})", true},
           {R"({"value": "${p.list}", "contains": 2})", false},
           {R"({"value": "${p.map}", "contains": "a"})", false},
           {R"({"value": "bc", "in": "${p.t}"})", true},
           {R"({"value": "${p.n}", "in": [4, 5]})", true},
           {R"({"value": "${p.n}", "in": [4, 6]})", false},
           {R"({"value": "${p.null}", "exists": true})", true},
           {R"({"value": "${p.null}", "exists": false})", false},
           {R"({"value": "${p.none}", "exists": true})", false},
           {R"({"value": "${p.none}", "exists": false})", true},
           {R"({"value": "${p.t}", "matches": "^a.c"})", true},
           {R"({"value": "${p.t}", "matches": "cd"})", true},
           {R"({"value": "${p.t}", "matches": "^b"})", false},
           {R"({"value": "${p.n}", "matches": "5"})", false},
           {R"({"value": "xabcde", "matches": "${p.t}$"})", true},
           {R"({"value": "x", "matches": "${p.n}"})", false}}) {
    CAPTURE(row.condition);
    CHECK(Check(row.condition, kRoot) == row.holds);
  }
}

TEST_CASE("what is missing makes only 'not' and 'exists: false' true") {
  for (const char* op : {"equals", "greater", "less", "contains", "in", "matches"}) {
    const std::string word = json::Quote(op);
    CAPTURE(word);
    CHECK_FALSE(Check("{\"value\": \"${a.b}\", " + word + ": \"x\"}"));
    CHECK_FALSE(Check("{\"value\": \"x\", " + word + ": \"${a.b}\"}"));
    CHECK_FALSE(Check("{\"value\": \"x${a.b}\", " + word + ": \"x\"}"));
  }
  CHECK_FALSE(Check(R"({"value": "${a.b}", "equals": null})"));
  CHECK_FALSE(Check(R"({"value": "${a.b}", "equals": "${a.b}"})"));
  CHECK(Check(R"({"value": "${a.b}", "not": "${a.b}"})"));
  CHECK(Check(R"({"value": "${a.b}", "not": null})"));
  CHECK(Check(R"({"value": "${a.b}", "exists": false})"));
  CHECK(Check(R"({"value": {"x": ["${a.b}"]}, "exists": false})"));
}

TEST_CASE("lists of conditions") {
  const std::string yes = R"({"value": 1, "equals": 1})";
  const std::string no = R"({"value": 1, "equals": 2})";
  CHECK(Check(R"({"all": []})"));
  CHECK_FALSE(Check(R"({"any": []})"));
  CHECK(Check(R"({"none": []})"));
  CHECK(Check("{\"all\": [" + yes + ", " + yes + "]}"));
  CHECK_FALSE(Check("{\"all\": [" + yes + ", " + no + "]}"));
  CHECK(Check("{\"any\": [" + no + ", " + yes + "]}"));
  CHECK_FALSE(Check("{\"any\": [" + no + "]}"));
  CHECK(Check("{\"none\": [" + no + ", " + no + "]}"));
  CHECK_FALSE(Check("{\"none\": [" + no + ", " + yes + "]}"));
  CHECK(Check("{\"any\": [" + no + ", {\"none\": [" + no + "]}]}"));
}

TEST_CASE("conditions about steps want all that they name to have come to that") {
  const std::map<std::string, StepOutcome> steps = {{"a", StepOutcome::kSucceeded},
                                                    {"b", StepOutcome::kFailed},
                                                    {"c", StepOutcome::kSkipped},
                                                    {"d", StepOutcome::kFailed}};
  CHECK(Check(R"("always")", "{}", steps));
  CHECK(Check(R"({"succeeded": "a"})", "{}", steps));
  CHECK_FALSE(Check(R"({"succeeded": "b"})", "{}", steps));
  CHECK(Check(R"({"failed": ["b", "d"]})", "{}", steps));
  CHECK_FALSE(Check(R"({"failed": ["a", "b"]})", "{}", steps));
  CHECK(Check(R"({"skipped": "c"})", "{}", steps));
  CHECK(Check(R"({"any": [{"skipped": "a"}, {"failed": "b"}]})", "{}", steps));
}

TEST_CASE("a pattern is looked for in the first 64 KiB") {
  const std::string text(kMatchedBytes - 1, 'a');
  const auto holds = [](const std::string& value) {
    return Check(R"({"value": "${v}", "matches": "x"})", "{\"v\": " + json::Quote(value) + "}");
  };
  CHECK(holds(text + "x"));
  CHECK_FALSE(holds(text + "ax"));
  CHECK_FALSE(holds(text + "\xC3\xA4x"));  // cut before the character that goes beyond
}

TEST_CASE("a condition as it is kept is the same when it is read") {
  for (const char* text : {R"("always")", R"({"value":"${a.b}","greater":1000})",
                           R"({"all":[{"value":[1,"x"],"contains":"${params.k}"},{"none":[]}]})",
                           R"({"failed":"a"})", R"({"skipped":["a","b.c"]})", R"({"succeeded":[]})",
                           R"({"value":"${v}","matches":"^[0-9]+$"})"}) {
    const auto parsed = ParseCondition(text);
    REQUIRE(parsed.has_value());
    CHECK(ToJson(*parsed) == text);
  }
  CHECK_FALSE(Check(R"({"value": "x", "matches": "("})"));
  for (const char* bad : {"1", "{}", "[]", "\"never\"", R"({"value": 1})", R"({"all": [1]})"}) {
    CAPTURE(bad);
    CHECK_FALSE(ParseCondition(bad).has_value());
  }
}

TEST_CASE("a condition as people read it") {
  const auto text = [](std::string_view json) { return TextOf(*ParseCondition(json)); };
  CHECK(text(R"({"value": "${check.output.sum}", "greater": 1000})") ==
        R"({value: "${check.output.sum}", greater: 1000})");
  CHECK(text(R"("always")") == "always");
  CHECK(
      text(
          R"({"any": [{"failed": ["a", "b"]}, {"value": "${params.env}", "in": ["prod", "1"]}]})") ==
      R"({any: [{failed: [a, b]}, {value: "${params.env}", in: [prod, "1"]}]})");
}

}  // namespace
}  // namespace dfsmr
