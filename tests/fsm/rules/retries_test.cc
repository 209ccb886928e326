// Failing and trying again: nodes of machines, and steps of plans.
#include <doctest/doctest.h>

#include <string>

#include "tests/fsm/rules/play.h"

namespace dfsmr {
namespace {

using namespace std::chrono_literals;
using enum ChangeKind;

constexpr std::string_view kTries = R"(
  a:
    start: true
    retry: {limit: 3, delay: 1s, factor: 2}
    transitions: {ok: b, error: failed, back: a}
  b: {max_visits: 1, retry: 2, transitions: {ok: done, error: failed, dfsmr.exhausted: failed}}
  done: {final: true}
  failed: {final: true, result: error}
)";
constexpr std::string_view kNoError = R"(
  a: {start: true, transitions: {ok: done}}
  done: {final: true}
)";

// An instance of a machine.
struct Node1 {
  template <typename Rule>
  auto Do(Rule rule) {
    events.clear();
    instance.tokens.Forget();
    Scene scene{machine, instance, now, 1, random, events};
    return rule(scene);
  }
  explicit Node1(std::string_view nodes) {
    Parsed parsed = ParseDefinitions("id: m\nnodes:\n" + std::string(nodes), "test");
    REQUIRE(parsed.ok());
    machine = std::move(parsed.definitions.front());
    instance.ns = "ns";
    instance.id = "i";
    instance.machine = "m";
    instance.version = 1;
    Do([](Scene& scene) { rules::Start(scene); });
  }
  const Token& token() { return std::as_const(instance.tokens).front(); }
  std::string Where() {
    return std::string(NodeName(machine, token().node)) + " " + std::string(Word(token().state));
  }
  std::string Claim() {
    const ClaimId id{1, ++serial};
    Do([&](Scene& scene) {
      rules::TakeClaim(scene, instance.tokens.front(), {id, "w", now + 10s});
    });
    return rules::ClaimText(instance, token().visit, id);
  }
  Answer Report(ReportArgs args) {
    args.claim = Claim();
    auto answer = Do([&](Scene& scene) { return rules::Report(scene, args); });
    REQUIRE_MESSAGE(answer, (answer ? "" : answer.error().message));
    return *answer;
  }
  Answer Fail(std::string error = "broke", std::string kind = "") {
    return Report(
        {.transition = "error", .error = std::move(error), .error_kind = std::move(kind)});
  }
  void Elapse(Duration by) {
    now += by;
    Do([&](Scene& scene) { rules::EndWait(scene, token().visit); });
  }
  Result<Ok> Resume(const std::string& node = "") {
    return Do([&](Scene& scene) { return rules::Resume(scene, node, false); });
  }
  Kinds kinds() const {
    Kinds list;
    for (const Event& event : events) list.push_back(event.kind);
    return list;
  }

  Machine machine;
  Instance instance;
  Timestamp now = kNoon;
  uint64_t random = 7;
  uint64_t serial = 0;
  std::vector<Event> events;
};

// Machines ---------------------------------------------------------------------------------------

TEST_CASE("a node is tried again in a new visit, after its delay") {
  Node1 play(kTries);
  const Answer answer = play.Report({.transition = "error",
                                     .params = R"({"n":1})",
                                     .output = R"({"o":1})",
                                     .error = "broke",
                                     .error_kind = "exit"});
  CHECK(answer.nodes == Texts{"a"});
  CHECK(answer.visit == 2);
  REQUIRE(play.kinds() == Kinds{kTransitioned});
  const Event& event = play.events[0];
  CHECK((event.prev_node == "a" && event.node == "a" && event.transition == "error"));
  CHECK((event.visit == 2 && event.left_visit == 1 && event.attempt == 1));
  CHECK((event.note == "broke" && event.error_kind == "exit" && event.client == "w"));
  CHECK(event.output == R"({"o":1})");
  CHECK(play.Where() == "a waiting");
  CHECK(TriesOf(play.token()) == 1);
  CHECK(play.token().params.empty());  // what the report gave is for the next node
  CHECK(play.token().available_at == kNoon + 1s);
  play.Elapse(999ms);
  CHECK(play.Where() == "a waiting");
  play.Elapse(1ms);
  CHECK(play.Where() == "a ready");
  play.Fail();
  CHECK(play.token().available_at == play.now + 2s);
  play.Elapse(2s);
  CHECK(TriesLimitOf(&play.machine, play.token()) == 3);
  play.Fail("for good");
  CHECK(play.instance.result == InstanceResult::kError);
  CHECK(play.instance.error == "for good");
}

