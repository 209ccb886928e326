#include "tests/sim/schedules.h"

#include <algorithm>
#include <cstdio>

#include "dsrv/engine/documents.h"
#include "dsrv/engine/schedules.h"
#include "storage/rows/instance.h"
#include "storage/rows/occurrence.h"
#include "storage/rows/schedule.h"

namespace dfsmr {
namespace {

constexpr std::string_view kMachine = R"(
id: job
nodes:
  work: {start: true, transitions: {ok: done, bad: failed}}
  done: {final: true}
  failed: {final: true, result: error}
)";

int64_t SecondOf(Timestamp time) {
  return std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
}
Timestamp TimeOf(int64_t second) { return Timestamp(std::chrono::seconds(second)); }

rows::DocumentName NameOf(const std::string& name) {
  return {"ns", DocumentKind::kSchedule, name};
}

std::string LineOf(const std::string& id, std::string_view outcome, const std::string& instance) {
  return id + " " + std::string(outcome) + " " + instance;
}

}  // namespace

ScheduleSim::ScheduleSim(uint64_t seed, bool trace)
    : random_(seed * 7 + 3), trace_(trace), store_(memory_), world_({}, &store_) {
  world_.Define(kMachine);
  world_.Advance(500ms);  // no command comes on the second
}

void ScheduleSim::Expect(bool good, const std::string& what) {
  if (good || !problem_.empty()) return;
  problem_ = "schedules: " + what;
  Note("WRONG: " + what);
}

void ScheduleSim::Note(const std::string& what) {
  if (trace_) std::printf("%ld %s\n", now_, what.c_str());
}

std::string ScheduleSim::Run() {
  for (size_t step = 20 + random_.Below(60); step > 0 && problem_.empty(); --step) Step();
  return problem_;
}

