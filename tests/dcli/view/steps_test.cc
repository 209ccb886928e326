#include "dcli/view/steps.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>

#include "dcli/view/describe.h"
#include "tests/dcli/dcli.h"
#include "tests/dcli/fake_server.h"
#include "tests/dcli/plans.h"

namespace dfsmr::cli {
namespace {

std::string Names(const std::vector<std::string>& paths) {
  std::string text;
  for (const auto& [name, path] : LinesOf(TreeOf(paths))) {
    text += name + (path < 0 ? "" : " #" + std::to_string(path)) + "\n";
  }
  return text;
}

std::string Printed(const Steps& steps, bool collapse) {
  std::ostringstream out;
  StepTable(steps, collapse, {}).Print(out, {});
  return out.str();
}

}  // namespace

TEST_CASE("paths are a tree where several begin alike") {
  CHECK(Names({}) == "");
  CHECK(Names({"a", "b.c", "d.0.x", "d.0.y", "d.1.x", "a.z"}) ==
        "a #0\n"
        "└─ z #5\n"
        "b.c #1\n"
        "d\n"
        "├─ 0\n"
        "│  ├─ x #2\n"
        "│  └─ y #3\n"
        "└─ 1.x #4\n");
}

TEST_CASE("the node of a step belongs to it") {
  CHECK(StepOfNode("web.vm") == "web.vm");
  CHECK(StepOfNode("web.vm/finalize/error") == "web.vm");
  CHECK(StepOfNode("node1/end") == "node1");
  CHECK(StepOfNode("node1/compensate") == "node1");
  CHECK(StepOfNode("node1/compensate.delete/error") == "node1/compensate.delete");
}

TEST_CASE("what compensates a section stands below it, and its tries are told") {
  CHECK(Names({"s", "s.a", "s/compensate.u", "s/compensate.v"}) ==
        "s #0\n"
        "├─ a #1\n"
        "└─ compensate\n"
        "   ├─ u #2\n"
        "   └─ v #3\n");
  Steps steps;
  v1::Step& section = *steps.Add();
  section = StepOf("s", v1::Step::RUNNING);
  section.set_tries(1);
  section.set_tries_limit(3);
  section.set_note("s.a: no room");
  CHECK(Printed(steps, false).find("try 2 of 3; s.a: no room\n") != std::string::npos);
}

TEST_CASE("steps are counted, and the state that wants attention stands for all") {
  Tally tally;
  tally.Add(StepOf("a", v1::Step::DONE));
  CHECK(TallyText(tally) == "1 of 1 step done");
  CHECK(tally.state() == v1::Step::DONE);
  tally.Add(StepOf("b", v1::Step::PENDING));
  CHECK(tally.state() == v1::Step::RUNNING);
  tally.Add(StepOf("c", v1::Step::SKIPPED));
  tally.Add(StepOf("d", v1::Step::HELD));
  tally.Add(StepOf("e", v1::Step::RUNNING));
  CHECK(tally.state() == v1::Step::HELD);
  CHECK(TallyText(tally) == "1 of 5 steps done, 1 running, 1 held, 1 skipped");
}

TEST_CASE("how long a step takes is known while it goes on, and when it has ended") {
  const Look look{.now = FromMicros(100'000'000)};
  v1::Step step = StepOf("a", v1::Step::RUNNING);
  CHECK(TookText(step, look) == "");
  *step.mutable_start_time() = ToProto(FromMicros(90'000'000));
  CHECK(TookText(step, look) == "10.0s");
  step.set_state(v1::Step::HELD);
  CHECK(TookText(step, look) == "");
  *step.mutable_end_time() = ToProto(FromMicros(92'000'000));
  CHECK(TookText(step, look) == "2.00s");
}

TEST_CASE("neighbours at rest share a line when there are many") {
  Steps steps;
  const auto add = [&](const std::string& path, v1::Step::State state) {
    *steps.Add() = StepOf(path, state);
  };
  add("first", v1::Step::DONE);
  for (int i = 0; i < 4; ++i) {
    const std::string node = "node." + std::to_string(i);
    add(node + ".disk", i < 3 ? v1::Step::DONE : v1::Step::RUNNING);
    add(node + ".vm", i < 2 ? v1::Step::DONE : v1::Step::PENDING);
  }
  add("y", v1::Step::PENDING);
  add("z", v1::Step::PENDING);
  CHECK(Printed(steps, true) ==
        "STEP        STATE      ACTION  STARTED  TOOK  PROGRESS  NOTE\n"
        "first       ✓ DONE     -       -        -     -         -\n"
        "node        ▶ RUNNING  -       -        -     -         5 of 8 steps done, 1 running\n"
        "├─ 0 … 1    ✓ DONE     -       -        -     -         4 of 4 steps done\n"
        "├─ 2        ▶ RUNNING  -       -        -     -         1 of 2 steps done\n"
        "│  ├─ disk  ✓ DONE     -       -        -     -         -\n"
        "│  └─ vm    · PENDING  -       -        -     -         -\n"
        "└─ 3        ▶ RUNNING  -       -        -     -         0 of 2 steps done, 1 running\n"
        "   ├─ disk  ▶ RUNNING  -       -        -     -         -\n"
        "   └─ vm    · PENDING  -       -        -     -         -\n"
        "y … z       · PENDING  -       -        -     -         0 of 2 steps done\n");
  CHECK(Printed(steps, false).find("├─ 1") != std::string::npos);
}

TEST_CASE("a step that finalizes is not at rest") {
  Steps steps;
  *steps.Add() = StepOf("a", v1::Step::DONE);
  *steps.Add() = StepOf("b", v1::Step::DONE);
  steps.Mutable(1)->set_finalize(v1::Step::HELD);
  const std::string text = Printed(steps, true);
  CHECK(text.find("…") == std::string::npos);
  CHECK(text.find("finalize held") != std::string::npos);
}

TEST_CASE("show draws a plan by its steps and says what to do next") {
  FakeServer server;
  server.instance = PausedPlan();
  const Outcome shown = Dcli({"show", "infra-7", "--server", server.address});
  CHECK(shown.status == 0);
  CHECK(shown.out ==
        "Instance      infra-7\n"
        "Machine       infra v1\n"
        "State         PAUSED\n"
        "Result        PENDING\n"
        "Label         machine web\n"
        "Error         web.vm: no disk\n"
        "Progress      52 %, 1 of 5 steps done, 1 suspended, 2 held\n"
        "Output of db  {\"ip\":\"::1\"}\n"
        "\n"
        "STEP      STATE        ACTION     STARTED                   TOOK   PROGRESS  NOTE\n"
        "db        ✓ DONE       db.setup   2026-01-01T00:00:00.000Z  1m30s  -         -\n"
        "web       ✗ HELD       -          -                         -      -         "
        "0 of 2 steps done, 1 held\n"
        "├─ vm     ✗ HELD       vm.create  2026-01-01T00:00:10.000Z  -      40 %      no disk\n"
        "└─ hosts  · PENDING    hosts.add  -                         -      -         -\n"
        "fleet     ✗ HELD       -          -                         -      -         "
        "children 10/100, 3 running, 2 failed\n"
        "approval  ‖ SUSPENDED  ask        -                         -      -         -\n"
        "\n"
        "Next:\n"
        "  dcli instances --parent infra-7 --state paused\n"
        "  dcli resume infra-7\n"
        "  dcli resume infra-7 --node web.vm\n"
        "  dcli skip infra-7 web.vm\n"
        "  dcli transition infra-7 patch --node web.vm --params '{\"KEY\": ...}'\n"
        "  dcli resume infra-7 --node fleet\n"
        "  dcli skip infra-7 fleet\n"
        "  dcli transition infra-7 EVENT --node approval KEY=VALUE\n"
        "  dcli cancel infra-7\n"
        "  dcli history infra-7\n"
        "  dcli graph infra-7 --flow\n");
  REQUIRE(server.looked.size() == 1);
  CHECK(server.looked[0].with_nodes());
  server.instance.set_error("cannot go on");
  CHECK(Dcli({"show", "infra-7", "--server", server.address})
            .out.find("\nHeld          web.vm: no disk\n") != std::string::npos);
}

TEST_CASE("show does not say to resume what waits its turn under a limit") {
  FakeServer server;
  v1::Instance& instance = server.instance;
  instance.set_id("i");
  instance.set_machine("m");
  const auto resumes = [&] {
    return Dcli({"show", "i", "--server", server.address}).out.find("dcli resume i") !=
           std::string::npos;
  };
  for (const auto state : {v1::Instance::SCHEDULED, v1::Instance::PAUSED}) {
    instance.set_state(state);
    instance.clear_waits_for();
    v1::Wait* wait = instance.add_waits_for();
    wait->set_kind(v1::Wait::LIMIT);
    wait->set_key("k");
    CHECK_FALSE(resumes());
    wait->set_kind(v1::Wait::HOLD);
    CHECK(resumes());
  }
}

TEST_CASE("a step that waits says until when") {
  Steps steps;
  *steps.Add() = StepOf("a", v1::Step::WAITING, "x");
  std::ostringstream out;
  StepTable(steps, false, {}, {{"a", ToProto(FromMicros(1'767'225'600'000'000))}}).Print(out, {});
  CHECK(out.str().find("again 2026-01-01T00:00:00.000Z\n") != std::string::npos);
}

TEST_CASE("programs get the steps when they ask for them") {
  FakeServer server;
  server.instance = PausedPlan();
  const auto shown = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"show", "infra-7", "-o", "json", "--server", server.address});
    return Dcli(words).out.find("\"steps\":[") != std::string::npos;
  };
  CHECK_FALSE(shown({}));
  CHECK(shown({"--steps"}));
}

TEST_CASE("show keeps a plan of many steps short, unless it is to be wide") {
  FakeServer server;
  server.instance.set_id("big-1");
  server.instance.set_state(v1::Instance::RUNNING);
  for (int i = 0; i < 500; ++i) {
    const std::string path = "node." + std::to_string(i);
    *server.instance.add_steps() = StepOf(path, i < 250 ? v1::Step::DONE : v1::Step::PENDING);
    (*server.instance.mutable_outputs())[path] = "{}";
    if (i < 250) continue;
    auto* token = server.instance.add_tokens();
    token->set_node(path);
    token->add_claims()->set_worker("w");
  }
  const auto lines = [&](const char* format) {
    const std::string out = Dcli({"show", "big-1", "-o", format, "--server", server.address}).out;
    return std::count(out.begin(), out.end(), '\n');
  };
  CHECK(lines("table") < 50);
  CHECK(lines("wide") > 1'250);
}

TEST_CASE("instances of a plan stand on steps") {
  v1::Instance instance;
  const auto add = [&](const char* node, v1::Token::State state) {
    auto* token = instance.add_tokens();
    token->set_node(node);
    token->set_state(state);
  };
  add("web.vm/error", v1::Token::HELD);
  add("ask/suspended", v1::Token::WAITING);
  CHECK(StandingText(instance) == "web.vm (held), ask (suspended)");
  instance.clear_tokens();
  add("/end", v1::Token::DONE);
  CHECK(StandingText(instance) == "");
}

}  // namespace dfsmr::cli
