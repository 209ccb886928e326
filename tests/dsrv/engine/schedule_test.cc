// Schedules: their times, what they start, and what is kept of it.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "dsrv/engine/backfills.h"
#include "dsrv/engine/documents.h"
#include "dsrv/engine/launcher.h"
#include "dsrv/engine/occurrences.h"
#include "dsrv/engine/schedules.h"
#include "storage/rows/occurrence.h"
#include "storage/rows/schedule.h"
#include "tests/dsrv/engine/world.h"

namespace dfsmr {
namespace {

constexpr std::string_view kScheduled = R"(
id: report
nodes:
  work: {start: true, transitions: {ok: done, error: failed}}
  done: {final: true}
  failed: {final: true, result: error}
---
)";

Timestamp At(std::string_view text) {
  auto moment = ParseTimeText(text);
  REQUIRE(moment);
  return moment->Begin(*Zone::Utc());
}

// A world whose clock shows `time`.
void GoTo(World& world, Timestamp time) { world.Advance(time - world.now()); }

std::vector<std::string> TryDefineText(World& world, std::string_view text) {
  Parsed parsed = ParseDefinitions(text, "test");
  std::vector<std::string> wrong;
  for (const Diagnostic& one : parsed.diagnostics) {
    if (one.error) wrong.push_back(one.path + ": " + one.message);
  }
  if (!wrong.empty()) return wrong;
  std::vector<DefineProblem> problems;
  auto defined = world.Do([&](Engine& e) {
    return DefineAtOnce(e, "ns", {std::move(parsed.definitions), std::move(parsed.documents)},
                        false, &problems);
  });
  for (const DefineProblem& one : problems) {
    if (!one.problem.warning) {
      wrong.push_back(one.problem.written.path + ": " + one.problem.message);
    }
  }
  if (!defined && wrong.empty()) wrong.push_back(defined.error().message);
  return wrong;
}
void DefineText(World& world, std::string_view text) {
  const auto wrong = TryDefineText(world, text);
  REQUIRE_MESSAGE(wrong.empty(), (wrong.empty() ? "" : wrong.front()));
}
void DefineAll(World& world, std::string_view schedule) {
  DefineText(world, std::string(kScheduled) + std::string(schedule));
}

rows::DocumentName Named(std::string_view name) { return {"ns", DocumentKind::kSchedule, name}; }

// Oldest first, as "20260101T000000Z STARTED nightly-20260101T000000Z".
std::vector<Occurrence> Occurred(World& world, std::string_view name = "s") {
  std::vector<Occurrence> all;
  REQUIRE(rows::ScanOccurrences({world.store(), world.partition()}, Named(name), UINT64_MAX,
                                [&](Occurrence one) {
                                  all.push_back(std::move(one));
                                  return true;
                                }));
  std::ranges::reverse(all);
  return all;
}
std::vector<std::string> Lines(World& world, std::string_view name = "s") {
  std::vector<std::string> lines;
  for (const Occurrence& one : Occurred(world, name)) {
    std::string line = one.id + " " + std::string(Name(one.outcome));
    if (one.outcome == OccurrenceOutcome::kMissed) {
      line += " " + std::to_string(one.count) + " to " + StampText(one.until_time);
    } else if (one.outcome == OccurrenceOutcome::kFailed) {
      line += " " + one.error;
    } else {
      line += " " + one.instance;
    }
    lines.push_back(line);
  }
  return lines;
}
rows::ScheduleState StateOf(World& world, std::string_view name = "s") {
  auto state = rows::GetScheduleState({world.store(), world.partition()}, "ns", name);
  REQUIRE(state);
  REQUIRE(*state);
  return **state;
}
using Strings = std::vector<std::string>;

TEST_CASE("each time of a schedule starts one instance, once") {
  World world;
  GoTo(world, At("2026-01-01T00:00:30Z"));
  DefineAll(world, R"(
schedule: s
every: 1m
overlap: allow
start:
  machine: report
  params: {at: "${schedule.time}", previous: "${schedule.previous}", day: "${schedule.date}"}
  labels: {kind: "${schedule.kind}"}
  priority: 3
)");
  world.Elapse(2min);
  CHECK(Lines(world) == Strings{"20260101T000100Z STARTED s-20260101T000100Z",
                                "20260101T000200Z STARTED s-20260101T000200Z"});
  const Instance instance = world.Must("s-20260101T000200Z");
  CHECK(instance.provenance->cause == "schedule:s");
  CHECK(instance.provenance->time == At("2026-01-01T00:02:00Z"));
  CHECK(instance.priority == 3);
  auto spec = rows::GetSpec({world.store(), world.partition()}, instance);
  REQUIRE(spec);
  CHECK(spec->params == R"({"at":"2026-01-01T00:02:00Z","previous":"2026-01-01T00:01:00Z",)"
                        R"("day":"2026-01-01"})");
  CHECK(spec->labels.at("kind") == "REGULAR");
  size_t told = 0;
  for (const Event& event : world.Feed()) {
    if (event.kind != ChangeKind::kOccurred) continue;
    ++told;
    CHECK(event.about->cause == "schedule:s");
    CHECK(event.about->outcome == "STARTED");
    CHECK(event.instance == "s-" + event.about->occurrence);
  }
  CHECK(told == 2);
}

TEST_CASE("what was missed is taken as the schedule says") {
  struct Row {
    std::string missed;
    Strings lines;
  };
  const std::vector<Row> rows = {
      {"last", {"20260101T010000Z MISSED 5 to 20260101T050000Z",
                "20260101T060000Z STARTED s-20260101T060000Z"}},
      {"skip", {"20260101T010000Z MISSED 6 to 20260101T060000Z"}},
      {"{take: all, max: 2}", {"20260101T010000Z MISSED 4 to 20260101T040000Z",
                               "20260101T050000Z STARTED s-20260101T050000Z",
                               "20260101T060000Z STARTED s-20260101T060000Z"}},
      {"{take: all, window: 1h}", {"20260101T010000Z MISSED 5 to 20260101T050000Z",
                                   "20260101T060000Z STARTED s-20260101T060000Z"}},
      {"{take: last, window: 10m}", {"20260101T010000Z MISSED 6 to 20260101T060000Z"}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.missed);
    World world;
    GoTo(world, At("2026-01-01T00:30:00Z"));
    DefineAll(world, "schedule: s\nevery: 1h\noverlap: allow\nmissed: " + row.missed +
                         "\nstart: {machine: report}\n");
    GoTo(world, At("2026-01-01T06:20:00Z"));
    world.Crash();
    world.Drain();
    CHECK(Lines(world) == row.lines);
    CHECK(StateOf(world).next_time == At("2026-01-01T07:00:00Z"));
  }
}

TEST_CASE("a crash at any commit leaves one occurrence and one instance of each time") {
  for (int crash = 0; crash < 14; ++crash) {
    CAPTURE(crash);
    World world;
    GoTo(world, At("2026-01-01T00:30:00Z"));
    DefineAll(world, "schedule: s\nevery: 1h\noverlap: allow\nmissed: {take: all}\n"
                     "start: {machine: report}\n");
    for (int turn = 0; turn < 20; ++turn) {
      world.Advance(15min);
      world.Decide();
      if (turn == crash) world.Crash();
      world.Commit();
    }
    world.Drain();
    const auto all = Occurred(world);
    CHECK(all.size() == 5);
    for (size_t i = 0; i < all.size(); ++i) {
      CHECK(all[i].time == At("2026-01-01T01:00:00Z") + static_cast<int>(i) * 1h);
      CHECK(all[i].outcome == OccurrenceOutcome::kStarted);
      CHECK(world.Get(all[i].instance));
    }
    size_t told = 0;
    for (const Event& event : world.Feed()) told += event.kind == ChangeKind::kOccurred ? 1 : 0;
    CHECK(told == 5);
  }
}

TEST_CASE("a schedule that is paused neither occurs nor misses anything") {
  World world;
  GoTo(world, At("2026-01-01T00:30:00Z"));
  DefineAll(world, "schedule: s\nevery: 1h\nstart: {machine: report}\n");
  auto pause = [&](bool paused, const std::string& note) {
    REQUIRE(world.Do(
        [&](Engine& e) { return e.schedules().SetPaused("ns", "s", paused, note, "ann"); }));
  };
  pause(true, "for now");
  CHECK(StateOf(world).paused_by == "ann");
  pause(true, "still");
  CHECK(StateOf(world).note == "still");
  GoTo(world, At("2026-01-01T05:30:00Z"));
  world.Crash();
  world.Drain();
  CHECK(Lines(world).empty());
  pause(false, "");
  world.Drain();
  CHECK(Lines(world).empty());
  world.Elapse(30min);
  CHECK(Lines(world) == Strings{"20260101T060000Z STARTED s-20260101T060000Z"});
  CHECK_FALSE(world.Do([&](Engine& e) { return e.schedules().SetPaused("ns", "x", true, "", ""); }));
}

TEST_CASE("failures in a row pause a schedule in the commit of the last") {
  World world;
  GoTo(world, At("2026-01-01T00:30:00Z"));
  DefineAll(world, "schedule: s\nevery: 1h\nstop_on_fail: 2\nstart: {machine: report}\n");
  auto next = [&](const std::string& end) {
    world.Elapse(1h);
    REQUIRE(world.Report(world.ReadyOne(), end));
  };
  next("error");
  CHECK(StateOf(world).failures == 1);
  next("ok");
  CHECK(StateOf(world).failures == 0);
  CHECK(StateOf(world).last_success == At("2026-01-01T02:00:00Z"));
  next("error");
  CHECK_FALSE(StateOf(world).paused);
  next("error");
  CHECK(StateOf(world).paused);
  CHECK(StateOf(world).paused_by == "stop_on_fail");
  CHECK(StateOf(world).note.find("s-20260101T040000Z") != std::string::npos);
  CHECK(world.engine().NextDeadline() > world.now());
  REQUIRE(world.Do(
      [&](Engine& e) { return e.schedules().SetPaused("ns", "s", false, "", "ann"); }));
  CHECK(StateOf(world).failures == 0);
}

TEST_CASE("what is made up for ends with the failure that pauses the schedule") {
  World world;
  GoTo(world, At("2026-01-01T00:00:30Z"));
  DefineText(world, R"(
id: strict
limit: {key: one, on_conflict: fail}
nodes:
  work: {start: true, transitions: {ok: done}}
  done: {final: true}
---
schedule: s
every: 1m
missed: {take: all}
stop_on_fail: 2
overlap: allow
start: {machine: strict}
)");
  const std::string source =
      "schedule: s\nevery: 1m\nmissed: {take: all}\nstop_on_fail: 2\n"
      "overlap: allow\nstart: {machine: strict, priority: 1}\n";
  auto catches_up = [&](const std::function<void()>& how) {
    world.Advance(10min);
    how();
    CHECK(StateOf(world).paused);
    CHECK(StateOf(world).failures == 2);
    // The first began, two failed, and then it was paused.
    CHECK(Occurred(world).size() == 3);
  };
  SUBCASE("at once") {
    catches_up([&] { world.Elapse(0s); });
  }
  SUBCASE("before another version") {
    catches_up([&] { DefineText(world, source); });
  }
  SUBCASE("before a pause") {
    catches_up([&] {
      (void)world.Do([](Engine& e) { return e.schedules().SetPaused("ns", "s", true, "", ""); });
    });
  }
}

TEST_CASE("what cannot be carried out is a dead letter that can be tried again") {
  World world;
  GoTo(world, At("2026-01-01T00:30:00Z"));
  DefineAll(world, "schedule: s\nevery: 1h\nstart: {machine: report, id: fixed, params: "
                   "{at: \"${schedule.unix}\"}}\n");
  world.Elapse(2h);
  const auto all = Occurred(world);
  REQUIRE(all.size() == 2);
  CHECK(all[0].outcome == OccurrenceOutcome::kStarted);
  CHECK(all[1].outcome == OccurrenceOutcome::kFailed);
  REQUIRE(world.Report(world.ReadyOne(), "ok"));
  world.Elapse(1h);
  const auto third = Occurred(world).back();
  CHECK(third.outcome == OccurrenceOutcome::kFailed);
  CHECK(third.error.find("exists already") != std::string::npos);
  auto retry = [&] {
    return world.Do([&](Engine& e) { return e.schedules().Retry("ns", "s", third.id); });
  };
  auto again = retry();
  REQUIRE(again);
  CHECK(again->outcome == OccurrenceOutcome::kFailed);
  CHECK(again->tries == 2);
  DefineText(world, "schedule: s\nevery: 1h\nstart: {machine: report}\n");
  CHECK(StateOf(world).failures == 1);  // SUCCESS came before it, and it is one failure
  again = retry();
  REQUIRE(again);
  CHECK(again->outcome == OccurrenceOutcome::kStarted);
  CHECK(again->instance == "s-20260101T030000Z");
  CHECK(again->version == 2);
  auto refused = retry();
  REQUIRE_FALSE(refused);
  CHECK(refused.error().reason == Reason::kNotHeld);
}

TEST_CASE("neither a clock set back nor a new version repeats a time") {
  World world;
  GoTo(world, At("2026-01-01T00:30:00Z"));
  DefineAll(world, "schedule: s\nevery: 1h\noverlap: allow\nstart: {machine: report}\n");
  world.Elapse(2h);
  CHECK(Occurred(world).size() == 2);
  world.Advance(-2h);
  world.Crash();
  DefineText(world, "schedule: s\nevery: 30m\noverlap: allow\nstart: {machine: report}\n");
  world.Elapse(110min);
  CHECK(Occurred(world).size() == 2);
  world.Elapse(11min);
  CHECK(Lines(world).back() == "20260101T023000Z STARTED s-20260101T023000Z");
  // Nor does it make up for what the former version left out.
  DefineText(world, "schedule: s\nevery: 10m\noverlap: allow\nstart: {machine: report}\n");
  world.Elapse(5min);
  CHECK(Occurred(world).size() == 3);
}

TEST_CASE("a time that only jitter delays is not lost with the version that announced it") {
  World world;
  GoTo(world, At("2026-01-01T00:00:30Z"));
  const auto with = [](const std::string& keys) {
    return "schedule: s\n" + keys + "\noverlap: allow\nstart: {machine: report}\n";
  };
  const std::string jittered = with("every: 10m\njitter: 10m");
  DefineAll(world, jittered);
  const rows::ScheduleState state = StateOf(world);
  REQUIRE(state.next_time == At("2026-01-01T00:10:00Z"));
  REQUIRE(state.next_begin > At("2026-01-01T00:11:00Z"));
  GoTo(world, At("2026-01-01T00:10:30Z"));
  const std::string first = "20260101T001000Z STARTED s-20260101T001000Z";
  SUBCASE("it begins where the next version has no jitter") {
    DefineText(world, with("every: 10m"));
    CHECK(Lines(world) == Strings{first});
    world.Elapse(10min);
    CHECK(Lines(world).size() == 2);
  }
  SUBCASE("it begins where the next version has other times") {
    DefineText(world, with("every: 7m\njitter: 1s"));
    CHECK(Lines(world) == Strings{first});
  }
  SUBCASE("it waits on where the next version delays it, too") {
    DefineText(world, with("every: 10m\njitter: 10m\ndescription: new"));
    CHECK(Occurred(world).empty());
    world.Elapse(10min);
    CHECK(Lines(world).front() == first);
  }
}

TEST_CASE("a schedule that is defined at one of its times begins with the next one") {
  World world;
  GoTo(world, At("2026-01-01T01:00:00Z"));
  DefineAll(world, "schedule: s\nevery: 1h\ncount: 1\noverlap: allow\nstart: {machine: report}\n");
  world.Drain();
  CHECK(Occurred(world).empty());
  world.Elapse(1h);
  CHECK(Lines(world) == Strings{"20260101T020000Z STARTED s-20260101T020000Z"});
}

TEST_CASE("a schedule ends, is deleted, and is defined again") {
  World world;
  GoTo(world, At("2026-01-01T00:30:00Z"));
  DefineAll(world, "schedule: s\nevery: 1h\ncount: 2\noverlap: allow\nstart: {machine: report}\n");
  world.Elapse(5h);
  CHECK(Occurred(world).size() == 2);
  CHECK(StateOf(world).next_time == kNever);
  REQUIRE(world.Do([&](Engine& e) { return e.documents().Delete(Named("s"), "ann"); }));
  CHECK_FALSE(world.Do([&](Engine& e) { return e.schedules().Run({.ns = "ns", .name = "s"}); }));
  DefineText(world, "schedule: s\nevery: 1h\noverlap: allow\nstart: {machine: report}\n");
  world.Elapse(1h);
  CHECK(Occurred(world).size() == 3);
  CHECK(Occurred(world).back().version == 2);
}

TEST_CASE("a run by hand has an id of its own") {
  World world;
  GoTo(world, At("2026-01-01T00:30:00Z"));
  DefineAll(world, "schedule: s\nevery: 1h\npaused: not yet\nstart: {machine: report, params: "
                   "{a: 1, kind: \"${schedule.kind}\"}}\n");
  CHECK(StateOf(world).note == "not yet");
  auto run = [&](RunArgs args) {
    args.ns = "ns";
    args.name = "s";
    return world.Do([&](Engine& e) { return e.schedules().Run(args); });
  };
  auto first = run({.params = R"({"a":2})"});
  REQUIRE(first);
  CHECK(first->instance == "s-20260101T003000Z-run-1");
  CHECK(first->id == "20260101T003000Z");
  auto spec = rows::GetSpec({world.store(), world.partition()}, {"ns", first->instance});
  REQUIRE(spec);
  CHECK(spec->params == R"({"a":2,"kind":"MANUAL"})");
  auto left_out = run({});
  REQUIRE_FALSE(left_out);
  CHECK(left_out.error().reason == Reason::kLimitReached);
  CHECK(left_out.error().message.find("schedules run --overlap wait") != std::string::npos);
  CHECK(left_out.error().message.find("--on-conflict") == std::string::npos);
  auto second = run({.overlap = Overlap::kAllow, .time = At("2026-01-01T00:30:00Z")});
  REQUIRE(second);
  CHECK(second->id == "20260101T003000Z.2");
  CHECK(second->instance == "s-20260101T003000Z-run-2");
}

TEST_CASE("a run by hand of what sends has no overlap") {
  World world;
  GoTo(world, At("2026-01-01T00:30:00Z"));
  DefineAll(world, "schedule: s\nevery: 1h\nsend: {instance: i, transition: ok}\n");
  auto run = [&](std::optional<Overlap> overlap) {
    return world.Do([&](Engine& e) {
      return e.schedules().Run({.ns = "ns", .name = "s", .overlap = overlap});
    });
  };
  auto refused = run(Overlap::kSkip);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().reason == Reason::kBadRequest);
  CHECK(Occurred(world).empty());
  auto failed = run({});
  REQUIRE(failed);
  CHECK(failed->outcome == OccurrenceOutcome::kFailed);  // there is no such instance
}

