// Sections: what is tried again as a whole, and what is compensated.
#include <doctest/doctest.h>

#include "tests/fsm/rules/play.h"

namespace dfsmr {
namespace {

using namespace std::chrono_literals;
using enum ChangeKind;

constexpr std::string_view kNode = R"(
plan: p
flow:
  sequence:
    - {step: before, action: x}
    - section: s
      do: {sequence: [{step: create, action: x}, {step: start, action: x}]}
      retry: {limit: 3}
      compensate: {step: delete, action: x, input: {id: "${create.output.id}"}}
    - {step: behind, action: x}
)";

size_t TriesOf(const Play& play, const std::string& section) {
  const NodeIndex entry = play.machine.Find(section);
  const NodeIndex exit = play.machine.sections[play.machine.nodes[entry].section].exit;
  const Keepsake* kept = play.instance.tokens.KeptAt(exit);
  return kept && kept->section ? kept->section->tries : 0;
}

TEST_CASE("a section in which nothing fails is as its steps alone") {
  Play play(kNode);
  CHECK(play.Ok("before").nodes == Texts{"s", "s.create"});
  CHECK(play.Where() == "s.create ready");
  play.Ok("s.create", R"({"id":1})");
  play.Ok("s.start");
  CHECK(play.Where() == "behind ready");
  CHECK(play.progress() == 0.75);
  play.Ok("behind");
  CHECK(play.Ended() == "STOPPED SUCCESS /end");
  CHECK(play.progress() == 1);
}

TEST_CASE("a section whose step fails is compensated and begins anew, as often as it may") {
  Play play(kNode);
  play.Ok("before");
  for (size_t tries : {1u, 2u}) {
    const uint64_t visit = play.At("s.create").visit;
    play.Ok("s.create", R"({"id":1})");
    CHECK(play.progress() == 0.5);
    play.Error("s.start");
    CHECK(play.Where() == "s/compensate.delete ready");
    CHECK(play.instance.state == InstanceState::kRunning);
    CHECK(play.outputs.contains("s.create"));
    CHECK(TriesOf(play, "s") == tries);
    play.Ok("s/compensate.delete");
    CHECK(play.Where() == "s.create ready");
    CHECK(play.At("s.create").visit > visit);
    CHECK_FALSE(play.outputs.contains("s.create"));
    CHECK(play.progress() == 0.25);
  }
  play.Ok("s.create", R"({"id":1})");
  SUBCASE("the last failure is the step's") {
    play.Error("s.start");
    CHECK(play.Where() == "s.start/error held");
    CHECK(play.instance.state == InstanceState::kPaused);
    CHECK(TriesOf(play, "s") == 3);
    REQUIRE(play.Resume());
    CHECK(play.Where() == "s.start ready");
    play.Ok("s.start");
  }
  SUBCASE("and the last try may be good") { play.Ok("s.start"); }
  CHECK(play.Where() == "behind ready");
  play.Ok("behind");
  CHECK(play.Ended() == "STOPPED SUCCESS /end");
  CHECK(play.progress() == 1);
}

TEST_CASE("a step is tried as often as it may be before its section is") {
  Play play(R"(
plan: p
flow:
  - section: s
    do: [{step: a, action: x, retry: 2}]
    retry: 2
)");
  for (int i = 0; i < 3; ++i) {
    play.Error("s.a");
    CHECK(play.Where() == "s.a ready");
  }
  play.Error("s.a");
  CHECK(play.Where() == "s.a/error held");
}

TEST_CASE("between two tries is the delay of the retry") {
  Play play(R"(
plan: p
flow: [{section: s, do: {step: a, action: x}, retry: {limit: 3, delay: 10s, factor: 2}}]
)");
  for (Duration delay : {10s, 20s}) {
    play.Error("s.a");
    CHECK(play.Where() == "s waiting");
    CHECK(play.At("s").available_at == play.now + delay);
    CHECK(play.At("s").step->start_time == play.now);
    CHECK(play.RefuseReport({.transition = "retry", .node = "s"}) == "ILLEGAL_TRANSITION");
    CHECK(play.instance.state == InstanceState::kRunning);
    play.Elapse(delay, "s");
    CHECK(play.Where() == "s.a ready");
  }
  play.Error("s.a");
  CHECK(play.Where() == "s.a/error held");
}

TEST_CASE("a section is tried again for the errors that its retry names") {
  Play play(R"(
plan: p
flow:
  section: o
  do: {section: i, do: {step: a, action: x}, retry: {limit: 3, on: [oom]}}
  retry: {limit: 3, on: ["disk full"]}
)");
  SUBCASE("by their kind") {
    play.Run("o.i.a", {.transition = "error", .error_kind = "oom"});
    CHECK(play.Where() == "o.i.a ready");
    CHECK(TriesOf(play, "o.i") == 1);
    CHECK(TriesOf(play, "o") == 0);
  }
  SUBCASE("by their text, which only the outer one names") {
    play.Error("o.i.a", "the Disk Full, sir");
    CHECK(play.Where() == "o.i.a ready");
    CHECK(TriesOf(play, "o.i") == 0);
    CHECK(TriesOf(play, "o") == 1);
  }
  SUBCASE("and for no others") {
    play.Error("o.i.a", "no boot");
    CHECK(play.Where() == "o.i.a/error held");
  }
}

TEST_CASE("fatal ends the tries of the step, not those of its section") {
  Play play(R"(
plan: p
flow: {section: s, do: {step: a, action: x, retry: 9}, retry: 2}
)");
  const uint64_t visit = play.At("s.a").visit;
  play.Run("s.a", {.transition = "error", .fatal = true});
  CHECK(play.Where() == "s.a ready");
  CHECK(play.At("s.a").visit > visit);
  CHECK(TriesOf(play, "s") == 1);
  play.Run("s.a", {.transition = "error", .fatal = true});
  CHECK(play.Where() == "s.a/error held");
}

TEST_CASE("what the server finds in a section counts as a failure of its step") {
  Play play(R"(
action: y
abandon_after: 1
---
plan: p
flow:
  section: s
  do: [{step: a, action: y}, {step: b, action: y}]
  retry: {limit: 2, on: [unclaimed, abandoned]}
)");
  SUBCASE("unclaimed") {
    const uint64_t visit = play.At("s.a").visit;
    play.Do([&](Scene& scene) { rules::Unclaimed(scene, visit, "nobody asks"); });
  }
  SUBCASE("abandoned") {
    play.Claim("s.a");
    const uint64_t visit = play.At("s.a").visit;
    play.Do([&](Scene& scene) { rules::LoseClaim(scene, visit, play.last, /*for_good=*/true); });
  }
  CHECK(play.Where() == "s.a ready, s.b ready");
  CHECK(TriesOf(play, "s") == 1);
}

constexpr std::string_view kWide = R"(
plan: p
flow:
  - section: s
    do:
      - {step: a, action: x}
      - {step: b, action: x}
      - {step: c, action: x}
      - {step: d, action: x, retry: {limit: 2, delay: 1s}}
    retry: {limit: 2}
    compensate: {step: undo, action: x}
  - {step: beside, action: x}
)";

