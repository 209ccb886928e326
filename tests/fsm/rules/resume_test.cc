// Resuming what has stopped, and the table of what calls do to an instance in each state.
#include <doctest/doctest.h>

#include <algorithm>

#include "fsm/rules/rules.h"
#include "fsm/yaml/definitions.h"
#include "tests/fsm/rules/play.h"

namespace dfsmr {
namespace {

using namespace std::chrono_literals;
using enum ChangeKind;

constexpr std::string_view kNodes = R"(
id: m
nodes:
  a: {start: true, transitions: {ok: b, again: a}}
  b: {timeout: 0.0, transitions: {ok: wait}}
  wait: {delay: {initial: 60s}, transitions: {ok: done}}
  done: {final: true}
)";

// An instance of a machine.
struct Solo {
  template <typename Rule>
  auto Do(Rule rule) {
    events.clear();
    entered.clear();
    instance.tokens.Forget();
    now += 1us;
    Scene scene{machine, instance, now, 1, 0, events};
    if constexpr (std::is_void_v<decltype(rule(scene))>) {
      rule(scene);
      entered = scene.entered;
    } else {
      auto outcome = rule(scene);
      entered = scene.entered;
      return outcome;
    }
  }
  explicit Solo(std::string_view yaml = kNodes) {
    Parsed parsed = ParseDefinitions(yaml, "test");
    std::string problems;
    for (const Diagnostic& diagnostic : parsed.diagnostics) problems += Format(diagnostic) + "\n";
    REQUIRE_MESSAGE(parsed.ok(), problems);
    machine = std::move(parsed.definitions.front());
    instance.ns = "ns";
    instance.id = "i";
    instance.machine = "m";
    instance.version = 1;
    Do([](Scene& scene) { rules::Start(scene); });
  }
  const Token& token() { return std::as_const(instance.tokens).front(); }
  std::string Where() {
    std::string text(Name(instance.state));
    for (const Token& one : std::as_const(instance.tokens)) {
      text += " " + std::string(NodeName(machine, one.node)) + " " + std::string(Word(one.state));
    }
    return text;
  }
  std::string Claim(Duration timeout = 10s) {
    const ClaimId id{1, ++serial};
    const uint64_t visit = token().visit;
    Do([&](Scene& scene) {
      rules::TakeClaim(scene, *instance.tokens.FindMutable(visit), {id, "w", now + timeout});
    });
    return rules::ClaimText(instance, visit, id);
  }
  std::string Report(const std::string& claim, const std::string& word = "ok") {
    auto answer = Do(
        [&](Scene& scene) { return rules::Report(scene, {.transition = word, .claim = claim}); });
    return answer ? "" : std::string(Name(answer.error().reason));
  }
  bool Late(const std::string& claim, const std::string& word = "ok") {
    return Do(
        [&](Scene& scene) { return rules::KeepLate(scene, {.transition = word, .claim = claim}); });
  }
  bool End(const std::string& claim, bool gave_back = false) {
    return Do([&](Scene& scene) { return rules::EndClaim(scene, ClaimRef(claim), gave_back); });
  }
  void Cancel(CancelMode mode = CancelMode::kCancel) {
    REQUIRE(Do([&](Scene& scene) { return rules::Cancel(scene, mode); }));
  }
  std::string Continue(const std::string& node = "", bool force = false) {
    auto may = Do([&](Scene& scene) { return rules::MayContinue(scene, node); });
    if (!may) return std::string(Name(may.error().reason));
    Do([&](Scene& scene) { rules::Continue(scene, node, force); });
    return "";
  }
  std::string Resume(const std::string& node = "", bool force = false) {
    auto done = Do([&](Scene& scene) { return rules::Resume(scene, node, force); });
    return done ? "" : std::string(Name(done.error().reason));
  }
  Kinds kinds() const {
    Kinds list;
    for (const Event& event : events) list.push_back(event.kind);
    return list;
  }

