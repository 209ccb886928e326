// The `if` of steps, wait_after_fail, and the choices of plain machines.
#include <doctest/doctest.h>

#include "tests/fsm/rules/play.h"

namespace dfsmr {
namespace {

using namespace std::chrono_literals;
using enum ChangeKind;

// The last event of this kind about this node; its note.
std::string Note(const Play& play, ChangeKind kind, const std::string& node) {
  std::string note = "none";
  for (const Event& event : play.events) {
    if (event.kind == kind && event.node == node) note = event.note;
  }
  return note;
}
void Skip(Play& play, const std::string& step) {
  REQUIRE(play.Do([&](Scene& scene) { return rules::Skip(scene, step); }));
}

// Deciding ---------------------------------------------------------------------------------------

TEST_CASE("a step whose if is true runs, and one whose if is false is skipped without WARNING") {
  Play play(R"(
plan: p
flow:
  - {step: a, action: x}
  - {step: big, action: x, if: {value: "${a.output.n}", greater: 10}}
  - {step: small, action: x, if: {value: "${a.output.n}", less: 11}}
  - {step: end, action: x, after: [big, small]}
)");
  play.Ok("a", R"({"n": 11})");
  CHECK(play.Where() == "big ready");
  CHECK(Note(play, kTransitioned, "big").empty());
  CHECK(Note(play, kSkipped, "small") == "its 'if' is false: {value: \"${a.output.n}\", less: 11}");
  play.Ok("big");
  CHECK(play.Where() == "end ready");
  play.Ok("end");
  CHECK(play.Ended() == "STOPPED SUCCESS /end");
  CHECK(play.progress() == 1);
}

TEST_CASE("what needs the output of a step that its if skips is skipped, too, without WARNING") {
  Play play(R"(
plan: p
flow:
  - {step: a, action: x, if: {value: "${params.on}", equals: true}}
  - {step: b, action: x, input: {v: "${a.output}"}}
  - {step: c, action: x, after: [b]}
  - {step: d, action: x, input: {v: "${a.output}"}, if: {skipped: [a, b]}}
)",
            R"({"on": false})");
  CHECK(play.Where() == "c ready, d ready");
  play.Ok("c");
  play.Ok("d");
  CHECK(play.Ended() == "STOPPED SUCCESS /end");
}

TEST_CASE("an if may ask for params that are not there") {
  Play play(
      "plan: p\nflow: [{step: a, action: x, if: {value: \"${params.on}\", exists: false}}]\n");
  CHECK(play.Where() == "a ready");
}

TEST_CASE("a step that was skipped by hand still makes a WARNING beside one that its if skips") {
  Play play(R"(
plan: p
flow:
  - {step: a, action: x}
  - {step: b, action: x, if: {failed: a}}
)");
  play.Error("a");
  CHECK(play.Where() == "a/error held, b ready");
  play.Ok("b");
  Skip(play, "a");
  CHECK(play.Ended() == "STOPPED WARNING /end");
}

TEST_CASE("a failed step has settled, also when its rescue skips it") {
  for (const char* rescue : {"pause", "skip", "fail"}) {
    CAPTURE(rescue);
    Play play(std::string("action: x\nrescue: ") + rescue + R"(
---
plan: p
flow:
  - {step: a, action: x}
  - {step: other, action: y}
  - {step: alert, action: y, after: [a], if: {failed: a}}
  - {step: happy, action: y, if: {succeeded: a}}
)");
    play.Error("a", "no room");
    const bool skips = rescue == std::string("skip");
    CHECK(play.Where() ==
          (skips ? "alert ready, other ready" : "a/error held, alert ready, other ready"));
    CHECK(Note(play, kSkipped, "happy") == "its 'if' is false: {succeeded: a}");
  }
}

TEST_CASE("a step that is tried again has not settled") {
  Play play(R"(
action: x
retry: {limit: 2}
---
plan: p
flow: [{step: a, action: x}, {step: b, action: y, if: {failed: a}}]
)");
  play.Error("a");
  CHECK(play.Where() == "a ready");
  play.Error("a");
  CHECK(play.Where() == "a/error held, b ready");
}

TEST_CASE("what is decided once stays so when the failed step is retried") {
  Play play(R"(
plan: p
flow:
  - {step: a, action: x}
  - {step: alert, action: x, if: {failed: a}}
  - {step: next, action: x, after: [a], if: {succeeded: a}}
  - {step: last, action: x, after: [next]}
  - {step: told, action: x, after: [alert]}
)");
  play.Error("a");
  CHECK(play.Where() == "a/error held, alert ready");
  play.Ok("alert");
  CHECK(play.Where() == "a/error held, told ready");  // it waits for nothing else
  play.Ok("told");
  CHECK(play.instance.state == InstanceState::kPaused);
  REQUIRE(play.Resume());
  CHECK(play.Where() == "a ready");
  play.Ok("a");
  CHECK(play.Where() == "last ready");  // next stays skipped, and alert does not run again
  play.Ok("last");
  CHECK(play.Ended() == "STOPPED SUCCESS /end");
}

TEST_CASE("an if waits until all that it names have settled") {
  Play play(R"(
plan: p
flow:
  - {step: a, action: x}
  - {step: b, action: x}
  - {step: c, action: x}
  - {step: any, action: x, after: [c], if: {any: [{failed: a}, {failed: b}]}}
)");
  play.Error("a");
  CHECK(play.Where() == "a/error held, b ready, c ready");
  play.Ok("c");
  CHECK(play.Where() == "a/error held, b ready");
  play.Ok("b");
  CHECK(play.Where() == "a/error held, any ready");
}

TEST_CASE("what is blocked behind a held step has not settled") {
  Play play(R"(
plan: p
flow:
  - {step: a, action: x}
  - {step: b, action: x, after: [a]}
  - {step: tidy, action: x, after: [b], if: always}
)");
  play.Error("a");
  CHECK(play.Where() == "a/error held");
  CHECK(play.instance.state == InstanceState::kPaused);
  SUBCASE("retried, all goes its way") {
    play.Outside("a", "retry");
    play.Ok("a");
    play.Ok("b");
    play.Ok("tidy");
    CHECK(play.Ended() == "STOPPED SUCCESS /end");
  }
  SUBCASE("skipped by hand it has settled, and leads on") {
    Skip(play, "a");
    play.Ok("b");
    play.Ok("tidy");
    CHECK(play.Ended() == "STOPPED WARNING /end");
  }
}

TEST_CASE("gates pass on that what stands before them has settled") {
  Play play(R"(
plan: p
flow:
  - sequence:
    - {concurrence: [{step: a, action: x}, {step: b, action: x}, {step: c, action: x}]}
    - {concurrence: [{step: d, action: x, if: {failed: b}}, {step: e, action: x}]}
)");
  play.Error("b");
  play.Ok("a");
  CHECK(play.Where() == "b/error held, c ready");
  play.Ok("c");
  CHECK(play.Where() == "b/error held, d ready");
  play.Ok("d");
  play.Outside("b", "retry");
  play.Ok("b");
  CHECK(play.Where() == "e ready");
  play.Ok("e");
  CHECK(play.Ended() == "STOPPED SUCCESS /end");
}

TEST_CASE("an if that goes before a failed step keeps nobody else from waiting for that") {
  Play play(R"(
plan: p
flow:
  - sequence:
    - {concurrence: [{step: a, action: x}, {step: b, action: x, after: [a], if: always}]}
    - {step: c, action: x}
)");
  play.Error("a");
  play.Ok("b");
  CHECK(play.Where() == "a/error held");
}

TEST_CASE("a held step that is skipped counts once, and one that is tried again not yet") {
  Play play("plan: p\nflow: [{step: a, action: x}, {step: b, action: x}, "
            "{step: c, action: x, after: [a, b], if: always}]");
  play.Error("a");
  SUBCASE("skipped") { play.Outside("a", "skip"); }
  SUBCASE("tried again") {
    play.Outside("a", "retry");
    play.Ok("b");
    CHECK(play.Where() == "a ready");
    play.Ok("a");
    CHECK(play.Where() == "c ready");
    return;
  }
  CHECK(play.Where() == "b ready");
}

// Finally ----------------------------------------------------------------------------------------

constexpr std::string_view kFinally = R"(
action: x
rescue: fail
---
plan: p
flow:
  - {step: a, action: x}
  - {step: b, action: x, after: [a]}
  - {step: tidy, action: x, after: [b], if: always}
  - {step: mail, action: x, after: [tidy], if: {failed: a}}
  - {step: after, action: x, after: [tidy]}
  - {step: never, action: x, after: [tidy, b]}
)";

