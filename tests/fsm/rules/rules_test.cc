// The rules, one behaviour a case. A rule that refuses must have changed nothing: Refuse checks it.
#include "fsm/rules/rules.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "fsm/base/epoch.h"
#include "fsm/base/limits.h"
#include "fsm/yaml/definitions.h"

namespace dfsmr {
namespace {

using namespace std::chrono_literals;
using Kinds = std::vector<ChangeKind>;
using enum ChangeKind;

constexpr Timestamp kNoon = FromMicros(1'700'000'000'000'000);

Machine MachineOf(std::string_view nodes) {
  const std::string text = "id: m\nnodes:\n" + std::string(nodes);
  Parsed parsed = ParseDefinitions(text, "test");
  std::string problems;
  for (const Diagnostic& diagnostic : parsed.diagnostics) problems += Format(diagnostic) + "\n";
  REQUIRE_MESSAGE(parsed.ok(), problems);
  return std::move(parsed.definitions.front());
}

constexpr std::string_view kPlain = R"(
  a: {start: true, transitions: {ok: b, again: a, bad: failed}}
  b: {transitions: {ok: done}}
  done: {final: true}
  failed: {final: true, result: error}
)";

// An instance, its machine and the clock.
struct World {
  explicit World(std::string_view nodes = kPlain) : machine(MachineOf(nodes)) {
    instance.ns = "ns";
    instance.id = "i";
    instance.machine = "m";
    instance.version = 1;
  }

  template <typename Rule>
  auto Do(Rule rule) {
    events.clear();
    Scene scene{machine, instance, now, epoch, random, events};
    return rule(scene);
  }
  // Does what must be refused, and answers why.
  template <typename Rule>
  std::string Refuse(Rule rule) {
    const Instance before = instance;
    auto outcome = Do(rule);
    CHECK_FALSE(outcome.has_value());
    CHECK(instance == before);
    CHECK(events.empty());
    return outcome.has_value() ? "" : std::string(Name(outcome.error().reason));
  }

  World& Start() {
    Do([](Scene& scene) { rules::Start(scene); });
    return *this;
  }
  Token& token() { return instance.tokens.front(); }
  std::string node() { return std::string(NodeName(machine, token().node)); }
  std::string Claim(Duration timeout = 10s, std::string worker = "w") {
    const ClaimId id{epoch, ++serial};
    Do([&](Scene& scene) {
      const Timestamp deadline = timeout == Duration::max() ? kNever : now + timeout;
      rules::TakeClaim(scene, token(), {id, worker, deadline});
    });
    last = id;
    return rules::ClaimText(instance, token().visit, id);
  }
  Result<Answer> Report(ReportArgs args) {
    return Do([&](Scene& scene) { return rules::Report(scene, args); });
  }
  std::string RefuseReport(ReportArgs args) {
    return Refuse([&](Scene& scene) { return rules::Report(scene, args); });
  }
  void TimeOut() {
    now = now + 10s;
    Do([&](Scene& scene) { rules::TimeOut(scene, token().visit, last); });
  }
  // A crash: what the row of the instance says is what is left.
  void Crash() {
    ++epoch;
    serial = 0;
  }
  Kinds kinds() const {
    Kinds list;
    for (const Event& event : events) list.push_back(event.kind);
    return list;
  }