  Machine machine;
  Instance instance;
  Timestamp now = kNoon;
  uint64_t serial = 0;
  std::vector<Event> events;
  std::vector<InstanceState> entered;
};

std::string Continue(Play& play, const std::string& node = "", bool force = false) {
  auto may = play.Do([&](Scene& scene) { return rules::MayContinue(scene, node); });
  if (!may) return std::string(Name(may.error().reason));
  play.Do([&](Scene& scene) { rules::Continue(scene, node, force); });
  return "";
}

// Machines ---------------------------------------------------------------------------------------

TEST_CASE("a machine that was cancelled goes on at the node where it stood") {
  Solo solo;
  REQUIRE(solo.Report(solo.Claim()) == "");  // b
  solo.Cancel();
  CHECK(solo.instance.resumable);
  CHECK(solo.instance.cancel_time == solo.now);
  CHECK(solo.Where() == "STOPPED dfsmr.cancelled done");
  CHECK(solo.Resume() == "INSTANCE_STOPPED");  // the engine resumes what has stopped, by Continue
  CHECK(solo.Continue() == "");
  CHECK(solo.kinds() == Kinds{kResumed});
  CHECK(solo.events[0].node == "b");
  CHECK(solo.events[0].note == "it had stopped with CANCELLED");
  CHECK(solo.entered == std::vector{InstanceState::kRunning});
  CHECK(solo.Where() == "RUNNING b ready");
  CHECK(solo.token().visit == 2);
  CHECK(solo.instance.result == InstanceResult::kPending);
  CHECK(solo.instance.cancel == CancelMode::kNone);
  CHECK(solo.instance.end_time == Timestamp());
  CHECK_FALSE(solo.instance.resumable);
  CHECK(solo.Report(solo.Claim()) == "");
  CHECK(solo.Where() == "RUNNING wait waiting");
}

TEST_CASE("what has ended otherwise is not resumed") {
  Solo solo("id: m\nnodes:\n  a: {start: true, transitions: {ok: z}}\n  z: {final: true}\n");
  REQUIRE(solo.Report(solo.Claim()) == "");
  CHECK_FALSE(solo.instance.resumable);
  CHECK(solo.Continue() == "INSTANCE_STOPPED");
}

TEST_CASE("what had begun when force stopped it is still its worker's, until its deadline") {
  Solo solo;
  const std::string claim = solo.Claim();
  const Timestamp deadline = solo.token().claims[0].deadline;
  solo.Cancel(CancelMode::kForce);
  CHECK(rules::LeftoversOf(solo.instance).size() == 1);
  CHECK(solo.Report(claim) == "STALE_CLAIM");
  CHECK(solo.Continue() == "");
  CHECK(solo.Where() == "RUNNING a claimed");
  CHECK(solo.token().claims[0].deadline == deadline);
  SUBCASE("its report counts") {
    CHECK(solo.Report(claim) == "");
    CHECK(solo.Where() == "RUNNING b ready");
  }
  SUBCASE("force takes it away") {
    CHECK(solo.Resume("", true) == "");
    CHECK(solo.Where() == "RUNNING a ready");
    CHECK(solo.Report(claim) == "STALE_CLAIM");
  }
}

TEST_CASE("what is in hand at the resume, or was reported late, has a new set of tries") {
  Solo solo(R"(
id: m
nodes:
  a: {start: true, retry: {limit: 2, delay: 1s}, transitions: {ok: z, error: e}}
  z: {final: true}
  e: {final: true, result: error}
)");
  REQUIRE(solo.Report(solo.Claim(), "error") == "");
  CHECK(TriesOf(solo.token()) == 1);
  solo.now += 1s;
  solo.Do([&](Scene& scene) { rules::EndWait(scene, solo.token().visit); });
  const std::string claim = solo.Claim();
  solo.Cancel(CancelMode::kForce);
  std::optional<ReportArgs> late;
  SUBCASE("in hand") {}
  SUBCASE("late") {
    REQUIRE(solo.Late(claim, "error"));
    const Token& left = solo.instance.tokens.left().begin()->second;
    late = rules::ReportOf(solo.instance, left.visit, *left.late);
  }
  REQUIRE(solo.Continue() == "");
  CHECK(TriesOf(solo.token()) == 0);
  if (late) {
    CHECK(solo.Do([&](Scene& scene) { return rules::Report(scene, *late); }));
  } else {
    CHECK(solo.Report(claim, "error") == "");
  }
  CHECK(solo.Where() == "RUNNING a waiting");
  CHECK(TriesOf(solo.token()) == 1);
}

TEST_CASE("resume with force voids claims and late reports at once") {
  Solo solo;
  const std::string claim = solo.Claim();
  solo.Cancel(CancelMode::kKill);
  CHECK(solo.Late(claim));
  CHECK(solo.Continue("", true) == "");
  CHECK(solo.kinds() == Kinds{kResumed, kRelinquished});
  CHECK(solo.Where() == "RUNNING a ready");
  CHECK_FALSE(solo.token().late);
  CHECK(solo.Report(claim) == "STALE_CLAIM");
}

TEST_CASE("the first late report of a visit is kept, and told as LATE") {
  Solo solo;
  const std::string claim = solo.Claim();
  solo.Cancel(CancelMode::kForce);
  CHECK_FALSE(solo.Late(claim, "nope"));  // it leads nowhere
  CHECK_FALSE(solo.Late(claim, "dfsmr.timeout"));
  CHECK(solo.Late(claim, "again"));
  CHECK(solo.kinds() == Kinds{kLate});
  CHECK(solo.events[0].node == "a");
  CHECK(solo.events[0].transition == "again");
  CHECK(solo.events[0].attempt == 1);
  CHECK(solo.events[0].client == "w");
  CHECK_FALSE(solo.Late(claim, "ok"));
  CHECK(rules::LeftoversOf(solo.instance).empty());
  const Token& left = solo.instance.tokens.left().begin()->second;
  const ReportArgs args = rules::ReportOf(solo.instance, left.visit, *left.late);
  CHECK(args.transition == "again");
  CHECK(solo.Continue() == "");
  CHECK(solo.Where() == "RUNNING a claimed");  // the engine reports it now
  auto answer = solo.Do([&](Scene& scene) { return rules::Report(scene, args); });
  REQUIRE(answer);
  CHECK(solo.token().visit == 2);
}

TEST_CASE("a claim given back while its instance was stopped is free at the resume") {
  Solo solo;
  REQUIRE(solo.Report(solo.Claim()) == "");  // b runs at most once
  const std::string claim = solo.Claim();
  solo.Cancel(CancelMode::kForce);
  CHECK(solo.End(claim, /*gave_back=*/true));
  CHECK_FALSE(solo.End(claim, true));
  CHECK_FALSE(solo.Late(claim));
  CHECK(solo.Continue() == "");
  CHECK(solo.Where() == "RUNNING b ready");
}

// An instance that was cancelled while its work at b, which runs at most once, was in hand; its
// worker has ended without saying how.
Solo Unsaid() {
  Solo solo;
  REQUIRE(solo.Report(solo.Claim()) == "");
  const std::string claim = solo.Claim();
  solo.Cancel(CancelMode::kForce);
  CHECK(solo.End(claim));
  return solo;
}

TEST_CASE("a cancel waits no longer for work at most once that ended without saying how") {
  Solo solo;
  REQUIRE(solo.Report(solo.Claim()) == "");
  const std::string claim = solo.Claim();
  solo.Cancel();
  CHECK(solo.Where() == "RUNNING b claimed");
  CHECK(solo.End(claim));
  CHECK(solo.Where() == "STOPPED dfsmr.cancelled done");
  CHECK(solo.Continue() == "");
  CHECK(solo.Where() == "PAUSED b held");
}

TEST_CASE("what is resumed before its worker has ended is held when that ends") {
  Solo solo;
  REQUIRE(solo.Report(solo.Claim()) == "");
  const std::string claim = solo.Claim();
  solo.Cancel(CancelMode::kForce);
  CHECK(solo.Continue() == "");
  CHECK(solo.Where() == "RUNNING b claimed");
  CHECK(solo.End(claim));
  CHECK(solo.kinds() == Kinds{kPaused});
  CHECK(solo.Where() == "PAUSED b held");
  CHECK_FALSE(solo.End(claim));
  CHECK(solo.instance.error.find("at most once") != std::string::npos);
  CHECK(solo.Resume("b") == "");
  CHECK(solo.Where() == "RUNNING b ready");
}

TEST_CASE("of what ended without saying how the resume hands out what it names") {
  Solo solo = Unsaid();
  CHECK(solo.Continue("nope") == "NO_SUCH_NODE");
  CHECK(solo.Continue("a") == "NOT_HELD");
  SUBCASE("by name") { CHECK(solo.Continue("b") == ""); }
  SUBCASE("with force") { CHECK(solo.Continue("", true) == ""); }
  CHECK(solo.Where() == "RUNNING b ready");
  CHECK(solo.kinds() == Kinds{kResumed, kRelinquished});
}

TEST_CASE("else a machine is paused, until somebody deals with it by name") {
  Solo solo = Unsaid();
  CHECK(solo.Continue() == "");
  CHECK(solo.Where() == "PAUSED b held");
  CHECK(solo.kinds() == Kinds{kResumed, kPaused});
  CHECK(solo.entered == std::vector{InstanceState::kPaused});
  CHECK(solo.instance.error.find("at most once") != std::string::npos);
  CHECK(solo.Resume() == "");
  CHECK(solo.Where() == "PAUSED b held");
  SUBCASE("resumed by name") {
    CHECK(solo.Resume("b") == "");
    CHECK(solo.Where() == "RUNNING b ready");
  }
  SUBCASE("or with force") {
    CHECK(solo.Resume("", true) == "");
    CHECK(solo.Where() == "RUNNING b ready");
  }
  SUBCASE("or moved") {
    REQUIRE(solo.Do([](Scene& scene) { return rules::Report(scene, {.transition = "ok"}); }));
    CHECK(solo.Where() == "RUNNING wait waiting");
    REQUIRE(solo.events.size() == 2);
    CHECK(solo.events[0].kind == kTransitioned);
    CHECK(solo.events[1].kind == kResumed);
  }
  SUBCASE("and cancelled and resumed it is held again") {
    solo.Cancel();
    CHECK(solo.Continue() == "");
    CHECK(solo.Where() == "PAUSED b held");
  }
}

TEST_CASE("a report that came with a cancel has led on: the resume goes on from there") {
  Solo solo("id: m\nnodes:\n  a: {start: true, transitions: {ok: z}}\n  z: {final: true}\n");
  const std::string claim = solo.Claim();
  solo.Cancel();
  CHECK(solo.Report(claim) == "");
  CHECK(solo.Where() == "STOPPED dfsmr.cancelled done");
  CHECK(solo.instance.result == InstanceResult::kCancelled);
  CHECK(solo.Continue() == "");
  CHECK(solo.kinds() == Kinds{kResumed, kFinished});
  CHECK(solo.Where() == "STOPPED z done");
  CHECK(solo.instance.result == InstanceResult::kSuccess);
}

TEST_CASE("a delay runs on while its instance is stopped") {
  Solo solo;
  REQUIRE(solo.Report(solo.Claim()) == "");
  REQUIRE(solo.Report(solo.Claim()) == "");
  const Timestamp until = solo.token().available_at;
  solo.Cancel();
  CHECK(solo.Continue() == "");
  CHECK(solo.token().available_at == until);
}

TEST_CASE("max_visits goes on counting over a cancel") {
  Solo solo(
      "id: m\nnodes:\n"
      "  a: {start: true, max_visits: 2, transitions: {again: a, dfsmr.exhausted: z}}\n"
      "  z: {final: true, result: error}\n");
  REQUIRE(solo.Report(solo.Claim(), "again") == "");
  solo.Cancel();
  REQUIRE(solo.Continue() == "");
  REQUIRE(solo.Report(solo.Claim(), "again") == "");
  CHECK(solo.Where() == "STOPPED z done");
}

TEST_CASE("what never began begins, whatever it waited for") {
  Solo solo;
  Instance fresh;
  fresh.ns = "ns";
  fresh.id = "i";
  fresh.machine = "m";
  fresh.version = 1;
  fresh.waits.Add(Wait::kHold);
  fresh.start_at = solo.now + 3600s;
  fresh.start_before = solo.now + 1us;
  fresh.after = {{"other", false}};
  solo.instance = fresh;
  solo.Do([](Scene& scene) { rules::Start(scene); });
  CHECK(solo.Where() == "SCHEDULED");
  solo.Cancel();
  CHECK(solo.Where() == "STOPPED dfsmr.cancelled done");
  CHECK(solo.Continue() == "");
  CHECK(solo.kinds() == Kinds{kResumed, kStarted});
  CHECK(solo.Where() == "RUNNING a ready");
  CHECK(solo.entered == std::vector{InstanceState::kRunning});
}

TEST_CASE("an instance that is being cancelled is neither paused nor resumed") {
  Solo solo;
  const std::string claim = solo.Claim();
  solo.Cancel();
  CHECK(solo.Do([](Scene& scene) { return rules::Pause(scene); }));
  CHECK(solo.events.empty());
  CHECK(solo.Where() == "RUNNING a claimed");
  CHECK(solo.Resume() == "CANCELLING");
  CHECK(solo.Resume("", true) == "CANCELLING");
  solo.Cancel();
  CHECK(solo.events.empty());
  CHECK(solo.Report(claim) == "");
  CHECK(solo.instance.result == InstanceResult::kCancelled);
}

TEST_CASE("a paused instance whose work is in hand runs again to be cancelled") {
  Solo solo;
  const std::string claim = solo.Claim();
  REQUIRE(solo.Do([](Scene& scene) { return rules::Pause(scene); }));
  solo.Cancel();
  CHECK(solo.kinds() == Kinds{kResumed});
  CHECK(solo.Where() == "RUNNING a claimed");
}

// Plans ------------------------------------------------------------------------------------------

constexpr std::string_view kThree = R"(
plan: p
flow:
  - {step: a, action: x}
  - {step: b, action: x, input: {v: "${a.output.v}"}}
  - {step: c, action: x}
  - {step: d, action: x, after: [b, c]}
)";