TEST_CASE("a plan that fails runs what an if still wants, then stops with ERROR") {
  Play play(kFinally);
  play.Error("a", "boom");
  CHECK(play.instance.state == InstanceState::kRunning);
  CHECK(play.Where() == "a/error held, tidy ready");
  play.Ok("tidy");
  CHECK(play.Where() == "a/error held, after ready, mail ready");
  play.Ok("mail");
  play.Ok("after");
  CHECK(play.Ended() == "STOPPED ERROR a/error");
  CHECK(play.instance.error == "step a: boom");
}

TEST_CASE("nothing is run finally when no if wants it") {
  Play play(R"(
action: x
rescue: fail
---
plan: p
flow:
  - {step: a, action: x}
  - {step: b, action: x, after: [a]}
  - {step: c, action: x, after: [b], if: {succeeded: b}}
  - {step: d, action: x, after: [c]}
)");
  play.Error("a");
  CHECK(Note(play, kSkipped, "c") == "its 'if' is false: {succeeded: b}");
  CHECK(play.Ended() == "STOPPED ERROR a/error");
}

TEST_CASE("a finally comes after what went on without the failed step") {
  Play play(R"(
action: x
rescue: fail
---
plan: p
flow:
  - {step: a, action: x}
  - {step: b, action: x, after: [a]}
  - {step: c, action: x}
  - {step: tidy, action: x, after: [b, c], if: always, input: {b: "${b.state}", c: "${c.output.v}"}}
)");
  play.Error("a");
  CHECK(play.Where() == "a/error held, c ready");
  play.Ok("c", R"({"v": 1})");
  CHECK(play.Where() == "a/error held, tidy ready");
  CHECK(rules::OutcomeOf(play.machine, play.instance, "#0") == StepOutcome::kFailed);
  CHECK(rules::OutcomeOf(play.machine, play.instance, "#1") == StepOutcome::kSkipped);
  CHECK(rules::OutcomeOf(play.machine, play.instance, "#2") == StepOutcome::kSucceeded);
  play.Error("tidy");
  CHECK(play.Ended().starts_with("STOPPED ERROR"));
}

