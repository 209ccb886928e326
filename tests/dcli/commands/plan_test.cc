// The commands where they meet plans.
#include <doctest/doctest.h>

#include "dcli/commands/sources.h"
#include "dcli/text/output.h"
#include "tests/dcli/dcli.h"
#include "tests/dcli/fake_server.h"
#include "tests/dcli/plans.h"
#include "tests/dcli/temporary_file.h"

namespace dfsmr::cli {
namespace {

constexpr const char* kInfra =
    "action: vm.create\nqueue: slow\n---\n"
    "plan: infra\nflow:\n  - {step: vm, action: vm.create}\n---\n"
    "id: a\nnodes: {s: {start: true, transitions: {ok: e}}, e: {final: true}}\n";

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("start takes a flow, and what it is to wait for") {
  FakeServer server;
  const TemporaryFile flow("- {step: a, action: x}\n");
  const Outcome started =
      Dcli({"start", "--flow", flow.path, "name=web", "n:=1", "--hold", "--after", "i-1", "--after",
            "i-2", "--after-any", "i-3", "--server", server.address});
  CHECK(started.status == 0);
  REQUIRE(server.started.size() == 1);
  const v1::StartRequest& request = server.started[0];
  CHECK(request.machine() == "");
  CHECK(request.flow() == "- {step: a, action: x}\n");
  CHECK(request.params() == R"({"name":"web","n":1})");
  CHECK(request.hold());
  REQUIRE(request.after_size() == 3);
  CHECK(request.after(1).instance() == "i-2");
  CHECK_FALSE(request.after(1).any_result());
  CHECK(request.after(2).instance() == "i-3");
  CHECK(request.after(2).any_result());

  Dcli({"start", "mine", "a=b", "--flow", flow.path, "--server", server.address});
  REQUIRE(server.started.size() == 2);
  CHECK(server.started[1].machine() == "mine");
  CHECK(server.started[1].params() == R"({"a":"b"})");
}

TEST_CASE("start without a machine or with a flow that is not there is bad usage") {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"start"}, {"start", "--wait"}, {"start", "--flow", "/no/such"},
        {"start", "--flow"}, {"start", "--flow", "/no/such", "m", "b"}}) {
    const Outcome bad = Dcli(words);
    CHECK(bad.status == 2);
    CHECK(bad.out == "");
    CHECK(bad.err.starts_with("dcli: "));
  }
}

TEST_CASE("a step is named after the instance or by a flag") {
  FakeServer server;
  server.instance.set_id("infra-7");
  const auto skip = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"skip", "infra-7", "--server", server.address});
    return Dcli(words);
  };
  CHECK(skip({"web.vm"}).status == 0);
  CHECK(skip({"--node", "web.vm"}).status == 0);
  CHECK(skip({}).status == 0);
  CHECK(skip({"a", "--node", "b"}).status == 2);
  REQUIRE(server.skipped.size() == 3);
  CHECK(server.skipped[0].node() == "web.vm");
  CHECK(server.skipped[1].node() == "web.vm");
  CHECK(server.skipped[2].node() == "");
  CHECK(Dcli({"resume", "infra-7", "--node", "web.vm", "--force", "--server", server.address})
            .status == 0);
  CHECK(server.resumed.at(0).node() == "web.vm");
  CHECK(server.resumed.at(0).force());
}

TEST_CASE("operators send events, patches and what to wait for") {
  FakeServer server;
  server.legal = {"approved", "patch", "suspend"};
  const auto send = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"transition", "infra-7", "--server", server.address});
    return Dcli(words);
  };
  CHECK(send({"approved", "by=ann", "--node", "ask"}).status == 0);
  CHECK(send({"patch", "--node", "web.vm", "--params", R"({"size": 2.50})"}).status == 0);
  CHECK(send({"suspend", "--claim", "c", "--wake-after", "1m30s", "--children-concurrency", "4",
              "--child", "vm@2={\"n\":1.0}", "--child", "net"})
            .status == 0);
  REQUIRE(server.reports.size() == 3);
  CHECK(server.reports[0].node() == "ask");
  CHECK(server.reports[0].node_params() == R"({"by":"ann"})");
  CHECK(server.reports[1].node_params() == R"({"size": 2.50})");
  const v1::TransitionRequest& suspend = server.reports[2];
  CHECK(suspend.wake_after().seconds() == 90);
  CHECK(suspend.children_concurrency() == 4);
  REQUIRE(suspend.children_size() == 2);
  CHECK(suspend.children(0).machine() == "vm");
  CHECK(suspend.children(0).version() == 2);
  CHECK(suspend.children(0).params() == R"({"n":1.0})");
  CHECK(suspend.children(1).machine() == "net");
  CHECK_FALSE(server.reports[0].has_wake_after());

  CHECK(send({"suspend", "--wake-after", "soon"}).status == 2);
  CHECK(send({"suspend", "--child", "vm=[1]"}).status == 2);
  CHECK(send({"suspend", "--children-concurrency", "-1"}).status == 2);
}