TEST_CASE("done steps stay done, and the rest of a cancelled plan begins anew") {
  Play play(kThree);
  play.Ok("a", R"({"v":1})");
  const std::string claim = play.Claim("c");
  play.Cancel();
  CHECK(play.Where() == "c claimed");
  CHECK(play.instance.tokens.left().size() == 1);
  SUBCASE("a step that was done under the cancel leads on at the resume") {
    REQUIRE(play.Report({.transition = "ok", .claim = claim}));
    CHECK(play.Ended() == "STOPPED CANCELLED ");
    CHECK(Continue(play) == "");
    CHECK(play.Where() == "b ready");
    play.Ok("b");
    CHECK(play.Where() == "d ready");
  }
  SUBCASE("one that failed is tried again") {
    REQUIRE(play.Report({.transition = "error", .claim = claim, .error = "no"}));
    CHECK(Continue(play) == "");
    CHECK(play.Where() == "b ready, c ready");
    CHECK(play.At("c").step->tries == 0);
    play.Ok("b");
    play.Ok("c");
    CHECK(play.Where() == "d ready");
  }
  if (play.Where() == "d ready") play.Ok("d");
  CHECK(play.Ended() == "STOPPED SUCCESS /end");
  CHECK(play.progress() == 1);
}

TEST_CASE("a suspended step that a cancel woke begins anew") {
  Play play("plan: p\nflow: {sequence: [{step: a, action: x}, {step: b, action: x}]}\n");
  play.Suspend("a");
  SUBCASE("after its worker has heard of the cancel") {
    play.Cancel();
    CHECK(play.At("a").step->event == "cancel");
    play.Suspend("a");
  }
  SUBCASE("without that, by force") { play.Cancel(CancelMode::kForce); }
  CHECK(play.Ended() == "STOPPED CANCELLED ");
  CHECK(Continue(play) == "");
  CHECK(play.Where() == "a ready");
  CHECK(play.At("a").step->event.empty());
  play.Ok("a");
  play.Ok("b");
  CHECK(play.Ended() == "STOPPED SUCCESS /end");
}