TEST_CASE("another node, and coming back, begin with new tries") {
  Node1 play(kTries);
  play.Fail();
  play.Elapse(1s);
  play.Report({.transition = "back"});
  CHECK(TriesOf(play.token()) == 0);
  play.Report({.transition = "ok"});
  CHECK(TriesOf(play.token()) == 0);
}

TEST_CASE("a try is no visit to max_visits") {
  Node1 play(kTries);
  play.Report({.transition = "ok"});
  play.Fail();
  CHECK(play.Where() == "b ready");  // at once: it has no delay
  CHECK(play.instance.Entries("b") == 1);
  play.Report({.transition = "ok"});
  CHECK(play.instance.result == InstanceResult::kSuccess);
}

TEST_CASE("a report may be fatal, or say when") {
  Node1 play(kTries);
  SUBCASE("fatal") {
    play.Report({.transition = "error", .fatal = true});
    CHECK(play.instance.result == InstanceResult::kError);
  }
  SUBCASE("when") {
    play.Report({.transition = "error", .retry_after = 90s});
    CHECK(play.token().available_at == kNoon + 90s);
    CHECK(TriesOf(play.token()) == 1);
  }
  SUBCASE("at once") {
    play.Report({.transition = "error", .retry_after = 0s});
    CHECK(play.Where() == "a ready");
  }
}

TEST_CASE("only errors that `on` names are tried again") {
  Node1 play(R"(
  a: {start: true, retry: {limit: 9, on: [transient, oom]}, transitions: {ok: z, error: f}}
  z: {final: true}
  f: {final: true, result: error}
)");
  play.Fail("Connection refused");
  play.Fail("", "oom");
  play.Fail("no reason", "timeout");
  CHECK(play.Where() == "a ready");
  play.Fail("no such file", "exit");
  CHECK(play.instance.result == InstanceResult::kError);
}

TEST_CASE("jitter varies a delay by the scene's random number alone") {
  const auto delay = [](uint64_t random) {
    Node1 play(R"(
  a: {start: true, retry: {limit: 2, delay: 100s, jitter: 0.25}, transitions: {ok: z, error: z}}
  z: {final: true}
)");
    play.random = random;
    play.Fail();
    return play.token().available_at - play.now;
  };
  CHECK(delay(1) == delay(1));
  CHECK(delay(1) != delay(2));
  for (uint64_t random = 0; random < 100; ++random) {
    CHECK(delay(random) >= 75s);
    CHECK(delay(random) <= 125s);
  }
}

TEST_CASE("a wait between tries may be ended from outside, and a cancel ends it") {
  Node1 play(kTries);
  play.Fail();
  SUBCASE("ok") {
    REQUIRE(play.Do([&](Scene& scene) { return rules::Report(scene, {.transition = "ok"}); }));
    CHECK(play.Where() == "b ready");
  }
  SUBCASE("cancel") {
    REQUIRE(play.Do([&](Scene& scene) { return rules::Cancel(scene, CancelMode::kCancel); }));
    CHECK(play.instance.result == InstanceResult::kCancelled);
  }
}

TEST_CASE("what fails in a cancel is not tried again") {
  for (std::string_view nodes : {kTries, kNoError}) {
    Node1 play(nodes);
    const std::string claim = play.Claim();
    REQUIRE(play.Do([&](Scene& scene) { return rules::Cancel(scene, CancelMode::kCancel); }));
    REQUIRE(play.Do([&](Scene& scene) {
      return rules::Report(scene, {.transition = "error", .claim = claim, .error_kind = "exit"});
    }));
    CHECK(play.instance.result == InstanceResult::kCancelled);
  }
}