TEST_CASE("what has begun ends before it is compensated, and what has not is dropped") {
  Play play(kWide);
  const std::string b = play.Claim("s.b");
  play.Error("s.d");
  CHECK(play.Where() == "beside ready, s.a ready, s.b claimed, s.c ready, s.d waiting");
  play.Suspend("s.c");
  const std::string beside = play.Claim("beside");
  play.Error("s.a");
  CHECK(play.Where() == "beside claimed, s.b claimed, s.c ready");
  CHECK(play.At("s.c").step->event == "cancel");

  SUBCASE("by a report") {
    REQUIRE(play.Report({.transition = "ok", .claim = b, .output = R"({"v":1})"}));
    CHECK(play.outputs.contains("s.b"));
  }
  SUBCASE("by another failure, which is not tried again") {
    REQUIRE(play.Report({.transition = "error", .claim = b, .error = "too"}));
  }
  SUBCASE("by giving it back") {
    REQUIRE(play.Do([&](Scene& scene) { return rules::Relinquish(scene, b, {}); }));
  }
  SUBCASE("by an end of which nobody tells more") {
    CHECK(play.Do([&](Scene& scene) { return rules::EndClaim(scene, ClaimRef(b), false); }));
  }
  SUBCASE("by being lost with its agent") {
    const uint64_t visit = play.At("s.b").visit;
    const ClaimId id = play.At("s.b").claims.front().id;
    play.Do([&](Scene& scene) { rules::LoseClaim(scene, visit, id, /*for_good=*/true); });
  }
  SUBCASE("by suspending, which is woken and ends") {
    REQUIRE(play.Report({.transition = "suspend", .claim = b}));
    CHECK(play.At("s.b").step->event == "cancel");
    play.Suspend("s.b");
  }
  CHECK(play.Where() == "beside claimed, s.c ready");
  play.Ok("s.c");
  CHECK(play.Where() == "beside claimed, s/compensate.undo ready");
  play.Ok("s/compensate.undo");
  CHECK(play.Where() == "beside claimed, s.a ready, s.b ready, s.c ready, s.d ready");
  CHECK_FALSE(play.outputs.contains("s.b"));
  CHECK(TriesOf(play, "s") == 1);
  REQUIRE(play.Report({.transition = "ok", .claim = beside}));
  for (const char* step : {"s.a", "s.b", "s.c", "s.d"}) play.Ok(step);
  CHECK(play.Ended() == "STOPPED SUCCESS /end");
}

