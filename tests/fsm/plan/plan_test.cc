#include "fsm/plan/compile.h"

#include <doctest/doctest.h>

#include <random>

#include "tests/fsm/plan/plans.h"

namespace dfsmr {
namespace {

FlowNode MachineFlow() {
  return Par({Act("disk", R"({"name": "${params.name}"})"),
              Act("vm", R"({"disk": "${disk.output.path}", "name": "${params.name}"})"),
              Act("hosts", R"({"ip": "${vm.output.ip}"})"),
              Act("cfg", R"({"ip": "${vm.output.ip}"})", {"hosts"})});
}

TEST_CASE("flows compile to the edges they must") {
  CHECK(Least(*GraphOf(Par({Seq({Par({Act("ci"), Act("r1"), Act("r2")}),
                                 Reads("merge", {"ci.output", "r1.output", "r2.output"})})}))) ==
        Names{"ci>merge", "r1>merge", "r2>merge"});
  CHECK(Least(*GraphOf(Par({Seq({Act("a0"), Act("a1"), Act("a2")}), Reads("x", {"a2.output"}),
                            Act("y")}))) == Names{"a0>a1", "a1>a2", "a2>x"});
  CHECK(Least(*GraphOf(Par({Seq({Par({Act("a"), Act("b")}), Par({Act("c"), Act("d")})})}))) ==
        Names{"a>c", "a>d", "b>c", "b>d"});
  CHECK(Least(*GraphOf(Par({Act("disk"), Reads("vm", {"disk.output"}),
                            Reads("hosts", {"vm.output"}), Reads("cfg", {"vm.output"})}))) ==
        Names{"disk>vm", "vm>cfg", "vm>hosts"});
  CHECK(Least(*GraphOf(Par({Act("a"), Act("b"), Reads("c", {"a.output"}), Reads("d", {"b.output"}),
                            Reads("e", {"a.output"})}))) == Names{"a>c", "a>e", "b>d"});
  Compiled plan(Par({Act("a"), Nested("P", "inner", R"({"x": "${a.output}"})")}), nullptr);
  plan.With(PlanOf("inner", Par({Act("p1"), Act("p2", R"({"x": "${params.x}"})")})));
  CHECK(Least(*plan.Graph()) == Names{"a>P.p2"});
}

TEST_CASE("the plan of the manual") {
  auto graph = GraphOf(MachineFlow());
  CHECK(Edges(*graph) == Names{"disk>vm", "hosts>cfg", "vm>cfg", "vm>hosts"});
  CHECK(graph->steps[0].input == R"({"name": "${params.name}"})");
  CHECK(graph->steps[1].input == R"({"disk": "${#0.output.path}", "name": "${params.name}"})");
  CHECK(graph->steps[1].readers == std::vector<uint32_t>{2, 3});
  CHECK(!graph->depends_on_params);
  CHECK(!graph->planning);

  SpawnSource fleet{.machine = "machine", .items = R"("${params.fleet}")", .as = "h",
                    .input = R"({"name": "${h}"})", .concurrency = 20};
  FlowNode flow = Seq({ForEach(R"("${params.hosts}")", "host",
                               Nested("node", "machine", R"({"name": "${host}"})")),
                       Nested("web", "machine", R"({"name": "web"})"), SpawnOf("fleet", fleet)});
  Compiled infra(flow, R"({"hosts": ["a", "b"]})");
  graph = infra.With(PlanOf("machine", MachineFlow())).Graph();
  CHECK(Paths(*graph) == Names{"node.0.disk", "node.0.vm", "node.0.hosts", "node.0.cfg",
                               "node.1.disk", "node.1.vm", "node.1.hosts", "node.1.cfg",
                               "web.disk", "web.vm", "web.hosts", "web.cfg", "fleet"});
  CHECK(StepOf(*graph, "node.1.disk").input == R"({"name": "b"})");
  CHECK(StepOf(*graph, "node.1.disk").of == "node.disk");
  CHECK(StepOf(*graph, "web.vm").input == R"({"disk": "${#8.output.path}", "name": "web"})");
  CHECK(Gates(*graph).empty());
  const Names edges = Edges(*graph);
  for (std::string edge : {"node.0.cfg>web.disk", "node.1.cfg>web.disk", "web.cfg>fleet"}) {
    CHECK(std::ranges::find(edges, edge) != edges.end());
  }
  CHECK(edges.size() == 3 * 4 + 3);
  CHECK(graph->actions.size() == 2);  // act, and none of the spawn
  REQUIRE(graph->spawns.size() == 1);
  const Spawn& spawn = graph->spawns.at(12);
  CHECK(spawn.machine == "machine");
  CHECK(*spawn.items == R"("${params.fleet}")");
  CHECK(spawn.input == R"({"name": "${h}"})");
  CHECK(spawn.concurrency == 20);
  CHECK(graph->depends_on_params);
}

TEST_CASE("templates of a for_each have no number while the plan is only defined") {
  FlowNode flow = Par({ForEach(R"("${params.hosts}")", "host",
                               Nested("node", "machine", R"({"name": "${host.name}"})")),
                       Reads("all", {"node.output", "node.3.disk.output.path"})});
  Compiled plan(flow, nullptr);
  auto graph = plan.With(PlanOf("machine", MachineFlow())).Graph();
  CHECK(Paths(*graph) == Names{"node.disk", "node.vm", "node.hosts", "node.cfg", "all"});
  CHECK(StepOf(*graph, "node.disk").input == R"({"name": "${host.name}"})");
  CHECK(StepOf(*graph, "all").input ==
        R"({"0":"${@0.output}","1":"${#0.output.path}"})");
  CHECK(graph->depends_on_params);
}

TEST_CASE("between many and many stands one gate") {
  auto graph = GraphOf(Seq({Par({Act("a"), Act("b"), Act("c")}), Par({Act("d"), Act("e")})}));
  CHECK(Edges(*graph) == Names{"a>d/gate", "b>d/gate", "c>d/gate", "d/gate>d", "d/gate>e"});
  graph = GraphOf(Seq({Par({Act("a"), Act("b")}), Act("c"), Par({Act("d"), Act("e")})}));
  CHECK(Edges(*graph) == Names{"a>c", "b>c", "c>d", "c>e"});
  // A second one in front of the same step has a number.
  graph = GraphOf(
      Par({Seq({Par({Act("a"), Act("b")}), After({"x", "y"}, Par({Act("c"), Act("d")}))}),
           Act("x"), Act("y"), After({"a", "b", "x", "y"}, Act("z"))}));
  CHECK(Edges(*graph) == Names{"a>c/gate", "a>z", "b>c/gate", "b>z", "c/gate>c", "c/gate>d",
                               "x>c/gate", "x>z", "y>c/gate", "y>z"});
  graph = GraphOf(Par({ForEach("[1,2]", "i", Act("g")), ForEach("[1,2]", "i", Act("h")),
                       Reads("x", {"g.output", "h.output"}), Act("y", "{}", {"g"}),
                       Act("z", "{}", {"h"})}), "{}");
  CHECK(Gates(*graph) == Names{"x/gate", "x/gate.2"});
}

TEST_CASE("many that wait for a group share one gate") {
  std::vector<FlowNode> steps = {ForEach(R"("${params.n}")", "i", Act("g"))};
  for (int i = 0; i < 40; ++i) {
    steps.push_back(i % 2 == 0 ? Reads("r" + std::to_string(i), {"g.output"})
                               : Act("r" + std::to_string(i), "{}", {"g"}));
  }
  std::string items = "[0";
  for (int i = 1; i < 30; ++i) items += "," + std::to_string(i);
  auto graph = GraphOf(Par(std::move(steps)), ("{\"n\": " + items + "]}").c_str());
  CHECK(Gates(*graph).size() == 1);
  CHECK(EdgeCount(*graph) == 30 + 40);
  REQUIRE(graph->groups.size() == 1);
  CHECK(graph->groups[0].list);
  CHECK(graph->groups[0].members.size() == 30);
  CHECK(graph->groups[0].readers.size() == 20);
  CHECK(graph->steps[7].readers.empty());
  CHECK(ReadersOf(*graph, 7).size() == 20);
  CHECK(ReadersOf(*graph, 35).empty());
}

TEST_CASE("a group's output has the shape of its plan") {
  FlowNode flow = Par({ForEach("[[1,2],[3]]", "row",
                               ForEach(R"("${row}")", "cell", Nested("n", "inner"))),
                       Reads("r", {"n.output", "n.1.output", "n.1.0.output.a", "n.0.1.a.output"})});
  Compiled plan(flow, "{}");
  auto graph = plan.With(PlanOf("inner", Par({Act("a"), Act("b")}))).Graph();
  CHECK(Paths(*graph) ==
        Names{"n.0.0.a", "n.0.0.b", "n.0.1.a", "n.0.1.b", "n.1.0.a", "n.1.0.b", "r"});
  REQUIRE(graph->groups.size() == 6);
  CHECK(graph->groups[0].list);
  CHECK(graph->groups[0].members.size() == 2);
  const Group& row = graph->groups[graph->groups[0].members[0].index];
  const Group& inner = graph->groups[row.members[1].index];
  CHECK(!inner.list);
  REQUIRE(inner.members.size() == 2);
  CHECK(inner.members[1].name == "b");
  CHECK(!inner.members[1].group);
  CHECK(graph->steps[inner.members[1].index].path == "n.0.1.b");
  for (uint32_t i = 0; i < 6; ++i) CHECK(ReadersOf(*graph, i) == std::vector<uint32_t>{6});
  const std::string& input = graph->steps[6].input;
  CHECK(input.find("\"0\":\"${@0.output}\"") != std::string::npos);
  CHECK(input.find(".output.a}\"") != std::string::npos);
  CHECK(input.find("\"3\":\"${#2.output}\"") != std::string::npos);
  CHECK(Gates(*graph).size() <= 2);
}

TEST_CASE("in a for_each, names mean those of the same iteration") {
  FlowNode body = Par({Act("a"), Reads("b", {"a.output", "i"}), Act("c", "{}", {"b"})});
  auto graph = GraphOf(Par({ForEach(R"("${params.n}")", "i", body), Act("d", "{}", {"b"})}),
                       R"({"n": ["x$${", {"k": 1.0}]})");
  CHECK(Least(*graph) == Names{"a.0>b.0", "a.1>b.1", "b.0>c.0", "b.0>d", "b.1>c.1", "b.1>d"});
  CHECK(StepOf(*graph, "b.1").input == R"({"0":"${#3.output}","1":{"k": 1.0}})");
  CHECK(StepOf(*graph, "b.0").input == R"({"0":"${#0.output}","1":"x$$$${"})");
  // Unless it says sequence, also inside of one, the items are concurrent.
  FlowNode each = ForEach("[1,2,3]", "i", Act("s"));
  CHECK(Edges(*GraphOf(Seq({each, Act("t")}), "{}")) == Names{"s.0>t", "s.1>t", "s.2>t"});
  each.sequential = true;
  CHECK(Edges(*GraphOf(Seq({each, Act("t")}), "{}")) == Names{"s.0>s.1", "s.1>s.2", "s.2>t"});
}

TEST_CASE("what is empty or left out keeps the order on both sides") {
  CHECK(Edges(*GraphOf(Seq({Act("a"), Par({}), Seq({Par({})}), Act("b")}))) == Names{"a>b"});
  CHECK(Edges(*GraphOf(Seq({Act("a"), ForEach("[]", "i", Act("g")), Act("b")}), "{}")) ==
        Names{"a>b"});
  CHECK(Edges(*GraphOf(Par({Seq({Act("a"), ForEach("[]", "i", Act("g"))}), Act("b", "{}", {"g"})}),
                       "{}")) == Names{"a>b"});
  CHECK(Edges(*GraphOf(Par({Act("x"), Seq({After({"x"}, Par({})), Act("b")})}))) == Names{"x>b"});
}

TEST_CASE("what `when` leaves out has output null, and its names as well") {
  FlowNode flow = Par({When(R"("${params.on}")", Act("a")), Reads("b", {"a.output"}),
                       When(R"("${params.on}")", Nested("n", "inner", "{}", {"b"})),
                       Reads("c", {"n.x.output", "n.output"}),
                       When("false", Par({Act("d"), ForEach("[1]", "i", Act("e"))})),
                       Reads("f", {"e.output", "e.0.output"})});
  Compiled off(flow, R"({"on": false})");
  auto graph = off.With(PlanOf("inner", Par({Act("x"), Act("y")}))).Graph();
  CHECK(Paths(*graph) == Names{"a", "b", "n", "c", "d", "e", "f"});
  for (std::string path : {"a", "n", "d", "e"}) {
    CHECK(StepOf(*graph, path).left_out);
    CHECK(StepOf(*graph, path).kind == Step::Kind::kPass);
  }
  CHECK(StepOf(*graph, "c").input == R"({"0":"${#2.output}","1":"${#2.output}"})");
  CHECK(Edges(*graph) == Names{"a>b", "b>n", "e>f", "n>c"});
  CHECK(graph->depends_on_params);

  graph = off.Params(R"({"on": true})").Graph();
  CHECK(Paths(*graph) == Names{"a", "b", "n.x", "n.y", "c", "d", "e", "f"});
  CHECK(!StepOf(*graph, "a").left_out);

  Compiled defined(flow, nullptr);
  graph = defined.With(PlanOf("inner", Par({Act("x"), Act("y")}))).Graph();
  CHECK(std::ranges::none_of(graph->steps, &Step::left_out));
}

// What is said of a reference in the input of step b, beside step disk.
std::string SaidOf(std::string reference) {
  std::string line = ProblemsOf(Par({Act("disk"), Reads("b", {reference})}));
  const std::string where = "b.input: '${" + reference + "}'";
  CHECK(line.starts_with(where));
  return line.substr(std::min(line.size(), where.size()));
}

TEST_CASE("references that mean nothing are refused") {
  CHECK(SaidOf("disc.output") == ": there is no step 'disc' (did you mean 'disk'?)\n");
  CHECK(SaidOf("disk") ==
        ": of step 'disk' only the output can be referred to, as in '${disk.output}'\n");
  CHECK(SaidOf("disk.ouput.a") ==
        ": of step 'disk' only the output can be referred to, as in '${disk.output}'\n");
  CHECK(SaidOf("b.output") == " is the step's own output\n");
  CHECK(SaidOf("param.x") == ": there is no step 'param.x' (did you mean 'params'?)\n");
  CHECK(SaidOf("instance.name") == ": of the instance there is only '${instance.id}'\n");
  CHECK(SaidOf("trigger.output") ==
        ": a trigger is there only in 'with' of an action that subscribes\n");
  CHECK(SaidOf("a b").starts_with(" is no reference"));
  CHECK(ProblemsOf(Act("a", R"("${x")")).starts_with("a.input: '${x' is not closed"));
  CHECK(ProblemsOf(Par({Act("disk"), Act("b", "{}", {"disc"})})) ==
        "b.after: there is no step 'disc' (did you mean 'disk'?)\n");
  // All of them at once.
  CHECK(ProblemsOf(Par({Reads("a", {"x.output", "y.output"}), Act("b", "{}", {"z"})})) ==
        "a.input: '${x.output}': there is no step 'x'\n"
        "a.input: '${y.output}': there is no step 'y'\n"
        "b.after: there is no step 'z'\n");
}

TEST_CASE("cycles are refused with their path") {
  CHECK(ProblemsOf(Par({Reads("a", {"c.output"}), Reads("b", {"a.output"}),
                        Act("c", "{}", {"b"}), Act("d", "{}", {"c"})})) ==
        "a: a cycle of steps that wait for each other: a → b → c → a\n");
  CHECK(ProblemsOf(Seq({Reads("a", {"b.output"}), Act("b")})) ==
        "a: a cycle of steps that wait for each other: a → b → a\n");
  CHECK(ProblemsOf(Act("a", "{}", {"a"})) == "a: a cycle of steps that wait for each other: a → a\n");
  CHECK(Compiled(Par({Nested("n", "inner", R"({"x": "${n.output}"})")}), nullptr)
            .With(PlanOf("inner", Par({Act("x", R"("${params.x}")"), Act("y")})))
            .Problems() == "n: plan 'inner', x: a cycle of steps that wait for each other: n.x → n.x\n");
}

TEST_CASE("plans that hold each other are refused") {
  CHECK(Compiled(Nested("x", "p"), nullptr).Problems() ==
        "x.plan: plans hold each other: p → p\n");
  CHECK(Compiled(Nested("x", "q"), nullptr)
            .With(PlanOf("q", Seq({Nested("y", "r")})))
            .With(PlanOf("r", Seq({Nested("z", "q")})))
            .Problems() == "x: plan 'r', z.plan: plans hold each other: q → r → q\n");
  CHECK(Compiled(Nested("x", "gone"), nullptr).Problems() == "x.plan: there is no plan 'gone'\n");
  CHECK(Compiled(Nested("x", "act"), nullptr).With(ActionOf("act")).Problems() ==
        "x.plan: there is no plan 'act'; it is an action: write 'action:'\n");
  SpawnSource gone{.machine = "gone"}, self{.machine = "p"}, machine{.machine = "m"};
  CHECK(ProblemsOf(SpawnOf("s", gone)) ==
        "s.spawn: there is no plan, machine or action 'gone'\n");
  CHECK(GraphOf(SpawnOf("s", self)));
  CHECK(Compiled(SpawnOf("s", machine), nullptr).WithMachine("m").Graph());
}

TEST_CASE("names are checked within a plan") {
  CHECK(ProblemsOf(Par({Act("a"), Seq({ForEach("[1]", "i", Act("a"))})})) ==
        "a.step: there is a step 'a' already; names must differ within a plan\n");
  CHECK(ProblemsOf(Act("a/b")).starts_with("a/b.step: step name 'a/b' may only hold letters"));
  CHECK(Compiled(Par({Nested("a", "inner"), Act("a.x")}), nullptr)
            .With(PlanOf("inner", Act("x")))
            .Problems() == "a.x: there are two steps 'a.x'\n");
  CHECK(ProblemsOf(ForEach("[1]", "params", Act("a"))).starts_with("for_each.as: 'params' cannot"));
  FlowNode deep = Nested("x", "q0");
  Compiled plan(deep, nullptr);
  for (int i = 0; i < 20; ++i) {
    plan.With(PlanOf("q" + std::to_string(i),
                     Nested("a-rather-long-name-of-a-step", "q" + std::to_string(i + 1))));
  }
  CHECK(plan.Problems().find("is longer than 256 characters") != std::string::npos);
}

TEST_CASE("`when` and for_each want what is known when the instance is planned") {
  CHECK(ProblemsOf(When(R"("${params.on}")", Act("a")), R"({"on": "yes"})") ==
        "a.when: 'when' wants true or false; this is a string\n");
  CHECK(ProblemsOf(When(R"("${params.on}")", Act("a")), "{}") ==
        "a.when: there is no '${params.on}'\n");
  CHECK(ProblemsOf(ForEach(R"("${params.n}")", "i", Act("a")), R"({"n": 3})") ==
        "for_each.for_each: 'for_each' wants a list; this is a number\n");
  CHECK(ProblemsOf(ForEach(R"("${params.n}")", "i", Act("a")), "{}") ==
        "for_each.for_each: there is no '${params.n}'\n");
  const std::string unknown =
      "'${b.output}' is not known when the instance is planned: only params, 'instance.id' and the "
      "items of a for_each around are\n";
  for (const char* params : {static_cast<const char*>(nullptr), "{}"}) {
    CHECK(ProblemsOf(Par({When(R"("${b.output}")", Act("a")), Act("b")}), params) ==
          "a.when: " + unknown);
    CHECK(ProblemsOf(Par({ForEach(R"("${b.output}")", "i", Act("a")), Act("b")}), params) ==
          "for_each.for_each: " + unknown);
  }
  auto graph = GraphOf(ForEach(R"([1,"${instance.id}"])", "i",
                               When(R"("${params.on}")", Act("a", R"("${i}")"))),
                       R"({"on": true})");
  CHECK(graph->steps[1].input == R"("i-1")");
}

// Params that must be {"name": …}.
class WantsName : public ParamsCheck {
 public:
  std::optional<std::string> Violation(std::string_view json) const override {
    if (json.find("\"name\"") != std::string_view::npos) return std::nullopt;
    return "'name' is missing";
  }
};

TEST_CASE("the params of a nested plan are its step's input") {
  PlanSource inner =
      PlanOf("inner", Par({Act("x", R"({"a": "${params.name}", "b": "-${params.l[1]}-"})"),
                           Act("y", R"("${params.late.z}")")}));
  inner.params.check = std::make_shared<WantsName>();
  Compiled good(Par({Act("a"), Nested("n", "inner",
                                      R"({"name": "${params.n}", "l": [0, "${a.output.k}"],)"
                                      R"( "late": "${a.output}", "unused": "${a.output}"})")}),
                nullptr);
  auto graph = good.With(inner).Graph();
  CHECK(StepOf(*graph, "n.x").input == R"({"a": "${params.n}", "b": "-${#0.output.k}-"})");
  CHECK(StepOf(*graph, "n.y").input == R"("${#0.output.z}")");

  // What its input never gives.
  CHECK(Compiled(Par({Nested("n", "inner", R"({"name": "x", "late": {"y": 1}})")}), "{}")
            .With(inner)
            .Problems() ==
        "n: plan 'inner', x.input: '${params.l[1]}': the input of step 'n' has none\n"
        "n: plan 'inner', y.input: '${params.late.z}': the input of step 'n' has none\n");
  // What does not fit, as soon as it is known.
  PlanSource simple = PlanOf("inner", Act("x"));
  simple.params.check = std::make_shared<WantsName>();
  CHECK(Compiled(Nested("n", "inner"), nullptr).With(simple).Problems() ==
        "n.input: it does not fit the params of plan 'inner': 'name' is missing\n");
  Compiled later(Nested("n", "inner", R"("${params.host}")"), nullptr);
  CHECK(later.With(simple).Graph()->depends_on_params);
  CHECK(later.Params(R"({"host": {"name": 1}})").Graph());
  CHECK(later.Params(R"({"host": {}})").Problems().find("'name' is missing") != std::string::npos);
  // What is wrong with an input is said though no step uses it.
  CHECK(Compiled(Nested("n", "inner", R"({"name": "${gone.output}"})"), nullptr)
            .With(simple)
            .Problems() == "n.input: '${gone.output}': there is no step 'gone'\n");
}

TEST_CASE("what an item lacks is left to fail by name") {
  auto graph = GraphOf(ForEach(R"("${params.n}")", "i", Act("a", R"("${i.ip}")")),
                       R"({"n": [{"ip": 1}, {}]})");
  CHECK(graph->steps[0].input == "1");
  CHECK(graph->steps[1].input == R"("${i.ip}")");
}

TEST_CASE("no template is too odd to be refused or compiled") {
  const Names words = {"${", "}", "$", "a", "n", ".", "output", "[", "0", "]", "params", "i", "#0",
                       "@0", " ", "instance.id", "trigger", "x", "${a.output}", "${params.x"};
  std::mt19937 random(3);
  auto text = [&] {
    std::string out = "\"";
    for (size_t i = random() % 5; i > 0; --i) out += words[random() % words.size()];
    return out + "\"";
  };
  int compiled = 0;
  for (int round = 0; round < 5'000; ++round) {
    CAPTURE(round);
    FlowNode each = ForEach(random() % 4 == 0 ? text() : "[1, {\"x\": 2}]", "i", Act("n", text()));
    if (random() % 4 == 0) each.when = text();
    Compiled plan(Par({Act("a", text()), each, Nested("m", "inner", "{\"x\": " + text() + "}")}),
                  random() % 2 == 0 ? nullptr : R"({"x": [true]})");
    plan.With(PlanOf("inner", Act("a", R"(["${params.x}", "-${params.x.output[0]}"])")));
    if (plan.Try()) ++compiled;
  }
  CHECK(compiled > 10);
}

TEST_CASE("params that multiply on their way are refused") {
  Compiled plan(Nested("n", "q0", R"({"x": "${params.x}${params.x}"})"), "{}");
  for (int i = 0; i < 40; ++i) {
    plan.With(PlanOf("q" + std::to_string(i),
                     Nested("n", "q" + std::to_string(i + 1),
                            R"({"x": "${params.x}${params.x}"})")));
  }
  plan.With(PlanOf("q40", Act("a", R"("${params.x}")")));
  CHECK(plan.Problems().find("too large, through params") != std::string::npos);
  Compiled empty(Par({Nested("m", "q0"), Nested("n", "q0")}), "{}");
  for (int i = 0; i < 40; ++i) {
    const std::string next = "q" + std::to_string(i + 1);
    empty.With(PlanOf("q" + std::to_string(i), Par({Nested("m", next), Nested("n", next)})));
  }
  empty.With(PlanOf("q40", Par({})));
  CHECK(empty.Problems().find("too many parts") != std::string::npos);
}

}  // namespace
}  // namespace dfsmr