TEST_CASE("instances are found by their parent") {
  FakeServer server;
  Dcli({"instances", "--parent", "infra-7", "--limit", "1", "--server", server.address});
  CHECK(server.listed.at(0).parent() == "infra-7");
}

TEST_CASE("a plan is described by its steps, and by its nodes when it is to be wide") {
  FakeServer server;
  server.machine = CompiledPlan();
  const Outcome shown = Dcli({"machines", "infra", "--server", server.address});
  CHECK(shown.status == 0);
  CHECK(shown.out.starts_with("Plan       infra v3\n"));
  CHECK(Has(shown.out,
            "STEP   ACTION    READY  CLAIMED  WAITING  SUSPENDED  HELD  COMPLETED  P50  P95  "
            "TIMEOUT  AFTER\n"
            "web.a  do.web.a  -      2        -        -          1     0          -    -    "
            "none     -\n"
            "b      do.b      -      -        -        4          -     0          -    -    "
            "none     -\n"
            "c      c         -      -        -        -          -     0          -    -    "
            "none     web.a, b\n"));
  CHECK_FALSE(Has(shown.out, "/error"));
  CHECK(Has(Dcli({"machines", "infra", "-o", "wide", "--server", server.address}).out, "c/gate"));
  server.machine.set_kind("action");
  CHECK(Dcli({"machines", "infra", "--server", server.address})
            .out.starts_with("Action     infra v3\n"));
  CHECK(Has(Dcli({"machines", "--server", server.address}).out, "infra    v3       action"));
}

TEST_CASE("define says of machines, plans and actions alike what became of them") {
  const TemporaryFile file(kInfra);
  FakeServer server;
  const auto define = [&](const char* kind, const char* id, uint32_t version, bool changed) {
    auto* defined = server.definitions.add_defined();
    defined->set_kind(kind);
    defined->set_id(id);
    defined->set_version(version);
    defined->set_changed(changed);
    return defined;
  };
  define("action", "vm.create", 1, true);
  auto* infra = define("plan", "infra", 3, true);
  infra->set_upgrade_strategy("upgrade");
  infra->set_affected_instances(7);
  define("machine", "a", 1, false);
  CHECK(Dcli({"define", file.path, "--server", server.address}).out ==
        "action vm.create  v1  new\n"
        "plan infra  v3  changed  (upgrade: 7 instances)\n"
        "machine a  v1  unchanged\n");
  CHECK(Dcli({"define", file.path, "-o", "name", "--server", server.address}).out ==
        "vm.create\ninfra\na\n");
  CHECK(Dcli({"define", file.path, "-o", "json", "--server", server.address}).out ==
        *JsonOf(server.definitions) + '\n');
}

TEST_CASE("a plan is drawn by its steps, an instance before its planning too") {
  FakeServer server;
  server.machine = CompiledPlan();
  const auto draw = [&](const char* what) {
    return Dcli({"graph", what, "--flow", "--server", server.address});
  };
  CHECK(Has(draw("infra").out, "web_a --> c\n"));
  server.instance = PausedPlan();
  CHECK(Has(draw("infra-7").out, "db --> web_vm\n"));
  server.instance.clear_steps();
  CHECK(Has(draw("infra-7").out, "web_a --> c\n"));
  server.machine.set_kind("machine");
  for (const char* what : {"infra", "infra-7"}) {
    const Outcome none = draw(what);
    CHECK(none.status == 1);
    CHECK(Has(none.err, "has no steps to draw\nhint: without --flow"));
  }
}

TEST_CASE("completion knows the steps that are under way") {
  FakeServer server;
  server.instance = PausedPlan();
  const auto complete = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"__complete", "--server", server.address});
    return Dcli(words).out;
  };
  const std::string steps = "web.vm\theld\nfleet\theld\napproval\tsuspended\n";
  CHECK(complete({"skip", "infra-7", ""}) == steps);
  CHECK(complete({"resume", "infra-7", "--node", ""}) == steps);
  CHECK(complete({"transition", "infra-7", "patch", "--node", "web"}) == "web.vm\theld\n");
  CHECK(Has(complete({"transition", "infra-7", "pa"}), "patch\t"));
  CHECK(complete({"start", "x", "--after", "i19"}).starts_with("i19\t"));
  CHECK(complete({"start", "--flow", ""}) == "");
  CHECK(Has(complete({"graph", "x", "--fl"}), "--flow\t"));
  CHECK(complete({"changes", "--after", ""}) == "");
  server.machine = CompiledPlan();
  CHECK(complete({"start", "inf"}) == "infra\tplan, v3\n");
}

}  // namespace dfsmr::cli