TEST_CASE("begun steps of a plan stopped by force stay with their workers") {
  Play play(kThree);
  const std::string claim = play.Claim("a");
  play.Cancel(CancelMode::kForce);
  CHECK(play.RefuseReport({.transition = "ok", .claim = claim}) == "STALE_CLAIM");
  CHECK(Continue(play) == "");
  CHECK(play.Where() == "a claimed, c ready");
  REQUIRE(play.Report({.transition = "ok", .claim = claim, .output = R"({"v":1})"}));
  CHECK(play.Where() == "b ready, c ready");
}

TEST_CASE("a plan that its steps have stopped with ERROR tries them again") {
  Play play(R"(
action: y
rescue: fail
retry: {limit: 2}
---
plan: p
flow: {sequence: [{step: a, action: x}, {step: b, action: y}, {step: c, action: x}]}
)");
  play.Ok("a");
  play.Error("b");
  play.Error("b");
  CHECK(play.Ended() == "STOPPED ERROR b/error");
  CHECK(play.instance.resumable);
  CHECK(Continue(play) == "");
  CHECK(play.kinds() == Kinds{kResumed, kTransitioned});
  CHECK(play.instance.error.empty());
  CHECK(play.Where() == "b ready");
  play.Error("b");  // a new set of tries
  CHECK(play.Where() == "b ready");
  play.Ok("b");
  play.Ok("c");
  CHECK(play.Ended() == "STOPPED SUCCESS /end");
}

