// Text that means harm, or was never meant to be YAML.
#include <doctest/doctest.h>

#include <chrono>
#include <random>

#include "fsm/plan/source.h"
#include "fsm/yaml/definitions.h"

namespace dfsmr {
namespace {

std::string Repeat(std::string_view text, size_t times) {
  std::string out;
  out.reserve(text.size() * times);
  for (size_t i = 0; i < times; ++i) out += text;
  return out;
}

std::string First(const std::string& text) {
  std::vector<Diagnostic> diagnostics = ParseDefinitions(text, "f").diagnostics;
  return diagnostics.empty() ? "" : Format(diagnostics.front());
}

TEST_CASE("what YAML forbids is told where it stands") {
  const std::pair<std::string, const char*> rows[] = {
      {"id: m\nnodes: {a: {final: true}\n",
       "f:2:8: nodes: not YAML: a '{' is not closed by '}', or a ',' is missing"},
      {"id: m\n nodes: 3\n",
       "f:2:7: .: not YAML: a ':' where no value can start; check the indentation, or quote text "
       "that holds ': '"},
      {"\tid: m\nnodes: {a: {final: true}}\n",
       "f:1:4: .: not YAML: a tab in the indentation; use spaces"},
      {"id: m\nnodes: {b: {final: 1 c: 2}}\n",
       "f:2:23: nodes.b: not YAML: a '{' is not closed by '}', or a ',' is missing"},
      {"id: \"m\n", "f:1:5: id: not YAML: a quote is not closed"},
      {"id: &a 'm''\n", "f:1:8: id: not YAML: a quote is not closed"},
      {"id: !!str m\nnodes: {a: {start: true, final: true}}\n",
       "f:1:5: id: tags are not supported: remove it, and quote what is meant as text"},
      {"nodes: {a: {start: true, final: true}}\nid: m\nid: n\n",
       "f:3:1: id: key 'id' is there twice, first in line 2; keep one of them"},
      {"nodes: {a: {start: true, final: true}}\nid: m\n<<: {a: b}\n",
       "f:3:1: <<: merge keys are not supported; write the keys out, or put those that work nodes "
       "share under 'defaults'"},
      {"? [a, b]\n: c\n",
       "f:1:3: .: a key must be text, not a map or list; perhaps a '{' or '[' is not closed, or "
       "wants quotes"},
      {"id: *m\n", "f:1:5: id: not YAML: the alias refers to an anchor that is not there"},
      {"{id: m} more\n",
       "f:1:9: .: not YAML: this does not belong to the value above it; check the indentation, or "
       "start a new document with a line '---'"},
      {std::string("id: \0m\n", 7),
       "f:1:5: .: control character '\\x00'; remove it, or write it as an escape in double quotes"},
      {"id: é\x04\n",
       "f:1:6: .: control character '\\x04'; remove it, or write it as an escape in double quotes"},
      {"id: é\nnodes: \xFF\n", "f:2:8: .: not UTF-8; save the file in that encoding"},
      {"id: \xC0\xAF\n", "f:1:5: .: not UTF-8; save the file in that encoding"},
      {"id: \xED\xA0\x80\n", "f:1:5: .: not UTF-8; save the file in that encoding"},
  };
  for (const auto& [text, told] : rows) {
    const std::string& document = text;
    CAPTURE(document);
    CHECK(First(text) == told);
    CHECK(ParseDefinitions(text, "f").definitions.empty());
  }
}

TEST_CASE("line ends of other systems and byte order marks are fine") {
  Parsed parsed = ParseDefinitions(
      "\xEF\xBB\xBFid: m\r\nnodes:\r\n  a: {start: true, final: true, description: |\r\n  }\r\n",
      "f");
  CHECK_FALSE(parsed.ok());
  CHECK(parsed.diagnostics[0].line == 3);
  CHECK(First("\xEF\xBB\xBFid: m\r\nnodes:\r\n  a:\r\n    start: true\r\n    final: true\r\n") == "");
}

TEST_CASE("limits of size, nesting and nodes") {
  CHECK(First(Repeat("#", (1 << 20) + 1)) ==
        "f:1:1: .: the source has 1048577 bytes; at most 1 MiB (1048576) is allowed");
  CHECK(First("a: " + Repeat("[", 64) + Repeat("]", 64)) ==
        "f:1:67: .: more than 64 levels of nesting");
  CHECK(First("params: {x: " + Repeat("[", 62) + Repeat("]", 62) + "}").find("nesting") ==
        std::string::npos);
  std::string nodes = "id: m\nnodes:\n";
  for (int i = 0; i < 10'001; ++i) nodes += "  n" + std::to_string(i) + ": {}\n";
  CHECK(First(nodes) ==
        "f:2:1: nodes: the machine has 10001 nodes; at most 10000 are allowed");
}

TEST_CASE("aliases neither loop nor explode") {
  CHECK(First("&a [*a]") ==
        "f:1:5: [0]: the alias stands inside of what it refers to; write it out");
  CHECK(First("&a {b: *a}") ==
        "f:1:8: b: the alias stands inside of what it refers to; write it out");
  std::string bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n";
  for (char c = 'b'; c < 'k'; ++c) {
    const std::string before = std::string("*") + static_cast<char>(c - 1) + ", ";
    bomb += std::string(1, c) + ": &" + c + " [" + Repeat(before, 10) + "]\n";
  }
  const std::string told = First(bomb);
  CHECK(told.find("aliases expand the source to more than 200000 values or 1 MiB") !=
        std::string::npos);
  std::string text = "a: &a '" + Repeat("x", 600'000) + "'\nb: [*a, *a]\n";
  CHECK(First(text).find("1 MiB") != std::string::npos);
  const std::string open = Repeat("[", 40);
  const std::string close = Repeat("]", 40);
  const std::string deep = "a: &a " + open + close + "\nb: " + open + "*a" + close + "\n";
  CHECK(First(deep).find("levels of nesting") != std::string::npos);
}

TEST_CASE("no text of a mebibyte takes long, and none ends the process") {
  std::string wide = "id: m\nnodes:\n";
  for (int i = 0; i < 9'999; ++i) {
    std::string id = std::to_string(i);
    wide += "  n" + id + ": {transitions: {ok: m" + id + Repeat("x", 40) + "}}\n";
  }
  std::string long_keys = "id: m\nnodes:\n  ? " + Repeat("n", 500'000) + "\n  : {transitions: {" +
                          Repeat("a: b, ", 80'000) + "}}\n";
  const std::string texts[] = {
      Repeat("[", 100'000),  Repeat("{", 100'000),      Repeat("- ", 100'000),
      Repeat("? ", 100'000), Repeat("[{a: ", 100'000),  Repeat("&a ", 100'000),
      Repeat("*a ", 100'000), Repeat("!", 100'000),     Repeat("a\n---\n", 170'000),
      Repeat("a: }", 100'000), Repeat("\n", 1'000'000), Repeat(":", 1'000'000),
      "[" + Repeat("\"a\",", 250'000), "{" + Repeat("a: 1, ", 170'000) + "}",
      "a: \"" + Repeat("\\n", 500'000), "a: |\n" + Repeat("  é\n", 200'000),
      "[" + Repeat("é, ", 200'000) + "]", Repeat("a", 1'000'000) + ": 1", wide, long_keys,
  };
  for (const std::string& text : texts) {
    CAPTURE(text.substr(0, 20));
    const auto begin = std::chrono::steady_clock::now();
    CHECK_FALSE(ParseDefinitions(text, "f").ok());
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(30));
  }
}

// What is wrong with a flow that somebody sent.
std::string FirstOfFlow(const std::string& text) {
  std::vector<Diagnostic> diagnostics;
  const bool sound = ParseFlow(text, "f", &diagnostics) != nullptr;
  CHECK(sound == !HasErrors(diagnostics));
  return diagnostics.empty() ? "" : Format(diagnostics.front());
}

TEST_CASE("limits of plans") {
  CHECK(First("plan: p\nflow: " + Repeat("[", 63) + Repeat("]", 63)) == "");
  const std::string nested = Repeat("{for_each: [], do: ", 62) + "[]" + Repeat("}", 62);
  CHECK(First("plan: p\nflow: " + nested) == "");
  CHECK(First("plan: p\nflow: " + Repeat("[", 64) + Repeat("]", 64)) ==
        "f:2:70: .: more than 64 levels of nesting");
  CHECK(FirstOfFlow("[" + Repeat("[],", 99'998) + "[]]") == "");
  CHECK(FirstOfFlow("[" + Repeat("[],", 100'000) + "[]]") ==
        "f:1:299999: flow[99999]: more than 100000 steps and blocks");
  CHECK(FirstOfFlow(Repeat("#", (1 << 20) + 1)) ==
        "f:1:1: .: the source has 1048577 bytes; at most 1 MiB (1048576) is allowed");
  CHECK(FirstOfFlow("&a [*a]") ==
        "f:1:5: [0]: the alias stands inside of what it refers to; write it out");
  CHECK(First("plan: p\nflow: [&a " + Repeat("[", 40) + Repeat("]", 40) + ", " + Repeat("[", 40) +
              "*a" + Repeat("]", 40) + "]")
            .find("levels of nesting") != std::string::npos);
  CHECK(First("plan: p\nflow: [&a {step: s, action: a, input: {x: \"${a}\"}}, " +
              Repeat("*a, ", 40'000) + "]")
            .find("aliases expand the source to more than 200000 values") != std::string::npos);
}

TEST_CASE("no plan of a mebibyte takes long, and none ends the process") {
  const std::string step = "plan: p\nflow: [{step: s, action: a, ";
  const std::string input = step + "input: {x: \"";
  std::string keys;
  for (int i = 0; i < 80'000; ++i) keys += "k" + std::to_string(i) + ": '${', ";
  const std::string texts[] = {
      "plan: p\nflow: [" + Repeat("{}, ", 250'000) + "]",
      "plan: p\nflow: {" + keys + "}",
      step + keys + "}]",
      step + "input: {" + keys + "}}]",
      step + "input: [" + Repeat("\"${\",", 120'000) + "]}]",
      input + Repeat("${", 450'000) + "\"}}]",
      input + Repeat("$", 900'001) + "{\"}}]",
      input + Repeat("${a} ", 180'000) + "${\"}}]",
      input + "${a" + Repeat("[1]", 300'000) + "\"}}]",
      step + "when: '${" + Repeat("a.", 450'000) + "'}]",
      step + "after: [" + Repeat("-, ", 250'000) + "]}]",
      "action: a\nphases: [" + Repeat("run, ", 180'000) + "]",
      "action: a\nuse: [" + Repeat("{name: }, ", 100'000) + "]",
      "action: a\nreplace: {" + keys + "}",
      "action: a\npoll: {intervals: [" + Repeat("0s, ", 200'000) + "]}",
      "action: a\nsubscribes_to: [" + Repeat("-, ", 250'000) + "]",
      "plan: p\nhooks: [" + Repeat("x, ", 250'000) + "]\nflow: []",
      "plan: p\nhooks: [{on: [" + Repeat("paused, ", 100'000) + "], action: a}]\nflow: []",
  };
  for (const std::string& text : texts) {
    CAPTURE(text.substr(0, 40));
    const auto begin = std::chrono::steady_clock::now();
    CHECK_FALSE(ParseDefinitions(text, "f").ok());
    CHECK_FALSE(FirstOfFlow(text).empty());
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(30));
  }
}

TEST_CASE("JSON with half characters, and what only looks like JSON") {
  CHECK(FirstOfFlow(R"([{"step":"a","action":"b","input":{"x":"\ud83d"}}])").find("not YAML") !=
        std::string::npos);
  CHECK(FirstOfFlow(R"([{"step":"a","action":"b","input":{"x":"\\ud83d\\ude00"}}])") == "");
  CHECK(FirstOfFlow(R"([{step: a, action: b, input: {x: '\ud83d\ude00'}}])") == "");
  CHECK(FirstOfFlow("[\"\\ud83d\\ude") != "");
  CHECK(FirstOfFlow(Repeat("[", 500'000) + "\"\\ud83d\\ude00\"") != "");
  CHECK(FirstOfFlow(Repeat("[", 500'000) + "\"\\u0041\"" + Repeat("]", 500'000)) != "");
}

// Plans with characters dropped, doubled and swapped: all are read or refused with a place.
TEST_CASE("mangled plans") {
  const std::string sound =
      "action: a\nphases: [run]\nretry: {limit: 3, delay: 1s}\npoll: {}\nuse: [{name: b}]\n"
      "with: {x: '${trigger.output[0]}'}\n---\nplan: p\nlabel: 'x ${params.n}'\n"
      "hooks: [{on: paused, action: m}]\nflow:\n  sequence:\n  - {step: s, action: a, input: "
      "{y: '${params.z}'}, when: '${params.w}', after: [t]}\n  - concurrence: {for_each: [1, 2], "
      "as: i, do: [{step: t, spawn: {plan: q, for_each: '${i}', concurrency: 2}}]}\n";
  CHECK(First(sound) == "");
  std::mt19937 random(7);
  for (int round = 0; round < 3'000; ++round) {
    std::string text = sound;
    for (int change = 0; change < 1 + round % 4; ++change) {
      const size_t at = random() % text.size();
      const size_t other = random() % text.size();
      switch (random() % 4) {
        case 0: text.erase(at, 1 + random() % 8); break;
        case 1: text.insert(at, text.substr(other, 1 + random() % 8)); break;
        case 2: std::swap(text[at], text[other]); break;
        default: text[at] = "{}[]:,'\"$&*-?|>%@#\n 0a"[random() % 23]; break;
      }
      if (text.empty()) text = "x";
    }
    CAPTURE(text);
    const Parsed parsed = ParseDefinitions(text, "f");
    for (const Diagnostic& diagnostic : parsed.diagnostics) {
      CHECK(diagnostic.line >= 1);
      CHECK_FALSE(diagnostic.message.empty());
    }
    for (const Machine& definition : parsed.definitions) {
      CHECK_FALSE(definition.id.empty());
    }
    FirstOfFlow(text);
  }
}

}  // namespace
}  // namespace dfsmr
