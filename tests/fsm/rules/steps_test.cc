// The rules of a plan's steps, one behaviour a case, on plans as they are written. After every rule
// what can be counted is counted anew; a rule that refuses must have changed nothing.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "fsm/base/limits.h"
#include "fsm/plan/assemble.h"
#include "fsm/plan/compile.h"
#include "fsm/plan/library.h"
#include "fsm/rules/rules.h"
#include "fsm/yaml/definitions.h"
#include "tests/fsm/rules/play.h"

namespace dfsmr {
namespace {

using namespace std::chrono_literals;
using enum ChangeKind;

// Order ------------------------------------------------------------------------------------------

constexpr std::string_view kDiamond = R"(
plan: p
flow:
  - {step: a, action: x}
  - {step: b, action: x, input: {v: "${a.output.v}"}}
  - {step: c, action: x, after: [a]}
  - {step: d, action: x, after: [b, c]}
)";

TEST_CASE("a step is ready when all before it are done, and not sooner") {
  Play play(kDiamond);
  CHECK(play.Where() == "a ready");
  CHECK(play.entered == std::vector{InstanceState::kRunning});
  CHECK(play.Ok("a", R"({"v":1})").nodes == Texts{"b", "c"});
  CHECK(play.events[0].output == R"({"v":1})");
  CHECK(play.Where() == "b ready, c ready");
  CHECK(play.Ok("c").nodes.empty());
  CHECK(play.events.size() == 1);  // it has arrived, nothing opened
  CHECK(play.events[0].visit == 0);
  CHECK(play.events[0].left_visit == 4);
  CHECK(play.Where() == "b ready");
  CHECK(play.progress() == 0.5);
  CHECK(play.Ok("b").nodes == Texts{"d"});
  const Answer answer = play.Ok("d");
  CHECK(answer.state == InstanceState::kStopped);
  CHECK(play.Ended() == "STOPPED SUCCESS /end");
  CHECK(play.progress() == 1);
}

TEST_CASE("steps that nothing orders are ready together") {
  Play play("plan: p\nflow: [{step: a, action: x}, {step: b, action: x}]\n");
  CHECK(play.Where() == "a ready, b ready");
  play.Ok("b");
  CHECK(play.Where() == "a ready");
  CHECK(play.instance.state == InstanceState::kRunning);
  play.Ok("a");
  CHECK(play.Ended() == "STOPPED SUCCESS /end");
}

TEST_CASE("a plan without steps ends when it is planned") {
  Play play("plan: p\nflow: []\n");
  CHECK(play.Ended() == "STOPPED SUCCESS /end");
  CHECK(play.entered == std::vector{InstanceState::kRunning, InstanceState::kStopped});
  CHECK(play.progress() == 1);
}

TEST_CASE("the same claim reporting again gets the same answer; a late one is stale") {
  Play play(kDiamond);
  const std::string claim = play.Claim("a");
  const Answer first = *play.Report({.transition = "ok", .claim = claim});
  const Answer again = *play.Report({.transition = "ok", .claim = claim});
  CHECK(again.repeated);
  CHECK(again.nodes == first.nodes);
  CHECK(again.visit == first.visit);
  CHECK(play.RefuseReport({.transition = "error", .claim = claim}) == "STALE_CLAIM");
}

TEST_CASE("what a step has no word for is refused") {
  Play play(kDiamond);
  const std::string claim = play.Claim("a");
  for (const char* word : {"retry", "skip", "patch", "planned", "wake", "dfsmr.timeout", "nudge"}) {
    CAPTURE(word);
    CHECK(play.RefuseReport({.transition = word, .claim = claim}) == "ILLEGAL_TRANSITION");
  }
  CHECK(play.RefuseReport({.transition = "ok", .node = "d"}) == "ILLEGAL_TRANSITION");
  CHECK(play.RefuseReport({.transition = "ok", .node = "a/error"}) == "ILLEGAL_TRANSITION");
  CHECK(play.RefuseReport({.transition = "ok", .node = "/end"}) == "ILLEGAL_TRANSITION");
  CHECK(play.RefuseReport({.transition = "ok", .node = "nope"}) == "NO_SUCH_NODE");
  REQUIRE(play.Report({.transition = "ok", .claim = claim}));  // a is handed out once
  CHECK(play.RefuseReport({.transition = "ok"}) == "AMBIGUOUS_NODE");
  CHECK(play.RefuseReport({.transition = "ok", .node = "a"}) == "ILLEGAL_TRANSITION");
}

TEST_CASE("a report from outside ends a step that somebody works on, whose claim is stale then") {
  Play play(kDiamond);
  const std::string claim = play.Claim("a");
  play.Outside("a", "ok");
  CHECK(play.Where() == "b ready, c ready");
  CHECK(play.RefuseReport({.transition = "ok", .claim = claim}) == "STALE_CLAIM");
}

TEST_CASE("an output that the schema does not allow is refused") {
  Play play(R"(
action: x
output: {type: object, required: [v]}
---
plan: p
flow: [{step: a, action: x}]
)");
  const std::string claim = play.Claim("a");
  CHECK(play.RefuseReport({.transition = "ok", .claim = claim, .output = "{}"}) == "BAD_PARAMS");
  CHECK(play.Report({.transition = "ok", .claim = claim, .output = R"({"v":0})"}));
}

// Failing ----------------------------------------------------------------------------------------

TEST_CASE("a failed step is held; the instance pauses when nothing more can move") {
  Play play(kDiamond);
  play.Ok("a", R"({"v":1})");
  CHECK(play.Error("b").nodes == Texts{"b/error"});
  CHECK(play.Where() == "b/error held, c ready");
  CHECK(play.At("b").error == "broke");
  CHECK(play.instance.state == InstanceState::kRunning);
  play.Ok("c");
  CHECK(play.instance.state == InstanceState::kPaused);
  CHECK(play.kinds() == Kinds{kTransitioned, kPaused});
  CHECK(play.instance.error == "step b: broke");
  CHECK(play.RefuseReport({.transition = "ok", .node = "b"}) == "ILLEGAL_TRANSITION");
  CHECK(play.RefuseReport({.transition = "nudge", .node = "b"}) == "ILLEGAL_TRANSITION");

  SUBCASE("resume runs it again") {
    REQUIRE(play.Resume());
    CHECK(play.kinds() == Kinds{kResumed, kTransitioned});
    CHECK(play.Where() == "b ready");
    CHECK(play.instance.error.empty());
    play.Ok("b");
    play.Ok("d");
    CHECK(play.Ended() == "STOPPED SUCCESS /end");
  }
  SUBCASE("retry from outside, too") {
    CHECK(play.Outside("b", "retry").state == InstanceState::kRunning);
    CHECK(play.kinds() == Kinds{kTransitioned, kResumed});
  }
  SUBCASE("skip leaves it out") {
    REQUIRE(play.Do([](Scene& scene) { return rules::Skip(scene, "b"); }));
    CHECK(play.Where() == "d ready");  // it is only ordered after b
    CHECK(play.instance.state == InstanceState::kRunning);
    play.Ok("d");
    CHECK(play.Ended() == "STOPPED WARNING /end");
    CHECK(play.instance.error == "");
  }
  SUBCASE("asked to pause besides, nothing changes") {
    const Instance before = play.instance;
    REQUIRE(play.Do([](Scene& scene) { return rules::Pause(scene); }));
    CHECK(play.events.empty());
    CHECK(play.instance == before);
    play.Outside("b", "retry");
    CHECK(play.instance.state == InstanceState::kRunning);
  }
  SUBCASE("cancel ends it") {
    play.Cancel();
    CHECK(play.Ended() == "STOPPED CANCELLED ");
  }
}

TEST_CASE("a held step is skipped or retried while others run") {
  Play play(kDiamond);
  play.Ok("a");
  play.Error("b");
  CHECK(play.Refuse([](Scene& scene) { return rules::Skip(scene, "c"); }) == "NOT_HELD");
  CHECK(play.Refuse([](Scene& scene) { return rules::Skip(scene, "nope"); }) == "NO_SUCH_NODE");
  CHECK(play.Refuse([](Scene& scene) { return rules::Resume(scene, "c", false); }) == "NOT_HELD");
  REQUIRE(play.Resume("b"));
  CHECK(play.Where() == "b ready, c ready");
  play.Error("b");
  play.Error("c");
  CHECK(play.instance.state == InstanceState::kPaused);
  CHECK(play.Refuse([](Scene& scene) { return rules::Skip(scene, ""); }) == "AMBIGUOUS_NODE");
  REQUIRE(play.Do([](Scene& scene) { return rules::Skip(scene, "b"); }));
  CHECK(play.Where() == "c/error held");
  CHECK(play.instance.state == InstanceState::kPaused);
  REQUIRE(play.Do([](Scene& scene) { return rules::Skip(scene, ""); }));
  CHECK(play.Where() == "d ready");
}

TEST_CASE("patch changes what a held step is given, and is told") {
  Play play("plan: p\nflow: [{step: a, action: x, input: {v: 1, w: 2}}]\n");
  CHECK(play.RefuseReport({.transition = "patch", .params = "{}", .node = "a"}) ==
        "ILLEGAL_TRANSITION");
  play.Error("a");
  play.Outside("a", "patch", R"({"v":"${no.reference}"})");
  CHECK(play.kinds() == Kinds{kTransitioned});
  CHECK(play.events[0].params == R"({"v":"${no.reference}"})");
  CHECK(play.instance.state == InstanceState::kPaused);
  const std::string input = *play.instance.tokens.Patched(play.At("a").home);
  CHECK(input.find("\"w\":2") != std::string::npos);
  CHECK(input.find("$${no.reference}") != std::string::npos);  // a literal, not a reference
  play.Outside("a", "retry");
  CHECK(*play.instance.tokens.Patched(play.At("a").home) == input);
}

TEST_CASE("a patch changes what a step's phases to come are given, and none that is over") {
  Play play(R"(
action: x
phases: [run, finalize]
---
plan: p
flow: [{step: a, action: x, input: {v: 1, w: 2}}, {step: b, action: x}]
)");
  const NodeIndex run = play.machine.Find("a");
  const NodeIndex finalize = play.machine.Find("a/finalize");
  SUBCASE("while the run phase is held") {
    play.Error("a");
    play.Outside("a", "patch", R"({"v":3})");
    play.Outside("a", "retry");
    play.Ok("a");
    play.Ok("b");
    CHECK(play.Where() == "a/finalize ready");
    REQUIRE(play.instance.tokens.Patched(run));
    REQUIRE(play.instance.tokens.Patched(finalize));
    CHECK(*play.instance.tokens.Patched(finalize) == *play.instance.tokens.Patched(run));
    CHECK(play.instance.tokens.Patched(finalize)->find("\"v\":3") != std::string::npos);
    CHECK(play.instance.tokens.Patched(finalize)->find("\"w\":2") != std::string::npos);
  }
  SUBCASE("while the finalize phase is held") {
    play.Ok("a");
    play.Ok("b");
    play.Error("a/finalize");
    play.Outside("a", "patch", R"({"v":3})");
    CHECK_FALSE(play.instance.tokens.Patched(run));
    REQUIRE(play.instance.tokens.Patched(finalize));
    CHECK(play.instance.tokens.Patched(finalize)->find("\"v\":3") != std::string::npos);
  }
  CHECK_FALSE(play.instance.tokens.Patched(play.machine.Find("b/finalize")));
}

TEST_CASE("a patch of a spawn step changes what its children get, and keeps the rest") {
  Play play(R"(
id: m
nodes: {a: {start: true, transitions: {ok: z}}, z: {final: true}}
---
plan: p
flow: [{step: s, spawn: {machine: m, input: {v: 1, w: 2}}}]
)");
  play.Count("s", 1);
  play.StartChild("s", "no");
  CHECK(play.Where() == "s/error held");
  play.Outside("s", "patch", R"({"v":3})");
  const std::string input = *play.instance.tokens.Patched(play.At("s").home);
  CHECK(input.find("\"w\":2") != std::string::npos);
  CHECK(input.find("\"v\":3") != std::string::npos);
}

TEST_CASE("rescue: skip goes on at once, with what needs the output left out") {
  Play play(R"(
plan: p
flow:
  - {step: a, action: x, rescue: skip}
  - {step: b, action: x, input: {v: "${a.output.v}"}}
  - {step: c, action: x, input: {v: "${b.output.v}"}}
  - {step: d, action: x, after: [a]}
  - {step: e, action: x, after: [c, d]}
)");
  play.Error("a");
  CHECK(play.Where() == "d ready");
  CHECK(play.kinds() == Kinds{kTransitioned, kSkipped, kTransitioned, kSkipped, kTransitioned,
                              kTransitioned, kSkipped, kTransitioned});
  CHECK(play.progress() == doctest::Approx(0.6));
  play.Ok("d");
  CHECK(play.Where() == "e ready");
  play.Ok("e");
  CHECK(play.Ended() == "STOPPED WARNING /end");
}

TEST_CASE("what is skipped with another is passed over in its turn, not before") {
  Play play(R"(
plan: p
flow:
  - {step: a, action: x, rescue: skip}
  - {step: slow, action: x}
  - {step: b, action: x, input: {v: "${a.output.v}"}, after: [slow]}
  - {step: c, action: x, after: [b]}
)");
  play.Error("a");
  CHECK(play.Where() == "slow ready");
  play.Ok("slow");
  CHECK(play.Where() == "c ready");
}

TEST_CASE("a group's readers are skipped with any member") {
  Play play(R"(
plan: p
flow:
  - for_each: [1, 2]
    as: n
    do: {step: s, action: x, rescue: skip, input: {n: "${n}"}}
  - {step: sum, action: x, input: {all: "${s.output}"}}
)");
  CHECK(play.Where() == "s.0 ready, s.1 ready");
  play.Error("s.1");
  play.Ok("s.0");
  CHECK(play.Ended() == "STOPPED WARNING /end");
}

TEST_CASE("rescue: fail stops, but only when all that failed agree and nothing moves") {
  constexpr std::string_view kPlan = R"(
plan: p
flow:
  - {step: a, action: x, rescue: fail}
  - {step: b, action: x, rescue: fail}
  - {step: c, action: x}
)";
  Play play(kPlan);
  play.Error("a", "first");
  CHECK(play.instance.state == InstanceState::kRunning);
  SUBCASE("agreed") {
    play.Ok("c");
    play.Error("b", "second");
    CHECK(play.Ended() == "STOPPED ERROR a/error");
    CHECK(play.instance.error == "step a: first (and 1 more)");
  }
  SUBCASE("disagreed") {
    play.Error("c");
    play.Ok("b");
    CHECK(play.instance.state == InstanceState::kPaused);
    CHECK(play.instance.error == "step a: first (and 1 more)");
    REQUIRE(play.Do([](Scene& scene) { return rules::Skip(scene, "c"); }));
    CHECK(play.instance.state == InstanceState::kPaused);  // it has been left to somebody
    CHECK(play.instance.error == "step a: first");
  }
}

