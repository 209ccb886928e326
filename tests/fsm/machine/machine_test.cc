#include "fsm/machine/machine.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "fsm/base/names.h"

namespace dfsmr {
namespace {

using Edges = std::vector<std::pair<std::string, std::string>>;

NodeDraft Draft(std::string id, NodeKind kind, Edges edges, bool start = false) {
  NodeDraft draft;
  draft.node.id = std::move(id);
  draft.node.kind = kind;
  draft.node.start = start;
  draft.transitions = std::move(edges);
  return draft;
}
NodeDraft Work(std::string id, Edges edges, bool start = false) {
  return Draft(std::move(id), NodeKind::kWork, std::move(edges), start);
}
NodeDraft Final(std::string id) { return Draft(std::move(id), NodeKind::kFinal, {}); }

MachineDraft Drafts(std::vector<NodeDraft> nodes) {
  MachineDraft draft;
  draft.machine.id = "m";
  draft.nodes = std::move(nodes);
  return draft;
}

// "path: message" each, warnings marked.
std::vector<std::string> Problems(std::vector<NodeDraft> nodes) {
  std::vector<Problem> problems;
  Compile(Drafts(std::move(nodes)), &problems);
  std::vector<std::string> lines;
  for (const Problem& p : problems) {
    lines.push_back((p.error ? "" : "warning: ") + p.path + ": " + p.message);
  }
  return lines;
}

void CheckOnly(std::vector<NodeDraft> nodes, const std::string& line) {
  std::vector<std::string> lines = Problems(std::move(nodes));
  REQUIRE_MESSAGE(lines.size() == 1, "for ", line, ": ", lines.size(), " problems, the last ",
                  lines.empty() ? "" : lines.back());
  CHECK(lines[0] == line);
}

TEST_CASE("a sound machine is compiled to indexes, in document order") {
  std::vector<Problem> problems;
  Machine machine = Compile(
      Drafts({Work("crawl", {{"ok", "done"}, {"error", "crawl"}}, true), Final("done")}),
      &problems);
  CHECK(problems.empty());
  REQUIRE(machine.nodes.size() == 2);
  CHECK(machine.start == 0);
  CHECK(machine.Find("done") == 1);
  CHECK(machine.Find("gone") == kNoNode);
  const Node& crawl = machine.nodes[0];
  CHECK(crawl.LegalTransitions() == "ok, error");
  CHECK(crawl.settings->action == "m.crawl");
  CHECK(crawl.settings->queue == "default");
  REQUIRE(crawl.FindTransition("ok"));
  CHECK(crawl.FindTransition("ok")->targets == std::vector<NodeIndex>{1});
  CHECK(crawl.FindTransition("nope") == nullptr);
}

TEST_CASE("system transitions are found but nobody may name them") {
  std::vector<Problem> problems;
  NodeDraft crawl = Work("crawl", {{"ok", "done"}, {"dfsmr.timeout", "done"}}, true);
  Machine machine = Compile(Drafts({crawl, Final("done")}), &problems);
  CHECK(problems.empty());
  CHECK(machine.nodes[0].FindTransition(kTimeoutNode));
  CHECK(machine.nodes[0].LegalTransitions() == "ok");
}

TEST_CASE("a start node may be final") {
  NodeDraft only = Final("only");
  only.node.start = true;
  CHECK(Problems({only}).empty());
}

TEST_CASE("a machine without a final node is a warning") {
  CheckOnly({Work("loop", {{"ok", "loop"}}, true)},
            "warning: nodes: machine 'm' has no final node: its instances never stop by "
            "themselves");
}

TEST_CASE("exactly one start node") {
  CheckOnly({Work("a", {{"ok", "b"}}), Final("b")},
            "nodes: no start node; exactly one node needs 'start: true'");
  CheckOnly({Work("a", {{"ok", "b"}}, true), Work("c", {{"ok", "b"}}, true), Final("b")},
            "nodes.c.start: a second start node: 'a' is one already; keep 'start: true' on one of "
            "them");
  CheckOnly({}, "nodes: a machine needs at least one node, with 'start: true'");
}

TEST_CASE("a target that is not there is refused with the nearest one that is") {
  CheckOnly({Work("a", {{"ok", "succes"}}, true), Final("success")},
            "nodes.a.transitions.ok: there is no node 'succes' (did you mean 'success'?)");
  CheckOnly({Work("a", {{"ok", "elsewhere"}, {"error", "b"}}, true), Final("b")},
            "nodes.a.transitions.ok: there is no node 'elsewhere'; name one under 'nodes'");
  CheckOnly({Work("a", {{"ok", "dfsmr.aborted"}, {"error", "b"}}, true), Final("b")},
            "nodes.a.transitions.ok: there is no node 'dfsmr.aborted' to lead to: system nodes are "
            "only passed through, by the system");
}

TEST_CASE("every node leads on, is led to, and to an end") {
  CheckOnly({Work("a", {{"ok", "b"}, {"error", "c"}}, true), Work("c", {}), Final("b")},
            "nodes.c: node 'c' is neither final nor has a transition; add 'final: true' or "
            "'transitions: {ok: NODE}'");
  CheckOnly({Work("a", {{"ok", "b"}}, true), Final("b"), Work("lost", {{"ok", "b"}})},
            "nodes.lost: no path leads from start node 'a' to node 'lost'; lead a transition to it "
            "or remove it");
  CheckOnly({Work("a", {{"ok", "b"}, {"error", "c"}}, true), Work("c", {{"ok", "c"}}), Final("b")},
            "nodes.c: no final node can be reached from node 'c'; lead a transition towards one");
}

TEST_CASE("transitions that the system takes are paths too") {
  NodeDraft a = Work("a", {{"ok", "a"}, {"dfsmr.exhausted", "b"}}, true);
  a.settings.max_visits = 3;
  CHECK(Problems({a, Final("b")}).empty());
  CHECK(Problems({Work("a", {{"ok", "a"}, {"dfsmr.timeout", "b"}}, true), Final("b")}).empty());
}

TEST_CASE("what does not fit the kind of a node") {
  NodeDraft final = Draft("b", NodeKind::kFinal, {{"ok", "a"}});
  CheckOnly({Work("a", {{"ok", "b"}}, true), final},
            "nodes.b.transitions: node 'b' is final and has transitions; remove 'final' or the "
            "transitions");

  NodeDraft result = Work("a", {{"ok", "b"}}, true);
  result.result_given = true;
  CheckOnly({result, Final("b")},
            "nodes.a.result: 'result' is for final nodes; node 'a' is a work node");

  CheckOnly({Work("a", {{"ok", "d"}}, true),
             Draft("d", NodeKind::kDelay, {{"ok", "b"}, {"x", "b"}}), Final("b")},
            "nodes.d.transitions.x: delay node 'd' has transition 'x'; a delay takes 'ok' by "
            "itself and may list only 'ok' and 'dfsmr.exhausted'");

  NodeDraft delay = Draft("d", NodeKind::kDelay, {{"dfsmr.exhausted", "b"}});
  delay.settings.max_visits = 2;
  CheckOnly({Work("a", {{"ok", "d"}}, true), delay, Final("b")},
            "nodes.d.transitions: delay node 'd' has no transition 'ok', which it takes when its "
            "time is over; add 'ok: NODE'");
}

TEST_CASE("dfsmr.timeout stands on nodes that time out") {
  NodeDraft once = Work("a", {{"ok", "b"}, {"dfsmr.timeout", "b"}}, true);
  once.settings.timeout.value = 0.0;
  CheckOnly({once, Final("b")},
            "nodes.a.transitions.dfsmr.timeout: node 'a' never times out (timeout: 0.0); remove "
            "'dfsmr.timeout' or give it a timeout");
  const Edges edges = {{"ok", "b"}, {"dfsmr.timeout", "b"}};
  CheckOnly({Draft("a", NodeKind::kManual, edges, true), Final("b")},
            "nodes.a.transitions.dfsmr.timeout: only work nodes time out; node 'a' is a manual "
            "node: remove 'dfsmr.timeout'");
  CheckOnly({Draft("a", NodeKind::kDelay, edges, true), Final("b")},
            "nodes.a.transitions.dfsmr.timeout: only work nodes time out; node 'a' is a delay "
            "node: remove 'dfsmr.timeout'");
}

TEST_CASE("max_visits and dfsmr.exhausted need each other") {
  NodeDraft limited = Work("a", {{"ok", "b"}}, true);
  limited.settings.max_visits = 2;
  CheckOnly({limited, Final("b")},
            "nodes.a.max_visits: node 'a' has max_visits but no transition 'dfsmr.exhausted'; add "
            "'dfsmr.exhausted: NODE' to say where the visits beyond 2 go");
  CheckOnly({Work("a", {{"ok", "b"}, {"dfsmr.exhausted", "b"}}, true), Final("b")},
            "nodes.a.transitions.dfsmr.exhausted: node 'a' has a transition 'dfsmr.exhausted' but "
            "no max_visits; add 'max_visits: N' or remove the transition");
}

TEST_CASE("diversions must come to rest") {
  NodeDraft a = Work("a", {{"ok", "end"}, {"dfsmr.exhausted", "b"}}, true);
  NodeDraft b = Work("b", {{"ok", "end"}, {"dfsmr.exhausted", "a"}});
  a.settings.max_visits = b.settings.max_visits = 2;
  CheckOnly({a, b, Final("end")},
            "nodes.a.transitions.dfsmr.exhausted: 'dfsmr.exhausted' leads from node 'a' back to "
            "itself, through such transitions alone; an instance would come to rest nowhere: lead "
            "one of them to a node without max_visits");
  b.transitions[1].second = "end";
  CHECK(Problems({a, b, Final("end")}).empty());
}

TEST_CASE("names are valid and not reserved") {
  CheckOnly({Work("a", {{"dfsmr.upgraded", "b"}}, true), Final("b")},
            "nodes.a.transitions.dfsmr.upgraded: transition name 'dfsmr.upgraded' is reserved: "
            "names that start with 'dfsmr.' are the system's; of those a machine may list "
            "'dfsmr.timeout' and 'dfsmr.exhausted'");
  CheckOnly({Work("a", {{"ok", "b c"}}, true), Final("b c")},
            "nodes.b c: node name 'b c' may only hold letters, digits, '.', '_' and '-'");
  CheckOnly({Work("dfsmr.x", {{"ok", "b"}}, true), Final("b")},
            "nodes.dfsmr.x: node name 'dfsmr.x' is reserved: names that start with 'dfsmr.' are "
            "the system's");
  CHECK(Problems({Work("a", {{"ok", "b"}}, true), Final("b"), Final("b")}).front() ==
        "nodes.b: node 'b' is there twice; ids must differ");
}

TEST_CASE("all problems are told at once") {
  NodeDraft delay = Draft("d", NodeKind::kDelay, {{"retry", "b"}});
  std::vector<std::string> lines =
      Problems({Work("a", {{"ok", "x"}, {"error", "d"}}, true), delay, Final("b"), Work("c", {})});
  CHECK(lines.size() == 5);  // x, retry, no ok, c leads nowhere, c is not reached
}

TEST_CASE("ten thousand nodes in a row are walked without recursion") {
  std::vector<NodeDraft> nodes;
  for (int i = 0; i < 9'999; ++i) {
    nodes.push_back(Work("n" + std::to_string(i), {{"ok", "n" + std::to_string(i + 1)}}, i == 0));
  }
  nodes.push_back(Final("n9999"));
  CHECK(Problems(nodes).empty());
  nodes.push_back(Final("more"));
  CheckOnly(nodes, "nodes: the machine has 10001 nodes; at most 10000 are allowed");
}

TEST_CASE("names") {
  CHECK(ValidName("yes"));
  CHECK(ValidName("1e3"));
  CHECK(ValidName("a.b_c-d"));
  CHECK(ValidName(std::string(128, 'a')));
  CHECK_FALSE(ValidName(std::string(129, 'a')));
  for (const char* bad : {"", ".a", "_a", "-a", "a b", "a/b", "é", "a\n"}) {
    CAPTURE(bad);
    CHECK_FALSE(ValidName(bad));
  }
  CHECK(ReservedName("dfsmr.x"));
  CHECK_FALSE(ReservedName("dfsmr"));
}

TEST_CASE("ids of instances, workers and clients") {
  CHECK(ValidInstanceId("a/b/0!~"));
  CHECK(ValidInstanceId(std::string(256, 'x')));
  for (const std::string& bad : {std::string(), std::string(257, 'x'), std::string("a b"),
                                 std::string("é"), std::string("a\x7F")}) {
    CAPTURE(bad);
    CHECK_FALSE(ValidInstanceId(bad));
  }
  CHECK(ValidWorkerName("Zoë's host 1"));
  for (const std::string& bad : {std::string(), std::string(257, 'x'), std::string("a\nb"),
                                 std::string("\xFF"), std::string("\xC2\x9B")}) {
    CAPTURE(bad);
    CHECK_FALSE(ValidWorkerName(bad));
  }
}

TEST_CASE("the nearest known word, when one is near") {
  auto nearest = [](std::string_view word) {
    static constexpr std::string_view kKnown[] = {"transitions", "timeout", "ok"};
    return Hint(word, kKnown);
  };
  CHECK(nearest("transtions") == " (did you mean 'transitions'?)");
  CHECK(nearest("tiemout") == " (did you mean 'timeout'?)");
  CHECK(nearest("ko") == " (did you mean 'ok'?)");
  CHECK(nearest("colour") == "");
  CHECK(nearest("") == "");
  CHECK(EditDistance("kitten", "sitting", 5) == 3);
  CHECK(EditDistance("kitten", "sitting", 2) == 3);
  CHECK(EditDistance("ab", "ba", 2) == 1);
}

}  // namespace
}  // namespace dfsmr
