// Scenes of machines, claims, upgrades, and of what is kept.
#include <algorithm>
#include <map>

#include "dsrv/engine/agents.h"
#include "dsrv/engine/upgrades.h"
#include "dsrv/wire/lists.h"
#include "storage/workspace.h"
#include "tests/sim/definitions.h"
#include "tests/sim/scenes.h"

namespace dfsmr {
namespace {

// Reports and starts -----------------------------------------------------------------------------

constexpr std::string_view kTwo =
    "id: m\nnodes:\n  a: {start: true, transitions: {ok: b}}\n  b: {transitions: {ok: z}}\n"
    "  z: {final: true}\n";

size_t Instances(Stage& stage) {
  return static_cast<size_t>(std::ranges::count(stage.Feed(), ChangeKind::kStarted, &Event::kind));
}

// A repeated report starts nothing, and is told what was started then.
void RepeatedReport(uint64_t seed) {
  Stage stage(seed);
  stage.Define(kTwo);
  stage.Start("m");
  const std::vector<StartArgs> starts(stage.Some(3), {.ns = "ns", .machine = "m"});
  const Task task = stage.TaskOf("a");
  const auto first = stage.Say(task, {.transition = "ok"}, {}, starts);
  REQUIRE(first);
  stage.Perhaps();
  if (stage.random.Chance(50)) stage.End("b", "i");
  const size_t known = Instances(stage);
  const auto again = stage.Say(task, {.transition = "ok"}, {}, starts);
  REQUIRE(again);
  REQUIRE(again->repeated);
  REQUIRE(again->started == first->started);
  REQUIRE(Instances(stage) == known);
}

// A claim that a crash lost takes nobody's place in line for a limit when it is given back.
void LostClaimOfALimit(uint64_t seed) {
  Stage stage(seed);
  stage.Define(
      "id: m\nnodes: {n: {start: true, limit: {key: k, max: 1}, transitions: {ok: z}}, z: {final: "
      "true}}\n");
  stage.Start("m", "a");
  const Task lost = stage.ReadyOne();
  stage.Crash();  // before the claim was written
  REQUIRE(stage.TryStart({.machine = "m", .id = "b", .priority = 1}));
  const Task other = stage.ReadyOne();
  REQUIRE(other.instance == "b");
  const GiveBackArgs args{.refused = stage.random.Chance(50)};
  REQUIRE(stage.Do([&](Engine& e) { return e.Relinquish("ns", "a", lost.claim, args); }));
  REQUIRE(stage.Report(other, "ok"));
  REQUIRE(stage.ReadyOne().instance == "a");
}

// A begin is answered before it is written only where a crash that loses it loses its claim, too.
void EarlyBegin(uint64_t seed) {
  Stage stage(seed);
  const bool once = stage.random.Chance(33);
  stage.Define("id: m\nnodes: {a: {start: true, timeout_strategy: fixed, timeout: " +
               std::string(once ? "0.0" : "1000.0") +
               ", transitions: {ok: z}}, z: {final: true}}\n");
  AttachArgs attach{.ns = "ns", .name = "h", .row = {}, .filter = {.ns = "ns"}, .terms = {}};
  attach.row.session = "s1";
  attach.row.slots = 4;
  attach.terms = {5s, "s1", 10s, "h"};
  std::vector<Task> tasks;
  stage.Start("m");
  const SessionId stream = stage.Do([&](Engine& e) {
    auto attached = e.agents().Attach(attach, [&tasks](SessionUpdate update) {
      std::ranges::move(update.tasks, std::back_inserter(tasks));
    });
    REQUIRE(attached);
    return attached->stream;
  });
  REQUIRE(tasks.size() == 1);
  const bool keeps = stage.random.Chance(50);
  Extended begun;
  stage.Decide([&](Engine& e) {
    begun = e.Extend("ns", "i", tasks[0].claim, std::nullopt,
                     {.begin = true, .checkpoint = keeps ? R"({"n":1})" : "", .session = stream});
  });
  REQUIRE(!begun.error);
  REQUIRE(begun.early == (!once && !keeps));
  if (!begun.early) stage.Commit();
  stage.Crash();
  if (once || !keeps) return;
  stage.Elapse(30s);  // its worker does not come back
  REQUIRE(stage.ReadyOne().checkpoint == R"({"n":1})");
}

// The action of a node that names none is MACHINE.NODE.
void DefaultAction(uint64_t seed) {
  Stage stage(seed);
  stage.Define(kTwo);
  stage.Start("m");
  stage.Perhaps();
  for (const char* node : {"a", "b"}) {
    const std::string action = std::string("m.") + node;
    const auto tasks = stage.Ready({.action = action});
    REQUIRE(tasks.size() == 1);
    REQUIRE(tasks[0].action == action);
    REQUIRE(stage.Report(tasks[0], "ok"));
  }
}

// Timeouts ---------------------------------------------------------------------------------------

Duration TimeFor(const Stage& stage, const Task& task) { return task.deadline - stage.now(); }

// Twenty samples are enough for the percentile, and nineteen are not.
void TwentySamples(uint64_t seed) {
  Stage stage(seed);
  stage.Define(
      "id: m\nnodes: {a: {start: true, timeout: 50.0, timeout_initial: 1000s, transitions: {ok: "
      "z}}, z: {final: true}}\n");
  const Duration takes = 100ms * stage.Some(50);
  for (int i = 0; i < 20; ++i) {
    stage.Start("m", "i" + std::to_string(i));
    const Task task = stage.ReadyOne();
    REQUIRE(TimeFor(stage, task) > 900s);
    stage.Elapse(takes);
    REQUIRE(stage.Report(task, "ok"));
  }
  stage.Start("m", "last");
  REQUIRE(TimeFor(stage, stage.ReadyOne()) < takes * 2 + 200ms);
}

// A node has the bounds that its machine's defaults name, and a step those of the action that its
// action extends.
void InheritedBounds(uint64_t seed) {
  Stage stage(seed);
  const auto least = static_cast<int64_t>(20 + stage.random.Below(20));
  const std::string bound = "timeout_min: " + std::to_string(least) + "s";
  stage.Define("id: m\ndefaults: {" + bound +
               "}\nnodes: {a: {start: true, transitions: {ok: z}}, z: {final: true}}\n---\n"
               "action: base\n" + bound + "\n---\naction: x\nextends: base\n---\n"
               "plan: p\nflow: [{step: a, action: x}]\n");
  const std::string machine = stage.random.Of<std::string>({"m", "p"});
  for (int i = 0; i < 25; ++i) {
    stage.Start(machine, "i" + std::to_string(i));
    const Task task = stage.ReadyOne();
    REQUIRE(TimeFor(stage, task) >= std::chrono::seconds(least) - 1s);
    REQUIRE(stage.Report(task, "ok"));
  }
}

// An attempt that timed out and is reported late, after another has won, is one sample: how long it
// has really taken.
void LateSamples(uint64_t seed) {
  Stage stage(seed);
  stage.Define(
      "id: m\nnodes: {a: {start: true, timeout: 40.0, timeout_initial: 2s, timeout_min: 2s, "
      "transitions: {ok: z}}, z: {final: true}}\n");
  const size_t pairs = 24 + stage.random.Below(8);
  for (size_t i = 0; i < pairs; ++i) {
    const std::string number = std::to_string(i);
    stage.Start("m", "short" + number);
    const Task fast = stage.ReadyOne();
    stage.Elapse(1s);
    REQUIRE(stage.Report(fast, "ok"));
    stage.Start("m", "long" + number);
    const Task late = stage.ReadyOne();
    stage.Elapse(3s);  // it times out
    const Task second = stage.ReadyOne();
    REQUIRE(stage.Report(second, "ok"));
    stage.Elapse(7s);
    const auto refused = stage.Report(late, "ok");
    REQUIRE(!refused);
    REQUIRE(refused.error().reason == Reason::kStaleClaim);
    stage.Elapse(10s);
  }
  const NodeStats stats = stage.Node("m", "a");
  REQUIRE(stats.p95);
  REQUIRE(*stats.p95 > 9s);
  REQUIRE(*stats.p50 < 12s);
  REQUIRE(*stats.timeout_now <= 3s);  // two in five have taken a second
}

// Upgrades ---------------------------------------------------------------------------------------

std::string Version(std::string_view start) {
  return "id: m\nupgrade_strategy: upgrade\nnodes:\n  " + std::string(start) +
         ": {start: true, transitions: {ok: end}}\n  end: {final: true}\n";
}

void StartMany(Stage& stage, size_t count) {
  stage.Decide([&](Engine& e) {
    for (size_t i = 0; i < count; ++i) {
      REQUIRE(e.Start({.ns = "ns", .machine = "m", .id = "i" + std::to_string(i)}));
    }
  });
  stage.Commit();
}

// All instances come to the new version without anyone's doing, whatever portions they are moved in
// and whenever the engine crashes.
void SweptUpgrade(uint64_t seed) {
  Stage stage(seed);
  stage.Define(Version("a"));
  const size_t count = Upgrades::kMovesAtOnce * stage.Some(2) + stage.random.Below(50);
  StartMany(stage, count);
  stage.Define(Version("b"));
  for (size_t n = stage.random.Below(3); n > 0; --n) {
    stage.Drain(stage.random.Below(3));
    stage.Perhaps();
  }
  stage.Drain();
  REQUIRE(stage.Machine("m", 1).stats.running == 0);
  REQUIRE(stage.Machine("m", 2).stats.running == count);
  REQUIRE(stage.Ready().size() == count);
}

// Also those that are not written yet when the new version comes.
void UpgradeInTheirTurn(uint64_t seed) {
  Stage stage(seed);
  stage.Define(Version("a"));
  const size_t before = stage.random.Below(3), beside = stage.Some(3);
  stage.Decide([&](Engine& e) {
    for (size_t i = 0; i < before; ++i) {
      REQUIRE(e.Start({.ns = "ns", .machine = "m", .id = "before" + std::to_string(i)}));
    }
  });
  stage.Decide([&](Engine& e) {
    for (size_t i = 0; i < beside; ++i) {
      REQUIRE(e.Start({.ns = "ns", .machine = "m", .id = "beside" + std::to_string(i)}));
    }
    REQUIRE(TryDefine(e, ParseMachines(Version("b"))));
  });
  stage.Commit();
  stage.Drain();
  REQUIRE(stage.Machine("m", 1).stats.running == 0);
  REQUIRE(stage.Ready({.node = "b"}).size() == before + beside);
}

// What is kept -----------------------------------------------------------------------------------

// A feed of which nothing is left goes on with the next number.
void TrimmedFeed(uint64_t seed) {
  Stage stage(seed, {.retention = 10s});
  stage.Define(kTwo);
  for (size_t n = stage.Some(3); n > 0; --n) {
    stage.Start("m", "i" + std::to_string(n));
    stage.RunAll();
  }
  for (int i = 0; i < 10; ++i) stage.Elapse(5s);
  const uint64_t last = stage.engine().last_seq();
  REQUIRE(stage.Feed().empty());
  stage.Crash();
  REQUIRE(stage.engine().last_seq() == last);
  stage.Start("m", "next");
  REQUIRE(stage.Feed().front().seq == last + 1);
}

std::vector<std::string> IdsIn(Stage& stage, const InstanceQuery& query) {
  auto page = ReadInstances(Moment(stage.engine().reader()), query);
  REQUIRE(page);
  std::vector<std::string> ids;
  for (const InstanceView& view : page->instances) ids.push_back(view.instance.id);
  return ids;
}

// Names may be 128 characters long, and lists find them.
void LongNames(uint64_t seed) {
  Stage stage(seed);
  const size_t length = 126 + stage.random.Below(3);
  const std::string machine(length, 'x');
  const std::string node(length, 'n');
  stage.Define("id: " + machine + "\nnodes:\n  " + node +
               ": {start: true, transitions: {ok: z}}\n  z: {final: true}\n");
  stage.Define(kTwo);
  stage.Start(machine, "long");
  stage.Start("m", "short");
  stage.Perhaps();
  const std::vector<std::string> both = {"long"};
  REQUIRE(IdsIn(stage, {.ns = "ns", .machine = machine, .limit = 10}) == both);
  REQUIRE(IdsIn(stage, {.ns = "ns", .node = node, .limit = 10}) == both);
  REQUIRE(IdsIn(stage, {.ns = "ns", .machine = machine, .node = node, .limit = 10}) == both);
}

std::map<std::string, std::string> AllRows(const View& view) {
  std::map<std::string, std::string> rows;
  REQUIRE(view.Scan("", "", [&rows](std::string_view key, std::string_view value) {
    rows.emplace(key, value);
    return true;
  }));
  return rows;
}

// A snapshot shows the rows as they were, whatever is written meanwhile.
void Snapshots(uint64_t seed) {
  Stage stage(seed);
  stage.Define(kTwo);
  StartMany(stage, stage.Some(5));
  const auto snapshot = stage.store().Snapshot();
  const auto before = AllRows(*snapshot);
  stage.Perhaps();
  stage.RunAll();
  REQUIRE(AllRows(*snapshot) == before);
  REQUIRE(AllRows(stage.store()) != before);
}

// What is not written yet shows as if it were, over any number of turns.
void UnwrittenRows(uint64_t seed) {
  Random random(seed);
  MemoryStore store;
  const auto epoch = store.Acquire(0);
  REQUIRE(epoch);
  Workspace rows(store);
  std::map<std::string, std::string> wanted;
  std::vector<std::shared_ptr<const Batch>> sealed;
  size_t written = 0;
  const auto key = [&random] { return "k" + std::to_string(10 + random.Below(20)); };
  for (uint64_t turn = 1; turn <= 20; ++turn) {
    for (size_t n = random.Below(6); n > 0; --n) {
      const std::string one = key();
      const size_t dice = random.Below(10);
      if (dice < 6) {
        rows.batch().Put(one, wanted[one] = std::to_string(random.Next()));
      } else if (dice < 8) {
        rows.batch().Delete(one);
        wanted.erase(one);
      } else {
        const std::string end = std::max(one, key());
        rows.batch().DeleteRange(one, end);
        wanted.erase(wanted.lower_bound(one), wanted.lower_bound(end));
      }
    }
    REQUIRE(AllRows(rows) == wanted);
    const std::string some = key();
    const auto value = rows.Get(some);
    REQUIRE(value);
    REQUIRE(value->has_value() == wanted.contains(some));
    sealed.push_back(rows.Seal(turn));
    while (written < sealed.size() && random.Chance(50)) {
      REQUIRE(store.Write(0, *epoch, *sealed[written++]));
      if (random.Chance(70)) rows.Committed(written);
    }
  }
}

}  // namespace

std::vector<NamedScene> MachineScenes() {
  return {{"a repeated report", RepeatedReport},
          {"a lost claim of a limit", LostClaimOfALimit},
          {"an early begin", EarlyBegin},
          {"the action of a node", DefaultAction},
          {"twenty samples", TwentySamples},
          {"inherited bounds", InheritedBounds},
          {"late samples", LateSamples},
          {"a swept upgrade", SweptUpgrade},
          {"an upgrade in their turn", UpgradeInTheirTurn},
          {"a trimmed feed", TrimmedFeed},
          {"long names", LongNames},
          {"snapshots", Snapshots},
          {"unwritten rows", UnwrittenRows}};
}

}  // namespace dfsmr