TEST_CASE("a step is tried as often as it says, and resuming grants as many tries again") {
  Play play(R"(
action: x
retry: {limit: 3, delay: 1s, factor: 2}
---
plan: p
flow: [{step: a, action: x}]
)");
  for (int round = 0; round < 2; ++round) {
    play.Error("a");
    CHECK(play.Where() == "a waiting");
    CHECK(play.At("a").available_at == play.now + 1s);
    play.Elapse(900ms, "a");
    CHECK(play.Where() == "a waiting");
    play.Elapse(101ms, "a");
    CHECK(play.Where() == "a ready");
    play.Error("a");
    CHECK(play.At("a").available_at == play.now + 2s);
    play.Elapse(3s, "a");
    play.Error("a");
    CHECK(play.instance.state == InstanceState::kPaused);
    REQUIRE(play.Resume());
    CHECK(play.Where() == "a ready");
  }
}

TEST_CASE("a timeout is not a failure, and the first report of the visit is accepted") {
  Play play(R"(
action: x
retry: {limit: 1}
---
plan: p
flow: [{step: a, action: x}]
)");
  const std::string claim = play.Claim("a");
  const uint64_t visit = play.At("a").visit;
  play.now += 10s;
  play.Do([&](Scene& scene) { rules::TimeOut(scene, visit, play.last); });
  CHECK(play.kinds() == Kinds{kTimedOut});
  CHECK(play.Where() == "a ready");
  CHECK(play.At("a").step->tries == 0);
  const std::string other = play.Claim("a");
  CHECK(play.Report({.transition = "ok", .claim = claim}));
  CHECK(play.RefuseReport({.transition = "ok", .claim = other}) == "STALE_CLAIM");
  CHECK(play.Ended() == "STOPPED SUCCESS /end");
}