TEST_CASE("work that runs at most once ends with its section, though nobody says how") {
  Play play(R"(
action: once
timeout: 0.0
---
plan: p
flow:
  section: s
  do: [{step: a, action: x}, {step: b, action: once}]
  retry: 2
)");
  const std::string b = play.Claim("s.b");
  play.Error("s.a");
  CHECK(play.Where() == "s.b claimed");
  CHECK(play.Do([&](Scene& scene) { return rules::EndClaim(scene, ClaimRef(b), false); }));
  CHECK(play.Where() == "s.a ready, s.b ready");
}

TEST_CASE("the last step that ends is what begins the compensation") {
  Play play(kWide);
  play.Error("s.b");
  CHECK(play.Where() == "beside ready, s/compensate.undo ready");
  CHECK(play.kinds() ==
        Kinds{kTransitioned, kSkipped, kSkipped, kSkipped, kSkipped, kTransitioned, kTransitioned});
}

TEST_CASE("what fails in a compensation is held as ever") {
  Play play(kWide);
  play.Ok("beside");
  play.Error("s.b");
  play.Error("s/compensate.undo");
  CHECK(play.Where() == "s/compensate.undo/error held");
  CHECK(play.instance.state == InstanceState::kPaused);
  CHECK(play.RefuseReport({.transition = "retry", .node = "s"}) == "ILLEGAL_TRANSITION");
  SUBCASE("retried") {
    play.Outside("s/compensate.undo", "retry");
    CHECK(play.instance.state == InstanceState::kRunning);
    play.Ok("s/compensate.undo");
  }
  SUBCASE("skipped, which leaves a warning") {
    play.Outside("s/compensate.undo", "skip");
    CHECK(play.instance.state == InstanceState::kRunning);
    CHECK(play.instance.plan->skipped);
  }
  CHECK(play.Where() == "s.a ready, s.b ready, s.c ready, s.d ready");
}

TEST_CASE("a failure that the step's rescue skips is none") {
  Play play(R"(
plan: p
flow:
  - section: s
    do: {sequence: [{step: a, action: x, rescue: skip}, {step: b, action: x}]}
    retry: 3
  - {step: reads, action: x, input: {v: "${s.a.output.v}"}}
)");
  play.Error("s.a");
  CHECK(play.Where() == "s.b ready");
  SUBCASE("it counts when its section is over") {
    play.Ok("s.b");
    CHECK(play.Ended() == "STOPPED WARNING /end");
  }
  SUBCASE("it does not when its section begins anew, nor for who reads its output") {
    play.Error("s.b");
    CHECK(play.Where() == "s.a ready");
    CHECK(play.progress() == 0);
    play.Ok("s.a", R"({"v":1})");
    play.Ok("s.b");
    CHECK(play.Where() == "reads ready");
    play.Ok("reads");
    CHECK(play.Ended() == "STOPPED SUCCESS /end");
  }
}