TEST_CASE("a failed step can be retried while its finally runs") {
  Play play(kFinally);
  play.Error("a");
  play.Outside("a", "retry");
  play.Ok("a");
  CHECK(play.Where() == "b ready, tidy ready");
  play.Ok("b");
  play.Ok("tidy");
  play.Ok("after");
  play.Ok("never");
  CHECK(play.Ended() == "STOPPED SUCCESS /end");  // mail, which waited for tidy, is not wanted
}

// Nested plans, for_each, children ---------------------------------------------------------------

constexpr std::string_view kNested = R"(
plan: q
flow:
  - {step: l, action: x, input: {v: "${params.v}"}}
  - {step: r, action: x, after: [l]}
---
plan: p
flow:
  - {step: a, action: x}
  - {step: web, plan: q, input: {v: "${a.output.v}"}, if: {value: "${a.output.v}", equals: 1}}
  - {step: z, action: x, after: [web]}
  - {step: s, action: x, if: {skipped: web}}
  - {step: f, action: x, if: {failed: web}}
)";

TEST_CASE("a nested plan runs or is skipped as a whole") {
  Play play(kNested);
  SUBCASE("it runs") {
    play.Ok("a", R"({"v": 1})");
    CHECK(play.Where() == "web.l ready");
    play.Ok("web.l");
    play.Ok("web.r");
    CHECK(play.Where() == "z ready");
    play.Ok("z");
    CHECK(play.Ended() == "STOPPED SUCCESS /end");
  }
  SUBCASE("it is skipped") {
    play.Ok("a", R"({"v": 2})");
    CHECK(play.Where() == "s ready, z ready");
    CHECK(Note(play, kSkipped, "web.l").starts_with("the 'if' of web is false: {value: "));
    play.Ok("s");
    play.Ok("z");
    CHECK(play.Ended() == "STOPPED SUCCESS /end");
    CHECK(play.progress() == 1);
  }
  SUBCASE("a step in it fails") {
    play.Ok("a", R"({"v": 1})");
    play.Error("web.l");
    CHECK(play.Where() == "web.l/error held");  // web.r is blocked
    play.Outside("web.l", "retry");
    play.Ok("web.l");
    play.Error("web.r");
    CHECK(play.Where() == "f ready, web.r/error held");
  }
  SUBCASE("what it refers to has failed: its if is false") {
    play.Error("a");
    CHECK(play.Where() == "a/error held, s ready");
    play.Ok("s");
    play.Outside("a", "retry");
    play.Ok("a", R"({"v": 1})");
    CHECK(play.Where() == "z ready");  // decided once
    play.Ok("z");
    CHECK(play.Ended() == "STOPPED SUCCESS /end");
  }
}