TEST_CASE("a step that cannot be handed out is held, whatever its retries") {
  Play play(R"(
action: x
retry: {limit: 5}
---
plan: p
flow: [{step: a, action: x}]
)");
  const uint64_t visit = play.At("a").visit;
  play.Do([&](Scene& scene) { rules::FailStep(scene, visit, "no input"); });
  CHECK(play.Where() == "a/error held");
  CHECK(play.instance.state == InstanceState::kPaused);
}

// Suspending -------------------------------------------------------------------------------------

constexpr std::string_view kOne = "plan: p\nflow: [{step: a, action: x}]\n";

TEST_CASE("an event wakes a suspended step, and is handed over") {
  Play play(kOne);
  const Answer answer = play.Suspend("a");
  CHECK(answer.nodes == Texts{"a/suspended"});
  CHECK(play.kinds() == Kinds{kSuspended});
  CHECK(play.Where() == "a/suspended waiting");
  CHECK(play.At("a").available_at == kNever);
  CHECK(play.Outside("a", "go", R"({"k":1})").nodes == Texts{"a"});
  CHECK(play.kinds() == Kinds{kWoken});
  CHECK(play.At("a").step->event == "go");
  CHECK(play.At("a").step->event_data == R"({"k":1})");
  play.Ok("a");
  CHECK(play.RefuseReport({.transition = "go", .node = "a"}) == "INSTANCE_STOPPED");
}

