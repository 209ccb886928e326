#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "dcli/json.h"
#include "dcli/process.h"
#include "tests/dcli/dcli.h"
#include "tests/dcli/fake_server.h"

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

}  // namespace dfsmr::cli
