// Documents 'schedule:': every key, and a diagnostic at its place for each that cannot be used.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "fsm/when/schedule.h"
#include "fsm/yaml/definitions.h"

namespace dfsmr {
namespace {

// The diagnostics of `text`, as "LINE:COLUMN PATH: MESSAGE".
std::vector<std::string> Told(const std::string& text) {
  std::vector<std::string> told;
  for (const Diagnostic& one : ParseDefinitions(text, "f").diagnostics) {
    told.push_back(std::to_string(one.line) + ":" + std::to_string(one.column) + " " + one.path +
                   ": " + (one.error ? "" : "warning: ") + one.message);
  }
  return told;
}

// The first thing told of a schedule with this line, which is its second.
std::string Wrong(const std::string& line, const std::string& rest = "every: 1h\nstart: {machine: m}") {
  const auto told = Told("schedule: s\n" + line + "\n" + rest + "\n");
  return told.empty() ? "" : told.front();
}

const ScheduleSource& Sound(const Parsed& parsed) {
  REQUIRE_MESSAGE(parsed.ok(), (parsed.ok() ? "" : Format(parsed.diagnostics.front())));
  REQUIRE(parsed.documents.size() == 1);
  return *std::get<0>(parsed.documents.front().body);
}

TEST_CASE("a schedule is read with all its keys") {
  const Parsed parsed = ParseDefinitions(R"(
schedule: payroll
description: pays
cron: ["30 2 * * *", "0 4 * * MON"]
every: 2 weeks on FR at 17:00
at: [2026-12-24T18:00, 2026-12-31]
except: ["* * 24 12 *", 2026-01-01]
timezone: UTC
from: 2026-01-02
until: 2027-01-01
count: 100
jitter: 5m
start:
  machine: pay
  version: 3
  id: "pay-${schedule.date}"
  params: {since: "${schedule.previous}", n: 1}
  labels: {kind: "${schedule.kind}", fixed: yes}
  priority: -4
  group: "g-${schedule.date}"
  before: 4h
missed: {take: all, window: 3d, max: 7}
overlap: wait
stop_on_fail: 2
paused: not yet
)", "f");
  const ScheduleSource& schedule = Sound(parsed);
  CHECK(schedule.rules.cron.size() == 2);
  CHECK(schedule.rules.at.size() == 2);
  CHECK(schedule.rules.count == 100);
  CHECK(schedule.missed.take == MissedPolicy::Take::kAll);
  CHECK(schedule.missed.window == std::chrono::hours(72));
  CHECK(schedule.missed.max == 7);
  const LaunchStart* start = schedule.launch.start();
  REQUIRE(start);
  CHECK(start->machine == "pay");
  CHECK(start->version == 3);
  CHECK(start->id == "pay-${schedule.date}");
  CHECK(start->params == R"({"since":"${schedule.previous}","n":1})");
  CHECK(start->labels.size() == 2);
  CHECK(start->priority == -4);
  CHECK(start->before == std::chrono::hours(4));
  CHECK(schedule.launch.overlap == Overlap::kWait);
  CHECK(schedule.launch.stop_on_fail == 2);
  CHECK(schedule.launch.paused == "not yet");
}

TEST_CASE("what a schedule does not say has a default") {
  const Parsed parsed = ParseDefinitions("schedule: s\nevery: 1h\nstart: {machine: m}", "f");
  const ScheduleSource& schedule = Sound(parsed);
  CHECK(schedule.launch.overlap == Overlap::kSkip);
  CHECK(schedule.launch.stop_on_fail == 0);
  CHECK_FALSE(schedule.launch.paused);
  CHECK(schedule.missed.take == MissedPolicy::Take::kLast);
  CHECK(schedule.missed.window == std::chrono::hours(24));
  CHECK(schedule.calendar->zone().name() == "UTC");
}

TEST_CASE("a schedule may send a transition") {
  const Parsed parsed = ParseDefinitions(
      "schedule: s\nevery: 1h\nsend: {instance: main, transition: wake, node: a.b, params: {at: "
      "\"${schedule.unix}\"}}\nstop_on_fail: true",
      "f");
  const ScheduleSource& schedule = Sound(parsed);
  REQUIRE(schedule.launch.send());
  CHECK(schedule.launch.send()->node == "a.b");
  CHECK(schedule.launch.overlap == Overlap::kAllow);
  CHECK(schedule.launch.stop_on_fail == 1);
}

TEST_CASE("what is wrong is told where it is") {
  CHECK(Wrong("cron: 61 * * * *").starts_with("2:7 cron: "));
  CHECK(Wrong("cron: [\"* * * * *\", 61 * * * *]").starts_with("2:21 cron[1]: "));
  CHECK(Wrong("cron: 0 0 13 * FRI").starts_with("2:7 cron: warning: "));
  CHECK(Wrong("at: tomorrow").starts_with("2:5 at: "));
  CHECK(Wrong("except: never").starts_with("2:9 except: "));
  CHECK(Wrong("timezone: Nowhere/City").starts_with("2:11 timezone: "));
  CHECK(Wrong("from: soon").starts_with("2:7 from: "));
  CHECK(Wrong("count: 0").starts_with("2:8 count: "));
  CHECK(Wrong("count: 1000001").starts_with("2:8 count: "));
  CHECK(Wrong("jitter: 25h").starts_with("2:9 jitter: "));
  CHECK(Wrong("missed: {max: 7}").starts_with("2:15 missed.max: "));
  CHECK(Wrong("missed: some").starts_with("2:9 missed: "));
  CHECK(Wrong("overlap: fail").starts_with("2:10 overlap: "));
  CHECK(Wrong("stop_on_fail: 0").starts_with("2:15 stop_on_fail: "));
  CHECK(Wrong("paused: false").starts_with("2:9 paused: "));
  CHECK(Wrong("tiemzone: UTC").find("did you mean 'timezone'") != std::string::npos);
  CHECK(Wrong("send: {instance: a, transition: b}").starts_with("2:1 send: "));
  CHECK(Wrong("", "start: {machine: m}").find("write cron") != std::string::npos);
  CHECK(Wrong("", "every: 1h").find("'start'") != std::string::npos);
  CHECK(Wrong("start: {id: x}", "every: 1h").find("'machine'") != std::string::npos);
  CHECK(Wrong("start: {machine: m, id: a b}", "every: 1h").starts_with("2:25 start.id: "));
  CHECK(Wrong("start: {machine: m, id: \"${item.x}\"}", "every: 1h").starts_with("2:25 start.id: "));
  CHECK(Wrong("start: {machine: m, params: {a: [\"${schedule.dat}\"]}}", "every: 1h")
            .find("did you mean 'date'") != std::string::npos);
  CHECK(Wrong("send: {instance: a, transition: b}\noverlap: skip", "every: 1h")
            .starts_with("3:1 overlap: "));
}

}  // namespace
}  // namespace dfsmr