TEST_CASE("events that come while it runs wait, in order, and are handed over one at a time") {
  Play play(kOne);
  play.Outside("a", "one");
  const std::string claim = play.Claim("a");
  play.Outside("a", "two", R"({"n":2})");
  CHECK(play.kinds() == Kinds{kTransitioned});
  REQUIRE(play.Report({.transition = "suspend", .claim = claim}));
  CHECK(play.kinds() == Kinds{kSuspended, kWoken});
  CHECK(play.Where() == "a ready");
  CHECK(play.At("a").step->event == "one");
  play.Outside("a", "three");  // woken already: it waits, too
  for (const char* word : {"two", "three"}) {
    play.Suspend("a");
    CHECK(play.At("a").step->event == word);
  }
  play.Suspend("a");
  CHECK(play.Where() == "a/suspended waiting");
}

TEST_CASE("only so many events wait for one step") {
  Play play(kOne);
  for (size_t i = 0; i < limits::kEvents; ++i) play.Outside("a", "e");
  CHECK(play.RefuseReport({.transition = "e", .node = "a"}) == "OVERLOADED");
}

TEST_CASE("a worker sends no events, and a suspended step has no claim") {
  Play play(kOne);
  const std::string claim = play.Claim("a");
  CHECK(play.RefuseReport({.transition = "go", .claim = claim}) == "ILLEGAL_TRANSITION");
  REQUIRE(play.Report({.transition = "suspend", .claim = claim}));
  CHECK(play.RefuseReport({.transition = "ok", .claim = claim}) == "STALE_CLAIM");
  CHECK(play.RefuseReport({.transition = "suspend", .node = "a"}) == "ILLEGAL_TRANSITION");
  SUBCASE("it may be ended from outside") {
    play.Outside("a", "ok");
    CHECK(play.Ended() == "STOPPED SUCCESS /end");
  }
  SUBCASE("it may be failed from outside") {
    play.Outside("a", "error");
    CHECK(play.Where() == "a/error held");
  }
}

TEST_CASE("wake_after wakes, and so does a fixed timeout, whichever comes first") {
  Play play(R"(
action: x
timeout_strategy: fixed
timeout: 60
---
plan: p
flow: [{step: a, action: x}]
)");
  play.Suspend("a", 30s);
  play.Elapse(29s, "a");
  CHECK(play.Where() == "a/suspended waiting");
  play.Elapse(1s, "a");
  CHECK(play.At("a").step->event == "wake");
  play.Suspend("a", 90s);
  play.Elapse(60s, "a");
  CHECK(play.At("a").step->event == "timeout");
  play.Suspend("a");
  play.Elapse(60s, "a");
  CHECK(play.At("a").step->event == "timeout");
}

TEST_CASE("a percentile limits no suspension") {
  Play play(kOne);
  play.Suspend("a");
  play.Elapse(24h, "a");
  CHECK(play.Where() == "a/suspended waiting");
}

TEST_CASE("polls come at their intervals, and only so many may fail in a row") {
  Play play(R"(
action: x
poll: {intervals: [1s, 4s], per_interval: 2, max_failures: 2}
retry: {limit: 2}
---
plan: p
flow: [{step: a, action: x}]
)");
  play.Error("a");  // the first run's failures are tries
  CHECK(play.Where() == "a ready");
  play.Suspend("a");
  for (const Duration interval : {1s, 1s, 4s, 4s}) {
    CHECK(play.At("a").available_at == play.now + interval);
    play.Elapse(interval, "a");
    CHECK(play.At("a").step->event == "poll");
    play.Suspend("a");
  }
  play.Elapse(4s, "a");
  play.Error("a");
  CHECK(play.Where() == "a/suspended waiting");
  play.Elapse(4s, "a");
  play.Suspend("a");  // a success: the count begins anew
  play.Elapse(4s, "a");
  play.Error("a");
  play.Elapse(4s, "a");
  play.Error("a");
  CHECK(play.Where() == "a/error held");
  REQUIRE(play.Resume());
  CHECK(play.At("a").step->event.empty());
  play.Suspend("a");
  CHECK(play.At("a").available_at == play.now + 1s);
}

TEST_CASE("wake_after overrides the interval of polls") {
  Play play(R"(
action: x
poll: {intervals: [1s]}
---
plan: p
flow: [{step: a, action: x}]
)");
  play.Suspend("a", 5s);
  CHECK(play.At("a").available_at == play.now + 5s);
  play.Elapse(5s, "a");
  CHECK(play.At("a").step->event == "wake");
}

// Cancelling -------------------------------------------------------------------------------------

TEST_CASE("cancel waits for what is claimed, and nothing else starts") {
  Play play(kDiamond);
  play.Ok("a");
  const std::string b = play.Claim("b");
  const std::string c = play.Claim("c");
  play.Cancel();
  CHECK(play.Where() == "b claimed, c claimed");
  play.Cancel();  // again: nothing changes
  CHECK(play.Where() == "b claimed, c claimed");
  CHECK(play.Do([&](Scene& s) { return rules::Extend(s, b, play.now + 1s, {.progress = 0.5}); })
            ->cancel_requested);
  REQUIRE(play.Report({.transition = "ok", .claim = b}));
  SUBCASE("a report") { REQUIRE(play.Report({.transition = "ok", .claim = c})); }
  SUBCASE("an error") { REQUIRE(play.Report({.transition = "error", .claim = c})); }
  SUBCASE("a relinquish") {
    REQUIRE(play.Do([&](Scene& scene) { return rules::Relinquish(scene, c, {}); }));
  }
  SUBCASE("an operator's relinquish") {
    REQUIRE(play.Do([&](Scene& scene) { return rules::Relinquish(scene, "", {}); }));
  }
  SUBCASE("a timeout") {
    const uint64_t visit = play.At("c").visit;
    play.now += 10s;
    play.Do([&](Scene& scene) { rules::TimeOut(scene, visit, play.last); });
  }
  SUBCASE("force") { play.Cancel(CancelMode::kForce); }
  CHECK(play.Ended() == "STOPPED CANCELLED ");
  CHECK(play.kinds().back() == kFinished);
}

