#include "tests/sim/sim.h"

#include <algorithm>
#include <cstdio>

#include "storage/rows/feed.h"
#include "tests/sim/definitions.h"

namespace dfsmr {
namespace {

std::string Text(const Event& event) {
  char text[400];
  std::snprintf(text, sizeof text,
                "%5lu %9.3f %-12s v%u kind %2d  %s -%s-> %s  visit %lu attempt %u left %lu %s",
                event.seq, static_cast<double>(Micros(event.time) % 1'000'000'000'000) / 1e6,
                event.instance.c_str(), event.version, static_cast<int>(event.kind),
                event.prev_node.c_str(), event.transition.c_str(), event.node.c_str(), event.visit,
                event.attempt, event.left_visit, event.note.c_str());
  return text;
}

}  // namespace

// The run ----------------------------------------------------------------------------------------

EngineOptions Sim::Options(Random& random, bool few, bool retention, bool portions) {
  EngineOptions options;
  options.stats_every = 1s;
  options.cached_instances = few ? 1 + random.Below(6) : 1'000;
  if (portions) options.steps_at_once = options.portion = 1 + random.Below(5);
  if (retention) options.retention = Duration(5'000'000 + random.Below(30'000'000));
  return options;
}

Sim::Sim(uint64_t seed, Store* below, bool trace)
    : random_(seed),
      of_groups_(~seed),
      groups_(of_groups_.Chance(40)),
      of_dry_(seed * 3 + 1),
      dry_(of_dry_.Chance(35)),
      of_times_(seed * 7 + 3),
      busy_(of_times_.Chance(5)),
      of_resumes_(seed * 5 + 2),
      resumes_(of_resumes_.Chance(50)),
      of_more_(seed * 9 + 5),
      more_(of_more_.Chance(25)),
      of_drills_(seed * 13 + 7),
      of_more_drills_(seed * 19 + 8),
      drill_(DrawDrill()),
      of_names_(seed * 29 + 13),
      names_(of_names_.Chance(10)),
      of_forces_(seed * 23 + 11),
      forces_(of_forces_.Chance(8)),
      of_crowds_(seed * 17 + 4),
      crowds_(of_crowds_.Chance(30)),
      of_limits_(~seed * 3),
      limits_(of_limits_.Chance(35)),
      trace_(trace),
      on_([this] {
        const size_t mix = random_.Below(10);
        const bool drills = drill_ != DrillKind::kNone;
        machines_ = (mix < 6 || busy_) && !drills;
        plans_ = (mix >= 5 && !busy_) || drills;
        std::set<Fault> on;
        for (size_t i = 0; i < static_cast<size_t>(Fault::kLimits); ++i) {
          if (random_.Chance(50)) on.insert(static_cast<Fault>(i));
        }
        if (plans_) on.erase(Fault::kRetention);
        if (on.contains(Fault::kRetention) && random_.Chance(50)) on.erase(Fault::kRetention);
        if (drills) on.insert({Fault::kResume, Fault::kOperator});
        if (crowds_ && groups_) on.insert(Fault::kCrash);
        if (drill_ == DrillKind::kPlanners) on.insert({Fault::kRepeated, Fault::kPlanner});
        return on;
      }()),
      store_(below ? *below : static_cast<Store&>(memory_)),
      options_(Options(random_, On(Fault::kEviction), On(Fault::kRetention), On(Fault::kPortions))),
      world_(options_, &store_),
      lockstep_(world_, below ? *below : memory_, options_.retention) {
  world_.Watch(&lockstep_);
  world_.OnCommit([this](const Turn& turn, const std::vector<Event>& events) {
    Committed(turn, events);
  });
  const size_t length = random_.Below(100);
  steps_ = static_cast<int>(length < 80   ? 10 + random_.Below(30)
                            : length < 99 ? 50 + random_.Below(70)
                                          : 300);
  if (busy_) steps_ = 300;
  if (drill_ != DrillKind::kNone) steps_ = 100;
  if (On(Fault::kEviction)) Hit(Fault::kEviction);
  if (plans_ && On(Fault::kPortions)) Hit(Fault::kPortions);
  world_.KeepJobs(On(Fault::kOffload));
  if (limits_) lockstep_.OnlyFollow();
  sizes_ = DrawSizes();
  StartAgain();
  DefineAll();
}

// Of the feed's pages, of the portions that watchers get, and of what memory holds for them.
ChangesSizes Sim::DrawSizes() {
  rows::PageSizes pages;
  if (of_more_.Chance(50)) pages.records = 1 + of_more_.Below(8);
  if (of_more_.Chance(30)) pages.bytes = 1 + of_more_.Below(2'000);
  rows::SetPageSizes(pages);
  ChangesSizes sizes;
  if (of_more_.Chance(40)) sizes.portion_bytes = 1 + of_more_.Below(100);
  if (of_more_.Chance(40)) sizes.portion_scanned = 1 + of_more_.Below(50);
  if (more_ && of_more_.Chance(40)) sizes.recent_bytes = 1 + of_more_.Below(20'000);
  return sizes;
}

void Sim::DefineAll() {
  plan_keys_ = random_.Chance(50);
  if (drill_ != DrillKind::kNone) source_ = DrillDefinitions(of_drills_, drill_);
  if (plans_ && source_.empty()) source_ = Everything(random_, plan_keys_, On(Fault::kPlanner));
  for (int i = 0; machines_ && i < 3; ++i) {
    if (!source_.empty()) source_ += "\n---\n";
    source_ += MachineText("m" + std::to_string(i), "continue");
  }
  if (machines_ && names_) {
    source_ += "\n---\nid: " + LongName('x') + "\nnodes:\n  " + LongName('n') +
               ": {start: true, transitions: {ok: end}}\n  end: {final: true}\n";
  }
  singletons_ = limits_ || source_.find("singleton") != std::string::npos ||
                source_.find("limit") != std::string::npos;
  if (trace_) std::printf("%s\n", source_.c_str());
  auto machines = ParseMachines(source_);
  auto defined = Do([&](Asked& engine) { return engine.Define(std::move(machines)); });
  Expect(defined.has_value(),
         "the definitions were refused: " + (defined ? "" : defined.error().message));
}

std::string Sim::MachineText(const std::string& id, const std::string& strategy) {
  const bool kept = On(Fault::kRetention) && of_times_.Chance(30);
  const std::string retention =
      kept ? "retention: " + std::to_string(1 + of_times_.Below(40)) + "s\n" : "";
  if (busy_) return retention + BusyMachine(of_times_, id, strategy);
  return retention + RandomMachine(random_, id, strategy, limits_ ? &of_limits_ : nullptr,
                                   more_ ? &of_more_ : nullptr);
}

std::string Sim::Run() {
  for (int step = 0; step < steps_ && problem_.empty(); ++step) {
    Step();
    Expect(lockstep_.problem().empty(), lockstep_.problem());
    const int often = drill_ == DrillKind::kNone ? 100 : 10;
    if (step % often == often - 1) Verify();
  }
  if (problem_.empty()) Verify();
  if (problem_.empty()) world_.KeepJobs(false);
  if (problem_.empty()) Rebuilt();
  if (problem_.empty()) Finish();
  if (problem_.empty()) Verify();
  Expect(lockstep_.problem().empty(), lockstep_.problem());
  if (trace_) PrintFeed();
  return problem_;
}

void Sim::Expect(bool good, const std::string& what) {
  if (good || !problem_.empty()) return;
  problem_ = what;
  Note("WRONG: " + what);
}

void Sim::Note(const std::string& what) {
  if (!trace_) return;
  std::printf("%9.3f %s\n", static_cast<double>(Micros(world_.now()) % 1'000'000'000'000) / 1e6,
              what.c_str());
}

void Sim::PrintFeed() {
  for (const auto& [seq, event] : ledger_) std::printf("%s\n", Text(event).c_str());
}

// The server -------------------------------------------------------------------------------------

void Sim::Step() {
  ++step_;
  InjectFault();
  if (world_.InFlight()) Hit(Fault::kSlowWrite);
  world_.Decide([this](Engine& asked) {
    Asked engine(asked, lockstep_);
    do {
      for (size_t n = random_.Below(5); n > 0; --n) Command(engine);
      OrderGroups(asked);
      OrderLimits(asked);
      DryRun(asked);
      ResumeStopped(engine);
      ForceSome(engine);
      if (drill_ != DrillKind::kNone) Drill(engine);
      if (world_.jobs() > 0 && random_.Chance(30)) {
        Hit(Fault::kOffload);
        world_.FinishJob();
      }
    } while (Joined());
  });
  const bool slow = Draw(Fault::kSlowWrite, 60);
  if (world_.failed().empty() && world_.InFlight() && !slow && world_.Write()) {
    store_.Heal();
    Watch();  // what is written is not published yet
    world_.Answer();
  }
  if (!world_.failed().empty()) {
    Expect(store_.failed(), "the engine gave up on a sound store: " + world_.failed());
    if (armed_) Hit(*armed_);
    Note("crash: " + world_.failed());
    return StartAgain();
  }
  store_.Heal();
  CheckLimits();
  Watch();
  PassTime();
  CrashSometimes();
}

// Whether more comes for this turn while the last one is written, which may end meanwhile.
bool Sim::Joined() {
  if (!world_.InFlight() || !Draw(Fault::kJoined, 40)) return false;
  Hit(Fault::kJoined);
  world_.Advance(Duration(random_.Below(20'000)));
  if (random_.Chance(30)) world_.Commit();
  return world_.NextPass();
}

// What is armed here shows, if at all, before the step is over.
void Sim::InjectFault() {
  armed_.reset();
  if (Draw(Fault::kTornWrite, 2)) {
    armed_ = Fault::kTornWrite;
    store_.FailNextWrite(FaultyStore::Outcome::kTorn);
  } else if (Draw(Fault::kUnknownWrite, 2)) {
    armed_ = Fault::kUnknownWrite;
    store_.FailNextWrite(FaultyStore::Outcome::kKept);
  } else if (Draw(Fault::kFailedRead, 3)) {
    armed_ = Fault::kFailedRead;
    store_.FailReadsAfter(random_.Below(20));
  }
}

void Sim::PassTime() {
  latest_ = std::max(latest_, world_.now());
  const size_t dice = random_.Below(200);
  if (dice < 120) {
    world_.Advance(Duration(random_.Below(50'000)));
  } else if (dice < 190) {
    world_.Advance(Duration(random_.Below(2'000'000)));
  } else if (dice < 194) {
    world_.Advance(Duration(random_.Below(60'000'000)));
  } else if (dice < 197 && On(Fault::kClockBack)) {
    Hit(Fault::kClockBack);
    Note("the clock goes back");
    world_.Advance(-Duration(random_.Below(dice == 194 ? 4'000'000'000 : 30'000'000)));
  } else if (dice >= 197 && On(Fault::kClockForward)) {
    Hit(Fault::kClockForward);
    Note("the clock jumps ahead");
    world_.Advance(Duration(random_.Below(dice == 199 ? 86'400'000'000 : 3'600'000'000)));
  }
}

void Sim::CrashSometimes() {
  if (std::exchange(crash_soon_, false) || Draw(Fault::kCrash, 2)) {
    Hit(Fault::kCrash);
    Note("crash");
    StartAgain();
    if (std::exchange(verify_soon_, false)) Verify();
  } else if (Draw(Fault::kCrashWritten, 2) && world_.InFlight()) {
    Hit(Fault::kCrashWritten);
    Note("crash, written");
    REQUIRE(world_.Write());
    StartAgain();
  } else if (Draw(Fault::kTakeOver, 2)) {
    Hit(Fault::kTakeOver);
    TakeOver();
  } else if (Draw(Fault::kRestart, 1)) {
    Hit(Fault::kRestart);
    Note("restart");
    world_.Decide([this](Engine& asked) {
      Asked engine(asked, lockstep_);
      engine.StopHandingOut();
      engine.Flush();
    });
    world_.Commit();
    StartAgain();
  }
}

// After a crash: all that was only in memory is gone, of the server and of those connected to it.
void Sim::StartAgain() {
  store_.Heal();
  undelivered_.clear();
  polls_.clear();
  streams_.clear();
  if (Draw(Fault::kClockBackRestart, 30)) {
    Hit(Fault::kClockBackRestart);
    world_.Advance(-Duration(random_.Below(600'000'000)));
  }
  if (Draw(Fault::kFailedStart, 30)) {
    store_.FailReadsAfter(random_.Below(60));
    if (!world_.TryCrash()) Hit(Fault::kFailedStart);
    store_.Heal();
  }
  world_.Crash();
  Extend();
  groups_audit_.Crashed(world_.engine().last_seq());
  const FeedEnd head{world_.partition(), world_.engine().last_seq(), 7};
  changes_ = std::make_unique<Changes>(
      store_, head, no_threads_,
      [](const Event& event, PartitionId) { return std::to_string(event.seq); }, sizes_);
}

// What was written and never published: nobody was told, but it has happened.
void Sim::Extend() {
  const uint64_t known = ledger_.empty() ? 0 : ledger_.rbegin()->first;
  Expect(world_.engine().last_seq() >= known, "records that were published are gone");
  std::vector<Event> unheard = world_.Feed(known + 1);
  groups_audit_.Told(unheard, /*turns=*/true);
  for (Event& event : unheard) {
    Expect(ledger_.empty() || event.seq == ledger_.rbegin()->first + 1, "gap: " + Text(event));
    if (event.kind == ChangeKind::kFinished) finished_.insert(event.instance);
    if (event.kind == ChangeKind::kUpgraded) NumbersChange("");  // it holds what it asks for
    ledger_.emplace(event.seq, std::move(event));
  }
}

void Sim::Committed(const Turn& turn, const std::vector<Event>& events) {
  groups_audit_.Told(events);
  for (const Event& event : events) {
    Expect(event.seq == (ledger_.empty() ? 1 : ledger_.rbegin()->first + 1),
           "published out of order: " + Text(event));
    if (event.kind == ChangeKind::kFinished) finished_.insert(event.instance);
    if (event.kind == ChangeKind::kUpgraded) NumbersChange("");  // it holds what it asks for
    if (event.node.ends_with("/error") && !IsDryRun(event)) {
      failed_.emplace_back(event.instance, event.node.substr(0, event.node.find('/')));
    }
    ledger_.emplace(event.seq, event);
  }
  if (!turn.feed->empty()) changes_->Publish(turn.feed);
  if (turn.feed_start) {
    Hit(Fault::kRetention);
    changes_->Trim(turn.feed_start);
  }
}

// The former owner does not know yet. It may write nothing; what it hands out without a write is
// as good as what was handed out just before.
void Sim::TakeOver() {
  Note("another engine takes over");
  World::Former former = world_.TakeOver();
  const auto write = [&](const Batch& batch) {
    if (batch.empty()) return;
    auto written = store_.Write(world_.partition(), former.engine->epoch(), batch);
    Expect(!written && written.error().code == Code::kAborted,
           "an engine wrote that had been superseded");
  };
  if (former.in_flight) write(*former.in_flight->batch);
  former.engine->BeginTurn(world_.now(), random_.Next());
  (void)former.engine->Start({.ns = "ns", .machine = AnyMachine(), .id = "late"});
  (void)former.engine->Poll({.filter = {.ns = "ns"}, .worker = "w", .max_tasks = 3},
                            [this](std::vector<Task> tasks) {
                              lockstep_.Strange(tasks);
                              Receive(std::move(tasks));
                            });
  former.engine->Work();
  for (auto& tell : former.engine->TakeAnswers()) tell();
  write(*former.engine->EndTurn().batch);
  StartAgain();
}

}  // namespace dfsmr
