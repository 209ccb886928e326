#include "fsm/base/template.h"

#include <doctest/doctest.h>

#include <map>
#include <random>

#include "fsm/base/json.h"

namespace dfsmr {
namespace {

Result<std::string> EvaluateWith(std::string_view json,
                                 const std::map<std::string, std::string>& values) {
  return Evaluate(json, [&](const Reference& reference) -> Result<std::string> {
    auto it = values.find(reference.text);
    if (it != values.end()) return it->second;
    return Error{.code = Code::kNotFound, .message = "no " + reference.text};
  });
}
std::string Value(std::string_view json, const std::map<std::string, std::string>& values) {
  Result<std::string> value = EvaluateWith(json, values);
  return value ? *value : "error: " + value.error().message;
}

std::string Instantiated(std::string_view json, const std::map<std::string, std::string>& values) {
  Result<std::string> value =
      Instantiate(json, [&](const Reference& reference) -> Result<std::optional<std::string>> {
        auto it = values.find(reference.text);
        return it == values.end() ? std::nullopt : std::optional<std::string>(it->second);
      });
  return value ? *value : "error: " + value.error().message;
}

std::string Parsed(std::string_view text) {
  Result<Reference> reference = ParseReference(text);
  if (!reference) return "error: " + reference.error().message;
  CHECK(reference->text == text);
  CHECK(!reference->parts.empty());
  CHECK(!reference->parts[0].key.empty());
  return PathText(reference->parts);
}

TEST_CASE("references are keys and indexes") {
  for (std::string text : {"a", "a.output.list[1].name", "a[0][12].b", "#12.output", "@3.output[1]",
                           "node.0.disk.output", "a-b_c.1e3"}) {
    CHECK(Parsed(text) == text);
  }
  Result<Reference> reference = ParseReference("a.0[7].b");
  REQUIRE(reference);
  REQUIRE(reference->parts.size() == 4);
  CHECK(reference->parts[1] == Reference::Part{.key = "0", .index = 0});
  CHECK(reference->parts[2] == Reference::Part{.key = "", .index = 7});
  for (std::string text : {"", ".", "a.", ".a", "a..b", "a b", " a", "a[", "a[]", "a[x]", "a[1",
                           "[0]", "a.[0]", "a[1]b", "a[9999999999]", "a/b", "é"}) {
    CAPTURE(text);
    CHECK(Parsed(text).starts_with("error: '${" + text));
  }
}

TEST_CASE("what stands alone keeps its type, in a longer string it is text") {
  const std::map<std::string, std::string> values = {{"n", "1.50"},  {"s", "\"a\\\"b\""},
                                                     {"o", "{\"a\": [1, 2]}"}, {"z", "null"}};
  CHECK(Value(R"({"a": "${n}", "b": ["${s}", "${o}"], "c": 1.0})", values) ==
        R"({"a": 1.50, "b": ["a\"b", {"a": [1, 2]}], "c": 1.0})");
  CHECK(Value(R"("x ${n} ${s} ${z} ${o}!")", values) == R"("x 1.50 a\"b null {\"a\": [1, 2]}!")");
  CHECK(Value(R"("\u0024{n}")", values) == "1.50");
  CHECK(Value(R"({"${n}": 1})", values) == R"({"${n}": 1})");
  CHECK(Value("17", values) == "17");
  CHECK(Value(R"("${gone} ${n}")", values) == "error: no gone");
  CHECK(Value(R"("a $ b $5 {n}")", values) == R"("a $ b $5 {n}")");
}