TEST_CASE("cancel wakes what is suspended, and waits for what it says then") {
  Play play("plan: p\nflow: [{step: a, action: x}, {step: b, action: x}]\n");
  play.Suspend("a");
  play.Cancel();
  CHECK(play.Where() == "a ready");
  CHECK(play.At("a").step->event == "cancel");
  const std::string claim = play.Claim("a");
  CHECK_FALSE(play.Do([&](Scene& s) { return rules::Extend(s, claim, play.now + 1s, {}); })
                  ->cancel_requested);  // it works because of the cancel
  SUBCASE("given back, it is handed out again with the event") {
    REQUIRE(play.Do([&](Scene& scene) { return rules::Relinquish(scene, claim, {}); }));
    CHECK(play.Where() == "a ready");
    CHECK(play.At("a").step->event == "cancel");
    play.Ok("a");
  }
  SUBCASE("ok") { REQUIRE(play.Report({.transition = "ok", .claim = claim})); }
  SUBCASE("error") { REQUIRE(play.Report({.transition = "error", .claim = claim})); }
  SUBCASE("suspend") { REQUIRE(play.Report({.transition = "suspend", .claim = claim})); }
  CHECK(play.Ended() == "STOPPED CANCELLED ");
}

TEST_CASE("a step that suspends while it is being cancelled hears of it") {
  Play play(kOne);
  const std::string claim = play.Claim("a");
  play.Outside("a", "waits");
  play.Cancel();
  REQUIRE(play.Report({.transition = "suspend", .claim = claim}));
  CHECK(play.Where() == "a ready");
  CHECK(play.At("a").step->event == "cancel");
  play.Suspend("a");
  CHECK(play.Ended() == "STOPPED CANCELLED ");
}

TEST_CASE("a poll that fails while it is being cancelled is the last one") {
  Play play(R"(
action: x
poll: {intervals: [1s], max_failures: 5}
---
plan: p
flow: [{step: a, action: x}]
)");
  play.Suspend("a");
  play.Elapse(1s, "a");
  const std::string claim = play.Claim("a");
  play.Cancel();
  REQUIRE(play.Report({.transition = "error", .claim = claim}));
  CHECK(play.Ended() == "STOPPED CANCELLED ");
}

TEST_CASE("a woken step that nobody took yet hears of the cancel instead") {
  Play play(kOne);
  play.Suspend("a");
  play.Outside("a", "go");
  play.Cancel();
  CHECK(play.Where() == "a ready");
  CHECK(play.At("a").step->event == "cancel");
}

TEST_CASE("a step that cannot be handed out while it is being cancelled ends it") {
  Play play(kOne);
  play.Suspend("a");
  play.Cancel();
  const uint64_t visit = play.At("a").visit;
  play.Do([&](Scene& scene) { rules::FailStep(scene, visit, "no input"); });
  CHECK(play.Ended() == "STOPPED CANCELLED ");
}

TEST_CASE("cancel drops what waits for a retry, and what is held") {
  Play play(R"(
action: x
retry: {limit: 2, delay: 1s}
---
plan: p
flow: [{step: a, action: x}, {step: b, action: y}, {step: c, action: x}]
)");
  play.Error("a");
  play.Error("b");
  play.Cancel();
  CHECK(play.Ended() == "STOPPED CANCELLED ");
}

// Pausing ----------------------------------------------------------------------------------------

TEST_CASE("a paused plan takes reports and stays paused") {
  Play play(kDiamond);
  const std::string claim = play.Claim("a");
  REQUIRE(play.Do([](Scene& scene) { return rules::Pause(scene); }));
  REQUIRE(play.Report({.transition = "ok", .claim = claim}));
  CHECK(play.instance.state == InstanceState::kPaused);
  CHECK(play.Where() == "b ready, c ready");
  REQUIRE(play.Resume());
  CHECK(play.instance.state == InstanceState::kRunning);
  CHECK(play.kinds() == Kinds{kResumed});
  REQUIRE(play.Resume());
  CHECK(play.events.empty());
}

TEST_CASE("resume with force runs claimed work again") {
  Play play(kDiamond);
  const std::string claim = play.Claim("a");
  CHECK(play.Refuse([](Scene& scene) { return rules::Resume(scene, "a", false); }) == "NOT_HELD");
  REQUIRE(play.Resume("a", true));
  CHECK(play.Where() == "a ready");
  CHECK(play.RefuseReport({.transition = "ok", .claim = claim}) == "STALE_CLAIM");
}

// Finalize ---------------------------------------------------------------------------------------

constexpr std::string_view kFinal = R"(
action: x
phases: [run, finalize]
weight: {run: 3, finalize: 1}
---
plan: p
flow: [{step: a, action: x, rescue: skip}, {step: b, action: x}, {step: c, action: x}]
)";

TEST_CASE("finalize phases run after all steps, one after the other as written") {
  Play play(kFinal);
  play.Ok("c");
  play.Ok("b");
  CHECK(play.Where() == "a ready");
  play.Ok("a");
  for (const char* step : {"a", "b", "c"}) {
    CHECK(play.Where() == std::string(step) + "/finalize ready");
    CHECK(play.RefuseReport({.transition = "suspend", .node = step}) == "ILLEGAL_TRANSITION");
    play.Run(std::string(step) + "/finalize", {.transition = "ok", .output = R"({"f":1})"});
    CHECK(play.events[0].output.empty());  // outputs are those of the run phase
  }
  CHECK(play.Ended() == "STOPPED SUCCESS /end");
}

TEST_CASE("a failed finalize runs all of them again, save those that were skipped") {
  Play play(kFinal);
  for (const char* step : {"a", "b", "c"}) play.Ok(step);
  play.Error("a/finalize");  // rescue: skip
  CHECK(play.Where() == "b/finalize ready");
  CHECK(play.progress() == doctest::Approx(10.0 / 12));
  play.Ok("b/finalize");
  play.Error("c/finalize");
  CHECK(play.Where() == "c/finalize/error held");
  CHECK(play.instance.state == InstanceState::kPaused);
  CHECK(play.progress() == doctest::Approx(11.0 / 12));
  REQUIRE(play.Resume());
  CHECK(play.Where() == "b/finalize ready");
  CHECK(play.progress() == doctest::Approx(10.0 / 12));
  play.Ok("b/finalize");
  play.Ok("c/finalize");
  CHECK(play.Ended() == "STOPPED WARNING /end");
  CHECK(play.progress() == doctest::Approx(1));
}

