// Compiled plans as nodes.
#include <doctest/doctest.h>

#include "fsm/plan/assemble.h"
#include "tests/fsm/plan/plans.h"

namespace dfsmr {
namespace {

Machine MachineOf(std::shared_ptr<const PlanGraph> graph) {
  Machine machine;
  machine.id = "p";
  return Assemble(std::move(graph), std::move(machine));
}

// "name kind role: ok→a,b error→c", with what it waits for when that is several.
std::string Line(const Machine& machine, const Node& node) {
  std::string line = node.id + " " + std::string(Name(node.kind));
  if (node.join == Join::kAll) line += " all " + std::to_string(node.waits_for);
  line += ":";
  for (const Edge& edge : node.transitions) {
    line += " " + edge.transition + "→";
    for (size_t i = 0; i < edge.targets.size(); ++i) {
      line += (i > 0 ? "," : "") + machine.nodes[edge.targets[i]].id;
    }
  }
  return line;
}
Names LinesOf(const Machine& machine) {
  Names lines;
  for (const Node& node : machine.nodes) lines.push_back(Line(machine, node));
  return lines;
}

void CheckSound(const Machine& machine) {
  CHECK(machine.start == 0);
  CHECK(machine.nodes[0].start);
  for (NodeIndex i = 0; i < machine.nodes.size(); ++i) {
    CHECK(machine.Find(machine.nodes[i].id) == i);
    const Node& home = machine.nodes[machine.nodes[i].home];
    CHECK(home.step == machine.nodes[i].step);
    CHECK(home.home == machine.nodes[i].home);
  }
  const PlanGraph& graph = *machine.graph;
  const NodeNumbers numbers = NumberNodes(graph);
  CHECK(numbers.end + 1 == machine.nodes.size());
  for (size_t i = 0; i < graph.places.size(); ++i) {
    const Place& place = graph.places[i];
    const std::string& id = place.step == UINT32_MAX ? place.gate : graph.steps[place.step].path;
    CHECK(machine.nodes[numbers.places[i]].id == id);
  }
  for (size_t i = 0; i < numbers.finalizers.size(); ++i) {
    const std::string id = graph.steps[numbers.finalizers[i]].path + "/finalize";
    CHECK(machine.nodes[numbers.Finalize(i)].id == id);
  }
}

TEST_CASE("each step is a work node, a held one and a suspended one") {
  auto graph = GraphOf(Par({Seq({Act("a"), Act("b")}), Act("c")}));
  const Machine machine = MachineOf(graph);
  CHECK(LinesOf(machine) ==
        Names{"/start gate: ok→a,c",
              "a work: ok→b error→a/error suspend→a/suspended",
              "a/error held: retry→a skip→b",
              "a/suspended manual: wake→a",
              "b work: ok→/end error→b/error suspend→b/suspended",
              "b/error held: retry→b skip→/end",
              "b/suspended manual: wake→b",
              "c work: ok→/end error→c/error suspend→c/suspended",
              "c/error held: retry→c skip→/end",
              "c/suspended manual: wake→c",
              "/end final all 2:"});
  CheckSound(machine);
  CHECK(machine.graph == graph);
  CHECK(machine.nodes[4].role == Role::kRun);
  CHECK(machine.nodes[5].role == Role::kError);
  CHECK(machine.nodes[6].role == Role::kSuspended);
  CHECK(machine.nodes[6].step == 1);
  CHECK(machine.nodes[6].home == 4);
  CHECK(machine.nodes[0].step == kNoStep);
  CHECK(machine.nodes[4].settings->action == "act");
}

TEST_CASE("finalize phases are a chain after everything else") {
  ActionSource action = ActionOf("act");
  action.phases = Phases{.run = true, .finalize = true};
  action.queue = "slow";
  ActionSource late = ActionOf("late");
  late.phases = Phases{.run = false, .finalize = true};
  auto graph = Compiled(Par({Of(Act("z"), "late"), Act("a"), Of(Act("n"), "none")}), nullptr)
                   .With(action).With(late).Graph();
  const Machine machine = MachineOf(graph);
  CHECK(LinesOf(machine) ==
        Names{"/start gate: ok→z,a,n",
              "z gate: ok→z/finalize",
              "a work: ok→z/finalize error→a/error suspend→a/suspended",
              "a/error held: retry→a skip→z/finalize",
              "a/suspended manual: wake→a",
              "n work: ok→z/finalize error→n/error suspend→n/suspended",
              "n/error held: retry→n skip→z/finalize",
              "n/suspended manual: wake→n",
              "z/finalize work all 3: ok→a/finalize error→z/finalize/error",
              "z/finalize/error held: retry→z/finalize skip→a/finalize",
              "a/finalize work: ok→/end error→a/finalize/error",
              "a/finalize/error held: retry→z/finalize skip→/end",
              "/end final:"});
  CheckSound(machine);
  CHECK(machine.nodes[1].role == Role::kPass);
  CHECK(machine.nodes[10].role == Role::kFinalize);
  CHECK(machine.nodes[11].role == Role::kFinalizeError);
  CHECK(machine.nodes[11].home == 10);
  CHECK(machine.nodes[10].settings->queue == "slow");
}

TEST_CASE("gates, spawns and steps left out have nodes of their own") {
  Compiled plan(Seq({Par({Act("a"), SpawnOf("s", {.machine = "p"})}),
                     Par({When("false", Act("c")), Act("d")})}), "{}");
  const Machine machine = MachineOf(plan.Graph());
  CHECK(LinesOf(machine) ==
        Names{"/start gate: ok→a,s",
              "a work: ok→c/gate error→a/error suspend→a/suspended",
              "a/error held: retry→a skip→c/gate",
              "a/suspended manual: wake→a",
              "s manual: ok→c/gate error→s/error",
              "s/error held: retry→s skip→c/gate",
              "c gate: ok→/end",
              "d work: ok→/end error→d/error suspend→d/suspended",
              "d/error held: retry→d skip→/end",
              "d/suspended manual: wake→d",
              "c/gate gate all 2: ok→c,d",
              "/end final all 2:"});
  CheckSound(machine);
  CHECK(machine.nodes[4].role == Role::kSpawn);
}

TEST_CASE("a plan without steps starts and ends") {
  CHECK(LinesOf(MachineOf(GraphOf(Par({})))) == Names{"/start gate: ok→/end", "/end final:"});
}

TEST_CASE("a round of planning is its planners, side by side") {
  ActionSource ask = ActionOf("ask");
  ask.planned_by_worker = true;
  ask.phases = Phases{.run = true, .finalize = true};
  Compiled plan(Par({Act("x"), Seq({Of(Act("a"), "ask"), Of(Act("b"), "ask")})}), "{}");
  const Machine machine = MachineOf(plan.With(ask).Graph());
  CHECK(LinesOf(machine) == Names{"/start gate: ok→a,b", "a work: planned→/end",
                                  "b work: planned→/end", "/end final all 2:"});
  CHECK(machine.nodes[1].role == Role::kPlanner);
  CHECK(machine.nodes[2].step == 1);
  CheckSound(machine);
}

}  // namespace
}  // namespace dfsmr
