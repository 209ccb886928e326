#include "tests/sim/spaces.h"

#include <algorithm>
#include <cstdio>

#include "dsrv/engine/deletions.h"
#include "storage/rows/instance.h"
#include "storage/rows/space.h"

namespace dfsmr {
namespace {

using rows::SpaceState;

constexpr std::string_view kMachine = R"(
id: job
nodes:
  work: {start: true, transitions: {ok: done}}
  done: {final: true}
)";
constexpr std::string_view kSchedule = "schedule: s\nevery: 5s\nstart: {machine: job}\n";

}  // namespace

EngineOptions SpaceSim::Options(Random& random) {
  EngineOptions options;
  if (random.Chance(30)) options.quotas.retention = 20s;
  return options;
}

SpaceSim::SpaceSim(uint64_t seed, bool trace)
    : random_(seed * 11 + 5),
      trace_(trace),
      options_(Options(random_)),
      store_(memory_),
      world_(options_, &store_) {}

void SpaceSim::Expect(bool good, const std::string& what) {
  if (good || !problem_.empty()) return;
  problem_ = "namespaces: " + what;
  Note("WRONG: " + what);
}

void SpaceSim::Note(const std::string& what) {
  if (trace_) std::printf("%ld %s\n", Micros(world_.now()) / 1000, what.c_str());
}

std::string SpaceSim::Run() {
  for (size_t step = 20 + random_.Below(50); step > 0 && problem_.empty(); --step) Step();
  if (problem_.empty()) Finish();
  return problem_;
}

