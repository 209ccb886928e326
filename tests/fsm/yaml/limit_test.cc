// The key `limit`, and documents of limits.
#include "fsm/when/limit.h"

#include <doctest/doctest.h>

#include "fsm/yaml/definitions.h"

namespace dfsmr {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kNodes =
    "nodes: {n: {start: true, transitions: {ok: z}}, z: {final: true}}\n";

Parsed Read(const std::string& text) { return ParseDefinitions(text, "f"); }
std::string ProblemsOf(const std::string& text) {
  std::string problems;
  for (const Diagnostic& one : Read(text).diagnostics) problems += Format(one) + "\n";
  return problems;
}
LimitAsks OfMachine(const std::string& limit) {
  const std::string text = "id: m\nlimit: " + limit + "\n" + std::string(kNodes);
  REQUIRE(ProblemsOf(text) == "");
  return Read(text).definitions.front().limits;
}
LimitSource OfDocument(const std::string& text) {
  REQUIRE(ProblemsOf(text) == "");
  const Parsed parsed = Read(text);
  return *std::get<std::shared_ptr<const LimitSource>>(parsed.documents.front().body);
}

TEST_CASE("what is wrong with a limit makes no definition doubtful") {
  const Parsed parsed = Read("limit: l\nmx: 3\n---\nid: m\n" + std::string(kNodes));
  CHECK(HasErrors(parsed.diagnostics));
  CHECK(parsed.unsound.empty());
}

TEST_CASE("a limit is a key, a map, or a list of them") {
  CHECK(OfMachine("k") == LimitAsks{{.key = "k"}});
  CHECK(OfMachine("\"env/${params.env}\"")[0].key == "env/${params.env}");
  CHECK(OfMachine("{key: k, max: 3, on_conflict: latest, waiting: 2}") ==
        LimitAsks{{.key = "k",
                   .numbers = {.max = 3, .rate = {}},
                   .on_conflict = OnConflict::kLatest,
                   .waiting = 2}});
  CHECK(OfMachine("{key: k, rate: 100/1m}")[0].numbers ==
        LimitNumbers{.max = {}, .rate = Rate{100, 60s, 1}});
  CHECK(OfMachine("{key: k, max: 0, rate: 1/2s, burst: 5}")[0].numbers ==
        LimitNumbers{.max = 0, .rate = Rate{1, 2s, 5}});
  CHECK(OfMachine("[a, {key: b, on_conflict: replace}]").size() == 2);
}

TEST_CASE("nodes, actions and steps have limits, too") {
  Parsed parsed = Read(
      "id: m\nnodes: {n: {start: true, limit: db, transitions: {ok: z}}, z: "
      "{final: true}}\n---\naction: x\nlimit: {key: k, on_conflict: skip}\n---\n"
      "plan: p\nlimit: q\nflow: [{step: s, action: x, limit: own}]\n");
  REQUIRE(parsed.ok());
  CHECK(parsed.definitions[0].nodes_ask);
  CHECK(parsed.definitions[0].nodes[0].settings->limits == LimitAsks{{.key = "db"}});
  CHECK(parsed.definitions[1].action()->limits->front().on_conflict == OnConflict::kSkip);
  CHECK(parsed.definitions[2].plan()->limits == LimitAsks{{.key = "q"}});
  CHECK(parsed.definitions[2].plan()->flow.children[0].own.limits->front().key == "own");
}

TEST_CASE("what is wrong with a limit is said where it stands") {
  const auto of = [](const std::string& limit) {
    return ProblemsOf("id: m\nlimit: " + limit + "\n" + std::string(kNodes));
  };
  CHECK(of("{max: 1}").find("f:2:1: limit: the limit has no 'key'") != std::string::npos);
  CHECK(of("{key: k, max: -1}").find("limit.max: expected a whole number from 0 to 1000000") !=
        std::string::npos);
  CHECK(of("{key: k, rate: 5}").find("such as 100/1m, not '5'") != std::string::npos);
  CHECK(of("{key: k, rate: 0/1m}").find("such as 100/1m") != std::string::npos);
  CHECK(of("{key: k, burst: 2}").find("'burst' stands beside 'rate'") != std::string::npos);
  CHECK(of("{key: k, on_conflict: never}")
            .find("expected fail, wait, skip, latest, cancel or "
                  "replace") != std::string::npos);
  CHECK(of("{key: k, on_conflict: skip, waiting: 1}")
            .find("'waiting' is for on_conflict wait and "
                  "latest") != std::string::npos);
  CHECK(of("[a, a]").find("limit[1]: key 'a' is there twice") != std::string::npos);
  CHECK(of("[]").find("expected up to 8 limits, not 0") != std::string::npos);
  CHECK(of("\"${node.output}\"").find("may refer to params and instance.id") != std::string::npos);
  CHECK(
      ProblemsOf("id: m\nnodes: {n: {start: true, limit: {key: k, on_conflict: skip}, transitions: "
                 "{ok: z}}, z: {final: true}}\n")
          .find("of nodes on_conflict is wait") != std::string::npos);
  CHECK(ProblemsOf("action: x\nlimit: {key: k, on_conflict: latest}\n")
            .find("of actions and steps on_conflict is wait, skip or fail") != std::string::npos);
  CHECK(ProblemsOf("plan: p\nlimit: k\nsingleton: l\nflow: [{step: a, action: x}]\n")
            .find("both 'limit' and 'singleton'") != std::string::npos);
  CHECK(ProblemsOf("action: x\nlimit: k\non_conflict: wait\n")
            .find("limit: {key: KEY, on_conflict: wait}") != std::string::npos);
}

TEST_CASE("a document of a limit governs its key and those below it, or a built-in one") {
  const LimitSource env =
      OfDocument("limit: env\nmax: 2\nkeys: {env/prod: {max: 1, rate: 1/1h}}\n");
  CHECK(env.root == "env");
  CHECK(env.numbers.max == 2);
  CHECK(env.keys.at("env/prod") == LimitNumbers{.max = 1, .rate = Rate{1, 3600s, 1}});
  const LimitSource mail = OfDocument("limit: mail\non: {queue: post}\nmax: 20\nrate: 100/1m\n");
  CHECK(mail.root == "queue:post");
  CHECK(mail.numbers.rate->count == 100);

  CHECK(ProblemsOf("limit: env\n").find("the limit has no number") != std::string::npos);
  CHECK(ProblemsOf("limit: env\non: {node: n}\nmax: 1\n") != "");
  CHECK(ProblemsOf("limit: env\non: {queue: a, action: b}\nmax: 1\n").find("expected one of") !=
        std::string::npos);
  CHECK(ProblemsOf("limit: env\nkeys: {other: {max: 1}}\n")
            .find("governs the keys env and env/…, not 'other'") != std::string::npos);
  CHECK(ProblemsOf("limit: env\non: {queue: q}\nmax: 1\nkeys: {env: {max: 1}}\n")
            .find("'keys' is for limits without 'on'") != std::string::npos);
}

TEST_CASE("a key that is written does not begin as a built-in one") {
  const auto refused = [](const std::string& written) {
    return ProblemsOf("id: m\n" + written + "\n" + std::string(kNodes)).find("built-in keys") !=
           std::string::npos;
  };
  for (const std::string prefix :
       {"queue:", "action:", "machine:", "namespace:", "group:", "schedule:", "trigger:"}) {
    CAPTURE(prefix);
    CHECK(refused("limit: \"" + prefix + "x\""));
    CHECK(refused("limit: {key: \"" + prefix + "${params.x}\"}"));
    CHECK(ProblemsOf("plan: p\nsingleton: \"" + prefix + "x\"\nflow: [{step: a, action: x}]\n")
              .find("built-in keys") != std::string::npos);
  }
  CHECK_FALSE(refused("limit: queue/x"));
  CHECK_FALSE(refused("limit: my-queue:x"));
}

TEST_CASE("reserved keys are refused in what is given, and accepted in what is stored") {
  const std::string nodes(kNodes);
  for (const std::string& text : {
           "id: m\nlimit: dfsmr.k\n" + nodes,
           "id: m\nlimit: [k, 'dfsmr.${params.q}']\n" + nodes,
           std::string("action: a\nsingleton: dfsmr.x\n"),
           std::string("plan: p\nsingleton: dfsmr.x\nflow: [{step: s, action: a}]\n"),
       }) {
    CAPTURE(text);
    CHECK(ProblemsOf(text).find("begins with dfsmr., which is reserved") != std::string::npos);
    CHECK(ParseStored(text).ok());
  }
  CHECK(ProblemsOf("id: m\nlimit: dfsmr/k\n" + nodes) == "");
}

TEST_CASE("built-in keys are refused in what is given, and accepted in what is stored") {
  const std::string nodes(kNodes);
  for (const std::string& text : {
           "id: m\nlimit: 'machine:m'\n" + nodes,
           "id: m\nlimit: [k, 'queue:${params.q}']\n" + nodes,
           std::string(
               "id: m\nnodes: {n: {start: true, limit: 'queue:q', transitions: {ok: z}}, z: "
               "{final: true}}\n"),
           std::string("action: a\nsingleton: 'namespace:x'\n"),
           std::string("action: a\nlimit: {key: 'action:a', on_conflict: skip}\n"),
           std::string("plan: p\nlimit: 'group:g'\nflow: []\n"),
           std::string("plan: p\nflow: [{step: s, action: a, limit: 'queue:q'}]\n"),
       }) {
    CAPTURE(text);
    CHECK(ProblemsOf(text).find("as the built-in keys do") != std::string::npos);
    const Parsed stored = ParseStored(text);
    CHECK(stored.ok());
    CHECK(stored.definitions.size() == 1);
  }
  CHECK_FALSE(ToFlow("[{step: s, action: a, limit: 'queue:q'}]"));
  CHECK(ToFlow("[{step: s, action: a, limit: 'queue:q'}]", TextOrigin::kStored));
  CHECK_FALSE(ParseStored("id: m\nlimit: ''\n" + nodes).ok());
}

}  // namespace
}  // namespace dfsmr
