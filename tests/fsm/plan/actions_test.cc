// Planners, subscribers, middleware and what else actions bring to plans.
#include <doctest/doctest.h>

#include "fsm/plan/inherit.h"
#include "tests/fsm/plan/plans.h"

namespace dfsmr {
namespace {

ActionSource Planner(std::string id, Phases phases = {}) {
  ActionSource action = ActionOf(std::move(id));
  action.planned_by_worker = true;
  action.phases = phases;
  return action;
}
ActionSource Subscriber(std::string id, std::string to, std::string with = "{}") {
  ActionSource action = ActionOf(std::move(id));
  action.subscribes_to = {std::move(to)};
  action.with = std::move(with);
  return action;
}
ActionSource Using(std::string id, std::vector<Use> use) {
  ActionSource action = ActionOf(std::move(id));
  action.middleware.use = std::move(use);
  return action;
}

TEST_CASE("planners are asked first, then their flows take part") {
  FlowNode b = Of(Act("b", R"({"x": "${params.x}", "y": "-${a.output.k}"})"), "ask");
  FlowNode flow = Par({Act("a"), b, Act("c", "{}", {"b"}),
                       Reads("d", {"b.output.k", "b.u.output"})});
  Compiled plan(flow, R"({"x": 1})");
  plan.With(Planner("ask"));
  auto graph = plan.Graph();
  CHECK(graph->planning);
  CHECK(graph->depends_on_params);
  REQUIRE(Paths(*graph) == Names{"b"});
  CHECK(graph->steps[0].planner);
  // What is not there yet is left to the worker as text.
  CHECK(graph->steps[0].input == R"({"x": "${params.x}", "y": "-$${a.output.k}"})");
  CHECK(graph->places.size() == 1);

  graph = plan.Planned("b", Par({Reads("u", {"a.output", "b.output", "params.x"}),
                                 Act("v", "{}", {"u"})})).Graph();
  CHECK(!graph->planning);
  CHECK(Paths(*graph) == Names{"a", "b", "b.u", "b.v", "c", "d"});
  CHECK(StepOf(*graph, "b.u").input ==
        R"({"0":"${#0.output}","1":"${#1.output}","2":"${params.x}"})");
  CHECK(StepOf(*graph, "d").input == R"({"0":"${#1.output.k}","1":"${#2.output}"})");
  CHECK(Least(*graph) == Names{"a>b", "b.u>b.v", "b.v>c", "b.v>d", "b>b.u"});

  // Without an own run its output is that of its steps; nothing orders the run by itself.
  Compiled pure(Par({Of(Act("b"), "ask"), Reads("d", {"b.output"})}), "{}");
  graph = pure.With(Planner("ask", {.run = false, .finalize = true}))
              .Planned("b", Par({Act("u"), Act("v")})).Graph();
  CHECK(StepOf(*graph, "b").kind == Step::Kind::kPass);
  CHECK(StepOf(*graph, "b").finalize);
  CHECK(StepOf(*graph, "d").input == R"({"0":"${@0.output}"})");
  CHECK(Least(*graph) == Names{"b.u>d", "b.v>d", "b>d"});
}

TEST_CASE("a flow may say where the planner's own run stands") {
  Compiled plan(Seq({Act("a"), Of(Act("b"), "ask"), Act("c")}), "{}");
  plan.With(Planner("ask"));
  auto graph = plan.Planned("b", Seq({Act("u"), Self(), Act("v")})).Graph();
  CHECK(Least(*graph) == Names{"a>b.u", "b.u>b", "b.v>c", "b>b.v"});
  CHECK(plan.Planned("b", Seq({Self(), Self()})).Problems().find("only once") != std::string::npos);
  CHECK(plan.Planned("b", ForEach("[1]", "i", Self())).Problems().find("neither in a for_each") !=
        std::string::npos);
  CHECK(ProblemsOf(Self()) ==
        "self.self: 'self' stands only in the flow that a planner's worker reports\n");
  CHECK(plan.Planned("b", Act("u", "{}", {"x"})).Problems() ==
        "b: the flow that 'b' planned, u.after: there is no step 'x'\n");
}

TEST_CASE("planners nest, in plans and in what planners say") {
  Compiled plan(Par({Nested("n", "inner", R"({"k": 7})")}), "{}");
  plan.With(PlanOf("inner", Of(Act("b", R"("${params.k}")"), "ask"))).With(Planner("ask"));
  auto graph = plan.Graph();
  CHECK(graph->planning);
  CHECK(Paths(*graph) == Names{"n.b"});
  CHECK(graph->steps[0].input == "7");
  graph = plan.Planned("n.b", Par({Act("u", R"("${params.k}")"), Of(Act("b"), "ask")})).Graph();
  CHECK(graph->planning);
  CHECK(Paths(*graph) == Names{"n.b.b"});
  graph = plan.Planned("n.b.b", Act("w", R"("${u.output}")")).Graph();
  CHECK(!graph->planning);
  CHECK(Paths(*graph) == Names{"n.b", "n.b.u", "n.b.b", "n.b.b.w"});
  CHECK(StepOf(*graph, "n.b.u").input == "7");
  CHECK(Edges(*graph) == Names{"n.b.u>n.b.b.w"});
}

TEST_CASE("a planner of a plan that is only defined is a step like others") {
  Compiled plan(Par({Of(Act("b"), "ask"), Reads("d", {"b.output", "b.any.output.x"})}), nullptr);
  auto graph = plan.With(Planner("ask", {.run = false})).Graph();
  CHECK(!graph->planning);
  CHECK(graph->depends_on_params);
  CHECK(StepOf(*graph, "b").kind == Step::Kind::kWork);
  CHECK(Edges(*graph) == Names{"b>d"});
}

TEST_CASE("subscribers stand beside what they subscribe to, or after it when they read it") {
  FlowNode vm = Act("vm", R"({"n": "${params.name}", "p": "${p.output}"})", {"q"});
  FlowNode flow = Par({Act("p"), Act("q"), Of(vm, "create"), Act("z", "{}", {"vm"})});
  Compiled plan(flow, nullptr);
  plan.With(Subscriber("beside", "create", R"({"n": "${trigger.input.n}", "i": "${instance.id}"})"))
      .With(Subscriber("follow", "create",
                       R"({"ip": "${trigger.output.ip}", "p": "${trigger.input.p.k}"})"))
      .With(Subscriber("deeper", "follow"));
  auto graph = plan.Graph();
  CHECK(Paths(*graph) ==
        Names{"p", "q", "vm", "vm.beside", "vm.follow", "vm.follow.deeper", "z"});
  CHECK(StepOf(*graph, "vm.beside").input == R"({"n": "${params.name}", "i": "${instance.id}"})");
  CHECK(StepOf(*graph, "vm.follow").input ==
        R"({"ip": "${#2.output.ip}", "p": "${#0.output.k}"})");
  CHECK(graph->actions[StepOf(*graph, "vm.follow").action].name == "follow");
  CHECK(Gates(*graph) == Names{"vm.follow/gate", "vm/gate"});
  CHECK(Least(*graph) == Names{"p>vm", "p>vm.beside", "q>vm", "q>vm.beside", "vm>vm.follow",
                               "vm>vm.follow.deeper", "vm>z"});
  CHECK(graph->steps[2].readers == std::vector<uint32_t>{4});
}

TEST_CASE("what a subscriber plans stands where the subscriber does") {
  for (const bool reads : {false, true}) {
    CAPTURE(reads);
    ActionSource ask = Planner("ask");
    ask.subscribes_to = {"create"};
    ask.with = reads ? R"({"v": "${trigger.output.v}"})" : "{}";
    Compiled plan(Seq({Act("a"), Of(Act("vm"), "create")}), "{}");
    auto graph = plan.With(ask).Planned("vm.ask", Par({Act("u")})).Graph();
    CHECK(Least(*graph) == (reads ? Names{"a>vm", "vm>vm.ask", "vm>vm.ask.u"}
                                  : Names{"a>vm", "a>vm.ask", "a>vm.ask.u"}));
  }
}

TEST_CASE("subscribers neither subscribe in a circle nor to what is left out") {
  Compiled round(Of(Act("a"), "x"), nullptr);
  CHECK(round.With(Subscriber("x", "y")).With(Subscriber("y", "x")).Problems() ==
        "a: action 'y' subscribes to it: actions subscribe to each other: x → y → x\n");
  Compiled out(When("false", Of(Act("a"), "x")), "{}");
  CHECK(Paths(*out.With(Subscriber("y", "x")).Graph()) == Names{"a"});
  Compiled wrong(Of(Act("a"), "x"), nullptr);
  CHECK(wrong.With(Subscriber("y", "x", R"(["${a.output}", "${trigger.state}"])")).Problems() ==
        "a: action 'y' subscribes to it: '${a.output}': there is no step 'a'\n"
        "a: action 'y' subscribes to it: '${trigger.state}': of the trigger there are "
        "'${trigger.input}' and '${trigger.output}'\n");
  Compiled lacks(Of(Act("a"), "x"), nullptr);
  CHECK(lacks.With(Subscriber("y", "x", R"("${trigger.input.k}")")).Graph()->steps[1].input ==
        R"("${trigger.input.k}")");
}

TEST_CASE("actions inherit from what they extend, and steps have the last word") {
  ActionSource base = ActionOf("base");
  base.queue = "slow";
  base.priority = 3;
  base.phases = Phases{.run = true, .finalize = true};
  base.limits = LimitAsks{{.key = "k-${params.k}", .singleton = true}};
  ActionSource derived = ActionOf("derived");
  derived.extends = "base";
  derived.priority = 5;
  FlowNode a = Of(Act("a"), "derived"), b = a;
  b.name = "b";
  b.own.queue = "fast";
  b.own.phases = Phases{.run = false, .finalize = true};
  FlowNode c = a;
  c.name = "c";
  auto graph = Compiled(Par({a, b, c}), nullptr).With(base).With(derived).Graph();
  CHECK(graph->actions.size() == 2);
  CHECK(graph->steps[0].action == graph->steps[2].action);
  const StepAction& action = graph->actions[graph->steps[0].action];
  CHECK(action.name == "derived");
  CHECK(action.queue == "slow");
  CHECK(action.priority == 5);
  CHECK(graph->actions[graph->steps[1].action].queue == "fast");
  CHECK(graph->steps[0].finalize);
  CHECK(graph->steps[1].kind == Step::Kind::kPass);
  CHECK(graph->limits.at(2).front().key == "k-${params.k}");
  CHECK(graph->limits.at(2).front().on_conflict == OnConflict::kFail);

  ActionSource loop = ActionOf("loop");
  loop.extends = "knot";
  ActionSource knot = ActionOf("knot");
  knot.extends = "loop";
  CHECK(Compiled(Of(Act("a"), "loop"), nullptr).With(loop).With(knot).Problems() ==
        "a: action 'loop': a cycle of actions that extend each other: loop → knot → loop\n");
}

Names ChainOf(PlanSource plan, std::vector<ActionSource> actions) {
  Compiled compiled(std::move(plan));
  for (ActionSource& action : actions) compiled.With(std::move(action));
  auto graph = compiled.Graph();
  return graph->actions[graph->steps[0].action].middleware;
}

TEST_CASE("middleware is a chain from the plan to the step") {
  PlanSource plan = PlanOf("p", Of(Act("a"), "x"));
  plan.middleware.use = {{.name = "outer"}, {.name = "both"}};
  CHECK(ChainOf(plan, {Using("x", {{.name = "inner"}, {.name = "both"}})}) ==
        Names{"outer", "both", "inner"});
  CHECK(ChainOf(plan, {Using("x", {{.name = "inner", .before = {"outer"}}})}) ==
        Names{"inner", "outer", "both"});
  CHECK(ChainOf(plan, {Using("x", {{.name = "inner", .before = {"absent"}, .after = {"gone"}}})}) ==
        Names{"outer", "both", "inner"});

  ActionSource derived = ActionOf("x");
  derived.extends = "base";
  derived.middleware.use = {{.name = "own"}};
  derived.middleware.replace = {{"audit", "other"}};
  derived.middleware.without = {"trace"};
  ActionSource base = Using("base", {{.name = "trace"}, {.name = "audit"}, {.name = "last"}});
  CHECK(ChainOf(plan, {derived, base}) == Names{"outer", "both", "other", "last", "own"});

  plan.flow.own.middleware.use = {{.name = "step"}};
  plan.flow.own.middleware.without = {"both"};
  CHECK(ChainOf(plan, {derived, base}) == Names{"outer", "other", "last", "own", "step"});
  plan.middleware.without = {"last"};
  CHECK(ChainOf(plan, {derived, base}) == Names{"outer", "other", "own", "step"});

  // Around a nested plan's steps: its own inside of the outer plan's.
  PlanSource inner = PlanOf("inner", Of(Act("a"), "x"));
  inner.middleware.use = {{.name = "within"}};
  PlanSource outer = PlanOf("p", Nested("n", "inner"));
  outer.middleware.use = {{.name = "around"}};
  auto graph = Compiled(outer).With(inner).With(Using("x", {{.name = "own"}})).Graph();
  CHECK(graph->actions[0].middleware == Names{"around", "within", "own"});
}

TEST_CASE("middleware that cannot be is refused") {
  PlanSource plan = PlanOf("p", Of(Act("a"), "x"));
  Compiled cycle(plan);
  CHECK(cycle.With(Using("x", {{.name = "u", .before = {"v"}}, {.name = "v", .before = {"w"}},
                               {.name = "w", .before = {"u"}}, {.name = "t", .after = {"u"}}}))
            .Problems() ==
        "a: action 'x': middleware cannot be put in order, there is a cycle: u → v → w → u\n"
        "a: middleware cannot be put in order, there is a cycle: u → v → w → u\n");
  plan.flow.own.middleware.without = {"autit"};
  CHECK(Compiled(plan).With(Using("x", {{.name = "audit"}})).Problems() ==
        "a: there is no middleware 'autit' to replace or do without (did you mean 'audit'?)\n");
  PlanSource useless = PlanOf("p", Act("a"));
  useless.middleware.replace = {{"gone", "other"}};
  CHECK(Compiled(useless).Problems() ==
        ": no step has middleware 'gone' to replace or do without\n");
}

TEST_CASE("an action by itself is a plan of one step") {
  ActionSource action = ActionOf("vm.create");
  action.queue = "slow";
  action.limits = LimitAsks{{.key = "one", .singleton = true}};
  Compiled plan(PlanOfAction(action));
  auto graph = plan.With(action).With(Subscriber("s", "vm.create")).Graph();
  CHECK(Paths(*graph) == Names{"vm.create", "vm.create.s"});
  CHECK(graph->steps[0].input == R"("${params}")");
  CHECK(graph->actions[graph->steps[0].action].queue == "slow");
  CHECK(graph->limits.at(0).front().key == "one");
  CHECK(!graph->depends_on_params);
}

TEST_CASE("what a plan says of its instances refers to params and the instance only") {
  PlanSource plan = PlanOf("p", Act("a"));
  plan.label = "machine ${params.name} \"x\"";
  plan.hooks.push_back({.on = {"paused"}, .action = "mail", .input = R"({"i": "${instance.id}"})"});
  auto graph = Compiled(plan).Graph();
  CHECK(graph->label == R"("machine ${params.name} \"x\"")");
  REQUIRE(graph->hooks.size() == 1);
  CHECK(graph->hooks[0].action == "mail");
  plan.label = "${a.output}";
  CHECK(Compiled(plan).Problems() ==
        "label: '${a.output}': only params and 'instance.id' are known here\n");
}

}  // namespace
}  // namespace dfsmr