TEST_CASE("what wait_after_fail dropped goes on at the resume") {
  Play play(R"(
action: y
rescue: fail
---
plan: p
wait_after_fail: 0s
flow: [{step: a, action: y}, {step: b, action: x}, {step: c, action: x, after: [b]},
       {step: e, action: x, if: {skipped: b}}]
)");
  const std::string claim = play.Claim("b");
  play.Error("a");
  CHECK(play.Where() == "a/error held, e ready");
  CHECK(play.RefuseReport({.transition = "ok", .claim = claim}) == "STALE_CLAIM");
  CHECK(play.Do(
      [&](Scene& scene) { return rules::KeepLate(scene, {.transition = "ok", .claim = claim}); }));
  play.Ok("e");
  CHECK(play.Ended() == "STOPPED ERROR a/error");
  const Token& left = play.instance.tokens.left().rbegin()->second;
  REQUIRE(left.late);
  const ReportArgs late = rules::ReportOf(play.instance, left.visit, *left.late);
  CHECK(Continue(play) == "");
  CHECK(play.Where() == "a ready, b claimed");
  REQUIRE(play.Report(late));
  CHECK(play.Where() == "a ready, c ready");
  play.Ok("c");
  play.Ok("a");
  CHECK(play.Ended() == "STOPPED SUCCESS /end");  // e stays done
}