TEST_CASE("a for_each failed when one of its steps did, and was skipped when all were") {
  Play play(R"(
plan: p
flow:
  - {for_each: "${params.list}", as: h, do: {step: e, action: x, if: {value: "${h}", greater: 1}}}
  - {step: failed, action: x, if: {failed: e}}
  - {step: skipped, action: x, if: {skipped: e}}
  - {step: fine, action: x, if: {succeeded: e}}
  - {step: one, action: x, if: {succeeded: e.1}}
)",
            R"({"list": [1, 2]})");
  CHECK(play.Where() == "e.1 ready");
  SUBCASE("one succeeds") {
    play.Ok("e.1");
    CHECK(play.Where() == "fine ready, one ready");
  }
  SUBCASE("one fails") {
    play.Error("e.1");
    CHECK(play.Where() == "e.1/error held, failed ready");
  }
}

TEST_CASE("a for_each of which all are skipped, and one of nothing") {
  constexpr std::string_view kPlan = R"(
plan: p
flow:
  - {for_each: "${params.list}", as: h, do: {step: e, action: x, if: {value: "${h}", greater: 1}}}
  - {step: skipped, action: x, if: {skipped: e}}
  - {step: fine, action: x, if: {succeeded: e}}
)";
  CHECK(Play(kPlan, R"({"list": [0, 1]})").Where() == "skipped ready");
  CHECK(Play(kPlan, R"({"list": []})").Where() == "fine ready");
}

TEST_CASE("a step with subscribers is skipped with them") {
  Play play(R"(
action: audit
subscribes_to: [x]
---
action: x
---
plan: p
flow:
  - {step: a, action: y}
  - {step: b, action: x, if: {value: "${a.output.v}", equals: 1}}
)");
  SUBCASE("false") {
    play.Ok("a", R"({"v": 2})");
    CHECK(play.Ended() == "STOPPED SUCCESS /end");
  }
  SUBCASE("true") {
    play.Ok("a", R"({"v": 1})");
    CHECK(play.Where() == "b ready, b.audit ready");
  }
}

// wait_after_fail --------------------------------------------------------------------------------

constexpr std::string_view kPatient = R"(
action: stop
rescue: fail
---
action: skip
rescue: skip
---
plan: p
wait_after_fail: 10s
flow:
  - {step: a, action: pause}
  - {step: b, action: stop}
  - {step: c, action: skip}
  - {step: long, action: pause}
  - {step: next, action: pause, after: [long]}
  - {step: tidy, action: pause, after: [next], if: always}
)";

TEST_CASE("after wait_after_fail the plan pauses, though others could go on") {
  Play play(kPatient);
  play.Error("c");  // skipped: no failure to wait after
  CHECK(play.Where() == "a ready, b ready, long ready");
  play.Error("a", "broke");
  CHECK(play.At("a").available_at == play.now + 10s);
  const std::string claim = play.Claim("long");
  play.Elapse(9s, "a");
  CHECK(play.instance.state == InstanceState::kRunning);
  play.Elapse(1s, "a");
  CHECK(play.instance.state == InstanceState::kPaused);
  CHECK(play.instance.error.starts_with("step a: broke"));
  CHECK(play.Where() == "a/error held, b ready, long claimed");
  REQUIRE(play.Report({.transition = "ok", .claim = claim}));
  CHECK(play.instance.state == InstanceState::kPaused);
  SUBCASE("resume retries the failed step") {
    REQUIRE(play.Resume());
    CHECK(play.instance.state == InstanceState::kRunning);
    CHECK(play.Where() == "a ready, b ready, next ready");
  }
  SUBCASE("skipping it sets the plan going") {
    Skip(play, "a");
    CHECK(play.instance.state == InstanceState::kRunning);
  }
}

TEST_CASE("after wait_after_fail the plan stops, but for what an if wants finally") {
  Play play(kPatient);
  play.Ok("a");
  play.Ok("c");
  play.Error("b", "broke");
  const std::string claim = play.Claim("long");
  play.Elapse(10s, "b");
  CHECK(play.Where() == "b/error held, tidy ready");
  CHECK(Note(play, kSkipped, "long") == "its plan stops: step b: broke");
  CHECK(play.RefuseReport({.transition = "ok", .claim = claim}) == "STALE_CLAIM");
  play.Ok("tidy");
  CHECK(play.Ended() == "STOPPED ERROR b/error");
  CHECK(play.instance.error == "step b: broke");
}