TEST_CASE("a skipped step's finalize is skipped, too") {
  Play play(kFinal);
  play.Error("a");
  play.Ok("b");
  play.Ok("c");
  CHECK(play.Where() == "b/finalize ready");
  play.Error("b/finalize");
  CHECK(play.Outside("b/finalize", "skip").nodes == Texts{"c/finalize"});
  play.Ok("c/finalize");
  CHECK(play.Ended() == "STOPPED WARNING /end");
}

// Children ---------------------------------------------------------------------------------------

constexpr std::string_view kSpawns = R"(
id: m
nodes: {a: {start: true, transitions: {ok: z}}, z: {final: true}}
---
plan: p
flow:
  - {step: s, spawn: {machine: m, for_each: "${params.list}", as: n, concurrency: 2}}
  - {step: b, action: x, after: [s]}
)";
using ChildClass::kFailed;
using ChildClass::kRunning;
using ChildClass::kSuccess;

TEST_CASE("a spawn step starts as many as may run, and goes on when all have ended well") {
  Play play(kSpawns);
  CHECK(play.Where() == "s waiting");
  CHECK(rules::WantsChildren(play.instance, play.At("s")));  // to count them
  play.Count("s", 3);
  for (int i = 0; i < 2; ++i) play.StartChild("s");
  CHECK_FALSE(rules::WantsChildren(play.instance, play.At("s")));
  play.Child("s", kRunning, ChildClass::kPaused);  // it has made room
  CHECK(rules::WantsChildren(play.instance, play.At("s")));
  play.Child("s", ChildClass::kPaused, kRunning);
  play.Child("s", kRunning, kSuccess);
  CHECK(rules::WantsChildren(play.instance, play.At("s")));
  play.StartChild("s");
  CHECK_FALSE(rules::WantsChildren(play.instance, play.At("s")));
  play.Child("s", kRunning, kSuccess);
  play.Child("s", kRunning, kSuccess);
  CHECK(play.events[0].output == R"({"total":3,"success":3,"failed":0,"cancelled":0})");
  CHECK(play.Where() == "b ready");
}

TEST_CASE("no children at all are no reason to wait") {
  Play play(kSpawns);
  play.Count("s", 0);
  CHECK(play.Where() == "b ready");
  CHECK(play.events[0].output == R"({"total":0,"success":0,"failed":0,"cancelled":0})");
}

TEST_CASE("with a failed child the step is held once none runs") {
  Play play(kSpawns);
  play.Count("s", 2);
  play.StartChild("s");
  play.StartChild("s");
  play.Child("s", kRunning, ChildClass::kPaused);
  CHECK(play.Where() == "s waiting");
  play.Child("s", kRunning, kSuccess);
  CHECK(play.Where() == "s/error held");
  CHECK(play.At("s").error == "1 of 2 children failed");
  CHECK(play.instance.state == InstanceState::kPaused);

  SUBCASE("resuming it while the child is paused changes nothing for long") {
    REQUIRE(play.Resume());
    CHECK(play.Where() == "s/error held");
    CHECK(play.instance.state == InstanceState::kPaused);
  }
  SUBCASE("resuming it waits for the child that was resumed") {
    play.Child("s", ChildClass::kPaused, kRunning);
    REQUIRE(play.Resume());
    CHECK(play.Where() == "s waiting");
    play.Child("s", kRunning, kSuccess);
    CHECK(play.Where() == "b ready");
  }
  SUBCASE("the child may have ended before") {
    play.Child("s", ChildClass::kPaused, kRunning);
    play.Child("s", kRunning, kSuccess);
    CHECK(play.Where() == "s/error held");
    REQUIRE(play.Resume());
    CHECK(play.Where() == "b ready");
  }
}

TEST_CASE("children that never were planned are started again when the step is resumed") {
  Play play(kSpawns);
  play.Count("s", 2);
  play.StartChild("s", "no such thing");
  play.StartChild("s");
  play.Child("s", kRunning, kFailed, /*unplanned=*/true);
  CHECK(play.Where() == "s/error held");
  CHECK(play.At("s").error == "2 of 2 children failed; no such thing");
  REQUIRE(play.Resume());
  CHECK(play.Where() == "s waiting");
  CHECK(rules::WantsChildren(play.instance, play.At("s")));
  play.Child("s", kFailed, kRunning, true);
  play.Child("s", kFailed, kRunning, true);
  const uint64_t visit = play.At("s").visit;
  play.Do([&](Scene& scene) { rules::RestartedUpTo(scene, visit, 2); });
  CHECK(play.At("s").step->children->unplanned == 0);
  play.Child("s", kRunning, kSuccess);
  play.Child("s", kRunning, kSuccess);
  CHECK(play.Where() == "b ready");
}

TEST_CASE("cancelled children are counted as failed, and as cancelled") {
  Play play(kSpawns);
  play.Count("s", 1);
  play.StartChild("s");
  play.Child("s", kRunning, ChildClass::kCancelled);
  const ChildCounts& counts = *play.At("s").step->children;
  CHECK(counts.failed == 1);
  CHECK(counts.cancelled == 1);
}

TEST_CASE("a child of another time is not counted") {
  Play play(kSpawns);
  play.Count("s", 1);
  play.StartChild("s");
  const NodeIndex home = play.At("s").home;
  const uint64_t generation = play.At("s").step->children->generation;
  play.Do([&](Scene& s) { rules::ChildMoved(s, home, generation + 1, kRunning, kSuccess, false); });
  CHECK(play.Where() == "s waiting");
}

TEST_CASE("a cancelled spawn waits for the children that run, and starts no more") {
  Play play(kSpawns);
  play.Count("s", 5);
  play.StartChild("s");
  play.Cancel();
  CHECK(play.Where() == "s waiting");
  CHECK_FALSE(rules::WantsChildren(play.instance, play.At("s")));
  play.Child("s", kRunning, ChildClass::kCancelled);
  CHECK(play.Ended() == "STOPPED CANCELLED ");
}