TEST_CASE("a step that is resumed before its worker has ended is held when that ends") {
  Play play(R"(
action: y
timeout: 0.0
---
plan: p
flow: {sequence: [{step: a, action: y}, {step: b, action: x}]}
)");
  const std::string claim = play.Claim("a");
  REQUIRE(play.Do([&](Scene& scene) { return rules::Cancel(scene, CancelMode::kForce); }));
  CHECK(Continue(play) == "");
  CHECK(play.Where() == "a claimed");
  CHECK(play.Do([&](Scene& scene) { return rules::EndClaim(scene, ClaimRef(claim), false); }));
  CHECK(play.Where() == "a/error held");
  CHECK(play.Ended() == "PAUSED PENDING ");
  REQUIRE(play.Resume("a"));
  CHECK(play.Where() == "a ready");
}

TEST_CASE("a step at most once that ended without saying how is held, whatever its rescue") {
  Play play(R"(
action: y
rescue: fail
timeout_strategy: fixed
timeout: 0.0
---
plan: p
flow: {sequence: [{step: a, action: y}, {step: b, action: x}]}
)");
  const std::string claim = play.Claim("a");
  play.Cancel();
  CHECK(play.Do([&](Scene& scene) { return rules::EndClaim(scene, ClaimRef(claim), false); }));
  CHECK(play.Ended() == "STOPPED CANCELLED ");
  CHECK(Continue(play, "b") == "NOT_HELD");
  SUBCASE("named at the resume it is handed out") {
    CHECK(Continue(play, "a") == "");
    CHECK(play.Where() == "a ready");
    return;
  }
  CHECK(Continue(play) == "");
  CHECK(play.Where() == "a/error held");
  CHECK(play.Ended() == "PAUSED PENDING ");
  REQUIRE(play.Resume());
  CHECK(play.Where() == "a/error held");
  SUBCASE("resumed by name") {
    REQUIRE(play.Resume("a"));
    CHECK(play.Where() == "a ready");
    CHECK(play.Ended() == "RUNNING PENDING ");
  }
  SUBCASE("with force") {
    REQUIRE(play.Resume("", true));
    CHECK(play.Where() == "a ready");
  }
  SUBCASE("skipped") {
    REQUIRE(play.Do([](Scene& scene) { return rules::Skip(scene, "a"); }));
    CHECK(play.Where() == "b ready");
  }
}

