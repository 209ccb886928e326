#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "dcli/system/process.h"
#include "dcli/text/json.h"
#include "tests/dcli/dcli.h"
#include "tests/dcli/fake_server.h"
#include "tests/dcli/temporary_file.h"

namespace dfsmr::cli {
namespace {

v1::Task OneTask() {
  v1::Task task;
  task.set_namespace_("default");
  task.set_instance("c-1");
  task.set_machine("crawler");
  task.set_version(2);
  task.set_node("crawl");
  task.set_attempt(1);
  task.set_claim("claim-7");
  task.set_instance_params(R"({"url":"http://x/"})");
  return task;
}

v1::Task StepTask(const std::string& phase) {
  v1::Task task = OneTask();
  task.set_node("web.vm");
  task.set_action("vm.create");
  task.set_phase(phase);
  return task;
}

Outcome WorkOnce(const FakeServer& server, const std::string& script,
                 std::vector<std::string> flags = {}) {
  std::vector<std::string> words = {"work", "crawler", "--once", "--server", server.address};
  words.insert(words.end(), flags.begin(), flags.end());
  words.insert(words.end(), {"--", "sh", "-c", script});
  return Dcli(words);
}

// A file that a command can wait for.
class Signpost {
 public:
  Signpost() {
    char name[] = "/tmp/dcli_test_XXXXXX";
    Descriptor(mkstemp(name)).Close();
    path_ = name;
    std::remove(name);
  }
  ~Signpost() { std::remove(path_.c_str()); }
  void Raise() const { std::ofstream(path_) << "now"; }
  std::string Await() const { return "while [ ! -e " + path_ + " ]; do sleep 0.01; done; "; }

 private:
  std::string path_;
};

v1::Task DueInMilliseconds(int64_t ms) {
  v1::Task task = OneTask();
  const auto due = std::chrono::system_clock::now() + std::chrono::milliseconds(ms);
  const auto micros = std::chrono::floor<std::chrono::microseconds>(due.time_since_epoch()).count();
  task.mutable_deadline()->set_seconds(micros / 1'000'000);
  task.mutable_deadline()->set_nanos(static_cast<int32_t>(micros % 1'000'000 * 1'000));
  return task;
}

}  // namespace

TEST_CASE("a command gets the task, and what it says last is reported") {
  FakeServer server;
  server.tasks.push_back(OneTask());
  const Outcome done =
      WorkOnce(server,
               "echo $DFSMR_INSTANCE $DFSMR_MACHINE $DFSMR_NODE $DFSMR_ATTEMPT $DFSMR_CLAIM;"
               "test $DFSMR_NAMESPACE:$DFSMR_SERVER = default:" +
                   server.address +
                   " || exit 8;"
                   "grep -q '\"instanceParams\":{\"url\":\"http://x/\"}' || exit 9;"
                   "echo '{\"params\": {\"n\": 1.50}, \"output\": {\"links\": []}}'");
  CHECK(done.status == 0);
  CHECK(done.err == "");
  CHECK(done.out.starts_with("c-1 crawler crawl 1 claim-7\n"));
  REQUIRE(server.reports.size() == 1);
  CHECK(server.reports[0].transition() == "ok");
  CHECK(server.reports[0].claim() == "claim-7");
  CHECK(server.reports[0].node_params() == "{\"n\": 1.50}");
  CHECK(server.reports[0].output() == "{\"links\": []}");
  CHECK(server.polls[0].machine() == "crawler");
  CHECK(server.polls[0].max_tasks() == 1);
}

TEST_CASE("a command that fails reports error, with its last words") {
  FakeServer server;
  server.tasks.push_back(OneTask());
  const Outcome done = WorkOnce(server, "echo no disk >&2; exit 4");
  CHECK(done.status == 0);
  CHECK(done.err == "no disk\n");
  REQUIRE(server.reports.size() == 1);
  CHECK(server.reports[0].transition() == "error");
  CHECK(server.reports[0].error() == "exit status 4: no disk");
}

TEST_CASE("a node with one transition takes it on success") {
  FakeServer server;
  server.legal = {"next"};
  server.tasks.push_back(OneTask());
  CHECK(WorkOnce(server, "true").status == 0);
  REQUIRE(server.reports.size() == 1);
  CHECK(server.reports[0].transition() == "next");
}

TEST_CASE("choices by conditions are one transition") {
  FakeServer server;
  server.legal = {"next", "next"};
  server.tasks.push_back(OneTask());
  CHECK(WorkOnce(server, "true").status == 0);
  REQUIRE(server.reports.size() == 1);
  CHECK(server.reports[0].transition() == "next");
}

TEST_CASE("a command that is there and cannot be run is not called missing") {
  FakeServer server;
  const TemporaryFile file("no program");
  const Outcome ended = Dcli({"work", "--server", server.address, "--", file.path});
  CHECK(ended.status == 2);
  CHECK(ended.err.starts_with("dcli: cannot run " + file.path + ": it is not executable\n"));
}

TEST_CASE("what a node cannot take is given back, and ends the work") {
  FakeServer server;
  server.legal = {"left", "right"};
  server.tasks.push_back(OneTask());
  std::string script = "true";
  std::string wanted = "ok";
  SUBCASE("by exit status") {}
  SUBCASE("by name") {
    script = "echo '{\"transition\": \"up\"}'";
    wanted = "up";
  }
  const Outcome ended = WorkOnce(server, script);
  CHECK(ended.status == 1);
  CHECK(ended.err.find("dcli: crawler/crawl has no transition \"" + wanted +
                       "\"; its transitions are: left, right\nhint: ") != std::string::npos);
  CHECK(server.reports.empty());
  REQUIRE(server.given_back.size() == 1);
  CHECK(server.given_back[0].claim() == "claim-7");
}

TEST_CASE("a single transition is not taken by a command that failed") {
  FakeServer server;
  server.legal = {"next"};
  server.tasks.push_back(OneTask());
  CHECK(WorkOnce(server, "exit 1").status == 1);
  CHECK(server.reports.empty());
  CHECK(server.given_back.size() == 1);
}

TEST_CASE("the claim is extended while the command runs") {
  FakeServer server;
  const Signpost post;
  server.tasks.push_back(DueInMilliseconds(90));
  server.on_extend = [&](int count) {
    if (count == 3) post.Raise();
    v1::ExtendResponse::Item item;
    *item.mutable_deadline() = DueInMilliseconds(90).deadline();
    return item;
  };
  CHECK(WorkOnce(server, post.Await()).status == 0);
  CHECK(server.extends >= 3);
  CHECK(server.reports.size() == 1);
}

TEST_CASE("a command is told to stop when its instance is cancelled, and still reports") {
  FakeServer server;
  const Signpost never;
  server.tasks.push_back(DueInMilliseconds(90));
  server.on_extend = [](int) {
    v1::ExtendResponse::Item item;
    item.set_cancel_requested(true);
    return item;
  };
  const Outcome done = WorkOnce(server, "trap 'echo bye; exit 5' TERM;" + never.Await());
  CHECK(done.status == 0);
  CHECK(done.out == "bye\n");
  REQUIRE(server.reports.size() == 1);
  CHECK(server.reports[0].error().starts_with("exit status 5"));
}

TEST_CASE("a command is killed, and its result dropped, when its claim is gone") {
  FakeServer server;
  const Signpost never;
  server.tasks.push_back(DueInMilliseconds(90));
  std::string word = "was killed";
  SUBCASE("killed") {
    server.on_extend = [](int) {
      v1::ExtendResponse::Item item;
      item.set_kill_requested(true);
      return item;
    };
  }
  SUBCASE("stale") {
    word = "not ours any more";
    server.on_extend = [](int) {
      v1::ExtendResponse::Item item;
      item.mutable_error()->set_code(grpc::StatusCode::FAILED_PRECONDITION);
      item.mutable_error()->set_reason("STALE_CLAIM");
      return item;
    };
  }
  const Outcome done = WorkOnce(server, "trap '' TERM;" + never.Await());
  CHECK(done.status == 0);
  CHECK(done.err.find(word) != std::string::npos);
  CHECK(server.reports.empty());
  CHECK(server.given_back.empty());
}

TEST_CASE("what is in hand while the server is away is reported when it is back") {
  FakeServer server;
  server.tasks.push_back(OneTask());
  server.absent = 7;  // more than one call tries by itself
  const Outcome done = WorkOnce(server, "true");
  CHECK(done.status == 0);
  CHECK(done.err.find("the server is gone") != std::string::npos);
  CHECK(server.reports.size() == 1);
}

TEST_CASE("middleware wraps the command, and one that is not here fails the task by name") {
  FakeServer server;
  server.tasks.push_back(OneTask());
  server.tasks[0].add_middleware("quiet");
  server.tasks[0].add_middleware("audit");
  SUBCASE("here") {
    const Outcome done = WorkOnce(
        server, "echo $A $B", {"--middleware", "quiet=env A=1", "--middleware", "audit=env B=2"});
    CHECK(done.out == "1 2\n");
    CHECK(server.reports.at(0).transition() == "ok");
  }
  SUBCASE("not here") {
    CHECK(WorkOnce(server, "echo ran", {"--middleware", "quiet=env A=1"}).out == "");
    CHECK(server.reports.at(0).transition() == "error");
    CHECK(server.reports.at(0).error() == "this worker has no middleware \"audit\"");
  }
}

TEST_CASE("a middleware that does not run the rest stops there, and speaks for the task") {
  FakeServer server;
  server.tasks.push_back(OneTask());
  server.tasks[0].add_middleware("audit");
  server.tasks[0].add_middleware("gate");
  std::string gate = "true";
  SUBCASE("it is content") {}
  SUBCASE("it is not") { gate = "false"; }
  const Outcome done = WorkOnce(
      server, "echo ran", {"--middleware", "audit=env A=1", "--middleware", "gate=" + gate});
  CHECK(done.out == "");
  REQUIRE(server.reports.size() == 1);
  CHECK(server.reports[0].transition() == (gate == "true" ? "ok" : "error"));
}

TEST_CASE("middleware is a script around the command, with what the command has") {
  FakeServer server;
  server.tasks.push_back(OneTask());
  server.tasks[0].add_middleware("audit");
  const TemporaryFile audit(
      "#!/bin/sh\necho before $DFSMR_INSTANCE\n\"$@\"\necho after $?\n", 0700);
  const Outcome done = WorkOnce(server, "grep -c instanceParams; exit 3",
                                {"--middleware", "audit=" + audit.path});
  CHECK(done.out == "before c-1\n1\nafter 3\n");
  CHECK(server.reports.at(0).transition() == "ok");
}

TEST_CASE("middleware that cannot be run is bad usage") {
  const FakeServer server;
  for (const char* pair : {"audit=no-such-command-here x", "audit=", "=true", "audit"}) {
    CAPTURE(pair);
    const Outcome bad = WorkOnce(server, "true", {"--middleware", pair});
    CHECK(bad.status == 2);
    CHECK(bad.err.starts_with("dcli: "));
  }
}

TEST_CASE("the command of a plan's step knows its action, phase and event") {
  FakeServer server;
  server.tasks.push_back(StepTask("run"));
  server.tasks[0].set_event("approved");
  server.tasks[0].set_event_data(R"({"by":"ann"})");
  const Outcome done = WorkOnce(server,
                                "echo $DFSMR_ACTION $DFSMR_PHASE $DFSMR_EVENT;"
                                "grep -q '\"eventData\":{\"by\":\"ann\"}'");
  CHECK(done.out == "vm.create run approved\n");
  CHECK(server.reports.at(0).transition() == "ok");
}

TEST_CASE("a step suspends with what it waits for") {
  FakeServer server;
  server.legal = {"ok", "error", "suspend"};
  server.tasks.push_back(StepTask("run"));
  const Outcome done = WorkOnce(
      server,
      "echo '{\"transition\":\"suspend\",\"wake_after\":\"30s\",\"children_concurrency\":2,"
      "\"children\":[{\"machine\":\"vm@3\",\"id\":\"a\",\"params\":{\"n\":1.0}}]}'");
  CHECK(done.status == 0);
  REQUIRE(server.reports.size() == 1);
  const v1::TransitionRequest& report = server.reports[0];
  CHECK(report.transition() == "suspend");
  CHECK(report.wake_after().seconds() == 30);
  CHECK(report.children_concurrency() == 2);
  REQUIRE(report.children_size() == 1);
  CHECK(report.children(0).machine() == "vm");
  CHECK(report.children(0).version() == 3);
  CHECK(report.children(0).id() == "a");
  CHECK(report.children(0).params() == R"({"n":1.0})");
}

TEST_CASE("a report starts what the command has found") {
  FakeServer server;
  server.tasks.push_back(OneTask());
  const std::string line =
      "echo '{\"start\":[{\"machine\":\"page@2\",\"id\":\"a\",\"params\":{\"n\":1.0}},"
      "{\"machine\":\"page\"}]}'";
  SUBCASE("with success") {
    WorkOnce(server, line);
    REQUIRE(server.reports.size() == 1);
    const v1::TransitionRequest& report = server.reports[0];
    CHECK(report.transition() == "ok");
    REQUIRE(report.starts_size() == 2);
    CHECK(report.starts(0).machine() == "page");
    CHECK(report.starts(0).version() == 2);
    CHECK(report.starts(0).id() == "a");
    CHECK(report.starts(0).params() == R"({"n":1.0})");
    CHECK(report.starts(1).machine() == "page");
  }
  SUBCASE("with an error") {
    WorkOnce(server, line + "; exit 3");
    REQUIRE(server.reports.size() == 1);
    CHECK(server.reports[0].transition() == "error");
    CHECK(server.reports[0].starts_size() == 2);
  }
  SUBCASE("and what cannot be started is the task's error") {
    server.refuses_starts = true;
    SUBCASE("of a success") { WorkOnce(server, line); }
    SUBCASE("of an error") { WorkOnce(server, line + "; exit 3"); }
    REQUIRE(server.reports.size() == 1);
    CHECK(server.reports[0].transition() == "error");
    CHECK(server.reports[0].error().find("starts[0]: exists already") != std::string::npos);
    CHECK(server.reports[0].starts_size() == 0);
    CHECK(server.given_back.empty());
  }
}

TEST_CASE("a planner reports planned") {
  FakeServer server;
  server.legal = {"planned", "error"};
  server.tasks.push_back(StepTask("plan"));
  WorkOnce(server, "echo '{\"output\":{\"flow\":[{\"step\":\"a\",\"action\":\"x\"}]}}'");
  REQUIRE(server.reports.size() == 1);
  CHECK(server.reports[0].transition() == "planned");
  CHECK(server.reports[0].output() == R"({"flow":[{"step":"a","action":"x"}]})");
}

TEST_CASE("what a step cannot take is known without asking the server") {
  FakeServer server;
  server.legal = {};
  std::string phase = "run";
  std::string known = "ok, error, suspend";
  SUBCASE("run") {}
  SUBCASE("plan") {
    phase = "plan";
    known = "planned, error";
  }
  SUBCASE("finalize") {
    phase = "finalize";
    known = "ok, error";
  }
  server.tasks.push_back(StepTask(phase));
  const Outcome ended = WorkOnce(server, "echo '{\"transition\": \"up\"}'");
  CHECK(ended.status == 1);
  CHECK(ended.err.find("has no transition \"up\"; its transitions are: " + known) !=
        std::string::npos);
  CHECK(server.looked.empty());
  CHECK(server.given_back.size() == 1);
}

}  // namespace dfsmr::cli