TEST_CASE("a doubled dollar before a brace is a plain one") {
  const std::map<std::string, std::string> values = {{"n", "1"}};
  CHECK(Value(R"("$${n}")", values) == R"("${n}")");
  CHECK(Value(R"("$$${n}")", values) == R"("$1")");
  CHECK(Value(R"("$$$${n}")", values) == R"("$${n}")");
  CHECK(Value(R"("$$ $${ a")", values) == R"("$$ ${ a")");
}

TEST_CASE("values are not expanded again") {
  CHECK(Value(R"(["${a}", "x${a}", "${b}"])", {{"a", "\"${b}\""}, {"b", "\"$${c}\""}}) ==
        R"(["${b}", "x${b}", "$${c}"])");
}

TEST_CASE("a malformed reference is named") {
  CHECK(Value(R"({"a": "x ${open"})", {}) ==
        "error: '${open' is not closed; add '}', or write '$${' for a plain '${'");
  CHECK(Value(R"("${a..b}")", {}).starts_with("error: '${a..b}' is no reference"));
  CHECK(!References(R"(["${a}", "${}"])"));
  CHECK(!References(R"(["${a}", "${"])"));
}

TEST_CASE("references come in the order of the text") {
  Result<std::vector<Reference>> found =
      References(R"({"b": "${x.output}", "a": ["${y} and ${x.output}", "$${z}"]})");
  REQUIRE(found);
  std::string line;
  for (const Reference& reference : *found) line += reference.text + " ";
  CHECK(line == "x.output y x.output ");
}

TEST_CASE("a literal evaluates to itself") {
  for (std::string text :
       {"1.50", "\"${a}\"", "\"$${a}\"", "\"$$${\"", "[\"$\", {\"${k}\": \"a${\"}]", "null",
        "\"\\u0024{a}\"", "\"$\"", "\"a$$\"", "{\"a\": \"$$$${x}$${y}\"}"}) {
    CAPTURE(text);
    Result<std::string> value =
        Evaluate(Literal(text), [](const Reference&) -> Result<std::string> {
          return Error{.message = "a reference"};
        });
    REQUIRE(value);
    CHECK(Literal(*value) == Literal(text));
    CHECK(json::Unquote(*value) == json::Unquote(text));
  }
}

TEST_CASE("templates are put into templates") {
  CHECK(Instantiated(R"({"a": "${p}", "b": "${q}"})", {{"p", "{\"x\": \"${s.output}\"}"}}) ==
        R"({"a": {"x": "${s.output}"}, "b": "${q}"})");
  CHECK(Instantiated(R"("a ${p} b ${q}")", {{"p", "\"<${s.output}>\""}}) ==
        R"("a <${s.output}> b ${q}")");
  CHECK(Instantiated(R"("n=${p}")", {{"p", "[1, \"a\"]"}}) == R"("n=[1, \"a\"]")");
  CHECK(Instantiated(R"("n=${p}")", {{"p", "[1, \"$${a}\"]"}}) == R"("n=[1, \"$${a}\"]")");
  CHECK(Instantiated(R"("n=${p}")", {{"p", "[\"${s.output}\"]"}}) ==
        "error: '${p}' cannot be put into a longer string: it is no string itself, and holds "
        "'${s.output}'");
  CHECK(Instantiated(R"("$${p} ${p}")", {{"p", "1"}}) == R"("$${p} 1")");
}

TEST_CASE("what is put in stays what it was, whatever stands around it") {
  // Dollars and braces that meet where texts are joined must not make or unmake references.
  const std::vector<std::string> parts = {"$", "{", "$$", "{a}", "${x}", "}", "a", ""};
  std::mt19937 random(7);
  for (int round = 0; round < 20'000; ++round) {
    CAPTURE(round);
    std::string outer = "-", expected = "-";
    std::map<std::string, std::string> templates;
    const std::map<std::string, std::string> late = {{"late", "\"L\""}};
    for (int i = 0; i < 5; ++i) {
      const std::string& part = parts[random() % parts.size()];
      const uint32_t kind = static_cast<uint32_t>(random() % 3);
      if (kind == 0) {
        const std::string name = "p" + std::to_string(i);
        templates[name] = Literal(json::Quote(part));
        outer += "${" + name + "}";
      } else if (kind == 1) {
        outer += "${late}";
      } else if (part.find('$') == std::string::npos) {
        outer += part;
      } else {
        continue;
      }
      expected += kind == 1 ? "L" : part;
    }
    CAPTURE(outer);
    Result<std::string> value = EvaluateWith(Instantiated(json::Quote(outer), templates), late);
    REQUIRE(value);
    CHECK(json::Unquote(*value) == expected);
  }
}

std::string Found(std::string_view json, std::string_view path) {
  Result<Reference> reference = ParseReference(path);
  auto found = FindTemplate(json, reference->parts);
  return found ? *found : "nothing";
}

TEST_CASE("paths lead into values, and through references") {
  const std::string json =
      R"({"a": {"b": [1, "${x.output}", {"c": 2.0}]}, "d": "${y}", "e": "-${y}"})";
  CHECK(Found(json, "a.b[0]") == "1");
  CHECK(Found(json, "a.b[2].c") == "2.0");
  CHECK(Found(json, "a.b[3]") == "nothing");
  CHECK(Found(json, "a[0]") == "nothing");
  CHECK(Found(json, "a.b.c") == "nothing");
  CHECK(Found(json, "a.b[1]") == R"("${x.output}")");
  CHECK(Found(json, "a.b[1].c[4]") == R"("${x.output.c[4]}")");
  CHECK(Found(json, "d[2]") == R"("${y[2]}")");
  CHECK(Found(json, "e") == R"("-${y}")");
  CHECK(Found(json, "e.f") == "nothing");
  CHECK(Found(R"({"a": "text"})", "a.b") == "nothing");
  Result<Reference> path = ParseReference("a.b[2].c");
  CHECK(Find(json, path->parts) == "2.0");
  CHECK(!Find(json, ParseReference("a.x")->parts));
  CHECK(Find("7", {}) == "7");
}

}  // namespace
}  // namespace dfsmr
