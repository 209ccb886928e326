#include "fsm/yaml/definitions.h"

#include <doctest/doctest.h>

namespace dfsmr {
namespace {

using namespace std::chrono_literals;

// The diagnostics of a text, a line each.
std::string Told(std::string_view text) {
  std::string lines;
  for (const Diagnostic& diagnostic : ParseDefinitions(text, "f").diagnostics) {
    lines += Format(diagnostic) + "\n";
  }
  return lines;
}

Machine Read(std::string_view text) {
  Parsed parsed = ParseDefinitions(text, "f");
  REQUIRE_MESSAGE(parsed.diagnostics.empty(), Format(parsed.diagnostics.front()));
  REQUIRE(parsed.definitions.size() == 1);
  return std::move(parsed.definitions[0]);
}

const Node& NodeOf(const Machine& machine, std::string_view id) {
  NodeIndex index = machine.Find(id);
  REQUIRE(index != kNoNode);
  return machine.nodes[index];
}

// A sound machine around the keys of its work node `a`.
std::string WithNode(const std::string& keys) {
  return "id: m\nnodes:\n  a: {start: true, transitions: {ok: z}, " + keys +
         "}\n  z: {final: true}\n";
}

constexpr std::string_view kCrawler = R"(# Comments stay in the source.
id: crawler                     # letters, digits
description: Fetches one page and follows its links.
upgrade_strategy: upgrade
retention: 7d
params:
  type: object
  required: [url]
  properties: {url: {type: string}}
defaults:
  timeout_strategy: percentile
  timeout: 90.0
nodes:
  crawl:
    start: true
    transitions: {ok: success, error: cool_down}
  cool_down:
    delay: {initial: 1s, factor: 2, max: 5m}   # or delay: 30s
    max_visits: 5
    transitions: {ok: crawl, dfsmr.exhausted: failed}
  success:
    final: true
  failed:
    final: true
    result: error
)";

TEST_CASE("the machine of the manual") {
  Machine machine = Read(kCrawler);
  CHECK(machine.id == "crawler");
  CHECK(machine.description == "Fetches one page and follows its links.");
  CHECK(machine.upgrade_strategy == UpgradeStrategy::kUpgrade);
  CHECK(machine.retention == Duration(24h * 7));
  CHECK(machine.source == kCrawler);
  REQUIRE(machine.nodes.size() == 4);
  CHECK(machine.nodes[machine.start].id == "crawl");

  const Node& crawl = NodeOf(machine, "crawl");
  CHECK(crawl.kind == NodeKind::kWork);
  CHECK(crawl.settings->action == "crawler.crawl");
  CHECK(crawl.settings->queue == "default");
  CHECK(crawl.settings->timeout == TimeoutPolicy{.value = 90.0});
  CHECK(crawl.LegalTransitions() == "ok, error");

  const Node& cool_down = NodeOf(machine, "cool_down");
  CHECK(cool_down.kind == NodeKind::kDelay);
  CHECK(cool_down.settings->delay == DelayPolicy{.initial = 1s, .factor = 2, .max = 5min});
  CHECK(cool_down.settings->max_visits == 5);
  CHECK(NodeOf(machine, "success").result == Outcome::kSuccess);
  CHECK(NodeOf(machine, "failed").result == Outcome::kError);

  REQUIRE(machine.params);
  CHECK(machine.params->Violation(R"({"url": "http://example.org"})") == std::nullopt);
  CHECK(machine.params->Violation("{}") == "params: missing required 'url'");
}

TEST_CASE("a schema may be true, which all satisfy, or false, which nothing does") {
  const std::string rest = "\nnodes: {a: {start: true, final: true}}\n";
  CHECK(Read("id: m\nparams: true" + rest).params->Violation(R"({"a":1})") == std::nullopt);
  CHECK(Read("id: m\nparams: false" + rest).params->Violation("{}"));
}

TEST_CASE("the file of the original means the same") {
  Machine machine = Read(
      "id: crawler\n"
      "nodes:\n"
      "  crawl:\n"
      "    start: true\n"
      "    transitions:\n"
      "      ok: success\n"
      "      error: wait\n"
      "  wait:\n"
      "    transitions:\n"
      "      ok: crawl\n"
      "  success:\n"
      "    final: true\n");
  CHECK(machine.nodes.size() == 3);
  CHECK(NodeOf(machine, "wait").kind == NodeKind::kWork);
  CHECK(NodeOf(machine, "crawl").settings->timeout == TimeoutPolicy{});
  CHECK(machine.upgrade_strategy == UpgradeStrategy::kContinue);
  CHECK_FALSE(machine.retention);
  CHECK_FALSE(machine.params);
}

TEST_CASE("every key of a work node") {
  Machine machine = Read(WithNode(
      "timeout_strategy: fixed, timeout: 30.5, timeout_initial: 90s, timeout_min: 250ms, "
      "timeout_max: 2h, queue: slow, priority: -3, action: web.fetch, description: 'on: it'"));
  const Node& node = NodeOf(machine, "a");
  CHECK(node.settings->timeout == TimeoutPolicy{.strategy = TimeoutPolicy::Strategy::kFixed,
                                                .value = 30.5, .initial = 90s, .min = 250ms,
                                                .max = 2h});
  CHECK(node.settings->queue == "slow");
  CHECK(node.settings->priority == -3);
  CHECK(node.settings->action == "web.fetch");
  CHECK(node.settings->description == "on: it");
}

TEST_CASE("manual nodes, plain delays and flags that say no") {
  Machine machine = Read(
      "id: m\n"
      "nodes:\n"
      "  ask: {manual: true, final: false, start: true, transitions: {yes: rest, no: end}}\n"
      "  rest: {delay: 1.5s, manual: false, transitions: {ok: end}}\n"
      "  end: {final: True, result: warning}\n");
  CHECK(NodeOf(machine, "ask").kind == NodeKind::kManual);
  CHECK(NodeOf(machine, "rest").settings->delay == DelayPolicy{.initial = 1500ms});
  CHECK(NodeOf(machine, "end").result == Outcome::kWarning);
}

TEST_CASE("names are read as text") {
  Machine machine = Read(
      "id: 1e3\n"
      "nodes:\n"
      "  yes: {start: true, transitions: {on: null, no: 0x10, off: 'true'}}\n"
      "  null: {transitions: {ok: 0x10}}\n"
      "  0x10: {final: true}\n"
      "  true: {final: true}\n");
  CHECK(machine.id == "1e3");
  CHECK(NodeOf(machine, "yes").LegalTransitions() == "on, no, off");
  CHECK(NodeOf(machine, "yes").FindTransition("on")->targets[0] == machine.Find("null"));
  CHECK(machine.Find("true") != kNoNode);
}

TEST_CASE("defaults hold for work nodes that do not say otherwise") {
  Machine machine = Read(
      "id: m\n"
      "nodes:\n"
      "  a: {start: true, transitions: {ok: b}}\n"
      "  b: {timeout: 5, queue: fast, transitions: {ok: c}}\n"
      "  c: {delay: 1s, transitions: {ok: z}}\n"
      "  z: {final: true}\n"
      "defaults: {timeout_strategy: fixed, timeout: 30, queue: slow, priority: 7}\n");
  CHECK(NodeOf(machine, "a").settings->timeout.value == 30);
  CHECK(NodeOf(machine, "a").settings->queue == "slow");
  CHECK(NodeOf(machine, "b").settings->timeout.value == 5);
  CHECK(NodeOf(machine, "b").settings->timeout.strategy == TimeoutPolicy::Strategy::kFixed);
  CHECK(NodeOf(machine, "b").settings->queue == "fast");
  CHECK(NodeOf(machine, "b").settings->priority == 7);
  CHECK(NodeOf(machine, "c").settings->queue == "default");
}

TEST_CASE("timeout_min and timeout_max bound timeout_initial, and bend each other's default") {
  CHECK(NodeOf(Read(WithNode("timeout_max: 30s")), "a").settings->timeout.initial == 30s);
  CHECK(NodeOf(Read(WithNode("timeout_min: 2m")), "a").settings->timeout.initial == 2min);
  CHECK(NodeOf(Read(WithNode("timeout_max: 50ms")), "a").settings->timeout.min == 50ms);
  CHECK(NodeOf(Read(WithNode("timeout_min: 48h")), "a").settings->timeout.max == 48h);
  CHECK(NodeOf(Read(WithNode("timeout_initial: 1us")), "a").settings->timeout.initial == 100ms);
}

TEST_CASE("at most once under either strategy") {
  CHECK(NodeOf(Read(WithNode("timeout: 0.0")), "a").AtMostOnce());
  CHECK(NodeOf(Read(WithNode("timeout: 0, timeout_strategy: fixed")), "a").AtMostOnce());
}

TEST_CASE("anchors and aliases stand for what they refer to") {
  Machine machine = Read(
      "id: m\n"
      "description: &text hello\n"
      "nodes:\n"
      "  a: {start: true, transitions: &leads {ok: &end z, error: b}}\n"
      "  b: {transitions: *leads, description: *text}\n"
      "  *end : {final: true}\n");
  CHECK(NodeOf(machine, "b").LegalTransitions() == "ok, error");
  CHECK(NodeOf(machine, "b").settings->description == "hello");
  CHECK(NodeOf(machine, "z").kind == NodeKind::kFinal);
}

struct Row {
  std::string text;
  const char* told;
};

TEST_CASE("refused at define time, with line, column and path") {
  const Row rows[] = {
      {"id: m\nnodes: {a: {start: true, final: true}}\ncolour: 1\n",
       "f:3:1: colour: unknown key 'colour'; a machine has id, description, upgrade_strategy, "
       "retention, limit, params, defaults and nodes\n"},
      {"id: m\nnods: {a: {start: true, final: true}}\n",
       "f:2:1: nods: unknown key 'nods' (did you mean 'nodes'?)\n"},
      {"nodes: {a: {start: true, final: true}}\n",
       "f:1:1: id: the document has no 'id'; add 'id: NAME'\n"},
      {"id: m\n", "f:1:1: nodes: a machine needs at least one node, with 'start: true'\n"},
      {"id: [m]\nnodes: {a: {start: true, final: true}}\n",
       "f:1:1: id: expected a name for the machine, not a list\n"},
      {"id: dfsmr.m\nnodes: {a: {start: true, final: true}}\n",
       "f:1:5: id: machine name 'dfsmr.m' is reserved: names that start with 'dfsmr.' are the "
       "system's\n"},
      {"id: m\nnodes: [a]\n",
       "f:2:1: nodes: expected a map such as 'NAME: {transitions: {ok: NAME}}', not a list\n"},
      {"id: m\nnodes:\n  a: final\n",
       "f:3:6: nodes.a: expected a map such as {transitions: {ok: NODE}} or {final: true}, not "
       "'final'\n"},
      {"id: m\nupgrade_strategy: restart\nnodes: {a: {start: true, final: true}}\n",
       "f:2:19: upgrade_strategy: expected continue, upgrade or abort, not 'restart'\n"},
      {"id: m\nretention: 7\nnodes: {a: {start: true, final: true}}\n",
       "f:2:12: retention: '7' has no unit; write 7s for seconds, or another of us, ms, s, m, h, "
       "d\n"},
      {"id: m\nparams: {type: strin}\nnodes: {a: {start: true, final: true}}\n",
       "f:2:16: params.type: 'strin' is no type: 'type' must be array, boolean, integer, null, "
       "number, object or "
       "string, or a list of those (did you mean 'string'?)\n"},
      {"id: m\nparams: url\nnodes: {a: {start: true, final: true}}\n",
       "f:2:9: params: expected a JSON Schema, such as {type: object, required: [url]}, not "
       "'url'\n"},
      {"id: m\nparams:\n  items:\n  - {$ref: 'x.json'}\nnodes: {a: {start: true, final: true}}\n",
       "f:4:12: params.items.0.$ref: '$ref: x.json' is not local; only references into this "
       "schema, such as '#/definitions/NAME', are followed\n"},
      {"id: m\ndefaults: {start: true}\nnodes: {a: {start: true, final: true}}\n",
       "f:2:12: defaults.start: key 'start' cannot stand under 'defaults'; write it at the nodes "
       "that it is meant for\n"},
      {"id: m\ndefaults: {quue: x}\nnodes: {a: {start: true, final: true}}\n",
       "f:2:12: defaults.quue: unknown key 'quue' (did you mean 'queue'?)\n"},
      {"id: m\ndefaults: {timeout_min: 3s, timeout_max: 2s}\nnodes:\n  a: {start: true, "
       "transitions: {ok: b}}\n  b: {transitions: {ok: z}}\n  z: {final: true}\n",
       "f:2:25: defaults.timeout_min: timeout_min 3s is more than timeout_max 2s\n"},
      {"id: m\nnodes:\n  a: {start: true, transtions: {ok: z}}\n  z: {final: true}\n",
       "f:3:20: nodes.a.transtions: unknown key 'transtions' (did you mean 'transitions'?)\n"},
      {"id: m\nnodes:\n  a: {start: yes, transitions: {ok: z}}\n  z: {final: true}\n",
       "f:3:14: nodes.a.start: expected true or false, not 'yes'\n"},
      {"id: m\nnodes:\n  a: {start: true, transitions: {ok: [z, z]}}\n  z: {final: true}\n",
       "f:3:39: nodes.a.transitions.ok[0]: expected a choice such as {if: {value: "
       "\"${given.sum}\", "
       "greater: 10}, to: NODE}, or {to: NODE} as the last, not 'z'\n"
       "f:3:42: nodes.a.transitions.ok[1]: expected a choice such as {if: {value: "
       "\"${given.sum}\", "
       "greater: 10}, to: NODE}, or {to: NODE} as the last, not 'z'\n"},
      {"id: m\nnodes:\n  a:\n    start: true\n    transitions:\n      ok: z\n      error: zz\n"
       "  z: {final: true}\n",
       "f:7:14: nodes.a.transitions.error: there is no node 'zz' (did you mean 'z'?)\n"},
      {"id: m\nnodes:\n  a: {start: true, delay: 3s, manual: true, transitions: {ok: z}}\n"
       "  z: {final: true}\n",
       "f:3:3: nodes.a: node 'a' is of two kinds, by 'delay' and 'manual'; keep one of them\n"},
      {"id: m\nnodes:\n  a: {start: true, delay: 3s, timeout: 5, transitions: {ok: z}}\n"
       "  z: {final: true}\n",
       "f:3:31: nodes.a.timeout: key 'timeout' is for work nodes, and this is a delay node\n"},
      {WithNode("result: error"),
       "f:3:42: nodes.a.result: key 'result' is for final nodes, and this is a work node\n"},
      {WithNode("timeout: 100"),
       "f:3:51: nodes.a.timeout: a percentile lies between 0 and 100, both excluded (0.0: never "
       "timed out); for seconds add 'timeout_strategy: fixed'\n"},
      {WithNode("timeout: -1"), "f:3:51: nodes.a.timeout: timeout '-1' is negative\n"},
      {WithNode("timeout: 30s"),
       "f:3:51: nodes.a.timeout: '30s' has a unit; 'timeout' is a bare number, percent or (with "
       "'timeout_strategy: fixed') seconds\n"},
      {WithNode("timeout: nan"),
       "f:3:51: nodes.a.timeout: expected a bare number (percent, or seconds with "
       "'timeout_strategy: fixed'), not 'nan'\n"},
      {WithNode("timeout_strategy: fixed"),
       "f:3:60: nodes.a.timeout_strategy: 'timeout_strategy: fixed' needs a 'timeout' in "
       "seconds\n"},
      {WithNode("timeout_strategy: fixt, timeout: 5"),
       "f:3:60: nodes.a.timeout_strategy: expected percentile or fixed, not 'fixt' (did you mean "
       "'fixed'?)\n"},
      {WithNode("timeout_strategy: fixed, timeout: 1e10"),
       "f:3:76: nodes.a.timeout: at most 100 years (3155760000 seconds) are allowed\n"},
      {WithNode("timeout_min: 3m, timeout_max: 1m"),
       "f:3:55: nodes.a.timeout_min: timeout_min 3m is more than timeout_max 1m\n"},
      {WithNode("timeout_max: 0s"),
       "f:3:55: nodes.a.timeout_max: expected a duration above zero; 'timeout: 0.0' is what never "
       "times out\n"},
      {WithNode("timeout_max: -3s"),
       "f:3:55: nodes.a.timeout_max: '-3s' is negative; a duration cannot be\n"},
      {WithNode("timeout_max: 3 weeks"),
       "f:3:55: nodes.a.timeout_max: '3 weeks' has unit ' weeks', which is none of us, ms, s, m, "
       "h, d\n"},
      {WithNode("timeout_max: 99999d"),
       "f:3:55: nodes.a.timeout_max: '99999d' is too long; at most 100 years (36525d) are "
       "allowed\n"},
      {WithNode("queue: a b"),
       "f:3:49: nodes.a.queue: queue name 'a b' may only hold letters, digits, '.', '_' and '-'\n"},
      {WithNode("priority: 1.5"),
       "f:3:52: nodes.a.priority: expected a whole number from -2147483648 to 2147483647, not "
       "'1.5'\n"},
      {WithNode("max_visits: 0"),
       "f:3:54: nodes.a.max_visits: expected a whole number from 1 to 2147483647, not '0'\n"
       "f:3:54: nodes.a.max_visits: node 'a' has max_visits but no transition 'dfsmr.exhausted'; "
       "add 'dfsmr.exhausted: NODE' to say where the visits beyond 1 go\n"},
      {"id: m\nnodes:\n  a: {start: true, delay: {initial: 5s, max: 1s, factr: 2}, transitions: "
       "{ok: z}}\n  z: {final: true}\n",
       "f:3:20: nodes.a.delay: max 1s is less than initial 5s\n"
       "f:3:50: nodes.a.delay.factr: unknown key 'factr' (did you mean 'factor'?); a delay has "
       "initial, factor, max and jitter\n"},
      {"id: m\nnodes:\n  a: {start: true, delay: {initial: 5s, factor: 0.5, jitter: 2}, "
       "transitions: {ok: z}}\n  z: {final: true}\n",
       "f:3:49: nodes.a.delay.factor: factor '0.5' is less than 1\n"
       "f:3:62: nodes.a.delay.jitter: jitter '2' is not a share from 0 to 1\n"},
      {"id: m\nnodes:\n  a: {start: true, delay: , transitions: {ok: z}}\n  z: {final: true}\n",
       "f:3:20: nodes.a.delay: expected a duration such as 250ms, 30s, 5m, 2h, 7d, not nothing\n"},
      {"just text\n",
       "f:1:1: .: a document must be a map, such as 'id: NAME' and 'nodes:', not 'just text'\n"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(Told(row.text) == row.told);
    CHECK_FALSE(ParseDefinitions(row.text, "f").ok());
    CHECK(ParseDefinitions(row.text, "f").definitions.empty());
  }
}

TEST_CASE("a warning does not keep a machine from being defined") {
  Parsed parsed = ParseDefinitions("id: m\nnodes: {a: {start: true, transitions: {ok: a}}}", "f");
  CHECK(parsed.ok());
  CHECK(parsed.definitions.size() == 1);
  REQUIRE(parsed.diagnostics.size() == 1);
  CHECK(Format(parsed.diagnostics[0]) ==
        "f:2:1: nodes: warning: machine 'm' has no final node: its instances never stop by "
        "themselves");
}

TEST_CASE("a choice that is never taken is warned of") {
  const auto warnings = [](const std::string& choices) {
    const Parsed parsed =
        ParseDefinitions("id: m\nnodes:\n  a: {start: true, transitions: {ok: [" + choices +
                             "]}}\n  b: {final: true}\n",
                         "f");
    CHECK(parsed.ok());
    std::string all;
    for (const Diagnostic& one : parsed.diagnostics) all += Format(one) + "\n";
    return all;
  };
  const std::string sometimes = "{if: {value: 1, equals: 1}, to: b}";
  CHECK(warnings(sometimes + ", {to: b}") == "");
  CHECK(warnings("{to: b}") == "");
  CHECK(warnings("{to: b}, {to: a}, {to: b}") ==
        "f:3:48: nodes.a.transitions.ok[1]: warning: this choice is never taken: the one before it "
        "has no 'if'; add one there, or remove this\n");
}

TEST_CASE("columns count characters") {
  CHECK(Told("id: m\nnodes: {\"é\": {final: true}, a: {start: true, final: true, x: 1}}\n") ==
        "f:2:9: nodes.é: node name 'é' must start with a letter or digit\n"
        "f:2:9: nodes.é: no path leads from start node 'a' to node 'é'; lead a transition to it or "
        "remove it\n"
        "f:2:59: nodes.a.x: unknown key 'x'\n");
}

TEST_CASE("several documents: each has its own text, and all are reported on") {
  Parsed parsed = ParseDefinitions(
      "%YAML 1.2\n"
      "---\n"
      "id: a\n"
      "nodes: {x: {start: true, final: true}}  # its comment\n"
      "---\n"
      "# nothing\n"
      "--- # after the dashes\n"
      "id: b\n"
      "nodes: {x: {start: true, final: true}}\n"
      "...\n",
      "f");
  CHECK(parsed.diagnostics.empty());
  REQUIRE(parsed.definitions.size() == 2);
  CHECK(parsed.definitions[0].source ==
        "id: a\nnodes: {x: {start: true, final: true}}  # its comment\n");
  CHECK(parsed.definitions[1].source ==
        " # after the dashes\nid: b\nnodes: {x: {start: true, final: true}}\n");

  CHECK(Told("id: a\nnodes: [\n---\nid: b\nnodes: {x: {final: true}}\n---\n- c\n") ==
        "f:2:8: nodes[0]: not YAML: a '[' is not closed by ']', or a ',' is missing\n"
        "f:5:1: nodes: no start node; exactly one node needs 'start: true'\n"
        "f:7:1: .: a document must be a map, such as 'id: NAME' and 'nodes:', not a list\n");
}

TEST_CASE("the same id twice in one source is refused") {
  CHECK(Told("id: a\nnodes: {x: {start: true, final: true}}\n---\n"
             "id: 'a'\nnodes: {x: {start: true, final: true}}\n") ==
        "f:4:5: id: machine 'a' is defined twice here, first in line 1; keep one, or rename the "
        "other\n");
}

TEST_CASE("an empty source is refused") {
  for (const char* text : {"", "\n\n", "# comment\n", "---\n---\n...\n", "\xEF\xBB\xBF"}) {
    CAPTURE(text);
    CHECK(Told(text) == "f:1:1: .: the source is empty; it needs at least one document, such as a "
                        "machine with 'id' and 'nodes'\n");
  }
}

TEST_CASE("a fingerprint knows content from layout") {
  const std::string print = Read(WithNode("timeout: 95.0, queue: q")).fingerprint;
  const std::string same =
      "# comment\n"
      "nodes:\n"
      "  z:\n"
      "    final: true\n"
      "  'a':\n"
      "    queue: \"q\"\n"
      "    timeout: 95.0\n"
      "    transitions:\n"
      "      ok: z   # there\n"
      "    start: true\n"
      "id: m\n";
  CHECK(Read(same).fingerprint == print);
  CHECK(Read(WithNode("timeout: 95.0, queue: r")).fingerprint != print);
  CHECK(Read(WithNode("timeout: 95.0, queue: q, description: d")).fingerprint != print);
  CHECK(Read(WithNode("timeout: 90.0, queue: q")).fingerprint != print);
}

TEST_CASE("a stored source reads as the same machine") {
  Parsed parsed = ParseDefinitions(
      std::string("---\n") + std::string(kCrawler) + "\n--- {id: m, nodes: {a: {start: true, "
      "final: true}}}\n", "f");
  REQUIRE(parsed.definitions.size() == 2);
  for (const Machine& definition : parsed.definitions) {
    CHECK(Read(definition.source).fingerprint == definition.fingerprint);
  }
}

TEST_CASE("settings are one map of plain values") {
  std::vector<Diagnostic> diagnostics;
  std::vector<Setting> settings =
      ParseSettings("listen: :3004\ntoken: [a, b]\nmemory: true\n", "c", &diagnostics);
  CHECK(diagnostics.empty());
  REQUIRE(settings.size() == 4);
  CHECK(settings[0].key == "listen");
  CHECK(settings[0].value == ":3004");
  CHECK(settings[2].value == "b");
  CHECK(settings[3].at == Position{3, 1});

  CHECK(ParseSettings("", "c", &diagnostics).empty());
  CHECK(diagnostics.empty());
  ParseSettings("a: {b: c}\na: 1\n", "c", &diagnostics);
  REQUIRE(diagnostics.size() == 2);
  CHECK(Format(diagnostics[0]) ==
        "c:1:4: a: 'a' takes a plain value or a list of them, not a map");
  CHECK(Format(diagnostics[1]) ==
        "c:2:1: a: key 'a' is there twice, first in line 1; keep one of them");
}

}  // namespace
}  // namespace dfsmr