TEST_CASE("what is outside waits for all of a section, and what led into it is not forgotten") {
  Play play(R"(
plan: p
flow:
  - {step: out, action: x}
  - section: s
    do:
      - {step: a, action: x}
      - {step: b, action: x, after: [a, out]}
      - {step: c, action: x}
    retry: 2
  - {step: reads, action: x, input: {v: "${s.a.output.v}"}}
)");
  play.Ok("s.a", R"({"v":1})");
  CHECK(play.Where() == "out ready, s.c ready");
  play.Error("s.c");
  CHECK(play.Where() == "out ready, s.a ready, s.c ready");
  SUBCASE("before") { play.Ok("out"); }
  play.Ok("s.a");
  SUBCASE("after") { play.Ok("out"); }
  play.Ok("s.c");
  CHECK(play.Where() == "s.b ready");
  play.Error("s.b");
  CHECK(play.Where() == "s.b/error held");
  play.Outside("s", "retry");
  CHECK(play.Where() == "s.a ready, s.c ready");  // out is done, and stays so
  CHECK(TriesOf(play, "s") == 0);
  play.Ok("s.a", R"({"v":1})");
  play.Ok("s.c");
  play.Ok("s.b");
  CHECK(play.Where() == "reads ready");
  play.Ok("reads");
  CHECK(play.Ended() == "STOPPED SUCCESS /end");
}

TEST_CASE("what leads into a section that ends waits until that begins anew") {
  Play play(R"(
plan: p
flow:
  - {step: out, action: x}
  - section: s
    do: [{step: a, action: x}, {step: b, action: x}, {step: c, action: x, after: [out]}]
    retry: 2
)");
  const std::string b = play.Claim("s.b");
  play.Error("s.a");
  play.Ok("out");
  CHECK(play.Where() == "s.b claimed");
  REQUIRE(play.Report({.transition = "ok", .claim = b}));
  CHECK(play.Where() == "s.a ready, s.b ready, s.c ready");
}

constexpr std::string_view kNestedSections = R"(
plan: p
flow:
  - section: o
    do:
      sequence:
        - {step: first, action: x}
        - section: i
          do: {step: a, action: x}
          retry: 2
          compensate: {step: undo, action: x}
        - {step: last, action: x}
    retry: 2
    compensate: {step: clean, action: x}
)";

TEST_CASE("of nested sections the innermost with a try left is tried") {
  Play play(kNestedSections);
  for (int outer = 0; outer < 2; ++outer) {
    play.Ok("o.first");
    play.Error("o.i.a");
    CHECK(play.Where() == "o.i/compensate.undo ready");
    play.Ok("o.i/compensate.undo");
    CHECK(play.Where() == "o.i.a ready");
    CHECK(TriesOf(play, "o.i") == 1);
    play.Error("o.i.a");
    if (outer == 1) break;
    CHECK(play.Where() == "o/compensate.clean ready");
    play.Ok("o/compensate.clean");
    CHECK(play.Where() == "o.first ready");
    CHECK(TriesOf(play, "o.i") == 0);  // anew
    CHECK(TriesOf(play, "o") == 1);
  }
  CHECK(play.Where() == "o.i.a/error held");
  REQUIRE(play.Resume());
  play.Ok("o.i.a");
  play.Ok("o.last");
  CHECK(play.Ended() == "STOPPED SUCCESS /end");
}

TEST_CASE("an outer section that ends lets an inner one end its compensation") {
  Play play(R"(
plan: p
flow:
  - section: o
    do:
      - section: i
        do: {step: a, action: x}
        retry: 2
        compensate: {step: undo, action: x}
      - {step: b, action: x}
    retry: 2
    compensate: {step: clean, action: x}
)");
  play.Error("o.i.a");
  CHECK(play.Where() == "o.b ready, o.i/compensate.undo ready");
  play.Error("o.b");
  CHECK(play.Where() == "o.i/compensate.undo ready");
  play.Ok("o.i/compensate.undo");
  CHECK(play.Where() == "o/compensate.clean ready");
  play.Ok("o/compensate.clean");
  CHECK(play.Where() == "o.b ready, o.i.a ready");
}

constexpr std::string_view kRescued = R"(
plan: p
flow:
  - section: s
    do: {sequence: [{step: a, action: x}, {step: b, action: x}]}
    retry: 2
    compensate: {step: undo, action: x}
    rescue: compensate
  - {step: beside, action: x}
  - {step: reads, action: x, input: {v: "${s.a.output.v}"}}
)";

