#include "tests/sim/triggers.h"

#include <algorithm>
#include <cstdio>

#include "dsrv/engine/documents.h"
#include "dsrv/engine/triggers.h"
#include "fsm/base/json.h"
#include "storage/rows/instance.h"
#include "storage/rows/occurrence.h"

namespace dfsmr {
namespace {

// A job's key is a part of its id, and whether its launch can be filled in, too: j17.k2.bad
constexpr std::string_view kDefinitions = R"(
id: job
nodes:
  work: {start: true, transitions: {ok: done, bad: failed}}
  done: {final: true}
  failed: {final: true, result: error}
---
id: made
nodes:
  work: {start: true, transitions: {ok: done}}
  done: {final: true}
)";
constexpr std::string_view kPoll =
    "trigger: p\n"
    "on: {poll: {action: look, every: 10s}}\n"
    "start: {machine: made, id: \"p-${item.n}\", params: \"${item}\"}\n";
constexpr auto kDedupe = std::chrono::hours(1);

rows::DocumentName OfTrigger(const std::string& name) {
  return {"ns", DocumentKind::kTrigger, name};
}

std::string KeyOf(const std::string& job) {
  const size_t dot = job.find('.');
  return job.substr(dot + 1, 2);
}

std::string InstanceIn(std::string_view item) {
  const auto instance = json::Member(item, "instance");
  const auto id = instance ? json::Member(*instance, "id") : std::nullopt;
  return id ? json::Unquote(*id) : "?";
}

}  // namespace

TriggerSim::TriggerSim(uint64_t seed, bool trace)
    : random_(seed * 11 + 5), trace_(trace), store_(memory_), world_({}, &store_) {
  world_.Define(kDefinitions);
}

void TriggerSim::Expect(bool good, const std::string& what) {
  if (good || !problem_.empty()) return;
  problem_ = "triggers: " + what;
  Note("WRONG: " + what);
}

void TriggerSim::Note(const std::string& what) {
  if (trace_) std::printf("%s\n", what.c_str());
}

std::string TriggerSim::Run() {
  Change();
  for (size_t step = 20 + random_.Below(40); step > 0 && problem_.empty(); --step) Step();
  for (const char* name : {"a", "b"}) {
    if (triggers_[name].stands) Pause(name, false, false);
  }
  Quiet();
  return problem_;
}

void TriggerSim::Step() {
  const size_t turns = 1 + random_.Below(3);
  for (size_t turn = 0; turn < turns && problem_.empty(); ++turn) {
    world_.Decide([this](Engine& engine) {
      // At times more than a trigger takes in one pass.
      const size_t most = random_.Chance(5) ? 600 : 6;
      for (size_t n = random_.Below(most); n > 0; --n) {
        random_.Chance(60) ? StartOne(engine) : EndOne(engine);
      }
    });
    Write();
  }
  if (random_.Chance(50)) Poll();
  if (random_.Chance(60)) Quiet();
  if (random_.Chance(30)) Change();
  // Never so that an hour is over, or not, by what a trigger takes to look at a change.
  if (random_.Chance(20)) {
    Quiet();
    world_.Advance(std::chrono::minutes(25 * random_.Below(4)));
  }
  world_.Advance(std::chrono::seconds(random_.Below(8)));
}

// The turn is written, or lost with its server.
void TriggerSim::Write() {
  const size_t dice = random_.Below(100);
  if (dice < 10) {
    Note("crash");
    return world_.Crash();
  }
  if (dice < 13) store_.FailNextWrite(FaultyStore::Outcome::kTorn);
  if (dice >= 13 && dice < 16) store_.FailNextWrite(FaultyStore::Outcome::kKept);
  world_.Commit();
  const bool failed = !world_.failed().empty();
  store_.Heal();
  if (failed) world_.Crash();
}