TEST_CASE("a pass takes so many schedules, and leaves the rest to the next") {
  World world;
  GoTo(world, At("2026-01-01T00:30:00Z"));
  std::string many(kScheduled);
  for (int i = 0; i < 600; ++i) {
    many += "schedule: s" + std::to_string(i) +
            "\nevery: 1h\nstart: {machine: report}\n" + (i == 599 ? "" : "---\n");
  }
  DefineText(world, many);
  GoTo(world, At("2026-01-01T01:00:00Z"));
  world.Decide();
  world.Commit();
  auto taken = [&] {
    size_t count = 0;
    for (const Event& event : world.Feed()) count += event.kind == ChangeKind::kOccurred ? 1 : 0;
    return count;
  };
  CHECK(taken() == 500);
  CHECK(world.engine().WorkLeft());
  world.Drain();
  CHECK(taken() == 600);
}

// The times of January 1 to 5 at 03:00.
BackfillArgs January() {
  return {.ns = "ns",
          .name = "s",
          .version = 1,
          .from = At("2026-01-01T00:00:00Z"),
          .to = At("2026-01-05T23:59:59Z"),
          .max_running = 1,
          .group = "g",
          .total = 5};
}

TEST_CASE("a backfill makes each of its times once, whatever crashes") {
  for (int crash = -1; crash < 12; ++crash) {
    CAPTURE(crash);
    World world;
    GoTo(world, At("2026-02-01T00:30:00Z"));
    DefineAll(world, "schedule: s\ncron: 0 3 * * *\njitter: 1h\nstart: {machine: report}\n");
    int turn = 0;
    auto commit = [&] {
      if (turn++ == crash) world.Crash();
      world.Commit();
    };
    bool begun = false;
    for (int round = 0; round < 12; ++round) {
      world.Decide([&](Engine& e) {
        if (!e.groups().Get("ns", "g")) {
          REQUIRE(e.backfills().Begin(January()));
        } else {
          begun = true;
        }
      });
      commit();
      auto settled = world.Do([](Engine& e) { return e.Settle("ns", ""); });
      REQUIRE(settled);
      for (const Occurrence& one : Occurred(world)) {
        auto instance = world.Get(one.instance);
        REQUIRE(instance);
        if (instance->state != InstanceState::kRunning) continue;
        world.Decide([&](Engine& e) {
          (void)e.Report("ns", one.instance, {.transition = "ok"}, {});
        });
        commit();
        break;
      }
    }
    CHECK(begun);
    Strings ids;
    for (const Occurrence& one : Occurred(world)) {
      CHECK(one.kind == OccurrenceKind::kBackfill);
      ids.push_back(one.instance);
    }
    CHECK(ids == Strings{"s-20260101T030000Z", "s-20260102T030000Z", "s-20260103T030000Z",
                         "s-20260104T030000Z", "s-20260105T030000Z"});
    CHECK(world.Do([](Engine& e) { return e.groups().Get("ns", "g"); })->to_come == 0);
    CHECK(StateOf(world).failures == 0);
  }
}