TEST_CASE("with rescue: compensate the last failure is compensated, and the instance stops") {
  Play play(kRescued);
  for (int i = 0; i < 2; ++i) {
    play.Ok("s.a");
    play.Error("s.b", "no room");
    CHECK(play.Where() == "beside ready, s/compensate.undo ready");
    play.Ok("s/compensate.undo");
  }
  CHECK(play.Where() == "beside ready, s held");
  CHECK(play.At("s").error == "s.b: no room");
  SUBCASE("with ERROR when nothing more can move") {
    play.Ok("beside");
    CHECK(play.Ended() == "STOPPED ERROR s");
    CHECK(play.instance.error == "step s: s.b: no room");
  }
  SUBCASE("unless it is tried again before") {
    play.Outside("s", "retry");
    CHECK(play.Where() == "beside ready, s.a ready");
    CHECK(TriesOf(play, "s") == 0);
    CHECK(play.progress() == 0);
    for (const char* step : {"beside", "s.a", "s.b", "reads"}) play.Ok(step);
    CHECK(play.Ended() == "STOPPED SUCCESS /end");
    CHECK(play.progress() == 1);
  }
  SUBCASE("or skipped, with what needs its outputs") {
    play.Outside("s", "skip");
    CHECK(play.Where() == "beside ready");
    CHECK(play.progress() == 0.75);
    play.Ok("beside");
    CHECK(play.Ended() == "STOPPED WARNING /end");
  }
}

TEST_CASE("children of a step are cancelled and awaited, and their numbers go on") {
  Play play(R"(
plan: p
flow:
  - section: s
    do:
      - {step: kids, spawn: {plan: p, for_each: [1, 2, 3]}}
      - {step: a, action: x}
    retry: 2
    compensate: {step: undo, action: x}
)");
  play.Count("s.kids", 3);
  play.StartChild("s.kids");
  play.StartChild("s.kids");
  play.Error("s.a");
  CHECK(play.Where() == "s.kids waiting");
  CHECK(play.At("s.kids").step->children->cancelled_all);
  CHECK_FALSE(rules::WantsChildren(play.instance, play.At("s.kids")));
  play.Child("s.kids", ChildClass::kRunning, ChildClass::kCancelled);
  CHECK(play.Where() == "s.kids waiting");
  play.Child("s.kids", ChildClass::kRunning, ChildClass::kCancelled);
  CHECK(play.Where() == "s/compensate.undo ready");
  play.Ok("s/compensate.undo");
  CHECK(play.Where() == "s.a ready, s.kids waiting");
  CHECK(play.At("s.kids").step->children->first == 2);
}

TEST_CASE("conditions outside hear of a failure only when no try is left") {
  Play play(R"(
plan: p
flow:
  - {section: s, do: {step: a, action: x}, retry: 2}
  - {step: sorry, action: x, if: {failed: s.a}}
)");
  play.Error("s.a");
  CHECK(play.Where() == "s.a ready");
  play.Error("s.a");
  CHECK(play.Where() == "s.a/error held, sorry ready");
}

TEST_CASE("a section that is being cancelled is neither compensated nor tried again") {
  Play play(kWide);
  const std::string b = play.Claim("s.b");
  play.Error("s.a");
  play.Cancel();
  REQUIRE(play.Report({.transition = "ok", .claim = b}));
  CHECK(play.Ended().starts_with("STOPPED CANCELLED"));
}

TEST_CASE("a large section ends and begins anew in portions") {
  Play play(R"(
plan: p
params: {type: object}
flow:
  - section: s
    do:
      - {for_each: "${params.list}", as: i, do: {step: a, action: x, after: [one]}}
      - {step: one, action: x}
    retry: 3
)",
            R"({"list":[1,2,3,4,5,6,7,8,9]})");
  play.Ok("s.one");
  CHECK(play.instance.tokens.size() == 9);
  const std::string claim = play.Claim("s.a.3");
  auto portion = [&play](const ReportArgs& args) {
    play.Do([&](Scene& scene) {
      scene.portion = 2;
      REQUIRE(rules::Report(scene, args));
    });
  };
  auto more = [&play] {
    int turns = 0;
    for (; rules::HasOpenEdges(play.instance); ++turns) {
      play.Do([](Scene& scene) {
        scene.portion = 2;
        rules::ReachMore(scene);
      });
    }
    return turns;
  };
  portion({.transition = "error", .node = "s.a.7", .error = "no"});
  CHECK(rules::HasOpenEdges(play.instance));
  CHECK(more() > 3);
  CHECK(play.Where() == "s.a.3 claimed");
  portion({.transition = "ok", .claim = claim});
  CHECK(more() > 3);
  CHECK(play.Where() == "s.one ready");
  CHECK(play.progress() == 0);
}

}  // namespace
}  // namespace dfsmr
