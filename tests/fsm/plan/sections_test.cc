// Sections of plans, as they are compiled.
#include "fsm/plan/assemble.h"
#include "tests/fsm/plan/plans.h"

namespace dfsmr {
namespace {

FlowNode SectionOf(std::string name, FlowNode flow) {
  FlowNode node = Block(FlowNode::Kind::kSection, {});
  node.name = std::move(name);
  node.written.path = node.name;
  node.retry.limit = 2;
  node.children.push_back(std::move(flow));
  return node;
}
FlowNode SectionOf(std::string name, FlowNode flow, FlowNode compensation) {
  FlowNode node = SectionOf(std::move(name), std::move(flow));
  node.children.push_back(std::move(compensation));
  return node;
}

TEST_CASE("a section's steps lie between its two ends") {
  const FlowNode flow = Seq({Act("x"), SectionOf("s", Par({Act("a"), Act("b")})), Act("y")});
  CHECK(Paths(*GraphOf(flow)) == Names{"x", "s", "s/end", "s.a", "s.b", "y"});
  CHECK(Edges(*GraphOf(flow)) ==
        Names{"s.a>s/end", "s.b>s/end", "s/end>y", "s>s.a", "s>s.b", "x>s"});
  CHECK(Edges(*GraphOf(SectionOf("s", Par({})))) == Names{"s>s/end"});
}

TEST_CASE("names are looked up inside first, and outside they are the section's") {
  auto graph = GraphOf(
      Par({Act("a"),
           SectionOf("s", Par({Act("a"), Reads("r", {"a.output.v"}), Reads("q", {"o.output.v"})})),
           Act("o"), Reads("z", {"a.output.v", "s.a.output.v"})}));
  const size_t inner = static_cast<size_t>(&StepOf(*graph, "s.a") - graph->steps.data());
  CHECK(StepOf(*graph, "s.r").input == "{\"0\":\"${#" + std::to_string(inner) + ".output.v}\"}");
  CHECK(Least(*graph) ==
        Names{"a>z", "o>s.q", "s.a>s.r", "s.q>s/end", "s.r>s/end", "s/end>z", "s>s.a", "s>s.q"});
  CHECK(StepOf(*graph, "s.a").readers.size() == 2);
}

TEST_CASE("whoever is outside waits for all of a section, also of nested ones") {
  const FlowNode inner = SectionOf("i", Par({Act("a"), Act("b")}));
  auto graph = GraphOf(Par({SectionOf("o", Par({inner, Act("c", "{}", {"i.a"})})),
                            Act("z", "{}", {"o.i.a"}), Act("y", "{}", {"o"})}));
  const Order order = OrderOf(*graph);
  CHECK(order.contains({"o.i.b", "o.c"}));
  CHECK(order.contains({"o.c", "z"}));
  CHECK(order.contains({"o.c", "y"}));
  CHECK(graph->sections.size() == 2);
  CHECK(graph->sections[1].outer == 0);
}

TEST_CASE("a compensation has names of its own, and waits for nothing") {
  auto graph = GraphOf(Seq({Act("x"), SectionOf("s", Par({Act("a")}),
                                                Par({Reads("a2", {"a.output.id", "x.output"}),
                                                     Reads("c", {"a2.output"})}))}));
  CHECK(Paths(*graph) == Names{"x", "s", "s/end", "s.a", "s/compensate", "s/compensate/end",
                               "s/compensate.a2", "s/compensate.c"});
  CHECK(StepOf(*graph, "s/compensate.a2").input ==
        R"({"0":"${###3.output.id}","1":"${###0.output}"})");
  CHECK(StepOf(*graph, "s/compensate.c").input == R"({"0":"${#6.output}"})");
  CHECK(StepOf(*graph, "s.a").readers.empty());
  CHECK(graph->sections[0].compensation == 1);
  CHECK(graph->sections[1].compensates);
  CHECK(graph->sections[1].outer == 0);
  const Order order = OrderOf(*graph);
  CHECK_FALSE(order.contains({"s.a", "s/compensate.a2"}));
  CHECK(order.contains({"s/compensate.a2", "s/compensate.c"}));

  const Machine machine = Assemble(graph, {});
  const SectionNodes& nodes = machine.sections[0];
  CHECK(machine.nodes[nodes.entry].id == "s");
  CHECK(machine.nodes[nodes.exit].id == "s/end");
  CHECK(machine.nodes[nodes.own_end].id == "s/compensate");
  CHECK(machine.nodes[machine.Find("s/compensate/end")].FindTransition("ok")->targets.empty());
  for (const Edge& edge : machine.nodes[machine.start].transitions) {
    CHECK(edge.targets == std::vector{machine.Find("x")});  // nothing leads to a compensation
  }
}

TEST_CASE("gates between steps of a section are in it") {
  auto graph = GraphOf(Par({Act("x"), SectionOf("s", Seq({Par({Act("a"), Act("b"), Act("c")}),
                                                          Par({Act("d"), Act("e"), Act("f")})}))}));
  const Machine machine = Assemble(graph, {});
  REQUIRE(Gates(*graph) == Names{"s.d/gate"});
  CHECK(machine.sections[0].gates == std::vector{machine.Find("s.d/gate")});
  CHECK(machine.nodes[machine.Find("s.d/gate")].section == 0);
  CHECK(machine.nodes[machine.Find("s.a/error")].section == 0);
  CHECK(machine.nodes[machine.Find("x")].section == kNoSection);
  CHECK(machine.sections[0].incoming.empty());
}

TEST_CASE("sections of a for_each are numbered, and `when` leaves all of one out") {
  auto graph = GraphOf(Seq({ForEach("[1, 2]", "i", SectionOf("s", Act("a", "{\"i\":\"${i}\"}"))),
                            Reads("z", {"s.output", "s.1.a.output"})}),
                       "{}");
  CHECK(Paths(*graph) == Names{"s.0", "s.0/end", "s.0.a", "s.1", "s.1/end", "s.1.a", "z"});
  CHECK(StepOf(*graph, "s.1.a").of == "s.a");
  CHECK(OrderOf(*graph).contains({"s.0.a", "z"}));
  graph = GraphOf(
      Seq({When(R"("${params.on}")", SectionOf("s", Act("a"))), Reads("z", {"s.a.output"})}),
      R"({"on":false})");
  CHECK(Paths(*graph) == Names{"s", "z"});
  CHECK(StepOf(*graph, "s").left_out);
  CHECK(graph->sections.empty());
}

TEST_CASE("planners beside a section are asked without it") {
  ActionSource planner = ActionOf("planner");
  planner.planned_by_worker = true;
  Compiled plan(Par({SectionOf("s", Act("a")), Of(Act("w"), "planner")}), "{}");
  plan.With(planner);
  auto graph = plan.Graph();
  CHECK(graph->planning);
  CHECK(Paths(*graph) == Names{"w"});
  CHECK(graph->sections.empty());
  CHECK(Assemble(graph, {}).sections.empty());
  plan.Planned("w", SectionOf("t", Act("b")));
  graph = plan.Graph();
  CHECK(Paths(*graph) == Names{"s", "s/end", "s.a", "w", "w.t", "w.t/end", "w.t.b"});
  CHECK(graph->sections.size() == 2);
}

TEST_CASE("what cannot be in a section is refused") {
  ActionSource planner = ActionOf("planner");
  planner.planned_by_worker = true;
  CHECK(Compiled(SectionOf("s", Of(Act("a"), "planner")), nullptr).With(planner).Problems() ==
        "a: a worker plans the action 'planner', which cannot be in a section: what is tried "
        "again as a whole has to be known before it begins\n");
  CHECK(ProblemsOf(Par({Act("s"), SectionOf("s", Act("a"))})) ==
        "s.section: there is a step 's' already; names must differ within a plan\n");
  CHECK(ProblemsOf(Par({SectionOf("s", Act("a")), Act("z", "{}", {"a"})})) ==
        "z.after: there is no step 'a'\n");
  CHECK(ProblemsOf(Par({SectionOf("s", Act("a", "{}", {"z"})), Act("z", "{}", {"s.a"})}))
            .find("a cycle of steps that wait for each other") != std::string::npos);
  std::string list = "[1";
  for (int i = 1; i < 10'001; ++i) list += ",1";
  CHECK(ProblemsOf(SectionOf("s", ForEach(list + "]", "i", Act("a"))), "{}") ==
        "s.do: a section and its compensation have at most 10000 steps each; this has 10001\n");
}

}  // namespace
}  // namespace dfsmr