void SpaceSim::Step() {
  world_.Decide([this](Engine& engine) {
    const SpaceState state = engine.namespaces().StateOf("ns");
    if (decided_.deleting && state == SpaceState::kNone) {
      Note("gone");
      decided_ = {};
      known_ = false;
      hands_.clear();
    }
    for (size_t n = random_.Below(6); n > 0; --n) Command(engine);
  });
  Commit();
  Audit();
  world_.Advance(Duration(random_.Below(random_.Chance(70) ? 300'000 : 4'000'000)));
}

// The turn is written, or lost with its server.
void SpaceSim::Commit() {
  const size_t dice = random_.Below(100);
  if (dice < 6) {
    Note("crash");
    world_.Crash();
    decided_ = durable_;
    known_ = known_durable_;
  } else {
    if (dice < 9) store_.FailNextWrite(FaultyStore::Outcome::kTorn);
    world_.Commit();
    const bool failed = !world_.failed().empty();
    store_.Heal();
    if (!failed) {
      durable_ = decided_;
      known_durable_ = known_;
      return;
    }
    Note("the write was torn");
    world_.Crash();
    decided_ = durable_;
    known_ = known_durable_;
  }
  decided_.saved_at = {};  // a restart gives all of a rate back
  durable_ = decided_;
  hands_.clear();
}

// Commands --------------------------------------------------------------------------------------

void SpaceSim::Command(Engine& engine) {
  if (!known_ && !decided_.deleting) return Define(engine);
  const size_t dice = random_.Below(100);
  if (dice < 50) return StartOne(engine);
  if (dice < 65) return Poll(engine);
  if (dice < 82) return Report(engine);
  if (dice < 90) return SetQuota(engine);
  if (dice < 97) return Freeze(engine);
  Delete(engine);
}

void SpaceSim::Define(Engine& engine) {
  Parsed parsed = ParseDefinitions(
      std::string(kMachine) + (random_.Chance(50) ? "---\n" + std::string(kSchedule) : ""), "sim");
  std::vector<DefineProblem> problems;
  Sources sources{std::move(parsed.definitions), std::move(parsed.documents)};
  auto defined = DefineAtOnce(engine, "ns", std::move(sources), false, &problems);
  Expect(defined.has_value(), "a definition was refused");
  if (!defined) return;
  Expect(defined->front().version == 1, "a new namespace has versions of an old one");
  known_ = true;
  decided_.there = true;
  const auto view = engine.namespaces().Get("ns");
  Expect(view && view->usage.live == 0 && view->usage.stopped == 0,
         "a new namespace counts instances of an old one");
}

Reason SpaceSim::Expected(Engine& engine, Space& space) {
  if (space.deleting) return Reason::kNamespaceDeleting;
  if (space.frozen) return Reason::kNamespaceFrozen;
  const auto view = engine.namespaces().Get("ns");
  if (space.live_quota > 0 && view->usage.live >= space.live_quota) return Reason::kQuotaExceeded;
  if (space.ready_quota > 0 && view->usage.ready >= space.ready_quota) {
    return Reason::kQuotaExceeded;
  }
  if (space.rate <= 0) return Reason::kNone;
  const double burst = std::max(1.0, 10 * space.rate);
  const Timestamp now = engine.now();
  if (space.saved_at == Timestamp()) {
    space.saved = burst;
  } else {
    const double passed = static_cast<double>((now - space.saved_at).count()) / 1e6;
    space.saved = std::min(burst, space.saved + std::max(0.0, passed) * space.rate);
  }
  space.saved_at = std::max(now, space.saved_at);
  if (1 - space.saved > 1e-9) return Reason::kQuotaExceeded;
  space.saved -= 1;
  return Reason::kNone;
}

void SpaceSim::StartOne(Engine& engine) {
  const Reason expected = Expected(engine, decided_);
  StartArgs args{.ns = "ns", .machine = "job", .id = "i" + std::to_string(next_++)};
  auto started = engine.Start(std::move(args));
  const Reason reason = started ? Reason::kNone : started.error().reason;
  Expect(reason == expected, "a start answers " + std::string(Name(reason)) + " instead of " +
                                 std::string(Name(expected)));
}

void SpaceSim::Poll(Engine& engine) {
  PollArgs args{.filter = {.ns = "ns"}, .worker = "w"};
  args.max_tasks = static_cast<int32_t>(1 + random_.Below(3));
  const bool rests = decided_.frozen || decided_.deleting;
  (void)engine.Poll(std::move(args), [this, rests](std::vector<Task> tasks) {
    Expect(!rests || tasks.empty(), "a namespace that rests hands out a task");
    std::ranges::move(tasks, std::back_inserter(hands_));
  });
}

void SpaceSim::Report(Engine& engine) {
  if (hands_.empty()) return;
  const Task task = hands_.back();
  hands_.pop_back();
  auto answer = engine.Report("ns", task.instance, {.transition = "ok", .claim = task.claim});
  const bool late = decided_.deleting;  // it may have been cancelled by force
  Expect(answer.has_value() || late,
         "a report was refused: " + (answer ? "" : answer.error().message));
}

void SpaceSim::SetQuota(Engine& engine) {
  if (decided_.deleting) return;
  SpaceChange change;
  Space next = decided_;
  const size_t dice = random_.Below(3);
  const uint64_t number = random_.Below(8);
  if (dice == 0) {
    change.quotas.live_instances = next.live_quota = number;
    change.live_instances = true;
  } else if (dice == 1) {
    change.quotas.ready_tasks = next.ready_quota = number;
    change.ready_tasks = true;
  } else {
    change.quotas.starts_per_second = next.rate = 0.25 * static_cast<double>(number);
    change.starts_per_second = true;
    next.saved_at = {};
  }
  const auto set = engine.namespaces().Update("ns", change, "sim");
  Expect(set.has_value(), "a quota was refused");
  decided_ = next;
}

void SpaceSim::Freeze(Engine& engine) {
  const bool frozen = !decided_.frozen;
  const auto done = engine.Freeze("ns", frozen, "sim");
  Expect(done.has_value() != decided_.deleting, "a freeze is answered wrongly");
  if (!done) return;
  Note(frozen ? "freeze" : "thaw");
  decided_.frozen = frozen;
}

void SpaceSim::Delete(Engine& engine) {
  const auto begun = engine.Delete("ns", Duration(random_.Below(3'000'000)), "sim");
  Expect(begun.has_value(), "a deletion was refused");
  if (decided_.deleting) return;
  Note("delete");
  decided_.deleting = true;
  decided_.frozen = false;
}

// What must be true -----------------------------------------------------------------------------

uint64_t SpaceSim::Launched() {
  uint64_t launched = 0;
  const rows::Reader reader{memory_, world_.partition()};
  const auto registry = world_.engine().reader().registry.resolve();
  for (bool stopped : {false, true}) {
    (void)rows::ScanInstances(reader, stopped, {"ns", ""}, registry, [&](const Instance& one) {
      if (one.id.starts_with("s-")) ++launched;
      return true;
    });
  }
  return launched;
}

void SpaceSim::Audit() {
  if (!problem_.empty()) return;
  const SpaceState state = world_.engine().namespaces().StateOf("ns");
  if (durable_.deleting) {
    Expect(state == SpaceState::kDraining || state == SpaceState::kDropping ||
               state == SpaceState::kNone,
           "a deletion that was answered is not under way");
  } else if (durable_.there) {
    Expect(state == (durable_.frozen ? SpaceState::kFrozen : SpaceState::kActive),
           "the state is another one than was set");
  }
  if (state == SpaceState::kNone && durable_.deleting) return CheckRows(durable_);
  if (!durable_.there || durable_.deleting) return;
  const uint64_t launched = Launched();
  if (durable_.frozen && decided_.launched > 0) {
    Expect(launched < decided_.launched, "a schedule starts in a frozen namespace");
  }
  // One more than there are; what retention drops makes it less.
  decided_.launched = durable_.launched = durable_.frozen ? launched + 1 : 0;
}

void SpaceSim::CheckRows(const Space&) {
  const auto left = rows::HasNamespaceRows({memory_, world_.partition()}, "ns");
  const uint64_t floor = world_.engine().reader().registry.FeedFloor("ns");
  if (world_.InFlight()) return;
  Expect(left && !*left, "rows of a deleted namespace are left");
  Expect(floor >= floor_ && floor > 0 && floor <= world_.engine().last_seq(),
         "the feed of a deleted namespace is shown");
  floor_ = floor;
}

// All ends, and nothing is kept longer than it may be.
void SpaceSim::Finish() {
  for (int looks = 0; looks < 300 && decided_.deleting; ++looks) {
    world_.Elapse(50ms);
    world_.Commit();
    if (world_.engine().namespaces().StateOf("ns") == SpaceState::kNone) {
      durable_ = decided_;
      CheckRows(decided_);
      return;
    }
  }
  Expect(!decided_.deleting, "a deletion never ends");
  if (!decided_.there || !options_.quotas.retention) return;
  world_.Elapse(30s);
  world_.Commit();
  const auto view = world_.Do([](Engine& engine) { return engine.namespaces().Get("ns"); });
  // Its schedule ends nothing, and nobody reports.
  Expect(view && view->usage.stopped == 0, "stopped instances are kept longer than the quota says");
}

}  // namespace dfsmr
