#include "dcli/work/verdict.h"

#include <doctest/doctest.h>

#include "dcli/text/json.h"

namespace dfsmr::cli {
namespace {

constexpr int kExit0 = 0;
constexpr int kExit3 = 3 << 8;  // as waitpid has it
constexpr int kKilled = 9;

}  // namespace

TEST_CASE("the exit status is the report, with the last words when it failed") {
  CHECK(VerdictOf(kExit0, "", "some log\n") == Verdict{.transition = "ok"});
  CHECK(VerdictOf(kExit3, "", "") == Verdict{.transition = "error", .error = "exit status 3"});
  CHECK(VerdictOf(kExit3, "", "a\nb\n\n").error == "exit status 3: a\nb");
  CHECK(VerdictOf(kExit3, "", "1\n2\n3\n4\n5\n6\n7\n").error == "exit status 3: 3\n4\n5\n6\n7");
  CHECK(VerdictOf(kKilled, "", "").error == "killed by signal 9 (Killed)");
}

TEST_CASE("a last line that is a JSON object says otherwise") {
  const Verdict verdict = VerdictOf(
      kExit0,
      "working\n"
      R"({"transition": "later", "params": {"n": 12345678901234567890}, "output": {"a": [1]}})"
      "\n\n",
      "");
  CHECK(verdict.transition == "later");
  CHECK(verdict.named);
  CHECK(verdict.params == R"({"n": 12345678901234567890})");
  CHECK(verdict.output == R"({"a": [1]})");
  CHECK(VerdictOf(kExit3, R"({"error": "no disk"})", "log") ==
        Verdict{.transition = "error", .error = "no disk"});
  CHECK(VerdictOf(kExit3, R"({"transition": "ok"})", "log") ==
        Verdict{.transition = "ok", .named = true});
  CHECK(VerdictOf(kExit3, R"({"transition": "ok", "error": "late"})", "log").error == "late");
  CHECK(VerdictOf(kExit0, "{\"params\": null}\r\n", "") == Verdict{.transition = "ok"});
}

TEST_CASE("other last lines are only output") {
  for (const char* out :
       {"", "done", "[1]", "{\"transition\": \"x\"", "{\"transition\": \"x\"}\nbye",
        "x {\"transition\": \"x\"}", "{}", "{\"level\": \"info\"}"}) {
    CAPTURE(out);
    CHECK(VerdictOf(kExit0, out, "") == Verdict{.transition = "ok"});
  }
}

TEST_CASE("a report of the wrong shape is an error that says so") {
  for (const char* out :
       {"{\"transition\": 5}", "{\"params\": []}", "{\"output\": \"x\"}", "{\"error\": {}}"}) {
    CAPTURE(out);
    const Verdict verdict = VerdictOf(kExit0, out, "");
    CHECK(verdict.transition == "error");
    CHECK(verdict.error.find("is no report") != std::string::npos);
  }
}

TEST_CASE("errors that are reported are UTF-8 whatever the command wrote") {
  CHECK(VerdictOf(kExit3, "", "bad \xff byte").error == "exit status 3: bad \xef\xbf\xbd byte");
}

TEST_CASE("a command may suspend, wait and start others") {
  const Verdict verdict = VerdictOf(
      kExit0,
      R"({"transition": "suspend", "wake_after": "1m30s", "output": {"vm": 7},)"
      R"( "children_concurrency": 5, "children": [{"machine": "vm@2", "params": {"n": 1.0},)"
      R"( "id": "a"}, {"machine": "net"}]})",
      "");
  CHECK(verdict.error == "");
  CHECK(verdict.transition == "suspend");
  CHECK(verdict.output == R"({"vm": 7})");
  CHECK(verdict.wake_after == std::chrono::seconds(90));
  const Verdict camel = VerdictOf(0, R"({"transition": "suspend", "wakeAfter": "2s"})", "");
  CHECK(camel.wake_after == std::chrono::seconds(2));
  CHECK(verdict.children_concurrency == 5);
  REQUIRE(verdict.children.size() == 2);
  CHECK(verdict.children[0] == Child{{"vm", 2}, "a", R"({"n": 1.0})"});
  CHECK(verdict.children[1] == Child{{"net", 0}, "", ""});
  CHECK(VerdictOf(kExit0, R"({"transition": "suspend", "children": []})", "").error == "");
}

TEST_CASE("a command may say what its error is, and when to try again") {
  const Verdict verdict = VerdictOf(
      kExit3, R"({"error": "no", "error_kind": "oom", "fatal": true, "retry_after": "1m"})", "");
  CHECK(verdict.transition == "error");
  CHECK((verdict.error == "no" && verdict.error_kind == "oom" && verdict.fatal));
  CHECK(verdict.retry_after == std::chrono::minutes(1));
  const Verdict named = VerdictOf(kExit0, R"({"transition": "error", "retryAfter": "2s"})", "");
  CHECK(named.retry_after == std::chrono::seconds(2));
  const std::pair<const char*, const char*> kBad[] = {
      {R"({"transition": "error", "retry_after": 30})", "such as \"30s\""},
      {R"({"transition": "error", "fatal": "yes"})", "neither true nor false"},
      {R"({"transition": "error", "error_kind": 7})", "\"error_kind\" is not a string"},
      {R"({"fatal": true})", "\"transition\": \"error\""},
  };
  for (const auto& bad : kBad) {
    const char* const out = bad.first;
    const char* const word = bad.second;
    CAPTURE(out);
    CHECK(VerdictOf(kExit0, out, "").error.find(word) != std::string::npos);
  }
}

TEST_CASE("what is wrong with what a command waits for is said") {
  const std::pair<const char*, const char*> kBad[] = {
      {R"({"transition": "suspend", "wake_after": 30})", "such as \"30s\""},
      {R"({"transition": "suspend", "wake_after": "soon"})", "not a duration"},
      {R"({"wake_after": "1s"})", "\"transition\": \"suspend\""},
      {R"({"transition": "suspend", "children": {}})", "not an array"},
      {R"({"transition": "suspend", "children": [7]})", "[0]: not an object"},
      {R"({"transition": "suspend", "children": [{"machine": "a"}, {}]})", "[1]: without"},
      {R"({"transition": "suspend", "children": [{"machine": "a@x"}]})", "MACHINE@VERSION"},
      {R"({"transition": "suspend", "children": [{"machine": "a", "param": {}}]})", "\"param\""},
      {R"({"transition": "suspend", "children": [{"machine": "a", "params": 1}]})", "\"params\""},
      {R"({"transition": "suspend", "children_concurrency": -1})", "from 0 on"},
      {R"({"transition": "suspend", "children_concurrency": 1.5})", "from 0 on"},
  };
  for (const auto& bad : kBad) {
    const char* const out = bad.first;
    const char* const word = bad.second;
    CAPTURE(out);
    const Verdict verdict = VerdictOf(kExit0, out, "");
    CHECK(verdict.transition == "error");
    CHECK(verdict.children.empty());
    CHECK(verdict.error.find(word) != std::string::npos);
  }
}

TEST_CASE("a command may start others with its report") {
  const Verdict verdict = VerdictOf(
      kExit0,
      R"({"output": {"n": 1}, "start": [{"machine": "page@2", "id": "a", "params": {"n": 1.0},)"
      R"( "labels": {"kind": "leaf"}, "priority": 5, "start_at": "2030-01-02T03:04:05Z",)"
      R"( "after": [{"instance": "b", "anyResult": true}], "hold": true},)"
      R"( {"machine": "page"}, {"flow": [{"step": "s", "action": "x"}], "machine": "f"}]})",
      "");
  CHECK(verdict.error == "");
  CHECK(verdict.transition == "ok");
  CHECK(!verdict.named);
  REQUIRE(verdict.starts.size() == 3);
  const v1::StartRequest& first = verdict.starts[0].request;
  CHECK(first.machine() == "page");
  CHECK(first.version() == 2);
  CHECK(first.id() == "a");
  CHECK(first.params() == R"({"n": 1.0})");
  CHECK(first.labels().at("kind") == "leaf");
  CHECK(first.priority() == 5);
  CHECK(first.start_at().seconds() == 1'893'553'445);
  REQUIRE(first.after_size() == 1);
  CHECK(first.after(0).any_result());
  CHECK(first.hold());
  CHECK(verdict.starts[1].request.machine() == "page");
  CHECK(verdict.starts[1].request.params().empty());
  CHECK(verdict.starts[2].request.flow() == R"([{"step": "s", "action": "x"}])");
  CHECK(VerdictOf(kExit3, R"({"start": [{"machine": "m"}]})", "").starts.size() == 1);
  CHECK(VerdictOf(kExit0, R"({"start": []})", "").error == "");
  CHECK(VerdictOf(kExit0, R"({"start": null})", "") == Verdict{.transition = "ok"});
}

TEST_CASE("what is wrong with what a command starts is said") {
  const std::pair<const char*, const char*> kBad[] = {
      {R"({"start": {}})", "\"start\" is not an array"},
      {R"({"start": [7]})", "\"start\"[0]: not an object"},
      {R"({"start": [{"machine": "a"}, {}]})", "\"start\"[1]: without"},
      {R"({"start": [{"machine": 5}]})", "\"machine\" is not a string"},
      {R"({"start": [{"machine": "a@x"}]})", "MACHINE@VERSION"},
      {R"({"start": [{"machine": "a", "params": "{}"}]})", "\"params\" is not an object"},
      {R"({"start": [{"machine": "a", "parms": {}}]})", "parms"},
      {R"({"start": [{"machine": "a", "labels": 5}]})", "labels"},
      {R"({"start": [{"machine": "a", "flow": 5}]})", "\"flow\""},
  };
  for (const auto& bad : kBad) {
    const char* const out = bad.first;
    const char* const word = bad.second;
    CAPTURE(out);
    const Verdict verdict = VerdictOf(kExit0, out, "");
    CHECK(verdict.transition == "error");
    CHECK(verdict.starts.empty());
    CAPTURE(verdict.error);
    CHECK(verdict.error.find(word) != std::string::npos);
  }
}

TEST_CASE("what exit status 0 means is for the phase to say") {
  CHECK(VerdictOf(kExit0, "", "", "planned").transition == "planned");
  CHECK(VerdictOf(kExit3, "", "", "planned").transition == "error");
  const Verdict planned = VerdictOf(kExit0, R"({"output": {"flow": []}})", "", "planned");
  CHECK(planned.transition == "planned");
  CHECK(planned.output == R"({"flow": []})");
}

TEST_CASE("the last line is the last one with something on it") {
  CHECK(LastLine("") == "");
  CHECK(LastLine("a\nb") == "b");
  CHECK(LastLine("a\nb\r\n \n") == "b");
  CHECK(LastLine("a") == "a");
}

}  // namespace dfsmr::cli
