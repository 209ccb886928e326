// Where work runs: capabilities, agents, what they are resolved from, and why nobody takes it.
#include "fsm/base/json.h"
#include "storage/rows/instance.h"
#include "tests/dsrv/engine/world.h"

namespace dfsmr {
namespace {

using Words = std::vector<std::string>;

Filter Has(Words capabilities) {
  Filter filter{.ns = "ns"};
  filter.capabilities = std::move(capabilities);
  return filter;
}
std::vector<Task> Poll(World& world, const std::string& worker, Words capabilities = {}) {
  std::vector<Task> tasks;
  auto polled = world.Do([&](Engine& e) {
    return e.Poll({.filter = Has(capabilities), .worker = worker, .max_tasks = 1'000},
                  [&tasks](std::vector<Task> given) { tasks = std::move(given); });
  });
  REQUIRE(polled);
  return tasks;
}
// "i n" of each task.
Words Takes(World& world, const std::string& worker, Words capabilities = {}) {
  Words all;
  for (const Task& task : Poll(world, worker, std::move(capabilities))) {
    all.push_back(task.instance + " " + task.node);
  }
  return all;
}
// Takes the one task and reports.
void Works(World& world, const std::string& worker, const std::string& node,
           const std::string& output = "", const std::string& transition = "ok") {
  const auto tasks = Poll(world, worker);
  REQUIRE(tasks.size() == 1);
  REQUIRE(tasks[0].node == node);
  REQUIRE(world.Do([&](Engine& e) {
    return e.Report("ns", tasks[0].instance,
                    {.transition = transition, .claim = tasks[0].claim, .output = output});
  }));
}
void Start(World& world, const std::string& machine, const std::string& id,
           const std::string& params) {
  StartArgs args{.machine = machine, .id = id};
  args.spec.params = params;
  REQUIRE(world.TryStart(std::move(args)));
}
const Token& TokenOf(const Instance& instance) { return instance.tokens.front(); }
std::string WhyOf(World& world, const std::string& id) {
  const auto waits = world.Do([&](Engine& e) { return e.WaitsOf("ns", id); });
  if (!waits || waits->why.empty()) return "";
  return waits->why.begin()->second;
}
std::string MachineText(const std::string& runs_on, const std::string& id = "m") {
  return "id: " + id + "\nnodes:\n  n: {start: true, runs_on: " + runs_on +
         ", timeout_strategy: fixed, timeout: 60.0, transitions: {ok: z}}\n  z: {final: true}\n";
}

TEST_CASE("a node is for workers that have what it asks for, over a crash") {
  World world;
  world.Define(MachineText("{capability: [gpu, arm64]}"));
  world.Start("m", "i");
  SUBCASE("") {}
  SUBCASE("crash") { world.Crash(); }
  SUBCASE("restart") { world.Restart(); }
  CHECK(TokenOf(world.Must("i")).runs_on == Boxed<RunsOn>(RunsOn{{"gpu", "arm64"}, ""}));
  CHECK(Takes(world, "w") == Words{});
  CHECK(Takes(world, "w", {"gpu"}) == Words{});
  CHECK(Takes(world, "w", {"arm64", "gpu", "x"}) == Words{"i n"});
}

TEST_CASE("a node is for the worker that the params name, over a crash") {
  World world;
  world.Define(MachineText("{agent: \"host-${params.host}\"}"));
  Start(world, "m", "i", R"({"host":1})");
  Start(world, "m", "j", R"({"host":"two"})");
  SUBCASE("") {}
  SUBCASE("crash") { world.Crash(); }
  CHECK(TokenOf(world.Must("i")).runs_on->agent == "host-1");
  CHECK(Takes(world, "w") == Words{});
  CHECK(Takes(world, "host-two") == Words{"j n"});
  CHECK(Takes(world, "host-1") == Words{"i n"});
  SUBCASE("given back") {
    world.Crash();
    CHECK(Takes(world, "w") == Words{});
    CHECK(Takes(world, "host-1") == Words{"i n"});
  }
}

TEST_CASE("a poll that waits, and a stream, are given what is for them") {
  World world;
  world.Define(MachineText("{capability: gpu, agent: h1}"));
  std::map<std::string, Words> given;
  const auto wait = [&](const std::string& worker, Words words) {
    auto waiter = world.Do([&](Engine& e) {
      return e.Poll({.filter = Has(words), .worker = worker, .until = world.now() + 100s},
                    [&given, worker](std::vector<Task> tasks) {
                      for (const Task& task : tasks) given[worker].push_back(task.instance);
                    });
    });
    REQUIRE(waiter);
  };
  wait("h2", {"gpu"});
  wait("h1", {});
  world.Start("m", "i");
  CHECK(given.empty());
  CHECK(WhyOf(world, "i") == "h1 does not have gpu");
  auto session = world.Do([&](Engine& e) {
    return e.OpenSession(Has({"gpu"}), "h1", 1, [&](SessionUpdate update) {
      for (const Task& task : update.tasks) given["stream"].push_back(task.instance);
    });
  });
  REQUIRE(session);
  world.Drain();
  CHECK(given == std::map<std::string, Words>{{"stream", {"i"}}});
  world.Start("m", "j");
  CHECK(given["stream"] == Words{"i"});  // it is full
  CHECK(WhyOf(world, "j") == "");        // and connected
  REQUIRE(world.Move("i", "ok"));
  world.Drain();
  CHECK(given["stream"] == Words{"i", "j"});
}

TEST_CASE("why says what no worker has") {
  World world;
  world.Define(MachineText("{capability: [gpu, arm64]}") + "---\n" + MachineText("{agent: h1}", "a") +
               "---\n" + MachineText("{capability: []}", "free"));
  world.Start("m", "i");
  world.Start("a", "j");
  world.Start("free", "k");
  CHECK(WhyOf(world, "i") == "no agent has arm64, gpu");
  CHECK(WhyOf(world, "j") == "h1 is not connected");
  CHECK(WhyOf(world, "k") == "no worker waits for action free.n in queue default");
  const auto connect = [&](const std::string& worker, Words words, const std::string& queue = "") {
    Filter filter = Has(std::move(words));
    filter.queue = queue;
    filter.action = queue.empty() ? "nothing" : "";
    auto session = world.Do(
        [&](Engine& e) { return e.OpenSession(filter, worker, 1, [](const SessionUpdate&) {}); });
    REQUIRE(session);
    return *session;
  };
  connect("w1", {"arm64"});
  CHECK(WhyOf(world, "i") == "no agent has gpu");
  connect("w2", {"gpu"});
  CHECK(WhyOf(world, "i") == "no agent has all of arm64, gpu");
  connect("w3", {"arm64", "gpu"});
  CHECK(WhyOf(world, "i") == "no agent that has arm64, gpu takes action m.n in queue default");
  const SessionId h1 = connect("h1", {});
  CHECK(WhyOf(world, "j") == "h1 does not take action a.n in queue default");
  world.Do([&](Engine& e) { return e.CloseSession(h1), true; });
  CHECK(WhyOf(world, "j") == "h1 is not connected");
}

TEST_CASE("what is missing fails the instance, by name") {
  World world;
  world.Define(MachineText("{agent: \"${params.host}\"}"));
  Start(world, "m", "i", "{}");
  Start(world, "m", "null", R"({"host":null})");
  Start(world, "m", "empty", R"({"host":""})");
  Start(world, "m", "list", R"({"host":["a"]})");
  const auto error = [&](const std::string& id) {
    const Instance instance = world.Must(id);
    CHECK(instance.result == InstanceResult::kError);
    return instance.error;
  };
  CHECK(error("i") == "runs_on: ${params.host}: the instance's params have no host");
  CHECK(error("null").find("comes to 'null', which is no worker's name") != std::string::npos);
  CHECK(error("empty").find("which is no worker's name") != std::string::npos);
  CHECK(error("list").find("which is no worker's name") != std::string::npos);
}

constexpr std::string_view kTwoNodes =
    "id: m\nnodes:\n  a: {start: true, transitions: {ok: b}}\n"
    "  b: {runs_on: {agent: \"${a.worker}\"}, transitions: {ok: c, again: a}}\n"
    "  c: {runs_on: {agent: \"${a.output.host}\"}, transitions: {ok: z}}\n  z: {final: true}\n";

TEST_CASE("a node goes to who reported ok of another, the last time") {
  World world;
  world.Define(kTwoNodes);
  world.Start("m", "i");
  Works(world, "h1", "a", R"({"host":"h7"})");
  SUBCASE("") {}
  SUBCASE("crash") { world.Crash(); }
  CHECK(Takes(world, "h2") == Words{});
  Works(world, "h1", "b", "", "again");
  Works(world, "h2", "a", R"({"host":"h8"})");
  CHECK(Takes(world, "h1") == Words{});
  Works(world, "h2", "b");
  CHECK(Takes(world, "h2") == Words{});
  Works(world, "h8", "c");
  CHECK(world.Must("i").result == InstanceResult::kSuccess);
  CHECK(rows::GetOutputs({world.store(), world.partition()}, {"ns", "i"})->size() == 1);
}

TEST_CASE("without a worker that reported ok, a node that asks for it fails") {
  World world;
  world.Define(kTwoNodes);
  world.Start("m", "i");
  REQUIRE(world.Move("i", "ok"));
  CHECK(world.Must("i").error == "runs_on: ${a.worker}: no worker has reported ok of node 'a'");
}

constexpr std::string_view kPlan =
    "action: prepare\n---\naction: deploy\nruns_on: {capability: linux}\n---\n"
    "plan: inner\nflow:\n- {step: go, action: deploy, runs_on: {agent: \"${params.on}\"}}\n---\n"
    "plan: p\nflow:\n  sequence:\n  - {step: a, action: prepare}\n"
    "  - {step: b, action: deploy, runs_on: {agent: \"${a.worker}\", capability: linux}}\n"
    "  - {step: c, action: deploy}\n"
    "  - {step: d, plan: inner, input: {on: \"${a.output.next}\"}}\n";

TEST_CASE("steps run where their action, they themselves, and what came before say") {
  World world;
  world.Define(kPlan);
  world.Start("p", "i");
  Works(world, "h1", "a", R"({"next":"h9"})");
  SUBCASE("") {}
  SUBCASE("crash") { world.Crash(); }
  CHECK(Takes(world, "h1") == Words{});
  CHECK(Takes(world, "h2", {"linux"}) == Words{});
  auto tasks = Poll(world, "h1", {"linux"});
  REQUIRE(tasks.size() == 1);
  CHECK(tasks[0].node == "b");
  REQUIRE(world.Report(tasks[0], "ok"));
  CHECK(WhyOf(world, "i") == "no agent has linux");
  tasks = Poll(world, "h3", {"linux"});
  REQUIRE(tasks.size() == 1);
  CHECK(tasks[0].node == "c");
  REQUIRE(world.Report(tasks[0], "ok"));
  CHECK(WhyOf(world, "i") == "h9 is not connected");
  CHECK(Takes(world, "h3", {"linux"}) == Words{});
  CHECK(Takes(world, "h9") == Words{"i d.go"});  // its own runs_on stands in place of the action's
}

TEST_CASE("a step whose agent is missing is held, by name") {
  World world;
  world.Define(
      "action: x\n---\nplan: p\nflow: {sequence: [{step: a, action: x}, {step: b, action: "
      "x, runs_on: {agent: \"${a.output.host}\"}}]}\n");
  world.Start("p", "i");
  Works(world, "h1", "a", "{}");
  const Instance held = world.Must("i");
  CHECK(held.state == InstanceState::kPaused);
  CHECK(TokenOf(held).error.find("the output of step a has no host") != std::string::npos);
}

TEST_CASE("what a runs_on of a plan may not refer to is refused") {
  World world;
  const auto of = [&](const std::string& runs_on) {
    std::vector<DefineProblem> problems;
    (void)world.Do([&](Engine& e) {
      return DefineAtOnce(e, "ns",
                          {ParseMachines("action: x\n---\nplan: q\nflow: [{step: y, action: x}]\n"
                                         "---\nplan: p\nflow:\n- {step: a, action: x, runs_on: " +
                                         runs_on +
                                         "}\n- {step: b, action: x, after: a}\n- {step: c, plan: "
                                         "q}\n- {step: s, spawn: q}\n"),
                           {}},
                          true, &problems);
    });
    std::string all;
    for (const DefineProblem& one : problems) all += one.problem.message + "\n";
    return all;
  };
  CHECK(of("{agent: \"${a.worker}\"}").find("is the step's own worker") != std::string::npos);
  CHECK(of("{agent: \"${b.worker}\"}").find("cycle") != std::string::npos);
  CHECK(of("{agent: \"${b.output.x}\"}").find("cycle") != std::string::npos);
  CHECK(of("{agent: \"${x.worker}\"}").find("there is no step 'x'") != std::string::npos);
  CHECK(of("{agent: \"${c.worker}\"}").find("is of several steps") != std::string::npos);
  CHECK(of("{agent: \"${s.worker}\"}").find("no worker runs this step") != std::string::npos);
  CHECK(of("{agent: \"${c.y.worker}\"}") == "");
}

TEST_CASE("paused and resumed, moved and claimed again, work stays where it runs") {
  World world;
  world.Define(MachineText("{agent: h1}"));
  world.Start("m", "i");
  REQUIRE(world.Do([](Engine& e) { return e.Pause("ns", "i"); }));
  CHECK(Takes(world, "h1") == Words{});
  REQUIRE(world.Do([](Engine& e) { return e.Resume("ns", "i", "", false); }));
  CHECK(Takes(world, "h2") == Words{});
  CHECK(Takes(world, "h1") == Words{"i n"});
  world.Elapse(61s);  // it times out
  CHECK(Takes(world, "h2") == Words{});
  CHECK(Takes(world, "h1") == Words{"i n"});
  world.Define("upgrade_strategy: upgrade\n" + MachineText("{agent: h3}"));
  CHECK(Takes(world, "h1") == Words{});
  CHECK(Takes(world, "h3") == Words{"i n"});
}

TEST_CASE("who moves a step by hand is no worker, and what asks for it fails by name") {
  World world;
  world.Define(R"(
plan: p
flow:
  sequence:
    - {step: a, action: x}
    - {step: b, action: x, runs_on: {agent: "${a.worker}"}}
)");
  world.Start("p");
  REQUIRE(world.Do([](Engine& e) {
    return e.Report("ns", "i", {.transition = "ok", .node = "a", .client = "ipv4:127.0.0.1:1"});
  }));
  world.Drain();
  (void)world.Ready();  // which resolves what is ready, if nothing has yet
  world.Drain();
  const Instance instance = world.Must("i");
  CAPTURE(instance.error);
  CHECK(instance.state == InstanceState::kPaused);
  CHECK(instance.error.find("no worker has reported ok of step 'a'") != std::string::npos);
}

TEST_CASE("a thousand agents wait, and each is given its own") {
  World world;
  world.Define(MachineText("{agent: \"${params.h}\"}"));
  std::map<std::string, Words> given;
  for (int i = 0; i < 1'000; ++i) {
    const std::string worker = "h" + std::to_string(i);
    REQUIRE(world.Do([&](Engine& e) {
      return e.OpenSession({.ns = "ns"}, worker, 10, [&given, worker](SessionUpdate update) {
        for (const Task& task : update.tasks) given[worker].push_back(task.instance);
      });
    }));
  }
  for (int i = 0; i < 100; ++i) {
    Start(world, "m", "i" + std::to_string(i), R"({"h":"h)" + std::to_string(i * 7) + "\"}");
  }
  world.Drain();
  CHECK(given.size() == 100);
  for (const auto& [worker, instances] : given) {
    REQUIRE(instances.size() == 1);
    CHECK(std::stoi(worker.substr(1)) == 7 * std::stoi(instances[0].substr(1)));
  }
}

}  // namespace
}  // namespace dfsmr