TEST_CASE("what a backfill finds stays, or runs again") {
  World world;
  GoTo(world, At("2026-02-01T00:30:00Z"));
  DefineAll(world, "schedule: s\ncron: 0 3 * * *\nstart: {machine: report}\n");
  const Parsed parsed = ParseDefinitions("schedule: s\ncron: 0 3 * * *\nstart: {machine: m}", "t");
  const ScheduleSource& source = *std::get<0>(parsed.documents.front().body);
  const ScheduleTimes times(*source.calendar, "ns", "s", kNever);
  std::map<std::string, FormerRun> runs;
  bool sent = false;
  const Former former{[&](const std::string& id) -> Result<std::optional<FormerRun>> {
                        auto run = runs.find(id);
                        if (run == runs.end()) return std::optional<FormerRun>();
                        return std::optional(run->second);
                      },
                      [&](Timestamp) { return Result<bool>(sent); }};
  auto of = [&](const ScheduleSource& one, Again again) {
    auto found = SuffixOf(one, times, "s", At("2026-01-01T03:00:00Z"), again, former);
    REQUIRE(found);
    return found->value_or("stays");
  };
  auto suffix = [&](Again again) { return of(source, again); };
  CHECK(suffix(Again::kNone).empty());
  CHECK(suffix(Again::kFailed).empty());
  runs["s-20260101T030000Z"] = {false, InstanceResult::kPending};
  CHECK(suffix(Again::kAll) == "stays");
  runs["s-20260101T030000Z"] = {true, InstanceResult::kSuccess};
  CHECK(suffix(Again::kNone) == "stays");
  CHECK(suffix(Again::kFailed) == "stays");
  CHECK(suffix(Again::kAll) == "-again-1");
  runs["s-20260101T030000Z"] = {true, InstanceResult::kCancelled};
  CHECK(suffix(Again::kFailed) == "-again-1");
  runs["s-20260101T030000Z-again-1"] = {true, InstanceResult::kSuccess};
  CHECK(suffix(Again::kFailed) == "stays");
  CHECK(suffix(Again::kAll) == "-again-2");

  const Parsed sends =
      ParseDefinitions("schedule: s\ncron: 0 3 * * *\nsend: {instance: i, transition: ok}", "t");
  const ScheduleSource& sending = *std::get<0>(sends.documents.front().body);
  CHECK(of(sending, Again::kNone).empty());
  sent = true;
  CHECK(of(sending, Again::kNone) == "stays");
  CHECK(of(sending, Again::kFailed) == "stays");
  CHECK(of(sending, Again::kAll).empty());
}