TEST_CASE("children that were cancelled are counted on, and their step waits for them again") {
  Play play(
      "plan: q\nflow: []\n---\n"
      "plan: p\nflow: [{step: s, spawn: {plan: q, for_each: [1, 2, 3], as: n}}]\n");
  play.Count("s", 3);
  for (int i = 0; i < 3; ++i) play.StartChild("s");
  play.Child("s", ChildClass::kRunning, ChildClass::kSuccess);
  const NodeIndex home = play.At("s").home;
  const uint64_t generation = play.At("s").step->children->generation;
  const auto moved = [&](ChildClass from, ChildClass to) {
    play.Do([&](Scene& scene) { rules::ChildMoved(scene, home, generation, from, to, false); });
  };
  SUBCASE("by force: they stop after it") {
    play.Cancel(CancelMode::kForce);
    moved(ChildClass::kRunning, ChildClass::kCancelled);
    moved(ChildClass::kRunning, ChildClass::kCancelled);
  }
  SUBCASE("it waits for them") {
    play.Cancel();
    moved(ChildClass::kRunning, ChildClass::kCancelled);
    moved(ChildClass::kRunning, ChildClass::kCancelled);
  }
  CHECK(play.Ended() == "STOPPED CANCELLED ");
  CHECK(Continue(play) == "");
  CHECK(play.Where() == "s waiting");
  CHECK_FALSE(rules::WantsChildren(play.instance, play.At("s")));  // before the others go on
  moved(ChildClass::kCancelled, ChildClass::kRunning);
  moved(ChildClass::kCancelled, ChildClass::kRunning);
  play.Do([](Scene& scene) { rules::ChildrenResumed(scene); });
  CHECK(rules::WantsChildren(play.instance, play.At("s")));
  play.Count("s", 3);
  CHECK(play.Where() == "s waiting");
  moved(ChildClass::kRunning, ChildClass::kSuccess);
  moved(ChildClass::kRunning, ChildClass::kSuccess);
  CHECK(play.Ended() == "STOPPED SUCCESS /end");
}

TEST_CASE("a plan that is called off goes on with what its cancel had taken away") {
  Play play(kThree);
  const std::string claim = play.Claim("a");
  play.Cancel();
  CHECK(play.Where() == "a claimed");
  play.Do([](Scene& scene) { rules::CallOff(scene, false); });
  CHECK(play.Where() == "a claimed, c ready");
  CHECK(play.instance.cancel == CancelMode::kNone);
  REQUIRE(play.Report({.transition = "ok", .claim = claim, .output = R"({"v":1})"}));
  CHECK(play.Where() == "b ready, c ready");
}

TEST_CASE("a singleton that is taken keeps a resumed plan from going on") {
  Play play("plan: p\nflow: [{step: a, action: x}]\n");
  play.Cancel(CancelMode::kForce);
  play.gate.key = "k";
  play.gate.holder = "other";
  CHECK(Continue(play) == "");
  CHECK(play.Ended() == "PAUSED PENDING ");
  CHECK(play.instance.waits.Has(Wait::kTurn));
  play.gate.holder.clear();
  play.Do([](Scene& scene) { rules::LetIn(scene); });
  CHECK(play.Ended() == "RUNNING PENDING ");
}

}  // namespace
}  // namespace dfsmr