void ScheduleSim::Step() {
  world_.Decide([this](Engine& engine) {
    now_ = SecondOf(engine.now());
    for (size_t n = random_.Below(4); n > 0; --n) Command(engine);
  });
  HearEnds();
  for (auto& [name, schedule] : decided_) TakeDue(name, &schedule);
  Commit();
  Verify();
  const size_t dice = random_.Below(100);
  const auto seconds = static_cast<int64_t>(dice < 70   ? random_.Below(20)
                                            : dice < 90 ? random_.Below(200)
                                                        : random_.Below(5'000));
  world_.Advance(std::chrono::seconds(dice >= 97 ? -seconds : seconds));
}

// How instances have ended is known before more of them begin.
void ScheduleSim::HearEnds() {
  for (const auto& [name, failed] : std::exchange(ended_, {})) {
    Schedule& schedule = decided_[name];
    if (!schedule.stands) continue;
    if (failed) Failed(name, &schedule);
    if (!failed) schedule.failures = 0;
  }
}

// The turn is written, or lost with its server.
void ScheduleSim::Commit() {
  const size_t dice = random_.Below(100);
  if (dice < 5) {
    Note("crash");
    world_.Crash();
    decided_ = durable_;
    return;
  }
  if (dice < 8) store_.FailNextWrite(FaultyStore::Outcome::kTorn);
  if (dice >= 8 && dice < 11) store_.FailNextWrite(FaultyStore::Outcome::kKept);
  world_.Commit();
  const bool failed = !world_.failed().empty();
  store_.Heal();
  if (failed) world_.Crash();
  if (failed && dice < 8) {
    Note("the write was torn");
    decided_ = durable_;
  } else {
    durable_ = decided_;
  }
}

// Commands --------------------------------------------------------------------------------------

void ScheduleSim::Command(Engine& engine) {
  const std::string name = random_.Of<std::string>({"a", "b", "c"});
  const Schedule& schedule = decided_[name];
  const size_t dice = random_.Below(100);
  if (!schedule.stands || dice < 8) {
    Define(engine, name);
  } else if (dice < 10) {
    Delete(engine, name);
  } else if (dice < 20) {
    Pause(engine, name, true);
  } else if (dice < 45) {
    Pause(engine, name, false);
  } else if (dice < 50) {
    RunNow(engine, name);
  } else {
    End(engine, name);
  }
}

std::string ScheduleSim::Text(const std::string& name, const Schedule& schedule) const {
  return "schedule: " + name + "\nevery: " + std::to_string(schedule.every) +
         "s\nmissed: {take: " + schedule.take + ", window: " + std::to_string(schedule.window) +
         "s" + (schedule.take == "all" ? ", max: " + std::to_string(schedule.max) : "") +
         "}\noverlap: " + (schedule.skips ? "skip" : "allow") +
         (schedule.stop_on_fail ? "\nstop_on_fail: " + std::to_string(schedule.stop_on_fail) : "") +
         "\nstart: {machine: job, params: {version: " + std::to_string(schedule.number) + "}}\n";
}

void ScheduleSim::Define(Engine& engine, const std::string& name) {
  Schedule& schedule = decided_[name];
  const bool first = !schedule.stands;
  if (!first) {
    HearEnds();
    TakeDue(name, &schedule);
  }
  schedule.stands = true;
  schedule.every = random_.Of<int64_t>({1, 7, 10, 30, 60, 300, 3'600});
  schedule.take = random_.Of<std::string>({"last", "skip", "all"});
  schedule.window = random_.Of<int64_t>({5, 100, 86'400});
  schedule.max = 1 + random_.Below(6);
  schedule.skips = random_.Chance(50);
  schedule.stop_on_fail = random_.Chance(60) ? 1 + static_cast<int>(random_.Below(3)) : 0;
  const int64_t newest = now_ / schedule.every * schedule.every;
  const std::string text = Text(name, schedule);
  Parsed parsed = ParseDefinitions(text, "sim");
  Expect(parsed.ok(), "a schedule was refused: " + text);
  if (!parsed.ok()) return;
  std::vector<DefineProblem> problems;
  auto defined = DefineAtOnce(engine, "ns", {{}, std::move(parsed.documents)}, false, &problems);
  Expect(defined.has_value(), "a schedule was refused: " + text);
  if (!defined) return;
  if (!defined->front().changed) return;
  Note("define " + name + " every " + std::to_string(schedule.every) + " " + schedule.take);
  if (first) {
    schedule.paused = false;
    schedule.failures = 0;
    schedule.position = std::max(schedule.position, now_);
  } else {
    schedule.position = std::max(schedule.position, newest);
  }
}

void ScheduleSim::Pause(Engine& engine, const std::string& name, bool paused) {
  Schedule& schedule = decided_[name];
  if (paused) {
    HearEnds();
    TakeDue(name, &schedule);
  }
  auto done = engine.schedules().SetPaused("ns", name, paused, "sim", "sim");
  Expect(done.has_value(), "a pause was refused");
  if (!paused && schedule.paused) {
    schedule.position = std::max(schedule.position, now_ / schedule.every * schedule.every);
    schedule.failures = 0;
  }
  if (schedule.paused != paused) Note((paused ? "pause " : "resume ") + name);
  schedule.paused = paused;
}

void ScheduleSim::Delete(Engine& engine, const std::string& name) {
  Note("delete " + name);
  Expect(engine.documents().Delete(NameOf(name), "sim").has_value(), "a deletion was refused");
  decided_[name].stands = false;
}

void ScheduleSim::RunNow(Engine& engine, const std::string& name) {
  Schedule& schedule = decided_[name];
  auto run = engine.schedules().Run({.ns = "ns", .name = name});
  const bool left_out = schedule.skips && !schedule.going.empty();
  Expect(run.has_value() != left_out, "a run by hand of " + name + " was left out, or not");
  if (!run) return;
  const std::string number = std::to_string(++schedule.number);
  const std::string instance = name + "-" + StampText(TimeOf(now_)) + "-run-" + number;
  Note("run " + instance);
  schedule.going.insert(instance);
  schedule.took.push_back(LineOf(FreeId(&schedule, now_), "STARTED", instance));
}

// One of its instances ends.
void ScheduleSim::End(Engine& engine, const std::string& name) {
  Schedule& schedule = decided_[name];
  if (schedule.going.empty()) return;
  auto which = schedule.going.begin();
  std::advance(which, random_.Below(schedule.going.size()));
  const bool failed = random_.Chance(50);
  auto answer = engine.Report("ns", *which, {.transition = failed ? "bad" : "ok"}, {});
  Expect(answer.has_value(), "the end of " + *which + " was refused");
  Note(*which + (failed ? " fails" : " succeeds"));
  schedule.going.erase(which);
  ended_.emplace_back(name, failed);
}

// What is expected -------------------------------------------------------------------------------

std::string ScheduleSim::FreeId(Schedule* schedule, int64_t time) {
  const std::string stamp = StampText(TimeOf(time));
  std::string id = stamp;
  for (int run = 2; !schedule->ids.insert(id).second; ++run) {
    id = stamp + "." + std::to_string(run);
  }
  return id;
}

void ScheduleSim::TakeDue(const std::string& name, Schedule* schedule) {
  if (!schedule->stands || schedule->paused) return;
  const int64_t every = schedule->every;
  std::vector<int64_t> due;
  for (int64_t time = now_ / every * every; time > schedule->position; time -= every) {
    due.push_back(time);
  }
  if (due.empty()) return;
  std::ranges::reverse(due);
  const int64_t newest = due.back();
  std::vector<int64_t> taken;
  auto fits = [&](int64_t time) { return now_ - time < schedule->window; };
  if (schedule->take == "all") {
    for (size_t i = due.size(); i-- > 0 && taken.size() < schedule->max && fits(due[i]);) {
      taken.insert(taken.begin(), due[i]);
    }
  } else if (fits(newest) && (schedule->take == "last" || now_ - newest < 60)) {
    taken.push_back(newest);
  }
  due.resize(due.size() - taken.size());
  if (!due.empty()) {
    ++schedule->number;
    schedule->took.push_back(LineOf(FreeId(schedule, due.front()), "MISSED",
                                    std::to_string(std::min<size_t>(due.size(), 10'000)) + " to " +
                                        StampText(TimeOf(due.back()))));
  }
  schedule->position = newest;
  for (int64_t time : taken) TakeOne(name, schedule, time);
}

void ScheduleSim::TakeOne(const std::string& name, Schedule* schedule, int64_t time) {
  ++schedule->number;
  const std::string instance = name + "-" + StampText(TimeOf(time));
  const bool left_out = schedule->skips && !schedule->going.empty();
  if (!left_out) schedule->going.insert(instance);
  schedule->took.push_back(
      LineOf(FreeId(schedule, time), left_out ? "SKIPPED" : "STARTED",
                                  left_out ? "" : instance));
}

void ScheduleSim::Failed(const std::string&, Schedule* schedule) {
  ++schedule->failures;
  if (schedule->stop_on_fail && schedule->failures >= schedule->stop_on_fail) {
    schedule->paused = true;
  }
}

// Whatever crashed: what is durable is what is expected.
void ScheduleSim::Verify() {
  const rows::Reader rows{memory_, world_.partition()};
  for (const auto& [name, schedule] : durable_) {
    std::vector<std::string> lines;
    auto scanned = rows::ScanOccurrences(rows, NameOf(name), UINT64_MAX, [&](const Occurrence& one) {
      const bool missed = one.outcome == OccurrenceOutcome::kMissed;
      lines.push_back(LineOf(one.id, Name(one.outcome),
                             missed ? std::to_string(one.count) + " to " +
                                          StampText(one.until_time)
                                    : one.instance));
      if (one.outcome == OccurrenceOutcome::kStarted) {
        auto spec = rows::FindSpec(rows, {"ns", one.instance});
        Expect(spec && *spec, one.instance + " is not there");
      }
      return true;
    });
    Expect(scanned.has_value(), "the occurrences can be read");
    std::ranges::reverse(lines);
    for (size_t i = 0; i < std::max(lines.size(), schedule.took.size()); ++i) {
      const std::string is = i < lines.size() ? lines[i] : "nothing";
      const std::string should = i < schedule.took.size() ? schedule.took[i] : "nothing";
      Expect(is == should, name + " has " + is + " instead of " + should);
    }
    auto state = rows::GetScheduleState(rows, "ns", name);
    if (!state || !*state || !schedule.stands) continue;
    Expect((*state)->paused == schedule.paused, name + " is paused, or not");
    Expect(static_cast<int>((*state)->failures) == schedule.failures,
           name + " has " + std::to_string((*state)->failures) + " failures instead of " +
               std::to_string(schedule.failures));
  }
}

}  // namespace dfsmr