TEST_CASE("a dead letter outlives what is delivered after it") {
  constexpr size_t kPiece = 500;
  World world;
  int64_t second = 0;
  auto add = [&](OccurrenceOutcome outcome, size_t count) {
    for (size_t left = count; left > 0;) {
      const size_t piece = std::min(left, kPiece);
      left -= piece;
      (void)world.Do([&](Engine& e) -> Result<Ok> {
        for (size_t i = 0; i < piece; ++i) {
          Occurrence one;
          one.time = Timestamp(std::chrono::seconds(++second));
          one.outcome = outcome;
          REQUIRE(e.occurrences().Add(Named("s"), std::move(one)));
        }
        return Ok{};
      });
    }
  };
  auto head = [&] {
    auto found = rows::GetOccurrenceHead({world.store(), world.partition()}, Named("s"));
    REQUIRE(found);
    return *found;
  };
  auto listed = [&](OccurrenceOutcome outcome) {
    const auto all = Occurred(world);
    return std::ranges::count(all, outcome, &Occurrence::outcome);
  };
  using enum OccurrenceOutcome;
  add(kFailed, 3);
  add(kSent, Occurrences::kKept + 7);
  CHECK(listed(kFailed) == 3);
  CHECK(listed(kSent) == Occurrences::kKept - 3);
  CHECK(head().failed == 3);
  CHECK(head().lost == 0);
  // Once it is dropped, it is as old as it is.
  REQUIRE(world.Do([&](Engine& e) {
    return e.occurrences().Drop(Named("s"), StampText(At("1970-01-01T00:00:02Z")));
  }));
  CHECK(listed(kDropped) == 1);
  add(kSent, 1);
  CHECK(listed(kDropped) == 0);
  CHECK(listed(kSent) == Occurrences::kKept - 2);
  // Too many of them.
  add(kFailed, Occurrences::kKept + 1);
  CHECK(listed(kFailed) == Occurrences::kKept);
  CHECK(head().lost == 3);
  add(kSent, 1);
  CHECK(listed(kSent) == 1);
  CHECK(listed(kFailed) == Occurrences::kKept - 1);
  CHECK(head().lost == 4);
  CHECK(head().failed == Occurrences::kKept - 1);
}

TEST_CASE("a schedule that cannot be used is refused") {
  World world;
  GoTo(world, At("2026-01-01T00:30:00Z"));
  world.Define("id: strict\nparams: {type: object, required: [day], properties: {day: {type: "
               "integer}}}\nnodes: {a: {start: true, transitions: {ok: b}}, b: {final: true}}");
  auto wrong = [&](const std::string& text) {
    const auto all = TryDefineText(world, "schedule: s\n" + text);
    return all.empty() ? std::string() : all.front();
  };
  CHECK(wrong("every: 1h\nstart: {machine: strikt}").find("did you mean 'strict'") !=
        std::string::npos);
  CHECK(wrong("every: 1h\nstart: {machine: strict}").starts_with("start"));
  CHECK(wrong("every: 1h\nstart: {machine: strict, params: {day: \"${schedule.date}\"}}")
            .starts_with("start.params"));
  CHECK(wrong("every: 1h\nstart: {machine: strict, params: {day: \"${schedule.unix}\"}}").empty());
  CHECK(wrong("cron: 0 0 30 2 *\nstart: {machine: strict, params: {day: 1}}").starts_with("cron"));
}

}  // namespace
}  // namespace dfsmr