  Machine machine;
  Instance instance;
  Timestamp now = kNoon;
  uint64_t epoch = 1;
  uint64_t random = 0;
  uint64_t serial = 0;
  ClaimId last;
  std::vector<Event> events;
};

// Starting ----------------------------------------------------------------------------------------

TEST_CASE("a started instance stands ready on the start node, at visit 1") {
  World world;
  world.Start();
  CHECK(world.kinds() == Kinds{kStarted});
  CHECK(world.events[0].node == "a");
  CHECK(world.events[0].visit == 1);
  CHECK(world.instance.state == InstanceState::kRunning);
  CHECK(world.instance.result == InstanceResult::kPending);
  CHECK(world.instance.start_time == kNoon);
  CHECK(world.token().state == TokenState::kReady);
  CHECK(world.token().visit == 1);
}

TEST_CASE("a start node that is final stops the instance at once") {
  World world("  a: {start: true, final: true, result: warning}\n");
  world.Start();
  CHECK(world.kinds() == Kinds{kStarted, kFinished});
  CHECK(world.instance.result == InstanceResult::kWarning);
  CHECK(world.token().state == TokenState::kDone);
}

TEST_CASE("when an instance begins") {
  struct Row {
    const char* what;
    Duration start_at, start_before, now;  // after noon; start_before zero: none
    bool hold;
    InstanceState state;
    InstanceResult result;
  };
  using S = InstanceState;
  using R = InstanceResult;
  for (const Row& row : {
           Row{"start_at in the past means now", -5s, 0s, 0s, false, S::kRunning, R::kPending},
           Row{"not before start_at", 10s, 0s, 9s, false, S::kScheduled, R::kPending},
           Row{"at start_at", 10s, 0s, 10s, false, S::kRunning, R::kPending},
           Row{"late, but before start_before", 10s, 30s, 29s, false, S::kRunning, R::kPending},
           Row{"too late after start_before", 10s, 30s, 31s, false, S::kStopped, R::kError},
           Row{"held ones wait", 0s, 0s, 1h, true, S::kScheduled, R::kPending},
           Row{"held ones stop at start_before", 0s, 30s, 30s, true, S::kStopped, R::kError},
           Row{"held ones wait until then", 0s, 30s, 29s, true, S::kScheduled, R::kPending},
       }) {
    CAPTURE(row.what);
    World world;
    world.instance.start_at = kNoon + row.start_at;
    if (row.start_before != 0s) world.instance.start_before = kNoon + row.start_before;
    if (row.hold) world.instance.waits.Add(Wait::kHold);
    world.Start();
    world.now = kNoon + row.now;
    world.Do([](Scene& scene) { rules::StartDue(scene); });
    CHECK(world.instance.state == row.state);
    CHECK(world.instance.result == row.result);
  }
}

TEST_CASE("a scheduled instance says so, and starts once") {
  World world;
  world.instance.start_at = kNoon + 10s;
  world.Start();
  CHECK(world.kinds() == Kinds{kScheduled});
  CHECK(rules::NextStart(world.instance) == kNoon + 10s);
  world.now = kNoon + 10s;
  world.Do([](Scene& scene) { rules::StartDue(scene); });
  CHECK(world.kinds() == Kinds{kStarted});
  CHECK(rules::NextStart(world.instance) == kNever);
  world.Do([](Scene& scene) { rules::StartDue(scene); });
  CHECK(world.events.empty());
}

TEST_CASE("a held instance begins when it is resumed, at start_at at the earliest") {
  World world;
  world.instance.waits.Add(Wait::kHold);
  SUBCASE("without start_at") {
    world.Start();
    REQUIRE(world.Do([](Scene& scene) { return rules::Resume(scene, "", false); }));
    CHECK(world.kinds() == Kinds{kResumed, kStarted});
  }
  SUBCASE("with one to come") {
    world.instance.start_at = kNoon + 10s;
    world.Start();
    REQUIRE(world.Do([](Scene& scene) { return rules::Resume(scene, "", false); }));
    CHECK(world.instance.state == InstanceState::kScheduled);
    CHECK(rules::NextStart(world.instance) == kNoon + 10s);
  }
}

TEST_CASE("an instance that waits for others begins when the last of them has stopped") {
  World world;
  world.instance.after = {{"one", false}, {"two", true}};
  world.Start();
  CHECK(world.instance.state == InstanceState::kScheduled);
  auto stopped = [&](const char* id, InstanceResult result) {
    world.Do([&](Scene& scene) { rules::PrerequisiteStopped(scene, id, result); });
  };
  stopped("other", InstanceResult::kError);
  CHECK(world.events.empty());
  SUBCASE("as they had to") {
    stopped("two", InstanceResult::kError);
    CHECK(world.instance.state == InstanceState::kScheduled);
    stopped("one", InstanceResult::kSuccess);
    CHECK(world.kinds() == Kinds{kStarted});
  }
  SUBCASE("or stops when one did not") {
    stopped("one", InstanceResult::kWarning);
    CHECK(world.instance.result == InstanceResult::kError);
  }
}

TEST_CASE("an instance begins when the last reason is gone, in whatever order they go") {
  std::vector<Wait> order = {Wait::kHold, Wait::kStartAt, Wait::kAfter};
  for (const bool paused : {false, true}) {
    CAPTURE(paused);
    do {
      World world;
      world.instance.waits.Add(Wait::kHold);
      world.instance.start_at = kNoon + 10s;
      world.instance.after = {{"p", false}};
      world.Start();
      CHECK(world.instance.waits == Waits{Wait::kHold, Wait::kStartAt, Wait::kAfter});
      if (paused) REQUIRE(world.Do([](Scene& scene) { return rules::Pause(scene); }));
      for (const Wait gone : order) {
        CHECK(world.instance.tokens.empty());
        CHECK(world.instance.waits.Has(gone));
        CHECK(world.instance.waits.Paused() == (world.instance.state == InstanceState::kPaused));
        if (gone == Wait::kStartAt) {
          CHECK(rules::NextStart(world.instance) == kNoon + 10s);
          world.now = kNoon + 10s;
          world.Do([](Scene& scene) { rules::StartDue(scene); });
        } else if (gone == Wait::kAfter) {
          world.Do([](Scene& scene) {
            rules::PrerequisiteStopped(scene, "p", InstanceResult::kSuccess);
          });
        } else {
          const auto resume = [](Scene& scene) { return rules::Resume(scene, "", false); };
          if (paused) REQUIRE(world.Do(resume));  // it ends the pause, and no more
          CHECK(world.instance.waits.Has(gone));
          REQUIRE(world.Do(resume));
        }
        CHECK_FALSE(world.instance.waits.Has(gone));
      }
      CHECK(world.instance.state == InstanceState::kRunning);
      CHECK(world.instance.waits.empty());
    } while (std::ranges::next_permutation(order).found);
  }
}

TEST_CASE("a plan waits for its limits, and keeps its place while it is paused") {
  World world;
  world.instance.plan = PlanState();
  auto with_holder = [&world](const std::string& holder, auto rule) {
    world.events.clear();
    struct Gate : LimitGate {
      LimitAnswer Ask(const Instance&) override {
        LimitAnswer answer{.keys = {{"k", {.max = 1, .rate = {}}}}};
        if (!held.empty()) answer.kind = LimitAnswer::Kind::kWaits;
        return answer;
      }
      LimitAnswer WouldAnswer(const Instance& instance) override { return Ask(instance); }
      std::string held;
    } gate;
    gate.held = holder;
    Scene scene{world.machine, world.instance, world.now, world.epoch,
                world.random,  world.events,   &gate};
    return rule(scene);
  };
  const auto look = [](Scene& scene) {
    rules::StartDue(scene);
    rules::LetIn(scene);
  };
  with_holder("other", [](Scene& scene) { rules::Start(scene); });
  CHECK(world.kinds() == Kinds{kScheduled});
  CHECK(world.instance.waits == Waits{Wait::kLimit});
  CHECK(rules::NextStart(world.instance) == kNever);
  with_holder("other", look);
  CHECK(world.events.empty());
  SUBCASE("and begins when it is free") {
    with_holder("", look);
    CHECK(world.kinds() == Kinds{kStarted});
  }
  SUBCASE("and begins when it is resumed, if it is free by then") {
    REQUIRE(with_holder("other", [](Scene& scene) { return rules::Pause(scene); }));
    with_holder("", look);
    CHECK(world.instance.waits == Waits{Wait::kLimit, Wait::kPause});
    REQUIRE(with_holder("", [](Scene& scene) { return rules::Resume(scene, "", false); }));
    CHECK(world.instance.waits == Waits{Wait::kLimit});
    with_holder("", look);
    CHECK(world.kinds() == Kinds{kStarted});
  }
  SUBCASE("and for its start_at again, when the clock was set back over a restart") {
    world.instance.start_at = kNoon + 10s;
    world.instance.waits.Add(Wait::kStartAt);
    with_holder("", look);
    CHECK(world.instance.waits == Waits{Wait::kLimit, Wait::kStartAt});
    CHECK(rules::NextStart(world.instance) == kNoon + 10s);
    world.now = kNoon + 10s;
    with_holder("", look);
    CHECK(world.kinds() == Kinds{kStarted});
  }
  SUBCASE("and stops at its start_before") {
    world.instance.start_before = kNoon;
    with_holder("other", look);
    CHECK(world.instance.result == InstanceResult::kError);
    CHECK(world.instance.waits.empty());
    return;
  }
  CHECK(world.instance.state == InstanceState::kPlanning);
  CHECK(world.instance.waits.empty());
  CHECK(world.instance.limits->keys.at(0).key == "k");
  CHECK(rules::NextStart(world.instance) == kNever);
  // Paused before it is planned it goes on with that, and does not begin twice.
  REQUIRE(with_holder("", [](Scene& scene) { return rules::Pause(scene); }));
  CHECK(world.instance.limits->keys.empty());
  REQUIRE(with_holder("", [](Scene& scene) { return rules::Resume(scene, "", false); }));
  CHECK(world.kinds() == Kinds{kResumed});
  CHECK(world.instance.state == InstanceState::kPlanning);
}

TEST_CASE("what stops before it begins keeps no pause, and begins again as it was asked to") {
  World world;
  world.instance.waits.Add(Wait::kHold);
  world.instance.start_before = kNoon + 10s;
  world.Start();
  REQUIRE(world.Do([](Scene& scene) { return rules::Pause(scene); }));
  world.now = kNoon + 10s;
  world.Do([](Scene& scene) { rules::StartDue(scene); });
  CHECK(world.instance.result == InstanceResult::kError);
  CHECK(world.instance.waits == Waits{Wait::kHold});
  world.now = kNoon;
  world.Do([](Scene& scene) { rules::BeginAgain(scene); });
  CHECK(world.instance.state == InstanceState::kScheduled);
  CHECK(world.instance.waits == Waits{Wait::kHold});
}

// Claims and reports ------------------------------------------------------------------------------

TEST_CASE("a claim is numbered by attempt, and known by its text") {
  World world;
  world.Start();
  const std::string text = world.Claim();
  CHECK(world.kinds() == Kinds{kClaimed});
  CHECK(world.events[0].attempt == 1);
  CHECK(world.events[0].client == "w");
  CHECK(world.token().state == TokenState::kClaimed);
  const ClaimRef claim = ClaimRef::Read(text);
  REQUIRE(rules::CheckClaim(world.instance, claim));
  CHECK(claim.given());
  CHECK(claim.visit == 1);
  CHECK(claim.id == world.last);
}

TEST_CASE("what no worker was given is refused by its own words, and no text is no claim") {
  World world;
  world.Start();
  CHECK_FALSE(ClaimRef().given());
  CHECK_FALSE(ClaimRef::Read("").given());
  struct Row {
    std::string text, shown;
  };
  for (const Row& row : {Row{"junk", "junk"}, Row{"1-2-3", "1-2-3"}, Row{"1-2-3-4-", "1-2-3-4-"},
                         Row{std::string(100, 'x'), std::string(64, 'x')}}) {
    const ClaimRef claim = ClaimRef::Read(row.text);
    CHECK(claim.given());
    CHECK_FALSE(claim.id);
    const auto answer = world.Report({.transition = "ok", .claim = claim});
    REQUIRE_FALSE(answer);
    CHECK(answer.error().reason == Reason::kStaleClaim);
    CHECK(answer.error().message ==
          "the claim of instance 'i' is stale: '" + row.shown + "' is no claim that Ready gave");
  }
  // Only a report may come without a claim.
  const auto extended =
      world.Do([](Scene& scene) { return rules::Extend(scene, {}, kNoon, {.progress = 0}); });
  REQUIRE_FALSE(extended);
  CHECK(extended.error().message ==
        "the claim of instance 'i' is stale: '' is no claim that Ready gave");
}

TEST_CASE("what is no claim of this instance is stale") {
  World world;
  world.Start();
  const std::string good = world.Claim();
  Instance other = world.instance;
  other.id = "j";
  Instance elsewhere = world.instance;
  elsewhere.ns = "ns2";
  for (const std::string& text :
       {std::string("x"), std::string("1-1-1"), std::string("---"), good + "0", good + "-1",
        good.substr(1), " " + good, std::string(10'000, '1'), std::string("\0", 1),
        std::string("-1-1-1-1"), std::string("ffffffffffffffffff-1-1-1"),
        rules::ClaimText(other, 1, world.last), rules::ClaimText(elsewhere, 1, world.last)}) {
    CAPTURE(text.substr(0, 40));
    CHECK(world.RefuseReport({.transition = "ok", .claim = text}) == "STALE_CLAIM");
  }
  CHECK(world.Report({.transition = "ok", .claim = good}));
}

TEST_CASE("a report moves the instance along its edge, to a new visit") {
  World world;
  world.Start();
  const std::string claim = world.Claim();
  auto answer = world.Report(
      {.transition = "ok", .params = R"({"x":1})", .claim = claim, .output = R"({"y":2})"});
  REQUIRE(answer);
  CHECK(answer->prev_node == "a");
  CHECK(answer->nodes == std::vector<std::string>{"b"});
  CHECK(answer->visit == 2);
  CHECK(answer->state == InstanceState::kRunning);
  CHECK_FALSE(answer->repeated);
  CHECK(world.kinds() == Kinds{kTransitioned});
  const Event& event = world.events[0];
  CHECK(event.prev_node == "a");
  CHECK(event.node == "b");
  CHECK(event.visit == 2);
  CHECK(event.left_visit == 1);
  CHECK(event.attempt == 1);
  CHECK(event.client == "w");
  CHECK(event.output == R"({"y":2})");
  CHECK(world.token().params == R"({"x":1})");
  CHECK(world.token().claims.empty());
  CHECK(world.token().attempt == 0);
}

TEST_CASE("a transition to the same node is a new visit") {
  World world;
  world.Start();
  const std::string claim = world.Claim();
  REQUIRE(world.Report({.transition = "again", .claim = claim}));
  CHECK(world.node() == "a");
  CHECK(world.token().visit == 2);
  CHECK(world.RefuseReport({.transition = "ok", .claim = claim}) == "STALE_CLAIM");
}

TEST_CASE("final nodes decide the result") {
  World world(R"(
  a: {start: true, transitions: {ok: good, warn: odd, bad: failed}}
  good: {final: true}
  odd: {final: true, result: warning}
  failed: {final: true, result: error}
)");
  world.Start();
  std::string transition;
  InstanceResult result{};
  SUBCASE("success") { transition = "ok"; result = InstanceResult::kSuccess; }
  SUBCASE("warning") { transition = "warn"; result = InstanceResult::kWarning; }
  SUBCASE("error") { transition = "bad"; result = InstanceResult::kError; }
  const std::string claim = world.Claim();
  world.now += 5s;
  auto answer = world.Report({.transition = transition, .claim = claim});
  REQUIRE(answer);
  CHECK(answer->state == InstanceState::kStopped);
  CHECK(answer->result == result);
  CHECK(world.kinds() == Kinds{kTransitioned, kFinished});
  CHECK(world.instance.end_time == kNoon + 5s);
  REQUIRE(world.instance.tokens.size() == 1);
  CHECK(world.token().state == TokenState::kDone);
}

TEST_CASE("an error that was reported stays until a success overcomes it") {
  World world;
  world.Start();
  REQUIRE(world.Report({.transition = "again", .error = "disk full"}));
  CHECK(world.instance.error == "disk full");
  CHECK(world.events[0].note == "disk full");
  SUBCASE("success") {
    REQUIRE(world.Report({.transition = "ok"}));
    REQUIRE(world.Report({.transition = "ok"}));
    CHECK(world.instance.error.empty());
  }
  SUBCASE("failure") {
    REQUIRE(world.Report({.transition = "bad"}));
    CHECK(world.instance.error == "disk full");
  }
}

TEST_CASE("refused reports") {
  World world;
  std::string claim;
  SUBCASE("while it runs") {
    world.Start();
    claim = world.Claim();
    CHECK(world.RefuseReport({.transition = "none", .claim = claim}) == "ILLEGAL_TRANSITION");
    CHECK(world.RefuseReport({.transition = "", .claim = claim}) == "ILLEGAL_TRANSITION");
    CHECK(world.RefuseReport({.transition = "none", .claim = claim, .error = "e"}) ==
          "ILLEGAL_TRANSITION");
    CHECK(world.RefuseReport({.transition = "none"}) == "ILLEGAL_TRANSITION");
    CHECK(world.RefuseReport({.transition = "ok", .node = "b"}) == "ILLEGAL_TRANSITION");
    CHECK(world.RefuseReport({.transition = "ok", .node = "none"}) == "NO_SUCH_NODE");
    for (const char* reserved : {"dfsmr.timeout", "dfsmr.upgraded", "dfsmr.exhausted", "dfsmr.x"}) {
      CHECK(world.RefuseReport({.transition = reserved}) == "ILLEGAL_TRANSITION");
      CHECK(world.RefuseReport({.transition = reserved, .claim = claim}) == "ILLEGAL_TRANSITION");
    }
  }
  SUBCASE("before it has begun") {
    world.instance.waits.Add(Wait::kHold);
    world.Start();
    CHECK(world.RefuseReport({.transition = "ok"}) == "ILLEGAL_TRANSITION");
    CHECK(world.RefuseReport({.transition = "ok", .node = "a"}) == "ILLEGAL_TRANSITION");
  }
  SUBCASE("after it has stopped") {
    world.Start();
    claim = world.Claim();
    const std::string second = (world.token().state = TokenState::kReady, world.Claim());
    REQUIRE(world.Report({.transition = "bad", .claim = claim}));
    CHECK(world.RefuseReport({.transition = "ok"}) == "INSTANCE_STOPPED");
    CHECK(world.RefuseReport({.transition = "ok", .claim = second}) == "STALE_CLAIM");
    CHECK(world.RefuseReport({.transition = "ok", .claim = claim}) == "STALE_CLAIM");
  }
}

TEST_CASE("reserved transitions that a machine lists may not be reported") {
  World world(R"(
  a: {start: true, max_visits: 2, transitions: {ok: a, dfsmr.timeout: done, dfsmr.exhausted: done}}
  done: {final: true}
)");
  world.Start();
  const std::string claim = world.Claim();
  for (const char* reserved : {"dfsmr.timeout", "dfsmr.exhausted"}) {
    CHECK(world.RefuseReport({.transition = reserved}) == "ILLEGAL_TRANSITION");
    CHECK(world.RefuseReport({.transition = reserved, .claim = claim}) == "ILLEGAL_TRANSITION");
  }
}

TEST_CASE("a report from outside moves ready and claimed nodes, and makes claims stale") {
  World world;
  world.Start();
  SUBCASE("ready") { CHECK(world.Report({.transition = "ok", .client = "op"})); }
  SUBCASE("ready, with its node") { CHECK(world.Report({.transition = "ok", .node = "a"})); }
  SUBCASE("claimed") {
    const std::string claim = world.Claim();
    REQUIRE(world.Report({.transition = "ok"}));
    CHECK(world.events[0].attempt == 0);
    CHECK(world.RefuseReport({.transition = "ok", .claim = claim}) == "STALE_CLAIM");
  }
  CHECK(world.events.size() <= 1);
  CHECK(world.node() == "b");
  CHECK_FALSE(world.instance.last_answer);
}

TEST_CASE("manual nodes wait for a report from outside, delay nodes can be ended by one") {
  World world(R"(
  a: {start: true, manual: true, transitions: {ok: b}}
  b: {delay: 1h, transitions: {ok: done}}
  done: {final: true}
)");
  world.Start();
  CHECK(world.token().state == TokenState::kWaiting);
  CHECK(world.token().available_at == kNever);
  REQUIRE(world.Report({.transition = "ok"}));
  CHECK(world.token().available_at == kNoon + 1h);
  REQUIRE(world.Report({.transition = "ok"}));
  CHECK(world.instance.Stopped());
}

TEST_CASE("the same claim reporting the same transition again gets the same answer") {
  World world;
  world.Start();
  const std::string claim = world.Claim();
  auto first = world.Report({.transition = "ok", .claim = claim});
  REQUIRE(first);
  const Instance before = world.instance;
  auto again = world.Report({.transition = "ok", .params = R"({"other":1})", .claim = claim,
                             .node = "none", .error = "e"});
  REQUIRE(again);
  CHECK(again->repeated);
  again->repeated = false;
  CHECK(*again == *first);
  CHECK(world.events.empty());
  CHECK(world.instance == before);
  CHECK(world.RefuseReport({.transition = "again", .claim = claim}) == "STALE_CLAIM");
}

TEST_CASE("of two claims of a visit the first to report wins") {
  World world;
  world.Start();
  const std::string slow = world.Claim();
  world.TimeOut();
  const std::string quick = world.Claim();
  std::string winner, loser;
  SUBCASE("the retry") { winner = quick; loser = slow; }
  SUBCASE("the late one") { winner = slow; loser = quick; }
  REQUIRE(world.Report({.transition = "ok", .claim = winner}));
  CHECK(world.RefuseReport({.transition = "ok", .claim = loser}) == "STALE_CLAIM");
  CHECK(world.Report({.transition = "ok", .claim = winner})->repeated);
}

// Forks, as compiled plans have them --------------------------------------------------------------

TEST_CASE("the claims that another report overtakes have lasted at least that long, no more") {
  World world;
  world.Start();
  const std::string first = world.Claim();
  world.TimeOut();  // after 10 s, which it was a sample of then
  const std::string second = world.Claim(1h, "w2");
  world.now += 5s;
  SUBCASE("of a claim that lives again, what it was a sample of before is replaced") {
    REQUIRE(world.Do([&](Scene& scene) {
      return rules::Extend(scene, first, world.now + 1h, {.progress = 0});
    }));
    REQUIRE(world.Report({.transition = "ok", .claim = second}));
    REQUIRE(world.events[0].samples.size() == 2);
    CHECK(world.events[0].samples[0] == Event::Sample{"a", 5s, false, 0s, true});
    CHECK(world.events[0].samples[1] == Event::Sample{"a", 15s, true, 10s, false});
  }
  SUBCASE("a late report replaces what its deadline had made a sample") {
    REQUIRE(world.Report({.transition = "ok", .claim = first}));
    REQUIRE(world.events[0].samples.size() == 2);
    CHECK(world.events[0].samples[0] == Event::Sample{"a", 15s, false, 10s, false});
    CHECK(world.events[0].samples[1] == Event::Sample{"a", 5s, true, 0s, true});
  }
  SUBCASE("a claim that is over, and stays a sample, is none again") {
    REQUIRE(world.Report({.transition = "ok", .claim = second}));
    REQUIRE(world.events[0].samples.size() == 1);
    CHECK(world.events[0].samples[0] == Event::Sample{"a", 5s, false, 0s, true});
  }
  SUBCASE("a report from outside overtakes all of them") {
    REQUIRE(world.Report({.transition = "ok"}));
    REQUIRE(world.events[0].samples.size() == 1);
    CHECK(world.events[0].samples[0] == Event::Sample{"a", 5s, true, 0s, true});
  }
  CHECK(world.node() == "b");
}

TEST_CASE("an edge with two targets leaves two tokens, and asks which one is meant") {
  World world;
  Machine& machine = world.machine;
  machine.nodes[machine.Find("a")].transitions[0].targets = {machine.Find("b"), machine.Find("b")};
  SUBCASE("told apart by node") {
    machine.nodes[machine.Find("a")].transitions[0].targets = {machine.Find("b"),
                                                              machine.Find("a")};
    world.Start();
    auto answer = world.Report({.transition = "ok"});
    REQUIRE(answer);
    CHECK(answer->nodes == std::vector<std::string>{"b", "a"});
    REQUIRE(world.instance.tokens.size() == 2);
    CHECK(world.instance.tokens[0].visit == 2);
    CHECK(world.instance.tokens[1].visit == 3);
    CHECK(world.RefuseReport({.transition = "again"}) == "AMBIGUOUS_NODE");
    auto moved = world.Report({.transition = "again", .node = "a"});
    REQUIRE(moved);
    CHECK(world.instance.tokens[1].visit == 4);
    CHECK(world.instance.tokens[0].visit == 2);
  }
  SUBCASE("cut short when the first target ends it all") {
    machine.nodes[machine.Find("a")].transitions[0].targets = {machine.Find("done"),
                                                              machine.Find("b")};
    world.Start();
    REQUIRE(world.Report({.transition = "ok"}));
    CHECK(world.instance.Stopped());
    CHECK(world.instance.tokens.size() == 1);
  }
}

// Claims that a crash lost ------------------------------------------------------------------------

TEST_CASE("a claim that a crash lost may report on an at-least-once node only") {
  std::string timeout;
  bool accepted = false;
  SUBCASE("at least once") { timeout = "50.0"; accepted = true; }
  SUBCASE("at most once") { timeout = "0.0"; }
  World world("  a: {start: true, timeout: " + timeout +
              ", transitions: {ok: done}}\n  done: {final: true}\n");
  world.Start();
  const Instance saved = world.instance;
  const std::string claim = world.Claim();
  world.instance = saved;
  world.Crash();
  if (accepted) {
    CHECK(world.Report({.transition = "ok", .claim = claim}));
  } else {
    CHECK(world.RefuseReport({.transition = "ok", .claim = claim}) == "STALE_CLAIM");
    CHECK(world.Refuse([&](Scene& scene) {
      return rules::Extend(scene, claim, kNoon + 1h, {.progress = 0});
    }) == "STALE_CLAIM");
    CHECK(world.Refuse([&](Scene& scene) { return rules::Relinquish(scene, claim, {}); }) ==
          "STALE_CLAIM");
  }
}

TEST_CASE("a claim that was handed out after the backup which the store was made of is stale") {
  World world;
  world.Start();
  const std::string kept = world.Claim();
  const Instance saved = world.instance;
  REQUIRE(world.Do([&](Scene& scene) { return rules::Relinquish(scene, kept, {}); }));
  const std::string later = world.Claim();
  world.instance = saved;
  world.epoch += uint64_t{5} << kEpochLifeShift;
  CHECK(world.RefuseReport({.transition = "ok", .claim = later}) == "STALE_CLAIM");
  CHECK(world.Report({.transition = "ok", .claim = kept}));
}

TEST_CASE("a claim of this epoch that is not listed was taken back, so it is stale") {
  World world;
  world.Start();
  const std::string claim = world.Claim();
  world.Do([&](Scene& scene) { rules::Unclaim(scene, 1, world.last); });
  CHECK(world.events.empty());
  CHECK(world.token().state == TokenState::kReady);
  CHECK(world.token().attempt == 0);
  CHECK(world.RefuseReport({.transition = "ok", .claim = claim}) == "STALE_CLAIM");
}

TEST_CASE("a lost claim that is extended lives again, one that is relinquished is void") {
  World world;
  world.Start();
  const Instance saved = world.instance;
  const std::string claim = world.Claim();
  world.instance = saved;
  world.Crash();
  SUBCASE("extended") {
    REQUIRE(world.Do(
        [&](Scene& scene) { return rules::Extend(scene, claim, kNoon + 1h, {.progress = 0.5}); }));
    CHECK(world.token().state == TokenState::kClaimed);
    CHECK(world.token().attempt == 1);
    CHECK(world.token().claims[0].deadline == kNoon + 1h);
    CHECK(world.Report({.transition = "ok", .claim = claim}));
  }
  SUBCASE("relinquished") {
    REQUIRE(world.Do([&](Scene& scene) { return rules::Relinquish(scene, claim, {}); }));
    CHECK(world.token().state == TokenState::kReady);
    CHECK(world.RefuseReport({.transition = "ok", .claim = claim}) == "STALE_CLAIM");
    world.Crash();
    CHECK(world.RefuseReport({.transition = "ok", .claim = claim}) == "STALE_CLAIM");
  }
}

TEST_CASE("of many claims of a visit the oldest that are over are forgotten, and stay void") {
  World world;
  world.Start();
  const std::string first = world.Claim();
  REQUIRE(world.Do([&](Scene& scene) { return rules::Relinquish(scene, first, {}); }));
  for (size_t i = 0; i < limits::kClaimsPerVisit + 20; ++i) {
    world.Claim();
    world.TimeOut();
  }
  CHECK(world.token().claims.size() == limits::kClaimsPerVisit);
  CHECK(world.token().attempt == limits::kClaimsPerVisit + 21);
  CHECK(world.RefuseReport({.transition = "ok", .claim = first}) == "STALE_CLAIM");
  world.Crash();
  CHECK(world.RefuseReport({.transition = "ok", .claim = first}) == "STALE_CLAIM");
}

// Giving back -------------------------------------------------------------------------------------

TEST_CASE("a relinquished claim is void, and the node ready in its old place") {
  World world;
  world.Start();
  world.now += 1s;
  const std::string claim = world.Claim();
  auto node = world.Do([&](Scene& scene) { return rules::Relinquish(scene, claim, {}); });
  REQUIRE(node);
  CHECK(*node == "a");
  CHECK(world.kinds() == Kinds{kRelinquished});
  CHECK(world.token().state == TokenState::kReady);
  CHECK(world.token().available_at == kNoon);
  CHECK(world.token().visit == 1);
  CHECK(world.Refuse([&](Scene& scene) { return rules::Relinquish(scene, claim, {}); }) ==
        "STALE_CLAIM");
  CHECK(world.RefuseReport({.transition = "ok", .claim = claim}) == "STALE_CLAIM");
  CHECK(world.Refuse([&](Scene& scene) {
    return rules::Extend(scene, claim, kNoon + 1h, {.progress = 0});
  }) == "STALE_CLAIM");
  world.Claim();
  CHECK(world.token().attempt == 2);
}

TEST_CASE("relinquishing without a claim gives back all of them, timed-out ones too") {
  World world;
  world.Start();
  const std::string slow = world.Claim();
  world.TimeOut();
  const std::string quick = world.Claim();
  REQUIRE(world.Do([](Scene& scene) { return rules::Relinquish(scene, "", {.client = "op"}); }));
  CHECK(world.kinds() == Kinds{kRelinquished, kRelinquished});
  CHECK(world.events[0].client == "op");
  for (const std::string& claim : {slow, quick}) {
    CHECK(world.RefuseReport({.transition = "ok", .claim = claim}) == "STALE_CLAIM");
  }
  CHECK(world.Do([](Scene& scene) { return rules::Relinquish(scene, "", {.client = "op"}); }));
  CHECK(world.events.empty());
  REQUIRE(world.Report({.transition = "bad"}));
  CHECK(world.Refuse([](Scene& scene) { return rules::Relinquish(scene, "", {.client = "op"}); }) ==
        "INSTANCE_STOPPED");
}

TEST_CASE("giving back one of two claims leaves the other") {
  World world;
  world.Start();
  const std::string slow = world.Claim();
  world.TimeOut();
  const std::string quick = world.Claim();
  REQUIRE(world.Do([&](Scene& scene) { return rules::Relinquish(scene, slow, {}); }));
  CHECK(world.token().state == TokenState::kClaimed);
  CHECK(world.Report({.transition = "ok", .claim = quick}));
}

// Extending ---------------------------------------------------------------------------------------

TEST_CASE("who extends without saying how far it is, is as far as it said last") {
  World world;
  world.Start();
  const std::string claim = world.Claim(10s);
  for (double progress : {0.5, 0.0}) {
    REQUIRE(world.Do(
        [&](Scene& scene) { return rules::Extend(scene, claim, kNoon, {.progress = progress}); }));
    CHECK(world.token().claims[0].progress == 0.5);
  }
}

TEST_CASE("extending never shortens, and tells of a cancel") {
  World world;
  world.Start();
  const std::string claim = world.Claim(10s);
  auto extend = [&](Timestamp deadline) {
    return world.Do(
        [&](Scene& scene) { return rules::Extend(scene, claim, deadline, {.progress = 0.25}); });
  };
  CHECK(extend(kNoon + 5s)->deadline == kNoon + 10s);
  CHECK(extend(kNoon + 20s)->deadline == kNoon + 20s);
  CHECK(world.events.empty());
  CHECK(world.token().claims[0].progress == 0.25);
  CHECK_FALSE(extend(kNoon)->cancel_requested);
  REQUIRE(world.Do([](Scene& scene) { return rules::Cancel(scene, CancelMode::kCancel); }));
  CHECK(extend(kNoon)->cancel_requested);
  world.now = kNoon + 15s;  // the timer of the old deadline
  world.Do([&](Scene& scene) { rules::TimeOut(scene, 1, world.last); });
  CHECK(world.events.empty());
}

TEST_CASE("a claim without deadline keeps none") {
  World world("  a: {start: true, timeout: 0.0, transitions: {ok: done}}\n  done: {final: true}\n");
  world.Start();
  const std::string claim = world.Claim(Duration::max());
  auto extended = world.Do(
      [&](Scene& scene) { return rules::Extend(scene, claim, kNoon + 1s, {.progress = 0}); });
  REQUIRE(extended);
  CHECK(extended->deadline == kNever);
}

TEST_CASE("extending brings a timed-out claim of an open visit back to life") {
  World world;
  world.Start();
  const std::string claim = world.Claim();
  world.TimeOut();
  CHECK(world.token().state == TokenState::kReady);
  REQUIRE(world.Do(
      [&](Scene& scene) { return rules::Extend(scene, claim, world.now + 5s, {.progress = 0}); }));
  CHECK(world.token().state == TokenState::kClaimed);
  CHECK(world.token().claims[0].Live());
  CHECK(world.token().claims[0].deadline == world.now + 5s);
  world.TimeOut();
  CHECK(world.kinds() == Kinds{kTimedOut});
  CHECK(world.events[0].samples[0].replaces == 10s);
  CHECK(world.events[0].samples[0].took == 15s);
}

// Time-outs ---------------------------------------------------------------------------------------

TEST_CASE("a deadline makes the node ready again, in the same visit") {
  World world;
  world.Start();
  const std::string claim = world.Claim();
  world.TimeOut();
  CHECK(world.kinds() == Kinds{kTimedOut});
  const Event& event = world.events[0];
  CHECK(event.prev_node == "a");
  CHECK(event.node == "dfsmr.timeout");
  CHECK(event.visit == 1);
  CHECK(event.attempt == 1);
  REQUIRE(event.samples.size() == 1);
  CHECK(event.samples[0].censored);
  CHECK(event.samples[0].took == 10s);
  CHECK(world.token().state == TokenState::kReady);
  CHECK(world.token().visit == 1);
  CHECK(world.token().available_at == kNoon);
  world.Do([&](Scene& scene) { rules::TimeOut(scene, 1, world.last); });
  CHECK(world.events.empty());
  world.now += 5s;
  REQUIRE(world.Report({.transition = "ok", .claim = claim}));
  CHECK(world.events[0].samples[0].took == 15s);
  CHECK(world.events[0].samples[0].replaces == 10s);
}

TEST_CASE("a deadline that has not passed does nothing") {
  World world;
  world.Start();
  world.Claim();
  world.now += 9s;
  const Instance before = world.instance;
  world.Do([&](Scene& scene) { rules::TimeOut(scene, 1, world.last); });
  world.Do([&](Scene& scene) { rules::TimeOut(scene, 2, world.last); });
  world.Do([&](Scene& scene) { rules::TimeOut(scene, 1, {7, 7}); });
  CHECK(world.events.empty());
  CHECK(world.instance == before);
}

TEST_CASE("a node that lists dfsmr.timeout takes it, and the late report is stale") {
  World world(R"(
  a: {start: true, transitions: {ok: done, dfsmr.timeout: late}}
  late: {transitions: {ok: done}}
  done: {final: true}
)");
  world.Start();
  const std::string claim = world.Claim();
  world.TimeOut();
  CHECK(world.kinds() == Kinds{kTimedOut, kTransitioned});
  CHECK(world.events[1].prev_node == "dfsmr.timeout");
  CHECK(world.events[1].node == "late");
  CHECK(world.events[1].visit == 2);
  CHECK(world.events[1].left_visit == 0);
  CHECK(world.node() == "late");
  CHECK(world.RefuseReport({.transition = "ok", .claim = claim}) == "STALE_CLAIM");
}

TEST_CASE("of two live claims one may time out while the other goes on") {
  World world;
  world.Start();
  const std::string first = world.Claim();
  world.TimeOut();
  const ClaimId late = world.last;
  REQUIRE(world.Do(
      [&](Scene& scene) { return rules::Extend(scene, first, world.now + 5s, {.progress = 0}); }));
  world.token().state = TokenState::kReady;
  world.Claim(1h);
  world.now += 5s;
  world.Do([&](Scene& scene) { rules::TimeOut(scene, 1, late); });
  CHECK(world.kinds() == Kinds{kTimedOut});
  CHECK(world.token().state == TokenState::kClaimed);
}

// Delays ------------------------------------------------------------------------------------------

TEST_CASE("a delay grows with the entries into its node, up to its max") {
  World world(R"(
  a: {start: true, delay: {initial: 1s, factor: 3, max: 20s}, transitions: {ok: b}}
  b: {transitions: {ok: a, done: done}}
  done: {final: true}
)");
  world.Start();
  for (const Duration expected : std::vector<Duration>{1s, 3s, 9s, 20s, 20s}) {
    CHECK(world.token().state == TokenState::kWaiting);
    CHECK(world.token().available_at - world.now == expected);
    world.now = world.token().available_at - 1us;
    world.Do([&](Scene& scene) { rules::EndWait(scene, world.token().visit); });
    CHECK(world.events.empty());
    world.now += 1us;
    world.Do([&](Scene& scene) { rules::EndWait(scene, world.token().visit); });
    CHECK(world.kinds() == Kinds{kTransitioned});
    CHECK(world.events[0].transition == "ok");
    REQUIRE(world.Report({.transition = "ok"}));
  }
}

TEST_CASE("a delay without max grows to never, not to yesterday, and nothing stays nothing") {
  for (const char* initial : {"1h", "0s"}) {
    CAPTURE(initial);
    World world("  a: {start: true, delay: {initial: " + std::string(initial) +
                ", factor: 10}, transitions: {ok: b}}\n"
                "  b: {transitions: {ok: a, done: done}}\n  done: {final: true}\n");
    world.Start();
    for (int i = 0; i < 1'200; ++i) {
      REQUIRE(world.Report({.transition = "ok"}));
      REQUIRE(world.Report({.transition = "ok"}));
    }
    if (initial == std::string("0s")) {
      CHECK(world.token().available_at == world.now);
    } else {
      CHECK(world.token().available_at > world.now + std::chrono::hours(24 * 365 * 100));
    }
  }
}

TEST_CASE("jitter spreads a delay by its share, either way") {
  World world(R"(
  a: {start: true, delay: {initial: 10s, jitter: 0.2}, transitions: {ok: done}}
  done: {final: true}
)");
  Duration least = 1h, most = 0s;
  for (uint64_t seed = 0; seed < 2'000; ++seed) {
    world.instance.tokens.Clear();
    world.instance.entries.clear();
    world.instance.last_visit = 0;
    world.random = seed;
    world.Start();
    least = std::min(least, Duration(world.token().available_at - world.now));
    most = std::max(most, Duration(world.token().available_at - world.now));
  }
  CHECK(least >= 8s);
  CHECK(least < 8'100ms);
  CHECK(most <= 12s);
  CHECK(most > 11'900ms);
}

TEST_CASE("the end of a delay that was ended from outside does nothing") {
  World world(R"(
  a: {start: true, delay: 10s, transitions: {ok: a2}}
  a2: {delay: 10s, transitions: {ok: done}}
  done: {final: true}
)");
  world.Start();
  REQUIRE(world.Report({.transition = "ok"}));
  world.now += 1h;
  world.Do([](Scene& scene) { rules::EndWait(scene, 1); });
  CHECK(world.events.empty());
  CHECK(world.node() == "a2");
}

// Limited visits ----------------------------------------------------------------------------------

TEST_CASE("entry n + 1 into a node with max_visits n is diverted and does not count") {
  World world(R"(
  a: {start: true, max_visits: 2, transitions: {ok: a, dfsmr.exhausted: out}}
  out: {transitions: {ok: a, done: done}}
  done: {final: true}
)");
  world.Start();
  REQUIRE(world.Report({.transition = "ok", .params = R"({"p":1})"}));
  CHECK(world.node() == "a");
  for (int i = 0; i < 3; ++i) {
    auto answer = world.Report({.transition = "ok", .params = R"({"p":2})"});
    REQUIRE(answer);
    CHECK(answer->nodes == std::vector<std::string>{"out"});
    CHECK(world.kinds() == Kinds{kTransitioned, kTransitioned});
    CHECK(world.events[0].node == "a");
    CHECK(world.events[1].prev_node == "a");
    CHECK(world.events[1].transition == "dfsmr.exhausted");
    CHECK(world.events[1].node == "out");
    CHECK(world.events[0].visit == world.events[1].visit);
    CHECK(world.token().params == R"({"p":2})");
    CHECK(world.instance.Entries("a") == 2);
  }
}

TEST_CASE("diversions may follow one another") {
  World world(R"(
  a: {start: true, max_visits: 1, transitions: {ok: a, dfsmr.exhausted: b}}
  b: {max_visits: 1, transitions: {ok: a, dfsmr.exhausted: done}}
  done: {final: true}
)");
  world.Start();
  REQUIRE(world.Report({.transition = "ok"}));
  CHECK(world.node() == "b");
  auto answer = world.Report({.transition = "ok"});
  REQUIRE(answer);
  CHECK(world.kinds() == Kinds{kTransitioned, kTransitioned, kTransitioned, kFinished});
  CHECK(answer->nodes == std::vector<std::string>{"done"});
}

TEST_CASE("where exhausted nodes lead in a circle the instance stops with an error") {
  World world(R"(
  a: {start: true, max_visits: 1, transitions: {ok: a, dfsmr.exhausted: b}}
  b: {max_visits: 1, transitions: {ok: a, dfsmr.exhausted: done}}
  done: {final: true}
)");
  // No document may say so; a machine made by hand can.
  for (Edge& edge : world.machine.nodes[1].transitions) edge.targets = {0};
  world.Start();
  REQUIRE(world.Report({.transition = "ok"}));
  SUBCASE("by itself") {
    auto answer = world.Report({.transition = "ok"});
    REQUIRE(answer);
    CHECK(answer->result == InstanceResult::kError);
    CHECK(world.events.size() < 10);
  }
  SUBCASE("unless it was cancelled") {
    const std::string claim = world.Claim();
    REQUIRE(world.Do([](Scene& scene) { return rules::Cancel(scene, CancelMode::kCancel); }));
    auto answer = world.Report({.transition = "ok", .claim = claim});
    REQUIRE(answer);
    CHECK(answer->result == InstanceResult::kCancelled);
  }
}

TEST_CASE("a diverted timeout is told as one") {
  World world(R"(
  a: {start: true, max_visits: 1, transitions: {ok: done, dfsmr.timeout: a, dfsmr.exhausted: out}}
  out: {transitions: {ok: done}}
  done: {final: true}
)");
  world.Start();
  world.Claim();
  world.TimeOut();
  CHECK(world.kinds() == Kinds{kTimedOut, kTransitioned, kTransitioned});
  CHECK(world.node() == "out");
}

// Pause, resume, skip -----------------------------------------------------------------------------

TEST_CASE("claimed work of a paused instance may report, and it stays paused") {
  World world;
  world.Start();
  const std::string claim = world.Claim();
  REQUIRE(world.Do([](Scene& scene) { return rules::Pause(scene); }));
  CHECK(world.kinds() == Kinds{kPaused});
  REQUIRE(world.Report({.transition = "ok", .claim = claim}));
  CHECK(world.instance.state == InstanceState::kPaused);
  CHECK(world.node() == "b");
  REQUIRE(world.Report({.transition = "ok"}));
  CHECK(world.instance.state == InstanceState::kStopped);
}

TEST_CASE("deadlines and delays of a paused instance pass") {
  World world(R"(
  a: {start: true, transitions: {ok: b}}
  b: {delay: 5s, transitions: {ok: c}}
  c: {transitions: {ok: done}}
  done: {final: true}
)");
  world.Start();
  world.Claim();
  REQUIRE(world.Do([](Scene& scene) { return rules::Pause(scene); }));
  world.TimeOut();
  CHECK(world.kinds() == Kinds{kTimedOut});
  REQUIRE(world.Report({.transition = "ok"}));
  world.now += 5s;
  world.Do([&](Scene& scene) { rules::EndWait(scene, world.token().visit); });
  CHECK(world.node() == "c");
  CHECK(world.instance.state == InstanceState::kPaused);
}

TEST_CASE("pausing the paused and resuming the running changes nothing and is fine") {
  World world;
  world.Start();
  const Instance running = world.instance;
  CHECK(world.Do([](Scene& scene) { return rules::Resume(scene, "", false); }));
  CHECK(world.events.empty());
  CHECK(world.instance == running);
  REQUIRE(world.Do([](Scene& scene) { return rules::Pause(scene); }));
  const Instance paused = world.instance;
  CHECK(world.Do([](Scene& scene) { return rules::Pause(scene); }));
  CHECK(world.events.empty());
  CHECK(world.instance == paused);
  REQUIRE(world.Do([](Scene& scene) { return rules::Resume(scene, "", false); }));
  CHECK(world.kinds() == Kinds{kResumed});
  CHECK(world.instance == running);
}

TEST_CASE("a paused instance that has not begun does not begin before it is resumed") {
  World world;
  world.instance.start_at = kNoon + 10s;
  world.Start();
  REQUIRE(world.Do([](Scene& scene) { return rules::Pause(scene); }));
  world.now += 20s;
  world.Do([](Scene& scene) { rules::StartDue(scene); });
  CHECK(world.instance.state == InstanceState::kPaused);
  REQUIRE(world.Do([](Scene& scene) { return rules::Resume(scene, "", false); }));
  CHECK(world.kinds() == Kinds{kResumed, kStarted});
}

TEST_CASE("resuming with force runs claimed work again") {
  World world("  a: {start: true, timeout: 0.0, transitions: {ok: done}}\n  done: {final: true}\n");
  world.Start();
  const std::string claim = world.Claim(Duration::max());
  CHECK(world.Refuse([](Scene& scene) { return rules::Resume(scene, "a", false); }) == "NOT_HELD");
  CHECK(world.Do([](Scene& scene) { return rules::Resume(scene, "", false); }));
  CHECK(world.token().state == TokenState::kClaimed);
  std::string node;
  SUBCASE("all of it") {}
  SUBCASE("of one node") { node = "a"; }
  REQUIRE(world.Do([&](Scene& scene) { return rules::Resume(scene, node, true); }));
  CHECK(world.kinds() == Kinds{kResumed, kRelinquished});
  CHECK(world.token().state == TokenState::kReady);
  CHECK(world.RefuseReport({.transition = "ok", .claim = claim}) == "STALE_CLAIM");
}

TEST_CASE("what is not there or has stopped can be neither paused, resumed nor skipped") {
  World world;
  world.Start();
  CHECK(world.Refuse([](Scene& scene) { return rules::Resume(scene, "none", true); }) ==
        "NO_SUCH_NODE");
  CHECK(world.Refuse([](Scene& scene) { return rules::Resume(scene, "b", true); }) == "NOT_HELD");
  CHECK(world.Refuse([](Scene& scene) { return rules::Skip(scene, "none"); }) == "NO_SUCH_NODE");
  CHECK(world.Refuse([](Scene& scene) { return rules::Skip(scene, "a"); }) == "NOT_HELD");
  CHECK(world.Refuse([](Scene& scene) { return rules::Skip(scene, ""); }) == "NOT_HELD");
  REQUIRE(world.Report({.transition = "bad"}));
  const std::vector<std::function<Result<Ok>(Scene&)>> rules = {
      [](Scene& s) { return rules::Pause(s); },
      [](Scene& s) { return rules::Resume(s, "", false); },
      [](Scene& s) { return rules::Resume(s, "a", true); },
      [](Scene& s) { return rules::Skip(s, "a"); },
      [](Scene& s) { return rules::Cancel(s, CancelMode::kCancel); },
      [](Scene& s) { return rules::Cancel(s, CancelMode::kKill); }};
  for (const auto& rule : rules) CHECK(world.Refuse(rule) == "INSTANCE_STOPPED");
}

// Cancel ------------------------------------------------------------------------------------------

TEST_CASE("a cancelled instance tells why it was cancelled, not what went wrong before") {
  World world;
  world.Start();
  REQUIRE(world.Report({.transition = "again", .error = "disk full"}));
  std::string why;
  SUBCASE("with a reason") { why = "not wanted"; }
  SUBCASE("without one") {}
  REQUIRE(world.Do([&](Scene& scene) {
    scene.reason = why;
    return rules::Cancel(scene, CancelMode::kCancel);
  }));
  REQUIRE(world.kinds() == Kinds{kCancelled, kFinished});
  CHECK(world.events[0].note == why);
  CHECK(world.events[1].note == (why.empty() ? "CANCELLED" : "CANCELLED: " + why));
  CHECK(world.instance.error == why);
}

TEST_CASE("an instance that is resumed after an upgrade tells no more of what had failed") {
  World world;
  world.Start();
  REQUIRE(world.Report({.transition = "again", .error = "disk full"}));
  REQUIRE(world.Do([](Scene& scene) { return rules::Pause(scene); }));
  world.Do([&](Scene& scene) { rules::Upgrade(scene, world.machine, 2); });
  CHECK(world.instance.state == InstanceState::kPaused);
  CHECK(world.instance.error == "disk full");  // an operator may look still
  REQUIRE(world.Do([](Scene& scene) { return rules::Resume(scene, "", false); }));
  CHECK(world.instance.state == InstanceState::kRunning);
  CHECK(world.instance.error.empty());
}

TEST_CASE("what was reported while a cancel waits is told with its end") {
  World world;
  world.Start();
  const std::string claim = world.Claim();
  REQUIRE(world.Do([](Scene& scene) { return rules::Cancel(scene, CancelMode::kCancel); }));
  REQUIRE(world.Report({.transition = "again", .claim = claim, .error = "cut off"}));
  CHECK(world.instance.state == InstanceState::kStopped);
  CHECK(world.instance.error == "cut off");
}

TEST_CASE("a cancel stops at once what nobody works on") {
  World world;
  SUBCASE("ready") { world.Start(); }
  SUBCASE("paused") {
    world.Start();
    REQUIRE(world.Do([](Scene& scene) { return rules::Pause(scene); }));
  }
  SUBCASE("scheduled") {
    world.instance.waits.Add(Wait::kHold);
    world.Start();
  }
  SUBCASE("timed out") {
    world.Start();
    world.Claim();
    world.TimeOut();
  }
  REQUIRE(world.Do([](Scene& scene) { return rules::Cancel(scene, CancelMode::kCancel); }));
  CHECK(world.kinds() == Kinds{kCancelled, kFinished});
  CHECK(world.events[0].node == "dfsmr.cancelled");
  CHECK(world.instance.result == InstanceResult::kCancelled);
  CHECK(world.instance.state == InstanceState::kStopped);
  REQUIRE(world.instance.tokens.size() == 1);
  CHECK(world.node() == "dfsmr.cancelled");
  CHECK(world.token().state == TokenState::kDone);
  CHECK(world.Do([](Scene& scene) { return rules::Cancel(scene, CancelMode::kForce); }));
  CHECK(world.events.empty());
}

TEST_CASE("a cancel waits for claimed work, whatever ends it") {
  World world;
  world.Start();
  const std::string claim = world.Claim();
  REQUIRE(world.Do([](Scene& scene) { return rules::Cancel(scene, CancelMode::kCancel); }));
  CHECK(world.events.empty());
  CHECK(world.instance.state == InstanceState::kRunning);
  SUBCASE("a report") {
    auto answer = world.Report({.transition = "ok", .claim = claim});
    REQUIRE(answer);
    CHECK(world.kinds() == Kinds{kTransitioned, kCancelled, kFinished});
    CHECK(answer->nodes == std::vector<std::string>{"b"});
    CHECK(answer->state == InstanceState::kStopped);
    CHECK(answer->result == InstanceResult::kCancelled);
  }
  SUBCASE("a report that would have ended in success") {
    auto answer = world.Report({.transition = "bad", .claim = claim});
    REQUIRE(answer);
    CHECK(world.kinds() == Kinds{kTransitioned, kCancelled, kFinished});
    CHECK(answer->result == InstanceResult::kCancelled);
  }
  SUBCASE("giving it back") {
    REQUIRE(world.Do([&](Scene& scene) { return rules::Relinquish(scene, claim, {}); }));
    CHECK(world.kinds() == Kinds{kRelinquished, kCancelled, kFinished});
  }
  SUBCASE("its deadline") {
    world.TimeOut();
    CHECK(world.kinds() == Kinds{kTimedOut, kCancelled, kFinished});
  }
  SUBCASE("force") {
    REQUIRE(world.Do([](Scene& scene) { return rules::Cancel(scene, CancelMode::kForce); }));
    CHECK(world.kinds() == Kinds{kCancelled, kFinished});
  }
  SUBCASE("kill") {
    REQUIRE(world.Do([](Scene& scene) { return rules::Cancel(scene, CancelMode::kKill); }));
    CHECK(world.instance.cancel == CancelMode::kKill);
  }
  CHECK(world.instance.result == InstanceResult::kCancelled);
  const Instance before = world.instance;
  auto again = world.Report({.transition = "again", .claim = claim});
  CHECK_FALSE(again);
  CHECK(world.instance == before);
}

TEST_CASE("no pause and no resume takes back a cancel that was acknowledged") {
  World world;
  world.Start();
  const std::string claim = world.Claim();
  bool force = false;
  SUBCASE("asked for while it runs") {
    REQUIRE(world.Do([](Scene& scene) { return rules::Cancel(scene, CancelMode::kCancel); }));
    REQUIRE(world.Do([](Scene& scene) { return rules::Pause(scene); }));
  }
  SUBCASE("asked for while it is paused") {
    REQUIRE(world.Do([](Scene& scene) { return rules::Pause(scene); }));
    REQUIRE(world.Do([](Scene& scene) { return rules::Cancel(scene, CancelMode::kCancel); }));
  }
  SUBCASE("resumed with force") {
    REQUIRE(world.Do([](Scene& scene) { return rules::Cancel(scene, CancelMode::kCancel); }));
    REQUIRE(world.Do([](Scene& scene) { return rules::Pause(scene); }));
    force = true;
  }
  // Whatever it answers.
  (void)world.Do([force](Scene& scene) { return rules::Resume(scene, "", force); });
  const auto extended = world.Do(
      [&](Scene& scene) { return rules::Extend(scene, claim, world.now + 20s, {.progress = 0}); });
  CHECK((!extended || extended->cancel_requested));
  (void)world.Report({.transition = "ok", .claim = claim});
  CHECK(world.instance.state == InstanceState::kStopped);
  CHECK(world.instance.result == InstanceResult::kCancelled);
}

TEST_CASE("cancelling what is being cancelled changes nothing") {
  World world;
  world.Start();
  world.Claim();
  REQUIRE(world.Do([](Scene& scene) { return rules::Cancel(scene, CancelMode::kCancel); }));
  const Instance before = world.instance;
  CHECK(world.Do([](Scene& scene) { return rules::Cancel(scene, CancelMode::kCancel); }));
  CHECK(world.instance == before);
  CHECK(world.events.empty());
}

// New versions ------------------------------------------------------------------------------------

TEST_CASE("an upgrade moves an instance to the new version's start node") {
  World world;
  const Machine next = MachineOf(R"(
  z: {start: true, transitions: {ok: end}}
  end: {final: true}
)");
  auto upgrade = [&] { world.Do([&](Scene& scene) { rules::Upgrade(scene, next, 2); }); };
  SUBCASE("running") {
    world.Start();
    const std::string claim = world.Claim();
    world.now += 3s;
    upgrade();
    CHECK(world.kinds() == Kinds{kUpgraded, kTransitioned});
    CHECK(world.events[0].prev_node == "a");
    CHECK(world.events[0].node == "dfsmr.upgraded");
    CHECK(world.events[0].samples.size() == 1);
    CHECK(world.events[1].prev_node == "dfsmr.upgraded");
    CHECK(world.events[1].node == "z");
    CHECK(world.events[1].visit == 2);
    CHECK(world.events[1].version == 2);
    CHECK(world.instance.version == 2);
    CHECK(world.token().params.empty());
    CHECK(world.RefuseReport({.transition = "ok", .claim = claim}) == "STALE_CLAIM");
  }
  SUBCASE("paused stays paused") {
    world.Start();
    REQUIRE(world.Do([](Scene& scene) { return rules::Pause(scene); }));
    upgrade();
    CHECK(world.instance.state == InstanceState::kPaused);
  }
  SUBCASE("scheduled stays scheduled") {
    world.instance.waits.Add(Wait::kHold);
    world.Start();
    upgrade();
    CHECK(world.kinds() == Kinds{kUpgraded});
    CHECK(world.instance.state == InstanceState::kScheduled);
    CHECK(world.instance.version == 2);
  }
  SUBCASE("being cancelled stops") {
    world.Start();
    world.Claim();
    REQUIRE(world.Do([](Scene& scene) { return rules::Cancel(scene, CancelMode::kCancel); }));
    upgrade();
    CHECK(world.instance.result == InstanceResult::kCancelled);
    CHECK(world.node() == "dfsmr.cancelled");
  }
}

TEST_CASE("an abort stops an instance with result ABORTED") {
  World world;
  SUBCASE("running") {
    world.Start();
    world.Claim();
  }
  SUBCASE("paused") {
    world.Start();
    REQUIRE(world.Do([](Scene& scene) { return rules::Pause(scene); }));
  }
  SUBCASE("scheduled") {
    world.instance.waits.Add(Wait::kHold);
    world.Start();
  }
  world.Do([](Scene& scene) { rules::Abort(scene, 2); });
  CHECK(world.kinds() == Kinds{kAborted, kFinished});
  CHECK(world.events[0].node == "dfsmr.aborted");
  CHECK(world.instance.result == InstanceResult::kAborted);
  CHECK(world.node() == "dfsmr.aborted");
}

TEST_CASE("an instance that is to be cancelled ends so, also when a new version would abort it") {
  World world;
  world.Start();
  world.Claim();
  REQUIRE(world.Do([](Scene& scene) { return rules::Cancel(scene, CancelMode::kCancel); }));
  REQUIRE(world.instance.state == InstanceState::kRunning);
  world.Do([](Scene& scene) { rules::Abort(scene, 2); });
  CHECK(world.kinds() == Kinds{kCancelled, kFinished});
  CHECK(world.instance.result == InstanceResult::kCancelled);
}

}  // namespace
}  // namespace dfsmr