TEST_CASE("an error with a kind at a node that lists none pauses the instance") {
  Node1 play(kNoError);
  const Answer answer = play.Fail("exit status 3", "exit");
  CHECK(answer.nodes == Texts{"a"});
  CHECK(answer.state == InstanceState::kPaused);
  CHECK(play.kinds() == Kinds{kTransitioned, kPaused});
  CHECK(play.events[0].error_kind == "exit");
  CHECK(play.events[0].note == "exit status 3");
  CHECK(play.events[1].note == "a: exit status 3");
  CHECK(play.instance.error == "a: exit status 3");
  CHECK(play.Where() == "a held");
  CHECK(play.token().error == "exit status 3");
  CHECK(TriesOf(play.token()) == 1);
  const uint64_t held = play.token().visit;
  SUBCASE("resume offers it anew") {
    REQUIRE(play.Resume());
    CHECK(play.kinds() == Kinds{kResumed, kTransitioned});
  }
  SUBCASE("so does resume by name") { REQUIRE(play.Resume("a")); }
  SUBCASE("or somebody moves it") {
    REQUIRE(play.Do([&](Scene& scene) { return rules::Report(scene, {.transition = "ok"}); }));
    CHECK(play.kinds() == Kinds{kTransitioned, kFinished});
    return;
  }
  CHECK(play.instance.state == InstanceState::kRunning);
  CHECK(play.instance.error.empty());
  CHECK(play.Where() == "a ready");
  CHECK(play.token().visit > held);
  CHECK(TriesOf(play.token()) == 0);
}

TEST_CASE("without a kind it is refused, as ever") {
  Node1 play(kNoError);
  const std::string claim = play.Claim();
  auto refused = play.Do([&](Scene& scene) {
    return rules::Report(scene, {.transition = "error", .claim = claim, .error = "x"});
  });
  REQUIRE_FALSE(refused);
  CHECK(refused.error().reason == Reason::kIllegalTransition);
}

TEST_CASE("an instance paused by a call stays so when its held node is resumed by name") {
  Node1 play(kNoError);
  const std::string claim = play.Claim();
  REQUIRE(play.Do([&](Scene& scene) { return rules::Pause(scene); }));
  REQUIRE(play.Do([&](Scene& scene) {
    return rules::Report(scene, {.transition = "error", .claim = claim, .error_kind = "exit"});
  }));
  CHECK(play.kinds() == Kinds{kTransitioned});
  REQUIRE(play.Resume("a"));
  CHECK(play.Where() == "a ready");
  CHECK(play.instance.state == InstanceState::kPaused);
  REQUIRE(play.Resume());
  CHECK(play.instance.state == InstanceState::kRunning);
}

// Late reports -----------------------------------------------------------------------------------

// Stops the instance while a worker has its work, which then reports this; resumes it, and has the
// report count, as the engine does.
void ReportLate(Node1& play, ReportArgs args) {
  args.claim = play.Claim();
  REQUIRE(play.Do([](Scene& scene) { return rules::Cancel(scene, CancelMode::kForce); }));
  REQUIRE(play.Do([&](Scene& scene) { return rules::KeepLate(scene, args); }));
  CHECK(play.events[0].error_kind == args.error_kind);
  const Token& left = play.instance.tokens.left().begin()->second;
  REQUIRE(left.late);
  const ReportArgs late = rules::ReportOf(play.instance, left.visit, *left.late);
  play.Do([](Scene& scene) { rules::Continue(scene, "", false); });
  REQUIRE(play.Do([&](Scene& scene) { return rules::Report(scene, late); }));
}

TEST_CASE("a late report is taken as it wanted to be") {
  SUBCASE("with retry_after") {
    Node1 play(kTries);
    ReportLate(play, {.transition = "error", .error_kind = "oom", .retry_after = 1h});
    CHECK(play.Where() == "a waiting");
    CHECK(play.token().available_at == play.now + 1h);
    CHECK(play.events[0].error_kind == "oom");
  }
  SUBCASE("fatal") {
    Node1 play(kTries);
    ReportLate(play, {.transition = "error", .error = "no use", .fatal = true});
    CHECK(play.instance.result == InstanceResult::kError);
  }
  SUBCASE("with a kind, where the node lists no error") {
    Node1 play(kNoError);
    ReportLate(play, {.transition = "error", .error = "broke", .error_kind = "exit"});
    CHECK(play.Where() == "a held");
    CHECK(play.instance.state == InstanceState::kPaused);
  }
}

TEST_CASE("a late error without a kind is not kept where the node lists none") {
  Node1 play(kNoError);
  const std::string claim = play.Claim();
  REQUIRE(play.Do([](Scene& scene) { return rules::Cancel(scene, CancelMode::kForce); }));
  CHECK_FALSE(play.Do([&](Scene& scene) {
    return rules::KeepLate(scene, {.transition = "error", .claim = claim});
  }));
}

// What the server finds --------------------------------------------------------------------------