TEST_CASE("wait_after_fail of 0s acts at once") {
  Play play(R"(
action: x
rescue: fail
---
plan: p
wait_after_fail: 0s
flow: [{step: a, action: x}, {step: b, action: x}, {step: c, action: x, after: [b]}]
)");
  play.Error("a", "broke");
  CHECK(play.Ended() == "STOPPED ERROR a/error");
  CHECK(play.instance.error == "step a: broke");
}

// Machines ---------------------------------------------------------------------------------------

struct Chooser {
  template <typename Rule>
  auto Do(Rule rule) {
    events.clear();
    Scene scene{machine, instance, kNoon, 1, 0, events};
    scene.value = [this](const Reference& reference,
                         const FreshOutput& fresh) -> std::optional<std::string> {
      std::string all = facts;
      if (!fresh.json.empty()) {
        all =
            "{\"" + std::string(fresh.node) + "\": {\"output\": " + std::string(fresh.json) + "}}";
      }
      const auto found = Find(all, reference.parts);
      return found ? std::optional(std::string(*found)) : std::nullopt;
    };
    return rule(scene);
  }
  explicit Chooser(std::string_view nodes) {
    Parsed parsed = ParseDefinitions("id: m\nnodes:\n" + std::string(nodes), "test");
    std::string problems;
    for (const Diagnostic& one : parsed.diagnostics) problems += Format(one) + "\n";
    REQUIRE_MESSAGE(parsed.ok(), problems);
    machine = std::move(parsed.definitions.front());
    instance.ns = "ns";
    instance.id = "i";
    instance.machine = "m";
    instance.version = 1;
    Do([](Scene& scene) { rules::Start(scene); });
  }
  std::string Report(ReportArgs args) {
    auto answer = Do([&](Scene& scene) { return rules::Report(scene, args); });
    REQUIRE(answer);
    return answer->nodes.front() + "; " + events.front().note;
  }

  Machine machine;
  Instance instance;
  std::vector<Event> events;
  std::string facts = R"({"params": {"limit": 5}, "instance": {"id": "i"}})";
};

TEST_CASE("a transition takes the first choice that is true, else the last") {
  constexpr std::string_view kNodes = R"(
  check:
    start: true
    transitions:
      ok:
      - {if: {value: "${check.output.sum}", greater: 1000}, to: approve}
      - {if: {value: "${given.word}", equals: back}, to: check}
      - {to: ship}
      error: ship
  approve: {transitions: {ok: ship}}
  ship: {final: true}
)";
  CHECK(Chooser(kNodes).machine.conditional);
  CHECK(Chooser(kNodes).Report({.transition = "ok", .output = R"({"sum": 1001})"}) ==
        "approve; chose approve: {value: \"${check.output.sum}\", greater: 1000}");
  CHECK(Chooser(kNodes).Report({.transition = "ok", .output = R"({"sum": 1000})"}) ==
        "ship; chose ship");
  CHECK(Chooser(kNodes).Report({.transition = "ok", .params = R"({"word": "back"})"}) ==
        "check; chose check: {value: \"${given.word}\", equals: back}");
  CHECK(Chooser(kNodes).Report({.transition = "ok"}) == "ship; chose ship");
  CHECK(Chooser(kNodes).Report({.transition = "ok", .error = "odd"}) == "ship; chose ship; odd");
  CHECK(Chooser(kNodes).Report({.transition = "error", .error = "odd"}) == "ship; odd");
}

TEST_CASE("a delay chooses, too, and so do timeouts and exhausted visits") {
  Chooser chooser(R"(
  at:
    start: true
    delay: 0s
    transitions:
      ok: [{if: {value: "${params.limit}", less: 3}, to: low}, {to: high}]
  low: {transitions: {ok: high}}
  high:
    max_visits: 1
    transitions:
      ok: high
      dfsmr.exhausted:
      - {if: {value: "${instance.id}", equals: i}, to: mine}
      - {to: low}
  mine: {final: true}
)");
  const uint64_t visit = chooser.instance.tokens.front().visit;
  chooser.Do([&](Scene& scene) { rules::EndWait(scene, visit); });
  CHECK(chooser.events.front().note == "chose high");
  auto answer =
      chooser.Do([](Scene& scene) { return rules::Report(scene, ReportArgs{.transition = "ok"}); });
  REQUIRE(answer);
  CHECK(answer->nodes.front() == "mine");
  CHECK(chooser.events[1].note == "chose mine: {value: \"${instance.id}\", equals: i}");
}

}  // namespace
}  // namespace dfsmr
