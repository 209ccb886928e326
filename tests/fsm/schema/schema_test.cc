#include "fsm/schema/schema.h"

#include <doctest/doctest.h>

#include <chrono>

namespace dfsmr {
namespace {

std::shared_ptr<const ParamsCheck> Compiled(const std::string& schema) {
  std::vector<SchemaProblem> problems;
  auto check = CompileParamsSchema(schema, "params", &problems);
  REQUIRE_MESSAGE(check, schema, ": ", problems.empty() ? "" : problems[0].message);
  return check;
}

std::string Violation(const std::string& schema, const std::string& json) {
  return Compiled(schema)->Violation(json).value_or("");
}

// "where: message" of the first problem, and that there is but one.
std::string Refused(const std::string& schema) {
  std::vector<SchemaProblem> problems;
  CHECK(CompileParamsSchema(schema, "params", &problems) == nullptr);
  REQUIRE(problems.size() == 1);
  std::string where;
  for (const std::string& part : problems[0].where) where += "/" + part;
  return where + ": " + problems[0].message;
}

struct Row {
  const char* schema;
  const char* json;
  const char* violation;  // "": satisfied
};

TEST_CASE("a number that no double holds is a number") {
  CHECK(Violation(R"({"properties":{"a":{"type":"number","minimum":5}}})", R"({"a":1e400})") == "");
  CHECK(Violation(R"({"properties":{"a":{"maximum":5}}})", R"({"a":1e400})") != "");
}

TEST_CASE("a violation says where, what was expected and what is there") {
  const Row rows[] = {
      {R"({})", R"({"a":1})", ""},
      {R"({"required":["url"]})", R"({})", "params: missing required 'url'"},
      {R"({"required":["url"]})", "", "params: missing required 'url'"},
      {R"({"properties":{"url":{"type":"string"}}})", R"({"url":5})",
       "params.url: expected a string, but it is 5"},
      {R"({"properties":{"n":{"type":["integer","null"]}}})", R"({"n":1.5})",
       "params.n: expected an integer or null, but it is 1.5"},
      {R"({"properties":{"n":{"type":"integer"}}})", R"({"n":2.0})", ""},
      {R"({"properties":{"l":{"items":{"type":"string"}}}})", R"({"l":["a",{}]})",
       "params.l[1]: expected a string, but it is {}"},
      {R"({"properties":{"l":{"items":[true],"additionalItems":false}}})", R"({"l":[1,2]})",
       "params.l[1]: nothing is allowed here"},
      {R"({"properties":{"m":{"enum":["fast","slow",3]}}})", R"({"m":"fsat"})",
       R"(params.m: expected one of "fast", "slow", 3, but it is "fsat")"},
      {R"({"properties":{"m":{"const":[1]}}})", R"({"m":[1.0]})", ""},
      {R"({"properties":{"m":{"const":"x"}}})", R"({"m":"y"})",
       R"(params.m: expected "x", but it is "y")"},
      {R"({"properties":{"url":{}},"additionalProperties":false})", R"({"ulr":1})",
       "params: unknown key 'ulr' (did you mean 'url'?)"},
      {R"({"properties":{"n":{"minimum":3,"maximum":5}}})", R"({"n":2})",
       "params.n: expected at least 3, but it is 2"},
      {R"({"properties":{"n":{"exclusiveMaximum":5}}})", R"({"n":5})",
       "params.n: expected less than 5, but it is 5"},
      {R"({"properties":{"n":{"multipleOf":0.1}}})", R"({"n":0.3})", ""},
      {R"({"properties":{"n":{"multipleOf":2}}})", R"({"n":3})",
       "params.n: expected a multiple of 2, but it is 3"},
      {R"({"properties":{"n":{"maximum":9007199254740992}}})", R"({"n":9007199254740993})",
       "params.n: expected at most 9007199254740992, but it is 9007199254740993"},
      {R"({"properties":{"s":{"minLength":2}}})", R"({"s":"é"})",
       "params.s: expected at least 2 characters, but it has 1"},
      {R"({"properties":{"s":{"maxLength":1}}})", R"({"s":"éé"})",
       "params.s: expected at most 1 character, but it has 2"},
      {R"({"properties":{"s":{"pattern":"^.x$"}}})", R"({"s":"éx"})", ""},
      {R"({"properties":{"s":{"pattern":"b+"}}})", R"({"s":"abc"})", ""},
      {R"({"properties":{"s":{"pattern":"^b"}}})", R"({"s":"abc"})",
       R"(params.s: expected text that matches '^b', but it is "abc")"},
      {R"({"properties":{"s":{"format":"date"}}})", R"({"s":5})", ""},
      {R"({"properties":{"l":{"minItems":1}}})", R"({"l":[]})",
       "params.l: expected at least 1 item, but it has 0"},
      {R"({"properties":{"l":{"uniqueItems":true}}})", R"({"l":[1,"1",{"a":1},{"a":1.0}]})",
       "params.l: expected no item twice, but an object is"},
      {R"({"properties":{"l":{"contains":{"const":1}}}})", R"({"l":[2]})",
       "params.l: no item is what 'contains' asks for"},
      {R"({"maxProperties":1})", R"({"a":1,"b":2})",
       "params: expected at most 1 key, but it has 2"},
      {R"({"propertyNames":{"pattern":"^[a-z]+$"}})", R"({"A":1})",
       "params: key 'A' is not allowed: its name: expected text that matches '^[a-z]+$', but it is "
       "\"A\""},
      {R"({"dependencies":{"a":["b"]}})", R"({"a":1})",
       "params: missing 'b', which is required beside 'a'"},
      {R"({"patternProperties":{"^n":{"type":"number"}}})", R"({"nx":"y"})",
       R"(params.nx: expected a number, but it is "y")"},
      {R"({"anyOf":[{"required":["a"]},{"required":["b"]}]})", R"({})",
       "params: fits none of 2 alternatives: (1) params: missing required 'a', (2) params: missing "
       "required 'b'"},
      {R"({"oneOf":[true,{}]})", R"({})",
       "params: fits 2 of the 2 alternatives; exactly one is allowed"},
      {R"({"not":{"required":["a"]}})", R"({"a":1})", "params: is what 'not' excludes"},
      {R"({"if":{"required":["a"]},"then":{"required":["b"]}})", R"({"a":1})",
       "params: missing required 'b'"},
      {R"({"if":{"required":["a"]},"then":{"required":["b"]}})", R"({})", ""},
      {R"({"items":{},"definitions":{"t/x":{"type":"null"}},)"
       R"("properties":{"t":{"$ref":"#/definitions/t~1x"}}})",
       R"({"t":1})", "params.t: expected null, but it is 1"},
      {R"({"properties":{"child":{"$ref":"#"},"v":{"type":"number"}}})",
       R"({"child":{"child":{"v":""}}})",
       R"(params.child.child.v: expected a number, but it is "")"},
      {R"({"properties":{"a":{"type":"null"},"b":{"type":"null"}}})", R"({"a":1,"b":2})",
       "params.a: expected null, but it is 1; params.b: expected null, but it is 2"},
      {R"({})", R"({"a")", "params: not JSON, or nested more than 200 levels deep"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.schema);
    CAPTURE(row.json);
    CHECK(Violation(row.schema, row.json) == row.violation);
  }
}

TEST_CASE("defaults are not applied") {
  CHECK(Violation(R"({"required":["a"],"properties":{"a":{"default":1}}})", "{}") ==
        "params: missing required 'a'");
}

TEST_CASE("a bad schema is refused, with the place in it") {
  const std::pair<const char*, const char*> rows[] = {
      {R"({"type":"strin"})",
       "/type: 'strin' is no type: 'type' must be array, boolean, integer, null, number, object or string, or a list "
       "of those (did you mean 'string'?)"},
      {R"({"required":"url"})",
       "/required: 'required' must be a list of keys, such as [url, name]"},
      {R"({"properties":{"a":5}})", "/properties/a: a schema must be a map (or true or false)"},
      {R"({"properties":[]})", "/properties: 'properties' must be a map"},
      {R"({"anyOf":[]})", "/anyOf: 'anyOf' must be a list of one schema or more"},
      {R"({"items":[{"minLength":-1}]})",
       "/items/0/minLength: 'minLength' must be a whole number, 0 or more"},
      {R"({"multipleOf":0})", "/multipleOf: 'multipleOf' must be a number greater than 0"},
      {R"({"uniqueItems":"yes"})", "/uniqueItems: 'uniqueItems' must be true or false"},
      {R"({"enum":[]})", "/enum: 'enum' must be a list of one value or more"},
      {R"({"pattern":"(a)\\1"})",
       R"(/pattern: pattern '(a)\1' has a backreference, which is not supported)"},
      {R"({"pattern":"((a{1000}){1000}){1000}"})",
       "/pattern: pattern '((a{1000}){1000}){1000}' is too large; use fewer or smaller "
       "repetitions"},
      {R"({"$ref":"http://example.org/x"})",
       "/$ref: '$ref: http://example.org/x' is not local; only references into this schema, such "
       "as '#/definitions/NAME', are followed"},
      {R"({"not":{"$ref":"#/definitions/x"}})",
       "/not/$ref: there is nothing at '#/definitions/x' in this schema"},
      {R"({"$ref":"#"})", ": the schema leads back to itself without looking into the value; "
                          "checking it would never end"},
      {R"({"properties":{"a":{"anyOf":[{"not":{"$ref":"#/properties/a"}}]}}})",
       "/properties/a: the schema leads back to itself without looking into the value; checking it "
       "would never end"},
  };
  for (const auto& [schema, expected] : rows) {
    CAPTURE(schema);
    CHECK(Refused(schema) == expected);
  }
  CHECK(Refused(R"({"pattern":"(a"})").starts_with("/pattern: pattern '(a' is not a regular"));
}

TEST_CASE("all that is wrong with a schema is told") {
  std::vector<SchemaProblem> problems;
  CompileParamsSchema(R"({"type":5,"required":1,"properties":{"a":{"pattern":2}}})", "params",
                      &problems);
  CHECK(problems.size() == 3);
}

TEST_CASE("hostile schemas and values end soon, and do not end the process") {
  const auto begin = std::chrono::steady_clock::now();
  const std::string long_text = R"({"s":")" + std::string(100'000, 'x') + R"("})";
  CHECK(Violation(R"({"properties":{"s":{"pattern":"^(x|y)*$"}}})", long_text) == "");
  CHECK(Violation(R"({"properties":{"s":{"pattern":"(x+x+)+z"}}})", long_text) != "");

  std::string deep;
  for (int i = 0; i < 500'000; ++i) deep += "[";
  CHECK(Violation("{}", deep) != "");
  CHECK(Violation("{}", R"({"a":)" + deep + std::string(500'000, ']') + "}") != "");

  // 2^40 checks, if nobody counted.
  std::string doubling = R"({"$ref":"#/definitions/d0","definitions":{)";
  for (int i = 0; i < 40; ++i) {
    std::string next = R"({"$ref":"#/definitions/d)" + std::to_string(i + 1) + R"("})";
    doubling += R"("d)" + std::to_string(i) + R"(":{"allOf":[)" + next + "," + next + "]},";
  }
  CHECK(Violation(doubling + R"("d40":{}}})", "{}") ==
        "params: too large for its schema to be checked in reasonable time");

  // A chain that is too long to follow.
  std::string chain = R"({"$ref":"#/definitions/d0","definitions":{)";
  for (int i = 0; i < 20'000; ++i) {
    chain += R"("d)" + std::to_string(i) + R"(":{"$ref":"#/definitions/d)" +
             std::to_string(i + 1) + R"("},)";
  }
  CHECK(Violation(chain + R"("d20000":{}}})", "{}") != "");

  std::string parentheses = std::string(500, '(') + std::string(500, ')');
  std::vector<SchemaProblem> problems;
  CompileParamsSchema(R"({"pattern":")" + parentheses + R"("})", "params", &problems);
  CHECK(problems.empty());
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(60));
}

TEST_CASE("many objects side by side are parsed in linear time") {
  std::string wide = "{";
  for (int i = 0; i < 60'000; ++i) wide += "\"k" + std::to_string(i) + "\":{},";
  CHECK(Violation("{}", wide + "\"last\":{}}") == "");
}

}  // namespace
}  // namespace dfsmr