void TriggerSim::Quiet() {
  world_.Commit();
  world_.Drain(10'000);
  world_.Commit();
  for (auto& [name, trigger] : triggers_) {
    if (!trigger.stands || trigger.paused) continue;
    for (const Event& event : world_.Feed(trigger.position + 1)) {
      LookAt(event, &trigger);
      trigger.position = event.seq;
    }
  }
  Verify();
}

// Commands ----------------------------------------------------------------------------------------

void TriggerSim::StartOne(Engine& engine) {
  const std::string id = "j" + std::to_string(++started_) + ".k" +
                         std::to_string(random_.Below(3)) + (random_.Chance(20) ? ".bad" : "");
  StartArgs args{.ns = "ns", .machine = "job", .id = id};
  args.spec.params = "{\"key\":" + json::Quote(KeyOf(id)) +
                     (id.ends_with(".bad") ? "}" : ",\"given\":" + json::Quote(id) + "}");
  Expect(engine.Start(std::move(args)).has_value(), "a start was refused");
}

// Any of the last ones: it may have ended, or been lost in a crash.
void TriggerSim::EndOne(Engine& engine) {
  const uint64_t number = started_ - random_.Below(std::min<uint64_t>(started_ + 1, 20));
  for (size_t key = 0; key < 3; ++key) {
    for (const char* end : {"", ".bad"}) {
      const std::string id = "j" + std::to_string(number) + ".k" + std::to_string(key) + end;
      (void)engine.Report("ns", id, {.transition = random_.Chance(70) ? "ok" : "bad"}, {});
    }
  }
}

void TriggerSim::Change() {
  Quiet();
  if (!problem_.empty()) return;
  if (!triggers_["p"].stands) {
    const auto defined = world_.Do([](Engine& engine) {
      std::vector<DefineProblem> problems;
      return DefineAtOnce(engine, "ns", {{}, ParseDefinitions(kPoll, "sim").documents}, false,
                          &problems);
    });
    Check(defined.has_value(), "the poll's trigger is sound");
    triggers_["p"].stands = triggers_["p"].paused = true;  // the model looks at it elsewhere
  }
  const std::string name = random_.Of<std::string>({"a", "b"});
  const size_t dice = random_.Below(100);
  if (!triggers_[name].stands || dice < 20) {
    Define(name);
  } else if (dice < 27) {
    Delete(name);
  } else if (dice < 60) {
    Pause(name, true, false);
  } else {
    Pause(name, false, random_.Chance(20));
  }
}

void TriggerSim::Define(const std::string& name) {
  Trigger& trigger = triggers_[name];
  const bool first = !trigger.stands;
  const bool gathered = trigger.gathers > 0;
  trigger.success = random_.Chance(50);
  trigger.dedupes = random_.Chance(30);
  // What is gathered stays so: with other numbers a gathering could be complete at once.
  trigger.gathers =
      first ? (random_.Chance(40) ? 2 + random_.Below(3) : 0) : (gathered ? trigger.gathers : 0);
  const std::string text =
      "trigger: " + name + "\ndescription: v" + std::to_string(random_.Below(1'000'000)) +
      "\non: {change: {kind: finished, machine: job" +
      (trigger.success ? ", result: success" : "") + "}}\n" +
      (trigger.dedupes ? "dedupe: {key: \"${item.instance.params.key}\", for: 1h}\n" : "") +
      (trigger.gathers > 0 ? "gather: {count: " + std::to_string(trigger.gathers) +
                                 ", by: \"${item.instance.params.key}\"}\n"
                           : "") +
      "start: {machine: made, params: {given: \"${item.instance.params.given}\"}}\n";
  Parsed parsed = ParseDefinitions(text, "sim");
  Expect(parsed.ok(), "a trigger is not read: " + text);
  if (!parsed.ok()) return;
  auto defined = world_.Do([&parsed](Engine& engine) {
    std::vector<DefineProblem> problems;
    return DefineAtOnce(engine, "ns", {{}, std::move(parsed.documents)}, false, &problems);
  });
  Expect(defined.has_value(), "a trigger was refused: " + text);
  Note("define " + name);
  if (!first) return;
  trigger.stands = true;
  trigger.paused = false;
  trigger.seen.clear();
  trigger.open.clear();
  trigger.position = 0;
  for (const Event& event : world_.Feed()) {
    if (event.kind == ChangeKind::kDefined && event.about &&
        event.about->cause == "trigger:" + name) {
      trigger.position = event.seq;
    }
  }
}

void TriggerSim::Pause(const std::string& name, bool paused, bool skip) {
  Quiet();
  Trigger& trigger = triggers_[name];
  auto done = world_.Do([&](Engine& engine) {
    return paused ? engine.triggers().Pause("ns", name, "sim", "sim")
                  : engine.triggers().Resume("ns", name, skip);
  });
  Expect(done.has_value(), "a pause was refused");
  Note((paused ? "pause " : skip ? "skip " : "resume ") + name);
  if (skip && trigger.paused) trigger.position = world_.engine().last_seq();
  if (!paused && trigger.paused) trigger.resumed = world_.now();
  trigger.paused = paused;
  Quiet();
}

void TriggerSim::Delete(const std::string& name) {
  Note("delete " + name);
  auto done =
      world_.Do([&](Engine& engine) { return engine.documents().Delete(OfTrigger(name), "sim"); });
  Expect(done.has_value(), "a deletion was refused");
  triggers_[name].stands = false;
}

// A worker of the poll's action. It gives some numbers from the cursor on, or nothing, or fails.
void TriggerSim::Poll() {
  for (const Task& task : world_.Ready({.action = "look"}, 10)) {
    if (task.action != "look") continue;
    const std::string cursor(*json::Member(task.node_params, "cursor"));
    const uint64_t from = cursor == "null" ? 0 : std::stoull(cursor);
    const size_t dice = random_.Below(100);
    ReportArgs report{.transition = dice < 10 ? "error" : "ok", .claim = task.claim};
    const uint64_t most = random_.Chance(10) ? 250 : 4;
    const uint64_t count = dice < 30 ? 0 : 1 + random_.Below(most);
    std::string items;
    for (uint64_t n = from; n < from + count; ++n) {
      items += (items.empty() ? "" : ",") + ("{\"n\":" + std::to_string(n) + "}");
    }
    report.output = "{\"items\":[" + items + "],\"cursor\":" + std::to_string(from + count) +
                    (random_.Chance(30) ? ",\"more\":true}" : "}");
    if (dice >= 90) report.output = "{\"items\":7}";
    if (dice < 10) report.output.clear();
    world_.Decide([&](Engine& engine) { (void)engine.Report("ns", task.instance, report, {}); });
    Write();
  }
}

// What is expected --------------------------------------------------------------------------------

void TriggerSim::LookAt(const Event& event, Trigger* trigger) {
  if (event.kind != ChangeKind::kFinished || event.machine != "job") return;
  if (trigger->success && !event.note.starts_with("SUCCESS")) return;
  const std::string key = KeyOf(event.instance);
  if (trigger->dedupes) {
    auto seen = trigger->seen.find(key);
    const Timestamp looked = std::max(event.time, trigger->resumed);
    if (seen != trigger->seen.end() && looked - seen->second < kDedupe) return;
    trigger->seen[key] = looked;
  }
  std::vector<std::string> items = {event.instance};
  if (trigger->gathers > 0) {
    std::vector<std::string>& open = trigger->open[key];
    open.push_back(event.instance);
    if (open.size() < trigger->gathers) return;
    items = std::exchange(open, {});
  }
  std::string line = items.back().ends_with(".bad") ? "FAILED" : "STARTED";
  for (const std::string& item : items) line += " " + item;
  trigger->took.push_back(line);
}

std::vector<std::string> TriggerSim::LinesOf(const std::string& name) {
  const rows::Reader rows{memory_, world_.partition()};
  std::vector<std::string> lines;
  const rows::DocumentName of = OfTrigger(name);
  auto scanned = rows::ScanOccurrences(rows, of, UINT64_MAX, [&](const Occurrence& one) {
    std::string line(Name(one.outcome));
    if (one.count == 0) line += " " + InstanceIn(one.item);
    if (one.count > 0) {
      json::ForEachItem(one.item, [&line](std::string_view item) {
        line += " " + InstanceIn(item);
        return true;
      });
    }
    lines.push_back(std::move(line));
    if (one.outcome != OccurrenceOutcome::kStarted) return true;
    auto spec = rows::FindSpec(rows, {"ns", one.instance});
    Expect(spec && *spec, one.instance + " is not there");
    return true;
  });
  Expect(scanned.has_value(), "the occurrences cannot be read");
  std::ranges::reverse(lines);
  return lines;
}

void TriggerSim::Verify() {
  for (const char* name : {"a", "b"}) {
    const auto& took = triggers_[name].took;
    const auto lines = LinesOf(name);
    for (size_t i = 0; i < std::max(lines.size(), took.size()); ++i) {
      const std::string is = i < lines.size() ? lines[i] : "nothing";
      const std::string should = i < took.size() ? took[i] : "nothing";
      Expect(is == should, std::string(name) + " has " + is + " instead of " + should);
    }
  }
  if (triggers_["p"].stands) VerifyPolls();
}

// The numbers that the workers gave, each once, in order, up to the cursor.
void TriggerSim::VerifyPolls() {
  const rows::Reader rows{memory_, world_.partition()};
  uint64_t next = 0;
  std::vector<std::string> items;
  (void)rows::ScanOccurrences(rows, OfTrigger("p"), UINT64_MAX, [&](const Occurrence& one) {
    items.push_back(one.item);
    return true;
  });
  std::ranges::reverse(items);
  for (const std::string& item : items) {
    const std::string should = "{\"n\":" + std::to_string(next++) + "}";
    Expect(item == should, "p has " + item + " instead of " + should);
  }
  auto row = rows::GetTrigger(rows, {"ns", "p"});
  if (!row || !*row) return Expect(false, "p has no row");
  const std::string& cursor = (**row).poll.front().cursor;
  Expect((cursor.empty() ? "0" : cursor) == std::to_string(next),
         "p has taken " + std::to_string(next) + " items, and its cursor is " + cursor);
}

}  // namespace dfsmr