TEST_CASE("a spawn that is cancelled before it began again those that were not planned ends") {
  Play play(kSpawns);
  play.Count("s", 2);
  play.StartChild("s");
  play.StartChild("s", "no");
  play.Child("s", kRunning, ChildClass::kPaused);
  REQUIRE(play.Resume());
  CHECK(play.Where() == "s waiting");
  CHECK(play.At("s").step->children->restart);
  play.Cancel();
  play.Child("s", ChildClass::kPaused, ChildClass::kCancelled);
  CHECK(play.Ended() == "STOPPED CANCELLED ");
}

TEST_CASE("a cancelled spawn without children ends at once") {
  Play play(kSpawns);
  play.Cancel();
  CHECK(play.Ended() == "STOPPED CANCELLED ");
}

TEST_CASE("a worker's children wake its step when all have ended") {
  Play play(kOne);
  play.Run("a", {.transition = "suspend", .children = 2, .concurrency = 1});
  CHECK(rules::WantsChildren(play.instance, play.At("a")));
  play.StartChild("a");
  CHECK_FALSE(rules::WantsChildren(play.instance, play.At("a")));
  play.Child("a", kRunning, kSuccess);
  play.StartChild("a");
  SUBCASE("at once") {
    play.Child("a", kRunning, kSuccess);
    CHECK(play.Where() == "a ready");
  }
  SUBCASE("or when it waits for them again") {
    play.Outside("a", "go");
    play.Child("a", kRunning, kSuccess);
    CHECK(play.At("a").step->event == "go");
    play.Suspend("a");
    CHECK(play.Where() == "a ready");
  }
  CHECK(play.At("a").step->event == "children");
  CHECK(play.At("a").step->event_data ==
        R"({"total":2,"success":2,"failed":0,"cancelled":0})");
  CHECK(play.At("a").step->children->told);
}

TEST_CASE("the children of one step are numbered on, however often it asks for some") {
  Play play(kOne);
  uint64_t number = 0;
  for (const size_t children : {2u, 3u, 1u, 2u}) {
    play.Run("a", {.transition = "suspend", .children = children});
    CHECK(play.At("a").step->children->first == number);
    for (size_t i = 0; i < children; ++i) play.StartChild("a");
    for (size_t i = 0; i < children; ++i) play.Child("a", kRunning, kSuccess);
    CHECK(play.Where() == "a ready");
    number += children;
  }
}

TEST_CASE("children that end between two tries of their step do not cut the wait short") {
  Play play(R"(
action: x
retry: {limit: 3, delay: 10s}
---
plan: p
flow: [{step: a, action: x}]
)");
  play.Run("a", {.transition = "suspend", .children = 1});
  play.StartChild("a");
  play.Outside("a", "go");
  play.Error("a");
  CHECK(play.Where() == "a waiting");
  play.Child("a", kRunning, kSuccess);
  CHECK(play.Where() == "a waiting");
  play.Elapse(10s, "a");
  CHECK(play.Where() == "a ready");
  play.Suspend("a");
  CHECK(play.At("a").step->event == "children");
}

TEST_CASE("a plan that is to be cancelled is not paused: its steps have to hear of it") {
  Play play(kOne);
  const std::string claim = play.Claim("a");
  play.Cancel();
  const Instance before = play.instance;
  REQUIRE(play.Do([](Scene& scene) { return rules::Pause(scene); }));
  CHECK(play.instance == before);
  REQUIRE(play.Report({.transition = "suspend", .claim = claim}));
  CHECK(play.instance.state == InstanceState::kRunning);
  CHECK(play.At("a").step->event == "cancel");
}

TEST_CASE("no pause and no resume takes back a plan's cancel that was acknowledged") {
  Play play("plan: p\nflow: [{step: a, action: x}, {step: b, action: x, after: [a]}]\n");
  const std::string claim = play.Claim("a");
  bool force = false;
  SUBCASE("asked for while it runs") {
    play.Cancel();
    REQUIRE(play.Do([](Scene& scene) { return rules::Pause(scene); }));
  }
  SUBCASE("asked for while it is paused") {
    REQUIRE(play.Do([](Scene& scene) { return rules::Pause(scene); }));
    play.Cancel();
  }
  SUBCASE("resumed with force") {
    play.Cancel();
    force = true;
  }
  (void)play.Resume("", force);  // whatever it answers
  (void)play.Report({.transition = "ok", .claim = claim});
  CHECK(play.Ended() == "STOPPED CANCELLED ");
}

TEST_CASE("events that came before a step failed are told before those that come after") {
  Play play(kOne);
  play.Run("a", {.transition = "suspend", .children = 1});
  play.StartChild("a");
  play.Outside("a", "one");
  play.Outside("a", "two");
  play.Error("a");
  CHECK(play.Where() == "a/error held");
  REQUIRE(play.Resume());
  CHECK(play.Where() == "a ready");
  CHECK(play.At("a").step->event == "two");
}

TEST_CASE("a worker's failed children hold its step, which is resumed as a spawn is") {
  Play play(kOne);
  play.Run("a", {.transition = "suspend", .children = 1});
  play.StartChild("a");
  play.Child("a", kRunning, ChildClass::kPaused);
  CHECK(play.Where() == "a/error held");
  play.Child("a", ChildClass::kPaused, kRunning);
  REQUIRE(play.Resume());
  CHECK(play.Where() == "a/suspended waiting");
  play.Child("a", kRunning, kSuccess);
  CHECK(play.Where() == "a ready");
}

// Limits -----------------------------------------------------------------------------------------