TEST_CASE("a ready node that nobody takes fails as if `error` were reported") {
  const auto unclaimed = [](Node1& play) {
    play.Do([&](Scene& scene) { rules::Unclaimed(scene, play.token().visit, "nobody asks"); });
  };
  SUBCASE("tried again") {
    Node1 play(kTries);
    unclaimed(play);
    REQUIRE(play.kinds() == Kinds{kTransitioned});
    CHECK(play.events[0].error_kind == "unclaimed");
    CHECK(play.events[0].note == "nobody asks");
    CHECK(play.events[0].left_visit == 1);
    CHECK(play.Where() == "a waiting");
    unclaimed(play);  // it is not ready
    CHECK(play.kinds().empty());
  }
  SUBCASE("along error") {
    Node1 play(R"(
  a: {start: true, transitions: {ok: z, error: f}}
  z: {final: true}
  f: {final: true, result: error}
)");
    unclaimed(play);
    CHECK(play.instance.result == InstanceResult::kError);
    CHECK(play.instance.error == "nobody asks");
  }
  SUBCASE("paused where there is none") {
    Node1 play(kNoError);
    unclaimed(play);
    CHECK(play.instance.state == InstanceState::kPaused);
    CHECK(play.instance.error == "a: nobody asks");
  }
  SUBCASE("not while a worker has it") {
    Node1 play(kTries);
    play.Claim();
    unclaimed(play);
    CHECK(play.kinds().empty());
  }
}

// A worker claims the work, and is gone for good.
template <typename P>
void Lose(P& play, uint64_t visit, const std::string& worker) {
  const ClaimId id{1, ++play.serial};
  play.Do([&](Scene& scene) {
    Token& token = *scene.instance.tokens.FindMutable(visit);
    rules::TakeClaim(scene, token, {.id = id, .worker = worker, .deadline = play.now + 10s});
  });
  play.Do([&](Scene& scene) { rules::LoseClaim(scene, visit, id, /*for_good=*/true); });
}

TEST_CASE("three attempts lost with their agents fail for good, and name the agents") {
  Node1 play(kTries);
  Lose(play, 1, "h1");
  Lose(play, 1, "h2");
  CHECK(play.Where() == "a ready");
  CHECK(play.token().handling->abandoned == 2);
  Lose(play, 1, "h1");
  CHECK(play.kinds() == Kinds{kAbandoned, kTransitioned, kFinished});
  CHECK(play.events[1].error_kind == "abandoned");
  CHECK(play.instance.result == InstanceResult::kError);
  CHECK(play.instance.error == "3 attempts were lost with the agents h1, h2");
}

TEST_CASE("abandon_after may say otherwise, also never") {
  for (const uint32_t most : {1u, 0u}) {
    Node1 play("  a: {start: true, abandon_after: " + std::to_string(most) +
               ", transitions: {ok: z, error: z}}\n  z: {final: true}\n");
    for (uint32_t i = 1; i <= 10 && !play.instance.Stopped(); ++i) {
      Lose(play, 1, "h");
      CHECK(play.instance.Stopped() == (i == most));
    }
  }
}

// Plans ------------------------------------------------------------------------------------------

std::string Plan(const std::string& keys) {
  return "action: x\n" + keys + "\n---\nplan: p\nflow: [{step: a, action: x}]\n";
}

TEST_CASE("a step heeds fatal, retry_after, on and kinds, too") {
  Play play(Plan("retry: {limit: 3, delay: 1s, on: [oom]}"));
  SUBCASE("fatal") {
    play.Run("a", {.transition = "error", .error_kind = "oom", .fatal = true});
    CHECK(play.Where() == "a/error held");
    CHECK(TriesOf(play.At("a")) == 1);
  }
  SUBCASE("another error") {
    play.Run("a", {.transition = "error", .error = "broke", .error_kind = "exit"});
    CHECK(play.Where() == "a/error held");
    CHECK(play.events[0].error_kind == "exit");
  }
  SUBCASE("retry_after") {
    play.Run("a", {.transition = "error", .error_kind = "oom", .retry_after = 1h});
    CHECK(play.At("a").available_at == play.now + 1h);
    CHECK(TriesOf(play.At("a")) == 1);
    CHECK(TriesLimitOf(nullptr, play.At("a")) == 3);
  }
}

