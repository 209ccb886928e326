#include "tests/sim/sim.h"

#include <algorithm>
#include <cstdio>

#include "storage/rows/feed.h"
#include "storage/rows/plan.h"
#include "tests/sim/definitions.h"

namespace dfsmr {
namespace {

constexpr std::string_view kOutput = R"({"v":1,"list":[1,2]})";

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
      of_limits_(~seed * 3),
      limits_(of_limits_.Chance(35)),
      trace_(trace),
      on_([this] {
        const size_t mix = random_.Below(10);
        machines_ = mix < 6 || busy_;
        plans_ = mix >= 5 && !busy_;
        std::set<Fault> on;
        for (size_t i = 0; i < static_cast<size_t>(Fault::kLimits); ++i) {
          if (random_.Chance(50)) on.insert(static_cast<Fault>(i));
        }
        if (plans_) on.erase(Fault::kRetention);
        if (on.contains(Fault::kRetention) && random_.Chance(50)) on.erase(Fault::kRetention);
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
  if (plans_) source_ = Everything(random_, plan_keys_, On(Fault::kPlanner));
  for (int i = 0; machines_ && i < 3; ++i) {
    if (!source_.empty()) source_ += "\n---\n";
    source_ += MachineText("m" + std::to_string(i), "continue");
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
    if (step % 100 == 99) Verify();
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
  const Cursor head{world_.partition(), world_.engine().last_seq(), 7};
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

// What is asked of it ----------------------------------------------------------------------------

std::string Sim::AnyMachine() {
  const bool plan = plans_ && (!machines_ || random_.Chance(50));
  return (plan ? "p" : "m") + std::to_string(random_.Below(3));
}

// One of those started here, or of those that they started.
std::string Sim::AnyId() {
  if (!hands_.empty() && random_.Chance(30)) return random_.Of(hands_).instance;
  const std::string id = "i" + std::to_string(random_.Below(plans_ ? 12 : 30));
  if (!plans_ || random_.Chance(80)) return id;
  return id + "/s" + std::to_string(random_.Below(4)) + "/" + std::to_string(random_.Below(3));
}

// A step that has failed, or one of the tasks that were handed out, or any.
std::pair<std::string, std::string> Sim::AnyStep() {
  if (!failed_.empty() && random_.Chance(30)) return random_.Of(failed_);
  if (hands_.empty() || random_.Chance(30)) {
    return {AnyId(), "s" + std::to_string(random_.Below(5))};
  }
  const Task& task = random_.Of(hands_);
  return {task.instance, task.node.substr(0, task.node.find('/'))};
}

bool Sim::Finished(const std::string& id) const { return finished_.contains(id); }

void Sim::Command(Asked& engine) {
  const size_t dice = random_.Below(200);
  if (dice < 32) {
    StartOne(engine);
  } else if (dice < 36) {
    RetryStart(engine);
  } else if (dice < 88) {
    PollOne(engine);
  } else if (dice < 150) {
    UseTask(engine);
  } else if (dice < 166) {
    Operate(engine);
  } else if (dice < 184) {
    Control(engine);
  } else if (dice < 192) {
    Streams(engine);
  } else if (dice < 196) {
    (void)engine.Settle("ns", AnyId());
  } else if (dice < 199) {
    Redefine(engine);
  }
}

void Sim::StartOne(Asked& engine) {
  StartArgs args{.ns = "ns", .machine = AnyMachine(), .id = AnyId()};
  // What retention has dropped would begin a second life under the same name.
  if (On(Fault::kRetention) && Finished(args.id)) args.id = "i" + std::to_string(random_.Next());
  args.spec.params = random_.Chance(45)   ? R"({"list":[1,2],"flag":true,"who":"w1"})"
                     : random_.Chance(90) ? R"({"list":[],"flag":false,"who":"w2"})"
                                          : R"({"list":[1,2,3,4,5,6,7,8,9,10,11,12],"flag":true})";
  args.priority = random_.Priority();
  if (random_.Chance(50)) args.spec.labels["kind"] = random_.Chance(50) ? "a" : "b";
  if (random_.Chance(15)) args.start_at = world_.now() + Duration(1'000 * random_.Below(5'000));
  if (random_.Chance(8)) args.hold = true;
  if (random_.Chance(8)) {
    args.start_before =
        std::max(world_.now(), args.start_at) + Duration(random_.Below(9'000'000));
  }
  if (random_.Chance(10)) args.after = {{AnyId(), random_.Chance(50)}};
  Join(&args);
  AskForLimits(&args);
  auto started = engine.Start(args);
  if (!started) {
    if (started.error().reason == Reason::kInstanceExists) Hit(Fault::kConflictingStart);
    return;
  }
  engine.AfterCommit([this, args, created = started->created] { Know(args, created); });
}

// A start has been acknowledged.
void Sim::Know(const StartArgs& args, bool created) {
  if (created) created_[args.id] = args;
  const auto known = started_.find(args.id);
  Expect(known == started_.end() || (known->second.machine == args.machine &&
                                     known->second.spec.params == args.spec.params),
         args.id + " was started as another");
  started_[args.id] = args;
}

// The client that did not hear the answer, or does not trust it.
void Sim::RetryStart(Asked& engine) {
  if (started_.empty() || !On(Fault::kRetriedStart)) return;
  auto which = started_.begin();
  std::advance(which, random_.Below(started_.size()));
  const StartArgs& args = which->second;
  if (On(Fault::kRetention) && Finished(args.id)) return;
  auto again = engine.Start(args);
  Hit(Fault::kRetriedStart);
  engine.AfterCommit([this, id = args.id, same = again && !again->created] {
    Expect(same, "a retried start was not recognised: " + id);
  });
}

void Sim::Receive(std::vector<Task> tasks) {
  for (Task& task : tasks) {
    Expect(!task.dry_run, "a worker was given work of a dry run: " + task.instance);
    if (task.deadline == kNever) {
      Expect(++told_[{task.instance, task.visit}] <= 1 + frees_[task.instance],
             "an at-most-once visit was handed out twice: " + task.instance + " visit " +
                 std::to_string(task.visit));
    }
    Expect(claims_.insert(task.claim).second, "a claim was told twice: " + task.claim);
    Note("task " + task.instance + " " + task.node + " visit " + std::to_string(task.visit) +
         " claim " + task.claim);
    hands_.push_back(std::move(task));
  }
  while (hands_.size() > 60) hands_.erase(hands_.begin() + static_cast<long>(random_.Below(30)));
}

std::string Sim::AnyWorker() { return random_.Of<std::string>({"w", "w1", "w2"}); }

std::vector<std::string> Sim::AnyCapabilities() {
  return random_.Of<std::vector<std::string>>({{}, {"c1"}, {"c1", "c2"}, {"c1", "c2"}});
}

void Sim::PollOne(Asked& engine) {
  PollArgs args{.filter = {.ns = "ns"}, .worker = AnyWorker()};
  args.filter.capabilities = AnyCapabilities();
  if (random_.Chance(30)) args.filter.machine = AnyMachine();
  if (!plans_ && random_.Chance(20)) args.filter.node = "n" + std::to_string(random_.Below(3));
  if (more_ && of_more_.Chance(30)) args.filter.queue = AnyQueue(of_more_);
  if (plans_ && random_.Chance(20)) args.filter.action = "x" + std::to_string(random_.Below(6));
  args.max_tasks = 1 + static_cast<int32_t>(random_.Below(6));
  if (random_.Chance(40)) args.until = world_.now() + 2s;
  const bool lost = Draw(Fault::kUndelivered, 15);
  auto poll = engine.Poll(args, [this, lost](std::vector<Task> tasks) {
    if (lost) {
      if (!tasks.empty()) Hit(Fault::kUndelivered);
      undelivered_.insert(undelivered_.end(), tasks.begin(), tasks.end());
    } else {
      Receive(std::move(tasks));
    }
  });
  REQUIRE(poll);
  if (*poll != 0) polls_.push_back(*poll);
  if (!polls_.empty() && random_.Chance(20)) (void)engine.CancelPoll(random_.Of(polls_));
  if (!undelivered_.empty() && random_.Chance(50)) {
    engine.Undelivered(undelivered_, /*perhaps=*/random_.Chance(30));
    undelivered_.clear();
  }
}

void Sim::UseTask(Asked& engine) {
  if (hands_.empty()) return;
  const size_t which = random_.Below(hands_.size());
  const Task task = hands_[On(Fault::kReordered) ? which : 0];
  if (On(Fault::kReordered) && which > 0) Hit(Fault::kReordered);
  if (Draw(Fault::kDeadWorker, 10)) {
    Hit(Fault::kDeadWorker);
    std::erase_if(hands_, [&](const Task& one) { return one.claim == task.claim; });
    return;
  }
  if (task.deadline < world_.now()) {
    if (!On(Fault::kStalledWorker)) return;
    Hit(Fault::kStalledWorker);
  }
  // Without repetition a task is reported once.
  const bool repeats = Draw(Fault::kRepeated, 50);
  const size_t dice = random_.Below(100);
  if (dice < 70) {
    ReportTask(engine, task, WordFor(task));
  } else if (dice < 82) {
    const std::optional<Duration> by =
        random_.Chance(50) ? std::optional<Duration>(Duration(random_.Below(45'000'000)))
                           : std::nullopt;
    (void)engine.Extend("ns", task.instance, task.claim, by,
                        static_cast<double>(random_.Below(5)) / 4);
    return;
  } else if (dice < 90) {
    auto outcome = engine.Relinquish("ns", task.instance, task.claim, "");
    // One that has stopped refuses it, and knows for its resume.
    if (!outcome && outcome.error().reason == Reason::kStaleClaim) ++frees_[task.instance];
    if (!outcome) return;
    ++frees_[task.instance];
    engine.AfterCommit([this, claim = task.claim] { relinquished_.insert(claim); });
  } else {
    Lie(engine, task);
    return;
  }
  if (!repeats) std::erase_if(hands_, [&](const Task& one) { return one.claim == task.claim; });
}

// Claims that are not what they say.
void Sim::Lie(Asked& engine, const Task& task) {
  if (Draw(Fault::kWrongInstance, 50)) {
    const std::string other = AnyId();
    auto answer = engine.Report("ns", other, {.transition = "ok", .claim = task.claim});
    Expect(!answer || other == task.instance,
           "a claim of " + task.instance + " was accepted for " + other);
    Hit(Fault::kWrongInstance);
    return;
  }
  if (!On(Fault::kStaleClaim)) return;
  // The claim of the next visit, or of another serial, is nobody's yet.
  const size_t dash = task.claim.find('-');
  const size_t second = task.claim.find('-', dash + 1);
  const uint64_t serial = std::strtoull(task.claim.c_str() + second + 1, nullptr, 16);
  const std::string tail = task.claim.substr(task.claim.rfind('-'));
  char forged[80];
  std::snprintf(forged, sizeof forged, "%lx-%lx-%lx%s", task.visit + random_.Below(2),
                world_.engine().epoch(), serial + 1'000'000, tail.c_str());
  auto answer = engine.Report("ns", task.instance, {.transition = "ok", .claim = forged});
  Expect(!answer, "a forged claim was accepted: " + std::string(forged));
  Hit(Fault::kStaleClaim);
}

std::string Sim::WordFor(const Task& task) {
  if (Draw(Fault::kWrongTransition, 5)) {
    return random_.Of<std::string>({"none", "dfsmr.timeout", "dfsmr.exhausted", "retry", "skip"});
  }
  if (task.phase == "plan") return random_.Chance(80) ? "planned" : "error";
  if (busy_ && of_times_.Chance(90)) return "back";
  if (task.phase.empty()) {
    return random_.Of<std::string>({"ok", "ok", "ok", "ok", "back", "fail", "error", "error"});
  }
  const size_t dice = random_.Below(100);
  const size_t errors = On(Fault::kSkip) ? 25 : 10;
  return dice < errors ? "error" : dice < errors + 20 ? "suspend" : "ok";
}

// The model reads in a plan's feed what a report said besides its kind.
void Sim::FailAs(ReportArgs* args) {
  args->error = "broke";
  args->error_kind = random_.Of<std::string>({"", "oom", "exit"});
  args->fatal = random_.Chance(10);
  if (args->fatal) args->error += " for good";
  if (!random_.Chance(15)) return;
  args->retry_after = Duration(random_.Below(3'000'000));
  args->error += ", again in " + std::to_string(args->retry_after->count());
}

ReportArgs Sim::ArgsFor(const Task& task, const std::string& transition,
                        std::vector<rows::ChildStart>* children) {
  ReportArgs args{.transition = transition, .claim = task.claim};
  if (transition == "planned") {
    args.output = R"({"flow":")" + RandomSteps(random_) + R"("})";
  } else if (task.phase.empty()) {
    args.output = random_.Chance(20) ? "{}" : "";
    if (random_.Chance(50)) args.params = "{\"n\":" + std::to_string(random_.Below(4)) + "}";
    if (transition == "error") FailAs(&args);
  } else if (transition == "ok" && random_.Chance(90)) {
    args.output = random_.Chance(80) ? std::string(kOutput) : R"({"v":[2],"list":3})";
  } else if (transition == "error") {
    FailAs(&args);
  } else if (transition == "suspend") {
    if (random_.Chance(60)) args.wake_after = Duration(random_.Below(4'000'000));
    if (Draw(Fault::kChildren, 50)) {
      children->resize(1 + random_.Below(3));
      for (rows::ChildStart& child : *children) {
        child.machine = random_.Of<std::string>({"leaf", "twig", "m"});
        if (random_.Chance(5)) child.id = "i0";  // it may exist already
        if (random_.Chance(50)) child.spec.labels["kind"] = random_.Chance(50) ? "a" : "b";
      }
      args.children = children->size();
      args.concurrency = static_cast<uint32_t>(random_.Below(3));
    }
  }
  return args;
}

// What a report starts: of machines that may be unknown, with ids that may be taken, by others of
// the list too.
std::vector<StartArgs> Sim::StartsFor() {
  std::vector<StartArgs> starts;
  if (!Draw(Fault::kStarts, 25)) return starts;
  starts.resize(1 + random_.Below(3));
  for (StartArgs& start : starts) {
    start.ns = "ns";
    start.machine = random_.Chance(95) ? AnyMachine() : "nowhere";
    if (random_.Chance(60)) start.id = AnyId();
    if (!start.id.empty() && random_.Chance(20)) start.id = starts.front().id;
    if (On(Fault::kRetention) && Finished(start.id)) start.id.clear();
    start.spec.params =
        random_.Chance(80) ? R"({"list":[1,2],"flag":true})" : R"({"list":[],"flag":false})";
    const std::string& first = starts.front().id;
    if (!first.empty() && start.id != first && random_.Chance(20)) start.after = {{first, true}};
  }
  return starts;
}

void Sim::ReportTask(Asked& engine, const Task& task, const std::string& transition) {
  std::vector<rows::ChildStart> children;
  const ReportArgs args = ArgsFor(task, transition, &children);
  std::vector<StartArgs> starts = StartsFor();
  const auto before = accepted_.find(task.claim);
  // The model does not follow what is started at a resume, by a report that came before it.
  if (before == accepted_.end() && engine.IsOver(task)) starts.clear();
  auto answer = engine.Report("ns", task.instance, args, children, starts);
  const bool repeats = before != accepted_.end() && before->second.transition == transition;
  if (!answer) {
    if (answer.error().reason == Reason::kIllegalTransition) Hit(Fault::kWrongTransition);
    if (answer.error().reason == Reason::kStaleClaim) Hit(Fault::kStaleClaim);
    const bool may = !repeats || args.children > 0 || args.wake_after ||
                     (On(Fault::kRetention) && answer.error().code == Code::kNotFound);
    if (may) return;
    engine.AfterCommit([this, task, transition, error = answer.error()] {
      Expect(false, "a repeated report was refused: " + task.instance + " " + transition + ": " +
                        error.message);
    });
    return;
  }
  Note("report " + task.instance + " visit " + std::to_string(task.visit) + " " + transition +
       (answer->repeated ? ", again" : "") + " claim " + task.claim);
  if (answer->repeated) Hit(Fault::kRepeated);
  if (args.children > 0) Hit(Fault::kChildren);
  if (transition == "planned") Hit(Fault::kPlanner);
  Expect(!relinquished_.contains(task.claim) || answer->repeated,
         "a relinquished claim was accepted: " + task.claim);
  if (!starts.empty() && !answer->repeated) Hit(Fault::kStarts);
  engine.AfterCommit([this, task, transition, starts, answer = *answer] {
    CheckAnswer(task, transition, answer);
    for (size_t i = 0; i < starts.size() && !answer.repeated && answer.started; ++i) {
      StartArgs one = starts[i];
      one.id = (*answer.started)[i].id;
      Know(one, (*answer.started)[i].created);
    }
  });
}

// Told once; the second time it must be the same.
void Sim::CheckAnswer(const Task& task, const std::string& transition, Answer answer) {
  const bool repeated = std::exchange(answer.repeated, false);
  const auto before = accepted_.find(task.claim);
  if (before == accepted_.end()) {
    accepted_[task.claim] = {task.instance, transition, answer};
    return;
  }
  Expect(repeated && before->second.transition == transition,
         "a claim was accepted twice: " + task.claim);
  Expect(answer == before->second.answer,
         "a repeated report got another answer: " + task.claim);
}

// Calls without a claim.
void Sim::Operate(Asked& engine) {
  if (!On(Fault::kOperator)) return;
  if (plans_ && random_.Chance(70)) return OperatePlan(engine);
  const std::string id = AnyId();
  if (Draw(Fault::kForce, 30)) {
    if (engine.Relinquish("ns", id, "", "operator")) {
      ++frees_[id];
      Hit(Fault::kForce);
    }
    return;
  }
  ReportArgs args{.transition = random_.Of<std::string>({"ok", "back", "none"})};
  if (Draw(Fault::kWrongNode, 30)) args.node = "n" + std::to_string(random_.Below(6));
  auto moved = engine.Report("ns", id, args);
  if (moved) Hit(Fault::kOperator);
  if (!moved && !args.node.empty()) Hit(Fault::kWrongNode);
}

void Sim::OperatePlan(Asked& engine) {
  const auto [id, step] = AnyStep();
  const std::string word = random_.Of<std::string>(
      {"go", "go", "poke", "cancel", "ok", "error", "suspend", "retry", "skip", "patch", "none"});
  std::string node =
      Draw(Fault::kWrongNode, 20) ? "" : random_.Chance(20) ? step + "/error" : step;
  if (word == "patch" && more_ && of_more_.Chance(50)) node = step + "/finalize/error";
  auto moved = engine.Report("ns", id, {.transition = word,
                                        .params = word == "patch" ? R"({"v":7})" : "",
                                        .node = node, .client = "op"});
  if (moved) Hit(Fault::kOperator);
  if (moved) ++frees_[id];  // what waits for an event runs again in the same visit
  if (!moved && node.empty()) Hit(Fault::kWrongNode);
}

void Sim::Control(Asked& engine) {
  const auto [id, step] = AnyStep();
  // Of a plain machine the history does not tell whether it is still paused then.
  const std::string node = random_.Chance(40) && step.starts_with('s') ? step : "";
  switch (random_.Below(12)) {
    case 0: case 1:
      if (On(Fault::kPause) && engine.Pause("ns", id)) Hit(Fault::kPause);
      break;
    case 2: case 3: case 4: case 5:
      if (On(Fault::kResume) && engine.Resume("ns", id, node, false)) {
        Hit(Fault::kResume);
        if (!node.empty()) ++frees_[id];  // it may be named though it runs at most once
      }
      break;
    case 6:
      if (On(Fault::kForce) && engine.Resume("ns", id, node, true)) {
        Hit(Fault::kForce);
        ++frees_[id];
      }
      break;
    case 7: case 8:
      if (On(Fault::kSkip) && engine.Skip("ns", id, step)) Hit(Fault::kSkip);
      break;
    default: Cancel(engine, id);
  }
}

// What has stopped with its children goes on with them, also when the server crashes between.
void Sim::ResumeStopped(Asked& engine) {
  if (!resumes_ || !plans_ || !On(Fault::kResume) || !of_resumes_.Chance(20)) return;
  std::vector<std::string> stopped;
  for (const std::string& id : finished_) {
    if (started_.contains(id)) stopped.push_back(id);
  }
  const bool cancels = of_resumes_.Chance(50) || stopped.empty();
  if (cancels && On(Fault::kCancel) && !started_.empty()) {
    auto which = started_.begin();
    std::advance(which, of_resumes_.Below(started_.size()));
    if (engine.Cancel("ns", which->first, CancelMode::kForce)) Hit(Fault::kCancel);
    ++frees_[which->first];
  } else if (!stopped.empty()) {
    const std::string& id = of_resumes_.Of(stopped);
    if (!engine.Resume("ns", id, "", false)) return;
    Hit(Fault::kResume);
    ++frees_[id];
    crash_soon_ = On(Fault::kCrash) && of_resumes_.Chance(50);
  }
}

void Sim::Cancel(Asked& engine, const std::string& id) {
  if (Draw(Fault::kCancel, 35) && engine.Cancel("ns", id, CancelMode::kCancel)) {
    Hit(Fault::kCancel);
    ++frees_[id];  // what was suspended hears of it
  } else if (Draw(Fault::kKill, 10)) {
    const CancelMode mode = random_.Chance(50) ? CancelMode::kKill : CancelMode::kForce;
    if (engine.Cancel("ns", id, mode)) Hit(Fault::kKill);
  }
}

void Sim::Streams(Asked& engine) {
  if (!On(Fault::kStreamClosed)) return;
  if (streams_.size() < 3 && random_.Chance(50)) {
    const auto capacity = 1 + static_cast<int32_t>(random_.Below(4));
    Filter filter{.ns = "ns"};
    filter.capabilities = AnyCapabilities();
    if (more_ && of_more_.Chance(30)) filter.queue = AnyQueue(of_more_);
    auto stream = engine.OpenSession(filter, AnyWorker(), capacity, [this](SessionUpdate update) {
      Receive(std::move(update.tasks));
    });
    REQUIRE(stream);
    streams_.push_back(*stream);
  } else if (!streams_.empty()) {
    const size_t which = random_.Below(streams_.size());
    if (random_.Chance(30)) {
      engine.DrainSession(streams_[which]);
    } else {
      Hit(Fault::kStreamClosed);
      engine.CloseSession(streams_[which]);
      streams_.erase(streams_.begin() + static_cast<long>(which));
    }
  }
}

void Sim::Redefine(Asked& engine) {
  const auto [fault, strategy] = random_.Of<std::pair<Fault, std::string>>(
      {{Fault::kContinue, "continue"}, {Fault::kUpgrade, "upgrade"}, {Fault::kAbort, "abort"}});
  if (!On(fault)) return;
  const std::string id = AnyMachine();
  std::string text =
      id.starts_with('p')
          ? RandomPlan(random_, id, strategy, plan_keys_, !On(Fault::kPlanner))
          : MachineText(id, strategy);
  if (limits_) NumbersChange("");
  if (text.ends_with("---\n")) text.resize(text.size() - 4);
  singletons_ = singletons_ || text.find("singleton") != std::string::npos ||
                text.find("limit") != std::string::npos;
  if (trace_) std::printf("%s", text.c_str());
  auto defined = engine.Define(ParseMachines(text));
  Expect(defined.has_value(), "a definition was refused: " +
                                  (defined ? "" : defined.error().message) + "\n" + text);
  Hit(fault);
}

// Watchers ---------------------------------------------------------------------------------------

void Sim::Watch() {
  if (!On(Fault::kWatcher)) return;
  const uint64_t head = ledger_.empty() ? 0 : ledger_.rbegin()->first;
  if (watchers_.size() < 3 && random_.Chance(20)) {
    Watcher watcher;
    if (random_.Chance(30)) watcher.filter.machine = AnyMachine();
    if (random_.Chance(30)) watcher.filter.instance = AnyId();
    if (random_.Chance(30)) {
      watcher.filter.kinds = {ChangeKind::kTransitioned, ChangeKind::kFinished};
    }
    watcher.filter.dry_run = dry_ && of_dry_.Chance(50);
    watcher.cursor = CursorText(changes_->CursorAt(random_.Chance(50) ? head : 0));
    watchers_.push_back(std::move(watcher));
  }
  if (watchers_.empty() || !random_.Chance(20)) return;
  Watcher& watcher = watchers_[random_.Below(watchers_.size())];
  auto cursor = ParseCursor(watcher.cursor);
  REQUIRE(cursor);
  Hit(Fault::kWatcher);
  auto portion = changes_->Read(cursor->seq, changes_->head(), watcher.filter);
  if (portion && random_.Chance(70)) return CheckPortion(watcher, *portion, cursor->seq);
  auto stored = changes_->ReadStore(cursor->seq, UINT64_MAX, watcher.filter);
  if (stored) return CheckPortion(watcher, **stored, cursor->seq);
  const auto first = rows::FirstSeq({store_, world_.partition()});
  REQUIRE(first);
  Expect(stored.error().reason == Reason::kCursorExpired && cursor->seq + 1 < *first,
         "a watcher was refused: " + stored.error().message);
  watcher.cursor = CursorText(changes_->CursorAt(*first - 1));
}

// Exactly the records that match, in order, up to where it says it has come.
void Sim::CheckPortion(Watcher& watcher, const Changes::Portion& portion, uint64_t after) {
  const uint64_t head = ledger_.empty() ? 0 : ledger_.rbegin()->first;
  Expect(portion.up_to <= head && portion.up_to >= std::min(after, head),
         "a watcher was led to " + std::to_string(portion.up_to) + " of " + std::to_string(head));
  Expect(!portion.at_head || portion.up_to == head, "a watcher at the head has not seen it all");
  std::string expected, told;
  for (auto it = ledger_.upper_bound(after); it != ledger_.end() && it->first <= portion.up_to;
       ++it) {
    const ChangeFilter& filter = watcher.filter;
    const Event& event = it->second;
    if ((filter.dry_run || !IsDryRun(event)) &&
        (filter.machine.empty() || filter.machine == event.machine) &&
        (filter.instance.empty() || filter.instance == event.instance) &&
        (filter.kinds.empty() || filter.kinds.contains(event.kind))) {
      expected += std::to_string(it->first) + " ";
    }
  }
  for (const auto& change : portion.changes) told += *change + " ";
  Expect(expected == told, "a watcher was told " + told + "instead of " + expected);
  watcher.cursor = CursorText(changes_->CursorAt(portion.up_to));
}

}  // namespace dfsmr