TEST_CASE("a step that a limit has no room for waits its turn, or is left out") {
  Play play(kOne);
  play.machine.nodes_ask = true;
  const uint64_t visit = play.At("a").visit;
  const Timestamp since = play.At("a").available_at;
  const TokenLimits limits{.keys = {{"k", {.max = 1, .rate = {}}}}, .order = 3};
  SUBCASE("left out") {
    play.Do([&](Scene& s) { rules::LeaveOutStep(s, visit, "no room"); });
    CHECK(play.Ended() == "STOPPED WARNING /end");
    CHECK(play.events.front().note == "no room");
  }
  SUBCASE("waits") {
    play.Do([&](Scene& s) { rules::AwaitTurn(s, visit, limits); });
    CHECK(play.Where() == "a waiting");
    play.Elapse(1h, "a");
    CHECK(play.Where() == "a waiting");
    play.Do([&](Scene& scene) { rules::CallToken(scene, visit); });
    CHECK(play.Where() == "a ready");
    CHECK(play.At("a").available_at == since);  // no later ones overtake it
    CHECK(play.At("a").limits->state == TokenLimits::State::kCalled);
    SUBCASE("and holds from the hand-out until it has ended") {
      const std::string claim = play.Claim("a");
      CHECK(play.At("a").limits->state == TokenLimits::State::kHolds);
      REQUIRE(play.Report({.transition = "suspend", .claim = claim}));
      CHECK(play.At("a").limits->state == TokenLimits::State::kHolds);
      play.Outside("a", "error");
      CHECK_FALSE(play.At("a").limits);
    }
    SUBCASE("and asks anew once it was paused") {
      REQUIRE(play.Do([](Scene& s) { return rules::Pause(s); }));
      CHECK_FALSE(play.At("a").limits);
    }
  }
  SUBCASE("waits no longer when it is moved on from outside") {
    play.Do([&](Scene& s) { rules::AwaitTurn(s, visit, limits); });
    play.Outside("a", "suspend");
    CHECK_FALSE(play.At("a").limits);
  }
  SUBCASE("is gone when its plan is cancelled") {
    play.Do([&](Scene& s) { rules::AwaitTurn(s, visit, limits); });
    play.Cancel();
    CHECK(play.Ended() == "STOPPED CANCELLED ");
  }
}

TEST_CASE("a plan that pauses gives its keys back, and asks again however it goes on") {
  Play play(kOne);
  play.gate.key = "k";
  play.instance.limits = InstanceLimits{.state = InstanceLimits::State::kHolds,
                                        .keys = {{"k", {.max = 1, .rate = {}}}}};
  play.Error("a");
  CHECK(play.instance.limits->keys.empty());
  SUBCASE("resume") { REQUIRE(play.Resume()); }
  SUBCASE("resume of the step") { REQUIRE(play.Resume("a")); }
  SUBCASE("retry") { play.Outside("a", "retry"); }
  CHECK(play.instance.limits->state == InstanceLimits::State::kHolds);
  REQUIRE(play.instance.limits->keys.size() == 1);
  CHECK(play.instance.limits->order == 7);
}

TEST_CASE("a paused plan does not go on while somebody else holds its singleton") {
  Play play(kOne);
  play.gate.key = "k";
  play.Error("a");
  play.gate.holder = "other";
  CHECK(play.RefuseReport({.transition = "retry", .node = "a"}) == "ILLEGAL_TRANSITION");
  CHECK(play.RefuseReport({.transition = "skip", .node = "a"}) == "ILLEGAL_TRANSITION");
  CHECK(play.Refuse([](Scene& s) { return rules::Skip(s, "a"); }) == "ILLEGAL_TRANSITION");
  play.Outside("a", "patch", R"({"v":1})");
  play.Cancel();
  CHECK(play.Ended() == "STOPPED CANCELLED ");
}

TEST_CASE("a paused plan that is resumed without room is PAUSED until its turn") {
  Play play(kOne);
  play.gate.key = "k";
  REQUIRE(play.Do([](Scene& s) { return rules::Pause(s); }));
  play.gate.holder = "other";
  REQUIRE(play.Resume());
  CHECK(play.instance.state == InstanceState::kPaused);
  CHECK(play.instance.waits == Waits{Wait::kTurn});
  play.Do([](Scene& s) { rules::LetIn(s); });
  CHECK(play.instance.state == InstanceState::kPaused);
  SUBCASE("and goes on by itself") {
    play.gate.holder.clear();
    play.Do([](Scene& s) { rules::LetIn(s); });
    CHECK(play.instance.state == InstanceState::kRunning);
    CHECK(play.instance.limits->state == InstanceLimits::State::kHolds);
  }
  SUBCASE("or is paused for good") {
    REQUIRE(play.Do([](Scene& s) { return rules::Pause(s); }));
    CHECK(play.instance.waits == Waits{Wait::kPause});
    CHECK(play.instance.limits->keys.empty());
  }
}

// Progress ---------------------------------------------------------------------------------------

TEST_CASE("progress is the weighted mean of what the steps say") {
  Play play(R"(
action: x
weight: 3
---
plan: p
flow: [{step: a, action: x}, {step: b, action: y}]
)");
  const std::string claim = play.Claim("a");
  REQUIRE(play.Do([&](Scene& s) { return rules::Extend(s, claim, play.now, {.progress = 0.5}); }));
  CHECK(play.progress() == doctest::Approx(1.5 / 4));
  REQUIRE(play.Report({.transition = "suspend", .claim = claim}));
  CHECK(play.progress() == doctest::Approx(1.5 / 4));
  play.Outside("a", "go");
  play.Error("a");
  CHECK(play.progress() == doctest::Approx(1.5 / 4));
  REQUIRE(play.Do([](Scene& scene) { return rules::Skip(scene, "a"); }));
  CHECK(play.progress() == doctest::Approx(3.0 / 4));
}

// Upgrades ---------------------------------------------------------------------------------------

TEST_CASE("an upgraded plan is planned anew, and nothing of before is left in its rows") {
  Play play(kDiamond);
  play.Ok("a");
  Machine next;
  next.id = "p";
  next.defined_as = std::make_shared<const PlanSource>();
  play.Do([&](Scene& scene) { rules::Upgrade(scene, next, 2); });
  CHECK(play.instance.state == InstanceState::kPlanning);
  CHECK(play.instance.tokens.empty());
  CHECK(play.instance.plan->graph.empty());
  CHECK(play.instance.tokens.dirty().empty());
  CHECK_FALSE(play.instance.tokens.EndedAt(play.machine.Find("a")));
}

}  // namespace
}  // namespace dfsmr