TEST_CASE("a held step has counted its last try, and resuming grants a new set") {
  Play play(Plan("retry: 2"));
  play.Error("a");
  play.Error("a");
  CHECK(play.Where() == "a/error held");
  CHECK(TriesOf(play.At("a")) == 2);
  REQUIRE(play.Resume());
  CHECK(TriesOf(play.At("a")) == 0);
}

TEST_CASE("an error from outside of a suspended step is tried again") {
  Play play(Plan("retry: 2"));
  play.Suspend("a");
  play.Outside("a", "error");
  CHECK(play.Where() == "a ready");
  play.Suspend("a");
  play.Outside("a", "error");
  CHECK(play.Where() == "a/error held");
}

TEST_CASE("a step that nobody takes fails, its rescue decides") {
  for (const auto& [rescue, ended] : {std::pair("pause", "PAUSED PENDING "),
                                      {"skip", "STOPPED WARNING /end"},
                                      {"fail", "STOPPED ERROR a/error"}}) {
    Play play(Plan("ready_timeout: 1s\nrescue: " + std::string(rescue)));
    CHECK(play.machine.ready_ends);
    const uint64_t visit = play.At("a").visit;
    play.Do([&](Scene& scene) { rules::Unclaimed(scene, visit, "nobody asks"); });
    CHECK(play.events[0].error_kind == "unclaimed");
    CHECK(play.Ended() == ended);
  }
}

TEST_CASE("a planner that nobody takes fails the planning") {
  Play play("action: x\nplan: worker\n---\nplan: p\nflow: [{step: a, action: x}]\n");
  const uint64_t visit = play.At("a").visit;
  play.Do([&](Scene& scene) { rules::Unclaimed(scene, visit, "nobody asks"); });
  CHECK(play.instance.result == InstanceResult::kError);
  CHECK(play.events[0].error_kind == "unclaimed");
}

TEST_CASE("attempts of a step lost with their agents are counted in a visit") {
  Play play(Plan("retry: 9\nabandon_after: 2"));
  Lose(play, play.At("a").visit, "h");
  play.Error("a");
  Lose(play, play.At("a").visit, "h");
  CHECK(play.Where() == "a ready");
  Lose(play, play.At("a").visit, "h");
  CHECK(play.Where() == "a/error held");
  CHECK(play.At("a").error == "2 attempts were lost with the agent h");
}

TEST_CASE("an error of a poll may say when the next one is") {
  Play play(Plan("poll: {intervals: [1s], max_failures: 3}"));
  play.Suspend("a");
  play.Elapse(1s, "a");
  play.Run("a", {.transition = "error", .retry_after = 1h});
  CHECK(play.At("a").available_at == play.now + 1h);
  play.Elapse(1h, "a");
  play.Run("a", {.transition = "error", .fatal = true});
  CHECK(play.Where() == "a/error held");
}

// rescue -----------------------------------------------------------------------------------------

TEST_CASE("a rescue may be one of the params, decided when the instance is planned") {
  const std::string text = "action: x\nrescue: \"${params.r}\"\n---\nplan: p\n" +
                           std::string("flow: [{step: a, action: x}]\n");
  Play fails(text, R"({"r":"fail"})");
  fails.Error("a");
  CHECK(fails.Ended() == "STOPPED ERROR a/error");
  Play skips(text, R"({"r":"skip"})");
  skips.Error("a");
  CHECK(skips.Ended() == "STOPPED WARNING /end");
}

// run_timeout ------------------------------------------------------------------------------------

TEST_CASE("no Extend moves a deadline to later than 30 s after run_timeout") {
  Node1 play("  a: {start: true, run_timeout: 60s, transitions: {ok: z}}\n  z: {final: true}\n");
  const std::string claim = play.Claim();
  const auto extend = [&](Duration by) {
    auto extension =
        play.Do([&](Scene& scene) { return rules::Extend(scene, claim, play.now + by, {}); });
    REQUIRE(extension);
    return extension->deadline - kNoon;
  };
  CHECK(extend(30s) == 30s);
  CHECK(extend(24h) == 90s);
  play.now += 80s;
  CHECK(extend(60s) == 90s);
  play.now = kNoon + 90s;
  play.Do([&](Scene& scene) { rules::TimeOut(scene, play.token().visit, {1, 1}); });
  CHECK(play.Where() == "a ready");
  CHECK(extend(60s) == 90s);
  CHECK(play.Where() == "a ready");  // it is not brought back to life
}

}  // namespace
}  // namespace dfsmr
